"""Checks of the outcomes themselves.

How many there are, which are recorded, whether they vary, whether a few dominate the variance, and whether they drift.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from belated.assumptions.checks.check import (
    Light,
    Verdict,
    arm_name,
    arm_name_first,
    by_arm,
    check,
    light_of,
    no_outcome,
)
from belated.base.columns import Array
from belated.base.text import count, p_words
from belated.summaries.evidence import AT_MEAN, FEW, Evidence, mean_and_sd, squares_about_mean
from belated.summaries.signs import (
    drift,
    is_sparse,
    most_recorded,
    positive_remark,
    single_value_advice,
    single_value_remark,
    trend,
)

#: With this many outcomes, some must differ; 500 rows may all lack a rare event by chance.
_ENOUGH_TO_DIFFER = 500

#: How the advice on a cap begins.
CAP_THEM = "Cap the outcomes"

_DRIFT_ADVICE = (
    "Each estimate is then an average over the time of the experiment, weighted by when the arm was tried. Compare "
    "arms over a period in which nothing changed, or say that the result holds for this period only."
)


@check("arrivals", condition="practice", asks="Every arm has enough outcomes.")
def arrivals(evidence: Evidence) -> Verdict:
    """Judge how many outcomes have arrived."""
    arrived = evidence.totals["arrived"]
    numbers = {"arrived": by_arm(evidence, arrived)}
    k = int(np.argmin(arrived))
    finding = f"{arm_name_first(evidence, k)} has {count(int(arrived[k]), 'outcome')}"
    if evidence.within is not None:
        finding = f"{arm_name_first(evidence, k)} has {count(int(arrived[k]), 'closed window')}"
        if arrived[k] < FEW:
            return Verdict(
                "amber",
                f"{finding} of {evidence.within}; the end of the window rests on few rows of the arm.",
                "Wait for windows to close, or choose a shorter window.",
                numbers,
            )
    if (arrived < 2).all():
        return Verdict(
            "red",
            "Every arm has fewer than two outcomes, so there are no intervals.",
            "Wait for outcomes.",
            numbers,
        )
    if arrived[k] < 2:
        advice = "Wait for its outcomes, or leave the arm out."
        return Verdict("amber", f"{finding}, so it has no interval.", advice, numbers)
    if arrived[k] < FEW and not squares_about_mean(arrived, evidence.totals["y"], evidence.totals["y2"]).any():
        return Verdict("amber", f"{finding}, which is few.", "Wait for more outcomes.", numbers)  # it has no interval
    if arrived[k] < FEW:
        advice = "Wait for more outcomes, or treat its interval with caution."
        return Verdict("amber", f"{finding}, so its interval is approximate.", advice, numbers)
    return Verdict("green", f"{finding}, the fewest of all arms.", numbers=numbers)


# ---------------------------------------------------------------- which are recorded


@check(
    "recorded outcomes",
    condition="practice",
    asks="Every outcome is recorded, not only those where something happened.",
)
def recorded(evidence: Evidence) -> Verdict:
    """Judge whether outcomes look as if they were recorded only when something happens."""
    if evidence.within is not None:
        return Verdict("green", f"A row without an event within {evidence.within} counts as 0.")
    totals = evidence.totals
    old, soon = totals["old"], totals["soon"]
    numbers = {"lowest": by_arm(evidence, evidence.low), "recorded": by_arm(evidence, soon / old)}
    remark = single_value_remark(totals, evidence.shift)
    if remark is not None:
        return Verdict("red", *remark, numbers)
    lowest, most = float(np.nanmin(evidence.low, initial=math.inf)), most_recorded(old, soon)
    if not math.isfinite(lowest):
        return no_outcome(numbers)
    if lowest > 0 and most < 0.9:
        sparse = is_sparse(old, soon) and not _still_coming(evidence)
        return Verdict("red" if sparse else "amber", *positive_remark(most), numbers)
    if lowest > 0:
        finding = "Every outcome is above 0, and in at least one arm nearly every row has an outcome."
        return Verdict("green", finding, numbers=numbers)
    k = _only_successes(evidence)
    if k is None:
        return Verdict("green", "Outcomes of 0 or below are recorded too.", numbers=numbers)
    return Verdict(
        "red",
        f"Every outcome of {arm_name(evidence, k)} is {evidence.low[k]:g}, and {1 - soon[k] / old[k]:.0%} of its "
        "oldest rows have no outcome; other arms have smaller outcomes.",
        single_value_advice(float(evidence.low[k])),
        numbers,
    )


def _still_coming(evidence: Evidence) -> bool:
    """Whether rows followed for half of the experiment got many of their outcomes in the second half of that time."""
    arrivals = evidence.arrivals
    if arrivals is None:
        return False
    half = arrivals.followed / 2
    long = np.concatenate([[0.0], arrivals.delays]) >= half  # bins of rows followed at least that long
    by_delay = arrivals.counts[:, :-1, long[: arrivals.counts.shape[2]]].sum(axis=(0, 2))
    soon, late = arrivals.delays <= half, arrivals.delays > half / 2
    return bool(by_delay[soon & late].sum() > 0.1 * by_delay[soon].sum())


def _only_successes(evidence: Evidence) -> int | None:
    """Return an arm whose outcomes are all one value above 0 and mostly missing, if other arms have smaller values."""
    totals, low = evidence.totals, evidence.low
    n, old, soon = totals["arrived"], totals["old"], totals["soon"]
    with np.errstate(invalid="ignore", divide="ignore"):
        flat = (n >= FEW) & (squares_about_mean(n, totals["y"], totals["y2"]) == 0)
        sparse = [is_sparse(old[k : k + 1], soon[k : k + 1]) for k in range(len(n))]
    suspects = np.flatnonzero(flat & (low > 0) & (low > np.nanmin(low)) & sparse)
    return int(suspects[0]) if len(suspects) else None


# ---------------------------------------------------------------- variation and drift


@check("variation", condition="practice", asks="An arm's outcomes vary.")
def variation(evidence: Evidence) -> Verdict:
    """Judge whether an arm's outcomes are all equal."""
    n, y, y2 = (evidence.totals[name] for name in ("arrived", "y", "y2"))
    mean, squares = y / n, squares_about_mean(n, y, y2)
    known = n >= 2
    flat = known & (squares == 0)
    numbers = {"variance": by_arm(evidence, np.where(known, squares / (n - 1), math.nan))}
    if not known.any():
        return Verdict("grey", "Every arm has fewer than two outcomes.", "Wait for outcomes.", numbers)
    if not flat.any():
        return Verdict("green", "The outcomes of every arm vary.", numbers=numbers)
    k = int(np.argmax(flat * n))
    value = float(evidence.shift[k] + mean[k])
    finding = f"All {n[k]:,.0f} outcomes of {arm_name(evidence, k)} are {value:g}"
    if flat[known].all() and n.sum() >= _ENOUGH_TO_DIFFER:
        return Verdict(
            "red",
            f"{finding}, and no other arm's outcomes vary either.",
            "Check how outcomes are recorded: is this the right column, and are other values missing?",
            numbers,
        )
    some = n > 0
    if np.ptp((evidence.shift + mean)[some]) == 0 and (flat | (n == 1))[some].all():
        finding = f"Every outcome so far is {value:g}, so their variance is unknown, and no arm has an interval."
        return Verdict("amber", finding, "Wait for more outcomes.", numbers)
    return Verdict(
        "amber",
        f"{finding}, so their variance is unknown.",
        "Wait for more outcomes. Until then, the arm's interval uses the variance of all arms together.",
        numbers,
    )


