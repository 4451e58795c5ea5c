from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import belated as bl

SCRIPT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["scripts"]["belated"]


@pytest.fixture(autouse=True)
def hook(monkeypatch):
    """Restore the hook and the handler of Ctrl-C that the command sets."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


#: The user presses Ctrl-C while a module is being loaded, or when Python ends.
PRESSED = """
import atexit, os, signal, sys

class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Pressed())
atexit.register(lambda: {at_end!r} and os.kill(os.getpid(), signal.SIGINT))
sys.argv = ["belated", "--version"]
from belated.__main__ import main
main()
"""


def ended(*, module="", at_end=False, ignored=False):
    """Return the exit code, output and errors of a process in which Ctrl-C is pressed."""
    start = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" if ignored else ""
    done = subprocess.run(
        [sys.executable, "-c", start + PRESSED.format(module=module, at_end=at_end)], capture_output=True, text=True,
        timeout=60, env={**os.environ, "PYTHONPATH": str(Path(bl.__file__).parents[1])},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("module", ["belated.cli.app", "typer", "belated.base.files"])
def test_stopping_while_it_is_loaded(module):
    assert ended(module=module) == (130, "", "")


def test_stopping_when_it_is_done_changes_nothing():
    assert ended(at_end=True) == (0, f"belated {bl.__version__}\n", "")


def test_who_ignores_ctrl_c_goes_on():
    assert ended(module="belated.cli.app", ignored=True) == (0, f"belated {bl.__version__}\n", "")


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
