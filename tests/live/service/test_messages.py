from __future__ import annotations

import json

import pytest

from tests.live.service.conftest import CHANGES, nothing_stored


@pytest.mark.parametrize(
    "content", [[], "text", 1, None, {}, {"unit": None}, {"unit": 1.5}, {"unit": []}, {"unit": True}, {"other": 1}]
)
def test_json_of_another_form(shared, content):
    with nothing_stored(shared):
        for method, path, usual in CHANGES:
            if usual is not None:
                reply = shared.send(method, path, json.dumps(content).encode())
                assert (reply.status, reply.kind) == (422, "invalid"), path


def test_unknown_fields(shared):
    with nothing_stored(shared):
        for method, path, usual in CHANGES:
            if usual is not None:
                reply = shared.send(method, path, usual | {"surprise": 1})
                assert (reply.status, reply.kind) == (422, "invalid"), path
