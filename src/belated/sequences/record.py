"""`Record`: arrivals in calendar order, the running state of each arm, and the tests at every arrival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from belated.base.columns import Array, locked
from belated.kernels import arrivals as arrival_kernel
from belated.kernels import fields, jit
from belated.kernels import sequence_blocks as kernel
from belated.kernels.arrivals import ArrivalColumns, ArrivalTimes
from belated.kernels.sequence_blocks import BlockArrivals, Blocks, Verdicts
from belated.kernels.sequence_bounds import BETS, GAUGE, STATE
from belated.log.log import Log
from belated.sequences.design import Design

#: The size of a block: a share of the arrivals before it, at most a maximum, and at least this many times the arms.
_SHARE, _MOST, _LEAST = 32, 2048, 64

#: The number of arrivals whose mean approximates the mean of all.
_SOME = 4096


class Record:
    """The current state of each arm, the largest score of every test, and when it first exceeded the thresholds.

    Attributes
    ----------
    state : array (arms, state)
        Sums over the arrived outcomes of each arm, minus its `shift`.
    shift : array (arms,)
        Each arm's first outcome.
    best : array (questions,)
    first : array (2, questions) of numbers of the clock or None
        The time of the first rejection, as a single test and as one of all simultaneous tests.
    """

    def __init__(self, design: Design) -> None:
        k, n = len(design.arms), len(design.questions.arms)
        self._design = design
        self.state, self.shift = np.zeros((k, len(STATE))), np.zeros(k)
        self._gauges, self._measured = np.zeros((k, GAUGE)), np.zeros(k)
        self.best = np.zeros(n)
        self.first = np.full((2, n), None, dtype=object)

    def add(self, arrivals: ArrivedRows, moments: Array) -> Array:
        """Add arrivals in order, and return the states at the given times."""
        if len(arrivals) == 0:
            return np.repeat(self.state[np.newaxis], len(moments), axis=0)
        looks = arrivals.count_by(moments)
        ends = arrivals.count_by(arrivals.moments(self._grid(len(arrivals)) - 1))
        cuts = np.unique(np.concatenate([[0], ends, looks]))
        with np.errstate(all="ignore"):
            blocks = self._sum(arrivals, cuts)
            self._judge(arrivals, blocks)
        self.state = blocks.states[-1].copy()
        return np.asarray(blocks.states[np.searchsorted(cuts, looks)])

    def _sum(self, arrivals: ArrivedRows, cuts: Array) -> Blocks:
        """Return the blocks that begin and end at the cuts, with the states there."""
        design, columns, n_blocks = self._design, arrivals.columns, len(cuts) - 1
        known = self.state[:, fields.ARRIVED] > 0
        arrivals.kernel(arrival_kernel.first_outcomes)(self.shift, known, columns)
        blocks = Blocks(
            cuts=cuts,
            states=np.empty((n_blocks + 1, *self.state.shape)),
            paths=np.empty((n_blocks, len(design.arms), 2)),
            shift=self.shift,
            about=self._about(arrivals),
        )

        def in_stretches(task: Callable[[int, int], None]) -> None:
            """Call a task for the blocks that begin in each range of arrivals."""
            jit.in_stretches(len(arrivals), lambda start, stop: task(*np.searchsorted(cuts, (start, stop))))

        weighted = not design.is_binary
        sum_blocks, sum_bets = arrivals.kernel(kernel.sum_blocks), arrivals.kernel(kernel.sum_bets)
        in_stretches(lambda first, last: sum_blocks(blocks, first, last, columns, weighted))
        blocks.states[0] = self.state
        _add_up(blocks.states, slice(0, BETS))
        if design.kind == "bernstein":
            in_stretches(lambda first, last: sum_bets(blocks, first, last, columns, design.plan))
            _add_up(blocks.states, slice(BETS, None))
        return blocks

    def _judge(self, arrivals: ArrivedRows, blocks: Blocks) -> None:
        """Store the largest scores, and the times at which they first exceeded the thresholds."""
        plan, questions = self._design.plan, self._design.questions
        known = np.array([when is not None for when in self.first.flat]).reshape(self.first.shape)
        verdicts = Verdicts(best=self.best, first=np.where(known, 0, -1), gauges=self._gauges, measured=self._measured)
        kernel.score_ends(questions, blocks, plan, verdicts)
        candidates, block = np.empty(len(self.best), dtype=np.int64), 0
        while block < len(blocks.paths):
            block, n = kernel.next_block(candidates, block, questions, blocks, plan, verdicts)
            if n == 0:
                break
            within = arrivals.block(int(blocks.cuts[block]), int(blocks.cuts[block + 1]))
            state = blocks.states[block].copy()
            kernel.judge_block(candidates[:n], within, state, self.shift, questions, plan, verdicts)
            block += 1
        for place in zip(*np.nonzero((verdicts.first >= 0) & ~known), strict=True):
            self.first[place] = arrivals.moment(verdicts.first[place])

    def verdict(self, question: int, *, joint: bool) -> tuple[float, int | float | None]:
        """Return the largest score of a test, and when it first exceeded the threshold, single or simultaneous."""
        return float(self.best[question]), self.first[int(joint), question]

    def _about(self, arrivals: ArrivedRows) -> Array:
        """Return a value near each arm's mean; the nearer it is, the tighter are the bounds over a block."""
        columns = arrivals.columns
        some = columns.arrived[:: len(arrivals) // _SOME + 1]
        code, k = columns.code[some], len(self.shift)
        n = np.bincount(code, minlength=k)
        return np.where(n > 0, np.bincount(code, columns.outcome[some], minlength=k) / np.maximum(n, 1), self.shift)

    def _grid(self, n: int) -> Array:
        """Return the ends of blocks of n arrivals if no two arrivals had the same time."""
        before, least, at, ends = int(self.state[:, fields.ARRIVED].sum()), _LEAST * len(self.state), 0, []
        while at < n:
            at = min(at + max(least, min((before + at) // _SHARE, _MOST)), n)
            ends.append(at)
        return np.array(ends)


def _add_up(states: Array, part: slice) -> None:
    """Replace the sums of blocks by the states at the ends of the blocks."""
    largest = np.maximum.accumulate(states[:, :, fields.W_MAX], axis=0)
    np.cumsum(states[:, :, part], axis=0, out=states[:, :, part])
    states[:, :, fields.W_MAX] = largest


#: Up to this many arrivals are processed without compiled code.
_FEW = 256

_Kernel = TypeVar("_Kernel", bound=Callable[..., object])


@dataclass(frozen=True, eq=False)
class ArrivedRows:
    """Rows whose outcomes have arrived, in the order of arrival.

    `times` are the arrival times of the rows; empty if they are the steps 1, 2, ...
    """

    columns: ArrivalColumns
    times: Array

    @classmethod
    def of(cls, log: Log) -> ArrivedRows:
        """Return the arrived rows of a log."""
        schedule = log.schedule
        jit.ready(2 * schedule.rows)
        times = locked(log.arrival_times)
        arrival_times = ArrivalTimes(times=times, due=schedule.due, order=schedule.order, n=schedule.rows)
        parts = jit.in_stretches(schedule.rows + 1, lambda low, high: arrival_kernel.arrange(arrival_times, low, high))
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
        """Return the rows after the first n."""
        return ArrivedRows(self.columns._replace(arrived=self.columns.arrived[n:]), self.times)

    def moments(self, places: Array | slice) -> Array:
        """Return the arrival times at some positions."""
        rows = self.columns.arrived[places]
        return np.asarray(self.times[rows] if len(self.times) else rows.astype(np.int64) + 1)

    def moment(self, place: int) -> int | float:
        """Return the arrival time at a position."""
        time: int | float = self.moments(np.array([place])).item()
        return time

    @property
    def last_moment(self) -> int | float | None:
        """The time of the last arrival, or None."""
        return self.moment(-1) if len(self) else None

    def block(self, start: int, stop: int) -> BlockArrivals:
        """Return the rows from position start to stop."""
        columns, moments = self.columns, self.moments(slice(start, stop))
        last = np.ones(len(moments), dtype=bool)
        np.not_equal(moments[1:], moments[:-1], out=last[:-1])
        rows = columns.arrived[start:stop]
        code = columns.code[rows].astype(np.int64)
        return BlockArrivals(
            start=start,
            code=code,
            outcome=columns.outcome[rows],
            propensity=columns.propensity[rows, code if columns.full else 0],
            last=last,
        )

    def count_by(self, moments: Array) -> Array:
        """Return the number of arrivals by each time."""
        counts = np.empty(len(moments), dtype=np.int64)
        self.kernel(arrival_kernel.count_by)(counts, self.columns.arrived, self.times, moments)
        return counts

    def outside(self, low: float, high: float, *, ends: bool = False) -> float | None:
        """Return an outcome that is not between two values (with `ends`, that equals neither), if there is one."""
        first_outside = self.kernel(arrival_kernel.first_outside)

        def find(start: int, stop: int) -> int:
            return first_outside(self.columns, start, stop, float(low), float(high), ends)

        places = [place for place in jit.in_stretches(len(self), find) if place >= 0]
        return float(self.columns.outcome[self.columns.arrived[places[0]]]) if places else None

    def kernel(self, function: _Kernel) -> _Kernel:
        """Return a kernel, or its plain Python function for few rows, which is faster than compiling."""
        interpreted: _Kernel = getattr(function, "py_func", function)
        return function if len(self) > _FEW else interpreted
