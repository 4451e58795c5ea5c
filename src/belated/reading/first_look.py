"""A first look at the tables: their arms, number of rows and range of times, and what is odd about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from belated.base.columns import Array, Label
from belated.base.errors import LogError, OptionError, argument
from belated.base.text import count
from belated.log.clock import NEVER, Clock, MomentLike, check_span
from belated.reading.columns import clock_of, clock_times, has_nan, number, text_of
from belated.reading.csv_texts import compact_pattern
from belated.reading.engines import engine_of, fetch, sentences
from belated.reading.roles import Roles, propensity_columns, with_spare
from belated.reading.rows_query import RowsQuery, joining_notes, refused, rows_in
from belated.reading.units import Units, look_at_units, unit_columns

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

_MOST_ARMS = 65_535

#: How often the clock ticks in a second, and the first and last second that a log may be about: 1990 and 2100.
_TICKS = {1: "seconds", 10**3: "milliseconds", 10**6: "microseconds", 10**9: "nanoseconds"}
_SECONDS = (631_152_000, 4_102_444_800)

_NO_ROWS = "The log has no rows; it needs at least one assignment."


@dataclass(frozen=True)
class Facts:
    """The facts from one look at the rows."""

    values: tuple[Label, ...]  # the arms as the engine knows them
    assigned: Array
    first: int | float
    last: int | float
    last_arrival: int | float  # NaN: none

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.assigned.sum())

    @property
    def last_time(self) -> int | float:
        """The last time in the log, of an assignment or an arrival."""
        return self.last if math.isnan(self.last_arrival) else max(self.last, self.last_arrival)

    def among(self, values: Sequence[Label]) -> Facts:
        """Return the same facts with arms that no row has yet."""
        new = [value for value in values if value is not None and value == value and value not in self.values]
        assigned = np.append(self.assigned, np.zeros(len(new), dtype=self.assigned.dtype))
        return replace(self, values=(*self.values, *new), assigned=assigned)

    def in_order_of(self, labels: Sequence[Label]) -> Facts:
        """Return the same facts for arms in an order, some of which no row may have."""
        places = [self.values.index(label) if label in self.values else None for label in labels]
        values = [label if i is None else self.values[i] for i, label in zip(places, labels, strict=True)]
        assigned = np.array([0 if i is None else int(self.assigned[i]) for i in places])
        return replace(self, values=tuple(values), assigned=assigned)


@dataclass(frozen=True)
class Opened:
    """Tables after a first look: the query, and the facts that are known.

    Attributes
    ----------
    query : RowsQuery
    rows : ibis table
        One row for each assignment as of the moment, with its propensities.
    name : str
        What sentences call them.
    arms : tuple
    clock : Clock
    moment : int, float or None
    notes : tuple of str
        What was noticed on the way.
    facts : Facts
    units : Units or None
        The segments and covariates, if there are any.
    """

    query: RowsQuery
    rows: ir.Table
    name: str
    arms: tuple[Label, ...]
    clock: Clock
    moment: int | float | None
    notes: tuple[str, ...]
    facts: Facts
    units: Units | None = None

    def at(self, moment: int | float) -> Opened:
        """Look at the same tables as they stood at another moment."""
        notes = [] if self.query.deliveries is None else joining_notes(self.query, moment, checked=True)
        return _look(self.query, self.name, self.arms, self.clock, moment, notes)


def open_tables(
    query: RowsQuery, name: str, arms: Sequence[Label] | None, as_of: MomentLike | None, notes: Sequence[str] = ()
) -> Opened:
    """Look at the tables once, and settle arms, propensities and the moment."""
    with sentences(name, query.versions):
        clock = clock_of(query.rows(0 if query.measure else None).assigned)
        moment = None if as_of is None or as_of == math.inf else clock.read("as_of", _as_moment(clock, as_of))
        _refuse_nan(query)
        notes = [*notes, *(joining_notes(query, moment) if query.deliveries is not None else [])]
        if query.measure is not None and moment is None:
            moment, event = _last_moment(query, clock)
            ends = "" if event == moment else f"; the last event is at {clock.text(event)}"
            notes.append(f"As of {clock.text(moment)}, the latest time in the tables{ends}.")
        return _look(query, name, arms, clock, moment, [*notes, *_silent_notes(query.roles)])


def _look(
    query: RowsQuery,
    name: str,
    arms: Sequence[Label] | None,
    clock: Clock,
    moment: int | float | None,
    notes: Sequence[str],
) -> Opened:
    """Look at the rows as of a moment, and settle arms and propensities."""
    facts = look(query, moment, clock)
    check_span(facts.first, facts.last, *([] if query.roles.delay else [facts.last_arrival]))
    if clock.unit is None and facts.values:
        check_numbers(facts.first, facts.last, facts.last_arrival)
    if not facts.values and arms is None:
        when = "" if moment is None else f" as of {clock.text(moment)}"
        is_closed_only = query.window is not None and not query.maturing
        if moment is not None and is_closed_only and (closes := _first_closing(query, clock)) is not None:
            raise LogError(
                f"No window of {query.window.text if query.window else ''} has closed yet{when}; the first "
                f"closes at {clock.text(closes)}. Wait, "
                f"give a shorter {argument('window')}, or a later {argument('as_of')} if the tables hold later events."
            )
        raise LogError(f"The log has no rows{when}; it needs at least one assignment.")
    if moment is not None and arms is None:
        facts = facts.among(fetch(query.arms())["arm"].to_pylist())
    if arms is not None:
        arms = _as_held(arms, facts.values)
    roles = _settled(query.roles, facts.values, arms or ())
    if roles.propensity is not None and arms is None:
        roles = replace(roles, propensity=with_spare(query.assignments, roles.propensity))
    query = replace(query, roles=roles)
    labels, columns = propensity_columns(query.assignments, roles.propensity, facts.values, arms)
    facts, units = facts.in_order_of(labels), None
    if not query.roles.has_units:
        rows = query.rows(moment, columns)
    else:
        rows = query.rows(moment, lambda table: {**columns(table), **unit_columns(table, query.roles)})
        try:
            units = look_at_units(query, rows, facts.values)
        except LogError as error:
            raise query.in_file(error, moment) from None
    return Opened(
        query=query,
        rows=rows,
        name=name,
        arms=labels,
        clock=clock,
        moment=moment,
        notes=tuple(notes),
        facts=facts,
        units=units,
    )


def _as_held(arms: Sequence[Label], values: Sequence[Label]) -> list[Label]:
    """Return arms as the table holds them: 1 may be 1.0 there or text, and "1" a number, as on a command line."""
    texts = {text_of(value): value for value in values} | {str(value): value for value in values}
    return [values[values.index(arm)] if arm in values else texts.get(str(arm), arm) for arm in arms]


def _first_closing(query: RowsQuery, clock: Clock) -> int | float | None:
    """Return when the first window closes; None if there is no assignment."""
    rows = query.rows(None)
    first = _number(fetch(rows.aggregate(first=rows.arrived.min())), "first", clock)
    return None if math.isnan(first) else first


def _settled(roles: Roles, values: Sequence[Label], arms: Sequence[Label]) -> Roles:
    """Return the roles with each propensity column matched to its arm."""
    others = [arm for arm in arms if arm not in values]
    try:
        return roles.settled([*values, *others])
    except LogError:
        if not (values and others):
            raise
        return roles.settled(values)  # which arm has no column is said later


def look(query: RowsQuery, moment: int | float | None, clock: Clock) -> Facts:
    """Return which arms there are as of a moment, how many rows each has, and over which time."""
    rows = query.rows(moment)
    # in the embedded engine apart from the arms, as files may know the ends of their columns without being read
    apart = engine_of(rows).is_embedded
    ends = {"first": rows.assigned.min(), "last": rows.assigned.max(), "last_arrival": rows.arrived.max()}
    counted = rows.group_by("arm").agg(rows=rows.count(), **({} if apart else ends))
    counts = fetch(counted.order_by("arm").limit(_MOST_ARMS + 1))
    if counts.num_rows > _MOST_ARMS:
        raise LogError(
            f"{argument('arm')} holds more than {_MOST_ARMS:,} different arms; is it the right column?", column="arm"
        )
    arms = counts["arm"].to_pylist()
    missing = [i for i, arm in enumerate(arms) if arm is None or arm != arm]
    if missing:
        n = sum(counts["rows"][i].as_py() for i in missing)
        is_missing = rows.arm.isnull() | rows.arm.isnan() if has_nan(rows.arm) else rows.arm.isnull()
        fault = f"is missing{'' if n == 1 else f', the first of {n:,} rows'}; every row needs an arm."
        of_row = refused(query, rows, number("arm", is_missing), is_missing, partial(_of_arm, fault))
        raise query.in_file(of_row, moment)
    if apart:
        times = fetch(rows.aggregate(**ends))
    else:
        asked = [("first", "min"), ("last", "max"), ("last_arrival", "max")]
        times = counts.group_by([]).aggregate(asked).rename_columns([*ends])
    first, last, last_arrival = (_number(times, name, clock) for name in ends)
    assigned = np.array(counts["rows"].to_pylist(), dtype=np.int64)
    return Facts(values=tuple(arms), assigned=assigned, first=first, last=last, last_arrival=last_arrival)


def _of_arm(fault: str, row: int, _: float) -> LogError:
    return LogError.of_row("arm", row, fault)


def _number(table: pa.Table, name: str, clock: Clock) -> int | float:
    """Return the time that a column of one row holds; NaN: none."""
    time: int | float = clock_times(table[name].combine_chunks(), clock)[0]
    return math.nan if time == NEVER else time


def _as_moment(clock: Clock, moment: MomentLike) -> MomentLike:
    """Return a moment that was written as text as a number, if the clock's moments are numbers."""
    if clock.unit is None and isinstance(moment, str):
        try:
            return float(moment) if not moment.strip().lstrip("+-").isdigit() else int(moment)
        except ValueError:
            return moment
    return moment


