from __future__ import annotations

import numba
import numpy as np
import pytest
from scipy import special, stats

import belated as bl
from belated.log.segments import unscaled

BANDIT = bl.ContextualBandit(
    {
        "DE": bl.Bandit({"A": bl.arms.normal(0.5), "B": bl.arms.normal(1.0)}, bl.delays.poisson(5)),
        "FR": bl.Bandit({"A": bl.arms.normal(0.5), "B": bl.arms.normal(-0.2)}, bl.delays.poisson(5).censored(0.3)),
    },
    {"DE": 0.7, "FR": 0.3},
    {"x": bl.arms.normal(0.0, 2.0)},
    {"x": {"A": 0.7}},
    {"x": 0.8},
)
GREEDY = bl.policies.epsilon_greedy(decay=0.3, burn_in=0.1)


@pytest.fixture(scope="module")
def log():
    return bl.simulate(BANDIT, GREEDY, 20_000, seed=1)


def test_the_same_seed_gives_the_same_log():
    a, b, c, d = (bl.simulate(BANDIT, GREEDY, 300, seed, run) for seed, run in ((1, 0), (1, 0), (2, 0), (1, 1)))
    np.testing.assert_array_equal(a.outcome, b.outcome)
    np.testing.assert_array_equal(a.segment_column.code, b.segment_column.code)
    for other in (c, d):
        assert not np.array_equal(a.segment_column.code, other.segment_column.code)


def test_segments_come_in_their_shares_and_covariates_in_their_distribution(log):
    assert log.segments == ("DE", "FR")
    assert stats.binomtest(int((log.segment_column.code == 0).sum()), len(log), 0.7).pvalue > 1e-3
    assert stats.kstest(unscaled(log.covariates, "x"), stats.norm(0.0, 2.0).cdf).pvalue > 1e-3


def test_arms_are_chosen_with_the_logged_probabilities_of_their_segment(log):
    for segment, best in ((0, 1), (1, 0)):
        rows = log.segment_column.code == segment
        p = log.propensity[rows, 1]
        excess = ((log.code[rows] == 1) - p).sum() / np.sqrt((p * (1 - p)).sum())
        assert abs(excess) < 3.3
        late = log.propensity[rows][-500:]
        assert (late.argmax(axis=1) == best).all()
        # epsilon-greedy counts the segment's own steps
        steps = np.arange(1, rows.sum() + 1)
        burnt = steps <= GREEDY.burn_in_steps(BANDIT.mix[segment] * len(log))
        np.testing.assert_array_equal(log.propensity[rows][burnt], 0.5)
        np.testing.assert_allclose(log.propensity[rows][~burnt].min(axis=1), np.minimum(steps[~burnt] ** -0.3, 0.5))


def test_arrival_follows_the_log_odds_of_the_covariate(log):
    everything = log.at(None)
    rows = log.segment_column.code == 1
    x, arrived = unscaled(log.covariates, "x")[rows], everything.arrived[rows]
    chance = special.expit(special.logit(0.7) + 0.8 * x)
    for low, high in ((-9, 0), (0, 2), (2, 9)):
        part = (x > low) & (x <= high)
        error = np.sqrt((chance[part] * (1 - chance[part])).sum())
        assert abs((arrived[part] - chance[part]).sum()) < 3.3 * error
    assert everything.arrived[~rows].all()  # what always arrives still does


def test_a_pooled_policy_does_not_look_at_segments():
    pooled = bl.simulate(BANDIT, GREEDY.pooled(), 5000, seed=3)
    steps = np.arange(1, 5001)
    np.testing.assert_array_equal(pooled.propensity[:500], 0.5)
    np.testing.assert_allclose(pooled.propensity[500:].min(axis=1), np.minimum(steps[500:] ** -0.3, 0.5))
    assert repr(GREEDY.pooled()) == "epsilon_greedy(c=1.0, decay=0.3, burn_in=0.1).pooled()"


def test_one_segment_without_covariates_is_simulated_too():
    log = bl.simulate(bl.ContextualBandit({"DE": BANDIT.segments["DE"]}), bl.policies.uniform(), 200)
    assert log.segments == ("DE",)
    assert log.covariates is None


def softmax(count, total, t):
    """Be wrong at step 301."""
    weights = np.exp(total / np.maximum(count, 1.0))
    return weights / weights.sum() + (1.0 if t == 301 else 0.0)


COMPILED = numba.njit(softmax)


def test_a_policy_of_ones_own_sees_its_segment_plain_or_compiled():
    plain, fast = (bl.simulate(BANDIT, bl.policies.own(f), 300, seed=4) for f in (softmax, COMPILED))
    np.testing.assert_array_equal(plain.code, fast.code)
    np.testing.assert_allclose(plain.propensity, fast.propensity, rtol=1e-12)
    first = [plain.segment_column.code.tolist().index(segment) for segment in (0, 1)]
    np.testing.assert_array_equal(plain.propensity[first], 0.5)  # nothing is known of a segment's first row


@pytest.mark.parametrize("function", [softmax, COMPILED], ids=["plain", "compiled"])
def test_a_policy_that_fails_is_told_at_which_step(function):
    with pytest.raises(bl.PolicyError, match=r"returned \[1\.\d+, 1\.\d+\] at step 301; it must be 2 probabilities"):
        bl.simulate(BANDIT, bl.policies.own(function), 1000)


def test_a_horizon_that_is_too_long_is_refused():
    with pytest.raises(bl.OptionError, match="it must be at most"):
        bl.simulate(BANDIT, GREEDY, 2**31)
