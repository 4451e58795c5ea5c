"""How sequences follow a log."""

from __future__ import annotations

import math

import numpy as np
import pytest

import belated as bl


def test_outcomes_recorded_only_when_they_happen_say_nothing():
    y = np.where(np.arange(200) % 3 == 0, 1.0, math.nan)
    log = bl.Log(np.arange(200) % 2, y, np.full(200, 0.5))
    with pytest.warns(bl.BelatedWarning, match="recorded only when it happens"):
        found = bl.sequence(log)
    assert found.arm(0).p_value == 1
    assert found.contrast(1, 0).excluded_at is None
    assert (found.arm(0).low, found.arm(0).high) == (0, 1)
    assert "recorded only when it happens" in found.arm(0).why


@pytest.mark.parametrize("binary", [False, True])
def test_beside_it_stands_the_interval_of_a_single_look(binary):
    arms = {k: bl.arms.bernoulli(0.3 + 0.1 * k) if binary else bl.arms.normal(k) for k in range(3)}
    log = bl.simulate(bl.Bandit(arms, bl.delays.geometric(30).censored(0.2)), bl.policies.ucb(), 600, seed=4)
    found = bl.sequence(log, looks=[100, 333])
    track = found.track(2, 0)
    for i, moment in enumerate(track.moments):
        fixed = bl.estimate(log.at(moment), "dipw", interval="wilson" if binary else "t").contrast(2, 0)
        assert (track.fixed_low[i], track.fixed_high[i]) == pytest.approx((fixed.low, fixed.high))
    assert found.arm(2).estimate == pytest.approx(
        log.outcome[(log.code == 2) & log.arrived].mean() if binary else bl.estimate(log, "dipw").values[2]
    )
