from __future__ import annotations

from concurrent.futures import Future, ProcessPoolExecutor

import numpy as np
import pytest

import belated as bl
from belated.simulation import crew
from belated.simulation.crew import run

PAPERS = bl.Bandit(
    {"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)},
    {"A": bl.delays.pareto(0.75).censored(0.5), "B": bl.delays.pareto(1.25)},
)

RATES = bl.Bandit({"A": bl.arms.bernoulli(0.6), "B": bl.arms.bernoulli(0.3)}, bl.delays.geometric(4.0))
GREEDY = bl.policies.epsilon_greedy(burn_in=0.1)


def tables(**options):
    return bl.study(PAPERS, GREEDY, [300, 700], 60, seed=5, **options).moments


def test_a_policy_that_cannot_be_sent_is_named():
    policy = bl.policies.own(lambda count, total, t: [0.5, 0.5])
    with ProcessPoolExecutor(1) as processes:
        processes.submit = pytest.fail  # a pool to which it was sent may never end
        with pytest.raises(bl.OptionError, match="cannot be sent"):
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


class LastTasks(Interrupted):
    """One whose last tasks are running when the user presses Ctrl-C, and end before it is closed."""

    def submit(self, task, *arguments):
        self.tasks += 1
        future = Future()
        if self.tasks == 1:
            future.set_result(task(*arguments))
        else:
            future.set_running_or_notify_cancel()
            future.cancel = lambda: future.set_result(task(*arguments))
        return future


def test_stopped_in_its_last_tasks_it_is_stopped(monkeypatch):
    waits = []

    def wait(futures, **options):
        if waits:
            raise KeyboardInterrupt
        waits.append(len(futures))
        return futures_wait(futures, **options)

    futures_wait = crew.wait
    monkeypatch.setattr(crew, "wait", wait)
    study = bl.study(PAPERS, GREEDY, 300, 60, seed=5, executor=LastTasks())
    assert study.stopped
    assert 0 < len(study.moments[300]) < 60


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


def test_progress_is_one_line_that_goes_away(capsys):
    bl.study(RATES, GREEDY, 50, 10, progress=True)
    shown = capsys.readouterr().err
    assert "100%" in shown
    assert "\n" not in shown
    assert shown.endswith("\r\x1b[K")
    bl.study(RATES, GREEDY, 50, 10)
    assert capsys.readouterr().err == ""


def twice(number):
    return 2 * number


def test_results_come_by_argument():
    assert run(twice, ((i,) for i in range(1000)), 1000, workers=2) == {(i,): 2 * i for i in range(1000)}


def test_what_a_task_raises_is_raised():
    with pytest.raises(TypeError, match="NoneType"):
        run(twice, [(None,)], 1, workers=1)
