"""Checks of outcomes: what they say of faulty logs, and of those that only look so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reports.samples import event_log
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
    assert check.finding.startswith("Every outcome of arm 1 is 1, and 8")


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
    for value in (0.0, -1.0, 3.5):  # however the absence of a rare event is coded
        check = bl.diagnose(bl.Log(code[:60], np.full(60, value), half[:60]))["variation"]
        assert check.light == "amber"
        assert check.finding.startswith(f"Every outcome so far is {value:g}")
        assert "interval uses" not in check.advice  # there is none
    equal_within = bl.diagnose(bl.Log(code[:60], 3.5 + code[:60], half[:60]))["variation"]
    assert equal_within.advice.endswith("the arm's interval uses the variance of all arms together.")
    check = bl.diagnose(bl.Log(code, np.where(code == 0, 1e8, 1e8 + np.arange(600)), half))["variation"]
    assert (check.light, check.numbers["variance"][0]) == ("amber", 0.0)
    assert check.numbers["variance"][1] == pytest.approx(np.var(np.arange(1, 600, 2.0), ddof=1), rel=1e-6)


# ---------------------------------------------------------------- the largest outcomes


def lights(draw, rows, logs=40, arms=2):
    """Return the light of the largest outcomes in logs of coin tosses."""
    rng = np.random.default_rng(7)
    half = np.full((rows, arms), 1 / arms)
    diagnoses = [
        bl.diagnose(bl.Log(rng.integers(arms, size=rows), draw(rng, rows), half, arms=range(arms))) for _ in range(logs)
    ]
    return [diagnosis["largest outcomes"].light for diagnosis in diagnoses]


def revenue(rng, rows, share=0.1, sigma=1.0):
    return np.where(rng.random(rows) < share, 50 * np.exp(sigma * rng.normal(size=rows)), 0.0)


def test_outcomes_with_a_short_tail_are_green():
    for draw in (
        lambda rng, n: rng.normal(size=n),
        lambda rng, n: rng.exponential(size=n),
        lambda rng, n: rng.poisson(0.5, n).astype(float),
        lambda rng, n: 9.99 * (rng.random(n) < 0.02),
    ):
        assert lights(draw, 1000).count("green") >= 39


def test_the_more_the_tail_hides_the_worse_the_light():
    assert lights(revenue, 400).count("amber") >= 38
    assert lights(lambda rng, n: rng.lognormal(0, 1.5, n), 3000).count("amber") >= 30
    assert lights(lambda rng, n: rng.lognormal(0, 2, n), 6000).count("red") >= 30
    assert "red" not in lights(revenue, 3000) + lights(lambda rng, n: rng.lognormal(0, 1, n), 3000)
    assert "red" not in lights(lambda rng, n: revenue(rng, n, 0.03), 300, logs=60, arms=5)


def test_the_advice_names_a_cap_that_cuts_the_tail():
    rng = np.random.default_rng(2)
    y, code, half = rng.lognormal(0, 2, 4000), rng.integers(2, size=4000), np.full((4000, 2), 0.5)
    check = bl.diagnose(bl.Log(code, y, half))["largest outcomes"]
    assert check.finding.startswith("One outcome makes up ")
    cap = float(check.advice.split("cap=")[1].split()[0])
    assert f"(--cap {cap:g})" in check.advice
    assert 0.0005 < np.mean(y > cap) < 0.03
    capped = bl.diagnose(bl.Log(code, np.minimum(y, cap), half))["largest outcomes"]
    assert capped.light == "green"
    few = bl.diagnose(bl.Log(code[:400], np.where(np.arange(400) % 50 < 2, 20.0 + np.arange(400) / 100, 0), half[:400]))
    assert few["largest outcomes"].advice == "Wait for more outcomes: only 7 of the arm's outcomes lie in the tail."
    left = bl.diagnose(bl.Log(code, -y, half))["largest outcomes"]
    assert (left.light, "smallest outcomes" in left.advice, "cap" in left.advice) == (check.light, True, False)


def test_the_unit_and_the_place_of_outcomes_do_not_matter_to_the_tail():
    rng = np.random.default_rng(2)
    y, code, half = rng.lognormal(0, 1.5, 1000), rng.integers(2, size=1000), np.full((1000, 2), 0.5)
    check = bl.diagnose(bl.Log(code, y, half))["largest outcomes"]
    other = bl.diagnose(bl.Log(code, 1e55 * (y - 7), half))["largest outcomes"]
    assert check.light == other.light
    for name, numbers in check.numbers.items():
        assert other.numbers[name] == pytest.approx(numbers, rel=1e-9), name
    deviations = (y[code == 0] - y[code == 0].mean()) ** 2
    assert check.numbers["largest_share"][0] == pytest.approx(deviations.max() / deviations.sum())
    assert check.numbers["relative_error"][0] ** 2 == pytest.approx(
        (stats.kurtosis(y[code == 0], fisher=False) - 1) / len(deviations)
    )


def test_two_values_have_no_tail_and_one_alone_may_have():
    code, half = np.arange(400) % 2, np.full((400, 2), 0.5)
    rare = np.where(np.arange(400) % 100 == 0, 1.0, 0.0)

    def light(outcome):
        return bl.diagnose(bl.Log(code, outcome, half))["largest outcomes"].light

    assert (light(rare), light(9.99 * rare - 3), light(-rare)) == ("green",) * 3
    once = np.where(np.arange(400) == 7, 1.0, 0.0)
    assert (light(once), light(37.2 * once)) == ("green", "amber")
    assert light(np.where(code == 0, rare, 50 * rare)) == "green"  # no arm 1 outcome is rare
    assert light(rare + np.where(np.arange(400) == 7, 30.0, 0.0)) == "amber"
    assert bl.diagnose(bl.Log(code[:40], rare[:40] + code[:40] * 1e-3, half[:40]))["largest outcomes"].light == "grey"


# ---------------------------------------------------------------- events


def test_of_events_closed_windows_are_counted():
    light = bl.diagnose(event_log())
    closed = bl.estimate(event_log()).arrived
    assert light["arrivals"].light == "green"
    assert light["arrivals"].finding == f"Arm 'B' has {closed[1]:,} closed windows, the fewest of all arms."
    early = bl.diagnose(event_log(as_of=6.0))["arrivals"]
    assert early.light == "amber"  # there are intervals, of a shorter window
    assert early.finding.startswith("Arm 'A' has 0 closed windows of 10 steps; the end of the window rests on few rows")


def test_few_equal_outcomes_have_no_interval_that_could_be_approximate():
    equal = bl.diagnose(bl.Log(["A", "B"] * 6, [0.0] * 12, "uniform"))["arrivals"]
    assert (equal.light, equal.finding) == ("amber", "Arm 'A' has 6 outcomes, which is few.")
    assert "interval" not in equal.advice
    varied = bl.diagnose(bl.Log(["A", "B"] * 6, [0.0, 1.0, 2.0] * 4, "uniform"))["arrivals"]
    assert varied.finding == "Arm 'A' has 6 outcomes, so its interval is approximate."
