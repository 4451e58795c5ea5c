"""The guarantee itself: the default interval covers, the paper's falls short, in experiments of many kinds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from experiments import EPSILON_GREEDY, THOMPSON, columns
from scipy import stats

import belated as bl

CELLS = [
    # horizon, arms, policy, decay, binary, base, margin, replications
    (200, 2, EPSILON_GREEDY, 0.3, False, 0.5, 0.0, 1000),
    (200, 2, EPSILON_GREEDY, 0.9, False, 0.5, 0.5, 1000),
    (200, 5, EPSILON_GREEDY, 0.7, False, 0.5, 0.5, 1000),
    (200, 5, THOMPSON, 0.5, False, 0.5, 0.0, 1000),
    (1000, 5, EPSILON_GREEDY, 0.5, False, 0.5, 0.0, 600),
    (1000, 2, THOMPSON, 0.5, False, 0.5, 0.5, 600),
    (5000, 2, EPSILON_GREEDY, 0.7, False, 0.5, 0.5, 300),
    (200, 2, EPSILON_GREEDY, 0.5, True, 0.5, 0.2, 1000),
    (200, 5, EPSILON_GREEDY, 0.7, True, 0.05, 0.05, 1000),
    (200, 5, THOMPSON, 0.7, True, 0.5, 0.2, 1000),
    (1000, 5, EPSILON_GREEDY, 0.5, True, 0.5, 0.2, 600),
    (1000, 2, THOMPSON, 0.5, True, 0.05, 0.05, 600),
    (5000, 2, EPSILON_GREEDY, 0.9, True, 0.05, 0.05, 300),
]


def covered(cell, interval):
    """Return how many intervals for the contrast of the first two arms cover, and of how many."""
    horizon, arms, policy, decay, binary, base, margin, replications = cell
    means = np.full(arms, base)
    means[0] += margin
    hits = total = 0
    for r in range(replications):
        rng = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(r,)))
        log = bl.Log(**columns(rng, horizon, means, policy, decay, binary))
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


def test_papers_interval_falls_short_in_small_samples():
    hits, total = covered(CELLS[1], "normal")
    assert hits / total < 0.9
