"""Kinds: what columns hold, and as what they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np

from belated.base.columns import Array
from belated.base.errors import LogError
from belated.base.text import one_line
from belated.log.clock import NEVER, Clock

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir
    import pyarrow as pa

#: What a column holds, in a word; "mixed" is text, but mostly numbers.
ColumnKind = Literal[
    "integer", "number", "boolean", "text", "time", "duration", "list", "struct", "map", "json", "mixed", "other"
]

_WORDS: dict[ColumnKind, str] = {
    "time": "datetimes", "integer": "whole numbers", "number": "numbers", "boolean": "true and false",
    "duration": "durations", "list": "lists", "struct": "structs", "map": "maps", "json": "JSON", "text": "text",
}  # fmt: skip


def kinds_of(table: ir.Table) -> dict[str, ColumnKind]:
    """Return in a word what each column of a table holds."""
    return {name: kind_of_type(dtype) for name, dtype in table.schema().items()}


def kind_of_type(dtype: dt.DataType) -> ColumnKind:
    """Return in a word what a type holds."""
    tests: tuple[tuple[Callable[[], bool], ColumnKind], ...] = (
        (dtype.is_boolean, "boolean"), (dtype.is_integer, "integer"), (dtype.is_floating, "number"),
        (dtype.is_decimal, "number"), (dtype.is_timestamp, "time"), (dtype.is_date, "time"),
        (dtype.is_interval, "duration"), (dtype.is_array, "list"), (dtype.is_struct, "struct"),
        (dtype.is_map, "map"), (dtype.is_json, "json"), (dtype.is_string, "text"),
    )  # fmt: skip
    for test, kind in tests:
        if test():
            return kind
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
    return LogError(f"Column {name}, for `{role}`, holds {in_words(column.type())}; it must hold {what}.", column=role)


def in_words(dtype: dt.DataType) -> str:
    """Return what a type holds, for a sentence."""
    return _WORDS.get(kind_of_type(dtype), str(dtype))


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


def moment_like(times: ir.Column, moment: int | float) -> ir.Scalar:
    """Return a moment as the times of a column are written."""
    return literal(clock_of(times), moment, times)


def floats(column: pa.Array | pa.ChunkedArray) -> Array:
    """Return an Arrow column of floats; null is NaN."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def clock_times(column: pa.Array, clock: Clock) -> Array:
    """Return Arrow times as numbers of a clock; null is NEVER or NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if clock.unit is None and not clock.whole:
        return floats(column.cast("float64"))
    numbers = (column if clock.unit is None else column.cast(pa.timestamp(clock.unit))).cast("int64")
    if numbers.null_count:
        numbers = pc.fill_null(numbers, NEVER)
    return np.asarray(numbers.to_numpy(zero_copy_only=False))
