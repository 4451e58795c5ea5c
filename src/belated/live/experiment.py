"""`Experiment`: ask, tell, answer, and change an experiment of a store."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.base.columns import Array
from belated.base.errors import LogError, OptionError
from belated.base.tables import Column, Table
from belated.base.text import count
from belated.live import changing
from belated.live.answers import Counts, LiveAnswer
from belated.live.deciding import check_policy
from belated.live.design import Snapshot, read_text, read_unit, snapshot
from belated.live.erasing import erase
from belated.live.errors import ContradictionError, LiveError
from belated.live.records import Change, Decision, State, Tell, Told, Version, moment
from belated.live.sqlite import SQLiteStorage
from belated.live.storage import Session
from belated.live.telling import checked
from belated.live.verifying import replay
from belated.reading.live_logs import LiveRows

if TYPE_CHECKING:
    from belated.live.store import Store
    from belated.log.data import Data
    from belated.simulation.policies import Policy


@dataclass(frozen=True, repr=False)
class Status(Table):
    """How an experiment is doing; prints as its arms.

    Attributes
    ----------
    name, state : str
    version : int
        The current policy version; 0 before the start.
    made_at : datetime or None
        When it was made.
    asked, told, parked : int
        Units decided, outcomes told, and outcomes of units that were never asked.
    problem : str or None
        Why the policy failed; the last good version goes on serving.
    arms : tuple of (label, state, probability)
    """

    name: str
    state: State
    version: int
    made_at: dt.datetime | None
    asked: int
    told: int
    parked: int
    problem: str | None
    arms: tuple[tuple[str, str, float], ...]

    def _title(self) -> str:
        parked = f", {count(self.parked, 'outcome')} parked" if self.parked else ""
        return (
            f"{self.name}: {self.state}, version {self.version:,}, {count(self.asked, 'unit')} asked, "
            f"{count(self.told, 'outcome')} told{parked}"
        )

    def _columns(self) -> list[Column]:
        labels, states, chances = zip(*self.arms, strict=True)
        return [
            Column("arm", list(labels), "label"),
            Column("state", list(states), "label"),
            Column("probability", list(chances), "share"),
        ]

    def _notes(self) -> list[str]:
        return [] if self.problem is None else [f"The last good version goes on serving: {self.problem}"]


class Changes(Table):
    """The audit of an experiment: what was changed, when, by whom and why; iterates over `Change`."""

    def __init__(self, name: str, changes: list[Change]) -> None:
        self.name, self._changes = name, changes

    def __iter__(self) -> Any:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def __getitem__(self, place: int) -> Change:
        return self._changes[place]

    def _title(self) -> str:
        return f"{self.name}: {count(len(self._changes), 'change')}"

    def _columns(self) -> list[Column]:
        return [
            Column("at", [each.made_at.strftime("%Y-%m-%d %H:%M:%S") for each in self._changes], "label"),
            Column("what", [each.what for each in self._changes], "label"),
            Column("detail", [each.detail for each in self._changes], "sentence"),
            Column("author", [each.author for each in self._changes], "label"),
            Column("reason", [each.reason for each in self._changes], "sentence"),
        ]


class Experiment:
    """A live experiment; `Store.create` and `Store.experiment` give it.

    Attributes
    ----------
    name : str
    setup : Setup
        What was fixed at its creation.
    """

    def __init__(self, store: Store, about: Snapshot) -> None:
        self._store, self._id = store, about.id
        self.name, self.setup = about.name, about.setup
        self._lock = threading.Lock()
        self._rows = LiveRows()
        self._answer: tuple[Any, LiveAnswer] | None = None

    def __repr__(self) -> str:
        return f"Experiment({self.name!r})"

    # ---------------------------------------------------------------- asking and telling

    def ask(self, unit: str) -> Decision:
        """Return the arm of a unit; it is on the disk when this returns. The same unit always gets the same arm."""
        return self.ask_many([unit])[0]

    def ask_many(self, units: Iterable[str]) -> list[Decision]:
        """Return the arms of several units, stored in one transaction."""
        wanted = [read_unit(unit) for unit in units]
        replies = self._store.submit("ask", self.name, wanted) if wanted else []
        for reply in replies:
            if isinstance(reply, LiveError):
                raise reply
        return replies

    def tell(
        self,
        unit: str,
        value: float = 1.0,
        *,
        key: str = "",
        happened_at: dt.datetime | None = None,
        correct: bool = False,
    ) -> Told:
        """Store the outcome of a unit; told again, it changes nothing.

        Parameters
        ----------
        unit : str
            If it was never asked, the outcome is parked until it is.
        value : float
        key : str, optional
            For events: what tells several of one unit apart, such as an order's number.
        happened_at : datetime, optional
            For events: when it happened, if not now; UTC if it has no zone.
        correct : bool
            Whether the value replaces another one that was told before; otherwise that is refused.
        """
        (said,) = self.tell_many([Tell(unit, value, key, happened_at, correct)])
        if said.status == "contradiction":
            raise ContradictionError(f"The outcome contradicts what is known: {said.why}.")
        if said.status == "refused":
            raise OptionError(f"The outcome is refused: {said.why}.")
        return said

    def tell_many(self, outcomes: Iterable[Tell | tuple[Any, ...]]) -> list[Told]:
        """Store several outcomes in one transaction; return an acknowledgement of each.

        Parameters
        ----------
        outcomes : iterable of Tell or tuple
            Tuples are (unit, value), in the order of the fields of `Tell`.
        """
        outcome = self.setup.outcome
        tells = [checked(outcome, each if isinstance(each, Tell) else Tell(*each)) for each in outcomes]
        possible = [each for each in tells if isinstance(each, Tell)]
        said = self._store.submit("tell", self.name, possible) if possible else []
        if len(possible) == len(tells):
            return said
        rest = iter(said)
        return [next(rest) if isinstance(each, Tell) else each for each in tells]

    def tick(self) -> Version | None:
        """Make the next policy version now if anything is new; return the current one."""
        return self._store.tick(self.name)

    # ---------------------------------------------------------------- answering

    def answer(self) -> LiveAnswer:
        """Return what the experiment says so far: estimate, confidence sequence, best arm, diagnosis, counts.

        It is computed from the rows that are new; with nothing new, it is the same object.
        """
        with self._lock:
            with self._store.storage.reading() as session:
                about, waiting = snapshot(session, self.name), self._parked(session)
                self._rows.extend(session.run, self._id, session.watermark, events=self.setup.outcome.is_events)
                now, watermark = session.now, session.watermark
                remembered = self._exclusions(session)
            closed = self._closed(now)
            key = (len(self._rows), self._told(closed), self._rows.corrected, about.state, waiting, len(about.arms))
            if self._answer is not None and self._answer[0] == key:
                return self._answer[1]
            told = self._told(closed)
            out = len(self._rows) - told
            never = out if about.state == "closed" else 0
            counts = Counts(len(self._rows), told, out - never, never, waiting, self._rows.corrected)
            log = self._log(about, now) if len(self._rows) else None
            made = LiveAnswer(self.name, self.setup, log, counts, moment(now), watermark)
            made.exclusions = self._remember(made, remembered)
            self._answer = (key, made)
            return made

    def log(self) -> Data:
        """Return the log: in memory, with every arm's probability in each row, as the library's functions take it."""
        with self._lock:
            with self._store.storage.reading() as session:
                about = snapshot(session, self.name)
                self._rows.extend(session.run, self._id, session.watermark, events=self.setup.outcome.is_events)
                now = session.now
            if not len(self._rows):
                raise LogError(f"{self.name!r} has no decisions yet.")
            return self._log(about, now)

    def status(self) -> Status:
        """Return how the experiment is doing: its state, arms, probabilities and counts."""
        with self._store.storage.reading() as session:
            about, waiting = snapshot(session, self.name), self._parked(session)
            asked, told = self._so_far(session, about)
        version = about.version
        chances = about.probabilities(version) if version is not None else dict.fromkeys(about.labels, 0.0)
        return Status(
            self.name, about.state, 0 if version is None else version.number,
            None if version is None else moment(version.made_at), asked, told, waiting, about.problem,
            tuple((arm.label, arm.state, chances[arm.label]) for arm in about.arms),
        )  # fmt: skip

    def changes(self) -> Changes:
        """Return the audit: every change with its time, author and reason."""
        with self._store.storage.reading() as session:
            rows = session.run(
                "select what, detail, author, reason, made_at from change where experiment = ? order by id", self._id
            )
        return Changes(
            self.name, [Change(what, detail, author, reason, moment(at)) for what, detail, author, reason, at in rows]
        )

    def replay(self) -> list[Version]:
        """Make every policy version again, from the rows that each had seen."""
        with self._store.storage.reading() as session:
            return replay(session, self.name, self._store.find_policy)

    # ---------------------------------------------------------------- changing

    def start(self, *, author: str | None = None, reason: str = "") -> Experiment:
        """Take units from now on; return the experiment itself."""
        with self._store.storage.writing() as session:
            changing.start(session, self.name, self._store.find_policy, _who(author, reason))
        return self

    def stop(self, final: str | None = None, *, author: str | None = None, reason: str = "") -> None:
        """Take no new units; outcomes are still taken. Units to come get the `final` arm, which is not logged."""
        with self._store.storage.writing() as session:
            changing.stop(session, self.name, final, _who(author, reason))

    def close(self, *, author: str | None = None, reason: str = "") -> None:
        """Take neither units nor outcomes any more."""
        with self._store.storage.writing() as session:
            changing.close(session, self.name, _who(author, reason))

    def add_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Add an arm while the experiment runs; it had probability 0 before."""
        read_text("arm", arm)
        with self._store.storage.writing() as session:
            changing.add_arm(session, self.name, arm, self._store.find_policy, _who(author, reason))

    def pause_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Choose an arm no more, until it is resumed."""
        self._set_arm(arm, "paused", author, reason)

    def resume_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Choose a paused arm again."""
        self._set_arm(arm, "offered", author, reason)

    def drop_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Choose an arm never again."""
        self._set_arm(arm, "dropped", author, reason)

    def set_policy(self, policy: Policy, *, author: str | None = None, reason: str = "") -> None:
        """Decide by another policy from now on."""
        with self._store.storage.writing() as session:
            about = snapshot(session, self.name)
            check_policy(policy, about.labels, self.setup.outcome)
            self._store.learn_function(self._id, policy)
            changing.set_policy(session, self.name, policy, _who(author, reason))

    def erase(self, unit: str, *, author: str | None = None, reason: str = "") -> bool:
        """Forget a person: the unit's name is replaced by a random one. Answers do not change.

        Returns whether there was anything to forget.
        """
        name = read_unit(unit)
        with self._store.storage.writing() as session:
            found = erase(session, self.name, name)
            _who(author, reason).note(session, self._id, "erase")
        if isinstance(self._store.storage, SQLiteStorage):
            self._store.storage.flush_erased()
        return found

    # ---------------------------------------------------------------- parts

    def _set_arm(self, arm: str, state: Any, author: str | None, reason: str) -> None:
        with self._store.storage.writing() as session:
            changing.set_arm(session, self.name, arm, state, self._store.find_policy, _who(author, reason))

    def _parked(self, session: Session) -> int:
        return int(session.run("select count(*) from parked where experiment = ?", self._id)[0][0])

    def _so_far(self, session: Session, about: Snapshot) -> tuple[int, int]:
        """Return how many units were asked and outcomes told: what the version knows, and the rows since."""
        if about.version is None:
            return 0, 0
        since, known = about.version.watermark, int(sum(about.version.counts))
        if self.setup.outcome.is_events:  # a version knows only those whose window has closed
            since, known = 0, 0
        told = "select count(*) from outcome where experiment = ? and id >= ? and revision = 0"
        asked = "select count(*) from decision where +experiment = ? and id >= ?"
        new = session.run(asked, self._id, about.version.watermark)[0][0]
        return about.version.step - 1 + new, known + session.run(told, self._id, since)[0][0]

    def _closed(self, now: int) -> Array | None:
        """Return whether each unit's window has closed; None without windows."""
        if not self.setup.outcome.is_events:
            return None
        return np.asarray(self._rows.assigned + self.setup.outcome.length <= now)

    def _told(self, closed: Array | None) -> int:
        return int(np.isfinite(self._rows.outcome).sum() if closed is None else closed.sum())

    def _log(self, about: Snapshot, now: int) -> Data:
        """Return the rows as a log; events become outcomes as `read` makes them."""
        from belated.log.clock import Clock
        from belated.log.log import Log, LogColumns

        rows = self._rows
        if self.setup.outcome.is_events:
            from belated.reading.live_logs import live_log
            from belated.reading.read import read

            table = json.loads(self.setup.to_json())
            return read(live_log(rows, self.name, list(about.labels), table, now))
        log = Log.of_numbers(
            LogColumns(
                arms=about.labels, code=rows.arm, outcome=rows.outcome, propensity=rows.propensity(len(about.arms)),
                assigned=rows.assigned, arrived=rows.arrived, clock=Clock("us"), moment=None,
            )
        )  # fmt: skip
        log.name = self.name
        return log

    def _exclusions(self, session: Session) -> dict[str, dt.datetime]:
        rows = session.run(
            "select name, excluded_at from exclusion where experiment = ? order by excluded_at, name", self._id
        )
        return {name: moment(at) for name, at in rows}

    def _remember(self, made: LiveAnswer, known: dict[str, dt.datetime]) -> dict[str, dt.datetime]:
        """Keep when a contrast was first excluded: what was once shown is not taken back."""
        if made.sequence is None or len(made.sequence.arms) < 2:
            return known
        found = {
            each.name: _microseconds(each.excluded_at)
            for each in made.sequence.contrasts(self.setup.baseline).answers
            if each.excluded_at is not None and each.name not in known
        }
        if not found:
            return known
        with self._store.storage.writing() as session:
            for name, at in found.items():
                session.run(
                    "insert into exclusion (experiment, name, excluded_at, noted_at) values (?, ?, ?, ?) "
                    "on conflict (experiment, name) do nothing",
                    self._id, name, at, session.now,
                )  # fmt: skip
            return self._exclusions(session)


def _microseconds(time: Any) -> int:
    return int(np.datetime64(time, "us").astype(np.int64))


def _who(author: str | None, reason: str) -> changing.Author:
    from belated.live.store import author_of

    return author_of(author, reason)
