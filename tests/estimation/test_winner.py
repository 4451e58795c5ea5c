from __future__ import annotations

import math
from dataclasses import fields

import naive.winner as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import belated as bl
from belated.estimation.combinations import combine
from belated.estimation.estimators import ArmStatistics
from belated.estimation.winner import Rivalry, winner


def student(x, s, nu):
    """What `winner` takes, of estimates with Student's intervals."""

    def limits(tail):
        q = -special.stdtrit(np.minimum(nu, 1e9), tail)
        return x - q * s, x + q * s

    return x, limits, np.broadcast_to(nu, np.shape(x))


def rivalry(x, s, nu=np.inf, level=0.95):
    return Rivalry.of(*student(np.asarray(x, float), np.asarray(s, float), np.full(len(x), nu)), level)


def log_of(means, rows=400, seed=0, draw=None, **options):
    rng = np.random.default_rng(seed)
    arms = len(means)
    arm = rng.integers(0, arms, rows)
    outcome = rng.normal(np.array(means)[arm]) if draw is None else draw(rng, np.array(means)[arm])
    return bl.Log(arm, outcome, np.full((rows, arms), 1 / arms), arms=range(arms), **options)


# ---------------------------------------------------------------- the mathematics


@settings(max_examples=60, deadline=None)
@given(
    lead=st.floats(1e-3, 8),
    s=st.floats(1e-3, 1e3),
    arms=st.integers(2, 30),
    level=st.sampled_from([0.8, 0.9, 0.95, 0.99]),
)
def test_limits_are_those_of_the_textbook(lead, s, arms, level):
    x = np.full(arms, -50.0) * s
    x[:2] = [lead * s, 0.0]
    found = winner(*student(x, np.full(arms, s), np.full(arms, np.inf)), level)
    miss = 1 - level
    for p, got in ((miss / 2, found.conditional.low), (1 - miss / 2, found.conditional.high)):
        assert got == pytest.approx(naive.conditional(lead * s, 0.0, s, p), rel=1e-6, abs=1e-6 * s)
    low, middle, high = naive.hybrid(lead * s, 0.0, s, arms, level)
    assert (found.hybrid.low, found.median, found.hybrid.high) == pytest.approx((low, middle, high), abs=1e-6 * s)
    reach = naive.critical(miss, arms) * s
    assert found.simultaneous == pytest.approx((lead * s - reach, lead * s + reach))
    assert abs(lead - 0.1) < 1e-9 or bool(found.near_tie) == (lead < 0.1)


@settings(max_examples=60, deadline=None)
@given(st.floats(-12, 12), st.integers(2, 50), st.sampled_from([3.0, 12.0, 200.0, np.inf]))
def test_no_lead_is_too_small_or_too_large(exponent, arms, nu):
    x = np.zeros(arms)
    x[0] = 10.0**exponent
    found = winner(*student(x, np.ones(arms), np.full(arms, nu)), 0.95)
    low, high = found.conditional
    assert low < high
    assert nu < 10 or math.isfinite(low)
    assert found.simultaneous.low - 1e-9 <= x[0] <= found.simultaneous.high
    assert found.hybrid.low <= found.median <= found.hybrid.high
    assert found.hybrid.high - found.hybrid.low <= 1.1 * (found.simultaneous.high - found.simultaneous.low)


def test_far_in_the_tail_the_limit_is_exponential():
    # S(a) / S(a - d) = exp(-a d) for large a: the limit is x - s log(1/p) / d
    found = winner(*student(np.array([1e-7, 0.0]), np.ones(2), np.full(2, np.inf)), 0.95)
    assert found.conditional.low == pytest.approx(-math.log(40) / 1e-7, rel=1e-6)


def test_a_clear_winner_has_its_own_interval():
    x, s = np.array([50.0, 0.0, 1.0]), np.array([1.0, 2.0, 1.0])
    found = winner(*student(x, s, np.full(3, np.inf)), 0.9)
    z = stats.norm.ppf(0.95)
    assert found.conditional == pytest.approx((50 - z, 50 + z))
    assert found.median == pytest.approx(50)
    assert 1 < (found.hybrid.high - 50) / z < 1.07
    few = winner(*student(x, s, np.full(3, 6.0)), 0.9)
    assert 1 < (few.hybrid.high - 50) / stats.t.ppf(0.95, 6) < 1.2


@settings(max_examples=60, deadline=None)
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
        there = np.array(getattr(b, name))
        here = shift + scale * np.array(getattr(a, name))
        np.testing.assert_allclose(there, here, rtol=1e-6, atol=1e-6 * scale)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 5, 20, 100]), st.sampled_from([0.8, 0.9, 0.95]))
