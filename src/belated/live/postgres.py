"""`PostgresStorage`: a store in a PostgreSQL database, for the processes of any number of machines."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from belated.base.checks import Options
from belated.base.columns import Row
from belated.base.errors import MissingLibraryError
from belated.base.text import masked, one_line
from belated.live.errors import CrossedError, StorageError
from belated.live.packing import Packed, dumper, pack
from belated.live.schema import COLUMNS, EXPERIMENT, META, check_schema, migrate, next_transaction, schema_of
from belated.live.sqlite import typed
from belated.live.storage import Session, Storage, TimeSource, UnitOutcome, system_clock
from belated.reading.live_logs import PLACES, SCHEMA

if TYPE_CHECKING:
    import psycopg

    from belated.live.design import Served

_TYPES = {"ID": "bigint primary key", "BYTES": "bytea", "REAL": "double precision"}

#: The types of columns that are not bigint.
_KINDS = {
    **dict.fromkeys(
        [
            "name",
            "state",
            "about",
            "problem",
            "label",
            "policy",
            "unit",
            "key",
            "what",
            "detail",
            "author",
            "reason",
            "cause",
            "kind",
            "scopes",
        ],
        "text",
    ),
    **dict.fromkeys(["offered", "probabilities", "counts", "totals", "steps"], "text"),
    **dict.fromkeys(("salt", "digest"), "bytea"),
    "value": "double precision",
}

#: A number of our own for the lock under which the tables are made.
_LOCK = 0x626C7464

#: Text is UTF-8 whatever the database's encoding is. psycopg prepares nothing by itself: on another connection of a
#: pool, its names could mean other statements.
_OPTIONS: Options = {"connect_timeout": 15, "prepare_threshold": None, "client_encoding": "utf8"}

_LISTED = "unnest(%b::text[]) with ordinality l (value, place)"
_DECISION_OF_UNIT = "select * from decision where experiment = %s and unit = l.value limit 1"
#: The lock makes erasing a unit and storing its outcomes wait for each other; others may take it, too. It is written
#: to the disk: asking again, which stores nothing, would take several times as long with it.
_HELD_DECISION_OF_UNIT = f"{_DECISION_OF_UNIT} for key share"

_INSERT_FIRST_OUTCOMES = f"""
insert into outcome ({", ".join(COLUMNS["outcome"])})
select %b::bigint + l.place, %b::bigint, d.id, l.key, 0, l.number, l.happened, greatest(%b::bigint, d.assigned_at)
from unnest(%b::text[], %b::text[], %b::double precision[], %b::bigint[])
with ordinality l (value, key, number, happened, place), lateral ({_HELD_DECISION_OF_UNIT}) d
order by d.id, l.key, l.place on conflict (decision, key, revision) do nothing
""".encode()

_TIME = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"
_SNAPSHOT_COLUMNS = (
    f"pg_snapshot_xmin(pg_current_snapshot())::text::bigint, {_TIME}, "
    "(select value::bigint from meta where key = 'offset')"
)

#: The number of the transaction that begins next; all rows that were visible before have lower ones.
_NEXT_TRANSACTION = (
    "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint + "
    "(select value::bigint from meta where key = 'offset')"
)


class _Plan(NamedTuple):
    """A statement that a connection plans once; its name is a hash of its text, so that no other one has it."""

    name: str
    text: str

    def call(self, number: int | None = None, *, planned: bool) -> str:
        """Return what runs it, with a whole number for `$1`."""
        if planned:
            return f"execute {self.name}" + ("" if number is None else f"({number})")
        return self.text.replace("$1", str(number))


def _plan(text: str) -> _Plan:
    return _Plan(f"belated_{sha256(text.encode()).hexdigest()[:16]}", text)


#: What transactions that write, and those that read, ask for as they begin, and what they ask about an experiment.
_STARTS = {
    True: ("begin", _plan(f"select pg_current_xact_id()::text::bigint, {_SNAPSHOT_COLUMNS}")),
    False: ("begin isolation level repeatable read read only", _plan(f"select 0, {_SNAPSHOT_COLUMNS}")),
}
_EXPERIMENT_PLAN = _plan(EXPERIMENT + " where e.id = $1")


class PostgresSession(Session):
    """A transaction of PostgreSQL; rows are numbered by it, so that a slow commit is never below the watermark."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection
        self.now = system_clock()

    def begin(self, clock: TimeSource | None, experiments: Sequence[int] = (), *, writes: bool, planned: bool) -> None:
        """Begin; ask for the transaction's number, the oldest that is still running, the time, and experiments.

        It is sent as one message, because the round trip takes longer than the statements.
        """
        start, first = _STARTS[writes]
        asked = [_EXPERIMENT_PLAN.call(int(number), planned=planned) for number in experiments]
        cursor = self._connection.execute("; ".join([start, first.call(planned=planned), *asked]).encode())
        cursor.nextset()
        ((own, oldest, now, offset),) = cursor.fetchall()
        self.transaction, self.watermark = own + offset, (oldest + offset) << PLACES
        self.now = now if clock is None else clock()
        rows = [row for _ in experiments if cursor.nextset() for row in cursor.fetchall()]
        self.experiments = {row[1]: row for row in rows}

    def run(self, statement: str, *values: object) -> list[Row]:
        """Run a statement with `?` for each value and `in (?*)` for a list; return its rows."""
        cursor = self._connection.execute(_translated(statement), values)
        return cursor.fetchall() if cursor.description else []

    def find_decisions(self, experiment: int, units: list[str], columns: str, *, hold: bool = False) -> list[Row]:
        """Return, for each unit with a decision, its position and columns; `limit` makes the engine use the index."""
        decision = _HELD_DECISION_OF_UNIT if hold else _DECISION_OF_UNIT
        statement = f"select l.place - 1, {columns} from {_LISTED}, lateral ({decision}) d"
        return self._connection.execute(statement.encode(), [pack("text", units), experiment]).fetchall()

    def add(self, table: str, rows: Sequence[Row], *, unless: str | None = None) -> int:
        """Insert rows by one statement; wait for other transactions that are inserting the same rows."""
        if not rows:
            return 0
        columns = list(zip(*rows, strict=True))
        arrays = tuple(_varies(place, column) for place, column in enumerate(columns))
        shared = [column[0] for column, array in zip(columns, arrays, strict=True) if not array]
        kinds = zip(_kinds(table), columns, arrays, strict=True)
        listed = [pack(kind, column) for kind, column, array in kinds if array]
        return self._connection.execute(_insert(table, arrays, unless), shared + listed).rowcount

    def add_first(self, experiment: int, outcomes: Sequence[UnitOutcome]) -> set[int]:
        """Insert first values of outcomes by one statement, in the order in which every transaction takes its locks."""
        ids = self.new_ids(len(outcomes))
        kinds = ("text", "text", "double precision", "bigint")
        columns = [pack(kind, column) for kind, column in zip(kinds, zip(*outcomes, strict=True), strict=True)]
        values = [ids.start - 1, experiment, self.now, *columns, experiment]
        if self._connection.execute(_INSERT_FIRST_OUTCOMES, values).rowcount == len(outcomes):
            return set()
        return set(range(len(outcomes))) - {key - ids.start for key in self._inserted("outcome", ids[0], ids[-1])}

    def own_types(self, statement: str) -> str:
        """Return a statement with PostgreSQL's types."""
        return typed(statement, _TYPES)


