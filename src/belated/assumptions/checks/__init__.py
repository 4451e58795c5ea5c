"""The checks of a diagnosis, by what they look at; `CHECKS` is the table of all."""

from __future__ import annotations

from collections.abc import Callable

from belated.assumptions.checks import delays, outcomes, probabilities
from belated.assumptions.checks.check import Check
from belated.summaries.evidence import Evidence

#: Every check, in the order of a diagnosis.
CHECKS: tuple[Callable[[Evidence], Check], ...] = (
    probabilities.largest_weight,
    probabilities.effective_size,
    probabilities.variance_sums,
    probabilities.propensity_decay,
    delays.delay_tail,
    delays.still_out,
    outcomes.arrivals,
    probabilities.calibrated,
    delays.outcome_and_delay,
    outcomes.recorded,
    outcomes.variation,
    outcomes.tail,
    outcomes.drift_over_time,
)
