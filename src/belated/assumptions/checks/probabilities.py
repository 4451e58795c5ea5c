"""Checks of probabilities and weights.

How fast the smallest probability falls; whether arms were chosen by the probabilities; whether a single row decides;
how many outcomes the weights leave; and whether the sums behind standard errors settle.
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
from belated.summaries.evidence import FEW, Evidence
from belated.summaries.signs import BLATANT, CALIBRATION_ADVICE, SURE, calibration, steady_arrival, swapped

#: What to do where no choice was left to chance.
_CERTAIN_ADVICE = (
    "Arms that are chosen with certainty cannot be compared by weighting. If arms were drawn, log the probabilities "
    "that they were drawn by; if a rule such as UCB chose them, run on with a floor under every arm's probability."
)

#: The share of an arm's weight that one row must not hold, and that which is looked at.
_HEAVY, _NOTABLE = 0.15, 0.05

#: How often a row as unlikely as the heaviest must be expected, if every arm's probabilities are known, or not.
_UNHEARD, _UNHEARD_CHOSEN = 1e-3, 0.02


# ---------------------------------------------------------------- how fast probabilities fall


class Decay(NamedTuple):
    """How the smallest probability falls with the number of rows, like t^-exponent."""

    exponent: float
    std_error: float


@check("propensity decay", condition="A1-A5", asks="The smallest probability falls more slowly than 1 / t.")
def propensity_decay(evidence: Evidence) -> Verdict:
    """Judge the power of t with which the smallest probability falls."""
    if evidence.p is None or evidence.p_min is None:
        finding = "Only the chosen arm's probability is logged, so how far the others fell cannot be told."
        return Verdict("grey", finding, "Log every arm's probability.")
    rows = evidence.sums["assigned"].sum(axis=1)
    step = np.cumsum(rows)
    followed = (rows > 0) & (step >= 0.25 * evidence.rows)
    floor = np.min(evidence.p_min, axis=1)[followed]
    later = (step - rows / 2 > evidence.rows / 2) & (rows > 0)
    expected = evidence.p[later].sum(axis=0)
    numbers: dict[str, Measured] = {"exponent": math.nan, "expected_in_later_half": by_arm(evidence, expected)}
    if len(floor) < 3:
        return Verdict("grey", "There are too few moments to follow the probabilities.", numbers=numbers)
    if not (floor > 0).all():
        return _switched_off(evidence, expected, numbers)
    decay = _decay(step[followed], floor)
    numbers |= {"exponent": decay.exponent, "std_error": decay.std_error}
    return _falling(evidence, decay, expected, numbers)


def _decay(step: Array, floor: Array) -> Decay:
    """Fit a line to the logarithm of the smallest probability over that of the number of rows."""
    x, z = np.log(step), np.log(floor)
    x = x - x.mean()
    slope = float(np.sum(x * z) / np.sum(x * x))
    rest = z - z.mean() - slope * x
    return Decay(exponent=-slope, std_error=math.sqrt(float(rest @ rest) / max(len(x) - 2, 1) / float(x @ x)))


def _switched_off(evidence: Evidence, expected: Array, numbers: dict[str, Measured]) -> Verdict:
    """Judge a policy that gave some arm no chance at times."""
    k = int(np.argmin(expected))
    if expected[k] >= 1:
        return Verdict("green", "Arms that were switched off were tried again.", numbers=numbers)
    finding = f"From some time on {arm_name(evidence, k)} had no chance: {expected[k]:.2g} choices in the later half."
    return Verdict("amber", finding, "Leave out an arm that was dropped, or use the rows before.", numbers)


def _falling(evidence: Evidence, decay: Decay, expected: Array, numbers: dict[str, Measured]) -> Verdict:
    """Judge a policy that gave every arm a chance, by how fast the smallest probability falls."""
    k = int(np.argmin(expected))
    falls = f"falls like t^-{decay.exponent:.2f}" if decay.exponent >= 0.005 else "does not fall"
    finding = f"The smallest probability {falls}; of {arm_name(evidence, k)}"
    times = f"{expected[k]:,.0f}" if expected[k] >= 100 else f"{expected[k]:.2g}"
    choices = f"{times} choices were to be expected in the later half"
    # of few rows, one choice of an arm is little less than its share, and a policy that learns fast is still at it
    fair = expected.sum() / len(expected)
    if decay.exponent - 3 * decay.std_error > 1 and expected[k] < 1 and fair >= FEW:
        return Verdict(
            "red",
            f"{finding}, only {choices}.",
            "Keep a floor under the probabilities that falls more slowly, such as t^-0.5, and leave out arms that were "
            "given up.",
            numbers,
        )
    if decay.exponent > 0.85 and expected[k] < 10:
        return Verdict(
            "amber",
            f"{finding}, {choices}.",
            "Expect wide intervals for such arms; a floor such as t^-0.5 keeps them alive.",
            numbers,
        )
    return Verdict("green", f"{finding}, {choices}.", numbers=numbers)


# ---------------------------------------------------------------- whether arms were chosen by them


@check(
    "probabilities",
    condition="practice",
    asks="The logged probabilities are those by which the arms were chosen.",
)
def calibrated(evidence: Evidence) -> Verdict:
    """Judge whether choices are as frequent as their probabilities say."""
    p_value = calibration(evidence)
    numbers: dict[str, Measured] = {"p_value": p_value}
    if evidence.excess is None:
        finding = "As far as the chosen arms' probabilities alone can tell, choices agree with them"
        unknown = "Only the chosen arm's probability is logged"
    else:
        numbers["excess_choices"] = by_arm(evidence, evidence.excess[: len(evidence.arms)])
        finding = "Every arm was chosen about as often as its probabilities say"
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
    """Whether several arms were chosen, each with certainty: then no arm's rows say what they would be elsewhere."""
    chosen = evidence.totals["assigned"] > 0
    return bool(chosen.sum() > 1 and (evidence.unlikeliest[chosen] >= 1 - TOLERANCE).all())


