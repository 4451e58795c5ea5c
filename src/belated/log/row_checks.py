"""What a row of a log must satisfy, and what is wrong with the first that does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from belated.base.columns import Array
from belated.base.errors import LogError
from belated.base.text import one_line
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.log.clock import Clock


def check_rows(
    arms: tuple[Any, ...],
    code: Array,
    outcome: Array,
    propensity: Array,
    assigned: Array,
    arrived: Array,
    latest: int | float,
    never: int | float,
    clock: Clock,
    before: int = 0,
) -> tuple[list[Array], list[Array]]:
    """Refuse the first row that cannot be, in one sentence.

    Times are as `kernels.rows.schedule` takes them, in row order. On the way, the outcome and the
    propensity of each arm's least likely row are found, stretch by stretch, and returned. `before` counts
    the rows that came before these.
    """
    full = propensity.ndim == 2
    pi = propensity if full else propensity[:, np.newaxis]
    jit.ready(len(code) * (pi.shape[1] + 4))

    def check(start: int, stop: int) -> tuple[int, Array, Array]:
        anchor, rarest = np.zeros(len(arms)), np.full(len(arms), math.inf)
        row = kernel.first_fault(
            anchor, rarest, outcome, code, pi, full, assigned, arrived, latest, never, start, stop
        )  # fmt: skip
        return row, anchor, rarest

    parts = jit.in_stretches(len(code), check)
    for row, _, _ in parts:
        if row >= 0:
            column, what = _propensity_fault(arms, code[row], propensity[row]) or _outcome_fault(
                outcome[row],
                arrived[row] if len(arrived) else None,
                assigned[row] if len(assigned) else row + 1,
                never,
                clock,
            )
            row += before
            raise LogError(f"`{column}` in row {row} {what}.", column=column, row=row)
    return [anchor for _, anchor, _ in parts], [rarest for _, _, rarest in parts]


def _propensity_fault(arms: tuple[Any, ...], code: int, pi: Array) -> tuple[str, str] | None:
    """Return the column and the rest of the sentence, if the propensities are at fault."""
    if pi.ndim == 0:
        if pi == 0:
            return "propensity", "is 0; the chosen arm cannot have probability 0"
        return None if 0 < pi <= 1 + 1e-6 else ("propensity", f"is {pi}; it must lie in (0, 1]")
    for arm, p in zip(arms, pi, strict=True):
        if not 0 <= p <= 1 + 1e-6:
            return "propensity", f"for arm {one_line(repr(arm))} is {p}; it must lie in [0, 1]"
    total = sum(pi.tolist())
    if abs(total - 1) > 1e-6:
        return "propensity", f"sums to {total:.9g}; it must sum to 1 (within 1e-6)"
    if pi[code] == 0:
        return "propensity", f"gives the chosen arm {one_line(repr(arms[code]))} probability 0; it must be above 0"
    return None


def _outcome_fault(y: float, arrived: Any, assigned: Any, never: int | float, clock: Clock) -> tuple[str, str]:
    """Return the column and the rest of the sentence, where an outcome and its times do not fit."""
    if arrived is None:
        return "outcome", f"is {y}; it must be a finite number, or NaN if it is still out"
    if arrived == never or not arrived < math.inf:
        return (
            "outcome",
            f"is {y} but has no arrival; give its arrival time or delay, make the outcome NaN if it has not come, or, "
            "if only what happens has a time, read it as events with a window",
        )
    if arrived < assigned:
        came, made = clock.text(arrived), clock.text(assigned)
        return "arrived_at", f"is {came}, before its assignment at {made}; it must not be earlier"
    return "outcome", f"is {y} although it has arrived; it must be a finite number"
