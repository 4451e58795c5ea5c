"""Sums of parts add up, whatever they are summed about."""

from __future__ import annotations

import numpy as np
import pytest
from experiments import (
    HAJEK,
    ask,
    assert_close,
    assert_same,
    examples,
    experiments,
    log_of,
    parted,
    summed,
)
from hypothesis import given
from hypothesis import strategies as st

import belated as bl

SUMS = {  # by what they are sums of, each times at most an outcome's third power
    "h": ["h", "hm", "h_arrived"],
    "h2": ["h2", "h2m", "h2m2"],
    "arrived": ["assigned", "arrived", "y", "y2", "y3"],
    "w": ["w", "wy", "wm", "hwr", "hwrm", "w_max"],
    "w2": ["w2", "w2y", "w2y2", "w2r2"],
    "w3": ["w3", "w3y", "w3y2"],
}


def test_long_logs_equal_short_ones_added_up():
    rng = np.random.default_rng(4)
    n = 1_100_000  # summed in stretches
    arm, y = rng.integers(0, 2, n), rng.normal(size=n)
    pi = np.where(rng.random(n) < 0.5, 0.3, 0.7)
    late = np.where(rng.random(n) < 0.1, np.nan, np.floor(rng.pareto(0.7, n)))
    y[np.isnan(late)] = np.nan
    step = np.arange(1, n + 1)
    whole = bl.Log(arm, y, np.column_stack([1 - pi, pi]), assigned_at=step, arrived_at=step + late)
    halves = [
        bl.Log(arm[s], y[s], np.column_stack([1 - pi, pi])[s], assigned_at=step[s], arrived_at=(step + late)[s])
        for s in (slice(n // 2), slice(n // 2, None))
    ]
    parts = [bl.Sums.of(halves[0]), bl.Sums.of(halves[1], history=halves[:1])]
    a, b = bl.estimate(whole), bl.estimate(parts[0] + parts[1])
    np.testing.assert_allclose(a.values, b.values, atol=1e-13)
    np.testing.assert_allclose(a.variances, b.variances, rtol=1e-12)
    np.testing.assert_allclose(a.std_errors, b.std_errors, rtol=1e-12)


def test_merged_parts_keep_the_largest_weight():
    rng = np.random.default_rng(6)
    pi = np.repeat([0.5, 0.02], 20)
    # the rare rows vary more, so that the leverage-corrected variance is the larger one
    log = [bl.Log(np.zeros(20, int), rng.normal(size=20) / p[0], p, arms=[0]) for p in (pi[:20], pi[20:])]
    whole = bl.Log(np.zeros(40, int), np.concatenate([part.outcome for part in log]), pi, arms=[0])
    parts = [bl.Sums.of(part, "sqrt", "zero") for part in log]
    for merged in (parts[0] + parts[1], parts[1] + parts[0]):
        assert bl.estimate(merged, "dipw").std_errors == pytest.approx(bl.estimate(whole, "dipw").std_errors, rel=1e-12)


def test_a_million_equal_weights_add_up_exactly():
    n = 1_000_000
    log = bl.Log(np.tile([0, 0, 1, 1], n // 4), np.tile([0.0, 3.0], n // 2), np.full((n, 2), [0.1, 0.9]))
    np.testing.assert_allclose(bl.Sums.of(log, "sqrt", "zero")["h"], n * np.sqrt([0.1, 0.9]), rtol=1e-13)


@given(experiments(), st.integers(0, 99))
@examples(50)
def test_sums_of_parts_add_up_to_the_whole(experiment, seed):
    logs = parted(experiment, seed)
    for name in ("dipw", "mean", "hajek", "nh0", "iad"):
        total = sum(bl.Sums.of(log, *bl.ESTIMATORS[name].parts) for log in logs)
        assert_same(ask(total, name), experiment.twin(name))
    for name in ("daipw", "nh"):
        assert_same(ask(summed(logs), name), experiment.twin(name))


def test_parts_belong_together_whether_or_not_all_their_outcomes_came():
    both = [[0.5, 0.5]] * 2
    parts = [
        bl.Log([0, 1], [1.0, 2.0], both, assigned_at=[1, 2], arrived_at=[1, 3]),
        bl.Log([0, 1], [3.0, None], both, assigned_at=[3, 4], arrived_at=[5, None]),
    ]
    whole = bl.Log([0, 1, 0, 1], [1.0, 2.0, 3.0, None], both * 2, assigned_at=[1, 2, 3, 4], arrived_at=[1, 3, 5, None])
    assert_close(ask(summed(parts)).values, ask(whole).values)


@given(experiments(outcomes=["normal"]), st.integers(0, 99), st.sampled_from(["sqrt", "uniform"]))
@examples(50)
def test_merging_is_associative_and_commutative(experiment, seed, weights):
    for model in ("zero", "running_mean"):
        sums = [bl.Sums.of(part, weights, model) for part in parted(experiment, seed)]
        a, b, c = (sums + [bl.Sums.empty(range(experiment.k), weights, model)] * 2)[:3]
        one = a + (b + c)
        for other in ((a + b) + c, c + (b + a), (c + a) + b):
            recentred = other.recentred(one.shift)
            for total, names in SUMS.items():
                for name in names:
                    assert_close(recentred[name], one[name], 1e-12 * one[total])


@given(experiments(outcomes=["normal", "binary"], tiny=False), st.floats(-5, 5))
@examples(40)
def test_the_shift_does_not_matter(experiment, distance):
    for name in HAJEK:
        sums = bl.Sums.of(experiment.log(), *bl.ESTIMATORS[name].parts)
        original, recentred = (ask(part, name) for part in (sums, sums.recentred(sums.shift + distance)))
        assert_close(recentred.values, original.values, 1e-11)
        assert_close(recentred.variances, original.variances, 1e-11)


def test_sums_of_no_rows_add_nothing():
    sums = bl.Sums.of(log_of())
    empty = bl.Sums.empty(sums.arms)
    for both in (sums + empty, empty + sums, sum([sums])):
        np.testing.assert_array_equal(both.spread, sums.spread)
        np.testing.assert_array_equal(both.own, sums.own)


@pytest.mark.parametrize(
    ("merge", "sentence"),
    [
        (lambda sums: sums + bl.Sums.empty(["A", "B"]), "their arms differ"),
        (lambda sums: sums + bl.Sums.empty(sums.arms, "uniform"), "their weights differ, 'sqrt' and 'uniform'"),
        (lambda sums: sums + bl.Sums.empty(sums.arms, "sqrt", "zero"), "their outcome_model differ"),
        (
            lambda _: bl.Sums.of(log_of(), "two_point") + bl.Sums.of(log_of(), "two_point"),
            "'two_point' cannot be merged",
        ),
    ],
)
def test_sums_of_different_kinds_are_not_merged(merge, sentence):
    with pytest.raises(bl.MergeError, match=sentence):
        merge(bl.Sums.of(log_of()))
