"""Where tables are: files, folders, dataframes, databases and Ibis tables, each as an Ibis table."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
    """

    table: ir.Table
    name: str
    ordered: bool
    path: str | None = None

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
        with sentences(self.name):
            table = _kept(self.engine, _read_csv(self.engine, self.path, _NOTHING, types=types).select(*wanted))
            if arm in wanted and table[arm].type().is_string() and fetch(table.filter(table[arm].isnull()).limit(1)):
                plain = _read_csv(self.engine, self.path, [""], types={arm: "VARCHAR"})
                labels = fetch(plain.filter(plain[arm].isin(_NOTHING)).select(arm).distinct())[arm].to_pylist()
                nothing = [text for text in _NOTHING if text not in labels]
                table = _kept(self.engine, _read_csv(self.engine, self.path, nothing, types=types).select(*wanted))
        return Place(table, self.name, self.ordered, self.path)


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
        return Place(table, _ibis_name(table), ordered=False)
    if isinstance(table, (str, os.PathLike)):
        return _place_path(os.fspath(table), named, beside, role)
    engine = connect() if beside is None else _embedded(beside, role)
    return Place(_register(engine, _arrow(table, role)), "the dataframe", ordered=True)


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
        raise OptionError(f"`{path}` holds files of different kinds, such as {files[0]!r} and {odd!r}.")
    name = one_line(Path(path).name or path)
    if kind == "database":
        return _from_database(engine, path, named)
    if named is not None:
        raise OptionError(f"`table` is {named!r}, but `{one_line(path)}` is not a database; it is one table itself.")
    with sentences(name):
        if kind == "parquet":
            return Place(engine.read_parquet(files), name, ordered=True)
        if kind == "arrow":
            import pyarrow.dataset as ds

            return Place(_register(engine, ds.dataset(files, format="ipc")), name, ordered=True)
        if len(files) > 1:
            raise OptionError(f"`{path}` is {len(files)} CSV files; give one, or join them first.")
        return Place(_read_csv(engine, files[0], _NOTHING), name, ordered=True, path=files[0])


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
    if os.path.isdir(path):
        files = sorted(str(file) for file in Path(path).rglob("*") if file.is_file() and _readable(file))
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


def _readable(file: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in file.parts[-1:])
    return not hidden and file.name.lower().endswith((*_PARQUET, *_ARROW, *_CSV))


def _read_csv(engine: Any, path: str, nothing: list[str], **options: Any) -> ir.Table:
    return engine.read_csv(path, nullstr=nothing, header=True, quote='"', escape='"', **options)


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

    if isinstance(frame, (pa.Table, pa.RecordBatch)):
        return pa.table(frame) if isinstance(frame, pa.Table) else pa.Table.from_batches([frame])
    try:
        native = nw.from_native(frame)
        return (native.collect() if isinstance(native, nw.LazyFrame) else native).to_arrow()
    except TypeError:
        raise OptionError(
            f"`{role}` is a {type(frame).__name__}; it must be a path, a dataframe or an Ibis table."
        ) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise LogError(f"The dataframe mixes types in one column: {_first_line(error)}") from None


def _from_database(engine: Any, path: str, named: str | None) -> Place:
    """Return a table of a DuckDB database file, which is attached for reading only."""
    import ibis

    catalog = ibis.util.gen_name("database")
    with sentences(one_line(Path(path).name)):
        engine.raw_sql(f"ATTACH '{_quoted(path)}' AS {catalog} (READ_ONLY)")
        tables = _tables(engine, catalog)
    names = [name for _, name in tables]
    if named is None:
        if len(tables) != 1:
            known = ", ".join(map(repr, map(one_line, names[:20]))) or "none"
            raise OptionError(f"`{one_line(path)}` holds {len(tables)} tables ({known}); say which with `table`.")
        named = names[0]
    schema, name = tables[names.index(one_of("table", named, names))]
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
        return engine.raw_sql(engine.compile(expression)).toArrow()
    return expression.to_pyarrow()


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return one_line(text.splitlines()[0].strip(), 300).rstrip(".") + "."


@contextmanager
def sentences(name: str) -> Iterator[None]:
    """Turn what an engine says about a table into one sentence."""
    try:
        yield
    except BelatedError:
        raise
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:
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
