from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

import belated as bl
from belated.live.service import Settings, reading
from belated.live.service.calls import Call
from belated.live.service.problems import Problem
from belated.live.service.reading import versions
from belated.live.service.service import Service
from tests.live.conftest import button
from tests.live.service.conftest import ASK, BUTTON, READS


def test_units_are_shown_only_to_who_may_see_them(served):
    served.post(ASK, {"unit": "a secret person"})
    reader, keeper = served.make_token("read"), served.make_token("read", "units")
    assert served.get(f"{BUTTON}/log?units=true", token=reader).kind == "scope"
    assert b"a secret person" in served.get(f"{BUTTON}/log?units=true", token=keeper).body
    reply = served.get(f"{BUTTON}/log?units=yes", token=keeper)
    assert (reply.status, reply.json["detail"]) == (422, "`units` is 'yes'; it must be one of 'true', 'false'.")
    for path in READS[:7]:
        for accept in ("*/*", "application/vnd.apache.arrow.stream"):
            assert b"a secret person" not in served.get(path, token=reader, accept=accept).body
    assert served.get("/v1/backup", token=served.make_token("admin")).kind == "scope"
    made = served.post("/v1/tokens", {"label": "x", "scopes": ["units"]}, token=served.make_token("admin"))
    assert (made.status, made.kind) == (403, "scope")


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
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


def test_versions_come_in_parts(tmp_path):
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as store:
        store.storage.relax()
        exp = button(store).start()
        for share in (0.1, 0.2, 0.3):
            exp.set_policy(bl.policies.fixed({"A": share, "B": 1 - share}))
        service = Service(store, Settings())
        for query, numbers, more in (
            (b"", [1, 2, 3, 4], False),
            (b"limit=2", [1, 2], True),
            (b"after=2&limit=2", [3, 4], False),
            (b"after=3&limit=0", [], True),
            (b"after=4", [], False),
        ):
            found = json.loads(asyncio.run(versions(Call(service, "button", None, None, query, {}))).body)
            assert ([each["number"] for each in found["versions"]], found["more"]) == (numbers, more), query
        service.close()


def asked(handle, service):
    return asyncio.run(handle(Call(service, "", None, None, b"", {})))


def test_a_service_that_is_not_ready_lives():
    async def compiling():
        raise Problem("not-ready", "It compiles.")

    service = SimpleNamespace(check_ready=compiling)
    assert asked(reading.live, service).body == b'{"status":"ok"}'
    with pytest.raises(Problem, match="It compiles"):
        asked(reading.ready, service)


def test_metrics_say_how_busy_the_service_and_its_store_are(tmp_path):
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as store:
        store.storage.relax()
        button(store).start().ask_many(["ada", "bob", "eve"])
        service = Service(store, Settings())
        service.enter(70)
        reply = asked(reading.metrics, service)
        service.close()
        seconds = store.load().seconds
    values = dict(line.rsplit(" ", 1) for line in reply.body.decode().splitlines() if not line.startswith("#"))
    names = ("waiting_requests", "held_bytes", "commits", "commit_rows", "failed_requests")
    assert [values[f"belated_{name}"] for name in names] == ["1", "70", "1", "3", "0"]
    assert float(values["belated_commit_seconds"]) == seconds > 0
    assert reply.media.startswith("text/plain; version=0.0.4")
