"""Rehearsals: a live experiment whose units and outcomes come from a simulated bandit, in accelerated time."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from belated.base.checks import Options
from belated.base.columns import Array, Label
from belated.base.errors import OptionError, argument
from belated.kernels.experiment import NEVER
from belated.live.answers import LiveAnswer
from belated.live.creating import plan_creation
from belated.live.experiment import Experiment
from belated.live.outcomes import Outcome, binary, real
from belated.live.storage import system_clock
from belated.live.store import Store, open_storage
from belated.simulation.bandits import Bandit
from belated.simulation.contextual import AnyBandit, ContextualBandit
from belated.simulation.contextual_stage import ContextualStage
from belated.simulation.policies import Policy, uniform
from belated.simulation.simulate import check, check_horizon
from belated.simulation.stage import Stage
from belated.summaries.segments import ALL

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
    """The outcomes of a rehearsal: every unit's segment, its outcome under each arm, and the delay in steps.

    Attributes
    ----------
    segment : list of str or None
        None without segments.
    outcome, delay : dict
        Of every unit, by segment and arm; an infinite delay is never.
    """

    segment: list[str] | None
    outcome: dict[tuple[str | None, str], Array]
    delay: dict[tuple[str | None, str], Array]

    @classmethod
    def of(cls, bandit: AnyBandit, rows: int, seed: int) -> Script:
        """Draw the outcomes of all arms in advance, with the streams that simulations use."""
        outcome: dict[tuple[str | None, str], Array] = {}
        delay: dict[tuple[str | None, str], Array] = {}
        names = segments_of(bandit)
        if isinstance(bandit, Bandit):
            for k, (label, arm) in enumerate(bandit.arms.items()):
                stage = Stage(Bandit({label: arm}, {label: bandit.delay(label)}), uniform(), rows)
                _, outcome[None, str(label)], _, delay[None, str(label)] = stage.rows(seed, k)
            return cls(None, outcome, delay)
        cells = [(segment, label) for segment in bandit.labels for label in bandit.arms]
        for k, (segment, label) in enumerate(cells, 1):
            drawn = ContextualStage(_effective_arm(bandit, segment, label), uniform(), rows).rows(seed, k)
            cell = str(segment) if names else None, str(label)
            outcome[cell], delay[cell] = drawn.outcome, np.where(drawn.late == NEVER, np.inf, drawn.late)
        code = ContextualStage(bandit, uniform(), rows).rows(seed, 0).segment
        return cls([names[s] for s in code.tolist()] if names else None, outcome, delay)


def _effective_arm(bandit: ContextualBandit, segment: Label, label: Label) -> ContextualBandit:
    """Return one arm of one segment, with the effect of covariates."""
    whole = bandit.segments[segment]
    slopes = {x: slope.get(label, 0.0) if isinstance(slope, Mapping) else slope for x, slope in bandit.slopes.items()}
    alone = Bandit({label: whole.arms[label]}, {label: whole.delay(label)})
    return replace(bandit, segments={segment: alone}, shares=None, slopes=slopes)


def segments_of(bandit: AnyBandit) -> list[str]:
    """Return the segments that an experiment of a bandit has; the only segment "all" is none."""
    if isinstance(bandit, Bandit) or bandit.labels == (ALL,):
        return []
    return [str(label) for label in bandit.labels]


def outcome_of(bandit: AnyBandit) -> Outcome:
    """Return the kind of outcome that a bandit has."""
    return binary() if all(arm.binary for arm in bandit.cell_arms) else real()


def rehearse(exp: Experiment, bandit: AnyBandit, rows: int, clock: _Time, *, seed: int = 0, every: int = 1) -> None:
    """Ask for a number of units, and tell their outcomes when they are due.

    Units that come between two ticks are asked together; outcomes are told at the tick that follows their time.
    """
    script, start = Script.of(bandit, rows, seed), clock.now
    due: list[tuple[float, str, float]] = []
    for first in range(0, rows, every):
        clock.now = start + first * STEP
        _tell(exp, due, first)
        exp.tick()
        units = [f"unit-{t}" for t in range(first, min(first + every, rows))]
        segments = None if script.segment is None else script.segment[first : first + every]
        for t, reply in enumerate(exp.ask_many(units, segments), first):
            cell = reply.segment, reply.arm
            late = script.delay[cell][t]
            if np.isfinite(late):
                heapq.heappush(due, (t + max(late, 1), reply.unit, float(script.outcome[cell][t])))
    clock.now = start + rows * STEP
    _tell(exp, due, rows)
    exp.tick()


def _tell(exp: Experiment, due: list[tuple[float, str, float]], step: int) -> None:
    """Tell the outcomes that are due by a step."""
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
) -> Iterator[Experiment]:
    """Run a live experiment from a simulated bandit to its end; give the experiment, still open.

    Parameters
    ----------
    bandit : Bandit or ContextualBandit
        Its segments are those of the experiment. Covariates change outcomes; the experiment does not know them.
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
    """
    if bandit.window is not None:
        raise OptionError(f"{argument('bandit')} has events; a rehearsal needs outcomes, such as arms.bernoulli(0.1).")
    check(bandit, policy)
    check_horizon("rows", rows)
    options: Options = {
        "arms": [str(label) for label in bandit.arms], "policy": policy, "outcome": outcome_of(bandit),
        "baseline": baseline, "planned_rows": rows, "every": every,
        "segments": segments_of(bandit) or None, "reason": "a rehearsal",
    }  # fmt: skip
    plan_creation(name, **options)  # before a file is made
    time = _Time(system_clock() - rows * STEP)  # the last unit comes now
    with tempfile.TemporaryDirectory(prefix="belated-") as folder:
        home = Path(folder, "rehearsal.belated") if place is None else place
        with Store(open_storage(home, time), ticking=False) as store:
            if place is None:
                store.storage.relax()
            exp = store.create(name, **options).start()
            rehearse(exp, bandit, rows, time, seed=seed, every=exp.setup.every)
            yield exp


def covers(answer: LiveAnswer, bandit: AnyBandit) -> tuple[bool, bool]:
    """Return whether the first contrast's interval holds its true value at the end, and at every look."""
    if answer.estimate is None or answer.sequence is None:
        return False, False
    arm, baseline = answer.estimate.arms[1], answer.estimate.arms[0]
    means = {str(label): mean for label, mean in bandit.means.items()}
    truth = means[str(arm)] - means[str(baseline)]
    fixed = answer.estimate.contrast(arm, baseline)
    track = answer.sequence.track(arm, baseline)
    low, high = np.asarray(track.low), np.asarray(track.high)
    return fixed.low <= truth <= fixed.high, bool(((low <= truth) & (truth <= high)).all())
