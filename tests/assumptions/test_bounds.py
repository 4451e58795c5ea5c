"""Bounds under one assumption, and how they are shown."""

from __future__ import annotations

from itertools import pairwise

from simulated_logs import experiment

import belated as bl
from belated.assumptions.bounds import Bounds, bounds_columns


def test_bounds_widen_with_gamma_and_contain_each_other():
    answer = bl.sensitivity(experiment(), ("B", "A"), gammas=[3, 1, 2, 2])
    assert answer.gammas == (1.0, 2.0, 3.0)
    for inner, outer in pairwise(answer.rows):
        assert outer.bound_low < inner.bound_low <= inner.bound_high < outer.bound_high
        assert outer.low < outer.bound_low
        assert outer.high > outer.bound_high


def test_bounds_are_a_table_of_one_row():
    bounds = Bounds(
        name="B - A", gamma=2.0, delta=None, bound_low=0.5, bound_high=1.5, low=0.25, high=1.75, level=0.9
    )  # fmt: skip
    assert bounds.includes(0.25)
    assert not bounds.includes(0.2)
    assert repr(bounds).startswith("B - A: 90% interval\n")
    assert bounds.to_dict() == {"gamma": [2.0], "bound_low": [0.5], "bound_high": [1.5], "low": [0.25], "high": [1.75]}
    assert bounds_columns([bounds], "delta")[0].name == "delta"
    assert bounds_columns([], "gamma")[0].values == []
