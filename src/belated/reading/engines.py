"""Engines: the peculiarities of each engine that Ibis supports, and the meaning of their error messages.

A new engine needs a class here only if it is special.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

from belated.base.errors import BelatedError, LogError, argument
from belated.base.files import FileVersion, check_unchanged
from belated.base.text import one_line, shown
from belated.reading import embedded, expressions

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir
    import pyarrow as pa

#: Rows of one batch of a stream.
BATCH = 1 << 19

#: What PostgreSQL can cast to a float, as it writes regular expressions; groups that capture are slow there.
_NUMBER = r"^\s*(?:[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?Infinity|NaN)\s*$"


#: Text that is a time, as `expressions.time_of_text` says.
_ZONE_NAME = expressions.ZONE_NAME.replace("(", "(?:")
_TIME = rf"(?i)^\s*(?:\d{{4}}[-/][^a-z]*(?:T[^a-z]*)?(?:Z|\s*{_ZONE_NAME})?|-?infinity)\s*$"


class UncopiedError(BelatedError):
    """Rows that are not to be copied, and why: the end of a sentence."""

    @classmethod
    def of_size(cls, limit: int) -> UncopiedError:
        """Return the error that there are more rows than the limit."""
        return cls(f"there are more than {limit:,} rows (`copy_limit`)")

    @classmethod
    def of_type(cls, column: str) -> UncopiedError:
        """Return the error that a column's values would not stay the same."""
        return cls(f"column {one_line(repr(column))} has a type that is not copied")


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
    copies : bool
        Whether rows that are not too many are copied into the embedded engine, rather than summed up where they are.
    computes_sums : bool
        Whether it can sum up rows that are not copied.
    has_infinite_times : bool
        Whether a timestamp can be infinite.
    """

    packages: ClassVar[tuple[str, ...]] = ("ibis", "pyarrow", "sqlalchemy")
    is_embedded: ClassVar[bool] = False
    copies: ClassVar[bool] = True
    computes_sums: ClassVar[bool] = True
    has_infinite_times: ClassVar[bool] = False

    def fetch(self, expression: ir.Table) -> pa.Table:
        """Return the result of an expression."""
        return expression.to_pyarrow()

    def fetch_all(
        self, expressions: Sequence[ir.Table], meanwhile: Callable[[], object] | None = None
    ) -> list[pa.Table]:
        """Return the results of some expressions.

        `meanwhile` asks the engine what will be asked next; it is called if that can be done while these are computed.
        """
        return [self.fetch(expression) for expression in expressions]

    def batches(self, rows: ir.Table) -> Iterator[pa.RecordBatch]:
        """Yield the result of an expression in batches."""
        yield from self.fetch(rows).to_batches()

    def copied(
        self, table: ir.Table, columns: Sequence[str], *, keys: Collection[str], documents: Collection[str], limit: int
    ) -> pa.Table:
        """Return columns of a table in memory, or say why not.

        Parameters
        ----------
        table : ibis table
        columns : sequence of str
        keys : collection of str
            Those whose values must stay apart: decimals are not rounded.
        documents : collection of str
            Those that may be lists, structs, maps or JSON.
        limit : int
            Rows at most.
        """
        if table.count().to_pyarrow().as_py() > limit:
            raise UncopiedError.of_size(limit)
        return self.fetch(table.select(*columns))

    def understood(self, table: ir.Table) -> ir.Table:
        """Return a table without types that Ibis does not know."""
        return table

    def labelled(self, table: ir.Table, columns: Sequence[str]) -> ir.Table:
        """Return a table in which columns of arms and segments have types that keep them apart."""
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
        null, dtype = library_of(holder).null, holder.type()
        if dtype.is_array():  # Spark raises beyond the end
            return (holder.length() > label).ifelse(holder[label], null(dtype.value_type))
        if dtype.is_struct() and label not in dtype.names:
            return holder.notnull().ifelse(null("float64"), null("float64"))
        return holder[label]

    def has(self, holder: ir.Value, name: str) -> ir.BooleanValue:
        """Return whether a row has a name, NULL if it has none at all."""
        dtype = holder.type()
        if dtype.is_struct():
            return holder.notnull().ifelse(name in dtype.names, library_of(holder).null("boolean"))
        return holder.contains(name)

    def size(self, holder: ir.Value, *, named: bool) -> ir.IntegerValue:
        """Return how many entries each row has."""
        return holder.notnull().ifelse(holder.length(), library_of(holder).null("int64"))

    def number(self, text: ir.StringValue) -> ir.FloatingValue:
        """Return text as a float; NULL if it is none."""
        return text.try_cast("float64")

    def microseconds(self, later: ir.Value, earlier: ir.Value) -> ir.FloatingValue:
        """Return how long after one timestamp another is."""
        if (earlier.type().scale or 0) > 6:
            return later.delta(earlier, unit="nanosecond").cast("float64") / 1000
        return later.delta(earlier, unit="microsecond").cast("float64")

    def later(self, moment: ir.Value, duration: ir.Value) -> ir.Value:
        """Return the timestamp that is a duration after another."""
        return moment + duration

    def time_of_text(self, column: ir.Column) -> ir.Column:
        """Return text as timestamps in UTC without a zone; an offset is applied, not dropped."""
        return column.cast("timestamp('UTC')").cast("timestamp")

    def of_least(self, column: ir.Column, key: ir.Column) -> ir.Scalar:
        """Return the value in the row with the least key."""
        return column.argmin(key)

    def once(self, table: ir.Table) -> ir.Table:
        """Make the engine compute each column once, even if it is used often; most engines do so anyway."""
        return table


class DuckDB(Engine):
    """DuckDB, the embedded engine."""

    packages = ("duckdb", "_duckdb")
    is_embedded = has_infinite_times = True

    def batches(self, rows: ir.Table) -> Iterator[pa.RecordBatch]:
        """Yield batches without the copy, and the whole result in memory, that Ibis would make."""
        relation = rows.get_backend().con.sql(compiled(rows))
        with (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)(BATCH) as reader:
            yield from reader

    def understood(self, table: ir.Table) -> ir.Table:
        """Return a table without those types of DuckDB's that Ibis does not know, and with bytes as text.

        Parquet files of some programs do not say that bytes are text. Those that are not stay apart as escaped bytes.
        """
        changed = {}
        for name, dtype in table.schema().items():
            raw = str(getattr(dtype, "raw_type", dtype))
            if raw == "TIMESTAMPTZ_NS":
                changed[name] = table[name].cast("timestamp(9)")
            elif raw.strip('"') == "NULL":
                changed[name] = library_of(table).null()
            elif is_bytes(dtype):
                decoded = _called("try", "string", _called("decode", "string", table[name]))
                changed[name] = decoded.fill_null(table[name].cast("string"))
        return table.mutate(**changed) if changed else table

    def later(self, moment: ir.Value, duration: ir.Value) -> ir.Value:
        """Return a timestamp as fine as the moment is; DuckDB's own sum would be rounded to microseconds."""
        if (moment.type().scale or 0) <= 6:
            return moment + duration
        rounded = moment.cast("timestamp")
        passed = (rounded + duration).delta(rounded, unit="microsecond")
        return _called("make_timestamp_ns", "timestamp(9)", _called("epoch_ns", "int64", moment) + passed * 1000)

    def time_of_text(self, column: ir.Column) -> ir.Column:
        """Return text as timestamps by our own rule: DuckDB guesses what abbreviations of zones mean."""
        if not isinstance(column, expressions.Value):
            joined = column.re_replace(r"\s+([-+]\d)", r"\1")
            odd = _builtin("error", "string", 1)(_no_time(column))
            return super().time_of_text((column.isnull() | joined.re_search(_TIME)).ifelse(joined, odd))
        text, name = f"trim({column.sql})", embedded.sql_text(column.get_name())
        odd = f"error('timestamp field text: \"' || {column.sql} || '\" when casting from source column {name}')"
        never = f"WHEN lower({text}) IN ('infinity', '-infinity') THEN CAST({text} AS TIMESTAMP)"
        known = expressions.time_of_text(text)
        sql = f"CASE WHEN {column.sql} IS NULL THEN NULL {never} ELSE coalesce({known}, {odd}) END"
        return expressions.Value(sql, column.table, "TIMESTAMP", column.get_name())

    def document(self, column: ir.Column) -> ir.Value | None:
        """Return JSON as it is, and text as JSON."""
        if column.type().is_json():
            return column
        return column.try_cast("json") if column.type().is_string() else None

    def opened(self, document: ir.Value, *, named: bool) -> ir.Value:
        """Return a map or a list of texts."""
        return document.try_cast("map<string, string>" if named else "array<string>")


