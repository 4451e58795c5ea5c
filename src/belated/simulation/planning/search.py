"""Search for the smallest horizon that reaches a goal.

All horizons and waits are simulated with the same random numbers, to reduce the Monte Carlo error of their
differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from belated.simulation.planning.goals import Goal, Point

#: The largest factor by which the horizon may change in one step of the search, and the range of plausible slopes.
_LEAP = 16.0
FLATTEST, STEEPEST = 0.02, 2.0

#: The initial slope: between the slopes of a policy that hardly explores and of one that only explores.
DEFAULT_SLOPE = 0.35

_MOST_STEPS = 24

#: The relative distance from the goal's horizon at which the search ends.
_TOLERANCE = 0.01


@dataclass(frozen=True)
class Root:
    """The horizon at which the goal is reached.

    Attributes
    ----------
    horizon : float
        The number of assignments; if the goal was not reached, an extrapolation, perhaps infinite.
    reached : bool
    """

    horizon: float
    reached: bool


def solve(measure: Callable[[int], Point], goal: Goal, guess: float, least: int, most: int) -> Root:
    """Find the smallest horizon at which `measure` reaches the goal, to 1%."""
    gaps: dict[int, float] = {}
    horizon = int(min(max(guess, least), most))
    for _ in range(_MOST_STEPS):
        gaps[horizon] = goal.gap(measure(horizon))
        above = min((h for h, gap in gaps.items() if gap >= 0), default=None)
        below = max((h for h, gap in gaps.items() if gap < 0 and (above is None or h < above)), default=None)
        if above is None and horizon == most:
            if len(gaps) == 1 and most >= 4 * least:  # a slope needs two
                gaps[most // 4] = goal.gap(measure(most // 4))
            slope = _slope(gaps, most)
            lacking = -gaps[most] / slope
            beyond = most * math.exp(lacking) if slope > FLATTEST and lacking < 30 else math.inf
            return Root(beyond, reached=False)
        if above == least:
            return Root(least, reached=True)
        if above is None or below is None:
            at = max(gaps) if above is None else min(gaps)
            step = -gaps[at] / _slope(gaps, at) if math.isfinite(gaps[at]) else math.log(4)
            step = math.copysign(min(max(1.05 * abs(step), 0.03), math.log(_LEAP)), -gaps[at])
            horizon = int(min(max(round(at * math.exp(step)), least), most))
            continue
        if math.isfinite(gaps[below]):
            slope = (gaps[above] - gaps[below]) / math.log(above / below)
            root = below * math.exp(-gaps[below] / slope)
        else:
            slope, root = math.nan, math.sqrt(below * above)
        near = min((below, above), key=lambda h: abs(math.log(h / root)))
        close = abs(math.log(near / root)) < _TOLERANCE and math.isfinite(slope)
        if close or above - below <= 1:
            return Root(root if close else above, reached=True)
        horizon = min(max(round(root), below + 1), above - 1)
    nearest = max(gaps) if above is None else above
    return Root(nearest, reached=above is not None)


def _slope(gaps: dict[int, float], horizon: int) -> float:
    """Return the slope at a horizon, from that horizon and the nearest one that is far enough away."""
    others = [h for h, gap in gaps.items() if abs(math.log(h / horizon)) > 0.3 and math.isfinite(gap)]
    if not others or not math.isfinite(gaps[horizon]):
        return DEFAULT_SLOPE
    other = min(others, key=lambda h: abs(math.log(h / horizon)))
    slope = (gaps[horizon] - gaps[other]) / math.log(horizon / other)
    return min(max(slope, FLATTEST), STEEPEST)
