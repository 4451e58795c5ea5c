"""Signs of broken assumptions: given seldom without a reason, and seldom missing when there is one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import belated as bl
from belated.summaries import signs
from belated.summaries.signs import (
    Remark,
    dependence_remark,
    direction,
    drift,
    is_sparse,
    miscalibration,
    most_recorded,
    outcome_dependence,
    steady_arrival,
    swapped,
    trend,
)

KINDS = {
    "normal": lambda: bl.arms.normal(1.0),
    "rare": lambda: bl.arms.bernoulli(0.05),
    "lognormal": lambda: bl.arms.lognormal(0.0, 1.0),
}


DELAYS = {"pareto": bl.delays.pareto(0.75), "mostly none": bl.delays.geometric(0.1)}


def rows(kind, delay, policy, horizon, arms, seed):
    """Return arms, outcomes, probabilities and delays; arms are equal, and half of the first's outcomes never come."""
    late = {k: DELAYS[delay].censored(0.5 if k == 0 else 0.0) for k in range(arms)}
    thompson = bl.policies.thompson_beta if kind == "rare" else bl.policies.thompson_normal
    chosen = {"greedy": bl.policies.epsilon_greedy(decay=0.7, burn_in=0.1), "thompson": thompson(0.5, 0.5).batched(20)}
    log = bl.simulate(bl.Bandit({k: KINDS[kind]() for k in range(arms)}, late), chosen[policy], horizon, seed)
    out = np.isnan(log.outcome)
    return log.code, log.outcome, log.propensity, np.where(out, math.inf, log.arrived_at - log.assigned_at)


def moments(code, y, delay, arms):
    """Return the sums of `outcome_dependence` over rows followed for half of the time."""
    half = (len(code) - 1) / 2
    old = (np.arange(len(code)) <= half) & (delay <= half)
    late, y, code = np.log1p(delay[old] / half * 1000), y[old], code[old]
    return np.array([[[np.sum((late**i * y**j)[code == k]) for j in range(3)] for i in range(3)] for k in range(arms)])


