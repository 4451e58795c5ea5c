"""Rows whose outcomes have arrived, in the order of arrival.

Plain Python that numba can compile, as `belated.kernels.rows` is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from belated.base.columns import Array

#: Functions to compile, helpers before their callers.
KERNELS = ("sort_by_time", "arrange", "first_outside", "first_outcomes", "count_by")

#: Rows of a run that is sorted by insertion.
RUN = 16


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


def sort_by_time(rows: Array, times: Array, begin: int, end: int, spare: Array) -> None:
    """Sort places `begin` to `end` of `rows` by time; equal times keep their order. `spare` is as long as `rows`.

    Runs are sorted by insertion, then merged in pairs. numba's own sort takes seconds to compile.
    """
    for first in range(begin, end, RUN):
        for i in range(first + 1, min(first + RUN, end)):
            row = rows[i]
            j = i
            while j > first and times[rows[j - 1]] > times[row]:
                rows[j] = rows[j - 1]
                j -= 1
            rows[j] = row
    width = RUN
    while width < end - begin:
        for first in range(begin, end - width, 2 * width):
            middle, last = first + width, min(first + 2 * width, end)
            for i in range(first, middle):
                spare[i] = rows[i]
            i, j = first, middle
            for place in range(first, last):
                if i == middle:
                    break
                if j < last and times[rows[j]] < times[spare[i]]:
                    rows[place] = rows[j]
                    j += 1
                else:
                    rows[place] = spare[i]
                    i += 1
        width *= 2


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
    if len(times):
        begin, spare = 0, np.empty(len(arrived), due.dtype)
        for cell in range(high - low):
            sort_by_time(arrived, times, begin, start[cell], spare)
            begin = start[cell]
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
