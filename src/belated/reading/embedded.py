"""The embedded engine, DuckDB: tables and a connection that are used as Ibis's are.

Files and dataframes need no more than this, and importing Ibis takes longer than answering from them.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from belated.base.progress import watched
from belated.reading.expressions import Type, Value, literal, sql_name, sql_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.dataset as ds

#: How much memory it may take before it goes to disk.
_MEMORY = "3GB"


def new_name(prefix: str = "belated") -> str:
    """Return a name that no table has."""
    return f"{prefix}_{uuid4().hex}"


class Namespace(NamedTuple):
    """The database and the schema that a table is in; None: those of the connection."""

    catalog: str | None = None
    database: str | None = None


class Place(NamedTuple):
    """Where a table is, by the names that Ibis has for it; a query is nowhere."""

    name: str | None = None
    namespace: Namespace | None = None


NOWHERE = Place()


class EmbeddedTable:
    """A query of the embedded engine, and the columns of its result."""

    def __init__(
        self, connection: Connection, sql: str, values: Mapping[str, Value | Type], place: Place = NOWHERE
    ) -> None:
        self.connection, self.sql, self._values, self._place = connection, sql, dict(values), place
        self.columns = tuple(values)

    def __getitem__(self, name: str) -> Value:
        if name not in self._values:
            raise AttributeError(f"No column is named {name!r}.")
        kind = self._values[name]
        return Value(f"t.{sql_name(name)}", self, kind if isinstance(kind, str) else kind.type, name)

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def get_backend(self) -> Connection:
        """Return the connection."""
        return self.connection

    def op(self) -> Place:
        """Return the name of a table that has one, and the database that it is in."""
        return self._place

    def schema(self) -> dict[str, Type]:
        """Return the columns' types."""
        return {name: self[name].type() for name in self.columns}

    def type_of(self, sql: str) -> str:
        """Return what the engine takes an expression for."""
        return self.connection.types(f"SELECT {sql} AS value FROM ({self.sql}) t")["value"]

    def to_pyarrow(self) -> pa.Table:
        """Return the result."""
        return self.connection.arrow(self.sql)

    # ---------------------------------------------------------------- queries

    def _query(self, sql: str, values: Mapping[str, Value | Type] | None = None) -> EmbeddedTable:
        return EmbeddedTable(self.connection, sql, self._values if values is None else values)

    def _chosen(self, given: Iterable[object], named: Mapping[str, object]) -> dict[str, Value]:
        values = {}
        for each in given:
            for one in each if isinstance(each, (list, tuple)) else (each,):
                value = self[one] if isinstance(one, str) else one
                values[value.get_name()] = value
        for name, value in named.items():
            values[name] = self[value] if isinstance(value, str) else literal(value)
        return values

    def select(self, *given: object, **named: object) -> EmbeddedTable:
        """Return columns, by name or as expressions."""
        values = self._chosen(given, named)
        return self._query(f"SELECT {_listed(values)} FROM ({self.sql}) t", values)

    def mutate(self, **named: object) -> EmbeddedTable:
        """Return the same columns and others."""
        return self.select(**{**{name: self[name] for name in self.columns}, **named})

    def drop(self, *names: str) -> EmbeddedTable:
        """Return the other columns."""
        return self.select(*(name for name in self.columns if name not in names))

    def rename(self, **old: str) -> EmbeddedTable:
        """Return the same columns, some under new names."""
        new = {before: after for after, before in old.items()}
        return self.select(**{new.get(name, name): self[name] for name in self.columns})

    def filter(self, condition: Value) -> EmbeddedTable:
        """Return the rows for which a condition holds."""
        return self._query(f"SELECT * FROM ({self.sql}) t WHERE {condition.sql}")

    def distinct(self) -> EmbeddedTable:
        """Return every row once."""
        return self._query(f"SELECT DISTINCT * FROM ({self.sql}) t")

    def order_by(self, *names: str) -> EmbeddedTable:
        """Return the rows in the order of a column; rows that are alike in it in that of the next."""
        order = ", ".join(f"t.{sql_name(name)}" for name in names)
        return self._query(f"SELECT * FROM ({self.sql}) t ORDER BY {order}")

    def limit(self, rows: int) -> EmbeddedTable:
        """Return the first rows."""
        return self._query(f"SELECT * FROM ({self.sql}) t LIMIT {rows}")

    def count(self) -> Value:
        """Return how many rows there are."""
        return Value("count(*)", self, "BIGINT", "count")

    def aggregate(self, **named: Value) -> EmbeddedTable:
        """Return one row of aggregates."""
        return self.select(**named)

    def group_by(self, *given: object, **named: object) -> GroupedTable:
        """Return groups of rows."""
        return GroupedTable(self, self._chosen(given, named))

    def left_join(self, other: EmbeddedTable, on: Value) -> EmbeddedTable:
        """Return every row with those of another table that have its key."""
        return self._joined("LEFT JOIN", other, on)

    def inner_join(self, other: EmbeddedTable, on: Value) -> EmbeddedTable:
        """Return the pairs of rows that have the same key."""
        return self._joined("JOIN", other, on)

    def cross_join(self, other: EmbeddedTable) -> EmbeddedTable:
        """Return all pairs of rows."""
        return self._joined("CROSS JOIN", other, None)

    def semi_join(self, other: EmbeddedTable, on: Value) -> EmbeddedTable:
        """Return the rows whose key another table has."""
        return self._query(f"SELECT l.* FROM ({self.sql}) l SEMI JOIN ({other.sql}) r ON {_keys(on)}")

    def anti_join(self, other: EmbeddedTable, on: Value) -> EmbeddedTable:
        """Return the rows whose key another table does not have."""
        return self._query(f"SELECT l.* FROM ({self.sql}) l ANTI JOIN ({other.sql}) r ON {_keys(on)}")

    def _joined(self, how: str, other: EmbeddedTable, on: Value | None) -> EmbeddedTable:
        twice = set(self.columns) & set(other.columns)
        if twice:
            raise ValueError(f"Both tables have a column named {twice.pop()!r}.")
        condition = "" if on is None else f" ON {_keys(on)}"
        sql = f"SELECT l.*, r.* FROM ({self.sql}) l {how} ({other.sql}) r{condition}"
        return self._query(sql, {**self._values, **other._values})


