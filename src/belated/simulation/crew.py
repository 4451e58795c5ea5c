"""Running many independent tasks on threads or any executor, with progress, until done or Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import nullcontext
from itertools import islice
from pickle import PicklingError, dumps  # nothing is unpickled here
from typing import TypeVar, TypeVarTuple, Unpack

from belated.base.errors import BelatedError, OptionError
from belated.base.progress import Bar
from belated.base.text import shown
from belated.base.threads import Threads

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

#: The number of tasks submitted before the first is done; enough to keep any cluster busy.
_TASKS_AHEAD = 256

_NOT_SENT = "The policy cannot be sent to another process; define its function at the top level of a module."


def run(
    task: Callable[[Unpack[Arguments]], Result],
    arguments: Iterable[tuple[*Arguments]],
    total: int,
    workers: int,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> dict[tuple[*Arguments], Result]:
    """Call ``task(*a)`` for each of `total` arguments; return the results by argument, or those done by Ctrl-C."""
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise OptionError(f"`executor` is {shown(executor)}; it must be a concurrent.futures executor.")
    _check_sent(task, executor)
    results: dict[tuple[*Arguments], Result] = {}
    under_way: dict[Future[Result], tuple[*Arguments]] = {}
    done: list[Future[Result]] = []
    waiting = iter(arguments)
    with_bar = sys.stderr.isatty() if progress is None else progress
    bar = Bar(total) if with_bar else None
    try:
        with Threads(workers) if executor is None else nullcontext(executor) as crew:
            if bar:
                bar.show(0)
            while len(results) < total:
                for each in islice(waiting, _TASKS_AHEAD - len(under_way)):
                    under_way[crew.submit(task, *each)] = each
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    results[under_way[future]] = _result(future)
                    del under_way[future]
                if bar:
                    bar.show(len(results))
    except KeyboardInterrupt:  # later results do not count, so that the study is marked as stopped
        done = [future for future in under_way if future.done() and not future.cancelled()]
    finally:
        for future in under_way:
            future.cancel()
        if bar:
            bar.clear()
    for future in done:  # the interrupt may have reached the workers too
        if future.exception() is None:
            results[under_way[future]] = future.result()
    return results


def _check_sent(task: object, executor: Executor | None) -> None:
    """Raise if a task cannot be sent to processes, before any is: a pool whose first tasks fail so may never end."""
    if executor is None:
        return
    from concurrent.futures import ProcessPoolExecutor

    if isinstance(executor, ProcessPoolExecutor):
        try:
            dumps(task)
        except (PicklingError, AttributeError, TypeError) as error:
            raise OptionError(_NOT_SENT) from error


def _result(future: Future[Result]) -> Result:
    """Return the result of a task, or raise an error that says why an executor could not run it."""
    try:
        return future.result()
    except BrokenExecutor as error:
        raise BelatedError(f"The executor failed: {error}") from error
    except (PicklingError, AttributeError, TypeError) as error:
        if "pickle" not in str(error).lower():
            raise
        raise OptionError(_NOT_SENT) from error
