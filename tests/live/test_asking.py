from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from live_experiments import SEGMENTS, UNITS, create_by_segment, learn_by_segment, rows, start_python, stored

import belated as bl
from belated.live.design import snapshot
from belated.live.draws import choose, cumulative, uniform
from tests.live.conftest import of_storages


def drawn(exp):
    """Return the unit, arm, version and segment of each decision, and the experiment."""
    with exp._store.storage.reading() as session:
        found = session.run(
            "select unit, arm, version, segment from decision where experiment = ? order by id", exp._id
        )
        return found, snapshot(session, exp.name)


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
    processes = [start_python(ASKS, place.url) for _ in range(2)]
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
    assert chi2 < 27.6  # the 1 - 1e-6 quantile with 2 degrees of freedom


def test_every_arm_recomputes_from_the_salt(place):
    exp = place.create(policy=bl.policies.fixed({"A": 0.4, "B": 0.6}))
    replies = exp.ask_many(UNITS)
    salt = drawn(exp)[1].salt
    assert [reply.arm for reply in replies] == ["AB"[uniform(salt, unit) >= 0.4] for unit in UNITS]
    assert exp._store.verify().clean
    place.sql("update decision set arm = 1 - arm where unit = ?", UNITS[3])
    (finding,) = exp._store.verify().findings
    assert "1 decision that its unit and the salt do not give" in finding
    assert UNITS[3] not in finding


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


# ---------------------------------------------------------------- segments


def test_a_unit_keeps_its_first_segment(place):
    exp = create_by_segment(place)
    first = exp.ask("x", "DE")
    again = place.again().ask("x", segment="FR")
    assert (first.segment, first.repeated) == ("DE", False)
    assert again == first._replace(repeated=True)
    replies = exp.ask_many(["y", "y", "z"], ["ES", "DE", "DE"])
    assert [reply.segment for reply in replies] == ["ES", "ES", "DE"]
    assert replies[0].to_dict()["segment"] == "ES"


def test_the_same_unit_with_two_segments_at_once_makes_one_row(place):
    exp, other = create_by_segment(place), place.again()
    units = [f"unit-{i:02}" for i in range(30)]
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(one.ask, unit, segment)
            for unit in units
            for one, segment in ((exp, "DE"), (other, "FR"), (exp, "FR"), (other, "DE"))
        ]
        replies = [job.result() for job in jobs]
    found, _ = drawn(exp)
    assert len(found) == len(units)
    assert len({(reply.unit, reply.segment, reply.arm) for reply in replies}) == len(units)
    assert exp._store.verify().clean


def test_segments_that_cannot_be_are_refused_in_a_sentence(place):
    exp, plain = create_by_segment(place), place.create("plain")
    with pytest.raises(bl.OptionError, match="`segment` is given, but the experiment has no segments; leave it out"):
        plain.ask("x", "DE")
    with pytest.raises(bl.OptionError, match="`segment` is missing; this experiment needs the segment of every unit"):
        exp.ask("x")
    with pytest.raises(bl.OptionError, match="`segment` is 'IT'; it must be one of 'FR', 'DE', 'ES', or be added"):
        exp.ask("x", "IT")
    with pytest.raises(bl.OptionError, match="has 1 names, but there are 2 units"):
        exp.ask_many(["x", "y"], ["DE"])
    with pytest.raises(bl.OptionError, match="is of type int"):
        exp.ask("x", 3)
    with pytest.raises(bl.live.LiveError, match="has no segments; they are declared when"):
        plain.add_segment("IT")
    assert exp.ask_many([], []) == []
    assert drawn(exp)[0] == drawn(plain)[0] == []


@of_storages("it holds the storage's writer up")
def test_an_unknown_segment_harms_no_other_caller(place, monkeypatch):
    exp = create_by_segment(place)
    go_on, storage = threading.Event(), exp._store.storage
    writing = storage.writing

    def slowly(*given):
        go_on.wait(30)
        return writing(*given)

    monkeypatch.setattr(storage, "writing", slowly)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(exp.ask, f"u{i}", segment) for i, segment in enumerate(["DE", "IT", "FR", "DE"])]
        go_on.set()
        errors = [job.exception() for job in jobs]
    assert [type(error) for error in errors] == [type(None), bl.OptionError, type(None), type(None)]
    assert sorted(row[0] for row in drawn(exp)[0]) == ["u0", "u2", "u3"]


def test_every_arm_recomputes_from_the_salt_and_the_segment(place):
    exp = create_by_segment(place)
    learn_by_segment(exp)
    found, about = drawn(exp)
    made = {version.number: version for version in stored(exp)}
    assert [arm for _, arm, *_ in found] == [
        choose(uniform(about.salt, unit), cumulative(made[number].chances(segment)))
        for unit, _, number, segment in found
    ]
    assert exp._store.verify().clean
    place.sql("update decision set segment = 7 where unit = ?", found[0][0])
    place.sql("update decision set segment = null where unit = ?", found[1][0])
    first, second = exp._store.verify().findings
    assert "version 2 has seen a decision for an arm or a segment that is not there" in first
    assert "2 decisions of a segment that its version does not have" in second


@of_storages("a Python function is not sent over HTTP")
def test_draws_follow_the_probabilities_of_the_segment(place):
    rates = {"FR": [1.0, 0.0, 0.0], "DE": [0.0, 0.3, 0.7], "ES": [0.2, 0.2, 0.6]}
    calls = iter([[1 / 3] * 3] * 3 + [rates[segment] for segment in SEGMENTS] * 2)
    exp = create_by_segment(place, policy=bl.policies.own(lambda count, total, t: next(calls)))
    exp.ask("first", "FR")
    exp.tick()
    for segment, p in rates.items():
        replies = exp.ask_many([f"{segment} {i}" for i in range(1000)], [segment] * 1000)
        drawn = Counter(reply.arm for reply in replies)
        assert list(replies[0].probabilities.values()) == p
        assert all(drawn[arm] == 0 for arm, each in zip("ABC", p, strict=True) if not each)
        chi2 = sum((drawn[arm] - 1000 * each) ** 2 / (1000 * each) for arm, each in zip("ABC", p, strict=True) if each)
        assert chi2 < 27.6  # the 1 - 1e-6 quantile with 2 degrees of freedom


def test_asynchronous_asks_have_segments(place):
    exp = create_by_segment(place)

    async def call():
        first = await exp.ask_async("x", "DE")
        both = await exp.ask_many_async(["x", "y"], ["FR", "ES"])
        with pytest.raises(bl.OptionError, match="must be one of"):
            await exp.ask_async("z", "IT")
        return first, both

    first, both = asyncio.run(call())
    assert [first.segment, *(reply.segment for reply in both)] == ["DE", "DE", "ES"]


def test_stopped_gives_the_final_arm_in_every_segment(place):
    exp = create_by_segment(place)
    first = exp.ask("x", "DE")
    exp.stop(final="B")
    assert exp.ask("x", "FR") == first._replace(repeated=True)
    later = exp.ask("y", "ES")
    assert (later.arm, later.segment, later.logged) == ("B", "ES", False)
    with pytest.raises(bl.OptionError, match="must be one of"):
        exp.ask("y", "IT")