def check_numbers(first: float, last: float, last_arrival: float) -> None:
    """Raise if the numbers of a log's times cannot be meant as numbers of steps: differences would have no meaning."""
    ends = [f"{time:.0f}" for time in (first, last)]
    if compact_pattern(ends) is not None:
        raise LogError(
            f"{argument('assigned_at')} is {ends[0]} to {ends[1]}, whole numbers that look like dates; turn the column "
            "into dates, such as 2026-03-01.",
            column="assigned_at",
        )
    assigned, arrived = _ticks(last), _ticks(last_arrival)
    if assigned != arrived and assigned is not None and arrived is not None:
        raise LogError(
            f"{argument('assigned_at')} seems to be in {_TICKS[assigned]} since 1970, such as {last:.0f}, and "
            f"{argument('arrived_at')} in {_TICKS[arrived]}, such as {last_arrival:.0f}; both must be in one unit.",
            column="arrived_at",
        )


def _ticks(time: float) -> int | None:
    """Return how often a clock ticks in a second if a number is a time since 1970; None: it is not."""
    return next((ticks for ticks in _TICKS if _SECONDS[0] <= time / ticks < _SECONDS[1]), None)


def _silent_notes(roles: Roles) -> list[str]:
    """Return remarks on what is assumed because no column says it."""
    notes = []
    if roles.assigned_at is None:
        notes.append("There is no column with assignment times; rows are used in their order.")
    if not roles.has_arrivals:
        notes.append("There is no column with arrival times; every outcome counts from its assignment.")
    return notes


