"""From tables as people have them to one row for each assignment, as an Ibis expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.base.errors import LogError, OptionError
from belated.base.text import one_line
from belated.log.clock import Clock
from belated.log.durations import Window
from belated.reading.roles import Roles

if TYPE_CHECKING:
    import ibis.expr.datatypes as ibis_types
    import ibis.expr.types as ir

DUPLICATES = ("error", "first", "last", "sum")
MEASURES = ("indicator", "count", "sum")

_LARGEST = float(np.finfo(np.float64).max)


# ---------------------------------------------------------------- columns


def kinds(table: ir.Table) -> dict[str, str]:
    """Return in a word what each column of a table holds."""
    return {name: kind(dtype) for name, dtype in table.schema().items()}


def kind(dtype: ibis_types.DataType) -> str:
    """Return in a word what a type holds."""
    for test, word in (
        (dtype.is_boolean, "boolean"), (dtype.is_integer, "integer"), (dtype.is_floating, "number"),
        (dtype.is_decimal, "number"), (dtype.is_timestamp, "time"), (dtype.is_date, "time"),
        (dtype.is_interval, "duration"), (dtype.is_array, "list"), (dtype.is_struct, "struct"),
        (dtype.is_map, "map"), (dtype.is_json, "json"), (dtype.is_string, "text"),
    ):  # fmt: skip
        if test():
            return word
    if dtype.is_unknown():  # PostgreSQL's composite types, which it can turn into JSON
        return "json"
    return "text" if dtype.is_uuid() else "other"


def number(role: str, column: ir.Column) -> ir.FloatingColumn:
    """Return a column as float64."""
    dtype = column.type()
    if dtype.is_boolean():
        return column.cast("int32").cast("float64")
    if dtype.is_numeric() or dtype.is_null():
        return column.cast("float64")
    raise _holds(role, column, "numbers")


def value(role: str, column: ir.Column) -> ir.FloatingColumn:
    """Return a column as float64 in which NaN, as null, is nothing: engines differ in what they take it for."""
    numbers = number(role, column)
    return numbers.isnan().ifelse(None, numbers) if column.type().is_floating() else numbers


def time(role: str, column: ir.Column) -> ir.Column:
    """Return a column of times as int64, float64 or timestamps in UTC without a zone."""
    dtype = column.type()
    if dtype.is_integer():
        return column.cast("int64")
    if dtype.is_floating() or dtype.is_decimal():
        return column.cast("float64")
    if dtype.is_timestamp():
        return column if dtype.timezone is None else column.cast("timestamp")
    if dtype.is_date():
        return column.cast("timestamp")
    if dtype.is_string():  # an offset is applied on the way to UTC, not dropped
        return column.cast("timestamp('UTC')").cast("timestamp")
    raise _holds(role, column, "numbers or datetimes")


def _holds(role: str, column: ir.Column, what: str) -> LogError:
    name = one_line(repr(column.get_name()))
    return LogError(f"Column {name}, for `{role}`, holds {_in_words(column.type())}; it must hold {what}.", column=role)


def _in_words(dtype: ibis_types.DataType) -> str:
    words = {"time": "datetimes", "integer": "whole numbers", "number": "numbers", "boolean": "true and false",
             "duration": "durations", "list": "lists", "struct": "structs", "map": "maps", "json": "JSON"}  # fmt: skip
    return words.get(kind(dtype), "text" if kind(dtype) == "text" else str(dtype))


def clock_of(times: ir.Column) -> Clock:
    """Return the clock of a column that `time` made."""
    dtype = times.type()
    if dtype.is_timestamp():
        return Clock(unit="ns" if (dtype.scale or 0) > 6 else "us")
    return Clock(whole=dtype.is_integer())


def literal(clock: Clock, moment: int | float, like: ir.Column) -> ir.Scalar:
    """Return a number of the clock as the engine writes it."""
    import ibis

    if clock.unit is None:
        return ibis.literal(moment, type=like.type())
    return ibis.literal(str(clock.show(moment))).cast(like.type())


def _now(moment: int | float, times: ir.Column) -> ir.Scalar:
    return literal(clock_of(times), moment, times)


# ---------------------------------------------------------------- the recipe


@dataclass(frozen=True)
class Recipe:
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
    ordered : bool
        Whether the assignments have an order of their own.
    """

    assignments: ir.Table
    deliveries: ir.Table | None
    roles: Roles
    duplicates: str = "error"
    measure: str | None = None
    window: Window | None = None
    ordered: bool = True

    @property
    def engine(self) -> Any:
        """The Ibis connection."""
        return self.assignments.get_backend()

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

        Its columns are `arm`, `assigned`, `outcome` and `arrived` (null: still out), `key` if there is one, `first` of
        events, and whatever `more` makes of the table of assignments.
        """
        rows = self._assigned(more)
        if self.measure is None:
            rows = self._with_outcomes(rows, moment)
            since = rows.assigned
        else:
            rows = self._with_events(rows)
            since = rows.arrived
        return rows if moment is None else rows.filter((since <= _now(moment, since)) | rows.assigned.isnull())

    def arms(self) -> ir.Table:
        """Return the arms of all assignments, whenever they were made."""
        return self.assignments.select(arm=_label(self.assignments[self.roles.arm])).distinct().order_by("arm")

    # ---------------------------------------------------------------- time

    @property
    def _outcomes(self) -> ir.Table:
        """The table that the outcomes are in."""
        return self.assignments if self.deliveries is None else self.deliveries

    @cached_property
    def _clock_type(self) -> ibis_types.DataType:
        """The type of every time: numbers, floats if any is one; or timestamps, as fine as the finest."""
        import ibis

        made = ibis.dtype("int64")
        if self.roles.assigned_at is not None:
            made = time("assigned_at", self.assignments[self.roles.assigned_at]).type()
        came = made
        if self.roles.arrived_at is not None:
            column = self._outcomes[self.roles.arrived_at]
            if column.type().is_string() and made.is_numeric():  # a column of nothing may be taken for text
                came = ibis.dtype("float64")
            elif not column.type().is_null():
                came = time("arrived_at", column).type()
        elif self.roles.delay is not None:
            came = _after(ibis.null(made), self._outcomes[self.roles.delay]).type()
        if made.is_timestamp() != came.is_timestamp():
            raise LogError(
                "`assigned_at` and the arrival times must be of one kind: both datetimes or both numbers.",
                column="arrived_at",
            )
        if made.is_timestamp():
            return max(made, came, key=lambda dtype: getattr(dtype, "scale", None) or 0)
        split = self.window is not None and isinstance(self.window.length, float)
        return ibis.dtype("float64" if split or made.is_floating() or came.is_floating() else "int64")

    def _when(self, table: ir.Table, assigned: ir.Column | None = None) -> ir.Column | None:
        """Return the arrival times if they are known; for delays, `assigned` must be."""
        if self.roles.arrived_at is not None:
            column = table[self.roles.arrived_at]
            as_it_is = column.type().is_null() or (column.type().is_string() and self._clock_type.is_numeric())
            return self._ever(column if as_it_is else time("arrived_at", column))
        if self.roles.delay is not None and assigned is not None:
            return self._ever(_after(assigned, table[self.roles.delay]))
        return None

    def _ever(self, when: ir.Column) -> ir.Column:
        """Return times of the common type; NaN and inf, as null, are never."""
        when = when.cast(self._clock_type)
        return when.between(-_LARGEST, _LARGEST).ifelse(when, None) if self._clock_type.is_floating() else when

    # ---------------------------------------------------------------- assignments

    def _assigned(self, more: Callable[[ir.Table], Mapping[str, ir.Column]] | None = None) -> ir.Table:
        """Return `arm`, `assigned`, `key`, and `outcome` and `when` if they are in the same table."""
        import ibis

        table, roles = self.assignments, self.roles
        columns: dict[str, Any] = {"arm": _label(table[roles.arm])}
        if roles.assigned_at is not None:
            columns["assigned"] = time("assigned_at", table[roles.assigned_at]).cast(self._clock_type)
        elif self.ordered:
            columns["assigned"] = (ibis.row_number() + 1).cast(self._clock_type)
        else:
            raise OptionError(
                "This table's rows have no order of their own; say with `assigned_at` which column has the times."
            )
        if roles.key is not None:
            columns["key"] = table[roles.key]
        if self.deliveries is None:
            columns |= self._own(table, columns["assigned"])
        else:
            columns["key"] = _comparable(table[roles.key], self.deliveries[roles.outcome_key])
        return table.select(**columns, **(more(table) if more is not None else {}))

    def _own(self, table: ir.Table, assigned: ir.Column | None = None) -> dict[str, Any]:
        """Return what a table tells of outcomes: `outcome` unless only events count, and `when` if it is known."""
        columns: dict[str, Any] = {}
        if self.roles.outcome is not None and self.measure in (None, "sum"):
            columns["outcome"] = value("outcome", table[self.roles.outcome])
        when = self._when(table, assigned)
        return columns if when is None else {**columns, "when": when}

    # ---------------------------------------------------------------- outcomes

    def _with_outcomes(self, rows: ir.Table, moment: int | float | None) -> ir.Table:
        if self.deliveries is not None:
            once = self._once(self._delivered(moment))
            rows = rows.left_join(once, rows.key == once.key_).drop("key_")
        if "when" not in rows.columns:  # what is there came at once
            return rows.mutate(arrived=rows.outcome.notnull().ifelse(rows.assigned, None))
        rows = rows.rename(arrived="when")
        if moment is None or self.deliveries is not None:
            return rows
        later = rows.arrived > _now(moment, rows.arrived)
        # a missing arrival is not later: an outcome without one stays, to be refused
        return rows.mutate(outcome=later.ifelse(None, rows.outcome), arrived=later.ifelse(None, rows.arrived))

    def _deliveries(self, moment: int | float | None) -> ir.Table:
        """Return what was delivered by a moment, as far as the table of deliveries alone can tell."""
        if self.deliveries is None:
            raise OptionError("The outcomes are in the table of assignments.")
        table, roles = self.deliveries, self.roles
        columns = {"key_": _comparable(table[roles.outcome_key], self.assignments[roles.key]), **self._own(table)}
        if roles.delay is not None:
            columns["delay"] = table[roles.delay]
        delivered = table.select(**columns)
        if "outcome" in columns:
            delivered = delivered.filter(delivered.outcome.notnull())
        return _until(delivered, moment)

    def _delivered(self, moment: int | float | None) -> ir.Table:
        """Return the deliveries by a moment: `key_`, `outcome` if there is one, and `when` if it is known."""
        delivered = self._deliveries(moment)
        if "delay" not in delivered.columns:
            return delivered
        starts = self._assigned().select("key", "assigned")
        pairs = delivered.inner_join(starts, delivered.key_ == starts.key)
        return _until(pairs.select("key_", "outcome", when=self._ever(_after(pairs.assigned, pairs.delay))), moment)

    def _once(self, delivered: ir.Table) -> ir.Table:
        """Return one delivery for each key."""
        import ibis

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
                f"`duplicates` is {self.duplicates!r}, but no column says when the outcomes came; name it with "
                "`arrived_at`."
            )
        by = [delivered.when, delivered.outcome]
        if self.duplicates == "last":
            by = [column.desc() for column in by]
        ranked = delivered.mutate(place=ibis.row_number().over(group_by=delivered.key_, order_by=by))
        return ranked.filter(ranked.place == 0).drop("place")

    # ---------------------------------------------------------------- events

    def _with_events(self, rows: ir.Table) -> ir.Table:
        """Return the rows with what happened in their windows; all of it is known when these close.

        `first` is when the first event happened, null if none did.
        """
        import ibis

        if self.deliveries is None:
            inside = rows.when.between(rows.assigned, self._closing(rows.assigned))
            happened = inside.ifelse(rows.outcome if self.measure == "sum" else ibis.literal(1), 0)
            rows = rows.mutate(first=inside.ifelse(rows.when, None))
        else:
            starts, events = rows.select("key", "assigned"), self._delivered(None)
            pairs = starts.inner_join(events, starts.key == events.key_)
            inside = pairs.filter(pairs.when.between(pairs.assigned, self._closing(pairs.assigned)))
            totals = inside.group_by(key_=inside.key).agg(
                total=inside.outcome.sum() if self.measure == "sum" else inside.count(), first=inside.when.min()
            )
            rows = rows.left_join(totals, rows.key == totals.key_).drop("key_")
            happened = (rows.total > 0).ifelse(1, 0) if self.measure == "indicator" else rows.total
        rows = rows.mutate(outcome=happened.fill_null(0).cast("float64"), arrived=self._closing(rows.assigned))
        return rows.drop("when" if self.deliveries is None else "total")

    def _closing(self, assigned: ir.Column) -> ir.Column:
        """Return when each row's window closes."""
        import ibis

        window = self.window
        if window is None:
            raise OptionError("Events need a `window`: how long after an assignment they count, such as '7d'.")
        if window.is_time != assigned.type().is_timestamp():
            kind_, like = ("datetimes", "'7d'") if assigned.type().is_timestamp() else ("numbers", "100")
            raise OptionError(f"`window` is {window.text}, but the times are {kind_}; give one such as {like}.")
        return assigned + (ibis.interval(microseconds=int(window.length)) if window.is_time else window.length)

    def last_moment(self) -> ir.Table:
        """Return the latest times: `a` of the assignments, `b` of the events."""
        rows, when = self._assigned(), self._when(self._outcomes)
        if when is None:
            raise OptionError("Events need the time at which each happened; name it with `arrived_at`.")
        came = self._outcomes.select(when=when)
        return rows.aggregate(a=rows.assigned.max()).cross_join(came.aggregate(b=came.when.max()))

    # ---------------------------------------------------------------- what joining shows

    def repeated_keys(self) -> ir.Table:
        """Return the keys that more than one assignment has, and how many keys are missing."""
        keys = self._assigned().select("key")
        counts = keys.group_by("key").agg(rows=keys.count())
        return counts.filter((counts.rows > 1) | counts.key.isnull()).order_by("key")

    def conflicts(self, moment: int | float | None) -> ir.Table:
        """Return the keys of assignments for which different outcomes were delivered by a moment."""
        rows, delivered = self._assigned(), self._delivered(moment)
        ends = delivered.group_by("key_").agg(low=delivered.outcome.min(), high=delivered.outcome.max())
        clashes = ends.filter(ends.low < ends.high)
        return clashes.semi_join(rows, clashes.key_ == rows.key).select(key="key_").order_by("key")

    def delivered_counts(self, moment: int | float | None) -> ir.Table:
        """Return how many deliveries there are by a moment, `n`, and of how many `keys`."""
        delivered = self._deliveries(moment)
        return delivered.aggregate(n=delivered.count(), keys=delivered.key_.nunique())

    def early_events(self, moment: int | float | None) -> ir.Table:
        """Return the events by a moment that happened before the assignment of their key."""
        starts, events = self._assigned().select("key", "assigned"), self._delivered(moment)
        pairs = starts.inner_join(events, starts.key == events.key_)
        return pairs.filter(pairs.when < pairs.assigned)

    def not_numbers(self) -> ir.Table | None:
        """Return the rows whose outcome is NaN; None if it cannot be, or if times say whether it has come."""
        told = self.deliveries is None and (self.roles.arrived_at or self.roles.delay)
        if told or self.roles.outcome is None or self.measure in ("indicator", "count"):
            return None
        column = self._outcomes[self.roles.outcome]
        return self._outcomes.filter(column.isnan()) if column.type().is_floating() else None

    def strays(self, moment: int | float | None) -> ir.Table:
        """Return the deliveries by a moment that belong to no assignment."""
        rows, delivered = self._assigned(), self._deliveries(moment)
        return delivered.anti_join(rows, delivered.key_ == rows.key)


