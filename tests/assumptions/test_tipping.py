"""Tipping points."""

from __future__ import annotations

import json
import math

from simulated_logs import experiment

import belated as bl


def test_the_interval_touches_zero_at_the_tipping_point():
    answer = bl.sensitivity(experiment(), ("B", "A"))
    tips = answer.tipping_point
    assert 1 < tips < 10
    assert answer.at(tips).includes(0)
    assert not answer.at(tips * (1 - 1e-6)).includes(0)
    assert f"factor {tips:.3g}" in answer.conclusion
    assert "B beats A" in answer.conclusion
    assert "B beats A" in bl.sensitivity(experiment(), ("A", "B")).conclusion
    delta = answer.shift.tipping_point
    assert answer.shift.at(delta).includes(0)
    assert not answer.shift.at(delta * (1 - 1e-6)).includes(0)


def test_no_conclusion_and_one_that_cannot_fall():
    same = bl.sensitivity(experiment({"A": bl.arms.normal(0), "B": bl.arms.normal(0)}), ("B", "A"))
    assert same.tipping_point == 1
    assert same.shift.tipping_point == 0
    assert "no conclusion" in same.conclusion
    rates = {"A": bl.arms.bernoulli(0.1), "B": bl.arms.bernoulli(0.9)}
    sure = bl.sensitivity(experiment(rates, never=0.05), ("B", "A"))
    assert sure.tipping_point == math.inf
    assert sure.shift.tipping_point == math.inf
    assert "however" in sure.conclusion
    assert json.loads(sure.to_json())["gamma"]["tipping_point"] is None
