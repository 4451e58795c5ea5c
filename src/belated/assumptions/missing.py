"""Bounds on an arm's mean if outcomes that have not arrived differ from those that have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import numpy as np

from belated.base import special
from belated.base.columns import Array, Label
from belated.base.errors import LogError
from belated.base.tables import RANGES, Column, Table, shown_limit
from belated.base.text import Unit, percent
from belated.estimation.estimators import ESTIMATORS, ArmStatistics, evaluate, leverage_slope
from belated.estimation.intervals import KINDS, IntervalKind, combine, is_binary, student_degrees
from belated.estimation.standardised import Population, with_estimated_shares
from belated.log.log import Log
from belated.summaries.signs import single_value, single_value_words
from belated.summaries.sums import Sums

# ---------------------------------------------------------------- one arm


class ArmOutcomes:
    """The rows of one arm, sorted by outcome, with cumulative sums: the bounds for any G take one binary search.

    Parameters
    ----------
    w : array
        The weights h / pi of the arm's rows.
    arrived : array of bool
    y : array
        Their outcomes, where they have arrived.
    chance : array, optional
        How likely their outcomes arrive, if it differs between rows.

    Attributes
    ----------
    n : int
        The number of outcomes that have arrived.
    share : float
        p, the weighted share of the rows whose outcome has arrived.
    share_variance : float
        The variance of p: the larger of the homoskedastic and the leverage-corrected variance, as for means.
    mean : float
        Q, the weighted mean of the arrived outcomes.
    """

    def __init__(self, w: Array, arrived: Array, y: Array, chance: Array | None = None) -> None:
        self.n = n = int(arrived.sum())
        self.assigned = len(w)
        total = w.sum()
        self.share = float(w[arrived].sum() / total) if len(w) else math.nan
        if n and n == len(w):
            self.share = 1.0  # exactly
        self.share_variance = _share_variance(w, arrived, self.share) if n else math.nan
        w = w if chance is None else w / chance
        order = np.argsort(y[arrived], kind="stable")
        w, y = w[arrived][order], y[arrived][order]
        anchor = y[n // 2] if n else 0.0
        self.mean = anchor + float(w @ (y - anchor) / w.sum()) if n else math.nan
        self.x = x = y - self.mean
        self.sums = np.zeros((4, 3, n + 1))  # of w^k x^j over the outcomes before each position
        for k in range(4):
            term = w**k
            for j in range(3):
                np.cumsum(term, out=self.sums[k, j, 1:])
                term = term * x
        self.largest_below = np.concatenate([[0.0], np.maximum.accumulate(w)])
        self.largest_above = np.concatenate([np.maximum.accumulate(w[::-1])[::-1], [0.0]])

    @property
    def sd(self) -> float:
        """The standard deviation of the arrived outcomes."""
        n, first, second = self.sums[0, :3, -1]
        return math.sqrt(max(second - first**2 / n, 0.0) / (n - 1)) if n > 1 else math.nan

    def cut(self, below: float, above: float) -> int:
        """Return the number of outcomes below the extreme weighted mean.

        Outcomes below the cut have weight `below` w, the others `above` w. Their mean R is extreme when the cut is at
        R.
        """
        weight, first = self.sums[1, 0], self.sums[1, 1]
        low, high = 0, self.n
        while low < high:
            middle = (low + high) // 2
            top = below * first[middle] + above * (first[-1] - first[middle])
            mean = top / (below * weight[middle] + above * (weight[-1] - weight[middle]))
            low, high = (low, middle) if self.x[middle] >= mean else (middle + 1, high)
        return low

    def tilted(self, below: float, above: float, shift: float = 0.0) -> Extreme:
        """Return p Q + (1 - p) (R + shift), R the mean of arrived outcomes reweighted on either side of the cut.

        With tau those weights over their mean, row i has leverage l = (w / W) A, A = p + (1 - p) tau, and adds
        (w / W) e to the error, e = p (y - Q) + (1 - p) tau (y - R). Sums of powers of w and e on either side of the
        cut follow from those of w and x = y - Q. The share p adds (w / W) p (Q - R) (arrived - p), which is
        uncorrelated with the former.
        """
        cut, share, total = self.cut(below, above), self.share, self.sums[1, 0, -1]
        sides = np.stack([self.sums[:, :, cut], self.sums[:, :, -1] - self.sums[:, :, cut]])
        tau = np.array([below, above])
        tau /= tau @ sides[:, 1, 0] / total
        r = float(tau @ sides[:, 1, 1] / total)
        a, b = share + (1 - share) * tau, (1 - share) * tau * r  # e = a x - b

        def squares(k: int) -> Array:
            return np.maximum(a**2 * sides[:, k, 2] - 2 * a * b * sides[:, k, 1] + b**2 * sides[:, k, 0], 0.0)

        slope = leverage_slope(float(np.max(a * [self.largest_below[cut], self.largest_above[cut]])) / total)
        corrected = float(np.sum(squares(2) + slope * a * squares(3) / total)) / total**2
        spread = float(squares(0).sum()) - float(np.sum(a * sides[:, 0, 1] - b * sides[:, 0, 0])) ** 2 / self.n
        plain = max(spread, 0.0) / max(self.n - 1, 1) * self.sums[2, 0, -1] / total**2
        gap = r + shift  # R - Q
        return Extreme(
            value=self.mean + (1 - share) * gap,
            variance=max(plain, corrected) + gap**2 * self.share_variance,
            size=total**2 / float(a**2 @ sides[:, 2, 0]),
        )


class Extreme(NamedTuple):
    """An extreme estimate of one arm's mean, its variance and effective size."""

    value: float
    variance: float
    size: float


