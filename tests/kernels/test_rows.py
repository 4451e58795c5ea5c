"""Loops over rows: what each finds, in the interpreter and compiled."""

from __future__ import annotations

import math

import numpy as np
import pytest

from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.kernels.fields import OWN, SPREAD, W

NONE = np.empty(0, dtype=np.int32)


@pytest.fixture(params=["interpreted", "compiled"])
def run(request):
    """Return a function of `rows` as the interpreter or the compiler runs it."""

    if request.param == "compiled":
        jit.compile_kernels()

    def function(name):
        kernel_ = getattr(kernel, name)
        return kernel_ if request.param == "compiled" else getattr(kernel_, "py_func", kernel_)

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


def cells(even_from):
    """Return rows with two segments, two covariates and probabilities of arrival, and their arguments."""
    rng = np.random.default_rng(3)
    n, arms, segments = 60, 2, 2
    code, segment = rng.integers(arms, size=n).astype(np.uint16), rng.integers(segments, size=n).astype(np.uint16)
    p = rng.uniform(0.2, 0.8, n)
    due = np.where(rng.random(n) < 0.2, -1, np.arange(1, n + 1)).astype(np.int32)
    rows = kernel.rows_of(code, rng.normal(size=n), np.c_[1 - p, p], order=NONE, due=due, arms=arms)
    rows = rows._replace(
        cell=(segment * arms + code).astype(np.uint16), x=rng.normal(size=(n, 2)), arrival=rng.uniform(0.3, 1, n)
    )
    for column in (rows.code, rows.cell, rows.outcome, rows.propensity, rows.x, rows.arrival):
        column.flags.writeable = False  # as those of logs are: kernels are compiled for both
    weights = kernel.Weighting(
        kernel.SQRT, np.empty((0, 4)), 0.0, 0.5, remaining=np.ones(4), step=0.0, even_from=even_from
    )
    return rows, weights


def accumulated(accumulate, rows, weights):
    n, cells = len(rows.code), 4
    spread, own = np.zeros((1, len(SPREAD), cells)), np.zeros((1, cells, len(OWN)))
    totals = kernel.totals(
        spread, own, np.empty((0, 2)), np.empty(0), shift=np.full(cells, 0.3), plain=True, covariates=2, segments=2
    )
    model = kernel.Modelling(kernel.RUNNING_MEAN, np.empty((0, 2)), np.zeros(cells), np.zeros(cells))
    calendar = kernel.Calendar(np.full(n, -1, np.int32), np.empty(n, np.int32))
    bins = kernel.Bins(np.array([n]), np.empty(0, np.int32))
    accumulate(totals, rows, calendar, bins, weights, model, kernel.Stretch(0, n))
    return totals


@pytest.mark.parametrize("even_from", [2, 2**62])
def test_cells_have_weights_and_products_of_their_own(run, even_from):
    rows, weights = cells(even_from)
    totals = accumulated(run("accumulate"), rows, weights)
    arrived = rows.due >= 0
    pi = rows.propensity[np.arange(len(rows.code)), rows.code] * rows.arrival
    h = np.where(rows.cell >= even_from, 1.0, np.sqrt(rows.propensity[np.arange(len(rows.code)), rows.code]))
    for cell in range(4):
        at = arrived & (rows.cell == cell)
        assert totals.own[0, cell, W] == pytest.approx((h / pi)[at].sum())
        z = np.c_[np.ones(at.sum()), rows.x[at], rows.outcome[at] - 0.3]
        for power in range(4):
            wanted = np.einsum("t,ti,tj->ij", (h / pi)[at] ** power, z, z)[np.tril_indices(4)]
            np.testing.assert_allclose(totals.own_products[0, cell, :, power], wanted, rtol=1e-10, atol=1e-10)
    for segment in range(2):
        z = np.c_[np.ones((rows.cell // 2 == segment).sum()), rows.x[rows.cell // 2 == segment]]
        np.testing.assert_allclose(
            totals.all_products[0, segment], (z.T @ z)[np.tril_indices(3)], rtol=1e-10, atol=1e-10
        )


def test_interpreted_and_compiled_sums_of_cells_are_the_same():
    jit.compile_kernels()
    rows, weights = cells(2)
    compiled_, plain = (accumulated(each, rows, weights) for each in (kernel.accumulate, kernel.accumulate.py_func))
    for name, one, other in zip(plain._fields, compiled_, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13, err_msg=name)
