"""Logs in which every outcome has the same value: so look logs of what is recorded only when it happens."""

from __future__ import annotations

import numpy as np

from belated.base.columns import Array
from belated.summaries.remarks import Remark
from belated.summaries.sums import Sums

#: Equal outcomes that may be so by chance.
_MOST_CHANCE = 10


def single_value(sums: Sums) -> float | None:
    """Return `one_value` of a log's sums."""
    return one_value(sums["assigned"], sums["arrived"], sums["y"], sums["y2"], sums.shift)


def one_value(assigned: Array, arrived: Array, y: Array, y2: Array, shift: Array) -> float | None:
    """Return the only value, above 0, that any outcome has, if there are rows without one; None otherwise.

    Every conversion is 1, and nothing says 0. The arguments are by arm; `y` and `y2` are about `shift`.
    """
    if arrived.sum() < _MOST_CHANCE or not (assigned - arrived).sum() > 0:
        return None
    use = arrived > 0
    n, y, y2 = arrived[use], y[use], y2[use]
    values = shift[use] + y / n
    spread = y2 - y**2 / n
    if (spread > 1e-12 * y2).any() or np.ptp(values) > 1e-13 * abs(values[0]) or values[0] <= 0:
        return None
    return float(values[0])


def single_value_remark(value: float, missing: float) -> Remark:
    """Return what is wrong with a log of one value only; `missing` is the share of rows without outcome."""
    finding = f"Every outcome that has arrived is {value:g}, and {missing:.0%} of the rows have none."
    return Remark(finding, single_value_advice(value))


def single_value_words(value: float, missing: float) -> str:
    """Return the remark as one text."""
    return single_value_remark(value, missing).text


def single_value_advice(value: float) -> str:
    """Return what one value means, and what to do."""
    return (
        "So looks a log of what is recorded only when it happens, such as conversions: every arm then seems to bring "
        f"{value:g}, whatever it really brings. Say how long an assignment has to bring it about, with events and "
        "window (--events --window 7d); what has not happened by then counts as 0."
    )
