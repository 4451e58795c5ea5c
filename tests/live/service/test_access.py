"""Requests that could be read in several ways, bodies that are encoded, and tokens of any text."""

from __future__ import annotations

import gzip
import json

import pytest
from served import Served

from tests.live.service.test_security import ASK, BUTTON, CHANGES, nothing_stored


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


@pytest.mark.parametrize("code", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_json_in_another_encoding(shared, code):
    with nothing_stored(shared):
        reply = shared.post(ASK, '{"unit": "ada"}'.encode(code), content_type=f"application/json; charset={code}")
        assert (reply.status, reply.kind) == (400, "malformed")


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/x-www-form-urlencoded", "application/json"])
def test_a_body_is_json_whatever_its_type_says(shared, kind):
    """`curl -d` says that it sends a form; a token makes sure that no other site's page does."""
    headers = {} if kind is None else {"content_type": kind}
    assert shared.post(ASK, {"unit": "ada"}, **headers).status == 200
    with nothing_stored(shared):
        assert shared.post(ASK, b"unit=ada", **headers).kind == "malformed"


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PUT", "PATCH", "DELETE", "GET", "HEAD"])
def test_methods_that_a_route_does_not_have(shared, method):
    with nothing_stored(shared):
        reply = shared.send(method, ASK, None if method in ("GET", "HEAD", "TRACE") else BODY, x_echo="not this")
        assert (reply.status, reply.headers["allow"]) == (405, "POST")
        assert b"not this" not in reply.body
        assert shared.token.encode() not in reply.body


@pytest.mark.parametrize(
    "secret", ["\u0442\u043e\u043a\u0435\u043d", "\U0001f389", "\xff", "x" * 30_000, "a b", "'; drop table token; --"]
)
def test_tokens_of_any_text(shared, secret):
    with nothing_stored(shared):
        line = b"GET /v1/experiments HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + secret.encode()
        reply = exchange(shared, line + b"\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 401")
        assert b"about:blank#no-token" in reply


def test_who_may_not_read_does_not_learn_names(served):
    token = served.make_token("ask", "tell")
    reply = served.post("/v1/experiments/nothing/ask", {"unit": "ada"}, token=token)
    assert (reply.status, reply.kind) == (404, "unknown-experiment")
    assert "button" not in reply.json["detail"]
