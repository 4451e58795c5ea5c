"""One column that holds every arm's propensity, to one column per arm: on DuckDB, PostgreSQL and Spark alike.

A list goes by position; a struct, a map and a JSON object go by name. JSON may be of the engine's own type or text.
It is parsed as a whole, and names are compared with its keys, never written into a path. What is not a number is
NULL, and so is a row whose JSON is broken; only PostgreSQL, which cannot try to parse, raises its error instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from belated.base.errors import LogError
from belated.reading.engines import engine_of, library_of

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

#: Rows looked at to learn which arms a column speaks of.
_SAMPLE = 1_000


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
    column = _with_names(column)
    kind = column.type()
    if kind.is_struct():
        return list(kind.names)
    if kind.is_array():
        return max(_sample(column.length()), default=0) or None
    if engine_of(column).takes_apart(kind):
        return _union(_sample(column.keys()))
    texts = _sample(column if kind.is_string() else _document(column).cast("string"))
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
    engine = engine_of(column)
    if isinstance(labels, int):
        positions = _opened(column, named=False)
        return [_number(engine.entry(positions, position), column) for position in range(labels)]
    names = _opened(column, named=True)
    values = [_number(engine.entry(names, name), column) for name in labels]
    if absent is None:
        return values
    library = library_of(column)
    filled = [library.cases((~engine.has(names, name), library.literal(absent, "float64"))) for name in labels]
    return [library.coalesce(value, default) for value, default in zip(values, filled, strict=True)]


def length(column: ir.Column) -> ir.IntegerColumn:
    """Return how many entries each row has; NULL where it has neither a list nor names."""
    kind, engine = column.type(), engine_of(column)
    if kind.is_struct():
        return column.notnull().ifelse(len(kind.names), library_of(column).null("int64"))
    if engine.takes_apart(kind):
        return engine.size(column, named=kind.is_map())
    positions, names = _opened(column, named=False), _opened(column, named=True)
    return library_of(column).coalesce(engine.size(positions, named=False), engine.size(names, named=True))


def _opened(column: ir.Column, *, named: bool) -> ir.Value:
    """Return what has names or, if not `named`, positions; NULL where a row has the other."""
    column = _with_names(column)
    kind, engine = column.type(), engine_of(column)
    if engine.takes_apart(kind):
        if named == kind.is_array():
            raise _unreadable(column, str(kind), "a struct, a map or a JSON object" if named else "a list")
        return column
    return engine.opened(_document(column), named=named)


def _with_names(column: ir.Column) -> ir.Column:
    """Return a map whose keys are numbers or truths with text as keys; any other column as it is."""
    kind = column.type()
    if not kind.is_map() or kind.key_type.is_string() or not kind.value_type.is_numeric():
        return column
    return column.cast("map<string, float64>").name(column.get_name())


def _document(column: ir.Column) -> ir.Value:
    """Return a column of JSON, in the type in which its engine parses it."""
    document = engine_of(column).document(column)
    if document is None:
        raise _unreadable(column, f"{column.type()} on {column.get_backend().name}")
    return document


def _number(value: ir.Value, column: ir.Column) -> ir.FloatingValue:
    """Return a value of `column`'s as a float; text that is none is NULL."""
    kind = value.type()
    if kind.is_numeric():
        return value.cast("float64")
    if not kind.is_string():
        raise _unreadable(column, str(column.type()))
    return engine_of(column).number(value)


def _sample(values: ir.Column) -> list[Any]:
    """Return the first values that are not NULL."""
    table = values.name("value").as_table()
    first: pa.Table = table.filter(table["value"].notnull()).limit(_SAMPLE).to_pyarrow()
    return list(first["value"].to_pylist())


def _union(rows: Iterable[Iterable[str]]) -> list[str] | None:
    """Return every name in `rows`, in the order first seen."""
    return list(dict.fromkeys(name for names in rows for name in names)) or None


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _unreadable(column: ir.Column, what: str, wanted: str = "a list, a struct, a map or JSON") -> LogError:
    name = column.get_name()
    return LogError(f"`{name}` holds {what}; it must hold {wanted} with every arm's propensity.", column=name)
