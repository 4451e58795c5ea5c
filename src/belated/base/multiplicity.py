"""Simultaneous inference: levels, tail probabilities and p-values for several questions, by Sidak and Dunnett."""

from __future__ import annotations

from typing import overload

import numpy as np

from belated.base import special
from belated.base.checks import TINY
from belated.base.columns import Array
from belated.base.roots import find_root

#: With more contrasts, or more rivals of an arm, Sidak's bound replaces Dunnett's integral to save time.
_MOST_CONTRASTS, _MOST_RIVALS = 64, 32


# ---------------------------------------------------------------- independent tests, by Sidak


@overload
def sidak_level(together: float, questions: int) -> float: ...
@overload
def sidak_level(together: Array, questions: int) -> Array: ...
def sidak_level(together: float | Array, questions: int) -> float | Array:
    """Return the error rate of each of several independent tests whose joint error rate is `together`.

    Examples
    --------
    >>> round(sidak_level(0.0975, 2), 6)
    0.05
    """
    each = -np.expm1(np.log1p(-np.asarray(together)) / questions)
    return each if isinstance(together, np.ndarray) else float(each)


@overload
def sidak_p_value(least: float, questions: int) -> float: ...
@overload
def sidak_p_value(least: Array, questions: int) -> Array: ...
def sidak_p_value(least: float | Array, questions: int) -> float | Array:
    """Return the probability that the smallest of several independent p-values is at most `least`; NaN stays NaN.

    Examples
    --------
    >>> round(sidak_p_value(0.05, 2), 6)
    0.0975
    """
    p = np.asarray(least)
    below = np.where(p >= 1, 0.0, p)
    joint = np.where(p >= 1, 1.0, -np.expm1(questions * np.log1p(-below)))
    return joint if isinstance(least, np.ndarray) else float(joint)


def sidak_tail(miss: float, questions: int) -> float:
    """Return the tail probability of each of several independent intervals that jointly miss at rate `miss`."""
    return sidak_level(miss, questions) / 2


# ---------------------------------------------------------------- correlated contrasts, by Dunnett


def joint_tail(errors: Array, baseline_error: float | None, tail: float) -> float:
    """Return the tail probability of each contrast at which they jointly miss with probability 2 `tail`.

    Contrasts with a baseline, of standard error `baseline_error`, are correlated through it and use Dunnett's method;
    all pairs, and very many arms, use Sidak's bound.
    """
    bound = sidak_tail(2 * tail, len(errors))
    if baseline_error is None or len(errors) > _MOST_CONTRASTS:
        return bound

    def excess(z: float) -> float:
        return joint_p_value(errors, baseline_error, float(2 * special.ndtr(-z))) - 2 * tail

    low, high = (-float(special.ndtri(each)) for each in (tail, bound))
    at_low, at_high = excess(low), excess(high)
    if not at_low > 0:  # one contrast, but for rounding
        return tail
    if not at_high < 0:  # contrasts that are independent
        return bound
    return float(special.ndtr(-find_root(excess, low, high, at_low=at_low, at_high=at_high)))


def joint_p_value(errors: Array, baseline_error: float | None, p_value: float) -> float:
    """Return the probability that the most significant of several true nulls is as significant as `p_value`."""
    bound = sidak_p_value(p_value, len(errors))
    if baseline_error is None or len(errors) > _MOST_CONTRASTS or not baseline_error > 0:
        return bound
    z = -special.ndtri(p_value / 2)
    x = np.linspace(-9.0, 9.0, 1001)
    density = np.exp(-(x**2) / 2)
    total = np.hypot(errors, baseline_error)[:, np.newaxis]
    shared, alone = baseline_error / total, np.maximum(errors[:, np.newaxis] / total, 1e-9)
    within = special.ndtr((z - shared * x) / alone) - special.ndtr((-z - shared * x) / alone)
    joint = 1 - float(np.prod(within, axis=0) @ density / density.sum())
    return min(max(joint, p_value), bound)


def joint_p_values_of_rivals(p_values: Array, errors: Array) -> Array:
    """Return the probability, if all arms are equal, that an arm's smallest one-sided p-value is this small.

    Dunnett's method, by an integral over the arm's own error; with many arms Sidak's bound, which is valid by
    Slepian's inequality.
    """
    others = len(errors) - 1
    bound = sidak_p_value(p_values, others)
    if others >= _MOST_RIVALS:
        return bound
    x = np.linspace(-8.0, 8.0, 201)
    weight = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    error = np.maximum(errors, TINY)
    mine, theirs = error[:, np.newaxis, np.newaxis], error[np.newaxis, :, np.newaxis]
    z = -special.ndtri(np.clip(p_values, TINY, 1 - 1e-16))[:, np.newaxis, np.newaxis]
    within = special.ndtr((z * np.hypot(mine, theirs) - mine * x) / theirs)
    within[np.arange(others + 1), np.arange(others + 1)] = 1.0
    joint = 1 - np.prod(within, axis=1) @ weight
    return np.asarray(np.clip(joint, np.minimum(p_values, bound), bound))
