from __future__ import annotations

import math

import numpy as np
import pytest
from naive.contextual import contextual_run

import belated as bl
from belated.kernels.contextual import choose
from belated.kernels.experiment import NEVER
from belated.simulation.contextual_stage import ContextualStage

BANDIT = bl.ContextualBandit(
    {
        "DE": bl.Bandit(
            {"A": bl.arms.normal(0.5), "B": bl.arms.normal(1.0, 2.0)},
            {"A": bl.delays.pareto(0.8).censored(0.3), "B": bl.delays.poisson(20)},
        ),
        "FR": bl.Bandit(
            {"A": bl.arms.exponential(0.5), "B": bl.arms.normal(-0.2)}, bl.delays.constant(7).censored(0.4)
        ),
        "IT": bl.Bandit({"A": bl.arms.normal(), "B": bl.arms.normal()}),
    },
    {"DE": 0.5, "FR": 0.3, "IT": 0.2},
    {"x": bl.arms.normal(1.0, 2.0), "new": bl.arms.bernoulli(0.3)},
    {"x": {"A": 0.7}, "new": -0.4},
    {"x": 0.5, "new": -1.0},
)


@pytest.mark.parametrize(
    "policy",
    [
        bl.policies.epsilon_greedy(0.9, 0.4, burn_in=0.1),
        bl.policies.epsilon_greedy(0.9, 0.4, burn_in=5).batched(4),
        bl.policies.thompson_normal(0.3, burn_in=0.05),
        bl.policies.epsilon_greedy(0.9, 0.4, burn_in=0.1).pooled(),
        bl.policies.thompson_normal(0.3).batched(3).pooled(),
    ],
    ids=["greedy", "batched", "thompson", "pooled", "pooled thompson"],
)
def test_a_run_is_its_plain_twin(policy):
    played = ContextualStage(BANDIT, policy, 400).rows(5, 2)
    twin = contextual_run(BANDIT, policy, 400, 5, 2)
    np.testing.assert_array_equal(played.segment, [row.segment for row in twin])
    np.testing.assert_allclose(played.x, [row.x for row in twin], rtol=1e-14)
    np.testing.assert_array_equal(played.code, [row.arm for row in twin])
    np.testing.assert_allclose(played.propensity, [row.propensity for row in twin], atol=2e-7)
    np.testing.assert_allclose(played.outcome, [row.outcome for row in twin], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(
        np.where(played.late == NEVER, math.inf, played.late.astype(float)), [row.delay for row in twin]
    )


def test_an_arm_that_cannot_be_chosen_is_not_chosen_by_rounding():
    assert choose(np.array([0.5, 0.5 - 1e-16, 0.0]), 1 - 2**-53) == 1
    assert choose(np.array([0.5, 0.5]), 0.5) == 1
    assert choose(np.array([0.0, 1.0]), 0.0) == 1
