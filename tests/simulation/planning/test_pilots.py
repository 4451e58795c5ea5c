from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive.planning import kaplan_meier

import belated as bl
from belated.simulation.planning.pilots import _delays

UNIFORM, GREEDY = bl.policies.uniform(), bl.policies.epsilon_greedy()


@given(rows=st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=40))
def test_delays_of_a_pilot_follow_kaplan_and_meier(rows):
    waited, arrived = np.array([w for w, _ in rows], dtype=float), np.array([has_arrived for _, has_arrived in rows])
    drawn = _delays(waited, arrived, 1.0)
    curve = kaplan_meier(waited.tolist(), arrived.tolist())
    for at in range(14):
        expected = max((share for d, share in curve.items() if d <= at), default=0.0)
        assert (drawn <= at).mean() == pytest.approx(expected, abs=1 / 2000)


def test_a_pilot_recovers_the_bandit_behind_it():
    truth = bl.Bandit(
        {"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.6)},
        {"A": bl.delays.geometric(500).censored(0.3), "B": bl.delays.constant(40)},
    )
    pilot = bl.pilot(bl.simulate(truth, UNIFORM, 10_000, seed=2))
    assert pilot.bandit.means["B"] == pytest.approx(0.6, abs=0.03)
    assert pilot.bandit.arms["A"].name == "bernoulli"
    assert pilot.bandit.delay("A").quantile(0.5) == pytest.approx(500 * math.log(2), rel=0.1)
    assert np.isinf(pilot.bandit.delay("A").values).mean() == pytest.approx(0.3, abs=0.03)
    assert pilot.bandit.delay("B").quantile(0.01) == pilot.bandit.delay("B").quantile(0.99) == 40
    assert pilot.policy.shares == {"A": pytest.approx(0.5), "B": pytest.approx(0.5)}
    assert "never to arrive" in repr(pilot)


def test_dates_become_steps_by_the_pace_of_assignments():
    rng = np.random.default_rng(0)
    at = np.datetime64("2026-01-01T00:00:00") + np.arange(960) * np.timedelta64(15, "m")  # 96 a day
    log = bl.Log(
        rng.integers(0, 2, 960), rng.normal(size=960), np.full(960, 0.5), assigned_at=at,
        delay=np.full(960, np.timedelta64(6, "h")), as_of=at[-1] + np.timedelta64(1, "D"),
    )  # fmt: skip
    pilot = bl.pilot(log)
    assert pilot.per_day == pytest.approx(96)
    assert pilot.bandit.delay(0).quantile(0.5) == 24
    assert bl.pilot(log, per_day=960).bandit.delay(0).quantile(0.5) == 240
    planned = bl.plan(log, half_width=0.2)
    assert planned.per_day == pytest.approx(96)
    assert planned.policy.shares[0] == pytest.approx(0.5, abs=0.1)  # only the chosen arm's is known: how often it was


def test_batches_share_a_time():
    arm = np.tile([0, 1], 50)
    log = bl.Log(arm, arm * 1.5 + np.arange(100) % 3, np.full((100, 2), 0.5), assigned_at=np.repeat(np.arange(10), 10))
    assert bl.pilot(log).bandit.delay(0).quantile(0.99) == 0
    late = bl.Log(
        arm, arm + np.arange(100) % 3, np.full((100, 2), 0.5), assigned_at=np.repeat(np.arange(10), 10),
        delay=np.full(100, 2),
    )  # fmt: skip
    assert bl.pilot(late).bandit.delay(0).quantile(0.5) == 20


def test_pilots_that_say_too_little_are_refused():
    with pytest.raises(bl.LogError, match="Arm 'B' has 1 outcome; a plan needs at least two"):
        bl.pilot(bl.Log(["A", "A", "B"], [1.0, 2.0, 3.0], [[0.5, 0.5]] * 3))
    with pytest.raises(bl.LogError, match="at the same time"):
        bl.pilot(bl.Log(["A", "B"] * 4, range(8), [[0.5, 0.5]] * 8, assigned_at=[3] * 8, delay=[2] * 8))
    few = bl.pilot(bl.Log(["A", "B"] * 4, range(8), [[0.5, 0.5]] * 8))
    assert "Some arms have fewer than 30 outcomes: A has 4, B has 4" in repr(few)


def test_segments_that_are_not_told_apart_are_said():
    bandit = bl.ContextualBandit(dict.fromkeys(("DE", "FR"), bl.Bandit({"A": bl.arms.normal(), "B": bl.arms.normal()})))
    fitted = bl.pilot(bl.simulate(bandit, bl.policies.uniform(), 200))
    assert any("segments are not kept apart" in note for note in fitted.notes)


@pytest.mark.parametrize("measure", ["indicator", "count", "sum"])
def test_a_pilot_of_events_has_their_rates_numbers_delays_and_values(measure):
    value = bl.arms.exponential(3.0)
    bandit = bl.Bandit(
        {"A": bl.arms.events(0.2, value), "B": bl.arms.events(0.3, value, 0.6)},
        {"A": bl.delays.geometric(50), "B": bl.delays.geometric(200)},
        window=600,
        measure=measure,
    )
    log = bl.simulate(bandit, bl.policies.uniform(), 20_000, seed=1)
    fitted = bl.pilot(log)
    assert fitted.bandit.window == 600
    assert fitted.bandit.measure == measure
    est = bl.estimate(log, "mean")
    for arm in "AB":
        assert fitted.bandit.means[arm] == pytest.approx(est.arm(arm).estimate, rel=0.02)
        assert fitted.bandit.outcomes[arm].sd == pytest.approx(bandit.outcomes[arm].sd, rel=0.1)
    own = "A" if measure == "indicator" else "B"  # the first of several events comes sooner than each of them
    assert fitted.bandit.delay(own).quantile(0.3) == pytest.approx(bandit.delay(own).quantile(0.3), rel=0.15)
    plan = bl.plan(fitted, half_width=4 * est.contrast("B", "A").std_error, replications=40, wait=0)
    assert plan.reached


@pytest.mark.parametrize(("measure", "cap"), [("count", 1.5), ("sum", 4.0)])
def test_a_pilot_of_events_below_a_cap_has_capped_outcomes(measure, cap):
    arm = bl.arms.events(0.3, bl.arms.lognormal(1.0, 1.5), 0.8)
    bandit = bl.Bandit({"A": arm, "B": arm}, bl.delays.geometric(100), window=300, measure=measure)
    log = bl.simulate(bandit, bl.policies.uniform(), 20_000, seed=1)
    capped, est = bl.pilot(log.capped(cap)).bandit, bl.estimate(log.capped(cap), "mean")
    assert capped.measure == "sum"
    for arm in "AB":
        assert capped.means[arm] == pytest.approx(est.arm(arm).estimate, rel=0.03)
        outcome = np.minimum(log.events.totals(len(log))[log.code == "AB".index(arm)], cap)
        assert outcome.std() < capped.outcomes[arm].sd < 1.25 * outcome.std()
        assert bl.pilot(log).bandit.means[arm] > 1.4 * capped.means[arm]


def test_a_pilot_says_that_its_events_were_recorded_late():
    given = {"unit": [0, 1, 2, 3], "age": [1, 1, 1, 1]}
    options = {"window": 5, "assigned_at": list(range(10)), "as_of": 20}
    prompt = bl.Log.of_events(["A", "B"] * 5, "uniform", given, **options)
    late = bl.Log.of_events(["A", "B"] * 5, "uniform", given, **options, lag=3)
    said = "Events of the pilot were recorded up to 3 steps late; the plan knows them at once: wait 3 steps longer."
    assert said in bl.pilot(late).notes
    assert said not in bl.pilot(prompt).notes
    assert said in bl.plan(late, half_width=0.5, replications=40, wait=0).notes


def test_a_pilot_of_too_few_events_is_refused():
    log = bl.Log.of_events(["A", "B"] * 5, "uniform", {"unit": [0, 2, 4], "age": [1, 1, 1]}, window=5,
                           assigned_at=list(range(10)), as_of=12)  # fmt: skip
    with pytest.raises(bl.LogError, match="Arm 'B' has 0 events; a plan needs at least two"):
        bl.pilot(log)
