"""Checks of arrival: what they say of faulty logs, and of those that only look so."""

from __future__ import annotations

import numpy as np
import pytest
from reports.samples import event_log
from simulated_logs import changed, played

import belated as bl


@pytest.mark.parametrize("never", [0.0, 0.5])
def test_delays_with_too_heavy_a_tail(never):
    late = bl.delays.pareto(0.3).censored(never)
    check = bl.diagnose(played(10_000, delays=late, policy="uniform"))["delay tail"]
    assert check.light == "red"
    for arm in (0, 1):
        assert check.numbers["low"][arm] < 0.3 < check.numbers["high"][arm]
    for healthy in (bl.delays.pareto(0.75), bl.delays.geometric(20), bl.delays.poisson(30), bl.delays.constant(9)):
        check = bl.diagnose(played(10_000, delays=healthy.censored(never), policy="uniform"))["delay tail"]
        assert check.light == "green", check


@pytest.mark.parametrize("unit", [7.0, 0.1, 1e-3])
def test_lights_do_not_depend_on_the_unit_of_time(unit):
    log = played(300, policy="uniform", delays=bl.delays.pareto(1.25), seed=4)
    rows = [log.arms[k] for k in log.code], log.outcome, log.propensity
    diagnoses = [
        bl.diagnose(
            bl.Log(*rows, arms=log.arms, assigned_at=log.assigned_at * u, arrived_at=log.arrived_at * u, as_of=300 * u)
        )
        for u in (1.0, unit)
    ]
    assert [check.light for check in diagnoses[1]] == [check.light for check in diagnoses[0]]
    for name in ("exponent", "low", "high"):
        wanted = diagnoses[0]["delay tail"].numbers[name]
        assert diagnoses[1]["delay tail"].numbers[name] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("unit", [1.0, 3600.0, 1 / 24, 1e-3])
def test_what_is_overdue_does_not_depend_on_the_unit_of_time(unit):
    for days in (5, 11, 23):  # the longest delay is exactly half of the time followed
        late = np.array([days, 0.0, days / 2, np.nan, np.nan]) * unit
        outcome = np.where(np.isnan(late), np.nan, np.arange(5.0))
        log = bl.Log(["A"] * 5, outcome, np.ones(5), assigned_at=np.zeros(5), delay=late, as_of=2 * days * unit)
        assert bl.diagnose(log)["still out"].numbers["overdue"]["A"] == pytest.approx(0.4)


def test_delays_that_hardly_fall_are_not_called_heavy():
    check = bl.diagnose(played(3000, 1, policy="uniform", delays=bl.delays.geometric(6000)))["delay tail"]
    assert check.light == "amber"
    few = bl.diagnose(played(60, 2, policy="uniform", delays=bl.delays.geometric(300)))
    assert few["delay tail"].light == "grey"
    assert few["still out"].light == "amber"


@pytest.mark.parametrize("kind", ["mixture", "far mixture", "ending"])
def test_delays_that_only_look_heavy_nearby_are_no_fault(kind):
    rng = np.random.default_rng(5)
    rows = 8000
    late = {
        "mixture": np.where(rng.random(rows) < 0.5, rng.poisson(2, rows), rng.exponential(200, rows)),
        "far mixture": np.where(rng.random(rows) < 0.7, rng.poisson(2, rows), rng.exponential(1000, rows)),
        "ending": np.minimum(rng.exponential(500, rows), 1000),
    }[kind]
    log = bl.Log(
        rng.integers(2, size=rows), rng.normal(size=rows), np.full((rows, 2), 0.5), delay=np.floor(late), as_of=rows
    )
    assert bl.diagnose(log)["delay tail"].light == "green"


def test_delays_that_depend_on_outcomes():
    log = played(4000)
    late = np.floor(np.random.default_rng(1).geometric(0.02, 4000) * np.exp(0.5 * np.nan_to_num(log.outcome)))
    check = bl.diagnose(changed(log, delay=late))["outcome and delay"]
    assert (check.light, check.numbers["z"][0] > 3) == ("red", True)
    assert check.finding == "Early and late outcomes differ: larger outcomes arrive later (p < 0.0001)."


def test_windows_of_events_that_are_open_do_not_mislead():
    log = event_log()
    check = bl.diagnose(log)["still out"]
    assert check.light == "green"
    closed = bl.estimate(log).arrived.sum()
    assert check.finding.startswith(f"{closed:,} of {len(log):,} windows of 10 steps have closed; younger rows count")
    done = bl.diagnose(event_log(as_of=40.0))["still out"]
    assert done.finding == "Every outcome is known 10 steps after its assignment."


def test_without_any_outcome_nothing_is_known_of_those_that_are_out():
    log = bl.Log(["A", "B"] * 50, [None] * 100, [[0.5, 0.5]] * 100, arms=["A", "B"], delay=[None] * 100)
    check = bl.diagnose(log)["still out"]
    assert (check.light, check.finding) == ("grey", "No outcome has arrived.")


def test_no_share_of_what_may_still_arrive_is_below_0():
    for missing in range(1, 60):
        outcome = np.where(np.arange(300) < missing, np.nan, 1.0 + np.arange(300))
        delay = np.where(np.isnan(outcome), np.nan, 1.0)
        log = bl.Log(["A"] * 300, outcome, np.ones(300), assigned_at=np.arange(300), delay=delay, as_of=400)
        check = bl.diagnose(log)["still out"]
        assert check.numbers["still_out"]["A"] >= 0
        assert "-0.0%" not in check.finding
