"""`Shelf`: answers as pages show them, made beside everything else; a page gets the last one at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from belated.assumptions.checks.check import LIGHTS, Light
from belated.base.errors import recorded_warnings
from belated.live.answers import LiveAnswer
from belated.live.dashboard.drawing import draw
from belated.live.dashboard.history import ExperimentHistory, change_words, read_history
from belated.live.dashboard.rendering import render
from belated.live.service import journal

if TYPE_CHECKING:
    from belated.live.experiment import Experiment
    from belated.live.service.service import Service

#: Pages whose content is made from an answer.
CONTENTS = ("answer", "over-time", "arrivals", "soundness")

#: Seconds that a page waits for the first answer; the least time between two answers, and their largest share of it.
_PATIENCE, _LEAST_PAUSE, _SHARE = 1.5, 1.0, 0.2


@dataclass(frozen=True, eq=False)
class Shown:
    """An answer as pages show it.

    Attributes
    ----------
    answer : LiveAnswer
    contents : dict of str
        The HTML of each page's content, by its path.
    tags : dict of str
        What tells this content from another.
    worst : str
        The worst light of the checks.
    seconds : float
        How long it took.
    key : tuple
        What it was made from.
    """

    answer: LiveAnswer
    contents: dict[str, str]
    tags: dict[str, str]
    worst: Light
    seconds: float
    key: tuple[object, ...]


def make_shown(answer: LiveAnswer, history: ExperimentHistory, began: float) -> Shown:
    """Draw everything that pages show of an answer."""
    with recorded_warnings():
        drawn = draw(answer, history)
    values = {
        "answer": answer, "drawn": drawn, "lights": LIGHTS, "words": change_words,
        "marked": [(label, each) for label, each in history.changes],
    }  # fmt: skip
    contents = {name: render(f"contents/{name}.html", **values) for name in CONTENTS}
    tags = {name: blake2b(text.encode(), digest_size=12).hexdigest() for name, text in contents.items()}
    worst: Light = "grey" if drawn.diagnosis is None else drawn.diagnosis.worst
    seconds = time.perf_counter() - began
    return Shown(answer, contents, tags, worst, seconds, _key(answer, history))


def _key(answer: LiveAnswer, history: ExperimentHistory) -> tuple[object, ...]:
    return id(answer), history.latest, len(history.changes)


class Shelf:
    """The latest answer of each experiment. A new one is begun when somebody looks, not before.

    Under load an answer is never up to date: one is computed for at most a fifth of the time.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._kept: dict[str, Shown] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._next: dict[str, float] = {}
        self._round: asyncio.Task[None] | None = None
        self._next_round = 0.0

    def kept(self, name: str) -> Shown | None:
        """Return the latest answer, without beginning a new one."""
        return self._kept.get(name)

    def begin(self, exp: Experiment) -> asyncio.Task[None] | None:
        """Begin to compute the next answer, unless one is pending or was just made; return the pending one."""
        task = self._tasks.get(exp.name)
        if (task is None or task.done()) and time.monotonic() >= self._next.get(exp.name, 0.0):
            task = self._tasks[exp.name] = asyncio.ensure_future(self._refresh(exp))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # who waits for it is told
        return task

    async def latest(self, exp: Experiment) -> Shown | None:
        """Return the latest answer, None if the first one takes long; begin to make the next one."""
        task = self.begin(exp)
        if exp.name not in self._kept and task is not None:
            await asyncio.wait([task], timeout=_PATIENCE)
            if task.done():
                task.result()  # raises what went wrong
        return self._kept.get(exp.name)

    def begin_all(self, experiments: Sequence[Experiment]) -> None:
        """Begin to make the next answer of each, one after another, so that whoever looks at one does not wait."""
        if (self._round is None or self._round.done()) and time.monotonic() >= self._next_round:
            self._round = asyncio.ensure_future(self._refresh_all(experiments))

    async def _refresh_all(self, experiments: Sequence[Experiment]) -> None:
        began = time.monotonic()
        for exp in experiments:
            task = self.begin(exp)
            if task is not None:
                await asyncio.wait([task])
        now = time.monotonic()
        self._next_round = now + (now - began) * (1 / _SHARE - 1)

    async def _refresh(self, exp: Experiment) -> None:
        began, before = time.perf_counter(), self._kept.get(exp.name)
        try:
            answer = await self._service.answer(exp.name)
            history = await self._service.thread(read_history, exp)
            if before is None or before.key != _key(answer, history):
                self._kept[exp.name] = await self._service.compute(make_shown, answer, history, began)
        except Exception as error:
            if before is None:
                raise
            journal.failed("(page)", error)  # the page goes on with the last one, and says how old it is
        finally:
            taken = time.perf_counter() - began
            self._next[exp.name] = time.monotonic() + max(_LEAST_PAUSE, taken * (1 / _SHARE - 1))
