from __future__ import annotations

import numpy as np
from small_logs import log_of

from belated.kernels.rows import Times
from belated.log.clock import NEVER
from belated.log.schedule import Schedule


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
