"""Rows of PostgreSQL in memory, by its binary COPY, on the connection that the table belongs to."""

from __future__ import annotations

import io
import json
import selectors
from collections.abc import Collection, Generator, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from belated.base.columns import Array, Row
from belated.base.text import one_line
from belated.kernels import jit, records
from belated.reading.engines import UncopiedError, compiled

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import psycopg
    import pyarrow as pa
    from psycopg.pq.abc import PGresult

#: Bytes that are received before they become columns.
_PIECE = 1 << 26

#: Messages that are taken before anything else is looked at.
_AT_ONCE = 1 << 12

#: What the first row comes after: a signature, flags, and the length of nothing.
_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_HEADER = len(_SIGNATURE) + 8

#: Days from 1970 to 2000, where PostgreSQL's times start.
_DAYS = 10_957

#: From how large an estimate of the planner's on, as a part of the limit, rows are counted.
_DOUBTFUL = 0.25


class _CopiedType(NamedTuple):
    """How values of a type are sent: `width` as a NumPy type ("" for text), the final type, and how to select them."""

    width: str
    meaning: str = ""
    sql: str = "{}"


#: By the number that PostgreSQL has for a type.
_KINDS = {
    16: _CopiedType(">u1", "bool"),
    20: _CopiedType(">i8"),
    21: _CopiedType(">i2"),
    23: _CopiedType(">i4"),
    25: _CopiedType(""),
    700: _CopiedType(">f4"),
    701: _CopiedType(">f8"),
    1043: _CopiedType(""),
    1082: _CopiedType(">i4", "date"),
    1114: _CopiedType(">i8", "timestamp"),
    1184: _CopiedType(">i8", "timestamptz"),
    1700: _CopiedType(">f8", sql="{}::float8"),
    2950: _CopiedType("", "uuid", "{}::text"),
}

#: What Ibis calls types, by the numbers that PostgreSQL has for them; 18 is a single byte, written "char".
_NAMES = {
    16: "boolean",
    18: "string",
    20: "int64",
    21: "int16",
    23: "int32",
    25: "string",
    700: "float32",
    701: "float64",
    1042: "string",
    1043: "string",
    1082: "date",
    1114: "timestamp",
    1184: "timestamp('UTC')",
    1186: "interval",
    1700: "decimal",
    2950: "uuid",
}

#: Lists, structs and maps come as JSON, which the embedded engine takes apart.
_DOCUMENT = _CopiedType("", sql="to_json({})::text")

#: The numbers of types that are JSON already, and of those that a double would round.
_JSON, _EXACT = (114, 3802), (1700,)


def copied(
    table: ir.Table, columns: Sequence[str], *, keys: Collection[str], documents: Collection[str], limit: int
) -> pa.Table:
    """Return columns of a table, or of another expression, as `Engine.copied` does; say why not if that cannot be."""
    import pyarrow as pa

    connection: psycopg.Connection[Row] = table.get_backend().con
    relation = _relation(table)
    kinds = _kinds(connection, relation, columns, keys, documents)
    if _is_larger(connection, relation, limit):
        raise UncopiedError.of_size(limit)
    asked = ", ".join(kind.sql.format(_quoted(name)) for name, kind in kinds.items())
    rows, tables = 0, []
    statement = f"COPY (SELECT {asked} FROM {relation}) TO STDOUT (FORMAT binary)"  # noqa: S608
    with closing(_pieces(connection, statement)) as pieces:
        for piece, messages in pieces:
            tables.append(_part(piece, messages, kinds))
            rows += tables[-1].num_rows
            if rows > limit:
                raise UncopiedError.of_size(limit)
    return pa.concat_tables(tables)


def known_types(table: ir.Table, columns: Sequence[str]) -> dict[str, str]:
    """Return what Ibis calls the types of columns, of those that it could know: domains, and single bytes."""
    numbers = _type_numbers(table.get_backend().con, _relation(table), columns)
    return {name: _NAMES[number] for name, number in numbers.items() if number in _NAMES}


# ---------------------------------------------------------------- what is asked for


def _relation(table: ir.Table) -> str:
    """Return what stands behind FROM: a table's name, or a query."""
    operation = table.op()
    if type(operation).__name__ != "DatabaseTable":
        return f"({compiled(table)}) AS belated_rows"
    space = operation.namespace
    names = [name for name in (space.catalog, space.database, operation.name) if name is not None]
    return ".".join(map(_quoted, names))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _kinds(
    connection: psycopg.Connection[Row],
    relation: str,
    columns: Sequence[str],
    keys: Collection[str],
    documents: Collection[str],
) -> dict[str, _CopiedType]:
    """Return how the values of each column are to come."""
    if connection.info.encoding != "utf-8":
        raise UncopiedError(f"the connection speaks {connection.info.encoding}, not UTF-8")
    kinds = {}
    for name, number in _type_numbers(connection, relation, columns).items():
        kind = _KINDS.get(number)
        if kind is None and name in documents:
            kind = _CopiedType("", sql="{}::text") if number in _JSON else _DOCUMENT
        if kind is None or (number in _EXACT and name in keys):
            raise UncopiedError.of_type(name)
        kinds[name] = kind
    return kinds


def _type_numbers(connection: psycopg.Connection[Row], relation: str, columns: Sequence[str]) -> dict[str, int]:
    """Return the number of each column's type; of a domain, that of the type that it restricts."""
    listed = ", ".join(map(_quoted, columns))
    with connection.cursor() as cursor:
        described = cursor.execute(f"SELECT {listed} FROM {relation} LIMIT 0", prepare=False).description or []  # noqa: S608
    return {name: part.type_code for name, part in zip(columns, described, strict=True)}


