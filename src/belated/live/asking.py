"""Asking: a unit's arm, drawn from the current version and stored before it is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from belated.base.errors import BelatedError, OptionError, argument
from belated.base.text import one_line
from belated.live.design import Snapshot, snapshot, versions
from belated.live.draws import choose, cumulative, uniforms
from belated.live.errors import CrossedError, NotRunningError
from belated.live.records import Decision, make_decision, moment
from belated.live.storage import Session
from belated.live.telling import adopt

#: A decision's row, as the table has it.
DecisionRow = tuple[int, int, str, int, int, int, int | None]

#: What is asked: a unit or, in an experiment with segments, a unit and the name of its segment.
UnitAsked = str | tuple[str, str]

#: The number of each unit's segment; None if the experiment has no segments.
Places = dict[str, int] | None


def ask(session: Session, name: str, asks: Sequence[UnitAsked]) -> list[Decision | BelatedError]:
    """Return the decision of each unit, in their order; new ones are inserted.

    A unit that a stopped experiment does not take, or whose segment is unknown, gets an error in its place.
    """
    about = snapshot(session, name)
    about.check_takes_calls()
    if not about.setup.segmented:
        return _ask(session, about, cast("Sequence[str]", asks), None)
    pairs, numbers = cast("Sequence[tuple[str, str]]", asks), {label: s for s, label in enumerate(about.segments)}
    places: dict[str, int] = {}
    for unit, segment in pairs:
        if segment in numbers:
            places.setdefault(unit, numbers[segment])  # the first segment of a unit counts, as it does between two asks
    units = [unit for unit, segment in pairs if segment in numbers]
    replies = iter(_ask(session, about, units, places) if units else [])
    return [next(replies) if segment in numbers else _unknown(about, segment) for _, segment in pairs]


def _ask(session: Session, about: Snapshot, units: Sequence[str], places: Places) -> list[Decision | BelatedError]:
    wanted = sorted(dict.fromkeys(units))  # in one order everywhere: transactions that cross do not wait in a circle
    if about.state != "running":
        known = _decisions(session, about, _find(session, about.id, wanted), repeated=True)
        return [known[unit] if unit in known else _final(about, unit, places) for unit in units]
    known = _decide(session, about, wanted, places)
    if len(wanted) == len(units):
        return [known[unit] for unit in units]
    replies: list[Decision | BelatedError] = []
    for unit in units:
        replies.append(known[unit])
        known[unit] = known[unit]._replace(repeated=True)  # if the unit is in the batch again
    return replies


def _decide(session: Session, about: Snapshot, units: list[str], places: Places) -> dict[str, Decision]:
    """Insert decisions, unless others came first; return those of all units.

    Most units are new, so inserting them first is faster than looking them up.
    """
    rows = _draw(session, about, units, places)
    lost = session.add_new("decision", rows, unless="experiment, unit")
    new = [row for row in rows if row[0] not in lost] if lost else rows
    if about.waiting:
        adopt(session, about, [row[2] for row in new])
    known = _decisions(session, about, new, repeated=False)
    if lost:
        old = _find(session, about.id, [row[2] for row in rows if row[0] in lost])
        if len(old) < len(lost):  # by another server, between the two statements
            raise CrossedError("A unit was erased while it was asked; ask again.")
        known |= _decisions(session, about, old, repeated=True)
    return known


def _draw(session: Session, about: Snapshot, units: list[str], places: Places) -> list[DecisionRow]:
    """Return rows with an arm for each unit, from the current version."""
    version = about.version
    if version is None:
        raise NotRunningError(f"{about.name!r} has no policy version.")
    now, number, keys = max(session.now, version.made_at), version.number, session.new_ids(len(units))
    u = uniforms(about.salt, units)
    if places is None:
        sums, drawn = cumulative(version.probabilities), zip(keys, units, u, strict=True)
        return [(key, about.id, unit, choose(each, sums), number, now, None) for key, unit, each in drawn]
    by_segment = {s: cumulative(version.chances(s)) for s in set(places.values())}
    by_unit = zip(keys, units, u, (places[unit] for unit in units), strict=True)
    return [(key, about.id, unit, choose(each, by_segment[s]), number, now, s) for key, unit, each, s in by_unit]


def _find(session: Session, experiment: int, units: list[str]) -> list[DecisionRow]:
    """Return the rows of the units that are decided."""
    columns = "d.id, d.experiment, d.unit, d.arm, d.version, d.assigned_at, d.segment"
    return [row[1:] for row in session.find_decisions(experiment, units, columns)]


def _decisions(session: Session, about: Snapshot, rows: list[DecisionRow], *, repeated: bool) -> dict[str, Decision]:
    """Return the decisions of rows, by unit."""
    kinds = [row[3:] for row in rows]  # arm, version, time and segment, which many rows share
    distinct = set(kinds)
    listed = [] if about.version is None else [about.version]
    older = sorted({number for _, number, _, _ in distinct} - {version.number for version in listed})
    if older:
        listed += versions(session, about.id, older)
    by_number = {version.number: version for version in listed}
    chances = {(n, s): about.probabilities(by_number[n], s) for n, s in {(n, s) for _, n, _, s in distinct}}
    names: dict[int | None, str | None] = {None: None, **dict(enumerate(about.segments))}
    shared = {
        (arm, n, at, s): (about.labels[arm], chances[n, s], n, moment(at), repeated, True, names[s])
        for arm, n, at, s in distinct
    }
    return {row[2]: make_decision((row[2], *shared[kind])) for row, kind in zip(rows, kinds, strict=True)}


def _final(about: Snapshot, unit: str, places: Places) -> Decision | BelatedError:
    """Return the reply of a stopped experiment to a new unit: the final arm, which is not logged."""
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
