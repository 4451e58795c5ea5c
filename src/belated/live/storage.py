"""`Storage`: what keeps an experiment, and what every storage promises."""

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
    def find_decisions(self, experiment: int, units: list[str], columns: str) -> list[Row]:
        """Return the place among the units, from 0, and columns of table `d` of each decision that is there.

        It looks each unit up in the index, however few decisions the engine believes an experiment to have.
        """

    @abstractmethod
    def add(self, table: str, rows: Sequence[Row], *, unless: str | None = None) -> int:
        """Insert rows of all columns of a table, unless these columns of a row are there; return how many were."""

    @abstractmethod
    def own_types(self, statement: str) -> str:
        """Return a statement with the engine's own types for ID, BYTES and REAL."""

    def add_new(self, table: str, rows: Sequence[Row], unless: str) -> set[int]:
        """Insert numbered rows, unless these columns of one are there; return the numbers of those that were not new.

        Other transactions that are about to insert the same are waited for.
        """
        if not rows or self.add(table, rows, unless=unless) == len(rows):
            return set()
        return {row[0] for row in rows} - self._inserted(table, rows[0][0], rows[-1][0])

    def add_first(self, experiment: int, outcomes: Sequence[UnitOutcome]) -> set[int]:
        """Insert first values of outcomes; return the places, from 0, of those that were not inserted.

        These are outcomes that are there already, or earlier among these, and those of units without a decision. Other
        transactions that are about to insert the same are waited for.
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
        """Return numbers for so many new rows."""
        first = (self.transaction << PLACES) + self._place
        self._place += count
        if self._place > 1 << PLACES:
            raise StorageError(f"One transaction can hold {1 << PLACES:,} rows; store fewer at a time.")
        return range(first, first + count)


class Storage(ABC):
    """Keeps the tables of live experiments.

    A subclass has transactions and a handful of statements; what they mean is written once, in the modules beside this
    one. Every storage keeps this contract, whatever threads, processes and machines use it at once:

    - What a transaction wrote is on the disk when `writing` ends without an error; if it ends with one, nothing is.
      A process that is killed at any moment loses nothing that was acknowledged, and doubles nothing.
    - A unit of an experiment has one decision. Who asks for it at the same time gets the same one.
    - A decision refers to a version that is committed, and was drawn from its probabilities by the experiment's salt.
    - Transactions that touch the same units, in any order, end: they do not wait for each other in a circle.
    - An outcome is counted once, however often it is told. Another value for it is refused, unless it is a
      correction; then the latest value counts, and the first arrival's time stays.
    - Rows are numbered so that `Session.watermark` never passes a row that is still to be committed: a tick that reads
      up to it misses nothing, and reads nothing twice.
    - `Session.now` is the storage's own time. Whatever clocks do, a decision is not before its version, an
      outcome not before its decision, and a version after every outcome that it has seen.
    - Versions of an experiment are 1, 2, ... without gaps; two ticks at once make one version.
    - Nothing but states, problems and erased units is ever changed, and nothing but parked outcomes deleted.
    - A storage of a newer schema is refused; one of an older schema is upgraded as a whole, once, or not at all.
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
        """Whether this process opened it, not the one that it was forked from."""
        return self._process == os.getpid()

    def check_own(self) -> None:
        """Raise in a process that was forked: what it sends would mix with what its parent sends."""
        if not self.is_own:
            raise StorageError("The store was opened by another process; open it again.")

    @abstractmethod
    def writing(self, experiments: Collection[str] = ()) -> AbstractContextManager[Session]:
        """Return a transaction that writes; it is committed durably at its end, and rolled back after an error.

        A storage that is far away may read the rows of these experiments as it begins, which saves a way there and
        back. They are as they were then: who is about to change an experiment does not name it.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """Return a transaction that sees one state of the storage, and writes nothing."""

    @abstractmethod
    def relax(self) -> None:
        """Answer before anything is on the disk: for rehearsals, whose outcomes nobody will miss."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""
