"""`RemoteStore` and `RemoteExperiment`: live experiments of a service, asked over HTTP as if they were here."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from belated.base.documents import JsonObject
from belated.base.errors import LogError, OptionError
from belated.live.answers import LiveAnswer
from belated.live.calls import acknowledgements, read_asks, read_tells, taken
from belated.live.connecting import ServiceConnection
from belated.live.creating import plan_creation
from belated.live.deciding import check_policy
from belated.live.design import Setup, read_text, read_unit
from belated.live.errors import StorageError
from belated.live.keeping import check_copy, new_backup
from belated.live.logs import ARROW, read_answer, read_stream
from belated.live.outcomes import Outcome
from belated.live.records import Decision, Tell, Told, Version
from belated.live.status import Changes, Status
from belated.live.store import Experiments
from belated.live.verifying import Verification
from belated.live.wire import (
    asks_table,
    batches,
    path_of,
    policy_table,
    read_change,
    read_decision,
    read_experiments,
    read_status,
    read_told,
    read_verification,
    read_version,
    tell_table,
    understood,
    who_table,
)

if TYPE_CHECKING:
    from belated.live.asking import UnitAsked
    from belated.log.data import Data
    from belated.sequences.design import KindOption
    from belated.simulation.policies import Policy

#: Seconds for answers, logs, checks and copies, which take longer than other calls.
_PATIENCE = 600.0

#: Seconds after a failure in which a fallback is given at once, without asking.
_FALLBACK_SECONDS = 1.0

#: The fallback arm of all experiments, or of each by its name.
Fallback = str | Mapping[str, str]


class RemoteStore:
    """Live experiments of a service; `open` gives it. It may be used by any number of threads.

    The service stores each ask and tell before it replies, and makes policy versions itself. A request that is sent
    several times counts once. Times are those of the service.
    """

    def __init__(self, connection: ServiceConnection, fallback: Fallback | None = None) -> None:
        arms = fallback.values() if isinstance(fallback, Mapping) else () if fallback is None else (fallback,)
        for arm in arms:  # not only when the service is away
            read_text("fallback", arm)
        self._connection, self._fallback = connection, fallback
        self._failed_at = -1e9

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteStore({self._connection.name!r})"

    def close(self) -> None:
        """Close the connections; there is nothing to finish."""
        self._connection.close()

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
    ) -> RemoteExperiment:
        """Create an experiment, as `Store.create` does; the author is the token's label by default."""
        planned = plan_creation(
            name, arms=arms, policy=policy, outcome=outcome, segments=segments, baseline=baseline,
            planned_rows=planned_rows, level=level, kind=kind, target=target, every=every, seconds=seconds,
            author=author, reason=reason,
        )  # fmt: skip
        setup = planned.setup
        content = {
            "name": name, "arms": planned.arms, "policy": policy_table(policy), "outcome": outcome.to_dict(),
            "segments": planned.segments or None, "baseline": baseline, "planned_rows": setup.planned,
            "level": setup.level, "kind": kind, "target": target, "every": every, "seconds": setup.seconds,
            **who_table(author, reason),
        }  # fmt: skip
        self._connection.call("POST", "/v1/experiments", content, repeatable=False)
        return self.experiment(name)

    def experiment(self, name: str, *, policy: Policy | None = None) -> RemoteExperiment:
        """Return an experiment of the service.

        If the experiment has a fallback arm, it is returned even if the service cannot be reached, so a product can
        start without the service.
        """
        if policy is not None:
            policy_table(policy)
        exp = RemoteExperiment(self, read_text("name", name))
        try:
            exp.status()
        except StorageError:
            if self.fallback(name) is None:
                raise
        return exp

    def experiments(self) -> Experiments:
        """Return the names and states of the experiments that the token may read; prints as a table."""
        return understood(read_experiments, self.get("/v1/experiments"))

    def import_table(
        self, name: str, source: object, *, policy: Policy, outcome: Outcome, **options: Any
    ) -> RemoteExperiment:
        """Refuse: a table is imported where the store is, by `belated live import` or `Store.import_table`."""
        raise OptionError(
            "A table is not imported over HTTP; open the store itself, or run `belated live import` where it is."
        )

    # ---------------------------------------------------------------- keeping

    def verify(self) -> Verification:
        """Have the service draw every decision again, compute every version again, and check every rule of the logs."""
        reply = self._connection.call("POST", "/v1/verify", timeout=self.patience).json()
        return understood(read_verification, reply)

    def backup(self, path: str | os.PathLike[str]) -> Path:
        """Copy a consistent state of the store to a new file here; `restore` makes a store from it."""
        place = Path(path)
        with (
            new_backup(place) as beside,
            os.fdopen(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
        ):
            self._connection.call("GET", "/v1/backup", timeout=self.patience, file=file)
            file.flush()
            os.fsync(file.fileno())
            check_copy(beside)
        return place

    # ---------------------------------------------------------------- for experiments

    def tick(self, name: str) -> Version | None:
        """Make the next policy version of an experiment if there is anything new; return the current version."""
        reply = self._connection.call("POST", path_of(name, "tick")).json()
        return understood(lambda reply: None if reply["version"] is None else read_version(reply["version"]), reply)

    def tick_if_due(self, name: str) -> None:
        """Do nothing: the service makes policy versions itself."""

    def fallback(self, name: str) -> str | None:
        """Return the fallback arm of an experiment, or None."""
        return self._fallback.get(name) if isinstance(self._fallback, Mapping) else self._fallback

    def ask(self, path: str, content: Mapping[str, object], *, patient: bool) -> JsonObject:
        """Return the reply to an ask; unless `patient`, do not wait for a service that has just failed."""
        if not patient and time.monotonic() - self._failed_at < _FALLBACK_SECONDS:
            raise StorageError(f"The service {self._connection.name} has just failed.")
        try:
            reply = self._connection.call("POST", path, content).json()
        except StorageError:
            self._failed_at = time.monotonic()
            raise
        self._failed_at = -1e9
        return reply

    def get(self, path: str) -> JsonObject:
        """Return what is at a path."""
        return self._connection.call("GET", path).json()

    @property
    def patience(self) -> float:
        """The time limit for calls that may take long, in seconds."""
        return max(self._connection.timeout, _PATIENCE)


#: Sends a request to a path of the experiment, and returns the reply.
_Send: TypeAlias = Callable[[str, Mapping[str, object]], JsonObject]


class RemoteExperiment:
    """A live experiment of a service; `RemoteStore.create` and `RemoteStore.experiment` give it.

    Attributes
    ----------
    name : str
    """

    def __init__(self, store: RemoteStore, name: str) -> None:
        self._store, self._connection, self.name = store, store._connection, name
        self._setup: Setup | None = None
        self._arms: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self._answer: tuple[str, LiveAnswer] | None = None

    def __repr__(self) -> str:
        return f"RemoteExperiment({self.name!r})"

    @property
    def setup(self) -> Setup:
        """The settings that were fixed when it was created."""
        if self._setup is None:
            self.status()
        assert self._setup is not None  # noqa: S101 - the status has it
        return self._setup

    # ---------------------------------------------------------------- asking and telling

    def ask(self, unit: str, segment: str | None = None, *, fallback: str | None = None) -> Decision:
        """Return the arm of a unit; the service has stored it when this returns.

        Parameters
        ----------
        unit : str
        segment : str, optional
            As in `Experiment.ask`.
        fallback : str, optional
            The arm if the service cannot be reached or fails: the decision is in no log, and its `logged` is False. By
            default the fallback given to `open`; without one, `StorageError` is raised.
        """
        wanted = read_asks(self._setup, [unit], None if segment is None else [segment])
        given = {"unit": wanted[0]} if segment is None else dict(zip(("unit", "segment"), wanted[0], strict=True))
        return self._ask(wanted, fallback, lambda ask: [read_decision(ask("ask", given))])[0]

    def ask_many(
        self, units: Iterable[str], segments: Iterable[str] | None = None, *, fallback: str | None = None
    ) -> list[Decision]:
        """Return the arms of several units; up to 10,000 are stored in one transaction.

        Parameters
        ----------
        units : iterable of str
        segments : iterable of str, optional
            The segment of each unit, if the experiment has segments.
        fallback : str, optional
            As in `ask`; all units get it.
        """
        wanted = read_asks(self._setup, units, segments)

        def send(ask: _Send) -> list[Decision]:
            replies = [ask("ask-many", asks_table(batch))["decisions"] for batch in batches(wanted)]
            return [read_decision(each) for reply in replies for each in reply]

        return self._ask(wanted, fallback, send)

    def _ask(
        self, asks: Sequence[UnitAsked], fallback: str | None, send: Callable[[_Send], list[Decision]]
    ) -> list[Decision]:
        """Return decisions of the service; if it fails and there is a fallback arm, that one, which is not logged."""
        arm = self._store.fallback(self.name) if fallback is None else read_text("fallback", fallback)
        try:
            return understood(send, lambda act, content: self._store.ask(self._path(act), content, patient=arm is None))
        except StorageError:
            if arm is None:
                raise
            chances = {label: float(label == arm) for label in (*self._arms, arm)}
            pairs = [(ask, None) if isinstance(ask, str) else ask for ask in asks]
            return [Decision(unit, arm, chances, 0, None, logged=False, segment=own) for unit, own in pairs]

    def tell(
        self,
        unit: str,
        value: float = 1.0,
        *,
        key: str = "",
        happened_at: dt.datetime | None = None,
        correct: bool = False,
    ) -> Told:
        """Store the outcome of a unit, as `Experiment.tell` does; telling it again changes nothing."""
        tells, refused = read_tells(self.setup.outcome, [Tell(unit, value, key, happened_at, correct)])
        if refused:
            return taken(refused[0])
        return understood(read_told, self._post("tell", tell_table(tells[0])))

    def tell_many(self, outcomes: Iterable[Tell | tuple[object, ...]]) -> list[Told]:
        """Store several outcomes, as `Experiment.tell_many` does; up to 10,000 in one transaction."""
        tells, refused = read_tells(self.setup.outcome, outcomes)
        acknowledged: list[Told] = []
        for batch in batches([tell_table(each) for each in tells]):
            reply = self._post("tell-many", {"outcomes": batch})
            acknowledged += understood(lambda reply: [read_told(each) for each in reply["told"]], reply)
        return acknowledgements(acknowledged, refused)

    async def ask_async(self, unit: str, segment: str | None = None, *, fallback: str | None = None) -> Decision:
        """Do what `ask` does in a thread, for callers in an event loop."""
        return await asyncio.to_thread(self.ask, unit, segment, fallback=fallback)

    async def ask_many_async(
        self, units: Iterable[str], segments: Iterable[str] | None = None, *, fallback: str | None = None
    ) -> list[Decision]:
        """Do what `ask_many` does in a thread, for callers in an event loop."""
        return await asyncio.to_thread(self.ask_many, units, segments, fallback=fallback)

    async def tell_async(
        self,
        unit: str,
        value: float = 1.0,
        *,
        key: str = "",
        happened_at: dt.datetime | None = None,
        correct: bool = False,
    ) -> Told:
        """Do what `tell` does in a thread, for callers in an event loop."""
        return await asyncio.to_thread(self.tell, unit, value, key=key, happened_at=happened_at, correct=correct)

    async def tell_many_async(self, outcomes: Iterable[Tell | tuple[object, ...]]) -> list[Told]:
        """Do what `tell_many` does in a thread, for callers in an event loop."""
        return await asyncio.to_thread(self.tell_many, outcomes)

    def tick(self) -> Version | None:
        """Make the next policy version now if there is anything new; return the current version."""
        return self._store.tick(self.name)

    # ---------------------------------------------------------------- answering

    def answer(self) -> LiveAnswer:
        """Return the results so far, computed here from the log: the same as the service's own answer.

        With nothing new, it is the same object.
        """
        with self._lock:
            headers = {"Accept": ARROW}
            if self._answer is not None:
                headers["If-None-Match"] = self._answer[0]
            reply = self._connection.call("GET", self._path("answer"), timeout=self._store.patience, headers=headers)
            if self._answer is not None and reply.status == 304:
                return self._answer[1]
            answer = read_answer(reply.body)
            tag = reply.headers.get("etag")
            self._answer = None if tag is None else (tag, answer)
            return answer

    def log(self) -> Data:
        """Return the log, in memory, with every arm's probability in each row."""
        reply = self._connection.call("GET", self._path("log"), timeout=self._store.patience, headers={"Accept": ARROW})
        state, _ = read_stream(reply.body)
        if not len(state.rows):
            raise LogError(f"{self.name!r} has no decisions yet.")
        return state.log()

    def status(self) -> Status:
        """Return the experiment's state, arms, probabilities and counts."""
        reply = self._store.get(self._path())
        status = understood(read_status, reply)
        self._setup = understood(lambda reply: Setup.from_dict(reply["setup"]), reply)
        self._arms = tuple(arm for arm, *_ in status.arms)
        return status

    def changes(self) -> Changes:
        """Return the audit: every change with its time, author and reason."""
        reply = self._store.get(self._path("changes"))
        return Changes(self.name, understood(lambda reply: [read_change(each) for each in reply["changes"]], reply))

    def replay(self) -> list[Version]:
        """Have the service compute every policy version again, from the rows that it was made from."""
        reply = self._connection.call("POST", self._path("replay"), timeout=self._store.patience).json()
        return understood(lambda reply: [read_version(each) for each in reply["versions"]], reply)

    # ---------------------------------------------------------------- changing

    def start(self, *, author: str | None = None, reason: str = "") -> RemoteExperiment:
        """Take units from now on; return the experiment itself."""
        self._change("start", author, reason)
        return self

    def stop(self, final: str | None = None, *, author: str | None = None, reason: str = "") -> None:
        """Take no new units, but still take outcomes. Later units get the `final` arm, which is not logged."""
        self._change("stop", author, reason, **({} if final is None else {"final": final}))

    def close(self, *, author: str | None = None, reason: str = "") -> None:
        """Take no units and no outcomes from now on."""
        self._change("close", author, reason)

    def add_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Add an arm while the experiment runs; it had probability 0 before."""
        self._change("add_arm", author, reason, arm=read_text("arm", arm))

    def add_segment(self, segment: str, *, author: str | None = None, reason: str = "") -> None:
        """Add a segment to an experiment with segments; the policy begins to learn there with the first unit."""
        self._change("add_segment", author, reason, segment=read_text("segment", segment))

    def pause_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Stop choosing an arm until it is resumed."""
        self._change("pause_arm", author, reason, arm=arm)

    def resume_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Choose a paused arm again."""
        self._change("resume_arm", author, reason, arm=arm)

    def drop_arm(self, arm: str, *, author: str | None = None, reason: str = "") -> None:
        """Stop choosing an arm, for good."""
        self._change("drop_arm", author, reason, arm=arm)

    def set_policy(self, policy: Policy, *, author: str | None = None, reason: str = "") -> None:
        """Use another policy from now on."""
        labels = tuple(arm for arm, *_ in self.status().arms)
        check_policy(policy, labels, self.setup.outcome)
        self._change("set_policy", author, reason, policy=policy_table(policy))

    def erase(self, unit: str, *, author: str | None = None, reason: str = "") -> bool:
        """Erase a person: replace the unit's name by a random one. Answers do not change.

        Returns whether there was anything to erase.
        """
        content = {"unit": read_unit(unit), **who_table(author, reason)}
        reply = self._connection.call("POST", self._path("erase"), content, repeatable=False).json()
        return understood(lambda reply: bool(reply["erased"]), reply)

    # ---------------------------------------------------------------- parts

    def _change(self, what: str, author: str | None, reason: str, **content: object) -> None:
        whole = {"what": what, **content, **who_table(author, reason)}
        self._connection.call("POST", self._path("changes"), whole, repeatable=False)

    def _post(self, act: str, content: Mapping[str, object]) -> JsonObject:
        return self._connection.call("POST", self._path(act), content).json()

    def _path(self, act: str = "") -> str:
        return path_of(self.name, act)