def _miscalibrated(evidence: Evidence) -> str:
    """Say what of the choices does not agree with the probabilities."""
    if evidence.excess is None or evidence.variance is None:
        return "The arms were chosen more or less often than the chosen rows' probabilities say"
    arms, excess = len(evidence.arms), evidence.excess
    if evidence.log_p is not None and swapped(evidence.log_p) < SURE:
        return "Arms' probabilities seem to stand in each other's place"
    z = np.abs(excess) / np.sqrt(np.where(evidence.variance > 0, evidence.variance, math.inf))
    worst = int(np.argmax(z[:arms]))
    if z[worst] > min(3.0, z[arms:].max(initial=0.0)):
        times = float(evidence.totals["assigned"][worst])
        return (
            f"{arm_name_first(evidence, worst)} was chosen {times:,.0f} times; its probabilities say "
            f"{times - excess[worst]:,.1f}"
        )
    if z[arms] >= 3:
        return f"Likely arms were chosen {'less' if excess[arms] < 0 else 'more'} often than their probabilities say"
    return "In some stretch of time the choices do not agree with the probabilities"


# ---------------------------------------------------------------- weights


@check("largest weight", condition="A1, A4", asks="No single row decides an arm's answer.")
def largest_weight(evidence: Evidence) -> Verdict:
    """Judge the share of an arm's weight that its heaviest row holds."""
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
            f"One row of {arm_name(evidence, k)} holds {share[k]:.1%} of the arm's weight; a row as unlikely "
            f"(probability {evidence.rarest[k]:.2g}) was to be expected {expected[k]:.2g} times in the whole log.",
            "Look at that row's logged probability. If it is right, the arm's answer hangs on one outcome: report the "
            "arm without an interval, or leave it out.",
            numbers,
        )
    if of_all is not None and evidence.rows >= FEW and np.nanmax(of_all) >= _HEAVY:
        k = int(np.nanargmax(of_all))
        return Verdict(
            "red",
            f"{arm_name_first(evidence, k)} had a real chance in a handful of rows only: one of them holds "
            f"{of_all[k]:.1%} of what all rows could have told about it.",
            "Leave the arm out, or run on with a floor under every arm's probability.",
            numbers,
        )
    k = int(np.nanargmax(share))
    finding = f"The heaviest row of {arm_name(evidence, k)} holds {share[k]:.1%} of the arm's weight"
    if share[k] < _NOTABLE:
        return Verdict("green", f"{finding}.", numbers=numbers)
    return Verdict(
        "amber",
        f"{finding}, which is what the policy's small probabilities make of few rows.",
        "Use the t interval (the default), which allows for it; the normal one is too narrow here.",
        numbers,
    )


