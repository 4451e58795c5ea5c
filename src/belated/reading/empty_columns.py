"""Columns of times that hold nothing, as before the first outcome comes: they have no type of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from belated.reading.columns import has_nan
from belated.reading.engines import library_of, sentences
from belated.reading.inputs import Input
from belated.reading.roles import Roles
from belated.reading.rows_query import rows_in

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir


def without_type(assignments: Input, deliveries: Input | None, roles: Roles) -> tuple[Input, Input | None]:
    """Return the tables; in them, times and delays that are of another kind than the assignments', but empty, are null.

    A dataframe, a file or a database may call such a column numbers or text, although it would hold dates.
    """
    if roles.assigned_at is None:
        return assignments, deliveries
    is_dated = _is_dated(assignments.table[roles.assigned_at].type())
    later = assignments if deliveries is None else deliveries
    types = later.table.schema()
    unlike = [name for name in (roles.arrived_at, roles.recorded_at) if name and _is_dated(types[name]) != is_dated]
    if roles.delay is not None and types[roles.delay].is_interval() != is_dated:
        unlike.append(roles.delay)
    with sentences(later.name, later.versions):
        empty = [name for name in unlike if _is_empty(later.table, name)]
    if not empty:
        return assignments, deliveries
    nothing = later.table.mutate(**{name: library_of(later.table).null() for name in empty})
    later = replace(later, table=nothing)
    return (later, None) if deliveries is None else (assignments, later)


def _is_dated(kind: dt.DataType) -> bool:
    return bool(kind.is_timestamp() or kind.is_date() or kind.is_string())


def _is_empty(table: ir.Table, name: str) -> bool:
    """Whether a column has no values; NaN is none."""
    column = table[name]
    known = column.notnull() & ~column.isnan() if has_nan(column) else column.notnull()
    return not rows_in(table.filter(known).limit(1))