#: More rows than any table has.
_ANY_SIZE = 1 << 62

#: Another placeholder, which no label of a table can contain: it is replaced in the text of queries.
_UNBOUNDED = _ANY_SIZE + (uuid4().int >> 67)


class PostgreSQL(Engine):
    """PostgreSQL; a holder of JSON is a JSONB object or list there."""

    packages = ("psycopg",)
    has_infinite_times = True

    def fetch(self, expression: ir.Table) -> pa.Table:
        """Return the result of an expression."""
        return self.fetch_all([expression])[0]

    def fetch_all(
        self, expressions: Sequence[ir.Table], meanwhile: Callable[[], object] | None = None
    ) -> list[pa.Table]:
        """Return the results without the cursor that Ibis would open: PostgreSQL gives cursors no parallel workers."""
        import pyarrow as pa

        from belated.reading.side_by_side import answers

        connection, queries = expressions[0].get_backend().con, [*map(compiled, expressions)]
        tables = []
        for expression, rows in zip(expressions, answers(connection, queries, meanwhile), strict=True):
            schema = expression.schema()
            table = pa.Table.from_struct_array(pa.array(rows, type=schema.as_struct().to_pyarrow()))
            tables.append(table.cast(schema.to_pyarrow()))
        return tables

    def batches(self, rows: ir.Table) -> Iterator[pa.RecordBatch]:
        """Yield batches by binary COPY; by way of Ibis if there are types that it does not bring."""
        try:
            table = self.copied(rows, rows.columns, keys=rows.columns, documents=(), limit=_ANY_SIZE)
        except UncopiedError:
            yield from rows.to_pyarrow().to_batches()
        else:
            yield from table.cast(rows.schema().to_pyarrow()).to_batches()

    def copied(
        self, table: ir.Table, columns: Sequence[str], *, keys: Collection[str], documents: Collection[str], limit: int
    ) -> pa.Table:
        """Return columns of a table in memory by binary COPY."""
        from belated.reading.postgres import copied

        return copied(table, columns, keys=keys, documents=documents, limit=limit)

    def understood(self, table: ir.Table) -> ir.Table:
        """Return a table in which a domain, which Ibis does not know, is of the type that it restricts."""
        from belated.reading.postgres import known_types

        unknown = [name for name, dtype in table.schema().items() if dtype.is_unknown()]
        known = known_types(table, unknown) if unknown else {}
        return table.mutate(**{name: table[name].cast(kind) for name, kind in known.items()}) if known else table

    def labelled(self, table: ir.Table, columns: Sequence[str]) -> ir.Table:
        """Return a table with whole decimals as integers; whether they are whole, the type `numeric` does not tell."""
        changed = {}
        for name in columns:
            if not (kind := table[name].type()).is_decimal() or kind.scale:
                continue
            column = table[name]
            answer = table.aggregate(whole=(column % 1 == 0).all(), most=column.abs().max().cast("string"))
            (found,) = self.fetch(answer).to_pylist()
            if found["whole"] and int(most := found["most"].partition(".")[0]) >= 1 << 63:
                raise LogError(
                    f"Column {one_line(repr(name))} holds {most}, which has too many digits for the number of an arm "
                    "or segment; cast the column to text."
                )
            changed[name] = column.cast("float64" if found["whole"] is False else "int64")
        return table.mutate(**changed) if changed else table

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
        """Return an entry as text; entries that are not JSONB are read as in every engine."""
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
        """Return text as a float; PostgreSQL has no TRY_CAST, so text that is not a number becomes NULL first."""
        return _builtin("substring", "string", 2)(text, _NUMBER).cast("float64")

    def microseconds(self, later: ir.Value, earlier: ir.Value) -> ir.FloatingValue:
        """Return the difference by way of floats: Ibis asks for exact decimals, which take ten times as long."""
        seconds = _builtin("date_part", "float64", 2)("epoch", later - earlier)
        return _builtin("round", "float64", 1)(seconds * 1_000_000)

    def time_of_text(self, column: ir.Column) -> ir.Column:
        """Return text as timestamps by our own rule: PostgreSQL takes more for times, and dates as a session is set."""
        known = column.re_replace(r"(?i)([\d\s])(?:UTC|GMT)([-+]\d)", r"\1 \2")  # it takes UTC+2 for a zone in the west
        return super().time_of_text((column.isnull() | column.re_search(_TIME)).ifelse(known, _no_time(column)))

    def of_least(self, column: ir.Column, key: ir.Column) -> ir.Scalar:
        """Return the value with the least pair of key and value, which needs no sort; all are floats."""
        import ibis

        return ibis.array([key, column]).min()[1]

    def once(self, table: ir.Table) -> ir.Table:
        """Bound the rows, by more than there are: PostgreSQL merges selects, but not those whose rows are bounded."""
        return table.limit(_UNBOUNDED)


