from __future__ import annotations

import math
from dataclasses import fields
from fractions import Fraction

import naive
import numpy as np
import pytest
from experiments import (
    assert_close,
    binary_log,
    examples,
    experiments,
    log_of,
    quietly,
    skewed_log,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import belated as bl
from belated.estimation.estimators import ArmStatistics, evaluate
from belated.estimation.intervals import (
    INTERVALS,
    KINDS,
    choose_kind,
    choose_kinds,
    fallback_interval,
    settle_interval,
)


def test_normal_interval_is_the_papers():
    est = bl.estimate(log_of(), interval="normal", level=0.9)
    answer = est.arm("B")
    reach = stats.norm.ppf(0.95) * math.sqrt(est.variances[1])
    assert (answer.low, answer.high) == pytest.approx((answer.estimate - reach, answer.estimate + reach))
    assert answer.p_value == pytest.approx(2 * stats.norm.sf(abs(answer.estimate) / answer.std_error))


def test_auto_says_which_interval_it_used():
    assert bl.estimate(log_of()).interval == "t"
    est = bl.estimate(binary_log())
    assert est.interval == "wilson" == est.arm("A").interval
    assert "wilson" in str(est)
    assert bl.estimate(binary_log(), "nh").interval == "t"
    assert bl.estimate(skewed_log()).interval == bl.estimate(skewed_log(-1)).interval == "skew"
    assert bl.estimate(skewed_log(), "nh").interval == "t"
    assert bl.compare(skewed_log(), interval="skew")["nh"].interval == "t"
    with pytest.raises(bl.OptionError, match="needs outcomes that are 0 or 1"):
        bl.estimate(log_of(), interval="wilson")
    with pytest.raises(bl.OptionError, match="normalised by 'hajek'"):
        bl.estimate(binary_log(), "nh", interval="wilson")
    with pytest.raises(bl.OptionError, match="'skew', which needs an estimator normalised by 'hajek'"):
        bl.estimate(skewed_log(), "nh", interval="skew")


def test_skew_reaches_further_on_the_side_of_the_long_tail():
    for question in ({"A": 1}, {"B": 1, "A": -1}, {"A": 0.3, "C": 0.7}):
        t, skew, mirrored = (
            bl.estimate(log, "dipw", interval=kind).linear(question)
            for log, kind in ((skewed_log(), "t"), (skewed_log(), "skew"), (skewed_log(-1), "skew"))
        )
        assert (mirrored.low, mirrored.high) == pytest.approx((-skew.high, -skew.low))
        assert skew.std_error == pytest.approx(t.std_error)
        if "B" not in question:  # one long tail, up
            assert skew.low == pytest.approx(t.low, rel=0.01)
            assert t.high < skew.high
            assert skew.high - skew.estimate < 2 * (skew.estimate - skew.low)


def test_wilson_stays_within_possible_rates():
    with pytest.warns(bl.BelatedWarning, match="equal"):
        est = bl.estimate(bl.Log(["A", "B"] * 20, [1.0, 0.0] * 20, [[0.5, 0.5]] * 40), "dipw")
    a, b = est.arm("A"), est.arm("B")
    assert (a.high, b.low) == (1.0, 0.0)
    assert 0.5 < a.low < 1
    assert est.contrast("A", "B").high <= 1
    assert est.contrast("A", "B").test(0).p_value < 1e-5


@given(experiments(outcomes=["binary"], tiny=False, arms=(2, 3)), st.sampled_from([0.8, 0.95]))
@examples(60)
def test_wilson_and_mover_equal_the_twin(experiment, level):
    log, twin = experiment.log(), experiment.twin("dipw")
    known = twin.values[:2], twin.effective_size[:2], twin.inflation[:2]
    if not np.isfinite(twin.t_variances[:2]).all():
        return
    est = quietly(bl.estimate, log, "dipw", interval="wilson", level=level)
    expected = [naive.wilson(*(x[i] for x in known), level) for i in range(2)]
    for i in range(2):
        assert_close([est.arm(i).low, est.arm(i).high], expected[i], 1e-9)
    contrast = est.contrast(0, 1)
    assert_close([contrast.low, contrast.high], naive.mover(known[0], expected), 1e-9)


@given(experiments(outcomes=["normal", "heavy"], tiny=False, arms=(2, 3)), st.sampled_from([0.8, 0.95]))
@examples(60)
def test_skew_equals_the_twin(experiment, level):
    x, twin = experiment, experiment.twin("daipw")
    if not np.isfinite(twin.t_variances[:2]).all():
        return
    est = quietly(bl.estimate, x.log(), interval="skew", level=level)
    arrived = [t for t in naive.existing(x.assigned, x.as_of) if naive.has_arrived(x.arrived, t, x.as_of)]
    outcomes = [[Fraction(x.outcome[t]) for t in arrived if x.arm[t] == k] for k in range(2)]
    known = zip(twin.values, twin.t_variances, twin.effective_size, outcomes, strict=False)
    expected = [naive.skew(*arm, level) for arm in known]
    assert_close(est.statistics.skewness[:2], [naive.skewness(y) for y in outcomes], 1e-6)
    for i in range(2):
        assert_close([est.arm(i).low, est.arm(i).high], expected[i], 1e-6)
    contrast = est.contrast(0, 1)
    assert_close([contrast.low, contrast.high], naive.mover(twin.values[:2], expected), 1e-6)


@pytest.mark.parametrize("interval", ["auto", "normal", "t", "skew", "wilson"])
def test_before_any_arrival_every_answer_is_nan(interval):
    log = bl.Log([0, 1], [1.0, 0.0], [[0.5, 0.5]] * 2, delay=[5, 5], as_of=2)
    with pytest.warns(bl.BelatedWarning):
        est = bl.estimate(log, interval=interval)
    assert np.isnan(est.values).all()


def test_the_table_has_an_entry_for_every_word():
    assert ("auto", *KINDS) == INTERVALS
    assert [name for name, kind in KINDS.items() if kind.reach is not None] == ["skew", "wilson"]
    assert KINDS["wilson"].within(np.array([-0.1, 0.5, 1.5])).tolist() == [0.0, 0.5, 1.0]
    assert KINDS["t"].within(np.array([-9.0, 9.0])).tolist() == [-9.0, 9.0]


def test_of_many_experiments_auto_is_decided_for_each():
    logs = [log_of(), skewed_log(), log_of(seed=1), skewed_log(-1)]
    dipw = bl.ESTIMATORS["dipw"]
    each = [evaluate(bl.Sums.of(log, *dipw.parts), dipw) for log in logs]
    together = ArmStatistics(
        **{f.name: np.stack([getattr(statistics, f.name) for statistics in each]) for f in fields(ArmStatistics)}
    )
    single = [bl.estimate(log, dipw).interval for log in logs]
    assert single == ["t", "skew", "t", "skew"]
    chosen = choose_kinds(together, binary=False, hajek=True)
    assert {kind: np.flatnonzero(where).tolist() for kind, where in chosen.items()} == {"skew": [1, 3], "t": [0, 2]}
    assert [choose_kind(arms, binary=False, hajek=True) for arms in each] == single
    assert list(choose_kinds(together, binary=True, hajek=True)) == ["wilson"]
    assert list(choose_kinds(together, binary=True, hajek=False)) == ["t"]


def test_what_does_not_depend_on_outcomes_is_settled():
    assert settle_interval("auto", binary=True, hajek=True) == "wilson"
    assert settle_interval("auto", binary=False, hajek=True) == "auto"
    assert settle_interval("auto", binary=True, hajek=False) == "t"
    assert settle_interval("normal", binary=True, hajek=True) == "normal"
    assert [fallback_interval(kind, bl.ESTIMATORS["nh"]) for kind in INTERVALS] == ["auto", "normal", "t", "t", "t"]
    assert [fallback_interval(kind, bl.ESTIMATORS["dipw"]) for kind in INTERVALS] == list(INTERVALS)


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
