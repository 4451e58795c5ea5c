from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from types import SimpleNamespace

import pytest
from served import Served, serving

from belated.live.service import Settings
from belated.live.service.protocol import _Outgoing
from belated.live.serving import configured
from tests.live.service.conftest import ASK, nothing_stored

OFFER = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"


@pytest.fixture
def engine():
    """One storage: how requests are read does not depend on it."""
    return "sqlite"


def read_reply(connection: socket.socket) -> tuple[bytes, bytes]:
    """Return the first line and the body of the next reply."""
    with connection.makefile("rb") as file:
        first, size = file.readline(), 0
        while (line := file.readline()) not in (b"\r\n", b""):
            name, _, value = line.lower().partition(b":")
            size = int(value) if name == b"content-length" else size
        return first, file.read(size)


def ask_head(served: Served, body: bytes, more: str = "") -> bytes:
    head = f"POST {ASK} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode()


@pytest.mark.parametrize("pause", [0.0, 0.2])
def test_a_request_that_offers_another_protocol_is_served_in_this_one(served, pause):
    """Clients that know HTTP/2, such as Java's, offer it with the first request and its body."""
    body = json.dumps({"unit": "customer-17"}).encode()
    with served.connect() as connection:
        for repeated in (False, True):
            connection.sendall(ask_head(served, body, OFFER))
            time.sleep(pause)  # the body comes with the head, or after it
            connection.sendall(body)
            first, reply = read_reply(connection)
            assert first.startswith(b"HTTP/1.1 200")
            assert json.loads(reply)["repeated"] is repeated


