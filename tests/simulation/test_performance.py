from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import belated as bl
from belated.simulation.performance import Performance, share_limits

PAPERS = bl.Bandit(
    {"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)},
    {"A": bl.delays.pareto(0.75).censored(0.5), "B": bl.delays.pareto(1.25)},
)

GREEDY = bl.policies.epsilon_greedy(burn_in=0.1)


def test_coverage_keeps_its_promise():
    cell = bl.study(PAPERS, GREEDY, 2000, 2000, seed=3).cell("daipw", ("A", "B"))
    assert stats.binomtest(round(cell.coverage * 2000), 2000, 0.95).pvalue > 0.001


def cell(low, high, error=None):
    size = len(low)
    return Performance(
        horizon=10,
        estimator="dipw",
        target="A",
        interval="t",
        truth=1.0,
        error=np.zeros(size) if error is None else np.array(error),
        std_error=np.full(size, 0.5),
        low=np.array(low),
        high=np.array(high),
    )


def test_replications_without_an_interval_count_nowhere_else():
    result = cell([0.0, 0.5, 2.0, math.nan], [2.0, 1.0, 3.0, math.nan], [0.1, -0.1, 0.3, 99.0])
    assert (result.replications, result.missing) == (3, 1)
    assert result.coverage == pytest.approx(2 / 3)
    assert result.length == pytest.approx((2.0 + 0.5 + 1.0) / 3)
    assert result.bias == pytest.approx(0.1)
    np.testing.assert_allclose(result.studentised, [0.2, -0.2, 0.6])


def test_no_interval_at_all_is_no_number():
    empty = cell([math.nan] * 2, [math.nan] * 2)
    assert (empty.replications, empty.missing) == (0, 2)
    for name in ("bias", "sd", "coverage", "coverage_low", "coverage_high", "length", "bias_error", "sd_error"):
        assert math.isnan(getattr(empty, name))


@pytest.mark.parametrize(("covered", "n"), [(0, 10), (10, 10), (93, 100)])
def test_limits_of_a_share_are_wilsons(covered, n):
    expected = stats.binomtest(covered, n).proportion_ci(method="wilson")
    assert share_limits(covered / n, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_a_limit_that_misses_the_truth_by_rounding_covers_it():
    sure = bl.Bandit({"A": bl.arms.bernoulli(0), "B": bl.arms.bernoulli(1)})
    result = bl.study(sure, bl.policies.uniform(), 50, 100, estimators=["daipw", "dipw", "mean"], intervals=["auto"])
    assert {cell.coverage for cell in result.cells} == {1.0}