@lru_cache(maxsize=256)
def _translated(statement: str) -> bytes:
    return statement.replace("in (?*)", "= any(%s)").replace("?", "%s").encode()


def _kinds(table: str) -> list[str]:
    return [_KINDS.get(column, "bigint") for column in COLUMNS[table]]


@lru_cache(maxsize=256)
def _insert(table: str, arrays: tuple[bool, ...], unless: str | None) -> bytes:
    """Return the statement that inserts rows: first values that all rows share, then arrays of the other columns."""
    columns = list(zip(COLUMNS[table], _kinds(table), arrays, strict=True))
    selected = ", ".join(name if array else f"%b::{kind}" for name, kind, array in columns)
    listed = [(name, f"%b::{kind}[]") for name, kind, array in columns if array]
    source = ""
    if listed:
        names, values = (", ".join(texts) for texts in zip(*listed, strict=True))
        source = f" from unnest({values}) l ({names})"
    end = "" if unless is None else f" on conflict ({unless}) do nothing"
    return f"insert into {table} ({', '.join(COLUMNS[table])}) select {selected}{source}{end}".encode()


def _varies(place: int, column: Sequence[object]) -> bool:
    """Return whether a column is sent as an array: the first of several rows, and whatever is not the same in all."""
    if len(column) == 1:
        return False
    return place == 0 or isinstance(column[0], float) or column.count(column[0]) < len(column)  # 0.0 equals -0.0


