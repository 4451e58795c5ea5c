"""`Experiment`: ask, tell, answer, and change an experiment of a store."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from belated.base.columns import Array
from belated.base.errors import LogError
from belated.live import changing
from belated.live.answers import Counts, LiveAnswer
from belated.live.calls import acknowledgements, decided, decisions, read_ask, read_asks, read_tells, taken
from belated.live.changing import Author
from belated.live.creating import author_of
from belated.live.deciding import check_policy
from belated.live.design import Snapshot, read_text, read_unit, snapshot
from belated.live.erasing import erase
from belated.live.logs import LogState
from belated.live.records import ArmState, Change, Decision, Tell, Told, Version, moment
from belated.live.sqlite import SQLiteStorage
from belated.live.status import Changes, Status
from belated.live.storage import Session
from belated.live.verifying import replay
from belated.log.clock import Moment
from belated.reading.live_logs import LiveRows, taken_until

if TYPE_CHECKING:
    from belated.live.store import Store
    from belated.log.data import Data
    from belated.simulation.policies import Policy


class Experiment:
    """A live experiment; `Store.create` and `Store.experiment` give it.

    Attributes
    ----------
    name : str
    setup : Setup
        The settings that were fixed when it was created.
    """

    def __init__(self, store: Store, about: Snapshot, changes: int | None = None) -> None:
        self._store, self._id, self._changes = store, about.id, changes
        self.name, self.setup = about.name, about.setup
        self._lock = threading.Lock()
        self._rows, self._grown = LiveRows(), 0
        self._answer: tuple[tuple[object, ...], LiveAnswer] | None = None

    def __repr__(self) -> str:
        return f"Experiment({self.name!r})"

    # ---------------------------------------------------------------- asking and telling

    def ask(self, unit: str, segment: str | None = None) -> Decision:
        """Return the arm of a unit; it is on the disk when this returns. The same unit always gets the same arm.

        Parameters
        ----------
        unit : str
        segment : str, optional
            The unit's segment, if the experiment has segments. If the unit is asked again, it keeps its first segment.
        """
        return self.ask_many([unit], None if segment is None else [segment])[0]

    async def ask_async(self, unit: str, segment: str | None = None) -> Decision:
        """Do what `ask` does, for callers in an event loop; cancelling the caller does not cancel the decision."""
        return decided(await self._store.submit_one_async("ask", self.name, read_ask(self.setup, unit, segment)))

    def ask_many(self, units: Iterable[str], segments: Iterable[str] | None = None) -> list[Decision]:
        """Return the arms of several units, stored in one transaction.

        Parameters
        ----------
        units : iterable of str
        segments : iterable of str, optional
            The segment of each unit, if the experiment has segments.
        """
        return decisions(self._store.submit("ask", self.name, read_asks(self.setup, units, segments)))

    async def ask_many_async(self, units: Iterable[str], segments: Iterable[str] | None = None) -> list[Decision]:
        """Do what `ask_many` does, for callers in an event loop."""
        return decisions(await self._store.submit_async("ask", self.name, read_asks(self.setup, units, segments)))

    def tell(
        self,
        unit: str,
        value: float = 1.0,
        *,
        key: str = "",
        happened_at: dt.datetime | None = None,
        correct: bool = False,
    ) -> Told:
        """Store the outcome of a unit; telling it again changes nothing.

        Parameters
        ----------
        unit : str
            If the unit was never asked, the outcome is parked until it is.
        value : float
        key : str, optional
            For events: a key that distinguishes several events of one unit, such as an order's number.
        happened_at : datetime, optional
            For events: when it happened, if not now; UTC if it has no zone.
        correct : bool
            Whether the value replaces another one that was told before; otherwise a different value is refused.
        """
        return taken(self.tell_many([Tell(unit, value, key, happened_at, correct)])[0])

    async def tell_async(
        self,
        unit: str,
        value: float = 1.0,
        *,
        key: str = "",
        happened_at: dt.datetime | None = None,
        correct: bool = False,
    ) -> Told:
        """Do what `tell` does, for callers in an event loop; cancelling the caller does not cancel the tell."""
        return taken((await self.tell_many_async([Tell(unit, value, key, happened_at, correct)]))[0])

    def tell_many(self, outcomes: Iterable[Tell | tuple[object, ...]]) -> list[Told]:
        """Store several outcomes in one transaction; return an acknowledgement of each.

        Parameters
        ----------
        outcomes : iterable of Tell or tuple
            Tuples are (unit, value), in the order of the fields of `Tell`.
        """
        tells, refused = read_tells(self.setup.outcome, outcomes)
        return acknowledgements(self._store.submit("tell", self.name, tells), refused)

    async def tell_many_async(self, outcomes: Iterable[Tell | tuple[object, ...]]) -> list[Told]:
        """Do what `tell_many` does, for callers in an event loop."""
        tells, refused = read_tells(self.setup.outcome, outcomes)
        return acknowledgements(await self._store.submit_async("tell", self.name, tells), refused)

    def tick(self) -> Version | None:
        """Make the next policy version now if there is anything new; return the current version."""
        return self._store.tick(self.name)

    # ---------------------------------------------------------------- answering

    def answer(self) -> LiveAnswer:
        """Return the results so far: estimate, confidence sequence, best arm, diagnosis, counts.

        If nothing is new since the last answer, the same object is returned. Open windows of events grow older, which
        counts as new.
        """
        with self._lock:
            with self._store.storage.reading() as session:
                about, waiting = snapshot(session, self.name), self._parked(session)
                self._extend(session)
                now, remembered = self._now(session), self._exclusions(session)
            closed = self._closed(now)
            ages = now if closed is not None and not closed.all() else None
            key = (self._grown, ages, about.state, waiting, len(about.arms))
            if self._answer is not None and self._answer[0] == key:
                return self._answer[1]
            told = self._known_outcomes(closed)
            out = len(self._rows) - told
            never = out if about.state == "closed" else 0
            counts = Counts(
                asked=len(self._rows),
                told=told,
                out=out - never,
                never=never,
                parked=waiting,
                corrected=self._rows.corrected,
            )
            computed = LiveAnswer(self._state(about, now), counts)
            answer = computed.with_exclusions(self._remember(computed, remembered))
            self._answer = (key, answer)
            return answer

    def log(self) -> Data:
        """Return the log in memory, with every arm's probability in each row; all functions of the library take it."""
        state = self.state()
        if not len(state.rows):
            raise LogError(f"{self.name!r} has no decisions yet.")
        return state.log()

    def state(self) -> LogState:
        """Return the stored rows from which the log is made."""
        with self._lock, self._store.storage.reading() as session:
            about = snapshot(session, self.name)
            self._extend(session)
            return self._state(about, self._now(session))

    def status(self) -> Status:
        """Return the experiment's state, arms, probabilities and counts."""
        with self._store.storage.reading() as session:
            about, waiting = snapshot(session, self.name), self._parked(session)
            asked, told = self._so_far(session, about)
            return Status.of(about, asked=asked, told=told, parked=waiting)

    def changes(self) -> Changes:
        """Return the audit: every change with its time, author and reason."""
        with self._store.storage.reading() as session:
            rows = session.run(
                "select what, detail, author, reason, made_at from change where experiment = ? order by id", self._id
            )
            changes = [Change(what, detail, author, reason, moment(at)) for what, detail, author, reason, at in rows]
        return Changes(self.name, changes)

    def replay(self) -> list[Version]:
        """Compute every policy version again, from the rows that it was made from."""
        with self._store.storage.reading() as session:
            return replay(session, self.name, self._store.find_policy)

    # ---------------------------------------------------------------- changing

    def start(self, *, author: str | None = None, reason: str = "") -> Experiment:
        """Take units from now on; return the experiment itself."""
        with self._store.storage.writing() as session:
            changing.start(session, self.name, self._store.find_policy, self._author(author, reason))
        return self

    def stop(self, final: str | None = None, *, author: str | None = None, reason: str = "") -> None:
        """Take no new units, but still take outcomes. Later units get the `final` arm, which is not logged."""
        with self._store.storage.writing() as session:
            changing.stop(session, self.name, final, self._author(author, reason))

    def close(self, *, author: str | None = None, reason: str = "") -> None:
        """Take no units and no outcomes from now on."""
        with self._store.storage.writing() as session:
            changing.close(session, self.name, self._author(author, reason))

    def add_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Add an arm while the experiment runs; it had probability 0 before."""
        read_text("arm", arm)
        with self._store.storage.writing() as session:
            changing.add_arm(session, self.name, arm, self._store.find_policy, self._author(author, reason))

    def add_segment(self, segment: str, *, author: str | None = None, reason: str = "") -> None:
        """Add a segment to an experiment with segments; the policy begins to learn there with the first unit."""
        label = read_text("segment", segment)
        with self._store.storage.writing() as session:
            changing.add_segment(session, self.name, label, self._store.find_policy, self._author(author, reason))

    def pause_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Stop choosing an arm until it is resumed."""
        self._set_arm(arm, "paused", author, reason)

    def resume_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Choose a paused arm again."""
        self._set_arm(arm, "offered", author, reason)

    def drop_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Stop choosing an arm, for good."""
        self._set_arm(arm, "dropped", author, reason)

    def set_policy(self, policy: Policy, *, author: str | None = None, reason: str = "") -> None:
        """Use another policy from now on."""
        with self._store.storage.writing() as session:
            about = snapshot(session, self.name)
            check_policy(policy, about.labels, self.setup.outcome)
            self._store.learn_function(self._id, policy)
            changing.set_policy(session, self.name, policy, self._author(author, reason))

    def erase(self, unit: str, *, author: str | None = None, reason: str = "") -> bool:
        """Erase a person: replace the unit's name by a random one. Answers do not change.

        Returns whether there was anything to erase.
        """
        name = read_unit(unit)
        with self._store.storage.writing() as session:
            erased = erase(session, self.name, name)
            self._author(author, reason).note(session, self._id, "erase")
        if isinstance(self._store.storage, SQLiteStorage):
            self._store.storage.flush_erased()
        return erased

    def _unchanged_since(self, changes: int) -> Experiment:
        """Return the experiment for a change that is refused if the audit no longer has this number of changes."""
        with self._store.storage.reading() as session:
            return Experiment(self._store, snapshot(session, self.name), changes)

    # ---------------------------------------------------------------- parts

    def _author(self, author: str | None, reason: str) -> Author:
        return author_of(author, reason, self._changes)

    def _set_arm(self, arm: str, state: ArmState, author: str | None, reason: str) -> None:
        with self._store.storage.writing() as session:
            changing.set_arm(session, self.name, arm, state, self._store.find_policy, self._author(author, reason))

    def _extend(self, session: Session) -> None:
        """Read the rows that are new, and count how often there were any."""
        self._grown += self._rows.extend(
            session.run, self._id, session.watermark, events=self.setup.outcome.is_events,
            segmented=self.setup.segmented,
        )  # fmt: skip

    def _parked(self, session: Session) -> int:
        return int(session.run("select count(*) from parked where experiment = ?", self._id)[0][0])

    def _so_far(self, session: Session, about: Snapshot) -> tuple[int, int]:
        """Return how many units were asked and outcomes told, counted by the version and by the rows since."""
        if about.version is None:
            return 0, 0
        since, known = about.version.watermark, int(sum(about.version.counts))
        if self.setup.outcome.is_events:  # a version knows only those whose window has closed
            since, known = 0, 0
        count_outcomes = "select count(*) from outcome where experiment = ? and id >= ? and revision = 0"
        asked = "select count(*) from decision where +experiment = ? and id >= ?"
        new = session.run(asked, self._id, about.version.watermark)[0][0]
        return about.version.step - 1 + new, known + session.run(count_outcomes, self._id, since)[0][0]

    def _now(self, session: Session) -> int:
        """Return the time of the log: now or, of events, when the experiment was closed."""
        return taken_until(session.run, self._id, session.now) if self.setup.outcome.is_events else session.now

    def _closed(self, now: int) -> Array | None:
        """Return whether each unit's window has closed; None without windows."""
        if not self.setup.outcome.is_events:
            return None
        return np.asarray(self._rows.assigned + self.setup.outcome.length <= now)

    def _known_outcomes(self, closed: Array | None) -> int:
        return int(np.isfinite(self._rows.outcome).sum() if closed is None else closed.sum())

    def _state(self, about: Snapshot, now: int) -> LogState:
        """Return the rows of now, which later ones do not change."""
        rows = replace(self._rows, events=[*self._rows.events], chances=[*self._rows.chances])
        return LogState(
            name=self.name, setup=self.setup, labels=about.labels, rows=rows, now=now, segments=about.segments
        )

    def _exclusions(self, session: Session) -> dict[str, dt.datetime]:
        rows = session.run(
            "select name, excluded_at from exclusion where experiment = ? order by excluded_at, name", self._id
        )
        return {name: moment(at) for name, at in rows}

    def _remember(self, answer: LiveAnswer, known: dict[str, dt.datetime]) -> dict[str, dt.datetime]:
        """Store when a contrast was first excluded; a later answer does not change it."""
        excluded = {
            fixed.name: _microseconds(each.excluded_at)
            for fixed, each in answer.contrasts
            if each.excluded_at is not None and fixed.name not in known
        }
        if not excluded:
            return known
        with self._store.storage.writing() as session:
            for name, at in excluded.items():
                session.run(
                    "insert into exclusion (experiment, name, excluded_at, noted_at) values (?, ?, ?, ?) "
                    "on conflict (experiment, name) do nothing",
                    self._id, name, at, session.now,
                )  # fmt: skip
            return self._exclusions(session)


def _microseconds(time: Moment) -> int:
    return int(np.asarray(time, "datetime64[us]").astype(np.int64))
