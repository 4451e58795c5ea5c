"""Intervals and tests for linear combinations of arms, of any of the kinds in `belated.estimation.intervals`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy import special

from belated.base.columns import Array
from belated.base.roots import find_root
from belated.estimation.estimators import ArmStatistics
from belated.estimation.intervals import KINDS, IntervalKind, IntervalRule, Reach

Alternative = Literal["two-sided", "greater", "less"]
ALTERNATIVES: tuple[Alternative, ...] = get_args(Alternative)


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
