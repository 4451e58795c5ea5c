"""Kinds of intervals, one entry each: what a kind needs, what it reads of an arm, and when "auto" chooses it.

`normal` is the paper's. `t` takes the larger of the homoskedastic and the leverage-corrected
variance, adds the square of what the outcome model moved the estimate by, and uses Student's t
with Kish's effective size minus 1 degrees of freedom, at least 1 (Welch-Satterthwaite for
combinations).
`wilson`, for 0/1 outcomes, is the score interval at the effective size, reduced where those two
variances exceed the homoskedastic one, with the same quantile, combined over arms by MOVER.
`skew`, for outcomes such as revenue, is `t` that reaches further on the side of the long tail: the
variance is taken at the mean that is tested, as in a score interval, where it grows with the mean by
the outcomes' skewness. Combined over arms by MOVER too.

A new kind is a word of `IntervalKind` and an entry of `KINDS`. A `Combination` of arms has the limits, and the test
against each `Alternative`, of one kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy import special

from belated.base.columns import Array
from belated.base.errors import OptionError
from belated.base.roots import find_root
from belated.estimation.estimators import ArmStatistics, Estimator, evaluate
from belated.summaries.sums import Sums

#: The kinds of intervals, and what may be asked for.
IntervalKind = Literal["normal", "t", "skew", "wilson"]
Interval = Literal["auto", IntervalKind]
INTERVALS: tuple[Interval, ...] = ("auto", *get_args(IntervalKind))

#: What a test is against.
Alternative = Literal["two-sided", "greater", "less"]
ALTERNATIVES: tuple[Alternative, ...] = get_args(Alternative)

#: From arms and a tail to how far each arm's interval reaches down and up from its estimate.
Reach = Callable[[ArmStatistics, float], tuple[Array, Array]]

#: The skewness of few outcomes is too small: by how much more to reckon, over the root of their number; and the most
#: that `skew` makes of it, an interval that reaches twice as far on one side.
_SMALL_SAMPLE, _MOST_SKEW = 4.0, 0.75


# ---------------------------------------------------------------- kinds


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
    suits : callable or None
        Of which experiments "auto" chooses it, if they have what it needs and no later kind suits; None: of none.
    """

    small_sample: bool = True
    reach: Reach | None = None
    needs_binary: bool = False
    needs_hajek: bool = False
    possible: tuple[float, float] = (-math.inf, math.inf)
    error_by_width: bool = False
    suits: Callable[[ArmStatistics], Array] | None = None

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
        return student_degrees(arms) if self.small_sample else np.full(arms.value.shape, np.inf)


def student_degrees(arms: ArmStatistics) -> Array:
    """Return the degrees of freedom of Student's t, by arm."""
    return np.asarray(np.maximum(arms.effective_size - 1, 1.0))


def _skewed_reach(arms: ArmStatistics, tail: float) -> tuple[Array, Array]:
    """Return how far each arm's interval reaches down and up: on the side of the long tail, x above `t`'s r.

    x solves (x / r)^2 = 1 + 2 k x / r: the squared distance over its variance at the mean that is x away, which
    is larger by the share that the mean and its estimated variance are correlated, with k half the skewness of
    an estimate from so many outcomes times the quantile.
    """
    quantile = -special.stdtrit(student_degrees(arms), tail)
    near = quantile * np.sqrt(KINDS["skew"].variances(arms))
    with np.errstate(divide="ignore", invalid="ignore"):
        small = 1 + _SMALL_SAMPLE / np.sqrt(arms.arrived)
        k = np.abs(arms.skewness) / 2 * small * quantile / np.sqrt(arms.effective_size)
    k = np.minimum(k, _MOST_SKEW)
    far = near * (k + np.sqrt(1 + k**2))
    return np.where(arms.skewness < 0, far, near), np.where(arms.skewness > 0, far, near)


def _score_reach(arms: ArmStatistics, tail: float) -> tuple[Array, Array]:
    """Return how far each arm's score interval (Wilson 1927), at its effective size, reaches down and up."""
    q, n = KINDS["wilson"].within(arms.value), arms.effective_size / arms.inflation
    near = (q * n + 0.5) / (n + 1)  # a rate that is not 0 or 1
    n = n / (1 + arms.augmentation**2 * n / (near * (1 - near)))
    with np.errstate(divide="ignore", over="ignore"):
        s = 1 / (1 + n / special.stdtrit(student_degrees(arms), tail) ** 2)  # z^2 / (n + z^2)
    centre = q * (1 - s) + s / 2
    reach = np.sqrt(s * (1 - s) * q * (1 - q) + s**2 / 4)
    return np.maximum(q - centre + reach, 0.0), np.maximum(centre + reach - q, 0.0)


