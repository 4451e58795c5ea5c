"""Goals of a plan: a half-width or a power, and how far simulated experiments are from it.

To add a goal, add a class here, a case in `read_goal`, and an option of `plan`.

A half-width falls like a power of the horizon, and so does the standard error of a test. Each goal has a
scale on which results are nearly linear in the logarithm of the horizon: minus the logarithm of the half-width, or the
logarithm of the distance from the null in standard errors.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from belated.base import special
from belated.base.checks import fraction, positive
from belated.base.columns import Array
from belated.base.errors import OptionError, argument
from belated.base.text import Unit, in_unit, one_line, percent, shown
from belated.simulation.performance import Performance

#: So many simulated experiments must be expected to fall short of a share of experiments for it to be measured.
_LEAST_FALLING_SHORT = 5

#: If a larger share of runs has no interval, the mean over the others is not used.
_MOST_MISSING = 0.05


@dataclass(frozen=True)
class Point:
    """The result of simulated experiments with one horizon.

    Attributes
    ----------
    horizon : int
    wait : float
        Steps from the last assignment to the analysis.
    value, error : float
        The half-width or the power, and its Monte Carlo standard error.
    low, high : float
        The 10 % and 90 % quantiles of the half-width; for power, its 95 % Monte Carlo interval.
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
    """The goal of a plan.

    Attributes
    ----------
    asked : float
        The half-width or power to reach.
    level : float
        The level of the interval.
    null : float
        The null value of the test.
    assurance : float or None
        The share of experiments that must reach the half-width; None if the mean must.
    unit : str
        The unit in which the target is shown.
    name, words : str
        The name in columns and JSON, and in sentences.
    band : str
        The meaning of `low` and `high` of a point, for the figure.
    axis : tuple of float or None
        The limits of the axis in a figure; None for automatic limits.
    rough_runs : int
        The number of runs for a rough estimate of the distance to the goal.
    depends_on_truth : bool
        Whether the true value of the target matters.
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
    unit: Unit = "number"

    @property
    def value_unit(self) -> Unit:
        """The unit of the results for display."""
        return "number"

    def text(self, value: float) -> str:
        """Return a value that is reached, in words."""
        return in_unit(float(f"{value:.3g}"), self.value_unit)

    @abstractmethod
    def point(self, cell: Performance, wait: float) -> Point:
        """Return the point of a cell of a study."""

    @abstractmethod
    def gap(self, point: Point) -> float:
        """Return how far a point is beyond the goal, on the linear scale; negative if it falls short."""

    @abstractmethod
    def gap_error(self, point: Point) -> float:
        """Return the Monte Carlo standard error of `gap`."""

    @abstractmethod
    def proxy(self, distance: float) -> HalfWidth:
        """Return the mean half-width that corresponds to the goal if the estimate is normal.

        With few runs it is smoother than power; `distance` is the distance of the true value from the null.
        """

    @abstractmethod
    def sentence(self, interval: str) -> str:
        """Return the goal as the end of a sentence that starts with the interval."""

    def spread_text(self, point: Point) -> str | None:
        """Return a sentence on the spread between experiments; None if the goal already includes it."""
        return None

    @abstractmethod
    def check_distance(self, distance: float, target: str) -> None:
        """Raise if the true value is so close to the null that no experiment reaches the goal."""

    @property
    def _normal_quantile(self) -> float:
        return float(special.ndtri((1 + self.level) / 2))


@dataclass(frozen=True)
class HalfWidth(Goal):
    """A half-width to reach, in the mean or with an assurance."""

    name = "half_width"
    words = "half-width"
    band = "80% of experiments"
    rough_runs = 200
    depends_on_truth = False

    def point(self, cell: Performance, wait: float) -> Point:
        """Return the half-width of a cell of a study."""
        runs = len(cell.low)
        widths = np.sort(np.where(cell.low <= cell.high, (cell.high - cell.low) / 2, np.inf))  # missing ones last
        missing = 1 - cell.replications / runs
        if self.assurance is not None:
            p, reach = self.assurance, math.sqrt(self.assurance * (1 - self.assurance) / runs)
            below, above = _quantile(widths, max(p - reach, 0.0)), _quantile(widths, p + reach)
            value, error = _quantile(widths, p), (above - below) / 2 if math.isfinite(above) else math.inf
        elif missing > _MOST_MISSING:
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

    @property
    def value_unit(self) -> Unit:
        """The unit of the half-width for display."""
        return "number" if self.unit == "number" else "points"

    def gap(self, point: Point) -> float:
        """Return the logarithm of the requested half-width over that of the point."""
        return math.log(self.asked) - math.log(max(point.value, 1e-300))

    def gap_error(self, point: Point) -> float:
        """Return the relative error of the half-width."""
        return point.error / point.value if 0 < point.value < math.inf else math.inf

    def proxy(self, distance: float) -> HalfWidth:
        """Return the same half-width, in the mean."""
        return replace(self, assurance=None)

    def guess(self, sds: Array, coefficients: Array) -> float:
        """Return the horizon if all arms were equally likely and every outcome arrived at once."""
        variance = float(np.sum(coefficients[coefficients != 0] ** 2 * sds[coefficients != 0] ** 2))
        ratio = self._normal_quantile / self.asked
        return len(sds) * variance * ratio * ratio  # infinite on overflow, where ** would raise

    @property
    def _asked(self) -> str:
        return in_unit(self.asked, self.value_unit)

    def sentence(self, interval: str) -> str:
        """Return the requested half-width in words."""
        if self.assurance is not None:
            return f"{interval} has a half-width of at most {self._asked} in {percent(self.assurance)} of experiments"
        return f"{interval} has a mean half-width of {self._asked}"

    def spread_text(self, point: Point) -> str | None:
        """Return the range of half-widths of most experiments; None with an assurance."""
        if self.assurance is not None:
            return None
        low, high = self.text(point.low), self.text(point.high)
        return f"80% of experiments have a half-width between {low} and {high}."

    def check_distance(self, distance: float, target: str) -> None:
        """Accept any distance."""


@dataclass(frozen=True)
class Power(Goal):
    """A power to reach: the probability that the interval excludes the null on the side of the true value."""

    name = "power"
    words = "power"
    band = "95% Monte Carlo"
    axis = (0.0, 1.0)
    rough_runs = 800
    depends_on_truth = True

    def point(self, cell: Performance, wait: float) -> Point:
        """Return the power of a cell of a study."""
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
        """Return the logarithm of the distance to the null, in standard errors, over the required distance."""
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
        return HalfWidth(asked=reach, level=self.level, unit=self.unit)

    def sentence(self, interval: str) -> str:
        """Return the requested power in words."""
        return f"{interval} excludes {in_unit(self.null, self.unit)} in {percent(self.asked)} of experiments"

    def check_distance(self, distance: float, target: str) -> None:
        """Raise if the true value of the target is the null."""
        if distance == 0:
            raise OptionError(
                f"{argument('power')} is given, but the true value of {one_line(target)} equals the null, "
                f"{in_unit(self.null, self.unit)}, so no experiment can exclude it."
            )


def read_goal(
    half_width: float | None,
    power: float | None,
    assurance: float | None,
    null: float,
    level: float,
    *,
    replications: int,
    unit: Unit = "number",
) -> Goal:
    """Return the requested goal, validated; `null`, `level` and `replications` are already validated."""
    if (half_width is None) == (power is None):
        raise OptionError(f"A plan needs exactly one goal: {argument('half_width')} or {argument('power')}.")
    if power is None:
        share = None if assurance is None else _share("assurance", assurance, replications)
        asked = positive("half_width", half_width)
        if unit != "number" and asked >= 1:
            raise OptionError(
                f"{argument('half_width')} is {shown(half_width)}; outcomes are 0 or 1, so it must be below 1, such as "
                "0.02 for 2 points."
            )
        return HalfWidth(asked=asked, level=level, null=null, assurance=share, unit=unit)
    if assurance is not None:
        raise OptionError(
            f"{argument('assurance')} needs {argument('half_width')}; "
            f"{argument('power')} is itself a share of experiments."
        )
    asked = _share("power", power, replications)
    if asked <= 1 - level:
        least = f"{1 - level:.6g}, 1 minus the level"
        raise OptionError(f"{argument('power')} is {shown(power)}; it must be above {least}.")
    return Power(asked=asked, level=level, null=null, unit=unit)


def _share(name: str, value: object, replications: int) -> float:
    """Return a share of experiments, if the number of simulated experiments can measure it; otherwise raise."""
    share, most = fraction(name, value), 1 - _LEAST_FALLING_SHORT / replications
    if share > most:
        raise OptionError(
            f"{argument(name)} is {shown(value)}; {replications:,} simulated experiments can measure up to {most:.6g}; "
            f"ask for less, or for more {argument('replications')}."
        )
    return share


def _quantile(ordered: Array, share: float) -> float:
    """Return the smallest value that is at least as large as this share of the ordered ones; beyond all, infinity."""
    place = max(math.ceil(share * len(ordered)) - 1, 0)
    return float(ordered[place]) if place < len(ordered) else math.inf