def _share_variance(w: Array, arrived: Array, share: float) -> float:
    if share >= 1:
        return 0.0
    total, n = w.sum(), len(w)
    leverage = w / total
    slope = leverage_slope(float(leverage.max()))
    corrected = np.sum((leverage * (arrived - share)) ** 2 * (1 + slope * leverage))
    rate = arrived.mean()
    return float(max(rate * (1 - rate) * n / (n - 1) * np.sum(leverage**2), corrected))


# ---------------------------------------------------------------- assumptions about missing outcomes


class Assumption(Protocol):
    """A limit on how far missing outcomes may differ from arrived ones; gives the largest (`up`) or smallest mean."""

    def of(self, arm: ArmOutcomes, up: bool) -> Extreme:
        """Return the extreme mean of an arm."""

    def of_rate(self, rate: float, up: bool) -> float:
        """Return R for 0/1 outcomes when this share of the arrived ones is 1."""


@dataclass(frozen=True)
class Odds:
    """The odds that an outcome arrives vary with its value by at most a factor of gamma."""

    gamma: float

    def of(self, arm: ArmOutcomes, up: bool) -> Extreme:
        """Return the extreme mean of an arm."""
        return arm.tilted(1.0, self.gamma) if up else arm.tilted(self.gamma, 1.0)

    def of_rate(self, rate: float, up: bool) -> float:
        """Return R for 0/1 outcomes when this share of the arrived ones is 1."""
        ones, zeros = (self.gamma, 1.0) if up else (1.0, self.gamma)
        return ones * rate / (ones * rate + zeros * (1 - rate))


@dataclass(frozen=True)
class Shifted:
    """The means of missing and arrived outcomes differ by at most delta."""

    delta: float

    def of(self, arm: ArmOutcomes, up: bool) -> Extreme:
        """Return the extreme mean of an arm."""
        return arm.tilted(1.0, 1.0, self.delta if up else -self.delta)

    def of_rate(self, rate: float, up: bool) -> float:
        """Return R for 0/1 outcomes when this share of the arrived ones is 1."""
        return min(rate + self.delta, 1.0) if up else max(rate - self.delta, 0.0)


# ---------------------------------------------------------------- all arms


