from __future__ import annotations

import math

import pytest
from experiments import (
    binary_log,
    log_of,
    skewed_log,
)
from scipy import stats

import belated as bl


@pytest.mark.parametrize("interval", ["normal", "t"])
def test_contrasts_policies_and_combinations_are_linear(interval):
    est = bl.estimate(log_of(), interval=interval)
    q, v = est.values, est.std_errors**2
    contrast, policy = est.contrast("B", "A"), est.policy({"A": 0.2, "C": 0.8})
    linear = est.linear({"A": -1, "B": 0.5, "C": 0.5})
    assert contrast.estimate == pytest.approx(q[1] - q[0])
    assert contrast.std_error**2 == pytest.approx(v[1] + v[0])
    assert policy.estimate == pytest.approx(0.2 * q[0] + 0.8 * q[2])
    assert policy.std_error**2 == pytest.approx(0.04 * v[0] + 0.64 * v[2])
    assert linear.estimate == pytest.approx(-q[0] + 0.5 * q[1] + 0.5 * q[2])


def test_t_interval_uses_welch():
    est = bl.estimate(log_of(60))
    assert est.interval == "t"
    v, df = est.std_errors[:2] ** 2, est.effective_size[:2] - 1
    welch = v.sum() ** 2 / (v**2 / df).sum()
    answer = est.contrast("B", "A")
    assert answer.high - answer.estimate == pytest.approx(stats.t.ppf(0.975, welch) * answer.std_error)
    assert answer.test(0.1).p_value == pytest.approx(
        2 * stats.t.sf(abs(answer.estimate - 0.1) / answer.std_error, welch)
    )


@pytest.mark.parametrize("make", [log_of, binary_log, skewed_log], ids=["t", "wilson", "skew"])
@pytest.mark.parametrize("question", [{"A": 1}, {"B": 1, "A": -1}, {"A": 0.3, "B": 0.3, "C": 0.4}, {"A": -2, "C": 0.5}])
def test_tests_and_intervals_are_inversions_of_each_other(make, question):
    answer = bl.estimate(make(), level=0.9).linear(question)
    for null in (answer.low, answer.high):
        assert answer.test(null).p_value == pytest.approx(0.1, rel=1e-6)
    greater, less = (answer.test(0, side) for side in ("greater", "less"))
    assert greater.high == math.inf
    assert less.low == -math.inf
    assert greater.test(greater.low, "greater").p_value == pytest.approx(0.1, rel=1e-6)
    assert less.test(less.high, "less").p_value == pytest.approx(0.1, rel=1e-6)
    assert greater.p_value + less.p_value == pytest.approx(1)
    assert answer.test(0).p_value == pytest.approx(2 * min(greater.p_value, less.p_value))
    assert answer.at_level(0.99).low < answer.low < answer.estimate < answer.high < answer.at_level(0.99).high
