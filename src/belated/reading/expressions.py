"""Expressions for the embedded engine: what reading uses of Ibis's values, made to DuckDB's SQL.

Names and meaning are Ibis's, so that one query serves every engine; `engines.library_of` tells which of the two an
expression is of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from belated.reading.embedded import Connection, EmbeddedTable

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
    "map<string, float64>": "MAP(VARCHAR, DOUBLE)",
    "array<string>": "VARCHAR[]",
}

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")

#: Decimals after the second that a kind of timestamp holds.
_SCALES = {"TIMESTAMP_S": 0, "TIMESTAMP_MS": 3, "TIMESTAMP_NS": 9, "TIMESTAMPTZ_NS": 9}


#: The name of a zone in times: that of a place. BST is Britain's summer time, and DuckDB would take Bangladesh's.
ZONE_NAME = r"((UTC|GMT)([-+]\d{1,2})?|[a-z_]+/[a-z0-9_/+-]+)"


def time_of_text(text: str) -> str:
    """Return SQL for the time in UTC that is written as text, its year first; NULL where it is none."""
    joined = f"regexp_replace({text}, '\\s+([-+]\\d)', '\\1')"  # DuckDB reads +0200 only without a space
    is_time = f"regexp_full_match({joined}, '(?i)\\d{{4}}[-/][^a-z]*(T[^a-z]*)?(Z|\\s*{ZONE_NAME})?')"
    # as a TIMESTAMP, DuckDB would read the offset, and drop it
    return f"CASE WHEN {is_time} THEN CAST(TRY_CAST({joined} AS TIMESTAMPTZ) AS TIMESTAMP) END"


def sql_name(name: str) -> str:
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
        """Decimals after the second, or of a decimal number."""
        fraction = re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", self)
        return int(fraction[1]) if fraction is not None else 0 if self.is_decimal() else _SCALES.get(self)

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
        """The type of the values of a list or map."""
        return Type(self._children[-1 if self.is_map() else 0][1])

    @property
    def key_type(self) -> Type:
        """What names the entries of a map."""
        return Type(self._children[0][1])

    @property
    def _children(self) -> list[tuple[str, object]]:
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
    sides : (Value, Value) or None
        The two values whose equality it is.
    """

    def __init__(
        self,
        sql: str,
        table: EmbeddedTable | None = None,
        kind: str | Callable[[], str] | None = None,
        name: str | None = None,
        *,
        operator: str = "",
        sides: tuple[Value, Value] | None = None,
    ) -> None:
        self.sql, self.table = sql, table
        self._kind, self._name, self._operator = kind, name, operator
        self.sides = sides

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

    def as_table(self) -> EmbeddedTable:
        """Return it as a table of one column."""
        return self._of().select(**{self._name or "value": self})

    def get_backend(self) -> Connection:
        """Return the connection."""
        return self._of().connection

    def _of(self) -> EmbeddedTable:
        if self.table is None:
            raise TypeError(f"{self.sql} is of no table.")
        return self.table

    def _value(
        self,
        sql: str,
        *others: object,
        kind: str | Callable[[], str] | None = None,
        operator: str = "",
        sides: tuple[Value, Value] | None = None,
    ) -> Value:
        tables = (value.table for value in (self, *others) if isinstance(value, Value))
        table = next((table for table in tables if table is not None), None)
        return Value(sql, table, kind, operator=operator, sides=sides)

    # types

    def cast(self, kind: str) -> Value:
        wanted = dtype(kind)
        if self._kind is not None and self.type() == wanted:
            return self
        return self._value(f"CAST({self.sql} AS {wanted})", kind=wanted)

    def try_cast(self, kind: str) -> Value:
        return self._value(f"TRY_CAST({self.sql} AS {dtype(kind)})", kind=dtype(kind))

    # nothing

    def isnull(self) -> Value:
        return self._value(f"({self.sql} IS NULL)", kind="BOOLEAN")

    def notnull(self) -> Value:
        return self._value(f"({self.sql} IS NOT NULL)", kind="BOOLEAN")

    def isnan(self) -> Value:
        return self._value(f"isnan({self.sql})", kind="BOOLEAN")

    def fill_null(self, value: object) -> Value:
        return self._value(f"coalesce({self.sql}, {sql_of(value)})", value, kind=_common(self, value))

    def nullif(self, value: object) -> Value:
        return self._value(f"nullif({self.sql}, {sql_of(value)})", value, kind=self._kind)

    # choices

    def ifelse(self, true: object, false: object) -> Value:
        sql = f"CASE WHEN {self.sql} THEN {sql_of(true)} ELSE {sql_of(false)} END"
        return self._value(sql, true, false, kind=_common(true, false))

    def cases(self, *pairs: tuple[object, object], else_: object = None) -> Value:
        if not pairs:
            return self._value(f"CASE WHEN {self.sql} IS NULL THEN NULL ELSE {sql_of(else_)} END", else_)
        whens = " ".join(f"WHEN {sql_of(value)} THEN {sql_of(result)}" for value, result in pairs)
        results = [result for _, result in pairs]
        return self._value(f"CASE {self.sql} {whens} ELSE {sql_of(else_)} END", *results, kind=_common(*results, else_))

    def between(self, low: object, high: object) -> Value:
        return self._value(f"({self.sql} BETWEEN {sql_of(low)} AND {sql_of(high)})", low, high, kind="BOOLEAN")

    def isin(self, values: Iterable[object]) -> Value:
        return self._value(f"({self.sql} IN ({', '.join(map(sql_of, values))}))", kind="BOOLEAN")

    # numbers

    def abs(self) -> Value:
        return self._value(f"abs({self.sql})", kind=self._kind)

    def sqrt(self) -> Value:
        return self._value(f"sqrt({self.sql})", kind="DOUBLE")

    def ln(self) -> Value:
        return self._value(f"ln({self.sql})", kind="DOUBLE")

    def floor(self) -> Value:
        return self._value(f"floor({self.sql})")

    def ceil(self) -> Value:
        return self._value(f"ceil({self.sql})")

    # text, times, lists and maps

    def lower(self) -> Value:
        return self._value(f"lower({self.sql})", kind="VARCHAR")

    def re_search(self, pattern: str) -> Value:
        return self._value(f"regexp_matches({self.sql}, {sql_of(pattern)})", kind="BOOLEAN")

    def delta(self, other: Value, unit: str) -> Value:
        if unit == "nanosecond":
            return self._value(f"(epoch_ns({self.sql}) - epoch_ns({other.sql}))", other, kind="BIGINT")
        return self._value(f"date_diff('{unit}', {other.sql}, {self.sql})", other, kind="BIGINT")

    def length(self) -> Value:
        size = "cardinality" if self.type().is_map() else "array_length"
        return self._value(f"{size}({self.sql})", kind="BIGINT")

    def keys(self) -> Value:
        return self._value(f"map_keys({self.sql})")

    def contains(self, key: str) -> Value:
        return self._value(f"map_contains({self.sql}, {sql_of(key)})", kind="BOOLEAN")

    def __getitem__(self, label: str | int) -> Value:
        kind = self.type()
        if kind.is_array():
            return self._value(f"list_extract({self.sql}, {int(label) + 1})", kind=kind.value_type)
        if kind.is_struct():
            return self._value(f"struct_extract({self.sql}, {sql_of(label)})")
        return self._value(f"list_extract(map_extract({self.sql}, {sql_of(label)}), 1)", kind=kind.value_type)

    # aggregates

    def min(self) -> Value:
        return self._value(f"min({self.sql})", kind=self.type)

    def max(self) -> Value:
        return self._value(f"max({self.sql})", kind=self.type)

    def sum(self) -> Value:
        return self._value(f"sum({self.sql})")

    def mean(self) -> Value:
        return self._value(f"avg({self.sql})", kind="DOUBLE")

    def count(self) -> Value:
        return self._value(f"count({self.sql})", kind="BIGINT")

    def nunique(self) -> Value:
        return self._value(f"count(DISTINCT {self.sql})", kind="BIGINT")

    def argmin(self, key: Value) -> Value:
        return self._value(f"first({self.sql} ORDER BY {key.sql})", kind=self.type)

    def desc(self) -> Value:
        return self._value(f"{self.sql} DESC")

    # operators

    def _with(self, operator: str, other: object, kind: str | Callable[[], str] | None = None) -> Value:
        # sums and the like of many are not nested: an engine bounds how deep expressions may be
        left = self.sql[1:-1] if operator == self._operator and operator in ("+", "AND", "OR") else self.sql
        sides = (self, other) if operator == "=" and isinstance(other, Value) else None
        return self._value(f"({left} {operator} {sql_of(other)})", other, kind=kind, operator=operator, sides=sides)

    def _compared(self, operator: str, other: object) -> Value:
        return self._with(operator, other, "BOOLEAN")

    def _calculated(self, operator: str, other: object) -> Value:
        kinds = [_kind(value) for value in (self, other)]
        return self._with(operator, other, "DOUBLE" if "DOUBLE" in kinds else None)

    def __add__(self, other: object) -> Value:
        return self._calculated("+", other)

    def __radd__(self, other: object) -> Value:
        return literal(other)._calculated("+", self)

    def __sub__(self, other: object) -> Value:
        return self._calculated("-", other)

    def __rsub__(self, other: object) -> Value:
        return literal(other)._calculated("-", self)

    def __mul__(self, other: object) -> Value:
        return self._calculated("*", other)

    def __rmul__(self, other: object) -> Value:
        return literal(other)._calculated("*", self)

    def __truediv__(self, other: object) -> Value:
        return self._with("/", other, "DOUBLE")

    def __rtruediv__(self, other: object) -> Value:
        return literal(other) / self

    def __pow__(self, other: object) -> Value:
        return self._value(f"power({self.sql}, {sql_of(other)})", other, kind="DOUBLE")

    def __neg__(self) -> Value:
        return self._value(f"(-{self.sql})", kind=self._kind)

    def __lt__(self, other: object) -> Value:
        return self._compared("<", other)

    def __le__(self, other: object) -> Value:
        return self._compared("<=", other)

    def __gt__(self, other: object) -> Value:
        return self._compared(">", other)

    def __ge__(self, other: object) -> Value:
        return self._compared(">=", other)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return self._compared("=", other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return self._compared("<>", other)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: object) -> Value:
        return self._compared("AND", other)

    def __or__(self, other: object) -> Value:
        return self._compared("OR", other)

    def __invert__(self) -> Value:
        return self._value(f"(NOT {self.sql})", kind="BOOLEAN")

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
        return self._value(sql, group_by, kind="BIGINT")


