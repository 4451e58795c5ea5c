"""`SQLiteStorage`: a store in one file, for the processes of one machine."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from belated.base.columns import Row
from belated.base.files import check_file
from belated.base.text import one_line
from belated.live.errors import DamagedError, StorageError, unharmed
from belated.live.schema import COLUMNS, META, check_schema, migrate, schema_of
from belated.live.storage import Session, Storage, TimeSource, system_clock
from belated.reading.contents import APPLICATION, is_sqlite
from belated.reading.live_logs import PLACES, has_programs

if TYPE_CHECKING:
    from belated.live.design import Served

#: Seconds to wait while another process writes.
_PATIENCE = 60

#: File systems of other machines, whose locks and flushes SQLite cannot rely on.
_NETWORK = {"nfs", "nfs4", "cifs", "smbfs", "smb3", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "davfs"}

_DECISION_OF_UNIT = "where d.experiment = ? and d.unit = l.value"

_TYPES = {"ID": "integer primary key", "BYTES": "blob", "REAL": "real"}


class SQLiteSession(Session):
    """A transaction of a SQLite connection; its number is counted in the file itself."""

    def __init__(self, connection: sqlite3.Connection, clock: TimeSource) -> None:
        self._run = connection
        self.now = clock()

    def begin(self, *, writes: bool) -> None:
        """Number the transaction; everything below it is committed, because one writes at a time."""
        if writes:
            rows = self.run("update meta set value = value + 1 where key = 'transaction' returning value")
            self.transaction = int(rows[0][0])
            self.watermark = self.transaction << PLACES
        else:
            rows = self.run("select value from meta where key = 'transaction'")
            self.transaction, self.watermark = -1, (int(rows[0][0]) + 1) << PLACES

    def run(self, statement: str, *values: object) -> list[Row]:
        """Run a statement with `?` for each value and `in (?*)` for a list; return its rows."""
        bound = [json.dumps(value) if isinstance(value, list) else value for value in values]
        return self._run.execute(_translated(statement), bound).fetchall()

    def find_decisions(self, experiment: int, units: list[str], columns: str, *, hold: bool = False) -> list[Row]:
        """Return, for each unit with a decision, its position and columns; a cross join keeps its order.

        Whoever writes holds everything.
        """
        statement = f"select l.key, {columns} from json_each(?) l cross join decision d " + _DECISION_OF_UNIT
        return self._run.execute(statement, (json.dumps(units), experiment)).fetchall()

    def add(self, table: str, rows: Sequence[Row], *, unless: str | None = None) -> int:
        """Insert rows, many by one statement: that is quicker than one by one, and others can run meanwhile."""
        before, place = self._run.total_changes, 0
        for size in _GROUP_SIZES:
            statement = _insert(table, size, unless)
            while len(rows) - place >= size:
                self._run.execute(statement, list(chain.from_iterable(rows[place : place + size])))
                place += size
        return self._run.total_changes - before

    def own_types(self, statement: str) -> str:
        """Return a statement with SQLite's types."""
        return typed(statement, _TYPES)


def typed(statement: str, types: dict[str, str]) -> str:
    """Return a statement with an engine's types in place of ID, BYTES and REAL."""
    for word, own in types.items():
        statement = statement.replace(f" {word},", f" {own},").replace(f" {word} ", f" {own} ")
    return statement


@lru_cache(maxsize=256)
def _translated(statement: str) -> str:
    return statement.replace("in (?*)", "in (select value from json_each(?))")


#: How many rows a statement inserts. Every statement lets other threads run, and waits for its turn to go on, so that
#: a group has few; and there are few numbers, so that SQLite has prepared them all after a while.
_GROUP_SIZES = (256, 128, 64, 48, 32, 24, *range(16, 0, -1))


@lru_cache(maxsize=64)
def _insert(table: str, rows: int, unless: str | None) -> str:
    columns = COLUMNS[table]
    places = f"({', '.join('?' * len(columns))})"
    end = "" if unless is None else f" on conflict ({unless}) do nothing"
    return f"insert into {table} ({', '.join(columns)}) values {', '.join([places] * rows)}{end}"


