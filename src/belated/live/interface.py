"""`LiveStore` and `LiveExperiment`: the methods of stores and experiments, in a file, a database or a service.

`Store` and `Experiment` do it in a file or a database, `RemoteStore` and `RemoteExperiment` by a service that is asked
over HTTP. A test compares their signatures with these.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from belated.live.answers import LiveAnswer
from belated.live.design import Setup
from belated.live.outcomes import Outcome
from belated.live.records import Decision, Tell, Told, Version
from belated.live.status import Changes, Status
from belated.live.verifying import Verification

if TYPE_CHECKING:
    from belated.live.store import Experiments
    from belated.log.data import Data
    from belated.sequences.design import KindOption
    from belated.simulation.policies import Policy


class LiveExperiment(Protocol):
    """An experiment of a store: in a file, a database or a service."""

    name: str

    @property
    def setup(self) -> Setup:
        """The settings that were fixed when it was created."""

    def ask(self, unit: str, segment: str | None = None) -> Decision:
        """Return the arm of a unit; it is stored when this returns. The same unit always gets the same arm."""

    def ask_many(self, units: Iterable[str], segments: Iterable[str] | None = None) -> list[Decision]:
        """Return the arms of several units."""

    def tell(
        self,
        unit: str,
        value: float = 1.0,
        *,
        key: str = "",
        happened_at: dt.datetime | None = None,
        correct: bool = False,
    ) -> Told:
        """Store the outcome of a unit; telling it again changes nothing."""

    def tell_many(self, outcomes: Iterable[Tell | tuple[object, ...]]) -> list[Told]:
        """Store several outcomes; return an acknowledgement of each."""

    async def ask_async(self, unit: str, segment: str | None = None) -> Decision:
        """Do what `ask` does, without blocking an event loop."""

    async def ask_many_async(self, units: Iterable[str], segments: Iterable[str] | None = None) -> list[Decision]:
        """Do what `ask_many` does, without blocking an event loop."""

    async def tell_async(
        self,
        unit: str,
        value: float = 1.0,
        *,
        key: str = "",
        happened_at: dt.datetime | None = None,
        correct: bool = False,
    ) -> Told:
        """Do what `tell` does, without blocking an event loop."""

    async def tell_many_async(self, outcomes: Iterable[Tell | tuple[object, ...]]) -> list[Told]:
        """Do what `tell_many` does, without blocking an event loop."""

    def tick(self) -> Version | None:
        """Make the next policy version now if there is anything new; return the current version."""

    def answer(self) -> LiveAnswer:
        """Return the results so far."""

    def log(self) -> Data:
        """Return the log, which all functions of the library take."""

    def status(self) -> Status:
        """Return the experiment's state, arms, probabilities and counts."""

    def changes(self) -> Changes:
        """Return the audit: every change with its time, author and reason."""

    def replay(self) -> list[Version]:
        """Compute every policy version again, from the rows that it was made from."""

    def start(self, *, author: str | None = None, reason: str = "") -> LiveExperiment:
        """Take units from now on; return the experiment itself."""

    def stop(self, final: str | None = None, *, author: str | None = None, reason: str = "") -> None:
        """Take no new units, but still take outcomes."""

    def close(self, *, author: str | None = None, reason: str = "") -> None:
        """Take no units and no outcomes from now on."""

    def add_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Add an arm while the experiment runs."""

    def add_segment(self, segment: str, *, author: str | None = None, reason: str = "") -> None:
        """Add a segment to an experiment with segments."""

    def pause_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Stop choosing an arm until it is resumed."""

    def resume_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Choose a paused arm again."""

    def drop_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Stop choosing an arm, for good."""

    def set_policy(self, policy: Policy, *, author: str | None = None, reason: str = "") -> None:
        """Use another policy from now on."""

    def erase(self, unit: str, *, author: str | None = None, reason: str = "") -> bool:
        """Erase a person; return whether there was anything to erase."""


class LiveStore(Protocol):
    """Live experiments in one place: a file, a database or a service."""

    def __enter__(self) -> LiveStore:
        """Return the store itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""

    def close(self) -> None:
        """Finish what is queued, and close the connections."""

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
    ) -> LiveExperiment:
        """Create an experiment; it takes units after `start`."""

    def experiment(self, name: str, *, policy: Policy | None = None) -> LiveExperiment:
        """Return an experiment of the store."""

    def experiments(self) -> Experiments:
        """Return the names and states of all experiments."""

    def import_table(
        self, name: str, source: object, *, policy: Policy, outcome: Outcome, **options: Any
    ) -> LiveExperiment:
        """Continue a running experiment from a table that has every arm's probability in each row."""

    def verify(self) -> Verification:
        """Draw every decision again, compute every version again, and check every rule of the logs."""

    def backup(self, path: str | os.PathLike[str]) -> Path:
        """Copy a consistent state of the store to a new file."""

    def tick(self, name: str) -> Version | None:
        """Make the next policy version of an experiment if there is anything new; return the current version."""

    def tick_if_due(self, name: str) -> None:
        """Make a version if the last one is older than the experiment's `seconds`."""
