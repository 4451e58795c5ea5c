"""Ctrl-C ends the process also where Python cannot hear it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from belated.base.files import WRITING
from belated.base.leaving import is_ours

#: Seconds after which an interrupt that Python has not heard, as in a compiled loop, ends the process.
GRACE = 1.0


@contextmanager
def listening(last_words: Callable[[], object], code: int) -> Iterator[None]:
    """End the process if Ctrl-C is not heard within `GRACE`, but not while a file is being written.

    Whoever ignores Ctrl-C, or has a handler of their own, as servers do, is left alone.
    """
    if os.name != "posix" or not is_ours():
        yield
        return
    heard = threading.Event()

    def hear(number: int, frame: FrameType | None) -> None:
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
