"""The score interval."""

from __future__ import annotations

import math
from fractions import Fraction

import naive
import numpy as np
import pytest
from experiments import assert_close, examples, experiments, log_of, quietly, skewed_log
from hypothesis import given
from hypothesis import strategies as st

import belated as bl


def test_score_reaches_further_on_the_side_of_the_long_tail():
    for question in ({"A": 1}, {"B": 1, "A": -1}, {"A": 0.3, "C": 0.7}):
        t, score, mirrored = (
            bl.estimate(log, "dipw", interval=kind).linear(question)
            for log, kind in ((skewed_log(), "t"), (skewed_log(), "score"), (skewed_log(-1), "score"))
        )
        assert (mirrored.low, mirrored.high) == pytest.approx((-score.high, -score.low))
        assert score.std_error == pytest.approx(t.std_error)
        if "B" not in question:  # one long tail, up
            assert score.estimate - score.low < 0.7 * (score.high - score.estimate)
            assert t.high < score.high


def test_score_is_wilsons_interval_for_two_values_under_a_coin():
    log = bl.Log(["A"] * 400, ([1.0] + [0.0] * 4) * 80, [[1.0]] * 400)
    score, wilson = (bl.estimate(log, interval=kind).arm("A") for kind in ("score", "wilson"))
    assert (score.low, score.high) == pytest.approx((wilson.low, wilson.high), abs=2e-4)


def test_an_arm_of_equal_outcomes_takes_from_the_others_how_far_it_may_be():
    outcome = np.zeros(60)
    outcome[1::6] = 50.0
    with pytest.warns(bl.BelatedWarning, match="uses the variance of all arms together"):
        est = bl.estimate(bl.Log(["A", "B"] * 30, outcome, [[0.5, 0.5]] * 60))
    a, contrast = est.arm("A"), est.contrast("B", "A")
    assert (a.estimate, a.low) == (0.0, 0.0)
    assert 50 / 30 < a.high < 20
    assert a.test(1.5).p_value > 0.2
    assert contrast.low < contrast.estimate < contrast.high
    with pytest.warns(bl.BelatedWarning, match="there is no interval"):
        t = bl.estimate(bl.Log(["A", "B"] * 30, outcome, [[0.5, 0.5]] * 60), interval="t")
    assert math.isnan(t.arm("A").low)
    assert not math.isnan(t.arm("B").low)


@given(experiments(tiny=False, arms=(2, 3)), st.sampled_from([0.8, 0.95]))
@examples(80)
def test_score_equals_the_twin(experiment, level):
    x, twin = experiment, experiment.twin("daipw")
    arrived = [t for t in naive.existing(x.assigned, x.as_of) if naive.has_arrived(x.arrived, t, x.as_of)]
    everyone = [Fraction(x.outcome[t]) for t in arrived]
    if not np.isfinite(twin.t_variances[:2]).all() or len(set(everyone)) < 2:
        return
    est = quietly(bl.estimate, x.log(), interval="score", level=level)
    outcomes = [[Fraction(x.outcome[t]) for t in arrived if x.arm[t] == k] for k in range(2)]
    arms = list(zip(twin.values, twin.t_variances, twin.effective_size, outcomes, strict=False))
    size = 1e-6 * (1 + max(map(abs, everyone)))
    for question in ({0: 1}, {1: 1}, {0: 1, 1: -1}, {0: 0.2, 1: 0.8}):
        answer = est.linear(question)
        expected = naive.score([arms[k] for k in question], everyone, question.values(), level)
        assert_close([answer.low, answer.high], expected, float(size), rtol=1e-6)


def test_no_limit_is_above_the_cap():
    rng = np.random.default_rng(5)
    outcome = np.where(rng.random(120) < 0.05, rng.lognormal(4, 1.5, 120), 0.0)
    log = bl.Log(rng.integers(2, size=120), outcome, np.full((120, 2), 0.5))
    free, capped = (quietly(bl.estimate, log, cap=cap) for cap in (None, 40.0))
    assert max(free.arm(k).high for k in (0, 1)) > 40
    for k in (0, 1):
        answer = capped.arm(k)
        assert answer.estimate < answer.high <= 40
        assert answer.at_level(0.999).high <= 40
        assert answer.test(41.0).p_value < 1e-12
    assert capped.contrast(0, 1).high <= 40 - capped.arm(1).low


@pytest.mark.parametrize("seed", range(8))
def test_a_limit_at_the_cap_is_not_rejected(seed):
    rng = np.random.default_rng(seed)
    outcome = np.where(rng.random(12) < 0.2, rng.lognormal(4, 1.5, 12), 0.0)
    est = quietly(bl.estimate, bl.Log(rng.integers(2, size=12), outcome, np.full((12, 2), 0.5)), cap=10 / 3)
    for answer in (est.arm(0), est.arm(1), est.contrast(0, 1), est.contrast(1, 0)):
        assert answer.at_level(0.999).test(answer.at_level(0.999).high).p_value >= 0.001 - 1e-9


