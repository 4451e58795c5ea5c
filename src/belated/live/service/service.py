"""`Service`: the state that the routes of an application share."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Generic, TypeVar, TypeVarTuple

from belated.base.errors import BelatedError
from belated.base.text import one_line
from belated.live.answers import LiveAnswer
from belated.live.errors import UnknownExperimentError
from belated.live.experiment import Experiment
from belated.live.service import journal
from belated.live.service.access import Keyring, Rates
from belated.live.service.metrics import Metrics
from belated.live.service.problems import Problem
from belated.live.service.settings import Settings
from belated.live.store import Store
from belated.live.tokens import Token

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")

#: Threads that read and change the storage, and those that compute answers.
_THREADS, _ANSWERING = 8, 2

#: Seconds for which a thread may keep Python to itself while another wants it. The thread that writes wants it several
#: times in a commit, and would wait for Python's usual 5 ms each time while requests are read.
_SWITCH_SECONDS = 0.0001

#: Seconds until the service prepares again what it could not.
_AGAIN_SECONDS = 1.0

#: Seconds for which the storage is believed to be writable after it was seen to be.
_WRITABLE = 5.0


class Once(Generic[_Result]):
    """Runs a function in one thread at a time; callers that arrive while it runs share the next run."""

    def __init__(self, act: Callable[[], _Result]) -> None:
        self._act = act
        self._running: asyncio.Task[_Result] | None = None
        self._next: asyncio.Task[_Result] | None = None

    async def run(self, executor: ThreadPoolExecutor) -> _Result:
        """Return a result of a run that begins now or later."""
        if self._running is None or self._running.done():
            self._running, self._next = asyncio.ensure_future(self._run(executor, None)), None
            return await asyncio.shield(self._running)
        if self._next is None or self._next.done():
            self._next = asyncio.ensure_future(self._run(executor, self._running))
        return await asyncio.shield(self._next)

    async def _run(self, executor: ThreadPoolExecutor, before: asyncio.Task[_Result] | None) -> _Result:
        if before is not None:
            await asyncio.wait([before])
            self._running, self._next = self._next, None
        return await asyncio.get_running_loop().run_in_executor(executor, self._act)


class Service:
    """The state that the routes of an application share: the store, its experiments and tokens, limits and metrics.

    Parameters
    ----------
    store : Store
    settings : Settings
    alone : bool
        Whether the process and the store are its own: it tunes Python, and `close` closes the store, too.
    """

    def __init__(self, store: Store, settings: Settings, *, alone: bool = False) -> None:
        self.store, self.settings, self._alone = store, settings, alone
        self._threads = ThreadPoolExecutor(_THREADS, "belated-service")
        self._answering = ThreadPoolExecutor(_ANSWERING, "belated-answers")
        self.keyring, self.rates = Keyring(store.storage, self._threads), Rates(settings.rate)
        self.metrics = Metrics(settings.labels)
        self.waiting = self.held = 0
        self._experiments: dict[str, Experiment] = {}
        self._answers: dict[str, Once[LiveAnswer]] = {}
        self._written_answers: dict[str, tuple[LiveAnswer, bytes, str]] = {}
        self._warm, self._written = False, -1e9
        self._unready = "The service is compiling; it will be ready in some seconds."

    async def thread(self, act: Callable[[*_Arguments], _Result], *arguments: *_Arguments) -> _Result:
        """Run a function that waits for the storage in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, act, *arguments)

    async def compute(self, act: Callable[[*_Arguments], _Result], *arguments: *_Arguments) -> _Result:
        """Run a long computation in a thread of its own pool, apart from functions that wait for the storage."""
        return await asyncio.get_running_loop().run_in_executor(self._answering, act, *arguments)

    # ---------------------------------------------------------------- experiments

    async def experiment(self, name: str) -> Experiment:
        """Return an experiment; it is looked for once."""
        exp = self._experiments.get(name)
        if exp is None:
            try:
                if "\x00" in name:  # no storage has an experiment of such a name
                    raise UnknownExperimentError(name)
                exp = self._experiments[name] = await self.thread(self.store.experiment, name)
            except UnknownExperimentError:  # the storage would list the others, which not everybody may read
                raise UnknownExperimentError(f"There is no experiment {one_line(repr(name))} in the store.") from None
        return exp

    async def answer(self, name: str) -> LiveAnswer:
        """Return the answer of an experiment; one at a time is computed, beside everything else."""
        exp = await self.experiment(name)
        once = self._answers.setdefault(name, Once(exp.answer))
        answer: LiveAnswer = await once.run(self._answering)
        return answer

    async def written_answer(self, name: str) -> tuple[LiveAnswer, bytes, str]:
        """Return the answer of an experiment, as JSON too, and a digest that changes whenever it does."""
        answer = await self.answer(name)
        known = self._written_answers.get(name)
        if known is None or known[0] is not answer:
            body = await self.compute(lambda: answer.to_json().encode())
            known = self._written_answers[name] = answer, body, blake2b(body, digest_size=16).hexdigest()
        return known

    # ---------------------------------------------------------------- limits

    def enter(self, size: int) -> None:
        """Take a request in, or raise if there are too many."""
        if self.waiting >= self.settings.waiting or self.held + size > self.settings.memory:
            raise Problem("overloaded", "Too many requests are being served; send it again in a second.")
        self.waiting += 1
        self.held += size

    def leave(self, size: int) -> None:
        """Let a request go."""
        self.waiting -= 1
        self.held -= size

    # ---------------------------------------------------------------- readiness

    def begin(self) -> asyncio.Task[None]:
        """Begin to compile what answers need, and make versions of the running experiments."""
        if self._alone:
            sys.setswitchinterval(_SWITCH_SECONDS)
        return asyncio.ensure_future(self._start())

    async def _start(self) -> None:
        while not self._warm:
            try:
                await self.compute(self._prepare)
                self._warm = True
            except BelatedError as error:  # a database may be starting, too
                if str(error) != self._unready:
                    self._unready = str(error)
                    journal.failed("(start)", error)
                await asyncio.sleep(_AGAIN_SECONDS)

    def _prepare(self) -> None:
        from belated.live.service.warming import warm

        for name in self.store.experiments():  # the ticker follows them
            self._experiments[name] = self.store.experiment(name)
        warm([each.setup for each in self._experiments.values()])
        if self._alone:  # collecting garbage among all that is loaded by now would stop requests for some 50 ms a time
            gc.collect()
            gc.freeze()

    async def check_ready(self) -> None:
        """Raise unless kernels are compiled and the storage can be written to."""
        if not self._warm:
            raise Problem("not-ready", self._unready)
        if time.monotonic() - self._written < _WRITABLE:
            return
        try:
            await self.thread(self._write)
        except BelatedError as error:
            raise Problem("not-ready", str(error)) from None
        self._written = time.monotonic()

    def _write(self) -> None:
        with self.store.storage.writing():
            pass

    def close(self) -> None:
        """Wait for the threads; whoever was accepted has been answered before."""
        for threads in (self._threads, self._answering):
            threads.shutdown(cancel_futures=True)
        if self._alone:
            self.store.close()
            gc.unfreeze()  # libraries would say at the end of Python that these objects were never freed

    def author(self, token: Token, given: str | None) -> str:
        """Return the author of a change: the one that the request names, or else the token's owner."""
        return token.label if given is None else given
