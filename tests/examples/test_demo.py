"""The demo counts purchases so far as anybody would count them."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import belated as bl

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.fixture(scope="module")
def demo():
    return runpy.run_path(str(DEMO))


def test_purchases_so_far_are_those_that_the_log_shows(demo):
    bandit, policy, steps = demo["EQUAL"], demo["HASTY"], demo["STEPS"]
    runs = bl.study(bandit, policy, steps, 2, seed=3)
    rate, variance = demo["so_far"](runs)
    for run in range(2):
        log = bl.simulate(bandit, policy, steps, seed=3, replication=run)
        bought = np.where(log.arrived, log.outcome, 0.0)
        sent = np.bincount(log.code, minlength=len(log.arms))
        expected = np.bincount(log.code, weights=bought, minlength=len(log.arms)) / sent
        order = [log.arms.index(line) for line in runs.arms]
        np.testing.assert_allclose(rate[run], expected[order])
        np.testing.assert_allclose(variance[run], (expected * (1 - expected) / sent)[order])


def test_an_interval_far_from_the_truth_does_not_hold_it(demo):
    runs = bl.study(demo["EQUAL"], demo["HASTY"], demo["STEPS"], 20, targets=["Your name"], seed=3)
    (slowest,) = runs.targets
    assert demo["coverage_so_far"](runs, slowest) == 0
    assert runs.coverage("daipw", slowest, "auto") >= 0.8


def test_the_tables_are_read_as_they_were_written(demo, tmp_path):
    log = bl.simulate(demo["BANDIT"], demo["POLICY"], 500, seed=3)
    sent, bought = tmp_path / "sent.parquet", tmp_path / "bought.csv"
    demo["write"](log, sent, bought)
    table = bl.estimate(bl.read(sent, bought))
    straight = bl.estimate(log)
    for line in log.arms:
        assert table.arm(line).estimate == pytest.approx(straight.arm(line).estimate)