def test_hybrid_is_never_a_tenth_wider_than_the_band(seed, arms, level):
    rng = np.random.default_rng(seed)
    x, s = rng.normal(size=(200, arms)), rng.uniform(0.1, 2, (200, arms))
    df = rng.uniform(1, 60, (200, arms))
    found = winner(*student(x, s, df), level)
    ratio = (found.hybrid.high - found.hybrid.low) / (found.simultaneous.high - found.simultaneous.low)
    assert ratio.max() <= 1.1


@pytest.mark.parametrize("nu", [5.0, 30.0, np.inf])
@pytest.mark.parametrize("arms", [2, 5, 20])
@pytest.mark.parametrize("step", [0.0, 1.0])
def test_intervals_cover_the_selected_mean(nu, arms, step):
    rng = np.random.default_rng(int(arms + 100 * step + min(nu, 99)))
    runs, means = 3000, step * np.arange(arms)
    x = means + rng.normal(size=(runs, arms))
    s = np.sqrt(rng.chisquare(nu, x.shape) / nu) if nu < np.inf else np.ones(x.shape)
    found = winner(*student(x, s, np.full(x.shape, nu)), 0.95)
    truth = means[found.index]
    near = found.near_tie
    for low, high in (found.simultaneous, found.hybrid, np.where(near, found.simultaneous, found.hybrid)):
        assert stats.binom.cdf(np.sum((low <= truth) & (truth <= high)), runs, 0.945) > 1e-4
    if nu > 5:
        held = np.sum((found.conditional.low <= truth) & (truth <= found.conditional.high))
        assert 1e-4 < stats.binom.cdf(held, runs, 0.95) < 1 - 1e-4
        assert abs(np.mean(found.median < truth) - 0.5) < 0.05


def test_a_single_interval_does_not_cover_the_selected_mean():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3000, 20))
    assert np.mean(np.abs(x.max(axis=1)) < stats.norm.ppf(0.975)) < 0.7


# ---------------------------------------------------------------- which is best


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
    low, high = rivals.against_best(0.95)
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
    runs, held, wrong, together = 800, 0, 0, 0
    s = np.linspace(0.5, 2, arms)
    means = np.zeros(arms)
    means[0] = 0.3
    gap = means - [np.delete(means, k).max() for k in range(arms)]
    for _ in range(runs):
        null = rng.normal(0, s)
        rivals = rivalry(null, s)
        held += rivals.not_best()[0] > 0.05
        wrong += rivals.winner_not_best() < 0.05
        low, high = rivalry(means + null, s).against_best(0.95)
        together += bool(((low <= gap) & (gap <= high)).all())
    assert 1e-4 < stats.binom.cdf(held, runs, 0.95) < 1 - 1e-4
    assert stats.binom.sf(wrong - 1, runs, 0.05) > 1e-4
    assert stats.binom.cdf(together, runs, 0.95) > 1e-4


def test_of_many_arms_sidaks_bound_is_used():
    x = np.zeros(200)
    x[7] = 6.0
    p = rivalry(x, np.ones(200)).not_best()
    single = stats.norm.sf(6 / math.sqrt(2))
    assert p[0] == pytest.approx(1 - (1 - single) ** 199, rel=1e-6)
    assert p[7] > 0.5


# ---------------------------------------------------------------- estimates


def test_best_of_an_estimate():
    est = bl.estimate(log_of([0, 0.1, 0.9, 0.2]))
    best = est.best()
    assert best.arm == 2
    assert best.estimate == est.arm(2).estimate
    assert best.contenders == (2,)
    assert best.kind == "hybrid"
    assert best.interval == best.hybrid == (best.low, best.high)
    assert best.simultaneous.low < best.hybrid.low < best.estimate < best.hybrid.high
    assert set(best.p_values) == {0, 1, 2, 3}
    assert best.p_value < 0.05
    assert best.left_out == ()
    lines = str(best).splitlines()
    assert lines[0] == "daipw: the best of 4 arms, 95% t intervals that hold together"
    assert lines[2].startswith("2 ")
    assert lines[-1].startswith("2 has the largest estimate")
    assert lines[-1].endswith("No other arm may be best.")
    assert best.to_dict()["may_be_best"] == ["yes", "no", "no", "no"]
    wider = est.best(level=0.99)
    assert wider.low < best.low < best.high < wider.high