class GroupedTable:
    """Rows of a table in groups."""

    def __init__(self, table: EmbeddedTable, by: Mapping[str, Value]) -> None:
        self._table, self._by = table, by

    def agg(self, **named: Value) -> EmbeddedTable:
        """Return one row of aggregates for each group."""
        values = {**self._by, **named}
        groups = ", ".join(str(i + 1) for i in range(len(self._by)))
        sql = f"SELECT {_listed(values)} FROM ({self._table.sql}) t GROUP BY {groups}"
        return self._table._query(sql, values)


def _listed(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{value.sql} AS {sql_name(name)}" for name, value in values.items())


def _keys(on: Value) -> str:
    """Return the condition of a join: a column of the one table is that of the other."""
    if on.sides is None:
        raise ValueError("Tables are joined by a column of each.")
    return " = ".join(f"{side}.{sql_name(key.get_name())}" for side, key in zip("lr", on.sides, strict=True))


# ---------------------------------------------------------------- the connection


class Connection:
    """The embedded engine; its methods are those of Ibis's connection to DuckDB that reading uses.

    Attributes
    ----------
    con : duckdb.DuckDBPyConnection
    """

    name = "duckdb"

    def __init__(self) -> None:
        import duckdb

        self.con: duckdb.DuckDBPyConnection = duckdb.connect()

    def raw_sql(self, sql: str) -> None:
        """Run a statement."""
        with watched("Reading ", self.con.query_progress):
            self.con.execute(sql)

    def compile(self, table: EmbeddedTable) -> str:
        """Return the SQL of a table."""
        return table.sql

    def table(self, name: str, database: tuple[str, str] | None = None) -> EmbeddedTable:
        """Return a table by its name, and its database and schema."""
        place = Place(name, Namespace(*(database or ())))
        return self._of(".".join(sql_name(part) for part in (*(database or ()), name)), place)

    def read_parquet(self, paths: list[str], **options: object) -> EmbeddedTable:
        """Return Parquet files as a table."""
        return self._of(f"read_parquet({_argument(paths)}{_arguments(options)})")

    def _of(self, source: str, place: Place = NOWHERE) -> EmbeddedTable:
        sql = f"SELECT * FROM {source}"
        return EmbeddedTable(self, sql, self.types(sql), place)

    def types(self, sql: str) -> dict[str, Type]:
        """Return the columns of a query and their types."""
        return {name: Type(kind) for name, kind, *_ in self.con.execute(f"DESCRIBE {sql}").fetchall()}

    def arrow(self, sql: str) -> pa.Table:
        """Return the result of a query; sums of whole numbers, which DuckDB makes larger ones, as whole numbers."""
        import pyarrow as pa

        with watched("Reading ", self.con.query_progress), self.reader(sql, 1 << 20) as reader:
            table = reader.read_all()
        for i, column in enumerate(table.columns):
            if column.type == pa.decimal128(38, 0):
                table = table.set_column(i, table.column_names[i], column.cast("int64"))
        return table

    def reader(self, sql: str, rows: int) -> pa.RecordBatchReader:
        """Return a reader of the result of a query, in batches of about the given number of rows."""
        relation = self.con.sql(sql)
        return (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)(rows)

    def _run_pre_execute_hooks(self, table: EmbeddedTable) -> None:
        """Do nothing; Ibis makes tables in memory known here."""


# ---------------------------------------------------------------- connections


def connect() -> Connection:
    """Return a new embedded engine."""
    import duckdb

    connection = Connection()
    connection.raw_sql(f"SET memory_limit = '{_MEMORY}'")
    spill = Path(tempfile.gettempdir()) / f"belated-{uuid4().hex}"  # the engine makes and removes it if it needs one
    connection.raw_sql(f"SET temp_directory = '{sql_text(str(spill))}'")
    connection.raw_sql("SET TimeZone = 'UTC'")
    with suppress(duckdb.InvalidInputException):  # in notebooks the engine has progress only if ipywidgets is installed
        connection.raw_sql("SET enable_progress_bar = true")  # `base.progress` asks for it and shows it
        connection.raw_sql("SET enable_progress_bar_print = false")
    connection.raw_sql("SET autoinstall_known_extensions = false")  # reading a file downloads nothing
    connection.raw_sql("SET autoload_known_extensions = false")  # nor does it load extensions that are installed
    return connection


def confine(connection: Connection, files: Iterable[str]) -> None:
    """Make the embedded engine refuse to read any files but these and the databases that it has open."""
    allowed = ", ".join(f"'{sql_text(os.path.abspath(path))}'" for path in files)
    connection.raw_sql(f"SET allowed_paths = [{allowed}]")
    connection.raw_sql("SET enable_external_access = false")
    connection.raw_sql("SET lock_configuration = true")


def register(connection: Connection, data: pa.Table | ds.Dataset) -> EmbeddedTable:
    """Make Arrow data visible to the embedded engine, without a copy."""
    name = new_name()
    connection.con.register(name, data)
    return connection.table(name)


def literal_path(path: str) -> str:
    """Return a path that DuckDB reads as one file, even if it contains wildcard characters."""
    return re.sub(r"([*?\[])", r"[\1]", os.path.abspath(path))


def sql_text(text: str) -> str:
    """Return text that may stand between quotes in SQL."""
    return text.replace("'", "''")


def _arguments(options: Mapping[str, object]) -> str:
    return "".join(f", {name} = {_argument(value)}" for name, value in options.items())


def _argument(value: object) -> str:
    """Return what a function that reads files is given."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{sql_of(name)}: {_argument(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_argument, value)) + "]"
    return sql_of(value)
