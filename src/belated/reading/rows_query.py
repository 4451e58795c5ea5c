"""Rows as one Ibis expression: from one or two tables, or events, to one row for each assignment.

`RowsQuery` is the expression. `joining_notes` refuses keys that do not name one assignment or one outcome, and notes
what joining left out: outcomes of no assignment, repeated outcomes, events before their assignment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from belated.base.checks import LARGEST_FLOAT
from belated.base.errors import LogError, OptionError, argument
from belated.base.files import FileVersion
from belated.base.text import count, one_line
from belated.log.durations import Window, other_kind
from belated.reading.columns import clock_of, floats, in_words, label, moment_like, number, time, value
from belated.reading.engines import engine_of, fetch, library_of
from belated.reading.roles import Roles
from belated.summaries.maturing import Measure

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir
    from ibis.backends import BaseBackend

#: What to make of different outcomes for one key.
Duplicates = Literal["error", "first", "last", "sum"]
DUPLICATES: tuple[Duplicates, ...] = get_args(Duplicates)

#: Keys that a sentence lists.
_LISTED = 5


#: The first and the last day that 64 bits of nanoseconds hold as a whole.
_NANOSECONDS = ("1677-09-22", "2262-04-11")


# ---------------------------------------------------------------- the expression


@dataclass(frozen=True)
class RowsQuery:
    """Tables, the roles of their columns, and what to make of them.

    Attributes
    ----------
    assignments, deliveries : ibis table
        One row for each assignment; and, if they are in a table of their own, outcomes or events.
    roles : Roles
    duplicates : {"error", "first", "last", "sum"}
        What to do with different values for one key.
    measure : {"indicator", "count", "sum"} or None
        Of events: what of those within `window` is the outcome. None: outcomes, not events.
    maturing : bool
        Of events: whether rows whose window is still open stay, without an outcome.
    lag : Window or None
        Of events: the longest time from an event to its record; windows close later by it.
    ordered : bool
        Whether the assignments have an order of their own.
    copied_from : str or None
        The engine that the rows were copied from.
    line : callable or None
        Returns the line of the file in which a row of a CSV file begins.
    whole : ibis table or None
        The assignments with all their columns, also those that are not used, of files and dataframes.
    versions : tuple of FileVersion
        The files that are read again for every answer, as they were when they were found.
    """

    assignments: ir.Table
    deliveries: ir.Table | None
    roles: Roles
    duplicates: Duplicates = "error"
    measure: Measure | None = None
    window: Window | None = None
    maturing: bool = False
    lag: Window | None = None
    ordered: bool = True
    copied_from: str | None = None
    line: Callable[[int], str] | None = None
    whole: ir.Table | None = None
    versions: tuple[FileVersion, ...] = ()

    @property
    def connection(self) -> BaseBackend:
        """The Ibis connection."""
        return self.assignments.get_backend()

    @property
    def library(self) -> ModuleType:
        """The module that makes literals and the like: Ibis, or its replacement."""
        return library_of(self.assignments)

    @property
    def keeps_order(self) -> bool:
        """Whether the rows come in the order of one table, so that their numbers name them."""
        return self.ordered and self.deliveries is None and self.measure is None

    @property
    def revises(self) -> bool:
        """Whether an outcome that has arrived may change later, so that the past is not a part of the present."""
        return self.deliveries is not None and self.measure is None and self.duplicates in ("last", "sum")

    def rows(
        self, moment: int | float | None, more: Callable[[ir.Table], Mapping[str, ir.Column]] | None = None
    ) -> ir.Table:
        """Return one row for each assignment as of a moment.

        Its columns are `arm`, `assigned`, `outcome` and `arrived` (null: still out), `key` if there is one, `first` and
        `total` of events, and whatever `more` makes of the table of assignments.
        """
        rows = self.assigned_rows(more)
        if self.measure is None:
            rows = self._with_outcomes(rows, moment)
            since = rows.assigned
        else:
            rows = self._with_events(rows)
            if self.maturing and moment is not None:
                is_open = rows.arrived > moment_like(rows.arrived, moment)
                rows = rows.mutate(
                    outcome=is_open.ifelse(None, rows.outcome), arrived=is_open.ifelse(None, rows.arrived)
                )
            since = rows.assigned if self.maturing else rows.arrived
        return rows if moment is None else rows.filter((since <= moment_like(since, moment)) | rows.assigned.isnull())

    def arms(self) -> ir.Table:
        """Return the arms of all assignments, whenever they were made."""
        return self.assignments.select(arm=label(self.assignments[self.roles.arm])).distinct().order_by("arm")

    def in_file(self, error: LogError, moment: int | float | None) -> LogError:
        """Return the error of a row, as of a moment, with its number in the table, or its line in a CSV file."""
        if error.row is None or (self.line is None and (moment is None or not self.keeps_order)):
            return error
        row = error.row
        if moment is not None:
            rows = self.rows(None)
            is_there = (rows.assigned <= moment_like(rows.assigned, moment)) | rows.assigned.isnull()
            row = int(np.flatnonzero(floats(fetch(rows.select(there=is_there.cast("int32")))["there"]))[row])
        return error.in_row(row) if self.line is None else error.at(self.line(row))

    # ---------------------------------------------------------------- time

    @property
    def outcomes(self) -> ir.Table:
        """The table that the outcomes are in."""
        return self.assignments if self.deliveries is None else self.deliveries

    @cached_property
    def _clock_type(self) -> dt.DataType:
        """The type of every time: numbers, floats if any is one; or timestamps, as fine as the finest that all fit."""
        assigned = self.library.dtype("int64")
        if self.roles.assigned_at is not None:
            assigned = time("assigned_at", self.assignments[self.roles.assigned_at]).type()
        arrived = assigned
        if self.roles.arrived_at is not None:
            column = self.outcomes[self.roles.arrived_at]
            if column.type().is_string() and assigned.is_numeric():  # a column of nulls may have the type of text
                arrived = self.library.dtype("float64")
            elif not column.type().is_null():
                arrived = time("arrived_at", column).type()
        elif self.roles.delay is not None:
            arrived = _arrival_times(self.library.null(assigned), self.outcomes[self.roles.delay]).type()
        if arrived.is_timestamp() and self.roles.assigned_at is None:
            raise LogError(
                f"Column {one_line(repr(self.roles.arrived_at))}, for {argument('arrived_at')}, holds datetimes, but "
                f"no column is known to say when the rows were assigned; name it with {argument('assigned_at')}, or "
                f"use {argument('arrived_at', 'none')} if this column is not when the outcomes came.",
                column="assigned_at",
            )
        if assigned.is_timestamp() != arrived.is_timestamp():
            raise LogError(
                f"{argument('assigned_at')} and the arrival times must be of one kind: both datetimes or both numbers.",
                column="arrived_at",
            )
        if assigned.is_timestamp():
            finest = max(assigned, arrived, key=lambda dtype: getattr(dtype, "scale", None) or 0)
            return finest if assigned == arrived or self._fits(finest) else self.library.dtype("timestamp")
        lengths = [each.length for each in (self.window, self.lag) if each is not None]
        has_fraction = any(isinstance(length, float) for length in lengths)
        is_whole = not (has_fraction or assigned.is_floating() or arrived.is_floating())
        return self.library.dtype("int64" if is_whole else "float64")

    def _fits(self, dtype: dt.DataType) -> bool:
        """Whether the times of coarser columns fit a type: 9999-12-31, which may say never, does not fit one of ns."""
        if clock_of(self.library.null(dtype)).unit != "ns":
            return True
        for role, table, name in (
            ("assigned_at", self.assignments, self.roles.assigned_at),
            ("arrived_at", self.outcomes, self.roles.arrived_at),
        ):
            if name is not None and (times := time(role, table[name])).type() != dtype:
                limits = ("-infinity", *_NANOSECONDS, "infinity")
                lowest, first, last, highest = (self.library.literal(each).cast(times.type()) for each in limits)
                if rows_in(table.filter(((times > lowest) & (times < first)) | ((times > last) & (times < highest)))):
                    return False
        return True

    def arrival_times(self, table: ir.Table, assigned: ir.Column | None = None) -> ir.Column | None:
        """Return the arrival times if they are known; for delays, `assigned` must be."""
        if self.roles.arrived_at is not None:
            column = table[self.roles.arrived_at]
            as_it_is = column.type().is_null() or (column.type().is_string() and self._clock_type.is_numeric())
            return self._finite_times(column if as_it_is else time("arrived_at", column))
        if self.roles.delay is not None and assigned is not None:
            return self._finite_times(_arrival_times(assigned, table[self.roles.delay]))
        return None

    def _finite_times(self, when: ir.Column) -> ir.Column:
        """Return times of the common type; NaN and inf, as null, are never."""
        when = when.cast(self._clock_type)
        if self._clock_type.is_floating():
            return when.between(-LARGEST_FLOAT, LARGEST_FLOAT).ifelse(when, None)
        return self._finite(when)

    def _finite(self, times: ir.Column) -> ir.Column:
        """Return times in which infinite timestamps are null."""
        if not engine_of(self.assignments).has_infinite_times or not self._clock_type.is_timestamp():
            return times
        last, first = (self.library.literal(text).cast(self._clock_type) for text in ("infinity", "-infinity"))
        return times.nullif(last).nullif(first)

    # ---------------------------------------------------------------- assignments

    def assigned_rows(self, more: Callable[[ir.Table], Mapping[str, ir.Column]] | None = None) -> ir.Table:
        """Return `arm`, `assigned`, `key`, and `outcome` and `when` if they are in the same table."""
        table, roles = self.assignments, self.roles
        columns: dict[str, ir.Value] = {"arm": label(table[roles.arm])}
        if roles.assigned_at is not None:
            columns["assigned"] = self._finite(time("assigned_at", table[roles.assigned_at]).cast(self._clock_type))
        elif self.ordered:
            columns["assigned"] = (self.library.row_number() + 1).cast(self._clock_type)
        else:
            raise OptionError(
                "The rows of this table have no order; name the column of assignment times with "
                f"{argument('assigned_at')}."
            )
        if roles.key is not None:
            columns["key"] = table[roles.key]
        if self.deliveries is None:
            columns |= self._outcome_columns(table, columns["assigned"])
        else:
            columns["key"] = _comparable(table[roles.key], self.deliveries[roles.outcome_key])
        return table.select(**columns, **(more(table) if more is not None else {}))

    def _outcome_columns(self, table: ir.Table, assigned: ir.Column | None = None) -> dict[str, ir.Value]:
        """Return what a table tells of outcomes: `outcome` unless only events count, and `when` if it is known."""
        columns: dict[str, ir.Value] = {}
        if self.roles.outcome is not None and self.measure in (None, "sum"):
            columns["outcome"] = value("outcome", table[self.roles.outcome])
        when = self.arrival_times(table, assigned)
        return columns if when is None else {**columns, "when": when}

    # ---------------------------------------------------------------- outcomes

    def _with_outcomes(self, rows: ir.Table, moment: int | float | None) -> ir.Table:
        if self.deliveries is not None:
            once = self._one_per_key(self.timed_deliveries(moment))
            rows = rows.left_join(once, rows.key == once.key_).drop("key_")
        if "when" not in rows.columns:  # an outcome that exists arrived at once
            return rows.mutate(arrived=rows.outcome.notnull().ifelse(rows.assigned, None))
        rows = rows.rename(arrived="when")
        if moment is None or self.deliveries is not None:
            return rows
        later = rows.arrived > moment_like(rows.arrived, moment)
        # a missing arrival is not later: an outcome without one stays, to be refused
        return rows.mutate(outcome=later.ifelse(None, rows.outcome), arrived=later.ifelse(None, rows.arrived))

    def raw_deliveries(self, moment: int | float | None) -> ir.Table:
        """Return the rows that were delivered by a moment, according to the table of deliveries alone."""
        if self.deliveries is None:
            raise OptionError("The outcomes are in the table of assignments.")
        table, roles = self.deliveries, self.roles
        columns = {
            "key_": _comparable(table[roles.outcome_key], self.assignments[roles.key]),
            **self._outcome_columns(table),
        }
        if roles.delay is not None:
            columns["delay"] = table[roles.delay]
        delivered = table.select(**columns)
        if "outcome" in columns:
            delivered = delivered.filter(delivered.outcome.notnull())
        return _delivered_by(delivered, moment)

    def timed_deliveries(self, moment: int | float | None) -> ir.Table:
        """Return the deliveries by a moment: `key_`, `outcome` if there is one, and `when` if it is known."""
        delivered = self.raw_deliveries(moment)
        if "delay" not in delivered.columns:
            return delivered
        starts = self.assigned_rows().select("key", "assigned")
        pairs = delivered.inner_join(starts, delivered.key_ == starts.key)
        return _delivered_by(
            pairs.select("key_", "outcome", when=self._finite_times(_arrival_times(pairs.assigned, pairs.delay))),
            moment,
        )

    def _one_per_key(self, delivered: ir.Table) -> ir.Table:
        """Return one delivery for each key."""
        timed = "when" in delivered.columns
        if self.duplicates == "error":  # all are equal, or `conflicts` says so
            first = {"when": delivered.when.min()} if timed else {}
            return delivered.group_by("key_").agg(outcome=delivered.outcome.min(), **first)
        if self.duplicates == "sum":
            different = delivered.distinct()
            last = {"when": different.when.max()} if timed else {}
            return different.group_by("key_").agg(outcome=different.outcome.sum(), **last)
        if not timed:
            raise OptionError(
                f"{argument('duplicates')} is {self.duplicates!r}, but no column says "
                "when the outcomes came; name it with "
                f"{argument('arrived_at')}."
            )
        by = [delivered.when, delivered.outcome]
        if self.duplicates == "last":
            by = [column.desc() for column in by]
        ranked = delivered.mutate(place=self.library.row_number().over(group_by=delivered.key_, order_by=by))
        return ranked.filter(ranked.place == 0).drop("place")

    # ---------------------------------------------------------------- events

    def _with_events(self, rows: ir.Table) -> ir.Table:
        """Return the rows with what happened in their windows; all of it is known when these close.

        `first` is when the first event happened, null if none did.
        """
        if self.deliveries is None:
            inside = rows.when.between(rows.assigned, self._closing(rows.assigned))
            amount = inside.ifelse(rows.outcome if self.measure == "sum" else self.library.literal(1), 0)
            rows = rows.mutate(first=inside.ifelse(rows.when, None))
        else:
            inside = self.events()
            totals = inside.group_by(key_=inside.key).agg(total=inside.value.sum(), first=inside.when.min())
            rows = rows.left_join(totals, rows.key == totals.key_).drop("key_")
            amount = (rows.total > 0).ifelse(1, 0) if self.measure == "indicator" else rows.total
        amount = amount.fill_null(0).cast("float64")
        rows = rows.mutate(outcome=amount, total=amount, arrived=self._known_from(rows.assigned))
        return rows.drop("when") if self.deliveries is None else rows

    def events(self) -> ir.Table:
        """Return the events of the second table that lie in their windows: `key`, `assigned`, `when` and `value`."""
        starts, events = self.assigned_rows().select("key", "assigned"), self.timed_deliveries(None)
        pairs = starts.inner_join(events, starts.key == events.key_)
        inside = pairs.filter(pairs.when.between(pairs.assigned, self._closing(pairs.assigned)))
        value = inside.outcome if self.measure == "sum" else self.library.literal(1)
        return inside.select("key", "assigned", "when", value=value.cast("float64"))

    def _known_from(self, assigned: ir.Column) -> ir.Column:
        """Return when the outcome of each row is known: when its window has closed, and events are recorded."""
        return self._later(self._closing(assigned), self.lag)

    def _later(self, moment: ir.Column, length: Window | None) -> ir.Column:
        if length is None:
            return moment
        if length.is_time != moment.type().is_timestamp():
            raise other_kind("lag", length)
        return self._plus(moment, length)

    def _plus(self, moment: ir.Column, length: Window) -> ir.Column:
        """Return later times; of the common type, as an engine may make them coarser."""
        if not length.is_time:
            return (moment + length.length).cast(self._clock_type)
        duration = self.library.interval(microseconds=int(length.length))
        return engine_of(self.assignments).later(moment, duration).cast(self._clock_type)

    def _closing(self, assigned: ir.Column) -> ir.Column:
        """Return when each row's window closes."""
        window = self.window
        if window is None:
            raise OptionError(
                f"Events need a {argument('window')}: how long after an assignment they count, such as '7d'."
            )
        if window.is_time != assigned.type().is_timestamp():
            raise other_kind("window", window)
        return self._plus(assigned, window)


