from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import belated as bl
from belated.live.writer import Writer


class Gate:
    """A storage that stores nothing, and whose transactions wait until the gate is open."""

    def __init__(self) -> None:
        self.open, self.entered, self.transactions = threading.Event(), threading.Event(), 0
        self.error: Exception | None = None
        self.threads: list[threading.Thread] = []

    @contextmanager
    def writing(self, experiments=()):
        self.threads.append(threading.current_thread())
        self.entered.set()
        self.open.wait(30)
        self.transactions += 1
        if self.error is not None:
            raise self.error
        yield self


@pytest.fixture
def gate(monkeypatch):
    monkeypatch.setattr("belated.live.writer.ask", lambda _, name, units: [f"{name} {unit}" for unit in units])
    return Gate()


@pytest.fixture
def store(tmp_path):
    with bl.live.open(tmp_path / "shop.belated", ticking=False, limit=2) as opened:
        yield opened


def test_callers_of_threads_and_event_loops_share_commits(gate):
    writer = Writer(gate, lambda *_: None)

    async def call(first):
        jobs = [writer.submit_async("ask", "x", [first + i]) for i in range(50)]
        gate.open.set()
        return await asyncio.gather(*jobs)

    with ThreadPoolExecutor(10) as pool:
        blocking = [pool.submit(writer.submit, "ask", "x", [i, -i]) for i in range(8)]
        loops = [pool.submit(asyncio.run, call(100 * i)) for i in (1, 2)]
        assert [job.result(30) for job in blocking] == [[f"x {i}", f"x {-i}"] for i in range(8)]
        for i, job in enumerate(loops, 1):
            assert job.result(30) == [[f"x {100 * i + j}"] for j in range(50)]
    writer.close()
    load = writer.load()
    assert (load.waiting, load.requests, load.rows) == (0, 108, 116)
    assert load.commits == gate.transactions == len(load.recent) < 20
    assert sum(commit.rows for commit in load.recent) == load.rows


def test_one_commit_resolves_all_callers_of_an_event_loop_by_one_call(gate, monkeypatch):
    writer = Writer(gate, lambda *_: None)

    async def call():
        loop, calls = asyncio.get_running_loop(), []
        soon = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *given: calls.append(1) or soon(*given))
        first = writer.submit_async("ask", "x", [0])
        await asyncio.to_thread(gate.entered.wait, 30)
        calls.clear()
        rest = [writer.submit_async("ask", "x", [i]) for i in range(100)]
        gate.open.set()
        await asyncio.gather(first, *rest)
        return len(calls)

    assert asyncio.run(call()) == 2
    writer.close()


def test_too_many_requests_are_refused_at_once(gate):
    writer = Writer(gate, lambda *_: None, limit=3)

    async def call():
        jobs = [writer.submit_async("ask", "x", [0])]
        await asyncio.to_thread(gate.entered.wait, 30)
        jobs += [writer.submit_async("ask", "x", [i]) for i in (1, 2)]
        with pytest.raises(bl.live.OverloadedError, match="3 requests are waiting for the storage; ask again later"):
            writer.submit_async("ask", "x", [3])
        with pytest.raises(bl.live.OverloadedError):
            writer.submit("ask", "x", [3])
        assert (writer.waiting, writer.load().refused) == (3, 2)
        gate.open.set()
        assert await asyncio.gather(*jobs) == [["x 0"], ["x 1"], ["x 2"]]
        assert await writer.submit_async("ask", "x", [3]) == ["x 3"]

    asyncio.run(call())
    writer.close()


def test_the_limit_of_a_store(store, tmp_path):
    assert store.load()[:5] == (0, 2, 0, 0, 0)
    exp = store.create("x", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary()).start()
    exp.ask_many(["a", "b", "c"])
    assert store.load()[:5] == (0, 2, 1, 1, 3)
    (commit,) = store.load().recent
    assert commit == (1, 3, store.load().seconds)
    with pytest.raises(bl.OptionError, match="limit"):
        bl.live.open(tmp_path / "other.belated", limit=0)
    assert not (tmp_path / "other.belated").exists()


def test_a_failed_commit_fails_all_its_callers(gate):
    writer = Writer(gate, lambda *_: None)
    gate.error = bl.live.StorageError("The disk is full.")
    gate.open.set()

    async def call():
        jobs = [writer.submit_async("ask", "x", [1, 2]), *(writer.submit_one_async("ask", "x", i) for i in range(2))]
        return await asyncio.gather(*jobs, return_exceptions=True)

    assert [str(error) for error in asyncio.run(call())] == ["The disk is full."] * 3
    with pytest.raises(bl.live.StorageError, match="disk is full"):
        writer.submit("ask", "x", [1])
    assert (writer.load().failed, writer.load().commits) == (4, 0)
    gate.error = None
    assert writer.submit("ask", "x", [1]) == ["x 1"]
    writer.close()


def test_a_loop_that_has_ended_stops_nobody(gate):
    writer, other = Writer(gate, lambda *_: None), asyncio.new_event_loop()

    async def leave():
        writer.submit_async("ask", "x", [1])

    other.run_until_complete(leave())
    other.close()
    gate.open.set()
    assert writer.submit("ask", "x", [2]) == ["x 2"]
    writer.close()
    assert writer.load().rows == 2


