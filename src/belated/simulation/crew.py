"""A crew for many independent tasks: threads or any executor, with progress, stopped by Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from itertools import islice
from typing import Any

_WIDTH = 30

#: Tasks handed to an executor before the first is done: enough for any cluster to be busy.
_AHEAD = 256


def run(
    task: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    workers: int,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> dict[tuple[Any, ...], Any]:
    """Call ``task(*a)`` for each of `arguments`; return the results by argument, those done if interrupted."""
    results: dict[tuple[Any, ...], Any] = {}
    under_way: dict[Future[Any], tuple[Any, ...]] = {}
    waiting = iter(arguments)
    shown = sys.stderr.isatty() if progress is None else progress
    bar = _Bar(len(arguments)) if shown else None
    with ThreadPoolExecutor(workers) if executor is None else nullcontext(executor) as crew:
        try:
            if bar:
                bar.show(0)
            while len(results) < len(arguments):
                for each in islice(waiting, _AHEAD - len(under_way)):
                    under_way[crew.submit(task, *each)] = each
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    results[under_way.pop(future)] = future.result()
                if bar:
                    bar.show(len(results))
        except KeyboardInterrupt:
            pass
        finally:
            for future in under_way:
                future.cancel()
            if bar:
                bar.clear()
    ended = {each: future for future, each in under_way.items() if future.done() and not future.cancelled()}
    return results | {each: future.result() for each, future in ended.items()}


class _Bar:
    """A line on stderr: how much is done, and when the rest will be."""

    def __init__(self, total: int) -> None:
        self.total, self.since, self.last = total, time.monotonic(), 0.0

    def show(self, done: int) -> None:
        now = time.monotonic()
        if now - self.last < 0.1 and done < self.total:
            return
        self.last = now
        filled = _WIDTH * done // self.total
        left = f", {_duration((now - self.since) / done * (self.total - done))} left" if done else ""
        line = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {done / self.total:4.0%}{left}"
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
