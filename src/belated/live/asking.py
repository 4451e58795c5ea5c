"""Asking: a unit's arm, drawn from the current version and stored before it is answered."""

from __future__ import annotations

from collections.abc import Sequence

from belated.live.design import Snapshot, snapshot, versions
from belated.live.draws import choose, cumulative, uniform
from belated.live.errors import ClosedError, LiveError, NotRunningError
from belated.live.records import Decision, Version, moment
from belated.live.storage import Session
from belated.live.telling import adopt

#: A decision's row: its number, arm, version and time.
Row = tuple[int, int, int, int]


def ask(session: Session, name: str, units: Sequence[str]) -> list[Decision | LiveError]:
    """Return the decision of each unit, in their order; new ones are inserted.

    A unit that a stopped experiment does not take has an error in its place.
    """
    about = snapshot(session, name)
    _check_takes_asks(about)
    wanted = sorted(set(units))  # in one order everywhere: transactions that cross do not wait in a circle
    runs = about.state == "running"
    known = {} if runs and session.inserts_first else find(session, about.id, wanted)
    unknown = [unit for unit in wanted if unit not in known] if len(known) < len(wanted) else []
    if unknown and not runs:
        return [_reply(about, unit, known.get(unit), session) for unit in units]
    new: set[str] = set()
    if unknown:
        new = _decide(session, about, unknown, known)
        if about.waiting:
            adopt(session, about, new)
    return [*_replies(about, units, known, new, session)]


def find(session: Session, experiment: int, units: list[str]) -> dict[str, Row]:
    """Return the rows of the units that are decided."""
    rows = session.run(
        "select unit, id, arm, version, assigned_at from decision where experiment = ? and unit in (?*)",
        experiment, units,
    )  # fmt: skip
    return {row[0]: row[1:] for row in rows}


def _decide(session: Session, about: Snapshot, units: list[str], known: dict[str, Row]) -> set[str]:
    """Draw and insert the decisions of new units; who came first wins. Return the units that are new."""
    version, salt = about.version, about.salt
    if version is None:
        raise NotRunningError(f"{about.name!r} has no policy version.")
    now, number, sums = max(session.now, version.made_at), version.number, cumulative(version.probabilities)
    drawn = {
        unit: (key, choose(uniform(salt, unit), sums), number, now)
        for key, unit in zip(session.new_ids(len(units)), units, strict=True)
    }
    new = session.add_decisions([(key, about.id, unit, arm, number, now) for unit, (key, arm, *_) in drawn.items()])
    if len(new) == len(units):
        known.update(drawn)
        return new
    known |= {unit: drawn[unit] for unit in new}
    known |= find(session, about.id, [unit for unit in units if unit not in new])
    return new


def _replies(
    about: Snapshot, units: Sequence[str], known: dict[str, Row], new: set[str], session: Session
) -> list[Decision]:
    labels, current = about.labels, about.version
    listed: list[Version] = [] if current is None else [current]
    older = sorted({row[2] for row in known.values()} - {version.number for version in listed})
    if older:
        listed += versions(session, about.id, older)
    chances = {version.number: about.probabilities(version) for version in listed}
    times = {at: moment(at) for at in {row[3] for row in known.values()}}
    fresh, replies = set(new), []
    for unit in units:
        _, arm, version, at = known[unit]
        replies.append(Decision(unit, labels[arm], chances[version], version, times[at], unit not in fresh))
        fresh.discard(unit)
    return replies


def _reply(about: Snapshot, unit: str, row: Row | None, session: Session) -> Decision | LiveError:
    """Return the reply of a stopped experiment: a unit's own arm, or the final one, which is not logged."""
    if row is not None:
        return _replies(about, [unit], {unit: row}, set(), session)[0]
    if about.final is None:
        return NotRunningError(f"{about.name!r} has stopped without a final arm, and takes no new units.")
    final = about.labels[about.final]
    chances = {label: float(label == final) for label in about.labels}
    return Decision(unit, final, chances, 0, None, logged=False)


def _check_takes_asks(about: Snapshot) -> None:
    if about.state == "draft":
        raise NotRunningError(f"{about.name!r} has not started; call start() first.")
    if about.state == "closed":
        raise ClosedError(f"{about.name!r} is closed; it takes neither units nor outcomes.")
