from __future__ import annotations

import naive
import numpy as np
import pytest
from experiments import examples, quietly
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import belated as bl
from belated.summaries.pair_sums import PairSums


def modelled(rows, seed, arms=2, late=True):
    """A log, and a model of its outcomes that knows half of why they differ."""
    rng = np.random.default_rng(seed)
    propensity = rng.dirichlet(np.full(arms, 4.0), rows)
    arm = (rng.random(rows)[:, np.newaxis] > np.cumsum(propensity, axis=1)[:, :-1]).sum(axis=1)
    x = rng.normal(size=rows)
    outcome = 1 + 0.3 * arm + x + rng.normal(size=rows)
    outcome[rng.random(rows) < 0.15] = np.nan
    delay = np.where(np.isnan(outcome), np.nan, rng.integers(0, 9, rows)) if late else None
    log = bl.Log(arm, outcome, propensity, arms=range(arms), delay=delay, as_of=float(rows + 20) if late else None)
    return log, 1 + 0.3 * np.arange(arms) + 0.9 * x[:, np.newaxis]


@given(st.integers(0, 10**6), st.integers(60, 150), st.integers(2, 3))
@examples(60)
def test_a_contrasts_variance_is_that_of_what_each_row_adds(seed, rows, arms):
    log, mu = modelled(rows, seed, arms)
    h = np.sqrt(log.propensity)
    arrived = [None if np.isnan(y) else 0 for y in log.outcome]
    counts = np.bincount(log.code[~np.isnan(log.outcome)], minlength=arms)
    if (counts[:2] < 2).any():
        return
    answer = quietly(bl.estimate, log, outcome_model=mu, interval="normal").contrast(1, 0)
    expected = naive.contrast_about_model(h, mu, log.code, log.outcome, log.propensity, arrived, 1, 0)
    parts = quietly(bl.estimate, log, outcome_model=mu).statistics
    least = (parts.variance - parts.shared.variance)[:2].sum()
    assert answer.std_error**2 == pytest.approx(max(expected, least), rel=1e-8)


def test_sums_of_parts_add_up_whatever_they_are_taken_about():
    log, mu = modelled(300, 4)
    halves = [slice(0, 150), slice(150, 300)]
    whole = bl.Sums.of(log, "sqrt", mu)
    parts = []
    for rows in halves:
        part = bl.Log(log.code[rows], log.outcome[rows], log.propensity[rows], arms=range(2))
        parts.append(bl.Sums.of(part, "sqrt", mu[rows]))
    together = sum(parts)
    same = bl.Sums.of(bl.Log(log.code, log.outcome, log.propensity, arms=range(2)), "sqrt", mu)
    moved = together.recentred(whole.shift + np.array([3.0, -7.0])).recentred(same.shift)
    for sums in (together.recentred(same.shift), moved):
        np.testing.assert_allclose(sums.pairs.all, same.pairs.all, rtol=1e-9)
        np.testing.assert_allclose(sums.pairs.own, same.pairs.own, rtol=1e-9, atol=1e-9)


def test_of_many_moments_each_has_the_sums_that_an_estimate_then_has():
    log, mu = modelled(200, 5)
    curve = quietly(bl.trajectory, log, at=4, outcome_model=mu)
    for moment, then in zip(curve.moments, curve.estimates, strict=True):
        answer = quietly(bl.estimate, log.at(moment), outcome_model=mu).contrast(1, 0)
        there = then.contrast(1, 0)
        assert (there.low, there.high) == pytest.approx((answer.low, answer.high), rel=1e-9)


def test_rows_that_have_not_arrived_add_nothing_of_their_own():
    h, m = np.ones((3, 2)), np.zeros((3, 2))
    assert not PairSums.of(h, m).own.any()
    assert not PairSums.of_arrived(h, m, np.zeros(3, int), np.ones(3), np.ones(3)).all.any()


def test_a_model_that_predicts_well_makes_intervals_narrow_and_they_still_cover():
    runs, inside, widths = 300, {"given": 0, "mean": 0}, {"given": [], "mean": []}
    for seed in range(runs):
        log, mu = modelled(200, seed, late=False)
        for name, model in (("given", mu), ("mean", "running_mean")):
            answer = bl.estimate(log, outcome_model=model).contrast(1, 0)
            inside[name] += answer.low <= 0.3 <= answer.high
            widths[name].append(answer.high - answer.low)
    for held in inside.values():
        assert 1e-3 < stats.binom.cdf(held, runs, 0.955) < 1 - 1e-3
    assert 0.65 < np.median(widths["given"]) / np.median(widths["mean"]) < 0.8
