from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from served import serving

import belated as bl
from belated.live.dashboard.pages import routes
from belated.live.service import Settings, service
from belated.live.service.service import Once
from tests.live.service.conftest import BUTTON


def test_an_answer_is_computed_once_for_all_who_wait_and_again_for_who_comes_later():
    begun, go, runs = threading.Semaphore(0), threading.Semaphore(0), []

    def act():
        begun.release()
        go.acquire()
        runs.append(len(runs))
        return len(runs)

    async def main():
        once = Once(act)
        with ThreadPoolExecutor(2) as threads:
            first = asyncio.ensure_future(once.run(threads))
            await asyncio.to_thread(begun.acquire)
            later = [asyncio.ensure_future(once.run(threads)) for _ in range(5)]
            await asyncio.sleep(0)
            go.release(10)
            assert await first == 1
            assert await asyncio.gather(*later) == [2] * 5
            assert await once.run(threads) == 3

    asyncio.run(main())


def test_who_may_not_read_does_not_learn_names(served):
    token = served.make_token("ask", "tell")
    reply = served.post("/v1/experiments/nothing/ask", {"unit": "ada"}, token=token)
    assert (reply.status, reply.kind) == (404, "unknown-experiment")
    assert "button" not in reply.json["detail"]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_more_requests_than_can_wait_are_refused_at_once(place):
    """While the storage is busy, so many wait; others are told to come again, and whoever waited is answered."""
    exp = place.create()
    with serving(exp._store, Settings(waiting=3)) as served:
        replies = []
        with exp._store.storage.writing():
            threads = [
                threading.Thread(target=lambda i=i: replies.append(served.post(f"{BUTTON}/ask", {"unit": str(i)})))
                for i in range(3)
            ]
            for thread in threads:
                thread.start()
            while served.app.service.waiting < 3:
                pass
            late = served.post(f"{BUTTON}/ask", {"unit": "late"})
            assert (late.status, late.kind, late.headers["retry-after"]) == (503, "overloaded", "1")
            assert served.get("/live").status == 200
        for thread in threads:
            thread.join()
        assert [reply.status for reply in replies] == [200] * 3
        assert served.get(BUTTON).json["asked"] == 3
        assert served.post(f"{BUTTON}/ask", {"unit": "late"}).status == 200
    assert (served.app.service.waiting, served.app.service.held) == (0, 0)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_under_overload_each_request_is_answered_or_told_to_come_again(place):
    """Many clients come at once: what is accepted is stored and answered, what is refused is not stored."""
    exp, replies = place.create(), []
    with serving(exp._store, Settings(waiting=4)) as served:

        def ask(client: int) -> None:
            units = (f"{client} {turn}" for turn in range(3))
            replies.extend(served.post(f"{BUTTON}/ask", {"unit": unit}) for unit in units)

        threads = [threading.Thread(target=ask, args=(client,)) for client in range(20)]
        with exp._store.storage.writing():  # nothing is answered meanwhile, so that some must be refused
            for thread in threads:
                thread.start()
            while not replies:
                pass
        for thread in threads:
            thread.join()
        accepted = [reply for reply in replies if reply.status == 200]
        refused = [reply for reply in replies if reply.status != 200]
        assert {(reply.status, reply.kind, reply.headers["retry-after"]) for reply in refused} == {
            (503, "overloaded", "1")
        }
        assert accepted
        assert len(accepted) + len(refused) == 60
        assert served.get(BUTTON).json["asked"] == len({reply.json["unit"] for reply in accepted}) == len(accepted)
        with bl.live.open(served.url, token=served.token) as store:  # whoever comes again is answered
            assert store.experiment("button").ask("late").logged


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_reading_and_pages_wait_in_the_same_bounded_queue(place):
    """How the service is doing can be asked all the same."""
    with serving(place.create()._store, Settings(waiting=0), routes()) as served:
        for path in (BUTTON, f"{BUTTON}/log", "/v1/tokens", "/", "/login?code=x"):
            late = served.get(path)
            assert (late.status, late.kind, late.headers["retry-after"]) == (503, "overloaded", "1"), path
        for path in ("/live", "/metrics", "/openapi.json"):
            assert served.get(path).status == 200


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_bodies_that_are_held_are_bounded(place):
    with serving(place.create()._store, Settings(memory=1000)) as served:
        refused = served.post(f"{BUTTON}/ask", b" " * 2000 + b'{"unit": "ada"}')
        assert (refused.status, refused.kind) == (503, "overloaded")
        assert served.post(f"{BUTTON}/ask", {"unit": "ada"}).status == 200


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_storage_that_fails_is_said_and_tried_again(served, monkeypatch):
    def fail(*_):
        raise bl.live.StorageError("the disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(served.store.storage, "writing", fail)
        reply = served.post(f"{BUTTON}/ask", {"unit": "ada"})
        assert (reply.status, reply.kind, reply.headers["retry-after"]) == (503, "storage", "1")
        patched.setattr(served.app.service, "_written", -1e9)
        while (ready := served.get("/ready", token=None)).json["detail"].startswith("The service is compiling"):
            pass
        assert (ready.status, ready.kind) == (503, "not-ready")
    assert served.get("/ready", token=None).status == 200
    assert served.post(f"{BUTTON}/ask", {"unit": "ada"}).status == 200


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_storage_that_fails_at_the_start_is_waited_for(place, monkeypatch):
    away = threading.Event()
    away.set()

    def prepare(_):
        if away.is_set():
            raise bl.live.StorageError("The database is away.")

    monkeypatch.setattr(service, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(service.Service, "_prepare", prepare)
    with serving(place.open()) as served:
        end = time.monotonic() + 60
        while (ready := served.get("/ready", token=None)).json["detail"].startswith("The service is compiling"):
            assert time.monotonic() < end
        assert (ready.status, ready.json["detail"]) == (503, "The database is away.")
        away.clear()
        while served.get("/ready", token=None).status != 200:
            assert time.monotonic() < end
