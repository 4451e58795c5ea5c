"""Progress: lines on a terminal, never in a pipe."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_WIDTH = 30

#: Reading shows its progress after this many seconds.
PATIENCE = 2.0


class Bar:
    """A progress bar on stderr with the remaining time, shown after `patience` seconds."""

    def __init__(self, total: int, before: str = "", patience: float = 0.0) -> None:
        self.total, self.before, self.since, self.last = total, before, time.monotonic(), 0.0
        self.patience, self.is_shown = patience, False

    def show(self, done: int) -> None:
        """Show how much is done, at most ten times per second."""
        now = time.monotonic()
        if now - self.since < self.patience or (now - self.last < 0.1 and done < self.total):
            return
        self.last, self.is_shown = now, True
        filled = _WIDTH * done // self.total
        left = f", {_duration((now - self.since) / done * (self.total - done))} left" if done else ""
        line = f"{self.before}[{'#' * filled}{'.' * (_WIDTH - filled)}] {done / self.total:4.0%}{left}"
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the bar from the terminal."""
        if self.is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def watched(before: str, percent: Callable[[], float]) -> Iterator[None]:
    """Show a progress bar on a terminal during a long task; another thread polls the percentage done."""
    if not sys.stderr.isatty():
        yield
        return
    bar, is_over = Bar(100, before, PATIENCE), threading.Event()

    def watch() -> None:
        while not is_over.wait(0.2):
            bar.show(min(max(int(percent()), 0), 100))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        bar.clear()


def note(sentence: str) -> None:
    """Write a line on a terminal, replacing a progress bar if there is one."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{sentence}\n")
        sys.stderr.flush()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
