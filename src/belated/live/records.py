"""The records of live experiments: decisions, acknowledgements, versions, changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal, NamedTuple

from belated.base.documents import JsonObject

State = Literal["draft", "running", "stopped", "closed"]
ArmState = Literal["offered", "paused", "dropped"]
TellStatus = Literal["new", "repeated", "corrected", "parked", "contradiction", "refused"]

#: What the audit has entries of.
ChangeKind = Literal[
    "create", "import", "start", "stop", "close", "add arm", "add segment", "pause arm", "resume arm", "drop arm",
    "set policy", "erase",
]  # fmt: skip

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def moment(microseconds: int) -> dt.datetime:
    """Return a stamp of the storage as a time in UTC."""
    return _EPOCH + dt.timedelta(microseconds=microseconds)


def stamp(time: dt.datetime) -> int:
    """Return a time as a stamp; a time without a zone is UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=dt.UTC)
    return (aware - _EPOCH) // dt.timedelta(microseconds=1)


@lru_cache(maxsize=64)
def _written(time: dt.datetime) -> str:
    """Return a time as text; the decisions of a batch share it."""
    return time.isoformat()


class Decision(NamedTuple):
    """The reply to an ask.

    Attributes
    ----------
    unit, arm : str
    probabilities : dict
        The probability of every arm when the unit was decided.
    version : int
        The policy version that decided.
    assigned_at : datetime or None
    repeated : bool
        Whether the unit was decided before.
    logged : bool
        Whether the decision is in the log; a decision that is not logged is never part of an answer.
    segment : str or None
        The segment that the unit was first asked with; None if the experiment has no segments.
    """

    unit: str
    arm: str
    probabilities: Mapping[str, float]
    version: int
    assigned_at: dt.datetime | None
    repeated: bool = False
    logged: bool = True
    segment: str | None = None

    def to_dict(self) -> JsonObject:
        """Return the reply as values that JSON has."""
        unit, arm, probabilities, version, at, repeated, logged, segment = self
        return {
            "unit": unit, "arm": arm, "probabilities": dict(probabilities), "version": version,
            "assigned_at": None if at is None else _written(at), "repeated": repeated, "logged": logged,
            "segment": segment,
        }  # fmt: skip


class Told(NamedTuple):
    """The acknowledgement of a tell.

    Attributes
    ----------
    unit : str
    status : {"new", "repeated", "corrected", "parked", "contradiction", "refused"}
        The last two changed nothing; a parked outcome waits for its unit to be asked.
    why : str or None
        Why it was refused, in one sentence.
    """

    unit: str
    status: TellStatus
    why: str | None = None

    @property
    def taken(self) -> bool:
        """Whether the outcome is stored, by this tell or an earlier one."""
        return self.status not in ("contradiction", "refused")


class Tell(NamedTuple):
    """An outcome to be stored.

    Attributes
    ----------
    unit : str
    value : float
    key : str
        Distinguishes several events of a unit.
    happened_at : datetime or None
        When it happened, if earlier than the tell; used only to see whether an event lies in its window.
    correct : bool
        Whether it corrects a value that was told before.
    """

    unit: str
    value: float
    key: str = ""
    happened_at: dt.datetime | None = None
    correct: bool = False


#: The same from a tuple of all fields, in half the time: for the loops over batches.
make_decision: Callable[[tuple[object, ...]], Decision] = partial(tuple.__new__, Decision)
make_told: Callable[[tuple[object, ...]], Told] = partial(tuple.__new__, Told)
make_tell: Callable[[tuple[object, ...]], Tell] = partial(tuple.__new__, Tell)


@dataclass(frozen=True, slots=True)
class Version:
    """A policy version: the probability of every arm, in each segment, and what the probabilities were made from.

    Attributes
    ----------
    number, rule, step, watermark, made_at : int
        `step` is the number of the first decision that it can make. It was made from the rows below the watermark.
    offered : tuple of int
        The arms that may be chosen.
    probabilities, counts, totals : tuple of float
        By arm, or by cell: the arms of the first segment, then those of the next. Counts and totals are those of the
        outcomes that had arrived.
    cause : str
    steps : tuple of int
        The number of the first decision that it can make in each segment; empty without segments.
    """

    number: int
    rule: int
    step: int
    watermark: int
    made_at: int
    offered: tuple[int, ...]
    probabilities: tuple[float, ...]
    counts: tuple[float, ...]
    totals: tuple[float, ...]
    cause: str
    steps: tuple[int, ...] = ()

    @property
    def arms(self) -> int:
        """The number of arms at that time."""
        return len(self.probabilities) // max(len(self.steps), 1)

    def chances(self, segment: int | None) -> tuple[float, ...]:
        """Return the probability of every arm in a segment; None without segments."""
        first = (segment or 0) * self.arms
        return self.probabilities[first : first + self.arms]


@dataclass(frozen=True, slots=True)
class Change:
    """An entry of the audit: what was changed, when, by whom and why."""

    what: ChangeKind
    detail: str
    author: str
    reason: str
    made_at: dt.datetime

    def to_dict(self) -> dict[str, str]:
        """Return the entry as values that JSON has."""
        return {
            "what": self.what, "detail": self.detail, "author": self.author, "reason": self.reason,
            "made_at": self.made_at.isoformat(),
        }  # fmt: skip
