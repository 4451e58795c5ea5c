"""Logs of live experiments: their rows as columns, read from a SQLite file or a PostgreSQL database.

The tables are those of `belated.live`; this module knows only how a log is read from them.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from belated.base.checks import Options
from belated.base.columns import Array, Row
from belated.base.documents import JsonObject
from belated.base.errors import BelatedError, LogError, OptionError, argument
from belated.base.text import count, one_line
from belated.log.clock import NEVER
from belated.log.segments import SegmentColumn, in_order
from belated.reading.columns import some

if TYPE_CHECKING:
    import pyarrow as pa

#: The schema of the tables in PostgreSQL.
SCHEMA = "belated_live"

#: Places for rows in one transaction, as a power of 2: rows are numbered by transaction, then by place.
PLACES = 24

#: Runs a statement with `?` for each value, and gives its rows.
Run = Callable[..., list[Row]]


def has_programs(run: Run) -> bool:
    """Whether a file has views or triggers: statements of whoever made it, which its readers would run."""
    return bool(run("select 1 from sqlite_master where type in ('view', 'trigger') limit 1"))


# ---------------------------------------------------------------- rows

#: Stores that are older than segments have no column of them, nor an experiment that needs it.
_FROM_DECISIONS = "from decision where +experiment = ? and id >= ? and id < ? order by id"
_DECISIONS = f"select id, arm, version, assigned_at {_FROM_DECISIONS}"
_DECISIONS_BY_SEGMENT = f"select id, arm, version, assigned_at, segment {_FROM_DECISIONS}"
#: The last number is that of the revision before, if there is one.
_OUTCOMES = (
    "select decision, key, revision, value, happened_at, arrived_at, case when revision > 0 then (select max(b.id) "
    "from outcome b where b.decision = o.decision and b.key = o.key and b.revision < o.revision) end from outcome o "
    "where experiment = ? and id >= ? and id < ? order by id"
)
_FROM_VERSIONS = "from version where experiment = ? and number > ? order by number"
_VERSIONS = f"select probabilities {_FROM_VERSIONS}"
_VERSIONS_BY_SEGMENT = f"select probabilities, steps {_FROM_VERSIONS}"


def _whole() -> Array:
    return np.empty(0, np.int64)


@dataclass
class LiveRows:
    """The rows of an experiment below a watermark; `extend` adds those up to a later one.

    Attributes
    ----------
    key, arm, version, assigned : array of int
        Of each decision, in the order of their numbers; times are in microseconds.
    segment : array of int
        The number of each decision's segment; empty if units have none.
    outcome : array of float
        The latest value, NaN if none has arrived.
    arrived : array of int
        When the first value arrived; `NEVER` if none has.
    events : list of tuple
        The outcomes of an experiment whose outcomes are events: decision, key, revision, value, happened, arrived.
    corrected : int
        How many outcomes were corrected.
    chances : list of array of shape (segments, arms)
        The probabilities of each version; one row without segments.
    held : list of tuple
        Outcomes below the watermark whose decision, or whose revision before, is not: their transaction began first.
    """

    key: Array = field(default_factory=_whole)
    arm: Array = field(default_factory=_whole)
    version: Array = field(default_factory=_whole)
    assigned: Array = field(default_factory=_whole)
    segment: Array = field(default_factory=_whole)
    outcome: Array = field(default_factory=lambda: np.empty(0))
    arrived: Array = field(default_factory=_whole)
    events: list[Row] = field(default_factory=list)
    corrected: int = 0
    chances: list[Array] = field(default_factory=list)
    watermark: int = 0
    held: list[Row] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.key)

    def extend(self, run: Run, experiment: int, watermark: int, *, events: bool, segmented: bool = False) -> bool:
        """Add the rows up to a watermark; return whether there were any."""
        bounds = (experiment, self.watermark, watermark)
        decided = run(_DECISIONS_BY_SEGMENT if segmented else _DECISIONS, *bounds)
        told = [*self.held, *run(_OUTCOMES, *bounds)]
        outcomes = [row for row in told if row[0] < watermark and (row[6] or 0) < watermark]
        self.held = [row for row in told if row[0] >= watermark or (row[6] or 0) >= watermark]
        outcomes.sort(key=itemgetter(2))  # a correction may be of a transaction that began before that of the first
        more = run(_VERSIONS_BY_SEGMENT if segmented else _VERSIONS, experiment, len(self.chances))
        self.chances += [_rows(*map(json.loads, row)) for row in more]
        if decided:
            self._decide(np.array(decided, np.int64).T)
        self.corrected += sum(row[2] == 1 for row in outcomes)
        if events:
            self.events += [row[:6] for row in outcomes]
        elif outcomes:
            self._tell(outcomes)
        self.watermark = watermark
        return bool(decided or outcomes)

    def _decide(self, new: Array) -> None:
        """Add decisions, given as columns: key, arm, version, time and, with segments, the segment."""
        known = (self.key, self.arm, self.version, self.assigned)
        self.key, self.arm, self.version, self.assigned = map(np.concatenate, zip(known, new[:4], strict=True))
        if len(new) > 4:
            self.segment = np.concatenate([self.segment, new[4]])
        self.outcome = np.concatenate([self.outcome, np.full(new.shape[1], np.nan)])
        self.arrived = np.concatenate([self.arrived, np.full(new.shape[1], NEVER)])

    def _tell(self, outcomes: list[Row]) -> None:
        decision, _, revision, value, _, arrived, _ = zip(*outcomes, strict=True)
        place = np.searchsorted(self.key, np.array(decision, np.int64))
        self.outcome, self.arrived = self.outcome.copy(), self.arrived.copy()  # earlier logs keep their arrays
        self.outcome[place] = value  # of several revisions, the last one stays
        first = np.array(revision) == 0
        self.arrived[place[first]] = np.array(arrived, np.int64)[first]

    def propensity(self, arms: int) -> Array:
        """Return the probability of every arm in each row; 0 where it was not offered."""
        segments = max((len(p) for p in self.chances), default=1)
        table = np.zeros((len(self.chances), segments, arms))
        for place, p in zip(table, self.chances, strict=True):
            place[: len(p), : p.shape[1]] = p
        return np.asarray(table[self.version - 1, self.segment if len(self.segment) else 0])

    def segments(self, labels: Sequence[str]) -> SegmentColumn | None:
        """Return the segment of each row as logs have it: sorted labels of those that there are; None without."""
        if not len(self.segment):
            return None
        present = np.flatnonzero(np.bincount(self.segment, minlength=len(labels))).tolist()
        names = tuple(in_order([labels[s] for s in present]))
        place = np.zeros(len(labels), np.int32)
        place[present] = [names.index(labels[s]) for s in present]
        return SegmentColumn(names, place[self.segment])


def taken_until(run: Run, experiment: int, now: int) -> int:
    """Return until when events were taken: now, or when the experiment was closed, after which silence is no zero.

    If a clock was set back, it was closed after all that it has.
    """
    ((closed,),) = run("select max(made_at) from change where experiment = ? and what = 'close'", experiment)
    if closed is None:
        return now
    ((assigned,),) = run("select max(assigned_at) from decision where experiment = ?", experiment)
    ((arrived,),) = run("select max(arrived_at) from outcome where experiment = ?", experiment)
    return int(min(now, max(closed, assigned or closed, arrived or closed)))


def _rows(values: list[float], steps: Sequence[int] = ()) -> Array:
    """Return the values of cells as an array of shape (segments, arms)."""
    return np.array(values).reshape(max(len(steps), 1), -1)


# ---------------------------------------------------------------- a log as a table


class NamedFrame(NamedTuple):
    """An Arrow table with a name, and the files that it is from."""

    name: str
    frame: pa.Table
    files: tuple[str, ...] = ()


class LiveLog(NamedTuple):
    """The log of a live experiment, and how `read` is to understand its columns."""

    assignments: NamedFrame
    events: pa.Table | None
    options: Options


def live_log(
    rows: LiveRows,
    name: str,
    labels: list[str],
    about: JsonObject,
    now: int,
    files: tuple[str, ...] = (),
    segments: Sequence[str] = (),
) -> LiveLog:
    """Return the rows of an experiment as tables."""
    import pyarrow as pa

    if not len(rows):
        raise LogError(f"The experiment {one_line(repr(name))} has no decisions yet.")
    p = rows.propensity(len(labels))
    alike = len({label.lower() for label in labels}) == len(labels)  # engines fold the case of names
    columns = [f"p_{label}" if alike else f"p_{k}" for k, label in enumerate(labels)]
    frame = {
        "decision": pa.array(rows.key),
        "arm": pa.array(np.array(labels, object)[rows.arm], pa.string()),
        "assigned_at": _times(rows.assigned),
        **{column: pa.array(p[:, k]) for k, column in enumerate(columns)},
    }
    options: Options = {
        "arm": "arm", "assigned_at": "assigned_at", "arms": labels,
        "propensity": dict(zip(labels, columns, strict=True)),
    }  # fmt: skip
    if segments:
        frame["segment"] = pa.array(np.array(segments, object)[rows.segment], pa.string())
        options["segment"] = "segment"
    outcome = about["outcome"]
    if outcome["kind"] != "events":
        has_arrived = np.isfinite(rows.outcome)
        frame |= {"outcome": pa.array(rows.outcome, mask=~has_arrived), "arrived_at": _times(rows.arrived, has_arrived)}
        options |= {"outcome": "outcome", "arrived_at": "arrived_at"}
        return LiveLog(NamedFrame(name, pa.table(frame), files), None, options)
    options |= {
        "key": "decision", "arrived_at": "happened_at", "outcome": "value", "events": outcome["measure"],
        "window": outcome["window"], "as_of": _moment(now),
    }  # fmt: skip
    return LiveLog(NamedFrame(name, pa.table(frame), files), _latest_events(rows), options)


def _latest_events(rows: LiveRows) -> pa.Table:
    """Return each event's latest value, when it first happened, and its decision; without those of value 0."""
    import pyarrow as pa

    latest: dict[tuple[int, str], tuple[float, int]] = {}
    for decision, key, _, value, happened, arrived in rows.events:
        before = latest.get((decision, key))
        when = (arrived if happened is None else happened) if before is None else before[1]
        latest[decision, key] = value, when
    counted = [(decision, value, when) for (decision, _), (value, when) in latest.items() if value]
    decision, value, when = zip(*counted, strict=True) if counted else ((), (), ())
    return pa.table({
        "decision": pa.array(decision, pa.int64()), "value": pa.array(value, pa.float64()),
        "happened_at": _times(np.array(when, np.int64)),
    })  # fmt: skip


