"""Answers in the format that was asked for, and figures as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, get_args

import typer

from belated.base.checks import one_of
from belated.base.files import check_place
from belated.base.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Format = Literal["table", "markdown", "csv", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)


class Formats(Protocol):
    """What has an answer in each format."""

    def to_text(self) -> str:
        """Return text for a terminal."""

    def to_markdown(self) -> str:
        """Return Markdown."""

    def to_csv(self) -> str:
        """Return CSV."""

    def to_json(self) -> str:
        """Return JSON."""


def check_format(name: str) -> Format:
    """Return a format, or say which there are."""
    return one_of("format", name, FORMATS)


def show(result: Formats, form: Format, *others: Table) -> None:
    """Write a result to stdout; the tables that belong to it follow, where people read them."""
    if form == "csv":
        words = result.to_csv()
    elif form == "json":
        words = result.to_json()
    elif form == "markdown":
        words = "\n\n".join(each.to_markdown() for each in (result, *others))
    else:
        words = "\n\n".join(_whole(each) for each in (result, *others))
    typer.echo(words.rstrip("\n"))


def _whole(result: Formats) -> str:
    return result.to_text(every=True) if isinstance(result, Table) else result.to_text()


def check_plot(path: Path | None) -> None:
    """Say, before anything is computed, if a figure that was asked for cannot be drawn or written."""
    if path is not None:
        from belated.base.figures import check_library

        check_place(path)
        check_library()


def write_plot(path: Path | None, draw: Callable[[], Figure], title: str) -> None:
    """Draw a figure and write it, if it was asked for."""
    if path is not None:
        from belated.base.figures import save

        save(draw(), path, title)