class SQLite(Engine):
    """SQLite, whose columns may hold values of any type, not only of the declared one."""

    packages = ("sqlite3",)
    computes_sums = False  # it lacks functions of the query, such as that for NaN

    def fetch(self, expression: ir.Table) -> pa.Table:
        """Return the values as they are; Ibis would cut numbers to the type of the first."""
        import pyarrow as pa

        names = expression.columns
        rows = expression.get_backend().con.execute(compiled(expression)).fetchall()
        columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())
        return pa.table({name: self._column(name, values, expression[name].type()) for name, values in columns.items()})

    def _column(self, name: str, values: Sequence[object], dtype: dt.DataType) -> pa.Array:
        import pyarrow as pa

        kinds = {type(value) for value in values} - {type(None)}
        if not kinds:
            return pa.array(values, type=pa.float64() if dtype.is_numeric() else pa.string())
        if kinds == {int} and dtype.is_boolean() and {*values} <= {0, 1, None}:  # it may hold any other number
            return pa.array([None if value is None else bool(value) for value in values])
        if len(kinds) > 1 and kinds != {int, float}:
            odd = next(value for value in values if isinstance(value, (str, bytes)))
            raise LogError(f"Column {one_line(repr(name))} contains numbers and text, such as {one_line(repr(odd))}.")
        return pa.array(values, type=pa.float64() if float in kinds else None)


