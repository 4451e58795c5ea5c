from __future__ import annotations

import pytest

import belated as bl

N = bl.arms.normal
PROMPT = bl.Bandit({"A": N(0), "B": N(0.3)})
UNIFORM, GREEDY = bl.policies.uniform(), bl.policies.epsilon_greedy()


@pytest.mark.parametrize("goal", [{"half_width": 0.3}, {"power": 0.8}])
def test_a_plan_is_drawn(goal):
    from belated.simulation.planning.figure import plan_data

    plan = bl.plan(bl.Bandit(PROMPT.arms, bl.delays.constant(200)), UNIFORM, **goal)
    data = plan_data(plan)
    assert data["chosen"] == (plan.wait, plan.horizon)
    assert {0, 200} <= set(data["waits"])
    assert len(plan.plot().axes) == 2
