"""Engines: what is special about each that Ibis speaks to. A new engine needs a class here only if it is special."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir
    import pyarrow as pa

#: Rows of one batch of a stream.
BATCH = 1 << 19

#: What PostgreSQL can cast to a float, as it writes regular expressions; groups that capture are slow there.
_NUMBER = r"^\s*(?:[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?Infinity|NaN)\s*$"


class Engine:
    """Any engine that Ibis speaks to.

    The methods from `takes_apart` on are about one column that holds every arm's propensity. A holder is such a column
    after `opened`: a struct, a map or a list, or a type of the engine's own.

    Attributes
    ----------
    packages : tuple of str
        The Python packages whose exceptions are the engine's own words.
    is_embedded : bool
        Whether it runs in this process: files and dataframes are read into it, and its rows are streamed through the
        compiled kernel.
    """

    packages: ClassVar[tuple[str, ...]] = ("ibis", "pyarrow", "sqlalchemy")
    is_embedded: ClassVar[bool] = False

    def fetch(self, expression: ir.Table) -> pa.Table:
        """Return the result of an expression."""
        return expression.to_pyarrow()

    def batches(self, rows: ir.Table) -> Iterator[pa.RecordBatch]:
        """Yield the result of an expression in batches."""
        yield from self.fetch(rows).to_batches()

    def understood(self, table: ir.Table) -> ir.Table:
        """Return a table without types that Ibis does not know."""
        return table

    def takes_apart(self, dtype: dt.DataType) -> bool:
        """Whether a column is a list, struct or map that Ibis can take apart."""
        return bool(dtype.is_array() or dtype.is_struct() or dtype.is_map())

    def document(self, column: ir.Column) -> ir.Value | None:
        """Return a column of JSON in the type in which the engine parses it; None if it cannot."""
        return None

    def opened(self, document: ir.Value, *, named: bool) -> ir.Value:
        """Return the names or, if not `named`, the positions of documents; NULL where a row has the other."""
        raise NotImplementedError

    def entry(self, holder: ir.Value, label: str | int) -> ir.Value:
        """Return what a row holds under a name or at a position, NULL if nothing."""
        import ibis

        dtype = holder.type()
        if dtype.is_array():  # Spark raises beyond the end
            return (holder.length() > label).ifelse(holder[label], ibis.null(dtype.value_type))
        if dtype.is_struct() and label not in dtype.names:
            return holder.notnull().ifelse(ibis.null("float64"), ibis.null("float64"))
        return holder[label]

    def has(self, holder: ir.Value, name: str) -> ir.BooleanValue:
        """Return whether a row has a name, NULL if it has none at all."""
        import ibis

        dtype = holder.type()
        if dtype.is_struct():
            return holder.notnull().ifelse(name in dtype.names, ibis.null("boolean"))
        return holder.contains(name)

    def size(self, holder: ir.Value, *, named: bool) -> ir.IntegerValue:
        """Return how many entries each row has."""
        import ibis

        return holder.notnull().ifelse(holder.length(), ibis.null("int64"))

    def number(self, text: ir.StringValue) -> ir.FloatingValue:
        """Return text as a float; NULL if it is none."""
        return text.try_cast("float64")


class DuckDB(Engine):
    """DuckDB, the embedded engine."""

    packages = ("duckdb", "_duckdb")
    is_embedded = True

    def batches(self, rows: ir.Table) -> Iterator[pa.RecordBatch]:
        """Yield batches without the copy, and the whole result in memory, that Ibis would make."""
        relation = rows.get_backend().con.sql(compiled(rows))
        with (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)(BATCH) as reader:
            yield from reader

    def understood(self, table: ir.Table) -> ir.Table:
        """Return a table without those types of DuckDB's that Ibis does not know."""
        import ibis

        changed = {}
        for name, dtype in table.schema().items():
            raw = str(getattr(dtype, "raw_type", ""))
            if raw == "TIMESTAMPTZ_NS":
                changed[name] = table[name].cast("timestamp(9)")
            elif raw.strip('"') == "NULL":
                changed[name] = ibis.null()
        return table.mutate(**changed) if changed else table

    def document(self, column: ir.Column) -> ir.Value | None:
        """Return JSON as it is, and text as JSON."""
        if column.type().is_json():
            return column
        return column.try_cast("json") if column.type().is_string() else None

    def opened(self, document: ir.Value, *, named: bool) -> ir.Value:
        """Return a map or a list of texts."""
        return document.try_cast("map<string, string>" if named else "array<string>")


