"""Root finding in an interval, without scipy.optimize, whose import takes longer than most searches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from belated.base.columns import Array


def find_root(
    function: Callable[[float], float],
    low: float,
    high: float,
    *,
    at_low: float | None = None,
    at_high: float | None = None,
    tolerance: float = 1e-12,
    steps: int = 100,
) -> float:
    """Return a root of a function of one number, by regula falsi (Illinois).

    If a step moves one end by less than a tenth of the distance between the ends, the value at the other end is halved,
    so that both ends approach the root.

    Parameters
    ----------
    function : callable
        The function; its values at the two ends must have opposite signs.
    low, high : float
        The ends, low < high.
    at_low, at_high : float, optional
        The function at the ends, if known.
    tolerance : float
        Stop when the ends are closer than this share of the larger.
    steps : int
        Stop after this many steps.
    """
    f_low = function(low) if at_low is None else at_low
    f_high = function(high) if at_high is None else at_high
    if f_low == 0 or f_high == 0:
        return low if f_low == 0 else high
    if (f_low > 0) == (f_high > 0):
        raise ValueError(f"The function is {f_low:g} at {low:g} and {f_high:g} at {high:g}; one must be below 0.")
    root = low
    for _ in range(steps):
        root = (low * f_high - high * f_low) / (f_high - f_low)
        value = function(root)
        if (value > 0) == (f_low > 0):
            f_high = f_high / 2 if root - low < 0.1 * (high - low) else f_high
            low, f_low = root, value
        else:
            f_low = f_low / 2 if high - root < 0.1 * (high - low) else f_low
            high, f_high = root, value
        if value == 0 or high - low < tolerance * max(abs(low), abs(high)):
            break
    return root


def last_above_0(function: Callable[[float], float], most: float) -> float:
    """Return where a function that falls reaches 0, from 0 on.

    It is 0 if the function begins at 0 or below, and `most` or more if it is still above 0 there.
    """
    low, high, at_low = 0.0, 1.0, function(0.0)
    if not at_low > 0:
        return 0.0
    while (at_high := function(high)) > 0:
        if high >= most:
            return high
        low, high, at_low = high, 2 * high, at_high
    return find_root(function, low, high, at_low=at_low, at_high=at_high, tolerance=1e-10)


def bisect(is_low: Callable[[float], bool], low: float, high: float, *, steps: int) -> tuple[float, float]:
    """Return two ends around the point where `is_low` changes from true to false, by bisection.

    Parameters
    ----------
    is_low : callable
        True at `low` and false at `high`; neither is called.
    low, high : float
        The ends, in either order.
    steps : int
        The number of bisections.
    """
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return low, high


def find_root_each(
    function: Callable[[Array], Array], low: Array, high: Array, *, tolerance: float = 1e-12, steps: int = 60
) -> Array:
    """Return a root of each of many functions, by inverse quadratic interpolation and bisection (Chandrupatla 1997).

    Each is above 0 at `low`, and below it, infinite or NaN at `high`. The functions are not called there. Errors are at
    most `tolerance`, and for roots far from 0 that share of the root.
    """
    new, old, third = low, high, high
    f_new, f_old, f_third = np.ones(low.shape), np.full(low.shape, -np.inf), np.full(low.shape, -np.inf)
    share = np.full(low.shape, 0.5)
    for _ in range(steps):
        root = new + share * (old - new)
        value = function(root)
        value = np.where(np.isnan(value), -np.inf, value)
        stays = (value > 0) == (f_new > 0)  # the other end of the interval stays
        third, f_third = np.where(stays, new, old), np.where(stays, f_new, f_old)
        old, f_old = np.where(stays, old, new), np.where(stays, f_old, f_new)
        new, f_new = root, value
        distance = np.abs(old - new)
        near = tolerance * np.maximum(np.abs(new), 1.0)
        if ((distance <= near) | (f_new == 0)).all():
            break
        with np.errstate(all="ignore"):
            place, height = (new - old) / (third - old), (f_new - f_old) / (f_third - f_old)
            bends_little = (height**2 < place) & ((1 - height) ** 2 < 1 - place)
            by_curve = f_new / (f_old - f_new) * f_third / (f_old - f_third)
            by_curve += (third - new) / (old - new) * f_new / (f_third - f_new) * f_old / (f_third - f_old)
            least = np.minimum(0.5 * near / distance, 0.5)
            share = np.clip(np.where(bends_little & np.isfinite(by_curve), by_curve, 0.5), least, 1 - least)
    return new
