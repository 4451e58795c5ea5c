from __future__ import annotations

import itertools
import math

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
from belated.estimation.intervals import (
    INTERVALS,
    KINDS,
    combine,
    fallback_interval,
    settle_interval,
)


def test_normal_interval_is_the_papers():
    est = bl.estimate(log_of(), interval="normal", level=0.9)
    answer = est.arm("B")
    reach = stats.norm.ppf(0.95) * math.sqrt(est.variances[1])
    assert (answer.low, answer.high) == pytest.approx((answer.estimate - reach, answer.estimate + reach))
    assert answer.p_value == pytest.approx(2 * stats.norm.sf(abs(answer.estimate) / answer.std_error))


def test_auto_is_one_kind_for_every_outcome():
    for log in (log_of(), binary_log(), skewed_log(), skewed_log(-1)):
        est = bl.estimate(log)
        assert est.interval == "score" == est.arm("A").interval
        assert bl.estimate(log, "nh").interval == "t"
    assert "score" in str(est)
    assert bl.compare(skewed_log(), interval="score")["nh"].interval == "t"
    with pytest.raises(bl.OptionError, match="needs outcomes that are 0 or 1"):
        bl.estimate(log_of(), interval="wilson")
    with pytest.raises(bl.OptionError, match="normalised by 'hajek'"):
        bl.estimate(binary_log(), "nh", interval="wilson")
    with pytest.raises(bl.OptionError, match="'score', which needs an estimator normalised by 'hajek'"):
        bl.estimate(skewed_log(), "nh", interval="score")


def test_wilson_stays_within_possible_rates():
    log = bl.Log(["A", "B"] * 20, [1.0, 0.0] * 20, [[0.5, 0.5]] * 40)
    with pytest.warns(bl.BelatedWarning, match="equal"):
        est = bl.estimate(log, "dipw", interval="wilson")
    a, b = est.arm("A"), est.arm("B")
    assert (a.high, b.low) == (1.0, 0.0)
    assert 0.5 < a.low < 1
    assert est.contrast("A", "B").high <= 1
    assert est.contrast("A", "B").test(0).p_value < 1e-5


@pytest.mark.parametrize("interval", ["t", "normal", "score"])
def test_outcomes_that_do_not_vary_have_no_interval(interval):
    log = bl.Log(["A", "B"] * 20, np.zeros(40), [[0.5, 0.5]] * 40)
    with pytest.warns(bl.BelatedWarning, match="there is no interval"):
        est = bl.estimate(log, interval=interval)
    for answer in (est.arm("A"), est.contrast("A", "B")):
        assert math.isnan(answer.low)
        assert math.isnan(answer.high)
        assert math.isnan(answer.p_value)


@given(experiments(outcomes=["binary"], tiny=False, arms=(2, 3)), st.sampled_from([0.8, 0.95]))
@examples(40)
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


OUTCOMES = ("normal", "binary", "revenue", "counts", "far")


def drawn_log(kind, rows, arms, seed):
    """Outcomes that people measure, of arms chosen by drifting probabilities; a few never come."""
    rng = np.random.default_rng(seed)
    propensity = rng.dirichlet(np.full(arms, 3.0), rows)
    arm = (rng.random(rows)[:, np.newaxis] > np.cumsum(propensity, axis=1)[:, :-1]).sum(axis=1)
    outcome = {
        "normal": rng.normal(size=rows), "binary": (rng.random(rows) < 0.2) * 1.0,
        "revenue": np.where(rng.random(rows) < 0.15, rng.lognormal(3, 1, rows), 0.0),
        "counts": rng.poisson(0.5, rows) * 1.0, "far": rng.normal(20, 1, rows),
    }[kind]  # fmt: skip
    outcome[rng.random(rows) < 0.1] = np.nan
    return arm, outcome, propensity


@given(
    st.sampled_from(OUTCOMES), st.integers(8, 80), st.integers(2, 4), st.integers(0, 10**6),
    st.sampled_from([-1.0, 9.99, 1e-3, 250.0]), st.sampled_from([0.0, -3.0, 40.0]), st.sampled_from(["score", "t"]),
)  # fmt: skip
@examples(70)
def test_adding_multiplying_and_relabelling_change_nothing_but_units(kind, rows, arms, seed, factor, shift, interval):
    arm, outcome, propensity = drawn_log(kind, rows, arms, seed)
    order = np.random.default_rng(seed).permutation(arms)
    labels = [f"arm {k}" for k in range(arms)]
    plain = quietly(bl.estimate, bl.Log(arm, outcome, propensity, arms=range(arms)), interval=interval)
    moved = bl.Log([labels[k] for k in arm], factor * outcome + shift, propensity[:, order],
                   arms=[labels[k] for k in order])  # fmt: skip
    other = quietly(bl.estimate, moved, interval=interval)
    size = 1e-9 * (1 + np.nanmax(np.abs(outcome), initial=0.0))
    for question in ({0: 1}, {0: 1, 1: -1}, dict.fromkeys(range(arms), 1 / arms)):
        a, b = plain.linear(question), other.linear({labels[k]: c for k, c in question.items()})
        added = shift * sum(question.values())
        limits = [a.low, a.high] if factor > 0 else [a.high, a.low]
        expected = [factor * x + added for x in (a.estimate, *limits)]
        assert_close([b.estimate, b.low, b.high], expected, abs(factor) * size + 1e-9 * abs(added), rtol=1e-9)
        assert_close(b.test(added).p_value, a.test(0).p_value, 1e-7, rtol=1e-6)


