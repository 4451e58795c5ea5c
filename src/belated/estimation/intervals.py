"""The kinds of intervals: `KINDS` has one entry for each, with its requirements and formulas.

`normal` is the paper's. `t` takes the larger of the homoskedastic and the leverage-corrected
variance, adds the square of the change due to the outcome model, and uses Student's t
with Kish's effective size minus 1 degrees of freedom, at least 1 (Welch-Satterthwaite for
combinations).
`score`, the default, starts from the variance of `t` and adjusts both limits for the skewness and kurtosis of the
outcomes, so that it also holds for rare and mostly-zero outcomes. MOVER combines arms.
`wilson`, for 0/1 outcomes, is the score interval at the effective size, reduced where those two
variances exceed the homoskedastic one, with the same quantile, combined over arms by MOVER.

To add a kind, add a word to `IntervalKind` and an entry to `KINDS`. A `Combination` of arms gives the limits and tests
of one kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from belated.base import special
from belated.base.checks import TINY
from belated.base.columns import Array
from belated.base.errors import OptionError, argument
from belated.base.roots import bisect, find_root, find_root_each
from belated.estimation.estimators import ArmStatistics, Estimator
from belated.estimation.score_interval import ReachAt, score_degrees, score_reach, show_their_spread
from belated.summaries.sums import Sums

#: The kinds of intervals, and the values of the option.
IntervalKind = Literal["normal", "t", "score", "wilson"]
Interval = Literal["auto", IntervalKind]
INTERVALS: tuple[Interval, ...] = ("auto", *get_args(IntervalKind))

#: The alternative hypothesis of a test.
Alternative = Literal["two-sided", "greater", "less"]
ALTERNATIVES: tuple[Alternative, ...] = get_args(Alternative)

#: The relative distance of a limit from a value at which it has reached it.
_TOLERANCE = 1e-12

#: A function from arms and coefficients to the distances between estimate and limits.
Reach = Callable[[ArmStatistics, Array], ReachAt]


# ---------------------------------------------------------------- kinds


def student_degrees(arms: ArmStatistics) -> Array:
    """Return the degrees of freedom of Student's t from the effective size alone, by arm."""
    return np.asarray(np.maximum(arms.effective_size - 1, 1.0))


def _outcomes_vary(arms: ArmStatistics) -> Array:
    """Whether each arm's outcomes vary."""
    return np.asarray(~arms.constant)


def _are_binary(arms: ArmStatistics) -> Array:
    """Return True for every arm: 0/1 outcomes need not vary."""
    return np.ones(arms.value.shape, dtype=bool)


@dataclass(frozen=True, kw_only=True)
class IntervalRule:
    """A kind of interval.

    Attributes
    ----------
    small_sample : bool
        Whether it uses the small-sample variance and Student's t; if not, the paper's and the normal distribution.
    reach : callable or None
        For an asymmetric kind, the distances from an arm's estimate to its limits, which MOVER combines. None if
        variances add.
    needs_binary, needs_hajek : bool
        Whether outcomes must be 0 or 1, and the estimator normalised by 'hajek'.
    possible : (float, float)
        The smallest and the largest possible mean.
    error_by_width : bool
        Whether the standard error is half the width at one normal deviation; if not, the root of the variance.
    freedom : callable
        A function from arms to the degrees of freedom of Student's t.
    knows_spread : callable
        A function from arms to whether their outcomes vary enough for an interval.
    of_equal : str
        What the interval does about outcomes that are all equal, in words, if they can be enough.
    """

    small_sample: bool = True
    reach: Reach | None = None
    needs_binary: bool = False
    needs_hajek: bool = False
    possible: tuple[float, float] = (-math.inf, math.inf)
    error_by_width: bool = False
    freedom: Callable[[ArmStatistics], Array] = student_degrees
    knows_spread: Callable[[ArmStatistics], Array] = _outcomes_vary
    of_equal: str = ""

    def fits(self, *, binary: bool, hajek: bool) -> bool:
        """Whether outcomes and estimator meet the requirements."""
        return (binary or not self.needs_binary) and (hajek or not self.needs_hajek)

    def within(self, values: Array) -> Array:
        """Return values clipped to the possible range of a mean."""
        return np.asarray(np.clip(values, *self.possible))

    def variances(self, arms: ArmStatistics) -> Array:
        """Return the variance that the interval uses, by arm."""
        return arms.robust if self.small_sample and arms.robust is not None else arms.variance

    def degrees(self, arms: ArmStatistics) -> Array:
        """Return the degrees of freedom, by arm."""
        return self.freedom(arms) if self.small_sample else np.full(arms.value.shape, np.inf)


