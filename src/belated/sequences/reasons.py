"""Why sequences say nothing yet."""

from __future__ import annotations

import math

from belated.base.text import one_line
from belated.kernels import fields
from belated.kernels.sequence_bounds import LEAST_KIND, LEAST_SIZE
from belated.sequences.history import History
from belated.sequences.intervals import reach


def silence(history: History, arm: int) -> str | None:
    """Return why an arm's sequence says nothing yet; None if it does."""
    state, name = history.record.state[arm], one_line(repr(history.design.arms[arm]))
    n = int(state[fields.ARRIVED])
    if n == 0:
        return f"No outcome of arm {name} has arrived."
    if history.single_value is not None:
        return history.single_value
    if history.design.kind != "asymptotic" or math.isfinite(reach(history, -1, arm, 1.0)[1]):
        return None
    size = state[fields.W] ** 2 / state[fields.W2]
    if size < LEAST_SIZE:
        return (
            f"Arm {name} has {n:,} arrived outcomes that weigh as much as {size:.3g} equal ones; an asymptotic "
            f"sequence needs {LEAST_SIZE:.0f}."
        )
    ones = state[fields.Y] + n * history.record.shift[arm]
    if state[fields.NONBINARY] == 0 and min(ones, n - ones) < LEAST_KIND - 0.5:
        value, times = (1, ones) if ones < n - ones else (0, n - ones)
        return (
            f"Of arm {name}, {times:.0f} of {n:,} outcomes are {value}; an asymptotic sequence needs "
            f"{LEAST_KIND:.0f}, a beta-binomial one none."
        )
    if state[fields.Y2] - state[fields.Y] ** 2 / n <= 1e-12 * state[fields.Y2]:
        return f"All arrived outcomes of arm {name} are equal: they show no variance."
    return f"The outcomes of arm {name} are too skewed for so few of them: their mean is not yet near normal."
