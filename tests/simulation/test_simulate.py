from __future__ import annotations

import numpy as np
import pytest

import belated as bl

TWO = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5, 2.0)})


def test_the_same_seed_gives_the_same_log():
    policy = bl.policies.epsilon_greedy(burn_in=0.1)
    a, b, c = (bl.simulate(TWO, policy, 500, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a.outcome, b.outcome)
    np.testing.assert_array_equal(a.propensity, b.propensity)
    assert not np.array_equal(a.outcome, c.outcome)


def test_a_simulated_log_can_wait_for_what_is_still_out():
    bandit = bl.Bandit({"A": bl.arms.normal(), "B": bl.arms.normal()}, bl.delays.constant(50))
    log = bl.simulate(bandit, bl.policies.uniform(), 100)
    assert log.arrived.sum() == 50
    assert log.at(None).arrived.all()


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: bl.arms.normal(0, 0), "`sd` is 0; it must be above 0"),
        (lambda: bl.arms.bernoulli(1.2), "`rate` is 1.2; it must lie in [0, 1]"),
        (lambda: bl.arms.empirical([]), "at least one number"),
        (lambda: bl.delays.empirical([1.5]), "whole steps"),
        (lambda: bl.delays.geometric(-1), "must not be negative"),
        (lambda: bl.delays.negative_binomial(5, 0), "`rate` is 0"),
        (lambda: bl.delays.poisson(3).censored(2), "`never` is 2"),
        (lambda: bl.policies.epsilon_greedy(decay=1.5), "`decay` is 1.5"),
        (lambda: bl.policies.epsilon_greedy(burn_in=-1), "`burn_in` is -1"),
        (lambda: bl.policies.fixed({"A": 0.5}), "must sum to 1"),
        (lambda: bl.policies.uniform().batched(0), "`batch` is 0"),
        (lambda: bl.policies.own(3), "must be a function"),
        (lambda: bl.Bandit({}), "must map labels to arms"),
        (lambda: bl.Bandit({"A": 1.0}), "such as arms.normal(1.0)"),
        (lambda: bl.Bandit({"A": bl.arms.normal()}, {"B": bl.delays.none()}), "not one of the arms"),
        (lambda: bl.simulate(TWO, bl.policies.uniform(), 0), "`horizon` is 0"),
        (lambda: bl.simulate(TWO, bl.policies.uniform(), 10, -1), "`seed` is -1"),
        (lambda: bl.simulate(TWO, "thompson", 10), "must be a policy"),
        (lambda: bl.simulate(TWO, bl.policies.thompson_beta(), 10), "needs Bernoulli arms"),
        (lambda: bl.simulate(TWO, bl.policies.fixed({"A": 1.0}), 10), "the arms are ['A', 'B']"),
    ],
)
def test_what_cannot_be_simulated_is_refused_before_anything_runs(ask, sentence):
    with pytest.raises(bl.BelatedError) as caught:
        ask()
    assert sentence in str(caught.value)
