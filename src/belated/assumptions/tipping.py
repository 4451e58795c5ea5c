"""Tipping points: the smallest size of an assumption at which a conclusion falls."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from belated.assumptions.missing import Assumption, MissingOutcomes
from belated.base.roots import bisect

#: The largest factor, and shift in standard deviations, tried in search of a tipping point.
_MOST = 10_000.0

#: Steps on the way there, and halvings of the step in which the interval first includes the value.
_STEPS, _HALVINGS = 80, 40


def tipping_point(
    missing: MissingOutcomes, null: float, size: Callable[[float], float], assumption: Callable[[float], Assumption]
) -> float:
    """Return the smallest size of an assumption at which the interval includes `null`.

    Parameters
    ----------
    missing : MissingOutcomes
    null : float
    size : callable
        The size by its logarithm x, which the search goes through evenly from 0.
    assumption : callable
        The assumption of a size.

    Returns
    -------
    float
        Infinite if no size makes the interval include it, NaN if there is no interval.
    """
    if not missing.has_interval:
        return math.nan
    _, _, low, high = missing.limits(assumption(size(0.0)))
    if low <= null <= high:
        return size(0.0)
    up = high < null

    def excludes(x: float) -> bool:
        limit = missing.side(assumption(size(x)), up)[1]
        return not (limit >= null if up else limit <= null)

    # the variance may fall where a bound rises: look at steps first, then halve the first that crosses
    steps = np.linspace(0.0, math.log(_MOST), _STEPS + 1).tolist()
    for outside, inside in pairwise(steps):
        if not excludes(inside):
            return size(bisect(excludes, outside, inside, steps=_HALVINGS)[1])
    return math.inf
