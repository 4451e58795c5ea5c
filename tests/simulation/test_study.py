from __future__ import annotations

import signal
import subprocess
import sys
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numba
import numpy as np
import pytest

import belated as bl
from belated.kernels.moments import MOMENTS

PAPERS = bl.Bandit(
    {"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)},
    {"A": bl.delays.pareto(0.75).censored(0.5), "B": bl.delays.pareto(1.25)},
)

RATES = bl.Bandit({"A": bl.arms.bernoulli(0.6), "B": bl.arms.bernoulli(0.3)}, bl.delays.geometric(4.0))
GREEDY = bl.policies.epsilon_greedy(burn_in=0.1)


def tables(**options):
    return bl.study(PAPERS, GREEDY, [300, 700], 60, seed=5, **options).moments


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[h], b[h]) for h in a)


def test_the_numbers_do_not_depend_on_how_it_was_run():
    one = tables(workers=1)
    assert same(one, tables(workers=2))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        assert same(one, tables(executor=processes))


@pytest.mark.filterwarnings("ignore")  # Dask's own
def test_dask_carries_a_study():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert same(tables(workers=1), tables(executor=client.get_executor()))


def test_more_replications_begin_with_the_fewer():
    few, many = (bl.study(RATES, GREEDY, 200, n, seed=6).moments[200] for n in (10, 25))
    np.testing.assert_array_equal(few, many[:10])


def softmax(count, total, t):
    weights = np.exp(total / np.maximum(count, 1.0))
    return weights / weights.sum()


def test_a_policy_of_ones_own_plain_or_compiled():
    plain = bl.study(RATES, bl.policies.own(softmax), 60, 4, seed=7).moments[60]
    fast = bl.study(RATES, bl.policies.own(numba.njit(softmax)), 60, 4, seed=7).moments[60]
    np.testing.assert_allclose(plain, fast, rtol=1e-9, atol=1e-12)


def test_a_policy_that_fails_stops_the_study_with_its_answer():
    policy = bl.policies.own(lambda count, total, t: [0.5, 0.5] if t < 30 else [0.9, 0.9])
    with pytest.raises(bl.PolicyError, match=r"returned \[0.9, 0.9\] at step 30"):
        bl.study(RATES, policy, 60, 4)


def test_any_seed():
    assert bl.study(RATES, GREEDY, 20, 2, seed=10**200).moments[20].shape == (2, 2, len(MOMENTS))
    assert len(bl.simulate(RATES, bl.policies.epsilon_greedy(burn_in=1e300).batched(2**70), 20, 2**500)) == 20


@pytest.mark.parametrize(
    "answer", [None, 0.5, [[0.5, 0.5]], ["0.5", "0.5"], {"A": 1}, [0.5, [0.5]], [1j, 0.5]], ids=str
)
def test_whatever_a_policy_answers_is_shown(answer):
    with pytest.raises(bl.PolicyError, match=r"The policy returned .* at step 3; it must be 2 probabilities"):
        bl.study(RATES, bl.policies.own(lambda count, total, t: [0.5, 0.5] if t < 3 else answer), 20, 2)


def test_a_policy_that_raises_or_does_not_fit_is_named():
    with pytest.raises(bl.PolicyError, match="failed at step 1: ZeroDivisionError"):
        bl.study(RATES, bl.policies.own(lambda count, total, t: 1 / 0), 20, 2)
    with pytest.raises(bl.PolicyError, match="compiled policy has the wrong form"):
        bl.study(RATES, bl.policies.own(numba.njit(lambda count: count)), 20, 2)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_in_a_terminal_shows_what_is_done():
    code = """
import belated as bl, sys
b = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)})
bl.study(b, bl.policies.uniform(), 10, 2)
print("ready", flush=True)
print(bl.study(b, bl.policies.uniform(), 100_000, 200_000, estimators=["dipw"]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout.readline() == "ready\n"
        try:
            run.communicate(timeout=4)
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert "stopped early" in out, err
    assert "%" not in err  # no progress bar in a pipe


def test_memory_is_a_few_columns_of_the_horizon_whatever_the_arms():
    arms = {k: bl.arms.normal(k / 20) for k in range(20)}
    bandit, horizon = bl.Bandit(arms, bl.delays.poisson(100).censored(0.5)), 100_000
    bl.study(bandit, GREEDY, 10, 2)
    tracemalloc.start()
    bl.study(bandit, GREEDY, horizon, 2, workers=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < horizon * 20 * 8 / 1.5  # one matrix of horizon x arms would be more


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"horizons": 0}, "`horizons` is 0"),
        ({"horizons": []}, "at least one"),
        ({"horizons": [10, 10]}, "none twice"),
        ({"horizons": 2**31}, "at most"),
        ({"replications": 1}, "`replications` is 1"),
        ({"estimators": ["daipv"]}, "Did you mean 'daipw'?"),
        ({"estimators": []}, "at least one estimator"),
        ({"intervals": ["tt"]}, "`intervals` is 'tt'"),
        ({"estimators": "daipw"}, "`estimators` is 'daipw'; it must be a list"),
        ({"targets": "AB"}, "`targets` is 'AB'; it must be a list"),
        ({"targets": {"A": 0.5, "B": 0.5}}, "it must be a list"),
        ({"targets": 3}, "it must be a list"),
        ({"targets": [["A"]]}, "it must be an arm, a pair of arms"),
        ({"replications": 10**30}, "at most 10,000,000"),
        ({"horizons": 50.0}, "`horizons` is 50.0"),
        ({"horizons": None}, "`horizons` is None"),
        ({"executor": "threads"}, "must be a concurrent.futures executor"),
        ({"intervals": ["wilson"]}, "needs outcomes that are 0 or 1"),
        ({"targets": ["Z"]}, "'Z'"),
        ({"targets": [("A", "A")]}, "two different arms"),
        ({"targets": [{"A": 0}]}, "must differ from 0"),
        ({"level": 95}, "`level` is 95"),
        ({"workers": 0}, "`workers` is 0"),
        ({"seed": -1}, "`seed` is -1"),
        ({"policy": "greedy"}, "must be a policy"),
        ({"bandit": "bandit"}, "must be a Bandit"),
        ({"bandit": bl.Bandit({"A": bl.arms.student_t(0.9)})}, "does not exist"),
    ],
)
def test_what_cannot_be_studied_is_refused(options, sentence):
    given = {"bandit": PAPERS, "policy": GREEDY, "horizons": 100, "replications": 2} | options
    with pytest.raises(bl.BelatedError) as caught:
        bl.study(**given)
    assert sentence in str(caught.value)
