"""`History`: the arrivals that a sequence has processed, its state at each look, and updates."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from belated.base.checks import LARGEST_OUTCOME, LEAST_PROBABILITY, TOLERANCE, outcome_fault
from belated.base.columns import Array, Label, numbers
from belated.base.errors import BelatedWarning, LogError, OptionError, argument
from belated.base.text import Unit, one_line
from belated.estimation.estimate import Estimate
from belated.estimation.estimators import ESTIMATORS
from belated.estimation.intervals import resolve_interval
from belated.kernels import fields, jit
from belated.kernels import sequence_bounds as kernel
from belated.kernels.arrivals import ArrivalColumns
from belated.log.clock import Clock
from belated.log.labels import arm_index
from belated.log.log import Log
from belated.sequences.design import Design
from belated.sequences.record import ArrivedRows, Record
from belated.sequences.versions import deviation
from belated.summaries.caps import Cap, cut
from belated.summaries.outcome_models import read_outcome_model
from belated.summaries.signs import single_value, single_value_words
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
    single_value : str or None
        The remark on a log that records only events, if it seems to.
    """

    def __init__(self, design: Design, clock: Clock, outcome: str = "outcome") -> None:
        self.design, self.clock, self.record, self.outcome = design, clock, Record(design), outcome
        self.began: int | float = math.inf
        self.times: list[int | float] = []
        self.states: list[Array] = []
        self.above: list[Array] = []
        self.single_value: str | None = None
        self._gauges: Array | None = None

    def follow(self, log: Log, arrivals: ArrivedRows, moments: Array) -> None:
        """Add the arrivals of a log, with looks at the given times."""
        self._check(arrivals)
        self.began = min([self.began, *moments[:1].tolist(), log.first_assignment])
        jit.ready(len(arrivals) * (8 + len(self.design.arms)))
        self._add(arrivals, moments, log.above_cap(moments))
        self.single_value = self._single_value(log)
        if self.single_value is not None:
            warnings.warn(self.single_value, BelatedWarning, stacklevel=3)

    def append(self, arrivals: ArrivedRows) -> None:
        """Add arrivals given by the user, with a look after the last of them."""
        arrivals, above = self._cut(arrivals)
        self._check(arrivals)
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

    def _check(self, arrivals: ArrivedRows) -> None:
        """Raise if the kind of the sequence does not allow an outcome."""
        bounds, binary = self.design.bounds, self.design.is_binary
        bad = None if bounds is None else arrivals.outside(*bounds, ends=binary)
        if bounds is None or bad is None:
            return
        if binary:
            raise LogError(
                f"An outcome is {bad:g}, but a beta-binomial sequence needs outcomes that are 0 or 1; start a sequence "
                "of another kind, such as kind='asymptotic'.",
                column="outcome",
            )
        raise LogError(
            f"An outcome is {bad:g}, outside {argument('bounds')}, {bounds[0]:g} to {bounds[1]:g}.", column="outcome"
        )

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
        assigned = np.bincount(log.code[log.schedule.existing], minlength=len(self.design.arms))
        state[:, fields.ASSIGNED] = assigned
        value = single_value(self._sums(state))
        if value is None:
            return None
        return single_value_words(value, 1 - state[:, fields.ARRIVED].sum() / assigned.sum())

    @property
    def gauges(self) -> Array:
        """The gauges of each arm at each look, (looks, arms, gauge); not used by beta-binomial sequences."""
        if self._gauges is None:
            self._gauges = np.empty((len(self.states), len(self.design.arms), kernel.GAUGE))
            if not self.design.is_binary:
                with np.errstate(all="ignore"):
                    kernel.gauges(self._gauges, np.array(self.states), self.record.shift, self.design.plan)
        return self._gauges

    @property
    def unit(self) -> Unit:
        """The unit of means for display at every look, from all outcomes so far."""
        return self._sums(self.record.state).unit

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
    if log.arms != history.design.arms or log.clock.unit != history.clock.unit:
        raise OptionError("`update` needs a later version of the same log, with the same arms and type of times.")
    arrivals, last = ArrivedRows.of(log), history.times[-1]
    n_before = int(arrivals.count_by(np.array([last]))[0])
    _require_same(history, log, arrivals.columns.arrived[:n_before])
    moments = log.even_moments(1, arrivals.last_moment)[-1:]
    if moments[0] < last:
        raise OptionError("`update` needs a later version of the log; this one has an earlier as-of time.")
    return arrivals.after(n_before), moments


def _require_same(history: History, log: Log, before: Array) -> None:
    """Raise if the arrivals of a log up to the last look differ from those processed then."""
    state, k = history.record.state, len(history.design.arms)
    code = log.code[before]
    y = log.outcome[before] - history.record.shift[code]
    pi = log.propensity[before, code] if log.has_all_propensities else log.propensity[before]
    for weights, field in ((None, fields.ARRIVED), (1 / pi, fields.W2), (y, fields.Y)):
        then = state[:, field]
        apart = deviation(np.bincount(code, weights, minlength=k), then, 1 + np.sqrt(state[:, fields.Y2]))
        if (apart > 1).any():
            arm = one_line(repr(history.design.arms[int(np.argmax(apart))]))
            raise LogError(
                f"This log is not a later version of the same one: the outcomes of arm {arm} that had arrived by the "
                f"last look, {history.clock.text(history.times[-1])}, differ."
            )
