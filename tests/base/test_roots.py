from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from belated.base.roots import bisect, find_root, find_root_each, last_above_0

places = st.floats(-50, 50)
slopes = st.floats(0.01, 100)


def curve(root, slope, power):
    """Return a monotone function with a root, flat there if the power is above 1."""
    return lambda x: slope * math.copysign(abs(x - root) ** power, x - root)


@given(places, slopes, st.floats(0.5, 3), st.floats(0.01, 60), st.floats(0.01, 60), st.booleans())
def test_a_root_is_found_wherever_it_lies_and_however_steep_the_function_is(root, slope, power, left, right, falls):
    function = curve(root, -slope if falls else slope, power)
    actual = find_root(function, root - left, root + right)
    assert root - left <= actual <= root + right
    assert abs(function(actual)) <= abs(function(root + 1e-9 + 1e-11 * abs(root))) + 1e-15


@given(st.floats(0.001, 0.999))
def test_roots_agree_with_brents_method(level):
    def function(x):
        return math.tanh(x) - (2 * level - 1)

    assert find_root(function, -10.0, 10.0) == pytest.approx(optimize.brentq(function, -10, 10), abs=1e-10)


def test_ends_that_are_known_are_not_evaluated_again():
    calls = []

    def function(x):
        calls.append(x)
        return x * x - 2

    assert find_root(function, 0.0, 2.0, at_low=-2.0, at_high=2.0) == pytest.approx(math.sqrt(2), rel=1e-12)
    assert not {0.0, 2.0} & set(calls)
    assert len(calls) < 15


def test_a_root_at_an_end_is_that_end():
    assert find_root(lambda x: x, 0.0, 1.0) == 0
    assert find_root(lambda x: x - 1, 0.0, 1.0) == 1


def test_ends_on_one_side_of_the_root_are_refused():
    with pytest.raises(ValueError, match="one must be below 0"):
        find_root(lambda x: x * x + 1, -1.0, 1.0)


def test_steps_and_tolerance_end_the_search():
    calls = []

    def function(x):
        calls.append(x)
        return x**3 - 0.001

    find_root(function, -1.0, 1.0, at_low=-1.0, at_high=1.0, steps=3)
    assert len(calls) == 3
    rough = find_root(function, -1.0, 1.0, tolerance=0.1)
    assert abs(rough - 0.1) < 0.02


@given(places, st.floats(0, 60), st.floats(0, 60))
def test_halving_closes_in_on_the_place_from_both_sides(place, left, right):
    low, high = bisect(lambda x: x < place, place - left, place + right, steps=60)
    assert low <= place <= high
    assert high - low <= 1e-12


@given(places, st.floats(0.1, 60))
def test_halving_in_either_direction(place, reach):
    low, high = bisect(lambda x: x > place, place + reach, place - reach, steps=60)
    assert high <= place <= low
    assert low - high <= 1e-12


def test_it_halves_as_often_as_it_is_told():
    assert bisect(lambda x: x < 0.3, 0.0, 1.0, steps=2) == (0.25, 0.5)
    assert bisect(lambda x: x < 0.3, 0.0, 1.0, steps=4) == (0.25, 0.3125)


def test_roots_of_many_functions_at_once():
    at = np.array([1e-6, 0.3, 2.0, 7.0, 36.9, 5.0, 5.0])
    calls = 0

    def function(x):
        nonlocal calls
        calls += 1
        with np.errstate(all="ignore"):
            values = [
                1e-6 - x[0],
                np.expm1(at[1] - x[1]),
                at[2] ** 3 - x[2] ** 3,
                np.exp(20 * at[3]) - np.exp(20 * x[3]),  # overflows beyond its root
                np.sqrt(at[4] - x[4]),  # is NaN beyond its root
                np.where(x[5] < at[5], 1.0, -1.0),  # has no value near 0
                np.where(x[6] < at[6], 1.0, np.nan),
            ]
        return np.array(values)

    roots = find_root_each(function, np.zeros(7), np.full(7, 37.5))
    np.testing.assert_allclose(roots, at, rtol=1e-11, atol=1e-12)
    assert calls <= 50
    alone = find_root_each(lambda x: np.expm1(0.3 - x), np.zeros(3), np.full(3, 37.5))
    assert (alone == alone[0]).all()


@pytest.mark.parametrize("place", [1e-6, 0.3, 1.0, 5.0, 600.0])
def test_a_function_that_falls_is_followed_to_0(place):
    calls = []

    def function(x):
        calls.append(x)
        return math.sqrt(place) - math.sqrt(x)

    assert last_above_0(function, 700.0) == pytest.approx(place, rel=1e-9)
    assert len(calls) < 40


def test_a_function_that_begins_at_0_or_stays_above_it():
    assert last_above_0(lambda x: -x, 700.0) == last_above_0(lambda x: -math.inf, 700.0) == 0
    assert last_above_0(lambda x: 1.0, 700.0) == 1024
