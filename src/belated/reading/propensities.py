"""One column that holds every arm's propensity, to one column per arm: on DuckDB, PostgreSQL and Spark alike.

A list goes by position; a struct, a map and a JSON object go by name. JSON may be of the engine's own type or text.
It is parsed as a whole, and names are compared with its keys, never written into a path. What is not a number is
NULL, and so is a row whose JSON is broken; only PostgreSQL, which cannot try to parse, raises its error instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from belated.base.errors import LogError

#: Rows looked at to learn which arms a column speaks of.
_SAMPLE = 1_000

#: What PostgreSQL can cast to a float, as it writes regular expressions; groups that capture are slow there.
_NUMBER = r"^\s*(?:[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?Infinity|NaN)\s*$"

_JSONB = dt.JSON(binary=True)
_TEXTS = dt.Array(dt.string)
_TEXT_BY_NAME = dt.Map(dt.string, dt.string)


def _builtin(name: str, result: dt.DataType, arguments: int) -> Any:
    """Return a function of an engine's own, by the name it has there."""
    template = (lambda value: None) if arguments == 1 else (lambda value, other: None)
    return ibis.udf.scalar.builtin(template, name=name, signature=((None,) * arguments, result))


_to_jsonb = _builtin("to_jsonb", _JSONB, 1)
_jsonb_typeof = _builtin("jsonb_typeof", dt.string, 1)
_jsonb_exists = _builtin("jsonb_exists", dt.boolean, 2)
_jsonb_item = _builtin("jsonb_extract_path_text", dt.string, 2)
_jsonb_array_length = _builtin("jsonb_array_length", dt.int64, 1)
_substring = _builtin("substring", dt.string, 2)
_spark_list = _builtin("from_json", _TEXTS, 2)
_spark_map = _builtin("from_json", _TEXT_BY_NAME, 2)
_spark_item = _builtin("try_element_at", dt.string, 2)


def keys(column: ir.Column) -> list[str] | int | None:
    """Return the arms that a column of propensities speaks of.

    Parameters
    ----------
    column : ibis column
        A list, struct, map, JSON or text that holds JSON.

    Returns
    -------
    list of str, int or None
        Names in the order first seen, or, for lists, the number of positions. A struct tells by its type; of anything
        else the first thousand rows that are not NULL are read. None if there are none.
    """
    kind = column.type()
    if kind.is_struct():
        return list(kind.names)
    if kind.is_array():
        return max(_sample(column.length()), default=0) or None
    if _is_native(column):
        return _union(_sample(column.keys()))
    document = _document(column)
    texts = _sample(column if kind.is_string() else document.cast(dt.string))
    documents = [document for document in map(_parsed, texts) if isinstance(document, dict | list)]
    if texts and not documents:
        raise _unreadable(column, repr(texts[0][:40]))
    if documents and isinstance(documents[0], list):
        return max(len(document) for document in documents if isinstance(document, list)) or None
    return _union(document for document in documents if isinstance(document, dict))


def columns(column: ir.Column, labels: Sequence[str] | int, *, absent: float | None = None) -> list[ir.FloatingColumn]:
    """Return one column of floats per arm.

    Parameters
    ----------
    column : ibis column
        A list, struct, map, JSON or text that holds JSON.
    labels : sequence of str or int
        The names to look up, or how many positions, as `keys` tells them.
    absent : float, optional
        What a row that leaves out a name says about it; NULL by default. A row that is NULL as a whole, a name whose
        value is NULL and a list that is too short are NULL whatever `absent` is.
    """
    if isinstance(labels, int):
        positions = _opened(column, named=False)
        return [_number(_entry(positions, position), column) for position in range(labels)]
    names = _opened(column, named=True)
    found = [_number(_entry(names, name), column) for name in labels]
    if absent is None:
        return found
    filled = [ibis.cases((~_has(names, name), ibis.literal(absent, dt.float64))) for name in labels]
    return [ibis.coalesce(value, default) for value, default in zip(found, filled, strict=True)]


def length(column: ir.Column) -> ir.IntegerColumn:
    """Return how many entries each row has; NULL where it has neither a list nor names."""
    kind = column.type()
    if kind.is_struct():
        return column.notnull().ifelse(len(kind.names), ibis.null(dt.int64))
    if _is_native(column):
        return _size(column)
    positions, names = _opened(column, named=False), _opened(column, named=True)
    if positions.type().is_json():
        return ibis.coalesce(_jsonb_array_length(positions), _size(names.cast(_TEXT_BY_NAME)))
    return ibis.coalesce(_size(positions), _size(names))


