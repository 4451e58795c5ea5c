"""The value of a policy that may look at the unit, given by its probabilities in every row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from belated.base.checks import are_shares, check_shares
from belated.base.columns import Array, numbers
from belated.base.errors import OptionError, argument
from belated.base.text import one_line
from belated.estimation.answers import Answer, make_answer
from belated.estimation.estimators import Estimator, Shared, evaluate, hajek_variances
from belated.estimation.intervals import Interval, combine, resolve_interval
from belated.summaries.weights import Weights, past_of

if TYPE_CHECKING:
    from belated.log.log import Log


#: The share of the cells' own variance that the covariance with the mean over rows can take away at most.
_LARGEST_MODEL_SHARE = 0.75


def read_target_policy(target: object, log: Log) -> Array:
    """Return the target's probability of every arm in every row; raise if they are none."""
    q = numbers("target", target, dimensions=(2,))
    shape = (len(log.code), len(log.arms))
    if q.shape != shape:
        raise OptionError(f"{argument('target')} has shape {q.shape}; it must be (rows, arms) = {shape}.")
    for row in np.flatnonzero(~are_shares(q)).tolist():
        check_shares(f"{argument('target')} in row {row}", q[row].tolist(), q[row])
    if log.has_all_propensities:
        never = (q > 0) & (log.propensity == 0)
        if never.any():
            row, arm = (int(i) for i in np.argwhere(never)[0])
            raise OptionError(
                f"{argument('target')} in row {row} gives arm {one_line(repr(log.arms[arm]))} probability "
                f"{q[row, arm]:g}, but the policy of the log gave it 0; the value of such a target is unknown."
            )
    return q


def policy_value(log: Log, q: Array, weights: Weights, *, level: float, interval: Interval) -> Answer:
    """Return the mean outcome if arms had been chosen with probabilities q of shape (rows, arms).

    In each segment and arm, R is the mean of outcomes with weights w q, w = h / pi. The value is the mean over rows of
    the sum over arms of q R. Its variance is that of a sum over rows of two terms: qbar w q (Y - R) / sum w q for the
    row's own arm, and (sum over arms of q R - value) / n. The weights h must not depend on the unit beyond its segment;
    those of the past do not.
    """
    log = log if log.covariates is None else log.without_covariates()
    h = _weights(weights, log)
    estimator = Estimator(Weights("given", given=h * q), "zero", "hajek")
    sums = log.sums([estimator.parts], plain=False)[0][-1]
    cells = sums if sums.segments is None else sums.segments.cells
    with np.errstate(invalid="ignore", divide="ignore"):
        # outcomes vary with the unit, as the weights do, so that only the variance that follows the weights is right
        _, robust, _, _ = hajek_variances(cells, cells["wy"] / cells["w"], np.zeros(len(cells.arms)))
    statistics = replace(evaluate(cells, estimator), robust=np.where(cells["arrived"] >= 2, robust, np.nan))
    rows, arms = log.existing_rows, len(log.arms)
    n, segment = len(rows), (log.cell[rows].astype(np.intp) - log.code[rows]) // arms
    means = (
        np.stack([np.bincount(segment, q[rows, a], len(cells.arms) // arms) for a in range(arms)], axis=1).ravel() / n
    )
    value = np.where(means > 0, statistics.value, 0.0)
    predicted = np.sum(q[rows] * value.reshape(-1, arms)[segment], axis=1)
    predicted -= float(means @ value)
    # outcomes may depend on the unit as the target does, so that both parts of the variance do
    arrived = log.schedule.due[rows] >= 0
    own, cell = rows[arrived], log.cell[rows[arrived]].astype(np.intp)
    code = log.code[own].astype(np.intp)
    pi = log.propensity_matrix[own, code if log.has_all_propensities else 0]
    pi = pi if log.arrival_chance is None else pi * log.arrival_chance[own]
    weight = (h * q)[own, code] / pi * (means / np.where(cells["w"] > 0, cells["w"], 1.0))[cell]
    together = float(predicted @ predicted) / n**2
    together += 2 * float(np.sum(weight * (log.outcome[own] - value[cell]) * predicted[arrived])) / n
    of_model = _LARGEST_MODEL_SHARE * np.where(np.isfinite(robust), robust, 0.0)
    shared = Shared(np.full((len(means), len(means)), together), of_model)
    statistics = replace(statistics, shared=shared)
    combination = combine(statistics, means, resolve_interval(interval, sums, estimator))
    answer = make_answer("target policy", combination, level=level, null=0.0, alternative="two-sided", cap=log.cap)
    return replace(answer, unit=sums.unit_of(log.measure))


def _weights(weights: Weights, log: Log) -> Array:
    """Return every arm's weight in every row."""
    if weights.name == "past":
        return past_of(log)
    if weights.name == "uniform":
        return np.ones((len(log.code), len(log.arms)))
    if weights.name == "sqrt" and log.has_all_propensities:
        h = np.sqrt(log.propensity)
        h[log.cell >= log.layout.even_from(len(log.arms))] = 1.0
        return h
    raise OptionError(
        f"{argument('weights')} is {weights.name!r}; for a target policy it must be 'past' or 'uniform', or 'sqrt' if "
        "the policy of the log looked at nothing but the segment."
    )
