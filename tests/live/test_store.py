from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import belated as bl
from belated.live.design import LONGEST_UNIT
from tests.live.conftest import of_storages


@pytest.fixture
def store(tmp_path):
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as opened:
        yield opened


def create(store, name="button", **options):
    given = {"arms": ["A", "B"], "policy": bl.policies.uniform(), "outcome": bl.live.binary()}
    return store.create(name, **given | options).start()


def test_asks_of_many_threads_share_commits(store):
    exp = create(store)
    with ThreadPoolExecutor(32) as pool:
        replies = list(pool.map(exp.ask, (f"u{i}" for i in range(640))))
    assert len({reply.unit for reply in replies}) == 640
    with store.storage.reading() as session:
        ((transactions,),) = session.run("select value from meta where key = 'transaction'")
    assert int(transactions) < 400


def test_versions_are_made_beside_asking(tmp_path):
    with bl.live.open(tmp_path / "shop.belated") as store:
        exp = create(store, policy=bl.policies.fixed({"A": 0.4, "B": 0.6}), every=50, seconds=0.2)
        exp.ask_many(f"u{i}" for i in range(100))
        assert _until(lambda: exp.status().version >= 2)
        exp.tell("u0", 1)  # fewer than 50 rows: after 0.2 seconds
        assert _until(lambda: exp.status().version >= 3)
        version = exp.status().version
        time.sleep(0.5)  # nothing is new
        assert exp.status().version == version
        assert store.verify().clean


def _until(done) -> bool:
    for _ in range(6000):
        if done():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("", "must be text of 1 to"),
        ("x" * (LONGEST_UNIT + 1), "has 501 characters"),
        ("a\x00b", "is not text"),
        ("\ud800", "is not text"),
        (1.5, "is of type float"),
        ("\x7ferased 00", "erased units"),
    ],
)
def test_units_that_cannot_be(store, unit, words):
    exp = create(store)
    with pytest.raises(bl.OptionError, match=words):
        exp.ask(unit)
    assert exp.tell_many([("fine", 1), (unit, 1)])[1].status == "refused"


@pytest.mark.parametrize("unit", ["'; drop table decision; --", "käse 🧀", "a b\nc", "%s ?", 17, "0", "null"])
def test_units_are_any_text(store, unit):
    exp = create(store)
    assert not exp.ask(unit).repeated
    assert exp.ask(str(unit)).repeated
    assert exp.tell(unit, 1).status == "new"


def test_outcomes_are_checked(store):
    exp = create(store, "a", outcome=bl.live.bounded(0, 5))
    exp.ask("x")
    for value, words in {7: "between 0 and 5", "1": "finite number", float("nan"): "finite number"}.items():
        with pytest.raises(bl.OptionError, match=words):
            exp.tell("x", value)
    with pytest.raises(bl.OptionError, match="is only for events"):
        exp.tell("x", 1, key="order 1")
    said = exp.tell_many([("x", 10**400), ("x", 1, "", "yesterday"), ("x", True)])
    assert [each.status for each in said] == ["refused", "refused", "new"]
    assert said[1].why == "`happened_at` is of type str; it must be a datetime."
    assert exp.setup.sequence_options["kind"] == "bernstein"
    assert exp.setup.sequence_options["bounds"] == (0.0, 5.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"arms": ["A", "A"]}, "different names"),
        ({"arms": []}, "different names"),
        ({"policy": "thompson"}, "one of bl.policies"),
        ({"policy": bl.policies.thompson_beta(), "outcome": bl.live.real()}, "needs outcomes from 0 to 1"),
        ({"policy": bl.policies.fixed({"A": 0.5, "C": 0.5})}, "does not have"),
        ({"outcome": "binary"}, "must be declared"),
        ({"planned_rows": 0}, "planned_rows"),
        ({"kind": "wide"}, "must be one of 'auto'"),
        ({"name": "x" * 300}, "has 300 characters"),
    ],
)
def test_experiments_that_cannot_be(store, options, words):
    with pytest.raises(bl.OptionError, match=words):
        create(store, **options)
    assert len(store.experiments()) == 0


def test_an_experiment_of_one_arm_has_a_mean(store):
    exp = create(store, arms=["A"], planned_rows=200)
    exp.ask_many(f"u{i}" for i in range(200))
    exp.tell_many((f"u{i}", i % 4 == 0) for i in range(200))
    answer = exp.answer()
    (row,) = answer.to_dict()["contrasts"]
    assert (row["arm"], row["estimate"]) == ("A", 0.25)
    assert row["low_at_every_look"] < row["low"] < 0.25 < row["high"] < row["high_at_every_look"]
    assert row["low"] == bl.estimate(exp.log()).policy({"A": 1.0}).low
    assert "25.0%" in str(answer)


def test_names_are_used_once(store):
    create(store)
    with pytest.raises(bl.live.LiveError, match="already an experiment 'button'"):
        create(store)
    with pytest.raises(bl.live.UnknownExperimentError, match="It has 'button'"):
        store.experiment("but")
    assert list(store.experiments()) == ["button"]


def test_salts_and_units_are_in_no_message(store):
    exp = create(store)
    exp.ask("customer-17")
    exp.tell("customer-17", 1)
    with pytest.raises(bl.live.ContradictionError) as caught:
        exp.tell("customer-17", 0)
    shown = [repr(store), repr(exp), repr(exp.status()), repr(exp.changes()), repr(exp.answer()), str(caught.value)]
    assert not any("customer-17" in text for text in shown)


