"""Weights by name, given, and planned for a horizon."""

from __future__ import annotations

import numpy as np
import pytest

import belated as bl
from belated.summaries.weights import past_of, read_weights

LOG = bl.Log(["A", "B", "A"], [1.0, 2.0, 3.0], [[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]])


@pytest.mark.parametrize(
    ("name", "h"),
    [
        ("sqrt", np.sqrt([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]])),
        ("propensity", [[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]),
        ("uniform", np.ones((3, 2))),
        ("past", [[0.5**0.5, 0.5**0.5], [0.5**0.5, 0.5**0.5], [(7 / 2) ** -0.5, (3.25 / 2) ** -0.5]]),
    ],
)
def test_a_name_stands_for_its_formula(name, h):
    by_name, given = bl.Sums.of(LOG, name, "zero"), bl.Sums.of(LOG, np.array(h), "zero")
    for field in ("h", "w", "wy", "w_max"):
        np.testing.assert_allclose(by_name[field], given[field])


def test_what_a_kind_needs():
    sqrt, uniform, planned = read_weights("sqrt"), read_weights("uniform"), bl.two_point(10)
    assert (sqrt.need_all_propensities, uniform.need_all_propensities) == (True, False)
    assert (sqrt.needs_rows, planned.needs_rows, read_weights(np.ones((3, 2))).needs_rows) == (False, True, True)
    assert bl.two_point().needs_horizon
    assert not planned.needs_horizon
    assert not sqrt.needs_horizon


def test_a_horizon_is_planned_for_once():
    assert bl.two_point().planned_for(7).horizon == 7
    assert bl.two_point(10).planned_for(7).horizon == 10
    assert read_weights("sqrt").planned_for(7).horizon is None
    with pytest.raises(bl.OptionError, match="`horizon` is 2 but the log has 3 rows"):
        bl.Sums.of(LOG, bl.two_point(2), "zero")


def test_a_given_array_is_checked():
    with pytest.raises(bl.OptionError, match=r"`weights` has shape \(2, 2\); it must be \(rows, arms\) = \(3, 2\)"):
        bl.Sums.of(LOG, np.ones((2, 2)))
    with pytest.raises(bl.OptionError, match="`weights` in row 1 is"):
        bl.Sums.of(LOG, np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]))
    with pytest.raises(bl.OptionError, match="Did you mean 'sqrt'"):
        bl.Sums.of(LOG, "sqr")
    with pytest.raises(bl.OptionError, match="'given' needs an array or a function"):
        bl.Weights("given")


def test_weights_from_the_past_do_not_see_their_own_batch_or_rows_without_a_chance():
    p = [[0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]]
    log = bl.Log(["A", "B", "A", "C"], [1.0] * 4, p, assigned_at=[1, 1, 2, 3])
    rows = past_of(log)
    np.testing.assert_allclose(rows[:2], 3**-0.5)
    np.testing.assert_allclose(rows[2], [3**-0.5, (10 / 3 / 2) ** -0.5, 3**-0.5])
    np.testing.assert_allclose(rows[3], [(11 / 3) ** -0.5, (20 / 3 / 3) ** -0.5, 2**-0.5])
    assert not read_weights("past").needs_horizon
    with pytest.raises(bl.MergeError, match="'past' cannot be merged"):
        _ = bl.Sums.of(log, "past") + bl.Sums.of(log, "past")
    with pytest.raises(bl.PropensitiesNeededError, match="'past' need every arm's propensity"):
        bl.estimate(bl.Log(["A", "B"], [1.0, 2.0], [0.5, 0.5]), "dipw", weights="past")


@pytest.mark.parametrize(("name", "own"), [("sqrt", [0.5, 0.9]), ("propensity", [0.25, 0.81]), ("uniform", [1.0, 1.0])])
def test_weights_of_a_formula_need_no_more_than_the_propensity(name, own):
    weights = read_weights(name)
    assert not weights.needs_rows
    np.testing.assert_allclose(weights.of_own(np.array([0.25, 0.81])), own)


@pytest.mark.parametrize("weights", ["past", bl.two_point(10), np.ones((3, 2))])
def test_other_weights_need_the_rows(weights):
    assert read_weights(weights).needs_rows
    with pytest.raises(bl.OptionError, match="need all rows"):
        read_weights(weights).of_own(np.array([0.5]))
