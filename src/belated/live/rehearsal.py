"""Rehearsals: a live experiment whose units and outcomes come from a simulated bandit, in accelerated time."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from belated.base.checks import whole
from belated.base.columns import Array
from belated.base.errors import OptionError, argument
from belated.live.answers import LiveAnswer
from belated.live.experiment import Experiment
from belated.live.outcomes import Outcome, binary, real
from belated.live.storage import Clock, system_clock
from belated.live.store import Store, open_storage
from belated.simulation.bandits import Bandit
from belated.simulation.contextual import AnyBandit
from belated.simulation.policies import Policy, uniform
from belated.simulation.stage import Stage

#: Microseconds of a step: a unit comes every second.
STEP = 1_000_000


class _Time:
    """A clock that a rehearsal moves."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@dataclass(frozen=True)
class Script:
    """What would happen: each arm's outcome for every unit, and how many steps later it comes; infinite: never."""

    outcome: dict[str, Array]
    delay: dict[str, Array]

    @classmethod
    def of(cls, bandit: Bandit, rows: int, seed: int) -> Script:
        """Draw the outcomes of all arms in advance, with the streams that simulations use."""
        outcome, delay = {}, {}
        for k, (label, arm) in enumerate(bandit.arms.items()):
            stage = Stage(Bandit({label: arm}, {label: bandit.delay(label)}), uniform(), rows)
            _, outcome[str(label)], _, delay[str(label)] = stage.rows(seed, k)
        return cls(outcome, delay)


def outcome_of(bandit: Bandit) -> Outcome:
    """Return the kind of outcome that a bandit has."""
    return binary() if all(arm.binary for arm in bandit.arms.values()) else real()


def rehearse(exp: Experiment, bandit: Bandit, rows: int, clock: _Time, *, seed: int = 0, every: int = 1) -> None:
    """Have so many units come to an experiment, and tell their outcomes when they are due.

    Units that come between two ticks are asked together; outcomes are told at the tick that follows their time.
    """
    script, start = Script.of(bandit, rows, seed), clock.now
    due: list[tuple[float, str, float]] = []
    for first in range(0, rows, every):
        clock.now = start + first * STEP
        _tell(exp, due, first)
        exp.tick()
        units = [f"unit-{t}" for t in range(first, min(first + every, rows))]
        for t, reply in enumerate(exp.ask_many(units), first):
            late = script.delay[reply.arm][t]
            if np.isfinite(late):
                heapq.heappush(due, (t + max(late, 1), reply.unit, float(script.outcome[reply.arm][t])))
    clock.now = start + rows * STEP
    _tell(exp, due, rows)
    exp.tick()


def _tell(exp: Experiment, due: list[tuple[float, str, float]], step: int) -> None:
    """Tell what has become due by a step."""
    now = []
    while due and due[0][0] <= step:
        _, unit, value = heapq.heappop(due)
        now.append((unit, value))
    exp.tell_many(now)


@contextmanager
def rehearsal(
    bandit: AnyBandit,
    policy: Policy,
    rows: int,
    *,
    place: str | Path | None = None,
    name: str = "rehearsal",
    seed: int = 0,
    every: int | None = None,
    baseline: str | None = None,
    clock: Clock | None = None,
) -> Iterator[Experiment]:
    """Run a live experiment from a simulated bandit to its end; give the experiment, still open.

    Parameters
    ----------
    bandit : Bandit
    policy : Policy
    rows : int
        The number of units.
    place : path or URL, optional
        Where to keep it; by default in a file that is removed.
    name : str
    seed : int
        The seed of outcomes and delays; arms are drawn by the experiment's own salt.
    every : int, optional
        Units between two ticks; by default 0.2 % of the rows, or the policy's batch.
    baseline : str, optional
    clock : callable, optional
        When the first unit comes; by default so that the last one comes now.
    """
    if not isinstance(bandit, Bandit):
        raise OptionError(f"{argument('bandit')} has segments; a live experiment has none.")
    whole("rows", rows, least=1)
    last = (clock or system_clock)()
    time = _Time(last - rows * STEP)
    with tempfile.TemporaryDirectory(prefix="belated-") as folder:
        home = Path(folder, "rehearsal.belated") if place is None else place
        with Store(open_storage(home, time), ticking=False) as store:
            if place is None:
                store.storage.relax()
            exp = store.create(
                name, arms=[str(label) for label in bandit.arms], policy=policy, outcome=outcome_of(bandit),
                baseline=baseline, planned_rows=rows, every=every, reason="a rehearsal",
            ).start()  # fmt: skip
            rehearse(exp, bandit, rows, time, seed=seed, every=exp.setup.every)
            yield exp


def covers(answer: LiveAnswer, bandit: Bandit) -> tuple[bool, bool]:
    """Return whether the first contrast's interval holds its true value at the end, and at every look."""
    if answer.estimate is None or answer.sequence is None:
        return False, False
    a, b = answer.estimate.arms[1], answer.estimate.arms[0]
    means = {str(label): mean for label, mean in bandit.means.items()}
    truth = means[str(a)] - means[str(b)]
    fixed = answer.estimate.contrast(a, b)
    track = answer.sequence.track(a, b)
    low, high = np.asarray(track.low), np.asarray(track.high)
    return fixed.low <= truth <= fixed.high, bool(((low <= truth) & (truth <= high)).all())
