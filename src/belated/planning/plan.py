"""plan: how long an experiment must run, and how long to wait, found by simulating it."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from belated.base.checks import fraction, one_of, positive, real, whole
from belated.base.errors import BelatedWarning, OptionError
from belated.base.progress import Bar
from belated.base.text import one_line, percent
from belated.estimation.answers import estimate
from belated.estimation.estimators import ESTIMATORS
from belated.estimation.intervals import INTERVALS, Interval
from belated.estimation.target import Target
from belated.log.data import Data
from belated.planning.goals import Goal, Point
from belated.planning.pilots import Pilot, pilot
from belated.planning.results import Curve, Option, Plan
from belated.planning.search import DEFAULT_SLOPE, FLATTEST, STEEPEST, Root, solve
from belated.simulation.bandits import Bandit
from belated.simulation.policies import Policy
from belated.simulation.simulate import check
from belated.simulation.study import STEP_COSTS, study
from belated.simulation.views import read_known_target

#: Runs while the horizon is sought, and of each point of the curve; and the nanoseconds these may take, and the last.
_ROUGH = {"half_width": 200, "power": 800}
_LEAST, _BUDGET, _LAST_BUDGET = 40, 2e9, 1e10

#: Shares of an arm's outcomes within whose delays it may pay to wait.
_SHARES = (0.5, 0.75, 0.9, 0.95, 0.99, 1.0)

#: And multiples of the horizon, if those are longer.
_MULTIPLES = (0.25, 1.0, 4.0)

#: How near the best a shorter wait must come to be preferred, and the error of the horizon that runs are spent on.
_AS_GOOD, _PRECISION = 0.005, 0.01

#: Multiples of the horizon at which the curve is shown.
_CURVE = (0.125, 0.25, 0.5, 2.0)

#: Logarithms of horizons that are near enough for a straight line.
_NEAR = 0.15

#: Corrections of the horizon, at most.
_REFINEMENTS = 4

#: Simulations of a usual search, for the bar.
_USUAL = 32


def plan(
    bandit: Bandit | Pilot | Data,
    policy: Policy | None = None,
    target: Any = None,
    *,
    half_width: float | None = None,
    power: float | None = None,
    assurance: float | None = None,
    null: float = 0.0,
    level: float = 0.95,
    interval: str = "auto",
    estimator: str = "daipw",
    wait: float | str | None = None,
    patience: float = 10.0,
    max_horizon: int = 1_000_000,
    per_day: float | None = None,
    replications: int = 4000,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | None = None,
) -> Plan:
    """Find how many assignments an experiment needs, and how long to wait after the last.

    Parameters
    ----------
    bandit : Bandit, Pilot, Log, or what `read` gives
        What there is to choose from; or the log of a pilot, to which `pilot` fits it.
    policy : Policy, optional
        How arms are chosen. Needed unless there is a pilot, whose mean probabilities are then kept fixed.
    target : optional
        A pair (arm, baseline) for a contrast, an arm, or a mapping from arms to coefficients. Default: the second
        of two arms minus the first.
    half_width : float, optional
        Of the target's interval, to be reached in the mean over experiments.
    power : float, optional
        Instead: the chance that the interval excludes `null` on the side of the truth.
    assurance : float, optional
        With `half_width`: the share of experiments in which it must be reached, instead of in the mean.
    null : float
    level, interval, estimator
        As in `estimate`.
    wait : float or "full", optional
        Steps from the last assignment to the look; "full": until every outcome that comes has come. Default: as long
        as waiting saves assignments, see `patience`.
    patience : float
        Steps that one would wait to save one assignment; 1 gives the earliest answer.
    max_horizon : int
        The longest experiment that is simulated.
    per_day : float, optional
        Assignments a day, to say steps in days; default: a pilot's, if it has dates.
    replications : int
        Simulated experiments, at most, at the horizon that is found: as many as make its error 1 %.
    seed : int
    workers : int, optional
        Threads; default: one for each core.
    progress : bool, optional
        Whether to show how far it is, on stderr; default: if that is a terminal.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.normal(0), "B": bl.arms.normal(0.3)}, bl.delays.constant(100))
    >>> found = bl.plan(bandit, bl.policies.uniform(), ("B", "A"), half_width=0.1)
    >>> 1500 < found.horizon < 1600, found.wait
    (True, 100.0)
    """
    fitted = pilot(bandit, per_day=per_day) if isinstance(bandit, Data) else bandit
    notes: list[str] = []
    experiment: Any = fitted
    if isinstance(fitted, Pilot):
        experiment, per_day = fitted.bandit, fitted.per_day if per_day is None else per_day
        notes += fitted.notes
        notes.append("The range of horizons is that of the simulation; how far the pilot's sample is off comes on top.")
        if policy is None:
            policy = fitted.policy
            shares = ", ".join(f"{one_line(arm)} {p:.1%}" for arm, p in (policy.shares or {}).items())
            notes.append(f"The policy is the pilot's mean probabilities of late, fixed: {shares}.")
    if policy is None:
        raise OptionError("There is no `policy`; a plan needs one, such as policies.epsilon_greedy().")
    check(experiment, policy)
    goal = _goal(half_width, power, assurance, real("null", null), fraction("level", level))
    if per_day is not None:
        positive("per_day", per_day)
    if real("patience", patience) < 1:
        raise OptionError(f"`patience` is {patience!r}; it must be 1 or more steps for an assignment.")
    most = whole("max_horizon", max_horizon, least=1)
    wanted = _target(experiment, target)
    c, means = np.array(wanted.coefficients), np.array(list(experiment.means.values()))
    distance = float(c @ np.where(c != 0, means, 0.0)) - goal.null
    if goal.name == "power" and distance == 0:
        raise OptionError(
            f"`power` is asked for, and {one_line(wanted.name)} is the null itself, {goal.null:g}: "
            "no experiment can tell them apart."
        )
    if isinstance(fitted, Pilot) and goal.name == "power":
        notes.append(_pilots_own(fitted, wanted, level))
    runner = _Runner(
        experiment, policy, wanted, goal, goal.proxy(distance), one_of("interval", interval, INTERVALS),
        one_of("estimator", estimator, ESTIMATORS), whole("seed", seed, least=0),
        whole("replications", replications, least=_LEAST), workers,
        Bar(_USUAL) if (sys.stderr.isatty() if progress is None else progress) else None,
    )  # fmt: skip
    planner = _Planner(runner, most, float(patience), _wait(wait, experiment, wanted))
    try:
        return planner.plan(per_day, tuple(notes))
    finally:
        if runner.bar:
            runner.bar.clear()


def _goal(half_width: Any, power: Any, assurance: Any, null: float, level: float) -> Goal:
    if (half_width is None) == (power is None):
        raise OptionError("A plan needs a goal: `half_width` or `power`, one of the two.")
    if power is None:
        share = None if assurance is None else fraction("assurance", assurance)
        return Goal("half_width", positive("half_width", half_width), level, null, share)
    if assurance is not None:
        raise OptionError("`assurance` goes with `half_width`; `power` is a share of experiments itself.")
    asked = fraction("power", power)
    if asked <= 1 - level:
        raise OptionError(f"`power` is {power!r}; at level {level:g} a test that knows nothing has almost that.")
    return Goal("power", asked, level, null)


def _target(bandit: Bandit, target: Any) -> Target:
    labels = list(bandit.arms)
    if target is None:
        if len(labels) != 2:
            raise OptionError(f"There is no `target`; it must be two of the arms {labels!r}, such as (arm, baseline).")
        target = (labels[1], labels[0])
    return read_known_target(bandit, target, option="target")


def _wait(wait: Any, bandit: Bandit, target: Target) -> float | None:
    if wait is None:
        return None
    if wait == "full":
        return max(_late(bandit, target, 1.0))
    if isinstance(wait, str) or real("wait", wait) < 0:
        raise OptionError(f"`wait` is {wait!r}; it must be a number of steps, 0 or more, or 'full'.")
    return float(wait)


def _late(bandit: Bandit, target: Target, share: float) -> list[float]:
    """Return the delays within which a share of each of the target's arms' outcomes come."""
    used = [label for label, c in zip(bandit.arms, target.coefficients, strict=True) if c]
    return [bandit.delay(label).quantile(share) for label in used]


def _pilots_own(fitted: Pilot, target: Target, level: float) -> str:
    log = fitted.log
    coefficients = {arm: c for arm, c in zip(fitted.arms, target.coefficients, strict=True) if c}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BelatedWarning)
        own = estimate(log, "daipw" if log.has_all_propensities else "dipw", level=level).linear(coefficients)
    true = sum(c * fitted.bandit.arms[arm].mean for arm, c in coefficients.items())
    between = f"{own.low:.3g} to {own.high:.3g}"
    return (
        f"The power is that for the pilot's {one_line(target.name)}, {true:.3g}, which is itself uncertain: {between}."
    )


# ---------------------------------------------------------------- simulating


@dataclass
class _Runner:
    """Simulates one experiment at any horizon and wait; what was simulated is kept."""

    bandit: Bandit
    policy: Policy
    target: Target
    goal: Goal
    proxy: Goal
    interval: Interval
    estimator: str
    seed: int
    replications: int
    workers: int | None
    bar: Bar | None
    points: dict[tuple[int, float], tuple[Point, Point]] = field(default_factory=dict)
    done: int = 0
    interval_used: str = ""

    def runs(self, horizon: int, wanted: float, budget: float) -> int:
        """Return how many runs of a horizon to make: as many as are wanted, but for what they cost."""
        step = 20 + 5 * len(self.bandit.arms) + STEP_COSTS.get(self.policy.name, 0) / self.policy.batch
        return int(min(max(min(wanted, budget / (horizon * step)), _LEAST), self.replications))

    def measure(self, horizon: int, wait: float, runs: int) -> tuple[Point, Point]:
        """Return what experiments of a horizon, looked at after a wait, reach: of the goal, and of its proxy."""
        known = self.points.get((horizon, wait))
        if known is not None and known[0].replications >= runs:
            return known
        if self.bar:
            self.bar.show(min(self.done, _USUAL - 1))
        ran = study(
            self.bandit, self.policy, horizon, runs, estimators=[self.estimator], targets=[self.target],
            intervals=[self.interval], level=self.goal.level, seed=self.seed, workers=self.workers, progress=False,
            wait=wait,
        )  # fmt: skip
        if ran.stopped:
            raise KeyboardInterrupt
        self.done += 1
        cell = ran.cell(self.estimator, self.target)
        self.interval_used = cell.interval
        self.points[horizon, wait] = self.goal.point(cell, wait), self.proxy.point(cell, wait)
        return self.points[horizon, wait]

    def rough(self, horizon: int, wait: float, kind: str = "half_width") -> tuple[Point, Point]:
        """Return the same from a few runs."""
        return self.measure(horizon, wait, self.runs(horizon, _ROUGH[kind], _BUDGET))


@dataclass
class _Planner:
    """From simulated points to a plan."""

    runner: _Runner
    most: int
    patience: float
    fixed: float | None
    roots: dict[float, Root] = field(default_factory=dict)

    def plan(self, per_day: float | None, notes: tuple[str, ...]) -> Plan:
        """Settle the wait, then the horizon, then what the curve needs."""
        runner, goal = self.runner, self.runner.goal
        wait = self._settled()
        root, error = self._refined(self.roots[wait], wait)
        points = (point for (_, waited), (point, _) in runner.points.items() if waited == wait)
        points = (p for p in points if p.replications >= runner.runs(p.horizon, _ROUGH[goal.name], _BUDGET))
        enough = [p for p in points if not root.reached or 0.1 < p.horizon / root.horizon < 3]
        curve = Curve(tuple(sorted(enough, key=lambda p: p.horizon)), goal.name, runner.target.name, goal.asked)
        # all waits were simulated with the same random numbers: what the last runs corrected here, they share
        scale = root.horizon / self.roots[wait].horizon if math.isfinite(root.horizon) else 1.0
        spread = math.exp(1.96 * error)
        options = tuple(
            Option(w, scale * each.horizon, scale * each.horizon / spread, scale * each.horizon * spread,
                   root.reached if w == wait else each.reached)
            for w, each in sorted(self.roots.items())
        )  # fmt: skip
        kind = "" if runner.interval_used == "auto" else f"{runner.interval_used} "
        how = f"{percent(goal.level)} {kind}interval of {runner.estimator}"
        return Plan(
            options, wait, goal, runner.target.name, how, curve, self.most, per_day, notes, runner.bandit, runner.policy
        )

    @property
    def _least(self) -> int:
        return min(max(2 * len(self.runner.bandit.arms), 4), self.most)

    def _root(self, wait: float, guess: float) -> Root:
        """Find, roughly, the horizon of one wait."""

        def measure(horizon: int) -> Point:
            return self.runner.rough(horizon, wait)[1]

        self.roots[wait] = solve(measure, self.runner.proxy, guess, self._least, self.most)
        return self.roots[wait]

    def _settled(self) -> float:
        """Return the wait, having found the horizons of every one that may be worth it."""
        runner = self.runner
        sds = np.array([arm.sd for arm in runner.bandit.arms.values()])
        guess = runner.proxy.guess(sds, np.array(runner.target.coefficients))
        guess = max(guess, 20.0 * len(sds)) if math.isfinite(guess) else 1000.0
        if self.fixed is not None:
            root = self._root(self.fixed, guess)
            if self.fixed > 0 and root.reached:
                self._root(0.0, root.horizon)
            return self.fixed
        at_once = self._root(0.0, guess)
        waits = {max(_late(runner.bandit, runner.target, share)) for share in _SHARES}
        if math.isfinite(at_once.horizon):  # delays longer than the experiment: some of them
            waits |= {w for m in _MULTIPLES if (w := float(round(m * at_once.horizon))) < min(waits)}
        worth = _AS_GOOD * at_once.horizon, self.patience * min(at_once.horizon, self.most)
        before = 0.0
        for wait in sorted(waits - {0.0}):
            if worth[0] <= wait <= worth[1] or wait == max(waits):
                self._longer(before, wait)
                before = wait
        costs = {w: r.horizon + w / self.patience for w, r in self.roots.items() if r.reached and math.isfinite(w)}
        if not costs:
            return 0.0
        return min(w for w, cost in costs.items() if cost <= (1 + _AS_GOOD) * min(costs.values()))

    def _longer(self, before: float, wait: float) -> None:
        """Find the horizon of a longer wait: if it is not far, from the same runs looked at after both waits.

        Runs of one horizon are the same whatever the wait, so that chance plays no part in the difference.
        """
        root, proxy = self.roots[before], self.runner.proxy
        horizon = min(max(round(root.horizon), self._least), self.most) if math.isfinite(root.horizon) else self.most
        half = max(horizon // 2, self._least)
        if root.reached and half < horizon:
            gaps = [
                proxy.gap(self.runner.rough(h, w)[1]) for h, w in ((half, before), (horizon, before), (horizon, wait))
            ]
            slope = (gaps[1] - gaps[0]) / math.log(horizon / half)
            if all(map(math.isfinite, gaps)) and slope > FLATTEST and abs(gaps[2] - gaps[1]) < _NEAR * slope:
                self.roots[wait] = Root(root.horizon * math.exp((gaps[1] - gaps[2]) / slope), slope, reached=True)
                return
        self._root(wait, horizon)

    def _refined(self, root: Root, wait: float) -> tuple[Root, float]:
        """Return the root from as many runs as it deserves, and the standard error of its logarithm."""
        runner, goal = self.runner, self.runner.goal

        def rough(horizon: int) -> Point:
            return runner.rough(horizon, wait, goal.name)[0]

        if goal != runner.proxy:
            root = solve(rough, goal, min(root.horizon, self.most), self._least, self.most)
        if not root.reached:
            return root, math.nan
        found, slope, error = root.horizon, self._slope(rough, root.horizon), math.nan
        for _ in range(_REFINEMENTS):
            horizon = min(max(round(found), self._least), self.most)
            single = goal.gap_error(rough(horizon)) * math.sqrt(rough(horizon).replications)
            enough = (single / (slope * _PRECISION)) ** 2
            runs = runner.runs(horizon, enough if math.isfinite(enough) else math.inf, _LAST_BUDGET)
            point = runner.measure(horizon, wait, runs)[0]
            gap, error = goal.gap(point), goal.gap_error(point) / slope
            move = min(max(-gap / slope, -0.5), 0.5)
            found = min(max(horizon * math.exp(move), self._least), self.most)
            if abs(move) <= max(0.03, error) or found in (self._least, self.most):
                break
        return Root(found, slope, found < self.most or gap >= 0), error

    def _slope(self, rough: Callable[[int], Point], horizon: float) -> float:
        """Return the slope of the goal's scale about a horizon, having simulated the curve."""
        lengths = {round(multiple * horizon) for multiple in _CURVE}
        gaps = {h: self.runner.goal.gap(rough(h)) for h in sorted(lengths) if self._least <= h <= self.most}
        gaps[round(horizon)] = self.runner.goal.gap(rough(round(horizon)))
        near = {h: gap for h, gap in gaps.items() if h > 0.4 * horizon and math.isfinite(gap)}
        if len(near) < 2:
            return DEFAULT_SLOPE
        slope = (near[max(near)] - near[min(near)]) / math.log(max(near) / min(near))
        return min(max(slope, FLATTEST), STEEPEST)