class Spark(Engine):
    """Spark, where moving rows is dear."""

    packages = ("pyspark", "py4j")
    copies = False

    def fetch(self, expression: ir.Table) -> pa.Table:
        """Return the result around Ibis, which would take it through pandas, where NaN and null are one."""
        return self.fetch_all([expression])[0]

    def fetch_all(
        self, expressions: Sequence[ir.Table], meanwhile: Callable[[], object] | None = None
    ) -> list[pa.Table]:
        """Return the results of some expressions, which Spark computes at the same time."""
        queries = [expression.get_backend().raw_sql(compiled(expression)) for expression in expressions]
        if len(queries) == 1:
            return [queries[0].toArrow()]
        with ThreadPoolExecutor(len(queries)) as threads:
            return list(threads.map(lambda query: query.toArrow(), queries))

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
ENGINES: dict[str, Engine] = {"duckdb": DuckDB(), "postgres": PostgreSQL(), "sqlite": SQLite(), "pyspark": Spark()}

_USUAL_ENGINE = Engine()

#: The packages whose exceptions are an engine's words.
PACKAGES = frozenset(package for engine in (_USUAL_ENGINE, *ENGINES.values()) for package in engine.packages)


def engine_of(expression: ir.Expr) -> Engine:
    """Return the engine that an expression is computed by."""
    return ENGINES.get(expression.get_backend().name, _USUAL_ENGINE)


