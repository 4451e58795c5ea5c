"""Matured outcomes: what each row says of a whole window, while windows are still open.

A row whose window is open has shown its events up to its age. R(u) is the weight of a cell's rows that have reached age
u. An event at age d with value v, in a row of weight w, adds w v / R(d) to the cell's mean M. The matured outcome of a
row that has reached age A is

    M + R(0) [sum of v / R(d) over its own events - sum of w v / R(d)^2 over the cell's events with d <= A].

The weighted mean of matured outcomes is M, and their weighted squares about M give its variance. If every window has
closed, they are the outcomes themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from belated.base.checks import NO_DIFFERENCE
from belated.base.columns import Array
from belated.base.text import Unit

if TYPE_CHECKING:
    from belated.summaries.sums import Sums

#: What of the events within a window is the outcome.
Measure = Literal["indicator", "count", "sum"]
MEASURES: tuple[Measure, ...] = get_args(Measure)


def unit_of_events(measure: Measure) -> Unit:
    """Return the unit in which a mean of such outcomes is shown, whatever the outcomes so far."""
    return "percent" if measure == "indicator" else "number"


#: The effective number of rows that must have reached an age for it to be well covered.
WELL_COVERED = 10.0


class Age(NamedTuple):
    """A length of time in numbers of a log's clock."""

    length: int | float


class Exposure(NamedTuple):
    """Rows, or groups of rows of one age, and the age that each has reached, at most the window."""

    cell: Array
    age: Array
    w: Array  # the sum of the weights


class Happened(NamedTuple):
    """Events of single rows, no later than the age that their row has reached."""

    entry: Array  # the position of the row among the exposures
    age: Array
    value: Array


def matured_outcomes(exposure: Exposure, events: Happened, cells: int, window: float) -> Array:
    """Return the matured outcome of each row or group of rows; outcomes that differ only by rounding are equal."""
    cell, age, w = exposure
    outcome = np.zeros(len(cell))
    is_open = age < window
    closed = np.bincount(cell[~is_open], w[~is_open], cells)
    at_risk = np.flatnonzero(is_open)
    at_risk = at_risk[np.lexsort((age[at_risk], cell[at_risk]))]
    order = np.lexsort((events.age, cell[events.entry]))
    entry, happened, value = events.entry[order], events.age[order], events.value[order]
    rows_to, events_to = (np.searchsorted(cell[index], np.arange(cells + 1)) for index in (at_risk, entry))
    rest = np.zeros(cells)  # of rows whose window has closed
    means, sizes = np.zeros((2, cells))
    for c in range(cells):
        rows, own = at_risk[rows_to[c] : rows_to[c + 1]], slice(events_to[c], events_to[c + 1])
        if not len(rows):  # their outcomes are known
            np.add.at(outcome, entry[own], value[own])
            continue
        reached = age[rows]
        weight = closed[c] + np.append(np.cumsum(w[rows][::-1])[::-1], 0.0)  # that has reached each age
        risk = weight[np.searchsorted(reached, happened[own], side="left")]
        added = w[entry[own]] * value[own] / risk
        past = np.append(0.0, np.cumsum(added / risk))
        mean = added.sum()
        outcome[rows] = mean - weight[0] * past[np.searchsorted(happened[own], reached, side="right")]
        rest[c] = mean - weight[0] * past[-1]
        means[c], sizes[c] = mean, np.sum(np.abs(added) * (1 + weight[0] / risk))
        np.add.at(outcome, entry[own], weight[0] * value[own] / risk)
    outcome[~is_open] += rest[cell[~is_open]]
    differs = np.abs(outcome - means[cell]) > NO_DIFFERENCE * sizes[cell]
    return np.where(differs, outcome, means[cell])


class AgeReach(NamedTuple):
    """The ages that the rows of each cell have reached: the largest age, and the largest that is well covered."""

    longest: Array  # NaN: no rows
    well: Array  # NaN: none
    closed: Array  # the effective number of rows whose window has closed


def reach(exposure: Exposure, squares: Array, cells: int, window: float) -> AgeReach:
    """Return how far rows have lived; `squares` are the sums of the squared weights of the exposures."""
    cell, age, w = exposure
    is_closed = age >= window
    total, square = (np.bincount(cell[is_closed], each[is_closed], cells) for each in (w, squares))
    size = np.divide(total**2, square, out=np.zeros(cells), where=square > 0)
    longest, well = np.full((2, cells), math.nan)
    longest[total > 0] = window
    well[size >= WELL_COVERED] = window
    rows = np.flatnonzero(~is_closed)
    rows = rows[np.lexsort((-age[rows], cell[rows]))]
    to = np.searchsorted(cell[rows], np.arange(cells + 1))
    for c in np.flatnonzero(np.isnan(well)):
        own = rows[to[c] : to[c + 1]]
        if not len(own):
            continue
        longest[c] = age[own[0]] if math.isnan(longest[c]) else longest[c]
        sizes = (total[c] + np.cumsum(w[own])) ** 2 / (square[c] + np.cumsum(squares[own]))
        if len(enough := np.flatnonzero(sizes >= WELL_COVERED)):
            well[c] = age[own[enough[0]]]
    return AgeReach(longest, well, size)


@dataclass(frozen=True, kw_only=True, eq=False)
class Maturity:
    """How much of their window the rows of a log with events have reached; times are numbers of the log's clock.

    Attributes
    ----------
    window : int or float
        The window that the estimate is about.
    asked : int or float
        The window that was asked for. `window` is shorter if no row of some arm has reached its end.
    covered : int or float or None
        The longest age that an effective number of `WELL_COVERED` rows of every arm has reached, if that is less than
        `window`.
    measure : {"indicator", "count", "sum"}
    closed, open, events, effective : array
        By segment and arm, of shape (segments, arms): the rows whose window has closed, those whose window is open,
        their events so far, and the effective number of rows that have reached the end of the window.
    within : callable
        Returns the sums for a shorter window.
    length, text : callable
        From a duration such as "3d" to a number of the clock, and back to words.
    scale : (float, str)
        The unit of time in which a figure shows the window: its length, and its name in the plural.
    """

    window: int | float
    asked: int | float
    covered: int | float | None
    measure: Measure
    closed: Array
    open: Array
    events: Array
    effective: Array
    within: Callable[[int | float], Sums]
    length: Callable[[object], int | float]
    text: Callable[[int | float], str]
    scale: tuple[float, str]
