"""`LiveStore` and `LiveExperiment`: what a store and an experiment do, wherever they are kept.

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
    """An experiment of a store, wherever it is."""

    name: str

    @property
    def setup(self) -> Setup:
        """What was fixed at its creation."""

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
        """Store the outcome of a unit; told again, it changes nothing."""

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
        """Make the next policy version now if anything is new; return the current one."""

    def answer(self) -> LiveAnswer:
        """Return what the experiment says so far."""

    def log(self) -> Data:
        """Return the log, as the library's functions take it."""

    def status(self) -> Status:
        """Return how the experiment is doing: its state, arms, probabilities and counts."""

    def changes(self) -> Changes:
        """Return the audit: every change with its time, author and reason."""

    def replay(self) -> list[Version]:
        """Make every policy version again, from the rows that each had seen."""

    def start(self, *, author: str | None = None, reason: str = "") -> LiveExperiment:
        """Take units from now on; return the experiment itself."""

    def stop(self, final: str | None = None, *, author: str | None = None, reason: str = "") -> None:
        """Take no new units; outcomes are still taken."""

    def close(self, *, author: str | None = None, reason: str = "") -> None:
        """Take neither units nor outcomes any more."""

    def add_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Add an arm while the experiment runs."""

    def add_segment(self, segment: str, *, author: str | None = None, reason: str = "") -> None:
        """Add a segment to an experiment that has some."""

    def pause_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Choose an arm no more, until it is resumed."""

    def resume_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Choose a paused arm again."""

    def drop_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Choose an arm never again."""

    def set_policy(self, policy: Policy, *, author: str | None = None, reason: str = "") -> None:
        """Decide by another policy from now on."""

    def erase(self, unit: str, *, author: str | None = None, reason: str = "") -> bool:
        """Forget a person; return whether there was anything to forget."""


class LiveStore(Protocol):
    """Live experiments in one place, wherever it is."""

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
        """Draw every decision again, make every version again, and check every rule of the logs."""

    def backup(self, path: str | os.PathLike[str]) -> Path:
        """Copy one state of the store to a new file."""

    def tick(self, name: str) -> Version | None:
        """Make the next policy version of an experiment if anything is new; return the current one."""

    def tick_if_due(self, name: str) -> None:
        """Make a version if the last one is older than the experiment's `seconds`."""
