from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest
from engines import _parameter

import belated as bl
from belated.live import asking, postgres, telling
from belated.live.asking import ask
from belated.live.changing import Author, set_arm
from belated.live.design import snapshot
from belated.live.erasing import erase
from belated.live.postgres import _LOCK, _prepare_plans
from belated.live.records import Tell
from belated.live.schema import next_transaction
from belated.live.telling import tell
from belated.reading.live_logs import PLACES

FETCHED = "select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables where relname = 'decision'"


pytestmark = pytest.mark.parametrize("engine", [_parameter("postgres")], indirect=True)


def test_units_are_looked_up_however_small_the_engine_believes_the_experiment_to_be(place):
    exp = place.create()
    exp.ask_many(f"unit-{i}" for i in range(3000))
    with exp._store.storage.writing() as session:
        ((before,),) = session.run(FETCHED)
        found = session.find_decisions(exp._id, ["unit-7", "nobody", "unit-8"], "d.unit")
        ((after,),) = session.run(FETCHED)
    assert sorted(found) == [(0, "unit-7"), (2, "unit-8")]
    assert after - before <= 3


@pytest.mark.parametrize("stopped", [False, True])
def test_asking_again_writes_nothing_and_waits_for_nobody_who_stores_outcomes(place, stopped):
    """A lock on a row is written to the disk, so that a repeated ask would take several times as long."""
    exp, other = place.create(), place.open()
    exp.ask_many(["x", "y"])
    if stopped:
        exp.stop()
    locked = "select count(*) from decision where xmax <> 0"
    assert [each.repeated for each in exp.ask_many(["x", "y"])] == [True, True]
    assert place.sql(locked) == [(0,)]
    with other.storage.writing() as session:
        session.find_decisions(exp._id, ["x"], "d.id", hold=True)
        assert exp.ask("x").repeated
    assert place.sql(locked) == [(1,)]


def test_a_pool_that_gives_another_connection_loses_no_ask(place):
    """Statements are planned once a connection; another connection does not have them."""
    exp = place.create()
    exp.ask("x")
    for connection in exp._store.storage._connections.values():
        connection.execute("deallocate all")
    assert exp.ask("x").repeated
    assert not exp.ask("y").repeated
    assert len(exp.log()) == 2


def test_names_of_planned_statements_change_with_their_texts(place):
    """A pool may give a connection on which another version of the library has planned its own statements."""
    connection = place.create()._store.storage._connections[True]
    before = dict(connection.execute("select name, statement from pg_prepared_statements").fetchall())
    assert all(name.startswith("belated_") for name in before)
    other = place.again()._store.storage._connections[True]
    assert before == dict(other.execute("select name, statement from pg_prepared_statements").fetchall())
    _prepare_plans(other, writes=True)  # as another client of a pool does


def test_an_ask_knows_what_changed_since_the_last_one(place):
    """The row of an experiment is read as the transaction begins, by a number that is kept between transactions."""
    exp, other = place.create(), place.again()
    version = exp.ask("x").version
    other.set_policy(bl.policies.fixed({"B": 1.0}), reason="all of them")
    assert (exp.ask("y").arm, exp.ask("y").version) == ("B", version + 1)
    other.stop(reason="enough")
    with pytest.raises(bl.live.NotRunningError):
        exp.ask("z")


def test_a_number_that_another_experiment_has_now_is_looked_up_again(place):
    exp = place.create()
    exp.ask("x")
    place.create("other")
    storage = exp._store.storage
    ((number,),) = place.sql("select id from experiment where name = 'other'")
    storage._numbers["button"] = number  # as if the store had been replaced
    assert exp.ask("x").repeated


def test_a_store_that_is_opened_while_others_write_does_not_move_numbers(place):
    """Otherwise a transaction that has begun would store its rows below a watermark that a tick has passed."""
    exp = place.create()
    waiting = "select count(*) from pg_stat_activity where wait_event = 'advisory' and datname = current_database()"
    with ThreadPoolExecutor(1) as pool, psycopg.connect(place.url, autocommit=True) as other:
        other.execute("select pg_advisory_lock(%s)", [_LOCK])
        opened = pool.submit(place.again)  # has its number, and waits for the lock
        while other.execute(waiting).fetchone() == (0,):
            time.sleep(0.01)
        exp.ask_many(["x", "y"])
        other.execute("select pg_advisory_unlock(%s)", [_LOCK])
        assert opened.result(30).ask("x").repeated
    assert place.sql("select value from meta where key = 'offset'") == [("0",)]


