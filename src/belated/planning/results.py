"""Plan: what planning answers, as a sentence, a table over waits, and a curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from belated.base.documents import json_rows, json_text
from belated.base.tables import Column, Table
from belated.base.text import count, one_line
from belated.planning.goals import Goal, Point
from belated.simulation.bandits import Bandit
from belated.simulation.policies import Policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Option:
    """What one wait asks for.

    Attributes
    ----------
    wait : float
        Steps from the last assignment to the look.
    horizon, low, high : float
        Assignments that reach the goal, with their Monte Carlo 95 % interval.
    reached : bool
        Whether the simulation got there; otherwise `horizon` is extrapolated.
    """

    wait: float
    horizon: float
    low: float
    high: float
    reached: bool


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Plan(Table):
    """How long an experiment must run, and how long to wait; prints as a sentence and a table over waits.

    Attributes
    ----------
    options : tuple of Option
        By wait, the horizons that reach the goal. They come from the same random numbers: their differences
        are known better than each of them.
    wait : float
        Steps to wait after the last assignment.
    goal : Goal
    target, how : str
        What is estimated, and by which interval.
    curve : Curve
        What is reached at other horizons, after the same wait.
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
    bandit: Bandit
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
        """The lower end of the horizon's Monte Carlo 95 % interval."""
        return _whole(self._chosen.low)

    @property
    def high(self) -> int | float:
        """The upper end of the horizon's Monte Carlo 95 % interval."""
        return _whole(self._chosen.high)

    @property
    def total(self) -> float:
        """Steps from the first assignment to the look."""
        return self.horizon + self.wait

    @property
    def words(self) -> str:
        """The plan in a sentence."""
        goal = self.goal.sentence(f"the {self.how} for {one_line(self.target)}")
        if not self.reached:
            last = max(self.curve.points, key=lambda p: p.horizon)
            at_last = f"{self.goal.words} is {last.value:.3g}"
            at_last = at_last if math.isfinite(last.value) else "target often has no interval"
            further = f"; by extrapolation about {_about(self.horizon)} would be needed"
            further = further if math.isfinite(self.horizon) else ", and a longer experiment hardly changes that"
            return f"Not within {self.max_horizon:,} assignments, at which the {at_last}{further}: {goal}."
        between = f" ({_about(self.low, self._width)} to {_about(self.high, self._width)})"
        between = between if math.isfinite(self._width) else ""
        waited = f"then wait {_steps(self.wait)}" if self.wait else "no wait after the last"
        days = ""
        if self.per_day is not None and math.isfinite(self.wait):
            after = f" and {_days(self.wait / self.per_day)} of waiting" if self.wait else ""
            days = f", that is {_days(self.horizon / self.per_day)}{after} at {self.per_day:,.4g} assignments a day"
        return f"About {_about(self.horizon, self._width)} assignments{between}, {waited}{days}: {goal}."

    @property
    def _width(self) -> float:
        return self._chosen.high - self._chosen.low

    def plot(self) -> Figure:
        """Draw the curve and the trade between waiting and assignments, as a matplotlib figure."""
        from belated.planning.figure import plan_figure

        return plan_figure(self)

    def to_json(self) -> str:
        """Return the plan as JSON; what is not finite is null, an endless wait "full"."""
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
        return [*columns, Column("choice", said, "label")]

    def _notes(self) -> list[str]:
        notes = list(self.notes)
        soonest = min((o for o in self.options if o.reached), key=lambda o: o.horizon + o.wait, default=self._chosen)
        if self.reached and soonest.wait != self.wait:
            waited = f"a wait of {_steps(soonest.wait)}" if soonest.wait else "no wait"
            notes.insert(0, f"The earliest answer is that of {_about(soonest.horizon)} assignments and {waited}.")
        if self.reached:
            near = min(self.curve.points, key=lambda p: (abs(math.log(p.horizon / self.horizon)), -p.replications))
            spread = self.goal.spread_text(near)
            notes = notes if spread is None else [spread, *notes]
        return [f"Note: {words}" for words in notes]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Curve(Table):
    """What is reached at each simulated horizon.

    Attributes
    ----------
    points : tuple of Point
        In the order of their horizons.
    goal : Goal
    target : str
    """

    points: tuple[Point, ...]
    goal: Goal
    target: str

    def _title(self) -> str:
        what = self.goal.words.capitalize()
        return f"{what} for {one_line(self.target)} by horizon, {self.goal.asked:g} asked for"

    def _columns(self) -> list[Column]:
        errors = [p.error for p in self.points]
        columns = [Column("horizon", [p.horizon for p in self.points], "count")]
        for name in ("value", "low", "high"):
            column = self.goal.name if name == "value" else name
            columns.append(Column(column, [getattr(p, name) for p in self.points], "estimate", errors))
        columns.append(Column("error", errors, "estimate", errors))
        columns.append(Column("replications", [p.replications for p in self.points], "count"))
        if any(p.missing for p in self.points):
            columns.append(Column("missing", [p.missing for p in self.points], "share"))
        return columns


def _whole(number: float) -> int | float:
    return round(number) if math.isfinite(number) else number


def _about(number: float, width: float = math.nan) -> str:
    """Return a number with the digits that its Monte Carlo interval of some width deserves."""
    if not math.isfinite(number):
        return "∞"
    size = width if math.isfinite(width) and width > 0 else number / 10
    digits = max(math.floor(math.log10(max(size, 1.0))) - 1, 0)
    return f"{round(number, -digits):,.0f}"


def _steps(wait: float) -> str:
    return count(round(wait), "step") if math.isfinite(wait) else "for every outcome that comes"


def _days(days: float) -> str:
    return count(round(days), "day") if days >= 10 else f"{days:.2g} days"


def _wait_or_full(wait: float) -> float | Literal["full"]:
    return wait if math.isfinite(wait) else "full"