def test_the_smallest_is_the_largest_of_the_negatives():
    low, high = bl.estimate(log_of([0.5, 0, 0.3])), log_of([0.5, 0, 0.3])
    mirrored = bl.estimate(bl.Log(high.code, -high.outcome, high.propensity, arms=range(3)))
    a, b = low.best(largest=False), mirrored.best()
    assert a.arm == b.arm
    for name in ("hybrid", "conditional", "simultaneous"):
        assert getattr(a, name) == pytest.approx(tuple(-x for x in reversed(getattr(b, name))))
    assert a.median_unbiased == pytest.approx(-b.median_unbiased)
    assert a.p_values == pytest.approx(b.p_values)
    for one, other in zip(low.contrasts("best", largest=False), mirrored.contrasts("best"), strict=True):
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert "smallest" in a.note


def test_two_arms_are_tested_as_their_contrast():
    est = bl.estimate(log_of([0, 0.2]))
    best = est.best()
    other = 1 - best.arm
    assert best.p_value == pytest.approx(est.contrast(best.arm, other).p_value)
    assert best.p_values[other] == pytest.approx(est.contrast(best.arm, other, alternative="greater").p_value)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 5, 20]), st.sampled_from([0.02, 0.3, 0.5, 0.9]))
def test_hybrid_of_rates_is_never_a_tenth_wider_either(seed, arms, rate):
    rng = np.random.default_rng(seed)
    shape = (300, arms, 1)
    n = rng.integers(2, 60, shape).astype(float)
    q = rng.binomial(n.astype(int), rate) / n
    parts = dict.fromkeys((f.name for f in fields(ArmStatistics)), np.ones(shape))
    parts |= {"value": q, "augmentation": np.zeros(shape), "effective_size": n * rng.uniform(0.3, 1, shape)}
    alone = combine(ArmStatistics(**parts | {"arrived": n}), np.ones(1), "wilson")
    found = winner(q[..., 0], alone.limits, alone.degrees[..., 0], 0.95)
    ratio = (found.hybrid.high - found.hybrid.low) / (found.simultaneous.high - found.simultaneous.low)
    assert ratio.max() <= 1.1
    # a rate of 1 has no width above it, and much below
    top = q[..., 0].max(axis=1) == 1
    assert (found.hybrid.low[top & ~found.near_tie] < 1).all()


def test_rates_stay_rates():
    est = bl.estimate(log_of([0.02, 0.05, 0.04], draw=lambda rng, m: (rng.random(len(m)) < m) * 1.0))
    assert est.interval == "wilson"
    best = est.best()
    for low, high in (best.hybrid, best.conditional, best.simultaneous):
        assert 0 <= low < high <= 1
    assert best.simultaneous.high == pytest.approx(est.arm(best.arm).at_level(0.95 ** (1 / 3)).high)


def test_near_a_tie_the_band_is_reported():
    y = np.tile([0.0, 1.0, 2.0, 3.0], 10)
    log = bl.Log(["A", "A", "B", "B"] * 10, [0.0, 1.0, 0.01, 1.0] * 10, [[0.5, 0.5]] * 40)
    best = bl.estimate(log, "dipw").best()
    assert best.arm == "B"
    assert best.near_tie
    assert best.interval == best.simultaneous
    assert "as good as a tie" in best.note
    assert best.note.endswith("A may be best too.")
    equal = bl.estimate(bl.Log(["A", "A", "B", "B"] * 10, y % 2 + 0.5, [[0.5, 0.5]] * 40), "dipw").best()
    assert (equal.arm, equal.near_tie) == ("A", True)
    assert equal.p_value == 1


def test_arms_without_an_interval_are_named_and_left_out():
    columns = {"propensity": [[0.4, 0.4, 0.1, 0.1]] * 21, "arms": ["A", "B", "<i>C", "D"]}
    with pytest.warns(bl.BelatedWarning):
        est = bl.estimate(bl.Log(["A", "B"] * 10 + ["<i>C"], [*np.arange(20.0), 1e6], **columns))
    best = est.best()
    assert best.arm == "B"
    assert best.left_out == ("<i>C", "D")
    assert str(best).endswith("Without an interval, so nothing is known of how they compare: <i>C and D.")
    assert best.to_dict()["may_be_best"][2:] == ["unknown", "unknown"]
    assert {"<i>C", "D"} < set(best.contenders)
    assert "<i>" not in best.to_html()
    assert [a.name for a in est.contrasts("best")][2] == "<i>C - best other"
    assert math.isnan(est.contrasts("best")[3].low)


