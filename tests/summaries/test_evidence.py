"""Evidence: sums by arm and by longer stretches of time."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_logs import played

from belated.summaries.evidence import (
    COARSE,
    ENOUGH,
    STRETCHES,
    FollowUp,
    grain_of,
    mean_and_sd,
    settled,
    squares_about_mean,
)


def test_sums_by_arm_and_by_longer_stretches_are_the_same_sums():
    evidence = played(500, 3).evidence()
    assert set(evidence.sums) == {"assigned", "inverse", "old", "soon", "arrived", "y", "y2", "w", "w2", "w3", "w4"}
    for name, table in evidence.sums.items():
        assert table.shape == (STRETCHES, 3)
        np.testing.assert_allclose(evidence.totals[name], table.sum(axis=0))
        assert evidence.coarse(name).shape == (COARSE, 3)
        np.testing.assert_allclose(evidence.coarse(name).sum(axis=0), evidence.totals[name])
    np.testing.assert_allclose(evidence.coarse("p").sum(), 500)
    np.testing.assert_allclose(evidence.coarse("p2").sum(axis=0), evidence.p2.sum(axis=0))


def test_half_of_a_whole_time_is_whole():
    assert (FollowUp(1, 5, 8, True).half, FollowUp(1, 5, 8, False).half) == (3, 3.5)


def test_old_rows_were_followed_for_half_of_the_time_and_the_early_ones_of_many_are_the_first():
    followed = FollowUp(first=0, last=100, look=120, whole=True)
    assert (followed.old_until, followed.early_until(ENOUGH), followed.early_until(4 * ENOUGH)) == (60, 60, 25)
    assert FollowUp(0, 100, 400, whole=True).old_until == 100
    assert FollowUp(0, 9, 9, whole=True).old_until == 4  # of rows followed for 4 and 5 steps of 9, those for 5 are old
    assert FollowUp(0, 63, 63, whole=True).old_until == 31
    assert followed.moments[[0, -1]].tolist() == [1.25, 98.75]


def test_delays_have_the_same_unit_of_logarithms_in_any_unit_of_time():
    assert [FollowUp(0, 9 * unit, 9 * unit, whole=True).short / unit for unit in (1, 2, 7)] == pytest.approx(
        [0.0045] * 3
    )
    assert FollowUp(3, 3, 3, whole=True).short == 1


def test_a_unit_is_the_greatest_common_divisor_unless_it_is_too_short_to_matter():
    def remainder(unit):
        off = [abs(delay - round(delay / unit) * unit) for delay in delays]
        return min((each for each in off if each > 1e-9), default=None)

    delays = [300.0, 310.0, 325.0]
    assert grain_of(300.0, 325.0, remainder) == 5
    delays.append(326.0)
    assert grain_of(300.0, 326.0, remainder) == 0


def test_variances_that_are_0_but_for_rounding_are_0():
    assert settled(np.array([1e-9, 2e-6, 0.5]), 1000).tolist() == [0.0, 2e-6, 0.5]


def test_squares_about_the_mean_of_equal_values_are_exactly_0():
    values = np.array([[0.1] * 7, [0.1] * 6 + [0.2], [0.1 + 1e-10] * 7])
    squares = squares_about_mean(np.full(3, 7.0), values.sum(axis=1), (values**2).sum(axis=1))
    assert squares[[0, 2]].tolist() == [0.0, 0.0]
    assert squares[1] == pytest.approx(values[1].var() * 7)


def test_the_standard_deviation_of_equal_outcomes_is_taken_as_1():
    totals = {"arrived": np.array([4.0, 2.0, 0.0]), "y": np.array([8.0, 2e8, 0.0]), "y2": np.array([20.0, 2e16, 0.0])}
    mean, sd = mean_and_sd(totals)
    assert (mean.tolist(), sd.tolist()) == ([2.0, 1e8, 0.0], [1.0, 1.0, 1.0])
