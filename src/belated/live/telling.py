"""Telling: outcomes are counted once, corrected only on purpose, and parked if their unit is not known yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from belated.live.design import Snapshot, snapshot
from belated.live.records import Tell, Told, make_told, stamp

if TYPE_CHECKING:
    from belated.live.storage import Session

#: An outcome that is known: its revision and value.
KnownOutcomes = dict[tuple[int, str], tuple[int, float | None]]
ParkedKey = tuple[str, str]

#: An outcome to be inserted: decision, key, revision, value, when it happened, when it arrived.
Added = tuple[int, str, int, float, int | None, int]


class _Batch:
    """The state of a batch of tells: the rows that exist, and the rows to add."""

    def __init__(self, session: Session, about: Snapshot, tells: Sequence[Tell]) -> None:
        self.session, self.about = session, about
        units = list({tell.unit: None for tell in tells})
        self.decisions = _decisions(session, about.id, units)
        self.known = _outcomes(session, sorted(decision for decision, _ in self.decisions.values()))
        self.parked: dict[ParkedKey, float] = {}
        if len(self.decisions) < len(units):
            waiting = session.run(
                "select unit, key, value from parked where experiment = ? and unit in (?*)", about.id, units
            )
            self.parked = {(unit, key): value for unit, key, value in waiting}
        self.added: list[Added] = []

    def take(self, tells: Iterable[Tell]) -> list[Told]:
        """Return for each outcome whether it is stored, or why not; `store` inserts them."""
        decisions, known, now = self.decisions, self.known, self.session.now
        acknowledged: list[Told] = []
        unknown: list[tuple[str, str, int, Tell, int | None]] = []
        for tell in tells:
            unit, value, key, happened_at, correct = tell
            happened = None if happened_at is None else stamp(happened_at)
            decided = decisions.get(unit)
            if decided is None:
                unknown.append((unit, key, len(acknowledged), tell, happened))
                acknowledged.append(make_told((unit, "parked", None)))
                continue
            decision, assigned_at = decided
            about = decision, key
            revision, before = known.get(about, _UNKNOWN_OUTCOME)
            if before == value:
                acknowledged.append(make_told((unit, "repeated", None)))
            elif before is not None and not correct:
                acknowledged.append(Told(unit, "contradiction", _CONTRADICTION))
            else:
                known[about] = revision + 1, value
                arrived = now if now > assigned_at else assigned_at
                self.added.append((decision, key, revision + 1, value, happened, arrived))
                acknowledged.append(make_told((unit, "new" if before is None else "corrected", None)))
        for *_, place, tell, happened in sorted(unknown):  # in one order, as asks are
            acknowledged[place] = self._park(tell, happened)
        return acknowledged

    def _park(self, tell: Tell, happened: int | None) -> Told:
        """Keep an outcome until its unit is asked; others may have just kept another one."""
        parked = self.parked.get((tell.unit, tell.key))
        if parked is None or (parked != tell.value and tell.correct):
            ((parked,),) = self.session.run(
                "insert into parked (experiment, unit, key, value, happened_at, arrived_at) values (?, ?, ?, ?, ?, ?) "
                "on conflict (experiment, unit, key) do update set value = case when ? then excluded.value "
                "else parked.value end returning value",
                self.about.id, tell.unit, tell.key, tell.value, happened, self.session.now, tell.correct,
            )  # fmt: skip
            self.parked[tell.unit, tell.key] = parked
        if parked != tell.value:
            return Told(tell.unit, "contradiction", _CONTRADICTION)
        return Told(tell.unit, "parked")

    def place(self, tell: Tell) -> tuple[int, str]:
        """Return the decision and key of an outcome; no decision has the number -1."""
        return self.decisions.get(tell.unit, (-1, 0))[0], tell.key

    def store(self) -> set[tuple[int, str]]:
        """Insert the accepted outcomes; return the decisions and keys of outcomes that existed before."""
        rows, self.added = sorted(self.added), []  # in one order, as asks are; no two have the same first three
        lost = insert(self.session, self.about.id, rows)
        if lost:
            self.known |= _outcomes(self.session, sorted({decision for decision, _ in lost}))
        return lost


#: The revision and value of an outcome that is not known.
_UNKNOWN_OUTCOME = (-1, None)

_CONTRADICTION = "another value was told before; if it was wrong, say that this one is a correction."


def tell(session: Session, name: str, tells: Sequence[Tell]) -> list[Told]:
    """Store outcomes that `calls.read_tells` has read; return an acknowledgement of each, in their order."""
    about = snapshot(session, name)
    about.check_takes_calls()
    first = [(unit, key, value, None if at is None else stamp(at)) for unit, value, key, at, _ in tells]
    rest = sorted(session.add_first(about.id, first))  # most are told for the first time
    acknowledged = [make_told((each.unit, "new", None)) for each in tells]
    if not rest:
        return acknowledged
    batch = _Batch(session, about, [tells[place] for place in rest])
    while rest:
        for place, each in zip(rest, batch.take([tells[place] for place in rest]), strict=True):
            acknowledged[place] = each
        lost = batch.store()
        rest = [place for place in rest if batch.place(tells[place]) in lost]
    return acknowledged


def insert(session: Session, experiment: int, outcomes: Sequence[Added]) -> set[tuple[int, str]]:
    """Insert outcomes; return the decisions and keys of outcomes that existed or that others have just stored."""
    rows = [(key, experiment, *row) for key, row in zip(session.new_ids(len(outcomes)), outcomes, strict=True)]
    lost = session.add_new("outcome", rows, unless="decision, key, revision")
    return {(row[2], row[3]) for row in rows if row[0] in lost} if lost else set()


def _decisions(session: Session, experiment: int, units: list[str]) -> dict[str, tuple[int, int]]:
    """Return the number and the time of each unit's decision; erasing the units waits."""
    rows = session.find_decisions(experiment, units, "d.id, d.assigned_at", hold=True)
    return {units[place]: (key, at) for place, key, at in rows}


