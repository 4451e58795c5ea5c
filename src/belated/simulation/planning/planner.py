"""The search for a plan: first the wait, then the horizon, then the curve around it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from belated.base.columns import Array
from belated.base.progress import Bar
from belated.base.text import percent
from belated.estimation.estimators import EstimatorName
from belated.estimation.intervals import Interval
from belated.estimation.target import Target
from belated.simulation.contextual import AnyBandit, is_plain
from belated.simulation.planning.goals import Goal, HalfWidth, Point
from belated.simulation.planning.results import Curve, Option, Plan
from belated.simulation.planning.search import DEFAULT_SLOPE, FLATTEST, STEEPEST, Root, solve
from belated.simulation.policies import Policy
from belated.simulation.study import LOG_COST, STEP_COSTS, study
from belated.simulation.views import cell_weights

#: The smallest number of runs of a horizon, and the time for rough and final runs, in nanoseconds.
LEAST_RUNS, _BUDGET, _LAST_BUDGET = 40, 2e9, 1e10

#: Candidate waits: the delays within which these shares of an arm's outcomes arrive.
_SHARES = (0.5, 0.75, 0.9, 0.95, 0.99, 1.0)

#: Candidate waits as multiples of the horizon, if the former are longer.
_MULTIPLES = (0.25, 1.0, 4.0)

#: A shorter wait this close to the best is preferred; and the target for the relative error of the horizon.
_AS_GOOD, _PRECISION = 0.005, 0.01

#: Multiples of the horizon at which the curve is shown.
_CURVE_MULTIPLES = (0.125, 0.25, 0.5, 2.0)

#: Horizons whose logarithms differ by less are close enough for a linear approximation.
_NEARLY_LINEAR = 0.15

#: A smaller correction of the logarithm of the horizon is the last; where experiments have no interval, it is this one.
_STEP = 0.03

#: The largest number of corrections of the horizon.
_REFINEMENTS = 4

#: The usual number of simulations of a search, for the progress bar.
USUAL_SIMULATIONS = 32


def arm_delays(bandit: AnyBandit, target: Target, share: float) -> list[float]:
    """Return, for each arm of the target (and segment), the delay within which a share of its outcomes arrives.

    All that counts of events is known when the window closes.
    """
    window = bandit.window
    weights = cell_weights(bandit, target).ravel()
    waits = [delay.quantile(share) for delay, c in zip(bandit.cell_delays, weights, strict=True) if c]
    return waits if window is None else [float(window) if share >= 1 else min(wait, window) for wait in waits]


def spreads(bandit: AnyBandit, target: Target) -> tuple[Array, Array]:
    """Return standard deviations and coefficients, by arm, or by segment and arm as if segments were equally large."""
    sds = np.array([arm.sd for arm in bandit.cell_arms])
    scale = np.sqrt(bandit.mix * len(bandit.mix))[:, np.newaxis]
    return sds, (cell_weights(bandit, target) / scale).ravel()


@dataclass
class Runner:
    """Simulates one experiment at any horizon and wait, and stores the results."""

    bandit: AnyBandit
    policy: Policy
    target: Target
    goal: Goal
    proxy: HalfWidth
    interval: Interval
    estimator: EstimatorName
    seed: int
    replications: int
    workers: int | None
    bar: Bar | None
    maturing: bool = False
    points: dict[tuple[int, float], tuple[Point, Point]] = field(default_factory=dict)
    done: int = 0
    interval_used: str = ""

    def runs(self, horizon: int, wanted: float, budget: float) -> int:
        """Return the number of runs of a horizon: as many as wanted, within the budget of time."""
        step = 20 + 5 * len(self.bandit.arms) + STEP_COSTS.get(self.policy.name, 0) / self.policy.batch
        step += 0 if is_plain(self.bandit) else LOG_COST
        return int(min(max(min(wanted, budget / (horizon * step)), LEAST_RUNS), self.replications))

    def measure(self, horizon: int, wait: float, runs: int) -> tuple[Point, Point]:
        """Return the results for the goal and for its proxy at a horizon and wait."""
        known = self.points.get((horizon, wait))
        if known is not None and known[0].replications >= runs:
            return known
        if self.bar:
            self.bar.show(min(self.done, USUAL_SIMULATIONS - 1))
        ran = study(
            self.bandit, self.policy, horizon, runs, estimators=[self.estimator], targets=[self.target],
            intervals=[self.interval], level=self.goal.level, seed=self.seed, workers=self.workers, progress=False,
            wait=wait, maturing=self.maturing,
        )  # fmt: skip
        if ran.stopped:
            raise KeyboardInterrupt
        self.done += 1
        cell = ran.cell(self.estimator, self.target)
        self.interval_used = cell.interval
        self.points[horizon, wait] = self.goal.point(cell, wait), self.proxy.point(cell, wait)
        return self.points[horizon, wait]

    def rough(self, horizon: int, wait: float, wanted: int = HalfWidth.rough_runs) -> tuple[Point, Point]:
        """Return the same results from a few runs."""
        return self.measure(horizon, wait, self.runs(horizon, wanted, _BUDGET))


@dataclass
class Planner:
    """Searches for the wait and the horizon of a plan."""

    runner: Runner
    most: int
    patience: float
    fixed: float | None
    roots: dict[float, Root] = field(default_factory=dict)

    def plan(self, per_day: float | None, notes: tuple[str, ...]) -> Plan:
        """Find the wait, then the horizon, then simulate the curve."""
        runner, goal = self.runner, self.runner.goal
        wait = self._settled()
        root, error = self._refined(self.roots[wait], wait)
        points = (point for (_, waited), (point, _) in runner.points.items() if waited == wait)
        points = (p for p in points if p.replications >= runner.runs(p.horizon, goal.rough_runs, _BUDGET))
        enough = [p for p in points if not root.reached or 0.1 < p.horizon / root.horizon < 3]
        # all waits share random numbers, so the correction by the final runs applies to all of them
        scale = root.horizon / self.roots[wait].horizon if math.isfinite(root.horizon) else 1.0
        spread = math.exp(1.96 * error)
        options = tuple(
            Option(
                wait=w,
                horizon=scale * each.horizon,
                low=scale * each.horizon / spread,
                high=scale * each.horizon * spread,
                reached=root.reached if w == wait else each.reached,
            )
            for w, each in sorted(self.roots.items())
        )
        kind = "" if runner.interval_used == "auto" else f"{runner.interval_used} "
        return Plan(
            options=options,
            wait=wait,
            goal=goal,
            target=runner.target.name,
            how=f"{percent(goal.level)} {kind}interval of {runner.estimator}",
            curve=Curve(
                points=tuple(sorted(enough, key=lambda p: p.horizon)),
                goal=goal,
                target=runner.target.name,
            ),
            max_horizon=self.most,
            per_day=per_day,
            notes=notes,
            bandit=runner.bandit,
            policy=runner.policy,
        )

    @property
    def _least(self) -> int:
        return min(max(2 * len(self.runner.bandit.cell_arms), 4), self.most)

    def _root(self, wait: float, guess: float) -> Root:
        """Find the approximate horizon for one wait."""

        def measure(horizon: int) -> Point:
            return self.runner.rough(horizon, wait)[1]

        self.roots[wait] = solve(measure, self.runner.proxy, guess, self._least, self.most)
        return self.roots[wait]

    def _settled(self) -> float:
        """Return the best wait, after finding the horizon of every candidate."""
        runner = self.runner
        sds, coefficients = spreads(runner.bandit, runner.target)
        guess = runner.proxy.guess(sds, coefficients)
        guess = max(guess, 20.0 * len(sds)) if math.isfinite(guess) else 1000.0
        if self.fixed is not None:
            root = self._root(self.fixed, guess)
            if self.fixed > 0 and root.reached:
                self._root(0.0, root.horizon)
            return self.fixed
        at_once = self._root(0.0, guess)
        waits = {max(arm_delays(runner.bandit, runner.target, share)) for share in _SHARES}
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
            self._level()
            return 0.0
        return min(w for w, cost in costs.items() if cost <= (1 + _AS_GOOD) * min(costs.values()))

    def _level(self) -> None:
        """Let no extrapolated horizon be shorter than that of a longer wait.

        In experiments that are short beside their delays, outcomes that were out come in as the horizon grows; without
        a wait, the goal then seems to come near faster than it will.
        """
        longest = 0.0
        for wait, root in sorted(self.roots.items(), reverse=True):
            longest = max(longest, root.horizon)
            self.roots[wait] = replace(root, horizon=longest)

    def _longer(self, before: float, wait: float) -> None:
        """Find the horizon of a longer wait, if possible from the same runs analysed after both waits.

        Runs of one horizon are the same for every wait, so the difference has no Monte Carlo error.
        """
        root, proxy = self.roots[before], self.runner.proxy
        horizon = min(max(round(root.horizon), self._least), self.most) if math.isfinite(root.horizon) else self.most
        half = max(horizon // 2, self._least)
        if root.reached and half < horizon:
            gaps = [
                proxy.gap(self.runner.rough(h, w)[1]) for h, w in ((half, before), (horizon, before), (horizon, wait))
            ]
            slope = (gaps[1] - gaps[0]) / math.log(horizon / half)
            if all(map(math.isfinite, gaps)) and slope > FLATTEST and abs(gaps[2] - gaps[1]) < _NEARLY_LINEAR * slope:
                self.roots[wait] = Root(root.horizon * math.exp((gaps[1] - gaps[2]) / slope), reached=True)
                return
        self._root(wait, horizon)

    def _refined(self, root: Root, wait: float) -> tuple[Root, float]:
        """Return the root from the final number of runs, and the standard error of its logarithm."""
        runner, goal = self.runner, self.runner.goal

        def rough(horizon: int) -> Point:
            return runner.rough(horizon, wait, goal.rough_runs)[0]

        if goal != runner.proxy:
            root = solve(rough, goal, min(root.horizon, self.most), self._least, self.most)
        if not root.reached:
            return root, math.nan
        needed, slope, error = root.horizon, self._slope(rough, root.horizon), math.nan
        for _ in range(_REFINEMENTS):
            horizon = min(max(round(needed), self._least), self.most)
            single = goal.gap_error(rough(horizon)) * math.sqrt(rough(horizon).replications)
            enough = (single / (slope * _PRECISION)) ** 2
            runs = runner.runs(horizon, enough if math.isfinite(enough) else math.inf, _LAST_BUDGET)
            point = runner.measure(horizon, wait, runs)[0]
            gap, error = goal.gap(point), goal.gap_error(point) / slope
            has_value = math.isfinite(gap)  # else there is no distance, only a direction
            move = min(max(-gap / slope, -0.5), 0.5) if has_value else _STEP
            floor = max(self._least, self._without_value(wait) + 1)
            needed = min(max(horizon * math.exp(move), floor), self.most)
            if has_value and needed == floor and horizon < floor * math.exp(_STEP):
                needed = horizon
            if needed == self.most or (has_value and (abs(move) <= max(_STEP, error) or needed == horizon)):
                break
        return Root(needed, reached=needed < self.most or gap >= 0), error

    def _without_value(self, wait: float) -> int:
        """Return the longest horizon so far at which too many experiments have no interval; 0 without any."""
        goal = self.runner.goal
        known = (point for (_, waited), (point, _) in self.runner.points.items() if waited == wait)
        return max((point.horizon for point in known if math.isinf(goal.gap(point))), default=0)

    def _slope(self, rough: Callable[[int], Point], horizon: float) -> float:
        """Simulate the curve around a horizon, and return the slope of the goal's scale there."""
        lengths = {round(multiple * horizon) for multiple in _CURVE_MULTIPLES}
        gaps = {h: self.runner.goal.gap(rough(h)) for h in sorted(lengths) if self._least <= h <= self.most}
        gaps[round(horizon)] = self.runner.goal.gap(rough(round(horizon)))
        near = {h: gap for h, gap in gaps.items() if h > 0.4 * horizon and math.isfinite(gap)}
        if len(near) < 2:
            return DEFAULT_SLOPE
        slope = (near[max(near)] - near[min(near)]) / math.log(max(near) / min(near))
        return min(max(slope, FLATTEST), STEEPEST)
