from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

import belated as bl
from belated.live.service import Settings, health
from belated.live.service.calls import Call
from belated.live.service.problems import Problem
from belated.live.service.service import Service
from tests.live.conftest import button


def asked(handle, service):
    return asyncio.run(handle(Call(service, "", None, None, b"", {})))


def test_a_service_that_is_not_ready_lives():
    async def compiling():
        raise Problem("not-ready", "It compiles.")

    service = SimpleNamespace(check_ready=compiling)
    assert asked(health.live, service).body == b'{"status":"ok"}'
    with pytest.raises(Problem, match="It compiles"):
        asked(health.ready, service)


def test_metrics_say_how_busy_the_service_and_its_store_are(tmp_path):
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as store:
        store.storage.relax()
        button(store).start().ask_many(["ada", "bob", "eve"])
        service = Service(store, Settings())
        service.enter(70)
        reply = asked(health.metrics, service)
        service.close()
        seconds = store.load().seconds
    found = dict(line.rsplit(" ", 1) for line in reply.body.decode().splitlines() if not line.startswith("#"))
    names = ("waiting_requests", "held_bytes", "commits", "commit_rows", "failed_requests")
    assert [found[f"belated_{name}"] for name in names] == ["1", "70", "1", "3", "0"]
    assert float(found["belated_commit_seconds"]) == seconds > 0
    assert reply.media.startswith("text/plain; version=0.0.4")
