"""What a sequence excludes: never what its own intervals hold, and a true null no more often than promised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import belated as bl
from belated.kernels import jit


def test_arms_that_came_one_after_the_other_exclude_nothing():
    log = bl.Log([1, 1, 1, 0, 0, 0, 0, 0], [0] * 7 + [1], np.full((8, 2), 0.5))
    answer = bl.sequence(log).contrast(1, 0)
    assert answer.low < 0 < answer.high
    assert answer.excluded_at is None
    assert answer.p_value > 0.9


def test_what_was_excluded_before_has_a_p_value_of_0_05_and_not_a_little_more():
    outcomes = np.r_[np.tile([0.0, 1.0], 15), np.tile([1.0, 0.0], 15)]  # of A and B: different first, then the reverse
    answer = bl.sequence(bl.Log(["A", "B"] * 30, outcomes, np.full((60, 2), 0.5))).contrast("B", "A")
    assert answer.low < 0 < answer.high
    assert answer.excluded_at < 30
    assert answer.p_value == 0.05


@pytest.mark.parametrize("rows", [30, 100])
def test_equal_rates_are_told_apart_no_more_often_than_promised(rows):
    jit.compile_kernels()  # many small logs
    runs, excluded = 200, 0
    for run in range(runs):
        rng = np.random.default_rng([rows, run])
        arm, outcome = rng.integers(0, 2, rows), (rng.random(rows) < 0.3).astype(float)
        sequence = bl.sequence(bl.Log(arm, outcome, np.full((rows, 2), 0.5), arms=[0, 1]), looks=1)
        excluded += sequence.contrast(1, 0).excluded_at is not None
    assert stats.binomtest(excluded, runs, 0.05, alternative="greater").pvalue > 0.001


#: What people measure, from a generator and a number of rows; and its mean.
METRICS = {
    "mostly 0": (lambda rng, n: (rng.random(n) < 0.1) * rng.lognormal(0, 1, n), 0.1 * np.exp(0.5)),
    "lognormal 1.5": (lambda rng, n: rng.lognormal(0, 1.5, n), np.exp(1.125)),
    "a price": (lambda rng, n: 9.99 * (rng.random(n) < 0.1), 0.999),
    "counts": (lambda rng, n: 1.0 * rng.poisson(0.1, n), 0.1),
    "far from 0": (lambda rng, n: rng.normal(20, 1, n), 20),
    "rare": (lambda rng, n: 1.0 * (rng.random(n) < 0.03), 0.03),
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("rows", "looks"), [(100, 1), (300, 1), (200, 5)])
def test_the_truth_is_excluded_no_more_often_than_promised(metric, rows, looks):
    """Also if a sequence is made anew at every look, with the kind that outcomes then seem to have."""
    jit.compile_kernels()
    draw, truth = METRICS[metric]
    runs, wrong = 120 if looks == 1 else 50, np.zeros(3)
    for run in range(runs):
        rng = np.random.default_rng([rows, looks, run])
        arm, outcome = rng.integers(0, 2, rows), draw(rng, rows)
        excluded = np.zeros(3, bool)
        for look in range(1, looks + 1):
            n = rows * look // looks
            sequence = bl.sequence(bl.Log(arm[:n], outcome[:n], np.full(n, 0.5), arms=[0, 1]), null=truth, looks=1)
            answers = (sequence.arm(0), sequence.arm(1), sequence.contrast(1, 0))
            excluded |= [answer.excluded_at is not None for answer in answers]
        wrong += excluded
    for n in wrong:
        assert stats.binomtest(int(n), runs, 0.05, alternative="greater").pvalue > 0.001


def test_outcomes_that_are_all_0_bound_nothing():
    sequence = bl.sequence(bl.Log(["A", "B"] * 200, np.zeros(400), np.full(400, 0.5)))
    answer = sequence.arm("A")
    assert (sequence.kind, answer.low, answer.high) == ("asymptotic", -np.inf, np.inf)
    assert answer.why.startswith("All 200 arrived outcomes of arm 'A' are 0, so their variance is unknown.")
    assert "kind='beta_binomial'" in answer.why
    declared = bl.sequence(bl.Log(["A", "B"] * 200, np.zeros(400), np.full(400, 0.5)), "beta_binomial")
    assert declared.arm("A").high < 0.1
