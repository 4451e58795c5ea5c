"""The contract of every storage, a test for each clause; `belated.live.storage.Storage` has it in words."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest

import belated as bl
from belated.live import keeping, schema
from belated.live.asking import ask
from belated.live.design import snapshot, versions
from belated.live.draws import choose, cumulative, uniform
from belated.live.telling import tell
from tests.live.conftest import in_storages, of_storages

UNITS = [f"unit-{i:02}" for i in range(40)]


def run(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Run Python in another process."""
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)


def about(exp):
    with exp._store.storage.reading() as session:
        return snapshot(session, exp.name)


def stored(exp):
    with exp._store.storage.reading() as session:
        return versions(session, exp._id)


def rows(exp, table="decision"):
    columns = "id, experiment, unit, arm, version, assigned_at" if table == "decision" else "*"
    with exp._store.storage.reading() as session:
        return session.run(f"select {columns} from {table} where experiment = ? order by 1", exp._id)  # noqa: S608


# ---------------------------------------------------------------- asking

KILLED = """
import os, signal, sys, belated as bl
exp = bl.live.open(sys.argv[1], ticking=False).experiment("button")
for i in range(5):
    print(exp.ask(f"unit-{i:02}").arm, exp.tell(f"unit-{i:02}", i % 2).status, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_ask_is_durable_when_answered(place):
    exp = place.create()
    with run(KILLED, place.url) as process:
        said = [line.split() for line in process.stdout]
    assert process.returncode == -signal.SIGKILL
    assert [status for _, status in said] == ["new"] * 5
    replies = exp.ask_many(UNITS[:5])
    assert [reply.arm for reply in replies] == [arm for arm, _ in said]
    assert all(reply.repeated for reply in replies)
    assert [each.status for each in exp.tell_many((f"unit-{i:02}", i % 2) for i in range(5))] == ["repeated"] * 5


def test_the_same_unit_gets_the_same_reply(place):
    exp = place.create(policy=bl.policies.fixed({"A": 0.25, "B": 0.75}))
    first = exp.ask("unit-1")
    exp.set_policy(bl.policies.fixed({"A": 0.5, "B": 0.5}))
    again = place.again().ask("unit-1")
    assert (first.repeated, again.repeated) == (False, True)
    assert again.probabilities == first.probabilities == {"A": 0.25, "B": 0.75}
    assert (again.arm, again.version, again.assigned_at) == (first.arm, first.version, first.assigned_at)


ASKS = """
import sys, belated as bl
exp = bl.live.open(sys.argv[1], ticking=False).experiment("button")
print(*(exp.ask(f"unit-{i:02}").arm for i in range(40)))
"""


def test_the_same_unit_from_many_threads_and_processes_makes_one_row(place):
    exp, other = place.create(), place.again()
    processes = [run(ASKS, place.url) for _ in range(2)]
    with ThreadPoolExecutor(16) as pool:
        jobs = [pool.submit(each.ask, unit) for unit in UNITS for each in (exp, other) * 2]
        replies = [job.result() for job in jobs]
    said = []
    for process in processes:
        with process:
            said.append(process.stdout.read().split())
    arms = {reply.unit: reply.arm for reply in replies}
    assert all(reply.arm == arms[reply.unit] for reply in replies)
    assert said == [[arms[unit] for unit in UNITS]] * 2
    assert len(rows(exp)) == len(UNITS)
    assert sum(not reply.repeated for reply in replies) <= len(UNITS)


def test_crossing_batches_do_not_deadlock(place):
    exp, other = place.create(), place.again()

    def work(one, units):
        for _ in range(10):
            one.ask_many(units)
            said = one.tell_many((unit, 1) for unit in units)
            assert all(each.taken for each in said)

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(work, one, units) for one in (exp, other) for units in (UNITS, UNITS[::-1])]
        for job in jobs:
            job.result(60)
    assert len(rows(exp)) == len(rows(exp, "outcome")) == len(UNITS)


def test_duplicates_within_a_batch(place):
    exp = place.create()
    replies = exp.ask_many(["x", "y", "x"])
    assert [reply.repeated for reply in replies] == [False, False, True]
    assert replies[0].arm == replies[2].arm
    said = exp.tell_many([("x", 1), ("x", 1), ("x", 0), ("x", 0, "", None, True), ("z", 1), ("z", 1), ("z", 0)])
    assert [each.status for each in said] == [
        "new", "repeated", "contradiction", "corrected", "parked", "parked", "contradiction",
    ]  # fmt: skip
    assert len(rows(exp)) == len(rows(exp, "outcome")) == 2


def test_a_batch_of_old_and_new(place):
    """Rows are inserted before anybody looks whether they are there; what is there is not new."""
    exp, units = place.create(), [f"unit-{i}" for i in range(700)]
    first = {reply.unit: reply.arm for reply in exp.ask_many(units[100:103] + units[600:])}
    replies = exp.ask_many(units)
    assert [reply.unit for reply in replies if reply.repeated] == list(first)
    assert {reply.unit: reply.arm for reply in replies if reply.repeated} == first
    assert all(reply.repeated for reply in exp.ask_many(units))
    exp.tell_many((unit, 1) for unit in units[::7])
    said = exp.tell_many([*((unit, 1) for unit in units), (units[7], 0), (units[8], 0, "", None, True)])
    expected = [*("new" if i % 7 else "repeated" for i in range(700)), "contradiction", "corrected"]
    assert [each.status for each in said] == expected
    assert (len(rows(exp)), len(rows(exp, "outcome"))) == (700, 701)
    assert exp._store.verify().clean


def test_old_and_new_events_of_a_unit_in_a_batch(place):
    exp = place.create(outcome=bl.live.events("1d", "count"))
    exp.ask_many(["x", "y"])
    exp.tell_many([("x", 1, "a"), ("y", 1, "a")])
    said = exp.tell_many([("x", 1, "b"), ("x", 1, "a"), ("x", 0, "a"), ("x", 0, "a", None, True), ("y", 0, "a")])
    assert [each.status for each in said] == ["new", "repeated", "contradiction", "corrected", "contradiction"]
    assert len(rows(exp, "outcome")) == 4
    said = exp.tell_many([("y", 1, "b"), ("y", 1, "a"), ("y", 0, "b")])
    assert [each.status for each in said] == ["new", "repeated", "contradiction"]


def test_a_decision_refers_to_a_committed_version(place):
    exp = place.create()
    with exp._store.storage.writing() as session:  # a version that is not committed yet
        session.run("update experiment set problem = 'x' where id = ?", exp._id)
        session.run("insert into version select experiment, 2, rule, step, watermark, made_at, offered, '[1.0, 0.0]', "
                    "counts, totals, cause, steps from version where experiment = ?", exp._id)  # fmt: skip
        assert snapshot(session, "button").version.number == 2
        with place.open().storage.reading() as other:
            assert snapshot(other, "button").version.number == 1
        session.run("delete from version where number = 2")
    exp.ask_many(UNITS)
    known = {version.number for version in stored(exp)}
    assert {row[4] for row in rows(exp)} <= known == {1}


def test_an_arm_of_probability_0_is_never_drawn(place):
    most = 1 - 2**-53
    assert choose(most, cumulative((0.3, 0.7, 0.0))) == 1
    short = (1 / 3, 1 / 3, 1 / 3 - 1e-12, 0.0, 0.0)  # the sum is below the largest draw
    assert choose(most, cumulative(short)) == 2
    assert choose(0.0, cumulative((0.0, 1.0))) == 1
    assert [choose(u, cumulative((0.25, 0.0, 0.75))) for u in (0.0, 0.2499, 0.25, 0.5)] == [0, 0, 2, 2]
    exp = place.create(arms=["A", "B", "C"], policy=bl.policies.fixed({"A": 0.0, "B": 1.0, "C": 0.0}))
    assert {reply.arm for reply in exp.ask_many(UNITS)} == {"B"}


def test_draws_follow_the_probabilities(place):
    shares = {"A": 0.1, "B": 0.2, "C": 0.7}
    exp = place.create(arms=list(shares), policy=bl.policies.fixed(shares))
    drawn = Counter(reply.arm for reply in exp.ask_many(f"person {i}" for i in range(4000)))
    chi2 = sum((drawn[arm] - 4000 * p) ** 2 / (4000 * p) for arm, p in shares.items())
    assert chi2 < 27.6  # the 1 - 1e-6 quantile with 2 degrees of freedom: the salt is a new one in every run


def test_every_arm_recomputes_from_the_salt(place):
    exp = place.create(policy=bl.policies.fixed({"A": 0.4, "B": 0.6}))
    replies = exp.ask_many(UNITS)
    salt = about(exp).salt
    assert [reply.arm for reply in replies] == ["AB"[uniform(salt, unit) >= 0.4] for unit in UNITS]
    assert exp._store.verify().clean
    place.sql("update decision set arm = 1 - arm where unit = ?", UNITS[3])
    (finding,) = exp._store.verify().findings
    assert "1 decision that its unit and the salt do not give" in finding
    assert UNITS[3] not in finding


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("update arm set label = 'C' where number = 1", "its arms are not those of the list of changes"),
        ("""update rule set policy = '{"name": "uniform"}'""", "its policies are not those of the list of changes"),
        ("update rule set policy = '{'", "a policy cannot be read"),
        ("update version set probabilities = '[0.5;0.5]'", "a version of the policy cannot be read"),
        ("update change set detail = 'x'", "the list of changes cannot be read"),
    ],
)
def test_what_was_altered_is_found(place, damage, words):
    exp = place.create(policy=bl.policies.fixed({"A": 0.4, "B": 0.6}))
    exp.ask_many(UNITS)
    place.sql(damage)
    assert any(words in finding for finding in exp._store.verify().findings)


# ---------------------------------------------------------------- telling


def test_telling_twice_counts_once(place):
    exp = place.create()
    exp.ask("x")
    assert [exp.tell("x", 1).status, exp.tell("x", 1).status, place.again().tell("x", 1.0).status] == [
        "new", "repeated", "repeated",
    ]  # fmt: skip
    assert sum(exp.tick().counts) == 1
    assert exp.answer().counts.told == 1


def test_a_contradicting_tell_is_refused_and_changes_nothing(place):
    exp = place.create()
    exp.ask("x")
    exp.tell("x", 1)
    before = rows(exp, "outcome")
    with pytest.raises(bl.live.ContradictionError, match="say that this one is a correction"):
        exp.tell("x", 0)
    assert rows(exp, "outcome") == before
    assert exp.answer().counts.corrected == 0


def test_a_batch_is_told_in_its_order(place):
    exp = place.create(outcome=bl.live.real())
    exp.ask_many(["x", "y", "z"])
    told = exp.tell_many([("x", 1), ("y", -0.0), ("nobody", 1), ("x", 1), ("x", 2), ("y", 0.0), ("nobody", 2)])
    assert [each.status for each in told] == [
        "new", "new", "parked", "repeated", "contradiction", "repeated", "contradiction",
    ]  # fmt: skip
    told = exp.tell_many([bl.live.Tell("z", 5, correct=True), ("z", 4), bl.live.Tell("x", 7, correct=True), ("x", 7)])
    assert [each.status for each in told] == ["new", "contradiction", "corrected", "repeated"]
    exp.ask("w")
    told = exp.tell_many([("w", 1), bl.live.Tell("w", 2, correct=True), ("w", 1), bl.live.Tell("w", 3, correct=True)])
    assert [each.status for each in told] == ["new", "corrected", "contradiction", "corrected"]
    assert sorted(exp.log().outcome) == [-0.0, 3, 5, 7]
    assert exp._store.verify().clean


def test_a_batch_of_repeated_and_new_outcomes_stores_the_new_ones(place):
    exp, half = place.create(outcome=bl.live.real()), UNITS[::2]
    exp.ask_many(UNITS)
    exp.tell_many((unit, 1.5) for unit in half)
    told = exp.tell_many((unit, 1.5 if unit in half else 2.5) for unit in UNITS)
    assert [each.status for each in told] == ["repeated" if unit in half else "new" for unit in UNITS]
    values = dict(place.sql("select d.unit, o.value from outcome o join decision d on d.id = o.decision"))
    assert values == {unit: 1.5 if unit in half else 2.5 for unit in UNITS}


def test_a_correction_keeps_the_first_arrival(place):
    exp = place.create()
    exp.ask("x")
    place.clock.forward(10)
    exp.tell("x", 1)
    first = exp.tick()
    place.clock.forward(50)
    assert exp.tell("x", 0, correct=True).status == "corrected"
    log = exp.log()
    assert log.outcome.tolist() == [0.0]
    assert (log.arrived_at - log.assigned_at).tolist() == [np.timedelta64(10, "s")]
    assert sum(first.totals) == 1
    second = exp.tick()
    assert (sum(second.counts), sum(second.totals)) == (1, 0)
    assert exp.answer().counts.corrected == 1


def test_an_unknown_tell_is_parked_then_adopted(place):
    exp = place.create()
    assert exp.tell("x", 1).status == "parked"
    assert exp.tell("x", 1).status == "parked"
    assert exp.answer().counts == bl.live.Counts(parked=1)
    place.clock.forward(5)
    exp.ask("x")
    log, counts = exp.log(), exp.answer().counts
    assert (counts.parked, counts.told) == (0, 1)
    assert log.outcome.tolist() == [1.0]
    assert log.arrived_at.tolist() == log.assigned_at.tolist()
    assert exp.tell("x", 1).status == "repeated"


def test_a_unit_that_is_asked_while_its_outcome_is_parked_elsewhere_gets_it(place):
    exp = place.create()
    exp.ask("x")
    place.sql("insert into parked values (?, 'x', '', 1.0, null, 0)", exp._id)  # as a process that saw no decision did
    exp.tick()
    assert exp.answer().counts == bl.live.Counts(asked=1, told=1)


def test_no_outcome_before_its_assignment(place):
    exp = place.create()
    exp.ask("x")
    place.clock.forward(-3600)
    exp.tell("x", 1)
    ((*_, arrived),) = rows(exp, "outcome")
    assert arrived == rows(exp)[0][-1]
    assert exp._store.verify().clean


def test_a_clock_set_back_an_hour_keeps_order(place):
    exp = place.create()
    for i in range(6):
        exp.ask(f"unit-{i}")
        exp.tell(f"unit-{i}", i % 2)
        exp.tick()
        place.clock.forward(-3600 if i == 2 else 7)
    made = stored(exp)
    assert [version.number for version in made] == [1, 2, 3, 4, 5, 6, 7]
    times = {version.number: version.made_at for version in made}
    assert list(times.values()) == sorted(times.values())
    arrived = {row[2]: row[-1] for row in rows(exp, "outcome")}
    for key, _, _, _, version, assigned in rows(exp):
        assert assigned >= times[version]
        assert arrived[key] >= assigned
    for version in made[1:]:  # after every outcome that it has seen
        seen = [row[-1] for row in rows(exp, "outcome") if row[0] < version.watermark]
        assert version.made_at > max(seen)
    assert exp._store.verify().clean


# ---------------------------------------------------------------- ticks


def test_a_slow_commit_is_not_skipped_by_a_tick(place):
    exp, slow = place.create(), place.again()
    exp.ask_many(UNITS[:2])
    exp.tick()
    writing, go_on = threading.Event(), threading.Event()

    def work():
        with slow._store.storage.writing() as session:
            tell(session, "button", [bl.live.Tell(UNITS[0], 1.0)])
            writing.set()
            go_on.wait(30)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(work)
        writing.wait(30)
        second = pool.submit(exp.tell, UNITS[1], 1)  # a later transaction, which PostgreSQL commits before the first
        time.sleep(0.2)
        ticked = exp.tick()
        assert sum(ticked.counts) == 0  # nothing that a slower transaction could still come before
        go_on.set()
        first.result(30)
        assert second.result(30).status == "new"
    assert sum(exp.tick().counts) == 2
    assert exp._store.verify().clean


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


@pytest.mark.parametrize("policy", [bl.policies.thompson_normal(burn_in=10), bl.policies.ucb()], ids=["ts", "ucb"])
def test_replay_gives_the_same_versions_bit_for_bit(place, policy):
    exp = place.create(policy=policy, outcome=bl.live.real(), arms=["A", "B", "C"])
    rng = np.random.default_rng(3)
    for batch in range(12):
        units = [f"{batch}-{i}" for i in range(7)]
        exp.ask_many(units)
        exp.tell_many((unit, value) for unit, value in zip(units, rng.normal(size=7).tolist(), strict=True))
        if batch > 3:
            exp.tell(f"{batch - 2}-1", float(rng.normal()), correct=True)
        exp.tick()
    made = stored(exp)
    assert len(made) == 13
    assert place.again().replay() == made
    assert len({version.probabilities for version in made}) > 8
    assert exp._store.verify().clean


CRASHES = """
import os, signal, sys, belated as bl
exp = bl.live.open(sys.argv[1], ticking=False).experiment("button")
exp.ask("x"); exp.tell("x", 1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_crash_between_outcome_and_tick_loses_neither(place):
    exp = place.create()
    with run(CRASHES, place.url) as process:
        pass
    assert process.returncode == -signal.SIGKILL
    made = exp.tick()
    assert (made.number, made.step, sum(made.counts), sum(made.totals)) == (2, 2, 1, 1)
    assert exp.tick() == made
    assert exp._store.verify().clean


def test_never_told_stays_out(place):
    exp = place.create()
    exp.ask_many(UNITS)
    exp.tell(UNITS[0], 0)
    place.clock.forward(10**7)
    assert exp.answer().counts == bl.live.Counts(asked=40, told=1, out=39)
    assert np.isnan(exp.log().outcome).sum() == 39
    exp.close()
    assert exp.answer().counts == bl.live.Counts(asked=40, told=1, never=39)
    assert sum(exp.tick().counts) <= 1


def test_a_window_closes_to_zero_only_for_events(place):
    exp = place.create(outcome=bl.live.events("1h"))
    exp.ask_many(UNITS[:4])
    place.clock.forward(60)
    exp.tell(UNITS[0], key="order 1")
    exp.tell(UNITS[0], key="order 2")
    assert sum(exp.tick().counts) == 0  # known when the window closes, not before
    place.clock.forward(1800)
    exp.ask_many(UNITS[4:8])
    place.clock.forward(1800)
    made = exp.tick()
    assert (sum(made.counts), sum(made.totals)) == (4, 1)
    answer = exp.answer()
    assert (answer.counts.asked, answer.counts.told, answer.counts.out) == (8, 4, 4)
    assert sorted(answer.log.closed().log().outcome.tolist()) == [0, 0, 0, 1]
    place.clock.forward(1801)
    exp.tell(UNITS[4])  # after its window
    exp.tell(UNITS[5], happened_at=bl.live.records.moment(place.clock.now - 1802 * 10**6))  # told late, inside
    made = exp.tick()
    assert (sum(made.counts), sum(made.totals)) == (8, 2)
    assert exp.answer().log.closed().log().outcome.sum() == 2
    assert exp.replay() == stored(exp)
    plain = place.create("other")
    plain.ask("x")
    place.clock.forward(10**6)
    assert plain.answer().counts.out == 1


def test_a_window_that_closes_before_a_change_is_learned_after_it(place):
    exp = place.create(outcome=bl.live.events("1h"))
    exp.ask_many(UNITS[:4])
    exp.tell(UNITS[0])
    exp.tick()  # it knows the units, but no outcome
    place.clock.forward(3601)
    exp.pause_arm("B")
    exp.resume_arm("B")
    place.clock.forward(60)
    made = exp.tick()
    assert (sum(made.counts), sum(made.totals)) == (4, 1)
    assert exp.replay() == stored(exp)
    assert exp._store.verify().clean


def test_an_answer_says_why_it_cannot_be(place, tmp_path):
    exp = place.create(outcome=bl.live.events("1h"))
    exp.ask_many(UNITS[:4])
    place.clock.forward(3601)
    exp.add_arm("C")
    exp.ask_many(UNITS)
    answer = exp.answer()
    assert answer.counts == bl.live.Counts(asked=40, told=4, out=36)
    assert (answer.estimate, answer.contrasts) == (None, ())
    assert "no row that has lived beyond its assignment; wait" in str(answer)
    with pytest.raises(bl.LogError, match="cannot be reported: some arm has no row that has lived"):
        answer.report(tmp_path / "report.html")


# ---------------------------------------------------------------- changes


def test_two_creations_at_once_make_one_experiment(place):
    stores = [place.open(), place.open()]
    for turn in range(5):
        together = threading.Barrier(2)

        def create(store, name=f"name {turn}", together=together):
            together.wait(10)
            try:
                return store.create(name, arms=["A"], policy=bl.policies.uniform(), outcome=bl.live.binary()).name
            except bl.live.LiveError as error:
                return str(error)

        with ThreadPoolExecutor(2) as pool:
            said = sorted(pool.map(create, stores))
        assert said[1] == f"name {turn}"
        assert "already an experiment" in said[0]
    assert len(stores[0].experiments()) == 5


def test_arms_added_paused_dropped_and_a_policy_changed_in_flight(place):
    exp = place.create()
    exp.ask_many(UNITS)
    exp.add_arm("C", reason="an idea", author="Ada")
    assert exp.ask("1").probabilities == pytest.approx(dict.fromkeys("ABC", 1 / 3))
    exp.pause_arm("A")
    assert exp.ask("2").probabilities == {"A": 0, "B": 0.5, "C": 0.5}
    exp.resume_arm("A")
    exp.drop_arm("B", reason="it hurts")
    assert exp.ask("3").probabilities == {"A": 0.5, "B": 0, "C": 0.5}
    exp.set_policy(bl.policies.fixed({"A": 0.9, "C": 0.1}))
    replies = exp.ask_many(f"later {i}" for i in range(50))
    assert {reply.arm for reply in replies} <= {"A", "C"}
    assert replies[0].probabilities == {"A": 0.9, "B": 0, "C": 0.1}
    with pytest.raises(bl.live.LiveError, match="dropped, which is for good"):
        exp.resume_arm("B")
    with pytest.raises(bl.OptionError, match="choose a new name"):
        exp.add_arm("B")
    what = ["create", "start", "add arm", "pause arm", "resume arm", "drop arm", "set policy"]
    changes = exp.changes()
    assert [change.what for change in changes] == what
    assert (changes[2].author, changes[2].reason, json.loads(changes[2].detail)) == ("Ada", "an idea", {"arm": "C"})
    assert [version.cause for version in stored(exp)] == [
        "start", "arm added: C", "pause arm: A", "resume arm: A", "drop arm: B", "policy set",
    ]  # fmt: skip
    log = exp.log()
    assert log.arms == ("A", "B", "C")
    assert log.propensity[0].tolist() == [0.5, 0.5, 0.0]
    assert np.allclose(log.propensity.sum(axis=1), 1)
    assert exp._store.verify().clean
    assert exp.replay() == stored(exp)


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


def test_stopped_takes_tells_and_refuses_new_units(place):
    exp = place.create()
    arm = exp.ask("x").arm
    exp.stop(final="B", reason="enough")
    assert exp.ask("x").arm == arm
    later = exp.ask("y")
    assert (later.arm, later.logged, later.assigned_at) == ("B", False, None)
    assert exp.tell("x", 1).status == "new"
    assert exp.answer().counts == bl.live.Counts(asked=1, told=1)
    plain = place.create("other")
    plain.stop()
    with pytest.raises(bl.live.NotRunningError, match="takes no new units"):
        plain.ask("x")
    exp.close()
    for act in (lambda: exp.ask("x"), lambda: exp.tell("x", 1)):
        with pytest.raises(bl.live.ClosedError, match="takes neither units nor outcomes"):
            act()
    with pytest.raises(bl.live.NotRunningError, match="start it first"):
        place.create("draft", start=False).ask("x")


# ---------------------------------------------------------------- erasing and keeping


def learned(exp, units=UNITS):
    exp.ask_many(units)
    exp.tell_many((unit, i % 3 == 0) for i, unit in enumerate(units))
    exp.tick()


def test_an_erased_unit_is_gone_and_answers_are_unchanged(place):
    exp = place.create()
    learned(exp)
    exp.tell("waiting", 1)
    before = exp.answer()
    assert exp.erase(UNITS[3])
    assert exp.erase("waiting")
    assert not exp.erase("nobody")
    after = place.again().answer()
    assert after.estimate.to_json() == before.estimate.to_json()
    assert after.sequence.to_json() == before.sequence.to_json()
    assert UNITS[3] not in str(rows(exp)) + str(rows(exp, "change"))
    assert after.counts.parked == 0
    assert exp._store.verify().clean
    assert [change.what for change in exp.changes()][-3:] == ["erase"] * 3
    if place.kind != "postgres":
        files = [path.read_bytes() for path in place.folder.glob("shop.belated*")]
        assert not any(UNITS[3].encode() in content for content in files)
        assert any(UNITS[4].encode() in content for content in files)


def test_a_backup_under_load_restores_and_verifies(place):
    exp = place.create()
    learned(exp)
    stop = threading.Event()

    def load():
        for i in range(100_000):
            if stop.is_set():
                return
            exp.ask(f"load-{i}")
            exp.tell(f"load-{i}", i % 2)

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(load)
        time.sleep(0.1)
        path = exp._store.backup(place.folder / "copy.belated")
        stop.set()
        job.result(30)
    assert path.stat().st_mode & 0o777 == 0o600
    assert not list(place.folder.glob("*copy.belated[-.]*"))
    home = place.folder / "restored.belated" if place.kind != "postgres" else place.url
    if place.kind == "postgres":
        with pytest.raises(bl.live.StorageError, match="say that they are to be replaced"):
            bl.live.restore(path, home)
    assert bl.live.restore(path, home, replace=place.kind == "postgres") == 0
    with bl.live.open(home, ticking=False) as store:
        assert store.verify().clean
        again = store.experiment("button")
        assert again.ask_many(UNITS)[0].repeated
        assert len(rows(again)) >= len(UNITS)
        again.ask("new")
        assert not again.tell("new", 1).why
        assert again.tick().number == 3
        assert store.verify().clean


@of_storages("a store is restored where it is, while nobody serves it")
def test_a_restore_forgets_again_what_was_erased(place):
    exp = place.create()
    learned(exp)
    path = exp._store.backup(place.folder / "copy.belated")
    assert UNITS[5].encode() in path.read_bytes()
    exp.erase(UNITS[5])
    place.clock.forward(60)
    exp.ask("after")
    place.close()
    assert bl.live.restore(path, place.url, replace=True) == 1
    exp = place.again()
    assert len(rows(exp)) == len(UNITS)
    assert UNITS[5] not in str(rows(exp))
    assert not exp.ask(UNITS[5]).repeated
    assert exp._store.verify().clean


@of_storages("a store is restored where it is, while nobody serves it")
def test_a_restore_forgets_also_what_was_erased_after_the_clock_was_set_back(place):
    exp = place.create()
    place.clock.forward(3600)
    exp.ask("x")
    exp.tell("waiting", 1)
    exp.tick()
    place.clock.forward(-3600)
    exp.ask("y")
    path = exp._store.backup(place.folder / "copy.belated")
    for unit in ("x", "y", "waiting"):
        assert exp.erase(unit)
    place.close()
    assert bl.live.restore(path, place.url, replace=True) == 3
    assert bl.live.restore(path, place.url, replace=True) == 3


@of_storages("a store is restored where it is, while nobody serves it")
def test_a_restore_keeps_the_latest_time_of_an_erasure(place):
    """Two backups are restored one after the other; the first knows the unit only as it was erased before."""
    exp = place.create()
    exp.ask("x")
    exp.erase("x")
    before = exp._store.backup(place.folder / "before.belated")
    place.clock.forward(60)
    exp.ask("x")
    after = exp._store.backup(place.folder / "after.belated")
    exp.erase("x")
    place.close()
    assert bl.live.restore(before, place.url, replace=True) == 0
    assert bl.live.restore(after, place.url, replace=True) == 1


def _interrupt(*_):
    raise KeyboardInterrupt


@of_storages("a store is restored where it is, while nobody serves it")
def test_a_restore_that_is_interrupted_changes_nothing(place, monkeypatch):
    exp = place.create()
    exp.ask("x")
    path = exp._store.backup(place.folder / "copy.belated")
    exp.erase("x")
    place.close()
    with monkeypatch.context() as patch:
        patch.setattr(keeping, "forget_again", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            bl.live.restore(path, place.url, replace=True)
    assert not place.again().ask("x").repeated


NEXT = "alter table experiment add column note text"


@of_storages("a store is upgraded where it is, while nobody serves it")
def test_every_older_schema_upgrades(place, monkeypatch):
    exp = place.create()
    learned(exp)
    place.close()
    before = len(schema.MIGRATIONS)
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, [NEXT]])
    words = f"has schema {before}, older than {before + 1}; upgrade it with `belated live migrate`"
    with pytest.raises(bl.live.SchemaError, match=words):
        place.open()
    assert bl.live.migrate(place.url) == before + 1
    assert bl.live.migrate(place.url) == before + 1
    exp = place.again()
    assert exp.ask(UNITS[0]).repeated
    assert exp._store.verify().clean
    assert place.sql("select note from experiment") == [(None,)]