def stretches(code, y, delay, arms):
    """Return arrivals, and the sums of outcomes and of their squares, by tenth of the time and arm."""
    step = np.arange(len(code))
    arrived = step + delay < len(code)
    place = (10 * step[arrived] // len(code)) * arms + code[arrived]
    return [np.bincount(place, y[arrived] ** j, 10 * arms).reshape(10, arms) for j in range(3)]


def excesses(code, p):
    square = np.sum(p**2, axis=1)
    chosen = code[:, np.newaxis] == np.arange(p.shape[1])
    excess = [*np.sum(chosen - p, axis=0), np.sum(p[chosen] - square)]
    return np.array(excess), np.array([*np.sum(p * (1 - p), axis=0), np.sum(np.sum(p**3, axis=1) - square**2)])


def seldom(below, total, share):
    """Whether so many findings may be chance if the share is the true one: refuted only beyond one in ten thousand."""
    return stats.binom.sf(below - 1, total, share) > 1e-4


# ---------------------------------------------------------------- healthy logs


@pytest.mark.parametrize("policy", ["greedy", "thompson"])
@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_healthy_logs_are_left_in_peace(kind, delay, policy):
    p_values = []
    for seed in range(150):
        horizon, arms = ((500, 2), (1000, 5))[seed % 2]
        code, y, p, late = rows(kind, delay, policy, horizon, arms, seed)
        p_values.append(
            (
                outcome_dependence(moments(code, y, late, arms))[0],
                drift(*stretches(code, y, late, arms)),
                miscalibration(*excesses(code, p)),
            )
        )
    table = np.array(p_values)
    assert np.isfinite(table[:, [0, 2]]).mean() > 0.9
    for level in (0.05, 0.01):
        assert all(seldom(count, len(table), 1.4 * level) for count in (table < level).sum(axis=0))
    assert (table < [1e-3, 1e-4, 1e-4]).any(axis=1).sum() <= 2


def test_the_size_is_not_nothing():
    # normal outcomes and delays that vary: p-values are close to uniform, and a sign can be given
    rng = np.random.default_rng(1)
    z, n, runs = [], 400, 2000
    for _ in range(runs):
        late, y = rng.exponential(size=n), rng.normal(size=n)
        sums = np.array([[[np.sum(late**i * y**j) for j in range(3)] for i in range(3)]])
        z.append(outcome_dependence(sums)[0])
    below = int(np.sum(np.array(z) < 0.05))
    assert 0.02 * runs < below < 0.06 * runs


def test_few_ones_and_few_late_outcomes_are_no_sign():
    # all of 30 ones came at once, like nine outcomes of ten: 4 % of such logs do, and the sum of squares alone is sure
    n, ones, late = 600, 30, 60
    sums = np.zeros((1, 3, 3))
    sums[0, 0] = n, ones, ones
    sums[0, 1:, 0] = late
    p_value, z = outcome_dependence(sums)
    assert -2 < z[0] < -1.5
    # one of the two ones is the only late outcome: an accident of one in fifty
    sums = np.array([[[100.0, 2, 2], [1, 1, 1], [1, 1, 1]]])
    assert outcome_dependence(sums)[0] > 0.2
    assert p_value > 0.05


# ---------------------------------------------------------------- faulty logs


@pytest.mark.parametrize("policy", ["greedy", "thompson"])
def test_delays_that_depend_on_outcomes_are_found(policy):
    for seed in range(20):
        code, y, _, _ = rows("normal", "pareto", policy, 2000, 2, seed)
        late = np.where(np.isnan(y), math.inf, np.random.default_rng(seed).geometric(0.02, len(y)))
        p_value, z = outcome_dependence(moments(code, y, np.floor(late * np.exp(0.5 * (y - 1))), 2))
        assert p_value < 1e-3
        assert direction(z) == "larger outcomes arrive later"
    code, y, _, late = rows("rare", "pareto", policy, 4000, 2, 1)
    p_value, z = outcome_dependence(moments(code, y, np.where(y == 0, 5 * late + 4, late), 2))
    assert p_value < 1e-3
    assert direction(z) == "larger outcomes arrive earlier"


def test_arms_may_differ_in_direction():
    assert direction(np.array([5.0, -4.0, math.nan])) == "larger outcomes arrive later in some arms, earlier in others"
    assert direction(np.array([5.0, -0.3])) == "larger outcomes arrive later"
    assert direction(np.array([-0.5, math.nan])) == "larger outcomes arrive earlier"
    words = dependence_remark(1e-9, np.array([-6.0, 0.2])).text
    assert words.startswith(
        "The delay of an outcome depends on its value (larger outcomes arrive earlier; p < 0.0001)."
    )


@pytest.mark.parametrize("policy", ["greedy", "thompson"])
@pytest.mark.parametrize("arms", [2, 5])
def test_wrong_probabilities_are_found(policy, arms):
    rng = np.random.default_rng(1)
    for seed in range(10):
        code, _, p, _ = rows("normal", "pareto", policy, 2000, arms, seed)
        assert miscalibration(*excesses(code, p)) > 1e-4
        assert miscalibration(*excesses(code, np.roll(p, 1, axis=1))) < 1e-4
        assert miscalibration(*excesses(code, rng.permutation(p))) < 1e-4
    code, _, p, _ = rows("normal", "mostly none", "greedy", 2000, 5, 0)
    assert miscalibration(*excesses(code, np.full_like(p, 0.2))) < 1e-4


def test_an_arm_hardly_ever_chosen_is_not_suspect_for_being_chosen_twice():
    excess, variance = np.array([2 - 0.1]), np.array([0.1])
    assert miscalibration(excess, variance) == pytest.approx(2 * stats.poisson.sf(1, 0.1))
    assert 2 * special.ndtr(-1.9 / math.sqrt(0.1)) < 1e-8
    assert miscalibration(np.array([300.0]), np.array([1e4])) == pytest.approx(2 * special.ndtr(-3), rel=0.15)
    assert math.isnan(miscalibration(np.zeros(3), np.zeros(3)))
    assert miscalibration(np.zeros(2), np.ones(2)) == 1


@pytest.mark.parametrize(("kind", "by"), [("normal", 0.5), ("lognormal", 1.0), ("rare", 0.1)])
def test_outcomes_that_change_are_found(kind, by):
    rng = np.random.default_rng(1)
    for seed in range(5):
        code, y, _, late = rows(kind, "pareto", "thompson", 8000, 2, seed)
        second = np.arange(len(y)) > len(y) / 2
        changed = np.where(second & (rng.random(len(y)) < by), 1.0, y) if kind == "rare" else y + by * second
        assert drift(*stretches(code, y, late, 2)) > 1e-4
        assert drift(*stretches(code, changed, late, 2)) < 1e-4


def test_drift_is_that_of_equal_variances_when_they_are_equal():
    rng = np.random.default_rng(1)
    y = rng.normal(size=(10, 1, 50))
    y = (y - y.mean(axis=2, keepdims=True)) / y.std(axis=2, keepdims=True) + 0.1 * rng.normal(size=(10, 1, 1))
    p_value = drift(np.full((10, 1), 50.0), y.sum(axis=2), np.sum(y**2, axis=2))
    assert p_value == pytest.approx(stats.f_oneway(*y[:, 0]).pvalue, rel=0.15)
    # an arm, or a stretch, with too few outcomes says nothing, nor does one whose outcomes are all equal
    assert math.isnan(drift(np.full((10, 1), 29.0), y.sum(axis=2), np.sum(y**2, axis=2)))
    assert math.isnan(drift(np.full((10, 1), 50.0), np.full((10, 1), 50.0), np.full((10, 1), 50.0)))
    assert math.isnan(drift(np.zeros((10, 2)), np.zeros((10, 2)), np.zeros((10, 2))))


def test_outcomes_far_from_0_are_tested_alike():
    code, y, _, late = rows("normal", "pareto", "greedy", 2000, 2, 1)
    near, far = (outcome_dependence(moments(code, y + by, late, 2)) for by in (0.0, 1e4))
    assert far[0] == pytest.approx(near[0], rel=1e-4)
    near, far = (drift(*stretches(code, y + by, late, 2)) for by in (0.0, 1e4))
    assert far == pytest.approx(near, rel=1e-4)


def test_what_cannot_be_tested_has_no_p_value():
    p_value, z = outcome_dependence(np.zeros((3, 3, 3)))
    assert math.isnan(p_value)
    assert np.isnan(z).all()
    assert z.shape == (3,)
    code, y, _, late = rows("normal", "pareto", "greedy", 500, 2, 1)
    for y_, late_ in ((np.where(np.isnan(y), y, 7.0), late), (y, np.where(np.isinf(late), late, 3.0))):
        assert math.isnan(outcome_dependence(moments(code, y_, late_, 2))[0])


@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_the_likelihood_ratio_of_a_permutation_is_fair(arms, seed):
    # its expectation over one choice is exactly 1, so that Markov's inequality bounds the p-value
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(arms))
    ratio = p[rng.permutation(arms)] / p
    assert np.sum(p * ratio) == pytest.approx(1)
    log_p = np.log(p)[np.newaxis] * np.eye(arms)[:, [0]]  # one row, of arm 0
    assert 0 <= swapped(log_p) <= 1


