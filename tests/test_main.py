from __future__ import annotations

import sys
import time
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

SCRIPT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["scripts"]["belated"]


@pytest.fixture(autouse=True)
def hook(monkeypatch):
    """Restore the hook that the command sets."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)


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


class Callback:
    """Ctrl-C is pressed while a callback runs, in which Python does not raise."""

    def __del__(self):
        raise KeyboardInterrupt


def test_stopping_where_nothing_can_be_raised(monkeypatch, capsys):
    def command(**options):
        Callback()
        for _ in range(1_000):
            time.sleep(0.01)

    monkeypatch.setattr("belated.cli.app.build", lambda arguments: command)
    with pytest.raises(SystemExit) as left:
        EntryPoint("belated", SCRIPT, "console_scripts").load()()
    assert left.value.code == 130
    assert capsys.readouterr() == ("", "Stopped. No incomplete file was written.\n")
