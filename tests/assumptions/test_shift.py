"""Bounds by the difference of means."""

from __future__ import annotations

from itertools import pairwise

import pytest
from simulated_logs import experiment

import belated as bl


def test_shifts_of_rates_stay_rates():
    rates = {"A": bl.arms.bernoulli(0.1), "B": bl.arms.bernoulli(0.5)}
    answer = bl.sensitivity(experiment(rates), ("B", "A"))
    assert answer.shift.at(1.0).bound_low == pytest.approx(answer.at(1e12).bound_low, abs=1e-9)
    assert answer.shift.at(1.0) == bl.sensitivity(experiment(rates), ("B", "A")).shift.at(1.0)


def test_a_shift_is_a_size_and_widens_the_bounds():
    shift = bl.sensitivity(experiment(), ("B", "A")).shift
    assert [row.delta for row in shift.rows] == pytest.approx([k * shift.sd for k in (0, 0.1, 0.25, 0.5, 1, 2)])
    for inner, outer in pairwise(shift.rows):
        assert outer.bound_low < inner.bound_low <= inner.bound_high < outer.bound_high
    with pytest.raises(bl.OptionError, match="0 or more"):
        shift.at(-1)
    assert list(shift.to_dict()) == ["delta", "delta_sd", "bound_low", "bound_high", "low", "high"]
    assert f"by {shift.tipping_point:.3g} (" in shift.conclusion
    assert shift.reach > shift.tipping_point
