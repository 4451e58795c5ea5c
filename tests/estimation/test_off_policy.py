"""The value of a policy that looks at the unit, and probabilities of arrival."""

from __future__ import annotations

import math

import numpy as np
import pytest
from naive import segments as naive
from scipy import stats
from segment_logs import columns, contextual_experiments, log_with_segments

import belated as bl


def with_units(rows, seed=0, never=0.0):
    """Return a log whose policy and outcomes depend on a number u of the unit, a target that does, and its value."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=rows)
    p, q = 0.2 + 0.6 * (u > 0), 1 / (1 + np.exp(-2 * u))
    arm = (rng.random(rows) < p).astype(int)
    outcome = arm * u + rng.normal(size=rows)
    outcome[rng.random(rows) < never * (1 + arm) / 2] = np.nan
    return arm, outcome, np.c_[1 - p, p], np.c_[1 - q, q], u


GRID = np.linspace(-8, 8, 2001)
#: The target's value, E[u / (1 + exp(-2u))].
VALUE = float(np.trapezoid(stats.norm.pdf(GRID) * GRID / (1 + np.exp(-2 * GRID)), GRID))


@pytest.mark.parametrize("weights", ["past", "uniform"])
def test_the_formula_row_by_row(weights):
    arm, outcome, propensity, q, _ = with_units(500, never=0.3)
    answer = bl.estimate(bl.Log(arm, outcome, propensity), target=q, weights=weights, interval="t")
    h = np.ones((500, 2))
    if weights == "past":
        h = naive.past_weights(propensity, [0] * 500)
        h[0] = [2**-0.5] * 2
    value, variance = naive.policy_value(arm, outcome, propensity, q, h)
    assert answer.estimate == pytest.approx(value, rel=1e-12)
    assert answer.std_error == pytest.approx(math.sqrt(variance), rel=0.02)  # the library allows for leverage
    assert answer.std_error >= math.sqrt(variance)


def test_a_target_that_is_an_arm_or_a_policy_by_segment():
    log = log_with_segments()
    est = bl.estimate(log, weights="past", outcome_model="zero")
    one = bl.estimate(log, target=np.tile([0.0, 1.0], (240, 1)))
    assert one.estimate == pytest.approx(est.values[1], rel=1e-12)
    assert one.std_error == pytest.approx(est.std_errors[1], rel=0.05)
    by_segment = np.where((np.array(log.segment_column.code) == 0)[:, np.newaxis], [0.3, 0.7], [1.0, 0.0])
    policy = est.policy({"DE": {0: 0.3, 1: 0.7}, "FR": 0, "IT": 0})
    assert bl.estimate(log, target=by_segment).estimate == pytest.approx(policy.estimate, rel=1e-12)


@pytest.mark.parametrize("weights", [None, "uniform", "sqrt"])
def test_merged_segments_count_what_the_target_does_in_them(weights):
    rng = np.random.default_rng(3)
    arm, outcome, _, q, _ = with_units(4000)
    p = np.full((4000, 2), 0.5)
    arm = rng.integers(2, size=4000)
    u = np.log(q[:, 1] / q[:, 0]) / 2
    outcome = arm * u + rng.normal(size=4000)
    log = bl.Log(arm, outcome, p, segment=np.where(rng.random(4000) < 0.5, -1, np.arange(4000)))
    assert log.segments == (-1, "other")
    answer = bl.estimate(log, target=q, weights=weights)
    assert abs(answer.estimate - VALUE) < 4 * answer.std_error
    assert answer.std_error < 0.05


def test_coverage_of_a_target_with_missing_outcomes():
    runs, hits = 150, 0
    for run in range(runs):
        arm, outcome, propensity, q, _ = with_units(400, seed=run, never=0.4)
        answer = bl.estimate(bl.Log(arm, outcome, propensity), target=q)
        hits += answer.low <= VALUE <= answer.high
    assert stats.binomtest(hits, runs, 0.95, alternative="less").pvalue > 0.01


@pytest.mark.parametrize("stable", [False, True])
def test_agrees_with_adaptively_weighted_doubly_robust_scores(stable):
    """Zhan et al. (2021), on a contextual epsilon-greedy log without delays."""
    means = np.array([[0.5, 1.0], [0.5, -0.2]])
    segment, arm, outcome, propensity = contextual_experiments(1, 3000, means, never=0.0, seed=9)
    segment, arm, outcome, propensity = segment[0], arm[0], outcome[0], propensity[0]
    q = np.array([[0.2, 0.8], [0.9, 0.1]])[segment]
    truth = 0.6 * (0.2 * 0.5 + 0.8 * 1.0) + 0.4 * (0.9 * 0.5 - 0.1 * 0.2)
    value, variance = naive.adaptively_weighted_value(arm, outcome, propensity, q, segment, stable=stable)
    answer = bl.estimate(bl.Log(arm, outcome, propensity, segment=segment), target=q)
    assert abs(value - truth) < 4 * math.sqrt(variance)
    assert abs(answer.estimate - truth) < 4 * answer.std_error
    assert abs(answer.estimate - value) < 3 * math.sqrt(variance)
    assert answer.std_error == pytest.approx(math.sqrt(variance), rel=0.4)


def test_the_answer_is_that_of_the_moment():
    arm, outcome, propensity, q, _ = with_units(400)
    early = bl.Log(arm, outcome, propensity, as_of=200)
    answer = bl.estimate(early, target=q)
    other = bl.estimate(bl.Log(arm[:200], outcome[:200], propensity[:200]), target=q[:200])
    assert answer.estimate == pytest.approx(other.estimate, rel=1e-12)
    assert answer.std_error == pytest.approx(other.std_error, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda q: q[:-1], r"has shape \(239, 2\)"),
        (lambda q: q[:, :1], r"has shape \(240, 1\)"),
        (lambda q: q * 1.1, "in row 0"),
        (lambda q: np.where(np.arange(240)[:, np.newaxis] == 7, np.nan, q), "row 7"),
        (lambda q: np.where(np.arange(240)[:, np.newaxis] == 7, [-0.5, 1.5], q), "in row 7"),
        (lambda q: "q_*", "it must be an array"),
    ],
)
def test_targets_that_cannot_be(change, words):
    arm, outcome, propensity, _, _ = columns()
    with pytest.raises(bl.BelatedError, match=words):
        bl.estimate(bl.Log(arm, outcome, propensity), target=change(np.full((240, 2), 0.5)))


def test_a_target_that_the_policy_never_followed():
    arm, outcome, propensity, _, _ = columns()
    arm[5], propensity[5] = 0, [1.0, 0.0]
    with pytest.raises(bl.BelatedError, match="in row 5 gives arm 1 probability"):
        bl.estimate(bl.Log(arm, outcome, propensity), target=np.full((240, 2), 0.5))


def test_a_target_goes_with_weights_only():
    log, q = log_with_segments(), np.full((240, 2), 0.5)
    for options in ({"estimator": "dipw"}, {"outcome_model": "zero"}, {"normalisation": "plain"}):
        with pytest.raises(bl.BelatedError, match="goes with `weights`"):
            bl.estimate(log, target=q, **options)
    with pytest.raises(bl.BelatedError, match="must be 'past' or 'uniform'"):
        bl.estimate(log, target=q, weights="propensity")


def test_arrival_probabilities_mend_what_depends_on_the_unit():
    rng = np.random.default_rng(2)
    u = rng.normal(size=6000)
    chance = 1 / (1 + np.exp(-u))
    arm = rng.integers(2, size=6000)
    outcome = np.where(rng.random(6000) < chance, arm + u**2 + u + rng.normal(size=6000), np.nan)
    log = bl.Log(arm, outcome, np.full((6000, 2), 0.5))
    assert bl.estimate(log).arm(1).low > 2  # without them it is biased
    mended = bl.estimate(log, arrival_probability=chance).arm(1)
    assert mended.low < 2 < mended.high


@pytest.mark.parametrize("model", [None, "given"])
def test_equal_arrival_probabilities_change_nothing(model):
    arm, outcome, propensity, segment, _ = columns()
    options = {} if model is None else {"outcome_model": np.c_[segment + 0.1, segment + 0.3]}
    log = bl.Log(arm, outcome, propensity, segment=segment)
    one, other = bl.estimate(log, **options), bl.estimate(log, arrival_probability=np.full(240, 0.25), **options)
    assert other.values == pytest.approx(one.values, rel=1e-12)
    assert other.contrast(1, 0).std_error == pytest.approx(one.contrast(1, 0).std_error, rel=1e-12)


@pytest.mark.parametrize(
    ("chance", "words"),
    [
        (np.full(239, 0.5), "has 239 rows but `propensity` has 240"),
        (np.r_[0.0, np.full(239, 0.5)], "row 0"),
        (np.r_[np.full(239, 0.5), 1.5], "row 239"),
        (np.r_[np.full(239, 0.5), math.nan], "row 239"),
    ],
)
def test_arrival_probabilities_that_cannot_be(chance, words):
    with pytest.raises(bl.BelatedError, match=words):
        bl.estimate(log_with_segments(), arrival_probability=chance)
