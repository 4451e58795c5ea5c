"""Checks of outcomes: what they say of faulty logs, and of those that only look so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from simulated_logs import changed, played

import belated as bl


def test_a_log_of_conversions():
    log = played(3000, kind="rare")
    diagnosis = bl.diagnose(changed(log, outcome=np.where(log.outcome == 1, 1.0, math.nan)))
    assert diagnosis["recorded outcomes"].light == "red"
    assert diagnosis["variation"].light == "amber"
    assert "--events --window 7d" in diagnosis["recorded outcomes"].advice


def test_an_arm_of_which_only_successes_are_recorded():
    rng = np.random.default_rng(3)
    arm, outcome = rng.integers(2, size=6000), (rng.random(6000) < 0.12).astype(float)
    outcome[(arm == 1) & (outcome == 0)] = math.nan
    late = np.where(np.isnan(outcome), math.inf, rng.geometric(0.02, 6000))
    check = bl.diagnose(bl.Log(arm, outcome, np.full((6000, 2), 0.5), delay=late, as_of=6000))["recorded outcomes"]
    assert check.light == "red"
    assert check.finding.startswith("Arm 1 has only outcomes of 1, and 8")


def test_outcomes_above_0_that_are_still_coming_or_lost_are_no_fault():
    for delay in (
        bl.delays.geometric(1000).censored(0.5),
        bl.delays.geometric(6000),
        bl.delays.poisson(20).censored(0.65),
    ):
        bandit = bl.Bandit({k: bl.arms.exponential(1.0) for k in "AB"}, delay)
        log = bl.simulate(bandit, bl.policies.epsilon_greedy(), 2000, seed=1)
        assert bl.diagnose(log)["recorded outcomes"].light == "amber"


def test_a_log_of_buyers():
    log = played(3000, kind="exponential")
    few = np.where(np.random.default_rng(1).random(3000) < 0.2, log.outcome, math.nan)
    assert bl.diagnose(changed(log, outcome=few))["recorded outcomes"].light == "red"
    assert bl.diagnose(changed(log, outcome=-few))["recorded outcomes"].light == "green"


@pytest.mark.parametrize("how", ["rising", "jump", "one arm"])
def test_outcomes_that_change(how):
    log = played(10_000, 5, policy="greedy" if how == "rising" else "uniform")
    at = np.arange(10_000) / 10_000
    by = {"rising": at, "jump": 0.5 * (at > 0.5), "one arm": 1.0 * (at > 0.3) * (log.code == 2)}[how]
    check = bl.diagnose(changed(log, outcome=log.outcome + by))["drift"]
    assert check.light == "red"
    assert bl.diagnose(log)["drift"].light == "green"


def test_a_change_of_arms_is_no_drift():
    # one arm's outcomes are larger, and it is chosen more and more: the mean of all outcomes rises, no arm's does
    rng = np.random.default_rng(1)
    p = np.stack([np.linspace(0.9, 0.1, 6000), np.linspace(0.1, 0.9, 6000)], axis=1)
    code = (rng.random(6000) > p[:, 0]).astype(int)
    y = rng.normal(size=6000) + 3 * code
    assert abs(stats.linregress(np.arange(6000), y).slope * 6000) > 1
    assert bl.diagnose(bl.Log(code, y, p))["drift"].light == "green"


def test_outcomes_that_do_not_vary():
    half = np.full((600, 2), 0.5)
    code = np.arange(600) % 2
    assert bl.diagnose(bl.Log(code, np.full(600, 3.5), half))["variation"].light == "red"
    assert bl.diagnose(bl.Log(code[:60], np.zeros(60), half[:60]))["variation"].light == "amber"
    check = bl.diagnose(bl.Log(code, np.where(code == 0, 1e8, 1e8 + np.arange(600)), half))["variation"]
    assert (check.light, check.numbers["variance"][0]) == ("amber", 0.0)
    assert check.numbers["variance"][1] == pytest.approx(np.var(np.arange(1, 600, 2.0), ddof=1), rel=1e-6)