def row_number() -> RowNumber:
    """Return the number of each row, from 0."""
    return RowNumber()


def literal(value: object, type: str | None = None) -> Value:  # noqa: A002 - Ibis's name
    """Return a value that Python knows."""
    if isinstance(value, Value):
        return value
    known = Value(sql_of(value), kind=_kind(value))
    return known if type is None else known.cast(type)


def null(kind: str = '"NULL"') -> Value:
    """Return nothing, of a type."""
    wanted = dtype(kind)
    return Value("NULL" if wanted.is_null() else f"CAST(NULL AS {wanted})", kind=wanted)


def cases(*branches: tuple[Value, object], else_: object = None) -> Value:
    """Return what stands beside the first condition that holds."""
    whens = " ".join(f"WHEN {condition.sql} THEN {sql_of(result)}" for condition, result in branches)
    values = [value for branch in branches for value in branch]
    results = [result for _, result in branches]
    return branches[0][0]._value(f"CASE {whens} ELSE {sql_of(else_)} END", *values, kind=_common(*results, else_))


def coalesce(*values: Value) -> Value:
    """Return the first that is not null."""
    return values[0]._value(f"coalesce({', '.join(map(sql_of, values))})", *values, kind=_common(*values))


def interval(microseconds: int) -> Value:
    """Return a duration."""
    return Value(f"to_microseconds({int(microseconds)})", kind="INTERVAL")


def sql_of(value: object) -> str:
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


def _plain(value: object) -> object:
    """Return a value of NumPy's as Python's own."""
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else value


def _kind(value: object) -> str | None:
    """Return a type if it is known without asking the engine."""
    if isinstance(value, Value):
        kind = value._kind
        return kind if isinstance(kind, str) or kind is None else value.type()
    value = _plain(value)
    if value is None:
        return '"NULL"'
    names = {bool: "BOOLEAN", int: "INTEGER" if isinstance(value, int) and abs(value) < 2**31 else "BIGINT"}
    return names.get(type(value), "DOUBLE" if isinstance(value, float) else "VARCHAR")


def _common(*values: object) -> str | None:
    """Return the type of several values, any of which may be it; None if only the engine knows."""
    kinds = {_kind(value) for value in values} - {'"NULL"'}
    return kinds.pop() if len(kinds) == 1 else "DOUBLE" if "DOUBLE" in kinds and kinds <= _REAL else None


_REAL = {"DOUBLE", *_INTEGERS}
