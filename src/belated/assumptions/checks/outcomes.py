"""Checks of the outcomes themselves.

How many, which are recorded, whether they vary, whether a few hold most of what varies, and whether they change.
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
from belated.summaries.evidence import AT_MEAN, FEW, Evidence, mean_and_sd
from belated.summaries.signs import (
    drift,
    is_sparse,
    most_recorded,
    one_value,
    positive_remark,
    single_value_advice,
    single_value_remark,
    trend,
)

#: Outcomes of which some must vary: of a rare event, 500 may be without it by chance.
_MANY = 500

_DRIFT_ADVICE = (
    "An arm's answer is then an average over the time of the experiment, weighted by when it was tried. Compare arms "
    "over a stretch in which nothing changed, or say that the answer is about this time only."
)


@check("arrivals", condition="practice", asks="Every arm has outcomes to go by.")
def arrivals(evidence: Evidence) -> Verdict:
    """Judge how many outcomes have arrived."""
    arrived = evidence.totals["arrived"]
    numbers = {"arrived": by_arm(evidence, arrived)}
    k = int(np.argmin(arrived))
    finding = f"{arm_name_first(evidence, k)} has {count(int(arrived[k]), 'outcome')}"
    if (arrived < 2).all():
        return Verdict(
            "red",
            "No arm has two outcomes, so that nothing can be estimated with an interval.",
            "Wait for outcomes.",
            numbers,
        )
    if arrived[k] < 2:
        advice = "Wait for its outcomes, or leave the arm out."
        return Verdict("amber", f"{finding}: it has no interval.", advice, numbers)
    if arrived[k] < FEW:
        advice = "Wait for more, or read its interval with care."
        return Verdict("amber", f"{finding}: its interval is a rough one.", advice, numbers)
    return Verdict("green", f"{finding}, the fewest of all arms.", numbers=numbers)


# ---------------------------------------------------------------- which are recorded


@check(
    "recorded outcomes",
    condition="practice",
    asks="Outcomes are recorded whatever they are, not only when something happens.",
)
def recorded(evidence: Evidence) -> Verdict:
    """Judge whether outcomes look as if they were recorded only when something happens."""
    if evidence.within is not None:
        return Verdict("green", f"What has not happened within {evidence.within} counts as 0.")
    totals = evidence.totals
    old, soon = totals["old"], totals["soon"]
    numbers = {"lowest": by_arm(evidence, evidence.low), "recorded": by_arm(evidence, soon / old)}
    value = one_value(totals["assigned"], totals["arrived"], totals["y"], totals["y2"], evidence.shift)
    if value is not None:
        missing = float(1 - totals["arrived"].sum() / totals["assigned"].sum())
        return Verdict("red", *single_value_remark(value, missing), numbers)
    lowest, most = float(np.nanmin(evidence.low, initial=math.inf)), most_recorded(old, soon)
    if not math.isfinite(lowest):
        return no_outcome(numbers)
    if lowest > 0 and most < 0.9:
        sparse = is_sparse(old, soon) and not _still_coming(evidence)
        return Verdict("red" if sparse else "amber", *positive_remark(most), numbers)
    if lowest > 0:
        return Verdict("green", "Every outcome is above 0, and nearly every row of some arm has one.", numbers=numbers)
    k = _only_successes(evidence)
    if k is None:
        return Verdict("green", "There are outcomes of 0 or below.", numbers=numbers)
    return Verdict(
        "red",
        f"{arm_name_first(evidence, k)} has only outcomes of {evidence.low[k]:g}, and {1 - soon[k] / old[k]:.0%} of "
        "its rows followed longest have none; other arms have smaller outcomes.",
        single_value_advice(float(evidence.low[k])),
        numbers,
    )


def _still_coming(evidence: Evidence) -> bool:
    """Whether, of rows followed for half of the experiment, many outcomes came in the later half of that time."""
    arrivals = evidence.arrivals
    if arrivals is None:
        return False
    half = arrivals.followed / 2
    long = np.concatenate([[0.0], arrivals.delays]) >= half  # followed in full so many bins
    by_delay = arrivals.counts[:, :-1, long[: arrivals.counts.shape[2]]].sum(axis=(0, 2))
    soon, late = arrivals.delays <= half, arrivals.delays > half / 2
    return bool(by_delay[soon & late].sum() > 0.1 * by_delay[soon].sum())


def _only_successes(evidence: Evidence) -> int | None:
    """Return an arm whose outcomes all have one value above 0 and mostly do not come, if others have smaller ones."""
    totals, low = evidence.totals, evidence.low
    n, old, soon = totals["arrived"], totals["old"], totals["soon"]
    with np.errstate(invalid="ignore", divide="ignore"):
        flat = (n >= FEW) & (totals["y2"] - totals["y"] ** 2 / n <= 1e-12 * totals["y2"])
        sparse = [is_sparse(old[k : k + 1], soon[k : k + 1]) for k in range(len(n))]
    suspects = np.flatnonzero(flat & (low > 0) & (low > np.nanmin(low)) & sparse)
    return int(suspects[0]) if len(suspects) else None


# ---------------------------------------------------------------- how they vary, and change


@check("variation", condition="practice", asks="An arm's outcomes vary.")
def variation(evidence: Evidence) -> Verdict:
    """Judge whether an arm's outcomes are all equal."""
    n, y2 = evidence.totals["arrived"], evidence.totals["y2"]
    mean = evidence.totals["y"] / n
    variance = np.maximum(y2 - n * mean**2, 0) / (n - 1)
    known = n >= 2
    flat = known & (y2 - n * mean**2 <= 1e-12 * y2)
    numbers = {"variance": by_arm(evidence, np.where(known, np.where(flat, 0.0, variance), math.nan))}
    if not known.any():
        return Verdict("grey", "No arm has two outcomes.", "Wait for outcomes.", numbers)
    if not flat.any():
        return Verdict("green", "The outcomes of every arm vary.", numbers=numbers)
    k = int(np.argmax(flat * n))
    value = float(evidence.shift[k] + mean[k])
    finding = f"All {n[k]:,.0f} outcomes of {arm_name(evidence, k)} are {value:g}"
    if flat[known].all() and n.sum() >= _MANY:
        return Verdict(
            "red",
            f"{finding}, and no arm's outcomes vary.",
            "Look at how outcomes are recorded: is this the right column, and are other values missing?",
            numbers,
        )
    return Verdict(
        "amber",
        f"{finding}: they do not show how much they vary.",
        "Wait for more of them; until then the arm's interval takes from the other arms how much outcomes vary.",
        numbers,
    )


