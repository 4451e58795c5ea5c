from __future__ import annotations

import numpy as np
import pytest
from naive.event_runs import event_run

import belated as bl
from belated.simulation.event_stage import EventStage


def shop(measure, value=None, repeats=0.7, scale=1.0):
    return bl.Bandit(
        {"A": bl.arms.events(0.3 * scale, value, repeats), "B": bl.arms.events(0.4 * scale, value, repeats)},
        {"A": bl.delays.poisson(5), "B": bl.delays.pareto(1.1, 8).censored(0.1)},
        window=40,
        measure=measure,
    )


SUMS = shop("sum", bl.arms.normal(1.0, 2.0))
SEGMENTS = bl.ContextualBandit({"DE": shop("count"), "FR": shop("count", scale=0.5)}, {"DE": 0.7, "FR": 0.3})
GREEDY = bl.policies.epsilon_greedy(0.9, 0.4, burn_in=0.1)
THOMPSON = bl.policies.thompson_normal(0.3, burn_in=0.05)


@pytest.mark.parametrize(
    ("bandit", "policy"),
    [
        (shop("indicator"), GREEDY),
        (shop("indicator"), GREEDY.batched(7).matured()),
        (shop("count"), THOMPSON.matured()),
        (SUMS, THOMPSON),
        (SUMS, GREEDY.matured()),
        (SEGMENTS, GREEDY),
        (SEGMENTS, THOMPSON.batched(3).matured()),
        (SEGMENTS, GREEDY.pooled().matured()),
    ],
    ids=["indicator", "matured", "count", "sum", "matured sum", "segments", "matured segments", "pooled"],
)
def test_a_run_is_its_plain_twin(bandit, policy):
    (segment, code, propensity), (row, age, value) = EventStage(bandit, policy, 400).run(5, 2)
    twin = event_run(bandit, policy, 400, 5, 2)
    np.testing.assert_array_equal(segment, [r.segment for r in twin])
    np.testing.assert_array_equal(code, [r.arm for r in twin])
    np.testing.assert_allclose(propensity, [r.propensity for r in twin], atol=2e-7)
    expected = [(i, *event) for i, r in enumerate(twin) for event in r.events]
    assert len(expected) > 40
    np.testing.assert_allclose(np.column_stack([row, age, value]), expected, rtol=1e-12)


def test_there_is_room_for_any_number_of_events():
    bandit = bl.Bandit({"A": bl.arms.events(1.0, repeats=9.0)}, bl.delays.poisson(5), window=100, measure="count")
    row = EventStage(bandit, bl.policies.uniform(), 3000).run(0, 0).events.row
    assert len(row) > 25_000
    assert (np.diff(row) >= 0).all()
    assert len(np.unique(row)) == 3000
