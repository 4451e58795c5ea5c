"""Kinds of intervals, one entry each: what a kind needs, and what it reads of an arm.

`normal` is the paper's. `t` takes the larger of the homoskedastic and the leverage-corrected
variance, adds the square of what the outcome model moved the estimate by, and uses Student's t
with Kish's effective size minus 1 degrees of freedom, at least 1 (Welch-Satterthwaite for
combinations).
`score`, the default, starts from the variance of `t` and reaches as far as the outcomes' skewness and kurtosis
require, so that it also holds for rare and mostly-zero outcomes; see `_score_reach`. Combined over arms by MOVER.
`wilson`, for 0/1 outcomes, is the score interval at the effective size, reduced where those two
variances exceed the homoskedastic one, with the same quantile, combined over arms by MOVER.

A new kind is a word of `IntervalKind` and an entry of `KINDS`. A `Combination` of arms has the limits, and the test
against each `Alternative`, of one kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy import special

from belated.base.columns import Array
from belated.base.errors import OptionError
from belated.base.roots import find_root
from belated.estimation.estimators import ArmStatistics, Estimator
from belated.summaries.sums import Sums

#: The kinds of intervals, and what may be asked for.
IntervalKind = Literal["normal", "t", "score", "wilson"]
Interval = Literal["auto", IntervalKind]
INTERVALS: tuple[Interval, ...] = ("auto", *get_args(IntervalKind))

#: What a test is against.
Alternative = Literal["two-sided", "greater", "less"]
ALTERNATIVES: tuple[Alternative, ...] = get_args(Alternative)

#: From arms, a tail and each arm's share of the combination's variance (None: the arm stands alone) to how far each
#: arm's interval reaches down and up from its estimate.
Reach = Callable[[ArmStatistics, float, Array | None], tuple[Array, Array]]


# ---------------------------------------------------------------- kinds


def student_degrees(arms: ArmStatistics) -> Array:
    """Return the degrees of freedom of Student's t by the effective size alone, by arm."""
    return np.asarray(np.maximum(arms.effective_size - 1, 1.0))


def _vary(arms: ArmStatistics) -> Array:
    """Whether each arm's own outcomes differ."""
    return np.asarray(~arms.constant)


def _vary_somewhere(arms: ArmStatistics) -> Array:
    """Whether the outcomes of all arms together differ."""
    return np.asarray(arms.moments.pooled_variance > 0)


def _are_binary(arms: ArmStatistics) -> Array:
    """Outcomes that are known to be 0 or 1 need not differ."""
    return np.ones(arms.value.shape, dtype=bool)


@dataclass(frozen=True, kw_only=True)
class IntervalRule:
    """A kind of interval.

    Attributes
    ----------
    small_sample : bool
        Whether it uses the small-sample variance and Student's t; if not, the paper's and the normal distribution.
    reach : callable or None
        How far one arm's interval reaches down and up, of an asymmetric kind: arms then combine by MOVER. Of the
        others variances add.
    needs_binary, needs_hajek : bool
        Whether outcomes must be 0 or 1, and the estimator normalised by 'hajek'.
    possible : (float, float)
        The least and the largest mean that there can be.
    error_by_width : bool
        Whether the standard error is half the width at one normal deviation; if not, the variance's root.
    freedom : callable
        From arms to the degrees of freedom of Student's t.
    knows_spread : callable
        From arms to whether the outcomes show as much of their spread as it needs.
    """

    small_sample: bool = True
    reach: Reach | None = None
    needs_binary: bool = False
    needs_hajek: bool = False
    possible: tuple[float, float] = (-math.inf, math.inf)
    error_by_width: bool = False
    freedom: Callable[[ArmStatistics], Array] = student_degrees
    knows_spread: Callable[[ArmStatistics], Array] = _vary

    def fits(self, *, binary: bool, hajek: bool) -> bool:
        """Whether outcomes and estimator are what it needs."""
        return (binary or not self.needs_binary) and (hajek or not self.needs_hajek)

    def within(self, values: Array) -> Array:
        """Return values within what a mean can be."""
        return np.asarray(np.clip(values, *self.possible))

    def variances(self, arms: ArmStatistics) -> Array:
        """Return the variance that the interval uses, by arm."""
        return arms.robust if self.small_sample and arms.robust is not None else arms.variance

    def degrees(self, arms: ArmStatistics) -> Array:
        """Return the degrees of freedom, by arm."""
        return self.freedom(arms) if self.small_sample else np.full(arms.value.shape, np.inf)


