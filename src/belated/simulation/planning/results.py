"""`Plan`: the result of planning as a sentence, a table by wait, and a curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from belated.base.documents import json_rows, json_text
from belated.base.tables import Column, Table
from belated.base.text import count, one_line
from belated.simulation.contextual import AnyBandit
from belated.simulation.planning.goals import Goal, Point
from belated.simulation.policies import Policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Option:
    """The horizon that one wait needs.

    Attributes
    ----------
    wait : float
        Steps from the last assignment to the analysis.
    horizon, low, high : float
        The number of assignments that reach the goal, with its 95 % Monte Carlo interval.
    reached : bool
        Whether a simulated experiment reached the goal; otherwise `horizon` is extrapolated.
    """

    wait: float
    horizon: float
    low: float
    high: float
    reached: bool


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Plan(Table):
    """How long an experiment must run, and how long to wait; prints as a sentence and a table by wait.

    Attributes
    ----------
    options : tuple of Option
        The horizons that reach the goal, by wait. They share random numbers, so their differences are more precise than
        the horizons themselves.
    wait : float
        Steps to wait after the last assignment.
    goal : Goal
    target, how : str
        The target, and the kind of interval.
    curve : Curve
        The results at other horizons, after the same wait.
    max_horizon : int
    per_day : float or None
    notes : tuple of str
    bandit, policy
    """

    options: tuple[Option, ...]
    wait: float
    goal: Goal
    target: str
    how: str
    curve: Curve
    max_horizon: int
    per_day: float | None
    notes: tuple[str, ...]
    bandit: AnyBandit
    policy: Policy

    @cached_property
    def _chosen(self) -> Option:
        return next(option for option in self.options if option.wait == self.wait)

    @property
    def reached(self) -> bool:
        """Whether the goal is reached within `max_horizon`."""
        return self._chosen.reached

    @property
    def horizon(self) -> int | float:
        """The number of assignments; if the goal is not reached, an extrapolation, perhaps infinite."""
        return _whole(self._chosen.horizon)

    @property
    def low(self) -> int | float:
        """The lower limit of the horizon's 95 % Monte Carlo interval."""
        return _whole(self._chosen.low)

    @property
    def high(self) -> int | float:
        """The upper limit of the horizon's 95 % Monte Carlo interval."""
        return _whole(self._chosen.high)

    @property
    def total(self) -> float:
        """Steps from the first assignment to the analysis."""
        return self.horizon + self.wait

    @property
    def words(self) -> str:
        """The plan in a sentence."""
        goal = self.goal.sentence(f"the {self.how} for {one_line(self.target)}")
        if not self.reached:
            last = max(self.curve.points, key=lambda p: p.horizon)
            at_last = f"{self.goal.words} is {self.goal.text(last.value)}"
            further = "; no number of assignments reaches it (extrapolated)"
            if not math.isfinite(last.value):
                at_last, further = "target often has no interval", ", so the number that reaches it is unknown"
            if math.isfinite(self.horizon):
                further = f"; about {_rounded(self.horizon)} assignments would be needed (extrapolated)"
            return (
                f"The goal is not reached within {self.max_horizon:,} assignments, at which the {at_last}{further}. "
                f"The goal: {goal}."
            )
        between = f" ({_rounded(self.low, self._width)} to {_rounded(self.high, self._width)})"
        between = between if math.isfinite(self._width) else ""
        waited = f"then wait {_steps(self.wait)}" if self.wait else "without waiting after the last one"
        days = ""
        if self.per_day is not None and math.isfinite(self.wait):
            after = f" and {_days(self.wait / self.per_day)} of waiting" if self.wait else ""
            days = f", that is {_days(self.horizon / self.per_day)}{after} at {_per_day(self.per_day)} per day"
        return f"About {_rounded(self.horizon, self._width)} assignments{between}, {waited}{days}: {goal}."

    @property
    def _width(self) -> float:
        return self._chosen.high - self._chosen.low

    def plot(self) -> Figure:
        """Return a matplotlib figure of the curve, and of assignments needed by wait."""
        from belated.simulation.planning.figure import plan_figure

        return plan_figure(self)

    def to_json(self) -> str:
        """Return the plan as JSON, with null for NaN and infinity, and "full" for an infinite wait."""
        waits = json_rows(self.to_dict())
        for row, option in zip(waits, self.options, strict=True):
            row["wait"] = _wait_or_full(option.wait)
        return json_text(
            "plan",
            {
                "words": self.words,
                "target": self.target,
                "goal": self.goal.name,
                "asked": self.goal.asked,
                "assurance": self.goal.assurance,
                "level": self.goal.level,
                "interval": self.how,
                "reached": self.reached,
                "horizon": self.horizon,
                "low": self.low,
                "high": self.high,
                "wait": _wait_or_full(self.wait),
                "total": self.total,
                "per_day": self.per_day,
                "waits": waits,
                "curve": json_rows(self.curve.to_dict()),
                "notes": self.notes,
            },
        )

    def _title(self) -> str:
        return self.words

    def _columns(self) -> list[Column]:
        options = self.options
        columns = [
            Column("wait", [o.wait for o in options], "number"),
            Column("horizon", [_whole(o.horizon) for o in options], "number"),
            Column("low", [_whole(o.low) for o in options], "number"),
            Column("high", [_whole(o.high) for o in options], "number"),
            Column("total", [_whole(o.horizon) + o.wait for o in options], "number"),
        ]
        if self.per_day is not None:
            days = [(o.horizon + o.wait) / self.per_day for o in options]
            columns.append(Column("days", days, "number"))
        said = ["planned" if o.wait == self.wait else "" if o.reached else "extrapolated" for o in options]
        return [*columns, Column("choice", said, "sentence")]

    def _notes(self) -> list[str]:
        notes = list(self.notes)
        soonest = min((o for o in self.options if o.reached), key=lambda o: o.horizon + o.wait, default=self._chosen)
        if self.reached and soonest.wait != self.wait:
            waited = f"a wait of {_steps(soonest.wait)}" if soonest.wait else "no wait"
            notes.insert(0, f"The earliest result needs {_rounded(soonest.horizon)} assignments and {waited}.")
        if self.reached:
            near = min(self.curve.points, key=lambda p: (abs(math.log(p.horizon / self.horizon)), -p.replications))
            spread = self.goal.spread_text(near)
            notes = notes if spread is None else [spread, *notes]
        return [f"Note: {words}" for words in notes]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Curve(Table):
    """The half-width or power at each simulated horizon; prints as a table.

    Attributes
    ----------
    points : tuple of Point
        The results, by increasing horizon.
    goal : Goal
    target : str
    """

    points: tuple[Point, ...]
    goal: Goal
    target: str

    def _title(self) -> str:
        what = self.goal.words.capitalize()
        return f"{what} for {one_line(self.target)} by horizon (goal: {self.goal.text(self.goal.asked)})"

    def _columns(self) -> list[Column]:
        errors, unit = [p.error for p in self.points], self.goal.value_unit
        columns = [Column("horizon", [p.horizon for p in self.points], "count")]
        for name in ("value", "low", "high"):
            column = self.goal.name if name == "value" else name
            columns.append(
                Column(
                    column,
                    [getattr(p, name) for p in self.points],
                    "estimate",
                    errors,
                    unit=unit,
                    terse=name != "value",
                )
            )
        columns.append(Column("error", errors, "estimate", errors, unit=unit, terse=True))
        columns.append(Column("replications", [p.replications for p in self.points], "count"))
        if any(p.missing for p in self.points):
            columns.append(Column("missing", [p.missing for p in self.points], "share"))
        return columns


def _whole(number: float) -> int | float:
    return round(number) if math.isfinite(number) else number


def _rounded(number: float, width: float = math.nan) -> str:
    """Return a number rounded to the precision of a Monte Carlo interval of this width, but to a digit of its own."""
    if not math.isfinite(number):
        return "∞"
    size = width if math.isfinite(width) and width > 0 else number / 10
    digits = max(math.floor(math.log10(max(size, 1.0))) - 1, 0)
    digits = min(digits, math.floor(math.log10(max(number, 1.0))))
    return f"{round(number, -digits):,.0f}"


def _steps(wait: float) -> str:
    return count(round(wait), "step") if math.isfinite(wait) else "for every outcome that arrives"


def _days(days: float) -> str:
    number = f"{days:.2g}"
    return count(round(days), "day") if days >= 10 else f"{number} day{'s' * (number != '1')}"


def _per_day(number: float) -> str:
    return f"{number:,.4g} assignment{'s' * (number != 1)}"


def _wait_or_full(wait: float) -> float | Literal["full"]:
    return wait if math.isfinite(wait) else "full"
