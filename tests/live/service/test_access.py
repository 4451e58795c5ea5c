"""Whose requests are refused, from where, and in which form: each has its code, and nothing is stored."""

from __future__ import annotations

import gzip
import json

import pytest
from served import Served, serving

from belated.live.service import Settings
from tests.live.service.conftest import ALL, ASK, BUTTON, CHANGES, READS, nothing_stored


def exchange(served: Served, data: bytes) -> bytes:
    """Send bytes as they are; return the reply, up to the end of the connection or of its body."""
    with served.connect() as connection:
        connection.sendall(data)
        received = b""
        while b"\r\n\r\n" not in received or not received.rstrip().endswith((b"}", b"</html>")):
            part = connection.recv(10_000)
            if not part:
                break
            received += part
        return received


def head(served: Served, *headers: str) -> bytes:
    lines = [f"POST {ASK} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {served.token}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


CHUNKS = b'f\r\n{"unit": "ada"}\r\n0\r\n\r\n'
BODY = b'{"unit": "ada"}'
SIZE = f"Content-Length: {len(BODY)}"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (["Host: evil.example", SIZE], BODY),
        (["Host: localhost", SIZE], BODY),
        (["Authorization: Bearer other", SIZE], BODY),
        (["Origin: http://localhost", "Origin: https://evil.example", SIZE], BODY),
        ([SIZE, SIZE], BODY),
        ([SIZE, "Content-Length: 3"], BODY),
        (["Content-Length: +15"], BODY),
        (["Content-Length: -15"], BODY),
        ([SIZE, "Transfer-Encoding: chunked"], CHUNKS),
        (["Transfer-Encoding: chunked", SIZE], CHUNKS),
        (["Transfer-Encoding: gzip, chunked"], CHUNKS),
        (["Transfer-Encoding: gzip", "Transfer-Encoding: chunked"], CHUNKS),
        (["Transfer-Encoding: xchunked"], CHUNKS),
        (["Transfer-Encoding : chunked"], CHUNKS),
        (["Transfer-Encoding: identity", SIZE], BODY),
        (["Transfer-Encoding: chunked"], b"zz\r\n" + BODY),
        (["Transfer-Encoding: chunked"], b"ffffffffffffffffff\r\n" + BODY),
        (["X: a\r\n folded: b", SIZE], BODY),
        (["X: a\x00b", SIZE], BODY),
    ],
    ids=str,
)
def test_requests_that_others_could_read_otherwise(shared, headers, body):
    """What a proxy on the way could understand in another way is refused, and the connection tells nothing else."""
    with nothing_stored(shared):
        reply = exchange(shared, head(shared, *headers) + body)
        if headers[0].startswith("Origin"):
            assert reply.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403"))
        else:
            assert reply.startswith(b"HTTP/1.1 400"), reply
        assert b"about:blank#" in reply
        assert reply.count(b"HTTP/1.1") == 1


def test_bodies_that_are_sent_in_pieces_without_a_length(served):
    reply = exchange(served, head(served, "Transfer-Encoding: Chunked") + CHUNKS)
    assert reply.startswith(b"HTTP/1.1 200")
    assert served.get(BUTTON).json["asked"] == 1


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "GZIP"])
def test_compressed_bodies(shared, coding):
    with nothing_stored(shared):
        for method, path, content in CHANGES:
            for body in (gzip.compress(json.dumps(content).encode()), json.dumps(content).encode()):
                reply = shared.send(method, path, body, content_encoding=coding)
                assert (reply.status, reply.kind) == (415, "encoded"), path
    assert shared.post(ASK, {"unit": "ada"}, content_encoding="identity").status == 200


@pytest.mark.parametrize(
    "secret", ["\u0442\u043e\u043a\u0435\u043d", "\U0001f389", "\xff", "x" * 30_000, "a b", "'; drop table token; --"]
)
def test_tokens_of_any_text(shared, secret):
    with nothing_stored(shared):
        line = b"GET /v1/experiments HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + secret.encode()
        reply = exchange(shared, line + b"\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 401")
        assert b"about:blank#no-token" in reply


def test_no_token(served):
    with nothing_stored(served):
        for method, path, content in ALL:
            for headers in ({}, {"authorization": "Basic YTpi"}, {"authorization": "Bearer nonsense"}):
                reply = served.send(method, path, content, token=None, **headers)
                assert (reply.status, reply.kind) == (401, "no-token"), path
                assert reply.headers["www-authenticate"] == "Bearer"


