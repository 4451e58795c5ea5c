"""`History`: the state of a sequence at each look, and updates; `Record`: the arrivals that it has processed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from belated.base.checks import LARGEST_OUTCOME, LEAST_PROBABILITY, TOLERANCE, outcome_fault
from belated.base.columns import Array, Label, locked, numbers
from belated.base.errors import BelatedWarning, LogError, OptionError, argument
from belated.base.text import Unit, one_line
from belated.estimation.estimate import Estimate
from belated.estimation.estimators import ESTIMATORS
from belated.estimation.intervals import resolve_interval
from belated.kernels import arrivals as arrival_kernel
from belated.kernels import fields, jit, sequence_blocks, sequence_bounds
from belated.kernels.arrivals import ArrivalColumns, ArrivalTimes
from belated.kernels.sequence_blocks import BlockArrivals, Blocks, Verdicts
from belated.kernels.sequence_bounds import BETS, GAUGE, STATE
from belated.log.clock import Clock
from belated.log.labels import arm_index
from belated.log.log import Log
from belated.sequences.design import Design
from belated.sequences.versions import require_later, require_same_form, require_same_values
from belated.summaries.caps import Cap, cut
from belated.summaries.maturing import Measure
from belated.summaries.outcome_models import read_outcome_model
from belated.summaries.signs import single_value_remark
from belated.summaries.sums import Sums
from belated.summaries.weights import read_weights

#: The largest number of stored looks; beyond it, every second one is dropped.
_MOST_LOOKS = 4096


class History:
    """The arrivals that a sequence has processed, and its state at each look.

    Attributes
    ----------
    design : Design
    clock : Clock
    record : Record
        The state and the scores after all arrivals.
    began : number of the clock
        The time from which the sequence holds: the first assignment, or an earlier look.
    times : list
        The times of the looks, as numbers of the clock.
    states : list of array (arms, state)
        The state of the record at each look.
    above : list of array (arms,)
        The number of outcomes above the cap at each look.
    outcome : str
        The name of the outcome.
    measure : str or None
        What outcomes are, if they are made of events.
    single_value : str or None
        The remark on a log that records only events, if it seems to.
    """

    def __init__(self, design: Design, clock: Clock, outcome: str = "outcome", measure: Measure | None = None) -> None:
        self.design, self.clock, self.record = design, clock, Record(design)
        self.outcome, self.measure = outcome, measure
        self.began: int | float = math.inf
        self.times: list[int | float] = []
        self.states: list[Array] = []
        self.above: list[Array] = []
        self.single_value: str | None = None
        self._gauges: Array | None = None

    def follow(self, log: Log, arrivals: ArrivedRows, moments: Array) -> None:
        """Add the arrivals of a log, with looks at the given times."""
        require_possible(self.design, arrivals)
        self.began = min([self.began, *moments[:1].tolist(), log.first_assignment])
        jit.ready(len(arrivals) * (8 + len(self.design.arms)))
        self._add(arrivals, moments, log.above_cap(moments))
        self.single_value = self._single_value(log)
        if self.single_value is not None:
            warnings.warn(self.single_value, BelatedWarning, stacklevel=3)

    def append(self, arrivals: ArrivedRows) -> None:
        """Add arrivals given by the user, with a look after the last of them."""
        arrivals, above = self._cut(arrivals)
        require_possible(self.design, arrivals)
        self._add(arrivals, arrivals.moments(slice(-1, None)), above)
        if self.record.state[:, fields.Y2].any():
            self.single_value = None
        if len(self.times) > _MOST_LOOKS:
            del self.times[:-1:2], self.states[:-1:2], self.above[:-1:2]

    def _cut(self, arrivals: ArrivedRows) -> tuple[ArrivedRows, Array]:
        """Return the arrivals with capped outcomes, and the number of outcomes above the cap so far."""
        columns, cap, arms = arrivals.columns, self.design.cap, len(self.design.arms)
        above = columns.code[columns.outcome > (math.inf if cap is None else cap)]
        before = self.above[-1] if self.above else np.zeros(arms)
        total = np.array([before + np.bincount(above, minlength=arms)])
        return replace(arrivals, columns=columns._replace(outcome=cut(columns.outcome, cap))), total

    def _add(self, arrivals: ArrivedRows, moments: Array, above: Array) -> None:
        self._gauges = None
        self.states += list(self.record.add(arrivals, moments))
        self.times += list(moments)
        self.above += list(above)

    def _single_value(self, log: Log) -> str | None:
        """Return the remark on a log that records only events, if it seems to."""
        state = self.record.state
        if state[:, fields.Y2].any():  # outcomes differ
            return None
        state[:, fields.ASSIGNED] = np.bincount(log.code[log.schedule.existing], minlength=len(self.design.arms))
        sums = self._sums(state)
        remark = single_value_remark(sums, sums.shift)
        return None if remark is None else remark.text

    @property
    def gauges(self) -> Array:
        """The gauges of each arm at each look, (looks, arms, gauge); not used by beta-binomial sequences."""
        if self._gauges is None:
            self._gauges = np.empty((len(self.states), len(self.design.arms), GAUGE))
            if not self.design.is_binary:
                with np.errstate(all="ignore"):
                    sequence_bounds.gauges(self._gauges, np.array(self.states), self.record.shift, self.design.plan)
        return self._gauges

    @property
    def unit(self) -> Unit:
        """The unit of means for display at every look, from all outcomes so far."""
        return self._sums(self.record.state).unit_of(self.measure)

    @property
    def arrived(self) -> Array:
        """The number of arrivals of each arm so far."""
        return np.asarray(self.record.state[:, fields.ARRIVED])

    def fixed(self, look: int) -> Estimate:
        """Return the DIPW estimate at a look, with single-look intervals."""
        dipw, cap = ESTIMATORS["dipw"], self.design.cap
        return Estimate(
            sums=replace(self._sums(self.states[look]), cap=None if cap is None else Cap(cap, self.above[look])),
            estimator=dipw,
            level=self.design.level,
            interval=resolve_interval("auto", self._sums(self.record.state), dipw),
            as_of=self.clock.text(self.times[look]),
            outcome=self.outcome,
            unit=self.unit,
        )

    def _sums(self, state: Array) -> Sums:
        arms, own = self.design.arms, state[:, : len(fields.OWN)]
        spread = np.full((len(fields.SPREAD), len(arms)), math.nan)
        return Sums(
            arms=arms,
            weights=read_weights("sqrt"),
            outcome_model=read_outcome_model("zero"),
            shift=self.record.shift,
            spread=spread,
            own=own,
        )


def require_possible(design: Design, arrivals: ArrivedRows) -> None:
    """Raise if the kind of a sequence does not allow an outcome."""
    bad = None if design.bounds is None else arrivals.outside(*design.bounds, ends=design.is_binary)
    if design.bounds is None or bad is None:
        return
    if design.is_binary:
        raise LogError(
            f"An outcome is {bad:g}, but a beta-binomial sequence needs outcomes that are 0 or 1; start a sequence of "
            "another kind, such as kind='asymptotic'.",
            column="outcome",
        )
    low, high = design.bounds
    raise LogError(f"An outcome is {bad:g}, outside {argument('bounds')}, {low:g} to {high:g}.", column="outcome")


def read_arrivals(history: History, arm: object, outcome: object, propensity: object, at: object) -> ArrivedRows:
    """Return the arrivals given by a user, one or several."""
    arms = history.design.arms
    if outcome is None or propensity is None:
        raise OptionError(
            f"`update` needs {argument('arm')}, {argument('outcome')} and "
            f"{argument('propensity')}, or a later version of the log."
        )
    y, pi = (
        numbers(name, np.atleast_1d(np.asanyarray(x))) for name, x in (("outcome", outcome), ("propensity", propensity))
    )
    code = np.array([arm_index(arms, label) for label in _labels(arm, arms)], dtype=np.int64)
    if not len(code) == len(y) == len(pi):
        raise OptionError(
            f"{argument('arm')}, {argument('outcome')} and {argument('propensity')} "
            f"have {len(code):,}, {len(y):,} and {len(pi):,} rows; "
            "they must have the same number."
        )
    wrong = np.flatnonzero(~(np.abs(y) <= LARGEST_OUTCOME))
    if len(wrong):
        fault = outcome_fault(y[wrong[0]])
        raise OptionError(f"{argument('outcome')} in row {wrong[0]} {fault}; give outcomes after they have arrived.")
    if not ((pi >= LEAST_PROBABILITY) & (pi <= 1 + TOLERANCE)).all():
        raise OptionError(f"{argument('propensity')} must lie in (0, 1], and not below {LEAST_PROBABILITY:g}.")
    columns = ArrivalColumns(
        code=code, outcome=y, propensity=pi[:, np.newaxis], full=False, arrived=np.arange(len(code))
    )
    return ArrivedRows(columns, _read_times(history, at, len(code)) if len(code) else np.empty(0))


def _labels(arm: object, arms: tuple[Label, ...]) -> list[object]:
    """Return the labels of one arm or of several; text, or a tuple that is a label, is one arm."""
    single = isinstance(arm, (str, bytes)) or (isinstance(arm, tuple) and arm in arms)
    return list(arm) if isinstance(arm, (Sequence, np.ndarray)) and not single else [arm]


def _read_times(history: History, at: object, n: int) -> Array:
    """Return the arrival times of n outcomes, by default the next steps."""
    clock, last = history.clock, history.times[-1] if history.times else 0
    if at is None:
        if clock.unit is not None:
            raise OptionError("`at` is missing; it is needed because the times of this sequence are datetimes.")
        return np.asarray(last + np.arange(1, n + 1))
    if isinstance(at, (Sequence, np.ndarray)) and not isinstance(at, str):
        times = np.array([clock.read("at", moment) for moment in at])
    else:
        times = np.array([clock.read("at", at)] * n)
    if len(times) != n:
        raise OptionError(f"`at` has {len(times):,} times for {n:,} outcomes; it must have one, or one for each.")
    if (np.diff(times) < 0).any():
        raise OptionError("`at` must not decrease; give outcomes in the order of arrival.")
    if history.times and times[0] < last:
        raise OptionError(
            f"`at` is {clock.text(times[0])}, before the last look, {clock.text(last)}; "
            "outcomes must not arrive before the last look."
        )
    return times


def later_arrivals(history: History, log: Log) -> tuple[ArrivedRows, Array]:
    """Return the arrivals of a log since the last look, and its as-of time.

    The log must be a later version of the processed one: the arrivals up to the last look must be the same.
    """
    known = (history.design.arms, history.clock.unit)
    require_same_form((log.arms, log.clock.unit), known, "arms and type of times")
    arrivals, last = ArrivedRows.of(log), history.times[-1]
    n_before = int(arrivals.count_by(np.array([last]))[0])
    _require_same(history, log, arrivals.columns.arrived[:n_before])
    moments = log.even_moments(1, arrivals.last_moment)[-1:]
    require_later(moments[0], last)
    return arrivals.after(n_before), moments


def _require_same(history: History, log: Log, before: Array) -> None:
    """Raise if the arrivals of a log up to the last look differ from those processed then."""
    state, k = history.record.state, len(history.design.arms)
    code = log.code[before]
    y = log.outcome[before] - history.record.shift[code]
    pi = log.propensity[before, code] if log.has_all_propensities else log.propensity[before]

    def remark(place: int) -> str:
        arm, last = one_line(repr(history.design.arms[place])), history.clock.text(history.times[-1])
        return f"the outcomes of arm {arm} that had arrived by the last look, {last}, differ."

    scale = 1 + np.sqrt(state[:, fields.Y2])
    for weights, field in ((None, fields.ARRIVED), (1 / pi, fields.W2), (y, fields.Y)):
        require_same_values(np.bincount(code, weights, minlength=k), state[:, field], scale, remark)


# ---------------------------------------------------------------- the record of what has arrived

#: The size of a block: a share of the arrivals before it, at most a maximum, and at least this many times the arms.
_SHARE, _MOST, _LEAST = 32, 2048, 64

#: The number of arrivals whose mean approximates the mean of all.
_SAMPLED_ARRIVALS = 4096


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
            about=self._near_means(arrivals),
        )

        def in_stretches(task: Callable[[int, int], None]) -> None:
            """Call a task for the blocks that begin in each range of arrivals."""
            jit.in_stretches(len(arrivals), lambda start, stop: task(*np.searchsorted(cuts, (start, stop))))

        weighted = not design.is_binary
        sum_blocks, sum_bets = arrivals.kernel(sequence_blocks.sum_blocks), arrivals.kernel(sequence_blocks.sum_bets)
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
        sequence_blocks.score_ends(questions, blocks, plan, verdicts)
        candidates, block = np.empty(len(self.best), dtype=np.int64), 0
        while block < len(blocks.paths):
            block, n = sequence_blocks.next_block(candidates, block, questions, blocks, plan, verdicts)
            if n == 0:
                break
            within = arrivals.block(int(blocks.cuts[block]), int(blocks.cuts[block + 1]))
            state = blocks.states[block].copy()
            sequence_blocks.judge_block(candidates[:n], within, state, self.shift, questions, plan, verdicts)
            block += 1
        for place in zip(*np.nonzero((verdicts.first >= 0) & ~known), strict=True):
            self.first[place] = arrivals.moment(verdicts.first[place])

    def verdict(self, question: int, *, joint: bool) -> tuple[float, int | float | None]:
        """Return the largest score of a test, and when it first exceeded the threshold, single or simultaneous."""
        return float(self.best[question]), self.first[int(joint), question]

    def _near_means(self, arrivals: ArrivedRows) -> Array:
        """Return a value near each arm's mean; the nearer it is, the tighter are the bounds over a block."""
        columns = arrivals.columns
        some = columns.arrived[:: len(arrivals) // _SAMPLED_ARRIVALS + 1]
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
_FEW_ARRIVALS = 256

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
        return function if len(self) > _FEW_ARRIVALS else interpreted
