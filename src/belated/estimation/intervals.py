"""Intervals and tests for linear combinations of arms: the paper's, and three that cover in small samples.

`normal` is the paper's. `t` takes the larger of the homoskedastic and the leverage-corrected
variance, adds the square of what the outcome model moved the estimate by, and uses Student's t
with Kish's effective size minus 1 degrees of freedom, at least 1 (Welch-Satterthwaite for
combinations).
`wilson`, for 0/1 outcomes, is the score interval at the effective size, reduced where those two
variances exceed the homoskedastic one, with the same quantile, combined over arms by MOVER.
`skew`, for outcomes such as revenue, is `t` that reaches further on the side of the long tail: the
variance is taken at the mean that is tested, as in a score interval, where it grows with the mean by
the outcomes' skewness. Combined over arms by MOVER too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy import special

from belated.base.columns import Array
from belated.base.roots import bisect, find_root
from belated.estimation.estimators import ArmStatistics

Interval = Literal["auto", "normal", "t", "skew", "wilson"]
INTERVALS: tuple[Interval, ...] = get_args(Interval)
Alternative = Literal["two-sided", "greater", "less"]
ALTERNATIVES: tuple[Alternative, ...] = get_args(Alternative)

#: Intervals that reach further on one side.
_ASYMMETRIC = ("skew", "wilson")

#: The skewness of few outcomes is too small: by how much more to reckon, over the root of their number; and the most
#: that `skew` makes of it, an interval that reaches twice as far on one side.
_SMALL_SAMPLE, _MOST_SKEW = 4.0, 0.75


@dataclass(frozen=True)
class Combination:
    """A linear combination of arms under one kind of interval.

    Arms with coefficient 0 play no part, so an arm that was never seen spoils only its own answers.
    Statistics of shape (..., arms) are combined over the last axis, many experiments at once.
    """

    kind: str
    coefficients: Array
    arms: ArmStatistics  # of the arms with a coefficient only

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
        """Degrees of freedom, by arm."""
        return np.asarray(np.maximum(self.arms.effective_size - 1, 1.0))

    @property
    def variances(self) -> Array:
        """The variance that the interval uses, by arm."""
        robust = self.arms.robust
        return self.arms.variance if self.kind == "normal" or robust is None else robust

    @cached_property
    def std_error(self) -> Array:
        """The standard error that the interval uses; for `wilson`, half the width at one normal deviation."""
        if self.kind == "wilson":
            low, high = self.limits(float(special.ndtr(-1.0)))
            return (high - low) / 2
        return np.asarray(np.sqrt(np.sum(self.coefficients**2 * self.variances, axis=-1)))

    def limits(self, tail: float) -> tuple[Array, Array]:
        """Return the limits that leave `tail` on either side, NaN where there is no interval."""
        if self.kind in _ASYMMETRIC:
            low, high = self._mover(tail)
        else:
            reach = -self._quantile(tail) * self.std_error
            low, high = self.estimate - reach, self.estimate + reach
        return np.where(self.has_interval, low, np.nan), np.where(self.has_interval, high, np.nan)

    def test(self, null: float) -> tuple[float, float, float]:
        """Return the statistic of one experiment against `null`, and the chances of a smaller and a larger one."""
        if not self.has_interval:
            return math.nan, math.nan, math.nan
        if self.kind in _ASYMMETRIC:
            statistic = self._inverted(null)
            return statistic, float(special.ndtr(statistic)), float(special.ndtr(-statistic))
        distance = float(self.estimate - null)
        if self.std_error == 0:
            statistic = 0.0 if distance == 0 else math.copysign(math.inf, distance)
        else:
            statistic = distance / float(self.std_error)
        if self.kind == "normal" or math.isinf(statistic):
            return statistic, float(special.ndtr(statistic)), float(special.ndtr(-statistic))
        degrees = self._welch()
        return statistic, float(special.stdtr(degrees, statistic)), float(special.stdtr(degrees, -statistic))

    def _quantile(self, tail: float) -> Array:
        return np.asarray(special.ndtri(tail) if self.kind == "normal" else special.stdtrit(self._welch(), tail))

    def _welch(self) -> Array:
        """Welch-Satterthwaite degrees of freedom."""
        parts = self.coefficients**2 * self.variances
        with np.errstate(invalid="ignore"):
            degrees = np.sum(parts, axis=-1) ** 2 / np.sum(parts**2 / self.degrees, axis=-1)
        return np.asarray(np.where(np.isfinite(degrees), degrees, np.min(self.degrees, axis=-1)))

    # ---------------------------------------------------------------- wilson and skew

    @property
    def _centres(self) -> Array:
        """What each arm's interval reaches down and up from: its estimate, for a rate within what it can be."""
        return np.asarray(np.clip(self.arms.value, 0.0, 1.0) if self.kind == "wilson" else self.arms.value)

    def _skewed(self, tail: float) -> tuple[Array, Array]:
        """Return how far each arm's interval reaches down and up: on the side of the long tail, x above `t`'s r.

        x solves (x / r)^2 = 1 + 2 k x / r: the squared distance over its variance at the mean that is x away, which
        is larger by the share that the mean and its estimated variance are correlated, with k half the skewness of
        an estimate from so many outcomes times the quantile.
        """
        quantile = -special.stdtrit(self.degrees, tail)
        near = quantile * np.sqrt(self.variances)
        skewness = self.arms.skewness
        with np.errstate(divide="ignore", invalid="ignore"):
            small = 1 + _SMALL_SAMPLE / np.sqrt(self.arms.arrived)
            k = np.abs(skewness) / 2 * small * quantile / np.sqrt(self.arms.effective_size)
        k = np.minimum(k, _MOST_SKEW)
        far = near * (k + np.sqrt(1 + k**2))
        return np.where(skewness < 0, far, near), np.where(skewness > 0, far, near)

    def _scored(self, tail: float) -> tuple[Array, Array]:
        """Return how far each arm's score interval (Wilson 1927), at its effective size, reaches down and up."""
        q, n = self._centres, self.arms.effective_size / self.arms.inflation
        near = (q * n + 0.5) / (n + 1)  # a rate that is not 0 or 1
        n = n / (1 + self.arms.augmentation**2 * n / (near * (1 - near)))
        with np.errstate(divide="ignore", over="ignore"):
            s = 1 / (1 + n / special.stdtrit(self.degrees, tail) ** 2)  # z^2 / (n + z^2)
        centre = q * (1 - s) + s / 2
        reach = np.sqrt(s * (1 - s) * q * (1 - q) + s**2 / 4)
        return np.maximum(q - centre + reach, 0.0), np.maximum(centre + reach - q, 0.0)

    def _mover(self, tail: float) -> tuple[Array, Array]:
        """Combine the arms' intervals (Zou and Donner 2008)."""
        c = self.coefficients
        down, up = self._scored(tail) if self.kind == "wilson" else self._skewed(tail)
        below, above = c * np.where(c > 0, down, up), c * np.where(c > 0, up, down)
        centre = np.sum(c * self._centres, axis=-1)
        return centre - np.sqrt(np.sum(below**2, axis=-1)), centre + np.sqrt(np.sum(above**2, axis=-1))

    def _inverted(self, null: float) -> float:
        """Return the normal quantile of the tail at which a limit meets `null`."""
        centre, error = float(self.coefficients @ self._centres), float(self.std_error)
        if centre == null:
            return 0.0
        sign, distance = math.copysign(1.0, centre - null), abs(centre - null)

        def gap(z: float) -> float:  # falls from 1 to -1; 0 where the limit meets null
            low, high = self._mover(max(float(special.ndtr(-z)), 1e-300))
            reach = float(centre - low if sign > 0 else high - centre)
            return (distance - reach) / (distance + reach) if math.isfinite(reach) else -1.0

        inside, at_inside = 0.0, 1.0
        outside = max(2 * distance / error, 1e-3) if error > 0 else 1.0
        while (at_outside := gap(outside)) > 0:
            inside, at_inside, outside = outside, at_outside, 2 * outside
            if inside > 37:  # the normal tail is 0 from here
                return sign * math.inf
        return sign * find_root(gap, inside, outside, at_low=at_inside, at_high=at_outside)