def is_bytes(kind: dt.DataType) -> bool:
    """Whether a type is that of bytes, as Ibis or DuckDB calls it."""
    return str(kind) in ("BLOB", "binary", "!binary")


def library_of(expression: ir.Expr) -> ModuleType:
    """Return what makes literals and the like for an expression: Ibis, or `expressions`, which files need instead."""
    if isinstance(expression, (embedded.EmbeddedTable, expressions.Value)):
        return expressions
    return import_module("ibis")


def float_literal(number: float, beside: ir.Expr) -> ir.Value:
    """Return a number for the engine of an expression; from text, as PostgreSQL would take it for a decimal."""
    return library_of(beside).literal(repr(float(number))).cast("float64")


def fetch(expression: ir.Table) -> pa.Table:
    """Return the result of an expression as an Arrow table."""
    return engine_of(expression).fetch(expression)


def fetch_all(expressions: Sequence[ir.Table], meanwhile: Callable[[], object] | None = None) -> list[pa.Table]:
    """Return the results of expressions of one engine as Arrow tables; `meanwhile` as in `Engine.fetch_all`."""
    return engine_of(expressions[0]).fetch_all(expressions, meanwhile) if expressions else []


def compiled(expression: ir.Table) -> str:
    """Return an expression as SQL, tables in memory that it uses made known to its engine."""
    connection = expression.get_backend()
    connection._run_pre_execute_hooks(expression)
    # a bound that binds nothing, of `PostgreSQL.once`; PostgreSQL sees that it does, and uses parallel workers, only if
    # it need not convert the number
    return str(connection.compile(expression)).replace(f" LIMIT {_UNBOUNDED}", " OFFSET '0'")


@cache
def _jsonb() -> dt.DataType:
    import ibis.expr.datatypes as dt

    return dt.JSON(binary=True)


@cache
def _builtin(name: str, result: str | dt.DataType, arguments: int) -> Callable[..., ir.Value]:
    """Return a function of an engine's own, by the name it has there."""
    import ibis

    template = (lambda: None, lambda value: None, lambda value, other: None)[arguments]
    function: Callable[..., ir.Value] = ibis.udf.scalar.builtin(
        template, name=name, signature=((None,) * arguments, ibis.dtype(result))
    )
    return function


def _no_time(column: ir.Column) -> ir.StringValue:
    """Return what an engine is to say of text that is no time; `_meaning` understands it."""
    source = f'" when casting from source column {column.get_name()}\n'
    return library_of(column).literal('timestamp field text: "') + column + source


def _called(name: str, result: str, value: ir.Value) -> ir.Value:
    """Return what a function of DuckDB's own makes of a value."""
    if isinstance(value, expressions.Value):
        return value._value(f"{name}({value.sql})", kind=expressions.dtype(result))
    return _builtin(name, result, 1)(value)


# ---------------------------------------------------------------- what engines say

#: How the names of Parquet files end, the usual way first.
PARQUET = (".parquet", ".parq", ".pq")

#: What DuckDB and SQLite raise after Ctrl-C.
_INTERRUPTED = ("RuntimeError", "InterruptException", "OperationalError")

#: Error messages of engines about files of the wrong kind, and their meaning.
_MEANINGS = {
    "at least one (?:non-root )?column": "it has no columns.",
    "No magic bytes|too small to be a Parquet": "it is not a Parquet file, or it is incomplete.",
    "TProtocolException|don.t know what type|TType|Out of buffer|Payload value|decompression failure|Footer length|"
    "Page sizes|Parquet .*corrupt": "it is a damaged Parquet file.",
    "Corrupt database|stored checksum|Failed to deserialize": "it is a damaged DuckDB database.",
    "[Cc]orrupt|Invalid unicode": "it is damaged.",
    "not a valid DuckDB database": "it is not a DuckDB database.",
    "Could not read enough bytes": "a part of it is missing.",
    "file handle conflict": "this program has it open already; close that connection first.",
    "busy with another call": "another thread is reading it; read it once in each thread, or share its `log()`.",
    "Could not set lock": "another program has it open for writing; close that program first.",
    "Could not open IPC|Not an Arrow file|Invalid IPC": "it is not an Arrow file, or it is incomplete.",
    "not a GZIP stream|end of GZIP stream": "it is not a GZIP file, or it is incomplete.",
    "does not support a full read": "a line of it has more than 2 MB, or very many of its lines are empty.",
    "not utf-8 encoded|Set the correct encoding": f"it is not text in UTF-8; give its {argument('encoding')}.",
    "Permission denied": "that is not permitted.",
}


