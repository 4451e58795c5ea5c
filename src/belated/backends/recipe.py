"""From tables as people have them to one row for each assignment, as an Ibis expression."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.backends.roles import Roles
from belated.errors import LogError, OptionError
from belated.tables import count, one_line
from belated.times import Clock

if TYPE_CHECKING:
    import ibis.expr.datatypes as ibis_types
    import ibis.expr.types as ir

DUPLICATES = ("error", "first", "last", "sum")
MEASURES = ("indicator", "count", "sum")

_LARGEST = float(np.finfo(np.float64).max)
_UNITS = {
    "us": (1, "microsecond"), "ms": (10**3, "millisecond"), "s": (10**6, "second"), "sec": (10**6, "second"),
    "m": (60 * 10**6, "minute"), "min": (60 * 10**6, "minute"), "h": (3600 * 10**6, "hour"),
    "d": (86400 * 10**6, "day"), "w": (7 * 86400 * 10**6, "week"),
}  # fmt: skip


# ---------------------------------------------------------------- windows


@dataclass(frozen=True)
class Window:
    """How long after an assignment its events count: steps, or microseconds."""

    length: int | float
    is_time: bool
    text: str


def read_window(window: Any) -> Window:
    """Return a window from text such as "7d" or "12 hours", a number of steps, or a timedelta."""
    if isinstance(window, Window):
        return window
    if isinstance(window, (dt.timedelta, np.timedelta64)):
        length = round(np.timedelta64(window, "us") / np.timedelta64(1, "us"))
        size, unit = next(((s, u) for s, u in sorted(_UNITS.values(), reverse=True) if length % s == 0), (1, ""))
        return _window(length, True, count(length // size, unit), window)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(window).lower())
    if match is None or isinstance(window, bool):
        raise _no_window(window)
    number, unit = match.groups()
    if unit in ("", "step", "steps"):
        steps = int(number) if number.isdigit() else float(number)
        return _window(steps, False, f"{steps:,} {'step' if steps == 1 else 'steps'}", window)
    spelt = {name: (size, name) for size, name in _UNITS.values()}
    size, name = (_UNITS | spelt).get(unit) or (_UNITS | spelt).get(unit.removesuffix("s")) or (0, "")
    if not size:
        raise _no_window(window)
    return _window(int(Fraction(number) * size), True, f"{number} {name}{'' if number == '1' else 's'}", window)


def _window(length: int | float, is_time: bool, text: str, given: Any) -> Window:
    if not length > 0:
        raise _no_window(given)
    return Window(length, is_time, text)


def _no_window(window: Any) -> OptionError:
    return OptionError(
        f"`window` is {window!r}; it must be a positive number of steps, such as 100, or a duration, such as '7d', "
        "'12h', '30min' or '90s'."
    )


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


def present(column: ir.Column) -> ir.BooleanColumn:
    """Whether a value is there; NaN is, which Spark counts as missing."""
    if column.type().is_floating():
        return column.notnull() | column.isnan().fill_null(False)
    return column.notnull()


def number(role: str, column: ir.Column) -> ir.FloatingColumn:
    """Return a column as float64."""
    dtype = column.type()
    if dtype.is_boolean():
        return column.cast("int32").cast("float64")
    if dtype.is_numeric():
        return column.cast("float64")
    if dtype.is_null():
        return column.cast("float64")
    raise _holds(role, column, "numbers")


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
    micros = int(moment) // 1000 if clock.unit == "ns" else int(moment)
    return ibis.literal(dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros))


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

    def rows(
        self, moment: int | float | None, more: Callable[[ir.Table], Mapping[str, ir.Column]] | None = None
    ) -> ir.Table:
        """Return one row for each assignment as of a moment.

        Its columns are `arm`, `assigned`, `outcome` and `arrived` (null: still out), `key` if there is one, and
        whatever `more` makes of the table of assignments.
        """
        rows = self._assigned(more)
        if self.measure is not None:
            return self._matured(rows, moment)
        if self.deliveries is not None:
            rows = self._joined(rows, moment)
        if moment is None:
            return rows
        now = literal(clock_of(rows.assigned), moment, rows.assigned)
        return rows.filter((rows.assigned <= now) | rows.assigned.isnull()).mutate(
            # a missing arrival is not later: an outcome without one stays, to be refused
            outcome=(rows.arrived > now).ifelse(None, rows.outcome),
            arrived=(rows.arrived <= now).ifelse(rows.arrived, None),
        )

    # ---------------------------------------------------------------- assignments

    def _assigned(self, more: Callable[[ir.Table], Mapping[str, ir.Column]] | None) -> ir.Table:
        import ibis

        table, roles = self.assignments, self.roles
        columns: dict[str, Any] = {"arm": _label(table[roles.arm])}
        if roles.assigned_at is None:
            if not self.ordered:
                raise OptionError(
                    "This table's rows have no order of their own; say with `assigned_at` which column has the times."
                )
            columns["assigned"] = (ibis.row_number() + 1).cast("int64")
        else:
            columns["assigned"] = time("assigned_at", table[roles.assigned_at])
        if roles.key is not None:
            columns["key"] = table[roles.key]
        if self.deliveries is None:
            columns |= self._own_outcome(table)
        if more is not None:
            columns |= more(table)
        rows = table.select(**columns)
        if self.deliveries is None:
            rows = self._with_arrivals(rows)
        return rows

    def _own_outcome(self, table: ir.Table) -> dict[str, Any]:
        roles = self.roles
        columns: dict[str, Any] = {}
        if roles.outcome is not None and self.measure in (None, "sum"):
            columns["outcome"] = number("outcome", table[roles.outcome])
        if roles.arrived_at is not None:
            columns["when"] = self._when(table)
        elif roles.delay is not None:
            columns["delay"] = table[roles.delay]
        return columns

    def _when(self, table: ir.Table) -> ir.Column:
        """Return the arrival times; text that may be empty throughout is of the kind of the assignments' times."""
        column = table[self.roles.arrived_at]
        assigned = self.roles.assigned_at
        as_numbers = assigned is None or kind(self.assignments[assigned].type()) in ("integer", "number")
        if column.type().is_null() or (column.type().is_string() and as_numbers):
            return column.cast("float64") if as_numbers else column.cast("timestamp")
        return time("arrived_at", column)

    def _with_arrivals(self, rows: ir.Table) -> ir.Table:
        """Turn `when` or `delay` into `arrived`, null for never, of the same kind as `assigned`."""
        if "when" in rows.columns:
            arrived = rows.when
        elif "delay" in rows.columns:
            arrived = _after(rows.assigned, rows.delay)
        else:  # what is there came at once
            there = present(rows.outcome)
            return rows.mutate(arrived=there.ifelse(rows.assigned, None))
        assigned = rows.assigned
        if assigned.type().is_timestamp() != arrived.type().is_timestamp():
            raise LogError(
                "`assigned_at` and the arrival times must be of one kind: both datetimes or both numbers.",
                column="arrived_at",
            )
        if arrived.type().is_floating() or assigned.type().is_floating():
            assigned, arrived = assigned.cast("float64"), arrived.cast("float64")
            arrived = arrived.between(-_LARGEST, _LARGEST).ifelse(arrived, None)  # NaN and inf are never
        return rows.mutate(assigned=assigned, arrived=arrived).drop(
            *(name for name in ("when", "delay") if name in rows.columns)
        )

    # ---------------------------------------------------------------- outcomes in a table of their own

    def _delivered(self, moment: int | float | None = None) -> ir.Table:
        """Return deliveries by key: `outcome` if there is one, and `when` or `delay` if there is."""
        table, roles = self._deliveries, self.roles
        key = table[roles.outcome_key]
        if key.type() != self.assignments[roles.key].type():
            key = key.cast("string")
        delivered = table.select(key_=key, **self._own_outcome(table))
        if "outcome" in delivered.columns:
            delivered = delivered.filter(present(delivered.outcome))
        if moment is not None and "when" in delivered.columns:
            now = literal(clock_of(delivered.when), moment, delivered.when)
            delivered = delivered.filter((delivered.when <= now) | delivered.when.isnull())
        return delivered

    @property
    def _deliveries(self) -> ir.Table:
        if self.deliveries is None:
            raise OptionError("The outcomes are in the table of assignments.")
        return self.deliveries

    def _matched(self, rows: ir.Table) -> ir.Table:
        """Return rows with a key that can be compared with that of the deliveries."""
        same = self._deliveries[self.roles.outcome_key].type() == self.assignments[self.roles.key].type()
        return rows if same else rows.mutate(key=rows.key.cast("string"))

    def _joined(self, rows: ir.Table, moment: int | float | None) -> ir.Table:
        rows, once = self._matched(rows), self._once(self._delivered(moment))
        joined = rows.left_join(once, rows.key == once.key_).drop("key_")
        joined = self._with_arrivals(joined)
        return joined.drop("conflict") if "conflict" in joined.columns else joined

    def _once(self, delivered: ir.Table) -> ir.Table:
        """Return one delivery for each key."""
        import ibis

        when = next((name for name in ("when", "delay") if name in delivered.columns), None)
        if self.duplicates == "error":
            first = {} if when is None else {when: delivered[when].min()}
            low, high = delivered.outcome.min(), delivered.outcome.max()
            return delivered.group_by("key_").agg(outcome=low, conflict=low < high, **first)
        if self.duplicates == "sum":
            different = delivered.distinct()
            last = {} if when is None else {when: different[when].max()}
            return different.group_by("key_").agg(outcome=different.outcome.sum(), **last)
        if when is None:
            raise OptionError(
                f"`duplicates` is {self.duplicates!r}, but no column says when the outcomes came; name it with "
                "`arrived_at`."
            )
        by = [delivered[when], delivered.outcome]
        if self.duplicates == "last":
            by = [column.desc() for column in by]
        place = ibis.row_number().over(ibis.window(group_by=delivered.key_, order_by=by))
        ranked = delivered.mutate(place=place)
        return ranked.filter(ranked.place == 0).drop("place")

    # ---------------------------------------------------------------- events

    def _matured(self, rows: ir.Table, moment: int | float | None) -> ir.Table:
        """Return the rows whose window has closed, with what happened in it; all of it is known when it closes."""
        import ibis

        if moment is None:
            raise OptionError("Events need `as_of`: the moment up to which they are complete.")
        if self.deliveries is None:
            own = self._spent(rows.assigned)
            inside = (rows.arrived >= rows.assigned) & (rows.arrived <= own)
            value = rows.outcome if self.measure == "sum" else ibis.literal(1)
            rows = rows.mutate(outcome=inside.ifelse(value, 0).cast("float64").fill_null(0), arrived=own)
        else:
            rows, events = self._matched(rows), self._delivered(moment)
            if "when" not in events.columns:
                raise OptionError("Events need the time at which each happened; name it with `arrived_at`.")
            starts = rows.select("key", "assigned")
            pairs = starts.inner_join(events, starts.key == events.key_)
            inside = pairs.filter((pairs.when >= pairs.assigned) & (pairs.when <= self._spent(pairs.assigned)))
            total = inside.outcome.sum() if self.measure == "sum" else inside.count()
            totals = inside.group_by(key_=inside.key).agg(total=total.cast("float64"))
            joined = rows.left_join(totals, rows.key == totals.key_).drop("key_")
            happened = joined.total.fill_null(0)
            if self.measure == "indicator":
                happened = (happened > 0).cast("int32").cast("float64")
            rows = joined.mutate(outcome=happened.cast("float64"), arrived=self._spent(joined.assigned)).drop("total")
        now = literal(clock_of(rows.assigned), moment, rows.assigned)
        return rows.filter((rows.arrived <= now) | rows.assigned.isnull())

    def _spent(self, assigned: ir.Column) -> ir.Column:
        """Return when each row's window closes."""
        import ibis

        window = self.window
        if window is None:
            raise OptionError("Events need a `window`: how long after an assignment they count, such as '7d'.")
        if window.is_time != assigned.type().is_timestamp():
            kind_, like = ("datetimes", "'7d'") if assigned.type().is_timestamp() else ("numbers", "100")
            raise OptionError(f"`window` is {window.text}, but the times are {kind_}; give one such as {like}.")
        if window.is_time:
            return assigned + ibis.interval(microseconds=int(window.length))
        if assigned.type().is_integer() and isinstance(window.length, float):
            return assigned + math.floor(window.length)
        return assigned + window.length

    def last_moment(self) -> Any:
        """Return an expression of the latest time that either table knows."""
        rows = self._assigned(None)
        last = rows.assigned.max()
        if self.deliveries is not None:
            events = self._delivered()
            if "when" in events.columns:
                return rows.aggregate(a=last).cross_join(events.aggregate(b=events.when.max()))
        elif self.roles.arrived_at is not None:
            return rows.aggregate(a=last, b=rows.arrived.max())
        return rows.aggregate(a=last, b=last)

    # ---------------------------------------------------------------- what joining shows

    def repeated_keys(self) -> ir.Table:
        """Return the keys that more than one assignment has, and how many keys are missing."""
        keys = self.assignments.select(key=self.assignments[self.roles.key])
        counts = keys.group_by("key").agg(rows=keys.count())
        return counts.filter((counts.rows > 1) | counts.key.isnull())

    def conflicts(self, moment: int | float | None) -> ir.Table:
        """Return the keys of assignments for which different outcomes were delivered."""
        rows, once = self._matched(self._assigned(None)), self._once(self._delivered(moment))
        clashes = once.filter(once.conflict)
        return rows.inner_join(clashes, rows.key == clashes.key_).select("key")

    def strays(self) -> ir.Table:
        """Return the deliveries that belong to no assignment."""
        rows, delivered = self._matched(self._assigned(None)), self._delivered()
        return delivered.anti_join(rows, delivered.key_ == rows.key)


def _label(column: ir.Column) -> ir.Column:
    if column.type().is_string():
        return column
    return column.cast("float64") if column.type().is_decimal() else column


def _after(assigned: ir.Column, delay: ir.Column) -> ir.Column:
    """Return arrival times from delays, of the kind of the assignment times."""
    if assigned.type().is_timestamp():
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