@pytest.mark.parametrize("factor", [1e-200, 1e-90])
def test_outcomes_beyond_what_fourth_powers_can_hold_have_no_interval(factor):
    log = log_of(outcome=factor * log_of().outcome)
    with pytest.warns(
        bl.BelatedWarning, match="of each of the arms 'A', 'B', 'C' are beyond the range of numbers"
    ) as said:
        est = bl.estimate(log)
    assert not any("equal" in str(warning.message) for warning in said)
    for answer in (est.arm("A"), est.contrast("B", "A")):
        assert np.isnan([answer.low, answer.high, answer.p_value]).all()
    with pytest.raises(bl.OptionError, match="No arm has an interval"):
        est.best()


@pytest.mark.parametrize("factor", [1e-60, 1e58])
def test_very_small_and_very_large_units_are_units(factor):
    one, other = (bl.estimate(log_of(outcome=f * log_of().outcome)).contrast("B", "A") for f in (1.0, factor))
    assert (other.low / factor, other.high / factor, other.p_value) == pytest.approx(
        (one.low, one.high, one.p_value), rel=1e-9
    )


def test_p_values_of_an_arm_with_one_success_fall_with_the_distance_of_the_null():
    outcomes = np.zeros(60)
    outcomes[10] = 1
    with pytest.warns(bl.BelatedWarning, match="outcomes of arm 'B' are equal"):
        answer = bl.estimate(bl.Log(["A", "B"] * 30, outcomes, np.full((60, 2), 0.5))).arm("A")
    p_values = np.array([answer.test(null).p_value for null in -np.geomspace(0.1, 1e6, 60)])
    assert (np.diff(p_values) < 0).all()
    assert p_values[-1] > 1e-20  # about one degree of freedom


def test_far_from_the_null_the_statistic_is_the_distance_in_standard_errors():
    outcomes = np.random.default_rng(1).normal(size=2000)
    answer = bl.estimate(bl.Log(["A", "B"] * 1000, outcomes + 5, np.full((2000, 2), 0.5)), "dipw").arm("A")
    assert answer.p_value == 0
    assert answer.statistic == pytest.approx(answer.estimate / answer.std_error, rel=1e-9)


@pytest.mark.parametrize("common", ["segment", "covariates"])
def test_what_cells_have_in_common_moves_no_limit_above_the_cap(common):
    rng = np.random.default_rng(3)
    segment, x, arm = rng.integers(2, size=50), rng.normal(size=50), rng.integers(2, size=50)
    outcome = np.where(rng.random(50) < 0.5, 3.0, 1.9 * segment) + 0.9 * x
    columns = {"segment": segment} if common == "segment" else {"covariates": {"x": x}}
    est = quietly(bl.estimate, bl.Log(arm, outcome, np.full((50, 2), 0.5), cap=2.0, **columns))
    for answer in (est.arm(0), est.arm(1), est.policy({0: 0.5, 1: 0.5})):
        for level in (0.95, 1 - 1e-6, 1 - 1e-14):
            assert answer.estimate < answer.at_level(level).high <= 2.0
        assert answer.test(2.1).p_value < 1e-12
    assert est.linear({0: -1.0}).at_level(1 - 1e-14).low >= -2.0


def test_a_model_of_zeros_is_no_model():
    rng = np.random.default_rng(1)
    arm = rng.integers(3, size=60)
    outcome = np.where(arm == 0, 0.0, rng.integers(2, size=60))
    log = bl.Log(arm, outcome, np.full((60, 3), 1 / 3))
    named, given = (quietly(bl.estimate, log, "dipw", outcome_model=model) for model in ("zero", np.zeros((60, 3))))
    for one, other in zip(named.contrasts(), given.contrasts(), strict=True):
        assert (other.low, other.high, other.p_value) == pytest.approx((one.low, one.high, one.p_value), rel=1e-9)
    assert given.arm(0).high == pytest.approx(named.arm(0).high)


def test_a_model_that_tells_arms_apart_does_not_make_equal_outcomes_vary():
    log = bl.Log([0, 1] * 20, np.zeros(40), np.full((40, 2), 0.5))
    est = quietly(bl.estimate, log, outcome_model=np.tile([0.1, 0.4], (40, 1)))
    assert np.isnan([end for arm in (0, 1) for end in (est.arm(arm).low, est.arm(arm).high)]).all()


@pytest.mark.parametrize("factor", [1e-65, 1e55])
def test_the_unit_does_not_matter_to_an_arm_of_equal_outcomes_either(factor):
    arm = np.arange(60) % 2
    outcome = np.where(arm == 0, 0.0, np.random.default_rng(2).exponential(size=60))
    one, other = (quietly(bl.estimate, bl.Log(arm, unit * outcome, "uniform")) for unit in (1.0, factor))
    for question in ({0: 1.0}, {1: 1.0, 0: -1.0}):
        a, b = one.linear(question), other.linear(question)
        assert (b.low / factor, b.high / factor) == pytest.approx((a.low, a.high), rel=1e-6)
        assert b.p_value == pytest.approx(a.p_value, rel=1e-6)
