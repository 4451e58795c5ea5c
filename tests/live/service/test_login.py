from __future__ import annotations

import logging
from urllib.parse import urlencode

import pytest
from served import serving

import belated as bl
from belated.live.service import Settings, access
from belated.live.tokens import all_tokens, revoke

BUTTON = "/v1/experiments/button"


def form(**fields):
    return urlencode(fields).encode()


def log_in(served, *scopes, **options) -> str:
    """Log in by a new link; return the cookie."""
    code = served.make_token(*scopes or ("read", "admin"), kind="link", **options)
    reply = served.post("/login", form(code=code), token=None)
    assert (reply.status, reply.headers["location"]) == (303, "/")
    return reply.headers["set-cookie"].partition(";")[0]


def test_a_link_is_used_by_a_button_and_once(served):
    code = served.make_token("read", kind="link")
    for _ in range(2):  # to look at the page uses nothing up
        page = served.get(f"/login?code={code}", token=None)
        assert page.status == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["referrer-policy"] == "same-origin"
    reply = served.post("/login", form(code=code), token=None)
    cookie = reply.headers["set-cookie"]
    assert reply.status == 303
    assert {"HttpOnly", "SameSite=strict", "Max-Age=43200", "Path=/"} <= set(cookie.split("; "))
    assert served.get(BUTTON, token=None, cookie=cookie.partition(";")[0]).status == 200
    assert served.post("/login", form(code=code), token=None).status == 401
    for code in ("", "nonsense", served.make_token("read")):
        assert served.post("/login", form(code=code), token=None).status == 401


def test_a_login_makes_a_new_secret_and_leads_nowhere_else(served):
    """What a browser kept before, perhaps from somebody else, is not what it keeps afterwards."""
    kept = f"{access.COOKIE}={served.make_token('read', kind='browser')}"
    code = served.make_token("read", kind="link")
    fields = form(code=code, next="//evil.example", redirect="https://evil.example")
    reply = served.post("/login?next=//evil.example", fields, token=None, cookie=kept)
    assert (reply.status, reply.headers["location"]) == (303, "/")
    assert reply.headers["set-cookie"].partition(";")[0] != kept
    assert "secure" not in reply.headers["set-cookie"].lower()  # http, on this machine


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_behind_https_a_cookie_is_never_sent_otherwise(place):
    with serving(place.create()._store, Settings(secure=True)) as served:
        reply = served.post("/login", form(code=served.make_token("read", kind="link")), token=None)
    assert "Secure" in reply.headers["set-cookie"].split("; ")


def test_a_revoked_login_reads_no_more(served):
    cookie = log_in(served)
    number = max(each.id for each in known(served).values() if each.kind == "browser")
    assert served.get(BUTTON, token=None, cookie=cookie).status == 200
    revoke(served.store.storage, number)
    served.app.service.keyring.forget()
    reply = served.get(BUTTON, token=None, cookie=cookie)
    assert (reply.status, reply.kind) == (401, "no-token")


def known(served):
    with served.store.storage.reading() as session:
        return all_tokens(session)


def test_a_link_expires(served, place):
    code = served.make_token("read", kind="link")
    place.clock.forward(601)
    assert served.post("/login", form(code=code), token=None).status == 401


def test_a_browser_is_logged_out_after_twelve_hours_or_by_a_button(served, place):
    first, second = log_in(served), log_in(served)
    secret = first.partition("=")[2]
    assert served.post("/logout", form(form="x"), token=None, cookie=first).status == 403
    out = served.post("/logout", form(form=access.form_key(secret)), token=None, cookie=first)
    assert (out.status, out.headers["location"]) == (303, "/login/out")
    assert served.get(BUTTON, token=None, cookie=first).kind == "no-token"
    assert served.get(BUTTON, token=None, cookie=second).status == 200
    place.clock.forward(12 * 3600 + 1)
    assert served.get(BUTTON, token=None, cookie=second).kind == "no-token"


def test_a_browser_reads_with_its_cookie_and_changes_nothing_by_it(served):
    cookie = log_in(served, "read", "admin", "ask")
    assert served.post(f"{BUTTON}/ask", {"unit": "ada"}, token=None, cookie=cookie).kind == "no-token"
    assert served.get(BUTTON, token=None, cookie=cookie).json["asked"] == 0
    assert served.get("/v1/backup", token=None, cookie=cookie).kind == "scope"


def test_a_browser_has_the_scopes_and_the_experiment_of_its_link(served, place):
    place.create("other")
    cookie = log_in(served, "read", experiment="other")
    assert served.get("/v1/experiments/other", token=None, cookie=cookie).status == 200
    assert served.get(BUTTON, token=None, cookie=cookie).kind == "other-experiment"
    assert served.get("/v1/tokens", token=None, cookie=cookie).kind == "scope"


def test_text_of_a_link_is_escaped(served):
    page = served.get("/login?code=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", token=None)
    assert b"<script" not in page.body
    large = served.post("/login", b"code=" + b"x" * 100_000, token=None)
    assert large.status == 413


def test_a_storage_that_fails_is_said_once(served, monkeypatch, caplog):
    """Whoever logs in is told, and the server does not try to reply twice."""

    def fail(*_):
        raise bl.live.StorageError("The disk is full.")

    code = served.make_token("read", kind="link")
    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
        patched.setattr(served.store.storage, "writing", fail)
        reply = served.post("/login", form(code=code), token=None)
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert b"The disk is full." in reply.body
    assert caplog.records == []
    assert served.post("/login", form(code=code), token=None).status == 303
