"""Checks of probabilities and weights.

How fast the smallest probability falls; whether choices agree with the logged probabilities; whether a single row
dominates; the effective sample size; and whether the sums behind the standard errors are stable.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from belated.assumptions.checks.check import (
    Measured,
    Verdict,
    arm_name,
    arm_name_first,
    by_arm,
    check,
    light_of,
    no_outcome,
)
from belated.base.checks import TOLERANCE
from belated.base.columns import Array
from belated.base.text import count, p_words
from belated.summaries.contexts import SHORT, contexts
from belated.summaries.evidence import FEW, Evidence
from belated.summaries.signs import (
    BLATANT,
    CALIBRATION_ADVICE,
    SURE,
    calibration,
    context_remark,
    steady_arrival,
    swapped,
)

#: The advice if every choice had probability 1.
_CERTAIN_ADVICE = (
    "Weighting cannot compare arms that were chosen with probability 1. If arms were drawn at random, log the "
    "probabilities used; if a rule such as UCB chose them, continue with a minimum probability for every arm."
)

#: A row with at least this share of an arm's weight makes the check red (if it is also unlikely), or amber.
_HEAVY, _NOTABLE = 0.15, 0.05

#: A row with less than so many times the mean weight of an arm's rows weighs about as much as the others.
_USUAL = 2.0

#: Red if fewer rows as unlikely as the heaviest are expected: with all propensities, and with the chosen arm's only.
_UNHEARD, _UNHEARD_CHOSEN = 1e-3, 0.02


# ---------------------------------------------------------------- decay


class Decay(NamedTuple):
    """The fitted decay of the smallest probability with the number of rows, t^-exponent."""

    exponent: float
    std_error: float


@check("propensity decay", condition="A1-A5", asks="The smallest probability falls more slowly than 1 / t.")
def propensity_decay(evidence: Evidence) -> Verdict:
    """Judge the power of t with which the smallest probability falls."""
    if evidence.p is None or evidence.p_min is None:
        finding = "Only the chosen arm's probability is logged, so the decay of the others is unknown."
        return Verdict("grey", finding, "Log every arm's probability.")
    rows = evidence.sums["assigned"].sum(axis=1)
    step = np.cumsum(rows)
    followed = (rows > 0) & (step >= 0.25 * evidence.rows)
    floor = np.min(evidence.p_min, axis=1)[followed]
    later = (step - rows / 2 > evidence.rows / 2) & (rows > 0)
    expected = evidence.p[later].sum(axis=0)
    numbers: dict[str, Measured] = {"exponent": math.nan, "expected_in_later_half": by_arm(evidence, expected)}
    if len(floor) < 3:
        return Verdict("grey", "There are too few moments to see a trend in the probabilities.", numbers=numbers)
    if not (floor > 0).all():
        return _switched_off(evidence, expected, numbers)
    decay = _decay(step[followed], floor)
    numbers |= {"exponent": decay.exponent, "std_error": decay.std_error}
    return _falling(evidence, decay, expected, numbers)


def _decay(step: Array, floor: Array) -> Decay:
    """Regress the logarithm of the smallest probability on the logarithm of the number of rows."""
    x, z = np.log(step), np.log(floor)
    x = x - x.mean()
    slope = float(np.sum(x * z) / np.sum(x * x))
    rest = z - z.mean() - slope * x
    return Decay(exponent=-slope, std_error=math.sqrt(float(rest @ rest) / max(len(x) - 2, 1) / float(x @ x)))


def _switched_off(evidence: Evidence, expected: Array, numbers: dict[str, Measured]) -> Verdict:
    """Judge a policy under which some arm had probability 0 at times."""
    k = int(np.argmin(expected))
    if expected[k] >= 1:
        return Verdict("green", "Every arm whose probability fell to 0 was tried again later.", numbers=numbers)
    finding = f"{arm_name_first(evidence, k)} was dropped: it is expected {expected[k]:.2g} times in the second half."
    return Verdict("amber", finding, "Leave the arm out, or use only the rows before it was dropped.", numbers)


def _falling(evidence: Evidence, decay: Decay, expected: Array, numbers: dict[str, Measured]) -> Verdict:
    """Judge a policy under which every probability was above 0 by how fast the smallest falls."""
    k = int(np.argmin(expected))
    falls = f"falls like t^-{decay.exponent:.2f}" if decay.exponent >= 0.005 else "does not fall"
    times = f"{expected[k]:,.0f}" if expected[k] >= 100 else f"{expected[k]:.2g}"
    finding = f"The smallest probability {falls}; {arm_name(evidence, k)} is expected"
    # with few rows, one choice is close to an arm's fair share, and a policy that learns fast is still exploring
    fair = expected.sum() / len(expected)
    if decay.exponent - 3 * decay.std_error > 1 and expected[k] < 1 and fair >= FEW:
        return Verdict(
            "red",
            f"{finding} only {times} times in the second half.",
            "Use a minimum probability that falls more slowly, such as t^-0.5, and leave out arms that were dropped.",
            numbers,
        )
    if decay.exponent > 0.85 and expected[k] < 10:
        return Verdict(
            "amber",
            f"{finding} {times} times in the second half.",
            "Expect wide intervals for such arms; a minimum probability such as t^-0.5 would keep choosing them.",
            numbers,
        )
    return Verdict("green", f"{finding} {times} times in the second half.", numbers=numbers)


# ---------------------------------------------------------------- calibration


@check(
    "probabilities",
    condition="practice",
    asks="The policy chose the arms with the logged probabilities.",
)
def calibrated(evidence: Evidence) -> Verdict:
    """Judge whether the observed choices agree with the logged probabilities."""
    p_value = calibration(evidence)
    numbers: dict[str, Measured] = {"p_value": p_value}
    if evidence.excess is None:
        finding = "The choices agree with the probabilities of the chosen arms, the only ones logged"
        unknown = "Only the chosen arm's probability is logged"
    else:
        numbers["excess_choices"] = by_arm(evidence, evidence.excess[: len(evidence.arms)])
        finding = "Every arm was chosen about as often as its probabilities predict"
        unknown = "Every choice was certain"
    if _leaves_nothing_to_chance(evidence):
        several = count(int((evidence.totals["assigned"] > 0).sum()), "arm")
        finding = f"The chosen arm's probability is 1 in every row, although {several} were chosen."
        return Verdict("red", finding, _CERTAIN_ADVICE, numbers)
    if math.isnan(p_value):
        return Verdict("grey", f"{unknown}, so choices cannot be checked.", numbers=numbers)
    light, p = light_of(p_value), f"p {p_words(p_value, 2)}"
    if light == "green":
        return Verdict("green", f"{finding} ({p}).", numbers=numbers)
    return Verdict(light, f"{_miscalibrated(evidence)} ({p}).", CALIBRATION_ADVICE, numbers)


def _leaves_nothing_to_chance(evidence: Evidence) -> bool:
    """Whether several arms were chosen, each with probability 1, so that weighting cannot compare them."""
    chosen = evidence.totals["assigned"] > 0
    return bool(chosen.sum() > 1 and (evidence.unlikeliest[chosen] >= 1 - TOLERANCE).all())


def _miscalibrated(evidence: Evidence) -> str:
    """Describe how the choices disagree with the probabilities."""
    if evidence.excess is None or evidence.variance is None:
        return "The arms were chosen more or less often than their logged probabilities predict"
    arms, excess = len(evidence.arms), evidence.excess
    if evidence.log_p is not None and swapped(evidence.log_p) < SURE:
        return "The probabilities of some arms seem to be swapped"
    z = np.abs(excess) / np.sqrt(np.where(evidence.variance > 0, evidence.variance, math.inf))
    worst = int(np.argmax(z[:arms]))
    if z[worst] > min(3.0, z[arms:].max(initial=0.0)):
        times = float(evidence.totals["assigned"][worst])
        return (
            f"{arm_name_first(evidence, worst)} was chosen {times:,.0f} times; its probabilities predict "
            f"{times - excess[worst]:,.1f}"
        )
    if z[arms] >= 3:
        often = "less" if excess[arms] < 0 else "more"
        return f"Arms with high probabilities were chosen {often} often than their probabilities predict"
    return "In some period the choices do not agree with the probabilities"


# ---------------------------------------------------------------- whether they depend on the unit


@check("units", condition="practice", asks="The probabilities do not depend on the unit.")
def same_for_all_units(evidence: Evidence) -> Verdict:
    """Judge whether probabilities swing between rows as those of a policy do that looks at the unit."""
    swings = evidence.swings
    sign = contexts(swings)
    numbers: dict[str, Measured] = {
        "quiet_triples": float(swings.quiet),
        "quiet_swings": float(swings.quiet_swings),
        "swings": float(swings.all_swings),
        "jitter": swings.typical,
        "z": swings.z,
    }
    remark = context_remark(swings, sign)
    if remark is not None:
        return Verdict("red", remark.finding, remark.advice, numbers)
    if sign == "jitter":
        draws = max(round(1 / swings.jitter**2), 1)
        finding = (
            f"The probabilities vary by about {swings.typical:.2g} from row to row with no arrival in between. "
            f"Estimates from about {draws:,} Monte Carlo draws vary as much."
        )
        advice = (
            "If they are Monte Carlo estimates, use more draws or log exact probabilities; if the policy looked at the "
            "unit, name what it looked at as the segment."
        )
        return Verdict("amber", finding, advice, numbers)
    if sign == "unknown" and swings.full and swings.rows < SHORT:
        finding = f"{count(swings.rows, 'row')} {'is' if swings.rows == 1 else 'are'} too few to tell."
        if swings.segmented:  # rows of segments that were merged are not compared
            finding = "Within segments, too few rows can be compared to tell."
        return Verdict("grey", finding, numbers=numbers)
    if sign == "unknown" and swings.full:
        finding = "It is not known between which rows nothing arrived, nor in which order rows with the same time came."
        return Verdict("grey", finding, numbers=numbers)
    if sign == "unknown":
        finding = "Only the chosen arm's probability is logged, and too few rows of an arm have no arrival in between."
        return Verdict("grey", finding, "Log every arm's probability.", numbers)
    more = "looked at more of the unit than its segment" if swings.segmented else "looked at the unit"
    begins = "T" if swings.full else "As far as the chosen arms' probabilities alone can tell, t"
    where = "Within segments, t" if swings.segmented and swings.full else begins
    finding = f"{where}he probabilities do not swing back and forth, as they would if the policy {more}."
    return Verdict("green", finding, numbers=numbers)


# ---------------------------------------------------------------- weights


@check("largest weight", condition="A1, A4", asks="No single row dominates an arm's estimate.")
def largest_weight(evidence: Evidence) -> Verdict:
    """Judge the share of an arm's total weight that its heaviest row has."""
    share = evidence.rarest**-0.5 / evidence.totals["w"]
    numbers: dict[str, Measured] = {
        "share": by_arm(evidence, share),
        "share_of_variance": by_arm(evidence, 1 / evidence.rarest / evidence.totals["w2"]),
    }
    of_all = _share_of_all_rows(evidence)
    if of_all is not None:
        numbers["share_of_all_rows"] = by_arm(evidence, of_all)
    if np.isnan(share).all():
        return no_outcome(numbers)
    expected = evidence.rarest * evidence.rows if evidence.chance is None else evidence.chance
    numbers["expected_so_unlikely"] = by_arm(evidence, expected)
    planted = (share >= _HEAVY) & (expected < (_UNHEARD_CHOSEN if evidence.chance is None else _UNHEARD))
    if planted.any():
        k = int(np.nanargmax(np.where(planted, share, math.nan)))
        return Verdict(
            "red",
            f"One row of {arm_name(evidence, k)} has {share[k]:.1%} of the arm's weight. Rows this unlikely "
            f"(probability {evidence.rarest[k]:.2g}) are expected {expected[k]:.2g} times in the whole log.",
            "Check that row's logged probability. If it is correct, the estimate depends on one outcome: report the "
            "arm without an interval, or leave it out.",
            numbers,
        )
    if of_all is not None and evidence.rows >= FEW and np.nanmax(of_all) >= _HEAVY:
        k = int(np.nanargmax(of_all))
        return Verdict(
            "red",
            f"Only a few rows gave {arm_name(evidence, k)} more than a tiny probability: one row has {of_all[k]:.1%} "
            "of the largest weight that the arm could have.",
            "Leave the arm out, or continue with a minimum probability for every arm.",
            numbers,
        )
    k = int(np.nanargmax(share))
    finding = f"The heaviest row of {arm_name(evidence, k)} has {share[k]:.1%} of the arm's weight"
    if share[k] < _NOTABLE:
        return Verdict("green", f"{finding}.", numbers=numbers)
    is_usual = share[k] * evidence.totals["arrived"][k] < _USUAL
    cause = "few outcomes" if is_usual else "small probabilities together with few rows"
    return Verdict(
        "amber",
        f"{finding}. The cause is {cause}.",
        "Use the default interval, which accounts for it; the normal interval is too narrow here.",
        numbers,
    )


