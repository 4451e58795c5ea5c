from __future__ import annotations

import asyncio
import json
from dataclasses import FrozenInstanceError

import pytest

import belated as bl
from belated.live.service import Settings, make_app
from belated.live.tokens import make_token
from tests.live.conftest import button
from tests.live.service.conftest import ASK


def test_settings_of_a_service_do_not_change():
    settings = Settings()
    with pytest.raises(FrozenInstanceError):
        settings.hosts = ("evil.example",)


def test_what_is_set_is_what_is_allowed(tmp_path):
    settings = Settings(hosts=("shop.example",), body=40, batch_body=50, batch=2, labels=1)
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as store:
        store.storage.relax()
        button(store).start()
        button(store, "other").start()
        secret, _ = make_token(store.storage, "test", ["ask"], author="test")
        app = make_app(store, settings)

        async def post(path, size, content, host=b"shop.example"):
            """Return the code, or what is wrong."""
            body, sent = content.ljust(size).encode(), []
            head = {b"host": host, b"authorization": b"Bearer " + secret.encode(), b"content-length": b"%d" % size}
            scope = {"type": "http", "method": "POST", "raw_path": path.encode(), "query_string": b""}

            async def receive():
                return {"type": "http.request", "body": body}

            async def send(message):
                sent.append(message)

            await app(scope | {"headers": list(head.items())}, receive, send)
            return 200 if sent[0]["status"] == 200 else json.loads(sent[1]["body"])["detail"]

        async def main():
            assert await post(ASK, 40, '{"unit": "ada"}') == 200
            assert "for another host" in await post(ASK, 40, '{"unit": "ada"}', b"localhost")
            assert await post(ASK, 41, '{"unit": "ada"}') == "The request has 41 bytes; send at most 40."
            many = f"{ASK}-many"
            assert await post(many, 50, '{"units": [1, 2]}') == 200
            assert await post(many, 51, '{"units": [1, 2]}') == "The request has 51 bytes; send at most 50."
            assert await post(many, 50, '{"units": [1, 2, 3]}') == "The request has 3 units; send at most 2 at a time."
            assert await post("/v1/experiments/other/ask", 40, '{"unit": "ada"}') == 200

        asyncio.run(main())
        app.service.close()
    text = app.service.metrics.text()
    assert 'kind="ask",experiment="button"} 3' in text
    assert 'experiment="other"' not in text
