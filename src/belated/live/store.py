"""`Store`: live experiments in a file or a database."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

from belated.base.checks import whole
from belated.base.documents import json_rows, json_text
from belated.base.errors import BelatedError, OptionError, argument
from belated.base.tables import Column, Table
from belated.base.text import count, one_line, shown
from belated.live import changing, keeping
from belated.live.asking import UnitAsked
from belated.live.creating import plan_creation
from belated.live.design import snapshot
from belated.live.errors import StorageError
from belated.live.experiment import Experiment
from belated.live.outcomes import Outcome
from belated.live.records import Decision, State, Tell, Told, Version
from belated.live.sqlite import SQLiteStorage
from belated.live.storage import Session, Storage, TimeSource
from belated.live.ticking import Ticker, tick
from belated.live.verifying import Verification, verify
from belated.live.writer import CallKind, Item, Load, Writer
from belated.simulation.policies import Policy, PolicyFunction

if TYPE_CHECKING:
    from belated.sequences.design import KindOption


def open_storage(place: str | os.PathLike[str], clock: TimeSource | None = None, **options: bool) -> Storage:
    """Return the storage of a path or a URL."""
    text = read_place(place)
    if text.startswith(("postgresql://", "postgres://")):
        from belated.live.postgres import PostgresStorage

        return PostgresStorage(text, clock, **options)
    if "://" in text:
        scheme = one_line(text.partition("://")[0])
        raise OptionError(f"{argument('place')} is a URL of {scheme}; it must be a file, or begin with postgresql://.")
    try:
        return SQLiteStorage(text, clock, **options)
    except OSError as error:
        raise StorageError(f"`{one_line(text, 200)}` cannot be opened: {error.strerror}.") from None


def read_place(place: object) -> str:
    """Return a path or a URL as text."""
    if not isinstance(place, (str, bytes, os.PathLike)):
        raise OptionError(f"{argument('place')} is of type {type(place).__name__}; it must be a path or a URL.")
    text = os.fsdecode(place)
    if not text or "\x00" in text:
        raise OptionError(f"{argument('place')} is {shown(text)}; it must be the name of a file, or a URL.")
    return text


def open_store(
    place: str | os.PathLike[str],
    *,
    make: bool = True,
    ticking: bool = True,
    clock: TimeSource | None = None,
    limit: int | None = None,
) -> Store:
    """Open a store that is a file or a PostgreSQL database, as `bl.live.open` does, which has the parameters."""
    most = None if limit is None else whole("limit", limit, least=1)
    return Store(open_storage(place, clock, make=make), ticking=ticking, limit=most)


class Store:
    """Live experiments in one place; `bl.live.open` gives it. It may be used by any number of threads and event loops.

    Close it, or use it in a `with` statement.
    """

    def __init__(self, storage: Storage, *, ticking: bool = True, limit: int | None = None) -> None:
        self.storage = storage
        self._functions: dict[int, PolicyFunction] = {}
        self._ticker = Ticker(self.tick) if ticking else None
        self._writer = Writer(storage, self._committed, limit)
        self._open = True

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.storage.name})"

    def close(self) -> None:
        """Finish what is queued, and close the connections; in a forked process, leave those of its parent open."""
        if self._open and not self.storage.is_own:
            self._open = False
        if self._open:
            self._open = False
            self._writer.close()
            if self._ticker is not None:
                self._ticker.close()
            self.storage.close()

    # ---------------------------------------------------------------- experiments

    def create(  # noqa: PLR0913
        self,
        name: str,
        *,
        arms: Sequence[str],
        policy: Policy,
        outcome: Outcome,
        segments: Sequence[str] | None = None,
        baseline: str | None = None,
        planned_rows: int = 10_000,
        level: float = 0.95,
        kind: KindOption | None = None,
        target: int | None = None,
        every: int | None = None,
        seconds: float = 2.0,
        author: str | None = None,
        reason: str = "",
    ) -> Experiment:
        """Create an experiment; it takes units after `Experiment.start`.

        Parameters
        ----------
        name : str
        arms : sequence of str
        policy : Policy
            One of `bl.policies`; more can be set later.
        outcome : Outcome
            Such as ``bl.live.binary()``. The outcome, level, baseline, kind and target cannot be changed later.
        segments : sequence of str, optional
            The segments, such as countries; every unit has one, and more can be added later. The policy then learns
            separately in each, unless it is ``policy.pooled()``, and answers are over all segments and in each.
        baseline : str, optional
            The arm with which the others are compared.
        planned_rows : int
            The planned number of units. A burn-in below 1 is a share of it.
        level : float
            The level of all intervals.
        kind : str, optional
            The kind of the confidence sequence, as in `bl.sequence`; by default it follows from the outcome.
        target : int, optional
            The number of units at which the sequence is narrowest; by default `planned_rows`.
        every : int, optional
            The number of rows after which a policy version is made; by default 0.2 % of the planned rows.
        seconds : float
            The number of seconds after which a version is made if there is anything new.
        author, reason : str, optional
            For the audit; the author is this user by default.

        Returns
        -------
        Experiment
        """
        planned = plan_creation(
            name, arms=arms, policy=policy, outcome=outcome, segments=segments, baseline=baseline,
            planned_rows=planned_rows, level=level, kind=kind, target=target, every=every, seconds=seconds,
            author=author, reason=reason,
        )  # fmt: skip
        with self.storage.writing() as session:
            planned.add(session)
        return self.experiment(name, policy=policy)

    def experiment(self, name: str, *, policy: Policy | None = None) -> Experiment:
        """Return an experiment of the store.

        Parameters
        ----------
        name : str
        policy : Policy, optional
            The policy, if it is a Python function: functions are not stored, so every process that ticks must give it.
        """
        with self.storage.reading() as session:
            about = snapshot(session, name)
        if policy is not None and policy.function is not None:
            self._functions[about.id] = policy.function
        if self._ticker is not None and about.state in ("draft", "running"):
            self._ticker.follow(name, about.setup)
        return Experiment(self, about)

    def experiments(self) -> Experiments:
        """Return the names and states of all experiments; prints as a table."""
        with self.storage.reading() as session:
            names = [row[0] for row in session.run("select name from experiment order by id")]
            snapshots = [snapshot(session, name) for name in names]
        return Experiments(
            names,
            [about.state for about in snapshots],
            [len(about.arms) for about in snapshots],
            [0 if about.version is None else about.version.step - 1 for about in snapshots],
        )

    def import_table(
        self, name: str, source: object, *, policy: Policy, outcome: Outcome, **options: Any
    ) -> Experiment:
        """Continue a running experiment from a table that has every arm's probability in each row.

        Parameters
        ----------
        name : str
        source : path, dataframe or Ibis table
            What `bl.read` reads.
        policy : Policy
            The policy from now on.
        outcome : Outcome
            Any kind but events, whose table has another form.
        **options
            - `unit`, the column of the units, so that they keep their arms; by default they are "row-0", "row-1" and so
              on, and cannot be asked for again.
            - `segment`, the column of their segments; several columns give their combinations. The experiment has the
              segments that occur in the table.
            - `outcome_column`, the column of the outcome, and other options of `bl.read`.
            - `baseline`, `planned_rows`, `level`, `kind`, `target`, `every`, `seconds`, `author` and `reason`, as in
              `create`; `planned_rows` is twice the rows of the table by default.
        """
        from belated.live.importing import import_log

        return import_log(self, name, source, policy=policy, outcome=outcome, **options)

    # ---------------------------------------------------------------- keeping

    def verify(self) -> Verification:
        """Draw every decision again, compute every version again, and check every rule of the logs."""
        with self.storage.reading() as session:
            return verify(session, self.find_policy)

    def backup(self, path: str | os.PathLike[str]) -> Path:
        """Copy a consistent state of the store to a new file while it is in use; `restore` makes a store from it."""
        return keeping.backup(self.storage, Path(path))

    def load(self) -> Load:
        """Return how many requests wait, and what the last commits stored and how long they took."""
        return self._writer.load()

    # ---------------------------------------------------------------- for experiments

    @overload
    def submit(self, kind: Literal["ask"], name: str, items: Sequence[UnitAsked]) -> list[Decision | BelatedError]: ...

    @overload
    def submit(self, kind: Literal["tell"], name: str, items: Sequence[Tell]) -> list[Told]: ...

    def submit(self, kind: CallKind, name: str, items: Sequence[Item]) -> Sequence[object]:
        """Store items together with those of other callers; see `Writer`."""
        return self._writer.submit(kind, name, items)

    @overload
    def submit_async(
        self, kind: Literal["ask"], name: str, items: Sequence[UnitAsked]
    ) -> asyncio.Future[list[Decision | BelatedError]]: ...

    @overload
    def submit_async(self, kind: Literal["tell"], name: str, items: Sequence[Tell]) -> asyncio.Future[list[Told]]: ...

    def submit_async(self, kind: CallKind, name: str, items: Sequence[Item]) -> Awaitable[object]:
        """Do the same without a waiting thread; cancelling the caller does not cancel the write."""
        return self._writer.submit_async(kind, name, items)

    @overload
    def submit_one_async(
        self, kind: Literal["ask"], name: str, item: UnitAsked
    ) -> asyncio.Future[Decision | BelatedError]: ...

    @overload
    def submit_one_async(self, kind: Literal["tell"], name: str, item: Tell) -> asyncio.Future[Told]: ...

    def submit_one_async(self, kind: CallKind, name: str, item: Item) -> Awaitable[object]:
        """Do the same for one item; the future's result is that of the item."""
        return self._writer.submit_one_async(kind, name, item)

    def tick(self, name: str) -> Version | None:
        """Make the next policy version if there is anything new; return the current version."""
        return tick(self.storage, name, self.find_policy)

    def tick_if_due(self, name: str) -> None:
        """Make a version if the last one is older than the experiment's `seconds`, for processes that end soon."""
        with self.storage.reading() as session:
            about, now = snapshot(session, name), session.now
        if about.version is not None and now - about.version.made_at > about.setup.seconds * 1e6:
            self.tick(name)

    def find_policy(self, session: Session, experiment: int, rule: int) -> Policy:
        """Return a policy together with the Python function that was given to this process for it."""
        policy = changing.rule_of(session, experiment, rule)
        return replace(policy, function=self._functions.get(experiment)) if policy.name == "own" else policy

    def learn_function(self, experiment: int, policy: Policy) -> None:
        """Keep the Python function of a user's own policy."""
        if policy.function is not None:
            self._functions[experiment] = policy.function

    def _committed(self, name: str, rows: int) -> None:
        if self._ticker is not None:
            self._ticker.note(name, rows)


class Experiments(Table):
    """The experiments of a store; iterates over their names."""

    def __init__(self, names: list[str], states: list[State], arms: list[int], asked: list[int]) -> None:
        self.names, self._values = names, (states, arms, asked)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def to_json(self) -> str:
        """Return the experiments as JSON, as docs/json.md describes it."""
        return json_text("experiments", {"experiments": json_rows(self._unrounded())})

    def _title(self) -> str:
        return count(len(self.names), "experiment")

    def _columns(self) -> list[Column]:
        states, arms, asked = self._values
        return [
            Column("experiment", self.names, "label"),
            Column("state", states, "label"),
            Column("arms", arms, "count"),
            Column("asked_at_last_version", asked, "count"),
        ]
