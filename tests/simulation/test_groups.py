from __future__ import annotations

import numpy as np
import pytest

import belated as bl
from belated.simulation.groups import GroupStart
from belated.simulation.stage import kernel_rule

MIX = np.array([0.25, 0.75])


def start(policy, horizon=400):
    return GroupStart(policy, kernel_rule(("A", "B", "C"), policy, horizon), MIX, horizon, 3)


def test_each_segment_has_its_share_of_the_burn_in():
    policy = bl.policies.epsilon_greedy(burn_in=0.1)
    assert start(policy).burn_in.tolist() == [10, 30]
    assert start(policy.pooled()).burn_in.tolist() == [40]


def test_a_burn_in_is_even_and_fixed_shares_hold_from_the_first_row():
    np.testing.assert_array_equal(start(bl.policies.epsilon_greedy()).p, np.full((2, 3), 1 / 3))
    fixed = bl.policies.fixed({"A": 0.2, "B": 0.3, "C": 0.5})
    np.testing.assert_array_equal(start(fixed).p, [[0.2, 0.3, 0.5]] * 2)


@pytest.mark.parametrize("policy", [bl.policies.thompson_normal(), bl.policies.thompson_beta()])
def test_only_thompson_sampling_has_a_memo_for_each_group(policy):
    assert len(start(policy).memo) == 2
    assert start(bl.policies.ucb()).memo is None


def test_runs_do_not_share_what_they_know():
    first = start(bl.policies.epsilon_greedy())
    first.groups().p[:] = 0.0
    assert (first.groups().p > 0).all()