def test_one_arm_is_its_own_answer():
    est = bl.estimate(bl.Log(["A"] * 9, np.arange(9.0), [[1.0]] * 9))
    best = est.best()
    assert best.interval == pytest.approx((est.arm("A").low, est.arm("A").high))
    assert best.contenders == ("A",)
    assert "nothing was chosen" in best.note
    with pytest.raises(bl.OptionError, match="at least two arms"):
        est.contrasts("best")


def test_no_variance_is_certain():
    with pytest.warns(bl.BelatedWarning, match="equal"):
        est = bl.estimate(bl.Log(["A", "B", "C"] * 4, [1.0, 3.0, 2.0] * 4, [[1 / 3] * 3] * 12), "dipw")
    best = est.best()
    assert best.hybrid == best.simultaneous == best.conditional == (3.0, 3.0)
    assert not best.near_tie
    assert best.contenders == ("B",)
    assert best.p_value == 0


def test_without_any_interval_there_is_no_best():
    with pytest.warns(bl.BelatedWarning):
        est = bl.estimate(bl.Log(["A", "B"], [1.0, 2.0], [[0.5, 0.5]] * 2), "dipw")
    with pytest.raises(bl.OptionError, match="No arm has an interval"):
        est.best()


def test_the_greedy_policy_is_worth_what_its_arm_is():
    est = bl.estimate(log_of([0, 0.1, 0.4]))
    answer, best = est.policy("greedy"), est.best()
    assert (answer.low, answer.high) == best.interval
    assert answer.estimate == best.estimate
    assert answer.interval == best.kind
    assert "greedy" in str(answer)
    with pytest.raises(bl.OptionError, match="two sides"):
        est.policy("greedy", alternative="less")
    with pytest.raises(bl.OptionError, match="must map arms to numbers"):
        est.policy("greedily")
    with pytest.raises(bl.OptionError, match="several questions"):
        answer.test(1)


def test_an_arm_may_be_called_best():
    log = bl.Log(["best", "other"] * 20, np.arange(40.0) % 7, [[0.5, 0.5]] * 40)
    assert [a.name for a in bl.estimate(log).contrasts("best")] == ["other - best"]
    named = bl.Log(["A", "B"] * 20, np.arange(40.0) % 7, [[0.5, 0.5]] * 40)
    table = bl.estimate(named).contrasts("best")
    assert [a.name for a in table] == ["A - best other", "B - best other"]
    assert all(a.low <= 0 <= a.high for a in table)
    assert "simultaneous" in str(table)


def test_the_paper_s_interval_has_a_winner_too():
    est = bl.estimate(log_of([0, 0.3, 0.1]), interval="normal")
    best = est.best()
    low, middle, high = naive.hybrid(
        *sorted(est.values)[:0:-1], float(est.std_errors[best.arm]), 3, 0.95
    )  # fmt: skip
    assert best.hybrid == pytest.approx((low, high), abs=1e-6)
    assert best.median_unbiased == pytest.approx(middle, abs=1e-6)


@pytest.mark.filterwarnings("ignore:All arrived outcomes:belated.BelatedWarning")
@pytest.mark.parametrize("family", ["normal", "binary", "exponential"])
def test_the_winner_of_a_bandit_is_covered(family):
    arm = {"normal": bl.arms.normal(0.0), "binary": bl.arms.bernoulli(0.1), "exponential": bl.arms.exponential(1.0)}
    bandit = bl.Bandit(dict.fromkeys(range(5), arm[family]), bl.delays.pareto(0.75))
    policy, runs, hits = bl.policies.epsilon_greedy(burn_in=0.1), 250, 0
    for r in range(runs):
        best = bl.estimate(bl.simulate(bandit, policy, 1000, 3, r)).best()
        hits += best.low <= arm[family].mean <= best.high
    assert stats.binom.cdf(hits, runs, 0.945) > 1e-4


def test_standard_errors_are_those_of_the_answers():
    for draw in (None, lambda rng, m: (rng.random(len(m)) < 0.5) * 1.0):
        est = bl.estimate(log_of([0, 0.1, 0.4], draw=draw))
        np.testing.assert_allclose(est.std_errors, [a.std_error for a in est.arm_answers])


def test_a_thousand_arms():
    est = bl.estimate(log_of(np.linspace(0, 1, 1000), rows=30_000), "dipw")
    best = est.best()
    assert best.low < best.estimate < best.high
    assert len(best.contenders) > 10
    assert str(best).count("\n") < 40
