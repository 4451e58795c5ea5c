"""The score interval, the default kind; docs/method.md has the formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from belated.base import special
from belated.base.columns import Array
from belated.estimation.estimators import ArmStatistics

#: A function from a tail probability to the distances between each arm's estimate and its lower and upper limit.
ReachAt = Callable[[float | Array], tuple[Array, Array]]

#: The weight of the pooled shape in an arm's own, in outcomes; the widening for an uncertain variance; the factor on
#: the root of an arm's share of a combination, above which its skewness counts in full; the rate at which `spread`
#: grows as sizes vary; and the relative size of rounding errors.
_BORROWED, _STRETCH, _FULL, _SIZES, _ROUNDING = 1.0, 2.5, 3.0, 30.0, 1e-9

#: The largest quantile.
_LARGEST_QUANTILE = 1e140

#: Variances below this are too small: numbers hold their squares with fewer digits, or not at all.
_LEAST_VARIANCE = 1e-145


class ScoreShape(NamedTuple):
    """The features of the arms' outcomes that the score interval uses; arrays by arm."""

    spread: Array  # of all arms' outcomes: 0 if they have two values, 1 if their sizes vary or are too few to tell
    variance: Array  # of the estimate
    doubt: Array  # the relative variance of that variance, at most 1
    tail: Array  # its sign is the side of the long tail
    far: Array  # the change of the estimate by one outcome in the long tail, at the mean that is tested
    near: Array  # the same, at the estimate
    curvature: Array  # of the variance as a function of the mean: 1 for two values, 0 for normal outcomes

    @classmethod
    def of(cls, arms: ArmStatistics) -> ScoreShape:
        """Return the shape of the outcomes; an arm with few or equal outcomes uses the pooled shape."""
        m, n, size = arms.moments, arms.arrived, arms.effective_size
        skewness, rest = _skewness(m.pooled_second, m.pooled_third, m.pooled_fourth)
        # the number of occurrences of the rarer value, if there are two
        rarer = m.pooled_count * (1 - np.abs(skewness) / np.sqrt(skewness**2 + 4)) / 2
        spread = np.minimum(1.0, 1 / rarer**2 + _SIZES * rest / (1 + skewness**2 + rest))
        borrowed = spread * _BORROWED / (n + _BORROWED)
        own = _skewness(m.second, m.third, m.fourth)
        g, r = ((1 - borrowed) * mine + borrowed * all_ for mine, all_ in zip(own, (skewness, rest), strict=True))
        variance = arms.variance if arms.robust is None else arms.robust
        # for an arm with equal outcomes: the pooled moments about its value
        d = m.offset
        second, third = m.pooled_second + d**2, m.pooled_third + 3 * m.pooled_second * d + d**3
        fourth = m.pooled_fourth + 4 * m.pooled_third * d + 6 * m.pooled_second * d**2 + d**4
        jump = third / second
        unexplained = 1 - jump**2 * (second / fourth)
        augmented = variance + np.where(unexplained < _ROUNDING, 0.0, unexplained) * second / size

        def chosen(of_equal: Array, of_others: Array) -> Array:
            return np.where(arms.constant, of_equal, of_others)

        return cls(
            spread=spread,
            variance=chosen(augmented, variance),
            doubt=np.minimum(1.0, chosen((skewness**2 + rest) / m.pooled_count, (g**2 + r) / n)),
            tail=chosen(jump, g),
            far=chosen(np.abs(jump) / size, np.abs(g) * np.sqrt(variance / size)),
            near=chosen(np.abs(jump) / size, np.abs(g) * np.sqrt(m.second) / size),
            curvature=(1 - spread) * chosen(np.ones_like(size), np.maximum(0.0, 1 - r / 2)),
        )