def _share_of_all_rows(evidence: Evidence) -> Array | None:
    """Return, by arm, the largest share of one row in the sum of sqrt(p) over all rows; None if some p is unknown."""
    if evidence.h is None or evidence.h_max is None:
        return None
    return np.asarray(evidence.h_max / evidence.h)


@check("effective size", condition="A3", asks="Every arm keeps being tried.")
def effective_size(evidence: Evidence) -> Verdict:
    """Judge the smallest effective sample size."""
    w, w2 = evidence.totals["w"], evidence.totals["w2"]
    size = np.round(np.where(w2 > 0, w**2 / w2, 0.0), 9)  # five equal weights are 5, in whichever order they are added
    numbers = {"effective_size": by_arm(evidence, size)}
    k = int(np.argmin(size))
    finding = f"Smallest effective sample size: {size[k]:,.0f} ({arm_name(evidence, k)})"
    if (size < 5).all():
        return Verdict(
            "red" if evidence.totals["arrived"].sum() >= FEW * len(size) else "amber",
            f"{finding}. Every arm has fewer than 5.",
            "Wait for more outcomes; there are too few for any conclusion.",
            numbers,
        )
    if size[k] < FEW:
        few = int((size < FEW).sum())
        more = "" if few == 1 else f"; {few} arms have fewer than {FEW}"
        return Verdict(
            "amber",
            f"{finding}{more}.",
            "Treat the interval of such an arm as approximate, or try the arm more often.",
            numbers,
        )
    return Verdict("green", f"{finding}.", numbers=numbers)


