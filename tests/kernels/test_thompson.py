import math

import numpy as np
import pytest
from scipy import integrate, special

from belated.kernels import thompson

HARD = {
    "normal": [
        ([0, 0, 0], [1, 1e-2, 1e-4]),
        ([0, 0, 0, 0, 0], [1, 1, 1, 1, 1]),
        ([5e-4, 1, -3, 0], [1e-4, 1, 1, 1e-2]),
        ([0, 10, -10, 3], [1, 0.5, 2, 1e-4]),
        ([0, 6.5, 6.4e-4], [1e-4, 1, 1e-4]),
        ([1e6, 1e6 + 1, 1e6], [1, 0.1, 0.3]),
        ([0.1, 0.4], [2, 0.5]),
    ],
    "beta": [
        ([1, 5000], [1, 3]),
        ([1, 1, 1, 1, 1], [1, 1, 1, 1, 1]),
        ([0.5, 0.5, 30000], [0.5, 0.5, 20000]),
        ([1, 1, 2, 0.5], [20000, 20000, 20000, 20000]),
        ([1, 5000, 0.5, 30000, 1], [1, 3, 0.5, 20000, 20000]),
        ([30000, 30100, 200], [20000, 20000, 130]),
        ([3, 20000], [20000, 1]),
    ],
}


def posteriors(family, rng, arms):
    if family == "normal":
        second = 10 ** rng.uniform(-rng.choice([0.1, 1, 4]), 0, arms)
        return second * rng.normal(size=arms) * rng.choice([0, 1, 4]), second
    size, rate = 10 ** rng.uniform(0, rng.uniform(0.1, 4.5), arms), rng.choice([0.5, rng.random() ** 4])
    wins = np.floor(size * rng.beta(1 + 9 * rate, 10 - 9 * rate, arms))
    return rng.choice([0.5, 1]) + wins, rng.choice([0.5, 1]) + np.floor(size) - np.minimum(wins, np.floor(size))


def by_quadrature(family, first, second):
    """Return each arm's probability of the largest draw, by scipy; a Beta on the logit scale."""
    a, b = np.asarray(first, float), np.asarray(second, float)
    away = np.array([0.5, 1, 2, 3, 4.5, 6.5, 9])
    away = np.concatenate([-away[::-1], [0], away])
    if family == "normal":
        points = (a + np.outer(away, b)).ravel()

        def densities(x):
            z = (x - a) / b
            return np.exp(-0.5 * z**2) / b / math.sqrt(2 * math.pi), special.ndtr(z)
    else:
        points = np.log(a / b) + np.outer(away, np.sqrt(1 / a + 1 / b))
        points = np.concatenate([points.ravel(), np.log(a / b) - 35 / a - 3, np.log(a / b) + 35 / b + 3])

        def densities(x):
            log_x, log_rest = -np.logaddexp(0, -x), -np.logaddexp(0, x)
            f = np.exp(a * log_x + b * log_rest - special.betaln(a, b))
            return f, special.betainc(a, b, special.expit(x)) if x < 0 else special.betaincc(b, a, special.expit(-x))

    def integrand(x):
        f, below = densities(x)
        before, after = np.cumprod(below), np.cumprod(below[::-1])[::-1]
        return f * np.concatenate([[1], before[:-1]]) * np.concatenate([after[1:], [1]])

    points = np.unique(points)
    return integrate.quad_vec(integrand, points[0], points[-1], epsabs=1e-13, epsrel=0, norm="max", points=points)[0]


def fresh(family, first, second):
    p = np.empty(len(first))
    first, second = np.asarray(first, float), np.asarray(second, float)
    thompson.thompson_probabilities(p, family == "beta", first, second, thompson.new_memo(len(p)))
    return p


def outcomes(family, rng, arms, steps, means):
    """Yield the posteriors of a run, most often one outcome apart."""
    count, total = np.zeros(arms), np.zeros(arms)
    for _ in range(steps):
        yield (
            (1 + total, 1 + count - total) if family == "beta" else (total / (count + 0.25), 1 / np.sqrt(count + 0.25))
        )
        for _ in range(rng.choice([0, 1, 1, 1, 1, 1, 1, 3])):
            arm = rng.integers(arms) if rng.random() < 0.5 else 0
            count[arm] += 1
            total[arm] += rng.random() < means[arm] if family == "beta" else means[arm] + rng.normal()


@pytest.mark.parametrize("family", ["normal", "beta"])
def test_hard_posteriors(family):
    for first, second in HARD[family]:
        np.testing.assert_allclose(fresh(family, first, second), by_quadrature(family, first, second), atol=1e-9)


