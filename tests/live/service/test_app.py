from __future__ import annotations

from urllib.parse import quote

import pytest

import belated as bl
from tests.live.service.conftest import ASK, BUTTON, nothing_stored


def test_segments_over_http(served):
    given = {"name": "mail", "arms": ["A", "B"], "policy": {"name": "uniform"}, "outcome": {"kind": "binary"}}
    made = served.post("/v1/experiments", given | {"segments": ["DE", "FR"], "start": True})
    assert (made.status, made.json["segments"][0]) == (201, {"segment": "DE", "units": 0, "probabilities": [0.5, 0.5]})
    mail = "/v1/experiments/mail"
    assert served.post(f"{mail}/ask", {"unit": "ada", "segment": "DE"}).json["segment"] == "DE"
    for path, content in {
        f"{mail}/ask": {"unit": "bob"},
        f"{BUTTON}/ask": {"unit": "bob", "segment": "DE"},
        f"{mail}/ask-many": {"units": ["bob", "eve"], "segments": ["DE"]},
    }.items():
        refused = served.post(path, content)
        assert (refused.status, refused.kind) == (422, "invalid")
    many = served.post(f"{mail}/ask-many", {"units": ["ada", "bob"], "segments": ["FR", "ES"]}).json["decisions"]
    assert (many[0]["segment"], many[0]["repeated"]) == ("DE", True)
    assert many[1]["problem"]["status"] == 422
    missing = served.post(f"{mail}/changes", {"what": "add_segment"})
    assert (missing.status, missing.kind) == (422, "invalid")
    added = served.post(f"{mail}/changes", {"what": "add_segment", "segment": "ES"})
    assert [each["segment"] for each in added.json["segments"]] == ["DE", "FR", "ES"]
    with bl.live.open(served.url, token=served.token) as store:
        exp = store.experiment("mail")
        assert exp.ask("bob", "ES").segment == "ES"
        assert [reply.segment for reply in exp.ask_many(["ada", "eve"], ["FR", "FR"])] == ["DE", "FR"]
        exp.tell_many([("ada", 1), ("bob", 0), ("eve", 1)])
        made = exp.tick()
        assert (made.steps, sum(made.counts)) == ((2, 2, 2), 3.0)
        assert exp.status().segments == served.store.experiment("mail").status().segments
        assert exp.replay()[-1] == made
        answer = served.store.experiment("mail").answer()
        assert exp.answer().estimate.to_json() == answer.estimate.to_json()
        other = store.create(
            "other", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.real(), segments=["x"]
        ).start()
        assert other.ask("ada", "x", fallback="A").logged
        other.add_segment("y")
        assert other.ask("bob", "y").segment == "y"
    assert "DE" in served.get(f"{mail}/log").body.decode()


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/x-www-form-urlencoded", "application/json"])
def test_a_body_is_json_whatever_its_type_says(shared, kind):
    """`curl -d` says that it sends a form; a token makes sure that no other site's page does."""
    headers = {} if kind is None else {"content_type": kind}
    assert shared.post(ASK, {"unit": "ada"}, **headers).status == 200
    with nothing_stored(shared):
        assert shared.post(ASK, b"unit=ada", **headers).kind == "malformed"


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


@pytest.mark.parametrize(
    "path", ["/V1/experiments/button", "http://127.0.0.1/v1/experiments/button", "//v1/x", "/x", "*"]
)
def test_paths_that_are_no_pages(shared, path):
    reply = shared.get(path)
    assert reply.status == 404
    assert "script-src 'self'" in reply.headers["content-security-policy"]


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


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_client_that_goes_away_cancels_nothing(served):
    with served.store.storage.writing(), served.connect() as connection:
        body = b'{"unit": "ada"}'
        head = f"POST {BUTTON}/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        while not served.app.service.waiting:
            pass
    while served.app.service.waiting:
        pass
    assert served.post(f"{BUTTON}/ask", {"unit": "ada"}).json["repeated"]
