"""Lift: the contrast inverted, and therefore never at odds with it."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy import stats

import belated as bl
from belated.estimation.intervals import combine
from belated.estimation.lift import _crossing

EXPONENTIAL = bl.Bandit({"A": bl.arms.exponential(2.0), "B": bl.arms.exponential(2.5)}, bl.delays.geometric(5))


def coin_log(outcome, code=None, arms=2):
    """Return a log without delays, its arms chosen by a fair coin."""
    rows = len(outcome)
    code = np.arange(rows) % arms if code is None else code
    return bl.Log(code, outcome, np.full((rows, arms), 1 / arms), arms=range(arms))


def quietly(log, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.BelatedWarning)
        return bl.estimate(log, **options)


@pytest.fixture(scope="module")
def log():
    return bl.simulate(EXPONENTIAL, bl.policies.epsilon_greedy(decay=0.3), 600, seed=3)


@pytest.mark.parametrize("interval", ["auto", "t", "normal"])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_at_its_limits_the_combination_meets_0(log, interval, level):
    est = bl.estimate(log, interval=interval, level=level)
    lift = est.lift("B", "A")
    assert lift.low < lift.estimate < lift.high
    at_low, at_high = (est.linear({"B": 1.0, "A": -(1 + x)}) for x in (lift.low, lift.high))
    assert at_low.low == pytest.approx(0, abs=1e-9)
    assert at_high.high == pytest.approx(0, abs=1e-9)


def test_the_papers_interval_gives_fiellers(log):
    est = bl.estimate(log, interval="normal")
    (a, b), (v, w) = est.values, est.variances
    z2 = stats.norm.ppf(0.975) ** 2
    # Fieller (1954): the roots r of (b - r a)^2 = z^2 (w + r^2 v)
    roots = np.sort(np.roots([a**2 - z2 * v, -2 * a * b, b**2 - z2 * w]))
    lift = est.lift("B", "A")
    assert (lift.low, lift.high) == pytest.approx(tuple(roots - 1), rel=1e-9)
    assert lift.estimate == pytest.approx(b / a - 1)


@pytest.mark.parametrize("outcomes", ["binary", "normal", "revenue", "negative"])
def test_it_leaves_out_0_exactly_when_the_contrast_does(outcomes):
    rng = np.random.default_rng(7)
    decided = bounded = 0
    for rows in (4, 6, 10, 20, 40, 100, 300) * 4:
        y = {
            "binary": rng.binomial(1, [0.3, 0.6], (rows // 2, 2)),
            "normal": rng.normal([2.0, 2.6], 1.0, (rows // 2, 2)),
            "revenue": rng.lognormal([1.0, 2.6], 1.0, (rows // 2, 2)) * rng.binomial(1, 0.5, (rows // 2, 2)),
            "negative": rng.normal([-2.0, -1.4], 1.0, (rows // 2, 2)),
        }[outcomes]
        est = quietly(coin_log(y.ravel().astype(float)))
        for alternative in ("two-sided", "greater", "less"):
            contrast, lift = est.contrast(1, 0, alternative=alternative), est.lift(1, 0, alternative=alternative)
            assert lift.p_value == contrast.p_value or math.isnan(contrast.p_value)
            assert (lift.why is None) == (not math.isnan(lift.low))
            if lift.why is None:
                bounded += 1
                decided += not contrast.low <= 0 <= contrast.high
                assert (lift.low <= 0) == (contrast.low <= 0)
                assert (lift.high >= 0) == (contrast.high >= 0)
    assert 3 < decided < bounded


def test_units_and_names_change_nothing_and_a_shift_does():
    y = np.random.default_rng(8).exponential([2.0, 2.5], (150, 2)).ravel()
    lift, scaled, shifted = (bl.estimate(coin_log(values)).lift(1, 0) for values in (y, 3e6 * y, y + 2))
    swapped = bl.estimate(coin_log(y, code=1 - np.arange(300) % 2)).lift(0, 1)
    for other in (scaled, swapped):
        assert (other.estimate, other.low, other.high, other.p_value) == pytest.approx(
            (lift.estimate, lift.low, lift.high, lift.p_value), rel=1e-8
        )
    assert shifted.estimate < 0.7 * lift.estimate


def test_of_a_baseline_below_0_the_sign_is_still_that_of_the_difference():
    rng = np.random.default_rng(1)
    y = rng.normal([5.0, 6.0], 1.0, (200, 2)).ravel()
    above, below = bl.estimate(coin_log(y)).lift(1, 0), bl.estimate(coin_log(-y)).lift(1, 0)
    assert below.estimate == pytest.approx(-above.estimate)
    assert (below.low, below.high) == pytest.approx((-above.high, -above.low), rel=1e-8)
    greater = bl.estimate(coin_log(-y)).lift(1, 0, alternative="less")
    assert greater.p_value < 1e-4
    assert greater.low == -math.inf
    assert greater.high < 0


def test_a_baseline_that_may_be_0_has_no_lift():
    y = np.random.default_rng(2).normal([0.0, 3.0], 1.0, (50, 2)).ravel()
    est = bl.estimate(coin_log(y))
    lift, contrast = est.lift(1, 0), est.contrast(1, 0)
    assert lift.why == "The mean of '0' does not differ significantly from 0, so the relative difference has no bounds."
    assert np.isnan([lift.low, lift.high]).all()
    assert math.isfinite(lift.estimate)
    assert lift.p_value == contrast.p_value < 1e-4
    assert lift.why in str(lift)
    assert lift.words.endswith("(no bounds)")
    assert math.isfinite(est.lift(0, 1).low)


def test_an_arm_without_an_interval_has_no_lift():
    est = quietly(coin_log(np.array([1.0, 2.0, 3.0, 4.0]), code=[0, 0, 0, 1]), estimator="mean")
    lift = est.lift(1, 0)
    assert lift.estimate == pytest.approx(1.0)
    assert math.isnan(lift.low)
    assert lift.why == "The difference has no interval, so the relative difference has no bounds."
    assert math.isnan(quietly(coin_log(np.array([0.0, 1.0, 0.0, 2.0]))).lift(1, 0).estimate)


def test_a_mean_of_0_is_a_lift_of_minus_1():
    y = np.random.default_rng(5).normal([5.0, 0.0], 1.0, (100, 2))
    y[:, 1] -= y[:, 1].mean()
    est = bl.estimate(coin_log(y.ravel()), "mean")
    lift = est.lift(1, 0)
    assert lift.estimate == pytest.approx(-1.0)
    assert lift.low < -1 < lift.high < 0
    statistics = est.statistics
    low, high = (
        combine(statistics, np.array([-(1 + x), 1.0]), est.interval).limits(0.025) for x in (lift.low, lift.high)
    )
    assert low[0] == pytest.approx(0, abs=1e-9)
    assert high[1] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("interval", ["auto", "wilson"])
def test_an_arm_of_zeros_is_shown_as_minus_100_percent(interval):
    log = bl.Log(["A"] * 6 + ["B"] * 6, [1, 0, 1, 1, 0, 1] + [0] * 6, np.full((12, 2), 0.5))
    with pytest.warns(bl.BelatedWarning, match="equal"):
        est = bl.estimate(log, interval=interval)
    for alternative in ("two-sided", "greater"):
        lift = est.lift("B", "A", alternative=alternative)
        assert (lift.estimate, lift.low) == (-1, -1)
        assert lift.words.startswith("-100% (-100% to ")


def test_a_lift_far_below_a_billionth_has_limits_of_its_own():
    y = np.random.default_rng(5).normal(0.0, 1.0, (100, 2)).ravel()
    est = bl.estimate(coin_log(y + 1e9))
    contrast, lift = est.contrast(1, 0), est.lift(1, 0)
    assert contrast.low < 0 < contrast.high
    assert (lift.low * 1e9, lift.high * 1e9) == pytest.approx((contrast.low, contrast.high), rel=1e-5)


def test_limits_that_are_infinite_unknown_or_out_of_reach():
    assert _crossing(lambda x: math.inf, 0.1) == math.inf
    assert _crossing(lambda x: -math.inf, 0.1) == -math.inf
    assert math.isnan(_crossing(lambda x: math.nan, 0.1))
    assert math.isnan(_crossing(lambda x: 1.0 + 1.0 / (2.0 + abs(x)), 0.1))
    assert math.isnan(_crossing(lambda x: 1.0 if x < 3 else math.nan, 0.1))
    assert _crossing(lambda x: 0.0, 0.1) == 0
    assert _crossing(lambda x: math.inf if x < 0.3 else -math.inf, 0.1) == pytest.approx(0.3, rel=1e-6)
    assert _crossing(lambda x: 4e8 - x**3, 0.1) == pytest.approx(4e8 ** (1 / 3))


def test_lifts_that_hold_together_are_wider_and_agree_with_their_contrasts():
    y = np.random.default_rng(4).normal([5.0, 5.3, 5.6], 1.0, (100, 3)).ravel()
    est = bl.estimate(coin_log(y, arms=3))
    for baseline in (None, 1):
        apart = est.contrasts(baseline, lift=True)
        joint = est.contrasts(baseline, lift=True, simultaneous=True)
        for one, wider in zip(apart.answers, joint.answers, strict=True):
            assert wider.lift.low < one.lift.low < one.lift.high < wider.lift.high
            assert (wider.lift.low > 0) == (wider.low > 0)
            assert (wider.lift.p_value, wider.lift.joint) == (wider.p_value, True)
    assert apart[0].lift == est.lift(0, 1)
    assert list(apart.to_dict())[-3:] == ["lift", "lift_low", "lift_high"]
    with pytest.raises(bl.OptionError, match="needs a baseline that is an arm"):
        est.contrasts("best", lift=True)


@pytest.mark.parametrize(
    ("estimate", "low", "high", "words"),
    [
        (0.123, 0.03, 0.22, "+12% (3% to 22%)"),
        (0.123, 0.0031, 0.22, "+12.3% (0.3% to 22.0%)"),
        (-0.5, -0.9, 0.25, "-50% (-90% to 25%)"),
        (12.3, 8.0, 20.0, "+1,230% (800% to 2,000%)"),
        (0.1, 0.02, math.inf, "+10% (2% to ∞)"),
        (0.00123, 0.00112, 0.00134, "+0.123% (0.112% to 0.134%)"),
        (2.0, math.nan, math.nan, "+200% (no bounds)"),
    ],
)
def test_words(log, estimate, low, high, words):
    lift = bl.estimate(log).lift("B", "A")
    assert type(lift)(**{**vars(lift), "estimate": estimate, "low": low, "high": high}).words == words


def test_a_table_has_the_digits_of_the_words(log):
    lift = bl.estimate(log).lift("B", "A")
    assert math.isfinite(lift.high)
    assert all(cell in lift.words for cell in lift.to_text().splitlines()[2].split()[:3])


@pytest.mark.parametrize(
    ("kind", "base", "other", "rows"),
    [
        (bl.arms.bernoulli, 0.3, 0.36, 400),
        (bl.arms.exponential, 1.0, 1.2, 300),
        (bl.arms.normal, -5.0, -4.0, 200),
    ],
)
def test_it_covers(kind, base, other, rows):
    bandit = bl.Bandit({"A": kind(base), "B": kind(other)}, bl.delays.geometric(10).censored(0.1))
    policy, runs, hits = bl.policies.epsilon_greedy(decay=0.3, burn_in=0.1), 140, 0
    for seed in range(runs):
        lift = quietly(bl.simulate(bandit, policy, rows, seed)).lift("B", "A")
        hits += not (lift.high < (other - base) / abs(base) or lift.low > (other - base) / abs(base))
    # refuted only if so few would be a one in ten thousand accident; a lift that is always told is no lift at all
    assert stats.binom.cdf(hits, runs, 0.94) > 1e-4
    assert hits < runs
