from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import belated as bl
from belated.live import connecting
from belated.live.connecting import ServiceConnection

TOKEN = "secret-token-17"  # noqa: S105


class Stub(ThreadingHTTPServer):
    """A server that does what it is told with each request: a code to answer, or how not to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.acts: list[object] = []
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def process_request(self, request, address):
        self.connections += 1
        super().process_request(request, address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        act = self.server.acts.pop(0) if self.server.acts else 200
        if act == "drop":
            self.close_connection = True
            return
        if act == "drip":  # the whole would take more than ten seconds
            with suppress(OSError):
                for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n" + b" " * 200:
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.05)
            self.close_connection = True
            return
        if act == "hang":
            time.sleep(1)
            self.close_connection = True
            return
        code, headers, content = act if isinstance(act, tuple) else (act, {}, b'{"ok": true}')
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        if "content-length" not in headers:
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do  # noqa: N815


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(connecting, "_PAUSE", 0.001)


def problem(code: int, word: str, detail: str = "It is so.", **headers: str) -> tuple[int, dict[str, str], bytes]:
    body = {"type": f"about:blank#{word}", "title": "x", "status": code, "detail": detail}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return code, {"content-type": "application/problem+json", **named}, json.dumps(body).encode()


def connect(stub: Stub, **options) -> ServiceConnection:
    return ServiceConnection(stub.url, TOKEN, options.get("timeout", 5.0), options.get("retries", 3))


def test_a_connection_is_used_again_and_the_token_is_sent(stub):
    connection = connect(stub)
    for _ in range(5):
        assert connection.call("POST", "/x", {"unit": "ü"}).json() == {"ok": True}
    assert stub.connections == 1
    command, path, headers, body = stub.seen[0]
    assert (command, path, json.loads(body)) == ("POST", "/x", {"unit": "ü"})
    assert headers["Authorization"] == f"Bearer {TOKEN}"


def test_threads_have_connections_of_their_own(stub):
    connection = connect(stub)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: connection.call("GET", "/x").status, range(64)))
    assert replies == [200] * 64
    assert stub.connections <= 8


@pytest.mark.parametrize("act", ["drop", 502, 503, 504, 520, 599, problem(503, "storage")])
def test_what_can_be_repeated_is_sent_again(stub, act):
    stub.acts = [act, act]
    assert connect(stub).call("POST", "/x", {}).status == 200
    assert len(stub.seen) == 3


def test_there_is_an_end_to_trying_again(stub):
    stub.acts = ["drop"] * 10
    with pytest.raises(bl.live.StorageError, match="did not answer: the connection was closed"):
        connect(stub, retries=2).call("POST", "/x", {})
    assert len(stub.seen) == 3


@pytest.mark.parametrize("act", ["drop", 502, problem(503, "storage")])
def test_what_cannot_be_repeated_is_sent_once(stub, act):
    stub.acts = [act]
    with pytest.raises(bl.live.StorageError):
        connect(stub).call("POST", "/x", {}, repeatable=False)
    assert len(stub.seen) == 1


def test_what_was_refused_unseen_is_sent_again_in_any_case(stub):
    stub.acts = [problem(503, "overloaded", retry_after="0")]
    assert connect(stub).call("POST", "/x", {}, repeatable=False).status == 200
    stub.acts = ["drop"]
    with pytest.raises(bl.live.StorageError, match="may have been done nevertheless; check before"):
        connect(stub).call("POST", "/x", {}, repeatable=False)


def test_a_change_that_a_proxy_gave_up_waiting_for_may_have_been_made(stub):
    stub.acts = [504, problem(503, "storage", "The disk is full.")]
    with pytest.raises(bl.live.StorageError, match=r"code 504\. It may have been done nevertheless; check before"):
        connect(stub).call("POST", "/x", {}, repeatable=False)
    with pytest.raises(bl.live.StorageError, match=r"^The disk is full\.$"):
        connect(stub).call("POST", "/x", {}, repeatable=False)


def test_what_cannot_be_repeated_takes_a_new_connection(stub):
    """An old one may just be closing: nobody could say then whether the request was done."""
    connection = connect(stub)
    connection.call("GET", "/x")
    connection.call("POST", "/x", {}, repeatable=False)
    assert stub.connections == 2


def test_a_service_that_is_not_there_is_a_storage_that_fails(stub):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(bl.live.StorageError, match=f"The service {url} cannot be reached: connection refused"):
        ServiceConnection(url, TOKEN, 5.0, 1).call("POST", "/x", {}, repeatable=False)


def test_a_timeout_is_of_the_whole_call(stub):
    stub.acts = ["hang"] * 5
    with pytest.raises(bl.live.StorageError, match="it took too long"):
        connect(stub, timeout=0.2, retries=100).call("POST", "/x", {})
    assert len(stub.seen) <= 2
    stub.acts, stub.seen = [problem(503, "overloaded", retry_after="30")] * 3, []
    with pytest.raises(bl.live.OverloadedError):  # it is not waited for longer than the call may take
        connect(stub, timeout=20.0).call("POST", "/x", {})
    assert len(stub.seen) == 1


def test_a_reply_in_small_pieces_does_not_prolong_a_call(stub):
    stub.acts = ["drip"] * 5
    began = time.monotonic()
    with pytest.raises(bl.live.StorageError, match="it took too long"):
        connect(stub, timeout=0.3).call("POST", "/x", {})
    assert time.monotonic() - began < 2


def test_a_connection_that_the_service_closed_is_not_used_again(stub):
    connection = connect(stub, retries=0)
    stub.acts = [(200, {"connection": "close"}, b"{}")]
    connection.call("GET", "/x")
    connection.call("GET", "/x")
    ((kept, _),) = connection._idle
    kept.sock.shutdown(socket.SHUT_RDWR)  # as if the other side had gone
    assert connection.call("GET", "/x").status == 200
    assert stub.connections == 3


def test_a_child_does_not_use_the_connections_of_its_parent(stub, monkeypatch):
    connection = connect(stub)
    connection.call("GET", "/x")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    connection.call("GET", "/x")
    assert stub.connections == 2


@pytest.mark.parametrize(
    ("code", "word", "kind"),
    [
        (404, "unknown-experiment", bl.live.UnknownExperimentError),
        (409, "contradiction", bl.live.ContradictionError),
        (409, "not-running", bl.live.NotRunningError),
        (409, "conflict", bl.live.LiveError),
        (410, "closed", bl.live.ClosedError),
        (422, "invalid", bl.OptionError),
        (409, "no-rows", bl.LogError),
        (401, "no-token", bl.live.AccessError),
        (403, "scope", bl.live.AccessError),
        (413, "too-large", bl.live.LiveError),
        (429, "too-many", bl.live.OverloadedError),
        (503, "schema", bl.live.SchemaError),
        (503, "storage", bl.live.StorageError),
    ],
)
def test_problems_are_the_errors_of_the_storages(stub, code, word, kind):
    stub.acts = [problem(code, word, "One sentence.")] * 2
    with pytest.raises(kind, match=r"^One sentence\.$") as caught:
        connect(stub, retries=0).call("GET", "/x")
    assert type(caught.value) is kind


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'{"type": 1}'])
def test_a_reply_of_something_else_is_an_error_in_a_sentence(stub, content):
    stub.acts = [(500, {}, content), (400, {}, content), (200, {}, b"<html>")]
    connection = connect(stub, retries=0)
    with pytest.raises(bl.live.StorageError, match="code 500"):
        connection.call("GET", "/x")
    with pytest.raises(bl.live.LiveError, match="code 400"):
        connection.call("GET", "/x")
    with pytest.raises(bl.live.StorageError, match="is not JSON; check that the address"):
        connection.call("GET", "/x").json()


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"detail":' * 100_000])
def test_a_reply_that_is_nested_too_deep_is_an_error_in_a_sentence(stub, content):
    stub.acts = [(500, {}, content), (200, {}, content)]
    connection = connect(stub, retries=0)
    with pytest.raises(bl.live.StorageError, match="code 500"):
        connection.call("GET", "/x")
    with pytest.raises(bl.live.StorageError, match="is not JSON; check that the address"):
        connection.call("GET", "/x").json()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_what_speaks_another_protocol_is_said_so(scheme):
    def say_hello() -> None:
        with listener.accept()[0] as other:
            other.recv(1000)
            other.sendall(b"220 mail.example.org ready\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=say_hello)
        thread.start()
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        why = {"http": "what came back is not HTTP", "https": r"no encrypted connection can be made \([a-z ]+\)"}
        with pytest.raises(bl.live.StorageError, match=f"{why[scheme]}\\.$"):
            ServiceConnection(url, TOKEN, 5.0, 0).call("GET", "/x")
        thread.join()


def test_a_file_that_ends_too_early_is_fetched_again(stub, tmp_path):
    stub.acts = [(200, {"content-length": "100", "connection": "close"}, b"half"), (200, {}, b"whole")]
    with (tmp_path / "copy").open("w+b") as file:
        connect(stub).call("GET", "/x", file=file)
    assert (tmp_path / "copy").read_bytes() == b"whole"
    stub.acts = [(200, {"content-length": "100", "connection": "close"}, b"half")]
    with (
        (tmp_path / "copy").open("w+b") as file,
        pytest.raises(bl.live.StorageError, match="the connection was closed"),
    ):
        connect(stub, retries=0).call("GET", "/x", file=file)


def test_a_redirect_is_not_followed(stub):
    stub.acts = [(302, {"location": stub.url + "/elsewhere"}, b"")]
    with pytest.raises(bl.live.LiveError, match="another address"):
        connect(stub).call("GET", "/x")
    assert [path for _, path, *_ in stub.seen] == ["/x"]


def test_proxies_of_the_environment_are_not_used(stub, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert connect(stub).call("GET", "/x").status == 200


def test_the_token_is_in_no_message(stub, monkeypatch):
    connection = connect(stub, retries=0)
    store = bl.live.open(stub.url, token=TOKEN)
    shown = [repr(connection), repr(store)]
    stub.acts = ["drop", 500, problem(401, "no-token")]
    for _ in range(3):
        with pytest.raises(bl.live.LiveError) as caught:
            connection.call("GET", "/x")
        shown.append(str(caught.value))
    for bad in (f"{TOKEN}\r\nX: y", f"{TOKEN} ", f"{TOKEN}é"):
        with pytest.raises(bl.OptionError) as refused:
            bl.live.open(stub.url, token=bad)
        shown.append(str(refused.value))
    assert TOKEN not in " ".join(shown)


def test_the_token_may_be_in_the_environment(stub, monkeypatch):
    with pytest.raises(bl.OptionError, match=r"`token` is missing; .* set BELATED_TOKEN"):
        bl.live.open(stub.url)
    monkeypatch.setenv("BELATED_TOKEN", "from-outside")
    bl.live.open(stub.url)._connection.call("GET", "/x")
    assert stub.seen[0][2]["Authorization"] == "Bearer from-outside"


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "https://user:word@example.org",
        "http://x?y=1",
        "http://x#y",
        "http://x:port",
        "http://x y",
        "http://[x",
    ],
)
def test_an_address_that_is_none_is_refused_in_a_sentence(url):
    with pytest.raises(bl.OptionError, match="`place`") as caught:
        bl.live.open(url, token=TOKEN)
    assert "word" not in str(caught.value).replace("password", "")


def test_an_address_may_have_a_path(stub):
    ServiceConnection(stub.url + "/experiments/", TOKEN, None, None).call("GET", "/live")
    assert stub.seen[0][1] == "/experiments/live"


def test_a_certificate_is_checked(stub, tmp_path):
    """Who trusts it says so to Python, by SSL_CERT_FILE; nothing turns the check off."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    openssl = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    _run([*openssl, "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
          "-addext", "subjectAltName=DNS:localhost"])  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    stub.socket = context.wrap_socket(stub.socket, server_side=True, do_handshake_on_connect=False)
    url = f"https://localhost:{stub.server_port}"
    with pytest.raises(bl.live.StorageError, match=r"its certificate is not trusted \([^.]*\)\.$"):
        ServiceConnection(url, TOKEN, 5.0, 5).call("GET", "/x")
    assert not stub.seen
    call = f"ServiceConnection({url!r}, 't', 5.0, 0).call('GET', '/x')"
    code = f"from belated.live.connecting import ServiceConnection; print({call}.status)"
    assert _run([sys.executable, "-c", code], SSL_CERT_FILE=str(certificate)) == "200\n"


def _run(command: list[object], **variables: str) -> str:
    done = subprocess.run(command, env=os.environ | variables, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout
