"""`Best`: the arm with the best estimate, and the contrasts of every arm with the best of the others."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from belated.base.columns import Array, Label
from belated.base.errors import OptionError
from belated.base.multiplicity import sidak_tail
from belated.base.tables import RANGES, Column, Table, shown_limit
from belated.base.text import Unit, count, first_few, one_line, percent, shorten_all, visible
from belated.estimation.answers import Answer
from belated.estimation.intervals import KINDS, Combination
from belated.estimation.winner import Duels, Limits, LimitsAt, Rivalry, winner
from belated.summaries.caps import capped_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from belated.estimation.estimate import Estimate


#: The width of an arm's name in a sentence, in columns of a screen.
_NAME = 40

#: The intervals for the best arm's mean that can be recommended.
BestKind = Literal["hybrid", "simultaneous"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Best(Table):
    """The arm with the best estimate, intervals for its mean that are adjusted for the selection, and its rivals.

    Attributes
    ----------
    arm
        The label of the arm; the first if several are equal.
    estimate, std_error : float
        The unadjusted estimate, which is biased because the arm was selected for it, and its standard error.
    median_unbiased : float
        An estimate that is too high as often as too low after the selection.
    simultaneous, conditional, hybrid : (low, high)
        Intervals for the arm's mean that are valid after the selection.
    near_tie : bool
        Whether its lead is less than a tenth of a standard error. The conditional and the hybrid interval would then
        lie to one side of the estimate, so the simultaneous interval is recommended.
    p_value : float
        The p-value of the hypothesis that another arm is as good or better.
    p_values : dict
        By arm, the p-value of the hypothesis that it is the best; NaN for arms without an interval.
    level : float
    largest : bool
        Whether the best arm is the one with the largest mean.
    """

    arm: Label
    estimate: float
    std_error: float
    median_unbiased: float
    simultaneous: Limits[float]
    conditional: Limits[float]
    hybrid: Limits[float]
    near_tie: bool
    p_value: float
    p_values: dict[Label, float]
    level: float
    largest: bool
    source: Estimate

    @property
    def unit(self) -> Unit:
        """The unit of its mean for display."""
        return self.source.unit

    @property
    def kind(self) -> BestKind:
        """The recommended interval: "hybrid", or "simultaneous" near a tie."""
        return "simultaneous" if self.near_tie else "hybrid"

    @property
    def interval(self) -> Limits[float]:
        """The limits of the recommended interval."""
        return self.hybrid

    @property
    def low(self) -> float:
        """The lower limit of the recommended interval."""
        return float(self.interval.low)

    @property
    def high(self) -> float:
        """The upper limit of the recommended interval."""
        return float(self.interval.high)

    @property
    def shown(self) -> tuple[float, float]:
        """The same limits as tables, figures and reports show them: limits of a rate are cut at 0 and 1."""
        low, high = shown_limit((self.low, self.high), self.estimate, RANGES[self.unit]).tolist()
        return low, high

    @property
    def contenders(self) -> tuple[Label, ...]:
        """The arms that may be best: a set that contains the best arm at the level, and arms without an interval."""
        return tuple(arm for arm, p in self.p_values.items() if not p <= 1 - self.level)

    @property
    def left_out(self) -> tuple[Label, ...]:
        """The arms that were not compared because they have no interval."""
        return tuple(arm for arm, p in self.p_values.items() if math.isnan(p))

    @property
    def answer(self) -> Answer:
        """The mean outcome of always choosing this arm, as an `Answer`."""
        own = self.source.arm(self.arm)
        return replace(
            own,
            name=f"greedy: {one_line(visible(self.arm))}",
            low=self.low,
            high=self.high,
            level=self.level,
            tested=(math.nan, math.nan),
            interval=self.kind,
            joint=True,
        )

    @property
    def note(self) -> str:
        """The result in words."""
        numbers, error = [self.estimate, self.median_unbiased], self.std_error
        x, middle = Column("", numbers, "estimate", [error] * 2, unit=self.unit).texts()
        low, high = Column("", self.shown, "limit", [error] * 2, unit=self.unit).texts()
        names = self._names
        what, arm = "largest" if self.largest else "smallest", names[self.arm]
        rivals = len(self.p_values) - len(self.left_out)
        if rivals == 1:
            return f"Only {arm} has an interval, so there was no selection: its mean lies between {low} and {high}."
        words = (
            f"{arm} has the {what} estimate, {x}. Adjusted for being the best of {rivals}, its mean lies between {low} "
            f"and {high}"
        )
        if self.near_tie:
            words += (
                ". It is practically tied (its lead is less than a tenth of its standard error), so this is the "
                "simultaneous interval."
            )
        else:
            words += f" (hybrid interval; median-unbiased estimate {middle})."
        others = [names[arm] for arm in self._order() if self.p_values[arm] > 1 - self.level and arm != self.arm]
        if not others:
            return f"{words} No other arm {'with an interval ' if self.left_out else ''}may be best."
        return f"{words} {_listed(others)} may be best too."

    @property
    def _names(self) -> dict[Label, str]:
        """The arms' names for sentences, short and different."""
        return dict(zip(self.source.arms, shorten_all(self.source.arms, _NAME), strict=True))

    def _order(self) -> list[Label]:
        """The arms from best to worst, those without an interval last."""
        values = self.source.values if self.largest else -self.source.values
        out = np.isnan(list(self.p_values.values()))
        return [self.source.arms[k] for k in np.lexsort((-values, out))]

    def plot(self) -> Figure:
        """Draw the arms, with those that may be best in colour; a matplotlib figure, which notebooks show."""
        from belated.estimation.figures import best_figure

        return best_figure(self)

    def _title(self) -> str:
        name, arms = self.source.estimator.name, count(len(self.p_values), "arm")
        kind = f"{percent(self.level)} {self.source.interval} intervals"
        return f"{name}{capped_at(self.source.cap)}: the best of {arms}, simultaneous {kind}"

    def _notes(self) -> list[str]:
        left = [self._names[arm] for arm in self.left_out]
        return [
            self.note,
            f"p_value_is_best is the p-value of the hypothesis that the arm is the best; {1 - self.level:.4g} or less "
            "rules the arm out.",
            *([f"Not compared, because they have no interval: {_listed(left)}."] if left else []),
        ]

    def _columns(self) -> list[Column]:
        place = {arm: k for k, arm in enumerate(self.source.arms)}
        order = [place[arm] for arm in self._order()]
        tail = sidak_tail(1 - self.level, max(len(place) - len(self.left_out), 1))
        low, high = self.source.alone.limits(tail)
        errors = self.source.std_errors[order].tolist()
        arms = [self.source.arms[k] for k in order]
        columns = [Column("arm", arms, "label")]
        for name, array in (("estimate", self.source.values), ("std_error", self.source.std_errors)):
            columns.append(Column(name, array[order].tolist(), "estimate", errors, unit=self.unit))
        for name, array in (("low", low), ("high", high)):
            shown = shown_limit(array, self.source.values, RANGES[self.unit])[order].tolist()
            columns.append(Column(name, array[order].tolist(), "limit", errors, unit=self.unit, shown=shown))
        p_values = [self.p_values[arm] for arm in arms]
        may = ["unknown" if math.isnan(p) else "yes" if p > 1 - self.level else "no" for p in p_values]
        return [*columns, Column("p_value_is_best", p_values, "p_value"), Column("may_be_best", may, "label")]


