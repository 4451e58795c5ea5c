"""Best: the arm with the best estimate, and every arm against the best of the others."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from belated.base.columns import Array, Label
from belated.base.errors import OptionError
from belated.base.tables import Column, Table
from belated.base.text import count, one_line, percent
from belated.estimation.answers import Answer
from belated.estimation.intervals import KINDS
from belated.estimation.multiplicity import sidak_tail
from belated.estimation.winner import Duels, Limits, LimitsAt, Rivalry, duels_of, winner
from belated.summaries.caps import capped_at

if TYPE_CHECKING:
    from belated.estimation.estimate import Estimate


#: The intervals for the best arm's mean of which one is recommended.
BestKind = Literal["hybrid", "simultaneous"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
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
    def kind(self) -> BestKind:
        """Which of the intervals is recommended: "hybrid", or near a tie "simultaneous"."""
        return "simultaneous" if self.near_tie else "hybrid"

    @property
    def interval(self) -> Limits[float]:
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
    def contenders(self) -> tuple[Label, ...]:
        """The arms that may be best: a set that holds the best arm at the level, with those too little is known of."""
        return tuple(arm for arm, p in self.p_values.items() if not p <= 1 - self.level)

    @property
    def left_out(self) -> tuple[Label, ...]:
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

    def _order(self) -> list[Label]:
        """The arms, the best first and those without an interval last."""
        values = self.source.values if self.largest else -self.source.values
        out = np.isnan(list(self.p_values.values()))
        return [self.source.arms[k] for k in np.lexsort((-values, out))]

    def _title(self) -> str:
        name, arms = self.source.estimator.name, count(len(self.p_values), "arm")
        kind = f"{percent(self.level)} {self.source.interval} intervals"
        return f"{name}{capped_at(self.source.cap)}: the best of {arms}, {kind} that hold together"

    def _notes(self) -> list[str]:
        left = [one_line(arm) for arm in self.left_out]
        return [
            self.note,
            *([f"Without an interval, so nothing is known of how they compare: {_listed(left)}."] if left else []),
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
            columns.append(Column(name, array[order].tolist(), "estimate", errors))
        for name, array in (("low", low), ("high", high)):
            columns.append(Column(name, array[order].tolist(), "estimate", errors))
        p_best = [self.p_values[arm] for arm in arms]
        may = ["unknown" if math.isnan(p) else "yes" if p > 1 - self.level else "no" for p in p_best]
        return [*columns, Column("p_best", p_best, "p_value"), Column("may_be_best", may, "label")]


class _Rivals(NamedTuple):
    """The arms that have an interval; turned round if small is best."""

    arms: Array  # their numbers
    values: Array
    limits: LimitsAt
    degrees: Array
    duels: Duels

    def rivalry(self, level: float) -> Rivalry:
        """Return them against each other."""
        return Rivalry.of(self.values, self.limits, self.degrees, level, self.duels)


def _rivals(estimate: Estimate, level: float, largest: bool) -> _Rivals:
    alone, kind = estimate.alone, KINDS[estimate.interval]
    arms = np.flatnonzero(np.isfinite(alone.limits((1 - level) / 2)).all(axis=0))
    if not len(arms):
        raise OptionError("No arm has an interval, so none can be called the best; each needs two arrived outcomes.")

    @cache
    def limits(tail: float) -> tuple[Array, Array]:
        low, high = alone.limits(tail)
        return _turned((low[arms], high[arms]), largest)

    values = kind.within(estimate.values)[arms]
    return _Rivals(
        arms=arms,
        values=values if largest else -values,
        limits=limits,
        degrees=alone.degrees[arms, 0],
        duels=duels_of(estimate.statistics.subset(arms), estimate.interval, largest),
    )


def find_best(estimate: Estimate, level: float, largest: bool) -> Best:
    """Return which arm has the best estimate, and what is known of its mean although that chose it."""
    rivals = _rivals(estimate, level, largest)
    selected = winner(rivals.values, rivals.limits, rivals.degrees, level)
    rivalry = rivals.rivalry(level)
    index = int(rivals.arms[selected.index])
    p_values = np.full(len(estimate.arms), math.nan)
    p_values[rivals.arms] = rivalry.not_best()
    possible = KINDS[estimate.interval].possible

    def as_asked(limits: tuple[Array, Array]) -> Limits[float]:
        """Return limits turned back, within what a mean can be."""
        low, high = np.clip(_turned(limits, largest), *possible)
        return Limits(float(low), float(high))

    return Best(
        arm=estimate.arms[index],
        estimate=float(estimate.values[index]),
        std_error=float(estimate.std_errors[index]),
        median_unbiased=as_asked((selected.median, selected.median)).low,
        simultaneous=as_asked(selected.simultaneous),
        conditional=as_asked(selected.conditional),
        hybrid=as_asked(selected.simultaneous if selected.near_tie else selected.hybrid),
        near_tie=bool(selected.near_tie),
        p_value=rivalry.winner_not_best(),
        p_values=dict(zip(estimate.arms, p_values.tolist(), strict=True)),
        level=level,
        largest=largest,
        source=estimate,
    )


def answers_against_best(estimate: Estimate, largest: bool) -> list[Answer]:
    """Return every arm's contrast with the best of the others."""
    rivals = _rivals(estimate, estimate.level, largest)
    if len(rivals.arms) < 2:
        raise OptionError("Contrasts with the best need at least two arms that have an interval.")
    rivalry = rivals.rivalry(estimate.level)
    low, high = _turned(rivalry.against_best(estimate.level), largest)
    p_values = rivalry.not_best()
    first, second = np.argsort(-rivals.values, kind="stable")[:2]
    p_values[first] = rivalry.winner_not_best()
    place = {int(k): i for i, k in enumerate(rivals.arms)}
    answers = []
    for k, arm in enumerate(estimate.arms):
        other = estimate.arms[rivals.arms[second if place.get(k) == first else first]]
        answer = replace(estimate.contrast(arm, other), name=f"{one_line(arm)} - best other", joint=True)
        if k in place:
            i = place[k]
            answer = replace(answer, low=float(low[i]), high=float(high[i]), p_value=float(p_values[i]))
        answers.append(answer)
    return answers


def _turned(limits: tuple[Array, Array], largest: bool) -> Limits[Array]:
    """Return limits with the sign changed, unless the largest is the best."""
    low, high = limits
    return Limits(low, high) if largest else Limits(-high, -low)


def _listed(names: list[str]) -> str:
    """Return names in a row, the first five of many."""
    if len(names) > 5:
        return ", ".join(names[:5]) + f" and {len(names) - 5:,} more"
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"
