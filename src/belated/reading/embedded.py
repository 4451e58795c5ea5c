"""Expressions for the embedded engine: what reading uses of Ibis, made to DuckDB's SQL.

Files and dataframes need no more than this, and importing Ibis takes longer than answering from them. Names and meaning
are Ibis's, so that one query serves every engine; `engines.library_of` tells which of the two an expression is of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from belated.base.progress import watched

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

#: Ibis's names of types that DuckDB calls otherwise.
_TYPES = {
    "float64": "DOUBLE",
    "int64": "BIGINT",
    "int32": "INTEGER",
    "int8": "TINYINT",
    "uint16": "USMALLINT",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMP",
    "timestamp('UTC')": "TIMESTAMP WITH TIME ZONE",
    "timestamp(9)": "TIMESTAMP_NS",
    "json": "JSON",
    "uuid": "UUID",
    "map<string, string>": "MAP(VARCHAR, VARCHAR)",
    "array<string>": "VARCHAR[]",
}

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")

#: Decimals after the second that a kind of timestamp holds.
_SCALES = {"TIMESTAMP_S": 0, "TIMESTAMP_MS": 3, "TIMESTAMP_NS": 9, "TIMESTAMPTZ_NS": 9}


def new_name(prefix: str = "belated") -> str:
    """Return a name that no table has."""
    return f"{prefix}_{uuid4().hex}"


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


# ---------------------------------------------------------------- types


class Type(str):
    """A type, by the name that DuckDB has for it; its methods are those of Ibis's types."""

    __slots__ = ()

    def is_boolean(self) -> bool:
        return self == "BOOLEAN"

    def is_integer(self) -> bool:
        return self in _INTEGERS

    def is_floating(self) -> bool:
        return self in ("DOUBLE", "FLOAT")

    def is_decimal(self) -> bool:
        return self in ("HUGEINT", "UHUGEINT", "BIGNUM") or (self.startswith("DECIMAL") and not self.is_array())

    def is_numeric(self) -> bool:
        return self.is_integer() or self.is_floating() or self.is_decimal()

    def is_string(self) -> bool:
        return self == "VARCHAR" or (self.startswith("ENUM(") and not self.is_array())

    def is_json(self) -> bool:
        return self == "JSON"

    def is_uuid(self) -> bool:
        return self == "UUID"

    def is_date(self) -> bool:
        return self == "DATE"

    def is_timestamp(self) -> bool:
        return self.startswith("TIMESTAMP") and not self.is_array()

    def is_temporal(self) -> bool:
        return self.is_date() or self.is_timestamp() or (self.startswith("TIME") and not self.is_array())

    def is_interval(self) -> bool:
        return self == "INTERVAL"

    def is_null(self) -> bool:
        return self == '"NULL"'

    def is_array(self) -> bool:
        return self.endswith("]")

    def is_struct(self) -> bool:
        return self.startswith("STRUCT(") and not self.is_array()

    def is_map(self) -> bool:
        return self.startswith("MAP(") and not self.is_array()

    def is_unknown(self) -> bool:
        return False

    @property
    def scale(self) -> int | None:
        """Decimals after the second."""
        return _SCALES.get(self)

    @property
    def timezone(self) -> str | None:
        """The zone of times that have one."""
        return "UTC" if self in ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS") else None

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of a struct."""
        return tuple(name for name, _ in self._children)

    @property
    def value_type(self) -> Type:
        """What a list or map holds."""
        return Type(self._children[-1 if self.is_map() else 0][1])

    @property
    def _children(self) -> list[tuple[str, Any]]:
        import duckdb

        return list(duckdb.sqltype(self).children)


def dtype(name: str) -> Type:
    """Return a type by the name that Ibis or DuckDB has for it."""
    return Type(_TYPES.get(name, name))


# ---------------------------------------------------------------- values


class Value:
    """A column, or anything that SQL makes of columns; `t` is the table that it is of. Its methods are Ibis's.

    Attributes
    ----------
    sql : str
    table : Table or None
        None: it is of no table, as a literal is.
    """

    def __init__(
        self, sql: str, table: Table | None = None, kind: str | Callable[[], str] | None = None, name: str | None = None
    ) -> None:
        self.sql, self.table = sql, table
        self._kind, self._name, self._operator = kind, name, ""
        self.sides: tuple[Value, Value] | None = None

    def type(self) -> Type:
        """Return its type."""
        if self._kind is None:
            if self.table is None:
                raise TypeError(f"The type of {self.sql} is not known.")
            self._kind = self.table.type_of(self.sql)
        elif not isinstance(self._kind, str):
            self._kind = self._kind()
        return Type(self._kind)

    def get_name(self) -> str:
        """Return the name of the column."""
        return self.sql if self._name is None else self._name

    def name(self, name: str) -> Value:
        """Return the same under another name."""
        return Value(self.sql, self.table, self._kind, name)

    def as_table(self) -> Table:
        """Return it as a table of one column."""
        return self._of().select(**{self._name or "value": self})

    def get_backend(self) -> Connection:
        """Return the connection."""
        return self._of().connection

    def _of(self) -> Table:
        if self.table is None:
            raise TypeError(f"{self.sql} is of no table.")
        return self.table

    def _made(self, sql: str, *others: Any, kind: str | Callable[[], str] | None = None) -> Value:
        tables = (value.table for value in (self, *others) if isinstance(value, Value))
        return Value(sql, next((table for table in tables if table is not None), None), kind)

    # types

    def cast(self, kind: str) -> Value:
        wanted = dtype(kind)
        if self._kind is not None and self.type() == wanted:
            return self
        return self._made(f"CAST({self.sql} AS {wanted})", kind=wanted)

    def try_cast(self, kind: str) -> Value:
        return self._made(f"TRY_CAST({self.sql} AS {dtype(kind)})", kind=dtype(kind))

    # nothing

    def isnull(self) -> Value:
        return self._made(f"({self.sql} IS NULL)", kind="BOOLEAN")

    def notnull(self) -> Value:
        return self._made(f"({self.sql} IS NOT NULL)", kind="BOOLEAN")

    def isnan(self) -> Value:
        return self._made(f"isnan({self.sql})", kind="BOOLEAN")

    def fill_null(self, value: Any) -> Value:
        return self._made(f"coalesce({self.sql}, {_sql(value)})", value, kind=_common(self, value))

    def nullif(self, value: Any) -> Value:
        return self._made(f"nullif({self.sql}, {_sql(value)})", value, kind=self._kind)

    # choices

    def ifelse(self, true: Any, false: Any) -> Value:
        sql = f"CASE WHEN {self.sql} THEN {_sql(true)} ELSE {_sql(false)} END"
        return self._made(sql, true, false, kind=_common(true, false))

    def cases(self, *pairs: tuple[Any, Any], else_: Any = None) -> Value:
        if not pairs:
            return self._made(f"CASE WHEN {self.sql} IS NULL THEN NULL ELSE {_sql(else_)} END", else_)
        whens = " ".join(f"WHEN {_sql(value)} THEN {_sql(result)}" for value, result in pairs)
        results = [result for _, result in pairs]
        return self._made(f"CASE {self.sql} {whens} ELSE {_sql(else_)} END", *results, kind=_common(*results, else_))

    def between(self, low: Any, high: Any) -> Value:
        return self._made(f"({self.sql} BETWEEN {_sql(low)} AND {_sql(high)})", low, high, kind="BOOLEAN")

    def isin(self, values: Iterable[Any]) -> Value:
        return self._made(f"({self.sql} IN ({', '.join(map(_sql, values))}))", kind="BOOLEAN")

    # numbers

    def abs(self) -> Value:
        return self._made(f"abs({self.sql})", kind=self._kind)

    def sqrt(self) -> Value:
        return self._made(f"sqrt({self.sql})", kind="DOUBLE")

    def ln(self) -> Value:
        return self._made(f"ln({self.sql})", kind="DOUBLE")

    def floor(self) -> Value:
        return self._made(f"floor({self.sql})")

    def ceil(self) -> Value:
        return self._made(f"ceil({self.sql})")

    # text, times, lists and maps

    def lower(self) -> Value:
        return self._made(f"lower({self.sql})", kind="VARCHAR")

    def delta(self, other: Value, unit: str) -> Value:
        if unit == "nanosecond":
            return self._made(f"(epoch_ns({self.sql}) - epoch_ns({other.sql}))", other, kind="BIGINT")
        return self._made(f"date_diff('{unit}', {other.sql}, {self.sql})", other, kind="BIGINT")

    def length(self) -> Value:
        size = "cardinality" if self.type().is_map() else "array_length"
        return self._made(f"{size}({self.sql})", kind="BIGINT")

    def keys(self) -> Value:
        return self._made(f"map_keys({self.sql})")

    def contains(self, key: str) -> Value:
        return self._made(f"map_contains({self.sql}, {_sql(key)})", kind="BOOLEAN")

    def __getitem__(self, label: str | int) -> Value:
        kind = self.type()
        if kind.is_array():
            return self._made(f"list_extract({self.sql}, {int(label) + 1})", kind=kind.value_type)
        if kind.is_struct():
            return self._made(f"struct_extract({self.sql}, {_sql(label)})")
        return self._made(f"list_extract(map_extract({self.sql}, {_sql(label)}), 1)", kind=kind.value_type)

    # aggregates

    def min(self) -> Value:
        return self._made(f"min({self.sql})", kind=self.type)

    def max(self) -> Value:
        return self._made(f"max({self.sql})", kind=self.type)

    def sum(self) -> Value:
        return self._made(f"sum({self.sql})")

    def mean(self) -> Value:
        return self._made(f"avg({self.sql})", kind="DOUBLE")

    def count(self) -> Value:
        return self._made(f"count({self.sql})", kind="BIGINT")

    def nunique(self) -> Value:
        return self._made(f"count(DISTINCT {self.sql})", kind="BIGINT")

    def argmin(self, key: Value) -> Value:
        return self._made(f"first({self.sql} ORDER BY {key.sql})", kind=self.type)

    def desc(self) -> Value:
        return self._made(f"{self.sql} DESC")

    # operators

    def _with(self, operator: str, other: Any, kind: str | Callable[[], str] | None = None) -> Value:
        # sums and the like of many are not nested: an engine bounds how deep expressions may be
        left = self.sql[1:-1] if operator == self._operator and operator in ("+", "AND", "OR") else self.sql
        made = self._made(f"({left} {operator} {_sql(other)})", other, kind=kind)
        made._operator = operator
        return made

    def _compared(self, operator: str, other: Any) -> Value:
        return self._with(operator, other, "BOOLEAN")

    def _calculated(self, operator: str, other: Any) -> Value:
        kinds = [_kind(value) for value in (self, other)]
        return self._with(operator, other, "DOUBLE" if "DOUBLE" in kinds else None)

    def __add__(self, other: Any) -> Value:
        return self._calculated("+", other)

    def __radd__(self, other: Any) -> Value:
        return literal(other)._calculated("+", self)

    def __sub__(self, other: Any) -> Value:
        return self._calculated("-", other)

    def __rsub__(self, other: Any) -> Value:
        return literal(other)._calculated("-", self)

    def __mul__(self, other: Any) -> Value:
        return self._calculated("*", other)

    def __rmul__(self, other: Any) -> Value:
        return literal(other)._calculated("*", self)

    def __truediv__(self, other: Any) -> Value:
        return self._with("/", other, "DOUBLE")

    def __rtruediv__(self, other: Any) -> Value:
        return literal(other) / self

    def __pow__(self, other: Any) -> Value:
        return self._made(f"power({self.sql}, {_sql(other)})", other, kind="DOUBLE")

    def __neg__(self) -> Value:
        return self._made(f"(-{self.sql})", kind=self._kind)

    def __lt__(self, other: Any) -> Value:
        return self._compared("<", other)

    def __le__(self, other: Any) -> Value:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> Value:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> Value:
        return self._compared(">=", other)

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]
        made = self._compared("=", other)
        made.sides = (self, other) if isinstance(other, Value) else None
        return made

    def __ne__(self, other: Any) -> Value:  # type: ignore[override]
        return self._compared("<>", other)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Any) -> Value:
        return self._compared("AND", other)

    def __or__(self, other: Any) -> Value:
        return self._compared("OR", other)

    def __invert__(self) -> Value:
        return self._made(f"(NOT {self.sql})", kind="BOOLEAN")

    def __bool__(self) -> bool:
        raise TypeError("An expression is neither true nor false before it is computed.")


class RowNumber(Value):
    """The number of a row, from 0: of all rows, or `over` groups and in an order."""

    def __init__(self) -> None:
        super().__init__("(row_number() OVER () - 1)", kind="BIGINT")

    def over(self, *, group_by: Value, order_by: Iterable[Value]) -> Value:
        """Return the number within a group."""
        order = ", ".join(value.sql for value in order_by)
        sql = f"(row_number() OVER (PARTITION BY {group_by.sql} ORDER BY {order}) - 1)"
        return self._made(sql, group_by, kind="BIGINT")


def row_number() -> RowNumber:
    """Return the number of each row, from 0."""
    return RowNumber()


def literal(value: Any, type: str | None = None) -> Value:  # noqa: A002 - Ibis's name
    """Return a value that Python knows."""
    if isinstance(value, Value):
        return value
    made = Value(_sql(value), kind=_kind(value))
    return made if type is None else made.cast(type)


def null(kind: str = '"NULL"') -> Value:
    """Return nothing, of a type."""
    wanted = dtype(kind)
    return Value("NULL" if wanted.is_null() else f"CAST(NULL AS {wanted})", kind=wanted)


def cases(*branches: tuple[Value, Any], else_: Any = None) -> Value:
    """Return what stands beside the first condition that holds."""
    whens = " ".join(f"WHEN {condition.sql} THEN {_sql(result)}" for condition, result in branches)
    values = [value for branch in branches for value in branch]
    results = [result for _, result in branches]
    return values[0]._made(f"CASE {whens} ELSE {_sql(else_)} END", *values, kind=_common(*results, else_))


def coalesce(*values: Value) -> Value:
    """Return the first that is not null."""
    return values[0]._made(f"coalesce({', '.join(map(_sql, values))})", *values, kind=_common(*values))


def interval(microseconds: int) -> Value:
    """Return a duration."""
    return Value(f"to_microseconds({int(microseconds)})", kind="INTERVAL")


def _sql(value: Any) -> str:
    """Return a value as SQL; floats to the last digit, where DuckDB would make decimals of them."""
    if isinstance(value, Value):
        return value.sql
    value = _plain(value)
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return f"CAST('{float(value)!r}' AS DOUBLE)"
    return "'" + str(value).replace("'", "''") + "'"


def _plain(value: Any) -> Any:
    """Return a value of NumPy's as Python's own."""
    return value.item() if hasattr(value, "dtype") else value


def _kind(value: Any) -> str | None:
    """Return a type if it is known without asking the engine."""
    if isinstance(value, Value):
        kind = value._kind
        return kind if isinstance(kind, str) or kind is None else value.type()
    value = _plain(value)
    if value is None:
        return '"NULL"'
    names = {bool: "BOOLEAN", int: "INTEGER" if isinstance(value, int) and abs(value) < 2**31 else "BIGINT"}
    return names.get(type(value), "DOUBLE" if isinstance(value, float) else "VARCHAR")


def _common(*values: Any) -> str | None:
    """Return the type of several values, any of which may be it; None if only the engine knows."""
    kinds = {_kind(value) for value in values} - {'"NULL"'}
    return kinds.pop() if len(kinds) == 1 else "DOUBLE" if "DOUBLE" in kinds and kinds <= _REAL else None


_REAL = {"DOUBLE", *_INTEGERS}


# ---------------------------------------------------------------- tables


class Table:
    """A query of the embedded engine, and the columns of its result."""

    def __init__(
        self, connection: Connection, sql: str, values: Mapping[str, Value | Type], place: SimpleNamespace | None = None
    ) -> None:
        self.connection, self.sql, self._values, self._place = connection, sql, dict(values), place
        self.columns = tuple(values)

    def __getitem__(self, name: str) -> Value:
        if name not in self._values:
            raise AttributeError(f"No column is named {name!r}.")
        found = self._values[name]
        return Value(f"t.{quoted(name)}", self, found if isinstance(found, str) else found.type, name)

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def get_backend(self) -> Connection:
        """Return the connection."""
        return self.connection

    def op(self) -> SimpleNamespace:
        """Return the name of a table that has one, and the database that it is in."""
        return self._place or SimpleNamespace()

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

    def _made(self, sql: str, values: Mapping[str, Value | Type] | None = None) -> Table:
        return Table(self.connection, sql, self._values if values is None else values)

    def _chosen(self, given: Iterable[Any], named: Mapping[str, Any]) -> dict[str, Value]:
        values = {}
        for each in given:
            for one in each if isinstance(each, (list, tuple)) else (each,):
                value = self[one] if isinstance(one, str) else one
                values[value.get_name()] = value
        for name, value in named.items():
            values[name] = self[value] if isinstance(value, str) else literal(value)
        return values

    def select(self, *given: Any, **named: Any) -> Table:
        """Return columns, by name or as expressions."""
        values = self._chosen(given, named)
        return self._made(f"SELECT {_listed(values)} FROM ({self.sql}) t", values)

    def mutate(self, **named: Any) -> Table:
        """Return the same columns and others."""
        return self.select(**{**{name: self[name] for name in self.columns}, **named})

    def drop(self, *names: str) -> Table:
        """Return the other columns."""
        return self.select(*(name for name in self.columns if name not in names))

    def rename(self, **old: str) -> Table:
        """Return the same columns, some under new names."""
        new = {before: after for after, before in old.items()}
        return self.select(**{new.get(name, name): self[name] for name in self.columns})

    def filter(self, condition: Value) -> Table:
        """Return the rows for which a condition holds."""
        return self._made(f"SELECT * FROM ({self.sql}) t WHERE {condition.sql}")

    def distinct(self) -> Table:
        """Return every row once."""
        return self._made(f"SELECT DISTINCT * FROM ({self.sql}) t")

    def order_by(self, name: str) -> Table:
        """Return the rows in the order of a column."""
        return self._made(f"SELECT * FROM ({self.sql}) t ORDER BY t.{quoted(name)}")

    def limit(self, rows: int) -> Table:
        """Return the first rows."""
        return self._made(f"SELECT * FROM ({self.sql}) t LIMIT {rows}")

    def count(self) -> Value:
        """Return how many rows there are."""
        return Value("count(*)", self, "BIGINT", "count")

    def aggregate(self, **named: Value) -> Table:
        """Return one row of aggregates."""
        return self.select(**named)

    def group_by(self, *given: Any, **named: Any) -> Groups:
        """Return groups of rows."""
        return Groups(self, self._chosen(given, named))

    def left_join(self, other: Table, on: Value) -> Table:
        """Return every row with those of another table that have its key."""
        return self._joined("LEFT JOIN", other, on)

    def inner_join(self, other: Table, on: Value) -> Table:
        """Return the pairs of rows that have the same key."""
        return self._joined("JOIN", other, on)

    def cross_join(self, other: Table) -> Table:
        """Return all pairs of rows."""
        return self._joined("CROSS JOIN", other, None)

    def semi_join(self, other: Table, on: Value) -> Table:
        """Return the rows whose key another table has."""
        return self._made(f"SELECT l.* FROM ({self.sql}) l SEMI JOIN ({other.sql}) r ON {_keys(on)}")

    def anti_join(self, other: Table, on: Value) -> Table:
        """Return the rows whose key another table does not have."""
        return self._made(f"SELECT l.* FROM ({self.sql}) l ANTI JOIN ({other.sql}) r ON {_keys(on)}")

    def _joined(self, how: str, other: Table, on: Value | None) -> Table:
        twice = set(self.columns) & set(other.columns)
        if twice:
            raise ValueError(f"Both tables have a column named {twice.pop()!r}.")
        condition = "" if on is None else f" ON {_keys(on)}"
        sql = f"SELECT l.*, r.* FROM ({self.sql}) l {how} ({other.sql}) r{condition}"
        return self._made(sql, {**self._values, **other._values})


class Groups:
    """Rows of a table in groups."""

    def __init__(self, table: Table, by: Mapping[str, Value]) -> None:
        self._table, self._by = table, by

    def agg(self, **named: Value) -> Table:
        """Return one row of aggregates for each group."""
        values = {**self._by, **named}
        groups = ", ".join(str(i + 1) for i in range(len(self._by)))
        sql = f"SELECT {_listed(values)} FROM ({self._table.sql}) t GROUP BY {groups}"
        return self._table._made(sql, values)


def _listed(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{value.sql} AS {quoted(name)}" for name, value in values.items())


def _keys(on: Value) -> str:
    """Return the condition of a join: a column of the one table is that of the other."""
    if on.sides is None:
        raise ValueError("Tables are joined by a column of each.")
    return " = ".join(f"{side}.{quoted(key.get_name())}" for side, key in zip("lr", on.sides, strict=True))


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

    def compile(self, table: Table) -> str:
        """Return the SQL of a table."""
        return table.sql

    def table(self, name: str, database: tuple[str, str] | None = None) -> Table:
        """Return a table by its name, and its database and schema."""
        catalog, schema = database or (None, None)
        place = SimpleNamespace(name=name, namespace=SimpleNamespace(catalog=catalog, database=schema))
        return self._of(".".join(quoted(part) for part in (*(database or ()), name)), place)

    def read_parquet(self, paths: list[str], **options: Any) -> Table:
        """Return Parquet files as a table."""
        return self._of(f"read_parquet({_argument(paths)}{_arguments(options)})")

    def read_csv(self, path: str, **options: Any) -> Table:
        """Return a CSV file as a table."""
        return self._of(f"read_csv({_argument([path])}{_arguments({**options, 'auto_detect': True})})")

    def _of(self, source: str, place: SimpleNamespace | None = None) -> Table:
        sql = f"SELECT * FROM {source}"
        return Table(self, sql, self.types(sql), place)

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
        """Return a reader of the result of a query, in batches of about so many rows."""
        relation = self.con.sql(sql)
        return (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)(rows)

    def _run_pre_execute_hooks(self, table: Table) -> None:
        """Do nothing; Ibis makes tables in memory known here."""


def _arguments(options: Mapping[str, Any]) -> str:
    return "".join(f", {name} = {_argument(value)}" for name, value in options.items())


def _argument(value: Any) -> str:
    """Return what a function that reads files is given."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_sql(name)}: {_argument(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_argument, value)) + "]"
    return _sql(value)
