"""The exponent of delays' tails, against one by maximum likelihood."""

from __future__ import annotations

import naive.diagnosis as naive
import numpy as np
import pytest
from simulated_logs import played, waits

import belated as bl
from belated.summaries.delay_tails import delay_tails
from belated.summaries.evidence import ArrivalCounts


@pytest.mark.parametrize("shape", [0.3, 0.75, 1.25])
def test_the_exponent_is_the_likeliest(shape):
    log = played(3000, 1, policy="uniform", delays=bl.delays.pareto(shape).censored(0.3))
    arrived = log.arrived
    wanted = naive.tail_exponent(waits(log)[arrived], (3000 - log.assigned_at)[arrived])
    tails = delay_tails(log.evidence().arrivals, 1.0)
    assert tails.exponent[0] == pytest.approx(wanted, rel=0.05)  # delays are binned, and exponents tried on a grid
    assert tails.low[0] < wanted < tails.high[0]
    assert tails.low[0] < shape < tails.high[0]


def test_no_bins_have_no_tail():
    empty = ArrivalCounts(np.arange(49.0), np.zeros((2, 50, 49)), 48.0)
    assert np.isnan(delay_tails(empty, 1.0).exponent).all()


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("rows", [100, 200, 400])
def test_equal_delays_have_a_light_tail(rows, steps):
    log = played(rows, 2, policy="uniform", delays=bl.delays.constant(steps))
    evidence = log.evidence()
    tails = delay_tails(evidence.arrivals, evidence.grain)
    assert (tails.exponent == np.inf).all()
    assert (tails.low >= 0.5).all()


def test_equal_delays_are_not_called_light_if_rows_were_not_followed_for_longer():
    times = np.zeros(80)
    log = bl.Log(["A", "B"] * 40, np.arange(80.0), np.full(80, 0.5), assigned_at=times, delay=times + 5, as_of=5.0)
    evidence = log.evidence()
    assert (delay_tails(evidence.arrivals, evidence.grain).low == 0).all()


@pytest.mark.parametrize("rows", [300, 1000, 5000])
@pytest.mark.parametrize("law", ["even", "two clusters", "weeks"])
def test_delays_that_end_long_before_the_follow_up_have_a_light_tail(law, rows):
    rng = np.random.default_rng(rows)
    late = {
        "even": rng.integers(1, 10, rows),
        "two clusters": np.where(rng.random(rows) < 0.5, 1.0, 7.0) + rng.random(rows),
        "weeks": 7 * rng.integers(0, 4, rows),
    }[law]
    log = bl.Log(rng.integers(2, size=rows), rng.normal(size=rows), np.full((rows, 2), 0.5), delay=late, as_of=rows)
    evidence = log.evidence()
    tails = delay_tails(evidence.arrivals, evidence.grain)
    assert not tails.heavy.any()
    assert (tails.exponent > 0.5).all()
