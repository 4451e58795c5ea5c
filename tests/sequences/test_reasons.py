"""Why sequences say nothing yet."""

from __future__ import annotations

import math

import numpy as np

import belated as bl


def test_it_is_infinite_and_says_why():
    rng = np.random.default_rng(5)
    n = 4000

    def one(y, pi=0.5, arm=None):
        arms = np.arange(len(y)) % 2 if arm is None else arm
        return bl.sequence(bl.Log(arms, y, np.full(len(y), pi), arms=[0, 1, 2]), "asymptotic")

    few = one(rng.normal(size=40))
    assert math.isinf(few.contrast(0, 1).high)
    assert "weigh as much as 20 equal ones" in few.arm(0).why
    assert "No outcome of arm 2" in few.contrast(0, 2).why
    assert "No outcome" in str(few)
    rare = one((rng.uniform(size=n) < 0.002).astype(float))
    assert "of 2,000 outcomes are 1; an asymptotic sequence needs 10" in rare.arm(1).why
    assert "no variance" in one(np.full(n, 3.0)).arm(0).why
    assert "skewed" in one(np.where(np.arange(n) < 4, 1e6, rng.normal(size=n))).arm(1).why
    sound = one(rng.normal(size=n))
    assert sound.arm(0).why is None
    assert math.isfinite(sound.arm(0).high)
    heavy = bl.sequence(
        bl.Log(np.zeros(200, int), rng.normal(size=200), np.where(np.arange(200) == 0, 1e-6, 0.9)), "asymptotic"
    )
    assert "weigh as much as" in heavy.arm(0).why
