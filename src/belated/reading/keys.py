"""Keys of two tables: whole numbers that one of them writes as 1.0, as pandas does beside missing ones, match 1."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from belated.reading.embedded import EmbeddedTable
from belated.reading.expressions import Value, sql_name
from belated.reading.inputs import Input
from belated.reading.roles import Roles

#: How a column writes whole numbers: as text such as 1, as text such as 1.0, or as numbers.
_Way = Literal["whole", "pointed", "integer", "float"]

#: The ways of two columns whose equal numbers do not match unless the text becomes numbers.
_APART: tuple[set[_Way], ...] = (
    {"whole", "pointed"}, {"integer", "pointed"}, {"float", "pointed"}, {"float", "whole"},
)  # fmt: skip

#: Whole numbers as text: with more digits, floats would not tell them apart; with leading zeros, they are names.
_WHOLE = "0|-?[1-9][0-9]{0,14}"


def with_alike_keys(assignments: Input, deliveries: Input, roles: Roles) -> tuple[Input, Input]:
    """Return the tables with keys of text as numbers, if every key is a whole number and they would not match as text.

    Any other key among them leaves all as they are: 1.0 may be a name beside 1.
    """
    one, two = assignments.table, deliveries.table
    if not isinstance(one, EmbeddedTable) or not isinstance(two, EmbeddedTable):
        return assignments, deliveries
    keys = (one, roles.key or ""), (two, roles.outcome_key or "")
    for rows in ("LIMIT 1", ""):  # the first key tells of most tables that nothing is to be done
        if {_way(table, key, rows) for table, key in keys} not in _APART:
            return assignments, deliveries
    one, two = (_with_numbers(table, key) for table, key in keys)
    return replace(assignments, table=one), replace(deliveries, table=two)


def _way(table: EmbeddedTable, key: str, rows: str) -> _Way | None:
    """Return how the keys are written; None if any is not a whole number."""
    kind = table[key].type()
    if kind.is_numeric():
        return "integer" if kind.is_integer() else "float"
    if not kind.is_string():
        return None
    column = sql_name(key)
    answers = table.connection.con.execute(
        f"SELECT bool_and(regexp_full_match(k, '{_WHOLE}')), bool_and(regexp_full_match(k, '({_WHOLE})[.]0')) "  # noqa: S608
        f"FROM (SELECT CAST({column} AS VARCHAR) AS k FROM ({table.sql}) t WHERE {column} IS NOT NULL {rows})"
    ).fetchall()
    whole, pointed = answers[0]
    return "whole" if whole else "pointed" if pointed else None


def _with_numbers(table: EmbeddedTable, key: str) -> EmbeddedTable:
    if not table[key].type().is_string():
        return table
    sql = f"CAST(CAST(CAST(t.{sql_name(key)} AS VARCHAR) AS DOUBLE) AS BIGINT)"
    return table.mutate(**{key: Value(sql, table, "BIGINT")})
