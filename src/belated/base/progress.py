"""Progress: a line on a terminal, never in a pipe."""

from __future__ import annotations

import sys
import time

_WIDTH = 30


class Bar:
    """A line on stderr: how much is done, and when the rest will be."""

    def __init__(self, total: int, before: str = "") -> None:
        self.total, self.before, self.since, self.last = total, before, time.monotonic(), 0.0

    def show(self, done: int) -> None:
        """Say how much is done; at most ten times a second."""
        now = time.monotonic()
        if now - self.last < 0.1 and done < self.total:
            return
        self.last = now
        filled = _WIDTH * done // self.total
        left = (
            f", {_duration((now - self.since) / done * (self.total - done))} left"
            if done
            else " (the first time, compiling takes some seconds)"
        )
        line = f"{self.before}[{'#' * filled}{'.' * (_WIDTH - filled)}] {done / self.total:4.0%}{left}"
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        """Leave no trace."""
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
