from __future__ import annotations

import numpy as np
import pytest
from numba import typeof
from small_logs import log_of

import belated as bl


def test_what_lies_after_as_of_is_not_looked_at():
    columns = {"outcome": [1.0, np.nan, np.nan, np.nan], "arrived_at": [1, 9, 9, 9]}
    assert log_of(**columns, as_of=4).arrived.tolist() == [True, False, False, False]
    assert log_of(**columns, as_of=8).at(5).as_of == 5
    with pytest.raises(bl.LogError, match="although it has arrived"):
        log_of(**columns, as_of=8).at(9)


def test_a_log_does_not_change_with_the_arrays_it_was_given():
    log = log_of()
    with pytest.raises(ValueError, match="read-only"):
        log.outcome[0] = 2.0


def test_rows_that_exist_are_in_order_of_assignment():
    assert log_of().existing_rows.tolist() == [0, 1, 2, 3]
    times = {"assigned_at": [5, 3, 8, 8], "arrived_at": [6, 3, 9, 12]}
    assert log_of(**times).existing_rows.tolist() == [1, 0, 2, 3]
    assert log_of(**times).at(7).existing_rows.tolist() == [1, 0]


def test_times_of_some_rows_are_those_of_all():
    rows = np.array([3, 0])
    for log in (log_of(), log_of(assigned_at=[5, 3, 8, 8], arrived_at=[6, 3, 9, 12])):
        np.testing.assert_array_equal(log.assigned_numbers_of(rows), log.assigned_numbers[rows])
        np.testing.assert_array_equal(log.arrived_numbers_of(rows), log.arrived_numbers[rows])


def test_kernels_are_compiled_for_one_kind_of_columns():
    """Numba compiles anew for arrays of another type or layout, or that can be written to."""
    bandit = bl.Bandit({"A": bl.arms.normal(), "B": bl.arms.normal()}, bl.delays.geometric(3))
    whole = [
        log_of(),
        log_of(assigned_at=[5, 3, 8, 8], arrived_at=None),
        log_of(arrived_at=[6, 3, 9, 12]),
        log_of(assigned_at=[5, 3, 8, 8], arrived_at=[6, 3, 9, 12], as_of=10.5),
        log_of(propensity=np.full((4, 2), 0.5, order="F")),
        log_of(outcome=np.arange(8.0)[::2], propensity=np.full((8, 2), 0.5)[::2]),
    ]
    floats = [
        log_of(assigned_at=[5.5, 3, 8, 8], arrived_at=None),
        log_of(arrived_at=[6.5, 3, 9, 12]),
        bl.simulate(bandit, bl.policies.uniform(), 20),
    ]
    assert len({typeof(log.kernel_rows) for log in whole + floats}) == 1
    assert len({typeof(log.times) for log in whole}) == len({typeof(log.times) for log in floats}) == 1


def test_the_last_look_is_the_last_time_or_the_as_of_time():
    times = {"assigned_at": [5, 3, 8, 8], "arrived_at": [6, 3, 9, 12]}
    assert log_of(**times).last_look == 12
    assert log_of(**times, as_of=10).last_look == 10
    assert log_of().last_look == 4


def test_parts_of_one_experiment_are_joined_row_after_row():
    first = log_of(assigned_at=[1, 2, 3, 4])
    second = log_of(assigned_at=[5.5, 6.5, 7.5, 8.5], arrived_at=[9, 9, 9, 9])
    joined = first.joined([second])
    assert joined.assigned_numbers.tolist() == [1, 2, 3, 4, 5.5, 6.5, 7.5, 8.5]
    assert joined.code.tolist() == [*first.code, *second.code]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"arms": ["A", "B", "C"], "propensity": np.full((4, 3), 1 / 3)}, "the same `arms`"),
        ({"propensity": [0.5] * 4}, "the same columns"),
        ({"cap": 2.0}, "the same `cap`"),
        ({"segment": list("xyxy")}, "all have segments and covariates, or none"),
        ({"assigned_at": None}, "need `assigned_at`"),
    ],
)
def test_parts_that_differ_are_not_joined(changes, sentence):
    with pytest.raises(bl.LogError, match=sentence):
        log_of(assigned_at=range(4)).joined([log_of(**{"assigned_at": range(4), **changes})])


@pytest.mark.parametrize("as_of", [None, 9.7])
def test_the_last_look_is_not_rounded_where_assignments_are_whole_and_arrivals_are_not(as_of):
    log = bl.Log([0, 1] * 5, np.arange(10.0), [[0.5, 0.5]] * 10, delay=[0.5] * 10, as_of=as_of)
    last = 10.5 if as_of is None else as_of
    assert log.even_moments(3)[-1] == last
    assert bl.sequence(log).moments[-1] == last
    assert bl.trajectory(log, at=3)[-1].values == pytest.approx(bl.estimate(log).values)


def test_an_arrival_may_be_far_away():
    log = bl.Log([0, 1] * 5, np.arange(10.0), [[0.5, 0.5]] * 10, delay=[1e300] * 10)
    assert log.even_moments(2).tolist() == [5, 1e300]
