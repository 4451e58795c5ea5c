"""Sums of products with covariates: the kernel's are NumPy's, and changes of shift and scale are exact."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from segment_logs import columns, named

import belated as bl


@pytest.fixture(scope="module")
def drawn():
    arm, outcome, propensity, segment, x = columns(240, covariates=3)
    log = bl.Log(arm, outcome, propensity, segment=segment, covariates=named(x))
    return SimpleNamespace(
        log=log, arm=arm, outcome=outcome, segment=segment, x=x,
        w=propensity[np.arange(240), arm] ** -0.5, sums=bl.Sums.of(log).segments.covariates,
    )  # fmt: skip


def product_sums(drawn, centre, scale, shift):
    x = (drawn.x - centre) / scale
    own = np.zeros((6, 4, 5, 5))
    for cell in range(6):
        rows = (drawn.segment * 2 + drawn.arm == cell) & ~np.isnan(drawn.outcome)
        z = np.c_[np.ones(rows.sum()), x[rows], drawn.outcome[rows] - shift[cell]]
        for k in range(4):
            own[cell, k] = np.einsum("t,ti,tj->ij", drawn.w[rows] ** k, z, z)
    everyone = [np.c_[np.ones((drawn.segment == s).sum()), x[drawn.segment == s]] for s in range(3)]
    return own, np.array([z.T @ z for z in everyone])


def test_products_are_those_of_numpy(drawn):
    sums = drawn.sums
    assert sums.names == ("x0", "x1", "x2")
    own, everyone = product_sums(drawn, sums.centre, sums.scale, sums.shift)
    np.testing.assert_allclose(sums.own, own, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(sums.all, everyone, rtol=1e-10, atol=1e-9)


def test_scaled_covariates_have_mean_0_and_variance_1(drawn):
    total = drawn.sums.all.sum(axis=0)
    assert total[0, 1:] / 240 == pytest.approx(np.zeros(3), abs=1e-12)
    assert np.diag(total)[1:] / 240 == pytest.approx(np.ones(3))


def test_another_shift_centre_and_scale(drawn):
    shift, centre, scale = np.linspace(-3, 3, 6), np.array([1.0, -2.0, 0.5]), np.array([2.0, 0.1, 5.0])
    changed = drawn.sums.recentred(shift).rescaled(centre, scale)
    own, everyone = product_sums(drawn, centre, scale, shift)
    np.testing.assert_allclose(changed.own, own, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(changed.all, everyone, rtol=1e-9, atol=1e-8)
    back = changed.rescaled(drawn.sums.centre, drawn.sums.scale).recentred(drawn.sums.shift)
    np.testing.assert_allclose(back.own, drawn.sums.own, rtol=1e-9, atol=1e-8)


def test_merging_doubles_and_needs_the_same_covariates(drawn):
    other = drawn.sums.rescaled(np.ones(3), np.full(3, 4.0)).recentred(np.ones(6))
    both = drawn.sums + other
    np.testing.assert_allclose(both.own, 2 * drawn.sums.own, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(both.all, 2 * drawn.sums.all, rtol=1e-9, atol=1e-8)
    log = bl.Log(drawn.arm, drawn.outcome, np.full((240, 2), 0.5), covariates={"age": drawn.x[:, 0]})
    with pytest.raises(bl.BelatedError, match=r"their covariates differ, \['x0', 'x1', 'x2'\] and \['age'\]"):
        drawn.sums + bl.Sums.of(log).segments.covariates


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (["x0", "x1"], ["x1", "same"], r"\['x0', 'x1'\] and \['x1'\], where one that does not vary is left out"),
        (["x0"], ["same"], "only one of them has covariates that vary"),
    ],
)
def test_a_covariate_that_does_not_vary_in_one_part_is_named_as_the_reason(drawn, first, second, why):
    known = {"x0": drawn.x[:, 0], "x1": drawn.x[:, 1], "same": np.ones(240)}
    sums = [
        bl.Sums.of(bl.Log(drawn.arm, drawn.outcome, "uniform", covariates={name: known[name] for name in names}))
        for names in (first, second)
    ]
    with pytest.raises(bl.MergeError, match=f"^These sums cannot be merged: .*{why}; make one log of all rows.$"):
        sum(sums)


def test_more_segments_are_empty(drawn):
    wide = drawn.sums.spread_over(5, np.array([4, 0, 2]))
    assert wide.own[[8, 9, 0, 1, 4, 5]] == pytest.approx(drawn.sums.own)
    assert wide.all[[4, 0, 2]] == pytest.approx(drawn.sums.all)
    assert not wide.own[[2, 3, 6, 7]].any()
    assert not wide.all[[1, 3]].any()
