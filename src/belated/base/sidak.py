"""Sidak's formula for several independent tests: the level of each, or the p-value of the smallest."""

from __future__ import annotations

from typing import overload

import numpy as np

from belated.base.columns import Array


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
    """Return the probability that the smallest of several independent p-values is at most `least`.

    Examples
    --------
    >>> round(sidak_p_value(0.05, 2), 6)
    0.0975
    """
    p = np.asarray(least)
    below = np.where(p < 1, p, 0.0)
    joint = np.where(p < 1, -np.expm1(questions * np.log1p(-below)), 1.0)
    return joint if isinstance(least, np.ndarray) else float(joint)
