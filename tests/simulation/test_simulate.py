from __future__ import annotations

import math
from itertools import pairwise

import naive
import numba
import numpy as np
import pytest
from scipy import integrate, stats

import belated as bl

TWO = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5, 2.0)})


def always(arm, delay=None, seed=0, steps=40_000):
    bandit = bl.Bandit({"x": arm}, delay or bl.delays.none())
    return bl.simulate(bandit, bl.policies.uniform(), steps, seed)


@pytest.mark.parametrize(
    ("arm", "twin"),
    [
        (bl.arms.normal(2.0, 3.0), stats.norm(2, 3)),
        (bl.arms.bernoulli(0.3), stats.bernoulli(0.3)),
        (bl.arms.exponential(2.0), stats.expon(scale=2)),
        (bl.arms.gamma(0.7, 2.0), stats.gamma(0.7, scale=2)),
        (bl.arms.lognormal(0.1, 0.5), stats.lognorm(0.5, scale=math.exp(0.1))),
        (bl.arms.student_t(5, 1.0, 2.0), stats.t(5, 1, 2)),
        (bl.arms.empirical([1.0, 2.0, 2.0, 5.0]), stats.rv_discrete(values=([1, 2, 5], [0.25, 0.5, 0.25]))),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_arms_draw_what_they_say(arm, twin):
    y = always(arm).outcome
    assert arm.mean == pytest.approx(twin.mean())
    assert arm.sd == pytest.approx(twin.std())
    assert abs(y.mean() - arm.mean) < 4.5 * arm.sd / math.sqrt(len(y))
    for q in (0.1, 0.5, 0.9):
        below, at_most = (y < twin.ppf(q)).mean(), (y <= twin.ppf(q)).mean()
        assert below - 0.012 <= q <= at_most + 0.012


@pytest.mark.parametrize(
    ("delay", "twin"),
    [
        (bl.delays.none(), stats.rv_discrete(values=([0], [1.0]))),
        (bl.delays.constant(7), stats.rv_discrete(values=([7], [1.0]))),
        (bl.delays.geometric(9.0), stats.geom(0.1, loc=-1)),
        (bl.delays.poisson(4.0), stats.poisson(4)),
        (bl.delays.negative_binomial(50, 0.5), stats.nbinom(50, 0.5)),
        (bl.delays.empirical([0, 3, 3, 9]), stats.rv_discrete(values=([0, 3, 9], [0.25, 0.5, 0.25]))),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_delays_are_what_they_say(delay, twin):
    log = always(bl.arms.normal(), delay.censored(0.25))
    late = (log.arrived_at - log.assigned_at).astype(float)
    came = np.isfinite(late)
    assert came.mean() == pytest.approx(0.75, abs=0.01)
    assert late[came].mean() == pytest.approx(twin.mean(), abs=5 * twin.std() / math.sqrt(came.sum()) + 1e-9)
    for q in (0.2, 0.5, 0.8):
        below, at_most = (late[came] < twin.ppf(q)).mean(), (late[came] <= twin.ppf(q)).mean()
        assert below - 0.015 <= q <= at_most + 0.015


def test_pareto_and_lognormal_delays_are_rounded_down():
    log = always(bl.arms.normal(), bl.delays.pareto(0.75))
    late = log.arrived_at - log.assigned_at
    for d in (0, 1, 10, 100):  # P(floor(P - 1) > d) = P(P >= d + 2)
        assert (late > d).mean() == pytest.approx((d + 2.0) ** -0.75, abs=0.01)
    log = always(bl.arms.normal(), bl.delays.lognormal(2.0, 1.0))
    late = log.arrived_at - log.assigned_at
    for d in (1, 5, 20):
        assert (late < d).mean() == pytest.approx(stats.norm.cdf(math.log(d) - 2), abs=0.01)


@pytest.mark.parametrize("horizon", [300, 2500])  # within a block of the kernel, and over several
@pytest.mark.parametrize(
    "delays",
    [
        (bl.delays.none(), bl.delays.none()),
        (bl.delays.none().censored(0.5), bl.delays.none()),
        (bl.delays.pareto(0.4).censored(0.2), bl.delays.negative_binomial(5, 0.5)),
        (bl.delays.constant(1), bl.delays.empirical([0, 2, 700, math.inf])),
        (bl.delays.geometric(3000.0), bl.delays.poisson(40)),
    ],
    ids=["at once", "or never", "pareto", "listed", "long"],
)
def test_a_run_is_its_plain_twin(delays, horizon):
    policy = bl.policies.epsilon_greedy(0.9, 0.4, burn_in=0.1).batched(3)
    log = bl.simulate(
        bl.Bandit({"A": TWO.arms["A"], "B": TWO.arms["B"]}, dict(zip("AB", delays, strict=True))), policy, horizon, 5, 2
    )
    twin = naive.epsilon_greedy_run(
        means=[1.0, 0.5], sds=[1.0, 2.0], tables=[d.table for d in delays], never=[d.never for d in delays],
        tails=[(d.name, d.parameters) for d in delays],
        c=0.9, decay=0.4, burn_in=int(0.1 * horizon), batch=3, horizon=horizon,
        rng=np.random.Generator(np.random.SFC64(np.random.SeedSequence(5, spawn_key=(2,)))),
    )  # fmt: skip
    np.testing.assert_array_equal(log.code, twin.arm)
    np.testing.assert_allclose(log.propensity, twin.propensity, rtol=1e-12)
    late = log.arrived_at - log.assigned_at
    np.testing.assert_array_equal(
        np.where(np.isfinite(twin.delay), twin.delay, -1), np.where(np.isfinite(late), late, -1)
    )
    np.testing.assert_array_equal(
        np.where(np.isfinite(twin.delay), twin.outcome, -9), np.nan_to_num(log.outcome, nan=-9)
    )


def test_the_same_seed_gives_the_same_log():
    policy = bl.policies.epsilon_greedy(burn_in=0.1)
    a, b, c = (bl.simulate(TWO, policy, 500, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a.outcome, b.outcome)
    np.testing.assert_array_equal(a.propensity, b.propensity)
    assert not np.array_equal(a.outcome, c.outcome)


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


def test_a_policy_of_ones_own_plain_or_compiled():
    def softmax(count, total, t):
        weights = np.exp(total / np.maximum(count, 1.0))
        return weights / weights.sum()

    plain = bl.simulate(DELAYED, bl.policies.own(softmax), 300, 8)
    fast = bl.simulate(DELAYED, bl.policies.own(numba.njit(softmax)), 300, 8)
    np.testing.assert_allclose(plain.propensity, fast.propensity, rtol=1e-12)
    np.testing.assert_array_equal(plain.outcome, fast.outcome)


@pytest.mark.parametrize("answer", [[0.5, 0.6], [1.5, -0.5], [1.0], [math.nan, 1.0]])
def test_a_policy_that_does_not_answer_with_probabilities_is_stopped(answer):
    def policy(count, total, t):
        return [0.5, 0.5] if t < 30 else answer

    with pytest.raises(bl.PolicyError, match=r"at step 30; it must be 2 probabilities"):
        bl.simulate(TWO, bl.policies.own(policy), 100)


def test_a_simulated_log_can_wait_for_what_is_still_out():
    bandit = bl.Bandit({"A": bl.arms.normal(), "B": bl.arms.normal()}, bl.delays.constant(50))
    log = bl.simulate(bandit, bl.policies.uniform(), 100)
    assert log.arrived.sum() == 50
    assert log.at(None).arrived.all()


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: bl.arms.normal(0, 0), "`sd` is 0; it must be above 0"),
        (lambda: bl.arms.bernoulli(1.2), "`rate` is 1.2; it must lie in [0, 1]"),
        (lambda: bl.arms.empirical([]), "at least one number"),
        (lambda: bl.delays.empirical([1.5]), "whole steps"),
        (lambda: bl.delays.geometric(-1), "must not be negative"),
        (lambda: bl.delays.negative_binomial(5, 0), "`rate` is 0"),
        (lambda: bl.delays.poisson(3).censored(2), "`never` is 2"),
        (lambda: bl.policies.epsilon_greedy(decay=1.5), "`decay` is 1.5"),
        (lambda: bl.policies.epsilon_greedy(burn_in=-1), "`burn_in` is -1"),
        (lambda: bl.policies.fixed({"A": 0.5}), "must sum to 1"),
        (lambda: bl.policies.uniform().batched(0), "`batch` is 0"),
        (lambda: bl.policies.own(3), "must be a function"),
        (lambda: bl.Bandit({}), "must map each arm's label"),
        (lambda: bl.Bandit({"A": 1.0}), "such as arms.normal(1.0)"),
        (lambda: bl.Bandit({"A": bl.arms.normal()}, {"B": bl.delays.none()}), "not one of the arms"),
        (lambda: bl.simulate(TWO, bl.policies.uniform(), 0), "`horizon` is 0"),
        (lambda: bl.simulate(TWO, bl.policies.uniform(), 10, -1), "`seed` is -1"),
        (lambda: bl.simulate(TWO, "thompson", 10), "must be a policy"),
        (lambda: bl.simulate(TWO, bl.policies.thompson_beta(), 10), "needs Bernoulli arms"),
        (lambda: bl.simulate(TWO, bl.policies.fixed({"A": 1.0}), 10), "the arms are ['A', 'B']"),
    ],
)
def test_what_cannot_be_simulated_is_refused_before_anything_runs(ask, sentence):
    with pytest.raises(bl.BelatedError) as caught:
        ask()
    assert sentence in str(caught.value)
