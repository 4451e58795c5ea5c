"""How a sequence follows a log: what has arrived, and how it stood at each look."""

from __future__ import annotations

import math
import warnings

import numpy as np

from belated.base.columns import Array
from belated.base.errors import BelatedWarning, LogError
from belated.estimation.estimate import Estimate
from belated.estimation.estimators import ESTIMATORS
from belated.estimation.intervals import resolve_interval
from belated.kernels import fields, jit
from belated.kernels import sequence_bounds as kernel
from belated.log.clock import Clock
from belated.log.log import Log
from belated.sequences.arrivals import ArrivedRows
from belated.sequences.design import Design
from belated.sequences.record import Record
from belated.summaries.outcome_models import read_outcome_model
from belated.summaries.single_value import single_value, single_value_words
from belated.summaries.sums import Sums
from belated.summaries.weights import read_weights

#: Looks that are kept at most; then every second one is let go.
_MOST_LOOKS = 4096


class History:
    """The arrivals that a sequence has followed, and its looks at them.

    Attributes
    ----------
    design : Design
    clock : Clock
    record : Record
        What all arrivals have shown.
    times : list
        The looks, as numbers of the clock.
    states : list of array (arms, state)
        How the record's state was at each look.
    single_value : str or None
        If a log's outcomes are recorded only when they happen: the sentence that says so.
    """

    def __init__(self, design: Design, clock: Clock) -> None:
        self.design, self.clock, self.record = design, clock, Record(design)
        self.times: list[int | float] = []
        self.states: list[Array] = []
        self.single_value: str | None = None
        self._gauges: Array | None = None

    def follow(self, log: Log, arrivals: ArrivedRows, moments: Array) -> None:
        """Add arrivals of a log, looking at the moments."""
        self._check(arrivals)
        jit.ready(len(arrivals) * (8 + len(self.design.arms)))
        self._add(arrivals, moments)
        self.single_value = self._single_value(log)
        if self.single_value is not None:
            warnings.warn(self.single_value, BelatedWarning, stacklevel=3)

    def append(self, arrivals: ArrivedRows) -> None:
        """Add arrivals that are in no log, looking after the last of them."""
        self._check(arrivals)
        self._add(arrivals, arrivals.moments(slice(-1, None)))
        if len(self.times) > _MOST_LOOKS:
            del self.times[:-1:2], self.states[:-1:2]

    def _check(self, arrivals: ArrivedRows) -> None:
        """Refuse outcomes that the sequence's kind does not allow."""
        bounds, binary = self.design.bounds, self.design.kind == "beta_binomial"
        bad = None if bounds is None else arrivals.outside(*bounds, ends=binary)
        if bounds is None or bad is None:
            return
        if binary:
            raise LogError("A beta-binomial sequence needs outcomes that are 0 or 1.", column="outcome")
        raise LogError(f"An outcome is {bad:g}, outside `bounds`, {bounds[0]:g} to {bounds[1]:g}.", column="outcome")

    def _add(self, arrivals: ArrivedRows, moments: Array) -> None:
        self._gauges = None
        self.states += list(self.record.add(arrivals, moments))
        self.times += list(moments)

    def _single_value(self, log: Log) -> str | None:
        """Return in words that a log records outcomes only when they happen, if it seems to."""
        state = self.record.state
        if state[:, fields.Y2].any():  # outcomes differ
            return None
        schedule = log.schedule
        alive = schedule.existing
        assigned = np.bincount(log.code[alive], minlength=len(self.design.arms))
        state[:, fields.ASSIGNED] = assigned
        value = single_value(self._sums(state))
        if value is None:
            return None
        return single_value_words(value, 1 - state[:, fields.ARRIVED].sum() / assigned.sum())

    @property
    def gauges(self) -> Array:
        """What each look says of each arm, (looks, arms, gauge); of no use for beta-binomial sequences."""
        if self._gauges is None:
            self._gauges = np.empty((len(self.states), len(self.design.arms), kernel.GAUGE))
            if self.design.kind != "beta_binomial":
                with np.errstate(all="ignore"):
                    kernel.gauges(self._gauges, np.array(self.states), self.record.shift, self.design.plan)
        return self._gauges

    def fixed(self, look: int) -> Estimate:
        """Return DIPW's estimate at a look, with intervals that hold at this one."""
        dipw = ESTIMATORS["dipw"]
        return Estimate(
            sums=self._sums(self.states[look]),
            estimator=dipw,
            level=self.design.level,
            interval=resolve_interval("auto", self._sums(self.record.state), dipw),
            as_of=self.clock.text(self.times[look]),
        )

    def _sums(self, state: Array) -> Sums:
        arms, own = self.design.arms, state[:, : len(fields.OWN)]
        spread = np.full((len(fields.SPREAD), len(arms)), math.nan)
        return Sums(arms, read_weights("sqrt"), read_outcome_model("zero"), self.record.shift, spread, own)