def _last_moment(query: RowsQuery, clock: Clock) -> tuple[int | float, int | float]:
    """Return the latest time that either table knows, and that of the events."""
    rows, when = query.assigned_rows(), query.arrival_times(query.outcomes)
    if when is None:
        raise OptionError(f"Events need the time at which each happened; name it with {argument('arrived_at')}.")
    events = query.outcomes.select(when=when)
    ends = fetch(rows.aggregate(assigned=rows.assigned.max()).cross_join(events.aggregate(happened=events.when.max())))
    times = [_number(ends, name, clock) for name in ends.column_names if ends.num_rows]
    known = [time for time in times if not math.isnan(time)]
    if not known:
        raise LogError(_NO_ROWS)
    return max(known), known[-1]


def _refuse_nan(query: RowsQuery) -> None:
    """Refuse outcomes that are NaN where nothing else says whether they have arrived."""
    roles = query.roles
    has_times = query.deliveries is None and (roles.arrived_at or roles.delay)
    if has_times or roles.outcome is None or query.measure in ("indicator", "count"):
        return
    outcome = query.outcomes[roles.outcome]
    n = rows_in(query.outcomes.filter(outcome.cast("float64").isnan())) if has_nan(outcome) else 0
    if n:
        raise LogError(
            f"{argument('outcome')} is NaN in {count(n, 'row')}; it must be a "
            "number, or null if the outcome has not arrived.",
            column="outcome",
        )
