from __future__ import annotations

import itertools
import math
import signal
import subprocess
import sys
import tracemalloc
import warnings
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import fields
from multiprocessing import get_context

import numba
import numpy as np
import pytest
from scipy import stats

import belated as bl
from belated.estimation.intervals import combine

PAPERS = bl.Bandit(
    {"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)},
    {"A": bl.delays.pareto(0.75).censored(0.5), "B": bl.delays.pareto(1.25)},
)
THREE = bl.Bandit(
    {"A": bl.arms.gamma(0.5, 2.0), "B": bl.arms.student_t(6, 3.0), "C": bl.arms.empirical([1.0, 2.0, 7.0])},
    {"A": bl.delays.lognormal(1.0, 1.0), "B": bl.delays.poisson(5).censored(0.3)},
)
RATES = bl.Bandit({"A": bl.arms.bernoulli(0.6), "B": bl.arms.bernoulli(0.3)}, bl.delays.geometric(4.0))
GREEDY = bl.policies.epsilon_greedy(burn_in=0.1)


@pytest.mark.parametrize(
    ("bandit", "policy"),
    [
        (PAPERS, GREEDY),
        (bl.Bandit(PAPERS.arms, {"A": bl.delays.none().censored(0.5)}), GREEDY),
        (THREE, bl.policies.ucb(0.5, 0.3)),
        (THREE, bl.policies.thompson_normal(0.6, 0.3, noise_sd=2.0).batched(7)),
        (THREE, GREEDY),
        (RATES, bl.policies.thompson_beta(0.5, 0.2)),
        (RATES, bl.policies.fixed({"A": 0.2, "B": 0.8})),
    ],
    ids=["pareto", "at once", "ucb", "thompson", "greedy", "beta", "fixed"],
)
def test_a_studys_replications_are_the_logs_that_simulate_makes(bandit, policy):
    horizon = 1500
    study = bl.study(bandit, policy, horizon, 4, seed=9)
    for r, name in itertools.product((0, 3), bl.ESTIMATORS):
        log = bl.simulate(bandit, policy, horizon, 9, replication=r)
        ours, theirs = study.statistics(name), bl.estimate(log, name, interval="normal").statistics
        for part in (f.name for f in fields(theirs) if f.name != "constant"):
            expected, found = getattr(theirs, part), getattr(ours, part)
            if expected is not None:
                np.testing.assert_allclose(found[r], expected, rtol=1e-9, atol=1e-12, err_msg=f"{name} {part}")


def test_the_table_says_what_the_replications_say():
    study = bl.study(PAPERS, GREEDY, [200, 400], 300, seed=1, targets=["A", ("A", "B"), {"A": 0.5, "B": 0.5}])
    cell = study.cell("daipw", ("A", "B"), "auto", 400)
    answers = [bl.estimate(bl.simulate(PAPERS, GREEDY, 400, 1, r)).contrast("A", "B") for r in range(300)]
    errors = np.array([a.estimate for a in answers]) - 0.5
    covered = np.mean([a.low <= 0.5 <= a.high for a in answers])
    assert cell.bias == pytest.approx(errors.mean())
    assert cell.abs_error == pytest.approx(np.abs(errors).mean())
    assert cell.sd == pytest.approx(errors.std(ddof=1))
    assert cell.rmse == pytest.approx(math.sqrt((errors**2).mean()))
    assert cell.mean_se == pytest.approx(np.mean([a.std_error for a in answers]))
    assert cell.length == pytest.approx(np.mean([a.high - a.low for a in answers]))
    assert cell.coverage == pytest.approx(covered)
    low, high = stats.binomtest(round(covered * 300), 300).proportion_ci(method="wilson")
    assert (cell.coverage_low, cell.coverage_high) == pytest.approx((low, high))
    np.testing.assert_allclose(cell.studentised, [(a.estimate - 0.5) / a.std_error for a in answers], rtol=1e-8)
    assert len(study.cells) == 2 * 3 * 7 * 2
    rows = list(zip(*(study.to_dict()[n] for n in ("horizon", "target", "estimator", "interval", "bias")), strict=True))
    assert (400, "A - B", "daipw", "auto", cell.bias) in rows
    assert "A - B" in study.to_text(every=True)


def test_coverage_keeps_its_promise():
    cell = bl.study(PAPERS, GREEDY, 2000, 2000, seed=3).cell("daipw", ("A", "B"))
    assert stats.binomtest(round(cell.coverage * 2000), 2000, 0.95).pvalue > 0.001


def test_what_the_policy_did():
    study = bl.study(PAPERS, GREEDY, 500, 50, seed=4)
    logs = [bl.simulate(PAPERS, GREEDY, 500, 4, r) for r in range(50)]
    table = study.policy_table.to_dict()
    assert table["regret"] == pytest.approx([np.mean([0.5 * (log.code == 1).sum() for log in logs])])
    assert table["chosen A"] == pytest.approx([np.mean([(log.code == 0).mean() for log in logs])])
    came = sum((log.arrived & (log.code == 0)).sum() for log in logs) / sum((log.code == 0).sum() for log in logs)
    assert table["observed A"] == pytest.approx([came])
    assert table["cpu_seconds"][0] > 0


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
    with pytest.raises(bl.PolicyError, match=r"answered \[0.9, 0.9\] at step 30"):
        bl.study(RATES, policy, 60, 4)


def test_a_study_can_be_seen_otherwise_without_running_again():
    study = bl.study(PAPERS, GREEDY, 300, 50, level=0.95)
    wide = study.viewed(level=0.99, estimators=["dipw"], targets=[("B", "A")], intervals=["normal"])
    assert wide.moments is study.moments
    combination = combine(study.statistics("dipw"), np.array([-1.0, 1.0]), "normal")
    low, high = combination.limits(0.005)
    assert wide.cell("dipw", ("B", "A")).length == pytest.approx((high - low).mean())
    assert len(wide.cells) == 1


def test_wilson_where_outcomes_are_rates():
    study = bl.study(RATES, GREEDY, 300, 50)
    assert study.cell("daipw", "A", "auto").interval == "wilson"
    assert study.cell("nh", "A", "auto").interval == "t"
    assert bl.study(PAPERS, GREEDY, 300, 5).cell("daipw", "A", "auto").interval == "auto"


def test_replications_without_an_interval_are_counted():
    bandit = bl.Bandit({"A": bl.arms.normal(), "B": bl.arms.normal()}, {"B": bl.delays.none().censored(0.9)})
    study = bl.study(bandit, bl.policies.uniform(), 12, 200, seed=8)
    cell = study.cell("dipw", "B")
    assert 0 < cell.missing < 200
    assert cell.missing + cell.replications == 200
    assert "missing" in study.to_dict()
    assert "left out" in str(study)


@pytest.mark.parametrize(
    "labels", [("A", "B"), (1, 2), (True, 0.5), ("x y", "<b>")], ids=["text", "whole", "odd", "hostile"]
)
def test_saved_and_loaded_it_is_the_same(tmp_path, labels):
    bandit = bl.Bandit(dict(zip(labels, PAPERS.arms.values(), strict=True)), bl.delays.poisson(3).censored(0.1))
    study = bl.study(bandit, bl.policies.thompson_normal(decay=0.3).batched(5), [50, 80], 20, intervals=["normal", "t"])
    study.save(tmp_path / "a.study")
    again = bl.Study.load(tmp_path / "a.study")
    assert same(study.moments, again.moments)
    assert str(again) == str(study)
    assert again.arms == labels
    assert (again.bandit, again.policy) == (study.bandit, study.policy)
    assert [p.name for p in tmp_path.iterdir()] == ["a.study"]


def test_what_is_not_a_study_is_refused(tmp_path):
    path = tmp_path / "not.study"
    for content in (b"", b"not", b"PK\x03\x04 broken"):
        path.write_bytes(content)
        with pytest.raises(bl.OptionError, match="is not a study"):
            bl.Study.load(path)
    np.savez(path.with_suffix(".npz"), about=np.array([{"a": 1}], dtype=object))  # needs unpickling
    with pytest.raises(bl.OptionError, match="is not a study"):
        bl.Study.load(path.with_suffix(".npz"))
    with pytest.raises(FileNotFoundError):
        bl.Study.load(tmp_path / "nowhere")


def test_arms_that_always_give_the_same_are_seen_to():
    bandit = bl.Bandit({"A": bl.arms.bernoulli(0.01), "B": bl.arms.bernoulli(0.5)})
    study = bl.study(bandit, bl.policies.uniform(), 100, 40)
    for name in ("daipw", "mean", "hajek"):
        cell = study.cell(name, "A", "auto")
        logs = [bl.simulate(bandit, bl.policies.uniform(), 100, 0, r) for r in range(40)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.BelatedWarning)
            answers = [bl.estimate(log, name).arm("A") for log in logs]
        np.testing.assert_allclose(cell.high, [a.high for a in answers], rtol=1e-9)
        assert any(a.estimate == 0 for a in answers)


@pytest.mark.parametrize("labels", [(np.int64(3), np.int64(4)), (("a", 1), ("b", 2)), (None, "x")], ids=str)
def test_labels_of_any_kind(labels):
    study = bl.study(bl.Bandit(dict.fromkeys(labels, bl.arms.normal())), bl.policies.uniform(), 50, 5)
    assert [t.name for t in study.targets] == [str(labels[0]), str(labels[1]), f"{labels[1]} - {labels[0]}"]
    assert study.cell("dipw", (labels[1], labels[0])).replications == 5


def test_any_seed():
    assert bl.study(RATES, GREEDY, 20, 2, seed=10**200).moments[20].shape == (2, 2, 33)
    assert len(bl.simulate(RATES, bl.policies.epsilon_greedy(burn_in=1e300).batched(2**70), 20, 2**500)) == 20


@pytest.mark.parametrize(
    "answer", [None, 0.5, [[0.5, 0.5]], ["0.5", "0.5"], {"A": 1}, [0.5, [0.5]], [1j, 0.5]], ids=str
)
def test_whatever_a_policy_answers_is_shown(answer):
    with pytest.raises(bl.PolicyError, match=r"The policy answered .* at step 3; it must be 2 probabilities"):
        bl.study(RATES, bl.policies.own(lambda count, total, t: [0.5, 0.5] if t < 3 else answer), 20, 2)


def test_a_policy_that_raises_or_does_not_fit_is_named():
    with pytest.raises(bl.PolicyError, match="failed at step 1: ZeroDivisionError"):
        bl.study(RATES, bl.policies.own(lambda count, total, t: 1 / 0), 20, 2)
    with pytest.raises(bl.PolicyError, match="compiled policy does not fit"):
        bl.study(RATES, bl.policies.own(numba.njit(lambda count: count)), 20, 2)


def test_a_policy_that_cannot_be_sent_is_named():
    policy = bl.policies.own(lambda count, total, t: [0.5, 0.5])
    with ProcessPoolExecutor(1) as processes, pytest.raises(bl.OptionError, match="cannot be sent"):
        bl.study(RATES, policy, 20, 2, executor=processes)


class Interrupted:
    """An executor at whose third task the user presses Ctrl-C."""

    def __init__(self):
        self.tasks = 0

    def submit(self, task, *arguments):
        self.tasks += 1
        if self.tasks > 3:
            raise KeyboardInterrupt
        future = Future()
        future.set_result(task(*arguments))
        return future


class Killed(Interrupted):
    """One whose second task dies of the same Ctrl-C."""

    def submit(self, task, *arguments):
        self.tasks += 1
        future = Future()
        if self.tasks == 2:
            future.set_exception(KeyboardInterrupt())
        else:
            future.set_result(task(*arguments))
        return future


def test_stopped_it_has_no_gaps():
    study = bl.study(PAPERS, GREEDY, 300, 60, seed=5, executor=Killed())
    assert 0 < len(study.moments[300]) < 60
    np.testing.assert_array_equal(study.moments[300], tables(workers=1)[300][: len(study.moments[300])])
    assert study.stopped


def test_stopped_it_keeps_what_is_done():
    study = bl.study(PAPERS, GREEDY, [300, 700], 60, seed=5, executor=Interrupted())
    whole = tables(workers=1)
    for horizon, moments in study.moments.items():
        assert 0 < len(moments) < 60
        np.testing.assert_array_equal(moments, whole[horizon][: len(moments)])
    assert "stopped early" in str(study)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_in_a_terminal_shows_what_is_done():
    code = """
import belated as bl, sys
b = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)})
bl.study(b, bl.policies.uniform(), 10, 2)
print("ready", flush=True)
print(bl.study(b, bl.policies.uniform(), 1_000_000, 100_000, estimators=["dipw"]))
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
    bandit, horizon = bl.Bandit(arms, bl.delays.poisson(100).censored(0.5)), 300_000
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
        ({"targets": [["A"]]}, "a target is an arm, a pair of arms"),
        ({"replications": 10**30}, "at most 10,000,000"),
        ({"horizons": 50.0}, "`horizons` is 50.0"),
        ({"horizons": None}, "`horizons` is None"),
        ({"executor": "threads"}, "must be a concurrent.futures executor"),
        ({"intervals": ["wilson"]}, "needs outcomes that are 0 or 1"),
        ({"targets": ["Z"]}, "'Z'"),
        ({"targets": [("A", "A")]}, "two different arms"),
        ({"targets": [{"A": 0}]}, "all 0"),
        ({"level": 95}, "`level` is 95"),
        ({"workers": 0}, "`workers` is 0"),
        ({"seed": -1}, "`seed` is -1"),
        ({"policy": "greedy"}, "must be a policy"),
        ({"bandit": "bandit"}, "must be a Bandit"),
        ({"bandit": bl.Bandit({"A": bl.arms.student_t(0.9)})}, "has no mean"),
    ],
)
def test_what_cannot_be_studied_is_refused(options, sentence):
    given = {"bandit": PAPERS, "policy": GREEDY, "horizons": 100, "replications": 2} | options
    with pytest.raises(bl.BelatedError) as caught:
        bl.study(**given)
    assert sentence in str(caught.value)


def test_a_users_function_is_not_kept_in_the_cache_where_another_process_could_not_read_it():
    kernel = pytest.importorskip("belated.kernels.bandit")
    for function in kernel.for_own_policy(plain=False):
        assert type(function._cache).__name__ == "NullCache"
    for function in (kernel.play, kernel.replicate):
        assert function.py_func.__closure__ is None  # closures have keys of their own in every process


def test_progress_is_one_line_that_goes_away(capsys):
    bl.study(RATES, GREEDY, 50, 10, progress=True)
    shown = capsys.readouterr().err
    assert "100%" in shown
    assert "\n" not in shown
    assert shown.endswith("\r\x1b[K")
    bl.study(RATES, GREEDY, 50, 10)
    assert capsys.readouterr().err == ""