def test_what_comes_after_the_end_is_refused(gate):
    writer = Writer(gate, lambda *_: None)
    writer.close()
    writer._open, writer._last = True, 2  # as a caller saw it that was about to queue its request
    with pytest.raises(bl.live.StorageError, match="is closed; open it again"):
        writer.submit("ask", "x", [1])


def test_a_caller_that_is_alone_commits_itself(gate):
    gate.open.set()
    writer = Writer(gate, lambda *_: None)
    with ThreadPoolExecutor(1) as pool:
        ask = lambda unit: pool.submit(writer.submit, "ask", "x", [unit]).result(30)  # noqa: E731
        assert ask(1) == ["x 1"]
        gate.error = bl.live.StorageError("The disk is full.")
        with pytest.raises(bl.live.StorageError, match="full"):
            ask(2)
        gate.error = None
        assert ask(3) == ["x 3"]
        assert {*gate.threads} == pool._threads
        assert writer.load()._replace(recent=(), seconds=0.0) == (0, None, 2, 2, 2, 0.0, 0, 1, ())
        assert writer.submit("ask", "x", [4]) == ["x 4"]  # the main thread never does: a signal may raise in it
        assert gate.threads[-1] is writer._thread
        writer.close()
        with pytest.raises(bl.live.StorageError, match="is closed; open it again"):
            ask(5)


def test_who_comes_while_a_caller_commits_itself_is_committed_with_the_others(gate):
    writer = Writer(gate, lambda *_: None)
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(writer.submit, "ask", "x", [0])
        assert gate.entered.wait(30)
        rest = [pool.submit(writer.submit, "ask", "x", [i]) for i in range(1, 5)]
        while writer.waiting < 5:
            pass
        closing = pool.submit(writer.close)
        while writer._open:
            pass
        assert not closing.done()  # it waits for all that was taken
        gate.open.set()
        assert [each.result(30) for each in (first, *rest)] == [[f"x {i}"] for i in range(5)]
        closing.result(30)
    assert gate.transactions == 2
    assert [commit.requests for commit in writer.load().recent] == [1, 4]


def test_callers_of_a_turn_of_an_event_loop_are_one_request_and_each_gets_its_own(gate):
    gate.open.set()
    writer = Writer(gate, lambda *_: None)

    async def call():
        jobs = [writer.submit_async("ask", "x", list(range(i))) for i in range(4)]
        jobs += [writer.submit_async("ask", "y", [9])]
        assert (writer.waiting, len(writer._turns)) == (4, 2)  # who asks for nothing does not wait
        jobs[1].cancel()
        return await asyncio.gather(*jobs, return_exceptions=True)

    none, cancelled, two, three, other = asyncio.run(call())
    assert (none, two, three, other) == ([], ["x 0", "x 1"], ["x 0", "x 1", "x 2"], ["y 9"])
    assert isinstance(cancelled, asyncio.CancelledError)
    assert (gate.transactions, writer.load().requests, writer.load().rows) == (1, 4, 7)
    writer.close()


def test_callers_with_one_item_get_its_result_and_share_commits_with_batches(gate):
    gate.open.set()
    writer = Writer(gate, lambda *_: None)

    async def call():
        jobs = [writer.submit_one_async("ask", "x", i) for i in range(3)]
        jobs += [writer.submit_async("ask", "x", [7, 8]), writer.submit_one_async("ask", "y", 9)]
        assert (writer.waiting, len(writer._turns)) == (5, 3)
        jobs[1].cancel()
        return await asyncio.gather(*jobs, return_exceptions=True)

    first, cancelled, third, batch, other = asyncio.run(call())
    assert (first, third, batch, other) == ("x 0", "x 2", ["x 7", "x 8"], "y 9")
    assert isinstance(cancelled, asyncio.CancelledError)
    assert (gate.transactions, writer.load().requests, writer.load().rows) == (1, 5, 6)
    writer.close()


def test_a_turn_that_submits_very_much_is_several_requests(gate, monkeypatch):
    monkeypatch.setattr("belated.live.writer._MOST_ROWS", 10)
    gate.open.set()
    writer = Writer(gate, lambda *_: None)

    async def call():
        return await asyncio.gather(*(writer.submit_async("ask", "x", [i] * 4) for i in range(9)))

    assert asyncio.run(call()) == [[f"x {i}"] * 4 for i in range(9)]
    assert [commit.rows for commit in writer.load().recent] == [12, 12, 12]
    writer.close()


def test_what_an_event_loop_has_submitted_is_stored_if_it_closes_the_writer(gate):
    gate.open.set()
    writer = Writer(gate, lambda *_: None)

    async def call():
        job = writer.submit_async("ask", "x", [1])
        writer.close()
        return await job

    assert asyncio.run(call()) == ["x 1"]


def test_what_another_event_loop_has_not_handed_over_is_refused_when_the_writer_closes(gate):
    gate.open.set()
    writer = Writer(gate, lambda *_: None)

    async def call():
        job = writer.submit_async("ask", "x", [1])
        closing = threading.Thread(target=writer.close)
        closing.start()
        closing.join(30)
        return await job

    with pytest.raises(bl.live.StorageError, match="is closed; open it again"):
        asyncio.run(call())
