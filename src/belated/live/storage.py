"""`Storage`: the interface of every storage of experiments, and the contract that every storage keeps."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from belated.base.columns import Row
from belated.live.errors import StorageError
from belated.reading.live_logs import PLACES

if TYPE_CHECKING:
    from belated.live.design import Served

#: A clock: microseconds since 1970 in UTC.
TimeSource = Callable[[], int]


#: The outcome of a unit: the unit, its key, its value, and when it happened.
UnitOutcome = tuple[str, str, float, int | None]


def system_clock() -> int:
    """Return the time of this machine in microseconds."""
    return time.time_ns() // 1000


class Session(ABC):
    """One transaction: statements, a stamp, and numbers for new rows.

    Attributes
    ----------
    now : int
        The storage's time, the same for everything in the transaction, in microseconds.
    watermark : int
        Every row whose number is below it is committed and visible, and none will be added below it.
    """

    now: int
    watermark: int
    transaction: int
    #: What does not change while a version is the latest, by experiment and version; None if this may be undone.
    known: dict[tuple[int, int], Served] | None = None
    #: Rows of `schema.EXPERIMENT` that were read when the transaction began, by name.
    experiments: Mapping[str, Row] = MappingProxyType({})
    _place: int = 0

    @abstractmethod
    def run(self, statement: str, *values: object) -> list[Row]:
        """Run a statement with `?` for each value and `in (?*)` for a list; return its rows."""

    @abstractmethod
    def find_decisions(self, experiment: int, units: list[str], columns: str, *, hold: bool = False) -> list[Row]:
        """Return, for each unit that has a decision, its position among the units, from 0, and columns of table `d`.

        It looks each unit up in the index, even if the engine's statistics say that the experiment has few decisions.
        With `hold`, nobody else can rename these units until the transaction ends, which then has to be written.
        """

    @abstractmethod
    def add(self, table: str, rows: Sequence[Row], *, unless: str | None = None) -> int:
        """Insert rows of all columns of a table, except those whose `unless` columns exist; return how many are new."""

    @abstractmethod
    def own_types(self, statement: str) -> str:
        """Return a statement with the engine's own types for ID, BYTES and REAL."""

    def add_new(self, table: str, rows: Sequence[Row], unless: str) -> set[int]:
        """Insert numbered rows, except those whose columns `unless` exist; return the numbers of the rows left out.

        It waits for other transactions that are inserting the same rows.
        """
        if not rows or self.add(table, rows, unless=unless) == len(rows):
            return set()
        return {row[0] for row in rows} - self._inserted(table, rows[0][0], rows[-1][0])

    def add_first(self, experiment: int, outcomes: Sequence[UnitOutcome]) -> set[int]:
        """Insert first values of outcomes; return the positions, from 0, of those that were not inserted.

        An outcome is left out if it exists already, comes earlier in `outcomes`, or is of a unit without a decision.
        It waits for other transactions that are inserting the same rows.
        """
        decisions = self.find_decisions(experiment, [outcome[0] for outcome in outcomes], "d.id, d.assigned_at")
        decided = sorted((decision, outcomes[place][1], place, at) for place, decision, at in decisions)
        rows, places = [], {}
        for number, (decision, key, place, at) in zip(self.new_ids(len(decided)), decided, strict=True):
            _, _, value, happened = outcomes[place]
            rows.append((number, experiment, decision, key, 0, value, happened, self.now if self.now > at else at))
            places[number] = place
        for number in self.add_new("outcome", rows, unless="decision, key, revision"):
            del places[number]
        return set(range(len(outcomes))).difference(places.values())

    def _inserted(self, table: str, first: int, last: int) -> set[int]:
        """Return the numbers of rows, of those that this transaction has inserted."""
        return {key for (key,) in self.run(f"select id from {table} where id between ? and ?", first, last)}  # noqa: S608

    def new_ids(self, count: int) -> range:
        """Return numbers for `count` new rows."""
        first = (self.transaction << PLACES) + self._place
        self._place += count
        if self._place > 1 << PLACES:
            raise StorageError(f"One transaction can hold {1 << PLACES:,} rows; store fewer at a time.")
        return range(first, first + count)


class Storage(ABC):
    """Keeps the tables of live experiments.

    A subclass implements transactions and a handful of statements; the modules beside this one use them for all
    storages. Every storage keeps this contract, whatever threads, processes and machines use it at once:

    - What a transaction wrote is on the disk when `writing` ends without an error; after an error, nothing of it is. A
      process that is killed at any moment loses nothing that was acknowledged, and stores nothing twice.
    - A unit of an experiment has one decision. Everyone who asks for it at the same time gets the same decision.
    - A decision refers to a version that is committed, and was drawn from its probabilities by the experiment's salt.
    - Transactions that touch the same units, in any order, all end: there are no deadlocks.
    - An outcome is counted once, however often it is told. Another value for it is refused, unless it is a
      correction; then the latest value counts, and the first arrival's time stays.
    - Rows are numbered so that `Session.watermark` never passes a row that is still to be committed: a tick that reads
      up to the watermark misses no row, and reads none twice.
    - `Session.now` is the storage's own time. Whatever clocks do, a decision's time is not before that of its version,
      an outcome's not before that of its decision, and a version's is after that of every outcome it was made from.
    - Versions of an experiment are 1, 2, ... without gaps; two ticks at once make one version.
    - Only states, problems and erased units are ever changed, and only parked outcomes are ever deleted.
    - A storage of a newer schema is refused. One of an older schema is upgraded once, completely or not at all.
    - Units, salts and outcomes are never part of a message.
    """

    #: What messages call it; without a password.
    name: str
    clock: TimeSource | None
    _process: int

    def __new__(cls, *_: object, **__: object) -> Self:
        """Remember which process opens it: connections are not for its children."""
        storage = super().__new__(cls)
        storage._process = os.getpid()
        return storage

    @property
    def is_own(self) -> bool:
        """Whether this process opened it, and not a parent from which this process was forked."""
        return self._process == os.getpid()

    def check_own(self) -> None:
        """Raise in a forked process, because its messages would mix with those of its parent."""
        if not self.is_own:
            raise StorageError("The store was opened by another process; open it again.")

    @abstractmethod
    def writing(self, experiments: Collection[str] = ()) -> AbstractContextManager[Session]:
        """Return a transaction that writes; it is committed durably at its end, and rolled back after an error.

        A remote storage may read the rows of the named experiments when the transaction begins, which saves a round
        trip. They are as of that moment, so do not name an experiment that you are about to change.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """Return a transaction that sees one consistent state of the storage, and writes nothing."""

    @abstractmethod
    def relax(self) -> None:
        """Reply before data is on the disk; only for rehearsals, which may be lost."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""
