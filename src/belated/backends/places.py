"""Where tables are: files, folders, dataframes, databases and Ibis tables, each as an Ibis table."""

from __future__ import annotations

import csv
import gzip
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from belated.checks import one_of
from belated.errors import BelatedError, LogError, MissingLibraryError, OptionError
from belated.tables import one_line

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: How much memory the embedded engine may take before it goes to disk.
_MEMORY = "3GB"

_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst", ".tsv.zst")
_PARQUET = (".parquet", ".parq", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")
_DATABASE = (".duckdb", ".ddb", ".db")

#: Text that says there is nothing, in CSV.
_NOTHING = ["", "NA", "N/A", "NULL", "null", "None", "none", "<NA>", "NaT"]

#: Rows of a CSV file that are looked at before it is read.
_SAMPLE = 10_000

#: What is meant as a number, if not always written as one, and dates of which it is sure what is the day.
_MEANT = r"^\s*[$€£]?\s*[-+]?[$€£]?(\d[\d.,_' ]*([eE][-+]?\d+)?|\.\d+|(?i:nan|inf|infinity))\s*[%$€£]?\s*$"
_SURE = r"^\d{4}|^(1[3-9]|[23]\d)\D|^\d\d?\D(1[3-9]|[23]\d)\D|^\d\d?\."


@dataclass(frozen=True)
class Place:
    """A table, and how to speak of it.

    Attributes
    ----------
    table : ibis table
    name : str
    ordered : bool
        Whether its rows have an order, as those of files and dataframes do.
    path : str or None
        Of a CSV file, which can be read again with other types.
    kinds : mapping
        Of a CSV file, columns that its first rows do not tell the kind of: "other" if they are empty, "mixed" if most
        are numbers, but not all.
    unsure : mapping
        Of a CSV file, columns of dates that might be read in two ways, each with an example.
    """

    table: ir.Table
    name: str
    ordered: bool
    path: str | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    unsure: Mapping[str, str] = field(default_factory=dict)

    @property
    def engine(self) -> Any:
        """The Ibis connection that the table is in."""
        return self.table.get_backend()

    def loaded(self, types: dict[str, str], columns: Iterable[str], arm: str) -> Place:
        """Return the same table, a CSV file's columns read once, as the types that they must have.

        What stands for nothing elsewhere, such as NA or None, may be the name of an arm.
        """
        if self.path is None:
            return self
        wanted = [name for name in dict.fromkeys(columns) if name in self.table.columns]
        unsure = next((name for name in wanted if name in self.unsure), None)
        if unsure is not None:
            raise LogError(
                f"Column {one_line(repr(unsure))} has dates such as {self.unsure[unsure]!r}, which can be read in two "
                "ways; write them as 2026-03-01."
            )
        types = {name: kind for name, kind in types.items() if name in wanted}
        if arm in wanted:
            types[arm] = "VARCHAR"
        with sentences(self.name):
            table = self._read(wanted, types, _NOTHING)
            if arm in wanted and fetch(table.filter(table[arm].isnull()).limit(1)).num_rows:
                plain = _read_csv(self.engine, self.path, [""], types={arm: "VARCHAR"})
                labels = fetch(plain.filter(plain[arm].isin(_NOTHING)).select(arm).distinct())[arm].to_pylist()
                table = self._read(wanted, types, [text for text in _NOTHING if text not in labels])
            if arm in wanted:
                table = _with_labels(table, arm, self.table[arm].type())
        return replace(self, table=table)

    def _read(self, columns: list[str], types: dict[str, str], nothing: list[str]) -> ir.Table:
        """Read columns once; whole numbers that turn out not to be are numbers."""
        try:
            return _kept(self.engine, _read_csv(self.engine, str(self.path), nothing, types=types).select(*columns))
        except Exception as error:
            found = re.search(
                r"Error when converting column \"(.*?)\". Could not convert string .* to 'BIGINT'", str(error)
            )
            if found is None or found[1] not in columns or found[1] in types:
                raise
            return self._read(columns, {**types, found[1]: "DOUBLE"}, nothing)


def connect() -> Any:
    """Return a new embedded engine (DuckDB)."""
    try:
        import ibis

        connection = ibis.duckdb.connect()
    except ImportError:
        raise MissingLibraryError(
            "Reading tables needs Ibis and DuckDB; `pip install 'ibis-framework[duckdb]'` brings them."
        ) from None
    connection.raw_sql(f"SET memory_limit = '{_MEMORY}'")
    spill = Path(tempfile.gettempdir()) / f"belated-{uuid4().hex}"  # the engine makes and removes it if it needs one
    connection.raw_sql(f"SET temp_directory = '{_quoted(str(spill))}'")
    connection.raw_sql("SET TimeZone = 'UTC'")
    connection.raw_sql("SET enable_progress_bar = false")
    connection.raw_sql("SET autoinstall_known_extensions = false")  # reading a file fetches nothing
    return connection


def place(table: Any, named: str | None = None, beside: Place | None = None, role: str = "table") -> Place:
    """Return where a table is.

    Parameters
    ----------
    table : path, dataframe or Ibis table
    named : str, optional
        Which table of a database file.
    beside : Place, optional
        A table that this one is to be joined with: text may name another table of its database.
    role : str
        What errors call it.
    """
    if _is_ibis(table):
        found = Place(table, _ibis_name(table), ordered=False)
    elif isinstance(table, (str, os.PathLike)) and not isinstance(os.fspath(table), bytes):
        found = _place_path(os.fspath(table), named, beside, role)
    else:
        engine = connect() if beside is None else _embedded(beside, role)
        with sentences("the dataframe"):
            found = Place(_register(engine, _arrow(table, role)), "the dataframe", ordered=True)
    return replace(found, table=_understood(found.table))


def _understood(table: ir.Table) -> ir.Table:
    """Return a table without those types of DuckDB's that Ibis does not know."""
    import ibis

    known: dict[str, Any] = {}
    for name, dtype in table.schema().items() if table.get_backend().name == "duckdb" else ():
        raw = str(getattr(dtype, "raw_type", ""))
        if raw == "TIMESTAMPTZ_NS":
            known[name] = table[name].cast("timestamp(9)")
        elif raw.strip('"') == "NULL":
            known[name] = ibis.null()
    return table.mutate(**known) if known else table


def _is_ibis(table: Any) -> bool:
    return type(table).__module__.startswith("ibis.") and hasattr(table, "get_backend")


def _ibis_name(table: Any) -> str:
    name = getattr(table.op(), "name", None)
    return one_line(name) if isinstance(name, str) else "the table"


def _embedded(beside: Place, role: str) -> Any:
    if beside.engine.name != "duckdb":
        raise OptionError(
            f"`{role}` is a file or dataframe, and the assignments are in {beside.engine.name}; both must be in one "
            "engine: give an Ibis table of the same connection."
        )
    return beside.engine


def _place_path(path: str, named: str | None, beside: Place | None, role: str) -> Place:
    if beside is not None and named is None and not os.path.exists(path) and not _has_suffix(path):
        found = _in_database(beside, path)
        if found is not None:
            return found
    files = _files(path, role)
    engine = connect() if beside is None else _embedded(beside, role)
    kind = _kind(files[0])
    odd = next((file for file in files if _kind(file) != kind), None)
    if odd is not None:
        raise OptionError(f"`{one_line(path)}` holds files of different kinds, such as {files[0]!r} and {odd!r}.")
    name = one_line(Path(path).name or path)
    if kind == "database":
        return _from_database(engine, path, named)
    if named is not None:
        raise OptionError(f"`table` is {named!r}, but `{one_line(path)}` is not a database; it is one table itself.")
    with sentences(name):
        if kind == "parquet":
            parts = engine.read_parquet(
                list(map(_literal, files)), union_by_name=len(files) > 1, hive_partitioning=_is_partitioned(path, files)
            )
            return Place(parts, name, ordered=True)
        if kind == "arrow":
            return Place(_register(engine, _arrow_files(files)), name, ordered=True)
        if len(files) > 1:
            raise OptionError(f"`{one_line(path)}` is {len(files)} CSV files; give one, or join them first.")
        return _csv(engine, files[0], name, role)


def _has_suffix(path: str) -> bool:
    return path.lower().endswith((*_CSV, *_PARQUET, *_ARROW, *_DATABASE)) or "*" in path or os.sep in path


def _kind(path: str) -> str:
    lower = path.lower()
    for kind, suffixes in (("parquet", _PARQUET), ("csv", _CSV), ("arrow", _ARROW), ("database", _DATABASE)):
        if lower.endswith(suffixes):
            return kind
    known = ", ".join(suffix for suffixes in (_CSV[:2], _PARQUET[:1], _ARROW[:2], _DATABASE[:1]) for suffix in suffixes)
    raise OptionError(f"`{one_line(path)}` is of no kind that can be read; its name must end in one of {known}.")


def _files(path: str, role: str) -> list[str]:
    """Return the files that a path, a folder or a glob stands for, in order of their names."""
    if any("\udc80" <= character <= "\udcff" for character in path):
        raise OptionError(f"The name of `{one_line(path)}` is not text in UTF-8; rename it.")
    if os.path.isdir(path):
        files = sorted(str(file) for file in Path(path).rglob("*") if _is_part(file, file.relative_to(path)))
        if not files:
            raise OptionError(f"The folder `{one_line(path)}` holds no Parquet, Arrow or CSV file.")
        return files
    if os.path.exists(path):
        return [path]
    if re.search(r"[*?\[]", path):
        import glob

        files = sorted(glob.glob(path, recursive=True))
        if not files:
            raise OptionError(f"No file matches `{one_line(path)}`.")
        return files
    raise OptionError(f"There is no file `{one_line(path, 200)}`; `{role}` must be a file, a folder or a table.")


def _is_part(file: Path, inside: Path) -> bool:
    """Whether a file in a folder is data, not hidden as the leftovers of other programs are."""
    hidden = any(part.startswith((".", "_")) and "=" not in part for part in inside.parts)
    return not hidden and file.name.lower().endswith((*_PARQUET, *_ARROW, *_CSV)) and file.is_file()


def _is_partitioned(path: str, files: list[str]) -> bool:
    """Whether folders below a path are named by values of a column, such as day=1."""
    root = path if os.path.isdir(path) else path if path in files else os.path.dirname(re.split(r"[*?\[]", path)[0])
    return any("=" in part for file in files for part in Path(os.path.relpath(file, root or ".")).parts[:-1])


def _literal(path: str) -> str:
    """Return a path that DuckDB takes for one file, whatever signs are in it."""
    return re.sub(r"([*?\[])", r"[\1]", os.path.abspath(path))


def _arrow_files(files: list[str]) -> Any:
    """Return Arrow files as one; a column may be missing in some, or be of a narrower type."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    schemas = [ds.dataset(file, format="ipc").schema for file in files]
    return ds.dataset(files, format="ipc", schema=pa.unify_schemas(schemas, promote_options="permissive"))


# ---------------------------------------------------------------- CSV


def _read_csv(engine: Any, path: str, nothing: list[str], **options: Any) -> ir.Table:
    return engine.read_csv(_literal(path), nullstr=nothing, header=True, quote='"', escape='"', **options)


def _csv(engine: Any, path: str, name: str, role: str) -> Place:
    """Return a CSV file, after a look at its first rows: what they hold, as text, tells more than their types."""
    import pyarrow.compute as pc

    table = _read_csv(engine, path, _NOTHING)
    columns = list(table.columns)
    if len(columns) == 1 and re.search(r"[,;\t|]", columns[0]):
        raise LogError(f"`{name}` cannot be read: {_csv_fault(path)}")
    _check_names(path, name, columns)
    some = fetch(_read_csv(engine, path, _NOTHING, all_varchar=True).limit(_SAMPLE))
    if not some.num_rows and role == "source":
        raise LogError(f"`{name}` has no rows; it needs a line of names, and one for each assignment.")
    kinds, unsure = {}, {}
    for column, dtype in table.schema().items() if some.column_names == columns else ():
        texts = some[column].drop_null()
        if not len(texts):
            kinds[column] = "other"
        elif dtype.is_string() and 2 * pc.sum(pc.match_substring_regex(texts, _MEANT)).as_py() > len(texts):
            kinds[column] = "mixed"
        elif dtype.is_temporal() and not pc.any(pc.match_substring_regex(texts, _SURE)).as_py():
            unsure[column] = texts[0].as_py()
    return Place(table, name, ordered=True, path=path, kinds=kinds, unsure=unsure)


def _check_names(path: str, name: str, columns: list[str]) -> None:
    """Refuse names that come twice, of which DuckDB would make another, and those that it could not find again."""
    bad = next((column for column in columns if "\0" in column), None)
    if bad is not None:
        raise LogError(f"`{name}` has a column named {one_line(repr(bad))}; a name cannot have that character in it.")
    if not any(re.sub(r"_\d+$", "", column) in columns for column in columns if re.search(r"_\d+$", column)):
        return
    with _opened(path) as file:
        names = next((line for line in csv.reader(file, delimiter=_separator(path)) if len(line) == len(columns)), [])
    twice = next((text for text, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise LogError(f"`{name}` has several columns named {one_line(repr(twice))}; each must have a name of its own.")


def _opened(path: str) -> Any:
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    return opener(path, "rt", encoding="utf-8-sig", errors="strict", newline="")


def _separator(path: str) -> str:
    with _opened(path) as file:
        lines = [line for line in islice(file, 100) if line.strip() and not line.startswith("#")]
    return max(",;\t|", key=(lines or [""])[0].count)


def _csv_fault(path: str) -> str:
    """Return what keeps a file from being read as CSV."""
    line = 1
    try:
        separator = _separator(path)
        with _opened(path) as file:
            reader = csv.reader(file, delimiter=separator, strict=True)
            width = len(next(reader))
            for fields in islice(reader, 10 * _SAMPLE):
                line = reader.line_num
                if fields and len(fields) != width:
                    return f"line {line:,} has {len(fields)} fields, but the first line has {width}."
    except UnicodeDecodeError:
        return "it is not text in UTF-8; save it as such."
    except csv.Error as error:
        return f"{error} after line {line:,}: a quotation mark is not closed, or not followed by a separator."
    except (OSError, EOFError, StopIteration):
        pass
    return "it is not a table in CSV, with a line of names and as many fields in every line."


def _with_labels(table: ir.Table, arm: str, dtype: Any) -> ir.Table:
    """Return arms that were read as text as the type that they seem to have, if nothing of their names is lost."""
    labels = fetch(table.select(arm).distinct())[arm].drop_null().to_pylist()
    as_text = dtype.is_string() or (
        dtype.is_integer() and not all(re.fullmatch("-?(0|[1-9][0-9]*)", x) for x in labels)
    )
    if as_text:
        return table
    made = table[arm].try_cast(dtype)
    lost = fetch(table.filter(made.isnull() & table[arm].notnull()).limit(1)).num_rows
    return table if lost else table.mutate(**{arm: made})


def _kept(engine: Any, table: ir.Table) -> ir.Table:
    """Keep a table in the embedded engine, which puts on disk what does not fit."""
    import ibis

    name = ibis.util.gen_name("belated")
    engine.con.execute(f"CREATE TEMP TABLE {name} AS {engine.compile(table)}")
    return engine.table(name)


def _register(engine: Any, data: Any) -> ir.Table:
    """Make Arrow data visible to the embedded engine, without a copy."""
    import ibis

    name = ibis.util.gen_name("belated")
    engine.con.register(name, data)
    return engine.table(name)


def _arrow(frame: Any, role: str) -> Any:
    import narwhals as nw
    import pyarrow as pa

    names = list(map(str, getattr(frame, "columns", ())))
    if isinstance(frame, (pa.Table, pa.RecordBatch)):
        frame = pa.Table.from_batches([frame]) if isinstance(frame, pa.RecordBatch) else frame
        names = frame.column_names
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise LogError(f"The dataframe has several columns named {one_line(repr(twice))}; each must have its own name.")
    if isinstance(frame, pa.Table):
        return frame
    try:
        native = nw.from_native(frame)
        return (native.collect() if isinstance(native, nw.LazyFrame) else native).to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise _mixed(native, error) from None
    except TypeError:
        raise OptionError(
            f"`{role}` is a {type(frame).__name__}; it must be a path, a dataframe or an Ibis table."
        ) from None


def _mixed(frame: Any, error: BaseException) -> LogError:
    """Return which value of a dataframe's column is unlike the others."""
    found = re.search(r"Conversion failed for column (.*) with type", str(error), re.DOTALL)
    if found is not None and found[1] in frame.columns:
        values = [(row, value) for row, value in enumerate(frame[found[1]].to_list()) if value is not None]
        usual = Counter(type(value) for _, value in values if value == value).most_common(1)[0][0]
        row, value = next(((r, v) for r, v in values if type(v) is not usual and v == v), values[0])
        return LogError(
            f"Column {one_line(repr(found[1]))} in row {row} is {one_line(repr(value))}; it must be of type "
            f"{usual.__name__}, as most of the column is.",
            row=row,
        )
    return LogError(f"The dataframe cannot be read: {_first_line(error)}")


def _from_database(engine: Any, path: str, named: str | None) -> Place:
    """Return a table of a DuckDB database file, which is attached for reading only."""
    import ibis

    catalog = ibis.util.gen_name("database")
    with sentences(one_line(Path(path).name)):
        engine.raw_sql(f"ATTACH '{_quoted(os.path.abspath(path))}' AS {catalog} (READ_ONLY, TYPE duckdb)")
        tables = _tables(engine, catalog)
    often = Counter(name for _, name in tables)
    names = [name if often[name] == 1 else f"{schema}.{name}" for schema, name in tables]
    if named is None:
        if len(tables) != 1:
            known = ", ".join(map(repr, map(one_line, names[:20]))) or "none"
            raise OptionError(f"`{one_line(path)}` holds {len(tables)} tables ({known}); say which with `table`.")
        named = names[0]
    schema, name = tables[names.index(one_of("table", named, names))]
    with sentences(one_line(name)):
        return Place(engine.table(name, database=(catalog, schema)), one_line(name), ordered=True)


def _in_database(beside: Place, named: str) -> Place | None:
    """Return another table of the database that a table is in, if it has one of that name."""
    space = getattr(beside.table.op(), "namespace", None)
    if space is None:
        return None
    if beside.engine.name == "duckdb" and space.catalog is not None:
        tables = {name: schema for schema, name in _tables(beside.engine, space.catalog)}
        if named not in tables:
            raise OptionError(f"There is no file and no table `{one_line(named)}` beside `{beside.name}`.")
        return Place(beside.engine.table(named, database=(space.catalog, tables[named])), one_line(named), ordered=True)
    return None


def _tables(engine: Any, catalog: str) -> list[tuple[str, str]]:
    found = engine.con.execute(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = ? ORDER BY 1, 2",
        [catalog],
    )
    return list(found.fetchall())


def fetch(expression: ir.Table) -> Any:
    """Return the result of an expression as an Arrow table."""
    engine = expression.get_backend()
    if engine.name == "pyspark":  # Ibis would take it through pandas, where NaN and null are one
        return engine.raw_sql(compiled(expression)).toArrow()
    return expression.to_pyarrow()


def compiled(expression: ir.Table) -> str:
    """Return an expression as SQL, tables in memory that it uses made known to its engine."""
    engine = expression.get_backend()
    engine._run_pre_execute_hooks(expression)
    return str(engine.compile(expression))


#: What engines say of files that are not what they are named, and what that means.
_TOLD = {
    "No magic bytes|too small to be a Parquet": "it is not a Parquet file, or not all of it.",
    "not a valid DuckDB database": "it is not a DuckDB database.",
    "Could not read enough bytes": "a part of it is missing.",
    "Could not set lock": "another program has it open to write in it; close that first.",
    "Could not open IPC|Not an Arrow file|Invalid IPC": "it is not an Arrow file, or not all of it.",
    "not a GZIP stream|end of GZIP stream": "it is not a GZIP file, or not all of it.",
    "not utf-8 encoded|Set the correct encoding": "it is not text in UTF-8; save it as such.",
    "Permission denied": "that is not permitted.",
}


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def _first_line(error: BaseException) -> str:
    """Return what an engine says, without its own names, folders and advice."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    text = re.sub(r"^([A-Z]\w* )+Error: |reading the stream registered as '\w+' failed: ", "", text)
    text = re.sub(r"(?<![\w:/])/(?:[^/\"'\s]+/)+|\s*See also http\S+", "", text.split(" (LINE")[0])
    return one_line(text.strip(), 300).rstrip(".!") + "."


@contextmanager
def sentences(name: str) -> Iterator[None]:
    """Turn what an engine says about a table into one sentence."""
    try:
        yield
    except BelatedError:
        raise
    except (MemoryError, KeyboardInterrupt):
        raise
    except UnicodeEncodeError as error:
        raise LogError(f"`{name}` has {one_line(repr(error.object))} in it, which is not text.") from error
    except Exception as error:
        if "interrupted" in str(error).lower() and type(error).__name__ in ("RuntimeError", "InterruptException"):
            raise KeyboardInterrupt from None  # DuckDB's word for it
        if not _is_engines(error):
            raise
        raise LogError(f"`{name}` cannot be read: {_told(error)}") from error


def _is_engines(error: BaseException) -> bool:
    """Whether an exception was raised by an engine or a reader of files, not by a mistake of ours."""
    modules = {kind.__module__.split(".")[0] for kind in type(error).__mro__}
    return bool(modules & {"duckdb", "_duckdb", "ibis", "psycopg", "pyspark", "py4j", "pyarrow", "sqlalchemy"}) or (
        isinstance(error, OSError)
    )


def _told(error: BaseException) -> str:
    text = str(error)
    if type(error).__name__ == "TableNotFound":
        return "it is a view of what is not there."
    for pattern, told in _TOLD.items():
        if re.search(pattern, text):
            return told
    if found := re.search(r"Error when sniffing file \"(.*)\"\.\n", text):
        return _csv_fault(found[1])
    bad = re.search(r"CSV Error on Line: (\d+)", text)
    if bad:
        line = int(bad.group(1))
        value = re.search(r"Could not convert string \"(.*?)\" to '?(\w+)", text, re.DOTALL)
        column = re.search(r"Error when converting column \"(.*?)\"", text, re.DOTALL)
        where = f"line {line:,}"
        if value and column:
            kind = {"DOUBLE": "a number", "BIGINT": "a whole number", "TIMESTAMP": "a time", "DATE": "a date"}
            expected = kind.get(value.group(2), f"of type {value.group(2)}")
            return (
                f"{where} has {one_line(repr(value.group(1)))} in column {one_line(repr(column.group(1)))}, where "
                f"{expected} must be."
            )
        what = next((part.strip() for part in text.splitlines()[2:] if part.strip()), "")
        return f"{where} is not like the others: {one_line(what or text.splitlines()[0], 200).rstrip('.')}."
    return _first_line(error)
