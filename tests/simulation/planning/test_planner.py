from __future__ import annotations

import pytest
from scipy import special

import belated as bl

N = bl.arms.normal
PROMPT = bl.Bandit({"A": N(0), "B": N(0.3)})
UNIFORM, GREEDY = bl.policies.uniform(), bl.policies.epsilon_greedy()


def test_half_that_never_come_take_twice_as_many_and_waiting_is_no_help():
    half = bl.Bandit(PROMPT.arms, bl.delays.none().censored(0.5))
    plan = bl.plan(half, UNIFORM, half_width=0.2)
    full = bl.plan(half, UNIFORM, half_width=0.2, wait="full")
    assert plan.horizon == pytest.approx(8 * (special.ndtri(0.975) / 0.2) ** 2, rel=0.06)
    assert plan.wait == full.wait == 0
    assert len(plan.options) == 1


def test_slow_outcomes_are_waited_for_as_long_as_it_pays():
    slow = bl.Bandit(PROMPT.arms, bl.delays.constant(500))
    plan = bl.plan(slow, UNIFORM, half_width=0.2)
    assert plan.wait == 500
    assert plan.horizon == pytest.approx(4 * (special.ndtri(0.975) / 0.2) ** 2, rel=0.05)
    by_wait = {option.wait: option.horizon for option in plan.options}
    assert by_wait[0] > plan.horizon + 450
    assert plan.total == plan.horizon + 500
    at_once = bl.plan(slow, UNIFORM, half_width=0.2, wait=0)
    assert at_once.wait == 0
    assert at_once.horizon == pytest.approx(by_wait[0], rel=0.05)


def test_an_assurance_is_reached_in_that_share_of_experiments():
    plan = bl.plan(PROMPT, GREEDY, half_width=0.3, assurance=0.8)
    cell = bl.study(PROMPT, GREEDY, plan.horizon, 1000, seed=5).cell("daipw", ("B", "A"))
    assert ((cell.high - cell.low) / 2 <= 0.3).mean() == pytest.approx(0.8, abs=0.06)
    assert plan.horizon > bl.plan(PROMPT, GREEDY, half_width=0.3).horizon


def test_the_interval_of_the_horizon_holds_the_one_of_very_many_runs():
    short = bl.Bandit({"A": N(0), "B": N(0.6)})
    sure = bl.plan(short, UNIFORM, power=0.8, replications=5_000, seed=1000).horizon
    plans = [bl.plan(short, UNIFORM, power=0.8, replications=300, seed=seed) for seed in range(20)]
    held = sum(plan.low <= sure <= plan.high for plan in plans)
    assert held >= 16  # 95 % of 20: fewer than 16 in 0.3 % of the time


def test_a_plan_for_a_segment_needs_as_many_rows_of_it_as_a_plan_for_it_alone():
    slow = bl.Bandit({"A": N(0), "B": N(0.3)}, bl.delays.constant(50))
    bandit = bl.ContextualBandit({"DE": PROMPT, "FR": slow}, {"DE": 0.75, "FR": 0.25})
    plan = bl.plan(bandit, UNIFORM, bl.in_segment("FR", ("B", "A")), half_width=0.4, wait="full", replications=100)
    alone = bl.plan(slow, UNIFORM, ("B", "A"), half_width=0.4, wait="full")
    assert plan.wait == alone.wait == 50
    assert plan.horizon == pytest.approx(4 * alone.horizon, rel=0.1)
    assert plan.target == "B - A in FR"


def test_events_need_fewer_assignments_if_open_windows_count_and_none_more_if_all_are_waited_for():
    late = {"A": bl.delays.geometric(100), "B": bl.delays.geometric(300)}
    bandit = bl.Bandit({"A": bl.arms.events(0.1), "B": bl.arms.events(0.2)}, late, window=500)
    options = {"half_width": 0.06, "estimator": "dipw", "replications": 60, "workers": 1}
    soon, patient = (bl.plan(bandit, bl.policies.uniform(), wait=wait, **options) for wait in (0, "full"))
    closed = bl.plan(bandit, bl.policies.uniform(), wait=0, maturing=False, **options)
    assert patient.wait == 500
    assert patient.horizon < soon.horizon < 0.92 * closed.horizon
    a, b = bandit.means.values()
    textbook = 2 * 1.96**2 * (a * (1 - a) + b * (1 - b)) / 0.06**2
    assert patient.horizon == pytest.approx(textbook, rel=0.1)


@pytest.mark.parametrize(("half_width", "delay", "least", "most"), [(5, 0, 8, 10), (1e9, 0, 8, 9), (3, 400, 408, 420)])
def test_a_plan_is_no_shorter_or_longer_than_where_experiments_begin_to_have_intervals(half_width, delay, least, most):
    bandit = bl.Bandit({"A": bl.arms.normal(0), "B": bl.arms.normal(1)}, bl.delays.constant(delay))
    plan = bl.plan(bandit, bl.policies.uniform(), half_width=half_width, wait=0, replications=400, workers=1)
    assert plan.reached
    assert least <= plan.horizon <= most
    assert 0.8 * plan.horizon < plan.low < plan.horizon < plan.high < 1.2 * plan.horizon


def test_no_extrapolated_wait_needs_more_assignments_than_a_shorter_one():
    bandit = bl.Bandit({"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.5)}, bl.delays.geometric(20))
    options = {"half_width": 0.02, "replications": 400, "progress": False}
    short = bl.plan(bandit, bl.policies.uniform(), ("B", "A"), max_horizon=300, **options)
    assert not short.reached
    assert [option.horizon for option in short.options] == sorted((o.horizon for o in short.options), reverse=True)
    enough = bl.plan(bandit, bl.policies.uniform(), ("B", "A"), max_horizon=20_000, **options)
    assert 0.8 < short.horizon / enough.horizon < 1.2
