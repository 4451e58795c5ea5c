from __future__ import annotations

import pytest

from belated.live.service.routes import ENDPOINTS
from tests.live.service.conftest import ASK, nothing_stored


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/experiments/../experiments/button", "not-found"),
        ("/v1/experiments/x/../button", "not-found"),
        ("/v1/experiments/x%2F..%2Fbutton", "unknown-experiment"),
        ("/v1/experiments/button/", "not-found"),
        ("/v1//experiments/button", "not-found"),
        ("/v1/experiments//ask", "not-found"),
        ("/v1/experiments/button%00", "unknown-experiment"),
        ("/v1/experiments/%zz", "malformed"),
        ("/v1/experiments/%", "malformed"),
        ("/v1/experiments/%ff", "malformed"),
        ("/v1/experiments/button%2Fask", "unknown-experiment"),
        ("/v1/tokens/button", "method"),
    ],
)
def test_paths_that_lead_nowhere(shared, path, kind):
    with nothing_stored(shared):
        assert shared.get(path).kind == kind


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PUT", "PATCH", "DELETE", "GET", "HEAD"])
def test_methods_that_a_route_does_not_have(shared, method):
    with nothing_stored(shared):
        reply = shared.send(
            method, ASK, None if method in ("GET", "HEAD", "TRACE") else {"unit": "ada"}, x_echo="not this"
        )
        assert (reply.status, reply.headers["allow"]) == (405, "POST")
        assert b"not this" not in reply.body
        assert shared.token.encode() not in reply.body


def test_a_method_that_a_path_does_not_have(served):
    for path in {each.path for each in ENDPOINTS}:
        reply = served.send("PATCH", path.replace("{name}", "button").replace("{id}", "1"))
        assert (reply.status, reply.kind) == (405, "method")
        methods = sorted(each.method for each in ENDPOINTS if each.path == path)
        assert reply.headers["allow"] == ", ".join(methods)
