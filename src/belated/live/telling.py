"""Telling: outcomes are counted once, corrected only on purpose, and parked if their unit is not known yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
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

#: An outcome to be inserted: decision, key, revision, value, when it happened, when it arrived.
Added = tuple[int, str, int, float, int | None, int]


class _Batch:
    """What a batch of tells finds, and what it adds."""

    def __init__(self, session: Session, about: Snapshot, tells: Sequence[Tell]) -> None:
        self.session, self.about = session, about
        units = sorted({tell.unit for tell in tells})
        rows = session.run(
            "select unit, id, assigned_at from decision where experiment = ? and unit in (?*)", about.id, units
        )
        self.decisions: dict[str, tuple[int, int]] = {unit: (key, at) for unit, key, at in rows}
        self.known = _outcomes(session, [row[1] for row in rows])
        self.parked: dict[ParkedKey, float] = {}
        if len(self.decisions) < len(units):
            waiting = session.run(
                "select unit, key, value from parked where experiment = ? and unit in (?*)", about.id, units
            )
            self.parked = {(unit, key): value for unit, key, value in waiting}
        self.added: list[Added] = []

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

    def store(self) -> set[int]:
        """Insert what was taken; return the decisions whose outcomes another transaction stored first."""
        rows, self.added = sorted(self.added, key=itemgetter(0)), []  # in one order, as asks are
        lost = insert(self.session, self.about.id, rows)
        if lost:
            self.known |= _outcomes(self.session, sorted(lost))
        return lost


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
    while lost := batch.store():
        for i, each in enumerate(tells):
            if each.unit in batch.decisions and batch.decisions[each.unit][0] in lost:
                said[i] = batch.take(each)
    return said


def insert(session: Session, experiment: int, rows: Sequence[Added]) -> set[int]:
    """Insert outcomes; return the decisions of those that another transaction has stored meanwhile."""
    numbered = {key: (key, experiment, *row) for key, row in zip(session.new_ids(len(rows)), rows, strict=True)}
    there = session.add_outcomes(list(numbered.values())) if rows else set()
    return {row[2] for key, row in numbered.items() if key not in there} if len(there) < len(rows) else set()


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
        rows = session.run(query + " order by d.id", about.id)
    else:
        rows = session.run(query + " and p.unit in (?*) order by d.id", about.id, sorted(units))
    if not rows:
        return 0
    known = _outcomes(session, sorted({row[4] for row in rows}))
    fresh: list[Added] = [
        (decision, key, 0, value, happened, max(session.now, at))
        for _, key, value, happened, decision, at in rows
        if (decision, key) not in known
    ]
    insert(session, about.id, fresh)
    for unit, key, *_ in rows:
        session.run("delete from parked where experiment = ? and unit = ? and key = ?", about.id, unit, key)
    return len(fresh)
