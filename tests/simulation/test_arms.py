from __future__ import annotations

import math

import pytest
from scipy import stats

import belated as bl


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


def test_events_have_the_moments_of_all_that_ever_happens():
    arm = bl.arms.events(0.2, bl.arms.exponential(3.0), repeats=1.0)
    assert arm.mean == pytest.approx(0.2 * 2 * 3.0)
    assert arm.sd**2 == pytest.approx(0.2 * (2 * 18.0 + 4 * 9.0) - arm.mean**2)
    assert not arm.binary
    assert repr(bl.arms.events(0.2)) == "events(rate=0.2, repeats=0.0)"
    assert repr(arm) == "events(rate=0.2, value=exponential(mean=3.0), repeats=1.0)"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((1.5,), "`rate` is 1.5; it must"),
        ((0.1, None, -1), "`repeats` is -1; it must not be negative."),
        ((0.1, 3.0), "`value` is 3.0; it must be a distribution, such as arms.lognormal(3, 1)."),
        ((0.1, bl.arms.events(0.1)), "it must be a distribution, such as arms.lognormal(3, 1)."),
    ],
)
def test_what_are_no_events_is_refused(options, sentence):
    with pytest.raises(bl.OptionError) as caught:
        bl.arms.events(*options)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(("degrees", "scale"), [(0.2, 1.0), (0.001, 1.0), (0.5, 1e40)])
def test_outcomes_too_large_for_numbers_are_refused(degrees, scale):
    with pytest.raises(bl.OptionError, match=r"^`degrees` is .* and `scale` .* can be beyond 1e\+60"):
        bl.arms.student_t(degrees, scale=scale)
    assert math.isnan(bl.arms.student_t(0.5).mean)