def test_the_size_of_the_drift_test():
    rng = np.random.default_rng(1)
    below = 0
    for _ in range(1000):
        y = rng.exponential(size=(40, 3, 20))
        below += trend(np.full((40, 3), 20.0), y.sum(axis=2), (y**2).sum(axis=2)) < 0.05
    assert 10 < below < 65  # four shapes that are correlated: below its level, but not nothing


def test_rare_choices_twice_are_no_miscalibration():
    assert miscalibration(np.array([1.9]), np.array([0.1])) > 1e-3
    assert math.isnan(miscalibration(np.zeros(2), np.zeros(2)))


def test_few_of_many_rows_are_sparse():
    assert not is_sparse(np.array([90.0, 3.0]), np.array([30.0, 0.0]))  # a third of 90 may be half by chance
    assert is_sparse(np.array([900.0, 3.0]), np.array([250.0, 3.0]))
    assert most_recorded(np.array([900.0, 3.0]), np.array([225.0, 3.0])) == 0.25


def test_only_outcomes_above_0_are_a_sign_of_events():
    rows, arrived = np.full(2, 900.0), np.full(2, 100.0)
    assert "Every outcome is above 0" in signs.oddities(None, signs.Recorded(1.0, rows, arrived))[0]
    assert signs.oddities(None, signs.Recorded(0.0, rows, arrived)) == []


def test_an_arm_with_few_rows_shows_that_outcomes_are_recorded_if_nearly_all_have_one():
    old, soon = np.array([148.0, 10.0, 0.0]), np.array([33.0, 10.0, 0.0])
    assert not is_sparse(old, soon)
    assert most_recorded(old, soon) == 1
    assert is_sparse(old, np.array([33.0, 4.0, 0.0]))


