"""Tables of DuckDB database files."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from belated.base.checks import one_of
from belated.base.errors import OptionError
from belated.base.text import one_line
from belated.reading.embedded import sql_text
from belated.reading.engines import engine_of
from belated.reading.inputs import Input
from belated.reading.sentences import sentences

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend as DuckDBConnection


def table_of_file(connection: DuckDBConnection, path: str, table: str | None) -> Input:
    """Return a table of a database file, which is attached for reading only; without a name, its only one."""
    import ibis

    catalog = ibis.util.gen_name("database")
    with sentences(one_line(Path(path).name)):
        connection.raw_sql(f"ATTACH '{sql_text(os.path.abspath(path))}' AS {catalog} (READ_ONLY, TYPE duckdb)")
        tables = _tables(connection, catalog)
    often = Counter(name for _, name in tables)
    names = [name if often[name] == 1 else f"{schema}.{name}" for schema, name in tables]
    if table is None:
        if len(tables) != 1:
            known = ", ".join(map(repr, map(one_line, names[:20]))) or "none"
            raise OptionError(f"`{one_line(path)}` holds {len(tables)} tables ({known}); say which with `table`.")
        table = names[0]
    schema, name = tables[names.index(one_of("table", table, names))]
    with sentences(one_line(name)):
        return Input(connection.table(name, database=(catalog, schema)), one_line(name), ordered=True)


def table_beside(beside: Input, name: str) -> Input | None:
    """Return another table of the database file that a table is in; None if it is in none."""
    space = getattr(beside.table.op(), "namespace", None)
    if space is None or space.catalog is None or not engine_of(beside.table).is_embedded:
        return None
    connection = beside.connection
    tables = {table: schema for schema, table in _tables(connection, space.catalog)}
    if name not in tables:
        raise OptionError(f"There is no file and no table `{one_line(name)}` beside `{beside.name}`.")
    return Input(connection.table(name, database=(space.catalog, tables[name])), one_line(name), ordered=True)


def _tables(connection: DuckDBConnection, catalog: str) -> list[tuple[str, str]]:
    """Return the schema and the name of each table."""
    rows = connection.con.execute(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = ? ORDER BY 1, 2",
        [catalog],
    )
    return list(rows.fetchall())
