"""Keeping: backups of a store, their restoration, and upgrades of older stores."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from belated.base.columns import Row
from belated.base.errors import argument
from belated.base.text import one_line
from belated.live import schema
from belated.live.design import Setup
from belated.live.erasing import erased_units, forget_again
from belated.live.errors import DamagedError, StorageError
from belated.live.schema import COLUMNS, TABLES
from belated.live.sqlite import SQLiteSession, SQLiteStorage
from belated.live.storage import Session, Storage
from belated.reading.contents import APPLICATION

#: Rows that are copied at a time.
_BATCH = 50_000

_Erased = dict[str, dict[bytes, int]]
_Rows = list[Row]


def backup(storage: Storage, path: Path) -> Path:
    """Copy one state of a store to a new file."""
    with new_backup(path) as beside:
        if isinstance(storage, SQLiteStorage):
            storage.copy_to(beside)
        else:
            target = SQLiteStorage(beside)
            try:
                with storage.reading() as old, target.writing() as new:
                    _copy(old, new)
                target.flush_erased()
            finally:
                target.close()
    return path


@contextmanager
def new_backup(path: Path) -> Iterator[Path]:
    """Give the name of a file that becomes the backup when it is complete; a failure leaves nothing."""
    if path.exists():
        raise StorageError(f"`{one_line(path, 200)}` is already there; give a backup a new name.")
    with _replacing(path) as beside:
        yield beside


def check_copy(path: Path) -> None:
    """Raise unless a file that was sent is a store, and whole."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as connection:
            whole = connection.execute("pragma application_id").fetchone() == (APPLICATION,)
            connection.execute("select count(*) from sqlite_master")  # fails if pages are missing
    except sqlite3.DatabaseError:
        whole = False
    if not whole:
        raise StorageError(
            "What the service sent is not a whole store; check that the address is that of a belated service, and copy "
            "it again."
        )


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give the name of a file that takes the place of another at the end, also behind a link.

    A failure leaves nothing.
    """
    real = Path(os.path.realpath(path))
    beside = real.with_name(f".{real.name}.{secrets.token_hex(4)}")
    try:
        yield beside
        os.replace(beside, real)
    except OSError as error:
        raise StorageError(f"`{one_line(path, 200)}` cannot be made: {error.strerror}.") from None
    finally:
        _remove(beside)


def restore(backup: str | os.PathLike[str], place: str | os.PathLike[str], *, replace: bool = False) -> int:
    """Make a store from a backup; units that were erased since in the store at that place are erased again.

    Parameters
    ----------
    backup : path
        A file that `Store.backup` made, of a store in a file or a database.
    place : path or URL
        The place of the new store.
    replace : bool
        Whether to replace a store at that place, which no process may be using. The units that were erased from it are
        erased again if it can still be read.

    Returns
    -------
    int
        The number of units that were erased again.
    """
    from belated.live.store import open_storage

    text = os.fspath(place)
    is_url = "://" in text
    if not is_url and _is_same(Path(backup), Path(text)):
        raise StorageError(f"`{one_line(text, 200)}` is the backup itself; give the place of the store.")
    if not Path(backup).exists():
        raise StorageError(f"There is no backup `{one_line(backup, 200)}`.")
    with _writable(Path(backup)) as path:
        source = SQLiteStorage(path, make=False)
        try:
            if is_url:
                return _restore_database(source, open_storage(text), replace=replace)
            return _restore_file(source, Path(text), replace=replace)
        finally:
            source.close()


def _is_same(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


@contextmanager
def _writable(backup: Path) -> Iterator[Path]:
    """Give a backup, or a copy of one that is read-only: SQLite keeps files beside what it opens."""
    if not backup.is_file() or (os.access(backup, os.W_OK) and os.access(backup.absolute().parent, os.W_OK)):
        yield backup
        return
    with tempfile.TemporaryDirectory(prefix="belated-") as folder:
        copy = Path(folder, backup.name)
        try:
            for suffix in ("", "-wal"):
                part = backup.with_name(backup.name + suffix)
                if part.exists():
                    shutil.copyfile(part, copy.with_name(copy.name + suffix))
        except OSError as error:
            raise StorageError(f"`{one_line(backup, 200)}` cannot be read: {error.strerror}.") from None
        yield copy


def _restore_file(source: SQLiteStorage, path: Path, *, replace: bool) -> int:
    erased: _Erased = {}
    tokens: _Rows | None = None
    if path.exists():
        if not replace:
            raise StorageError(f"`{one_line(path, 200)}` exists already; to replace it, use {argument('replace')}.")
        erased, tokens = _handed_on(path)
    with _replacing(path) as beside:
        source.copy_to(beside)
        target = SQLiteStorage(beside)
        try:
            with target.writing() as session:
                forgotten = _forget(session, erased)
                _keep_tokens(session, tokens)
                _keep_order(session)
            target.flush_erased()
        finally:
            target.close()
        if path.exists():
            _check_unused(path)
    return forgotten


def _handed_on(path: Path) -> tuple[_Erased, _Rows]:
    """Return the list of erased units of a store that is to be replaced, and its tokens."""
    try:
        before = SQLiteStorage(path, make=False)
        try:
            with before.reading() as session:
                return erased_units(session), _tokens(session)
        finally:
            before.close()
    except DamagedError:
        raise DamagedError(
            f"`{one_line(path, 200)}` is damaged, and its list of erased units with it; move it away, restore, and "
            "erase again who was erased since the backup."
        ) from None


def _check_unused(path: Path) -> None:
    """Raise if another process has the store open: its later rows would be lost. Empties the write-ahead log."""
    with closing(sqlite3.connect(os.path.abspath(path), timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("pragma journal_mode = delete")
        except sqlite3.OperationalError:
            raise StorageError(
                f"`{one_line(path, 200)}` is open in this or another process; close it, and restore again."
            ) from None


def _restore_database(source: SQLiteStorage, target: Storage, *, replace: bool) -> int:
    from belated.live.postgres import PostgresStorage

    assert isinstance(target, PostgresStorage)  # noqa: S101 - a URL of another engine is refused before
    try:
        with source.reading() as old, target.writing() as new:  # as a whole: what was erased is never there again
            erased, occupied = erased_units(new), new.run("select 1 from experiment limit 1")
            if occupied and not replace:
                raise StorageError(
                    f"The database has live experiments already; to replace them, use {argument('replace')}."
                )
            tokens = _tokens(new) if occupied else None
            _copy(old, new)
            _keep_tokens(new, tokens)
            forgotten = _forget(new, erased)
        target.keep_order()
        return forgotten
    finally:
        target.close()


def _forget(session: Session, erased: _Erased) -> int:
    """Erase the listed units again, and keep the list."""
    forgotten = forget_again(session, erased)
    for name, digests in erased.items():
        for (key,) in session.run("select id from experiment where name = ?", name):
            for digest, at in digests.items():
                session.run(
                    "insert into erasure (experiment, digest, erased_at) values (?, ?, ?) on conflict (experiment, "
                    "digest) do update set erased_at = excluded.erased_at where erasure.erased_at < excluded.erased_at",
                    key, digest, at,
                )  # fmt: skip
    return forgotten


def _tokens(session: Session) -> _Rows:
    return session.run(f"select {', '.join(COLUMNS['token'])} from token")


def _keep_tokens(session: Session, tokens: _Rows | None) -> None:
    """Give a restored store the tokens of the store that it replaces, so that revoked tokens stay revoked."""
    if tokens is None:
        return
    experiments = {key for (key,) in session.run("select id from experiment")}
    place = COLUMNS["token"].index("experiment")
    session.run("delete from token")
    session.add("token", [row for row in tokens if row[place] is None or row[place] in experiments])


# ---------------------------------------------------------------- copies between engines


def _copy(old: Session, new: Session) -> None:
    """Copy every table; numbers of rows stay, and new ones will be above them."""
    for table in reversed(TABLES):
        new.run("delete from " + table)
    for table in TABLES:
        for rows in _batches(old, table):
            new.add(table, rows)
    if any(Setup.from_json(about).outcome.is_events for (about,) in new.run("select about from experiment")):
        new.run(schema.BY_TIME)
    if isinstance(new, SQLiteSession):
        _keep_order(new)


def _keep_order(session: Session) -> None:
    """Number new rows of a file above all existing rows, and above the watermark of every version."""
    session.run(
        "update meta set value = max(cast(value as integer), ?) where key = 'transaction'",
        schema.next_transaction(session) - 1,
    )


def _batches(session: Session, table: str) -> Iterator[list[Row]]:
    columns = ", ".join(COLUMNS[table])
    if COLUMNS[table][0] != "id":
        rows = session.run(f"select {columns} from {table}")
        if rows:
            yield rows
        return
    last = -1
    while True:
        rows = session.run(f"select {columns} from {table} where id > ? order by id limit ?", last, _BATCH)
        if not rows:
            return
        yield rows
        last = rows[-1][0]


# ---------------------------------------------------------------- upgrades


def migrate(place: str | os.PathLike[str]) -> int:
    """Upgrade a store of an older version of this library; return the number of its schema.

    If several processes call it, one of them upgrades the store, in one transaction.
    """
    from belated.live.store import open_storage

    open_storage(place, make=False, upgrade=True).close()
    return len(schema.MIGRATIONS)


def _remove_logs(path: Path) -> None:
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()


def _remove(path: Path) -> None:
    _remove_logs(path)
    with suppress(FileNotFoundError):
        path.unlink()
