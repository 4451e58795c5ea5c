"""Checks of the outcomes themselves: how many, which are recorded, whether they vary, and whether they change."""

from __future__ import annotations

import math

import numpy as np

from belated.assumptions.checks.check import Verdict, arm_name, arm_name_first, by_arm, check, light_of, no_outcome
from belated.base.text import count, p_words
from belated.summaries.evidence import FEW, Evidence
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
    enough = 500 if value in (0.0, 1.0) else 50
    if flat[known].all() and n.sum() >= enough:
        return Verdict(
            "red",
            f"{finding}, and no arm's outcomes vary.",
            "Look at how outcomes are recorded: is this the right column, and are other values missing?",
            numbers,
        )
    return Verdict(
        "amber",
        f"{finding}: they do not show how much they vary.",
        "Wait for more of them; with 0/1 outcomes the wilson interval (the default) allows for it.",
        numbers,
    )


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