@dataclass(frozen=True, eq=False)
class MissingOutcomes:
    """The arms in question, from which bounds and intervals under an assumption are computed.

    In a log with segments, an arm in a segment takes the place of an arm, segment by segment.

    Attributes
    ----------
    coefficients : array
        The coefficients of the arms in question; none is 0.
    arms : tuple of ArmOutcomes
    statistics : ArmStatistics
        The `dipw` estimates, which are valid if arrival does not depend on the outcome.
    interval : str
        "wilson" for 0/1 outcomes, otherwise "score".
    tail : float
        The probability in each tail, (1 - level) / 2.
    least : (float, float)
        The limits of an interval that every interval includes: that of `estimate`.
    population : Population or None
        The segments and their shares; None if the log has no segments.
    """

    coefficients: Array
    arms: tuple[ArmOutcomes, ...]
    statistics: ArmStatistics
    interval: IntervalKind
    tail: float
    least: tuple[float, float]
    population: Population | None = None

    @classmethod
    def of(cls, rows: Log, coefficients: Array, tail: float, least: tuple[float, float]) -> MissingOutcomes:
        """Return the arms in question of the rows that count."""
        estimator = ESTIMATORS["dipw"]
        sums = Sums.of(rows, *estimator.parts, plain=False)
        value = single_value(sums)
        if value is not None:
            missing = 1 - sums["arrived"].sum() / sums["assigned"].sum()
            raise LogError(single_value_words(value, missing), column="outcome")
        population = None if sums.segments is None else Population.of_log(sums.segments)
        if population is not None:
            coefficients = population.spread(coefficients)
        used = coefficients != 0
        arms, even_from = [], rows.layout.even_from(len(rows.arms))
        for cell in np.flatnonzero(used):
            mine, k = rows.cell == cell, cell % len(rows.arms)
            pi = rows.propensity[mine, k] if rows.has_all_propensities else rows.propensity[mine]
            w = 1 / pi if cell >= even_from else 1 / np.sqrt(pi)
            chance = None if rows.arrival_chance is None else rows.arrival_chance[mine]
            arms.append(ArmOutcomes(w, rows.arrived[mine], rows.outcome[mine], chance))
        statistics = evaluate(sums if sums.segments is None else sums.segments.cells, estimator).subset(used)
        # if every outcome is 0, or every outcome is 1, they may be amounts rather than 0/1
        ones = float(np.sum(sums["y"] + sums.shift * sums["arrived"]))
        both = 0.5 < ones < sums["arrived"].sum() - 0.5
        kind: IntervalKind = "wilson" if both and is_binary(sums) else "score"
        return cls(
            coefficients=coefficients[used],
            arms=tuple(arms),
            statistics=statistics,
            interval=kind,
            tail=tail,
            least=least,
            population=population,
        )

    @property
    def segments(self) -> tuple[Label | None, ...]:
        """The segments; one that is None if the log has none."""
        return (None,) if self.population is None else self.population.labels

    @property
    def shares(self) -> Array:
        """The share of outcomes that have arrived, by arm, over all segments."""
        by_segment = np.array([arm.share for arm in self.arms]).reshape(len(self.segments), -1)
        return np.asarray(by_segment[0] if self.population is None else self.population.shares @ by_segment)

    def _standardised(self, statistics: ArmStatistics) -> ArmStatistics:
        """Return the statistics with the variance that comes from the estimated shares of segments."""
        if self.population is None or self.population.rows is None:
            return statistics
        return with_estimated_shares(statistics, self.population.shares * self.population.rows)

    @property
    def sd(self) -> float:
        """The standard deviation of arrived outcomes, pooled over the arms with equal weight."""
        return math.sqrt(sum(arm.sd**2 for arm in self.arms) / len(self.arms))

    @property
    def unvaried(self) -> list[bool]:
        """Whether all outcomes of each arm are equal and not 0/1: missing ones may then have any other value."""
        known = KINDS[self.interval].needs_binary
        return [bool(same) and not known for same in self.statistics.constant]

    @property
    def has_interval(self) -> bool:
        """Whether every arm has the two different outcomes that an interval needs."""
        return all(arm.n >= 2 for arm in self.arms) and not any(self.unvaried)

    def limits(self, assumption: Assumption) -> tuple[float, float, float, float]:
        """Return the smallest and the largest estimate, and the limits of the interval."""
        bound_low, low = self.side(assumption, up=False)
        bound_high, high = self.side(assumption, up=True)
        return bound_low, bound_high, low, high

    def side(self, assumption: Assumption, up: bool) -> tuple[float, float]:
        """Return the extreme estimate on one side, and the limit of the interval there."""
        if not all(arm.n for arm in self.arms):
            return math.nan, math.nan
        each = self._rates if KINDS[self.interval].needs_binary else self._means
        bound, limit = each(assumption, up)
        if math.isnan(limit):
            return bound, limit
        return bound, float(np.fmax(limit, self.least[1]) if up else np.fmin(limit, self.least[0]))

    def _means(self, assumption: Assumption, up: bool) -> tuple[float, float]:
        c = self.coefficients
        extremes = [assumption.of(arm, (each > 0) == up) for each, arm in zip(c, self.arms, strict=True)]
        value, variance, size = np.array(extremes).T
        if not self.has_interval:
            return float(c @ value), math.nan
        statistics = self._standardised(replace(self.statistics, value=value, robust=variance, effective_size=size))
        answer = combine(statistics, c, self.interval)
        return float(answer.estimate), float(answer.limits(self.tail)[int(up)])

    def _rates(self, assumption: Assumption, up: bool) -> tuple[float, float]:
        """Apply the assumption to Wilson's limits of each arm's rate, and combine them by MOVER as `intervals` does."""
        values, reaches, missing = [], [], []
        for (low, high), arm, c in zip(self._scores, self.arms, self.coefficients, strict=True):
            upward = (c > 0) == up
            rate = min(max(arm.mean, 0.0), 1.0)
            missing.append(assumption.of_rate(rate, upward))
            values.append(arm.share * rate + (1 - arm.share) * missing[-1])
            limit = high if upward else low
            reaches.append(arm.share * limit + (1 - arm.share) * assumption.of_rate(limit, upward) - values[-1])
        value = float(self.coefficients @ values)
        degrees = student_degrees(self.statistics)
        parts = [(a.mean - r) ** 2 * a.share_variance for a, r in zip(self.arms, missing, strict=True)]
        shares = special.stdtrit(degrees, self.tail) ** 2 * np.array(parts)
        room = np.where(np.array(reaches) > 0, 1 - np.array(values), values)
        reach = np.minimum(np.sqrt(np.array(reaches) ** 2 + shares), room)
        square = float(self.coefficients**2 @ reach**2)
        common = self._standardised(replace(self.statistics, value=np.array(values))).common
        if common is not None:
            square += float(special.stdtrit(common.degrees, self.tail) ** 2 * common.variance(self.coefficients))
        total = math.sqrt(square)
        return value, value + total if up else value - total

    @cached_property
    def _scores(self) -> list[tuple[float, float]]:
        units = np.eye(len(self.arms))
        limits = [combine(self.statistics, unit, self.interval).limits(self.tail) for unit in units]
        return [(float(low), float(high)) for low, high in limits]


