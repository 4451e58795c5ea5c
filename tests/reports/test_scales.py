"""Scales: places of values, and the round values that mark them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from belated.reports import scales
from belated.reports.scales import HEIGHT, WIDE, Across, Scale


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-0.013, 0.011, ["-0.010", "-0.005", "0.000", "0.005", "0.010"]),
        (0, 12_000, ["0", "2,000", "4,000", "6,000", "8,000", "10,000", "12,000"]),
        (0, 4e6, ["0M", "1M", "2M", "3M", "4M"]),
        (1e-9, 3e-9, ["1e-09", "1.5e-09", "2e-09", "2.5e-09", "3e-09"]),
    ],
)
def test_ticks_are_round(low, high, expected):
    assert [text for _, text in scales.round_numbers(low, high, 6)] == expected


def test_a_scale_is_a_little_wider_than_its_data():
    scale = Scale(1.0, 2.0)
    assert scale.low < 1.0 < 2.0 < scale.high
    assert (scale.share(scale.low), scale.share(scale.high)) == (0, 100)
    assert (scale.down(scale.high), scale.down(scale.low)) == (0, HEIGHT)
    assert scale.down(np.array([scale.high, scale.low])).tolist() == [0, HEIGHT]


def test_shares_end_where_they_must():
    scale = Scale(0.0, 1.0, unit="percent", spare=False)
    assert (scale.low, scale.high) == (0.0, 1.0)
    assert scale.ticks()[0] == (0.0, "0%")


@pytest.mark.parametrize("value", [0.0, 3.0, -1e-9])
def test_one_value_has_room_on_either_side(value):
    scale = Scale(value, value)
    assert scale.low < value < scale.high


def test_moments_that_floats_cannot_tell_apart_are_one():
    across = Across(np.array([2**62, 2**62 + 60]))
    assert across.places == pytest.approx([WIDE / 2, WIDE / 2], rel=1e-6)
    assert across.ticks(400)


def test_moments_lie_across_from_left_to_right():
    across = Across(np.array(["2026-01-01", "NaT", "2026-01-02", "2026-01-05"], dtype="datetime64[D]"))
    assert across.places.tolist() == [0, WIDE / 4, WIDE]
    assert across.unit == "2026"
    assert across.text(1) == "2026-01-02"
    assert across.read([1.0, 2.0, 1e200, -math.inf])[[0, 2]].tolist() == [1.0, -math.inf]
    assert math.isnan(across.read([1.0, 2.0, 1e200, 3.0])[1])


@pytest.mark.parametrize(("size", "unit"), [(1, "seconds"), (60, "minutes"), (3600, "hours"), (86_400, "days")])
def test_lengths_of_time_have_the_largest_unit_that_they_fill_twice(size, unit):
    across = Across(np.array([0, 2 * size], dtype="timedelta64[s]"))
    assert across.unit == unit
    assert across.text(1) == f"2 {unit}"


def test_there_are_as_many_ticks_as_have_room():
    across = Across(np.arange(0, 1_000_000, 1000))
    assert 2 <= len(across.ticks(120)) < len(across.ticks(900))
