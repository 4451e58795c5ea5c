"""Missing outcomes of one arm: the algebra, against twins row by row."""

from __future__ import annotations

import math
from itertools import pairwise

import naive.sensitivity as naive
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from simulated_logs import experiment

import belated as bl
from belated.assumptions.missing import ArmOutcomes, Bounds, MissingOutcomes, Odds, Shifted, bounds_columns

values = st.one_of(st.sampled_from([-1.0, 0.0, 0.0, 1.0, 2.0]), st.floats(-10, 10))


some_rows = st.lists(st.tuples(st.floats(1, 20), st.booleans(), values), min_size=4, max_size=9).filter(
    lambda rows: sum(arrived for _, arrived, _ in rows) >= 2
)


def columns(rows):
    w, arrived, y = (np.array(column) for column in zip(*rows, strict=True))
    return w, arrived, np.where(arrived, y, math.nan)


@given(some_rows, st.floats(1, 20), st.booleans())
def test_no_weights_between_1_and_gamma_give_a_more_extreme_mean(rows, gamma, up):
    w, arrived, y = columns(rows)
    arm = ArmOutcomes(w, arrived, y)
    extreme = Odds(gamma).of(arm, up)
    missing = (extreme.value - arm.share * arm.mean) / (1 - arm.share) if arm.share < 1 else None
    if missing is not None and arm.share < 0.99:
        brute = naive.extreme_mean_of_any_weights(w[arrived].tolist(), y[arrived].tolist(), gamma, up)
        assert missing == pytest.approx(brute, abs=1e-9)


@given(some_rows, st.floats(1, 20), st.booleans())
def test_an_arm_is_as_its_twin_row_by_row(rows, gamma, up):
    w, arrived, y = columns(rows)
    extreme = Odds(gamma).of(ArmOutcomes(w, arrived, y), up)
    mean, variance, _ = naive.extreme(w.tolist(), arrived.tolist(), y.tolist(), gamma, up)
    scale = float(np.ptp(y[arrived])) + 1e-3
    assert extreme.value == pytest.approx(mean, abs=1e-9 * scale)
    assert extreme.variance == pytest.approx(variance, rel=1e-6, abs=1e-9 * scale**2)


@given(some_rows, st.floats(0, 5), st.booleans())
def test_a_shift_is_as_its_twin(rows, delta, up):
    w, arrived, y = columns(rows)
    extreme = Shifted(delta).of(ArmOutcomes(w, arrived, y), up)
    twin = naive.extreme(w.tolist(), arrived.tolist(), y.tolist(), 1.0, up, delta if up else -delta)
    assert extreme == pytest.approx(twin, rel=1e-6, abs=1e-8)


@given(some_rows, st.floats(1, 20), st.booleans())
def test_rates_have_a_closed_form(rows, gamma, up):
    w, arrived, y = columns(rows)
    arm = ArmOutcomes(w, arrived, np.where(y > 0, 1.0, 0.0))
    share = arm.share
    closed = share * arm.mean + (1 - share) * Odds(gamma).of_rate(arm.mean, up)
    assert Odds(gamma).of(arm, up).value == pytest.approx(closed, abs=1e-12)


some_chances = st.lists(st.floats(0.2, 1), min_size=9, max_size=9)


@given(some_rows, some_chances, st.floats(1, 20), st.floats(0, 3), st.booleans())
def test_an_arm_whose_chances_differ_is_as_its_twin_row_by_row(rows, chances, gamma, delta, up):
    w, arrived, y = columns(rows)
    arm = ArmOutcomes(w, arrived, y, np.array(chances[: len(w)]))
    assume(arm.differ and arm.missing > 0.01)
    same = w.tolist(), arrived.tolist(), y.tolist(), chances[: len(w)]
    u, values = naive.weights_for_missing(*same[:2], same[3]), y[arrived].tolist()
    cuts = [naive.extreme_tau(u, values, factor, up)[0] for factor in (1.0, gamma)]
    assume(min(abs(value - cut) for value in values for cut in cuts) > 1e-6)  # else on either side of the cut
    scale = float(np.ptp(y[arrived])) + delta
    for extreme, twin in (
        (Odds(gamma).of(arm, up), naive.extreme_of_chances(*same, gamma, up)),
        (Shifted(delta).of(arm, up), naive.extreme_of_chances(*same, 1.0, up, delta if up else -delta)),
    ):
        assert extreme.value == pytest.approx(twin[0], abs=1e-9 * scale)
        assert extreme.variance == pytest.approx(twin[1], rel=1e-6, abs=1e-9 * scale**2)
        assert extreme.size == pytest.approx(twin[2], rel=1e-6)


@given(some_rows, some_chances, st.floats(1, 20), st.booleans())
def test_no_weights_of_missing_outcomes_give_a_more_extreme_mean_if_chances_differ(rows, chances, gamma, up):
    w, arrived, y = columns(rows)
    arm = ArmOutcomes(w, arrived, y, np.array(chances[: len(w)]))
    assume(arm.differ and arm.missing > 0.01)
    u = naive.weights_for_missing(w.tolist(), arrived.tolist(), chances[: len(w)])
    brute = naive.extreme_mean_of_any_weights(u, y[arrived].tolist(), gamma, up)
    value = (1 - arm.missing) * arm.mean_arrived + arm.missing * brute
    assert Odds(gamma).of(arm, up).value == pytest.approx(value, abs=1e-9)