#: What an assumption limits: the factor between odds, or the difference between means.
Size = Literal["gamma", "delta"]


@dataclass(frozen=True)
class Bounds(Table):
    """The bounds on a mean or contrast under one assumption about missing outcomes.

    Attributes
    ----------
    name : str
        The name of the arm or contrast.
    gamma, delta : float or None
        The assumption: one is a number, the other None.
    bound_low, bound_high : float
        The smallest and the largest estimate under the assumption.
    low, high : float
        The interval, which covers the true value at `level` if the assumption holds.
    level : float
    """

    name: str
    gamma: float | None
    delta: float | None
    bound_low: float
    bound_high: float
    low: float
    high: float
    level: float
    unit: Unit = "number"

    def __repr__(self) -> str:
        return self.to_text()

    def includes(self, value: float) -> bool:
        """Whether the interval includes a value."""
        return self.low <= value <= self.high

    def _title(self) -> str:
        return f"{self.name}: {percent(self.level)} interval{in_points(self.unit)}"

    def _columns(self) -> list[Column]:
        return bounds_columns([self], "gamma" if self.delta is None else "delta")


def in_points(unit: Unit) -> str:
    """Return the remark in a title for a table whose cells are in points without the word."""
    return " in percentage points" if unit == "points" else ""


def bounds_columns(rows: Sequence[Bounds], size: Size) -> list[Column]:
    """Return one column for gamma or delta, and one for each bound and limit."""
    # round as for the narrowest interval; a standard error is about a quarter of its width
    unit = rows[0].unit if rows else "number"
    narrow = min((row.high - row.low for row in rows), default=math.nan) / 4
    errors, names = [narrow] * len(rows), ("bound_low", "bound_high", "low", "high")

    def limit(name: str) -> Column:
        values = [getattr(row, name) for row in rows]
        shown = shown_limit(values, math.nan, RANGES[unit]).tolist()
        return Column(name, values, "estimate", errors, unit=unit, terse=True, shown=shown)

    return [
        Column(size, [getattr(row, size) for row in rows], "number", unit=unit if size == "delta" else "number"),
        *(limit(name) for name in names),
    ]
