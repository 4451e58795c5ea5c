"""The guarantee itself: the default interval covers, the paper's falls short, in experiments of many kinds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

import belated as bl

FAMILIES = {
    "normal": bl.arms.normal,
    "binary": bl.arms.bernoulli,
    "exponential": bl.arms.exponential,
    "lognormal": lambda mean: bl.arms.lognormal(np.log(mean) - 0.5, 1.0),
}

CELLS = [
    # horizon, arms, policy, decay, outcomes, base, margin, replications
    (200, 2, "greedy", 0.3, "normal", 0.5, 0.0, 1000),
    (200, 2, "greedy", 0.9, "normal", 0.5, 0.5, 1000),
    (200, 5, "greedy", 0.7, "normal", 0.5, 0.5, 1000),
    (200, 5, "thompson", 0.5, "normal", 0.5, 0.0, 1000),
    (1000, 5, "greedy", 0.5, "normal", 0.5, 0.0, 600),
    (1000, 2, "thompson", 0.5, "normal", 0.5, 0.5, 600),
    (5000, 2, "greedy", 0.7, "normal", 0.5, 0.5, 300),
    (200, 2, "greedy", 0.5, "binary", 0.5, 0.2, 1000),
    (200, 5, "greedy", 0.7, "binary", 0.05, 0.05, 1000),
    (200, 5, "thompson", 0.7, "binary", 0.5, 0.2, 1000),
    (1000, 5, "greedy", 0.5, "binary", 0.5, 0.2, 600),
    (1000, 2, "thompson", 0.5, "binary", 0.05, 0.05, 600),
    (5000, 2, "greedy", 0.9, "binary", 0.05, 0.05, 300),
    (1000, 5, "thompson", 0.5, "exponential", 1.0, 0.0, 600),
    (1000, 5, "greedy", 0.7, "exponential", 1.0, 0.5, 600),
    (1000, 2, "greedy", 0.5, "lognormal", 1.0, 0.0, 600),
    (1000, 5, "thompson", 0.5, "lognormal", 1.0, 0.0, 600),
]


def policy(name, arms, decay, outcomes):
    if name == "greedy":
        return bl.policies.epsilon_greedy(decay=decay, burn_in=0.1)
    thompson = bl.policies.thompson_beta if outcomes == "binary" else bl.policies.thompson_normal
    return thompson(1 / arms, decay).batched(10)


def covered(cell, interval):
    """Return how many intervals for the contrast of the first two arms cover, and of how many.

    Delays are Pareto, and half of the first arm never reports.
    """
    horizon, arms, name, decay, outcomes, base, margin, replications = cell
    kind = FAMILIES[outcomes]
    delays = {k: bl.delays.pareto(0.75 if k % 2 == 0 else 1.25).censored(0.5 if k == 0 else 0) for k in range(arms)}
    bandit = bl.Bandit({k: kind(base + margin if k == 0 else base) for k in range(arms)}, delays)
    hits = total = 0
    for seed in range(replications):
        log = bl.simulate(bandit, policy(name, arms, decay, outcomes), horizon, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.BelatedWarning)
            answer = bl.estimate(log, interval=interval).contrast(0, 1)
        if np.isfinite(answer.low):
            total += 1
            hits += answer.low <= margin <= answer.high
    return hits, total


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(map(str, cell)))
def test_default_interval_covers(cell):
    hits, total = covered(cell, "auto")
    assert total > 0.75 * cell[-1]
    # at least 94 %: refuted only if so few hits would be a one in ten thousand accident
    assert stats.binom.cdf(hits, total, 0.94) > 1e-4


def test_t_interval_falls_short_where_outcomes_are_skewed():
    hits, total = covered(CELLS[-1], "t")
    assert hits / total < 0.93


def test_papers_interval_falls_short_in_small_samples():
    hits, total = covered(CELLS[1], "normal")
    assert hits / total < 0.9
