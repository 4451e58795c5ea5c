"""Arrivals since the last look: read from what users give, or from a later state of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from belated.base.checks import TOLERANCE
from belated.base.columns import Array, Label, numbers
from belated.base.errors import LogError, OptionError
from belated.base.text import one_line
from belated.kernels import fields
from belated.kernels.arrivals import ArrivalColumns
from belated.log.log import Log, arm_index
from belated.sequences.arrivals import ArrivedRows
from belated.sequences.history import History


def read_arrivals(history: History, arm: Any, outcome: Any, propensity: Any, at: Any) -> ArrivedRows:
    """Return arrivals that users give, one or several."""
    arms = history.design.arms
    if outcome is None or propensity is None:
        raise OptionError("`update` needs `arm`, `outcome` and `propensity`, or a later state of the log.")
    y, pi = (numbers(name, np.atleast_1d(x)) for name, x in (("outcome", outcome), ("propensity", propensity)))
    code = np.array([arm_index(arms, label) for label in _labels(arm, arms)], dtype=np.int64)
    if not len(code) == len(y) == len(pi):
        raise OptionError(
            f"`arm`, `outcome` and `propensity` have {len(code):,}, {len(y):,} and {len(pi):,} rows; "
            "they must have as many."
        )
    if not np.isfinite(y).all():
        raise OptionError("`outcome` holds a value that is not finite; give outcomes once they have landed.")
    if not ((pi > 0) & (pi <= 1 + TOLERANCE)).all():
        raise OptionError("`propensity` must lie in (0, 1].")
    columns = ArrivalColumns(
        code=code, outcome=y, propensity=pi[:, np.newaxis], full=False, arrived=np.arange(len(code))
    )
    return ArrivedRows(columns, _read_times(history, at, len(code)) if len(code) else np.empty(0))


def _labels(arm: Any, arms: tuple[Label, ...]) -> list[Any]:
    """Return the labels of one arm or of several; a text, or a tuple that is an arm, is one."""
    single = isinstance(arm, (str, bytes)) or (isinstance(arm, tuple) and arm in arms)
    return list(arm) if isinstance(arm, (Sequence, np.ndarray)) and not single else [arm]


def _read_times(history: History, at: Any, n: int) -> Array:
    """Return when n outcomes arrived, by default at the next steps."""
    clock, last = history.clock, history.times[-1] if history.times else 0
    if at is None:
        if clock.unit is not None:
            raise OptionError("`at` is needed: this sequence's times are datetimes.")
        return np.asarray(last + np.arange(1, n + 1))
    several = isinstance(at, (Sequence, np.ndarray)) and not isinstance(at, str)
    moments = [clock.read("at", moment) for moment in (at if several else [at])]
    times = np.array(moments if several else moments * n)
    if len(times) != n:
        raise OptionError(f"`at` has {len(times):,} moments for {n:,} outcomes; it must have one, or as many.")
    if (np.diff(times) < 0).any():
        raise OptionError("`at` must not go back in time: give outcomes in the order of arrival.")
    if history.times and times[0] < last:
        raise OptionError(
            f"`at` is {clock.text(times[0])}, before the last look, {clock.text(last)}; "
            "what was judged then cannot be judged anew."
        )
    return times


def later_arrivals(history: History, log: Log) -> tuple[ArrivedRows, Array]:
    """Return the arrivals of a log since the last look, and the moment it is looked at.

    The log must be a later state of the one that was followed: what had arrived by the last look is the same.
    """
    if log.arms != history.design.arms or log.clock.unit != history.clock.unit:
        raise OptionError("`update` needs a later state of the same log: the same arms and the same kind of times.")
    arrivals, last = ArrivedRows.of(log), history.times[-1]
    n_before = int(arrivals.count_by(np.array([last]))[0])
    _require_same(history, log, arrivals.columns.arrived[:n_before])
    moments = log.even_moments(1, arrivals.last_moment)[-1:]
    if moments[0] < last:
        raise OptionError("`update` needs a later state of the log; this one is as of an earlier moment.")
    return arrivals.after(n_before), moments


def _require_same(history: History, log: Log, before: Array) -> None:
    """Refuse a log whose rows that arrived by the last look do not sum to what had arrived then."""
    state, k = history.record.state, len(history.design.arms)
    code = log.code[before]
    y = log.outcome[before] - history.record.shift[code]
    pi = log.propensity[before, code] if log.has_all_propensities else log.propensity[before]
    for weights, field in ((None, fields.ARRIVED), (1 / pi, fields.W2), (y, fields.Y)):
        then = state[:, field]
        apart = np.abs(np.bincount(code, weights, minlength=k) - then)
        apart /= 1e-6 * (1 + np.abs(then) + np.sqrt(state[:, fields.Y2]))
        if (apart > 1).any():
            arm = one_line(repr(history.design.arms[int(np.argmax(apart))]))
            raise LogError(
                f"This log is no later state of the same one: what had arrived of arm {arm} by the last look, "
                f"{history.clock.text(history.times[-1])}, differs."
            )
