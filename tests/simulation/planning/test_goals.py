from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from belated.base.errors import OptionError
from belated.simulation.performance import Performance
from belated.simulation.planning.goals import HalfWidth, Power, read_goal

HALF_WIDTH, POWER = HalfWidth(asked=0.5, level=0.95), Power(asked=0.8, level=0.95)


def cell(low, high, truth=1.0):
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    middle = (low + high) / 2
    return Performance(
        horizon=50,
        estimator="daipw",
        target="B - A",
        interval="t",
        truth=truth,
        error=middle - truth,
        std_error=(high - low) / 4,
        low=low,
        high=high,
    )


def test_a_half_width_is_a_mean_with_its_error():
    widths = np.array([0.2, 0.4, 0.6, 0.8])
    point = HALF_WIDTH.point(cell(1 - widths, 1 + widths), wait=3.0)
    assert (point.horizon, point.wait, point.replications, point.missing) == (50, 3.0, 4, 0.0)
    assert point.value == pytest.approx(0.5)
    assert point.error == pytest.approx(widths.std(ddof=1) / 2)
    assert (point.low, point.high) == pytest.approx((0.2, 0.8))
    assert HALF_WIDTH.gap(point) == pytest.approx(0.0, abs=1e-12)


def test_an_assurance_is_a_quantile():
    widths = np.linspace(0.01, 1.0, 100)
    goal = HalfWidth(asked=0.5, level=0.95, assurance=0.8)
    assert goal.point(cell(-widths, widths), 0.0).value == pytest.approx(0.8)


def test_the_error_of_a_quantile_beyond_the_largest_run_is_unknown():
    widths = np.linspace(0.01, 1.0, 100)
    errors = [HalfWidth(0.5, 0.95, assurance=p).point(cell(-widths, widths), 0.0).error for p in (0.8, 0.98, 0.999)]
    assert errors == pytest.approx([0.045, 0.015, math.inf])


def test_many_runs_without_an_interval_say_nothing():
    low = np.full(20, 0.0)
    low[:2] = math.nan
    point = HALF_WIDTH.point(cell(low, low + 1), 0.0)
    assert point.value == math.inf
    assert point.missing == pytest.approx(0.1)
    assert HALF_WIDTH.gap_error(point) == math.inf


@pytest.mark.parametrize("sign", [1, -1])
def test_power_is_the_share_that_excludes_the_null_on_the_side_of_the_truth(sign):
    low, high = np.array([0.1, 0.2, -0.1, 0.3, -2.0]), np.array([1.0, 1.0, 1.0, 1.0, -1.0])
    limits = (low, high) if sign > 0 else (-high, -low)
    point = POWER.point(cell(*limits, truth=sign * 0.5), 0.0)
    assert point.value == pytest.approx(3 / 5)
    assert point.low <= point.value <= point.high


def test_the_proxy_of_a_power_is_the_half_width_of_a_normal_test():
    proxy = POWER.proxy(0.3)
    z = special.ndtri(0.975)
    assert isinstance(proxy, HalfWidth)
    assert proxy.asked == pytest.approx(0.3 * z / (z + special.ndtri(0.8)))
    assert HALF_WIDTH.proxy(0.3) == HALF_WIDTH


def test_the_first_guess_is_the_textbooks():
    guess = HALF_WIDTH.guess(np.array([1.0, 2.0, 9.0]), np.array([1.0, -1.0, 0.0]))
    assert guess == pytest.approx(3 * (1 + 4) * (special.ndtri(0.975) / 0.5) ** 2)


def test_goals_in_words():
    assured = HalfWidth(asked=0.5, level=0.95, assurance=0.8)
    assert HALF_WIDTH.sentence("the interval") == "the interval has a mean half-width of 0.5"
    assert assured.sentence("the interval") == "the interval has a half-width of at most 0.5 in 80% of experiments"
    assert POWER.sentence("the interval") == "the interval excludes 0 in 80% of experiments"
    widths = np.array([0.2, 0.4, 0.6, 0.8])
    point = HALF_WIDTH.point(cell(1 - widths, 1 + widths), 0.0)
    assert HALF_WIDTH.spread_text(point) == "80% of experiments have a half-width between 0.2 and 0.8."
    assert assured.spread_text(point) is None
    assert POWER.spread_text(point) is None


def test_only_power_needs_a_distance_from_the_null():
    HALF_WIDTH.check_distance(0.0, "B - A")
    POWER.check_distance(0.1, "B - A")
    with pytest.raises(OptionError, match="true value of B - A equals the null, 0"):
        POWER.check_distance(0.0, "B - A")


def test_the_goal_that_is_asked_for():
    assert read_goal(0.5, None, None, 0.0, 0.95, replications=40) == HALF_WIDTH
    assert read_goal(None, 0.8, None, 0.0, 0.95, replications=40) == POWER
    with pytest.raises(OptionError, match="exactly one goal"):
        read_goal(0.5, 0.8, None, 0.0, 0.95, replications=40)