def test_rows_that_are_stored_while_a_store_is_opened_do_not_move_numbers(place, monkeypatch):
    exp, units = place.create(), iter("abcdef")

    def highest(session):
        exp.ask(next(units))
        return next_transaction(session)

    monkeypatch.setattr(postgres, "next_transaction", highest)
    place.open()
    assert exp.ask("a").repeated
    assert place.sql("select value from meta where key = 'offset'") == [("0",)]


def test_rows_of_another_server_are_below_new_ones(place):
    exp = place.create()
    highest = 10**6 << PLACES
    place.sql("insert into decision values (?, ?, 'x', 0, 1, 5, null)", highest, exp._id)
    place.again().ask("y")
    ((number,),) = place.sql("select id from decision where unit = 'y'")
    assert number > highest


def test_equal_and_other_values_of_a_column_are_stored_as_they_are(place):
    exp = place.create()
    rows = [(i, exp._id, i, "", 0, value, None, 5) for i, value in enumerate([0.0, -0.0])]
    with exp._store.storage.writing() as session:
        assert session.add("outcome", rows) == 2
        assert session.add("outcome", rows[:1], unless="decision, key, revision") == 0
        found = session.run("select * from outcome order by id")
    assert found == rows
    assert [math.copysign(1, row[5]) for row in found] == [1, -1]


def test_an_outcome_that_is_parked_while_its_unit_is_asked_is_adopted_after_a_stop_too(place):
    exp, other = place.create(), place.open()
    with other.storage.writing() as session:
        ask(session, "button", ["x"])
        assert exp.tell("x", 1).status == "parked"
    exp.stop()
    exp.tick()
    assert exp.answer().counts == bl.live.Counts(asked=1, told=1)
    assert exp._store.verify().clean


def test_a_unit_that_is_erased_while_its_events_are_told_keeps_no_key_and_counts_none_twice(place):
    exp, other = place.create(outcome=bl.live.events("1h", "count")), place.open()
    exp.ask("x")
    exp.tell("x", key="order 1")
    with ThreadPoolExecutor(1) as pool:
        with other.storage.writing() as session:
            tell(session, "button", [Tell("x", 1, "order 2")])
            erased = pool.submit(exp.erase, "x")
            time.sleep(0.2)
            assert [each.status for each in tell(session, "button", [Tell("x", 1, "order 1")])] == ["repeated"]
        assert erased.result(60)
    with exp._store.storage.reading() as session:
        assert session.run("select count(*), count(distinct key), max(length(key)) from outcome") == [(2, 2, 16)]


def test_an_event_that_is_told_while_its_unit_is_erased_is_parked(place):
    exp, other = place.create(outcome=bl.live.events("1h", "count")), place.open()
    exp.ask("x")
    exp.tell("x", key="order 1")
    with ThreadPoolExecutor(1) as pool:
        with other.storage.writing() as session:
            assert erase(session, "button", "x")
            told = pool.submit(exp.tell_many, [Tell("x", 1, "order 1"), Tell("x", 2, "order 2", None, True)])
            time.sleep(0.2)
        assert [each.status for each in told.result(60)] == ["parked", "parked"]
    assert exp.status().told == 1
    assert exp._store.verify().clean


def test_a_unit_that_is_erased_while_its_parked_event_is_adopted_keeps_no_key(place, monkeypatch):
    exp, other = place.create(outcome=bl.live.events("1h", "count")), place.open()
    exp.tell("x", key="order 1")
    with monkeypatch.context() as patched:
        patched.setattr(asking, "adopt", lambda *_: 0)  # as if it had been parked while the unit was asked
        exp.ask("x")
    known = telling._outcomes
    with ThreadPoolExecutor(1) as pool:
        erased = []

        def meanwhile(*given):
            erased.append(pool.submit(exp.erase, "x"))
            time.sleep(0.2)
            return known(*given)

        monkeypatch.setattr(telling, "_outcomes", meanwhile)
        with other.storage.writing() as session:
            assert telling.adopt(session, snapshot(session, "button")) == 1
        assert erased[0].result(60)
    with exp._store.storage.reading() as session:
        assert session.run("select count(*), max(length(key)) from outcome") == [(1, 16)]
        assert session.run("select count(*) from parked") == [(0,)]


def test_a_unit_that_is_asked_while_its_parked_event_is_erased_is_erased_too(place):
    exp, other = place.create(outcome=bl.live.events("1h", "count")), place.open()
    exp.tell("x", key="order 1")
    with ThreadPoolExecutor(1) as pool:
        with other.storage.writing() as session:
            ask(session, "button", ["x"])
            erased = pool.submit(exp.erase, "x")
            time.sleep(0.2)
        assert erased.result(60)
    with exp._store.storage.reading() as session:
        assert session.run("select count(*), max(length(key)) from outcome") == [(1, 16)]
        assert session.run("select count(*) from decision where unit = 'x'") == [(0,)]


