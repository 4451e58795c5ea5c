from __future__ import annotations

from urllib.parse import quote

import pytest

import belated as bl
from belated.live.service.changing import read_outcome
from belated.live.service.messages import OutcomeKind
from tests.live.service.conftest import ASK, BUTTON, nothing_stored


def test_a_function_of_ones_own_cannot_be_sent(shared):
    new = {"name": "n", "arms": ["A", "B"], "outcome": {"kind": "binary"}}
    with nothing_stored(shared):
        for policy in ({"name": "own"}, {"name": "own", "function": "os.system"}, {"name": "__import__"}, {}):
            reply = shared.post("/v1/experiments", new | {"policy": policy})
            assert (reply.status, reply.kind) == (422, "invalid")
            assert shared.post(f"{BUTTON}/changes", {"what": "set_policy", "policy": policy}).status == 422


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


@pytest.mark.parametrize("number", ["0", "-1", "x", "9" * 30, "1%2F2", "²"])
def test_numbers_of_tokens_that_are_none(shared, number):
    with nothing_stored(shared):
        assert shared.send("DELETE", f"/v1/tokens/{quote(number, safe='%')}").kind == "unknown-token"


@pytest.mark.parametrize("given", ["soon", "7", "100 steps", "0d", "-1d", "", "9" * 30 + "d"])
def test_a_duration_that_is_none_is_refused_without_a_word_of_steps(served, given):
    new = {"name": "n", "arms": ["A"], "policy": {"name": "uniform"}, "outcome": {"kind": "events", "window": given}}
    for path, content, name in (
        ("/v1/experiments", new, "window"),
        ("/v1/tokens", {"label": "x", "scopes": ["ask"], "expires": given}, "expires"),
    ):
        refused = served.post(path, content)
        assert (refused.status, refused.kind) == (422, "invalid")
        assert "must be a duration, such as '7d', '12h', '30min' or '90s'" in refused.json["detail"]
        assert "number of steps" not in refused.json["detail"]
        assert f"`{name}`" in refused.json["detail"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"what": "start", "arm": "A"}, "`arm` does not belong to start; leave it out."),
        ({"what": "pause_arm", "arm": "A", "final": "B"}, "`final` does not belong to pause_arm; leave it out."),
        ({"what": "add_arm"}, "`arm` is missing; add_arm needs it."),
        ({"what": "add_segment", "arm": "A"}, "`arm` does not belong to add_segment; leave it out."),
        ({"what": "set_policy"}, "`policy` is missing; set_policy needs it."),
    ],
)
def test_a_change_has_what_it_needs_and_nothing_else(shared, given, words):
    with nothing_stored(shared):
        reply = shared.post(f"{BUTTON}/changes", given)
    assert (reply.status, reply.json["detail"]) == (422, words)


def test_an_outcome_is_that_of_the_library():
    assert read_outcome(OutcomeKind("binary")) == bl.live.binary()
    assert read_outcome(OutcomeKind("real")) == bl.live.real()
    assert read_outcome(OutcomeKind("bounded", low=-1, high=2)) == bl.live.bounded(-1, 2)
    assert read_outcome(OutcomeKind("events", window="7d", measure="sum")) == bl.live.events("7d", "sum")
    for incomplete in (OutcomeKind("events"), OutcomeKind("bounded", low=0), OutcomeKind("bounded", high=0)):
        with pytest.raises(bl.OptionError, match=r"is missing|are needed"):
            read_outcome(incomplete)
