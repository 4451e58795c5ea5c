"""`Schedule`: which outcomes had arrived before each assignment (section 2 of the paper, with batches and ties)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from belated.base.columns import BLOCK, Array, locked
from belated.kernels import jit
from belated.kernels import rows as kernel


@dataclass(frozen=True)
class Schedule:
    """The order of assignments, and for each row the position from which its outcome is known."""

    order: Array  # row of each position; empty if the rows are in order
    due: Array  # by row: a position, `rows` if no later row sees it, -1 if not arrived
    rows: int  # number of positions at the as-of time of the log

    @classmethod
    def of(cls, times: kernel.Times, outcome: Array, moment: int | float | None) -> Schedule:
        """Return the schedule of rows; `times` are in row order, and rows after `moment` are ignored."""
        total = rows = len(outcome)
        index = np.int32 if total < 2**31 - 1 else np.int64  # of all arrays: kernels are compiled for each type
        assigned, order = times.assigned, np.empty(0, dtype=index)
        if not _is_sorted(assigned):
            order = np.argsort(assigned, kind="stable").astype(index)
            assigned = locked(assigned[order])
        if moment is not None:
            if not len(assigned):
                rows = int(min(max(math.floor(min(moment, total)), 0), total))
            else:
                rows = int(np.searchsorted(assigned, moment, side="right"))
        due = np.empty(total, dtype=index)
        if rows < total:
            due[:] = -1
        sorted_times = times._replace(assigned=assigned)
        jit.ready(rows)

        def fill(start: int, stop: int) -> None:
            kernel.schedule(due, sorted_times, outcome, order, start, stop, rows)

        jit.in_stretches(rows, fill)
        return cls(order, due, rows)

    @property
    def existing(self) -> Array | slice:
        """An index of the rows at the as-of time, in order of assignment."""
        return self.order[: self.rows] if len(self.order) else slice(0, self.rows)

    def in_order(self, column: Array) -> Array:
        """Return a column of the log's rows in order of assignment."""
        return column[self.order] if len(self.order) else column


def _is_sorted(times: Array) -> bool:
    for start in range(0, len(times), BLOCK):
        block = times[start : start + BLOCK + 1]
        if not (block[:-1] <= block[1:]).all():
            return False
    return True