@check("largest outcomes", condition="practice", asks="No single outcome dominates an arm's variance.")
def tail(evidence: Evidence) -> Verdict:
    """Judge how well each arm's variance is known, and whether its tail is too heavy for more rows to help."""
    known = tails(evidence)
    numbers = {
        "largest_share": by_arm(evidence, known.largest),
        "relative_error": by_arm(evidence, known.error),
        "spread_of_tail": by_arm(evidence, known.spread),
        "in_tail": by_arm(evidence, known.beyond),
    }
    judged = (evidence.totals["arrived"] >= FEW) & ~np.isnan(known.error)
    if known.two_valued:
        return Verdict("green", "Outcomes take only two values, so none is extreme.", numbers=numbers)
    if not judged.any():
        finding = f"Every arm has fewer than {FEW} outcomes, or outcomes that do not vary."
        return Verdict("grey", finding, numbers=numbers)
    # thresholds shrink with the number of outcomes in the tail; docs/diagnostics.md has the simulations behind them
    margin = 1 / np.sqrt(np.maximum(known.beyond, 1))
    heavy = judged & (known.beyond >= FEW) & (known.spread > 0.4 + 0.8 * margin) & (known.error**2 > 0.05)
    long = judged & (known.spread > 0.3 + 0.5 * margin) & (known.error**2 > 0.02)
    unsure = judged & (known.error**2 > 0.1)
    light: Light = "green"
    among = judged
    if heavy.any():
        light, among = "red", heavy
    elif (long | unsure).any():
        light, among = "amber", long | unsure
    k = int(np.argmax(np.where(among, known.error, -1.0)))
    finding = (
        f"One outcome makes up {known.largest[k]:.0%} of the variance of {arm_name(evidence, k)}. The relative error "
        f"of this variance is about {known.error[k]:.0%}"
    )
    if light == "green":
        return Verdict(light, f"{finding}, the largest of all arms.", numbers=numbers)
    why = "The tail is too heavy to trust the interval" if light == "red" else "Further large outcomes may still arrive"
    return Verdict(light, f"{finding}. {why}.", _tail_advice(known, k), numbers)


