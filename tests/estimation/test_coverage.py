"""The guarantee itself: default intervals cover, and what is read off them is not wrong more often than it says.

A few cells of the grid of benchmarks/intervals.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from experiments import quietly
from scipy import special, stats

import belated as bl


def rare(share, values):
    """Outcomes that are 0 but for a share, which have the given quantiles."""
    positive = round(share * 20_000)
    quantiles = values((np.arange(positive) + 0.5) / positive)
    return bl.arms.empirical(np.concatenate([quantiles, np.zeros(20_000 - positive)]))


def spent(share):
    """Revenue: 0 for most, lognormal for the rest."""
    return rare(share, lambda u: 50 * np.exp(special.ndtri(u) - 0.5))


def coin():
    return bl.policies.uniform()


def greedy(decay=0.5):
    return bl.policies.epsilon_greedy(decay=decay)


def thompson(sd):
    return bl.policies.thompson_normal(0.02, 0.0, noise_sd=sd, prior_sd=30 * sd).batched(5)


class Cell(NamedTuple):
    arm: object
    policy: object
    rows: int
    arms: int = 2
    delay: object = bl.delays.none()
    runs: int = 1500

    def study(self):
        bandit = bl.Bandit(dict.fromkeys(range(self.arms), self.arm), {0: self.delay.censored(0.3), 1: self.delay})
        weights = dict.fromkeys(range(self.arms), 1 / self.arms)
        return bl.study(bandit, self.policy, self.rows, self.runs, targets=[0, 1, (1, 0), weights], seed=31)


PRICE, COUNTS, SIGNS = rare(0.03, lambda u: u * 0 + 9.99), rare(0.095, lambda u: 1.0 + (u > 0.95)), [-1.0] * 19 + [1.0]

CELLS = {
    "revenue .03, coin": Cell(spent(0.03), coin(), 300),
    "revenue .03, greedy": Cell(spent(0.03), greedy(), 1000, delay=bl.delays.geometric(5)),
    "revenue .1, Thompson": Cell(spent(0.1), thompson(spent(0.1).sd), 1000, 5, runs=600),
    "price": Cell(PRICE, coin(), 300),
    "-1/1": Cell(bl.arms.empirical(SIGNS), greedy(), 300),
    "counts": Cell(COUNTS, greedy(0.7), 300, delay=bl.delays.pareto(1.0)),
    "lognormal": Cell(bl.arms.lognormal(), thompson(2.2), 300, 5, runs=600),
    "exponential": Cell(bl.arms.exponential(), greedy(0.7), 300),
    "normal": Cell(bl.arms.normal(), greedy(0.7), 400, 5, delay=bl.delays.pareto(1.0)),
    "normal, 20 sd from 0": Cell(bl.arms.normal(20.0), greedy(), 400),
    "0/1, .05": Cell(bl.arms.bernoulli(0.05), greedy(), 400, 5),
    "0/1, .01, 34 arms": Cell(bl.arms.bernoulli(0.01), coin(), 4000, 34, runs=600),
    "revenue .03, 34 arms": Cell(spent(0.03), coin(), 4000, 34, runs=600),
}


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_default_intervals_cover(cell):
    study = cell.study()
    for target in study.targets:
        result = study.cell("daipw", target, "auto")
        assert result.interval == "score"
        assert result.replications > 0.8 * cell.runs
        # at least 94 %: refuted only if so few hits would be a one in ten thousand accident
        hits = round(result.coverage * result.replications)
        assert stats.binom.cdf(hits, result.replications, 0.94) > 1e-4, (target.name, result.coverage)


def test_other_intervals_fall_short():
    revenue, normal = CELLS["revenue .03, coin"].study(), CELLS["normal"].study()
    assert revenue.coverage("daipw", 1, "t") < 0.85
    assert normal.coverage("daipw", (1, 0), "normal") < 0.9


def test_where_outcomes_lie_does_not_matter():
    late = bl.delays.geometric(20)
    policies = bl.policies.fixed({"A": 0.3, "B": 0.7}), greedy()
    for policy, tolerance in zip(policies, (1e-9, 0.1), strict=True):  # greedy itself takes 0 for what it has not seen
        near, far = (
            bl.study(bl.Bandit(dict.fromkeys("AB", bl.arms.normal(mean)), late), policy, 400, 1000).cell(
                "daipw", ("B", "A"), "auto"
            )
            for mean in (0.0, 20.0)
        )
        assert far.rmse == pytest.approx(near.rmse, rel=tolerance)
        assert np.median(far.high - far.low) == pytest.approx(np.median(near.high - near.low), rel=tolerance)


@pytest.mark.parametrize(("arms", "share", "policy"), [(2, 0.05, coin()), (4, 0.1, greedy())], ids=["2", "4"])
def test_contenders_hold_the_best_arm_and_contrasts_of_equal_arms_hold_0(arms, share, policy):
    runs, bandit = 80, bl.Bandit(dict.fromkeys(range(arms), spent(share)), bl.delays.geometric(3).censored(0.1))
    left_out = contrasts = misses = 0
    for r in range(runs):
        estimate = quietly(bl.estimate, bl.simulate(bandit, policy, 500, 77, replication=r))
        best = estimate.best()
        left_out += 0 not in best.contenders
        contrasts += any(a.p_value < 0.05 for a in estimate.contrasts(baseline=0, simultaneous=True).answers)
        misses += not best.interval[0] <= bandit.arms[0].mean <= best.interval[1]
    for wrong in (left_out, contrasts, misses):
        assert stats.binom.sf(wrong - 1, runs, 0.05) > 1e-3


def test_an_arm_of_zeros_is_not_known_to_be_worthless():
    arm = spent(0.03)
    study = bl.study(bl.Bandit({"A": arm, "B": arm}), coin(), 200, 2000, targets=["A"], seed=5)
    cell = study.cell("daipw", "A", "auto")
    zeros = study.statistics("daipw").constant[:, 0]
    assert 50 < zeros.sum() < 200
    has = zeros & ~np.isnan(cell.low)  # but for logs of nothing but zeros
    assert has.sum() > 0.9 * zeros.sum()
    assert (cell.low[has] <= 1e-12).all()
    assert (cell.high[has] > arm.mean / 10).all()
