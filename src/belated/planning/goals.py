"""Goals: what an experiment is to reach, and how far a simulated one is from it.

A new goal is a class here, its case in `read_goal`, and an option of `plan`.

A half-width falls like a power of the horizon, and so does the standard error behind a test. On the
scale used here, minus the logarithm of a half-width, or the logarithm of the distance from the null
in standard errors, both are nearly straight lines against the logarithm of the horizon.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import special

from belated.base.checks import fraction, positive
from belated.base.columns import Array
from belated.base.errors import OptionError
from belated.base.text import one_line, percent
from belated.simulation.cells import Cell

#: The share of runs without an interval beyond which a mean over the others says nothing.
_MISSING = 0.05


@dataclass(frozen=True)
class Point:
    """What runs of one horizon reached.

    Attributes
    ----------
    horizon : int
    wait : float
        Steps after the last assignment at which the runs were looked at.
    value, error : float
        The half-width or the power, and its Monte Carlo standard error.
    low, high : float
        Half-widths between which eight runs in ten lie; of power, its own 95 % interval.
    missing : float
        The share of runs without an interval.
    replications : int
    """

    horizon: int
    wait: float
    value: float
    error: float
    low: float
    high: float
    missing: float
    replications: int


@dataclass(frozen=True)
class Goal(ABC):
    """What is to be reached.

    Attributes
    ----------
    asked : float
    level : float
        Of the interval.
    null : float
        What the test is against.
    assurance : float or None
        The share of runs whose half-width must be as small; None: the mean must.
    name, words : str
        In columns and JSON, and in sentences.
    band : str
        What a point's `low` and `high` are, in a figure.
    axis : tuple of float or None
        The limits of a figure's axis; None: as the values are.
    rough_runs : int
        Runs that tell, roughly, how far a horizon is from the goal.
    depends_on_truth : bool
        Whether the target's true value matters.
    """

    name: ClassVar[str]
    words: ClassVar[str]
    band: ClassVar[str]
    axis: ClassVar[tuple[float, float] | None] = None
    rough_runs: ClassVar[int]
    depends_on_truth: ClassVar[bool]

    asked: float
    level: float
    null: float = 0.0
    assurance: float | None = None

    @abstractmethod
    def point(self, cell: Cell, wait: float) -> Point:
        """Return what a study's cell says about the goal."""

    @abstractmethod
    def gap(self, point: Point) -> float:
        """Return how far a point is beyond the goal, on the scale of straight lines; negative: short of it."""

    @abstractmethod
    def gap_error(self, point: Point) -> float:
        """Return the Monte Carlo standard error of `gap`."""

    @abstractmethod
    def proxy(self, distance: float) -> HalfWidth:
        """Return the mean half-width that goes with the goal, were the target's estimate normal.

        It is smooth where power is a share of few runs; `distance` is that of the truth from the null.
        """

    @abstractmethod
    def sentence(self, interval: str) -> str:
        """Return the goal in words, of an interval in words."""

    def spread_text(self, point: Point) -> str | None:
        """Return in a sentence how experiments differ; None if the goal says it itself."""
        return None

    @abstractmethod
    def check_distance(self, distance: float, target: str) -> None:
        """Refuse a distance of the target's truth from the null at which no experiment reaches the goal."""

    @property
    def _normal_quantile(self) -> float:
        return float(special.ndtri((1 + self.level) / 2))


@dataclass(frozen=True)
class HalfWidth(Goal):
    """A half-width that is to be reached, in the mean or with an assurance."""

    name = "half_width"
    words = "half-width"
    band = "80% of experiments"
    rough_runs = 200
    depends_on_truth = False

    def point(self, cell: Cell, wait: float) -> Point:
        """Return the half-width of a study's cell."""
        runs = len(cell.low)
        widths = np.sort(np.where(cell.low <= cell.high, (cell.high - cell.low) / 2, np.inf))  # missing ones last
        missing = 1 - cell.replications / runs
        if self.assurance is not None:
            p, reach = self.assurance, math.sqrt(self.assurance * (1 - self.assurance) / runs)
            below, above = _quantile(widths, max(p - reach, 0.0)), _quantile(widths, min(p + reach, 1.0))
            value, error = _quantile(widths, p), (above - below) / 2 if math.isfinite(above) else math.inf
        elif missing > _MISSING:
            value = error = math.inf
        else:
            finite = widths[np.isfinite(widths)]
            value, error = float(finite.mean()), float(finite.std(ddof=1)) / math.sqrt(len(finite))
        return Point(
            horizon=cell.horizon,
            wait=wait,
            value=value,
            error=error,
            low=_quantile(widths, 0.1),
            high=_quantile(widths, 0.9),
            missing=missing,
            replications=runs,
        )

    def gap(self, point: Point) -> float:
        """Return how far a point's half-width is below the one asked for, as a logarithm."""
        return math.log(self.asked) - math.log(max(point.value, 1e-300))

    def gap_error(self, point: Point) -> float:
        """Return the relative error of the half-width."""
        return point.error / point.value if 0 < point.value < math.inf else math.inf

    def proxy(self, distance: float) -> HalfWidth:
        """Return the same half-width, in the mean."""
        return replace(self, assurance=None)

    def guess(self, sds: Array, coefficients: Array) -> float:
        """Return the horizon if all arms were equally likely and every outcome came at once."""
        variance = float(np.sum(coefficients[coefficients != 0] ** 2 * sds[coefficients != 0] ** 2))
        ratio = self._normal_quantile / self.asked
        return len(sds) * variance * ratio * ratio  # infinite if it is too large, where a power would raise

    def sentence(self, interval: str) -> str:
        """Return the half-width asked for, in words."""
        if self.assurance is not None:
            return f"{interval} has a half-width of at most {self.asked:g} in {percent(self.assurance)} of experiments"
        return f"{interval} has a mean half-width of {self.asked:g}"

    def spread_text(self, point: Point) -> str | None:
        """Return between which half-widths most experiments lie; None with an assurance."""
        if self.assurance is not None:
            return None
        return f"Eight experiments in ten have a half-width of {point.low:.3g} to {point.high:.3g}."

    def check_distance(self, distance: float, target: str) -> None:
        """Accept any distance."""