def _times(times: Array, valid: Array | None = None) -> pa.Array:
    import pyarrow as pa

    return pa.array(times.view("datetime64[us]"), pa.timestamp("us"), mask=None if valid is None else ~valid)


def _moment(now: int) -> np.datetime64:
    return np.datetime64(now, "us")


# ---------------------------------------------------------------- where it is


def live_log_of_file(source: str | os.PathLike[str], table: str | None) -> LiveLog:
    """Return an experiment of a file of live experiments; without a name, its only one."""
    path = os.fspath(source)
    with _opened(path) as run:
        transaction = int(run("select value from meta where key = 'transaction'")[0][0])
        return _read(
            run, table, (transaction + 1) << PLACES, time.time_ns() // 1000, one_line(Path(path).name), (path,)
        )


@contextmanager
def _opened(path: str) -> Iterator[Run]:
    uri, name = f"{Path(path).absolute().as_uri()}?mode=ro", one_line(Path(path).name)
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=60)) as connection:
            connection.execute("pragma query_only = on")
            connection.execute("pragma trusted_schema = off")
            connection.execute("begin")

            def run(statement: str, *values: object) -> list[Row]:
                return connection.execute(statement, values).fetchall()

            if has_programs(run):
                raise LogError(f"`{name}` has views or triggers, which no store has; do not trust it.")
            yield run
    except BelatedError:
        raise
    except sqlite3.Error as error:
        why = one_line(error, 200)
        if (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            why = "SQLite keeps files beside it while it is read; make its folder writable, or read a backup"
        raise LogError(f"`{name}` cannot be read: {why}.") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise LogError(f"`{name}` is damaged: a value in it is not of its kind; restore a backup.") from error


def live_log_of_database(url: str, table: str | None) -> LiveLog | None:
    """Return an experiment of a database, unless it has no live experiments or a table of that name."""
    if table is None:
        return None
    try:
        import psycopg
    except ImportError:
        return None
    try:
        connection = psycopg.connect(url, autocommit=True, connect_timeout=15, client_encoding="utf8")
    except psycopg.Error:
        return None  # said, without its password, when the table is looked for
    with connection:
        connection.execute("set default_transaction_read_only = on")

        def run(statement: str, *values: object) -> list[Row]:
            return connection.execute(statement.replace("?", "%s"), values).fetchall()

        try:
            if not run(f"select 1 from {SCHEMA}.experiment where name = ?", table):  # noqa: S608
                return None
        except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
            return None  # there are no live experiments, or none that this user may read
        run("select set_config('search_path', ?, false)", SCHEMA)
        with connection.transaction():
            connection.execute("set transaction isolation level repeatable read")
            ((transaction, now),) = run(
                "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint + (select value::bigint from meta "
                "where key = 'offset'), (extract(epoch from clock_timestamp()) * 1000000)::bigint"
            )
            return _read(run, table, int(transaction) << PLACES, int(now), "the database")


def _read(run: Run, name: str | None, watermark: int, now: int, where: str, files: tuple[str, ...] = ()) -> LiveLog:
    rows = run("select name, id, about from experiment order by id")
    known = {row[0]: row[1:] for row in rows}
    if name is None and len(known) == 1:
        (name,) = known
    if name is None or name not in known:
        held = f"{count(len(known), 'experiment')} ({some(known) or 'none'})"
        raise OptionError(f"`{where}` holds {held}; choose one with {argument('table')}.")
    key, text = known[name]
    about = json.loads(text)
    labels = [row[0] for row in run("select label from arm where experiment = ? order by number", key)]
    segmented = bool(about.get("segmented"))
    segments = run("select label from segment where experiment = ? order by number", key) if segmented else []
    live_rows, is_events = LiveRows(), about["outcome"]["kind"] == "events"
    live_rows.extend(run, key, watermark, events=is_events, segmented=segmented)
    now = taken_until(run, key, now) if is_events else now
    return live_log(live_rows, name, labels, about, now, files, [row[0] for row in segments])
