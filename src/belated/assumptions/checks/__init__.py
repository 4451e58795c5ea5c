"""The checks of a diagnosis, grouped by what they examine; `CHECKS` lists all of them."""

from __future__ import annotations

from collections.abc import Callable

from belated.assumptions.checks import delays, outcomes, probabilities
from belated.assumptions.checks.check import Check
from belated.summaries.evidence import Evidence

#: All checks, in the order in which a diagnosis shows them.
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
