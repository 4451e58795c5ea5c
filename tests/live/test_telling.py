from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from live_experiments import UNITS, rows

import belated as bl
from belated.live.telling import tell


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


def test_old_and_new_events_of_a_unit_in_a_batch(place):
    exp = place.create(outcome=bl.live.events("1d", "count"))
    exp.ask_many(["x", "y"])
    exp.tell_many([("x", 1, "a"), ("y", 1, "a")])
    said = exp.tell_many([("x", 1, "b"), ("x", 1, "a"), ("x", 0, "a"), ("x", 0, "a", None, True), ("y", 0, "a")])
    assert [each.status for each in said] == ["new", "repeated", "contradiction", "corrected", "contradiction"]
    assert len(rows(exp, "outcome")) == 4
    said = exp.tell_many([("y", 1, "b"), ("y", 1, "a"), ("y", 0, "b")])
    assert [each.status for each in said] == ["new", "repeated", "contradiction"]


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


@pytest.mark.filterwarnings("ignore::belated.BelatedWarning")  # of few outcomes
@pytest.mark.parametrize("later", [86_400, 0, -60])  # a clock may be set back
def test_an_event_that_was_told_before_its_unit_was_asked_is_not_in_the_window(place, later):
    """A shop tells all of its orders, also those of customers who come into the experiment later."""
    exp = place.create(outcome=bl.live.events("1h", "count"))
    place.clock.forward(120)
    said = exp.tell_many([("x", 1, "an old order"), ("y", 1, "an older one")])
    assert [each.status for each in said] == ["parked", "parked"]
    place.clock.forward(later)
    exp.ask_many(["x", "y"])
    assert exp.answer().counts.parked == 0
    place.clock.forward(60)
    assert exp.tell_many([("x", 1, "an old order"), ("x", 1, "a new order")])[0].status == "repeated"
    place.clock.forward(3601)
    assert sum(exp.tick().totals) == 1
    for log in (exp.log(), bl.read(place.home, table="button", as_of=exp.answer().as_of)):
        assert log.log().outcome.tolist() == [1, 0]
    assert exp._store.verify().clean


def test_a_unit_that_is_asked_while_its_outcome_is_parked_elsewhere_gets_it(place):
    exp = place.create()
    exp.ask("x")
    place.sql("insert into parked values (?, 'x', '', 1.0, null, 0)", exp._id)  # as a process that saw no decision did
    exp.tick()
    assert exp.answer().counts == bl.live.Counts(asked=1, told=1)


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