def _until(delivered: ir.Table, moment: int | float | None) -> ir.Table:
    """Return what was delivered by a moment, and what has no time, to be refused."""
    if moment is None or "when" not in delivered.columns:
        return delivered
    return delivered.filter((delivered.when <= _now(moment, delivered.when)) | delivered.when.isnull())


def _comparable(key: ir.Column, other: ir.Column) -> ir.Column:
    """Return a key that can be compared with another: numbers as they are, of different kinds as text."""
    types, names = (key.type(), other.type()), (key.get_name(), other.get_name())
    if key.type().is_floating():
        key = key.isnan().ifelse(None, key)
    if all(t.is_numeric() for t in types) or all(t.is_string() for t in types) or all(t.is_uuid() for t in types):
        return key
    if any(t.is_floating() or t.is_decimal() for t in types):
        raise LogError(
            f"The keys {one_line(repr(names[0]))} and {one_line(repr(names[1]))} hold {_in_words(types[0])} and "
            f"{_in_words(types[1])}; they must be of one kind.",
            column="key",
        )
    text = key.cast("string")
    return text.lower() if any(t.is_uuid() for t in types) else text


def _label(column: ir.Column) -> ir.Column:
    return column.cast("float64") if column.type().is_decimal() else column


def _after(assigned: ir.Value, delay: ir.Column) -> ir.Value:
    """Return arrival times from delays, of the kind of the assignment times."""
    if assigned.type().is_timestamp():
        if delay.type().is_null():
            return delay.cast(assigned.type())
        if not delay.type().is_interval():
            raise LogError(
                f"Column {one_line(repr(delay.get_name()))}, for `delay`, holds {_in_words(delay.type())}; as the "
                "assignments have datetimes it must hold durations, or give `arrived_at`.",
                column="delay",
            )
        return assigned + delay
    if delay.type().is_integer() and assigned.type().is_integer():
        return assigned + delay.cast("int64")
    return assigned.cast("float64") + number("delay", delay)
