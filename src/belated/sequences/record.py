"""What has landed so far, and what it showed: the passes over arrivals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.base.columns import Array
from belated.kernels import arrivals as kernel
from belated.kernels import jit, rows
from belated.log.log import Log
from belated.sequences.design import Design

#: Arrivals that the interpreter lands.
_FEW = 256

#: Arrivals of a block: a share of those before it, but no more than the most, and no fewer than these times the arms.
_SHARE, _MOST, _LEAST = 32, 2048, 64

#: Arrivals whose mean stands for that of all.
_SOME = 4096


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Rows whose outcomes landed, in the order of arrival.

    `times` are the rows' times of arrival; empty: each row's own step, 1, 2, ...
    """

    code: Array
    outcome: Array
    propensity: Array
    full: bool
    landed: Array
    times: Array

    @classmethod
    def of(cls, log: Log) -> Arrivals:
        """Return those of a log."""
        schedule = log.schedule
        jit.ready(2 * schedule.rows)

        def arrange(low: int, high: int) -> Array:
            return np.asarray(kernel.arrange(log.came, schedule.due, schedule.order, schedule.rows, low, high))

        parts = jit.in_stretches(schedule.rows + 1, arrange)
        landed = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return cls(log.code, log.outcome, log.propensity_matrix, log.has_all_propensities, landed, log.came)

    def __len__(self) -> int:
        return len(self.landed)

    def after(self, n: int) -> Arrivals:
        """Return those after the first n."""
        return Arrivals(self.code, self.outcome, self.propensity, self.full, self.landed[n:], self.times)

    def moments(self, places: Any) -> Array:
        """Return when those at some places landed."""
        which = self.landed[places]
        return np.asarray(self.times[which] if len(self.times) else which.astype(np.int64) + 1)

    def columns(self, start: int, stop: int) -> tuple[Array, Array, Array, Array]:
        """Return arms, outcomes, the chosen arms' propensities, and which are the last of their moments."""
        which = self.landed[start:stop]
        code, moments = self.code[which].astype(np.int64), self.moments(slice(start, stop))
        pi = self.propensity[which, code if self.full else 0]
        return code, self.outcome[which], pi, np.append(moments[1:] != moments[:-1], True)

    def by(self, moments: Array) -> Array:
        """Return how many had landed by each moment."""
        places = np.empty(len(moments), dtype=np.int64)
        _of(kernel.places, self)(places, self.landed, self.times, moments)
        return places

    def outside(self, low: float, high: float, *, ends: bool = False) -> float | None:
        """Return an outcome that is not between two values (with `ends`: is neither of them), if there is one."""

        def find(start: int, stop: int) -> int:
            return int(_of(kernel.outside, self)(self.outcome, self.landed, start, stop, low, high, ends))

        found = [place for place in jit.in_stretches(len(self), find) if place >= 0]
        return float(self.outcome[self.landed[found[0]]]) if found else None


def _of(function: Any, arrivals: Arrivals) -> Any:
    """Return a kernel, interpreted for a few: that is sooner done than another kind of columns is compiled."""
    return function if len(arrivals) > _FEW else getattr(function, "py_func", function)


