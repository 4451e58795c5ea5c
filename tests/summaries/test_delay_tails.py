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
