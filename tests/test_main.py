from __future__ import annotations

import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

SCRIPT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["scripts"]["belated"]


class Stop:
    """The user presses Ctrl-C while the command line is being loaded."""

    def find_spec(self, name, path=None, target=None):
        if name == "belated.cli.app":
            raise KeyboardInterrupt


def test_stopping_while_it_is_loaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "belated.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Stop(), *sys.meta_path])
    with pytest.raises(SystemExit) as left:
        EntryPoint("belated", SCRIPT, "console_scripts").load()()
    assert left.value.code == 130


def test_the_command_runs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["belated", "--version"])
    with pytest.raises(SystemExit):
        EntryPoint("belated", SCRIPT, "console_scripts").load()()
    assert capsys.readouterr().out.startswith("belated ")