class Record:
    """The arms' state now, the largest score of every question, and when it first passed the thresholds."""

    def __init__(self, design: Design) -> None:
        k, n = len(design.arms), len(design.questions)
        self._design = design
        self.state, self.shift = np.zeros((k, len(kernel.STATE))), np.zeros(k)
        self._now, self._stale = np.zeros((k, kernel.GAUGE)), np.zeros(k)
        self.best = np.zeros(n)
        self.first = np.full((2, n), None, dtype=object)

    def land(self, arrivals: Arrivals, moments: Array) -> Array:
        """Land outcomes in their order, and return the states at the moments."""
        design, n = self._design, len(arrivals)
        if n == 0:
            return np.repeat(self.state[np.newaxis], len(moments), axis=0)
        looks = arrivals.by(moments)
        cuts = np.unique(np.concatenate([[0], arrivals.by(arrivals.moments(self._grid(n) - 1)), looks]))
        columns = (arrivals.code, arrivals.outcome, arrivals.propensity, arrivals.full, arrivals.landed)
        seen = self.state[:, rows.ARRIVED] > 0
        known = np.array([[when is not None for when in line] for line in self.first], dtype=bool)
        first = np.where(known, 0, -1)
        states = np.empty((len(cuts), *self.state.shape))
        parts, paths = states[1:], np.empty((len(cuts) - 1, len(design.arms), 2))

        def blocks(task: Any) -> None:
            """Call a task for the blocks that begin in each stretch, then add them up."""
            jit.in_stretches(n, lambda start, stop: task(*np.searchsorted(cuts, (start, stop))))

        with np.errstate(all="ignore"):
            _of(kernel.shifts, arrivals)(self.shift, seen, arrivals.code, arrivals.outcome, arrivals.landed)
            about = self._about(arrivals)
            tally, wager = _of(kernel.tally, arrivals), _of(kernel.wager, arrivals)
            weighted = design.kind != "beta_binomial"
            blocks(lambda i, j: tally(parts, paths, cuts, i, j, *columns, self.shift, about, weighted))
            states[0] = self.state
            _add_up(states, slice(0, kernel.BETS))
            if design.kind == "bernstein":
                blocks(lambda i, j: wager(parts, paths, states, cuts, i, j, *columns, self.shift, about, design.plan))
                _add_up(states, slice(kernel.BETS, None))
            self._judge(arrivals, cuts, states, paths, about, first)
        for place in zip(*np.nonzero((first >= 0) & ~known), strict=True):
            self.first[place] = arrivals.moments(first[place]).item()
        self.state = states[-1].copy()
        return states[np.searchsorted(cuts, looks)]

    def _judge(self, arrivals: Arrivals, cuts: Array, states: Array, paths: Array, about: Array, first: Array) -> None:
        """Note the largest scores, and the places of the arrivals after which they `first` passed the thresholds."""
        design, asked, block = self._design, np.empty(len(self.best), dtype=np.int64), 0
        kind = design.null, design.code, design.plan
        kernel.reached(design.questions, states, self.shift, *kind, self._now, self.best)
        while True:
            block, n_asked = kernel.search(
                asked, block, design.questions, states, paths, self.shift, about, *kind, self._stale, self.best, first
            )
            if n_asked == 0:
                return
            start, stop = cuts[block], cuts[block + 1]
            kernel.examine(
                asked[:n_asked], start, *arrivals.columns(start, stop), design.questions, states[block].copy(),
                self.shift, *kind, self._now, self._stale, self.best, first,
            )  # fmt: skip
            block += 1

    def _about(self, arrivals: Arrivals) -> Array:
        """Return a value near each arm's mean: the nearer, the less a block of its outcomes seems to move it."""
        some = arrivals.landed[:: len(arrivals) // _SOME + 1]
        code, k = arrivals.code[some], len(self.shift)
        n = np.bincount(code, minlength=k)
        return np.where(n > 0, np.bincount(code, arrivals.outcome[some], minlength=k) / np.maximum(n, 1), self.shift)

    def _grid(self, n: int) -> Array:
        """Return where blocks of n arrivals would end if none came at the same moment."""
        before, least, at, ends = int(self.state[:, rows.ARRIVED].sum()), _LEAST * len(self.state), 0, []
        while at < n:
            at = min(at + max(least, min((before + at) // _SHARE, _MOST)), n)
            ends.append(at)
        return np.array(ends)


def _add_up(states: Array, fields: slice) -> None:
    """Turn the blocks' sums that follow a state into the states at which they end."""
    largest = np.maximum.accumulate(states[:, :, rows.W_MAX], axis=0)
    np.cumsum(states[:, :, fields], axis=0, out=states[:, :, fields])
    states[:, :, rows.W_MAX] = largest