# ---------------------------------------------------------------- parts of the expression


def _delivered_by(delivered: ir.Table, moment: int | float | None) -> ir.Table:
    """Return the rows that were delivered by a moment, and the rows without a time, which are refused later."""
    if moment is None or "when" not in delivered.columns:
        return delivered
    return delivered.filter((delivered.when <= moment_like(delivered.when, moment)) | delivered.when.isnull())


def _comparable(key: ir.Column, other: ir.Column) -> ir.Column:
    """Return a key that can be compared with another: numbers as they are, of different kinds as text."""
    types, names = (key.type(), other.type()), (key.get_name(), other.get_name())
    if key.type().is_floating():
        key = key.isnan().ifelse(None, key)
    if all(t.is_numeric() for t in types) or all(t.is_string() for t in types) or all(t.is_uuid() for t in types):
        return key
    if any(t.is_floating() or t.is_decimal() for t in types):
        raise LogError(
            f"The keys {one_line(repr(names[0]))} and {one_line(repr(names[1]))} hold {in_words(types[0])} and "
            f"{in_words(types[1])}; they must be of one kind.",
            column="key",
        )
    text = key.cast("string")
    return text.lower() if any(t.is_uuid() for t in types) else text


def _arrival_times(assigned: ir.Value, delay: ir.Column) -> ir.Value:
    """Return arrival times from delays, of the kind of the assignment times."""
    if assigned.type().is_timestamp():
        if delay.type().is_null():
            return delay.cast(assigned.type())
        if not delay.type().is_interval():
            raise LogError(
                f"Column {one_line(repr(delay.get_name()))}, for {argument('delay')}, "
                f"holds {in_words(delay.type())}; as the "
                f"assignments have datetimes it must hold durations, or give {argument('arrived_at')}.",
                column="delay",
            )
        return engine_of(delay).later(assigned, delay)
    if delay.type().is_integer() and assigned.type().is_integer():
        return assigned + delay.cast("int64")
    return assigned.cast("float64") + number("delay", delay)