def _skewness(second: Array, third: Array, fourth: Array) -> tuple[Array, Array]:
    """Return the skewness g, and the kurtosis minus 1 + g^2: 0 for two values, 2 for normal outcomes."""
    varies = second > 0
    scale = np.where(varies, second, 1.0)
    g = np.where(varies, third / scale**1.5, 0.0)
    kurtosis = np.where(varies, fourth / scale**2, 1.0)
    rest = kurtosis - 1 - g**2
    return g, np.where(rest < _ROUNDING * kurtosis, 0.0, rest)


def score_reach(arms: ArmStatistics, coefficients: Array) -> ReachAt:
    """Return the distances to the limits of score intervals.

    On the side of the long tail, the distance x solves x^2 = t^2 (V + slope x - curvature x^2): the variance is taken
    at the mean that is x away. For outcomes with two values this is Wilson's interval. If sizes vary, the degrees of
    freedom of Student's t reflect the uncertainty of the variance.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shape, size = ScoreShape.of(arms), arms.effective_size
        part = _shares(arms, shape, coefficients)
        by_size, by_spread = np.maximum(size - 1, 1.0) / part, 2 / (shape.spread * shape.doubt * part)
        degrees, far_degrees = np.minimum(by_size, by_spread), np.minimum(by_size / (1 - shape.spread), by_spread)
        curvature, deviation = part * shape.curvature / size, np.sqrt(shape.variance)
        outward = shape.far / 2 * np.minimum(1.0, _FULL * np.sqrt(part))
        outward *= 1 + _STRETCH * shape.spread * shape.doubt * part**2
        inward = shape.near / 2 * np.sqrt(part) * (1 - shape.spread)

    def reach(tail: float | Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            t, s2 = _student(degrees, tail), _student(far_degrees, tail) ** 2
            bend = 1 + s2 * curvature
            error = np.sqrt(bend) * deviation
            far = (s2 * outward + np.hypot(s2 * outward, t * error)) / bend
            near = t * np.where(error > 0, deviation * (deviation / (t * inward + np.hypot(t * inward, error))), 0.0)
        up = np.minimum(np.where(shape.tail > 0, far, near), np.maximum(arms.ceiling - arms.value, 0.0))
        return np.where(shape.tail < 0, far, near), up

    return reach


def _shares(arms: ArmStatistics, shape: ScoreShape, coefficients: Array) -> Array:
    """Return each arm's share of the uncertainty of a combination, by variance or by size; 1 for a single arm."""
    parts = [coefficients**2 * each for each in (shape.variance + shape.far**2, 1 / arms.effective_size)]
    share = np.fmax(*(part / np.sum(part, axis=-1, keepdims=True) for part in parts))
    return np.where(share > 0, share, 1.0)


def _student(degrees: Array, tail: float | Array) -> Array:
    """Return Student's upper quantile with at least 1 degree of freedom; the normal quantile above 1e8.

    It is at most `_LARGEST_QUANTILE`, so that products with its square are numbers.
    """
    quantile = np.abs(special.stdtrit(np.clip(degrees, 1.0, 1e8), tail))  # SciPy's infinity may have the wrong sign
    return np.asarray(np.minimum(np.where(degrees < 1e8, quantile, -special.ndtri(tail)), _LARGEST_QUANTILE))


def score_degrees(arms: ArmStatistics) -> Array:
    """Return the degrees of freedom of each arm's score interval, reduced if the variance is uncertain."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shape = ScoreShape.of(arms)
        known = np.minimum(np.maximum(arms.effective_size - 1, 1.0), 2 / (shape.spread * shape.doubt))
        return np.asarray(np.maximum(known, 1.0))


def show_their_spread(arms: ArmStatistics) -> Array:
    """Whether the pooled outcomes vary, and their fourth powers neither overflow nor vanish."""
    m = arms.moments

    def is_known(second: Array, fourth: Array) -> Array:
        return np.asarray((second > _LEAST_VARIANCE) & np.isfinite(fourth))

    return (arms.constant | is_known(m.second, m.fourth)) & is_known(m.pooled_second, m.pooled_fourth)
