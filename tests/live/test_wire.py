from __future__ import annotations

import datetime as dt
import json

import pytest

import belated as bl
from belated.live import wire
from belated.live.records import Change, Decision, Tell, Told, Version, moment
from tests.live.conftest import NOON

VERSION = Version(2, 1, 5, 7, NOON, (0, 1), (0.25, 0.75), (1.0, 2.0), (0.0, 1.0), "tick")
LATER = {"of": "a later version of the service"}


@pytest.mark.parametrize("name", ["a/b", "..", ".", "?x#y", "käse", "a b", "%2E"])
def test_a_name_is_one_part_of_the_path_whatever_is_in_it(name):
    path = wire.path_of(name, "ask")
    assert path.startswith("/v1/experiments/")
    assert path.endswith("/ask")
    part = path.removeprefix("/v1/experiments/").removesuffix("/ask")
    assert not set(part) & set("/?#. ")
    assert wire.path_of(name) == path.removesuffix("/ask")


def test_a_policy_is_sent_unless_it_is_a_function():
    assert wire.policy_table(bl.policies.uniform()) == {"name": "uniform"}
    with pytest.raises(bl.OptionError, match="`policy` is a Python function, which is not sent over HTTP"):
        wire.policy_table(bl.policies.own(lambda count, total, t: [1.0]))


def test_asks_have_segments_if_there_are_any():
    assert wire.asks_table(["x", "y"]) == {"units": ["x", "y"]}
    assert wire.asks_table([("x", "DE"), ("y", "FR")]) == {"units": ["x", "y"], "segments": ["DE", "FR"]}


def test_an_outcome_is_sent_without_what_is_usual():
    assert wire.tell_table(Tell("x", 1.0)) == {"unit": "x", "value": 1.0}
    noon = dt.datetime(2026, 3, 1, 12)
    for when in (noon, noon.replace(hour=13, tzinfo=dt.timezone(dt.timedelta(hours=1)))):
        assert wire.tell_table(Tell("x", 1.0, "order 1", when, correct=True)) == {
            "unit": "x", "value": 1.0, "key": "order 1", "happened_at": "2026-03-01T12:00:00+00:00", "correct": True,
        }  # fmt: skip


def test_the_author_is_whose_token_it_is_unless_one_is_named():
    assert wire.who_table(None, "enough") == {"reason": "enough"}
    assert wire.who_table("Ada", "") == {"author": "Ada", "reason": ""}
    with pytest.raises(bl.OptionError, match="`author` has 0 characters"):
        wire.who_table("", "")


def test_batches_are_as_many_and_as_large_as_a_service_takes(monkeypatch):
    monkeypatch.setattr(wire, "_MOST_ITEMS", 3)
    monkeypatch.setattr(wire, "_MOST_BYTES", 20)
    assert list(wire.batches([])) == []
    assert list(wire.batches(list("abcdefg"))) == [["a", "b", "c"], ["d", "e", "f"], ["g"]]
    assert list(wire.batches(["ää", "öö", "üü"])) == [["ää", "öö"], ["üü"]]  # 8 bytes each
    assert list(wire.batches(["a", "x" * 100, "b"])) == [["a"], ["x" * 100], ["b"]]


def test_replies_are_read_and_what_is_not_known_yet_is_left_out():
    decision = Decision("x", "A", {"A": 0.5, "B": 0.5}, 3, moment(NOON), repeated=True, segment="DE")
    assert wire.read_decision(json.loads(json.dumps(decision.to_dict() | LATER))) == decision
    unlogged = decision._replace(assigned_at=None, logged=False)
    assert wire.read_decision(unlogged.to_dict()) == unlogged
    assert wire.read_told({"unit": "x", "status": "refused", "why": "no"} | LATER) == Told("x", "refused", "no")
    lists = {name: list(getattr(VERSION, name)) for name in ("offered", "probabilities", "counts", "totals", "steps")}
    numbers = {name: getattr(VERSION, name) for name in ("number", "rule", "step", "watermark", "cause")}
    assert wire.read_version({**numbers, **lists, "made_at": moment(NOON).isoformat()} | LATER) == VERSION
    change = {"what": "start", "detail": "{}", "author": "Ada", "reason": "", "made_at": moment(NOON).isoformat()}
    assert wire.read_change(change | LATER) == Change("start", "{}", "Ada", "", moment(NOON))


def test_a_unit_that_was_refused_raises_the_error_of_its_problem():
    problem = {"type": "about:blank#not-running", "detail": "It takes no new units."}
    with pytest.raises(bl.live.NotRunningError, match="It takes no new units"):
        wire.read_decision({"unit": "x", "problem": problem})


@pytest.mark.parametrize("reply", [None, [], {}, {"unit": "x"}, "text", {"assigned_at": "noon"}])
def test_a_reply_of_something_else_is_said_in_a_sentence(reply):
    with pytest.raises(bl.live.StorageError, match="reply cannot be read; use the same version"):
        wire.understood(wire.read_decision, reply)
