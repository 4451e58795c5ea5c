"""Kinds of outcomes, declared when an experiment is created."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from belated.base.checks import LARGEST_OUTCOME, one_of
from belated.base.checks import real as finite
from belated.base.documents import JsonObject
from belated.base.errors import OptionError, argument
from belated.log.durations import WindowLike, read_duration
from belated.summaries.maturing import MEASURES, Measure

if TYPE_CHECKING:
    from belated.sequences.design import SequenceKind

OutcomeName = Literal["binary", "real", "bounded", "events"]
KINDS: tuple[OutcomeName, ...] = get_args(OutcomeName)


@dataclass(frozen=True)
class Outcome:
    """A kind of outcome: which values it can have, and what it means if no outcome was told.

    Attributes
    ----------
    kind : {"binary", "real", "bounded", "events"}
    low, high : float
        The least and the largest value.
    window : str or None
        For events, the time after an assignment in which they count.
    measure : {"indicator", "count", "sum"} or None
        For events, the outcome: whether there was one, their number, or the sum of their values.
    """

    kind: OutcomeName
    low: float = -LARGEST_OUTCOME
    high: float = LARGEST_OUTCOME
    window: str | None = None
    measure: Measure | None = None

    @property
    def is_events(self) -> bool:
        """Whether an outcome that was not told becomes 0 when the window closes."""
        return self.kind == "events"

    @property
    def is_share(self) -> bool:
        """Whether every outcome lies between 0 and 1, so that its mean is a share."""
        return self.measure == "indicator" or (self.low >= 0 and self.high <= 1)

    @property
    def length(self) -> int:
        """The length of the window in microseconds; 0 without one."""
        return 0 if self.window is None else int(read_duration(self.window).length)

    @property
    def sequence(self) -> tuple[SequenceKind, tuple[float, float] | None]:
        """The kind of confidence sequence for such outcomes, and their bounds."""
        if self.kind == "binary" or self.measure == "indicator":  # 0 or 1, not any share
            return "beta_binomial", None
        return ("bernstein", (self.low, self.high)) if self.kind == "bounded" else ("asymptotic", None)

    def read(self, value: object) -> float:
        """Return a value as a number if such an outcome can have it; otherwise raise."""
        is_binary = self.kind == "binary"
        if isinstance(value, (int, float)) and self.low <= value <= self.high and (not is_binary or value in (0, 1)):
            return float(value)
        number = float(value) if isinstance(value, np.bool_) else finite("value", value)
        if is_binary and number not in (0.0, 1.0):
            raise OptionError(f"{argument('value')} is {number:g}; a binary outcome must be 0 or 1.")
        if not self.low <= number <= self.high:
            raise OptionError(f"{argument('value')} is {number:g}; it must lie between {self.low:g} and {self.high:g}.")
        return number

    def to_dict(self) -> JsonObject:
        """Return the kind of outcome as values that JSON has; `outcome_from` reads them."""
        if self.is_events:
            return {"kind": self.kind, "window": self.window, "measure": self.measure}
        return (
            {"kind": self.kind, "low": self.low, "high": self.high} if self.kind == "bounded" else {"kind": self.kind}
        )


def binary() -> Outcome:
    """Declare outcomes of 0 and 1; an outcome that was not told is unknown, not 0."""
    return Outcome("binary", 0.0, 1.0)


def real() -> Outcome:
    """Declare outcomes that can be any number; an outcome that was not told is unknown, not 0."""
    return Outcome("real")


def bounded(low: float, high: float) -> Outcome:
    """Declare outcomes between two known limits, which narrow the confidence sequence.

    Parameters
    ----------
    low, high : float
        The least and the largest possible value.
    """
    least, most = finite("low", low), finite("high", high)
    if not -LARGEST_OUTCOME <= least < most <= LARGEST_OUTCOME:
        raise OptionError(f"{argument('low')} is {least:g} and {argument('high')} {most:g}; the first must be less.")
    return Outcome("bounded", least, most)


def events(window: WindowLike, measure: Measure = "indicator") -> Outcome:
    """Declare events, which are told when they happen; a unit without events has the outcome 0 when its window closes.

    Parameters
    ----------
    window : str or timedelta
        The time after the assignment in which events count: ``"7d"``, ``"12h"``, ``"30min"``.
    measure : {"indicator", "count", "sum"}
        The outcome: whether there was any event, their number, or the sum of their values.
    """
    return Outcome("events", window=read_duration(window).text, measure=one_of("measure", measure, MEASURES))


def outcome_from(table: JsonObject) -> Outcome:
    """Return the outcome of a table that `Outcome.to_dict` made."""
    return outcome_of(table["kind"], **{name: table[name] for name in _OPTIONS if name in table})


#: What else than its kind declares an outcome.
_OPTIONS = ("low", "high", "window", "measure")


def outcome_of(
    kind: str,
    *,
    low: float | None = None,
    high: float | None = None,
    window: str | None = None,
    measure: str = "indicator",
) -> Outcome:
    """Return the outcome of a kind, given by its word; `low` and `high` are of bounded ones, the others of events."""
    word = one_of("kind", kind, KINDS)
    if word == "events":
        if window is None:
            raise OptionError(f"{argument('window')} is missing; events need one, such as 7d.")
        return events(window, one_of("measure", measure, MEASURES))
    if word == "bounded":
        if low is None or high is None:
            raise OptionError(f"{argument('low')} and {argument('high')} are needed; they bound the outcome.")
        return bounded(low, high)
    return binary() if word == "binary" else real()
