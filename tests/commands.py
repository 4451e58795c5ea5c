"""The command line, run in the process of a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.testing import CliRunner

from belated.cli.app import build


def invoke(arguments: Sequence[object], **options: Any) -> Any:
    """Run a command as `belated` does, and return Typer's result: its exit code and what it printed."""
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(build(words), words, **options)
