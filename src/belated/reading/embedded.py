"""The embedded engine, DuckDB: a connection of our own, and how data come into it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from belated.base.errors import MissingLibraryError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa
    import pyarrow.dataset as ds
    from ibis.backends.duckdb import Backend as DuckDBConnection

#: How much memory the embedded engine may take before it goes to disk.
_MEMORY = "3GB"


def connect() -> DuckDBConnection:
    """Return a new embedded engine."""
    try:
        import ibis

        connection = ibis.duckdb.connect()
    except ImportError:
        raise MissingLibraryError(
            "Reading tables needs Ibis and DuckDB; `pip install 'ibis-framework[duckdb]'` brings them."
        ) from None
    connection.raw_sql(f"SET memory_limit = '{_MEMORY}'")
    spill = Path(tempfile.gettempdir()) / f"belated-{uuid4().hex}"  # the engine makes and removes it if it needs one
    connection.raw_sql(f"SET temp_directory = '{sql_text(str(spill))}'")
    connection.raw_sql("SET TimeZone = 'UTC'")
    connection.raw_sql("SET enable_progress_bar = false")
    connection.raw_sql("SET autoinstall_known_extensions = false")  # reading a file fetches nothing
    return connection


def kept(connection: DuckDBConnection, table: ir.Table) -> ir.Table:
    """Keep a table in the embedded engine, which puts on disk what does not fit."""
    import ibis

    name = ibis.util.gen_name("belated")
    connection.con.execute(f"CREATE TEMP TABLE {name} AS {connection.compile(table)}")
    return connection.table(name)


def register(connection: DuckDBConnection, data: pa.Table | ds.Dataset) -> ir.Table:
    """Make Arrow data visible to the embedded engine, without a copy."""
    import ibis

    name = ibis.util.gen_name("belated")
    connection.con.register(name, data)
    return connection.table(name)


def sql_text(text: str) -> str:
    """Return text that may stand between quotes in SQL."""
    return text.replace("'", "''")
