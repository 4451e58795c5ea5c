from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from belated.simulation.planning.goals import HalfWidth, Point, Power
from belated.simulation.planning.search import solve


def _law(slope, root, asked=0.1):
    return lambda h: Point(h, 0.0, asked * (h / root) ** -slope, 0.0, 0.0, 0.0, 0.0, 100)


@given(slope=st.floats(0.05, 0.6), root=st.floats(20, 9e5), guess=st.floats(1, 2e6))
def test_the_root_of_a_power_law_is_found(slope, root, guess):
    solution = solve(_law(slope, root), HalfWidth(asked=0.1, level=0.95), guess, 4, 1_000_000)
    assert solution.reached
    assert solution.horizon == pytest.approx(root, rel=0.02 + 1 / root)


@given(slope=st.floats(0.05, 0.6), factor=st.floats(1.1, 50))
def test_what_is_out_of_reach_is_extrapolated(slope, factor):
    solution = solve(_law(slope, 1000 * factor), HalfWidth(asked=0.1, level=0.95), 50, 4, 1000)
    assert not solution.reached
    assert solution.horizon == pytest.approx(1000 * factor, rel=1e-6)


def test_experiments_without_intervals_are_made_longer():
    def measure(horizon):
        point = _law(0.5, 5000)(horizon)
        return point if horizon > 300 else Point(horizon, 0.0, math.inf, math.inf, 0.0, 0.0, 1.0, 100)

    solution = solve(measure, HalfWidth(asked=0.1, level=0.95), 10, 4, 100_000)
    assert solution.horizon == pytest.approx(5000, rel=0.02)
    assert solve(_law(0.5, 1), HalfWidth(asked=0.1, level=0.95), 500, 4, 1000).horizon == 4


@pytest.mark.parametrize("asked", [0.5, 0.8, 0.95])
def test_power_is_straight_on_its_scale(asked):
    goal, z = Power(asked=asked, level=0.95), special.ndtri(0.975)

    def measure(horizon):  # a z-test of an effect that is 2.8 standard errors at 1,000
        return Point(horizon, 0.0, float(special.ndtr(2.8 * (horizon / 1000) ** 0.5 - z)), 0.0, 0, 0, 0, 10**9)

    solution = solve(measure, goal, 100, 4, 100_000)
    assert solution.horizon == pytest.approx(1000 * ((special.ndtri(asked) + z) / 2.8) ** 2, rel=0.01)


def test_a_goal_that_is_never_quite_reached_ends_the_search():
    goal = HalfWidth(asked=0.1, level=0.95)
    solution = solve(lambda h: Point(h, 0.0, 0.1 * (1 + 1e-9), 0.0, 0.0, 0.0, 0.0, 100), goal, 100, 4, 1_000_000)
    assert not solution.reached