def test_the_service_is_no_proxy(served):
    with served.connect() as connection:
        connection.sendall(b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        first, reply = read_reply(connection)
    assert first.startswith(b"HTTP/1.1 400")
    assert "no proxy" in json.loads(reply)["detail"]


def test_requests_that_follow_each_other_at_once_are_answered_in_order(served):
    bodies = [json.dumps({"unit": f"customer-{i}"}).encode() for i in range(5)]
    with served.connect() as connection:
        connection.sendall(b"".join(ask_head(served, body) + body for body in bodies))
        with connection.makefile("rb") as file:
            found = b""
            while found.count(b'"segment"') < 5:
                found += file.read1(10_000)
    assert [found.count(b'"unit":"customer-%d"' % i) for i in range(5)] == [1] * 5
    assert sorted(range(5), key=lambda i: found.index(b"customer-%d" % i)) == [*range(5)]


class Sent(asyncio.Transport):
    """Notes what is sent."""

    def __init__(self):
        super().__init__()
        self.packets = []

    def write(self, data):
        self.packets.append(bytes(data))

    def is_closing(self):
        return "closed" in self.packets

    def close(self):
        self.packets.append("closed")


@pytest.fixture
def outgoing():
    cycle = SimpleNamespace(
        transport=Sent(), flow=SimpleNamespace(write_paused=False), message_event=asyncio.Event(), keep_alive=True,
        disconnected=False, response_started=False, response_complete=False, default_headers=[(b"date", b"today")],
    )  # fmt: skip
    cycle.on_response = lambda: cycle.transport.packets.append("next")
    return cycle, _Outgoing(cycle), cycle.transport.packets


def test_a_head_leaves_with_the_first_part_of_the_body(outgoing):
    cycle, connection, packets = outgoing
    connection.write(b"HTTP/1.1 100 Continue")  # before the reply begins
    cycle.response_started = True
    for part in (b"head, ", b"one", b"two", b""):
        connection.write(part)
    assert packets == [b"HTTP/1.1 100 Continue", b"head, one", b"two", b""]
    connection.close()
    assert packets[4:] == ["closed"]
    assert connection.is_closing()


def test_a_head_without_a_body_leaves_before_the_connection_closes(outgoing):
    cycle, connection, packets = outgoing
    cycle.response_started = True
    connection.write(b"head")
    assert packets == []
    connection.close()
    assert packets == [b"head", "closed"]


def test_a_whole_reply_is_one_packet(outgoing):
    cycle, connection, packets = outgoing
    whole = b"HTTP/1.1 200 OK\r\na: b\r\ndate: today\r\ncontent-length: 4\r\n\r\nbody"
    assert connection.send(200, b"a: b\r\n", b"body")
    assert packets == [whole, "next"]
    assert cycle.response_started
    assert cycle.response_complete
    assert cycle.message_event.is_set()
    cycle.keep_alive = False
    assert connection.send(200, b"a: b\r\n", b"body")
    assert packets[2:] == [whole.replace(b"content", b"connection: close\r\ncontent"), "closed", "next"]


@pytest.mark.parametrize("why", ["paused", "gone"])
def test_a_client_that_does_not_read_or_is_gone_is_sent_nothing_whole(outgoing, why):
    cycle, connection, packets = outgoing
    cycle.flow.write_paused, cycle.disconnected = why == "paused", why == "gone"
    assert not connection.send(200, b"", b"body")
    assert packets == []
    assert not cycle.response_started


def test_the_reply_to_head_is_its_head(served):
    with served.connect() as connection:
        for _ in range(2):
            connection.sendall(b"HEAD /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            reply = connection.recv(10_000)
            assert reply.startswith(b"HTTP/1.1 200")
            assert reply.endswith(b"\r\n\r\n")


def test_a_head_in_pieces_has_a_largest_size(served):
    with served.connect() as connection:
        connection.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\nX: ")
        for _ in range(7):  # the last of them is too much
            time.sleep(0.01)
            connection.sendall(b"x" * 5_000)
        first, reply = read_reply(connection)
    assert first.startswith(b"HTTP/1.1 431")
    assert "more than 32,768 bytes" in json.loads(reply)["detail"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("X: " + "x" * 32_768, "The path and the headers have more than 32,768 bytes; send less."),
        ("".join(f"X-{i}: {'x' * 900}\r\n" for i in range(40))[:-2], "more than 32,768 bytes"),
        ("".join(f"X-{i}: x\r\n" for i in range(101))[:-2], "The request has more than 100 headers; send fewer."),
    ],
    ids=["long", "both", "many"],
)
def test_headers_are_bounded_also_in_one_piece(served, more, sentence):
    body = b'{"unit": "ada"}'
    with served.connect() as connection:
        connection.sendall(ask_head(served, body, f"{more}\r\n") + body)
        first, reply = read_reply(connection)
        assert connection.recv(10) == b""
    assert first.startswith(b"HTTP/1.1 431")
    assert sentence in json.loads(reply)["detail"]
    assert served.get("/v1/experiments/button").json["asked"] == 0


def test_a_path_is_part_of_the_head(served):
    assert served.get("/live?" + "x" * 30_000).status == 200
    assert served.get("/live?" + "x" * 33_000).kind == "head"


@pytest.mark.parametrize("token", ["", "nobody's"])
def test_headers_behind_a_body_are_bounded(served, token):
    """A body in parts may be followed by headers, which the parser keeps: also of a request that was refused."""
    head = f"POST {ASK} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token or served.token}\r\n"
    with served.connect() as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n0\r\nX: ".encode())
        first = read_reply(connection)[0] if token else b""
        assert first.startswith(b"HTTP/1.1 401" if token else b"")
        with pytest.raises(OSError, match=r"pipe|reset"):  # noqa: PT012
            for _ in range(100):
                time.sleep(0.002)
                connection.sendall(b"x" * 200_000)


def test_a_body_in_many_small_parts_is_read(served):
    body = json.dumps({"units": [f"customer-{i}" for i in range(5000)]}).encode()
    head = f"POST {ASK}-many HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n"
    with served.connect() as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        connection.sendall(b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
        assert read_reply(connection)[0].startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("requests", [1, 3])
@pytest.mark.parametrize(
    ("rest", "status"),
    [
        (b"no HTTP at all\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 33_000 + b"\r\n\r\n", b"431"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nno size", b"400"),
    ],
    ids=["words", "headers", "body"],
)
def test_what_cannot_be_read_is_refused_after_the_requests_before_it(served, requests, rest, status):
    bodies = [json.dumps({"unit": f"customer-{i}"}).encode() for i in range(requests)]
    with served.connect() as connection:
        connection.sendall(b"".join(ask_head(served, body) + body for body in bodies) + rest)
        with connection.makefile("rb") as file:
            replies = file.read().split(b"HTTP/1.1 ")[1:]
    assert [reply[:3] for reply in replies] == [b"200"] * requests + [status]
    assert served.get("/v1/experiments/button").json["asked"] == requests


def test_blank_lines_are_no_request(place):
    """A connection on which only blank lines come is closed, also after a reply."""
    store = place.create()._store
    with serving(store, Settings(reading_seconds=2)) as served, served.connect() as connection:
        connection.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_reply(connection)[0].startswith(b"HTTP/1.1 200")
        connection.sendall(b"\r\n")
        assert read_reply(connection)[0].startswith(b"HTTP/1.1 408")
        assert connection.recv(10) == b""


def test_a_connection_that_is_not_used_again_is_closed_without_a_word(place, monkeypatch):
    """One that is used stays open, however many requests come."""
    monkeypatch.setattr("served.configured", lambda app: configured(app, timeout_keep_alive=2))
    with serving(place.create()._store, Settings(reading_seconds=1)) as served, served.connect() as connection:
        for _ in range(6):
            connection.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_reply(connection)[0].startswith(b"HTTP/1.1 200")
            time.sleep(0.5)
        assert connection.recv(10) == b""


def test_slow_clients(place):
    store = place.create()._store
    with serving(store, Settings(reading_seconds=0.4)) as served, nothing_stored(served):
        head = f"POST {ASK} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n"
        starts = (b"", b"GET /li", head.encode(), f"{head}Content-Length: 20\r\n\r\n".encode() + b'{"unit"')
        for start in starts:
            with served.connect() as connection:
                connection.sendall(start)
                received = b""
                with contextlib.suppress(ConnectionError):
                    while part := connection.recv(1000):
                        received += part
                assert received.startswith(b"HTTP/1.1 408")
                assert b"about:blank#slow" in received
        with served.connect() as connection, contextlib.suppress(ConnectionError):  # a byte at a time is slow, too
            for _ in range(100):
                connection.sendall(b"x")
                time.sleep(0.05)
            pytest.fail("a slow request was never refused")
        assert served.get("/live").status == 200
