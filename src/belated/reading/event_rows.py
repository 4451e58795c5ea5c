"""Events in tables: the log in memory whose windows may be open, and how late events are recorded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from belated.base.checks import LARGEST_OUTCOME, outcome_fault
from belated.base.columns import Array
from belated.base.errors import LogError, OptionError, argument
from belated.base.text import count
from belated.log.clock import NEVER, Clock
from belated.log.durations import Window, length_on, length_text
from belated.log.events import Events, ages_at
from belated.log.log import Log
from belated.reading.columns import clock_times, floats, time
from belated.reading.engines import fetch
from belated.reading.rows_query import RowsQuery
from belated.summaries.maturing import Measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

#: The share of events that are recorded within a lag that is learned.
_IN_TIME = 0.99


def with_events(log: Log, query: RowsQuery, records: Sequence[pa.RecordBatch], cap: float | None) -> Log:
    """Return the rows of a log, which `records` hold, with their events."""
    if query.window is None or query.measure is None:
        raise OptionError(f"Events need a {argument('window')}.")
    window = length_on(log.clock, query.window)
    row, when, value = _own(log, records) if query.deliveries is None else _delivered(log, query, records)
    _check_values(log, row, when, value)
    age = ages_at(when, log.assigned_numbers[row], window)
    order = np.lexsort((value, age, row))  # engines give them in any order, and sums depend on it in the last digit
    row, age, value = row[order], age[order], value[order]
    lag = 0 if query.lag is None else length_on(log.clock, query.lag, "lag")
    measure: Measure = query.measure
    return log.with_events(Events.of(row, age, value, window, measure, lag), log.moment, cap)


def _check_values(log: Log, row: Array, when: Array, value: Array) -> None:
    """Refuse the first event that is too large and has happened; totals are checked only once windows have closed."""
    wrong = np.flatnonzero(~(np.abs(value) <= LARGEST_OUTCOME))
    wrong = wrong if log.moment is None else wrong[when[wrong] <= log.moment]
    if len(wrong):
        first = wrong[np.argmin(row[wrong])]
        raise LogError.of_row("outcome", int(row[first]), f"{outcome_fault(float(value[first]))}.")


def _own(log: Log, records: Sequence[pa.RecordBatch]) -> tuple[Array, Array, Array]:
    """Return the row, time and value of events that are in the table of assignments, at most one a row."""
    when = np.concatenate([clock_times(record["first"], log.clock) for record in records])
    value = np.concatenate([floats(record["total"]) for record in records])
    row = np.flatnonzero(when != NEVER if when.dtype.kind == "i" else np.isfinite(when))
    return row, when[row], value[row]


def _delivered(log: Log, query: RowsQuery, records: Sequence[pa.RecordBatch]) -> tuple[Array, Array, Array]:
    """Return the row, time and value of events that are in a table of their own."""
    import pyarrow as pa

    events = fetch(query.events())
    row, has_row = rows_of_keys(events["key"], pa.chunked_array([record["key"] for record in records]))
    when = np.concatenate([clock_times(chunk, log.clock) for chunk in events["when"].chunks] or [np.empty(0)])[has_row]
    return row, when, floats(events["value"])[has_row]


def rows_of_keys(event_keys: pa.ChunkedArray, row_keys: pa.ChunkedArray) -> tuple[Array, Array]:
    """Return the rows with the keys of events, and which events have one: others were assigned after the as-of time."""
    import pyarrow.compute as pc

    place = pc.index_in(event_keys.cast(row_keys.type), value_set=row_keys.combine_chunks())
    has_row = place.is_valid().to_numpy()
    return place.fill_null(0).to_numpy()[has_row].astype(np.intp), has_row


# ---------------------------------------------------------------- lags


def learned_lag(query: RowsQuery, given: Window | None) -> tuple[Window | None, list[str]]:
    """Return the lag from event to record, learned from the times of both unless it is given, and what to say of it."""
    if query.roles.recorded_at is None or query.outcomes[query.roles.recorded_at].type().is_null():
        return given, []
    when = query.arrival_times(query.outcomes)
    if when is None:
        raise OptionError(f"{argument('recorded_at')} needs the time of each event; name it with arrived_at.")
    recorded = time("recorded_at", query.outcomes[query.roles.recorded_at])
    if recorded.type().is_timestamp() != when.type().is_timestamp():
        raise LogError(
            f"{argument('recorded_at')} and the times of events must be of one kind: both datetimes or both numbers.",
            column="recorded_at",
        )
    table = query.outcomes.select(when=when, recorded=recorded)
    table = table.filter(table.when.notnull() & table.recorded.notnull())
    is_time = when.type().is_timestamp()
    late = table.recorded.delta(table.when, unit="microsecond") if is_time else table.recorded - table.when
    table = table.select(late=late.cast("float64"), early=-late.cast("float64"))
    number = int(fetch(table.count().as_table())[0][0].as_py())
    if not number:
        return given, []
    if given is not None:
        limit = float(given.length)
        beyond = int(fetch(table.filter(table.late > limit).count().as_table())[0][0].as_py())
        return given, _late(beyond, number, given.text)
    rank = max(math.floor(number * (1 - _IN_TIME)), 0)
    longest = fetch(table.order_by("early").limit(rank + 1))["late"].to_pylist()
    limit = max(longest[rank], 0.0)
    beyond = sum(value > limit for value in longest)
    if limit == 0:
        return None, _late(beyond, number, "0")
    length: int | float = math.ceil(limit) if is_time or limit == int(limit) else limit
    lag = _window(length, is_time)
    words = f"The lag from event to record is taken as {lag.text}: {_IN_TIME:.0%} of the events are recorded by then."
    return lag, [words, *_late(beyond, number, lag.text)]


def _window(length: int | float, is_time: bool) -> Window:
    clock = Clock(unit="us") if is_time else Clock(whole=isinstance(length, int))
    return Window(length, is_time, length_text(clock, length))


def _late(beyond: int, number: int, lag: str) -> list[str]:
    """Return a sentence on events that were recorded later than the lag."""
    if not beyond:
        return []
    verb = "was" if beyond == 1 else "were"
    return [
        f"{count(beyond, 'event')} ({beyond / number:.2%}) {verb} recorded more than {lag} after happening; while they "
        "are on their way, estimates are too low by about that share."
    ]
