"""Sums of a log in memory, in one pass of the compiled kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from belated.base.columns import Array
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.summaries.outcome_models import OutcomeModel, read_outcome_model
from belated.summaries.sums import Parts, Sums, SumsOf, add_own, empty_bins
from belated.summaries.weights import read_weights

if TYPE_CHECKING:
    from belated.log.log import Log


def sums_of_rows(log: Log, part: Parts, moments: Array | None, plain: bool, history: Sequence[Log]) -> list[Sums]:
    """Return the sums at each of several moments, ascending numbers of the log's clock; None: as of its own."""
    weights, model = read_weights(part[0]), read_outcome_model(part[1])
    if history and model.learns:
        means = OutcomeModel("given", given=_means_with_history(log, history))
        return [replace(sums, outcome_model=model) for sums in sums_of_rows(log, (weights, means), moments, plain, ())]
    if moments is None:
        bins = kernel.Bins(edges=np.array([log.schedule.rows]), arrival=np.empty(0, dtype=np.int32))
    else:
        log = log.at_number(moments[-1])
        bins = log.bins(moments)
    weights.check(log.has_all_propensities)
    about = SumsOf(log.arms, weights, model, log.has_all_propensities, plain)
    spread, own = _added(log, about, bins)
    return Sums.of_bins(about, log.anchor, spread, own)


def _added(log: Log, about: SumsOf, bins: kernel.Bins) -> tuple[Array, Array]:
    """Add a log's rows, in stretches."""
    arms, rows, schedule = len(log.arms), log.kernel_rows, log.schedule
    jit.ready(schedule.rows * (arms + 8))
    kind, learns = schedule.due.dtype, about.outcome_model.learns
    calendar = kernel.Calendar(
        last=np.full(schedule.rows if learns else 0, -1, dtype=kind),
        previous=np.empty(len(log.code) if learns else 0, dtype=kind),
    )
    weighting, modelling = about.weights.weighting(log), about.outcome_model.modelling(log)

    def add(start: int, stop: int) -> tuple[Array, Array]:
        spread, own = empty_bins(len(bins.edges), arms)
        kernel.accumulate(
            kernel.Totals(spread, own, h=np.empty((0, arms)), m=np.empty(0)),
            rows,
            calendar,
            bins,
            log.anchor,
            weighting._replace(remaining=np.ones(arms)),
            modelling._replace(arrived_n=np.zeros(arms), arrived_y=np.zeros(arms)),
            about.plain,
            start,
            stop,
        )
        return spread, own

    stretches = jit.in_stretches(schedule.rows, add, divisible=not about.weights.cumulative)
    return reduce(lambda a, b: (a[0] + b[0], add_own(a[1], b[1])), stretches)


def _means_with_history(log: Log, history: Sequence[Log]) -> Array:
    """Return the running means of `log`'s rows over the arrivals of all parts."""
    whole = log.joined(history)
    means = np.zeros((len(whole.code), len(log.arms)))
    jit.ready(whole.schedule.rows * (len(log.arms) + 8))
    kernel.running_means(means, whole.kernel_rows, whole.schedule.rows, whole.anchor)
    return means[: len(log.code)]
