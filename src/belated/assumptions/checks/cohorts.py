"""The check of cohorts: whether events build up with age alike in rows assigned early and late."""

from __future__ import annotations

import math

import numpy as np

from belated.assumptions.checks.check import Light, Measured, Verdict, arm_name, by_arm, check, light_of
from belated.base.text import p_words
from belated.summaries.cohorts import CohortTest, changes
from belated.summaries.evidence import FEW, CohortEvidence, Evidence
from belated.summaries.signs import BLATANT

#: How to count only rows whose window has closed.
CLOSED_OPTIONS = " (maturing=False, or --closed-only; log.closed())"

_ADVICE = (
    "The estimate takes later ages of young rows from older rows, which is right only if the build-up stays the same. "
    "Find out what changed: the units, the offer, or the recording (events that are recorded late need a lag). Until "
    f"then count only rows whose window has closed{CLOSED_OPTIONS}, or only rows assigned since the change."
)


@check(
    "build-up over time",
    condition="practice",
    asks="Within an arm, events build up with age alike in rows assigned early and late.",
)
def same_build_up(evidence: Evidence) -> Verdict:
    """Judge whether rows of the same age, assigned early and late, have the same events."""
    cohorts = evidence.cohorts
    changed = [] if cohorts is None else changes(cohorts)
    if cohorts is None or not changed:
        few = f"There are fewer than {FEW} events, too few to compare rows assigned early and late."
        return Verdict("grey", few, "Wait for events.", {"p_value": math.nan})
    worst = min(changed, key=lambda change: change.p_value)
    p_value = min(len(changed) * worst.p_value, 1.0)
    z = np.full(len(evidence.arms), math.nan)
    for change in changed:
        if change.arm is not None or len(evidence.arms) == 1:
            z[change.arm or 0] = change.total
    numbers: dict[str, Measured] = {"p_value": p_value, "z": by_arm(evidence, z)}
    light = light_of(p_value, red=BLATANT)
    p = f"p {p_words(p_value, 2)}"
    if light == "green":
        return Verdict(light, f"Events build up with age alike in rows assigned early and late ({p}).", numbers=numbers)
    return Verdict(light, f"{_place_words(evidence, cohorts, worst, light)} ({p}).", _ADVICE, numbers)


def _place_words(evidence: Evidence, cohorts: CohortEvidence, worst: CohortTest, light: Light) -> str:
    """Return in which rows and at which ages the build-up differs most, and in which direction."""
    at = int(np.argmax(np.abs(worst.z)))
    rows = "Rows" if worst.arm is None else f"Rows of {arm_name(evidence, worst.arm)}"
    ages = f"up to {cohorts.ages[at]}" if at == 0 else f"between {cohorts.ages[at - 1]} and {cohorts.ages[at]}"
    have = "have" if light == "red" else "may have"
    more = "more or larger" if worst.z[at] > 0 else "fewer or smaller"
    return f"{rows} assigned later {have} {more} events at ages {ages} than rows assigned earlier"
