from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

import belated as bl

TWO = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5, 2.0)})


def history(log, t):
    """What the policy knew at step t, by the rule of the log."""
    known = (log.arrived_at <= t) & (log.assigned_at < t)
    count = np.array([(known & (log.code == k)).sum() for k in range(len(log.arms))])
    total = np.array([log.outcome[known & (log.code == k)].sum() for k in range(len(log.arms))])
    return count, total


DELAYED = bl.Bandit(
    {"A": bl.arms.normal(0.2), "B": bl.arms.normal(0.1), "C": bl.arms.normal(0.0)},
    {"A": bl.delays.poisson(5).censored(0.3), "B": bl.delays.geometric(3.0)},
)


def test_epsilon_greedy_acts_on_what_has_arrived():
    log = bl.simulate(DELAYED, bl.policies.epsilon_greedy(0.8, 0.4, burn_in=20), 200, 3)
    assert (log.propensity[:20] == 1 / 3).all()
    for t in range(21, 201):
        count, total = history(log, t)
        average = np.divide(total, count, out=np.zeros(3), where=count > 0)
        eps = min(0.8 * t**-0.4, 2 / 3)
        expected = np.full(3, eps / 2)
        expected[average.argmax()] = 1 - eps
        np.testing.assert_allclose(log.propensity[t - 1], expected, rtol=1e-12)


def test_ucb_tries_every_arm_first():
    log = bl.simulate(DELAYED, bl.policies.ucb(1.0, 0.5, width=1.5), 200, 4)
    for t in range(1, 201):
        count, total = history(log, t)
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(count > 0, total / count + 1.5 * np.sqrt(math.log(t) / count), np.inf)
        eps = min(t**-0.5, 2 / 3)
        expected = np.full(3, eps / 2)
        expected[score.argmax()] = 1 - eps
        np.testing.assert_allclose(log.propensity[t - 1], expected, rtol=1e-12)


def best_by_quadrature(posteriors):
    """Return each arm's probability of the largest draw, by scipy."""
    knots = [1e-14, 1e-8, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-8, 1 - 1e-14]
    points = np.unique(np.concatenate([d.ppf(knots) for d in posteriors]))
    answer = []
    for k, d in enumerate(posteriors):

        def f(x, k=k, d=d):
            return d.pdf(x) * np.prod([other.cdf(x) for j, other in enumerate(posteriors) if j != k])

        answer.append(sum(integrate.quad(f, a, b, epsabs=1e-11, epsrel=1e-8)[0] for a, b in pairwise(points)))
    return np.array(answer)


def test_thompson_logs_its_exact_clipped_probabilities():
    policy = bl.policies.thompson_normal(0.5, 0.3, noise_sd=1.0, prior_sd=2.0)
    log = bl.simulate(DELAYED, policy, 60, 5)
    for t in (1, 5, 17, 60):
        count, total = history(log, t)
        weight = count + 0.25
        p = best_by_quadrature([stats.norm(s / w, 1 / math.sqrt(w)) for s, w in zip(total, weight, strict=True)])
        floor = min(0.5 * t**-0.3, 1 / 3)
        low = p < floor
        for _ in range(3):  # water-filling
            if floor < 1 / 3:
                p = np.where(low, floor, p * (1 - floor * low.sum()) / p[~low].sum())
                low |= p < floor
        scaled = p if floor < 1 / 3 else np.full(3, 1 / 3)
        np.testing.assert_allclose(log.propensity[t - 1], scaled, atol=1e-8)
    assert (log.propensity >= floor - 1e-12).all()


def test_thompson_with_beta_posteriors_counts_successes_and_failures():
    bandit = bl.Bandit({0: bl.arms.bernoulli(0.6), 1: bl.arms.bernoulli(0.4)}, bl.delays.constant(2))
    log = bl.simulate(bandit, bl.policies.thompson_beta(0.1, 0.5), 80, 6)
    for t in (1, 30, 80):
        count, total = history(log, t)
        p = best_by_quadrature([stats.beta(1 + s, 1 + n - s) for s, n in zip(total, count, strict=True)])
        np.testing.assert_allclose(log.propensity[t - 1], np.clip(p, 0.1 * t**-0.5, 1 - 0.1 * t**-0.5), atol=1e-8)


def test_batches_share_one_decision():
    log = bl.simulate(TWO, bl.policies.thompson_normal().batched(10), 100, 7)
    for start in range(0, 100, 10):
        assert (log.propensity[start : start + 10] == log.propensity[start]).all()
    assert len(np.unique(log.propensity[:, 0])) > 5


def test_fixed_shares_follow_their_labels():
    log = bl.simulate(TWO, bl.policies.fixed({"B": 0.9, "A": 0.1}), 20_000)
    assert log.propensity[0].tolist() == [0.1, 0.9]
    assert (log.code == 1).mean() == pytest.approx(0.9, abs=0.01)
