"""Checks of when outcomes arrive: condition A2, and whether arrival depends on the outcome."""

from __future__ import annotations

import math

import numpy as np

from belated.assumptions.checks.check import (
    Light,
    Measured,
    Verdict,
    arm_name,
    by_arm,
    check,
    known_within,
    light_of,
    no_outcome,
)
from belated.base.columns import Array, Label
from belated.base.text import p_words
from belated.summaries.delay_tails import Tails, delay_tails
from belated.summaries.evidence import FEW, ArrivalCounts, Evidence
from belated.summaries.signs import DEPENDENCE_ADVICE, direction, outcome_dependence


@check("delay tail", condition="A2", asks="The share of outcomes later than d falls at least like d^-1/2.")
def delay_tail(evidence: Evidence) -> Verdict:
    """Judge the power of d with which the share of outcomes later than d falls."""
    if evidence.within is not None:
        return known_within(evidence)
    arrived = evidence.totals["arrived"].sum()
    if not arrived > 0:
        return no_outcome({})
    if evidence.arrivals is None:
        return Verdict("green", "Every outcome that has come came at once.")
    tails = delay_tails(evidence.arrivals, evidence.grain)
    if not np.isnan(tails.exponent).all():
        return _judge_tails(evidence, tails)
    finding = f"No arm has {FEW} outcomes that came late, so few that their tail cannot be told."
    late_share = evidence.arrivals.counts[:, 1:-1].sum() / arrived
    light: Light = "green" if late_share < 0.05 and arrived >= 100 else "grey"
    return Verdict(light, finding, numbers=_tail_numbers(evidence, tails))


def _judge_tails(evidence: Evidence, tails: Tails) -> Verdict:
    """Judge the heaviest tail of those that are known."""
    numbers = _tail_numbers(evidence, tails)
    among = tails.heavy if tails.heavy.any() else ~np.isnan(tails.exponent)
    k = int(np.argmin(np.where(among, tails.exponent, math.inf)))
    k = k if among[k] else int(np.argmax(among))
    exponent, low, high = (
        f"{end:.2f}" if end < 10 else "10 or more" for end in (tails.exponent[k], tails.low[k], tails.high[k])
    )
    finding = f"Delays of {arm_name(evidence, k)} fall with exponent {exponent} (99% interval {low} to {high})"
    if tails.heavy.any():
        return Verdict(
            "red",
            f"{finding}: too many outcomes come very late for the theory to hold.",
            "Fix a time within which outcomes count (events and a window, --events --window 7d), so that every row has "
            "had all of it.",
            numbers,
        )
    if tails.exponent[k] < 0.5:
        return Verdict(
            "amber",
            f"{finding}: outcomes may come too late, which so few cannot decide.",
            "Wait longer after the last assignment and look again, or fix a time within which outcomes count.",
            numbers,
        )
    return Verdict("green", f"{finding}, the least of all arms.", numbers=numbers)


def _tail_numbers(evidence: Evidence, tails: Tails) -> dict[str, dict[Label, float]]:
    ends = {"exponent": tails.exponent, "low": tails.low, "high": tails.high}
    return {name: by_arm(evidence, values) for name, values in ends.items()}


@check("still out", condition="A2", asks="Few outcomes are still to come.")
def still_out(evidence: Evidence) -> Verdict:
    """Judge the shares of outcomes that may still come, and that should have come."""
    if evidence.within is not None:
        return known_within(evidence)
    arrived, still, overdue = where_outcomes_are(evidence)
    numbers = {
        "arrived": by_arm(evidence, arrived),
        "still_out": by_arm(evidence, still),
        "overdue": by_arm(evidence, overdue),
    }
    if np.isnan(still).all():
        return Verdict("grey", "There are no rows.", numbers=numbers)
    k, m = int(np.nanargmax(still)), int(np.nanargmax(overdue))
    finding = (
        f"Of {arm_name(evidence, k)}, {still[k]:.1%} of the outcomes may still come; of {arm_name(evidence, m)}, "
        f"{overdue[m]:.1%} are overdue or will never come"
    )
    if still[k] > 0.2 or overdue[m] > 0.6:
        return Verdict(
            "amber",
            f"{finding}.",
            "Wait before you decide, and ask whether what is missing may differ from what has come; the log cannot "
            "tell.",
            numbers,
        )
    return Verdict("green", f"{finding}, the most of all arms.", numbers=numbers)


def where_outcomes_are(evidence: Evidence) -> tuple[Array, Array, Array]:
    """Return, by arm, the shares of rows whose outcome has arrived, may still come, and should have come."""
    if evidence.arrivals is None:
        arrived = evidence.totals["arrived"] / evidence.totals["assigned"]
        return arrived, np.zeros(len(arrived)), 1 - arrived
    n = evidence.arrivals.counts.sum(axis=(1, 2))
    out = evidence.arrivals.counts[:, -1, :]  # by the age of the row
    with np.errstate(invalid="ignore", divide="ignore"):
        arrived = 1 - out.sum(axis=1) / n
        overdue = np.array([out[k, _late(evidence.arrivals, k) :].sum() / n[k] for k in range(len(n))])
    if evidence.within is not None:  # all windows have closed
        overdue = 1 - arrived
    return arrived, 1 - arrived - overdue, overdue


def _late(arrivals: ArrivalCounts, arm: int) -> int:
    """Return the bin by which 99 % of an arm's arrivals had come: who is out for longer is overdue.

    No one is in an experiment that has not run for twice that time: what comes later has hardly had the chance.
    """
    arrived = arrivals.counts[arm, :-1].sum(axis=1)
    late = int(np.searchsorted(np.cumsum(arrived), 0.99 * arrived.sum()))
    return late if arrived.any() and 2 * arrivals.delays[late] <= arrivals.followed else len(arrived)


@check(
    "outcome and delay",
    condition="practice",
    asks="Given the arm, whether and when an outcome arrives does not depend on what it is.",
)
def outcome_and_delay(evidence: Evidence) -> Verdict:
    """Judge whether outcomes that arrived early differ from those that arrived late."""
    if evidence.within is not None:
        return Verdict("green", f"Every outcome is known {evidence.within} after its assignment, whatever it is.")
    p_value, z = outcome_dependence(evidence.dependence)
    numbers: dict[str, Measured] = {"p_value": p_value, "z": by_arm(evidence, z)}
    silent = "About outcomes that never come the log is silent."
    if math.isnan(p_value):
        finding = "Outcomes are too few or too much alike to compare early with late ones."
        if evidence.arrivals is None and evidence.totals["arrived"].any():
            finding = "Every outcome that has come came at once."
        return Verdict("grey", f"{finding} {silent}", numbers=numbers)
    light, p = light_of(p_value), f"p {p_words(p_value, 2)}"
    if light == "green":
        return Verdict("green", f"Early and late outcomes are alike ({p}). {silent}", numbers=numbers)
    differ = "differ" if light == "red" else "may differ"
    return Verdict(light, f"Early and late outcomes {differ}: {direction(z)} ({p}).", DEPENDENCE_ADVICE, numbers)