def are_skewed(arms: ArmStatistics) -> Array:
    """Whether the outcomes of any arm are more skewed than symmetric ones would seem, of each experiment."""
    n = np.maximum(arms.arrived, 8.0)
    error = np.sqrt(6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3)))  # of a normal sample's skewness
    # the largest of many arms' is larger by chance
    errors = max(1.5, math.sqrt(2 * math.log(max(arms.skewness.shape[-1] / 2, 1.0))))
    return np.asarray(((arms.arrived >= 8) & (np.abs(arms.skewness) > 0.5 + errors * error)).any(axis=-1))


def combine(arms: ArmStatistics, coefficients: Array, kind: str) -> Combination:
    """Return the combination of arms with the given coefficients."""
    used = coefficients != 0
    return Combination(kind, coefficients[used], arms.subset(used))


#: Contrasts beyond which Dunnett's integral is not worth its time over Sidak's bound.
_DUNNETT_LIMIT = 64


def joint_tail(errors: Array, baseline_error: float | None, tail: float) -> float:
    """Return the tail of each contrast at which all of them together leave 2 `tail`.

    Against a baseline with standard error `baseline_error`: Dunnett's, for contrasts that are
    correlated through it; for all pairs, and very many arms, Sidak's bound.
    """
    sidak = 0.5 * -math.expm1(math.log1p(-2 * tail) / len(errors))
    if baseline_error is None or len(errors) > _DUNNETT_LIMIT:
        return sidak

    def too_near(z: float) -> bool:
        return joint_p_value(errors, baseline_error, float(2 * special.ndtr(-z))) > 2 * tail

    _, z = bisect(too_near, -float(special.ndtri(tail)), -float(special.ndtri(sidak)), steps=40)
    return float(special.ndtr(-z))


def joint_p_value(errors: Array, baseline_error: float | None, p_value: float) -> float:
    """Return the probability that the most significant of several true nulls is as significant as `p_value`."""
    sidak = -math.expm1(len(errors) * math.log1p(-p_value)) if p_value < 1 else 1.0
    if baseline_error is None or len(errors) > _DUNNETT_LIMIT:
        return sidak
    z = -special.ndtri(p_value / 2)
    if not baseline_error > 0:
        return sidak
    x = np.linspace(-9.0, 9.0, 1001)
    density = np.exp(-(x**2) / 2)
    total = np.hypot(errors, baseline_error)[:, np.newaxis]
    shared, alone = baseline_error / total, np.maximum(errors[:, np.newaxis] / total, 1e-9)
    within = special.ndtr((z - shared * x) / alone) - special.ndtr((-z - shared * x) / alone)
    joint = 1 - float(np.prod(within, axis=0) @ density / density.sum())
    return min(max(joint, p_value), sidak)
