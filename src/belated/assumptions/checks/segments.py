"""Checks of segments and covariates."""

from __future__ import annotations

import math

import numpy as np

from belated.assumptions.checks.check import Measured, Verdict, arm_name, by_arm, check, light_of
from belated.base.columns import Array
from belated.base.text import count, few_labels, one_line, p_words
from belated.summaries.evidence import CovariateEvidence, Evidence, SegmentEvidence
from belated.summaries.segments import FEWEST, MISSING
from belated.summaries.signs import arrival_by_covariates, choice_by_covariates

_ARRIVAL_ADVICE = (
    "A covariate must be known at assignment: leave it out if it was measured later. If arrival depends on it, the "
    "adjustment is right only if outcomes are linear in it; otherwise give arrival_probability."
)
_CHOICE_ADVICE = (
    "A covariate must be known at assignment: leave it out if it was measured later. If it was known, the policy "
    "looked at it and the logged probabilities are not those that it used: log the correct ones."
)
_NO_COVARIATES = Verdict("grey", "The log has no covariates.")


# ---------------------------------------------------------------- segments


@check("segments", condition="practice", asks="Every arm has outcomes in every segment.")
def arms_in_segments(evidence: Evidence) -> Verdict:
    """Judge whether some arm has no outcome, or few, in some segment."""
    segments = evidence.segments
    if segments is None:
        return Verdict("grey", "The log has no segments.")
    arrived = segments.table("arrived")
    fewest = arrived.min(axis=0)
    numbers = {"fewest_outcomes": by_arm(evidence, fewest)}
    s, k = np.unravel_index(int(np.argmin(arrived)), arrived.shape)
    where = f"{arm_name(evidence, int(k))} in segment {one_line(repr(segments.labels[s]), 40)}"
    how = " ".join(_how_segments_were_made(segments))
    if arrived[s, k] == 0:
        empty = int((arrived == 0).sum())
        more = f" (and for {count(empty - 1, 'more pair')} of segment and arm)" if empty > 1 else ""
        return Verdict(
            "red",
            f"There is no outcome for {where}{more}, so the mean over all segments is unknown. {how}".rstrip(),
            "Wait for outcomes, leave the arm or the segment out, or ask about one segment at a time. If the policy "
            "never tries the arm there, no estimate of it is possible there.",
            numbers,
        )
    finding = f"The fewest outcomes are {int(arrived[s, k]):,}, for {where}. {how}".rstrip()
    if arrived[s, k] < FEWEST:
        return Verdict("amber", finding, "Wait for more outcomes, or treat intervals with caution.", numbers)
    return Verdict("green", finding, numbers=numbers)


def _how_segments_were_made(segments: SegmentEvidence) -> list[str]:
    """Return sentences on merged segments and on rows without a segment."""
    said = []
    if segments.merged:
        names = few_labels(segments.merged)
        said.append(f"Merged into {one_line(repr(segments.labels[-1]))}, because they have few outcomes: {names}.")
    if segments.missing:
        have = "has" if segments.missing == 1 else "have"
        said.append(f"{count(segments.missing, 'row')} {have} no segment and are in the segment {MISSING!r}.")
    return said


# ---------------------------------------------------------------- covariates


@check(
    "covariates, arrival",
    condition="practice",
    asks="Within a segment and arm, whether an outcome arrives does not depend on covariates.",
)
def covariates_and_arrival(evidence: Evidence) -> Verdict:
    """Judge whether rows whose outcome arrived have other covariates than all rows."""
    covariates = evidence.covariates
    if covariates is None:
        return _NO_COVARIATES
    if evidence.within is not None:
        return Verdict("green", f"Every outcome is known {evidence.within} after its assignment, whoever the unit is.")
    return _judge(
        evidence,
        covariates,
        arrival_by_covariates(covariates),
        ("Outcomes arrive alike whatever the covariates are", "whether outcomes of {arm} arrive"),
        _ARRIVAL_ADVICE,
    )


@check(
    "covariates, choice",
    condition="practice",
    asks="Covariates predict the choice of arms no better than the logged probabilities.",
)
def covariates_and_choice(evidence: Evidence) -> Verdict:
    """Judge whether covariates predict which arm was chosen beyond its probabilities."""
    covariates = evidence.covariates
    if covariates is None:
        return _NO_COVARIATES
    p_values = choice_by_covariates(covariates)
    if p_values is None:
        return Verdict("grey", "Only the chosen arm's probability is logged.", "Log every arm's probability.")
    return _judge(
        evidence,
        covariates,
        p_values,
        ("Arms were chosen as their probabilities predict, whatever the covariates are", "that {arm} is chosen"),
        _CHOICE_ADVICE,
    )


def _judge(
    evidence: Evidence, covariates: CovariateEvidence, p_values: Array, words: tuple[str, str], advice: str
) -> Verdict:
    """Judge p-values of arms and covariates by Bonferroni; `words` are the good finding, and what is predicted."""
    tested = int(np.sum(~np.isnan(p_values)))
    if not tested:
        return Verdict("grey", "There are too few rows, or nothing varies.", numbers={"p_value": math.nan})
    adjusted = np.minimum(p_values * tested, 1.0)
    k, i = np.unravel_index(int(np.nanargmin(adjusted)), adjusted.shape)
    p_value = float(adjusted[k, i])
    least = np.fmin.reduce(adjusted, axis=0)
    numbers: dict[str, Measured] = {
        "p_value": p_value,
        "p_value_by_covariate": {name: float(p) for name, p in zip(covariates.names, least, strict=True)},
    }
    light, p = light_of(p_value), f"p {p_words(p_value, 2)}"
    if light == "green":
        return Verdict("green", f"{words[0]} ({p}).", numbers=numbers)
    predicts = "predicts" if light == "red" else "may predict"
    what = words[1].format(arm=arm_name(evidence, int(k)))
    name = one_line(repr(covariates.names[i]), 40)
    return Verdict(light, f"The covariate {name} {predicts} {what} ({p}).", advice, numbers)
