"""Limits of rates for display: a rate lies between 0 % and 100 %, although an interval for it may reach beyond."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from belated.base.columns import Array
from belated.base.text import Unit

#: The least and the largest value that a quantity can have.
Range: TypeAlias = tuple[float, float]

#: The range of a number, of a rate, and of the difference of two rates.
RANGES: dict[Unit, Range] = {"number": (-math.inf, math.inf), "percent": (0.0, 1.0), "points": (-1.0, 1.0)}


def shown_limit(limit: ArrayLike, estimate: ArrayLike, possible: Range) -> Array:
    """Return limits of intervals, cut at the range of what is possible, or at an estimate that is beyond it.

    Examples
    --------
    >>> shown_limit([-8.0, 0.2, 1.3], [0.9, 0.5, 1.1], RANGES["percent"]).tolist()
    [0.0, 0.2, 1.1]
    """
    least, most = possible
    return np.asarray(np.clip(np.asarray(limit, float), np.fmin(least, estimate), np.fmax(most, estimate)))
