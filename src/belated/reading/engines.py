"""Engines: the embedded one, what any of them returns, and what they say when something is wrong."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from belated.base.errors import BelatedError, LogError, MissingLibraryError
from belated.base.text import one_line

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True)
class Place:
    """A table, and how to speak of it.

    Attributes
    ----------
    table : ibis table
    name : str
    ordered : bool
        Whether its rows have an order, as those of files and dataframes do.
    """

    table: ir.Table
    name: str
    ordered: bool

    @property
    def engine(self) -> Any:
        """The Ibis connection that the table is in."""
        return self.table.get_backend()

    @property
    def kinds(self) -> Mapping[str, str]:
        """Columns of which more is known than their types tell."""
        return {}

    def loaded(self, types: dict[str, str], columns: Iterable[str], arm: str) -> Place:
        """Return the same table, its columns of the types that they must have, where types are only guessed."""
        return self


#: How much memory the embedded engine may take before it goes to disk.
_MEMORY = "3GB"


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
    connection.raw_sql(f"SET temp_directory = '{quoted(str(spill))}'")
    connection.raw_sql("SET TimeZone = 'UTC'")
    connection.raw_sql("SET enable_progress_bar = false")
    connection.raw_sql("SET autoinstall_known_extensions = false")  # reading a file fetches nothing
    return connection


def kept(engine: Any, table: ir.Table) -> ir.Table:
    """Keep a table in the embedded engine, which puts on disk what does not fit."""
    import ibis

    name = ibis.util.gen_name("belated")
    engine.con.execute(f"CREATE TEMP TABLE {name} AS {engine.compile(table)}")
    return engine.table(name)


def register(engine: Any, data: Any) -> ir.Table:
    """Make Arrow data visible to the embedded engine, without a copy."""
    import ibis

    name = ibis.util.gen_name("belated")
    engine.con.register(name, data)
    return engine.table(name)


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


def quoted(text: str) -> str:
    """Return text that may stand between quotes in SQL."""
    return text.replace("'", "''")


def first_line(error: BaseException) -> str:
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
        from belated.reading.csv_files import csv_fault

        return csv_fault(found[1])
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
    return first_line(error)
