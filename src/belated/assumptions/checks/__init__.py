"""The checks of a diagnosis, grouped by what they examine; `CHECKS` lists those of every log."""

from __future__ import annotations

from collections.abc import Callable

from belated.assumptions.checks import cohorts, delays, outcomes, probabilities, segments
from belated.assumptions.checks.check import Check
from belated.summaries.evidence import Evidence

#: The checks of every log, in the order in which a diagnosis shows them.
CHECKS: tuple[Callable[[Evidence], Check], ...] = (
    probabilities.largest_weight,
    probabilities.effective_size,
    probabilities.variance_sums,
    probabilities.propensity_decay,
    delays.delay_tail,
    delays.still_out,
    outcomes.arrivals,
    probabilities.calibrated,
    probabilities.same_for_all_units,
    delays.outcome_and_delay,
    outcomes.recorded,
    outcomes.variation,
    outcomes.tail,
    outcomes.drift_over_time,
)

#: The further checks of a log of events, with segments, and with covariates.
EVENT_CHECKS = (cohorts.same_build_up,)
SEGMENT_CHECKS = (segments.arms_in_segments,)
COVARIATE_CHECKS = (segments.covariates_and_arrival, segments.covariates_and_choice)


def checks_of(evidence: Evidence) -> tuple[Check, ...]:
    """Return every check that concerns a log."""
    checks = (
        *CHECKS,
        *(() if evidence.cohorts is None else EVENT_CHECKS),
        *(() if evidence.segments is None else SEGMENT_CHECKS),
        *(() if evidence.covariates is None else COVARIATE_CHECKS),
    )
    return tuple(check(evidence) for check in checks)
