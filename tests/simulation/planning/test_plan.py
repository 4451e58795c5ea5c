from __future__ import annotations

import numpy as np
import pytest
from naive.planning import half_widths
from scipy import special

import belated as bl

N = bl.arms.normal
LATE = bl.Bandit({"A": N(0), "B": N(0.5)}, {"A": bl.delays.pareto(0.5).censored(0.2), "B": bl.delays.geometric(50)})
PROMPT = bl.Bandit({"A": N(0), "B": N(0.3)})
FALLING = bl.Bandit({"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.2)})
RATES = bl.Bandit({"A": bl.arms.bernoulli(0.1), "B": bl.arms.bernoulli(0.2)})
UNIFORM, GREEDY = bl.policies.uniform(), bl.policies.epsilon_greedy()


def test_a_plan_for_equal_shares_is_the_textbooks():
    plan = bl.plan(PROMPT, UNIFORM, ("B", "A"), half_width=0.1)
    textbook = 4 * (special.ndtri(0.975) / 0.1) ** 2
    assert plan.horizon == pytest.approx(textbook, rel=0.02)
    assert plan.low <= plan.horizon <= plan.high
    assert plan.wait == 0
    assert plan.reached
    assert "mean half-width of 0.1" in repr(plan)


def test_power_for_equal_shares_is_the_textbooks():
    plan = bl.plan(PROMPT, UNIFORM, power=0.8)
    textbook = 4 * ((special.ndtri(0.975) + special.ndtri(0.8)) / 0.3) ** 2
    assert plan.horizon == pytest.approx(textbook, rel=0.08)
    assert "excludes 0 in 80% of experiments" in plan.words


@pytest.mark.parametrize("policy", [UNIFORM, GREEDY])
def test_fresh_experiments_reach_what_was_promised(policy):
    plan = bl.plan(LATE, policy, ("B", "A"), half_width=0.3)
    widths, _ = half_widths(LATE, policy, ("B", "A"), plan.horizon, plan.wait, 60, seed=99)
    assert np.mean(widths) == pytest.approx(0.3, rel=0.08)


def test_the_same_seed_gives_the_same_plan():
    first, second, other = (bl.plan(LATE, GREEDY, half_width=0.4, seed=s) for s in (3, 3, 4))
    assert first.horizon == second.horizon
    assert first.to_json() == second.to_json()
    assert first.to_json() != other.to_json()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "exactly one goal: `half_width` or `power`"),
        ({"half_width": 0.1, "power": 0.8}, "exactly one goal"),
        ({"half_width": 0}, "`half_width` is 0"),
        ({"power": 1.0}, "`power` is 1.0"),
        ({"power": 0.04}, "must be above 0.05"),
        ({"power": 0.8, "assurance": 0.9}, "`assurance` needs"),
        ({"power": 0.9999}, "`power` is 0.9999; 4,000 simulated experiments can measure up to 0.99875; ask for less"),
        ({"half_width": 0.1, "assurance": 0.9, "replications": 40}, "`assurance` is 0.9; 40 simulated"),
        ({"half_width": 2, "bandit": RATES}, "`half_width` is 2; outcomes are 0 or 1, so it must be below 1"),
        ({"power": 0.8, "null": 0.3}, "equals the null"),
        ({"power": 0.8, "null": 0.3 + 5e-17}, "equals the null"),
        ({"power": 0.8, "null": -0.1, "target": ("B", "A"), "bandit": FALLING}, "equals the null, -10 points"),
        ({"half_width": 0.1, "wait": -1}, "`wait` is -1"),
        ({"half_width": 0.1, "wait": "long"}, "`wait` is 'long'"),
        ({"half_width": 0.1, "patience": 0.5}, "`patience` is 0.5"),
        ({"half_width": 0.1, "interval": "tt"}, "`interval` is 'tt'"),
        ({"half_width": 0.1, "interval": "wilson"}, "needs outcomes that are 0 or 1"),
        ({"half_width": 0.1, "estimator": "best"}, "`estimator` is 'best'"),
        ({"half_width": 0.1, "policy": None}, "`policy` is missing"),
        ({"half_width": 0.1, "target": ("A", "C")}, "'C'"),
        ({"half_width": 0.1, "bandit": 3}, "must be a Bandit"),
        ({"half_width": 0.1, "bandit": "log.csv", "policy": None}, "`bandit` is 'log.csv'; it must be a Bandit, a "),
        ({"half_width": 0.1, "replications": 3}, "`replications` is 3"),
        ({"half_width": 0.1, "per_day": 0}, "`per_day` is 0"),
        ({"half_width": 0.1, "bandit": bl.Bandit({k: N() for k in "ABC"})}, "`target` is missing"),
    ],
)
def test_what_cannot_be_planned_is_refused(options, sentence):
    given = {"bandit": PROMPT, "policy": UNIFORM} | options
    with pytest.raises(bl.BelatedError) as caught:
        bl.plan(**given)
    assert sentence in str(caught.value)


def test_progress_is_one_line_that_goes_away(capsys):
    bl.plan(PROMPT, UNIFORM, half_width=0.5, progress=True)
    shown = capsys.readouterr().err
    assert shown.endswith("\r\x1b[K")
    assert "\n" not in shown


def test_a_plan_from_a_pilot_is_near_the_one_from_what_is_behind_it():
    late = bl.Bandit({"A": bl.arms.exponential(1.0), "B": bl.arms.exponential(1.2)}, bl.delays.geometric(100))
    log = bl.simulate(late, UNIFORM, 4000, seed=3)
    known = bl.plan(late, UNIFORM, half_width=0.2)
    fitted = bl.plan(log, half_width=0.2)
    assert fitted.horizon == pytest.approx(known.horizon, rel=0.15)
    assert "second half of the pilot: A 50.0%, B 50.0%" in repr(fitted)
    power = bl.plan(log, UNIFORM, power=0.5, replications=100)
    assert "itself uncertain" in repr(power)
