"""Overload, rates, metrics, logs and readiness."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading

import pytest
from served import serving

import belated as bl
from belated.live.dashboard.pages import routes
from belated.live.service import Settings, logs
from belated.live.service.metrics import OTHER, Metrics
from belated.live.service.service import Once

BUTTON = "/v1/experiments/button"
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


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


def test_reading_and_pages_wait_in_the_same_bounded_queue(place):
    """How the service is doing can be asked all the same."""
    with serving(place.create()._store, Settings(waiting=0), routes()) as served:
        for path in (BUTTON, f"{BUTTON}/log", "/v1/tokens", "/", "/login?code=x"):
            late = served.get(path)
            assert (late.status, late.kind, late.headers["retry-after"]) == (503, "overloaded", "1"), path
        for path in ("/live", "/metrics", "/openapi.json"):
            assert served.get(path).status == 200


def test_bodies_that_are_held_are_bounded(place):
    with serving(place.create()._store, Settings(memory=1000)) as served:
        refused = served.post(f"{BUTTON}/ask", b" " * 2000 + b'{"unit": "ada"}')
        assert (refused.status, refused.kind) == (503, "overloaded")
        assert served.post(f"{BUTTON}/ask", {"unit": "ada"}).status == 200


def test_a_token_has_a_rate(place):
    with serving(place.create()._store, Settings(rate=0.001)) as served:
        other = served.make_token()
        assert served.post(f"{BUTTON}/ask", {"unit": "ada"}).status == 200
        late = served.post(f"{BUTTON}/ask", {"unit": "bob"})
        assert (late.status, late.kind) == (429, "too-many")
        assert int(late.headers["retry-after"]) > 100
        assert served.get(BUTTON, token=other).json["asked"] == 1


def test_a_client_that_goes_away_cancels_nothing(served):
    with served.store.storage.writing(), served.connect() as connection:
        body = b'{"unit": "ada"}'
        head = f"POST {BUTTON}/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        while not served.app.service.waiting:
            pass
    while served.app.service.waiting:
        pass
    assert served.post(f"{BUTTON}/ask", {"unit": "ada"}).json["repeated"]


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


# ---------------------------------------------------------------- metrics and logs


def test_metrics_count_requests_and_rows(served):
    for _ in range(3):
        served.post(f"{BUTTON}/ask", {"unit": "a secret person"})
    served.post(f"{BUTTON}/tell", {"unit": "a secret person", "value": 1})
    served.post(f"{BUTTON}/tell", {"unit": "a secret person", "value": 0})
    served.get("/v1/experiments/%3Cnothing%3E")
    text = served.get("/metrics").body.decode()
    assert 'belated_requests_total{method="POST",route="/v1/experiments/{name}/ask",code="200"} 3' in text
    assert 'belated_requests_total{method="GET",route="/v1/experiments/{name}",code="404"} 1' in text
    assert 'belated_rows_total{kind="ask",experiment="button"} 3' in text
    assert 'belated_rows_total{kind="tell",experiment="button"} 1' in text
    assert 'belated_rows_total{kind="contradiction",experiment="button"} 1' in text
    assert 'belated_request_seconds_count{route="/v1/experiments/{name}/ask"} 3' in text
    assert served.app.service.metrics.contradictions("button") == 1
    assert "secret" not in text
    assert "nothing" not in text
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r'belated_\w+(\{(\w+="[^"]*",?)+\})? [0-9.e+-]+', line), line


def test_pages_are_counted_and_methods_that_no_route_has_are_one(place):
    with serving(place.create()._store, routes=routes()) as served:
        assert served.get("/", token=None).status == 401
        for method in ("PROPFIND", "MKCOL", "LOCK", "PURGE", "SEARCH"):
            served.send(method, f"{BUTTON}/ask")
        assert served.send("SECRET", f"{BUTTON}/ask").status == 400  # no method of HTTP at all
        text = served.get("/metrics").body.decode()
    assert 'belated_requests_total{method="GET",route="(page)",code="401"} 1' in text
    assert f'belated_requests_total{{method="{OTHER}",route="(none)",code="405"}} 5' in text
    assert "SECRET" not in text


def test_labels_are_bounded_and_escaped(engine):
    metrics = Metrics(2)
    for name in ("a", 'b"\\\n', "c", "d", "a"):
        metrics.stored("ask", name, 1)
    text = metrics.text()
    assert [line.split()[-1] for line in text.splitlines() if "rows_total{" in line] == ["2", "2", "1"] or OTHER in text
    assert 'experiment="b\\"\\\\\\n"' in text
    assert 'experiment="c"' not in text
    assert f'experiment="{OTHER}"}} 2' in text


def test_a_failure_is_logged_without_what_was_sent(served, monkeypatch, caplog):
    def fail(self, unit, segment):
        raise KeyError(f"a secret person {unit}")

    monkeypatch.setattr(bl.live.Experiment, "ask_async", fail)
    with caplog.at_level(logging.INFO, "belated.service"):
        reply = served.post(f"{BUTTON}/ask", {"unit": "ada"})
    assert (reply.status, reply.kind) == (500, "internal")
    (record,) = [each for each in caplog.records if each.name == "belated.service"]
    line = json.loads(logs.JsonLines().format(record))
    assert (line["event"], line["error"], line["route"]) == ("failed", "KeyError", "/v1/experiments/{name}/ask")
    assert any("fail in test_limits.py" in place for place in line["where"])
    assert "secret" not in str(line)
    assert "secret" not in str(reply.body)


def test_changes_are_logged_with_the_number_of_their_token(served, caplog):
    with caplog.at_level(logging.INFO, "belated.service"):
        served.post(f"{BUTTON}/ask", {"unit": "a secret person"})
        served.post(f"{BUTTON}/erase", {"unit": "a secret person", "reason": "a secret reason"})
    (line,) = [logs.JsonLines().format(each) for each in caplog.records if each.name == "belated.service"]
    found = json.loads(line)
    assert (found["event"], found["route"]) == ("changed", "POST /v1/experiments/{name}/erase")
    assert isinstance(found["token"], int)
    assert "secret" not in line


# ---------------------------------------------------------------- answers


def test_an_answer_is_computed_once_for_all_who_wait_and_again_for_who_comes_later(engine):
    begun, go, runs = threading.Semaphore(0), threading.Semaphore(0), []

    def act():
        begun.release()
        go.acquire()
        runs.append(len(runs))
        return len(runs)

    async def main():
        from concurrent.futures import ThreadPoolExecutor

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


def test_an_answer_is_sent_again_only_if_it_is_new(served):
    for number in range(30):
        served.post(f"{BUTTON}/ask", {"unit": str(number)})
        served.post(f"{BUTTON}/tell", {"unit": str(number), "value": number % 2})
    for accept in ("application/json", "application/vnd.apache.arrow.stream"):
        first = served.get(f"{BUTTON}/answer", accept=accept)
        again = served.get(f"{BUTTON}/answer", accept=accept, if_none_match=first.headers["etag"])
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert served.get(f"{BUTTON}/answer", if_none_match="*").status == 304
    tag = first.headers["etag"]
    assert served.get(f"{BUTTON}/answer", accept=accept, if_none_match=f'"other", W/{tag}').status == 304
    served.post(f"{BUTTON}/ask", {"unit": "new"})
    assert served.get(f"{BUTTON}/answer", accept=accept, if_none_match=tag).status == 200
    assert served.get(f"{BUTTON}/answer").json["counts"]["asked"] == 31