class PostgresStorage(Storage):
    """A store in the schema "belated_live" of a database; several processes and machines may use it at once.

    Parameters
    ----------
    url : str
        Such as ``"postgresql://user@host/db"``.
    clock : callable, optional
        The time in microseconds; by default the server's.
    make : bool
        Whether to make the tables if there are none.
    upgrade : bool
        Whether to upgrade an older schema; otherwise it is refused.
    """

    def __init__(self, url: str, clock: TimeSource | None = None, *, make: bool = True, upgrade: bool = False) -> None:
        self._url, self.clock = url, clock
        self.name = "the database"
        self._locks = {True: threading.RLock(), False: threading.RLock()}
        self._known: dict[tuple[int, int], Served] = {}
        self._numbers: dict[str, int] = {}
        self._planned = True
        self._connections: dict[bool, psycopg.Connection[Row]] = {}
        self._prepare(make=make, upgrade=upgrade)

    def _connect(self) -> psycopg.Connection[Row]:
        try:
            import psycopg
        except ImportError:
            raise MissingLibraryError(
                "A store in PostgreSQL needs psycopg; run `pip install 'belated[postgres]'`."
            ) from None
        try:
            connection = psycopg.connect(self._url, autocommit=True, **_OPTIONS)
        except psycopg.Error:
            where = one_line(masked(self._url), 200)
            raise StorageError(f"`{where}` cannot be reached; check the address, the user and the password.") from None
        connection.adapters.register_dumper(Packed, dumper())
        connection.execute("select set_config('search_path', %s, false)", [SCHEMA])
        connection.execute("set synchronous_commit = on")
        return connection

    def _prepare(self, *, make: bool, upgrade: bool) -> None:
        connection = self._connect()
        try:
            with _sentences(self.name):
                session = PostgresSession(connection)
                exists = session.run(
                    "select 1 from pg_catalog.pg_tables where schemaname = ? and tablename = 'meta'", SCHEMA
                )
                if not exists and not make:
                    raise StorageError(f"There are no live experiments in {self.name}; make one first.")
                if exists and not upgrade and schema_of(session):
                    check_schema(schema_of(session), self.name)
                else:
                    with connection.transaction():
                        session.run("select pg_advisory_xact_lock(?)", _LOCK)
                        session.run(f"create schema if not exists {SCHEMA}")
                        session.run(META)
                        session.run("insert into meta (key, value) values ('offset', '0') on conflict do nothing")
                        migrate(session, self.name)
                self._keep(connection, writes=True)
            self.keep_order()
        except BaseException:
            connection.close()
            raise

    def keep_order(self) -> None:
        """Number new rows above all existing rows and watermarks, also if the rows were copied from another server.

        Others may be storing rows: what comes next is asked for after the highest number. If numbers were moved for
        less, a transaction that had begun before would store its rows below the next watermark, and no tick would see
        them.
        """
        with self.writing() as session:
            session.run("select pg_advisory_xact_lock(?)", _LOCK)
            least = next_transaction(session)
            ((following,),) = session.run(_NEXT_TRANSACTION)
            missing = least - following
            if missing > 0:
                session.run("update meta set value = (value::bigint + ?)::text where key = 'offset'", missing)

    def _connection(self, *, writes: bool) -> psycopg.Connection[Row]:
        connection = self._connections.get(writes)
        if connection is None or connection.closed or connection.broken:
            connection = self._connect()
            self._keep(connection, writes=writes)
        return connection

    def _keep(self, connection: psycopg.Connection[Row], *, writes: bool) -> None:
        _prepare_plans(connection, writes=writes)
        self._connections[writes] = connection

    def _begin(self, session: PostgresSession, experiments: Collection[str], *, writes: bool) -> None:
        """Begin; with statements that are not planned if a pool of connections has given us another one."""
        from psycopg.errors import InvalidSqlStatementName

        connection, numbers = self._connections[writes], self._numbers_of(self._connections[writes], experiments)
        try:
            session.begin(self.clock, numbers, writes=writes, planned=self._planned)
        except InvalidSqlStatementName:
            self._planned = False
            connection.execute("rollback")
            session.begin(self.clock, numbers, writes=writes, planned=False)

    def _numbers_of(self, connection: psycopg.Connection[Row], names: Collection[str]) -> list[int]:
        """Return the numbers of experiments, which they keep."""
        new = [name for name in names if name not in self._numbers]
        if new:
            self._numbers |= connection.execute(
                "select name, id from experiment where name = any(%s)", [new]
            ).fetchall()
        return [self._numbers[name] for name in names if name in self._numbers]

    @contextmanager
    def _session(self, experiments: Collection[str] = (), *, writes: bool) -> Iterator[Session]:
        self.check_own()
        with self._locks[writes], _sentences(self.name):
            connection = self._connection(writes=writes)
            try:
                session = PostgresSession(connection)
                session.known = self._known
                self._begin(session, experiments, writes=writes)
                yield session
                connection.execute("commit")
            except BaseException:
                with suppress(Exception):
                    connection.execute("rollback")
                raise

    def writing(self, experiments: Collection[str] = ()) -> AbstractContextManager[Session]:
        """Return a transaction that writes."""
        return self._session(experiments, writes=True)

    def reading(self) -> AbstractContextManager[Session]:
        """Return a transaction that sees one state of the database."""
        return self._session(writes=False)

    def relax(self) -> None:
        """Do not wait for the disk."""
        with self._locks[True]:
            self._connection(writes=True).execute("set synchronous_commit = off")

    def close(self) -> None:
        """Close both connections."""
        for writes, connection in self._connections.items():
            with self._locks[writes]:
                connection.close()


def _prepare_plans(connection: psycopg.Connection[Row], *, writes: bool) -> None:
    from psycopg.errors import DuplicatePreparedStatement

    for plan in (_STARTS[writes][1], _EXPERIMENT_PLAN):
        with suppress(DuplicatePreparedStatement):  # by another client of a pool of connections
            connection.execute(f"prepare {plan.name} as {plan.text}".encode())


@contextmanager
def _sentences(name: str) -> Iterator[None]:
    """Turn errors of PostgreSQL into one sentence, without the values that its details hold."""
    import psycopg
    from psycopg import errors

    try:
        yield
    except (errors.DeadlockDetected, errors.SerializationFailure):
        raise CrossedError(f"{name} ended the transaction because it conflicted with another one; ask again.") from None
    except errors.DiskFull:
        raise StorageError(f"{name} cannot be used now: the disk is full; free some space and ask again.") from None
    except psycopg.Error as error:
        words = error.diag.message_primary or "the connection is lost; ask again"
        raise StorageError(f"{name} cannot be used now: {one_line(words, 200)}.") from None
