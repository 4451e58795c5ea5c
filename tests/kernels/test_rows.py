"""Loops over rows: what each finds, in the interpreter and compiled."""

from __future__ import annotations

import math

import numpy as np
import pytest

from belated.kernels import rows as kernel
from belated.kernels.compiler import compiled

NONE = np.empty(0, dtype=np.int32)


@pytest.fixture(params=["interpreted", "compiled"])
def run(request):
    """Return a function of `rows` as the interpreter or the compiler runs it."""

    def function(name):
        plain = getattr(kernel, name)
        plain = getattr(plain, "py_func", plain)
        return compiled(plain, cache=False, error_model="numpy") if request.param == "compiled" else plain

    return function


def columns(propensity, outcome=(1.0, 2.0, 3.0)):
    code = np.array([0, 1, 0], dtype=np.uint16)
    return kernel.rows_of(code, np.array(outcome), np.array(propensity), order=NONE, due=NONE, arms=2)


def at_once():
    return kernel.Times(np.empty(0), np.empty(0), latest=math.inf, never=math.nan)


@pytest.mark.parametrize(
    ("propensity", "fault"),
    [
        ([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], -1),
        ([[0.5, 0.5], [0.5, 0.6], [0.5, 0.5]], 1),
        ([[0.5, 0.5], [0.5, 0.5], [0.0, 1.0]], 2),
        ([[1.5, -0.5], [0.5, 0.5], [0.5, 0.5]], 0),
    ],
)
def test_the_first_row_that_cannot_be(run, propensity, fault):
    anchor, rarest = np.zeros(2), np.full(2, math.inf)
    assert run("first_fault")(anchor, rarest, columns(propensity), at_once(), 0, 3) == fault


@pytest.mark.parametrize("outcome", [math.inf, -1e61])
def test_an_outcome_that_cannot_be(run, outcome):
    anchor, rarest = np.zeros(2), np.full(2, math.inf)
    rows = columns([[0.5, 0.5]] * 3, [1e60, math.nan, outcome])
    assert run("first_fault")(anchor, rarest, rows, at_once(), 0, 3) == 2


def test_the_anchor_is_the_outcome_of_the_least_likely_row(run):
    anchor, rarest = np.zeros(2), np.full(2, math.inf)
    assert run("first_fault")(anchor, rarest, columns([[0.5, 0.5], [0.4, 0.6], [0.2, 0.8]]), at_once(), 0, 3) == -1
    assert anchor.tolist() == [3.0, 2.0]
    assert rarest.tolist() == [0.2, 0.6]


def test_outcomes_are_due_at_the_first_row_assigned_after_they_arrive(run):
    assigned = np.array([1, 2, 2, 4, 7], dtype=np.int64)
    arrived = np.array([2, 2, 5, -1, 7], dtype=np.int64)
    times = kernel.Times(assigned, arrived, latest=6, never=-1)
    due = np.empty(5, dtype=np.int32)
    run("schedule")(due, times, np.ones(5), NONE, 0, 5, 5)
    assert due.tolist() == [1, 3, 4, -1, -1]  # a batch does not see itself; 7 is after the last moment
