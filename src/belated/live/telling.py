"""Telling: outcomes are counted once, corrected only on purpose, and parked if their unit is not known yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from belated.base.errors import BelatedError
from belated.live.design import Snapshot, read_text, read_unit, snapshot
from belated.live.errors import ClosedError, NotRunningError
from belated.live.records import Tell, Told, stamp

if TYPE_CHECKING:
    from belated.live.outcomes import Outcome
    from belated.live.storage import Session

#: An outcome that is known: its revision and value.
Known = dict[tuple[int, str], tuple[int, float]]
ParkedKey = tuple[str, str]


class _Batch:
    """What a batch of tells finds, and what it adds."""

    def __init__(self, session: Session, about: Snapshot, tells: Sequence[Tell]) -> None:
        self.session, self.about = session, about
        units = sorted({tell.unit for tell in tells})
        rows = session.run(
            "select unit, id, assigned_at from decision where experiment = ? and unit in (?*) order by id"
            + session.and_lock, about.id, units,
        )  # fmt: skip
        self.decisions: dict[str, tuple[int, int]] = {unit: (key, at) for unit, key, at in rows}
        keys = [row[1] for row in rows]
        self.known = _outcomes(session, keys)
        self.parked: dict[ParkedKey, float] = {}
        if len(self.decisions) < len(units):
            waiting = session.run(
                "select unit, key, value from parked where experiment = ? and unit in (?*)", about.id, units
            )
            self.parked = {(unit, key): value for unit, key, value in waiting}
        self.added: list[tuple[int, str, int, float, int | None, int]] = []

    def take(self, tell: Tell) -> Told:
        """Store an outcome, or say why not."""
        happened = None if tell.happened_at is None else stamp(tell.happened_at)
        if tell.unit not in self.decisions:
            return self._park(tell, happened)
        decision, assigned_at = self.decisions[tell.unit]
        before = self.known.get((decision, tell.key))
        if before is not None and before[1] == tell.value:
            return Told(tell.unit, "repeated")
        if before is not None and not tell.correct:
            return Told(tell.unit, "contradiction", _CONTRADICTION)
        revision = 0 if before is None else before[0] + 1
        self.known[decision, tell.key] = revision, tell.value
        arrived = max(self.session.now, assigned_at)
        self.added.append((decision, tell.key, revision, tell.value, happened, arrived))
        return Told(tell.unit, "corrected" if revision else "new")

    def _park(self, tell: Tell, happened: int | None) -> Told:
        before = self.parked.get((tell.unit, tell.key))
        if before is not None and before != tell.value and not tell.correct:
            return Told(tell.unit, "contradiction", _CONTRADICTION)
        if before != tell.value:
            self.session.run(
                "insert into parked (experiment, unit, key, value, happened_at, arrived_at) values (?, ?, ?, ?, ?, ?) "
                "on conflict (experiment, unit, key) do update set value = excluded.value",
                self.about.id, tell.unit, tell.key, tell.value, happened, self.session.now,
            )  # fmt: skip
            self.parked[tell.unit, tell.key] = tell.value
        return Told(tell.unit, "parked")

    def store(self) -> None:
        """Insert what was taken."""
        ids = self.session.new_ids(len(self.added))
        rows = [(i, self.about.id, *row) for i, row in zip(ids, self.added, strict=True)]
        if rows:
            self.session.add("outcome", rows)


_CONTRADICTION = "another value was told before; if it was wrong, say that this one is a correction"


def tell(session: Session, name: str, tells: Sequence[Tell]) -> list[Told]:
    """Store outcomes that were `checked`; return an acknowledgement of each, in their order."""
    about = snapshot(session, name)
    if about.state == "closed":
        raise ClosedError(f"{about.name!r} is closed; it takes neither units nor outcomes.")
    if about.state == "draft":
        raise NotRunningError(f"{about.name!r} has not started; call start() first.")
    batch = _Batch(session, about, tells)
    said = [batch.take(each) for each in tells]
    batch.store()
    return said


def checked(outcome: Outcome, tell: Tell) -> Tell | Told:
    """Return a tell whose parts are all possible; or why it is refused."""
    unit, value, key, *_ = tell
    try:
        unit, value = read_unit(unit), outcome.read(value)
        if key and not outcome.is_events:
            return Told(unit, "refused", "`key` tells events apart; this outcome is not of events")
        key = read_text("key", key) if key else ""
    except BelatedError as error:
        return Told(str(tell.unit), "refused", str(error).rstrip("."))
    return Tell(unit, value, key, tell.happened_at, tell.correct)


def _outcomes(session: Session, decisions: list[int]) -> Known:
    """Return the latest revision of each outcome of some decisions."""
    if not decisions:
        return {}
    rows = session.run(
        "select decision, key, revision, value from outcome where decision in (?*) order by revision", decisions
    )
    return {(decision, key): (revision, value) for decision, key, revision, value in rows}


def adopt(session: Session, about: Snapshot, units: Iterable[str] | None = None) -> int:
    """Give parked outcomes to their units, which have been asked since; return their number."""
    query = (
        "select p.unit, p.key, p.value, p.happened_at, d.id, d.assigned_at from parked p join decision d "
        "on d.experiment = p.experiment and d.unit = p.unit where p.experiment = ?"
    )
    if units is None:
        rows = session.run(query + " order by d.id" + session.and_lock, about.id)
    else:
        rows = session.run(query + " and p.unit in (?*) order by d.id" + session.and_lock, about.id, sorted(units))
    if not rows:
        return 0
    known = _outcomes(session, sorted({row[4] for row in rows}))
    fresh = [row for row in rows if (row[4], row[1]) not in known]
    session.add(
        "outcome",
        [
            (i, about.id, decision, key, 0, value, happened, max(session.now, at))
            for i, (_, key, value, happened, decision, at) in zip(session.new_ids(len(fresh)), fresh, strict=True)
        ],
    )
    for unit, key, *_ in rows:
        session.run("delete from parked where experiment = ? and unit = ? and key = ?", about.id, unit, key)
    return len(fresh)
