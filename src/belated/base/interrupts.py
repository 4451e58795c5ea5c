"""Ctrl-C: before and after a command, when there is nothing to keep, and where Python cannot hear it.

The command loads this file before all others, so what is needed later is imported later.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

#: Seconds after which an interrupt that Python has not heard, as in a compiled loop, ends the process.
GRACE = 1.0


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
    # If Ctrl-C came while `exec` or `eval` ran a text, as dataclasses do, `python -m belated` would end by a signal
    # instead of its exit code, although the exception was caught. Python forgets that when the next text is run.
    exec("")  # noqa: S102


def listening(last_words: Callable[[], object], code: int) -> AbstractContextManager[None]:
    """End the process if Ctrl-C is not heard within `GRACE`, but not while a file is being written.

    A process that ignores Ctrl-C, or has its own handler, as servers do, keeps it.
    """
    from contextlib import contextmanager

    return contextmanager(_listen)(last_words, code)


def _listen(last_words: Callable[[], object], code: int) -> Iterator[None]:
    import threading

    from belated.base.files import WRITING

    if os.name != "posix" or not is_ours():
        yield
        return
    heard = threading.Event()

    def hear(number: int, frame: object) -> None:
        heard.set()
        raise KeyboardInterrupt

    def watch() -> None:
        while signals := os.read(reader, 1):
            if signals[0] != signal.SIGINT or signal.getsignal(signal.SIGINT) is not hear:
                continue
            if not heard.wait(GRACE):
                with WRITING:
                    last_words()
                    os._exit(code)
            heard.clear()
        os.close(reader)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    handler = signal.signal(signal.SIGINT, hear)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.set_wakeup_fd(before)
        os.close(writer)  # ends the thread