def test_arms_with_few_rows_show_together_that_outcomes_are_recorded():
    old, soon = np.array([5.0, 5.0, 41.0]), np.array([5.0, 5.0, 0.0])  # one arm's outcomes never arrive
    assert not is_sparse(old, soon)
    assert most_recorded(old, soon) == 1
    assert is_sparse(old, np.array([2.0, 1.0, 0.0]))


def test_arrival_that_is_certain_is_not_tested():
    assert math.isnan(steady_arrival(np.full((3, 1), 50.0), np.full((3, 1), 50.0)))


def conversions(rate=0.1, value=1.0, horizon=400, arms=2, seed=1):
    rng = np.random.default_rng(seed)
    happened = rng.random(horizon) < rate
    outcome = np.where(happened, value, math.nan)
    return bl.Log(rng.integers(arms, size=horizon), outcome, np.full((horizon, arms), 1 / arms))


def ledger_of(log):
    ledger = bl.Ledger(list(log.arms))
    keys = ledger.assign([log.arms[k] for k in log.code], log.propensity)
    arrived = log.arrived
    ledger.land([key for key, yes in zip(keys, arrived, strict=True) if yes], log.outcome[arrived])
    return ledger.sums


def single_value(sums):
    return signs.single_value(sums, sums.shift)


def single_value_remark(sums):
    return signs.single_value_remark(sums, sums.shift)


@pytest.mark.parametrize("value", [1.0, 9.99, 1e-9, 1e12 + 0.1])
def test_a_log_of_what_is_recorded_only_when_it_happens(value):
    log = conversions(value=value)
    first, rest = conversions(value=value, seed=2), conversions(value=value, seed=3)
    for sums in (bl.Sums.of(log), ledger_of(log), bl.Sums.of(first) + bl.Sums.of(rest)):
        assert single_value(sums) == pytest.approx(value, rel=1e-12)
        finding, _ = single_value_remark(sums)
        missing = 1 - sums["arrived"].sum() / sums["assigned"].sum()
        assert f"{missing:.0%} of the rows have no outcome" in finding


def test_one_value_is_no_sign_if_others_could_not_be_missing():
    everything = bl.Log([0, 1] * 50, np.ones(100), np.full((100, 2), 0.5))
    assert single_value(bl.Sums.of(everything)) is None
    assert single_value_remark(bl.Sums.of(everything)) is None
    assert single_value(bl.Sums.of(conversions(horizon=50, rate=0.1))) is None  # five, by chance
    assert single_value(bl.Sums.of(conversions(value=0.0))) is None
    assert single_value(bl.Sums.of(conversions(value=-1.0))) is None
    nothing = bl.Log([0, 1], [math.nan] * 2, np.full((2, 2), 0.5))
    assert single_value(bl.Sums.of(nothing)) is None


def test_any_other_value_is_enough_to_be_trusted():
    log = conversions()
    outcome = log.outcome.copy()
    outcome[np.flatnonzero(np.isnan(outcome))[0]] = 0.0
    assert single_value(bl.Sums.of(bl.Log(log.code, outcome, log.propensity))) is None
    nearly = np.where(np.isnan(outcome), outcome, 1.0)
    nearly[np.flatnonzero(nearly == 1.0)[0]] = 1 + 1e-5
    assert single_value(bl.Sums.of(bl.Log(log.code, nearly, log.propensity))) is None
    # one value for each arm, but not the same
    apart = np.where(log.code == 0, 2.0, 1.0) * np.where(np.isnan(log.outcome), math.nan, 1.0)
    assert single_value(bl.Sums.of(bl.Log(log.code, apart, log.propensity))) is None


def test_conversions_get_no_interval_but_a_warning():
    log = conversions()
    with pytest.warns(bl.BelatedWarning, match=r"is 1, and \d+% of the rows have no outcome"):
        result = bl.estimate(log)
    assert np.isnan(result.std_errors).all()
    assert "--events --window 7d" in single_value_remark(result.sums).text


def test_a_remark_is_two_sentences_and_one_text():
    remark = Remark("It rains.", "Stay in.")
    assert tuple(remark) == ("It rains.", "Stay in.")
    assert remark.text == "It rains. Stay in."