def _opened(column: ir.Column, *, named: bool) -> Any:
    """Return what has names or, if not `named`, positions; NULL where a row has the other.

    That is a struct, a map or a list, and for PostgreSQL's JSON a JSONB object or list.
    """
    kind = column.type()
    if _is_native(column):
        if named == kind.is_array():
            raise _unreadable(column, str(kind), "a struct, a map or a JSON object" if named else "a list")
        return column
    document = _document(column)
    engine = column.get_backend().name
    if engine == "postgres":
        return (_jsonb_typeof(document) == ("object" if named else "array")).ifelse(document, ibis.null(_JSONB))
    if engine == "duckdb":
        return document.try_cast(_TEXT_BY_NAME if named else _TEXTS)
    return _spark_map(document, "map<string, string>") if named else _spark_list(document, "array<string>")


def _is_native(column: ir.Column) -> bool:
    """Return whether a column is a list, struct or map that Ibis can take apart; a map of PostgreSQL's is not."""
    kind = column.type()
    return bool(kind.is_array() or kind.is_struct() or (kind.is_map() and column.get_backend().name != "postgres"))


def _document(column: ir.Column) -> Any:
    """Return a column of JSON, in the type in which its engine parses it."""
    kind, engine = column.type(), column.get_backend().name
    if engine == "postgres" and (kind.is_unknown() or kind.is_map()):  # a composite type, hstore
        return _to_jsonb(column)
    if kind.is_string() or kind.is_json():
        if engine == "postgres":
            return column.cast(_JSONB)
        if engine == "duckdb":
            return column if kind.is_json() else column.try_cast(dt.json)
        if engine == "pyspark":
            return column.cast(dt.string)
    raise _unreadable(column, f"{kind} on {engine}")


def _entry(holder: Any, label: str | int) -> Any:
    """Return what a row holds under a name or at a position, NULL if nothing."""
    kind = holder.type()
    if kind.is_json():
        return _jsonb_item(holder, str(label))
    if not kind.is_struct() and kind.value_type.is_string() and holder.get_backend().name == "pyspark":
        # unlike a case, it lets Spark see that all arms need the same JSON, and parse it once
        return _spark_item(holder, label + 1 if isinstance(label, int) else label)
    if kind.is_array():  # Spark raises beyond the end
        return (holder.length() > label).ifelse(holder[label], ibis.null(kind.value_type))
    if kind.is_struct() and label not in kind.names:
        return holder.notnull().ifelse(ibis.null(dt.float64), ibis.null(dt.float64))
    return holder[label]


def _has(holder: Any, name: str) -> Any:
    """Return whether a row has a name, NULL if it has none at all."""
    kind = holder.type()
    if kind.is_json():
        return _jsonb_exists(holder, name)
    if kind.is_struct():
        return holder.notnull().ifelse(name in kind.names, ibis.null(dt.boolean))
    return holder.contains(name)


def _size(holder: Any) -> Any:
    return holder.notnull().ifelse(holder.length(), ibis.null(dt.int64))


def _number(value: Any, column: ir.Column) -> Any:
    """Return a value of `column`'s as a float; text that is none is NULL."""
    kind = value.type()
    if kind.is_numeric():
        return value.cast(dt.float64)
    if not kind.is_string():
        raise _unreadable(column, str(column.type()))
    if column.get_backend().name != "postgres":
        return value.try_cast(dt.float64)
    return _substring(value, _NUMBER).cast(dt.float64)


def _sample(values: Any) -> list[Any]:
    """Return the first values that are not NULL."""
    table = values.name("value").as_table()
    found: list[Any] = table.filter(table["value"].notnull()).limit(_SAMPLE).to_pyarrow()["value"].to_pylist()
    return found


def _union(rows: Iterable[Iterable[str]]) -> list[str] | None:
    """Return every name in `rows`, in the order first seen."""
    return list(dict.fromkeys(name for names in rows for name in names)) or None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _unreadable(column: ir.Column, what: str, wanted: str = "a list, a struct, a map or JSON") -> LogError:
    name = column.get_name()
    return LogError(f"`{name}` holds {what}; it must hold {wanted} with every arm's propensity.", column=name)
