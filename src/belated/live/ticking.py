"""Ticking: the next policy version, made from what has arrived since the last one; `Ticker` makes it when it is due."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from belated.base.errors import PolicyError
from belated.base.text import one_line
from belated.live.deciding import decide
from belated.live.design import Setup, Snapshot, add_version, snapshot
from belated.live.learning import Knowledge, known_at, last_arrival, learn
from belated.live.records import Version
from belated.live.storage import Session, Storage
from belated.live.telling import adopt
from belated.simulation.policies import Policy

#: From an experiment's number and a rule's to the policy, with the user's own function if it has one.
FindPolicy = Callable[[Session, int, int], Policy]


def tick(storage: Storage, name: str, find_policy: FindPolicy) -> Version | None:
    """Make the next version if anything is new; return the current one, None if there is none.

    A stopped experiment gets no versions, but outcomes that were parked while their units were asked are given to them.
    If the policy fails, the last good version stays in use, and the experiment's `problem` says why.
    """
    with storage.reading() as session:
        about = snapshot(session, name)
        if about.version is None or about.state == "closed":
            return about.version
        policy = find_policy(session, about.id, about.version.rule)
        target, known = about.version, None
        if about.state == "running":
            target, known = _next(session, about, about.version)
    version, problem = None, about.problem
    if known is not None:
        version, problem = _decided(about, target, known, policy)  # nobody waits for a policy that is slow
    if version is None and problem == about.problem and not about.waiting:
        return about.version
    with storage.writing() as session:
        hold(session, about.id)
        now = snapshot(session, name)
        if about.waiting and now.state != "closed":
            adopt(session, now)  # a unit that was asked while its outcome was parked elsewhere
        if now.version is None or now.version.number != about.version.number or now.state != about.state:
            return now.version  # another tick or a change was first
        if problem != now.problem:
            session.run("update experiment set problem = ? where id = ?", problem, about.id)
        if version is not None and add_version(session, about.id, version):
            return version
        return now.version


def hold(session: Session, experiment: int) -> None:
    """Let no other transaction change the experiment or add versions until this one ends."""
    session.known = None  # its transaction may be rolled back
    session.run("update experiment set state = state where id = ?", experiment)


def _next(session: Session, about: Snapshot, current: Version) -> tuple[Version, Knowledge | None]:
    """Return the next version, still without probabilities, and what it knows; None if nothing is new."""
    arrived = last_arrival(session, about.id, current.watermark, session.watermark)
    made_at = max(session.now, current.made_at, arrived + 1)
    target = replace(
        current, number=current.number + 1, watermark=session.watermark, made_at=made_at, offered=about.offered,
        cause="tick",
    )  # fmt: skip
    before = known_at(current, len(about.arms), len(about.segments))
    known = learn(session, about.id, about.setup.outcome, current, target, before)
    return target, None if known == before else known


def _decided(about: Snapshot, target: Version, known: Knowledge, policy: Policy) -> tuple[Version | None, str | None]:
    """Return a version with its probabilities, or None and what is wrong with the policy."""
    try:
        p = decide(policy, about.labels, about.offered, known, about.setup.planned, about.segments)
    except PolicyError as error:
        return None, one_line(error, 500)
    return with_knowledge(target, known, p), None


def with_knowledge(version: Version, known: Knowledge, probabilities: list[float]) -> Version:
    """Return a version with what is known and what was decided."""
    return replace(
        version, step=known.step, counts=known.counts, totals=known.totals, probabilities=tuple(probabilities),
        steps=known.steps,
    )  # fmt: skip


def changed_version(session: Session, about: Snapshot, rule: int, policy: Policy, cause: str) -> str | None:
    """Insert the version that follows a change; return what is wrong with the policy, if anything is.

    It is made from what the last version knew. If the policy fails, the last probabilities of the arms that are
    still offered are scaled to 1.
    """
    current = about.version
    if current is None:
        return None
    known = known_at(current, len(about.arms), len(about.segments))
    problem = None
    try:
        p = decide(policy, about.labels, about.offered, known, about.setup.planned, about.segments)
    except PolicyError as error:
        problem = one_line(error, 500)
        p = remaining(current, about.offered, len(about.arms), len(about.segments))
    made_at = max(session.now, current.made_at)
    version = replace(
        current, number=current.number + 1, rule=rule, made_at=made_at, offered=about.offered, cause=cause
    )
    add_version(session, about.id, with_knowledge(version, known, p))
    return problem


def remaining(current: Version, offered: Sequence[int], arms: int, segments: int = 0) -> list[float]:
    """Return the last probabilities of the arms that are still offered, scaled to 1; equal ones if all are 0."""
    p: list[float] = []
    for segment in range(max(segments, 1)):
        last = current.chances(segment)
        kept = [last[k] if k in offered and k < len(last) else 0.0 for k in range(arms)]
        whole = math.fsum(kept)
        even = [1 / len(offered) if k in offered else 0.0 for k in range(arms)]
        p += [share / whole for share in kept] if whole > 0 else even
    return p


# ---------------------------------------------------------------- when

#: How long the thread rests after versions, in times that they took and in seconds at most: under load, enough is
#: always new, and asks and tells wait while a version is stored.
_REST, _LONGEST_REST = 3, 0.5


class Ticker:
    """Makes versions beside the writer, so that no ask waits for a policy.

    Parameters
    ----------
    tick : callable
        Makes a version of an experiment, given its name.
    """

    def __init__(self, tick: Callable[[str], object]) -> None:
        self._tick = tick
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._setups: dict[str, Setup] = {}
        self._new: dict[str, int] = {}
        self._last: dict[str, float] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, name: str, setup: Setup) -> None:
        """Make versions of an experiment from now on; the first may include rows that exist already."""
        with self._lock:
            if name not in self._setups:
                self._last[name], self._new[name] = time.monotonic(), 1
            self._setups[name] = setup
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="belated-ticker", daemon=True)
                self._thread.start()
        self._wake.set()

    def note(self, name: str, rows: int) -> None:
        """Take note of rows that were committed."""
        setup = self._setups.get(name)
        if setup is None:
            return
        with self._lock:
            before = self._new.get(name, 0)
            self._new[name] = before + rows
        if before == 0 or before + rows >= setup.every:
            self._wake.set()

    def close(self) -> None:
        """Stop; the next process that opens the store makes the version that is due."""
        self._closed.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while not self._closed.is_set():
            self._wake.wait(self._patience())
            self._wake.clear()
            if not self._closed.is_set():
                began = time.monotonic()
                self._serve()
                self._closed.wait(min(_REST * (time.monotonic() - began), _LONGEST_REST))

    def _patience(self) -> float | None:
        """Return the seconds until the next version is due; None if nothing is new."""
        now = time.monotonic()
        with self._lock:
            waits = [
                self._last[name] + setup.seconds - now
                for name, setup in self._setups.items()
                if self._new.get(name) or setup.outcome.is_events  # windows close without an event that says so
            ]
        return max(min(waits), 0.001) if waits else None

    def _serve(self) -> None:
        for name, setup in list(self._setups.items()):
            now = time.monotonic()
            with self._lock:
                new = self._new.get(name, 0)
                late = now - self._last[name] >= setup.seconds and (new or setup.outcome.is_events)
                if new < setup.every and not late:
                    continue
                self._new[name], self._last[name] = 0, now
            with suppress(Exception):  # the storage is busy or gone: the next tick makes up for it
                self._tick(name)
