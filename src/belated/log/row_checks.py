"""Validation of the rows of a log; the error describes the first invalid row."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from belated.base.checks import LEAST_PROBABILITY, TOLERANCE, outcome_fault, tolerance
from belated.base.columns import Array, Label
from belated.base.errors import LogError, argument
from belated.base.text import one_line
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.log.clock import Clock

_IMPOSSIBLE = f"an arm with a probability below {LEAST_PROBABILITY:g} is never chosen"


class Columns(NamedTuple):
    """The columns of a log, as numbers, in row order."""

    code: Array
    outcome: Array
    propensity: Array  # (rows, arms), or (rows,) if only the chosen arm's is known
    times: kernel.Times
    arms: int

    def kernel_rows(self) -> kernel.Rows:
        """Return the rows in the form that kernels use, without their order."""
        none = np.empty(0, dtype=np.int32)
        return kernel.rows_of(self.code, self.outcome, self.propensity, order=none, due=none, arms=self.arms)


def check_rows(
    arms: tuple[Label, ...], columns: Columns, clock: Clock, before: int = 0
) -> tuple[list[Array], list[Array]]:
    """Raise if a row is invalid, and return the outcome and propensity of each arm's least likely row.

    `before` is the number of rows before these, for row numbers in the error.
    """
    rows, times = columns.kernel_rows(), columns.times
    jit.ready(len(rows.code) * (rows.propensity.shape[1] + 4))

    def check(start: int, stop: int) -> tuple[int, Array, Array]:
        anchor, rarest = np.zeros(len(arms)), np.full(len(arms), math.inf)
        return kernel.first_fault(anchor, rarest, rows, times, start, stop), anchor, rarest

    parts = jit.in_stretches(len(rows.code), check)
    for row, _, _ in parts:
        if row >= 0:
            column, what = _propensity_fault(arms, rows.code[row], columns.propensity[row]) or _outcome_fault(
                rows.outcome[row],
                times.arrived[row] if len(times.arrived) else None,
                times.assigned[row] if len(times.assigned) else row + 1,
                times.never,
                clock,
            )
            raise LogError.of_row(column, row + before, f"{what}.")
    return [anchor for _, anchor, _ in parts], [rarest for _, _, rarest in parts]


def _propensity_fault(arms: tuple[Label, ...], code: int, pi: Array) -> tuple[str, str] | None:
    """Return the column and the message if the propensities of a row are invalid."""
    if pi.ndim == 0:
        if pi == 0:
            return "propensity", "is 0; the chosen arm cannot have probability 0"
        if not 0 < pi <= 1 + TOLERANCE:
            return "propensity", f"is {pi}; it must lie in (0, 1]{_percent(pi)}"
        return ("propensity", f"is {pi}; {_IMPOSSIBLE}") if pi < LEAST_PROBABILITY else None
    for arm, p in zip(arms, pi, strict=True):
        if not 0 <= p <= 1 + TOLERANCE:
            return "propensity", f"for arm {one_line(repr(arm))} is {p}; it must lie in [0, 1]{_percent(pi)}"
    total, within = sum(pi.tolist()), tolerance(len(pi))
    if abs(total - 1) > within:
        small = f"{within:.2g}".replace("e-0", "e-")
        rounded = "; if the probabilities were rounded, log at least 6 decimals" if abs(total - 1) < 0.01 else ""
        return "propensity", f"sums to {total:.9g}; it must sum to 1 (within {small}){rounded}"
    if pi[code] == 0:
        return "propensity", f"gives the chosen arm {one_line(repr(arms[code]))} probability 0; it must be above 0"
    if pi[code] < LEAST_PROBABILITY:
        return "propensity", f"gives the chosen arm {one_line(repr(arms[code]))} probability {pi[code]}; {_IMPOSSIBLE}"
    return None


def _percent(pi: Array) -> str:
    """Say so if a row's propensities look like per cent."""
    likely = 1 < pi <= 100 if pi.ndim == 0 else pi.min() >= 0 and abs(pi.sum() - 100) <= 0.5
    if not likely:
        return ""
    what = "it looks like" if pi.ndim == 0 else "the row sums to 100, so these seem to be"
    return f"; {what} per cent: use {argument('propensity_unit', 'percent')}, or divide by 100"


def _outcome_fault(
    y: float, arrived: int | float | None, assigned: int | float, never: int | float, clock: Clock
) -> tuple[str, str]:
    """Return the column and the message if the outcome and the times of a row are inconsistent."""
    if math.isfinite(y) and (fault := outcome_fault(y)) is not None:
        return "outcome", fault
    if arrived is None:
        return "outcome", f"is {y}; it must be a finite number, or NaN if it has not arrived"
    if arrived == never or not arrived < math.inf:
        return (
            "outcome",
            f"is {y} but has no arrival time; give its arrival time or delay, or set the outcome to NaN if it has not "
            "arrived; if only events have a time, read the log as events with a window",
        )
    if arrived < assigned:
        return (
            "arrived_at",
            f"is {clock.text(arrived)}, before its assignment at {clock.text(assigned)}; it must not be earlier",
        )
    return "outcome", f"is {y} although it has arrived; it must be a finite number"