class SQLiteStorage(Storage):
    """A store in a file: write-ahead log, flushed at every commit; readable and writable by its owner only.

    Parameters
    ----------
    path : path
    clock : callable, optional
        The time in microseconds; by default this machine's.
    make : bool
        Whether to make the file if there is none.
    upgrade : bool
        Whether to upgrade an older schema; otherwise it is refused.
    """

    def __init__(
        self, path: str | os.PathLike[str], clock: TimeSource | None = None, *, make: bool = True, upgrade: bool = False
    ) -> None:
        self.path, self.clock = Path(path), clock
        self.name = f"`{one_line(self.path.name or self.path)}`"
        _check_place(self.path, self.name, make=make)
        self._locks = {True: threading.RLock(), False: threading.RLock()}
        self._known: dict[tuple[int, int], Served] = {}
        with _sentences(self.name):
            self._connections = {writes: self._connect(writes=writes) for writes in (True, False)}
        self._real = os.path.realpath(self.path)  # as SQLite has it, whatever folder this process goes to
        self._file = _file_at(self._real)
        try:
            self._prepare(upgrade=upgrade)
        except BaseException:
            self.close()
            raise

    def _connect(self, *, writes: bool) -> sqlite3.Connection:
        path = os.path.abspath(self.path)  # SQLite takes `:memory:` and `file:...` for something else
        connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("pragma synchronous = full")
            connection.execute("pragma secure_delete = on")
            connection.execute("pragma trusted_schema = off")
            if not writes:
                connection.execute("pragma query_only = on")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, *, upgrade: bool) -> None:
        """Make the tables if there are none; check that they are of the present schema."""
        connection = self._connections[True]
        with _sentences(self.name):
            (application,) = connection.execute("pragma application_id").fetchone()
            tables = connection.execute("select count(*) from sqlite_master").fetchone()[0]
            if application != APPLICATION and tables:
                raise StorageError(f"{self.name} is a SQLite database, but not one of live experiments.")
            if has_programs(lambda statement: connection.execute(statement).fetchall()):
                raise StorageError(f"{self.name} has views or triggers, which no store has; do not trust it.")
            if application != APPLICATION:  # before the write-ahead log: the file's own header must have it
                connection.execute(f"pragma application_id = {APPLICATION}")
            if connection.execute("pragma journal_mode = wal").fetchone()[0] != "wal":
                raise StorageError(f"{self.name} cannot have a write-ahead log there; put it on a local disk.")
            session = SQLiteSession(connection, system_clock)
            if tables and not upgrade:
                check_schema(schema_of(session), self.name)
                return
            with _transaction(connection, "begin immediate"):
                session.run(META)
                session.run("insert into meta (key, value) values ('transaction', '0') on conflict do nothing")
                migrate(session, self.name)

    def _check_in_place(self) -> None:
        """Raise if the file is not where it was opened: its write-ahead log stays there, and others would miss it."""
        if _file_at(self._real) != self._file:
            raise StorageError(
                f"{self.name} was moved, replaced or removed while it was open; put it back, because what was stored "
                "last lies beside its old place."
            )

    @contextmanager
    def _session(self, begin: str, *, writes: bool) -> Iterator[Session]:
        self.check_own()
        with self._locks[writes], _sentences(self.name):
            connection = self._connections[writes]
            with _transaction(connection, begin):
                if writes:
                    self._check_in_place()
                session = SQLiteSession(connection, self.clock or system_clock)
                session.known = self._known
                session.begin(writes=writes)
                yield session

    def writing(self, experiments: Collection[str] = ()) -> AbstractContextManager[Session]:
        """Return a transaction that writes; others wait for it."""
        return self._session("begin immediate", writes=True)

    def reading(self) -> AbstractContextManager[Session]:
        """Return a transaction that sees one state of the file."""
        return self._session("begin", writes=False)

    def relax(self) -> None:
        """Do not wait for the disk."""
        with self._locks[True]:
            self._connections[True].execute("pragma synchronous = off")

    def flush_erased(self) -> None:
        """Empty the write-ahead log, which may hold what was erased; as soon as no reader needs it."""
        with self._locks[True], _sentences(self.name):
            self._connections[True].execute("pragma wal_checkpoint(truncate)").fetchall()

    def copy_to(self, path: Path) -> None:
        """Copy one state of the store to a new file, while it is written to."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        target = sqlite3.connect(os.path.abspath(path), isolation_level=None)
        try:
            with self._locks[False], _sentences(self.name):
                self._connections[False].backup(target)
            target.execute("pragma journal_mode = delete")  # one file, nothing beside it
        finally:
            target.close()

    def close(self) -> None:
        """Close both connections."""
        for writes, connection in self._connections.items():
            with self._locks[writes], suppress(sqlite3.Error):
                connection.close()


def _file_at(path: str) -> tuple[int, int] | None:
    """Return what tells a file from every other one, wherever it is moved; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("rollback")
        raise


