"""What must be refused: each has its code and one sentence, and nothing is stored."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from served import Served, serving

from belated.live.schema import TABLES
from belated.live.service import Settings

BUTTON = "/v1/experiments/button"
ASK, TELL = f"{BUTTON}/ask", f"{BUTTON}/tell"

#: Every route that changes something, and what it usually gets.
CHANGES = [
    ("POST", ASK, {"unit": "ada"}),
    ("POST", f"{BUTTON}/ask-many", {"units": ["ada"]}),
    ("POST", TELL, {"unit": "ada", "value": 1}),
    ("POST", f"{BUTTON}/tell-many", {"outcomes": [{"unit": "ada", "value": 1}]}),
    (
        "POST",
        "/v1/experiments",
        {"name": "n", "arms": ["A"], "policy": {"name": "uniform"}, "outcome": {"kind": "binary"}},
    ),
    ("POST", f"{BUTTON}/changes", {"what": "stop"}),
    ("POST", f"{BUTTON}/tick", None),
    ("POST", f"{BUTTON}/erase", {"unit": "ada"}),
    ("POST", "/v1/tokens", {"label": "x", "scopes": ["ask"]}),
    ("DELETE", "/v1/tokens/1", None),
]
READS = [
    "/metrics",
    "/v1/experiments",
    BUTTON,
    f"{BUTTON}/answer",
    f"{BUTTON}/log",
    f"{BUTTON}/changes",
    f"{BUTTON}/versions",
    "/v1/backup",
    "/v1/tokens",
]
ALL = [*CHANGES, *(("GET", path, None) for path in READS), ("POST", "/v1/verify", None)]


def stored(served: Served) -> dict[str, int]:
    with served.store.storage.reading() as session:
        return {table: session.run(f"select count(*) from {table}")[0][0] for table in TABLES}  # noqa: S608


@contextlib.contextmanager
def nothing_stored(served: Served) -> Iterator[None]:
    before = stored(served)
    yield
    assert stored(served) == before


# ---------------------------------------------------------------- tokens


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


def test_units_are_shown_only_to_who_may_see_them(served):
    served.post(ASK, {"unit": "a secret person"})
    reader, keeper = served.make_token("read"), served.make_token("read", "units")
    assert served.get(f"{BUTTON}/log?units=true", token=reader).kind == "scope"
    assert b"a secret person" in served.get(f"{BUTTON}/log?units=true", token=keeper).body
    reply = served.get(f"{BUTTON}/log?units=yes", token=keeper)
    assert (reply.status, reply.json["detail"]) == (422, "`units` is 'yes'; it must be one of 'true', 'false'.")
    for path in READS[:7]:
        for accept in ("*/*", "application/vnd.apache.arrow.stream"):
            assert b"a secret person" not in served.get(path, token=reader, accept=accept).body
    assert served.get("/v1/backup", token=served.make_token("admin")).kind == "scope"
    made = served.post("/v1/tokens", {"label": "x", "scopes": ["units"]}, token=served.make_token("admin"))
    assert (made.status, made.kind) == (403, "scope")


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


# ---------------------------------------------------------------- where it comes from


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


# ---------------------------------------------------------------- too large


def test_oversized_bodies(shared):
    with nothing_stored(shared):
        large = b'{"unit": "' + b"x" * (1 << 20) + b'"}'
        reply = shared.post(ASK, large)
        assert (reply.status, reply.kind) == (413, "too-large")
        with shared.connect() as connection:  # refused before anything of the body is there
            head = f"POST {ASK} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {shared.token}\r\n"
            connection.sendall(f"{head}Content-Length: 99999999999\r\n\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 413")
        with shared.connect() as connection:  # and without an announced length, when it has become too large
            connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            connection.sendall(b"80000\r\n" + b"x" * 0x80000 + b"\r\n")
            connection.sendall(b"80001\r\n" + b"x" * 0x80001 + b"\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 413")
        with shared.connect() as connection:
            connection.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000)
            assert connection.recv(100).startswith(b"HTTP/1.1 431")


def test_oversized_units(shared):
    with nothing_stored(shared):
        for unit in ("x" * 501, "é" * 501, ""):
            for path, content in ((ASK, {"unit": unit}), (f"{BUTTON}/ask-many", {"units": ["fine", unit]})):
                reply = shared.post(path, content)
                assert (reply.status, reply.kind) in ((422, "invalid"), (400, "malformed")), unit
            reply = shared.post(TELL, {"unit": unit, "value": 1})
            assert reply.status in (400, 422)
        assert "x" * 20 not in shared.post(ASK, {"unit": "x" * 501}).json["detail"]


def test_oversized_batches(shared):
    with nothing_stored(shared):
        asks = {"units": [str(number) for number in range(10_001)]}
        tells = {"outcomes": [{"unit": str(number), "value": 1} for number in range(10_001)]}
        for act, content in (("ask-many", asks), ("tell-many", tells)):
            reply = shared.post(f"{BUTTON}/{act}", content)
            assert (reply.status, reply.kind) == (413, "too-large")


# ---------------------------------------------------------------- malformed


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"nonsense", b'{"unit": "a"', b'{"unit": "a"} x', b'\xff\xfe{"unit": "a"}', b'{"unit": "\xff"}',
        b"{'unit': 'a'}", b'{"unit": "\\ud800"}', b'{"unit": NaN}',
    ],
)  # fmt: skip
def test_malformed_json(shared, body):
    with nothing_stored(shared):
        for method, path, content in CHANGES:
            if content is not None:
                reply = shared.send(method, path, body)
                wrong = ((400, "malformed"),) if path == ASK else ((400, "malformed"), (422, "invalid"))
                assert (reply.status, reply.kind) in wrong, path


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


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e61", "2", '"1"', "null", "true"]
)
def test_nan_and_other_impossible_values(shared, value):
    with nothing_stored(shared):
        reply = shared.post(TELL, f'{{"unit": "ada", "value": {value}}}'.encode())
        assert (reply.status, reply.kind) in ((400, "malformed"), (422, "invalid"))
        many = shared.post(f"{BUTTON}/tell-many", f'{{"outcomes": [{{"unit": "ada", "value": {value}}}]}}'.encode())
        assert many.status in (400, 422) or many.json["told"][0]["status"] == "refused"


def test_deep_nesting(shared):
    deep = b"[" * 500_000
    policy = b'{"name": "n", "arms": ["A"], "outcome": {"kind": "binary"}, "policy": {"name": '
    with nothing_stored(shared):
        for path, body in (
            (ASK, deep), (ASK, b'{"unit": ' + deep), ("/v1/experiments", policy + deep),
            ("/v1/experiments", policy + b"[" * 100_000 + b"]" * 100_000 + b"}}"),
            ("/v1/experiments", policy + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}}"),
        ):  # fmt: skip
            reply = shared.post(path, body)
            assert (reply.status, reply.kind) in ((400, "malformed"), (422, "invalid"))
    assert shared.get("/live").status == 200


# ---------------------------------------------------------------- slow clients


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
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


# ---------------------------------------------------------------- text

HOSTILE = [
    "<script>alert(1)</script>", "'; drop table decision; --", '" onload="alert(1)', "{{ 7 * 7 }}", "=1+1", "../../etc",
    "a\nb\rc", "\u202eevil", "%s %(x)s {0}", "\\", "?*", "名前🎉",
]  # fmt: skip


def test_html_and_sql_in_every_text_field(served):
    """Text of any kind is kept as it is: it is never markup, and never part of a statement."""
    for text in HOSTILE:
        _use(served, text)


def _use(served, text):
    new = {
        "name": text, "arms": [text, "B"], "policy": {"name": "uniform"}, "outcome": {"kind": "binary"},
        "baseline": text, "author": text, "reason": text,
    }  # fmt: skip
    made = served.post("/v1/experiments", new)
    assert made.status == 201
    path = f"/v1/experiments/{quote(text, safe='')}"
    assert served.post(f"{path}/changes", {"what": "start", "author": text, "reason": text}).status == 200
    asked = served.post(f"{path}/ask", {"unit": text})
    assert (asked.status, asked.json["unit"]) == (200, text)
    assert served.post(f"{path}/tell", {"unit": text, "value": 1}).json["status"] == "new"
    changes = served.get(f"{path}/changes").json["changes"]
    assert [(each["author"], each["reason"]) for each in changes] == [(text, text)] * 2
    assert served.get(f"{path}/answer").json["experiment"] == text
    for place in ("answer", "log", "changes", "versions"):
        assert "html" not in served.get(f"{path}/{place}").headers["content-type"]
        assert served.get(f"{path}/{place}").headers["x-content-type-options"] == "nosniff"
    cells = served.get(f"{path}/log").body.decode().splitlines()
    assert not [cell for line in cells for cell in line.split(",") if cell.startswith("=")]
    token = served.post("/v1/tokens", {"label": text, "scopes": ["read"], "experiment": text})
    assert (token.status, token.json["about"]["label"]) == (201, text)
    assert served.get(path, token=token.json["token"]).json["name"] == text
    assert served.get("/metrics").status == 200
    assert served.post(f"{path}/erase", {"unit": text, "reason": text}).json == {"erased": True}
    assert served.post("/v1/verify").json["clean"]
    problem = served.post(f"{path}/changes", {"what": "drop_arm", "arm": text + "?"})
    assert (problem.status, problem.kind) == (422, "invalid")


def test_text_that_no_storage_holds(served):
    with nothing_stored(served):
        for text in ("a\x00b", "x" * 3000, ""):
            new = {"name": "n", "arms": ["A"], "policy": {"name": "uniform"}, "outcome": {"kind": "binary"}}
            for field in ("name", "baseline", "author"):
                assert served.post("/v1/experiments", new | {field: text}).status == 422, field
            assert served.post("/v1/experiments", new | {"arms": [text]}).status == 422
            assert served.post("/v1/tokens", {"label": text, "scopes": ["ask"]}).status == 422
            for unit in (text, f"{text}\x00"):
                assert served.post(ASK, {"unit": unit}).status == 422


def test_a_function_of_ones_own_cannot_be_sent(shared):
    new = {"name": "n", "arms": ["A", "B"], "outcome": {"kind": "binary"}}
    with nothing_stored(shared):
        for policy in ({"name": "own"}, {"name": "own", "function": "os.system"}, {"name": "__import__"}, {}):
            reply = shared.post("/v1/experiments", new | {"policy": policy})
            assert (reply.status, reply.kind) == (422, "invalid")
            assert shared.post(f"{BUTTON}/changes", {"what": "set_policy", "policy": policy}).status == 422


# ---------------------------------------------------------------- names


def test_path_tricks_in_names(served):
    for name in ["a/b", "..", ".", "../button", "%2e%2e", "a%2Fb", "?", "#", ";", "ask", " ", "+", "é"]:
        new = {"name": name, "arms": ["A", "B"], "policy": {"name": "uniform"}, "outcome": {"kind": "binary"}}
        path = f"/v1/experiments/{quote(name, safe='').replace('.', '%2E')}"
        assert served.get(path).kind == "unknown-experiment"
        assert served.post("/v1/experiments", new | {"start": True}).status == 201
        assert served.post(f"{path}/ask", {"unit": "ada"}).status == 200
        assert served.get(path).json["name"] == name
        assert (served.get(path).json["asked"], served.get(BUTTON).json["asked"]) == (1, 0)


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


def test_queries_that_cannot_be_read(shared):
    with nothing_stored(shared):
        assert shared.get(f"{BUTTON}/versions?{'limit=1&' * 21}").kind == "malformed"
        for query in ("limit=%ff", "limit=-1", "after=1e3", "limit=", "limit=99999999999"):
            assert shared.get(f"{BUTTON}/versions?{query}").kind == "invalid"


@pytest.mark.parametrize("number", ["0", "-1", "x", "9" * 30, "1%2F2", "²"])
def test_numbers_of_tokens_that_are_none(shared, number):
    with nothing_stored(shared):
        assert shared.send("DELETE", f"/v1/tokens/{quote(number, safe='%')}").kind == "unknown-token"


@pytest.mark.parametrize(
    "path", ["/V1/experiments/button", "http://127.0.0.1/v1/experiments/button", "//v1/x", "/x", "*"]
)
def test_paths_that_are_no_pages(shared, path):
    reply = shared.get(path)
    assert reply.status == 404
    assert "script-src 'self'" in reply.headers["content-security-policy"]
