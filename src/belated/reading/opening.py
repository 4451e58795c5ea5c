"""From whatever people have, files, folders, dataframes, databases or Ibis tables, to an `Input`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from belated.base.errors import OptionError
from belated.base.text import one_line
from belated.reading.databases import table_beside
from belated.reading.dataframes import arrow_table
from belated.reading.embedded import connect, register
from belated.reading.engines import engine_of
from belated.reading.formats import find_files, looks_like_a_file, read_files
from belated.reading.inputs import Input
from belated.reading.sentences import sentences

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend as DuckDBConnection


def open_input(given: Any, table: str | None = None, beside: Input | None = None, role: str = "table") -> Input:
    """Return what was given as an input.

    Parameters
    ----------
    given : path, dataframe or Ibis table
    table : str, optional
        Which table of a database file.
    beside : Input, optional
        A table that this one is to be joined with: text may name another table of its database.
    role : str
        What errors call it.
    """
    if _is_ibis(given):
        opened = Input(given, _ibis_name(given), ordered=False)
    elif isinstance(given, (str, os.PathLike)) and not isinstance(os.fspath(given), bytes):
        opened = _open_path(os.fspath(given), table, beside, role)
    else:
        connection = _connection(beside, role)
        with sentences("the dataframe"):
            opened = Input(register(connection, arrow_table(given, role)), "the dataframe", ordered=True)
    return replace(opened, table=engine_of(opened.table).understood(opened.table))


def _is_ibis(given: Any) -> bool:
    return type(given).__module__.startswith("ibis.") and hasattr(given, "get_backend")


def _ibis_name(table: ir.Table) -> str:
    name = getattr(table.op(), "name", None)
    return one_line(name) if isinstance(name, str) else "the table"


def _open_path(path: str, table: str | None, beside: Input | None, role: str) -> Input:
    if beside is not None and table is None and not os.path.exists(path) and not looks_like_a_file(path):
        other = table_beside(beside, path)
        if other is not None:
            return other
    files = find_files(path, role, table)
    return read_files(_connection(beside, role), files)


def _connection(beside: Input | None, role: str) -> DuckDBConnection:
    """Return the embedded engine to read into: that of the other table, or a new one."""
    if beside is None:
        return connect()
    if not engine_of(beside.table).is_embedded:
        name = beside.connection.name
        raise OptionError(
            f"`{role}` is a file or dataframe, and the assignments are in {name}; both must be in one engine: give an "
            "Ibis table of the same connection."
        )
    return beside.connection