def test_a_change_that_waited_for_another_is_noted_after_it(place):
    """Its transaction may have begun before that of the other, and have the lower number."""
    exp = place.create(arms=["A", "B", "C"])
    store, other = place.open(), place.again()
    with store.storage.writing() as session:
        other.pause_arm("A")
        set_arm(session, "button", "A", "offered", store.find_policy, Author("Ada", ""))
    assert [each.what for each in exp.changes()][2:] == ["pause arm", "resume arm"]
    assert store.verify().clean


@pytest.mark.parametrize("outcome", [bl.live.real(), bl.live.events("1h", "sum")])
def test_a_correction_counts_whichever_transaction_began_first(place, outcome):
    exp = place.create(outcome=outcome)
    other = place.again()
    exp.ask("ada")
    with exp._store.storage.writing() as session:
        other.tell("ada", 5)
        assert [each.status for each in tell(session, "button", [Tell("ada", 2, correct=True)])] == ["corrected"]
    place.clock.forward(3601)
    assert sum(exp.tick().totals) == 2
    log = exp.log()
    assert (log.closed() if outcome.is_events else log).log().outcome.tolist() == [2]
    assert exp._store.verify().clean


def sums(exp, place):
    """The rows and the sum of the outcomes of an experiment, in its log, in its answer and as `bl.read` reads it."""
    as_of = {"as_of": exp.answer().as_of} if exp.setup.outcome.is_events else {}
    logs = [exp.log(), exp.answer().log, bl.read(place.url, table="button", **as_of)]
    rows = {len(log) for log in logs}
    found = [(log.closed() if exp.setup.outcome.is_events else log).log() for log in logs]
    return rows, {float(np.nansum(log.outcome)) for log in found}


@pytest.mark.parametrize("outcome", [bl.live.real(), bl.live.events("1h", "sum")])
def test_an_outcome_waits_for_its_decision_whichever_transaction_began_first(place, outcome):
    """Between the two began a transaction that is still open: the outcome is below the watermark, its decision not."""
    exp = place.create(outcome=outcome)
    other = place.again()
    other.ask_many(["bob", "cleo"])
    other.tell("bob", 3)
    with psycopg.connect(place.url) as between:
        with exp._store.storage.writing() as session:
            between.execute("select pg_current_xact_id()")
            other.ask("ada")
            assert tell(session, "button", [Tell("ada", 5)])[0].status == "new"
        place.clock.forward(3601)
        for _ in range(2):
            assert sums(exp, place) == ({2}, {3.0})
    for _ in range(2):
        assert sums(exp, place) == ({3}, {8.0})
    assert sum(exp.tick().totals) == 8
    assert exp._store.verify().clean


@pytest.mark.parametrize("outcome", [bl.live.real(), bl.live.events("1h", "sum")])
def test_a_correction_waits_for_the_first_value_whichever_transaction_began_first(place, outcome):
    exp = place.create(outcome=outcome)
    other = place.again()
    exp.ask_many(["ada", "bob"])
    exp.tell("bob", 3)
    with psycopg.connect(place.url) as between:
        with exp._store.storage.writing() as session:
            between.execute("select pg_current_xact_id()")
            other.tell("ada", 5)
            assert tell(session, "button", [Tell("ada", 2, correct=True)])[0].status == "corrected"
        place.clock.forward(3601)
        assert sums(exp, place) == ({2}, {3.0})
        assert exp.answer().counts.corrected == 0
    assert sums(exp, place) == ({2}, {5.0})
    assert exp.answer().counts.corrected == 1
    assert sum(exp.tick().totals) == 5
    assert exp._store.verify().clean


def test_a_unit_that_is_erased_while_it_is_asked_is_a_new_one(place, monkeypatch):
    """Another server may erase it after the ask has seen that it is there, and before it reads its decision."""
    exp = place.create()
    other, find = place.again(), asking._find
    exp.ask("ada")

    def found(*arguments):
        monkeypatch.setattr(asking, "_find", find)
        assert other.erase("ada")
        return find(*arguments)

    monkeypatch.setattr(asking, "_find", found)
    assert [each.repeated for each in exp.ask_many(["ada", "bob"])] == [False, False]
    assert exp.status().asked == 3
    assert exp._store.verify().clean