#: The tail of a 95 % interval.
_USUAL_TAIL = 0.025


class Shape(NamedTuple):
    """What the score interval reads of the arms' outcomes, beside their variance; arrays by arm."""

    spread: Array  # 0 if all outcomes of the log have two values, 1 if they are spread out or too few to tell
    doubt: Array  # the relative variance of the estimated variance, at most 1
    skewness: Array
    curvature: Array  # of the variance as a function of the mean: 1 for two values, 0 for normal outcomes
    jump: Array  # |skewness| times the standard deviation
    asymmetry: Array  # the share of `doubt` that the skewness makes up


def _shape(arms: ArmStatistics) -> Shape:
    m, n = arms.moments, arms.effective_size
    excess = m.pooled_kurtosis - 1
    between = 1 - m.pooled_skewness**2 / excess
    few = np.minimum(1.0, excess / m.pooled_count)
    spread = np.minimum(1.0, 4 * few**2 + 30 * np.where(between < 1e-9, 0.0, between))
    jump = m.pooled_skewness * np.sqrt(m.pooled_variance)
    square = m.skewness**2
    return Shape(
        spread=spread,
        doubt=np.where(arms.constant, 1.0, np.minimum(1.0, (m.kurtosis - 1) / n)),
        skewness=np.where(arms.constant, jump, m.skewness),
        curvature=np.where(arms.constant, 1.0, np.maximum(0.0, 1 - (m.kurtosis - 1 - square) / 2)),
        jump=np.where(arms.constant, np.abs(jump), np.abs(m.skewness) * np.sqrt(m.variance)),
        asymmetry=np.where(arms.constant, 1.0, np.minimum(1.0, square / (m.kurtosis - 1))),
    )


def _score_reach(arms: ArmStatistics, tail: float, share: Array | None) -> tuple[Array, Array]:
    """Return how far each arm's interval reaches down and up from its estimate."""
    shape, n, variance = _shape(arms), arms.effective_size, KINDS["score"].variances(arms)
    alone = share is None
    part = np.ones_like(n) if share is None else share
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        degrees = _score_degrees(arms, shape, part)
        t2 = special.stdtrit(degrees, tail) ** 2
        bend = 1 + part * t2 * shape.curvature / n
        slope = t2 / 2 * np.where(arms.constant, shape.jump / n, np.abs(shape.skewness) * np.sqrt(variance / n))
        more = 1 + shape.spread * (2.2 if alone else 1.0) * (shape.doubt * part) ** 0.7
        outward = slope * np.sqrt(np.minimum(1.0, 6 * part)) * more
        less = 1 - shape.spread * (1 - (0.4 if alone else 0.0) * shape.asymmetry)
        inward = t2 / 2 * shape.jump / n * np.sqrt(part) * less
        far = (outward + np.sqrt(outward**2 + bend * t2 * variance)) / bend
        near = (np.sqrt(inward**2 + bend * t2 * variance) - inward) / bend
    return np.where(shape.skewness < 0, far, near), np.where(shape.skewness > 0, far, near)


def _score_degrees(arms: ArmStatistics, shape: Shape | None = None, part: Array | float = 1.0) -> Array:
    """Return the degrees of freedom of the score interval: fewer where the variance itself is uncertain."""
    shape = _shape(arms) if shape is None else shape
    with np.errstate(divide="ignore", invalid="ignore"):
        known = 2 / (shape.spread * shape.doubt * part)
        return np.asarray(np.maximum(1.0, np.minimum(np.maximum(arms.effective_size - 1, 1.0) / part, known)))


def _wilson_reach(arms: ArmStatistics, tail: float, share: Array | None) -> tuple[Array, Array]:
    """Return how far each arm's score interval (Wilson 1927), at its effective size, reaches down and up."""
    q, n = KINDS["wilson"].within(arms.value), arms.effective_size / arms.inflation
    near = (q * n + 0.5) / (n + 1)  # a rate that is not 0 or 1
    n = n / (1 + arms.augmentation**2 * n / (near * (1 - near)))
    with np.errstate(divide="ignore", over="ignore"):
        s = 1 / (1 + n / special.stdtrit(student_degrees(arms), tail) ** 2)  # z^2 / (n + z^2)
    centre = q * (1 - s) + s / 2
    reach = np.sqrt(s * (1 - s) * q * (1 - q) + s**2 / 4)
    return np.maximum(q - centre + reach, 0.0), np.maximum(centre + reach - q, 0.0)