def _is_larger(connection: psycopg.Connection[Row], relation: str, limit: int) -> bool:
    """Whether there are more rows than a limit; they are counted only if the planner expects many."""
    plan = _value(connection, f"EXPLAIN (FORMAT json) SELECT 1 FROM {relation}")  # noqa: S608
    expected = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]["Plan Rows"]
    if expected < _DOUBTFUL * limit:
        return False
    return bool(_value(connection, f"SELECT count(*) FROM {relation}") > limit)  # noqa: S608


def _value(connection: psycopg.Connection[Row], query: str) -> Any:  # of the type that the query gives it
    """Return the only value of a query's answer."""
    with connection.cursor() as cursor:
        row = cursor.execute(query, prepare=False).fetchone()
    return None if row is None else row[0]


# ---------------------------------------------------------------- what comes


def _pieces(connection: psycopg.Connection[Row], statement: str) -> Generator[tuple[Array, int]]:
    """Yield what COPY sends, some rows at a time, each with the number of messages that it came in.

    PostgreSQL sends a message for each row. Taken one by one from libpq, they cost a fraction of what they cost by
    way of `Cursor.copy`.
    """
    from psycopg.errors import OperationalError, error_from_result
    from psycopg.pq import ExecStatus

    link = connection.pgconn
    take, piece, messages = link.get_copy_data, io.BytesIO(), 0
    write = piece.write
    with selectors.DefaultSelector() as selector:
        selector.register(link.socket, selectors.EVENT_READ)

        def result() -> PGresult:
            while link.is_busy():
                selector.select()
                link.consume_input()
            answer = link.get_result()
            if answer is None:
                raise OperationalError("the server gave no answer")
            return answer

        try:
            link.send_query(statement.encode())
            started = result()
            while started.status == ExecStatus.COPY_OUT:
                for _ in range(_AT_ONCE):
                    size, message = take(1)
                    if size <= 0:
                        break
                    write(message)
                    messages += 1
                if size == 0:
                    selector.select()
                    link.consume_input()
                if messages and (size < 0 or piece.tell() >= _PIECE):
                    yield np.frombuffer(piece.getvalue(), dtype=np.uint8), messages
                    piece.seek(0)
                    piece.truncate()
                    messages = 0
                if size < 0:
                    started = result()
            if started.status != ExecStatus.COMMAND_OK:
                raise error_from_result(started, encoding=connection.info.encoding)
        finally:
            _finish(connection)


def _finish(connection: psycopg.Connection[Row]) -> None:
    """Leave a connection ready for another query, also if not all rows were taken."""
    from psycopg.pq import TransactionStatus

    link = connection.pgconn
    with suppress(Exception):
        if link.transaction_status == TransactionStatus.ACTIVE:
            connection.cancel_safe(timeout=5)
            while link.get_copy_data(0)[0] > 0:
                pass
    while link.get_result() is not None:
        pass


def _part(piece: Array, messages: int, kinds: dict[str, _CopiedType]) -> pa.Table:
    """Return the rows of a piece."""
    import pyarrow as pa

    start = _HEADER if bytes(piece[: len(_SIGNATURE)]) == _SIGNATURE else 0
    is_text = np.array([not kind.width for kind in kinds.values()])
    values = np.zeros((len(kinds), messages, 8), dtype=np.uint8)
    sizes = np.empty((len(kinds), messages), dtype=np.int32)
    jit.ready(10 * messages * len(kinds))
    rows = records.take_fields(piece, start, is_text, values, sizes)
    columns = {}
    for i, (name, kind) in enumerate(kinds.items()):
        columns[name] = _column(name, kind, piece, values[i, :rows], sizes[i, :rows])
    return pa.table(columns)


def _column(name: str, kind: _CopiedType, piece: Array, values: Array, sizes: Array) -> pa.Array:
    """Return a column of Arrow's from the last bytes of eight for each row, or the places of texts."""
    import pyarrow as pa

    nulls = sizes < 0
    if not kind.width:
        return _texts(piece, values.view(">i8")[:, 0].astype(np.int64), np.where(nulls, 0, sizes), nulls)
    width = np.dtype(kind.width)
    numbers = np.ascontiguousarray(values[:, 8 - width.itemsize :]).view(width)[:, 0].astype(width.newbyteorder("="))
    if kind.meaning == "bool":
        return pa.array(numbers != 0, mask=nulls)
    if not kind.meaning:
        return pa.array(numbers, mask=nulls)
    known = numbers[~nulls]
    ends = np.iinfo(numbers.dtype)
    if len(known) and (known.max() == ends.max or known.min() == ends.min):
        raise UncopiedError(f"column {one_line(repr(name))} has times without an end")
    if kind.meaning == "date":
        return pa.array(numbers + np.int32(_DAYS), mask=nulls).cast(pa.date32())
    zone = "UTC" if kind.meaning == "timestamptz" else None
    return pa.array(numbers + _DAYS * 86_400_000_000, mask=nulls).cast(pa.timestamp("us", zone))


def _texts(piece: Array, places: Array, sizes: Array, nulls: Array) -> pa.Array:
    import pyarrow as pa

    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    texts = np.empty(offsets[-1], dtype=np.uint8)
    records.take_texts(piece, places, sizes, texts)
    known = pa.array(~nulls).buffers()[1] if nulls.any() else None
    return pa.Array.from_buffers(pa.large_string(), len(sizes), [known, pa.py_buffer(offsets), pa.py_buffer(texts)])
