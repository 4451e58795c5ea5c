"""Ctrl-C before and after a command, when there is nothing to say and nothing to keep."""

from __future__ import annotations

import os
import signal


def leave(number: int, frame: object) -> None:
    """End the process at once, as a handler of Ctrl-C: no exception can be lost, and none reaches Python's own end."""
    os._exit(130)


def is_ours() -> bool:
    """Whether Ctrl-C is left to Python or to `leave`; whoever ignores it, or has a handler of their own, keeps that."""
    return signal.getsignal(signal.SIGINT) in (signal.default_int_handler, leave)


def leave_at_once() -> None:
    """End the process at Ctrl-C, from now on."""
    if is_ours():
        signal.signal(signal.SIGINT, leave)


def finish() -> None:
    """Let Ctrl-C change nothing any more: the command is done, and Python only has to end."""
    if is_ours():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
