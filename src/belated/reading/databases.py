"""Databases by URL: their tables, opened for reading only; passwords that a URL holds are never shown."""

from __future__ import annotations

import os
import re
import weakref
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from belated.base.checks import Options
from belated.base.errors import BelatedError, LogError, MissingLibraryError, OptionError, argument
from belated.base.files import check_file
from belated.base.text import SECRET, masked, one_line
from belated.reading import side_by_side
from belated.reading.columns import quoted, some
from belated.reading.engines import first_line, sentences
from belated.reading.inputs import URL, Input, rest_of

if TYPE_CHECKING:
    from ibis.backends import BaseBackend

#: The names that people write in URLs, and Ibis's.
_SCHEMES = {"postgresql": "postgres", "mariadb": "mysql", "spark": "pyspark", "sqlite3": "sqlite"}

#: Ibis's names for its engines, known also where Ibis is not installed.
_ENGINES = (
    "athena bigquery clickhouse databricks datafusion druid duckdb exasol flink impala materialize mssql mysql oracle "
    "polars postgres pyspark risingwave singlestoredb snowflake sqlite trino"
)

#: Engines that this package has an extra for.
_EXTRAS = {"postgres": "belated[postgres]", "pyspark": "belated[spark]"}

#: Seconds to wait for a server.
_PATIENCE = 15

#: The schema and the name of each table, by the name that people use.
_Places = dict[str, tuple[str | None, str]]


def open_url(url: str, table: str | None, role: str) -> Input:
    """Return a table of the database that a URL names; without a name, its only one."""
    scheme = _scheme(url, role)
    connection = _connected(url, scheme)
    return _named(connection, table, masked(url))


def table_named(beside: Input, name: str) -> Input:
    """Return another table of the database that a table is in."""
    return _named(beside.connection, name, beside.connection.name)


# ---------------------------------------------------------------- connections


def _scheme(url: str, role: str) -> str:
    """Return Ibis's name for the engine of a URL."""
    from importlib.metadata import entry_points

    match = URL.match(url)
    written = match[1].lower() if match else ""
    scheme = _SCHEMES.get(written, written)
    installed = {entry.name for entry in entry_points(group="ibis.backends")}
    known = installed or set(_ENGINES.split())
    if scheme not in known:
        near = get_close_matches(written, [*_SCHEMES, *known], n=1)
        hint = f" Did you mean {near[0]}://?" if near else ""
        raise OptionError(
            f"{argument(role)} is `{one_line(masked(url), 200)}`; {one_line(written)} is not a known database. The URL "
            f"must start with postgresql://, mysql://, sqlite://, bigquery://, snowflake:// or another of Ibis.{hint}"
        )
    if not installed:
        brings = _EXTRAS.get(scheme, f"ibis-framework[{scheme}]")
        raise MissingLibraryError(f"Reading from a database needs Ibis; run `pip install '{brings}'`.")
    return scheme


def _connected(url: str, scheme: str) -> BaseBackend:
    """Return a connection; what goes wrong is told without the URL's password."""
    problem: BelatedError
    try:
        return _CONNECT.get(scheme, _connect)(url, scheme)
    except BelatedError:
        raise
    except ImportError as error:
        brings = _EXTRAS.get(scheme, f"ibis-framework[{scheme}]")
        missing = f" ({error.name})" if error.name else ""
        problem = MissingLibraryError(f"Reading from {scheme} needs its driver{missing}; run `pip install '{brings}'`.")
    except Exception as error:
        problem = OptionError(f"`{one_line(masked(url), 200)}` cannot be opened: {_in_words(error, url)}")
    raise problem  # out of reach of the driver's error, which may hold the password


def _connect(url: str, scheme: str) -> BaseBackend:
    import ibis

    return ibis.connect(f"{scheme}://{rest_of(url)}")


def _connect_postgres(url: str, scheme: str) -> BaseBackend:
    """Let libpq read the URL, the environment and the file of passwords."""
    import ibis
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    given: Options = conninfo_to_dict(f"postgresql://{rest_of(url)}")
    given.setdefault("connect_timeout", os.environ.get("PGCONNECT_TIMEOUT", str(_PATIENCE)))
    given.setdefault("application_name", os.environ.get("PGAPPNAME", "belated"))
    connection = psycopg.connect(**given, autocommit=True)
    connection.execute("SET default_transaction_read_only = on")
    side_by_side.OWN.add(connection)
    return _closing(ibis.postgres.from_connection(connection))