@dataclass(frozen=True)
class Power(Goal):
    """A power that is to be reached: the chance that the interval excludes the null on the side of the truth."""

    name = "power"
    words = "power"
    band = "95% Monte Carlo"
    axis = (0.0, 1.0)
    rough_runs = 800
    depends_on_truth = True

    def point(self, cell: Cell, wait: float) -> Point:
        """Return the power of a study's cell."""
        runs = len(cell.low)
        excluded = cell.low > self.null if cell.truth > self.null else cell.high < self.null
        share = float(excluded.mean())
        near = (runs * share + 1) / (runs + 2)
        error = math.sqrt(near * (1 - near) / runs)
        return Point(
            horizon=cell.horizon,
            wait=wait,
            value=share,
            error=error,
            low=max(share - 1.96 * error, 0.0),
            high=min(share + 1.96 * error, 1.0),
            missing=1 - cell.replications / runs,
            replications=runs,
        )

    def gap(self, point: Point) -> float:
        """Return how much further the null is, in standard errors, than it must be, as a logarithm."""
        shares = np.clip([point.value, self.asked], 0.5 / point.replications, 1 - 0.5 / point.replications)
        reached, asked = np.log(np.maximum(special.ndtri(shares) + self._normal_quantile, 0.05))
        return float(reached - asked)

    def gap_error(self, point: Point) -> float:
        """Return the Monte Carlo standard error of `gap`, by its derivative."""
        share = min(max(point.value, 0.5 / point.replications), 1 - 0.5 / point.replications)
        z = float(special.ndtri(share))
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return point.error / density / max(z + self._normal_quantile, 0.05)

    def proxy(self, distance: float) -> HalfWidth:
        """Return the mean half-width with which a normal test has the power."""
        z = self._normal_quantile
        reach = abs(distance) * z / max(z + float(special.ndtri(self.asked)), 0.5)
        return HalfWidth(asked=reach, level=self.level)

    def sentence(self, interval: str) -> str:
        """Return the power asked for, in words."""
        return f"{interval} excludes {self.null:g} in {percent(self.asked)} of experiments"

    def check_distance(self, distance: float, target: str) -> None:
        """Refuse a target whose truth is the null."""
        if distance == 0:
            raise OptionError(
                f"`power` is asked for, and {one_line(target)} is the null itself, {self.null:g}: "
                "no experiment can tell them apart."
            )


def read_goal(
    half_width: float | None, power: float | None, assurance: float | None, null: float, level: float
) -> Goal:
    """Return the goal that is asked for, checked; `null` and `level` are checked already."""
    if (half_width is None) == (power is None):
        raise OptionError("A plan needs a goal: `half_width` or `power`, one of the two.")
    if power is None:
        share = None if assurance is None else fraction("assurance", assurance)
        return HalfWidth(asked=positive("half_width", half_width), level=level, null=null, assurance=share)
    if assurance is not None:
        raise OptionError("`assurance` goes with `half_width`; `power` is a share of experiments itself.")
    asked = fraction("power", power)
    if asked <= 1 - level:
        raise OptionError(f"`power` is {power!r}; at level {level:g} a test that knows nothing has almost that.")
    return Power(asked=asked, level=level, null=null)


def _quantile(ordered: Array, share: float) -> float:
    """Return the smallest value that at least this share of the ordered ones do not exceed."""
    return float(ordered[min(max(math.ceil(share * len(ordered)) - 1, 0), len(ordered) - 1)])
