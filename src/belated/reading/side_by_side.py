"""Queries of PostgreSQL at the same time: a second connection takes its share, and sees the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from weakref import WeakSet

from belated.base.columns import Row

if TYPE_CHECKING:
    import psycopg

#: Connections that nobody else has set anything for, so that another one would do the same.
OWN: WeakSet[psycopg.Connection[Row]] = WeakSet()

#: For one transaction: memory in which half a million rows are sorted, unless there is more. A server like PostgreSQL
#: that does not have the setting is left as it is.
_FOR_SORTS = """
    select set_config(name, '64MB', true) from pg_settings
    where case name when 'work_mem' then setting::float8 < 65536 end
"""

_READING = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

#: Seconds to wait before a query is told again to stop: it may have just begun.
_SECONDS_BETWEEN_STOPS = 1.0

#: The rows that a query gives.
Fetched = list[Row]


def answers(
    connection: psycopg.Connection[Row], queries: Sequence[str], meanwhile: Callable[[], object] | None = None
) -> list[Fetched]:
    """Return the rows that each query gives: every other one by a second connection, if there can be one.

    `meanwhile` may use the first connection, while the second one is still busy.
    """
    import psycopg

    with ExitStack() as open_until_then:
        if len(queries) == 1 or connection not in OWN:
            return _in_turn(connection, queries)
        try:
            second = open_until_then.enter_context(_second(connection))
        except psycopg.Error:  # too many connections, or a server that is like PostgreSQL but cannot share a snapshot
            return _in_turn(connection, queries)
        rows: list[Fetched] = [[] for _ in queries]
        with ThreadPoolExecutor(1) as pool:
            others = pool.submit(_in_turn, second, queries[1::2])
            try:
                rows[::2] = _in_turn(connection, queries[::2])
                if meanwhile is not None:
                    meanwhile()
                rows[1::2] = others.result()
            except BaseException:
                while not others.done():
                    second.cancel_safe(timeout=_SECONDS_BETWEEN_STOPS)
                    wait([others], _SECONDS_BETWEEN_STOPS)
                raise
        return rows


@contextmanager
def _second(connection: psycopg.Connection[Row]) -> Iterator[psycopg.Connection[Row]]:
    """Open a second connection to the same database; until it is closed, both see the present state."""
    import psycopg

    with connection.transaction():
        connection.execute(_READING)
        (snapshot,) = connection.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        with psycopg.connect(connection.info.dsn, password=connection.info.password or None) as second:
            second.execute(_READING)
            second.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            yield second


def _in_turn(connection: psycopg.Connection[Row], queries: Sequence[str]) -> list[Fetched]:
    from psycopg.rows import tuple_row

    rows = []
    for query in queries:
        with connection.cursor(row_factory=tuple_row) as cursor, connection.transaction():
            cursor.execute(_FOR_SORTS)
            rows.append(cursor.execute(query, prepare=False).fetchall())
    return rows