#: Every kind of interval.
KINDS: dict[IntervalKind, IntervalRule] = {
    "normal": IntervalRule(small_sample=False),
    "t": IntervalRule(),
    "score": IntervalRule(reach=_score_reach, needs_hajek=True, freedom=_score_degrees, knows_spread=_vary_somewhere),
    "wilson": IntervalRule(
        reach=_wilson_reach,
        needs_binary=True,
        needs_hajek=True,
        possible=(0.0, 1.0),
        error_by_width=True,
        knows_spread=_are_binary,
    ),
}


# ---------------------------------------------------------------- which kind an experiment has


def resolve_interval(interval: Interval, sums: Sums, estimator: Estimator) -> IntervalKind:
    """Return the kind of interval for one log, resolving "auto"; refuse one that the log cannot have."""
    check_interval(interval, binary=is_binary(sums), hajek=estimator.normalisation == "hajek")
    return settle_interval(interval, estimator)


def settle_interval(interval: Interval, estimator: Estimator) -> IntervalKind:
    """Return the kind of interval; "auto" is the one that holds for every outcome."""
    if interval != "auto":
        return interval
    return "score" if estimator.normalisation == "hajek" else "t"


def is_binary(sums: Sums, arms: Array | None = None) -> bool:
    """Whether every outcome that has arrived, of some arms or of all, is 0 or 1."""
    nonbinary = sums["nonbinary"]
    return bool(((nonbinary if arms is None else nonbinary[arms]) == 0).all())


def check_interval(interval: Interval, *, binary: bool, hajek: bool = True, subject: str = "`interval` is") -> None:
    """Refuse a kind of interval whose needs are not met."""
    if interval == "auto":
        return
    if KINDS[interval].needs_binary and not binary:
        raise OptionError(f"{subject} {interval!r}, which needs outcomes that are 0 or 1; 't' does not.")
    if KINDS[interval].needs_hajek and not hajek:
        raise OptionError(f"{subject} {interval!r}, which needs an estimator normalised by 'hajek'; 't' does not.")


def fallback_interval(interval: Interval, estimator: Estimator) -> Interval:
    """Return the interval, or "t" in place of a kind that the estimator does not have."""
    unfit = interval != "auto" and not KINDS[interval].fits(binary=True, hajek=estimator.normalisation == "hajek")
    return "t" if unfit else interval


# ---------------------------------------------------------------- combinations of arms


