"""Goal: what an experiment is to reach, and how far a simulated one is from it.

A half-width falls like a power of the horizon, and so does the standard error behind a test. On the
scale used here, minus the logarithm of a half-width, or the logarithm of the distance from the null
in standard errors, both are nearly straight lines against the logarithm of the horizon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special

from belated.base.columns import Array
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


GoalName = Literal["half_width", "power"]


@dataclass(frozen=True)
class Goal:
    """A half-width or a power to be reached.

    Attributes
    ----------
    name : {"half_width", "power"}
    asked : float
    level : float
        Of the interval.
    null : float
        What the test is against.
    assurance : float or None
        The share of runs whose half-width must be as small; None: the mean must.
    """

    name: GoalName
    asked: float
    level: float
    null: float = 0.0
    assurance: float | None = None

    def point(self, cell: Cell, wait: float) -> Point:
        """Return what a study's cell says about the goal."""
        return self._power(cell, wait) if self.name == "power" else self._half_width(cell, wait)

    def _power(self, cell: Cell, wait: float) -> Point:
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

    def _half_width(self, cell: Cell, wait: float) -> Point:
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
        """Return how far a point is beyond the goal, on the scale of straight lines; negative: short of it."""
        if self.name == "half_width":
            return math.log(self.asked) - math.log(max(point.value, 1e-300))
        shares = np.clip([point.value, self.asked], 0.5 / point.replications, 1 - 0.5 / point.replications)
        reached, asked = np.log(np.maximum(special.ndtri(shares) + self._quantile, 0.05))
        return float(reached - asked)

    def gap_error(self, point: Point) -> float:
        """Return the Monte Carlo standard error of `gap`."""
        if self.name == "half_width":
            return point.error / point.value if 0 < point.value < math.inf else math.inf
        share = min(max(point.value, 0.5 / point.replications), 1 - 0.5 / point.replications)
        z = float(special.ndtri(share))
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return point.error / density / max(z + self._quantile, 0.05)

    @property
    def _quantile(self) -> float:
        return float(special.ndtri((1 + self.level) / 2))

    def proxy(self, distance: float) -> Goal:
        """Return the mean half-width that goes with the goal, were the target's estimate normal.

        It is smooth where power is a share of few runs; `distance` is that of the truth from the null.
        """
        if self.name == "half_width":
            return replace(self, assurance=None)
        z = self._quantile
        reach = abs(distance) * z / max(z + float(special.ndtri(self.asked)), 0.5)
        return Goal(name="half_width", asked=reach, level=self.level)

    def guess(self, sds: Array, coefficients: Array) -> float:
        """Return the horizon for a half-width if all arms were equally likely and every outcome came at once."""
        variance = float(np.sum(coefficients[coefficients != 0] ** 2 * sds[coefficients != 0] ** 2))
        return len(sds) * variance * (self._quantile / self.asked) ** 2


def _quantile(ordered: Array, share: float) -> float:
    """Return the smallest value that at least this share of the ordered ones do not exceed."""
    return float(ordered[min(max(math.ceil(share * len(ordered)) - 1, 0), len(ordered) - 1)])