class PostgreSQL(Engine):
    """PostgreSQL; a holder of JSON is a JSONB object or list there."""

    packages = ("psycopg",)

    def takes_apart(self, dtype: dt.DataType) -> bool:
        """Whether a column is a list or struct; a map is hstore, which Ibis cannot take apart."""
        return bool(dtype.is_array() or dtype.is_struct())

    def document(self, column: ir.Column) -> ir.Value | None:
        """Return JSONB."""
        dtype = column.type()
        if dtype.is_unknown() or dtype.is_map():  # a composite type, hstore
            return _builtin("to_jsonb", _jsonb(), 1)(column)
        return column.cast(_jsonb()) if dtype.is_string() or dtype.is_json() else None

    def opened(self, document: ir.Value, *, named: bool) -> ir.Value:
        """Return JSONB that is an object or a list."""
        import ibis

        wanted = "object" if named else "array"
        return (_builtin("jsonb_typeof", "string", 1)(document) == wanted).ifelse(document, ibis.null(_jsonb()))

    def entry(self, holder: ir.Value, label: str | int) -> ir.Value:
        """Return an entry as text; what is no JSONB as any engine does."""
        if not holder.type().is_json():
            return super().entry(holder, label)
        return _builtin("jsonb_extract_path_text", "string", 2)(holder, str(label))

    def has(self, holder: ir.Value, name: str) -> ir.BooleanValue:
        """Return whether a JSONB object has a name."""
        if not holder.type().is_json():
            return super().has(holder, name)
        return _builtin("jsonb_exists", "boolean", 2)(holder, name)

    def size(self, holder: ir.Value, *, named: bool) -> ir.IntegerValue:
        """Return how many entries a JSONB object or list has."""
        if not holder.type().is_json():
            return super().size(holder, named=named)
        if named:
            return super().size(holder.cast("map<string, string>"), named=True)
        return _builtin("jsonb_array_length", "int64", 1)(holder)

    def number(self, text: ir.StringValue) -> ir.FloatingValue:
        """Return text as a float: PostgreSQL cannot try, so what is no number is taken out first."""
        return _builtin("substring", "string", 2)(text, _NUMBER).cast("float64")


class Spark(Engine):
    """Spark."""

    packages = ("pyspark", "py4j")

    def fetch(self, expression: ir.Table) -> pa.Table:
        """Return the result around Ibis, which would take it through pandas, where NaN and null are one."""
        return expression.get_backend().raw_sql(compiled(expression)).toArrow()

    def document(self, column: ir.Column) -> ir.Value | None:
        """Return JSON as text."""
        return column.cast("string") if column.type().is_string() or column.type().is_json() else None

    def opened(self, document: ir.Value, *, named: bool) -> ir.Value:
        """Return a map or a list of texts."""
        dtype = "map<string, string>" if named else "array<string>"
        return _builtin("from_json", dtype, 2)(document, dtype)

    def entry(self, holder: ir.Value, label: str | int) -> ir.Value:
        """Return an entry; unlike a case, this lets Spark see that all arms need the same JSON, and parse it once."""
        dtype = holder.type()
        if dtype.is_struct() or not dtype.value_type.is_string():
            return super().entry(holder, label)
        place = label + 1 if isinstance(label, int) else label
        return _builtin("try_element_at", "string", 2)(holder, place)


#: The engines that are special, by the names that Ibis has for them.
ENGINES: dict[str, Engine] = {"duckdb": DuckDB(), "postgres": PostgreSQL(), "pyspark": Spark()}

_ANY = Engine()

#: The packages whose exceptions are an engine's words.
PACKAGES = frozenset(package for engine in (_ANY, *ENGINES.values()) for package in engine.packages)


def engine_of(expression: ir.Expr) -> Engine:
    """Return the engine that an expression is computed by."""
    return ENGINES.get(expression.get_backend().name, _ANY)


def fetch(expression: ir.Table) -> pa.Table:
    """Return the result of an expression as an Arrow table."""
    return engine_of(expression).fetch(expression)


def compiled(expression: ir.Table) -> str:
    """Return an expression as SQL, tables in memory that it uses made known to its engine."""
    connection = expression.get_backend()
    connection._run_pre_execute_hooks(expression)
    return str(connection.compile(expression))


@cache
def _jsonb() -> dt.DataType:
    import ibis.expr.datatypes as dt

    return dt.JSON(binary=True)


@cache
def _builtin(name: str, result: str | dt.DataType, arguments: int) -> Any:
    """Return a function of an engine's own, by the name it has there."""
    import ibis

    template = (lambda value: None) if arguments == 1 else (lambda value, other: None)
    return ibis.udf.scalar.builtin(template, name=name, signature=((None,) * arguments, ibis.dtype(result)))
