from __future__ import annotations

import math
from dataclasses import fields

import naive.winner as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from belated.estimation.estimators import ArmStatistics, Moments
from belated.estimation.intervals import combine
from belated.estimation.winner import Rivalry, winner


def student(x, s, nu):
    """What `winner` takes, of estimates with Student's intervals."""

    def limits(tail):
        q = -special.stdtrit(np.minimum(nu, 1e9), tail)
        return x - q * s, x + q * s

    return x, limits, np.broadcast_to(nu, np.shape(x))


def rivalry(x, s, nu=np.inf, level=0.95):
    return Rivalry.of(*student(np.asarray(x, float), np.asarray(s, float), np.full(len(x), nu)), level)


@settings(max_examples=40, deadline=None)
@given(
    lead=st.floats(1e-3, 8),
    s=st.floats(1e-3, 1e3),
    arms=st.integers(2, 30),
    level=st.sampled_from([0.8, 0.9, 0.95, 0.99]),
)
def test_limits_are_those_of_the_textbook(lead, s, arms, level):
    x = np.full(arms, -50.0) * s
    x[:2] = [lead * s, 0.0]
    selected = winner(*student(x, np.full(arms, s), np.full(arms, np.inf)), level)
    miss = 1 - level
    for p, got in ((miss / 2, selected.conditional.low), (1 - miss / 2, selected.conditional.high)):
        assert got == pytest.approx(naive.conditional(lead * s, 0.0, s, p), rel=1e-6, abs=1e-6 * s)
    low, middle, high = naive.hybrid(lead * s, 0.0, s, arms, level)
    assert (selected.hybrid.low, selected.median, selected.hybrid.high) == pytest.approx(
        (low, middle, high), abs=1e-6 * s
    )
    reach = naive.critical(miss, arms) * s
    assert selected.simultaneous == pytest.approx((lead * s - reach, lead * s + reach), abs=1e-6 * s)
    assert abs(lead - 0.1) < 1e-9 or bool(selected.near_tie) == (lead < 0.1)


@settings(max_examples=40, deadline=None)
@given(st.floats(-12, 12), st.integers(2, 50), st.sampled_from([3.0, 12.0, 200.0, np.inf]))
def test_no_lead_is_too_small_or_too_large(exponent, arms, nu):
    x = np.zeros(arms)
    x[0] = 10.0**exponent
    selected = winner(*student(x, np.ones(arms), np.full(arms, nu)), 0.95)
    low, high = selected.conditional
    assert low < high
    assert nu < 10 or math.isfinite(low)
    assert selected.simultaneous.low - 1e-9 <= x[0] <= selected.simultaneous.high
    assert selected.hybrid.low <= selected.median <= selected.hybrid.high
    assert selected.hybrid.high - selected.hybrid.low <= 1.1 * (selected.simultaneous.high - selected.simultaneous.low)


def test_far_in_the_tail_the_limit_is_exponential():
    # S(a) / S(a - d) = exp(-a d) for large a: the limit is x - s log(1/p) / d
    selected = winner(*student(np.array([1e-7, 0.0]), np.ones(2), np.full(2, np.inf)), 0.95)
    assert selected.conditional.low == pytest.approx(-math.log(40) / 1e-7, rel=1e-6)


def test_a_clear_winner_has_its_own_interval():
    x, s = np.array([50.0, 0.0, 1.0]), np.array([1.0, 2.0, 1.0])
    selected = winner(*student(x, s, np.full(3, np.inf)), 0.9)
    z = stats.norm.ppf(0.95)
    assert selected.conditional == pytest.approx((50 - z, 50 + z))
    assert selected.median == pytest.approx(50)
    assert 1 < (selected.hybrid.high - 50) / z < 1.07
    few = winner(*student(x, s, np.full(3, 6.0)), 0.9)
    assert 1 < (few.hybrid.high - 50) / stats.t.ppf(0.95, 6) < 1.2


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 25),
    st.floats(2, 1e6),
    st.floats(-1e3, 1e3),
    st.floats(0.01, 100),
)
def test_intervals_move_with_the_outcomes(seed, arms, nu, shift, scale):
    rng = np.random.default_rng(seed)
    x, s, df = rng.normal(size=arms), rng.uniform(0.5, 2, arms), np.full(arms, nu)
    order = rng.permutation(arms)
    a = winner(*student(x, s, df), 0.95)
    b = winner(*student((shift + scale * x)[order], (scale * s)[order], df), 0.95)
    assert order[b.index] == a.index
    for name in ("simultaneous", "conditional", "hybrid"):
        expected = shift + scale * np.array(getattr(a, name))
        np.testing.assert_allclose(np.array(getattr(b, name)), expected, rtol=1e-6, atol=1e-6 * scale)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 5, 20, 100]), st.sampled_from([0.8, 0.9, 0.95]))
def test_hybrid_is_never_a_tenth_wider_than_the_band(seed, arms, level):
    rng = np.random.default_rng(seed)
    x, s = rng.normal(size=(200, arms)), rng.uniform(0.1, 2, (200, arms))
    df = rng.uniform(1, 60, (200, arms))
    selected = winner(*student(x, s, df), level)
    ratio = (selected.hybrid.high - selected.hybrid.low) / (selected.simultaneous.high - selected.simultaneous.low)
    assert ratio.max() <= 1.1