@given(st.sampled_from(OUTCOMES), st.integers(2, 60), st.integers(1, 3), st.integers(0, 10**6),
       st.sampled_from([0.5, 0.8, 0.95, 0.999]), st.sampled_from(list(KINDS)))  # fmt: skip
@examples(90)
def test_an_interval_and_its_p_value_never_contradict_each_other(kind, rows, arms, seed, level, interval):
    arm, outcome, propensity = drawn_log("binary" if interval == "wilson" else kind, rows, arms, seed)
    est = quietly(bl.estimate, bl.Log(arm, outcome, propensity, arms=range(arms)), interval=interval, level=level)
    for question in ({0: 1}, {k: 1 - 2 * (k == 0) for k in range(arms)}):
        answer = est.linear(question)
        if math.isnan(answer.low):
            assert math.isnan(answer.p_value)
            continue
        assert answer.low <= answer.estimate <= answer.high
        assert answer.low < answer.high
        width = answer.high - answer.low
        for null in (0.0, 1.0, answer.low - 1e-6 * width, answer.low + 1e-6 * width, answer.high + 0.1 * width):
            inside = answer.low <= null <= answer.high
            assert (answer.test(null).p_value >= 1 - level) == inside
        nested = [answer.at_level(each) for each in (0.3, 0.6, 0.9, 0.99)]
        assert all(b.low <= a.low and a.high <= b.high for a, b in itertools.pairwise(nested))


@pytest.mark.parametrize("interval", ["auto", "normal", "t", "score", "wilson"])
def test_before_any_arrival_every_answer_is_nan(interval):
    log = bl.Log([0, 1], [1.0, 0.0], [[0.5, 0.5]] * 2, delay=[5, 5], as_of=2)
    with pytest.warns(bl.BelatedWarning):
        est = bl.estimate(log, interval=interval)
    assert np.isnan(est.values).all()


def test_the_table_has_an_entry_for_every_word():
    assert ("auto", *KINDS) == INTERVALS
    assert [name for name, kind in KINDS.items() if kind.reach is not None] == ["score", "wilson"]
    assert KINDS["wilson"].within(np.array([-0.1, 0.5, 1.5])).tolist() == [0.0, 0.5, 1.0]
    assert KINDS["t"].within(np.array([-9.0, 9.0])).tolist() == [-9.0, 9.0]


def test_auto_does_not_depend_on_outcomes():
    assert settle_interval("auto", bl.ESTIMATORS["daipw"]) == "score"
    assert settle_interval("auto", bl.ESTIMATORS["nh"]) == "t"
    assert settle_interval("normal", bl.ESTIMATORS["nh"]) == "normal"
    assert [fallback_interval(kind, bl.ESTIMATORS["nh"]) for kind in INTERVALS] == ["auto", "normal", "t", "t", "t"]
    assert [fallback_interval(kind, bl.ESTIMATORS["dipw"]) for kind in INTERVALS] == list(INTERVALS)


def test_many_experiments_at_once_have_the_answers_of_each():
    study = bl.study(
        bl.Bandit({"A": bl.arms.bernoulli(0.1), "B": bl.arms.exponential(2.0)}), bl.policies.uniform(), 80, 5
    )
    cell = study.cell("daipw", ("B", "A"))
    for r in range(5):
        log = bl.simulate(study.bandit, study.policy, 80, study.seed, replication=r)
        answer = quietly(bl.estimate, log).contrast("B", "A")
        assert (cell.low[r], cell.high[r]) == pytest.approx((answer.low, answer.high), rel=1e-8)


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
    est = bl.estimate(log_of(60), interval="t")
    v, df = est.std_errors[:2] ** 2, est.effective_size[:2] - 1
    welch = v.sum() ** 2 / (v**2 / df).sum()
    answer = est.contrast("B", "A")
    assert answer.high - answer.estimate == pytest.approx(stats.t.ppf(0.975, welch) * answer.std_error)
    assert answer.test(0.1).p_value == pytest.approx(
        2 * stats.t.sf(abs(answer.estimate - 0.1) / answer.std_error, welch)
    )


@pytest.mark.parametrize("make", [log_of, binary_log, skewed_log], ids=["normal", "binary", "skewed"])
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


@pytest.mark.parametrize("interval", list(KINDS))
def test_many_p_values_at_once_are_those_of_each(interval):
    est = bl.estimate(binary_log() if interval == "wilson" else skewed_log(), interval=interval)
    pairs = np.array([[0, 1], [1, 0], [2, 1], [0, 2]])
    together = combine(est.statistics.subset(pairs), np.array([1.0, -1.0]), interval).p_not_above()
    each = [est.contrast("ABC"[a], "ABC"[b], alternative="greater").p_value for a, b in pairs]
    np.testing.assert_allclose(together, each, rtol=1e-8)
