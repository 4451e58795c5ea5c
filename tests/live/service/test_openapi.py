"""The document is made from the table of routes, kept in docs, and true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from belated.live.service.openapi import codes, document
from belated.live.service.problems import KINDS
from belated.live.service.routes import ENDPOINTS, RouteTable

KEPT = Path(__file__).parents[3] / "docs" / "openapi.json"
TEXT = json.dumps(document(ENDPOINTS), indent=1, ensure_ascii=False) + "\n"


def test_the_kept_document_is_that_of_the_routes():
    """`python tests/live/service/test_openapi.py` writes it."""
    assert re.sub(r'"version": "[^"]*"', "", KEPT.read_text()) == re.sub(r'"version": "[^"]*"', "", TEXT)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_it_is_served(served):
    assert served.get("/openapi.json", token=None).json == document(ENDPOINTS)


def test_every_route_is_found_and_described():
    found, table = document(ENDPOINTS), RouteTable()
    for each in ENDPOINTS:
        path = each.path.replace("{name}", "a%2Fb").replace("{id}", "17").encode()
        endpoints, part = table.find(path)
        assert endpoints[each.method] is each
        assert part == {"{name}": b"a%2Fb", "{id}": b"17"}.get((re.findall("{.*}", each.path) or [""])[0], b"")
        operation = found["paths"][each.path][each.method.lower()]
        assert operation["summary"].endswith(".")
        assert [int(code) for code in operation["responses"]] == codes(each)
    assert sum(len(methods) for methods in found["paths"].values()) == len(ENDPOINTS)
    names = [operation["operationId"] for methods in found["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names)


def test_every_reference_leads_somewhere_and_every_code_has_a_kind():
    found = document(ENDPOINTS)
    for name in re.findall(r'"#/components/schemas/([^"]+)"', TEXT):
        assert name in found["components"]["schemas"]
    known = {kind.status for kind in KINDS.values()}
    for each in ENDPOINTS:
        assert {code for code in codes(each) if code >= 400} <= known


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_replies_are_what_the_document_says(served):
    """Every route that has a type for its reply is asked once, and the reply is read as that type."""
    path = "/v1/experiments/button"
    served.post(f"{path}/ask", {"unit": "ada"})
    contents = {
        "ask": {"unit": "ada"}, "ask-many": {"units": ["ada", "bob"]}, "tell": {"unit": "ada", "value": 1},
        "tell-many": {"outcomes": [{"unit": "bob", "value": 0}]}, "erase": {"unit": "bob"},
        "changes": {"what": "add_arm", "arm": "C"}, "tokens": {"label": "x", "scopes": ["ask"]},
        "experiments": {"name": "n", "arms": ["A"], "policy": {"name": "uniform"}, "outcome": {"kind": "binary"}},
    }  # fmt: skip
    checked = 0
    for each in ENDPOINTS:
        if each.gives is None or each.path == "/ready":
            continue
        content = contents.get(each.path.rpartition("/")[2]) if each.takes is not None else None
        reply = served.send(each.method, each.path.replace("{name}", "button"), content)
        assert reply.status in each.codes, each.path
        assert reply.headers["content-type"] == each.media[0]
        decoded = msgspec.json.decode(reply.body, type=each.gives)
        assert set(msgspec.to_builtins(decoded)) >= set(reply.json), each.path
        checked += 1
    assert checked > 15


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_token_of_an_unknown_experiment_is_refused_as_the_document_says(served):
    reply = served.post("/v1/tokens", {"label": "x", "scopes": ["ask"], "experiment": "nope"})
    assert reply.kind == "unknown-experiment"
    (route,) = (each for each in ENDPOINTS if (each.method, each.path) == ("POST", "/v1/tokens"))
    assert reply.status in codes(route)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_what_can_be_got_has_a_head(served):
    """Monitors look at heads; they have the code and the headers, and no body."""
    for path in ("/live", "/metrics", "/v1/experiments", "/v1/experiments/button"):
        head, whole = served.send("HEAD", path), served.get(path)
        assert (head.status, head.headers["content-type"], head.body) == (200, whole.headers["content-type"], b"")
    assert served.send("HEAD", "/v1/experiments", token=None).status == 401
    assert served.send("HEAD", "/v1/experiments/button/ask").status == 405


if __name__ == "__main__":
    KEPT.write_text(TEXT)
