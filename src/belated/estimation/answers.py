"""Estimate and Answer: what a log says about arms, contrasts and policies."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from belated.base.checks import fraction, one_of, real
from belated.base.columns import Array
from belated.base.errors import BelatedWarning, OptionError
from belated.base.tables import Column, Kind, Table
from belated.base.text import count, one_line, percent
from belated.estimation.estimators import (
    ArmStatistics,
    Estimator,
    check_propensities,
    evaluate,
    observed_share,
    read_estimator,
)
from belated.estimation.intervals import (
    ALTERNATIVES,
    INTERVALS,
    Combination,
    are_skewed,
    combine,
    joint_p_value,
    joint_tail,
)
from belated.estimation.ledger import Ledger
from belated.estimation.pairs import default_pairs
from belated.estimation.target import Target
from belated.estimation.winner import Limits, LimitsAt, Rivalry, sidak, winner
from belated.log.data import Data
from belated.log.log import arm_index
from belated.summaries.single_value import single_value, single_value_words
from belated.summaries.sums import Sums


def estimate(
    log: Data | Sums | Ledger,
    estimator: str | Estimator = "daipw",
    *,
    weights: Any = None,
    outcome_model: Any = None,
    normalisation: str | None = None,
    level: float = 0.95,
    interval: str = "auto",
) -> Estimate:
    """Estimate every arm's mean outcome from an experiment with late and missing outcomes.

    Parameters
    ----------
    log : Log, what `read` gives, Sums or Ledger
    estimator : str or Estimator
        ``"daipw"`` (the paper's, the default), ``"dipw"``, ``"mean"``, ``"hajek"``, ``"nh"``,
        ``"nh0"`` or ``"iad"``.
    weights, outcome_model, normalisation : optional
        Replace one axis of the estimator; see `Weights`, `OutcomeModel` and `Estimator`.
    level : float
        Of the intervals.
    interval : {"auto", "normal", "t", "skew", "wilson"}
        ``"normal"`` is the paper's; ``"auto"`` is the one that covers: wilson if every outcome
        is 0 or 1, skew if an arm's outcomes are skewed, otherwise t.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import belated as bl
    >>> log = bl.Log(["A", "B", "A", "B"], [1.0, 2.0, 3.0, 2.5], [[0.5, 0.5]] * 4)
    >>> bl.estimate(log, "dipw").contrast("B", "A").estimate
    0.25
    """
    chosen = read_estimator(estimator, weights=weights, outcome_model=outcome_model, normalisation=normalisation)
    sums = _sums(log, chosen)
    result = Estimate(
        sums,
        chosen,
        fraction("level", level),
        interval_kind(one_of("interval", interval, INTERVALS), sums, chosen),
        log.as_of_text if isinstance(log, Data) else None,
    )
    result.warn()
    for words in log.doubts_when_estimated() if isinstance(log, Data) else ():
        warnings.warn(words, BelatedWarning, stacklevel=2)
    return result


def _sums(log: Data | Sums | Ledger, estimator: Estimator) -> Sums:
    if isinstance(log, Data):
        check_propensities(estimator, known=log.has_all_propensities)
        return log.sums([estimator.parts], plain=estimator.normalisation != "hajek")[0][-1]
    sums = log.sums if isinstance(log, Ledger) else log
    if not isinstance(sums, Sums):
        raise OptionError(f"`log` is a {type(log).__name__}; it must be a Log, what `read` gives, Sums or Ledger.")
    if (sums.weights, sums.outcome_model) != estimator.parts:
        raise OptionError(
            f"These sums were made with weights {sums.weights.name!r} and outcome model {sums.outcome_model.name!r}; "
            f"the estimator {estimator.name!r} needs {estimator.weights.name!r} and {estimator.outcome_model.name!r}."
        )
    return sums


def interval_kind(interval: str, sums: Sums, estimator: Estimator) -> str:
    """Return the kind of interval to use, resolving "auto"."""
    binary, hajek = bool((sums["nonbinary"] == 0).all()), estimator.normalisation == "hajek"
    if interval == "wilson" and not binary:
        raise OptionError("`interval` is 'wilson', which needs outcomes that are 0 or 1; 't' does not.")
    if interval in ("wilson", "skew") and not hajek:
        raise OptionError(f"`interval` is {interval!r}, which needs an estimator normalised by 'hajek'; 't' does not.")
    if interval != "auto":
        return interval
    if not hajek:
        return "t"
    return "wilson" if binary else "skew" if are_skewed(evaluate(sums, estimator)) else "t"


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Table):
    """Every arm's estimated mean outcome; later questions are methods.

    Attributes
    ----------
    sums : Sums
    estimator : Estimator
    level : float
    interval : str
        The kind of interval in use: "normal", "t", "skew" or "wilson".
    as_of : str or None
        The moment the log was looked at.
    """

    sums: Sums
    estimator: Estimator
    level: float
    interval: str
    as_of: str | None = None

    # ---------------------------------------------------------------- per arm

    @property
    def arms(self) -> tuple[Any, ...]:
        """The arms' labels."""
        return self.sums.arms

    @cached_property
    def statistics(self) -> ArmStatistics:
        """What the formulas give, by arm; no variances if outcomes seem to be recorded only when they happen."""
        found = evaluate(self.sums, self.estimator)
        if single_value(self.sums) is None:
            return found
        unknown = np.full(len(self.arms), math.nan)
        robust = None if found.robust is None else unknown
        return replace(found, variance=unknown, robust=robust, arrived=np.minimum(found.arrived, 1))

    @property
    def values(self) -> Array:
        """The arms' estimates."""
        return self.statistics.value

    @property
    def variances(self) -> Array:
        """The paper's variances V(a)."""
        return self.statistics.variance

    @cached_property
    def std_errors(self) -> Array:
        """The arms' standard errors, those that the intervals use."""
        return self._alone.std_error

    @cached_property
    def _alone(self) -> Combination:
        """Every arm by itself, all at once."""
        return combine(self.statistics.reshaped((len(self.arms), 1)), np.ones(1), self.interval)

    @property
    def observed_share(self) -> Array:
        """The estimated share of each arm's outcomes that come."""
        return observed_share(self.sums)

    @property
    def effective_size(self) -> Array:
        """Kish's effective number of arrived outcomes, by arm."""
        return self.statistics.effective_size

    # ---------------------------------------------------------------- questions

    def arm(self, arm: Any, *, alternative: str = "two-sided") -> Answer:
        """Return the answer for one arm's mean."""
        return self._answer(Target.arm(self.arms, arm), alternative)

    def contrast(self, arm: Any, baseline: Any, *, alternative: str = "two-sided") -> Answer:
        """Return the answer for one arm's mean minus another's."""
        return self._answer(Target.contrast(self.arms, arm, baseline), alternative)

    def policy(self, policy: Mapping[Any, float] | str, *, alternative: str = "two-sided") -> Answer:
        """Return the answer for the mean outcome of a policy, a probability for each arm.

        ``"greedy"`` is the policy that the experiment taught, to choose the arm with the largest estimate: its
        interval allows for that choice (see `best`).
        """
        if isinstance(policy, str) and policy == "greedy":
            if one_of("alternative", alternative, ALTERNATIVES) != "two-sided":
                raise OptionError("The greedy policy's interval has two sides; `alternative` must be 'two-sided'.")
            return self.best().answer
        return self._answer(Target.policy(self.arms, policy), alternative)

    def linear(self, coefficients: Mapping[Any, float], *, alternative: str = "two-sided") -> Answer:
        """Return the answer for any linear combination of the arms' means."""
        return self._answer(Target.linear(self.arms, coefficients), alternative)

    def contrasts(self, baseline: Any = None, *, simultaneous: bool = False, largest: bool = True) -> Contrasts:
        """Return every arm's contrast against a baseline, or all pairs if there is none.

        With `simultaneous`, all intervals hold together at the level, and p-values are adjusted:
        by Dunnett's method against a baseline, by Sidak's for all pairs. Arms without an interval
        are left out of the count.

        The baseline ``"best"``, unless an arm is called that, compares every arm with the best of the others, by Hsu's
        method: always simultaneous, as data say which that is. The best is the largest, or the smallest unless
        `largest`.
        """
        if isinstance(baseline, str) and baseline == "best" and baseline not in self.arms:
            return self._against_best(largest)
        base = None if baseline is None else self.arms[arm_index(self.arms, baseline)]
        pairs = default_pairs(self.arms, base)
        if not pairs:
            raise OptionError("Contrasts need at least two arms.")
        answers = [self.contrast(arm, other) for arm, other in pairs]
        if simultaneous:
            answers = self._jointly(answers, pairs, baseline)
        return Contrasts(tuple(answers), self.estimator.name, self.interval, self.level, simultaneous)

    def _jointly(self, answers: list[Answer], pairs: list[tuple[Any, Any]], baseline: Any) -> list[Answer]:
        """Widen answers so that those with an interval hold together."""
        live = [i for i, answer in enumerate(answers) if not math.isnan(answer.low)]
        if not live:
            return answers
        errors = np.array([self.std_errors[arm_index(self.arms, pairs[i][0])] for i in live])
        shared = None if baseline is None else float(self.std_errors[arm_index(self.arms, baseline)])
        tail = joint_tail(errors, shared, (1 - self.level) / 2)
        for i in live:
            low, high = map(float, answers[i].combination.limits(tail))
            p_value = joint_p_value(errors, shared, answers[i].p_value)
            answers[i] = replace(answers[i], low=low, high=high, p_value=p_value, joint=True)
        return answers

    def best(self, *, level: float | None = None, largest: bool = True) -> Best:
        """Return which arm has the largest estimate, and what is known of its mean although that chose it.

        Parameters
        ----------
        level : float, optional
            Of the intervals and of the set of contenders; default: the estimate's.
        largest : bool
            Whether large outcomes are good; if not, the best arm is the one with the smallest estimate.

        Examples
        --------
        >>> import belated as bl
        >>> bandit = bl.Bandit({"A": bl.arms.normal(0.0), "B": bl.arms.normal(0.1), "C": bl.arms.normal(0.6)})
        >>> best = bl.estimate(bl.simulate(bandit, bl.policies.uniform(), 600, seed=1)).best()
        >>> best.arm, best.contenders
        ('C', ('C',))
        """
        level = self.level if level is None else fraction("level", level)
        arms, values, limits, degrees = self._rivals(level, largest)
        found = winner(values, limits, degrees, level)
        rivalry = Rivalry.of(values, limits, degrees, level)
        index = int(arms[found.index])
        p_values = np.full(len(self.arms), math.nan)
        p_values[arms] = rivalry.not_best()
        possible = (0.0, 1.0) if self.interval == "wilson" else (-math.inf, math.inf)

        def seen(limits: Limits) -> Limits:
            low, high = np.clip(_turned(limits, largest), *possible)
            return Limits(float(low), float(high))

        return Best(
            self.arms[index],
            float(self.values[index]),
            float(self.std_errors[index]),
            seen(Limits(found.median, found.median)).low,
            seen(found.simultaneous),
            seen(found.conditional),
            seen(found.simultaneous if found.near_tie else found.hybrid),
            bool(found.near_tie),
            rivalry.winner_not_best(),
            dict(zip(self.arms, p_values.tolist(), strict=True)),
            level,
            largest,
            self,
        )

    def _rivals(self, level: float, largest: bool) -> tuple[Array, Array, LimitsAt, Array]:
        """Return the arms with an interval, their values, limits by tail and degrees; turned round if small is best."""
        alone, sign = self._alone, 1.0 if largest else -1.0
        arms = np.flatnonzero(np.isfinite(alone.limits((1 - level) / 2)).all(axis=0))
        if not len(arms):
            raise OptionError(
                "No arm has an interval, so none can be called the best; each needs two arrived outcomes."
            )
        values = np.clip(self.values, 0.0, 1.0) if self.interval == "wilson" else self.values
        degrees = np.full(len(arms), np.inf) if self.interval == "normal" else alone.degrees[arms, 0]

        @cache
        def limits(tail: float) -> tuple[Array, Array]:
            low, high = alone.limits(tail)
            return _turned(Limits(low[arms], high[arms]), largest)

        return arms, sign * values[arms], limits, degrees

    def _against_best(self, largest: bool) -> Contrasts:
        """Return every arm's contrast with the best of the others."""
        arms, values, limits, degrees = self._rivals(self.level, largest)
        if len(arms) < 2:
            raise OptionError("Contrasts with the best need at least two arms that have an interval.")
        rivalry = Rivalry.of(values, limits, degrees, self.level)
        low, high = _turned(rivalry.against_best(self.level), largest)
        p_values = rivalry.not_best()
        first, second = np.argsort(-values, kind="stable")[:2]
        p_values[first] = rivalry.winner_not_best()
        place = {int(k): i for i, k in enumerate(arms)}
        answers = []
        for k, arm in enumerate(self.arms):
            other = self.arms[arms[second if place.get(k) == first else first]]
            answer = replace(self.contrast(arm, other), name=f"{one_line(arm)} - best other", joint=True)
            if k in place:
                i = place[k]
                answer = replace(answer, low=float(low[i]), high=float(high[i]), p_value=float(p_values[i]))
            answers.append(answer)
        return Contrasts(tuple(answers), self.estimator.name, self.interval, self.level, True)

    def _answer(self, target: Target, alternative: str) -> Answer:
        return make_answer(
            target.name,
            combine(self.statistics, target.coefficients, self.interval),
            self.level,
            0.0,
            one_of("alternative", alternative, ALTERNATIVES),
        )

    @cached_property
    def arm_answers(self) -> list[Answer]:
        """The arms' answers, in order."""
        return [self.arm(arm) for arm in self.arms]

    # ---------------------------------------------------------------- display

    def warn(self) -> None:
        """Warn which arms have no answer, no interval or no variance."""
        seen, constant = self.sums["arrived"], self.statistics.constant
        value = single_value(self.sums)
        if value is not None:
            words = single_value_words(value, 1 - seen.sum() / self.sums["assigned"].sum())
            warnings.warn(words, BelatedWarning, stacklevel=3)
            return
        for chosen, before, after in (
            (seen == 0, "No outcome of", "has arrived: no answer, NaN."),
            ((self.sums["w"] == 0) & (seen > 0), "Every weight of", "is 0: no answer, NaN."),
            (seen == 1, "Only one outcome of", "has arrived: an estimate, but no interval."),
            (constant & (seen > 1), "All arrived outcomes of", "are equal: they show no variance."),
        ):
            names = [one_line(repr(arm)) for arm, is_one in zip(self.arms, chosen, strict=True) if is_one]
            if names:
                listed = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
                each = f"arm {listed}" if len(names) == 1 else f"each of the arms {listed}"
                warnings.warn(f"{before} {each} {after}", BelatedWarning, stacklevel=3)

    def _notes(self) -> list[str]:
        moved = np.abs(self.statistics.augmentation)
        robust = self.statistics.robust
        far = np.zeros(len(self.arms), dtype=bool) if robust is None else 2 * moved**2 > robust
        names = [one_line(repr(arm)) for arm, is_far in zip(self.arms, far, strict=True) if is_far]
        if not names:
            return []
        listed = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
        return [
            f"Note: before any outcome has arrived the outcome model is 0, far from the outcomes of {listed}, and that "
            "makes up most of the uncertainty here; subtract a typical outcome beforehand, or use 'dipw'."
        ]

    def _title(self) -> str:
        rows = int(self.sums["assigned"].sum())
        as_of = f", as of {self.as_of}" if self.as_of else ""
        return f"{self.estimator.name}: {percent(self.level)} {self.interval} intervals, {count(rows, 'row')}{as_of}"

    def _columns(self) -> list[Column]:
        columns = [Column("arm", list(self.arms), "label"), *answer_columns(self.arm_answers, test=False)]
        columns.append(Column("assigned", self.sums["assigned"].astype(int).tolist(), "count"))
        columns.append(Column("arrived", self.sums["arrived"].astype(int).tolist(), "count"))
        if not np.isnan(self.sums["h"]).any():
            columns.append(Column("observed_share", self.observed_share.tolist(), "share"))
        columns.append(Column("effective_size", self.effective_size.tolist(), "count"))
        return columns


@dataclass(frozen=True)
class Answer(Table):
    """The answer to one question.

    Attributes
    ----------
    estimate, std_error : float
    low, high : float
        The interval; one-sided if the alternative is.
    level : float
    statistic, p_value : float
        Of the test against `null`.
    """

    name: str
    estimate: float
    std_error: float
    low: float
    high: float
    level: float
    statistic: float
    p_value: float
    interval: str
    null: float
    alternative: str
    combination: Combination = field(repr=False, compare=False)
    joint: bool = False

    def test(self, null: float = 0.0, alternative: str = "two-sided") -> Answer:
        """Return the answer with another null value or alternative."""
        return self._again(null=real("null", null), alternative=one_of("alternative", alternative, ALTERNATIVES))

    def at_level(self, level: float) -> Answer:
        """Return the answer with an interval of another level."""
        return self._again(level=fraction("level", level))

    def _again(self, **changes: Any) -> Answer:
        if self.joint:
            raise OptionError("This answer holds for several questions at once; ask each by itself to test it anew.")
        old = {"level": self.level, "null": self.null, "alternative": self.alternative}
        return make_answer(self.name, self.combination, **{**old, **changes})

    def __repr__(self) -> str:
        return self.to_text()

    def _title(self) -> str:
        test = f"test against {self.null:g} ({self.alternative})"
        return f"{self.name}: {percent(self.level)} {self.interval} interval, {test}"

    def _columns(self) -> list[Column]:
        return answer_columns([self], test=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer's parts by name."""
        names = ("name", "estimate", "std_error", "low", "high", "level", "statistic", "p_value", "null",
                 "alternative", "interval")  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def _data(self) -> dict[str, Any]:
        return {name: [value] for name, value in self.to_dict().items()}


def make_answer(name: str, combination: Combination, level: float, null: float, alternative: str) -> Answer:
    """Return the answer that a combination of arms gives."""
    statistic, below, above = combination.test(null)
    tail = (1 - level) / 2 if alternative == "two-sided" else 1 - level
    low, high = map(float, combination.limits(tail))
    p_value = {"two-sided": min(2 * min(below, above), 1.0), "greater": above, "less": below}[alternative]
    if alternative != "two-sided" and not math.isnan(low):
        low, high = (low, math.inf) if alternative == "greater" else (-math.inf, high)
    estimate, std_error = float(combination.estimate), float(combination.std_error)
    return Answer(
        name,
        estimate,
        std_error,
        low,
        high,
        level,
        statistic,
        p_value,
        combination.kind,
        null,
        alternative,
        combination,
    )


@dataclass(frozen=True, repr=False)
class Contrasts(Table):
    """Answers to several contrasts."""

    answers: tuple[Answer, ...]
    estimator: str
    interval: str
    level: float
    simultaneous: bool

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, i: int) -> Answer:
        return self.answers[i]

    def _title(self) -> str:
        kind = "simultaneous " if self.simultaneous else ""
        return f"{self.estimator}: {percent(self.level)} {kind}{self.interval} intervals"

    def _columns(self) -> list[Column]:
        names = [answer.name for answer in self.answers]
        return [Column("contrast", names, "label"), *answer_columns(list(self.answers), test=True)]


@dataclass(frozen=True, eq=False, repr=False)
class Best(Table):
    """The arm with the best estimate, what is known of its mean although it was chosen for it, and its rivals.

    Attributes
    ----------
    arm
        Which it is; the first of equals.
    estimate, std_error : float
        Its own, which the choice makes look better than it is.
    median_unbiased : float
        An estimate that is too high as often as too low, given the choice: the hybrid interval's middle.
    simultaneous, conditional, hybrid : (low, high)
        Intervals for its mean that hold whichever arm is chosen.
    near_tie : bool
        Whether its lead is less than a tenth of a standard error: the conditional interval then lies to one side of
        the estimate, as a hybrid one would, and the simultaneous one stands in for that.
    p_value : float
        Of the hypothesis that another arm is as good or better.
    p_values : dict
        By arm, of the hypothesis that it is the best; NaN for arms without an interval.
    level : float
    largest : bool
        Whether the best arm is that with the largest mean.
    """

    arm: Any
    estimate: float
    std_error: float
    median_unbiased: float
    simultaneous: Limits
    conditional: Limits
    hybrid: Limits
    near_tie: bool
    p_value: float
    p_values: dict[Any, float]
    level: float
    largest: bool
    source: Estimate

    @property
    def kind(self) -> str:
        """Which of the intervals is recommended: "hybrid", or near a tie "simultaneous"."""
        return "simultaneous" if self.near_tie else "hybrid"

    @property
    def interval(self) -> Limits:
        """The recommended interval."""
        return self.hybrid

    @property
    def low(self) -> float:
        """The recommended interval's lower end."""
        return float(self.interval.low)

    @property
    def high(self) -> float:
        """The recommended interval's upper end."""
        return float(self.interval.high)

    @property
    def contenders(self) -> tuple[Any, ...]:
        """The arms that may be best: a set that holds the best arm at the level, with those too little is known of."""
        return tuple(arm for arm, p in self.p_values.items() if not p <= 1 - self.level)

    @property
    def left_out(self) -> tuple[Any, ...]:
        """The arms that have no interval, and so took no part."""
        return tuple(arm for arm, p in self.p_values.items() if math.isnan(p))

    @property
    def answer(self) -> Answer:
        """The value of always choosing this arm, as an Answer."""
        own = self.source.arm(self.arm)
        return replace(
            own,
            name=f"greedy: {one_line(self.arm)}",
            low=self.low,
            high=self.high,
            level=self.level,
            statistic=math.nan,
            p_value=math.nan,
            interval=self.kind,
            joint=True,
        )

    @property
    def note(self) -> str:
        """What it says, in words."""
        numbers = [self.estimate, self.low, self.high, self.median_unbiased]
        x, low, high, middle = Column("", numbers, "estimate", [self.std_error] * 4).texts()
        what, arm = "largest" if self.largest else "smallest", one_line(self.arm)
        rivals = len(self.p_values) - len(self.left_out)
        if rivals == 1:
            return f"Only {arm} has an interval, so nothing was chosen: its mean lies between {low} and {high}."
        words = f"{arm} has the {what} estimate, {x}; allowing for that choice, its mean lies between {low} and {high}"
        if self.near_tie:
            words += (
                ". Its lead is less than a tenth of its standard error, which is as good as a tie: this is the band "
                "that holds for all arms together."
            )
        else:
            words += f" (hybrid interval; median-unbiased estimate {middle})."
        others = [one_line(arm) for arm in self._order() if self.p_values[arm] > 1 - self.level and arm != self.arm]
        if not others:
            return f"{words} No other arm {'with an interval ' if self.left_out else ''}may be best."
        return f"{words} {_listed(others)} may be best too."

    def _order(self) -> list[Any]:
        """The arms, the best first and those without an interval last."""
        values = self.source.values if self.largest else -self.source.values
        out = np.isnan(list(self.p_values.values()))
        return [self.source.arms[k] for k in np.lexsort((-values, out))]

    def _title(self) -> str:
        name, arms = self.source.estimator.name, count(len(self.p_values), "arm")
        return f"{name}: the best of {arms}, {percent(self.level)} {self.source.interval} intervals that hold together"

    def _notes(self) -> list[str]:
        left = [one_line(arm) for arm in self.left_out]
        return [
            self.note,
            *([f"Without an interval, so nothing is known of how they compare: {_listed(left)}."] if left else []),
        ]

    def _columns(self) -> list[Column]:
        place = {arm: k for k, arm in enumerate(self.source.arms)}
        order = [place[arm] for arm in self._order()]
        tail = sidak(1 - self.level, max(len(place) - len(self.left_out), 1))
        low, high = self.source._alone.limits(tail)
        errors = self.source.std_errors[order].tolist()
        arms = [self.source.arms[k] for k in order]
        columns = [Column("arm", arms, "label")]
        for name, array in (("estimate", self.source.values), ("std_error", self.source.std_errors)):
            columns.append(Column(name, array[order].tolist(), "estimate", errors))
        for name, array in (("low", low), ("high", high)):
            columns.append(Column(name, array[order].tolist(), "estimate", errors))
        p_best = [self.p_values[arm] for arm in arms]
        may = ["unknown" if math.isnan(p) else "yes" if p > 1 - self.level else "no" for p in p_best]
        return [*columns, Column("p_best", p_best, "p_value"), Column("may_be_best", may, "label")]


def _turned(limits: tuple[Array, Array], largest: bool) -> Limits:
    """Return limits with the sign changed, unless the largest is the best."""
    low, high = limits
    return Limits(low, high) if largest else Limits(-high, -low)


def _listed(names: list[str]) -> str:
    """Return names in a row, the first five of many."""
    if len(names) > 5:
        return ", ".join(names[:5]) + f" and {len(names) - 5:,} more"
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


def answer_columns(answers: list[Answer], *, test: bool) -> list[Column]:
    """Return the columns of a table of answers."""
    errors = [answer.std_error for answer in answers]

    def column(name: str, kind: Kind = "estimate") -> Column:
        return Column(name, [getattr(answer, name) for answer in answers], kind, errors if kind == "estimate" else None)

    columns = [column(name) for name in ("estimate", "std_error", "low", "high")]
    return [*columns, column("statistic", "statistic"), column("p_value", "p_value")] if test else columns