@given(some_rows, st.floats(0.1, 1), st.floats(1, 20), st.booleans())
def test_equal_chances_change_nothing(rows, chance, gamma, up):
    w, arrived, y = columns(rows)
    chances = np.where(arrived, chance, 0.5)
    assert Odds(gamma).of(ArmOutcomes(w, arrived, y, chances), up) == Odds(gamma).of(ArmOutcomes(w, arrived, y), up)
    nearly = ArmOutcomes(w, arrived, y, chance * (1 + 1e-12 * np.arange(len(w))))
    assert Odds(gamma).of(nearly, up) == pytest.approx(
        Odds(gamma).of(ArmOutcomes(w, arrived, y), up), rel=1e-6, abs=1e-8
    )


@pytest.mark.parametrize("kind", ["normal", "rate"])
def test_rows_that_surely_arrive_say_nothing_about_missing_ones(kind):
    rng = np.random.default_rng(3)
    y = (
        rng.normal(size=200) * np.repeat([5, 1], 100)
        if kind == "normal"
        else np.repeat([1.0, 0, 1, 0], [9, 91, 30, 70])
    )
    seldom = np.arange(200) < 100
    arrived = ~seldom | (np.arange(200) % 2 == 1)
    outcome, chance = np.where(arrived, y, math.nan), np.where(seldom, 0.5, 1.0)
    log = bl.Log(
        np.repeat(["A", "B"], 200), np.tile(outcome, 2), "uniform", arrival_probability=np.tile(chance, 2)
    )  # fmt: skip
    unsure = ArmOutcomes(np.ones(100), arrived[seldom], outcome[seldom])
    bounds = bl.sensitivity(log, "A", mature=0).at(3)
    for bound, up in ((bounds.bound_low, False), (bounds.bound_high, True)):
        assert bound == pytest.approx((Odds(3.0).of(unsure, up).value + np.mean(y[~seldom])) / 2)


@given(some_rows, st.floats(1, 20))
def test_mirrored_outcomes_have_mirrored_bounds(rows, gamma):
    w, arrived, y = columns(rows)
    up = Odds(gamma).of(ArmOutcomes(w, arrived, y), True)
    down = Odds(gamma).of(ArmOutcomes(w, arrived, -y), False)
    assert (up.value, up.variance) == pytest.approx((-down.value, down.variance), rel=1e-6, abs=1e-9)


def test_the_variance_is_that_of_leaving_rows_out():
    rng = np.random.default_rng(5)
    w, arrived, y = np.ones(300), rng.random(300) < 0.6, rng.exponential(1, 300)

    def value(keep):
        return Odds(3.0).of(ArmOutcomes(w[keep], arrived[keep], y[keep]), True)

    everyone = np.ones(300, dtype=bool)
    without = []
    for i in range(300):
        keep = everyone.copy()
        keep[i] = False
        without.append(value(keep).value)
    jackknife = 299 * np.var(without)
    assert value(everyone).variance == pytest.approx(jackknife, rel=0.03)


def test_a_large_mean_costs_no_digits():
    rng = np.random.default_rng(6)
    w, arrived, y = 1 + rng.exponential(1, 500), rng.random(500) < 0.6, rng.normal(size=500)
    near = Odds(2.0).of(ArmOutcomes(w, arrived, y), True)
    far = Odds(2.0).of(ArmOutcomes(w, arrived, y + 1e8), True)
    assert far.value - 1e8 == pytest.approx(near.value, abs=1e-6)
    assert far.variance == pytest.approx(near.variance, rel=1e-6)


def test_outcomes_recorded_only_when_they_happen_are_refused():
    rng = np.random.default_rng(2)
    happened = rng.random(200) < 0.3
    log = bl.Log(rng.integers(0, 2, 200), np.where(happened, 1.0, math.nan), [0.5] * 200)
    with pytest.raises(bl.LogError, match="only events are recorded"):
        bl.sensitivity(log, (1, 0))


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


def test_without_a_difference_the_mean_of_merged_segments_is_their_estimate():
    rng = np.random.default_rng(4)
    segment, arm = rng.integers(0, 10, 200), rng.integers(0, 2, 200)
    outcome = np.where(rng.random(200) < np.where(segment % 2, 0.3, 1.0), rng.normal(segment % 2), np.nan)
    log = bl.Log(arm, outcome, np.full((200, 2), 0.5), segment=segment)
    assert log.layout.arrival is not None
    missing = MissingOutcomes.of(log, np.array([0.0, 1.0]), 0.025, (math.nan, math.nan))
    low, high, *_ = missing.limits(Odds(1.0))
    assert low == pytest.approx(high) == pytest.approx(bl.estimate(log, "dipw").arm(1).estimate)
