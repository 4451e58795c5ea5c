"""Whether a log is a later version of the one that a sequence has processed."""

from __future__ import annotations

import numpy as np

from belated.base.columns import Array

#: Sums of the same rows differ by less than this share of their size, whatever the order of addition.
_SAME = 1e-6


def deviation(found: Array, known: Array, scale: Array | float) -> Array:
    """Return how far values are from those known before: 1 is as far as they may be in a later version of a log.

    That is a share of the values and of their `scale`, the size of what was added up. NaN is the same as NaN alone.
    """
    same = (found == known) | (np.isnan(found) & np.isnan(known))
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.abs(found - known) / (_SAME * (np.abs(known) + scale))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
