"""Checks of probabilities: what they say of faulty logs."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_logs import changed, chosen, played

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
    assert check.finding.startswith("Arms' probabilities seem to stand in each other's place")