def _tail_advice(known: OutcomeTails, arm: int) -> str:
    """Return the advice on a heavy tail, with a cap if one would shorten it."""
    if known.cap[arm] < known.highest[arm]:
        cap = f"{known.cap[arm]:g}"
        return (
            f"{CAP_THEM}, for example with cap={cap} (--cap {cap}): larger outcomes then count as the cap. "
            "Choose the cap by what is a plausible outcome, and report it with the result. Or wait for more outcomes."
        )
    if known.cap[arm] == math.inf:
        return "Check whether the smallest outcomes are correct. If they are, wait for more outcomes."
    return f"Wait for more outcomes: only {int(known.beyond[arm]):,} of the arm's outcomes lie in the tail."


class OutcomeTails(NamedTuple):
    """The longer tail of each arm's outcomes; NaN where outcomes do not vary.

    Attributes
    ----------
    two_valued : bool
        Whether the outcomes of all arms have the same two values, or are 0 and 1.
    largest : array
        The share of the sum of squared deviations that is due to the outcome furthest from the mean.
    error : array
        The relative standard error of the variance, sqrt((kurtosis - 1) / n).
    beyond : array
        The number of outcomes on the tail's side of the mean.
    spread : array
        1 - (mean of sqrt(d))^2 / mean of d over those, d the distance from the mean: 0 if all are equally far, 0.21 for
        exponential outcomes, near 1 if one is much further than all others.
    cap : array
        The mean plus 4 times the mean of d, to two digits; infinite if the longer tail is that of small outcomes.
    highest : array
        The largest outcome.
    """

    two_valued: bool
    largest: Array
    error: Array
    beyond: Array
    spread: Array
    cap: Array
    highest: Array


def tails(evidence: Evidence) -> OutcomeTails:
    """Return the statistics of each arm's longer tail."""
    shape, n = evidence.shape, evidence.totals["arrived"]
    mean, sd = mean_and_sd(evidence.totals)
    mean = mean + evidence.shift
    varies = shape.highest > shape.lowest + AT_MEAN
    upward = shape.cubes >= 0
    in_tail, away, root = shape.sides[np.arange(len(n)), upward.astype(int)].T
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(np.maximum(shape.fourths / n - 1, 0.0) / n)
        spread = 1 - root**2 / (in_tail * away)
        cap = np.where(upward, mean + 4 * sd * away / in_tail, math.inf)
    values = np.stack([mean + sd * shape.lowest, mean + sd * shape.highest])
    return OutcomeTails(
        two_valued=_has_two_values(evidence, values),
        largest=np.where(varies, np.maximum(shape.lowest**2, shape.highest**2) / n, math.nan),
        error=np.where(varies, error, math.nan),
        beyond=in_tail,
        spread=np.where(varies, spread, math.nan),
        cap=np.array([float(f"{c:.2g}") for c in cap]),
        highest=values[1],
    )


def _has_two_values(evidence: Evidence, values: Array) -> bool:
    """Whether outcomes take two values only, each at least twice, or are 0 and 1; `values` are the extremes."""
    shape, n = evidence.shape, evidence.totals["arrived"]
    some = n > 0
    if not some.any():
        return False
    low, high = values[0, some].min(), values[1, some].max()
    near = 1e-6 * (high - low)
    at_ends = np.minimum(np.abs(values - low), np.abs(values - high)).max(axis=0) <= near
    two = np.abs(shape.lowest * shape.highest + 1) <= 1e-6
    flat = shape.highest <= shape.lowest + AT_MEAN
    if not (at_ends & (two | flat))[some].all():
        return False
    mean = float(evidence.totals["y"].sum() + evidence.shift @ n) / n.sum()
    rarer = n.sum() * min(mean - low, high - mean) / (high - low) if high > low else 0.0
    return bool(rarer > 1.5 or max(abs(low), abs(high - 1)) <= near)


@check("drift", condition="practice", asks="The mean of each arm's outcomes does not change over time.")
def drift_over_time(evidence: Evidence) -> Verdict:
    """Judge whether arms' mean outcomes change with time."""
    sums = evidence.cells
    between = drift(evidence.coarse_cells("arrived"), evidence.coarse_cells("y"), evidence.coarse_cells("y2"))
    finely = drift(sums["arrived"], sums["y"], sums["y2"], few=100)
    along = trend(sums["arrived"], sums["y"], sums["y2"])
    p_value = min((3 * p for p in (between, finely, along) if not math.isnan(p)), default=math.nan)
    p_value = min(p_value, 1.0)
    numbers = {
        "p_value": p_value,
        "between_stretches_p": between,
        "between_short_stretches_p": finely,
        "trend_p": along,
    }
    if math.isnan(p_value):
        return Verdict("grey", "There are too few different outcomes to compare periods of time.", numbers=numbers)
    light = light_of(p_value)
    change = {"red": "change", "amber": "may change"}.get(light, "do not change")
    where = "Within arms" if evidence.segments is None else "Within segments and arms"
    finding = f"{where}, mean outcomes {change} over time (p {p_words(p_value, 2)})."
    return Verdict(light, finding, "" if light == "green" else _DRIFT_ADVICE, numbers)