# ---------------------------------------------------------------- checks of keys, and notes


def joining_notes(query: RowsQuery, moment: int | float | None, checked: bool = False) -> list[str]:
    """Return what joining shows; refuse keys that do not name one assignment (unless checked), or one outcome."""
    if not checked:
        _check_keys(query)
    can_clash = query.measure is None and query.duplicates == "error"
    if can_clash:
        _check_conflicts(query, moment)
    strays = rows_in(_strays(query, moment))
    delivered = fetch(_delivered_counts(query, moment)).to_pylist()[0]
    what = "outcome" if query.measure is None else "event"
    if strays and strays == delivered["n"]:
        ours, theirs = one_line(repr(query.roles.key)), one_line(repr(query.roles.outcome_key))
        raise LogError(
            f"None of the {count(strays, what)} belongs to an assignment; columns "
            f"{ours} and {theirs}, for {argument('key')}, must "
            "hold the same values.",
            column="key",
        )
    notes = []
    if strays:
        verb = "belongs to no assignment and was" if strays == 1 else "belong to no assignment and were"
        notes.append(f"{count(strays, what)} {verb} left out.")
    repeats = delivered["keyed"] - delivered["keys"]
    if repeats and can_clash:
        notes.append(f"{count(repeats, 'repeated outcome')} counted once.")
    early = 0 if query.measure is None else rows_in(_early_events(query, moment))
    if early:
        notes.append(f"{count(early, 'event')} happened before the assignment and did not count.")
    untimed = 0 if query.measure is None else delivered["n"] - delivered["timed"]
    if untimed:
        notes.append(f"{count(untimed, 'event')} {'has' if untimed == 1 else 'have'} no time and did not count.")
    return notes