@check("variance sums", condition="A5", asks="The sums behind the standard errors are stable.")
def variance_sums(evidence: Evidence) -> Verdict:
    """Judge how precisely the sums of squared weights are known, and whether the rate of arrival is steady."""
    error = np.round(np.sqrt(evidence.totals["w4"]) / evidence.totals["w2"], 9)  # four equal weights: 0.5
    p_value = math.nan
    if evidence.within is None:
        p_value = steady_arrival(evidence.coarse_cells("old"), evidence.coarse_cells("soon"))
    numbers: dict[str, Measured] = {"relative_error": by_arm(evidence, error), "steady_arrival_p": p_value}
    if p_value < BLATANT:
        return Verdict(
            "red",
            f"The share of outcomes that arrive on time changes over the experiment (p {p_words(p_value, 2)}).",
            "Find out what changed in how outcomes are recorded, and use only a period in which nothing changed.",
            numbers,
        )
    if np.isnan(error).all():
        return no_outcome(numbers)
    k = int(np.nanargmax(error))
    finding = f"The relative error of the sum of squared weights of {arm_name(evidence, k)} is about {error[k]:.0%}"
    if error[k] >= 0.5 or p_value < SURE:
        return Verdict(
            "amber",
            f"{finding}, so the standard error of the arm is itself uncertain.",
            "Use the default interval, which accounts for it, and expect it to change as outcomes arrive.",
            numbers,
        )
    return Verdict("green", f"{finding}, the largest of all arms.", numbers=numbers)
