"""A crew for many independent tasks: threads or any executor, with progress, stopped by Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from typing import Any

_WIDTH = 30


def run(
    task: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    workers: int,
    executor: Executor | None = None,
    progress: bool | None = None,
    what: str = "",
) -> dict[tuple[Any, ...], Any]:
    """Call ``task(*a)`` for each of `arguments`; return the results by argument, those done if interrupted."""
    own = ThreadPoolExecutor(workers) if executor is None else None
    crew = own or executor
    assert crew is not None  # noqa: S101
    results: dict[tuple[Any, ...], Any] = {}
    shown = sys.stderr.isatty() if progress is None else progress
    bar = _Bar(len(arguments), what) if shown else None
    futures: dict[Future[Any], tuple[Any, ...]] = {}
    try:
        for each in arguments:
            futures[crew.submit(task, *each)] = each
        for future in as_completed(futures):
            results[futures[future]] = future.result()
            if bar:
                bar.show(len(results))
    except KeyboardInterrupt:
        for future in futures:
            future.cancel()
        results |= {each: f.result() for f, each in futures.items() if f.done() and not f.cancelled()}
    finally:
        if bar:
            bar.clear()
        for future in futures:
            future.cancel()
        if own:
            own.shutdown(cancel_futures=True)
    return results


class _Bar:
    """A line on stderr: how much is done, and when the rest will be."""

    def __init__(self, total: int, what: str) -> None:
        self.total, self.what, self.since, self.last = total, what, time.monotonic(), 0.0

    def show(self, done: int) -> None:
        now = time.monotonic()
        if now - self.last < 0.1 and done < self.total:
            return
        self.last = now
        filled = _WIDTH * done // self.total
        left = (now - self.since) / done * (self.total - done)
        line = f"{self.what}[{'#' * filled}{'.' * (_WIDTH - filled)}] {done / self.total:4.0%}, {_duration(left)} left"
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