@contextmanager
def _sentences(name: str) -> Iterator[None]:
    """Turn errors of SQLite, and errors from invalid values in it, into one sentence."""
    try:
        with unharmed(name):
            yield
    except sqlite3.Error as error:
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if not code:  # text that is not UTF-8, which its message would show; or a closed connection
            damaged = isinstance(error, sqlite3.OperationalError)
            code = sqlite3.SQLITE_CORRUPT if damaged else sqlite3.SQLITE_MISUSE
        words = _ERROR_WORDS.get(code, f"SQLite says: {one_line(error, 200)}")
        kind = DamagedError if code == sqlite3.SQLITE_CORRUPT else StorageError
        raise kind(f"{name} cannot be used now: {words}.") from None


_ERROR_WORDS = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space and ask again",
    sqlite3.SQLITE_BUSY: f"another process has been writing for {_PATIENCE} seconds; ask again",
    sqlite3.SQLITE_LOCKED: "another process holds it; ask again",
    sqlite3.SQLITE_READONLY: "it is read-only; make it writable for this user",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; its folder must exist and be writable for this user",
    sqlite3.SQLITE_IOERR: "the disk reports an error; check it before you ask again",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore a backup with `belated live restore`",
    sqlite3.SQLITE_NOTADB: "it is not a SQLite database",
    sqlite3.SQLITE_MISUSE: "it is closed; open it again",
}


def _check_place(path: Path, name: str, *, make: bool) -> None:
    """Raise unless a store can be at a path; make an empty file that only its owner can read."""
    check_file(path)
    if path.is_dir():
        raise StorageError(f"{name} is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise StorageError(f"{name} cannot be made: there is no folder `{one_line(path.parent, 200)}`.")
    kind = file_system(path.resolve().parent, _mounts())  # of the file itself, also through links
    if kind in _NETWORK:
        raise StorageError(
            f"{name} is on a network file system ({kind}), where locks cannot be relied on; put it on a local disk, or "
            "use PostgreSQL."
        )
    if not path.exists():
        if not make:
            raise StorageError(f"There is no file {name}; make an experiment first with `belated live create`.")
        with suppress(FileExistsError), _refusals(name):
            os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))  # also behind a link
    elif not os.access(path, os.R_OK | os.W_OK):
        raise StorageError(f"{name} is read-only or not this user's; make it readable and writable for this user.")
    elif path.stat().st_size == 0:  # an empty file becomes a store
        with _refusals(name):
            path.chmod(0o600)
    elif not is_sqlite(path):
        raise StorageError(f"{name} is not a store of live experiments; choose another file.")


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise StorageError(f"{name} cannot be made: {error.strerror}.") from None


def _mounts(read: Callable[[], str] = lambda: Path("/proc/mounts").read_text(encoding="utf-8")) -> str:
    try:
        return read()
    except (OSError, UnicodeDecodeError):  # not Linux
        return ""


def file_system(path: Path, mounts: str) -> str | None:
    """Return the kind of file system that a path is on, from the text of /proc/mounts; None if it is not known."""
    nearest: tuple[int, str] | None = None
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) > 2:
            place = Path(fields[1].replace("\\040", " "))
            if path.is_relative_to(place) and (nearest is None or len(place.parts) >= nearest[0]):
                nearest = len(place.parts), fields[2]
    return None if nearest is None else nearest[1]
