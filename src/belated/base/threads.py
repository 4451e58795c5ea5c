"""`Threads`: threads that nobody waits for after Ctrl-C."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

_NAME = "belated-crew"


class Threads(ThreadPoolExecutor):
    """Threads in a `with` block, whose tasks nobody waits for after Ctrl-C; those not begun are not run."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers, _NAME)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.shutdown(wait=not stopped, cancel_futures=stopped)


def leave(code: int) -> None:
    """End the process at once if `Threads` are still at work: Python would wait for them."""
    if any(thread.name.startswith(_NAME) for thread in threading.enumerate()):
        os._exit(code)