def always(arms: ArmStatistics) -> Array:
    """Suit every experiment."""
    return np.ones(arms.value.shape[:-1], dtype=bool)


def are_skewed(arms: ArmStatistics) -> Array:
    """Whether the outcomes of any arm are more skewed than symmetric ones would seem, of each experiment."""
    n = np.maximum(arms.arrived, 8.0)
    error = np.sqrt(6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3)))  # of a normal sample's skewness
    # the largest of many arms' is larger by chance
    errors = max(1.5, math.sqrt(2 * math.log(max(arms.skewness.shape[-1] / 2, 1.0))))
    return np.asarray(((arms.arrived >= 8) & (np.abs(arms.skewness) > 0.5 + errors * error)).any(axis=-1))


#: Every kind of interval; of those that suit an experiment, "auto" is the last.
KINDS: dict[IntervalKind, IntervalRule] = {
    "normal": IntervalRule(small_sample=False),
    "t": IntervalRule(suits=always),
    "skew": IntervalRule(reach=_skewed_reach, needs_hajek=True, suits=are_skewed),
    "wilson": IntervalRule(
        reach=_score_reach,
        needs_binary=True,
        needs_hajek=True,
        possible=(0.0, 1.0),
        error_by_width=True,
        suits=always,
    ),
}


# ---------------------------------------------------------------- which kind an experiment has


def resolve_interval(interval: Interval, sums: Sums, estimator: Estimator) -> IntervalKind:
    """Return the kind of interval for one log, resolving "auto"; refuse one that the log cannot have."""
    binary, hajek = is_binary(sums), estimator.normalisation == "hajek"
    check_interval(interval, binary=binary, hajek=hajek)
    settled = settle_interval(interval, binary=binary, hajek=hajek)
    if settled != "auto":
        return settled
    return choose_kind(evaluate(sums, estimator), binary=binary, hajek=hajek)


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


def settle_interval(interval: Interval, *, binary: bool, hajek: bool) -> Interval:
    """Return the kind of interval, or "auto" if it is that and depends on the outcomes that arrive."""
    if interval != "auto":
        return interval
    first = next(iter(_candidates(binary=binary, hajek=hajek)))
    return first if KINDS[first].suits is always else "auto"


def choose_kind(arms: ArmStatistics, *, binary: bool, hajek: bool) -> IntervalKind:
    """Return the kind of interval that "auto" is for one experiment."""
    return next(iter(choose_kinds(arms, binary=binary, hajek=hajek)))


def choose_kinds(arms: ArmStatistics, *, binary: bool, hajek: bool) -> dict[IntervalKind, Array]:
    """Return the kinds of intervals that "auto" is, each with the experiments that it is chosen for.

    Statistics have shape (..., arms), those of many experiments; a kind that is chosen for none is left out.
    """
    chosen: dict[IntervalKind, Array] = {}
    left = always(arms)
    for name in _candidates(binary=binary, hajek=hajek):
        suits = KINDS[name].suits
        where = np.asarray(left & (always if suits is None else suits)(arms))
        if where.any():
            chosen[name] = where
        left = left & ~where
    return chosen


def _candidates(*, binary: bool, hajek: bool) -> list[IntervalKind]:
    """Return the kinds that "auto" may be, the most particular first."""
    return [
        name
        for name, kind in reversed(KINDS.items())
        if kind.suits is not None and kind.fits(binary=binary, hajek=hajek)
    ]


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
        """Whether every arm in the combination has the two arrivals an interval needs."""
        return np.asarray((self.arms.arrived >= 2).all(axis=-1) & np.isfinite(self.estimate))

    @property
    def degrees(self) -> Array:
        """Degrees of freedom, by arm; infinite for normal intervals."""
        return self.entry.degrees(self.arms)

    @cached_property
    def std_error(self) -> Array:
        """The standard error that the interval uses; for `wilson`, half the width at one normal deviation."""
        if self.entry.error_by_width:
            low, high = self.limits(float(special.ndtr(-1.0)))
            return (high - low) / 2
        return np.asarray(np.sqrt(np.sum(self._variance_parts, axis=-1)))

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

    def _mover(self, reach: Reach, tail: float) -> tuple[Array, Array]:
        """Combine the arms' intervals (Zou and Donner 2008)."""
        c = self.coefficients
        down, up = reach(self.arms, tail)
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
