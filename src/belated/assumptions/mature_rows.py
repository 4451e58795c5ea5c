"""`MatureRows`: which rows are old enough that their outcomes should have arrived."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass

import numpy as np

from belated.base.columns import Array
from belated.base.errors import OptionError, argument
from belated.base.text import number_text, shown
from belated.log.clock import Clock, Length
from belated.log.durations import read_window
from belated.log.log import Log
from belated.log.rows import LogColumns

#: An age as users give it: a number in the log's unit of time, a duration, or either as text.
AgeLike = int | float | str | dt.timedelta | np.timedelta64

#: A row is mature at the age by which this share of the observed outcomes has arrived.
_ARRIVED_SHARE = 0.99


@dataclass(frozen=True)
class MatureRows:
    """The rows that count: those assigned at least `age` before the as-of time of the log.

    Attributes
    ----------
    age : number or timedelta
    rows : int
        The number of rows that count.
    late : float or None
        The share of outcomes that took longer than `age`, if the age was reduced to keep half of the rows.
    """

    age: int | float | np.timedelta64
    rows: int
    late: float | None = None

    @property
    def text(self) -> str:
        """The age as text."""
        return number_text(self.age)


def mature_rows(log: Log, arms: Array, mature: AgeLike | None) -> tuple[Log, MatureRows]:
    """Return the rows that are old enough, with the outcomes that have arrived by the log's as-of time.

    Parameters
    ----------
    log : Log
    arms : array of int
        The positions of the arms in question.
    mature : number, duration or str, optional
        The minimum age of a row; by default the age by which 99 % of the arms' outcomes arrive.
    """
    log.refuse_no_rows()
    rows = np.sort(log.existing_rows)
    age = log.last_look - log.assigned_numbers[rows]
    late: float | None = None
    if mature is None:
        least, late = _time_taken(log, rows, age, arms)
    else:
        least = _read_age(log.clock, mature)
    chosen = rows[age >= least]
    if not len(chosen):
        raise OptionError(
            f"{argument('mature')} is {shown(mature)}; no row was assigned that long before the log's as-of time."
        )
    columns = LogColumns(
        arms=log.arms,
        code=log.code[chosen],
        outcome=log.outcome[chosen],
        propensity=log.propensity[chosen],
        assigned=log.assigned_numbers[chosen],
        arrived=None if log.arrived_at is None else log.arrived_numbers[chosen],
        clock=log.clock,
        moment=log.moment,
        segment=None if log.segment_column is None else log.segment_column.of_rows(chosen),
        arrival=None if log.arrival_probability is None else log.arrival_probability[chosen],
    )
    return Log.of_numbers(columns), MatureRows(age=_show_age(log.clock, least), rows=len(chosen), late=late)


def _time_taken(log: Log, rows: Array, age: Array, arms: Array) -> tuple[float, float | None]:
    """Return the time in which 99 % of the outcomes arrive, at most the median age of the rows.

    If that limit applies, also return the share of outcomes that took longer.
    """
    most = np.quantile(age, 0.5, method="lower").item()
    old = (age >= most) & log.arrived[rows]
    delay, code = (log.arrived_numbers - log.assigned_numbers)[rows], log.code[rows]
    least: float = 0
    late: float | None = None
    for k in arms:
        delays = delay[old & (code == k)]
        if not len(delays):
            continue
        needed = np.quantile(delays, _ARRIVED_SHARE, method="higher").item()
        if needed > most:
            late = max(late or 0.0, float(np.mean(delays > most)))
        least = max(least, min(needed, most))
    return least, late


def _show_age(clock: Clock, age: float) -> Length:
    """Return an age as the user would write it."""
    if clock.unit is None:
        return int(age) if float(age).is_integer() else float(age)
    return clock.show_delay(age)


def _read_age(clock: Clock, mature: AgeLike) -> int | float:
    """Return an age as a number of the clock."""
    kind = "a duration such as '7d', because the log's times are datetimes" if clock.unit else "a number"
    wrong = OptionError(f"{argument('mature')} is {shown(mature)}; it must be {kind}, 0 or more.")
    if re.fullmatch(r"\s*0+(\.0*)?\s*[a-z]*\s*", str(mature)):  # no window, but an age
        return 0
    try:
        window = read_window(mature)
    except OptionError:
        raise wrong from None
    if window.is_time != (clock.unit is not None):
        raise wrong
    return window.length if clock.unit is None else math.ceil(int(window.length) * clock.per_microsecond)
