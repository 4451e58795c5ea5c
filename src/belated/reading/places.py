"""Where tables are: files, folders, dataframes, databases and Ibis tables, each as an Ibis table."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belated.base.checks import one_of
from belated.base.errors import LogError, OptionError
from belated.base.text import one_line
from belated.reading.csv_files import csv_file, literal_path
from belated.reading.engines import Place, connect, first_line, quoted, register, sentences

if TYPE_CHECKING:
    import ibis.expr.types as ir


_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst", ".tsv.zst")
_PARQUET = (".parquet", ".parq", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")
_DATABASE = (".duckdb", ".ddb", ".db")


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
            found = Place(register(engine, _arrow(table, role)), "the dataframe", ordered=True)
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
                list(map(literal_path, files)),
                union_by_name=len(files) > 1,
                hive_partitioning=_is_partitioned(path, files),
            )
            return Place(parts, name, ordered=True)
        if kind == "arrow":
            return Place(register(engine, _arrow_files(files)), name, ordered=True)
        if len(files) > 1:
            raise OptionError(f"`{one_line(path)}` is {len(files)} CSV files; give one, or join them first.")
        return csv_file(engine, files[0], name, role)


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


def _arrow_files(files: list[str]) -> Any:
    """Return Arrow files as one; a column may be missing in some, or be of a narrower type."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    schemas = [ds.dataset(file, format="ipc").schema for file in files]
    return ds.dataset(files, format="ipc", schema=pa.unify_schemas(schemas, promote_options="permissive"))


# ---------------------------------------------------------------- CSV


def _arrow(frame: Any, role: str) -> Any:
    import narwhals as nw
    import pyarrow as pa

    names = [] if hasattr(frame, "collect") else list(map(str, getattr(frame, "columns", ())))
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
    return LogError(f"The dataframe cannot be read: {first_line(error)}")


def _from_database(engine: Any, path: str, named: str | None) -> Place:
    """Return a table of a DuckDB database file, which is attached for reading only."""
    import ibis

    catalog = ibis.util.gen_name("database")
    with sentences(one_line(Path(path).name)):
        engine.raw_sql(f"ATTACH '{quoted(os.path.abspath(path))}' AS {catalog} (READ_ONLY, TYPE duckdb)")
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
