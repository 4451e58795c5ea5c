"""Rows whose outcomes have arrived, in the order of arrival.

Plain Python that numba can compile, as `belated.kernels.rows` is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from belated.base.columns import Array

#: Functions to compile, helpers before their callers.
KERNELS = ("arrange", "first_outside", "first_outcomes", "count_by")


class ArrivalTimes(NamedTuple):
    """When rows were assigned, and when their outcomes count.

    `times` are the rows' times of arrival, or empty if each arrived when the next row was assigned. `due` is the
    position from which an outcome is history, `order` the row at each of the first `n` positions (empty: the same).
    """

    times: Array
    due: Array
    order: Array
    n: int


class ArrivalColumns(NamedTuple):
    """The columns of rows, and which rows' outcomes arrived, in the order of arrival.

    `code` are positions among the arms. `propensity` has a column for every arm if it is `full`; else one, of the
    chosen arms.
    """

    code: Array
    outcome: Array
    propensity: Array
    full: bool
    arrived: Array


def arrange(arrival_times: ArrivalTimes, low: int, high: int) -> Array:
    """Return the rows that are due at positions from `low` to `high`, in the order of arrival.

    Rows due at one position arrived after those due before it; among them, times decide, then the order of assignment.
    """
    times, due, order = arrival_times.times, arrival_times.due, arrival_times.order
    ordered = len(order) > 0
    start = np.zeros(high - low + 1, due.dtype)
    last = min(arrival_times.n, high)  # an outcome is due after its own row
    for position in range(last):
        when = due[order[position] if ordered else position]
        if low <= when < high:
            start[when - low + 1] += 1
    for cell in range(high - low):
        start[cell + 1] += start[cell]
    arrived = np.empty(start[high - low], due.dtype)
    for position in range(last):
        row = order[position] if ordered else position
        when = due[row]
        if low <= when < high:
            arrived[start[when - low]] = row
            start[when - low] += 1
    begin = 0
    for cell in range(high - low if len(times) else 0):
        end = start[cell]
        if end - begin > 16:
            tied = arrived[begin:end].copy()
            tied = tied[np.argsort(times[tied], kind="mergesort")]
            for i in range(end - begin):
                arrived[begin + i] = tied[i]
        else:
            for i in range(begin + 1, end):
                row = arrived[i]
                j = i
                while j > begin and times[arrived[j - 1]] > times[row]:
                    arrived[j] = arrived[j - 1]
                    j -= 1
                arrived[j] = row
        begin = end
    return arrived


def first_outside(columns: ArrivalColumns, start: int, stop: int, low: float, high: float, ends: bool) -> int:
    """Return the first place whose outcome is not from `low` to `high` (with `ends`: is neither), or -1."""
    outcome, arrived = columns.outcome, columns.arrived
    for i in range(start, stop):
        y = outcome[arrived[i]]
        if not low <= y <= high or (ends and low < y < high):
            return i
    return -1


def first_outcomes(shift: Array, known: Array, columns: ArrivalColumns) -> None:
    """Fill `shift` with the first outcomes of arms of which none was `known`."""
    code, outcome, arrived = columns.code, columns.outcome, columns.arrived
    missing = 0
    for a in range(len(shift)):
        missing += not known[a]
    for i in range(len(arrived)):
        if missing == 0:
            return
        row = arrived[i]
        if not known[code[row]]:
            known[code[row]] = True
            shift[code[row]] = outcome[row]
            missing -= 1


def count_by(counts: Array, arrived: Array, times: Array, moments: Array) -> None:
    """Fill `counts` with how many have arrived by each moment."""
    for m in range(len(moments)):
        low, high = 0, len(arrived)
        while low < high:
            middle = (low + high) // 2
            row = arrived[middle]
            if (times[row] if len(times) else row + 1) <= moments[m]:
                low = middle + 1
            else:
                high = middle
        counts[m] = low
