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
from belated.summaries.signs import single_value_remark
from belated.summaries.sums import Sums

# ---------------------------------------------------------------- one arm

#: A polynomial in p and x: the coefficient of p^i x^j at (i, j).
Polynomial = dict[tuple[int, int], float]


class ArmOutcomes:
    """The rows of one arm, sorted by outcome, with cumulative sums: the bounds for any G take one binary search.

    An arrived row that had the chance p to arrive counts w for itself and u = w (1 - p) / p for missing ones, which is
    v = w / p in all.

    Parameters
    ----------
    w : array
        The weights h / pi of the arm's rows.
    arrived : array of bool
    y : array
        Their outcomes, where they have arrived.
    chance : array, optional
        How likely their outcomes arrive, if it differs between rows. Only ratios count: p is the chance times the
        factor that makes the sum of v over arrived rows that of w over all rows, at most 1. Otherwise p is the share.

    Attributes
    ----------
    n : int
        The number of outcomes that have arrived.
    share : float
        The weighted share of the rows whose outcome has arrived.
    share_variance : float
        Its variance: the larger of the homoskedastic and the leverage-corrected variance, as for means.
    differ : bool
        Whether p differs between arrived rows.
    missing : float
        The sum of u over that of v: 1 - share, unless some p is limited to 1.
    mean, mean_arrived, mean_missing : float
        The mean of the arrived outcomes with weights v, w and u.
    """

    def __init__(self, w: Array, arrived: Array, y: Array, chance: Array | None = None) -> None:
        self.n = n = int(arrived.sum())
        self.share = float(w[arrived].sum() / w.sum()) if len(w) else math.nan
        if n and n == len(w):
            self.share = 1.0  # the quotient may differ from 1 by rounding
        v, p = w, np.full(len(w), self.share)
        self.differ = chance is not None and 0 < n < len(w) and bool(np.ptp(chance[arrived]) > 0)
        if chance is not None and self.differ:
            v = w / chance
            p = np.minimum(chance * (v[arrived].sum() / w.sum()), 1.0)
        self.share_variance = _share_variance(w, arrived, p) if n else math.nan
        order = np.flatnonzero(arrived)[np.argsort(y[arrived], kind="stable")]
        v, p, y = v[order], p[order], y[order]
        anchor = y[n // 2] if n else 0.0
        self.mean = anchor + float(v @ (y - anchor) / v.sum()) if n else math.nan
        self.x = x = y - self.mean
        self.sums = np.zeros((4, 4 if self.differ else 1, 3, n + 1))  # of v^k p^i x^j over outcomes before a position
        for k in range(4):
            for i in range(self.sums.shape[1]):
                term = v**k * p**i if i else v**k
                for j in range(3):
                    np.cumsum(term, out=self.sums[k, i, j, 1:])
                    term = term * x
        self.missing_sums = self._of_missing(self.sums[1])
        self.largest = np.stack([_largest(v * p), _largest(v * (1 - p))])  # of w, and of u
        self.missing = float(self.missing_sums[0, -1] / self.sums[1, 0, 0, -1]) if self.differ else 1 - self.share
        self.offset = float(self.missing_sums[1, -1] / self.missing_sums[0, -1]) if n else math.nan
        self.mean_missing = self.mean + self.offset
        self.mean_arrived = self.mean - self.offset * self.missing / (1 - self.missing) if n else math.nan

    @cached_property
    def rates(self) -> tuple[float, float, float]:
        """The three means of 0/1 outcomes, without what rounding may add beyond 0 and 1."""
        return _as_rate(self.mean), _as_rate(self.mean_arrived), _as_rate(self.mean_missing)

    def _of_missing(self, sums: Array) -> Array:
        """Return sums of u x^j from those of v p^i x^j; if p does not differ, over 1 - p."""
        return np.asarray(sums[0] - sums[1] if self.differ else sums[0])

    @property
    def sd(self) -> float:
        """The standard deviation of the arrived outcomes."""
        n, first, second = self.sums[0, 0, :, -1]
        return math.sqrt(max(second - first**2 / n, 0.0) / (n - 1)) if n > 1 else math.nan

    def cut(self, below: float, above: float) -> int:
        """Return the number of outcomes below the extreme weighted mean.

        Outcomes below the cut have weight `below` u, the others `above` u. Their mean R is extreme when the cut is at
        R.
        """
        weight, first, _ = self.missing_sums
        low, high = 0, self.n
        while low < high:
            middle = (low + high) // 2
            top = below * first[middle] + above * (first[-1] - first[middle])
            mean = top / (below * weight[middle] + above * (weight[-1] - weight[middle]))
            low, high = (low, middle) if self.x[middle] >= mean else (middle + 1, high)
        return low

    def tilted(self, below: float, above: float, shift: float = 0.0) -> Extreme:
        """Return the mean if missing outcomes have the mean R + shift, R that of weights u tau.

        The weights tau are `below` and `above` on either side of the cut, over their mean. With V the sum of v, a row
        has leverage (v / V) A, A = p + (1 - p) tau, and adds (v / V) e to the error of the mean m,

            e = p (y - m) + (1 - p) (R + shift - m) + (1 - p) tau (y - R).

        Both are linear in p on either side of the cut, and e in x = y - `mean`, so the sums of their powers follow from
        those of v, p and x. The share adds (w / W) (`mean_missing` - R - shift) (arrived - p), W the sum of w.
        """
        cut, total = self.cut(below, above), float(self.sums[1, 0, 0, -1])
        sides = self.sums[..., cut], self.sums[..., -1] - self.sums[..., cut]
        weight, first, _ = np.array([self._of_missing(sums[1]) for sums in sides]).T
        tau = np.array([below, above])
        tau /= tau @ weight / weight.sum()
        r = float(tau @ first / weight.sum())
        gap = r + shift - self.offset
        moved = self.missing * gap
        largest = leverages = squares = cubes = plain_sum = plain_squares = 0.0
        for t, sums, (w, u) in zip(tau.tolist(), sides, self.largest[..., cut].T.tolist(), strict=True):
            unweighted, _, second, third = sums.tolist()
            lift, beside = self._linear(t, 1 - t), (1 - t) * r + shift
            error = self._linear(beside - moved, -beside) | {(i, 1): a for (i, _), a in lift.items()}
            square = _product(error, error)
            largest = max(largest, w + t * u)  # no row of this side has more leverage
            leverages += _evaluated(_product(lift, lift), second)
            squares += max(_evaluated(square, second), 0.0)
            cubes += max(_evaluated(_product(lift, square), third), 0.0)
            plain_sum += _evaluated(error, unweighted)
            plain_squares += _evaluated(square, unweighted)
        corrected = (squares + float(leverage_slope(largest / total)) * cubes / total) / total**2
        spread = max(plain_squares - plain_sum**2 / self.n, 0.0)
        plain = spread / max(self.n - 1, 1) * float(self.sums[2, 0, 0, -1]) / total**2
        return Extreme(
            value=self.mean + moved,
            variance=max(plain, corrected) + gap**2 * self.share_variance,
            size=total**2 / leverages,
        )

    def _linear(self, constant: float, slope: float) -> Polynomial:
        """Return constant + slope p."""
        return {(0, 0): constant, (1, 0): slope} if self.differ else {(0, 0): constant + slope * self.share}

    def widening(self, slope: float) -> float:
        """Return how much wider a rate's interval is at the effective size of weights w + slope u than at that of v."""
        if not self.differ:
            return 1.0
        _, first, second, _ = self.sums[:, :, :1, -1].tolist()
        counts = self._linear(slope, 1 - slope)  # w + slope u is this times v
        size = _evaluated(counts, first) ** 2 / _evaluated(_product(counts, counts), second)
        return math.sqrt(first[0][0] ** 2 / second[0][0] / size)


def _as_rate(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _largest(values: Array) -> Array:
    """Return the largest value before each position, and the largest from there on."""
    before, after = np.maximum.accumulate(values), np.maximum.accumulate(values[::-1])[::-1]
    return np.stack([np.append(0.0, before), np.append(after, 0.0)])


def _product(one: Polynomial, other: Polynomial) -> Polynomial:
    product: Polynomial = {}
    for (i, j), a in one.items():
        for (more_i, more_j), b in other.items():
            term = i + more_i, j + more_j
            product[term] = product.get(term, 0.0) + a * b
    return product


def _evaluated(polynomial: Polynomial, sums: list[list[float]]) -> float:
    """Return the sum of a polynomial over rows from the sums of p^i x^j."""
    return sum(a * sums[i][j] for (i, j), a in polynomial.items())


class Extreme(NamedTuple):
    """An extreme estimate of one arm's mean, its variance and effective size."""

    value: float
    variance: float
    size: float


def _share_variance(w: Array, arrived: Array, p: Array) -> float:
    if arrived.all():
        return 0.0
    total, n = w.sum(), len(w)
    leverage = w / total
    slope = leverage_slope(float(leverage.max()))
    corrected = np.sum((leverage * (arrived - p)) ** 2 * (1 + slope * leverage))
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
        remark = single_value_remark(sums, sums.shift)
        if remark is not None:
            raise LogError(remark.text, column="outcome")
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

    def limits_within(self, assumption: Assumption, smaller: Sequence[Assumption]) -> tuple[float, float, float, float]:
        """Return the same, but with an interval that includes those of smaller sizes of the assumption.

        A larger size allows what a smaller one does; with few or skewed outcomes a single limit could move inwards.
        """
        bound_low, bound_high, low, high = self.limits(assumption)
        inner = [self._known_limits(each) for each in smaller]
        return (
            bound_low,
            bound_high,
            min([low, *(each[2] for each in inner)]),
            max([high, *(each[3] for each in inner)]),
        )

    def _known_limits(self, assumption: Assumption) -> tuple[float, float, float, float]:
        if assumption not in self._known:
            self._known[assumption] = self.limits(assumption)
        return self._known[assumption]

    @cached_property
    def _known(self) -> dict[Assumption, tuple[float, float, float, float]]:
        return {}

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
        """Apply the assumption to Wilson's limits of each arm's rate, and combine them by MOVER as `intervals` does.

        The rates of arrived and of missing outcomes move as far as the limit is from the rate of all.
        """
        values, reaches, gaps = [], [], []
        for limits, arm, c in zip(self._scores, self.arms, self.coefficients, strict=True):
            upward = (c > 0) == up
            rate, arrived, missing = arm.rates
            assumed = assumption.of_rate(missing, upward)
            values.append((1 - arm.missing) * arrived + arm.missing * assumed)
            gaps.append(assumed - missing)
            move = limits[int(upward)] - rate
            rise = assumption.of_rate(_as_rate(missing + move), upward) - assumed
            reach = (1 - arm.missing) * (_as_rate(arrived + move) - arrived) + arm.missing * rise
            reaches.append(reach * arm.widening(rise / move if move else 1.0))
        value = float(self.coefficients @ values)
        degrees = student_degrees(self.statistics)
        parts = [gap**2 * arm.share_variance for gap, arm in zip(gaps, self.arms, strict=True)]
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
        return Column(name, values, "limit", errors, unit=unit, terse=True, shown=shown)

    return [
        Column(size, [getattr(row, size) for row in rows], "number", unit=unit if size == "delta" else "number"),
        *(limit(name) for name in names),
    ]
