"""Ctrl-C before and after a command, and where Python cannot hear it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import belated as bl
from belated.base import interrupts
from belated.base.interrupts import finish, is_ours, leave, leave_at_once, listening

# ---------------------------------------------------------------- before and after a command


@pytest.fixture
def handler():
    """Begin with Python's own handler, and restore the one before."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handler")
def test_it_leaves_until_it_is_done():
    assert is_ours()
    leave_at_once()
    assert signal.getsignal(signal.SIGINT) is leave
    assert is_ours()
    finish()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("own", [signal.SIG_IGN, lambda number, frame: None])
def test_a_handler_of_somebody_else_stays(own):
    signal.signal(signal.SIGINT, own)
    assert not is_ours()
    leave_at_once()
    finish()
    assert signal.getsignal(signal.SIGINT) is own


def test_the_process_ends_at_once_with_130():
    code = (
        "import signal\n"
        "from belated.base.interrupts import leave_at_once\n"
        "leave_at_once()\n"
        "try:\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "finally:\n"
        "    print('still here')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# ---------------------------------------------------------------- where Python cannot hear it

SCRIPT = """
import hashlib, os, signal, threading
from belated.base import interrupts

interrupts.GRACE = {grace}
with interrupts.listening(lambda: print("words", flush=True), 130):
    threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT]).start()
    {work}
"""


def run(work, grace):
    source = Path(bl.__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(work=work, grace=grace)], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(source)},
    )  # fmt: skip


def test_an_interrupt_that_is_not_heard_ends_the_process():
    done = run("hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)", grace=0.05)
    assert (done.returncode, done.stdout, done.stderr) == (130, "words\n", "")


def test_an_interrupt_that_is_heard_is_left_to_those_who_heard_it():
    work = """
    try:
        threading.Event().wait(60)
    except KeyboardInterrupt:
        hashlib.pbkdf2_hmac('sha256', b'', b'', 3_000_000)
        print("heard", flush=True)"""
    done = run(work, grace=0.5)
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard\n", "")


def test_what_others_do_at_an_interrupt_stays():
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with listening(lambda: None, 130):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with listening(lambda: None, 130):
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupts.GRACE < 2


def test_an_interrupt_that_was_caught_leaves_the_exit_code(tmp_path):
    script = tmp_path / "command.py"
    script.write_text(
        "import sys\nfrom belated.base.interrupts import finish\n"
        "try:\n    exec('raise KeyboardInterrupt')\nexcept KeyboardInterrupt:\n    finish()\nsys.exit(130)\n"
    )
    assert subprocess.run([sys.executable, "-m", "command"], cwd=tmp_path, check=False).returncode == 130
