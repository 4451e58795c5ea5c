"""Checks of probabilities: what they say of faulty logs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated_logs import changed, chosen, played, waits

import belated as bl


def test_probabilities_that_fall_too_fast():
    step = np.arange(1, 5001)
    small = 0.5 * step**-1.6
    p = np.stack([1 - small, small], axis=1)
    rng = np.random.default_rng(1)
    code = (rng.random(5000) < small).astype(int)
    check = bl.diagnose(bl.Log(code, rng.normal(size=5000), p, arms=[0, 1]))["propensity decay"]
    assert check.light == "red"
    assert check.numbers["exponent"] == pytest.approx(1.6, abs=0.02)
    for policy, exponent in (("greedy", 0.7), ("slow", 0.3), ("uniform", 0.0)):
        check = bl.diagnose(played(5000, policy=policy))["propensity decay"]
        assert check.light == "green"
        assert check.numbers["exponent"] == pytest.approx(exponent, abs=0.05)


@pytest.mark.parametrize("arms", [2, 5])
def test_probabilities_that_were_not_used(arms):
    log = played(10_000, arms, policy="greedy")
    p = log.propensity
    swap = [1, 0, *range(2, arms)]
    for wrong in (
        np.roll(p, 1, axis=1),
        p[:, swap],
        np.full_like(p, 1 / arms),
        np.random.default_rng(1).permutation(p),
    ):
        check = bl.diagnose(changed(log, propensity=wrong))["probabilities"]
        assert check.light == "red"
    assert bl.diagnose(log)["probabilities"].light == "green"


def test_the_chosen_arms_probabilities_alone_can_tell_a_little():
    log = played(10_000, policy="greedy")
    assert bl.diagnose(changed(log, propensity=chosen(log)))["probabilities"].light in ("green", "grey")
    assert bl.diagnose(changed(log, propensity=np.full(10_000, 0.5)))["probabilities"].light == "red"
    fair = played(3000, 3, policy="uniform")
    assert bl.diagnose(changed(fair, propensity=chosen(fair)))["probabilities"].light == "green"


def test_two_arms_in_each_others_place_for_a_few_rows():
    # both arms are equally likely but for eight rows, in which the policy was nearly sure
    p = np.full((3000, 3), [0.9, 0.05, 0.05])
    p[:8] = [0.02, 0.96, 0.02]
    rng = np.random.default_rng(2)
    code = np.array([rng.choice(3, p=row) for row in p])
    right = bl.Log(code, rng.normal(size=3000), p)
    assert bl.diagnose(right)["probabilities"].light == "green"
    check = bl.diagnose(bl.Log(code, right.outcome, p[:, [0, 2, 1]]))["probabilities"]
    assert check.light == "red"
    assert check.finding.startswith("The probabilities of some arms seem to be swapped")


def one_heavy(log, share, row):
    arm = log.code[row]
    others = np.flatnonzero(log.arrived & (log.code == arm) & (np.arange(len(log.code)) != row))
    small = (share / (1 - share) * np.sum(log.propensity[others, arm] ** -0.5)) ** -2
    p = log.propensity.copy()
    p[row] *= (1 - small) / (1 - p[row, arm])
    p[row, arm] = small
    return changed(log, propensity=p)


def test_a_row_that_holds_a_fifth_of_the_weight():
    log = played(5000)
    row = int(np.flatnonzero(log.arrived & (log.code == 0))[7])
    spoilt = one_heavy(log, 0.2, row)
    check = bl.diagnose(spoilt)["largest weight"]
    assert check.light == "red"
    assert check.numbers["share"][0] == pytest.approx(0.2)
    assert check.finding.startswith("One row of arm 0 has 20.0% of the arm's weight. Rows this unlikely")
    known = bl.diagnose(changed(spoilt, propensity=chosen(spoilt)))
    assert known["largest weight"].light == "red"
    assert known["propensity decay"].light == "grey"


def test_a_policy_that_hardly_tries_an_arm_is_amber():
    check = bl.diagnose(played(1000, 5, policy="greedy"))["largest weight"]
    assert check.light == "amber"
    assert max(check.numbers["share"].values()) > 0.1
    assert min(check.numbers["expected_so_unlikely"].values()) > 1e-3


def test_an_arm_that_had_a_chance_once():
    p = np.tile([1 - 1e-12, 1e-12], (400, 1))
    p[3] = 0.5
    code = np.zeros(400, int)
    code[3] = 1
    check = bl.diagnose(bl.Log(code, np.random.default_rng(1).normal(size=400), p))["largest weight"]
    assert check.light == "red"
    assert "Only a few rows gave arm 1 more than a tiny probability" in check.finding


def test_outcomes_that_are_lost_for_a_while():
    log = played(6000, policy="uniform")
    at = np.arange(6000) / 6000
    lost = (at > 0.2) & (at < 0.35) & (np.random.default_rng(1).random(6000) < 0.5)
    assert bl.diagnose(log)["variance sums"].light == "green"
    assert bl.diagnose(changed(log, delay=np.where(lost, math.inf, waits(log))))["variance sums"].light == "red"


@pytest.mark.parametrize("arms", [3, 4])  # the fourth is never chosen
@pytest.mark.parametrize("all_known", [True, False])
def test_a_policy_that_leaves_nothing_to_chance_is_red(all_known, arms):
    code = np.arange(400) % 3
    p = np.eye(arms)[code] if all_known else np.ones(400)
    log = bl.Log(code, np.random.default_rng(1).normal(size=400), p, arms=range(arms))
    check = bl.diagnose(log)["probabilities"]
    assert (check.light, "3 arms were chosen" in check.finding) == ("red", True)
    assert "minimum probability" in check.advice
    alone = bl.Log(
        np.zeros(400, dtype=int), log.outcome, p if not all_known else np.eye(arms)[code * 0], arms=range(arms)
    )
    assert bl.diagnose(alone)["probabilities"].light != "red"


def test_few_rows_are_no_reason_for_red():
    # a probability that falls to its floor within 60 rows, and arms of four outcomes each
    step = np.arange(1, 61)
    small = np.where(step < 20, 0.1, np.minimum(0.1, 40.0 * step**-2.0))
    p = np.stack([small, *[(1 - small) / 9] * 9], axis=1)
    rng = np.random.default_rng(1)
    code = np.array([rng.choice(10, p=row) for row in p])
    arrived = np.where(rng.random(60) < 0.5, rng.normal(size=60), math.nan)
    diagnosis = bl.diagnose(bl.Log(code, arrived, p, arms=range(10)))
    assert diagnosis["propensity decay"].numbers["exponent"] > 1.5
    assert diagnosis["propensity decay"].numbers["expected_in_later_half"][0] < 1
    assert (diagnosis["propensity decay"].light, diagnosis["effective size"].light) == ("amber", "amber")


def test_weights_that_leave_hardly_anything_of_many_outcomes_are_red():
    # 60 outcomes of which the weights leave four
    p = np.where(np.arange(60)[:, np.newaxis] % 15 == 0, [[1e-6, 1 - 1e-6]], [[1 - 1e-6, 1e-6]])
    log = bl.Log(np.zeros(60, dtype=int), np.random.default_rng(1).normal(size=60), p, arms=[0, 1])
    check = bl.diagnose(log)["effective size"]
    assert (check.light, check.numbers["effective_size"][0] < 5) == ("red", True)


@pytest.mark.parametrize("arms", [3, 6, 12])
def test_thirty_rows_of_equal_weight_are_not_fewer_than_30(arms):
    def found(rows):
        log = bl.Log(np.repeat(np.arange(arms), rows), np.arange(rows * arms) % 3, "uniform", arms=list(range(arms)))
        return bl.diagnose(log)

    assert found(30)["effective size"].light == "green"
    assert "Every arm has fewer" not in found(5)["effective size"].finding
    assert found(4)["variance sums"].light == "amber"


@pytest.mark.parametrize(
    ("first", "cause"), [(0.5, "few outcomes"), (0.05, "small probabilities together with few rows")]
)
def test_the_cause_of_a_heavy_row(first, cause):
    p = np.array([first, *[0.5] * 19])
    log = bl.Log(["A", "B"] * 10, np.arange(20.0), np.column_stack([p, 1 - p]))
    check = bl.diagnose(log)["largest weight"]
    assert check.light == "amber"
    assert check.finding.endswith(f"The cause is {cause}.")
