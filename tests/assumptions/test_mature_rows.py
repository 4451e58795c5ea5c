"""Which rows count in a sensitivity analysis."""

from __future__ import annotations

import datetime as dt

import naive.sensitivity as naive
import numpy as np
import pytest
from simulated_logs import experiment

import belated as bl


def test_rows_that_have_had_their_time_count():
    log = experiment(delay=bl.delays.constant(100), never=0.0, horizon=1000)
    answer = bl.sensitivity(log, ("B", "A"))
    assert (answer.maturity.age, answer.maturity.rows) == (100, 900)
    assert "900 rows assigned at least 100 steps before the end" in str(answer)
    assert answer.observed_share == {"A": 1.0, "B": 1.0}
    for none in (0, 0.0, "0", "0 steps"):
        every = bl.sensitivity(log, ("B", "A"), mature=none)
        assert every.maturity.rows == 1000
    assert every.observed_share["B"] < 1
    twin = [naive.matured(log.code, k, range(1, 1001), 1000, 100) for k in range(2)]
    assert answer.maturity.rows == sum(map(len, twin))


def test_heavy_tails_are_said():
    answer = bl.sensitivity(experiment(delay=bl.delays.pareto(0.3), horizon=4000), ("B", "A"))
    assert answer.maturity.rows == pytest.approx(2000, abs=1)
    assert answer.maturity.late > 0
    assert "slow" in answer.to_text()


def test_times_may_be_dates_and_ages_durations():
    log = experiment(horizon=500)
    start = dt.datetime(2026, 1, 1)
    dates = [start + dt.timedelta(hours=int(t)) for t in log.assigned_at]
    arrived = [None if np.isnan(y) else start + dt.timedelta(hours=int(t))
            for t, y in zip(log.arrived_at, log.outcome, strict=True)]  # fmt: skip
    dated = bl.Log(np.array(["A", "B"])[log.code], log.outcome, log.propensity, assigned_at=dates, arrived_at=arrived,
                   as_of=start + dt.timedelta(hours=500))  # fmt: skip
    assert bl.sensitivity(dated, ("B", "A")).at(2) == bl.sensitivity(log, ("B", "A")).at(2)
    by_hand = bl.sensitivity(log, ("B", "A"), mature=48).at(2)
    for age in ("2d", dt.timedelta(days=2), np.timedelta64(48, "h")):
        assert bl.sensitivity(dated, ("B", "A"), mature=age).at(2) == by_hand
    with pytest.raises(bl.OptionError, match="duration"):
        bl.sensitivity(dated, ("B", "A"), mature=48)
    with pytest.raises(bl.OptionError, match="number"):
        bl.sensitivity(log, ("B", "A"), mature="2d")


def test_an_age_longer_than_the_clock_reaches_leaves_no_row():
    log = experiment(horizon=50)
    assigned = np.datetime64("1970-01-01T00:00:00", "fs") + np.arange(50)
    fine = bl.Log(log.code, log.outcome, log.propensity, assigned_at=assigned)
    with pytest.raises(bl.OptionError, match="`mature` is '7d'; no row was assigned that long before"):
        bl.sensitivity(fine, (1, 0), mature="7d")


def test_later_rows_do_not_exist_yet():
    log = experiment().at(1000)
    assert bl.sensitivity(log, ("B", "A"), mature=0).maturity.rows == 1000
    with pytest.raises(bl.LogError, match="no rows"):
        bl.sensitivity(log.at(0), ("B", "A"))


def test_rows_may_be_in_any_order_and_waited_for():
    log = experiment(horizon=800)
    delay = np.where(np.isnan(log.outcome), np.inf, log.arrived_at - log.assigned_at)
    shuffled = np.random.default_rng(1).permutation(800)
    mixed = bl.Log(
        log.code[shuffled], log.outcome[shuffled], log.propensity[shuffled], delay=delay[shuffled],
        assigned_at=np.arange(1, 801)[shuffled], as_of=800,
    )  # fmt: skip
    assert bl.sensitivity(mixed, (1, 0)).at(2).low == pytest.approx(bl.sensitivity(log, ("B", "A")).at(2).low)
    waited = bl.sensitivity(log.at(None), ("B", "A"))
    assert waited.observed_share["B"] == pytest.approx(0.6, abs=0.1)