def row_name(row: Mapping[str, object]) -> str:
    """Return what names a row in a sentence: its key, or its time."""
    if row.get("key") is not None:
        return f"the row of key {one_line(repr(row['key']))}"
    return f"the row assigned at {row['assigned']}"


def refused(
    query: RowsQuery, rows: ir.Table, column: ir.Column, wrong: ir.Column, error: Callable[[int, float], LogError]
) -> LogError:
    """Return the error of the first row with a wrong number; it has the row's number, or else its key or time."""
    if not query.keeps_order:
        first = fetch(rows.mutate(number=column).filter(wrong).order_by("assigned").limit(1)).to_pylist()[0]
        return error(0, math.nan if first["number"] is None else first["number"]).at(row_name(first))
    before = 0
    for batch in engine_of(rows).batches(rows.select(number=column, wrong=wrong.cast("int32"))):
        at = np.flatnonzero(floats(batch["wrong"]))
        if len(at):
            return error(before + int(at[0]), float(floats(batch["number"])[at[0]]))
        before += batch.num_rows
    return error(0, math.nan)


def rows_in(table: ir.Table) -> int:
    """Return how many rows a table has."""
    return int(fetch(table.count().as_table())[0][0].as_py())


def keys_text(keys: Sequence[object]) -> str:
    """Return keys for a sentence; of more than five, which may not be all that there are, the first five."""
    return ", ".join(one_line(repr(key)) for key in keys[:_LISTED]) + (" and more" if len(keys) > _LISTED else "")


