from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from belated.base.leaving import finish, is_ours, leave, leave_at_once


@pytest.fixture(autouse=True)
def handler():
    """Begin with Python's own handler, and restore the one before."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_it_leaves_until_it_is_done():
    assert is_ours()
    leave_at_once()
    assert signal.getsignal(signal.SIGINT) is leave
    assert is_ours()
    finish()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


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
        "from belated.base.leaving import leave_at_once\n"
        "leave_at_once()\n"
        "try:\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "finally:\n"
        "    print('still here')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