def _share_of_all_rows(evidence: Evidence) -> Array | None:
    """Return, by arm, the largest share that a row holds of the sqrt(p) of all rows; None if not every p is known."""
    if evidence.h is None or evidence.h_max is None:
        return None
    return np.asarray(evidence.h_max / evidence.h)


@check("effective size", condition="A3", asks="Every arm keeps being tried.")
def effective_size(evidence: Evidence) -> Verdict:
    """Judge how many outcomes of equal weight an arm's outcomes count like."""
    w, w2 = evidence.totals["w"], evidence.totals["w2"]
    size = np.where(w2 > 0, w**2 / w2, 0.0)
    numbers = {"effective_size": by_arm(evidence, size)}
    k = int(np.argmin(size))
    finding = f"The outcomes of {arm_name(evidence, k)} count like {size[k]:,.0f} of equal weight"
    if (size < 5).all():
        return Verdict(
            "red" if evidence.totals["arrived"].sum() >= FEW * len(size) else "amber",
            f"{finding}, and no arm's like 5 or more.",
            "Wait for more outcomes; nothing can be concluded yet.",
            numbers,
        )
    if size[k] < FEW:
        few = int((size < FEW).sum())
        more = "" if few == 1 else f"; {few} arms have fewer than {FEW}"
        return Verdict(
            "amber",
            f"{finding}{more}.",
            "Read such an arm's interval as a rough one, or let it be tried more often.",
            numbers,
        )
    return Verdict("green", f"{finding}, which is the fewest.", numbers=numbers)


@check("variance sums", condition="A5", asks="The sums behind the standard errors settle down.")
def variance_sums(evidence: Evidence) -> Verdict:
    """Judge how well the sums of squared weights are known, and whether arrival is steady."""
    error = np.sqrt(evidence.totals["w4"]) / evidence.totals["w2"]
    p_value = math.nan
    if evidence.within is None:
        p_value = steady_arrival(evidence.coarse("old"), evidence.coarse("soon"))
    numbers: dict[str, Measured] = {"relative_error": by_arm(evidence, error), "steady_arrival_p": p_value}
    if p_value < BLATANT:
        return Verdict(
            "red",
            f"The share of outcomes that come in good time changes from beginning to end (p {p_words(p_value, 2)}).",
            "Find out what changed in how outcomes are recorded, and use the stretch in which nothing did.",
            numbers,
        )
    if np.isnan(error).all():
        return no_outcome(numbers)
    k = int(np.nanargmax(error))
    finding = f"The sum of squared weights of {arm_name(evidence, k)} is known to within about {error[k]:.0%}"
    if error[k] >= 0.5 or p_value < SURE:
        return Verdict(
            "amber",
            f"{finding}: its standard error is uncertain itself.",
            "Use the t interval (the default), which allows for it, and expect it to change as outcomes come.",
            numbers,
        )
    return Verdict("green", f"{finding}, which is the least certain.", numbers=numbers)