@contextmanager
def sentences(name: str, files: Sequence[FileVersion] = ()) -> Iterator[None]:
    """Turn what an engine says about a table into one sentence; of several `files`, the broken one is named.

    Files that changed are refused: what is known of their rows would be mixed with other rows.
    """
    check_unchanged(files)
    try:
        yield
        check_unchanged(files)
    except BelatedError:
        raise
    except (MemoryError, KeyboardInterrupt):
        raise
    except UnicodeEncodeError as error:
        raise LogError(f"`{name}` has {one_line(repr(error.object))} in it, which is not text.") from error
    except UnicodeDecodeError as error:
        raise LogError(f"`{name}` cannot be read: text in it is not in UTF-8.") from error
    except Exception as error:
        if "interrupted" in str(error).lower() and type(error).__name__ in _INTERRUPTED:
            raise KeyboardInterrupt from None
        if not _is_engines(error):
            raise
        check_unchanged(files)
        raise LogError(f"`{_broken(files) or name}` cannot be read: {_meaning(error)}") from error


def _broken(files: Sequence[FileVersion]) -> str | None:
    """Return the name of the first of several Parquet files that cannot be read by itself."""
    for path, _, _ in files if len(files) > 1 else ():
        if path.lower().endswith(PARQUET):
            try:
                where = embedded.sql_text(embedded.literal_path(path))
                embedded.connect().raw_sql(f"SELECT max(hash(COLUMNS(*))) FROM read_parquet('{where}')")  # noqa: S608
            except Exception:
                return one_line(Path(path).name)
    return None


def first_line(error: BaseException) -> str:
    """Return what an engine says, without its own names, folders and advice."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    text = re.sub(r"^([A-Z]\w* )+Error: |reading the stream registered as '\w+' failed: ", "", text)
    text = re.sub(r"(?<![\w:/])/(?:[^/\"'\s]+/)+|\s*See also http\S+", "", text.split(" (LINE")[0])
    return one_line(text.strip(), 300).rstrip(".!") + "."


def _is_engines(error: BaseException) -> bool:
    """Whether an exception was raised by an engine or a reader of files, not by a mistake of ours."""
    packages = {kind.__module__.split(".")[0] for kind in type(error).__mro__}
    return not packages.isdisjoint(PACKAGES) or isinstance(error, OSError)


def _meaning(error: BaseException) -> str:
    """Return what an engine's words mean."""
    text = str(error)
    for pattern, meaning in _MEANINGS.items():
        if re.search(pattern, text):
            return meaning
    if odd := re.search(r'(?:timestamp|date) field .*?: "(.*?)".* when casting from source column (.*)', text):
        return f"column {shown(odd[2])} has {shown(odd[1])}; it must be a time, such as 2026-03-01 14:30:00."
    if line := re.search(r"CSV Error on Line: (\d+)", text):
        return _line_fault(text, f"line {int(line[1]):,}")
    if type(error).__name__ == "Error" and type(error).__module__ in DuckDB.packages:
        return "it is damaged."  # in words of the libraries that it is decoded with
    return first_line(error)


def _line_fault(text: str, where: str) -> str:
    """Return what is wrong with a line of a CSV file."""
    what = next((part.strip() for part in text.splitlines()[2:] if part.strip()), "")
    return f"{where} is not like the others: {one_line(what or text.splitlines()[0], 200).rstrip('.')}."
