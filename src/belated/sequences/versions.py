"""Whether a log is a later version of the one that a sequence has processed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from belated.base.columns import Array
from belated.base.errors import LogError, OptionError

#: Sums of the same rows, added in any order, differ by less than this share of their size.
_TOLERANCE = 1e-6


def require_same_form(new: object, known: object, what: str) -> None:
    """Raise if what the versions of a log have in common, `what` in words, is not the same."""
    if new != known:
        raise OptionError(f"`update` needs a later version of the same log, with the same {what}.")


def require_later(now: int | float, last: int | float) -> None:
    """Raise if the as-of time of a log is before the last look."""
    if now < last:
        raise OptionError("`update` needs a later version of the log; this one has an earlier as-of time.")


def require_same_values(new: Array, known: Array, scale: Array | float, remark: Callable[[int], str]) -> None:
    """Raise if values differ from those at the last look; `remark` says what, by the place that differs most."""
    apart = deviation(new, known, scale)
    if (apart > 1).any():
        raise LogError(f"This log is not a later version of the same one: {remark(int(np.argmax(apart)))}")


def deviation(new: Array, known: Array, scale: Array | float) -> Array:
    """Return how far values are from those known before: 1 is as far as they may be in a later version of a log.

    That is a share of the values and of their `scale`, the size of what was added up. NaN is the same as NaN alone.
    """
    same = (new == known) | (np.isnan(new) & np.isnan(known))
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.abs(new - known) / (_TOLERANCE * (np.abs(known) + scale))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
