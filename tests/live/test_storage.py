"""What every storage promises, in the words of `belated.live.storage.Storage`. Its clauses are tested in these files:

- on the disk when it ends, all or nothing, and nothing lost by a kill: here, test_ticking.py, test_kills.py
- one decision of a unit, whoever asks at once: test_asking.py
- a decision is of a committed version, and drawn by the salt: test_asking.py, test_verifying.py
- transactions do not wait for each other in a circle: here
- an outcome counts once, another value is refused or a correction: test_telling.py
- a watermark passes no row that is still to be committed: here, test_ticking.py
- the storage's own time, whatever clocks do: here
- versions without gaps, one of two ticks at once: test_ticking.py
- nothing changed but states, problems and erased units: test_erasing.py, test_keeping.py, test_verifying.py
- a newer schema is refused, an older one upgraded: test_schema.py
- no units, salts and outcomes in messages: test_store.py, test_asking.py, test_verifying.py

The fixture `place` runs each of them in every storage and through a service; `of_storages` says why one does not
concern a client.
"""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from live_experiments import UNITS, rows, start_python, stored

import belated as bl
from belated.live.asking import ask
from belated.live.telling import tell
from tests.live.conftest import of_storages

KILLED = """
import os, signal, sys, belated as bl
exp = bl.live.open(sys.argv[1], ticking=False).experiment("button")
for i in range(5):
    print(exp.ask(f"unit-{i:02}").arm, exp.tell(f"unit-{i:02}", i % 2).status, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_ask_is_durable_when_answered(place):
    exp = place.create()
    with start_python(KILLED, place.url) as process:
        said = [line.split() for line in process.stdout]
    assert process.returncode == -signal.SIGKILL
    assert [status for _, status in said] == ["new"] * 5
    replies = exp.ask_many(UNITS[:5])
    assert [reply.arm for reply in replies] == [arm for arm, _ in said]
    assert all(reply.repeated for reply in replies)
    assert [each.status for each in exp.tell_many((f"unit-{i:02}", i % 2) for i in range(5))] == ["repeated"] * 5


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
    begun, cancelled, go_on, storage = threading.Event(), threading.Event(), threading.Event(), exp._store.storage
    writing, caller = storage.writing, threading.get_ident()

    def slowly(*given):
        begun.set()
        go_on.wait(600)
        return writing(*given)

    def interrupt():  # again if the caller was just about to wait: it would not hear the first signal
        begun.wait(600)
        while not cancelled.wait(0.2):
            signal.pthread_kill(caller, signal.SIGALRM)

    def cancel(*_):
        if not cancelled.is_set():
            cancelled.set()
            raise CancelledError

    monkeypatch.setattr(storage, "writing", slowly)
    before = signal.signal(signal.SIGALRM, cancel)
    try:
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(CancelledError):
            exp.ask("x")
    finally:
        cancelled.set()
        thread.join()
        signal.signal(signal.SIGALRM, before)
    go_on.set()
    other = place.again()
    with other._store.storage.writing() as session:  # nobody holds it
        ask(session, "button", ["y"])
    assert exp.ask("x").repeated  # it was stored all the same, once
    assert len(rows(exp)) == 2


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


@of_storages("a client numbers no rows")
def test_a_transaction_numbers_its_rows_one_after_another_and_not_too_many(place):
    storage = place.open().storage
    with storage.writing() as session:
        first, second = session.new_ids(2), session.new_ids(3)
        assert [*first, *second] == list(range(first[0], first[0] + 5))
        assert first[0] >= session.watermark
        with pytest.raises(bl.live.StorageError, match="can hold 16,777,216 rows; store fewer at a time"):
            session.new_ids(1 << 24)
    with storage.writing() as session:
        assert session.new_ids(1)[0] > second[-1]