class _Rivals(NamedTuple):
    """The arms that have an interval, with signs reversed if the smallest is best."""

    arms: Array  # their positions
    values: Array
    limits: LimitsAt
    degrees: Array
    duels: Duels

    def rivalry(self, level: float) -> Rivalry:
        """Return the comparison of the arms with each other."""
        return Rivalry.of(self.values, self.limits, self.degrees, level, self.duels)


def _rivals(estimate: Estimate, level: float, largest: bool) -> _Rivals:
    alone, kind = estimate.alone, KINDS[estimate.interval]
    arms = np.flatnonzero(np.isfinite(alone.limits((1 - level) / 2)).all(axis=0))
    if not len(arms):
        raise OptionError(
            "No arm has an interval, so none can be called best; an interval needs two arrived outcomes that differ."
        )

    @cache
    def limits(tail: float) -> tuple[Array, Array]:
        low, high = alone.limits(tail)
        return _limits_of_means((low[arms], high[arms]), largest)

    def duels(better: Array, worse: Array) -> Combination:
        pairs = np.stack([arms[better], arms[worse]], axis=-1)
        return estimate.combinations(pairs, np.array([1.0, -1.0] if largest else [-1.0, 1.0]))

    values = kind.within(estimate.values)[arms]
    return _Rivals(
        arms=arms,
        values=values if largest else -values,
        limits=limits,
        degrees=alone.freedom[arms],
        duels=duels,
    )


