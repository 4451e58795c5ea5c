"""Calls: checks of the arguments of asks and tells, and reading of the replies, for all ways of calling."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from belated.base.errors import BelatedError, OptionError, argument
from belated.base.text import shown
from belated.live.design import read_text, read_unit, read_units
from belated.live.errors import ContradictionError
from belated.live.records import Decision, Tell, Told, make_tell, moment, stamp

if TYPE_CHECKING:
    from belated.live.asking import UnitAsked
    from belated.live.design import Setup
    from belated.live.outcomes import Outcome

_Item = TypeVar("_Item")

#: Acknowledgements of outcomes that cannot be, by their place among the others.
Refused = dict[int, Told]


def several(name: str, values: Iterable[_Item]) -> Iterable[_Item]:
    """Return an iterable of values; raise if a single value was given."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise OptionError(f"{argument(name)} is of type {type(values).__name__}; it must be a list.")
    return values


def read_asks(setup: Setup | None, units: Iterable[str], segments: Iterable[str] | None) -> Sequence[UnitAsked]:
    """Return units as text, with their segments if the experiment has them; raise if one is invalid.

    Without a setup, it is not known whether it has them.
    """
    wanted = read_units(list(several("units", units)))
    if segments is None:
        if setup is not None and setup.segmented:
            raise OptionError(f"{argument('segment')} is missing; this experiment needs the segment of every unit.")
        return wanted
    if setup is not None and not setup.segmented:
        raise OptionError(f"{argument('segment')} is given, but the experiment has no segments; leave it out.")
    names = [read_text("segment", segment) for segment in ([segments] if isinstance(segments, str) else segments)]
    if len(names) != len(wanted):
        raise OptionError(f"{argument('segments')} has {len(names):,} names, but there are {len(wanted):,} units.")
    return list(zip(wanted, names, strict=True))


def read_ask(setup: Setup, unit: str, segment: str | None) -> UnitAsked:
    """Return one unit as `read_asks` does."""
    if segment is None and not setup.segmented:  # as most are
        return read_unit(unit)
    return read_asks(setup, [unit], None if segment is None else [segment])[0]


def decided(reply: Decision | BelatedError) -> Decision:
    """Return the decision of an ask; raise its error if it has one."""
    if isinstance(reply, BelatedError):
        raise reply
    return reply


def decisions(replies: list[Decision | BelatedError]) -> list[Decision]:
    """Return the decisions of asks; raise the first error among them."""
    return list(map(decided, replies))


def read_tells(outcome: Outcome, outcomes: Iterable[Tell | tuple[object, ...]]) -> tuple[list[Tell], Refused]:
    """Return the valid tells, and why the others are refused."""
    tells: list[Tell] = []
    refused: Refused = {}
    for place, each in enumerate(several("outcomes", outcomes)):
        try:
            if len(each) == 2:  # as most are
                unit, value = each
                tells.append(make_tell((read_unit(unit), outcome.read(value), "", None, False)))
            else:
                tells.append(read_tell(outcome, *each))
        except BelatedError as error:
            unit = next(iter(each))
            refused[place] = Told(unit if isinstance(unit, str) else shown(unit), "refused", str(error))
        except TypeError:
            raise OptionError(f"Outcome {place} cannot be read; give a Tell, or a tuple of unit and value.") from None
    return tells, refused


def read_tell(
    outcome: Outcome, unit: object, value: object, key: object = "", happened_at: object = None, correct: object = False
) -> Tell:
    """Return a valid tell; raise if a part of it is invalid."""
    name, number = read_unit(unit), outcome.read(value)
    if key != "" and key is not None:
        if not outcome.is_events:
            raise OptionError(f"{argument('key')} is only for events; the outcomes of this experiment are not events.")
        read_text("key", key)
    when = None if happened_at is None else _read_time(happened_at)
    return make_tell((name, number, key or "", when, bool(correct)))


def _read_time(value: object) -> dt.datetime:
    """Return when something happened, in UTC."""
    if not isinstance(value, dt.datetime):
        raise OptionError(f"{argument('happened_at')} is of type {type(value).__name__}; it must be a datetime.")
    try:
        return moment(stamp(value))
    except Exception:  # a time zone may raise anything; or it is pandas' NaT
        raise OptionError(f"{argument('happened_at')} is {shown(value)}; it must be a datetime of UTC.") from None


def acknowledgements(said: list[Told], refused: Refused) -> list[Told]:
    """Return the acknowledgements of all outcomes, in the order in which they were given."""
    for place, why in refused.items():  # in order, so that each one is at its place
        said.insert(place, why)
    return said


def taken(said: Told) -> Told:
    """Return the acknowledgement of one outcome; raise if it was not taken."""
    if said.status == "contradiction":
        raise ContradictionError(f"The outcome contradicts what is known: {said.why}")
    if said.status == "refused":
        raise OptionError(f"The outcome is refused: {said.why}")
    return said
