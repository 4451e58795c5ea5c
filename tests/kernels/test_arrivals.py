"""Kernels of arrivals, interpreted and compiled."""

from __future__ import annotations

import numpy as np
import pytest

from belated.kernels import arrivals, jit
from belated.kernels.arrivals import ArrivalColumns, ArrivalTimes


@pytest.fixture(params=["interpreted", "compiled"])
def kernel(request):
    """Return a function that returns a kernel by name."""
    jit.compile_kernels()
    functions = {name: getattr(arrivals, name) for name in arrivals.KERNELS}
    return lambda name: functions[name] if request.param == "compiled" else functions[name].py_func


def fixed(*times):
    """Return times that cannot be written to, as those of logs: kernels are compiled for both."""
    array = np.array(times, float)
    array.flags.writeable = False
    return array


def test_rows_of_one_position_are_sorted_by_time_then_assignment(kernel):
    due = np.array([3, 3, -1, 3, 2], dtype=np.int32)
    times = fixed(9.0, 7.0, np.nan, 7.0, 1.0)
    order = np.array([3, 0, 1, 2, 4], np.int32)
    arrange = kernel("arrange")
    assert arrange(ArrivalTimes(times, due, order[:0], 5), 0, 6).tolist() == [4, 1, 3, 0]
    assert arrange(ArrivalTimes(times, due, order, 5), 0, 6).tolist() == [4, 3, 1, 0]
    assert arrange(ArrivalTimes(times, due, order, 5), 3, 6).tolist() == [3, 1, 0]


@pytest.mark.parametrize("rows", [16, 17, 50, 64, 301])
def test_many_rows_of_one_position(kernel, rows):
    times = fixed(*np.random.default_rng(0).integers(0, 9, rows))
    due = np.full(rows, rows, dtype=np.int32)
    ordered = kernel("arrange")(ArrivalTimes(times, due, np.empty(0, np.int32), rows), 0, rows + 1)
    assert ordered.tolist() == np.argsort(times, kind="stable").tolist()


def test_first_outcomes_leave_those_that_are_known(kernel):
    columns = ArrivalColumns(
        code=np.array([0, 1, 0, 2]),
        outcome=np.array([1.0, 2.0, 3.0, 4.0]),
        propensity=np.full((4, 1), 0.5),
        full=False,
        arrived=np.array([2, 1, 0]),
    )
    shift, known = np.array([0.0, 7.0, 0.0]), np.array([False, True, False])
    kernel("first_outcomes")(shift, known, columns)
    assert shift.tolist() == [3.0, 7.0, 0.0]
    assert known.tolist() == [True, True, False]
    assert kernel("first_outside")(columns, 0, 3, 0.0, 2.0, False) == 0
    assert kernel("first_outside")(columns, 1, 3, 1.0, 2.0, True) == -1


def test_counts_by_moments_of_steps_and_times(kernel):
    counts, arrived, moments = np.empty(3, np.int64), np.array([2, 0, 1]), np.array([0, 4, 9])
    kernel("count_by")(counts, arrived, np.array([4, 8, 3]), moments)
    assert counts.tolist() == [0, 2, 3]
    kernel("count_by")(counts, np.array([0, 1, 7]), np.empty(0, np.int64), moments)
    assert counts.tolist() == [0, 2, 3]
