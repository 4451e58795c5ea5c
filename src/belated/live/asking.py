"""Asking: a unit's arm, drawn from the current version and stored before it is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from belated.base.errors import BelatedError, OptionError, argument
from belated.base.text import one_line
from belated.live.design import Snapshot, snapshot, versions
from belated.live.draws import choose, cumulative, uniforms
from belated.live.errors import ClosedError, NotRunningError
from belated.live.records import Decision, Version, make_decision, moment
from belated.live.storage import Session
from belated.live.telling import adopt

#: A decision's row, as the table has it.
Row = tuple[int, int, str, int, int, int, int | None]

#: What is asked: a unit or, in an experiment with segments, a unit and the name of its segment.
Ask = str | tuple[str, str]

#: The number of each unit's segment; None if the experiment has no segments.
Places = dict[str, int] | None


def ask(session: Session, name: str, asks: Sequence[Ask]) -> list[Decision | BelatedError]:
    """Return the decision of each unit, in their order; new ones are inserted.

    A unit that a stopped experiment does not take, or whose segment is not known, has an error in its place.
    """
    about = snapshot(session, name)
    _check_takes_asks(about)
    if not about.setup.segmented:
        return _ask(session, about, cast("Sequence[str]", asks), None)
    pairs, numbers = cast("Sequence[tuple[str, str]]", asks), {label: s for s, label in enumerate(about.segments)}
    places: dict[str, int] = {}
    for unit, segment in pairs:
        if segment in numbers:
            places.setdefault(unit, numbers[segment])  # the first counts, as it does between two asks
    units = [unit for unit, segment in pairs if segment in numbers]
    replies = iter(_ask(session, about, units, places) if units else [])
    return [next(replies) if segment in numbers else _unknown(about, segment) for _, segment in pairs]


def _ask(session: Session, about: Snapshot, units: Sequence[str], places: Places) -> list[Decision | BelatedError]:
    wanted = sorted(dict.fromkeys(units))  # in one order everywhere: transactions that cross do not wait in a circle
    if about.state != "running":
        known = find(session, about.id, wanted)
        return [_reply(about, unit, known.get(unit), places, session) for unit in units]
    known, old = _decide(session, about, wanted, places)
    if about.waiting:
        adopt(session, about, [unit for unit in wanted if unit not in old])
    return [*_replies(about, units, known, old, session)]


def find(session: Session, experiment: int, units: list[str]) -> dict[str, Row]:
    """Return the rows of the units that are decided."""
    columns = "d.id, d.experiment, d.unit, d.arm, d.version, d.assigned_at, d.segment"
    rows = session.find_decisions(experiment, units, columns)
    return {row[3]: row[1:] for row in rows}


def _decide(session: Session, about: Snapshot, units: list[str], places: Places) -> tuple[dict[str, Row], set[str]]:
    """Draw and insert decisions; who came first wins. Return the rows of all units, and the units that had one.

    Most units are new, and looking for them first would take longer than to insert them.
    """
    version = about.version
    if version is None:
        raise NotRunningError(f"{about.name!r} has no policy version.")
    now, number, keys = max(session.now, version.made_at), version.number, session.new_ids(len(units))
    u = uniforms(about.salt, units)
    rows: list[Row]
    if places is None:
        sums, drawn = cumulative(version.probabilities), zip(keys, units, u, strict=True)
        rows = [(key, about.id, unit, choose(each, sums), number, now, None) for key, unit, each in drawn]
    else:
        by_segment = {s: cumulative(version.chances(s)) for s in set(places.values())}
        by_unit = zip(keys, units, u, (places[unit] for unit in units), strict=True)
        rows = [(key, about.id, unit, choose(each, by_segment[s]), number, now, s) for key, unit, each, s in by_unit]
    lost = session.add_new("decision", rows, unless="experiment, unit")
    known = {row[2]: row for row in rows}
    old = {row[2] for row in rows if row[0] in lost} if lost else set()
    return (known | find(session, about.id, sorted(old)) if old else known), old


def _replies(
    about: Snapshot, units: Sequence[str], known: dict[str, Row], old: set[str], session: Session
) -> list[Decision]:
    labels, current = about.labels, about.version
    listed: list[Version] = [] if current is None else [current]
    older = sorted({row[4] for row in known.values()} - {version.number for version in listed})
    if older:
        listed += versions(session, about.id, older)
    made = {version.number: version for version in listed}
    used = {(row[4], row[6]) for row in known.values()}
    chances = {(number, segment): about.probabilities(made[number], segment) for number, segment in used}
    names: dict[int | None, str | None] = {None: None, **dict(enumerate(about.segments))}
    times = {at: moment(at) for at in {row[5] for row in known.values()}}
    seen, replies = set(old), []
    for unit in units:
        _, _, _, arm, number, at, s = known[unit]
        reply = (unit, labels[arm], chances[number, s], number, times[at], unit in seen, True, names[s])
        replies.append(make_decision(reply))
        seen.add(unit)
    return replies


def _reply(about: Snapshot, unit: str, row: Row | None, places: Places, session: Session) -> Decision | BelatedError:
    """Return the reply of a stopped experiment: a unit's own arm, or the final one, which is not logged."""
    if row is not None:
        return _replies(about, [unit], {unit: row}, {unit}, session)[0]
    if about.final is None:
        return NotRunningError(f"{about.name!r} has stopped without a final arm, and takes no new units.")
    final = about.labels[about.final]
    chances = {label: float(label == final) for label in about.labels}
    segment = None if places is None else about.segments[places[unit]]
    return Decision(unit, final, chances, 0, None, logged=False, segment=segment)


def _unknown(about: Snapshot, segment: str) -> OptionError:
    known = ", ".join(repr(one_line(label)) for label in about.segments)
    return OptionError(
        f"{argument('segment')} is {one_line(repr(segment))}; it must be one of {known}, or be added to the experiment."
    )


def _check_takes_asks(about: Snapshot) -> None:
    if about.state == "draft":
        raise NotRunningError(f"{about.name!r} has not started; call start() first.")
    if about.state == "closed":
        raise ClosedError(f"{about.name!r} is closed; it takes neither units nor outcomes.")
