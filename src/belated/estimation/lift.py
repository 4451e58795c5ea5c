"""`Lift`: the relative difference between an arm's mean and a baseline's.

The lift of B over A is (B - A) / |A|, so its sign is that of the difference even if the baseline is negative. Its
interval is the set of x for which the interval of B - A - x |A| includes 0. This is Fieller's (1954) method for
symmetric intervals, and MOVER for ratios (Donner and Zou 2012) for the others. At x = 0 the combination is the
contrast, so the lift excludes 0 exactly when the contrast does, and both have the same p-value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from belated.base.columns import Array, Label
from belated.base.roots import find_root
from belated.base.tables import Column, Table
from belated.base.text import change_text, one_line, percent, visible
from belated.estimation.intervals import Alternative, Combination, IntervalKind
from belated.summaries.caps import capped_at

if TYPE_CHECKING:
    from belated.estimation.answers import Answer

#: The search for a limit stops after this many doublings of the first step.
_MOST_DOUBLINGS = 60

#: The relative size of rounding errors of a limit.
_ROUNDING = 1e-9

#: Replaces a coefficient of 0, because some kinds of intervals treat a single arm differently from two.
_NO_COEFFICIENT = 1e-12


@dataclass(frozen=True, kw_only=True)
class Lift(Table):
    """The relative difference between an arm's mean and a baseline's; prints as a table.

    Attributes
    ----------
    name : str
    estimate : float
        (arm - baseline) / |baseline|: 0.12 is 12 % more.
    low, high : float
        The limits of the interval, one-sided if the alternative is one-sided; NaN if there are no bounds.
    level : float
    p_value : float
        The p-value of the contrast: the hypothesis is no difference.
    interval : str
        The kind of interval.
    alternative : str
    why : str or None
        The reason why there are no bounds.
    joint : bool
        Whether the interval is simultaneous with others.
    cap : float or None
        The cap on outcomes, if there is one.
    """

    name: str
    estimate: float
    low: float
    high: float
    level: float
    p_value: float
    interval: IntervalKind
    alternative: Alternative
    why: str | None = None
    joint: bool = False
    cap: float | None = None

    @property
    def words(self) -> str:
        """The estimate and its interval, such as "+12% (3% to 22%)"."""
        estimate, low, high = (change_text(x, self.spread) for x in (self.estimate, self.low, self.high))
        sign = "+" if self.estimate > 0 else ""
        return f"{sign}{estimate} ({'no bounds' if math.isnan(self.low) else f'{low} to {high}'})"

    @property
    def spread(self) -> float:
        """The scale for rounding: at most half the distance to the nearer limit, so that no limit rounds to 0."""
        ends = [end for end in (self.low, self.high) if math.isfinite(end) and end != self.estimate]
        spread = min((abs(end - self.estimate) / 2 for end in ends), default=math.nan)
        return min([spread, *(max(abs(end), spread / 100) for end in ends if end != 0)])

    def __repr__(self) -> str:
        return self.to_text()

    def _title(self) -> str:
        kind = f"{percent(self.level)} {self.interval} interval"
        return f"{self.name}{capped_at(self.cap)}: {kind}, test against 0 ({self.alternative})"

    def _columns(self) -> list[Column]:
        return [*lift_columns([self], "estimate", "low", "high"), Column("p_value", [self.p_value], "p_value")]

    def _notes(self) -> list[str]:
        return [] if self.why is None else [self.why]


def lift_columns(lifts: list[Lift | None], *names: str) -> list[Column]:
    """Return three columns with these names: lifts, lower limits and upper limits."""
    parts = ([None if lift is None else getattr(lift, part) for lift in lifts] for part in ("estimate", "low", "high"))
    errors = [None if lift is None else lift.spread for lift in lifts]
    return [Column(name, part, "change", errors) for name, part in zip(names, parts, strict=True)]


def find_lift(
    combination: Callable[[Array], Combination],
    arms: tuple[Label, ...],
    contrast: Answer,
    *,
    pair: tuple[int, int],
    tail: float,
) -> Lift:
    """Return the lift of one arm over another.

    Parameters
    ----------
    combination : callable
        A function from the arms' coefficients to their combination.
    arms : tuple
    contrast : Answer
        The difference, which has the same test.
    pair : (int, int)
        The positions of the arm and the baseline.
    tail : float
        The probability in each tail.
    """
    a, b = pair
    baseline, other = np.zeros((2, len(arms)))
    baseline[b] = other[a] = 1.0
    alone = combination(baseline)
    low, high = map(float, alone.limits(tail))
    value = float(alone.estimate)
    sign = 1.0 if low > 0 else -1.0 if high < 0 else math.copysign(1.0, value)
    difference = float(combination(other).estimate) - value
    estimate = difference / (sign * value) if value != 0 else math.nan
    limits, why = (math.nan, math.nan), None
    if math.isnan(contrast.low):
        why = "The difference has no interval, so the relative difference has no bounds."
    elif low <= 0 <= high or math.isnan(low) or math.isnan(high):
        why = _no_lift_reason(arms[b])
    else:
        low, high = _search(combination, len(arms), pair, sign, tail)
        limits = _settled(low, estimate), _settled(high, estimate)
        why = _no_lift_reason(arms[b]) if math.isnan(limits[0]) else None
    if why is None and contrast.alternative != "two-sided":
        limits = (limits[0], math.inf) if contrast.alternative == "greater" else (-math.inf, limits[1])
    return Lift(
        name=f"lift of {one_line(visible(arms[a]))} over {one_line(visible(arms[b]))}",
        estimate=estimate,
        low=limits[0],
        high=limits[1],
        level=contrast.level,
        p_value=contrast.p_value,
        interval=alone.kind,
        alternative=contrast.alternative,
        why=why,
        joint=contrast.joint,
        cap=contrast.cap,
    )


def _no_lift_reason(baseline: Label) -> str:
    name = one_line(repr(str(baseline)))
    return f"The mean of {name} does not differ significantly from 0, so the relative difference has no bounds."


def _settled(limit: float, estimate: float) -> float:
    """Return a limit; the estimate itself if they differ only by rounding, as at -100 % for an arm of zeros."""
    return estimate if abs(limit - estimate) <= _ROUNDING * abs(estimate) else limit


def _search(
    combination: Callable[[Array], Combination], arms: int, pair: tuple[int, int], sign: float, tail: float
) -> tuple[float, float]:
    """Return the smallest and largest x at which the interval of B - A - x |A| includes 0; NaN if there are none."""
    a, b = pair
    coefficients = np.zeros(arms)
    coefficients[a] = 1.0

    def limits(x: float) -> tuple[float, float]:
        coefficients[b] = -(1 + sign * x) or -_NO_COEFFICIENT
        low, high = combination(coefficients.copy()).limits(tail)
        return float(low), float(high)

    only = np.zeros(arms)
    only[b] = 1.0
    size = abs(float(combination(only).estimate)) or 1.0
    low, high = limits(0.0)
    step = (high - low) / size if 0 < high - low < math.inf else 1.0
    low = _crossing(lambda x: limits(x)[0] / size, step)
    high = _crossing(lambda x: limits(x)[1] / size, step)
    return (math.nan, math.nan) if math.isnan(low) or math.isnan(high) else (low, high)


def _crossing(limit: Callable[[float], float], step: float) -> float:
    """Return the x at which a decreasing limit is 0; infinite if the limit is infinite, NaN if it never reaches 0.

    The search starts at x = 0, the contrast, which decides the side of 0 on which the solution lies.
    """
    scale = step

    def squeezed(x: float) -> float:  # between -1 and 1, so that the limit may be infinite
        value = limit(x)
        return math.copysign(1.0, value) if math.isinf(value) else value / (scale + abs(value))

    near, at_near = 0.0, squeezed(0.0)
    if at_near == 0 or math.isnan(at_near):
        return at_near
    way = math.copysign(1.0, at_near)
    for _ in range(_MOST_DOUBLINGS):
        far = way * step
        at_far = squeezed(far)
        if math.isnan(at_far):
            return math.nan
        if at_far * at_near <= 0:
            ends = ((near, at_near), (far, at_far))
            (low, at_low), (high, at_high) = ends if way > 0 else ends[::-1]
            return find_root(squeezed, low, high, at_low=at_low, at_high=at_high)
        near, at_near, step = far, at_far, 2 * step
    return way * math.inf if abs(at_near) == 1 else math.nan