def test_wrong_scope(served):
    needed = {"ask": ["ask", "ask-many"], "tell": ["tell", "tell-many"], "units": ["erase"]}
    scope_of = {f"{BUTTON}/{act}": scope for scope, acts in needed.items() for act in acts}
    tokens = {scope: served.make_token(scope) for scope in ("ask", "tell", "read", "units", "admin")}
    with nothing_stored(served):
        for method, path, content in ALL:
            need = scope_of.get(path, "read" if method == "GET" and path in READS[:7] else "admin")
            for scope, token in tokens.items():
                if scope != need:
                    reply = served.send(method, path, content, token=token)
                    assert (reply.status, reply.kind) == (403, "scope"), (path, scope)


def test_expired(served, place):
    token = served.make_token(lasting="1h")
    assert served.get(BUTTON, token=token).status == 200
    place.clock.forward(3601)
    with nothing_stored(served):
        for method, path, content in ALL:
            reply = served.send(method, path, content, token=token)
            assert (reply.status, reply.kind) == (401, "no-token"), path
            assert "expired" in reply.json["detail"]


def test_revoked(served):
    token = served.make_token()
    number = served.get("/v1/tokens").json["tokens"][-1]["id"]
    assert served.get(BUTTON, token=token).status == 200
    assert served.send("DELETE", f"/v1/tokens/{number}").status == 204
    reply = served.post(ASK, {"unit": "ada"}, token=token)
    assert (reply.status, reply.kind) == (401, "no-token")
    assert "revoked" in reply.json["detail"]


def test_other_experiment(served, place):
    place.create("other")
    token = served.make_token(experiment="other")
    with nothing_stored(served):
        for method, path, content in ALL:
            if path != "/v1/experiments" or method != "GET":
                reply = served.send(method, path, content, token=token)
                assert (reply.status, reply.kind) == (403, "other-experiment"), path
    assert [each["name"] for each in served.get("/v1/experiments", token=token).json["experiments"]] == ["other"]
    assert served.post("/v1/experiments/other/ask", {"unit": "ada"}, token=token).status == 200


def test_a_link_and_a_browsers_cookie_are_no_tokens(served):
    for kind in ("link", "browser"):
        secret = served.make_token(kind=kind)
        assert served.post(ASK, {"unit": "ada"}, token=secret).kind == "no-token"
        assert served.post(ASK, {"unit": "ada"}, token=None, cookie=f"belated_browser={secret}").kind == "no-token"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil", "localhost:80.evil", "[::2]", ""],
)
def test_wrong_host(shared, host):
    with nothing_stored(shared):
        for method, path, content in [*ALL, ("GET", "/live", None), ("GET", "/login?code=x", None)]:
            reply = shared.send(method, path, content, host=host)
            assert (reply.status, reply.kind) == (421, "host"), path


def test_right_hosts(shared):
    for host in ("localhost", "LOCALHOST:1234", "localhost:", "127.0.0.1", "[::1]", "[::1]:8765"):
        assert shared.get("/live", host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
    ids=str,
)
def test_cross_origin_post(shared, headers):
    with nothing_stored(shared):
        for method, path, content in [*CHANGES, ("POST", "/login", b"code=x"), ("POST", "/logout", b"")]:
            reply = shared.send(method, path, content, **headers)
            assert (reply.status, reply.kind) == (403, "cross-origin"), path


def test_own_pages_may_post_and_no_cors_headers_are_sent(served):
    own = served.post(ASK, {"unit": "ada"}, origin=served.url, sec_fetch_site="same-origin")
    assert own.status == 200
    for reply in (own, served.get("/live", origin="https://evil.example"), served.send("OPTIONS", ASK)):
        assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_token_has_a_rate(place):
    with serving(place.create()._store, Settings(rate=0.001)) as served:
        other = served.make_token()
        assert served.post(f"{BUTTON}/ask", {"unit": "ada"}).status == 200
        late = served.post(f"{BUTTON}/ask", {"unit": "bob"})
        assert (late.status, late.kind) == (429, "too-many")
        assert int(late.headers["retry-after"]) > 100
        assert served.get(BUTTON, token=other).json["asked"] == 1
