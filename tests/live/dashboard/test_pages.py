"""The pages as a server sends them: who sees what, with which headers, and how large they are."""

from __future__ import annotations

import json
import logging
import re
import threading
from html import unescape

import numpy as np
import pytest
from commands import invoke
from live.dashboard.conftest import opened

import belated as bl
from belated.live.schema import TABLES
from belated.live.service import journal
from belated.live.tokens import make_token, tokens

EXPERIMENT = {"experiment": "subject line"}
TABS = ("/answer", "/over-time", "/arrivals", "/soundness", "/changes")
STORE = ("/", "/new", "/tokens", "/machine")


def text(reply):
    """Return what a page says, without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", reply.body.decode())).split())


def content(site, path, **query):
    """Return the content of a page, once its answer is there."""
    while b"data-soon" in (reply := site.get(path, **query, part="content")).body:
        pass
    return reply


@pytest.mark.parametrize("path", [*STORE, *TABS])
def test_every_page_is_strict_and_private(site, path):
    reply = site.get(path, **(EXPERIMENT if path in TABS else {}))
    assert reply.status == 200, text(reply)
    policy = dict(part.strip().split(" ", 1) for part in reply.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] in ("no-store", "no-cache, private")
    html = reply.body.decode()
    assert not re.search(r"<[^>]*\s(style|on\w+)=", html)
    assert "<style" not in html
    assert not re.search(r"<script(?![^>]*\ssrc=)", html)
    assert html.count("<h1") == 1


@pytest.mark.parametrize("path", [*STORE, *TABS, "/report"])
def test_who_is_not_logged_in_sees_nothing(site, path):
    reply = site.served.get(f"{path}?experiment=subject+line", token=None)
    assert reply.status == 401
    assert "not logged in" in text(reply)
    assert "Emoji" not in text(reply)
    assert site.get(path, "belated_wrong", **EXPERIMENT).status == 401


def test_who_may_only_read_sees_no_forms_and_can_send_none(own_site):
    reader = own_site.login("read")
    assert own_site.get("/", reader).status == 200
    page = own_site.get("/changes", reader, **EXPERIMENT)
    assert "See what it would do" not in text(page)
    assert "/tokens" not in page.body.decode()
    for path in ("/new", "/tokens"):
        assert own_site.get(path, reader).status == 403
    before = len(own_site.store.experiment("subject line").changes())
    form = {"what": "close", "reason": "because", "seen": str(before)}
    assert own_site.post("/changes?experiment=subject+line", form, reader).status == 403
    assert len(own_site.store.experiment("subject line").changes()) == before


def test_who_may_see_one_experiment_sees_no_other(own_site):
    one = own_site.login("read", "admin", experiment="draft")
    assert "subject line" not in text(own_site.get("/", one))
    assert "subject line" not in text(own_site.get("/machine", one))
    assert own_site.get("/answer", one, experiment="draft").status == 200
    for path in (*TABS, "/report"):
        assert own_site.get(path, one, **EXPERIMENT).status == 403
    for path in ("/new", "/tokens"):
        assert own_site.get(path, one).status == 403


def test_a_form_of_another_login_changes_nothing(own_site):
    _, made = make_token(own_site.store.storage, "checkout", ["ask"], author="Ada")
    other = re.search(rb'name="form" value="(\w+)"', own_site.get("/", own_site.login()).body)[1].decode()
    changes = len(own_site.store.experiment("subject line").changes())
    forms = {
        "/new": {"name": "forged", "arms": "A\nB", "outcome": "binary", "policy": "uniform", "planned": "9"},
        "/changes?experiment=subject+line": {"what": "close", "reason": "forged", "seen": str(changes)},
        "/tokens": {"label": "forged", "scope-ask": "yes", "expires": "1d"},
        "/tokens/revoke": {"id": str(made.id), "confirmed": "yes"},
        "/logout": {},
    }
    for path, form in forms.items():
        for key in ("", "0" * 32, "\u00e9", other):
            assert own_site.post(path, form, key=key).status == 403, path
    assert "forged" not in list(own_site.store.experiments())
    assert len(own_site.store.experiment("subject line").changes()) == changes
    assert {each.label for each in tokens(own_site.store.storage) if each.ended_at is None} == {
        "everything",
        "checkout",
    }
    assert own_site.get("/").status == 200  # still logged in


def test_a_form_that_is_sent_twice_at_once_changes_something_once(own_site):
    """A double click: who is second sees that something was changed meanwhile."""
    exp, change = own_site.store.experiment("subject line"), "/changes?experiment=subject+line"
    before = len(exp.changes())
    form = {"what": "set_policy", "policy": "uniform", "reason": "twice", "seen": str(before)}
    key = re.search(rb'name="form" value="(\w+)"', own_site.get("/").body)[1].decode()
    replies = []
    threads = [
        threading.Thread(target=lambda: replies.append(own_site.post(change, form, key=key).status)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(replies) == [200, 200, 200, 303]
    assert len(exp.changes()) == before + 1


def test_who_was_logged_out_is_told_how_to_log_in(own_site):
    secret = own_site.login()
    assert own_site.get("/", secret).status == 200
    own_site.post("/logout", {}, secret)
    for reply in (own_site.get("/", secret), own_site.get("/", "nonsense")):
        assert reply.status == 401
        assert "You are logged out; open a link that `belated live token link` prints." in text(reply)


def test_a_new_token_is_kept_by_no_cache(own_site):
    reply = own_site.post("/tokens", {"label": "checkout", "scope-ask": "yes", "expires": "1d"})
    assert b"belated_" in reply.body
    assert reply.headers["cache-control"] == "no-store"


def test_one_unit_and_one_outcome_are_not_several(own_site):
    exp = own_site.store.create("one", arms=["A"], policy=bl.policies.uniform(), outcome=bl.live.binary()).start()
    exp.ask("ada")
    exp.tell("ada", 1)
    facts = text(own_site.get("/answer", experiment="one", part="facts"))
    assert "1 unit " in facts
    assert "1 outcome told" in facts


def test_what_is_not_there_is_said_in_the_same_design(site):
    for reply, words in (
        (site.get("/nothing"), "There is no such page"),
        (site.get("/answer", experiment="unknown"), "There is no experiment 'unknown'"),
        (site.get("/answer"), "There is no experiment"),
    ):
        assert reply.status == 404
        assert words in text(reply)
        assert "/dashboard.css" in reply.body.decode()


def test_a_storage_that_fails_is_said_in_the_same_design(site, monkeypatch):
    from belated.live.errors import StorageError

    def fail():
        raise StorageError("The disk is full; free some space and ask again.")

    monkeypatch.setattr(site.store, "experiments", fail)
    reply = site.get("/")
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert "The disk is full" in text(reply)


def test_what_fails_unexpectedly_is_not_told(site, monkeypatch):
    monkeypatch.setattr(site.store, "experiments", lambda: 1 / 0)
    reply = site.get("/")
    assert reply.status == 500
    assert "division" not in text(reply)


def test_a_part_that_the_browser_has_is_not_sent_again(site):
    path = "/answer?experiment=subject+line&part=content"
    first = content(site, "/answer", **EXPERIMENT)
    tag = {"cookie": f"belated_browser={site.secret}", "if_none_match": first.headers["etag"]}
    again = site.served.get(path, token=None, **tag)
    assert (first.status, again.status, again.body) == (200, 304, b"")
    style = site.served.get("/dashboard.css", token=None)
    again = site.served.get("/dashboard.css", token=None, if_none_match=style.headers["etag"])
    assert (style.status, again.status) == (200, 304)


def test_numbers_are_those_of_the_command(site, filled):
    page = text(content(site, "/answer", **EXPERIMENT))
    done = invoke(["live", "answer", str(filled), "subject line", "--format", "markdown"])
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")][1:]
    rows = [row for row in rows if " - " in row[0]]
    assert len(rows) == 3
    for name, estimate, low, high, always_low, always_high, _ in rows:
        assert f"{name.removesuffix(' - Plain')} {estimate} {always_low} {always_high}" in page
        assert re.search(rf"{re.escape(estimate)} [\d.]+ {re.escape(low)} {re.escape(high)} ", page)


def test_what_may_be_read_at_any_look_comes_first(site):
    page = text(content(site, "/answer", **EXPERIMENT))
    answer = site.store.experiment("subject line").answer()
    assert "Your name - Plain" in answer.exclusions
    at = answer.exclusions["Your name - Plain"].strftime("%Y-%m-%d %H:%M")
    assert f"You could have stopped at {at} UTC." in page
    order = ["Your name is higher than Plain", "At every look", "at one planned look", "Who may be best"]
    assert sorted(order, key=page.index) == order
    assert "do not stop because of it" in page


def test_arrivals_count_everything(site):
    page = text(content(site, "/arrivals", **EXPERIMENT))
    counts = site.store.experiment("subject line").answer().counts
    assert counts.parked == 2
    assert counts.corrected == 1
    for name in ("asked", "told", "out", "never", "parked", "corrected"):
        assert f"{name} {getattr(counts, name):,}" in page


def test_contradictions_are_counted_since_the_start(own_site):
    told = [{"unit": "nobody", "value": 0}, {"unit": "nobody", "value": 1}]
    reply = own_site.served.post("/v1/experiments/subject%20line/tell-many", {"outcomes": told})
    assert [each["status"] for each in reply.json["told"]] == ["parked", "contradiction"]
    page = content(own_site, "/arrivals", **EXPERIMENT)
    assert "contradictions 1" in text(page)


def test_changes_mark_what_is_drawn_over_time(site):
    page = content(site, "/over-time", **EXPERIMENT)
    assert page.body.count(b'class="event"') == 2 * (3 + 1)  # of two changes, in every chart
    said = text(page)
    assert "Arm paused: Question" in said
    assert "Grace: simpler to explain" in said


def test_the_report_is_one_file_that_loads_nothing(site):
    reply = site.get("/report", **EXPERIMENT)
    assert reply.status == 200
    assert reply.headers["content-disposition"].startswith('attachment; filename="subject line.html"')
    assert "sandbox" in reply.headers["content-security-policy"]
    assert b"If you look more than once" in reply.body
    early = site.get("/report", experiment="draft")
    assert early.status == 409
    assert "no outcomes yet" in text(early)


def test_a_draft_and_an_experiment_without_outcomes_have_pages(own_site):
    for path in TABS:
        assert own_site.get(path, experiment="draft").status == 200
    exp = own_site.store.experiment("draft").start()
    for path in TABS:
        assert own_site.get(path, experiment="draft").status == 200
    exp.ask_many(["a", "b", "c"])
    exp.tell("a")
    for path in TABS:
        assert own_site.get(path, experiment="draft").status == 200


def test_segments_have_their_own_lines_and_can_be_added(own_site):
    form = {"name": "by country", "arms": "A\nB", "segments": "DE\nFR", "outcome": "binary", "policy": "thompson"}
    form |= {"burn_in": "0", "decay": "0.5", "planned": "1000", "level": "0.95", "seconds": "2", "start": "yes"}
    assert own_site.post("/new", form | {"segments": "DE\nDE"}).status == 422
    assert own_site.post("/new", form).status == 303
    exp = own_site.store.experiment("by country")
    units = [f"{i}" for i in range(600)]
    replies = exp.ask_many(units, ["DE" if i % 2 else "FR" for i in range(600)])
    exp.tell_many([(each.unit, float(i % 5 < 2 + (each.arm == "B"))) for i, each in enumerate(replies)])
    exp.tick()
    page = text(content(own_site, "/answer", experiment="by country"))
    assert "At every look, by segment" in page
    assert "By segment" in page
    assert content(own_site, "/over-time", experiment="by country").body.count(b"by policy version: ") == 2
    change = "/changes?experiment=by+country"
    asked = own_site.post(change, {"what": "pause_arm", "arm": "A", "reason": "why not"})
    assert "DE" in text(asked)
    seen = re.search(rb'name="seen" value="(\d+)"', asked.body)[1].decode()
    added = own_site.post(change, {"what": "add_segment", "segment": "IT", "reason": "a new shop", "seen": seen})
    assert (added.status, exp.ask("new", "IT").repeated) == (303, False)


@pytest.mark.parametrize(("number", "compared"), [(1, False), (12, False), (150, True)])
def test_parts_are_small_however_many_arms_there_are(tmp_path, number, compared):
    with opened(tmp_path / "many.belated") as site:
        names = [f"{k} {'x' * 190}" for k in range(number)]
        exp = site.store.create(
            "y" * 200, arms=names, policy=bl.policies.uniform(), outcome=bl.live.real(), planned_rows=5000,
            baseline=names[0] if compared else None,
        ).start()  # fmt: skip
        rng = np.random.default_rng(0)
        for batch in range(4):
            replies = exp.ask_many([f"{batch} {i}" for i in range(1000)])
            exp.tell_many([(each.unit, float(rng.normal())) for each in replies[:900]])
            exp.tick()
        for path in TABS[:-1]:
            assert len(content(site, path, experiment=exp.name).body) <= 50_000, path


def test_changes_by_forms_are_logged(own_site, caplog):
    """As changes over HTTP are: what was sent, and by which login; never what was typed."""
    with caplog.at_level(logging.INFO, "belated.service"):
        new = {"name": "secret", "arms": "A\nB", "outcome": "binary", "policy": "uniform", "planned": "100"}
        own_site.post("/new", new | {"level": "0.9", "seconds": "2", "start": "yes"})
        change = {"what": "pause_arm", "arm": "Emoji", "reason": "secret"}
        own_site.post("/changes?experiment=subject+line", change)
        seen = str(len(own_site.store.experiment("subject line").changes()))
        own_site.post("/changes?experiment=subject+line", change | {"seen": seen})
        own_site.post("/tokens", {"label": "secret", "scope-ask": "yes", "expires": "1d"})
    lines = [journal.JsonLines().format(each) for each in caplog.records if each.name == "belated.service"]
    assert [json.loads(line)["route"] for line in lines] == ["POST /new", "POST /changes", "POST /tokens"]
    assert all(isinstance(json.loads(line)["token"], int) for line in lines)
    assert "secret" not in str(lines)


def test_a_closed_experiment_has_no_outcomes_out(own_site):
    exp = own_site.store.experiment("subject line")
    exp.stop()
    out = exp.status().asked - exp.status().told
    assert f"<li>{out} out</li>" in own_site.get("/answer", experiment=exp.name).body.decode()
    exp.close()
    assert f"<li>{out} never told</li>" in own_site.get("/answer", experiment=exp.name).body.decode()
    assert '<td data-head="outcomes out">0</td>' in own_site.get("/").body.decode()


def test_a_report_is_offered_once_there_is_one(own_site):
    exp = own_site.store.create("sales", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.events("7d"))
    exp.start().ask("ada")
    exp.tell("ada", 1, key="order 1")
    for name, there in (("sales", False), ("subject line", True)):
        while b"data-soon" in (page := own_site.get("/answer", experiment=name).body):
            pass
        assert (b"Download the report" in page) == there
        assert own_site.get("/report", experiment=name).status == (200 if there else 409)


def test_what_no_form_may_hold(own_site):
    """Too large, not text, too many fields, from another site: each has its code, and nothing is stored."""

    tables = set(TABLES) - {"exclusion"}  # an answer that is computed meanwhile remembers what it excludes

    def stored():
        with own_site.store.storage.reading() as session:
            return {table: session.run(f"select count(*) from {table}")[0][0] for table in tables}  # noqa: S608

    before = stored()
    new = {"name": "n", "arms": "A\nB", "outcome": "binary", "policy": "uniform", "planned": "9", "level": "0.9"}
    change = {"what": "add_arm", "arm": "New", "reason": "why", "seen": "4"}
    token = {"label": "l", "scope-ask": "yes", "expires": "1d"}
    forms = {"/new": new | {"seconds": "2"}, "/changes?experiment=subject+line": change, "/tokens": token}
    for path, form in forms.items():
        for field in form.keys() & {"name", "arms", "arm", "reason", "label"}:
            for text, code in (("a\x00b", 422), ("x" * 3000, 422), ("x" * 70_000, 413)):
                assert own_site.post(path, form | {field: text}).status == code, (path, field)
        cookie = {"cookie": f"belated_browser={own_site.secret}"}
        for body in (b"\xff\xfe", b"name=%ff", b"&".join([b"a=1"] * 2000)):
            assert own_site.served.post(path, body, token=None, **cookie).status == 400
        foreign = own_site.served.post(path, b"form=x", token=None, origin="https://evil.example", **cookie)
        assert (foreign.status, foreign.kind) == (403, "cross-origin")
    assert stored() == before