def _connect_mysql(url: str, scheme: str) -> BaseBackend:
    """Take the password from the environment, or the client's own file, if the URL has none."""
    import ibis

    options: dict[str, str] = {}
    own = Path("~/.my.cnf").expanduser()
    if urlsplit(url).password is None:
        if "MYSQL_PWD" in os.environ:
            options["password"] = os.environ["MYSQL_PWD"]
        elif own.is_file():
            options["read_default_file"] = str(own)
    connection = ibis.connect(f"mysql://{rest_of(url)}", **options)
    connection.raw_sql("SET SESSION TRANSACTION READ ONLY").close()
    return connection


def _connect_sqlite(url: str, scheme: str) -> BaseBackend:
    """Open a file that must be there; SQLite would make one."""
    import sqlite3

    import ibis

    path = unquote(rest_of(url).split("?")[0])
    if not path or not os.path.exists(path):
        raise OptionError(f"There is no file `{one_line(path, 200)}`.")
    check_file(path)
    connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
    connection.execute("PRAGMA query_only = ON")
    connection.set_progress_handler(lambda: 0, 100_000)  # lets Ctrl-C stop a query, which may have no end
    return _closing(ibis.sqlite.from_connection(connection))


def _closing(connection: BaseBackend) -> BaseBackend:
    """Close a connection when nothing uses it any more."""
    weakref.finalize(connection, connection.con.close)
    return connection


_CONNECT = {"postgres": _connect_postgres, "mysql": _connect_mysql, "sqlite": _connect_sqlite}


def _in_words(error: Exception, url: str) -> str:
    """Return what a driver says, without the URL's secrets or parts of them."""
    secrets = [match[1] for match in re.finditer(r"://[^:/?#\s]*:(\S*)@", url)]
    secrets += [match[0].partition("=")[2] for match in SECRET.finditer(url)]
    parts = {part for secret in secrets for text in (secret, unquote(secret)) for part in re.split("[/:@?#&;]", text)}
    words = first_line(error)
    for part in sorted({*secrets, *map(unquote, secrets), *parts} - {""}, key=len, reverse=True):
        words = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", "***", words)
    if "no password supplied" in words:
        return f"{words} Give the password in PGPASSWORD or ~/.pgpass."
    if secrets and type(error).__name__ in ("ProgrammingError", "ValueError"):  # the URL itself cannot be read
        return f"{words} Special characters of a password must be written as %40 for @, or leave the password out."
    return words


# ---------------------------------------------------------------- tables


def _named(connection: BaseBackend, table: str | None, where: str) -> Input:
    """Return a table of a database by its name, which may begin with that of its schema."""
    with sentences(one_line(where, 200)):
        places = _tables(connection, table)
    names = list({place: name for name, place in reversed(places.items())}.values())[::-1]  # the shortest of each
    listed = f" ({some(names)})" if names else ""
    if table is None:
        if len(names) != 1:
            raise OptionError(
                f"`{one_line(where, 200)}` holds {len(names):,} tables{listed}; choose one with {argument('table')}."
            )
        table = names[0]
    if table not in places:
        elsewhere = [name for name in names if name.lower().endswith(f".{table.lower()}")]  # in another schema
        near = elsewhere or get_close_matches(table, places, n=1) or get_close_matches(table.lower(), places, n=1)
        hint = f" Did you mean {quoted(near[0])}?" if near else ""
        raise OptionError(f"There is no table `{one_line(table)}` in the database{listed}.{hint}")
    schema, name = places[table]
    with sentences(one_line(table)):
        return Input(connection.table(name, database=schema), one_line(table), ordered=False)


def _tables(connection: BaseBackend, wanted: str | None) -> _Places:
    """Return the schema and the name of each table, by what people call it."""
    if connection.name == "postgres":
        return _postgres_tables(connection)
    tables: _Places = {name: (None, name) for name in sorted(connection.list_tables())}
    schema, dot, _ = (wanted or "").rpartition(".")
    if dot and wanted not in tables:
        try:
            tables |= {f"{schema}.{name}": (schema, name) for name in sorted(connection.list_tables(database=schema))}
        except Exception as error:  # each engine has its own word for a schema that is not there
            raise LogError(f"There is no schema `{one_line(schema)}` in the database: {first_line(error)}") from None
    return tables


def _postgres_tables(connection: BaseBackend) -> _Places:
    """Return tables, views and the like; those that need no schema before their name come first."""
    rows = connection.con.execute(
        "SELECT n.nspname, c.relname, pg_catalog.pg_table_is_visible(c.oid) FROM pg_catalog.pg_class c "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND "
        "NOT c.relispartition AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_' "
        "ORDER BY 3 DESC, 1, 2"
    ).fetchall()
    short: _Places = {name: (schema, name) for schema, name, is_visible in rows if is_visible}
    return {**short, **{f"{schema}.{name}": (schema, name) for schema, name, _ in rows}}
