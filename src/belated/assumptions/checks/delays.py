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
from belated.base.text import count, p_words
from belated.summaries.delay_tails import DelayTails, delay_tails
from belated.summaries.evidence import FEW, ArrivalCounts, Evidence
from belated.summaries.signs import DEPENDENCE_ADVICE, WINDOW_OPTIONS, direction, outcome_dependence

#: Times that differ by less than this share are equal, whatever their unit.
_ROUNDING = 1e-9


@check(
    "delay tail", condition="A2", asks="The share of outcomes with a delay above d falls at least as fast as d^-1/2."
)
def delay_tail(evidence: Evidence) -> Verdict:
    """Judge the power of d with which the share of delays above d falls."""
    if evidence.within is not None:
        return known_within(evidence)
    arrived = evidence.totals["arrived"].sum()
    if not arrived > 0:
        return no_outcome({})
    if evidence.arrivals is None:
        return Verdict("green", "Every outcome so far arrived at once.")
    tails = delay_tails(evidence.arrivals, evidence.grain)
    if not np.isnan(tails.exponent).all():
        return _judge_tails(evidence, tails)
    finding = f"Every arm has fewer than {FEW} late outcomes, too few to estimate the tail of the delays."
    late_share = evidence.arrivals.counts[:, 1:-1].sum() / arrived
    light: Light = "green" if late_share < 0.05 and arrived >= 100 else "grey"
    return Verdict(light, finding, numbers=_tail_numbers(evidence, tails))


def _judge_tails(evidence: Evidence, tails: DelayTails) -> Verdict:
    """Judge the heaviest tail that could be estimated."""
    numbers = _tail_numbers(evidence, tails)
    among = tails.heavy if tails.heavy.any() else ~np.isnan(tails.exponent)
    k = int(np.argmin(np.where(among, tails.exponent, math.inf)))
    k = k if among[k] else int(np.argmax(among))
    exponent, low, high = (
        f"{end:.2f}" if end < 10 else "10 or more" for end in (tails.exponent[k], tails.low[k], tails.high[k])
    )
    finding = f"Tail exponent of the delays of {arm_name(evidence, k)}: {exponent} (99% interval {low} to {high})"
    if tails.heavy.any():
        return Verdict(
            "red",
            f"{finding}. Too many outcomes arrive very late for the theory to hold.",
            f"Set {WINDOW_OPTIONS}: later outcomes then do not count.",
            numbers,
        )
    if tails.exponent[k] < 0.5:
        return Verdict(
            "amber",
            f"{finding}. Outcomes may arrive too late for the theory to hold; there are too few outcomes to decide.",
            f"Wait longer after the last assignment and check again, or set {WINDOW_OPTIONS}.",
            numbers,
        )
    return Verdict("green", f"{finding}, the smallest of all arms.", numbers=numbers)


def _tail_numbers(evidence: Evidence, tails: DelayTails) -> dict[str, dict[Label, float]]:
    ends = {"exponent": tails.exponent, "low": tails.low, "high": tails.high}
    return {name: by_arm(evidence, values) for name, values in ends.items()}


@check("still out", condition="A2", asks="Outcomes that are still out do not mislead.")
def still_out(evidence: Evidence) -> Verdict:
    """Judge the shares of outcomes that may still arrive, and that are overdue."""
    if evidence.within is not None:
        closed, rows = (int(evidence.totals[name].sum()) for name in ("arrived", "assigned"))
        if closed == rows:
            return known_within(evidence)
        words = f"{closed:,} of {count(rows, 'window')} of {evidence.within} have closed"
        return Verdict("green", f"{words}; younger rows count for the ages they have reached.")
    arrived, still, overdue = where_outcomes_are(evidence)
    numbers = {
        "arrived": by_arm(evidence, arrived),
        "still_out": by_arm(evidence, still),
        "overdue": by_arm(evidence, overdue),
    }
    if np.isnan(still).all():
        return Verdict("grey", "There are no rows.", numbers=numbers)
    if not np.nansum(arrived):
        return no_outcome(numbers)
    k, m = int(np.nanargmax(still)), int(np.nanargmax(overdue))
    finding = (
        f"The largest share of outcomes that may still arrive is {still[k]:.1%} ({arm_name(evidence, k)}); the largest "
        f"share that is overdue or will never arrive is {overdue[m]:.1%} ({arm_name(evidence, m)})"
    )
    if still[k] > 0.2 or overdue[m] > 0.6:
        return Verdict(
            "amber",
            f"{finding}.",
            "Wait before you decide, and ask whether missing outcomes may differ from those that arrived. The log "
            "cannot show it; a sensitivity analysis shows how much it would matter.",
            numbers,
        )
    return Verdict("green", f"{finding}.", numbers=numbers)