def _noun_and_keys(keys: Sequence[object]) -> str:
    return f"{'key' if len(keys) == 1 else 'keys'} {keys_text(keys)}"


def _check_keys(query: RowsQuery) -> None:
    """Refuse keys that are missing, or that several assignments have."""
    repeated = fetch(_repeated_keys(query).limit(_LISTED + 1)).to_pydict()
    key = one_line(repr(query.roles.key))
    if None in repeated["key"]:
        n = repeated["rows"][repeated["key"].index(None)]
        raise LogError(f"Column {key}, for {argument('key')}, is missing in {count(n, 'assignment')}.", column="key")
    if repeated["key"]:
        raise LogError(
            f"Column {key}, for {argument('key')}, must be different in every assignment; "
            f"several assignments have {_noun_and_keys(repeated['key'])}.",
            column="key",
        )


def _check_conflicts(query: RowsQuery, moment: int | float | None) -> None:
    """Refuse different outcomes for one key."""
    conflicts = fetch(_conflicts(query, moment).limit(_LISTED + 1)).to_pydict()["key"]
    if conflicts:
        raise LogError(
            f"There are different outcomes for {_noun_and_keys(conflicts)}; choose with {argument('duplicates')} which "
            "counts: first, last or sum.",
            column="outcome",
        )


