"""A user's own policy: its result is checked, and what goes wrong is one sentence."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import belated as bl
from belated.base.errors import PolicyError
from belated.simulation.own_policies import OwnPolicy
from belated.simulation.policies import Policy

COUNT, TOTAL = np.zeros(2), np.zeros(2)


def own(function):
    return OwnPolicy(Policy("own", function=function), 2)


def test_a_policy_of_ours_has_no_function_to_call():
    policy = OwnPolicy(bl.policies.uniform(), 2)
    assert policy.function is None
    assert policy.call(lambda a, b: a + b, 1, 2) == 3


@pytest.mark.parametrize("answer", [[0.25, 0.75], (True, False), np.array([0.5, 0.5], np.float32)])
def test_probabilities_are_taken_as_they_are(answer):
    p = own(lambda count, total, t: answer).function(COUNT, TOTAL, 1)
    assert p.dtype == np.float64
    assert p.tolist() == [float(each) for each in answer]


@pytest.mark.parametrize(
    "function", [lambda n, y, t: [0.083333] * 12, numba.njit(lambda n, y, t: np.full(12, 0.083333))]
)
def test_many_probabilities_may_each_be_rounded_to_6_decimals(function):
    arms = {f"arm {k}": bl.arms.bernoulli(0.5) for k in range(12)}
    log = bl.simulate(bl.Bandit(arms), bl.policies.own(function), 20)
    assert (log.propensity[1:] == 0.083333).all()


@pytest.mark.parametrize("answer", [[0.5], [0.5, 0.6], [-0.5, 1.5], [[0.5], [0.5, 0.5]], "A", None, [np.nan, 1.0]])
def test_what_is_not_a_distribution_is_shown_with_its_step(answer):
    with pytest.raises(PolicyError, match=r"at step 3; it must be 2 probabilities that sum to 1"):
        own(lambda count, total, t: answer).function(COUNT, TOTAL, 3)


def test_a_policy_that_raises_is_one_sentence():
    def broken(count, total, t):
        raise ZeroDivisionError("by zero")

    with pytest.raises(PolicyError, match=r"The policy failed at step 2: ZeroDivisionError: by zero\."):
        own(broken).function(COUNT, TOTAL, 2)
