"""`Machine`: how busy the store and this process are."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from belated.live.design import snapshot
from belated.live.sqlite import SQLiteStorage
from belated.reading.live_logs import SCHEMA

if TYPE_CHECKING:
    from belated.live.storage import Session
    from belated.live.store import Store
    from belated.live.writer import Load


@dataclass(frozen=True)
class Lag:
    """How far the policy of a running experiment is behind: rows that it has not seen, and their age in seconds."""

    name: str
    rows: int
    seconds: float
    every: float


@dataclass(frozen=True)
class Machine:
    """How many requests wait for a store, and what it stored.

    Attributes
    ----------
    load : Load
    median, slowest : float or None
        Seconds of the last commits.
    size : int
        Bytes of the store.
    engine : str
    lags : list of Lag
    """

    load: Load
    median: float | None
    slowest: float | None
    size: int
    engine: str
    lags: list[Lag]

    @property
    def size_text(self) -> str:
        """The size in a readable unit."""
        size, units = float(self.size), ("bytes", "kB", "MB", "GB", "TB")
        step = 0
        while size >= 1000 and step < len(units) - 1:
            size, step = size / 1000, step + 1
        return f"{size:.3g} {units[step]}" if step else f"{self.size} bytes"


def read_machine(store: Store, names: list[str]) -> Machine:
    """Read how busy a store is; `names` are the experiments whose ticks are looked at."""
    load = store.load()
    seconds = [commit.seconds for commit in load.recent]
    with store.storage.reading() as session:
        lags = [_lag(session, name) for name in names]
        size, engine = _size(store, session)
    return Machine(
        load=load,
        median=statistics.median(seconds) if seconds else None,
        slowest=max(seconds, default=None),
        size=size,
        engine=engine,
        lags=[lag for lag in lags if lag is not None],
    )


def _lag(session: Session, name: str) -> Lag | None:
    about = snapshot(session, name)
    if about.state != "running" or about.version is None:
        return None
    mark = about.version.watermark
    asked = session.run(
        "select count(*), min(assigned_at) from decision where +experiment = ? and id >= ?", about.id, mark
    )
    told = session.run("select count(*), min(arrived_at) from outcome where experiment = ? and id >= ?", about.id, mark)
    rows = asked[0][0] + told[0][0]
    first = min((at for _, at in (*asked, *told) if at is not None), default=session.now)
    return Lag(name, rows, max(session.now - first, 0) / 1e6, about.setup.seconds)


def _size(store: Store, session: Session) -> tuple[int, str]:
    storage = store.storage
    if isinstance(storage, SQLiteStorage):
        beside = (storage.path.with_name(storage.path.name + suffix) for suffix in ("", "-wal"))
        return sum(path.stat().st_size for path in beside if path.exists()), "SQLite"
    rows = session.run(
        "select coalesce(sum(pg_total_relation_size(c.oid)), 0) from pg_class c join pg_namespace n "
        "on n.oid = c.relnamespace where n.nspname = ? and c.relkind = 'r'",
        SCHEMA,
    )
    return int(rows[0][0]), "PostgreSQL"