@dataclass(frozen=True)
class Combination:
    """A linear combination of arms under one kind of interval.

    Arms with coefficient 0 play no part, so an arm without arrivals spoils only its own answers.
    Statistics of shape (..., arms) are combined over the last axis, many experiments at once.
    """

    kind: IntervalKind
    coefficients: Array
    arms: ArmStatistics  # of the arms with a coefficient only

    @property
    def entry(self) -> IntervalRule:
        """What there is to know of the kind of interval."""
        return KINDS[self.kind]

    @cached_property
    def estimate(self) -> Array:
        """The combination of the arms' estimates."""
        return np.asarray(np.sum(self.coefficients * self.arms.value, axis=-1))

    @cached_property
    def has_interval(self) -> Array:
        """Whether every arm in the combination has the two arrivals, and the variation, that an interval needs."""
        enough = (self.arms.arrived >= 2) & self.entry.knows_spread(self.arms)
        return np.asarray(enough.all(axis=-1) & np.isfinite(self.estimate))

    @property
    def degrees(self) -> Array:
        """Degrees of freedom, by arm; infinite for normal intervals."""
        return self.entry.degrees(self.arms)

    @cached_property
    def std_error(self) -> Array:
        """The standard error that the interval uses; for `wilson`, or if 0, half the width at one normal deviation."""
        root = np.asarray(np.sqrt(np.sum(self._variance_parts, axis=-1)))
        if self.entry.reach is None or not (self.entry.error_by_width or (root == 0).any()):
            return root
        low, high = self.limits(float(special.ndtr(-1.0)))
        return np.where((root == 0) | self.entry.error_by_width, (high - low) / 2, root)

    def limits(self, tail: float) -> tuple[Array, Array]:
        """Return the limits that leave `tail` on either side, NaN where there is no interval."""
        if self.entry.reach is not None:
            low, high = self._mover(self.entry.reach, tail)
        else:
            reach = -self._quantile(tail) * self.std_error
            low, high = self.estimate - reach, self.estimate + reach
        return np.where(self.has_interval, low, np.nan), np.where(self.has_interval, high, np.nan)

    def test(self, null: float) -> tuple[float, float, float]:
        """Return the statistic of one experiment against `null`, and the chances of a smaller and a larger one."""
        if not self.has_interval:
            return math.nan, math.nan, math.nan
        if self.entry.reach is not None:
            statistic = self._inverted(self.entry.reach, null)
            return statistic, float(special.ndtr(statistic)), float(special.ndtr(-statistic))
        distance = float(self.estimate - null)
        if self.std_error == 0:
            statistic = 0.0 if distance == 0 else math.copysign(math.inf, distance)
        else:
            statistic = distance / float(self.std_error)
        if not self.entry.small_sample or math.isinf(statistic):
            return statistic, float(special.ndtr(statistic)), float(special.ndtr(-statistic))
        degrees = self._welch()
        return statistic, float(special.stdtr(degrees, statistic)), float(special.stdtr(degrees, -statistic))

    # ---------------------------------------------------------------- variances that add

    @property
    def _variance_parts(self) -> Array:
        """What each arm adds to the variance."""
        return np.asarray(self.coefficients**2 * self.entry.variances(self.arms))

    def _quantile(self, tail: float) -> Array:
        return np.asarray(special.stdtrit(self._welch(), tail) if self.entry.small_sample else special.ndtri(tail))

    def _welch(self) -> Array:
        """Welch-Satterthwaite degrees of freedom."""
        parts = self._variance_parts
        with np.errstate(invalid="ignore"):
            degrees = np.sum(parts, axis=-1) ** 2 / np.sum(parts**2 / self.degrees, axis=-1)
        return np.asarray(np.where(np.isfinite(degrees), degrees, np.min(self.degrees, axis=-1)))

    # ---------------------------------------------------------------- intervals that combine

    @cached_property
    def _centre(self) -> Array:
        """What the interval reaches down and up from: the estimate, of arms' means within what they can be."""
        return np.asarray(np.sum(self.coefficients * self.entry.within(self.arms.value), axis=-1))

    @cached_property
    def _shares(self) -> Array | None:
        """Each arm's share of what is uncertain, by its own interval or by its size alone; None of a single arm."""
        if self.coefficients.shape[-1] == 1 or self.entry.reach is None:
            return None
        own = np.max(self.entry.reach(self.arms, _USUAL_TAIL, None), axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = self.coefficients**2 * own**2
            sizes = self.coefficients**2 / self.arms.effective_size
            shares = [each / np.sum(each, axis=-1, keepdims=True) for each in (parts, sizes)]
        return np.asarray(np.fmax(*shares))

    def _mover(self, reach: Reach, tail: float) -> tuple[Array, Array]:
        """Combine the arms' intervals (Zou and Donner 2008)."""
        c = self.coefficients
        down, up = reach(self.arms, tail, self._shares)
        below, above = c * np.where(c > 0, down, up), c * np.where(c > 0, up, down)
        return self._centre - np.sqrt(np.sum(below**2, axis=-1)), self._centre + np.sqrt(np.sum(above**2, axis=-1))

    def _inverted(self, reach: Reach, null: float) -> float:
        """Return the normal quantile of the tail at which a limit meets `null`."""
        centre, error = float(self.coefficients @ self.entry.within(self.arms.value)), float(self.std_error)
        if centre == null:
            return 0.0
        sign, distance = math.copysign(1.0, centre - null), abs(centre - null)

        def gap(z: float) -> float:  # falls from 1 to -1; 0 where the limit meets null
            low, high = self._mover(reach, max(float(special.ndtr(-z)), 1e-300))
            length = float(centre - low if sign > 0 else high - centre)
            return (distance - length) / (distance + length) if math.isfinite(length) else -1.0

        inside, at_inside = 0.0, 1.0
        outside = max(2 * distance / error, 1e-3) if error > 0 else 1.0
        while (at_outside := gap(outside)) > 0:
            inside, at_inside, outside = outside, at_outside, 2 * outside
            if inside > 37:  # the normal tail is 0 from here
                return sign * math.inf
        return sign * find_root(gap, inside, outside, at_low=at_inside, at_high=at_outside)


def combine(arms: ArmStatistics, coefficients: Array, kind: IntervalKind) -> Combination:
    """Return the combination of arms with the given coefficients."""
    used = coefficients != 0
    return Combination(kind=kind, coefficients=coefficients[used], arms=arms.subset(used))