@check("largest outcomes", condition="practice", asks="No few outcomes decide how much an arm's outcomes vary.")
def tail(evidence: Evidence) -> Verdict:
    """Judge how well an arm's variance is known, and whether its tail is too long for that to be mended by waiting."""
    known = tails(evidence)
    numbers = {
        "largest_share": by_arm(evidence, known.largest),
        "relative_error": by_arm(evidence, known.error),
        "spread_of_tail": by_arm(evidence, known.spread),
        "in_tail": by_arm(evidence, known.beyond),
    }
    judged = (evidence.totals["arrived"] >= FEW) & ~np.isnan(known.error)
    if known.two_valued:
        return Verdict("green", "Outcomes have two values only: there is no tail.", numbers=numbers)
    if not judged.any():
        return Verdict("grey", f"No arm has {FEW} outcomes that vary, too few to tell.", numbers=numbers)
    # thresholds shrink with the outcomes in the tail; docs/diagnostics.md has the simulations that they are from
    margin = 1 / np.sqrt(np.maximum(known.beyond, 1))
    heavy = judged & (known.beyond >= FEW) & (known.spread > 0.4 + 0.8 * margin) & (known.error**2 > 0.05)
    long = judged & (known.spread > 0.3 + 0.5 * margin) & (known.error**2 > 0.02)
    unsure = judged & (known.error**2 > 0.1)
    light: Light = "red" if heavy.any() else "amber" if (long | unsure).any() else "green"
    among = heavy if heavy.any() else long | unsure if light == "amber" else judged
    k = int(np.argmax(np.where(among, known.error, -1.0)))
    finding = (
        f"One outcome of {arm_name(evidence, k)} holds {known.largest[k]:.0%} of the arm's variance, which is known to "
        f"within about {known.error[k]:.0%}"
    )
    if light == "green":
        return Verdict(light, f"{finding}, the least certain.", numbers=numbers)
    why = "its tail is too long for an interval to trust" if light == "red" else "more like it may still come"
    return Verdict(light, f"{finding}: {why}.", _tail_advice(known, k), numbers)


def _tail_advice(known: Tails, arm: int) -> str:
    """Name the cap where one would cut the tail."""
    if known.cap[arm] < known.highest[arm]:
        cap = f"{known.cap[arm]:g}"
        return (
            f"Let outcomes above a cap count as the cap, such as cap={cap} (--cap {cap}), set by what an outcome can "
            "sensibly be, and say so beside the answer; or wait for more."
        )
    if known.cap[arm] == math.inf:
        return "Look at the smallest outcomes: are they right? Otherwise wait for more."
    return f"Wait for more: {count(int(known.beyond[arm]), 'outcome')} of the arm make up the tail."


class Tails(NamedTuple):
    """What is known of the tails of the arms' outcomes, the longer one of each; NaN where outcomes do not vary.

    Attributes
    ----------
    two_valued : bool
        Whether the outcomes of all arms have the same two values, or are 0 and 1.
    largest : array
        The share of the sum of squared deviations that the outcome furthest from the mean holds.
    error : array
        The relative standard error of the variance, sqrt((kurtosis - 1) / n).
    beyond : array
        How many outcomes lie beyond the mean, on the side of the tail.
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


def tails(evidence: Evidence) -> Tails:
    """Return what is known of the arms' tails."""
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
    return Tails(
        two_valued=_has_two_values(evidence, values),
        largest=np.where(varies, np.maximum(shape.lowest**2, shape.highest**2) / n, math.nan),
        error=np.where(varies, error, math.nan),
        beyond=in_tail,
        spread=np.where(varies, spread, math.nan),
        cap=np.array([float(f"{c:.2g}") for c in cap]),
        highest=values[1],
    )


def _has_two_values(evidence: Evidence, values: Array) -> bool:
    """Whether all outcomes are one of two values, each seen twice or more, or 0 and 1; `values` are the extremes."""
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


@check("drift", condition="practice", asks="An arm's outcomes are of the same kind from beginning to end.")
def drift_over_time(evidence: Evidence) -> Verdict:
    """Judge whether arms' mean outcomes change with time."""
    sums = evidence.sums
    between = drift(evidence.coarse("arrived"), evidence.coarse("y"), evidence.coarse("y2"))
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
        return Verdict("grey", "Outcomes are too few or too much alike to compare stretches of time.", numbers=numbers)
    light = light_of(p_value)
    change = {"red": "change", "amber": "may change"}.get(light, "do not change")
    finding = f"Within arms, mean outcomes {change} over time (p {p_words(p_value, 2)})."
    return Verdict(light, finding, "" if light == "green" else _DRIFT_ADVICE, numbers)
