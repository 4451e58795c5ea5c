from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from naive.planning import share_within
from scipy import stats

import belated as bl
from belated.simulation.delays import _LAWS, DelayName


def always(arm, delay=None, seed=0, steps=40_000):
    bandit = bl.Bandit({"x": arm}, delay or bl.delays.none())
    return bl.simulate(bandit, bl.policies.uniform(), steps, seed)


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
    arrived = np.isfinite(late)
    assert arrived.mean() == pytest.approx(0.75, abs=0.01)
    assert late[arrived].mean() == pytest.approx(twin.mean(), abs=5 * twin.std() / math.sqrt(arrived.sum()) + 1e-9)
    for q in (0.2, 0.5, 0.8):
        below, at_most = (late[arrived] < twin.ppf(q)).mean(), (late[arrived] <= twin.ppf(q)).mean()
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


@pytest.mark.parametrize(
    "delay",
    [
        bl.delays.none(), bl.delays.constant(7), bl.delays.poisson(4.5), bl.delays.geometric(20),
        bl.delays.geometric(5000), bl.delays.pareto(0.75, 2.0), bl.delays.pareto(0.3), bl.delays.lognormal(2.0, 1.5),
        bl.delays.empirical([1, 1, 5, 9, math.inf]), bl.delays.pareto(1.0).censored(0.5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 0.99])
def test_quantiles_of_delays_are_the_first_within_which_so_many_come(delay, share):
    steps = delay.quantile(share)
    assert share_within(delay, steps) >= share - 1e-9
    assert share_within(delay, steps - 1) < share + 1e-9


def test_delays_that_end_are_all_known_and_others_never():
    assert bl.delays.constant(7).quantile(1.0) == 7
    assert bl.delays.empirical([1, 9, math.inf]).quantile(1.0) == 9
    assert bl.delays.pareto(0.5).quantile(1.0) == math.inf
    assert bl.delays.pareto(0.001).quantile(0.99) == math.inf


@pytest.mark.parametrize(
    "delay",
    [
        bl.delays.none(),
        bl.delays.constant(7),
        bl.delays.geometric(9.0),
        bl.delays.geometric(0.0),
        bl.delays.poisson(4.0),
        bl.delays.empirical([0, 3, 3, 9]),
        bl.delays.pareto(0.8, 3.0),
        bl.delays.lognormal(2.0, 1.0),
    ],
    ids=lambda delay: delay.name,
)
def test_the_share_within_some_steps_is_that_of_the_definition(delay):
    for steps in (0, 1, 6, 7, 8.5, 3000):
        expected = 0.7 * share_within(delay, math.floor(steps))
        assert delay.censored(0.3).share_within(steps) == pytest.approx(expected, abs=1e-12)


def test_every_kind_of_delay_has_its_law():
    assert set(_LAWS) == set(get_args(DelayName))