@of_storages("a store is upgraded where it is, while nobody serves it")
def test_a_newer_schema_is_refused_in_a_sentence(place):
    place.create()
    place.sql("update meta set value = '700' where key = 'schema'")
    place.close()
    for act in (place.open, lambda: bl.live.migrate(place.url)):
        with pytest.raises(bl.live.SchemaError, match=r"has schema 700, and this version .* install the newer belated"):
            act()


MIGRATES = f"""
import sys, belated as bl
from belated.live import keeping, schema
schema.MIGRATIONS.append([{NEXT!r}])
sys.stdin.read()
print(bl.live.migrate(sys.argv[1]))
"""


@of_storages("a store is upgraded where it is, while nobody serves it")
def test_two_processes_migrating_at_once(place):
    exp = place.create()
    learned(exp)
    place.close()
    start = [sys.executable, "-c", MIGRATES, place.url]
    both = [subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        process.stdin.close()
    for process in both:
        with process:
            process.stdin = None
            assert process.stdout.read() == f"{len(schema.MIGRATIONS) + 1}\n"
    with pytest.raises(bl.live.SchemaError, match="install the newer"):
        place.open()


# ---------------------------------------------------------------- answers and failures


def test_the_log_read_and_answer_agree(place):
    exp = place.create(policy=bl.policies.thompson_beta(), arms=["A", "B", "C d"])
    rng = np.random.default_rng(1)
    for batch in range(10):
        units = [f"{batch}-{i}" for i in range(40)]
        replies = exp.ask_many(units)
        place.clock.forward(60)
        chance = {"A": 0.2, "B": 0.5, "C d": 0.4}
        exp.tell_many((each.unit, rng.random() < chance[each.arm]) for each in replies if rng.random() < 0.8)
        exp.tick()
    answer, read = exp.answer(), bl.read(place.home, table="button")
    assert read.arms == ("A", "B", "C d")
    assert bl.estimate(read, level=0.95).to_json() == answer.estimate.to_json() == bl.estimate(exp.log()).to_json()
    followed = bl.sequence(read, **exp.setup.sequence_options)
    assert followed.kind == "beta_binomial"
    assert followed.to_json() == answer.sequence.to_json()
    assert bl.diagnose(read).to_json() == answer.diagnosis.to_json()
    assert answer.best.to_json() == answer.estimate.best().to_json()
    assert exp.answer() is answer


@in_storages("measure", ["indicator", "count", "sum"])
def test_the_log_read_and_answer_agree_on_events(place, measure):
    exp = place.create(outcome=bl.live.events("10min", measure))
    for batch in range(6):
        units = [f"{batch}-{i}" for i in range(20)]
        exp.ask_many(units)
        place.clock.forward(200)
        exp.tell_many((unit, k + 0.5, f"order {k}") for unit in units[::3] for k in range(2))
    answer = exp.answer()
    read = bl.read(place.home, table="button", as_of=answer.as_of)
    assert answer.counts.told == len(read.closed()) == 80
    assert answer.counts.asked == len(read) == 120  # open windows count for the ages that they have reached
    assert bl.estimate(read).to_json() == answer.estimate.to_json()
    assert bl.sequence(read, **exp.setup.sequence_options).to_json() == answer.sequence.to_json()
    made = exp.tick()
    assert (sum(made.counts), sum(made.totals)) == (80, answer.log.closed().log().outcome.sum())


@pytest.mark.filterwarnings("ignore::belated.BelatedWarning")  # of few outcomes
def test_an_answer_is_of_the_latest_rows(place):
    """A second correction, an event of an open window and one of a closed window change no count but the answer."""
    exp = place.create()
    exp.ask_many(UNITS)
    exp.tell_many((unit, i % 3 == 0) for i, unit in enumerate(UNITS))
    for value in (1, 0, 1):
        exp.tell(UNITS[1], value, correct=True)
        answer, read = exp.answer(), bl.read(place.home, table="button")
        assert bl.estimate(read).to_json() == answer.estimate.to_json()
    events = place.create("events", outcome=bl.live.events("1h", "count"))
    events.ask_many(UNITS[:20])
    place.clock.forward(3601)
    events.ask_many(UNITS[20:])
    for more in ([(UNITS[30], 1, "a")], [(UNITS[3], 1, "a", bl.live.records.moment(place.clock.now - 10**9))], []):
        place.clock.forward(60)
        events.tell_many(more)
        answer = events.answer()
        assert answer.as_of == bl.live.records.moment(place.clock.now)  # ages of open windows count
        read = bl.read(place.home, table="events", as_of=answer.as_of)
        assert bl.estimate(read).to_json() == answer.estimate.to_json()
    place.clock.forward(3600)
    assert events.answer() is not answer
    if place.kind != "http":
        assert events.answer() is events.answer()


FULL = """
create function belated_live.full_disk() returns trigger language plpgsql as
$$ begin raise exception using errcode = '53100'; end $$
"""


def test_a_full_disk_loses_nothing(place):
    exp = place.create()
    exp.ask("x")
    if place.kind != "postgres":
        connection = exp._store.storage._connections[True]
        ((pages,),) = connection.execute("pragma page_count").fetchall()
        connection.execute(f"pragma max_page_count = {pages}")
        units = [f"{'long' * 100} {i}" for i in range(500)]
    else:
        beside = psycopg.connect(place.url, autocommit=True)
        beside.execute(FULL)
        beside.execute(
            "create trigger full_disk before insert on belated_live.decision execute function belated_live.full_disk()"
        )
        units = UNITS
    with pytest.raises(bl.live.StorageError, match="the disk is full; free some space"):
        exp.ask_many(units)
    assert len(rows(exp)) == 1
    if place.kind != "postgres":
        connection.execute("pragma max_page_count = 1000000")
    else:
        beside.execute("drop trigger full_disk on belated_live.decision")
        beside.close()
    assert not any(reply.repeated for reply in exp.ask_many(units))
    assert exp.ask("x").repeated
    assert exp._store.verify().clean


class CancelledError(Exception):
    """Raised by a signal while a caller waits."""


def test_a_cancelled_caller_leaves_no_open_transaction(place, monkeypatch):
    exp = place.create()
    go_on, storage = threading.Event(), exp._store.storage
    writing = storage.writing

    def slowly(*given):
        go_on.wait(30)
        return writing(*given)

    def cancel(*_):
        raise CancelledError

    monkeypatch.setattr(storage, "writing", slowly)
    before = signal.signal(signal.SIGALRM, cancel)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(CancelledError):
            exp.ask("x")
    finally:
        signal.signal(signal.SIGALRM, before)
    go_on.set()
    other = place.again()
    with other._store.storage.writing() as session:  # nobody holds it
        ask(session, "button", ["y"])
    assert exp.ask("x").repeated  # it was stored all the same, once
    assert len(rows(exp)) == 2


@of_storages("a call that a client gives up before it is sent is not stored")
def test_a_cancelled_caller_of_an_event_loop_cancels_no_write(place, monkeypatch):
    exp = place.create()
    go_on, storage = threading.Event(), exp._store.storage
    writing = storage.writing

    def slowly(*given):
        go_on.wait(30)
        return writing(*given)

    async def cancel_some():
        asked = [asyncio.create_task(exp.ask_async(unit)) for unit in UNITS[:6]]
        told = asyncio.create_task(exp.tell_async(UNITS[0], 1))
        await asyncio.sleep(0.05)  # all of them wait for the writer
        for task in (*asked[::2], told):
            task.cancel()
        go_on.set()
        return await asyncio.gather(*asked, told, return_exceptions=True)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "writing", slowly)
        *asked, told = asyncio.run(cancel_some())
    assert [isinstance(reply, asyncio.CancelledError) for reply in (*asked, told)] == [True, False] * 3 + [True]
    with place.again()._store.storage.writing() as session:  # nobody holds it
        ask(session, "button", ["y"])
    again = exp.ask_many(UNITS[:6])
    assert all(reply.repeated for reply in again)  # stored all the same, once
    assert [reply.arm for reply in again[1::2]] == [reply.arm for reply in asked[1::2]]
    assert exp.tell(UNITS[0], 1).status == "repeated"
    assert len(rows(exp)) == 7
    assert len(rows(exp, "outcome")) == 1


