"""The intervals of a sequence at its looks, the reasons why they are infinite, and the tests at every arrival."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from belated.base.roots import last_above_0
from belated.base.text import count, one_line
from belated.kernels import fields
from belated.kernels import sequence_bounds as kernel
from belated.kernels.sequence_bounds import EVERY_ARRIVAL, ROUNDING
from belated.sequences.history import History

#: Which sequences need less, and the options that choose them, which some callers do not have: see `live.wording`.
BOUNDED = "a sequence with bounds (`bounds=`, `cap=`; --bounds, --cap) does not"
BINARY_KIND = " (kind='beta_binomial'; --kind)"


class BandPoint(NamedTuple):
    """An estimate and its limits."""

    estimate: float
    low: float
    high: float


def reach(history: History, look: int, arm: int, threshold: float) -> tuple[float, float, float]:
    """Return an arm's estimate and the distances to its limits at a look."""
    design, shift = history.design, history.record.shift[arm]
    state = history.states[look][arm]
    n = state[fields.ARRIVED]
    if n == 0:
        return math.nan, math.inf, math.inf
    if history.single_value is not None:
        return float(shift + state[fields.WY] / state[fields.W]), math.inf, math.inf
    if design.is_binary:
        ones = float(round(state[fields.Y] + n * shift))
        low, high = (kernel.limit(ones, n - ones, threshold, upper, design.plan) for upper in (False, True))
        return ones / n, ones / n - low, high - ones / n
    gauge = history.gauges[look, arm]
    centre = float(gauge[kernel.CENTRE])
    if design.kind == "bernstein":
        radius = float((threshold + math.log(2) + gauge[kernel.UPPER]) / gauge[kernel.LOWER])
        return centre, radius, radius
    square = 2 * threshold + gauge[kernel.PRICE]
    return centre, math.sqrt(gauge[kernel.LOWER] * square), math.sqrt(gauge[kernel.UPPER] * square)


def interval(history: History, look: int, a: int, b: int | None, threshold: float) -> BandPoint:
    """Return the estimate and limits of an arm, or of one minus another, at a look."""
    centre, below, above = reach(history, look, a, threshold)
    bottom, top = (-math.inf, math.inf) if history.design.bounds is None else history.design.bounds
    if b is None:
        if math.isnan(centre):
            return BandPoint(centre, bottom, top)
        return BandPoint(centre, max(centre - below, bottom), min(centre + above, top))
    other, under, over = reach(history, look, b, threshold)
    d = centre - other
    if math.isnan(d):
        return BandPoint(d, bottom - top, top - bottom)
    # the distance to a difference's limit is the root of the sum of the arms' squared distances (MOVER)
    low, high = d - math.hypot(below, over), d + math.hypot(above, under)
    return BandPoint(d, max(low, bottom - top), min(high, top - bottom))


def intervals(history: History, a: int, b: int | None, threshold: float) -> list[BandPoint]:
    """Return the estimate and limits of an arm, or of one minus another, at every look."""
    return [interval(history, look, a, b, threshold) for look in range(len(history.states))]


def score_null(history: History, a: int, b: int | None, together: int) -> tuple[float, int | float | None]:
    """Return the largest score so far against the null, and when it first exceeded the threshold.

    `together` is the number of simultaneous tests. A pair that is not tested at every arrival is tested at the looks.
    """
    design, record = history.design, history.record
    if history.single_value is not None:
        return 0.0, None
    if b is None:
        return record.verdict(a, joint=together > 1)
    pair = design.pair_question(a, b)
    if pair is not None and together in (1, design.n_contrasts):
        score, first = record.verdict(pair, joint=together > 1)
        return max(score, excluding_threshold(history, a, b) if design.is_binary else 0.0), first
    null, threshold = design.null_of(a, b), design.threshold(together)
    if design.is_binary:
        outside = [not low <= null <= high for _, low, high in intervals(history, a, b, threshold)]
        scores = np.where(outside, threshold, 0.0)
        scores[-1] = max(scores[-1], excluding_threshold(history, a, b))
    else:
        scores = np.array([kernel.pair_score(gauges, a, b, null, design.plan.kind) for gauges in history.gauges])
    passed = np.nonzero(scores >= threshold)[0]
    return float(np.max(scores, initial=0.0)), history.times[passed[0]] if len(passed) else None


def excluding_threshold(history: History, a: int, b: int) -> float:
    """Return the threshold at which a contrast's interval just excludes the null now."""
    null = history.design.null_of(a, b)

    def distance(threshold: float) -> float:
        estimate, low, high = interval(history, -1, a, b, threshold)
        return -math.inf if math.isnan(estimate) else max(low - null, null - high)

    return last_above_0(distance, 700.0)


def silence(history: History, arm: int) -> str | None:
    """Return the reason why an arm's interval is infinite; None if it is finite."""
    state, name = history.record.state[arm], one_line(repr(history.design.arms[arm]))
    n = int(state[fields.ARRIVED])
    if n == 0:
        return f"No outcome of arm {name} has arrived."
    if history.single_value is not None:
        return history.single_value
    if history.design.kind != "asymptotic" or math.isfinite(reach(history, -1, arm, 1.0)[1]):
        return None
    size = state[fields.W] ** 2 / state[fields.W2]
    if size < (1 - ROUNDING) * EVERY_ARRIVAL.least_size:
        return (
            f"Arm {name} has an effective sample size of {size:.3g} ({count(n, 'arrived outcome')}); an asymptotic "
            f"sequence needs {EVERY_ARRIVAL.least_size:.0f}, {BOUNDED}."
        )
    variance, _, doubt = kernel.shape(history.record.state, arm)
    if variance == 0 and state[fields.Y] != 0:
        return f"The outcomes of arm {name} differ by too little for numbers to hold their powers; use another unit."
    if variance == 0:
        return (
            f"All {n:,} arrived outcomes of arm {name} are {history.record.shift[arm]:g}, so their variance is "
            f"unknown. An asymptotic sequence needs it; {BOUNDED}, nor does one for 0/1 outcomes"
            f"{BINARY_KIND}."
        )
    if doubt > EVERY_ARRIVAL.most_doubt:
        return (
            f"A few outcomes make up most of the variance of arm {name}, so its relative error is "
            f"{math.sqrt(doubt):.0%}; an asymptotic sequence needs {math.sqrt(EVERY_ARRIVAL.most_doubt):.0%} or less, "
            f"{BOUNDED}."
        )
    return (
        f"The outcomes of arm {name} are few and skewed, so their mean is not yet close to normal. An asymptotic "
        f"sequence needs that; {BOUNDED}."
    )
