"""Calls: what callers give an experiment is checked here, and what the storage replies is read, however they wait."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from belated.base.errors import BelatedError, OptionError, argument
from belated.live.design import read_text, read_unit
from belated.live.errors import ContradictionError
from belated.live.records import Decision, Tell, Told, make_tell

if TYPE_CHECKING:
    from belated.live.asking import Ask
    from belated.live.design import Setup
    from belated.live.outcomes import Outcome

#: Acknowledgements of outcomes that cannot be, by their place among the others.
Refused = dict[int, Told]


def read_asks(setup: Setup | None, units: Iterable[str], segments: Iterable[str] | None) -> Sequence[Ask]:
    """Return units as text, with their segments if the experiment has them; raise if one cannot be.

    Without a setup, it is not known whether it has them.
    """
    wanted = list(map(read_unit, units))
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


def decisions(replies: list[Decision | BelatedError]) -> list[Decision]:
    """Return the decisions of asks; raise the first error among them."""
    for reply in replies:
        if isinstance(reply, BelatedError):
            raise reply
    return replies  # type: ignore[return-value]


def read_tells(outcome: Outcome, outcomes: Iterable[Tell | tuple[Any, ...]]) -> tuple[list[Tell], Refused]:
    """Return the tells whose parts are all possible, and why the others are refused."""
    tells: list[Tell] = []
    refused: Refused = {}
    for place, each in enumerate(outcomes):
        try:
            if len(each) == 2:  # as most are
                unit, value = each
                tells.append(make_tell((read_unit(unit), outcome.read(value), "", None, False)))
            else:
                tells.append(_read_tell(outcome, *each))
        except BelatedError as error:
            refused[place] = Told(str(next(iter(each))), "refused", str(error).rstrip("."))
        except TypeError:
            raise OptionError(f"Outcome {place} is not one; give a Tell, or a tuple of unit and value.") from None
    return tells, refused


def _read_tell(
    outcome: Outcome, unit: str, value: float, key: str = "", happened_at: Any = None, correct: bool = False
) -> Tell:
    if key:
        if not outcome.is_events:
            raise OptionError("`key` tells events apart; this outcome is not of events.")
        read_text("key", key)
    if happened_at is not None and not isinstance(happened_at, dt.datetime):
        raise OptionError(f"{argument('happened_at')} is a {type(happened_at).__name__}; it must be a datetime.")
    return make_tell((read_unit(unit), outcome.read(value), key or "", happened_at, bool(correct)))


def acknowledgements(said: list[Told], refused: Refused) -> list[Told]:
    """Return the acknowledgements of all outcomes, in the order in which they were given."""
    for place, why in refused.items():  # in order: every one before it is at its place
        said.insert(place, why)
    return said


def taken(said: Told) -> Told:
    """Return the acknowledgement of one outcome; raise if it was not taken."""
    if said.status == "contradiction":
        raise ContradictionError(f"The outcome contradicts what is known: {said.why}.")
    if said.status == "refused":
        raise OptionError(f"The outcome is refused: {said.why}.")
    return said
