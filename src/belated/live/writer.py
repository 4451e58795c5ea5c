"""`Writer`: group commit. Whatever queued while the last commit was on its way to the disk is committed together."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple, TypeAlias

from belated.live.asking import UnitAsked, ask
from belated.live.errors import CrossedError, LiveError, OverloadedError, StorageError
from belated.live.records import Tell
from belated.live.storage import Session, Storage
from belated.live.telling import tell

#: About the largest number of rows in one transaction.
_MOST_ROWS = 20_000

#: How long callers of the last commit are given to come back, in seconds and times: less than a flush of the disk.
_MOMENT, _MOMENTS = 0.0001, 10

#: Commits that `Load.recent` has.
_RECENT_COMMITS = 200

CallKind = Literal["ask", "tell"]

#: What is stored: a unit that is asked for, or an outcome that is told.
Item: TypeAlias = UnitAsked | Tell

#: Items of one kind that are stored together, and their results. The queue holds both kinds: `Store.submit` knows what
#: each has.
_Items: TypeAlias = list[Any]
_Future: TypeAlias = asyncio.Future[Any]

#: What the callers of a turn of an event loop share: the loop, what they do, the experiment, and whether each has one
#: item.
_Turn = tuple[asyncio.AbstractEventLoop, CallKind, str, bool]


class Commit(NamedTuple):
    """A commit of the writer: how many requests and rows it stored, and how many seconds it took."""

    requests: int
    rows: int
    seconds: float


class Load(NamedTuple):
    """How many requests wait for a store, and what it stored.

    Attributes
    ----------
    waiting : int
        Requests that wait for their reply now.
    limit : int or None
        How many requests may wait.
    commits, requests, rows : int
        What was stored since the store was opened.
    seconds : float
        The total time of these commits.
    refused, failed : int
        Requests that were refused because too many were waiting, and requests that the storage failed to store.
    recent : tuple of Commit
        The last commits, oldest first.
    """

    waiting: int
    limit: int | None
    commits: int
    requests: int
    rows: int
    seconds: float
    refused: int
    failed: int
    recent: tuple[Commit, ...]


class _Request:
    """What one caller or, of an event loop, all callers of a turn wait for.

    A thread waits for a lock that is free when its request is done. The callers of a loop have a future each; `sizes`
    has the number of items of each, and is empty if each has one, whose result is the future's own.
    """

    __slots__ = ("callers", "done", "error", "items", "kind", "loop", "name", "result", "sizes")

    def __init__(
        self,
        kind: CallKind,
        name: str,
        items: _Items,
        done: threading.Lock | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.kind, self.name, self.items, self.done, self.loop = kind, name, items, done, loop
        self.callers: list[_Future] = []
        self.sizes: list[int] = []
        self.result: _Items = []
        self.error: BaseException | None = None

    def __len__(self) -> int:
        return len(self.callers) or 1


class Writer:
    """Commits asks and tells of all threads and event loops together; a caller's reply comes after the commit.

    A thread of its own writes. A caller that gives up waiting leaves nothing open: that thread ends every transaction,
    and stores what was submitted all the same. A thread that calls while nobody else does commits itself, because
    waking another one, and being woken, can take as long as a commit. The main thread does not: a signal may raise in
    it anywhere.

    Parameters
    ----------
    storage : Storage
    committed : callable
        Called with an experiment's name and a number of rows after each commit.
    limit : int, optional
        How many requests may wait; more are refused at once.
    """

    def __init__(self, storage: Storage, committed: Callable[[str, int], None], limit: int | None = None) -> None:
        self._storage, self._committed, self._limit = storage, committed, limit
        self._turns: dict[_Turn, _Request] = {}  # what event loops submit in their current turn
        self._queue: deque[_Request] = deque()
        self._calls: SimpleQueue[bool] = SimpleQueue()  # wakes the writer; False ends it
        self._process, self._open, self._ended = os.getpid(), True, False
        self._lock = threading.Lock()  # held by the thread that commits
        self._group: list[_Request] = []  # those of the commit that is on its way
        self._last = 1  # how many callers the last commit had
        self._refused = self._failed = self._commits = self._requests = self._rows = 0
        self._seconds = 0.0
        self._recent: deque[Commit] = deque(maxlen=_RECENT_COMMITS)
        self._thread = threading.Thread(target=self._work, name="belated-writer", daemon=True)
        self._thread.start()

    def submit(self, kind: CallKind, name: str, items: Sequence[Item]) -> _Items:
        """Have items stored, and return their results once they are on the disk."""
        if not items:
            return []
        done = threading.Lock()
        done.acquire()
        request = _Request(kind, name, list(items), done)
        if not self._commit_alone(request):
            self._admit()
            self._put(request)
        done.acquire()
        if request.error is not None:
            raise request.error
        return request.result

    def submit_async(self, kind: CallKind, name: str, items: Sequence[Item]) -> _Future:
        """Have items stored; return a future of the running event loop: their results once they are on the disk.

        If it is cancelled, the items are stored all the same. What a turn of the loop submits is one request: many
        would cost more, and the writer, woken by the first, would take the interpreter from the others.
        """
        if not items:
            future: _Future = asyncio.get_running_loop().create_future()
            future.set_result([])
            return future
        return self._join(kind, name, items, alone=False)

    def submit_one_async(self, kind: CallKind, name: str, item: Item) -> _Future:
        """Have one item stored, as `submit_async` does; the future's result is the item's own."""
        return self._join(kind, name, (item,), alone=True)

    def _join(self, kind: CallKind, name: str, items: Sequence[Item], *, alone: bool) -> _Future:
        """Add a caller to the request of this turn of the running event loop."""
        loop = asyncio.get_running_loop()
        turn = (loop, kind, name, alone)
        request = self._turns.get(turn)
        if request is None or self._limit is not None:
            self._admit()
        if request is None:
            request = self._turns[turn] = _Request(kind, name, [], None, loop)
            loop.call_soon(self._end_turn, turn)
        future: _Future = loop.create_future()
        request.items += items
        request.callers.append(future)
        if not alone:
            request.sizes.append(len(items))
        if len(request.items) >= _MOST_ROWS:
            self._end_turn(turn)
        return future

    @property
    def waiting(self) -> int:
        """The number of callers that wait for their reply."""
        return sum(map(len, [*self._turns.copy().values(), *self._queue.copy(), *self._group]))

    def load(self) -> Load:
        """Return how many requests wait, and what the writer has stored."""
        return Load(
            waiting=self.waiting, limit=self._limit, commits=self._commits, requests=self._requests, rows=self._rows,
            seconds=self._seconds, refused=self._refused, failed=self._failed, recent=tuple(self._recent.copy()),
        )  # fmt: skip

    def close(self) -> None:
        """Commit what is queued, and stop."""
        if self._open:
            self._open = False
            for turn in [each for each in self._turns.copy() if each[0] is _running_loop()]:
                self._end_turn(turn)  # other loops end their turns themselves, and are refused
            self._calls.put(False)
            self._thread.join()
            with self._lock:  # of a caller that commits itself
                pass

    def _admit(self) -> None:
        """Raise unless one more caller can wait."""
        if not self._open or os.getpid() != self._process:
            why = "is closed" if os.getpid() == self._process else "was opened by another process"
            raise StorageError(f"The store {why}; open it again.")
        if self._limit is not None and self.waiting >= self._limit:
            self._refused += 1
            raise OverloadedError(f"{self._limit:,} requests are waiting for the storage; ask again later.")

    def _commit_alone(self, request: _Request) -> bool:
        """Commit a request in the caller's thread if nobody else is there; return whether it was done."""
        if self._last > 1 or self._queue or threading.get_ident() == threading.main_thread().ident:
            return False
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._admit()
            self._group = [request]
            self._commit(self._group)
        finally:
            self._lock.release()
        return True

    def _put(self, request: _Request) -> None:
        self._queue.append(request)
        self._calls.put(True)
        if self._ended:  # it was closed meanwhile, and nobody takes from the queue any more
            self._refuse_rest()

    def _end_turn(self, turn: _Turn) -> None:
        request = self._turns.pop(turn, None)
        if request is not None:
            self._put(request)

    def _refuse_rest(self) -> None:
        rest = []
        with suppress(IndexError):
            while True:
                rest.append(self._queue.popleft())
        _fail(rest, StorageError("The store is closed; open it again."))

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            goes_on = self._calls.get()
            while self._queue:
                with self._lock:
                    self._gather()
                    self._commit(self._group)
        self._ended = True
        self._refuse_rest()

    def _gather(self) -> None:
        """Take what is queued.

        The callers of the last commit are just waking up. Without a moment for them, every other commit would be of
        the first of them alone. A single caller waits for nobody.
        """
        callers, rows, patience = 0, 0, _MOMENTS
        while rows < _MOST_ROWS:
            if self._queue:
                request = self._queue[0]
                self._group.append(request)  # before it leaves the queue, so that `waiting` never misses it
                self._queue.popleft()
                callers += len(request)
                rows += len(request.items)
            elif callers >= self._last or not patience:
                break
            else:
                patience -= 1
                time.sleep(_MOMENT)
        self._last = callers

    def _transact(self, parts: dict[tuple[CallKind, str], list[_Request]]) -> None:
        """Store everything in one transaction; try again if the storage ended it because others crossed it."""
        for last in (False, False, True):
            try:
                with self._storage.writing({name for _, name in parts}) as session:
                    for kind, name in sorted(parts):  # asks before tells: every process takes its locks in one order
                        _serve(session, kind, name, parts[kind, name])
                return
            except CrossedError:
                if last:
                    raise

    def _commit(self, group: list[_Request]) -> None:
        parts: dict[tuple[CallKind, str], list[_Request]] = {}
        for request in group:
            parts.setdefault((request.kind, request.name), []).append(request)
        start = time.perf_counter()
        try:
            self._transact(parts)
        except BaseException as error:
            self._failed += sum(map(len, group))
            self._group = []
            _fail(group, error)
            return
        rows = {part: sum(len(request.items) for request in requests) for part, requests in parts.items()}
        self._note(Commit(sum(map(len, group)), sum(rows.values()), time.perf_counter() - start))
        _reply(group)
        for (_, name), new in rows.items():
            self._committed(name, new)

    def _note(self, commit: Commit) -> None:
        self._group = []
        self._commits += 1
        self._requests += commit.requests
        self._rows += commit.rows
        self._seconds += commit.seconds
        self._recent.append(commit)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _serve(session: Session, kind: CallKind, name: str, requests: list[_Request]) -> None:
    """Answer all requests for one experiment at once; what it refuses as a whole changes nothing."""
    items = requests[0].items if len(requests) == 1 else [item for request in requests for item in request.items]
    try:
        results: _Items = ask(session, name, items) if kind == "ask" else tell(session, name, items)
    except StorageError:
        raise
    except LiveError as error:
        for request in requests:
            request.error = error
        return
    start = 0
    for request in requests:
        end = start + len(request.items)
        request.error, request.result = None, results[start:end]
        start = end


def _fail(requests: list[_Request], error: BaseException) -> None:
    for request in requests:
        request.error = error
    _reply(requests)


def _reply(requests: list[_Request]) -> None:
    """Tell the callers that their requests are done: threads one by one, all those of an event loop by one call."""
    loops: dict[asyncio.AbstractEventLoop, list[_Request]] = {}
    for request in requests:
        if request.done is not None:
            request.done.release()
        elif request.loop is not None:
            loops.setdefault(request.loop, []).append(request)
    for loop, theirs in loops.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, theirs)


def _resolve(requests: list[_Request]) -> None:
    """Resolve the futures of an event loop, in its thread; cancelled ones stay so."""
    for request in requests:
        if request.error is not None:
            for future in request.callers:
                if not future.done():
                    future.set_exception(request.error)
            continue
        for future, result in zip(request.callers, _results(request), strict=True):
            if not future.done():
                future.set_result(result)


def _results(request: _Request) -> _Items:
    """Return the result of each caller."""
    if not request.sizes:
        return request.result
    ends = list(accumulate(request.sizes))
    return [request.result[end - size : end] for size, end in zip(request.sizes, ends, strict=True)]
