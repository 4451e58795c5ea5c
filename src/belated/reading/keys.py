"""Keys of two tables: whole numbers that one of them writes as 1.0, as pandas does beside missing ones, match 1."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from belated.reading.engines import fetch
from belated.reading.inputs import Input
from belated.reading.roles import Roles

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: How a column writes whole numbers: as text such as 1, as text such as 1.0, or as numbers.
_KeyForm = Literal["whole", "pointed", "integer", "float"]

#: The ways of two columns whose equal numbers do not match unless the text becomes numbers.
_APART: tuple[set[_KeyForm], ...] = (
    {"whole", "pointed"}, {"integer", "pointed"}, {"float", "pointed"}, {"float", "whole"},
)  # fmt: skip

#: Whole numbers as text: with more digits, floats would not tell them apart; with leading zeros, they are names.
_INTEGER = "0|-?[1-9][0-9]{0,14}"
_TEXTS: dict[_KeyForm, str] = {"whole": f"^({_INTEGER})$", "pointed": f"^({_INTEGER})[.]0$"}


def with_alike_keys(assignments: Input, deliveries: Input, roles: Roles) -> tuple[Input, Input]:
    """Return the tables with keys of text as numbers, if every key is a whole number and they would not match as text.

    Any other key among them leaves all as they are: 1.0 may be a name beside 1.
    """
    keys = (assignments.table, roles.key or ""), (deliveries.table, roles.outcome_key or "")
    for form in (_form_of_first, _form_of_all):  # the first key tells of most tables that nothing is to be done
        if {form(table, key) for table, key in keys} not in _APART:
            return assignments, deliveries
    one, two = (_with_numbers(table, key) for table, key in keys)
    return replace(assignments, table=one), replace(deliveries, table=two)


def _form_of_first(table: ir.Table, key: str) -> _KeyForm | None:
    """Return how the first key is written; None if it is not a whole number."""
    if not table[key].type().is_string():
        return _form_of_numbers(table[key])
    first = fetch(_texts(table, key).limit(1))["key"].to_pylist()
    return next((way for way, pattern in _TEXTS.items() if first and re.search(pattern, first[0])), None)


def _form_of_all(table: ir.Table, key: str) -> _KeyForm | None:
    """Return how all keys are written; None if any is not a whole number."""
    if not table[key].type().is_string():
        return _form_of_numbers(table[key])
    texts = _texts(table, key)
    fits = {way: texts.key.re_search(pattern).cast("int32").min() for way, pattern in _TEXTS.items()}
    (all_fit,) = fetch(texts.aggregate(**fits)).to_pylist()
    return next((way for way in _TEXTS if all_fit[way]), None)


def _form_of_numbers(key: ir.Column) -> _KeyForm | None:
    kind = key.type()
    return None if not kind.is_numeric() else "integer" if kind.is_integer() else "float"


def _texts(table: ir.Table, key: str) -> ir.Table:
    """Return the keys that are not missing, as text."""
    texts = table.select(key=table[key].cast("string"))
    return texts.filter(texts.key.notnull())


def _with_numbers(table: ir.Table, key: str) -> ir.Table:
    column = table[key]
    if not column.type().is_string():
        return table
    return table.mutate(**{key: column.cast("string").cast("float64").cast("int64")})
