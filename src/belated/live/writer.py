"""`Writer`: group commit. One thread commits whatever queued while the last commit was on its way to the disk."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Literal

from belated.live.asking import ask
from belated.live.errors import CrossedError, LiveError, StorageError
from belated.live.storage import Session, Storage
from belated.live.telling import tell

#: Rows of one transaction, at most about so many.
_MOST = 20_000

#: How long callers of the last commit are given to come back, in seconds and times: less than a flush of the disk.
_MOMENT, _MOMENTS = 0.0001, 10

Kind = Literal["ask", "tell"]


class _Request:
    """What a caller waits for; the lock is free when it is done."""

    __slots__ = ("done", "error", "items", "kind", "name", "result")

    def __init__(self, kind: Kind, name: str, items: Sequence[Any]) -> None:
        self.kind, self.name, self.items = kind, name, items
        self.result: list[Any] = []
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()


class Writer:
    """Commits asks and tells of all threads together; a caller's reply comes after the commit.

    A caller that gives up waiting leaves nothing open: the thread that writes ends every transaction.

    Parameters
    ----------
    storage : Storage
    committed : callable
        Called with an experiment's name and a number of rows after each commit.
    """

    def __init__(self, storage: Storage, committed: Callable[[str, int], None]) -> None:
        self._storage, self._committed = storage, committed
        self._queue: SimpleQueue[_Request | None] = SimpleQueue()
        self._process, self._open = os.getpid(), True
        self._thread = threading.Thread(target=self._work, name="belated-writer", daemon=True)
        self._thread.start()

    def submit(self, kind: Kind, name: str, items: Sequence[Any]) -> list[Any]:
        """Have items stored, and return their results once they are on the disk."""
        if not self._open or os.getpid() != self._process:
            why = "is closed" if os.getpid() == self._process else "was opened by another process"
            raise StorageError(f"The store {why}; open it again.")
        request = _Request(kind, name, items)
        self._queue.put(request)
        request.done.acquire()
        if request.error is not None:
            raise request.error
        return request.result

    def close(self) -> None:
        """Commit what is queued, and stop."""
        if self._open:
            self._open = False
            self._queue.put(None)
            self._thread.join()

    def _work(self) -> None:
        ended, last = False, 1
        while not ended:
            first = self._queue.get()
            if first is None:
                return
            group = [first]
            ended = self._gather(group, last)
            last = len(group)
            self._commit(group)

    def _gather(self, group: list[_Request], last: int) -> bool:
        """Take what is queued; return whether the end is.

        The callers of the last commit are just waking up. Without a moment for them, every other commit would be of
        the first of them alone. A single caller waits for nobody.
        """
        rows, patience = len(group[0].items), _MOMENTS
        while rows < _MOST:
            try:
                request = self._queue.get_nowait()
            except Empty:
                if len(group) >= last or not patience:
                    break
                patience -= 1
                time.sleep(_MOMENT)
                continue
            if request is None:
                return True
            group.append(request)
            rows += len(request.items)
        return False

    def _transact(self, parts: dict[tuple[Kind, str], list[_Request]]) -> None:
        """Store everything in one transaction; try again if the storage ended it because others crossed it."""
        for last in (False, False, True):
            try:
                with self._storage.writing() as session:
                    for kind, name in sorted(parts):  # asks before tells: every process takes its locks in one order
                        _serve(session, kind, name, parts[kind, name])
                return
            except CrossedError:
                if last:
                    raise

    def _commit(self, group: list[_Request]) -> None:
        parts: dict[tuple[Kind, str], list[_Request]] = {}
        for request in group:
            parts.setdefault((request.kind, request.name), []).append(request)
        try:
            self._transact(parts)
        except BaseException as error:
            for request in group:
                request.error = error
                request.done.release()
            return
        for (_, name), requests in parts.items():
            for request in requests:
                request.done.release()
            self._committed(name, sum(len(request.items) for request in requests))


def _serve(session: Session, kind: Kind, name: str, requests: list[_Request]) -> None:
    """Answer all requests for one experiment at once; what it refuses as a whole changes nothing."""
    items = [item for request in requests for item in request.items]
    try:
        results: Sequence[Any] = ask(session, name, items) if kind == "ask" else tell(session, name, items)
    except StorageError:
        raise
    except LiveError as error:
        for request in requests:
            request.error = error
        return
    start = 0
    for request in requests:
        request.result = list(results[start : start + len(request.items)])
        start += len(request.items)