def test_asynchronous_calls_do_what_the_others_do(place):
    exp, other = place.create(), place.again()

    async def call():
        first = await exp.ask_async("x")
        asked = await exp.ask_many_async(["x", "y"])
        assert await exp.ask_many_async([]) == await exp.tell_many_async([]) == []
        told = [await exp.tell_async("x", 1), *await exp.tell_many_async([("x", 1), ("y", 7), ("z", 1), ("y", 0)])]
        with pytest.raises(bl.live.ContradictionError, match="say that this one is a correction"):
            await exp.tell_async("x", 0)
        with pytest.raises(bl.OptionError, match="must be 0 or 1"):
            await exp.tell_async("x", 2)
        with pytest.raises(bl.OptionError, match="must be text"):
            await exp.ask_async("")
        corrected = await exp.tell_async("x", 0, correct=True)
        return first, asked, [each.status for each in (*told, corrected)]

    first, asked, statuses = asyncio.run(call())
    assert statuses == ["new", "repeated", "refused", "parked", "new", "corrected"]
    assert (first.repeated, asked[0].repeated, asked[1].repeated) == (False, True, False)
    assert [reply[:5] for reply in other.ask_many(["x", "x", "y"])] == [reply[:5] for reply in (first, *asked)]
    exp.stop()
    with pytest.raises(bl.live.NotRunningError, match="takes no new units"):
        asyncio.run(exp.ask_many_async(["x", "new"]))
    exp.close()
    with pytest.raises(bl.live.ClosedError):
        asyncio.run(exp.tell_async("x", 1))
    assert exp._store.verify().clean


