"""Rows whose outcomes have arrived, in the order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from belated.base.columns import Array
from belated.kernels import arrivals as kernel
from belated.kernels import jit
from belated.kernels.arrivals import ArrivalColumns, ArrivalTimes
from belated.kernels.sequence_blocks import BlockArrivals
from belated.log.log import Log

#: Arrivals that the interpreter goes through.
_FEW = 256

_Kernel = TypeVar("_Kernel", bound=Callable[..., object])


@dataclass(frozen=True, eq=False)
class ArrivedRows:
    """Rows whose outcomes have arrived, in the order of arrival.

    `times` are the rows' times of arrival; empty: each row's own step, 1, 2, ...
    """

    columns: ArrivalColumns
    times: Array

    @classmethod
    def of(cls, log: Log) -> ArrivedRows:
        """Return those of a log."""
        schedule = log.schedule
        jit.ready(2 * schedule.rows)
        arrival_times = ArrivalTimes(times=log.arrival_times, due=schedule.due, order=schedule.order, n=schedule.rows)
        parts = jit.in_stretches(schedule.rows + 1, lambda low, high: kernel.arrange(arrival_times, low, high))
        columns = ArrivalColumns(
            code=log.code,
            outcome=log.outcome,
            propensity=log.propensity_matrix,
            full=log.has_all_propensities,
            arrived=parts[0] if len(parts) == 1 else np.concatenate(parts),
        )
        return cls(columns, arrival_times.times)

    def __len__(self) -> int:
        return len(self.columns.arrived)

    def after(self, n: int) -> ArrivedRows:
        """Return those after the first n."""
        return ArrivedRows(self.columns._replace(arrived=self.columns.arrived[n:]), self.times)

    def moments(self, places: Array | slice) -> Array:
        """Return when those at some places arrived."""
        which = self.columns.arrived[places]
        return np.asarray(self.times[which] if len(self.times) else which.astype(np.int64) + 1)

    def moment(self, place: int) -> int | float:
        """Return when the one at a place arrived."""
        time: int | float = self.moments(np.array([place])).item()
        return time

    @property
    def last_moment(self) -> int | float | None:
        """When the last outcome arrived, if any has."""
        return self.moment(-1) if len(self) else None

    def block(self, start: int, stop: int) -> BlockArrivals:
        """Return those at places from start to stop."""
        columns, moments = self.columns, self.moments(slice(start, stop))
        last = np.ones(len(moments), dtype=bool)
        np.not_equal(moments[1:], moments[:-1], out=last[:-1])
        which = columns.arrived[start:stop]
        code = columns.code[which].astype(np.int64)
        return BlockArrivals(
            start=start,
            code=code,
            outcome=columns.outcome[which],
            propensity=columns.propensity[which, code if columns.full else 0],
            last=last,
        )

    def count_by(self, moments: Array) -> Array:
        """Return how many had arrived by each moment."""
        counts = np.empty(len(moments), dtype=np.int64)
        self.kernel(kernel.count_by)(counts, self.columns.arrived, self.times, moments)
        return counts

    def outside(self, low: float, high: float, *, ends: bool = False) -> float | None:
        """Return an outcome that is not between two values (with `ends`: is neither of them), if there is one."""
        first_outside = self.kernel(kernel.first_outside)

        def find(start: int, stop: int) -> int:
            return first_outside(self.columns, start, stop, low, high, ends)

        places = [place for place in jit.in_stretches(len(self), find) if place >= 0]
        return float(self.columns.outcome[self.columns.arrived[places[0]]]) if places else None

    def kernel(self, function: _Kernel) -> _Kernel:
        """Return a kernel, interpreted for a few: that is sooner done than another kind of columns is compiled."""
        interpreted: _Kernel = getattr(function, "py_func", function)
        return function if len(self) > _FEW else interpreted
