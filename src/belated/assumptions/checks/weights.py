"""Checks of the weights of rows: conditions A1, A3, A4 and A5."""

from __future__ import annotations

import math

import numpy as np

from belated.assumptions.checks.check import Measured, Verdict, arm_name, arm_name_first, by_arm, check, no_outcome
from belated.base.columns import Array
from belated.base.text import p_words
from belated.summaries.evidence import FEW, Evidence
from belated.summaries.signs import BLATANT, SURE, steady_arrival

#: The share of an arm's weight that one row must not hold, and that which is looked at.
_HEAVY, _NOTABLE = 0.15, 0.05

#: How often a row as unlikely as the heaviest must be expected, if every arm's probabilities are known, or not.
_UNHEARD, _UNHEARD_CHOSEN = 1e-3, 0.02


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
            "red",
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