def _wilson_reach(arms: ArmStatistics, coefficients: Array) -> ReachAt:
    """Return the distances to the limits of Wilson's (1927) score interval at the effective size."""
    q, n = KINDS["wilson"].within(arms.value), arms.effective_size / arms.inflation
    middle = (q * n + 0.5) / (n + 1)  # the rate, moved away from 0 and 1
    size = n / (1 + arms.augmentation**2 * n / (middle * (1 - middle)))

    def reach(tail: float | Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore", over="ignore"):
            s = 1 / (1 + size / special.stdtrit(student_degrees(arms), tail) ** 2)  # z^2 / (n + z^2)
        centre = q * (1 - s) + s / 2
        half = np.sqrt(s * (1 - s) * q * (1 - q) + s**2 / 4)
        return np.maximum(q - centre + half, 0.0), np.maximum(centre + half - q, 0.0)

    return reach


#: Every kind of interval.
KINDS: dict[IntervalKind, IntervalRule] = {
    "normal": IntervalRule(small_sample=False),
    "t": IntervalRule(),
    "score": IntervalRule(
        reach=score_reach,
        needs_hajek=True,
        freedom=score_degrees,
        knows_spread=show_their_spread,
        of_equal="uses the variance of all arms together",
    ),
    "wilson": IntervalRule(
        reach=_wilson_reach,
        needs_binary=True,
        needs_hajek=True,
        possible=(0.0, 1.0),
        error_by_width=True,
        knows_spread=_are_binary,
        of_equal="treats them as rates of 0 or 1",
    ),
}


# ---------------------------------------------------------------- choice of kind


def resolve_interval(interval: Interval, sums: Sums, estimator: Estimator) -> IntervalKind:
    """Return the kind of interval for one log, resolving "auto"; raise if the log does not meet its requirements."""
    check_interval(interval, binary=is_binary(sums), hajek=estimator.normalisation == "hajek")
    return settle_interval(interval, estimator)


def settle_interval(interval: Interval, estimator: Estimator) -> IntervalKind:
    """Return the kind of interval, resolving "auto" to the default for the estimator."""
    if interval != "auto":
        return interval
    return "score" if estimator.normalisation == "hajek" else "t"


def is_binary(sums: Sums, arms: Array | None = None) -> bool:
    """Whether every arrived outcome, of some arms or of all, is 0 or 1."""
    nonbinary = sums["nonbinary"]
    return bool(((nonbinary if arms is None else nonbinary[arms]) == 0).all())


def check_interval(
    interval: Interval, *, binary: bool, hajek: bool = True, subject: str = f"{argument('interval')} is"
) -> None:
    """Raise if the requirements of a kind of interval are not met."""
    if interval == "auto":
        return
    if KINDS[interval].needs_binary and not binary:
        raise OptionError(
            f"{subject} {interval!r}, which needs outcomes that are 0 or 1; use 'score' or 't' otherwise."
        )
    if KINDS[interval].needs_hajek and not hajek:
        raise OptionError(f"{subject} {interval!r}, which needs an estimator normalised by 'hajek'; use 't' otherwise.")


def fallback_interval(interval: Interval, estimator: Estimator) -> Interval:
    """Return the kind of interval, or "t" if the estimator does not support it."""
    unfit = interval != "auto" and not KINDS[interval].fits(binary=True, hajek=estimator.normalisation == "hajek")
    return "t" if unfit else interval


# ---------------------------------------------------------------- combinations of arms


@dataclass(frozen=True)
class Combination:
    """A linear combination of arms under one kind of interval.

    Arms with coefficient 0 are ignored, so an arm without arrivals affects only its own answers.
    Statistics of shape (..., arms) are combined over the last axis, for many experiments at once.
    """

    kind: IntervalKind
    coefficients: Array
    arms: ArmStatistics  # of the arms whose coefficient is not 0

    @property
    def entry(self) -> IntervalRule:
        """The entry of `KINDS`."""
        return KINDS[self.kind]

    @cached_property
    def estimate(self) -> Array:
        """The combination of the arms' estimates."""
        return np.asarray(np.sum(self.coefficients * self.arms.value, axis=-1))

    @cached_property
    def has_interval(self) -> Array:
        """Whether every arm in the combination has two arrivals, enough variation, and a variance that is a number."""
        enough = (self.arms.arrived >= 2) & self.entry.knows_spread(self.arms)
        enough &= np.isfinite(self.entry.variances(self.arms))
        return np.asarray(enough.all(axis=-1) & np.isfinite(self.estimate))

    @property
    def degrees(self) -> Array:
        """Degrees of freedom, by arm; infinite for normal intervals."""
        return self.entry.degrees(self.arms)

    @cached_property
    def std_error(self) -> Array:
        """The standard error that the interval uses.

        For `wilson`, and if the outcomes of every arm are equal, it is half the width at one normal deviation.
        """
        root = np.asarray(np.sqrt(self._shared_inflation**2 * np.sum(self._variance_parts, axis=-1) + self._common))
        by_width = (root == 0) | self.arms.constant.all(axis=-1) | self.entry.error_by_width
        if self.entry.reach is None or not by_width.any():
            return root
        low, high = self.limits(float(special.ndtr(-1.0)))
        return np.where(by_width, (high - low) / 2, root)

    def limits(self, tail: float | Array) -> tuple[Array, Array]:
        """Return the limits with probability `tail` on either side; NaN where there is no interval.

        An array of tails, one per experiment, has shape (..., 1).
        """
        if self._reach is not None:
            low, high = self._mover(self._reach, tail)
        else:
            reach = -self._quantile(tail if isinstance(tail, float) else tail[..., 0]) * self.std_error
            low, high = self.estimate - reach, self.estimate + reach
        return np.where(self.has_interval, low, np.nan), np.where(self.has_interval, high, np.nan)

    def test(self, null: float) -> tuple[float, float, float]:
        """Return the test statistic of one experiment, and the probabilities of a smaller and a larger one."""
        if not self.has_interval:
            return math.nan, math.nan, math.nan
        if self._reach is not None:
            statistic = self._inverted(self._reach, null)
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

    def p_not_above(self) -> Array:
        """Return, for each of many experiments, the p-value of the hypothesis that the combination is not above 0."""
        z = np.abs(self.estimate) / np.where(self.std_error > 0, self.std_error, 1.0)
        if self._reach is None:
            z = np.where((self.std_error == 0) & (self.estimate != 0), math.inf, z)
            freedom = np.minimum(self._welch(), 1e9) if self.entry.small_sample else np.full(z.shape, 1e9)
            p = special.stdtr(freedom, -z) if self.entry.small_sample else special.ndtr(-z)
            return np.asarray(np.where(self.estimate > 0, p, 1 - p))

        def distance(z: Array) -> Array:  # how far the limit at this deviate is from having reached 0
            low, high = self.limits(np.maximum(special.ndtr(-z), TINY)[..., np.newaxis])
            return np.asarray(np.where(self._centre > 0, low, -high))

        inside = find_root_each(distance, np.zeros(z.shape), np.full(z.shape, 37.5))
        p = special.ndtr(-np.where(self._centre == 0, 0.0, inside))
        return np.asarray(np.where(self._centre > 0, p, 1 - p))

    # ---------------------------------------------------------------- variances that add

    @property
    def _variance_parts(self) -> Array:
        """The contribution of each arm to the variance."""
        return np.asarray(self.coefficients**2 * self.entry.variances(self.arms))

    @cached_property
    def _shared_inflation(self) -> Array | float:
        """The standard error with the covariance due to an outcome model, over that of independent arms."""
        if self.arms.shared is None:
            return 1.0
        c, (covariance, of_model) = self.coefficients, self.arms.shared
        apart = np.sum(self._variance_parts, axis=-1)
        together, least = (
            apart + np.einsum("a,...ab,b->...", c, covariance, c),
            apart - np.sum(c**2 * of_model, axis=-1),
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(apart == 0, 1.0, np.sqrt(np.maximum(together, least) / apart)))

    @cached_property
    def _common(self) -> Array | float:
        """The variance from what cells of several segments have in common."""
        return 0.0 if self.arms.common is None else self.arms.common.variance(self.coefficients)

    @property
    def freedom(self) -> Array:
        """Degrees of freedom of the combination; infinite for normal intervals."""
        if not self.entry.small_sample:
            return np.full(self.estimate.shape, np.inf)
        return self.degrees[..., 0] if self.degrees.shape[-1] == 1 else self._welch()

    def _quantile(self, tail: float | Array) -> Array:
        return np.asarray(special.stdtrit(self._welch(), tail) if self.entry.small_sample else special.ndtri(tail))

    def _welch(self) -> Array:
        """Welch-Satterthwaite degrees of freedom; the fewest of any arm if no variance is known."""
        parts, common = self._variance_parts, self._common
        with np.errstate(invalid="ignore"):
            square = np.sum(parts**2 / self.degrees, axis=-1)
            if self.arms.common is not None:
                square = square + common**2 / self.arms.common.degrees
            degrees = (np.sum(parts, axis=-1) + common) ** 2 / square
        known = np.isfinite(degrees) & ~self.arms.constant.all(axis=-1)
        return np.asarray(np.where(known, degrees, np.min(self.degrees, axis=-1)))

    # ---------------------------------------------------------------- intervals that combine

    @cached_property
    def _centre(self) -> Array:
        """The centre of the interval: the estimate, with arms' means clipped to their possible range."""
        return np.asarray(np.sum(self.coefficients * self.entry.within(self.arms.value), axis=-1))

    def __getstate__(self) -> dict[str, object]:
        """Return what a pickle holds: not the reach, a function that is made again."""
        return {name: value for name, value in self.__dict__.items() if name != "_reach"}

    @cached_property
    def _reach(self) -> ReachAt | None:
        return None if self.entry.reach is None else self.entry.reach(self.arms, self.coefficients)

    def _mover(self, reach: ReachAt, tail: float | Array) -> tuple[Array, Array]:
        """Combine the arms' intervals (Zou and Donner 2008)."""
        c = self.coefficients
        down, up = reach(tail)
        below, above = c * np.where(c > 0, down, up), c * np.where(c > 0, up, down)
        squares = (self._shared_inflation**2 * np.sum(each**2, axis=-1) for each in (below, above))
        if self.arms.common is not None:
            quantile = special.stdtrit(self.arms.common.degrees, tail if isinstance(tail, float) else tail[..., 0])
            squares = (square + quantile**2 * self._common for square in squares)
        down, up = (np.sqrt(square) for square in squares)
        low, high = self._centre - down, self._centre + up
        if (c > 0).all():  # what arms have in common does not move a limit beyond the cap
            high = np.minimum(high, np.maximum(np.sum(c * self.arms.ceiling, axis=-1), self._centre))
        elif (c < 0).all():
            low = np.maximum(low, np.minimum(np.sum(c * self.arms.ceiling, axis=-1), self._centre))
        return low, high

    def _inverted(self, reach: ReachAt, null: float) -> float:
        """Return the normal quantile of the tail at which a limit equals `null`."""
        centre, error = float(self.coefficients @ self.entry.within(self.arms.value)), float(self.std_error)
        if centre == null:
            return 0.0
        sign, distance = math.copysign(1.0, centre - null), abs(centre - null)

        def gap(z: float) -> float:  # falls from 1 to -1; 0 where the limit equals null
            low, high = self._mover(reach, max(float(special.ndtr(-z)), TINY))
            length = float(centre - low if sign > 0 else high - centre)
            return 1 - length / distance if length < 2 * distance else -1.0  # nearly a line around the root

        inside, at_inside = 0.0, 1.0
        outside = min(max(2 * distance / error, 1e-3), 38.0) if error > 0 else 1.0
        while (at_outside := gap(outside)) > _TOLERANCE:
            inside, at_inside, outside = outside, at_outside, 2 * outside
            if inside > 37:  # the normal tail is 0 from here
                return sign * max(inside, distance / error if error > 0 else math.inf)
        if at_outside > -_TOLERANCE:  # a limit at the cap stays there
            return sign * bisect(lambda z: gap(z) > _TOLERANCE, inside, outside, steps=60)[1]
        return sign * find_root(gap, inside, outside, at_low=at_inside, at_high=at_outside)


def combine(arms: ArmStatistics, coefficients: Array, kind: IntervalKind) -> Combination:
    """Return the combination of arms with the given coefficients."""
    used = coefficients != 0
    return Combination(kind=kind, coefficients=coefficients[used], arms=arms.subset(used))
