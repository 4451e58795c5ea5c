from __future__ import annotations

import math

import numba
import numpy as np
import pytest

import belated as bl
from belated.simulation.event_stage import EventStage

SHOP = bl.Bandit(
    {"A": bl.arms.events(0.2), "B": bl.arms.events(0.3, repeats=0.5)},
    {"A": bl.delays.geometric(20), "B": bl.delays.geometric(60)},
    window=100,
)
VALUED = bl.Bandit(
    {"A": bl.arms.events(0.2, bl.arms.lognormal(0.0, 0.5)), "B": bl.arms.events(0.3, bl.arms.exponential(2.0), 0.5)},
    {"A": bl.delays.lognormal(3.0, 1.0), "B": bl.delays.pareto(1.0, 30.0).censored(0.2)},
    window=100,
)
COUNTED = bl.Bandit(VALUED.arms, VALUED.delays, window=100, measure="count")
GREEDY = bl.policies.epsilon_greedy(decay=0.3, burn_in=0.1)


@pytest.mark.parametrize("bandit", [SHOP, VALUED, COUNTED], ids=["indicator", "sum", "count"])
def test_outcomes_within_the_window_have_their_means_and_standard_deviations(bandit):
    log = bl.simulate(bandit, bl.policies.uniform(), 100_000, seed=1)
    for k, (label, arm) in enumerate(bandit.outcomes.items()):
        y = log.outcome[log.code == k]
        assert abs(y.mean() - arm.mean) < 4 * arm.sd / math.sqrt(len(y))
        assert y.std() == pytest.approx(arm.sd, rel=0.05)
        assert bandit.means[label] == arm.mean


def test_means_are_those_of_the_formulas():
    early, late = 1 - (20 / 21) ** 101, 1 - (60 / 61) ** 101
    # one event and a geometric number of others, of mean 1/2, each within the window with probability `late`
    other = sum((2 / 3) * (1 / 3) ** n * (1 - late) ** (n + 1) for n in range(99))
    assert SHOP.means == pytest.approx({"A": 0.2 * early, "B": 0.3 * (1 - other)})
    assert SHOP.outcomes["B"] == bl.arms.bernoulli(SHOP.means["B"])
    assert bl.Bandit(SHOP.arms, SHOP.delays, 100, "count").means["B"] == pytest.approx(0.3 * 1.5 * late)
    assert VALUED.means["B"] == pytest.approx(0.3 * 1.5 * 0.8 * (1 - (1 + 101 / 30) ** -1) * 2.0)


def test_the_log_is_that_of_its_events_as_of_the_horizon():
    log = bl.simulate(VALUED, GREEDY, 500, seed=3)
    (_, code, propensity), (row, age, value) = EventStage(VALUED, GREEDY, 500).run(3, 0)
    same = bl.Log.of_events(
        np.array(["A", "B"])[code], propensity, {"unit": row, "age": age, "value": value}, window=100,
        assigned_at=np.arange(1, 501), as_of=500, arms=["A", "B"],
    )  # fmt: skip
    assert log.events.measure == "sum"
    assert log.as_of == 500
    np.testing.assert_array_equal(log.outcome, same.outcome)
    assert bl.estimate(log).contrast("B", "A") == bl.estimate(same).contrast("B", "A")
    later = bl.simulate(VALUED, GREEDY, 500, seed=3).at(600)
    assert later.arrived.all()


def test_the_same_seed_gives_the_same_log():
    a, b, c, d = (bl.simulate(SHOP, GREEDY, 300, seed, run) for seed, run in ((1, 0), (1, 0), (2, 0), (1, 1)))
    np.testing.assert_array_equal(a.outcome, b.outcome)
    for other in (c, d):
        assert not np.array_equal(a.outcome, other.outcome)


def test_events_differ_by_segment():
    poor = bl.Bandit({"A": bl.arms.events(0.05), "B": bl.arms.events(0.02)}, SHOP.delays, window=100)
    bandit = bl.ContextualBandit({"DE": SHOP, "FR": poor}, {"DE": 0.6, "FR": 0.4})
    log = bl.simulate(bandit, GREEDY, 40_000, seed=1)
    assert log.segments == ("DE", "FR")
    for s, means in enumerate(bandit.means_by_segment.values()):
        for k, mean in enumerate(means.values()):
            y = log.outcome[(log.segment_column.code == s) & (log.code == k)]
            assert abs(y.mean() - mean) < 4 * math.sqrt(mean / len(y))
    assert bandit.means["A"] == pytest.approx(0.6 * SHOP.means["A"] + 0.4 * poor.means["A"])


def test_a_policy_knows_the_events_so_far():
    known = []

    def greedy(count, total, t):
        known.append((count.tolist(), total.tolist()))
        return [0.5, 0.5]

    log = bl.simulate(SHOP, bl.policies.own(greedy), 200, seed=1)
    happened = np.asarray(log.assigned_at)[log.events.row] + np.maximum(log.events.age, 1)
    for t, (count, total) in enumerate(known, start=1):
        assert count == [(log.code[: t - 1] == k).sum() for k in (0, 1)]
        assert total == [(log.code[log.events.row[happened <= t]] == k).sum() for k in (0, 1)]


@pytest.mark.parametrize(
    ("bandit", "policy", "sentence"),
    [
        (SHOP, bl.policies.own(lambda count, total, t: [2, 0]), "The policy returned [2, 0] at step 1; it must be 2"),
        (VALUED, bl.policies.thompson_beta(), "needs Bernoulli arms or the indicator of events."),
        (
            bl.Bandit({"A": bl.arms.normal()}),
            bl.policies.epsilon_greedy().matured(),
            "`policy` learns from maturing events, which needs arms of events, such as arms.events(0.1).",
        ),
    ],
)
def test_what_cannot_be_simulated_is_said_in_a_sentence(bandit, policy, sentence):
    with pytest.raises(bl.BelatedError) as caught:
        bl.simulate(bandit, policy, 50)
    assert sentence in str(caught.value)


def test_a_compiled_policy_sees_what_a_plain_one_sees():
    def soft(count, total, t):
        first = (total[0] + 1) / (count[0] + 2)
        second = (total[1] + 1) / (count[1] + 2)
        return np.array([first / (first + second), second / (first + second)])

    compiled = numba.njit(soft)
    for change in (lambda policy: policy, bl.policies.Policy.matured):
        plain, fast = (change(bl.policies.own(function)) for function in (soft, compiled))
        one, other = (bl.simulate(SHOP, policy, 200, seed=1) for policy in (plain, fast))
        np.testing.assert_allclose(one.propensity, other.propensity, rtol=1e-12)
        np.testing.assert_array_equal(one.outcome, other.outcome)
