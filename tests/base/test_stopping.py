from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import belated as bl
from belated.base import stopping
from belated.base.stopping import listening

SCRIPT = """
import hashlib, os, signal, threading
from belated.base import stopping

stopping.GRACE = 0.05
with stopping.listening(lambda: print("words", flush=True), 130):
    threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT]).start()
    {work}
"""


def run(work):
    source = Path(bl.__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(work=work)], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(source)},
    )  # fmt: skip


def test_an_interrupt_that_is_not_heard_ends_the_process():
    done = run("hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)")
    assert (done.returncode, done.stdout, done.stderr) == (130, "words\n", "")


def test_an_interrupt_that_is_heard_is_left_to_those_who_heard_it():
    work = """
    try:
        threading.Event().wait(60)
    except KeyboardInterrupt:
        hashlib.pbkdf2_hmac('sha256', b'', b'', 500_000)
        print("heard", flush=True)"""
    done = run(work)
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
    assert stopping.GRACE < 2
