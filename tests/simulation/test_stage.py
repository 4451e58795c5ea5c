from __future__ import annotations

import math

import naive
import numba
import numpy as np
import pytest
from naive.planning import half_widths

import belated as bl

TWO = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5, 2.0)})


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


DELAYED = bl.Bandit(
    {"A": bl.arms.normal(0.2), "B": bl.arms.normal(0.1), "C": bl.arms.normal(0.0)},
    {"A": bl.delays.poisson(5).censored(0.3), "B": bl.delays.geometric(3.0)},
)


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


N = bl.arms.normal
LATE = bl.Bandit({"A": N(0), "B": N(0.5)}, {"A": bl.delays.pareto(0.5).censored(0.2), "B": bl.delays.geometric(50)})
UNIFORM, GREEDY = bl.policies.uniform(), bl.policies.epsilon_greedy()
THOMPSON = bl.policies.thompson_normal(0.2, 0.5).batched(10)


@pytest.mark.parametrize("policy", [GREEDY, THOMPSON])
@pytest.mark.parametrize("wait", [0, 7, 200, math.inf])
def test_a_run_looked_at_later_is_its_log_looked_at_later(policy, wait):
    ran = bl.study(LATE, policy, 300, 8, wait=wait, intervals=["t"])
    cell = ran.cell("daipw", ("B", "A"))
    widths, _ = half_widths(LATE, policy, ("B", "A"), 300, wait, 8, 0, "t")
    np.testing.assert_allclose((cell.high - cell.low) / 2, widths, rtol=1e-9)


def test_a_wait_changes_what_has_arrived_and_nothing_else():
    now, later = (bl.study(LATE, GREEDY, 300, 5, wait=w).moments[300] for w in (0, 50))
    np.testing.assert_array_equal(now[:, :, 0], later[:, :, 0])
    assert (later[:, :, 1] >= now[:, :, 1]).all()
    assert (later[:, :, 1] > now[:, :, 1]).any()


def test_a_study_says_and_keeps_how_long_it_waited(tmp_path):
    for wait, words in ((5, "waiting for 5 steps"), (math.inf, "waiting for every outcome")):
        ran = bl.study(LATE, GREEDY, 50, 3, wait=wait)
        assert words in repr(ran)
        ran.save(tmp_path / "study")
        assert bl.Study.load(tmp_path / "study").wait == wait
    with pytest.raises(bl.OptionError, match="`wait` is -1"):
        bl.study(LATE, GREEDY, 50, 3, wait=-1)
