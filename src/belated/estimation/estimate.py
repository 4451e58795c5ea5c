"""`estimate` and its result `Estimate`: every arm's mean, with methods for contrasts, lifts and policies."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, overload

import numpy as np

from belated.base.checks import fraction, one_of
from belated.base.columns import ByArm, ColumnLike, Label, TableLike
from belated.base.errors import BelatedWarning, OptionError, argument
from belated.base.multiplicity import joint_p_value, joint_tail
from belated.estimation.answers import Answer, Contrasts
from belated.estimation.arm_means import ArmMeans
from belated.estimation.estimators import (
    Estimator,
    EstimatorName,
    Normalisation,
    check_propensities,
    default_estimator,
    read_estimator,
)
from belated.estimation.intervals import (
    ALTERNATIVES,
    INTERVALS,
    Alternative,
    Interval,
    resolve_interval,
)
from belated.estimation.ledger import Ledger
from belated.estimation.lift import Lift, find_lift
from belated.estimation.standardised import Population
from belated.estimation.target import Pair, PolicyLike, Target, default_pairs
from belated.log.data import Data, require_data
from belated.log.durations import WindowLike
from belated.log.labels import arm_index
from belated.summaries.maturing import Age
from belated.summaries.outcome_models import ModelLike
from belated.summaries.sums import Sums
from belated.summaries.weights import WeightsLike, read_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from belated.estimation.best import Best
    from belated.estimation.buildup import Buildup, Windows
    from belated.estimation.by_segment import Heterogeneity


@overload
def estimate(
    log: Data | Sums | Ledger,
    estimator: EstimatorName | Estimator | None = None,
    *,
    weights: WeightsLike | None = None,
    outcome_model: ModelLike | None = None,
    normalisation: Normalisation | None = None,
    level: float = 0.95,
    interval: Interval = "auto",
    cap: float | None = None,
    arrival_probability: ColumnLike | str | None = None,
    target: None = None,
) -> Estimate: ...


@overload
def estimate(
    log: Data,
    *,
    weights: WeightsLike | None = None,
    level: float = 0.95,
    interval: Interval = "auto",
    cap: float | None = None,
    arrival_probability: ColumnLike | str | None = None,
    target: ColumnLike | TableLike | str,
) -> Answer: ...


def estimate(  # noqa: PLR0913
    log: Data | Sums | Ledger,
    estimator: EstimatorName | Estimator | None = None,
    *,
    weights: WeightsLike | None = None,
    outcome_model: ModelLike | None = None,
    normalisation: Normalisation | None = None,
    level: float = 0.95,
    interval: Interval = "auto",
    cap: float | None = None,
    arrival_probability: ColumnLike | str | None = None,
    target: ColumnLike | TableLike | str | None = None,
) -> Estimate | Answer:
    """Estimate every arm's mean outcome from an experiment with late and missing outcomes.

    Parameters
    ----------
    log : Log, Source, Sums or Ledger
        A log in memory, a table from `read`, sums, or a live ledger.
    estimator : str or Estimator, optional
        ``"daipw"``, ``"daipw_paper"``, ``"dipw"``, ``"mean"``, ``"hajek"``, ``"nh"``, ``"nh0"`` or ``"iad"``.
        By default ``"daipw"``, or ``"dipw"`` if only the chosen arm's propensity is known or windows of events may be
        open.
    weights, outcome_model, normalisation : optional
        Replace one component of the estimator; see `Weights`, `OutcomeModel` and `Estimator`.
    level : float, default 0.95
        The level of the intervals.
    interval : {"auto", "score", "t", "wilson", "normal"}
        ``"auto"`` is ``"score"``, which also holds for rare and skewed outcomes; it is ``"t"`` for estimators that are
        not normalised by 'hajek'. ``"wilson"`` needs 0/1 outcomes; ``"normal"`` is the paper's.
    cap : float, optional
        Outcomes above the cap count as the cap, and the estimate is the mean of the capped outcomes. By default, the
        cap of the log, if it has one.
    arrival_probability : array or str, optional
        The probability that each row's outcome ever arrives, if it depends on the unit: an array, or the name of a
        column of a table. Rows are weighted by its inverse.
    target : array of shape (rows, arms) or str, optional
        A policy that may look at the unit, given by its probability of every arm in every row; for a table, the pattern
        of its columns, such as ``"q_*"``. The answer is its mean outcome.

    Returns
    -------
    Estimate
        With segments, it is standardised to the log's own mix of segments. With `target`, an `Answer`.

    Examples
    --------
    >>> import belated as bl
    >>> log = bl.Log(["A", "B", "A", "B"], [1.0, 2.0, 3.0, 2.5], [[0.5, 0.5]] * 4)
    >>> bl.estimate(log, "dipw").contrast("B", "A").estimate
    0.25
    """
    if target is not None or arrival_probability is not None:
        log = require_data(log)
        log = log if arrival_probability is None else log.with_arrival(arrival_probability)
    if target is not None:
        if estimator is not None or outcome_model is not None or normalisation is not None:
            raise OptionError(f"{argument('target')} goes with {argument('weights')}, not with another estimator.")
        return _policy_value(require_data(log, cap), target, weights, fraction("level", level), interval)
    if estimator is None:
        estimator = default_estimator(log) if isinstance(log, Data) else "daipw"
    chosen = read_estimator(estimator, weights=weights, outcome_model=outcome_model, normalisation=normalisation)
    name, measure = "outcome", None
    if isinstance(log, Data):
        log = require_data(log, cap)
        check_propensities(chosen, known=log.has_all_propensities)
        sums = log.sums([chosen.parts], plain=chosen.needs_plain)[0][-1]
        as_of, name, measure = log.as_of_text, log.outcome_name, log.measure
        doubts = log.doubts_when_estimated(follows_units=chosen.weights.follow_units)
    elif cap is not None:
        raise OptionError(
            f"{argument('cap')} cannot be applied to sums, which hold no rows; give it when you make the sums."
        )
    else:
        sums, as_of, doubts = _checked_sums(log, chosen), None, []
    result = Estimate(
        sums=sums,
        estimator=chosen,
        level=fraction("level", level),
        interval=resolve_interval(one_of("interval", interval, INTERVALS), sums, chosen),
        as_of=as_of,
        outcome=name,
        unit=sums.unit_of(measure),
    )
    result.warn()
    for words in doubts:
        warnings.warn(words, BelatedWarning, stacklevel=2)
    return result


def _policy_value(log: Data, target: object, weights: WeightsLike | None, level: float, interval: Interval) -> Answer:
    """Return the mean outcome of a target policy."""
    from belated.estimation.off_policy import policy_value, read_target_policy

    rows, columns = log.with_target(target)
    default = "past" if rows.has_all_propensities else "uniform"
    return policy_value(
        rows,
        read_target_policy(columns, rows),
        read_weights(default if weights is None else weights),
        level=level,
        interval=one_of("interval", interval, INTERVALS),
    )


def _checked_sums(log: Sums | Ledger, estimator: Estimator) -> Sums:
    """Return the sums, or raise if the estimator cannot be computed from them."""
    sums = log.sums if isinstance(log, Ledger) else log
    if not isinstance(sums, Sums):
        raise OptionError(
            f"`log` is of type {type(log).__name__}; it must be a Log, a table from `read`, Sums or a Ledger."
        )
    if (sums.weights, sums.outcome_model) != estimator.parts:
        raise OptionError(
            f"These sums have weights {sums.weights.name!r} and outcome model {sums.outcome_model.name!r}; "
            f"the estimator {estimator.name!r} needs {estimator.weights.name!r} and {estimator.outcome_model.name!r}."
        )
    return sums


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Estimate(ArmMeans):
    """Every arm's estimated mean outcome; prints as a table. Methods give contrasts, lifts, policies and the best arm.

    Attributes
    ----------
    sums : Sums
        The sums from which everything is computed.
    estimator : Estimator
    level : float
        The level of the intervals.
    interval : str
        The kind of interval in use: "score", "t", "wilson" or "normal".
    as_of : str or None
        The time as of which the log was read.
    outcome : str
        The name of the outcome.
    unit : str
        The unit in which means are shown: "percent" if all outcomes are 0 or 1, else "number". Attributes and data
        formats hold the numbers themselves.
    population : Population or None
        The segments that answers are averaged over, by default the log's own mix; None if the log has none.
    """

    # ---------------------------------------------------------------- segments

    def segment(self, segment: Label) -> Estimate:
        """Return the estimate for one segment, which answers the same questions."""
        return self._with_population(Population.of_segment(self._population.labels, segment))

    def standardised(self, shares: ByArm[float]) -> Estimate:
        """Return the estimate for another population, given by the share of each segment."""
        return self._with_population(Population.given(self._population.labels, shares))

    def _with_population(self, population: Population) -> Estimate:
        return replace(self, population=population)

    def heterogeneity(self, arm: Label, baseline: Label) -> Heterogeneity:
        """Test whether the difference between two arms is the same in every segment, by Welch's test."""
        from belated.estimation.by_segment import find_heterogeneity

        return find_heterogeneity(self, arm, baseline)

    # ---------------------------------------------------------------- events

    def windows(self, windows: Sequence[WindowLike | Age]) -> Windows:
        """Return the estimates for several windows, such as ``["1d", "7d", "30d"]``."""
        from belated.estimation.buildup import estimates_within

        return estimates_within(self, windows)

    def buildup(self, points: int = 40) -> Buildup:
        """Return how each arm's mean builds up after the assignment, with an interval for each of several ages."""
        from belated.estimation.buildup import find_buildup

        return find_buildup(self, points)

    # ---------------------------------------------------------------- questions

    def contrast(self, arm: Label, baseline: Label, *, alternative: Alternative = "two-sided") -> Answer:
        """Return the estimate, interval and test of one arm's mean minus another's."""
        return self._answer(Target.contrast(self.arms, arm, baseline), alternative)

    def lift(self, arm: Label, baseline: Label, *, alternative: Alternative = "two-sided") -> Lift:
        """Return the relative difference from a baseline, (arm - baseline) / |baseline|.

        Its p-value is that of the contrast, and its interval excludes 0 exactly when the contrast's does. If the
        baseline does not differ significantly from 0, the lift has no bounds, and `why` explains it.

        Examples
        --------
        >>> import belated as bl
        >>> log = bl.simulate(bl.Bandit({"A": bl.arms.normal(5.0), "B": bl.arms.normal(6.0)}),
        ...                   bl.policies.uniform(), 400, seed=1)
        >>> round(bl.estimate(log).lift("B", "A").estimate, 1)
        0.2
        """
        answer = self.contrast(arm, baseline, alternative=alternative)
        tail = (1 - self.level) / 2 if alternative == "two-sided" else 1 - self.level
        return self._lift(answer, (arm, baseline), tail)

    def _lift(self, answer: Answer, pair: Pair, tail: float) -> Lift:
        numbers = (arm_index(self.arms, pair[0]), arm_index(self.arms, pair[1]))
        return find_lift(self.combination, self.arms, answer, pair=numbers, tail=tail)

    def policy(self, policy: PolicyLike | str, *, alternative: Alternative = "two-sided") -> Answer:
        """Return the estimate, interval and test of the mean outcome under a policy, given as a probability per arm.

        Parameters
        ----------
        policy : dict or "greedy"
            A probability for each arm; or, by segment, an arm or such probabilities:
            ``{"DE": "B", "FR": {"A": 0.2, "B": 0.8}}``. ``"greedy"`` always chooses the arm with the largest estimate,
            of each segment if there are segments; its interval is adjusted for that choice.
        alternative : {"two-sided", "greater", "less"}
        """
        from belated.estimation.by_segment import greedy_by_segment, is_by_segment, policy_by_segment

        if isinstance(policy, str) and policy == "greedy":
            if one_of("alternative", alternative, ALTERNATIVES) != "two-sided":
                raise OptionError("The interval of the greedy policy is two-sided; `alternative` must be 'two-sided'.")
            several = self.population is not None and not self.population.is_one
            return greedy_by_segment(self) if several else self.best().answer
        if not isinstance(policy, str) and is_by_segment(policy, self.segments, self.arms):
            return self._answer(policy_by_segment(self.arms, self.segments, policy), alternative)
        return self._answer(Target.policy(self.arms, policy), alternative)

    def linear(self, coefficients: ByArm[float], *, alternative: Alternative = "two-sided") -> Answer:
        """Return the estimate, interval and test of a linear combination of the arms' means."""
        return self._answer(Target.linear(self.arms, coefficients), alternative)

    def contrasts(
        self,
        baseline: Label | None = None,
        *,
        simultaneous: bool = False,
        lift: bool = False,
        largest: bool = True,
        by: Literal["segment"] | None = None,
    ) -> Contrasts:
        """Return the contrasts of every arm with a baseline, or of all pairs if there is none.

        Parameters
        ----------
        baseline : optional
            The arm to compare with. ``"best"``, unless an arm has that name, compares every arm with the best of the
            others by Hsu's method, which is always simultaneous because the data decide which arm is best.
        simultaneous : bool, default False
            If True, all intervals cover together at the level, and p-values are adjusted: by Dunnett's method against
            a baseline, by Sidak's for all pairs. Arms without an interval do not count.
        lift : bool, default False
            If True, each contrast also has its relative difference in `lift`, at the same joint level.
        largest : bool, default True
            For the baseline ``"best"``: whether the best arm is the one with the largest mean.
        by : "segment", optional
            The contrasts in every segment. With `simultaneous`, they cover together in all segments.
        """
        if by is not None:
            from belated.estimation.by_segment import contrasts_by_segment

            one_of("by", by, ("segment",))

            def ask(own: Estimate) -> Contrasts:
                return own.contrasts(baseline, simultaneous=simultaneous, lift=lift, largest=largest)

            return contrasts_by_segment(self, ask, simultaneous=simultaneous)
        if isinstance(baseline, str) and baseline == "best" and baseline not in self.arms:
            if lift:
                raise OptionError("`lift` is True, which needs a baseline that is an arm, or no baseline.")
            from belated.estimation.best import answers_against_best

            return replace(self._contrasts(answers_against_best(self, largest), True), against_best=True)
        base = None if baseline is None else self.arms[arm_index(self.arms, baseline)]
        pairs = default_pairs(self.arms, base)
        if not pairs:
            raise OptionError("Contrasts need at least two arms.")
        return self.contrasts_of(pairs, simultaneous=simultaneous, lift=lift)

    def contrasts_of(
        self,
        pairs: Sequence[Pair],
        *,
        simultaneous: bool = False,
        lift: bool = False,
        by: Literal["segment"] | None = None,
    ) -> Contrasts:
        """Return the contrasts of pairs of arms, first minus second; the options are those of `contrasts`."""
        if by is not None:
            from belated.estimation.by_segment import contrasts_by_segment

            def ask(own: Estimate) -> Contrasts:
                return own.contrasts_of(pairs, simultaneous=simultaneous, lift=lift)

            return contrasts_by_segment(self, ask, simultaneous=simultaneous)
        answers, tail = [self.contrast(arm, other) for arm, other in pairs], (1 - self.level) / 2
        if simultaneous:
            answers, tail = self._jointly(answers, pairs)
        if lift:
            answers = [replace(a, lift=self._lift(a, pair, tail)) for a, pair in zip(answers, pairs, strict=True)]
        return self._contrasts(answers, simultaneous)

    def _contrasts(self, answers: list[Answer], simultaneous: bool) -> Contrasts:
        return Contrasts(
            answers=tuple(answers),
            estimator=self.estimator.name,
            interval=self.interval,
            level=self.level,
            simultaneous=simultaneous,
            cap=self.cap,
        )

    def _jointly(self, answers: list[Answer], pairs: Sequence[Pair]) -> tuple[list[Answer], float]:
        """Widen intervals so that they cover together, and return the tail probability of each.

        Contrasts with the same second arm are correlated through it; Dunnett's method applies.
        """
        live = [i for i, answer in enumerate(answers) if not math.isnan(answer.low)]
        if not live:
            return answers, (1 - self.level) / 2
        bases = {arm_index(self.arms, pairs[i][1]) for i in live}
        errors = np.array([self.std_errors[arm_index(self.arms, pairs[i][0])] for i in live])
        shared = float(self.std_errors[bases.pop()]) if len(bases) == 1 else None
        tail = joint_tail(errors, shared, (1 - self.level) / 2)
        for i in live:
            low, high = map(float, answers[i].combination.limits(tail))
            tested = answers[i].statistic, joint_p_value(errors, shared, answers[i].p_value)
            answers[i] = replace(answers[i], low=low, high=high, tested=tested, joint=True)
        return answers, tail

    def best(self, *, level: float | None = None, largest: bool = True) -> Best:
        """Return the arm with the largest estimate, with an interval for its mean adjusted for that selection.

        Parameters
        ----------
        level : float, optional
            The level of the intervals and of the set of contenders; by default that of the estimate.
        largest : bool, default True
            Whether large outcomes are good; if False, the best arm is the one with the smallest estimate.

        Examples
        --------
        >>> import belated as bl
        >>> bandit = bl.Bandit({"A": bl.arms.normal(0.0), "B": bl.arms.normal(0.1), "C": bl.arms.normal(0.6)})
        >>> best = bl.estimate(bl.simulate(bandit, bl.policies.uniform(), 600, seed=1)).best()
        >>> best.arm, best.contenders
        ('C', ('C',))
        """
        from belated.estimation.best import find_best

        return find_best(self, self.level if level is None else fraction("level", level), largest)

    # ---------------------------------------------------------------- display

    def plot(self) -> Figure:
        """Draw every arm's mean with its interval; a matplotlib figure, which notebooks show."""
        from belated.estimation.figures import estimate_figure

        return estimate_figure(self)
