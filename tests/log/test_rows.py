from __future__ import annotations

import numpy as np
import pytest
from numba import typeof
from small_logs import log_of

import belated as bl
from belated.kernels.rows import Times
from belated.log.clock import NEVER
from belated.log.rows import Schedule


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


def test_rows_assigned_after_as_of_do_not_exist():
    log = log_of(assigned_at=[3, 1, 2, 4], arrived_at=[3, 1, 2, 4], as_of=2)
    assert len(log) == 2
    assert log.arrived.tolist() == [False, True, True, False]


def test_history_is_strictly_before_and_batches_do_not_see_each_other():
    log = log_of(6, assigned_at=[1, 1, 2, 2, 3, 3], arrived_at=[1, 2, 3, 2, 3, 9])
    # row 0 came at 1: seen from time 2. Row 1 came at 2: seen at 2. Rows 2 and 3 are seen from 3.
    assert log.schedule.due.tolist() == [2, 2, 4, 4, 6, 6]


def schedule(assigned, arrived, moment=None):
    outcome = np.where(np.array(arrived) == NEVER, np.nan, 1.0)
    latest = np.iinfo(np.int64).max if moment is None else moment
    return Schedule.of(Times(np.array(assigned), np.array(arrived), latest, NEVER), outcome, moment)


def test_rows_out_of_order_are_put_in_order():
    late = schedule([3, 1, 2], [9, 1, NEVER])
    assert late.order.tolist() == [1, 2, 0]
    assert late.due.tolist() == [3, 1, -1]
    assert late.in_order(np.array([30, 10, 20])).tolist() == [10, 20, 30]
    sorted_rows = schedule([1, 2, 3], [1, 2, 3])
    assert len(sorted_rows.order) == 0
    assert sorted_rows.in_order(np.array([10, 20, 30])).tolist() == [10, 20, 30]


def test_only_rows_up_to_the_moment_exist():
    values = np.array([30, 10, 20])
    cut = schedule([3, 1, 2], [3, 1, 2], moment=2)
    assert cut.rows == 2
    assert values[cut.existing].tolist() == [10, 20]
    assert cut.due.tolist() == [-1, 1, 2]
    assert values[schedule([1, 2, 3], [1, 2, 3], moment=2).existing].tolist() == [30, 10]
    assert schedule([1, 2, 3], [1, 2, 3], moment=0).rows == 0