def find_best(estimate: Estimate, level: float, largest: bool) -> Best:
    """Return the arm with the best estimate, with intervals adjusted for the selection."""
    rivals = _rivals(estimate, level, largest)
    selected = winner(rivals.values, rivals.limits, rivals.degrees, level)
    rivalry = rivals.rivalry(level)
    index = int(rivals.arms[selected.index])
    p_values = np.full(len(estimate.arms), math.nan)
    p_values[rivals.arms] = rivalry.not_best()
    possible = KINDS[estimate.interval].possible

    def as_asked(limits: tuple[Array, Array]) -> Limits[float]:
        """Return limits with their original sign, within the possible range of a mean."""
        low, high = np.clip(_limits_of_means(limits, largest), *possible)
        return Limits(float(low), float(high))

    reported = selected.simultaneous if selected.near_tie else selected.hybrid
    median = np.clip(selected.median, *reported)  # near a tie it may lie farther away
    return Best(
        arm=estimate.arms[index],
        estimate=float(estimate.values[index]),
        std_error=float(estimate.std_errors[index]),
        median_unbiased=as_asked((median, median)).low,
        simultaneous=as_asked(selected.simultaneous),
        conditional=as_asked(selected.conditional),
        hybrid=as_asked(reported),
        near_tie=bool(selected.near_tie),
        p_value=rivalry.winner_not_best(),
        p_values=dict(zip(estimate.arms, p_values.tolist(), strict=True)),
        level=level,
        largest=largest,
        source=estimate,
    )


def answers_against_best(estimate: Estimate, largest: bool) -> list[Answer]:
    """Return the contrasts of every arm with the best of the others."""
    rivals = _rivals(estimate, estimate.level, largest)
    if len(rivals.arms) < 2:
        raise OptionError("Contrasts with the best arm need at least two arms that have an interval.")
    rivalry = rivals.rivalry(estimate.level)
    low, high = _limits_of_means(rivalry.against_best(), largest)
    p_values = rivalry.not_best()
    first, second = np.argsort(-rivals.values, kind="stable")[:2]
    p_values[first] = rivalry.winner_not_best()
    place = {int(k): i for i, k in enumerate(rivals.arms)}
    answers = []
    for k, arm in enumerate(estimate.arms):
        other = estimate.arms[rivals.arms[second if place.get(k) == first else first]]
        answer = replace(
            estimate.contrast(arm, other),
            name=f"{one_line(visible(arm))} - best other",
            parts=(arm, "best other"),
            joint=True,
        )
        if k in place:
            i = place[k]
            tested = answer.statistic, float(p_values[i])
            answer = replace(answer, low=float(low[i]), high=float(high[i]), tested=tested)
        answers.append(answer)
    return answers


def _limits_of_means(limits: tuple[Array, Array], largest: bool) -> Limits[Array]:
    """Return limits, with reversed signs if the smallest is best."""
    low, high = limits
    return Limits(low, high) if largest else Limits(-high, -low)


def _listed(names: list[str]) -> str:
    """Return a list of names as text, at most five."""
    if len(names) > 5:
        return first_few(names)
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"