def test_a_closed_or_forked_store_says_so(store, monkeypatch):
    exp = create(store)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)
        with pytest.raises(bl.live.StorageError, match="opened by another process"):
            exp.ask("x")
    store.close()
    for act in (lambda: exp.ask("x"), exp.answer, exp.status, exp.tick, store.verify):
        with pytest.raises(bl.live.StorageError, match="is closed; open it again"):
            act()


FORKS = """
import os, sys, belated as bl
store = bl.live.open(sys.argv[1], ticking=False)
exp = store.experiment("button")
exp.ask("x")
if os.fork() == 0:
    for act in (lambda: exp.ask("y"), lambda: exp.tell("x", 1), exp.answer, exp.status, exp.tick, store.verify):
        try:
            act()
        except bl.live.StorageError as error:
            print(str(error) == "The store was opened by another process; open it again.", flush=True)
    store.close()
    os._exit(0)
os.wait()
print(exp.ask("x").repeated, exp.tick().number, flush=True)
"""


@of_storages("a client's connections are not those of a process")
def test_a_child_does_not_use_the_connections_of_its_parent(place):
    """They would send on one connection, and the child's end would be its parent's."""
    place.create()
    done = subprocess.run([sys.executable, "-c", FORKS, place.url], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 7 + ["2"]


def test_an_answer_grows_with_its_rows(store):
    exp = create(store, baseline="A")
    assert exp.answer().estimate is None
    assert "No outcome has arrived yet." in repr(exp.answer())
    with pytest.raises(bl.LogError, match="no decisions yet"):
        exp.log()
    exp.ask_many(f"u{i}" for i in range(50))
    first = exp.answer()
    assert (first.counts.asked, first.estimate) == (50, None)
    exp.tell_many((f"u{i}", i % 2) for i in range(50))
    second = exp.answer()
    assert second.counts.told == 50
    assert len(second.log) == 50
    assert first.log is not None
    assert np.isnan(first.log.outcome).all()  # what was answered stays
    assert exp.answer() is second
    assert json.loads(json.dumps(second.to_dict()))["counts"]["told"] == 50


def test_an_exclusion_is_remembered_whatever_comes_later(tmp_path):
    path = tmp_path / "shop.belated"
    with bl.live.open(path, ticking=False) as store:
        exp = create(store, baseline="A", planned_rows=400)
        replies = exp.ask_many(f"u{i}" for i in range(400))
        exp.tell_many((reply.unit, reply.arm == "B") for reply in replies)
        excluded = exp.answer().exclusions["B - A"]
        exp.tell_many((reply.unit, 0, "", None, True) for reply in replies if reply.arm == "B")
    with bl.live.open(path, ticking=False) as store:
        answer = store.experiment("button").answer()
    assert answer.sequence.contrast("B", "A").excluded_at is None
    assert answer.exclusions == {"B - A": excluded}
    assert isinstance(excluded, dt.datetime)


def test_a_burn_in_is_a_share_of_the_planned_rows(store):
    exp = create(store, policy=bl.policies.epsilon_greedy(c=0.1, burn_in=0.5), planned_rows=100)
    exp.ask_many(f"u{i}" for i in range(49))
    assert exp.tick().probabilities == (0.5, 0.5)
    exp.ask_many(f"v{i}" for i in range(2))
    assert exp.tick().probabilities != (0.5, 0.5)


@pytest.mark.parametrize("outcome", [bl.live.binary(), bl.live.events("1h")], ids=["binary", "events"])
def test_a_tick_and_an_answer_read_only_what_is_new(tmp_path, outcome):
    """SQLite's own steps, with a history and with ten times as much."""
    steps = {}
    for history in (300, 3000):
        clock = [10**15]
        with bl.live.open(tmp_path / f"{history}.belated", ticking=False, clock=lambda clock=clock: clock[0]) as store:
            exp = create(store, outcome=outcome)
            for first, size in ((0, history), (history, 20)):
                units = [f"u{i}" for i in range(first, first + size)]
                exp.ask_many(units)
                exp.tell_many((unit, 1) for unit in units[::2])
                clock[0] += 4 * 3600 * 10**6
                if first == 0:
                    exp.tick()
                    exp.answer()
            reader, count = store.storage._connections[False], [0, 0]

            def more(count=count):
                count[0] += 1

            reader.set_progress_handler(more, 1)
            exp.tick()
            count[1] = count[0]
            exp.answer()
            reader.set_progress_handler(None, 1)
            steps[history] = count[1], count[0] - count[1]
    for few, many in zip(steps[300], steps[3000], strict=True):
        assert few > 100
        assert many < 1.2 * few


def test_threads_may_answer_while_others_ask(store):
    exp = create(store, baseline="A")
    exp.ask_many(f"u{i}" for i in range(100))
    exp.tell_many((f"u{i}", i % 2) for i in range(100))
    stop = threading.Event()

    def load():
        for i in range(10_000):
            if stop.is_set():
                return i
            exp.ask(f"v{i}")
            exp.tell(f"v{i}", i % 2)
        return 10_000

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(load)]
        asked = [exp.answer().counts.asked for _ in range(6)]
        others = [pool.submit(exp.answer) for _ in range(3)]
        assert all(job.result(60).counts.asked >= asked[-1] for job in others)
        stop.set()
        jobs[0].result(60)
    assert asked == sorted(asked)


@pytest.mark.parametrize("wrong", [("x",), ("x", 1, "", None, False, 9), None, 7])
def test_what_is_no_outcome_is_told(store, wrong):
    exp = create(store)
    with pytest.raises(bl.OptionError, match="Outcome 1 cannot be read; give a Tell, or a tuple of unit and value"):
        exp.tell_many([("a", 1), wrong])
    assert exp.status().parked == 0
    assert exp.tell_many([{"unit": "a", "value": 1}])[0].status == "refused"
