from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from live_experiments import UNITS, rows

import belated as bl
from belated.live.asking import ask
from tests.live.conftest import of_storages


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


@pytest.mark.filterwarnings("ignore::belated.BelatedWarning")  # of few outcomes
def test_a_window_that_was_open_when_the_experiment_was_closed_does_not_become_zero(place):
    """No event is taken after the close, so that silence says nothing."""
    place.clock.forward(-(10**8))  # before the present of this machine, by whose clock files are read
    exp = place.create("events", outcome=bl.live.events("1h"))
    exp.ask_many(UNITS[:20])
    place.clock.forward(1800)
    exp.ask_many(UNITS[20:])
    place.clock.forward(900)
    exp.tell_many((unit, 1) for unit in UNITS[::3])
    place.clock.forward(900)
    before = exp.answer()
    exp.close()
    for seconds in (0, 900, 10**6):
        place.clock.forward(seconds)
        answer = exp.answer()
        assert answer.counts == bl.live.Counts(asked=40, told=20, never=20)
        assert answer.as_of == before.as_of
        estimates = answer.estimate, bl.estimate(exp.log()), bl.estimate(bl.read(place.home, table="events"))
        assert {each.to_json() for each in estimates} == {before.estimate.to_json()}


def test_a_clock_that_is_set_back_before_the_close_loses_no_unit(place):
    exp = place.create(outcome=bl.live.events("1h"))
    exp.ask_many(UNITS[:20])
    place.clock.forward(4000)
    exp.ask_many(UNITS[20:])
    place.clock.forward(-1800)
    exp.close()
    place.clock.forward(10**6)
    assert exp.answer().counts == bl.live.Counts(asked=40, told=20, never=20)
    assert len(exp.log().log()) == 40


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
