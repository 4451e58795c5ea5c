from __future__ import annotations

import pytest

from belated.live.service.calls import Endpoint
from belated.live.service.routes import ENDPOINTS, RouteTable
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


def test_a_part_of_a_path_is_a_name_as_it_was_sent():
    paths = ("/v1/things", "/v1/things/{name}", "/v1/things/{name}/parts")
    table = RouteTable(tuple(Endpoint(method, path, None, "") for path in paths for method in ("GET", "POST")))
    for path, route, part in (
        (b"/v1/things", paths[0], b""),
        (b"/v1/things/a%2Fparts", paths[1], b"a%2Fparts"),
        (b"/v1/things/%20/parts", paths[2], b"%20"),
    ):
        endpoints, found = table.find(path)
        assert (found, {(method, each.path) for method, each in endpoints.items()}) == (
            part, {("GET", route), ("POST", route)},
        )  # fmt: skip
    for path in (b"/v1/things/", b"/v1/things//parts", b"/v1/things/a/b", b"/v1/things/a/parts/", b"/things/a", b""):
        assert table.find(path) is None


def test_everything_but_health_and_the_description_needs_a_scope():
    assert [each.path for each in ENDPOINTS if not each.scopes] == ["/live", "/ready", "/openapi.json"]