@pytest.mark.parametrize("family", ["normal", "beta"])
@pytest.mark.parametrize("arms", [2, 3, 5, 20, 50])
def test_random_posteriors(family, arms):
    rng = np.random.default_rng(arms)
    for _ in range(10 if arms <= 5 else 20 // arms + 1):
        first, second = posteriors(family, rng, arms)
        p = fresh(family, first, second)
        np.testing.assert_allclose(p, by_quadrature(family, first, second), atol=1e-9)
        assert p.sum() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("family", ["normal", "beta"])
@pytest.mark.parametrize("arms", [3, 5, 20, 50])
def test_new_nodes_miss_nothing(family, arms):
    rng = np.random.default_rng(arms)
    memo, p = thompson.new_memo(arms), np.empty(arms)
    for _ in range(300):
        thompson.lay(memo, family == "beta", *posteriors(family, rng, arms))
        assert abs(thompson.integrate(p, memo) - 1) < thompson.SLACK


@pytest.mark.parametrize("family", ["normal", "beta"])
@pytest.mark.parametrize("arms", [2, 3, 5, 12, 50])
@pytest.mark.parametrize("spread", [0, 0.3])
def test_a_memo_that_follows_is_as_good_as_a_fresh_one(family, arms, spread):
    rng = np.random.default_rng(arms)
    memo, p, n_fresh = thompson.new_memo(arms), np.empty(arms), 0
    means = 0.5 + spread * np.linspace(0.5, -0.5, arms)
    for t, (first, second) in enumerate(outcomes(family, rng, arms, 1500, means)):
        step = memo[thompson.GRID, thompson.STEP]
        thompson.thompson_probabilities(p, family == "beta", first, second, memo)
        n_fresh += not np.array_equal(memo[thompson.GRID, thompson.STEP], step, equal_nan=True)
        if t < 30 or rng.random() < 0.1:
            np.testing.assert_allclose(p, fresh(family, first, second), atol=1e-9)
        if t in (10, 100, 1499) and arms <= 5:
            np.testing.assert_allclose(p, by_quadrature(family, first, second), atol=1e-9)
    assert n_fresh <= 45


@pytest.mark.parametrize("family", ["normal", "beta"])
def test_a_memo_survives_leaps_and_forgets(family):
    rng = np.random.default_rng(3)
    memo, p = thompson.new_memo(4), np.empty(4)
    for _ in range(100):
        first, second = posteriors(family, rng, 4)
        thompson.thompson_probabilities(p, family == "beta", first, second, memo)
        np.testing.assert_allclose(p, fresh(family, first, second), atol=1e-9)
    memo[thompson.GRID] = np.nan
    thompson.thompson_probabilities(p, family == "beta", first, second, memo)
    assert (p == fresh(family, first, second)).all()


@pytest.mark.parametrize("prior", [0.1, 0.3])
def test_a_beta_whose_parameters_round_is_followed(prior):
    memo, p = thompson.new_memo(3), np.empty(3)
    second = np.full(3, prior + 40)
    thompson.thompson_probabilities(p, True, prior + np.array([50.0, 50, 50]), second, memo)
    first = prior + np.array([50.0, 51, 50])
    assert thompson.follow(memo, True, first, second)
    thompson.thompson_probabilities(p, True, first, second, memo)
    np.testing.assert_allclose(p, fresh("beta", first, second), atol=1e-9)


@pytest.mark.parametrize("family", ["normal", "beta"])
def test_the_order_of_arms_does_not_matter(family):
    rng = np.random.default_rng(4)
    for _ in range(20):
        first, second = posteriors(family, rng, 6)
        order = rng.permutation(6)
        np.testing.assert_allclose(
            fresh(family, first, second)[order], fresh(family, first[order], second[order]), atol=1e-9
        )


@pytest.mark.parametrize("family", ["normal", "beta"])
@pytest.mark.parametrize("arms", [1, 2, 5])
@pytest.mark.parametrize("spread", [0, 0.6])
def test_clipping_is_water_filling(family, arms, spread):
    rng = np.random.default_rng(arms)
    memo, p, short = thompson.new_memo(arms), np.empty(arms), 0
    for t, (first, second) in enumerate(outcomes(family, rng, arms, 600, 0.5 + spread * np.linspace(0.5, -0.5, arms))):
        floor = min((t + 1.0) ** -0.5, 1 / arms)
        p[:] = np.nan
        thompson.clipped_probabilities(p, family == "beta", first, second, floor, memo)
        expected = fresh(family, first, second)
        thompson.raise_to_floor(expected, floor)
        np.testing.assert_allclose(p, expected, atol=1e-9)
        assert p.min() >= floor * (1 - 1e-12)
        short += not (memo[thompson.FIRST, :arms] == first).all()
    assert (short > 50) == (arms == 1 or spread > 0 or (family == "normal" and arms == 2))


def test_a_floor_of_nothing_clips_nothing():
    p, first, second = np.empty(3), np.array([0.0, 1, 9]), np.ones(3)
    thompson.clipped_probabilities(p, False, first, second, 0.0, thompson.new_memo(3))
    np.testing.assert_allclose(p, fresh("normal", first, second), atol=1e-15)


@pytest.mark.parametrize("family", ["normal", "beta"])
def test_interpreted_as_compiled(family, monkeypatch):
    rng = np.random.default_rng(5)
    steps = list(outcomes(family, rng, 3, 40, [0.5, 0.5, 0.2]))

    def run():
        memo, p = thompson.new_memo(3), np.empty(3)
        answers = []
        for first, second in steps:
            thompson.clipped_probabilities(p, family == "beta", first, second, 0.01, memo)
            answers.append(p.copy())
        return np.array(answers)

    compiled = run()
    for name in dir(thompson):
        if hasattr(getattr(thompson, name), "py_func"):
            monkeypatch.setattr(thompson, name, getattr(thompson, name).py_func)
    np.testing.assert_allclose(run(), compiled, atol=1e-12)