@pytest.mark.parametrize("nu", [5.0, 30.0, np.inf])
@pytest.mark.parametrize("arms", [2, 5, 20])
@pytest.mark.parametrize("step", [0.0, 1.0])
def test_intervals_cover_the_selected_mean(nu, arms, step):
    rng = np.random.default_rng(int(arms + 100 * step + min(nu, 99)))
    runs, means = 3000, step * np.arange(arms)
    x = means + rng.normal(size=(runs, arms))
    s = np.sqrt(rng.chisquare(nu, x.shape) / nu) if nu < np.inf else np.ones(x.shape)
    selected = winner(*student(x, s, np.full(x.shape, nu)), 0.95)
    truth = means[selected.index]
    near = selected.near_tie
    for low, high in (selected.simultaneous, selected.hybrid, np.where(near, selected.simultaneous, selected.hybrid)):
        assert stats.binom.cdf(np.sum((low <= truth) & (truth <= high)), runs, 0.945) > 1e-4
    if nu > 5:
        held = np.sum((selected.conditional.low <= truth) & (truth <= selected.conditional.high))
        assert 1e-4 < stats.binom.cdf(held, runs, 0.95) < 1 - 1e-4
        assert abs(np.mean(selected.median < truth) - 0.5) < 0.05


def test_a_single_interval_does_not_cover_the_selected_mean():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3000, 20))
    assert np.mean(np.abs(x.max(axis=1)) < stats.norm.ppf(0.975)) < 0.7


@pytest.mark.parametrize(
    ("x", "s"),
    [([1.0, 0.0, 0.5], [0.5, 0.5, 0.5]), ([0.3, 0.0, 0.9, 0.2], [0.1, 1.0, 0.5, 0.3]), ([1.0, 0.2], [0.3, 0.6])],
)
def test_being_best_is_tested_as_by_simulation(x, s):
    rng = np.random.default_rng(1)
    got = rivalry(x, s).not_best()
    for k in range(len(x)):
        assert got[k] == pytest.approx(naive.not_best(x, s, k, 20_000, rng), abs=0.012)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8))
def test_contrasts_with_the_best_are_hsus(seed, arms):
    rng = np.random.default_rng(seed)
    x, s = rng.normal(0, 2, arms), rng.uniform(0.3, 1.5, arms)
    rivals = rivalry(x, s)
    low, high = rivals.against_best()
    p = rivals.not_best()
    clear = np.abs(p - 0.05) > 1e-4
    np.testing.assert_array_equal((high > 0)[clear], (p > 0.05)[clear])
    lower, upper = naive.against_best(x, s, [dunnett(rivals, k, arms) for k in range(arms)])
    np.testing.assert_allclose(low, lower, atol=2e-3)
    np.testing.assert_allclose(high, upper, atol=2e-3)


def dunnett(rivals, k, arms):
    low, high = 1.0, 5.0
    for _ in range(30):
        z = (low + high) / 2
        low, high = (z, high) if rivals.adjusted(np.full(arms, stats.norm.sf(z)))[k] > 0.05 else (low, z)
    return low


@pytest.mark.parametrize("arms", [2, 5])
def test_the_best_is_among_the_contenders_and_claims_are_rarely_wrong(arms):
    rng = np.random.default_rng(arms)
    runs, held, wrong, together = 300, 0, 0, 0
    s = np.linspace(0.5, 2, arms)
    means = np.zeros(arms)
    means[0] = 0.3
    gap = means - [np.delete(means, k).max() for k in range(arms)]
    for _ in range(runs):
        null = rng.normal(0, s)
        rivals = rivalry(null, s)
        held += rivals.not_best()[0] > 0.05
        wrong += rivals.winner_not_best() < 0.05
        low, high = rivalry(means + null, s).against_best()
        together += bool(((low <= gap) & (gap <= high)).all())
    level = 0.975 if arms == 2 else 0.95  # two arms are told apart by their two-sided contrast
    assert 1e-4 < stats.binom.cdf(held, runs, level) < 1 - 1e-4
    assert stats.binom.sf(wrong - 1, runs, 0.05) > 1e-4
    assert stats.binom.cdf(together, runs, 0.95) > 1e-4


def test_of_many_arms_sidaks_bound_is_used():
    x = np.zeros(200)
    x[7] = 6.0
    p = rivalry(x, np.ones(200)).not_best()
    single = stats.norm.sf(6 / math.sqrt(2))
    assert p[0] == pytest.approx(1 - (1 - single) ** 199, rel=1e-6)
    assert p[7] > 0.5


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 5, 20]), st.sampled_from([0.02, 0.3, 0.5, 0.9]))
def test_hybrid_of_rates_is_never_a_tenth_wider_either(seed, arms, rate):
    rng = np.random.default_rng(seed)
    shape = (300, arms, 1)
    n = rng.integers(2, 60, shape).astype(float)
    q = rng.binomial(n.astype(int), rate) / n
    parts = dict.fromkeys((f.name for f in fields(ArmStatistics)), np.ones(shape))
    parts |= {"moments": Moments(*(np.ones(shape) for _ in Moments._fields)), "shared": None, "common": None}
    parts |= {"value": q, "augmentation": np.zeros(shape), "effective_size": n * rng.uniform(0.3, 1, shape)}
    alone = combine(ArmStatistics(**parts | {"arrived": n}), np.ones(1), "wilson")
    selected = winner(q[..., 0], alone.limits, alone.degrees[..., 0], 0.95)
    ratio = (selected.hybrid.high - selected.hybrid.low) / (selected.simultaneous.high - selected.simultaneous.low)
    assert ratio.max() <= 1.1
    # a rate of 1 has no width above it, and much below
    top = q[..., 0].max(axis=1) == 1
    assert (selected.hybrid.low[top & ~selected.near_tie] < 1).all()


def test_ten_degrees_of_freedom_are_ten_whatever_rounding_says():
    x, s = np.array([0.3, 0.0]), np.ones(2)
    below, exact = (winner(*student(x, s, np.full(2, nu)), 0.95) for nu in (np.nextafter(10.0, 0.0), 10.0))
    assert list(map(float, below.conditional)) == pytest.approx(list(map(float, exact.conditional)))