def where_outcomes_are(evidence: Evidence) -> tuple[Array, Array, Array]:
    """Return, by arm, the shares of rows whose outcome has arrived, may still arrive, and is overdue."""
    if evidence.arrivals is None:
        arrived = evidence.totals["arrived"] / evidence.totals["assigned"]
        return arrived, np.zeros(len(arrived)), 1 - arrived
    n = evidence.arrivals.counts.sum(axis=(1, 2))
    out = evidence.arrivals.counts[:, -1, :]  # by the age of the row
    with np.errstate(invalid="ignore", divide="ignore"):
        arrived = 1 - out.sum(axis=1) / n
        overdue = np.array([out[k, _overdue_bin(evidence.arrivals, k) :].sum() / n[k] for k in range(len(n))])
    if evidence.within is not None:  # all windows have closed
        overdue = 1 - arrived
    return arrived, np.maximum(1 - arrived - overdue, 0.0), overdue


def _overdue_bin(arrivals: ArrivalCounts, arm: int) -> int:
    """Return the delay bin by which 99 % of an arm's arrivals had arrived; a row that waits longer is overdue.

    No row is overdue in an experiment that has run for less than twice that time: later outcomes had no chance yet.
    """
    arrived = arrivals.counts[arm, :-1].sum(axis=1)
    late = int(np.searchsorted(np.cumsum(arrived), 0.99 * arrived.sum()))
    long_enough = 2 * arrivals.delays[late] <= (1 + _ROUNDING) * arrivals.followed
    return late if arrived.any() and long_enough else len(arrived)


@check(
    "outcome and delay",
    condition="practice",
    asks="Within an arm, whether and when an outcome arrives does not depend on its value.",
)
def outcome_and_delay(evidence: Evidence) -> Verdict:
    """Judge whether outcomes that arrived early differ from those that arrived late."""
    if evidence.within is not None:
        return Verdict("green", f"Every outcome is known {evidence.within} after its assignment, whatever its value.")
    p_value, z = outcome_dependence(evidence.dependence)
    numbers: dict[str, Measured] = {"p_value": p_value, "z": by_arm(evidence, _over_segments(evidence, z))}
    silent = "The log shows nothing about outcomes that never arrive."
    if math.isnan(p_value):
        finding = "There are too few different outcomes to compare early with late ones."
        if evidence.arrivals is None and evidence.totals["arrived"].any():
            finding = "Every outcome so far arrived at once."
        return Verdict("grey", f"{finding} {silent}", numbers=numbers)
    light, p = light_of(p_value), f"p {p_words(p_value, 2)}"
    if light == "green":
        return Verdict("green", f"Early and late outcomes are alike ({p}). {silent}", numbers=numbers)
    differ = "differ" if light == "red" else "may differ"
    return Verdict(light, f"Early and late outcomes {differ}: {direction(z)} ({p}).", DEPENDENCE_ADVICE, numbers)


def _over_segments(evidence: Evidence, z: Array) -> Array:
    """Return one normal value for each arm from those of its segments; NaN where there is none."""
    by_segment = z.reshape(-1, len(evidence.arms))
    return np.asarray(np.nansum(by_segment, axis=0) / np.sqrt(np.sum(~np.isnan(by_segment), axis=0)))