def _outcomes(session: Session, decisions: list[int]) -> KnownOutcomes:
    """Return the latest revision of each outcome of some decisions."""
    if not decisions:
        return {}
    rows = session.run(
        "select decision, key, revision, value from outcome where decision in (?*) order by revision", decisions
    )
    return {(decision, key): (revision, value) for decision, key, revision, value in rows}


def adopt(session: Session, about: Snapshot, units: Iterable[str] | None = None) -> int:
    """Give parked outcomes to their units, which have been asked since; return their number.

    If no other time is given, an event happened when it was told: before the unit was asked, whatever clocks say.
    """
    query = (
        "select p.unit, p.key, p.value, p.happened_at, p.arrived_at, d.id, d.assigned_at from parked p join decision d "
        "on d.experiment = p.experiment and d.unit = p.unit where p.experiment = ?"
    )
    if units is None:
        rows = session.run(query + " order by d.id", about.id)
    else:
        rows = session.run(query + " and p.unit in (?*) order by d.id", about.id, sorted(units))
    # a unit may have been erased since; from now on, erasing it waits
    there = _decisions(session, about.id, sorted({row[0] for row in rows})) if rows else {}
    rows = [row for row in rows if row[0] in there]
    if not rows:
        return 0
    known = _outcomes(session, sorted({row[5] for row in rows}))
    fresh: list[Added] = []
    for _, key, value, happened, told, decision, at in rows:
        if happened is None and about.setup.outcome.is_events:
            happened = min(told, at - 1)
        if (decision, key) not in known:
            fresh.append((decision, key, 0, value, happened, max(session.now, at)))
    insert(session, about.id, fresh)
    for unit, key, *_ in rows:
        session.run("delete from parked where experiment = ? and unit = ? and key = ?", about.id, unit, key)
    return len(fresh)
