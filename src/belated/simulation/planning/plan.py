"""`plan`: how long an experiment must run, and how long to wait, found by simulation."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from belated.base.checks import fraction, one_of, positive, real, whole
from belated.base.errors import OptionError, argument, without_warnings
from belated.base.progress import Bar
from belated.base.tables import Column
from belated.base.text import one_line, shown
from belated.estimation.estimate import estimate
from belated.estimation.estimators import ESTIMATORS, EstimatorName, default_estimator, default_for
from belated.estimation.intervals import INTERVALS, Interval
from belated.estimation.target import Target, default_pairs
from belated.log.data import Data
from belated.simulation.bandits import Bandit
from belated.simulation.contextual import AnyBandit, ContextualBandit
from belated.simulation.planning.goals import read_goal
from belated.simulation.planning.pilots import Pilot, pilot
from belated.simulation.planning.planner import LEAST_RUNS, USUAL_SIMULATIONS, Planner, Runner, arm_delays
from belated.simulation.planning.results import Plan
from belated.simulation.policies import Policy
from belated.simulation.simulate import check, check_horizon
from belated.simulation.views import TargetLike, is_binary, read_known_target, true_distance


def plan(  # noqa: PLR0913
    bandit: AnyBandit | Pilot | Data,
    policy: Policy | None = None,
    target: TargetLike = None,
    *,
    half_width: float | None = None,
    power: float | None = None,
    assurance: float | None = None,
    null: float = 0.0,
    level: float = 0.95,
    interval: Interval = "auto",
    estimator: EstimatorName | None = None,
    wait: float | Literal["full"] | None = None,
    patience: float = 10.0,
    maturing: bool = True,
    max_horizon: int = 1_000_000,
    per_day: float | None = None,
    replications: int = 4000,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | None = None,
) -> Plan:
    """Find how many assignments an experiment needs, and how long to wait after the last one.

    Parameters
    ----------
    bandit : Bandit, ContextualBandit, Pilot, Log or Source
        The bandit to simulate; or the log of a pilot, to which `pilot` fits a bandit.
    policy : Policy, optional
        The policy to simulate. Required unless there is a pilot, whose mean probabilities are then used as a fixed
        policy.
    target : optional
        A pair (arm, baseline) for a contrast, an arm, a mapping from arms to coefficients, or one of the targets by
        segment of `study`. By default the second of two arms minus the first.
    half_width : float, optional
        The goal: the mean half-width of the target's interval.
    power : float, optional
        Instead of `half_width`: the probability that the interval excludes `null` on the side of the true value.
    assurance : float, optional
        With `half_width`: the share of experiments that must reach it, instead of the mean.
    null : float, default 0
        The null value for `power`.
    level, interval, estimator
        As in `estimate`; the estimator is "daipw" by default, and "dipw" for events whose windows are open.
    wait : float or "full", optional
        Steps from the last assignment to the analysis; "full" waits for every outcome that ever arrives. By default as
        long as waiting saves assignments, see `patience`.
    patience : float
        The number of steps that you would wait to save one assignment; 1 gives the earliest result.
    maturing : bool
        If arms are events: whether rows count whose window is open. If not, only closed windows count.
    max_horizon : int
        The longest simulated experiment, in assignments.
    per_day : float, optional
        Assignments per day, to show steps as days; by default that of the pilot, if it has dates.
    replications : int
        The largest number of simulated experiments at the final horizon; fewer if its error is below 1 %.
    seed : int
    workers : int, optional
        The number of threads; by default one per core.
    progress : bool, optional
        Whether to show progress on stderr; by default only on a terminal.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.normal(0), "B": bl.arms.normal(0.3)}, bl.delays.constant(100))
    >>> plan = bl.plan(bandit, bl.policies.uniform(), ("B", "A"), half_width=0.1)
    >>> 1500 < plan.horizon < 1600, plan.wait
    (True, 100.0)
    """
    source = _source(bandit, policy, per_day)
    check(source.bandit, source.policy)
    wanted = _target(source.bandit, target)
    unit = wanted.unit("percent" if is_binary(source.bandit) else "number")
    runs = whole("replications", replications, least=LEAST_RUNS)
    goal = read_goal(
        half_width, power, assurance, real("null", null), fraction("level", level), replications=runs, unit=unit
    )
    daily = None if source.per_day is None else positive("per_day", source.per_day)
    if real("patience", patience) < 1:
        raise OptionError(f"{argument('patience')} is {shown(patience)}; it must be 1 or more (steps per assignment).")
    most = check_horizon("max_horizon", max_horizon)
    maturing = bool(maturing) and source.bandit.window is not None
    distance = true_distance(source.bandit, wanted, goal.null)
    notes = source.notes
    if target is None:
        notes += (f"No target was given; this plan is for {one_line(wanted.name)}, the second arm minus the first.",)
    goal.check_distance(distance, wanted.name)
    if goal.depends_on_truth and source.pilot is not None:
        notes += (f"The {goal.words} is for {_pilots_own(source.pilot, wanted, level)}.",)
    runner = Runner(
        bandit=source.bandit,
        policy=source.policy,
        target=wanted,
        goal=goal,
        proxy=goal.proxy(distance),
        interval=one_of("interval", interval, INTERVALS),
        estimator=one_of("estimator", estimator or default_for(maturing=maturing), ESTIMATORS),
        maturing=maturing,
        seed=whole("seed", seed, least=0),
        replications=runs,
        workers=workers,
        bar=Bar(USUAL_SIMULATIONS) if (sys.stderr.isatty() if progress is None else progress) else None,
    )
    planner = Planner(runner=runner, most=most, patience=float(patience), fixed=_wait(wait, source.bandit, wanted))
    try:
        return planner.plan(daily, notes)
    finally:
        if runner.bar:
            runner.bar.clear()


@dataclass(frozen=True)
class _Source:
    """The planned experiment, and the pilot it was fitted to, if any."""

    bandit: AnyBandit
    policy: Policy
    per_day: float | None
    notes: tuple[str, ...] = ()
    pilot: Pilot | None = None


def _source(given: AnyBandit | Pilot | Data, policy: Policy | None, per_day: float | None) -> _Source:
    """Return the experiment to plan; without a policy, that of the pilot is used."""
    fitted = pilot(given, per_day=per_day) if isinstance(given, Data) else given
    if not isinstance(fitted, Pilot):
        if not isinstance(fitted, (Bandit, ContextualBandit)):
            must = "it must be a Bandit, a ContextualBandit, or a pilot, Log or table from `read`"
            raise OptionError(f"{argument('bandit')} is {shown(fitted)}; {must}.")
        if policy is None:
            raise OptionError(f"{argument('policy')} is missing; a plan needs one, such as policies.epsilon_greedy().")
        return _Source(bandit=fitted, policy=policy, per_day=per_day)
    notes = [
        *fitted.notes,
        "The range of horizons has only the error of the simulation, not the sampling error of the pilot.",
    ]
    if policy is None:
        shares = ", ".join(f"{one_line(arm)} {p:.1%}" for arm, p in (fitted.policy.shares or {}).items())
        notes.append(f"The policy is fixed at the mean probabilities of the second half of the pilot: {shares}.")
    return _Source(
        bandit=fitted.bandit,
        policy=fitted.policy if policy is None else policy,
        per_day=fitted.per_day if per_day is None else per_day,
        notes=tuple(notes),
        pilot=fitted,
    )


def _target(bandit: AnyBandit, target: TargetLike) -> Target:
    labels = list(bandit.arms)
    if target is None:
        if len(labels) != 2:
            known = ", ".join(map(repr, labels))
            raise OptionError(f"{argument('target')} is missing; give one of the arms {known}, or two to compare.")
        (target,) = default_pairs(labels)
    return read_known_target(bandit, target, option="target")


def read_wait(given: float | str) -> float | Literal["full"]:
    """Return a number of steps or "full"; raise if a wait is neither."""
    if given == "full":
        return "full"
    if isinstance(given, str) or real("wait", given) < 0:
        raise OptionError(f"{argument('wait')} is {shown(given)}; it must be a number of steps, 0 or more, or 'full'.")
    return float(given)


def _wait(given: float | str | None, bandit: AnyBandit, target: Target) -> float | None:
    steps = None if given is None else read_wait(given)
    return max(arm_delays(bandit, target, 1.0)) if steps == "full" else steps


def _pilots_own(fitted: Pilot, target: Target, level: float) -> str:
    """Return the pilot's estimate of the target in words."""
    log = fitted.log
    coefficients = {arm: c for arm, c in zip(fitted.arms, target.coefficients, strict=True) if c}
    with without_warnings():
        own = estimate(log, default_estimator(log), level=level).linear(coefficients)
    true = sum(c * fitted.bandit.means[arm] for arm, c in coefficients.items())
    value = Column("", [true], "estimate", [own.std_error], unit=own.unit).texts()[0]
    low, high = Column("", [own.low, own.high], "limit", [own.std_error] * 2, unit=own.unit).texts()
    return f"the pilot's estimate of {one_line(target.name)}, {value}, which is itself uncertain ({low} to {high})"