def test_who_tells_second_at_the_same_time_learns_what_the_first_said(place):
    """Two transactions look for the same outcomes before either has stored them."""
    exp, other = place.create(), place.again()
    exp.ask_many(UNITS[:3])
    looked, go_on = threading.Event(), threading.Event()

    def work():
        with other._store.storage.writing() as session:
            tell(session, "button", [bl.live.Tell(unit, 1.0) for unit in UNITS[:2]])
            looked.set()
            go_on.wait(30)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(work)
        looked.wait(30)
        second = pool.submit(exp.tell_many, [(UNITS[0], 1), (UNITS[1], 0), (UNITS[2], 1)])
        time.sleep(0.2)
        go_on.set()
        first.result(30)
        assert [each.status for each in second.result(30)] == ["repeated", "contradiction", "new"]
    assert len(rows(exp, "outcome")) == 3
    assert exp._store.verify().clean


def test_who_parks_second_at_the_same_time_learns_what_the_first_said(place):
    exp, other = place.create(), place.again()
    parked, go_on = threading.Event(), threading.Event()

    def work():
        with other._store.storage.writing() as session:
            tell(session, "button", [bl.live.Tell("x", 1.0), bl.live.Tell("y", 1.0)])
            parked.set()
            go_on.wait(30)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(work)
        parked.wait(30)
        second = pool.submit(exp.tell_many, [("x", 0), ("y", 1), ("z", 1)])
        time.sleep(0.2)
        go_on.set()
        first.result(30)
        assert [each.status for each in second.result(30)] == ["contradiction", "parked", "parked"]
    assert [row[1:4] for row in rows(exp, "parked")] == [("x", "", 1.0), ("y", "", 1.0), ("z", "", 1.0)]
    assert exp.tell("x", 0, correct=True).status == "parked"
    exp.ask_many(["x", "y", "z"])
    assert sorted(exp.log().outcome.tolist()) == [0, 1, 1]


def test_crossing_batches_of_unknown_units_do_not_deadlock(place):
    storages = [place.create()._store.storage, place.again()._store.storage]
    for turn in range(10):
        tells, together = [bl.live.Tell(f"{turn} {unit}", 1.0) for unit in UNITS], threading.Barrier(2)

        def work(storage, tells, together=together):
            together.wait(10)
            with storage.writing() as session:
                tell(session, "button", tells)

        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(work, *each) for each in zip(storages, (tells, tells[::-1]), strict=True)]
            for job in jobs:
                job.result(30)
    assert place.again().status().parked == 10 * len(UNITS)