# ---------------------------------------------------------------- queries of those checks


def _repeated_keys(query: RowsQuery) -> ir.Table:
    """Return the keys that more than one assignment has, and how many keys are missing."""
    keys = query.assigned_rows().select("key")
    counts = keys.group_by("key").agg(rows=keys.count())
    return counts.filter((counts.rows > 1) | counts.key.isnull()).order_by("key")


def _conflicts(query: RowsQuery, moment: int | float | None) -> ir.Table:
    """Return the keys of assignments for which different outcomes were delivered by a moment."""
    rows, delivered = query.assigned_rows(), query.timed_deliveries(moment)
    ends = delivered.group_by("key_").agg(low=delivered.outcome.min(), high=delivered.outcome.max())
    clashes = ends.filter(ends.low < ends.high)
    return clashes.semi_join(rows, clashes.key_ == rows.key).select(key="key_").order_by("key")


def _delivered_counts(query: RowsQuery, moment: int | float | None) -> ir.Table:
    """Return how many deliveries there are by a moment, `n`, how many have a key, `keyed`, and how many `keys`.

    If it is known when they came, also how many have a time, `timed`.
    """
    delivered = query.raw_deliveries(moment)
    timed = {"timed": delivered.when.count()} if "when" in delivered.columns else {}
    return delivered.aggregate(
        n=delivered.count(), keyed=delivered.key_.count(), keys=delivered.key_.nunique(), **timed
    )


def _early_events(query: RowsQuery, moment: int | float | None) -> ir.Table:
    """Return the events by a moment that happened before the assignment of their key."""
    starts, events = query.assigned_rows().select("key", "assigned"), query.timed_deliveries(moment)
    pairs = starts.inner_join(events, starts.key == events.key_)
    return pairs.filter(pairs.when < pairs.assigned)


def _strays(query: RowsQuery, moment: int | float | None) -> ir.Table:
    """Return the deliveries by a moment that belong to no assignment."""
    rows, delivered = query.assigned_rows(), query.raw_deliveries(moment)
    return delivered.anti_join(rows, delivered.key_ == rows.key)
