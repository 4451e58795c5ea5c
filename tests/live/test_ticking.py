from __future__ import annotations

import itertools
import math
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from live_experiments import UNITS, create_by_segment, start_python, stored

import belated as bl
from belated.live.design import plan_setup
from belated.live.ticking import Ticker
from tests.live.conftest import of_storages


def test_two_ticks_at_once_make_one_version(place):
    exp, other = place.create(), place.again()
    for i in range(5):
        exp.ask(f"unit-{i}")
        together = threading.Barrier(2)

        def tick(one, together=together):
            together.wait(10)
            return one.tick()

        with ThreadPoolExecutor(2) as pool:
            made = [job.result(30) for job in [pool.submit(tick, exp), pool.submit(tick, other)]]
        assert made[0].number == made[1].number == i + 2
    assert [version.number for version in stored(exp)] == [1, 2, 3, 4, 5, 6]


CRASHES = """
import os, signal, sys, belated as bl
exp = bl.live.open(sys.argv[1], ticking=False).experiment("button")
exp.ask("x"); exp.tell("x", 1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_crash_between_outcome_and_tick_loses_neither(place):
    exp = place.create()
    with start_python(CRASHES, place.url) as process:
        pass
    assert process.returncode == -signal.SIGKILL
    made = exp.tick()
    assert (made.number, made.step, sum(made.counts), sum(made.totals)) == (2, 2, 1, 1)
    assert exp.tick() == made
    assert exp._store.verify().clean


@of_storages("a Python function is not sent over HTTP")
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda *_: 1 / 0, "ZeroDivisionError"),
        (lambda *_: [math.nan, 1.0], "must be 2 probabilities"),
        (lambda *_: [-0.5, 1.5], "must be 2 probabilities"),
        (lambda *_: [0.0, 0.0], "must sum to 1"),
        (lambda *_: [1.0], "must be 2 probabilities"),
        (lambda *_: "heads", "ValueError"),
        (lambda *_: sys.exit(3), "SystemExit"),
    ],
    ids=["raises", "nan", "negative", "zero", "short", "text", "exits"],
)
def test_a_bad_policy_keeps_the_last_good_version(place, bad, words):
    behaves = True
    own = bl.policies.own(lambda count, total, t: [0.25, 0.75] if behaves else bad(count, total, t))
    exp = place.create(policy=own)
    assert exp.ask("x").probabilities == {"A": 0.25, "B": 0.75}
    good, behaves = exp.tick(), False
    exp.ask_many(UNITS)
    assert exp.tick() == good
    assert words in exp.status().problem
    assert exp.ask("y").probabilities == {"A": 0.25, "B": 0.75}
    exp.pause_arm("A")  # what is paused is not chosen, whatever the policy does
    assert exp.ask("z").probabilities == {"A": 0.0, "B": 1.0}
    exp.resume_arm("A")
    behaves = True
    exp.ask("more")
    assert exp.tick().number == good.number + 3
    assert exp.status().problem is None
    assert exp._store.verify().clean


@of_storages("a Python function is not sent over HTTP")
def test_a_policy_that_fails_in_a_segment_keeps_the_last_good_version(place):
    def choose_best(count, total, t):
        return [0.5, 0.5] if sum(count) < 3 else [float("nan"), 1.0]

    exp = create_by_segment(place, arms=["A", "B"], policy=bl.policies.own(choose_best))
    exp.ask_many([f"u{i}" for i in range(6)], ["FR", "DE", "DE", "DE", "ES", "ES"])
    exp.tick()
    exp.tell_many((f"u{i}", 1) for i in range(6))
    good = exp.tick()
    assert good.number == 2
    assert exp.status().problem.startswith("In segment 'DE': The policy returned")
    exp.pause_arm("B")  # the last probabilities of the arms that are left, in every segment
    assert exp.status().segments[1] == ("DE", 3, (1.0, 0.0))
    assert exp._store.verify().clean


@of_storages("a Python function is not sent over HTTP")
def test_a_policy_function_that_this_process_lacks_keeps_the_last_good_version(place):
    exp = place.create(policy=bl.policies.own(lambda count, total, t: [0.25, 0.75]))
    other = place.again()
    other.ask("x")
    assert other.tick().number == 1
    assert "give it again" in other.status().problem
    assert exp.tick().number == 2
    assert other.status().problem is None


@of_storages("a Python function is not sent over HTTP")
def test_a_policy_that_fails_while_another_one_is_set_leaves_no_problem(place):
    def fails(count, total, t):
        if t > 1:
            exp.set_policy(bl.policies.uniform())
            raise ValueError("no")
        return [0.5, 0.5]

    exp = place.create(policy=bl.policies.own(fails))
    exp.ask("x")
    assert exp.tick().cause == "policy set"
    assert exp.status().problem is None


def test_a_tick_that_fails_does_not_end_the_next_ones():
    ticks, made = [], threading.Event()

    def tick(name):
        ticks.append(name)
        if len(ticks) < 3:
            raise RuntimeError("what nobody expected")
        made.set()

    ticker = Ticker(tick)
    try:
        ticker.follow("x", plan_setup(["A"], bl.live.binary(), baseline=None, planned_rows=10, seconds=0.01))
        for _ in range(1000):
            ticker.note("x", 1)
            if made.wait(0.05):
                break
        assert made.is_set()
    finally:
        ticker.close()


def test_rows_from_before_it_was_opened_get_a_version():
    made = threading.Event()
    ticker = Ticker(lambda name: made.set())
    try:
        setup = plan_setup(["A"], bl.live.binary(), baseline=None, planned_rows=10, seconds=0.01)
        ticker.follow("x", setup)
        assert made.wait(30)  # nobody has noted a row
    finally:
        ticker.close()


def test_it_rests_between_versions_however_much_is_new():
    spans, enough = [], threading.Event()

    def tick(name):
        began = time.monotonic()
        time.sleep(0.01)
        spans.append((began, time.monotonic()))
        if len(spans) == 4:
            enough.set()

    ticker = Ticker(tick)
    try:
        ticker.follow("x", plan_setup(["A"], bl.live.binary(), baseline=None, planned_rows=10, seconds=60))
        while not enough.wait(0.001):
            ticker.note("x", 100)
    finally:
        ticker.close()
    for (began, ended), (next_began, _) in itertools.pairwise(spans):
        assert next_began - ended >= min(2.9 * (ended - began), 0.49)
