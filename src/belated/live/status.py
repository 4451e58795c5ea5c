"""`Status` and `Changes`: the state of an experiment, and its changes, as tables."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from belated.base.documents import JsonObject, json_rows, json_text
from belated.base.tables import Column, Table
from belated.base.text import count
from belated.live.design import Snapshot
from belated.live.records import ArmState, Change, State, moment


@dataclass(frozen=True, repr=False)
class Status(Table):
    """The state, arms and counts of an experiment; prints as a table of the arms, in each segment.

    Attributes
    ----------
    name, state : str
    version : int
        The current policy version; 0 before the start.
    made_at : datetime or None
        When it was made.
    asked, told, parked : int
        Units decided, outcomes told, and outcomes of units that were never asked.
    problem : str or None
        Why the policy failed, if it did; the last good version stays in use.
    arms : tuple of (label, state, probability)
        With segments, the probability is the average over the units so far.
    segments : tuple of (label, units, probabilities)
        For each segment, how many units the version was made from, and the probability of every arm; empty without
        segments.
    """

    name: str
    state: State
    version: int
    made_at: dt.datetime | None
    asked: int
    told: int
    parked: int
    problem: str | None
    arms: tuple[tuple[str, ArmState, float], ...]
    segments: tuple[tuple[str, int, tuple[float, ...]], ...] = ()

    @classmethod
    def of(cls, about: Snapshot, *, asked: int, told: int, parked: int) -> Status:
        """Return the status of an experiment, given the numbers of asks and tells."""
        version, rows = about.version, _by_segment(about)
        whole = sum(n for _, n, _ in rows)
        weights = [n / whole if whole else 1 / len(rows) for _, n, _ in rows]
        chances = (sum(w * p[k] for w, (*_, p) in zip(weights, rows, strict=True)) for k in range(len(about.arms)))
        return cls(
            name=about.name,
            state=about.state,
            version=0 if version is None else version.number,
            made_at=None if version is None else moment(version.made_at),
            asked=asked,
            told=told,
            parked=parked,
            problem=about.problem,
            arms=tuple((arm.label, arm.state, p) for arm, p in zip(about.arms, chances, strict=True)),
            segments=tuple(rows) if about.segments else (),
        )

    def to_dict(self) -> JsonObject:
        """Return the status as values that JSON has."""
        made_at = None if self.made_at is None else self.made_at.isoformat()
        return {
            "experiment": self.name, "state": self.state, "version": self.version, "made_at": made_at,
            "asked": self.asked, "told": self.told, "parked": self.parked, "problem": self.problem,
            "arms": json_rows(self._unrounded()),
        }  # fmt: skip

    def to_json(self) -> str:
        """Return the status as JSON, as docs/json.md describes it."""
        return json_text("status", self.to_dict())

    def _title(self) -> str:
        parked = f", {count(self.parked, 'outcome')} parked" if self.parked else ""
        return (
            f"{self.name}: {self.state}, version {self.version:,}, {count(self.asked, 'unit')} asked, "
            f"{count(self.told, 'outcome')} told{parked}"
        )

    def _columns(self) -> list[Column]:
        labels, states, chances = (list(column) for column in zip(*self.arms, strict=True))
        many = len(self.segments)
        if many:
            chances = [p for *_, own in self.segments for p in own]
        segments = [label for label, *_ in self.segments for _ in labels]
        return [
            *([Column("segment", segments, "label")] if many else []),
            Column("arm", labels * max(many, 1), "label"),
            Column("state", states * max(many, 1), "label"),
            Column("probability", chances, "share"),
        ]

    def _notes(self) -> list[str]:
        return [] if self.problem is None else [f"The last good version stays in use: {self.problem}"]


def _by_segment(about: Snapshot) -> list[tuple[str, int, tuple[float, ...]]]:
    """Return each segment's name, how many of its units the version knows, and the probability of every arm.

    Without segments, all units are one.
    """
    version = about.version
    if version is None:
        return [(label, 0, (0.0,) * len(about.arms)) for label in about.segments or ("",)]
    names, steps = about.segments or ("",), version.steps or (version.step,)
    probabilities = [tuple(about.probabilities(version, place).values()) for place in range(len(names))]
    return [(label, step - 1, p) for label, step, p in zip(names, steps, probabilities, strict=True)]


class Changes(Table):
    """The audit of an experiment: what was changed, when, by whom and why; iterates over `Change`."""

    def __init__(self, name: str, changes: list[Change]) -> None:
        self.name, self._changes = name, changes

    def __iter__(self) -> Iterator[Change]:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def __getitem__(self, place: int) -> Change:
        return self._changes[place]

    def to_text(self, *, every: bool = False) -> str:
        """Return the changes as text for a terminal."""
        worded = Changes(self.name, [replace(each, detail=_in_words(each.detail)) for each in self._changes])
        return super(Changes, worded).to_text(every=every)

    def to_json(self) -> str:
        """Return the changes as JSON, as docs/json.md describes it."""
        return json_text("changes", {"experiment": self.name, "changes": [each.to_dict() for each in self._changes]})

    def _title(self) -> str:
        return f"{self.name}: {count(len(self._changes), 'change')}"

    def _columns(self) -> list[Column]:
        return [
            Column("at", [each.made_at.strftime("%Y-%m-%d %H:%M:%S") for each in self._changes], "sentence"),
            Column("what", [each.what for each in self._changes], "label"),
            Column("detail", [each.detail for each in self._changes], "sentence"),
            Column("author", [each.author for each in self._changes], "label"),
            Column("reason", [each.reason for each in self._changes], "sentence"),
        ]


def _in_words(detail: str) -> str:
    """Return the main details of a change: the names of arms and segments, and of the policy."""
    try:
        table = json.loads(detail)
        parts = [f"{name} {_word(table[name])}" for name in _SHOWN_FIELDS if table.get(name) is not None]
    except (ValueError, TypeError, LookupError, AttributeError):  # what was altered is shown as it is
        return detail
    return "; ".join(parts)


#: What of a change is shown.
_SHOWN_FIELDS = ("arm", "arms", "segment", "segments", "policy", "final")


def _word(value: object) -> str:
    if isinstance(value, dict):
        return str(value["name"])
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
