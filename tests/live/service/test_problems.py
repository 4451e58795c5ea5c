from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest

import belated as bl
from belated.live.errors import PROBLEMS, DamagedError, OutdatedError, OverloadedError, ProblemKind
from belated.live.service import messages
from belated.live.service.problems import KINDS, Problem, decoded, problem_of
from tests.live.service.conftest import ASK, CHANGES, nothing_stored

EXPERIMENT = {"name": "n", "arms": ["A"], "policy": {"name": "uniform"}, "outcome": {"kind": "binary"}}
TIME = "a time such as 2026-03-01T09:30:00Z"


def refusal(kind: type[messages.Request], body: bytes | object) -> str:
    """Return the sentence that refuses a body."""
    with pytest.raises(Problem) as caught:
        decoded(msgspec.json.Decoder(kind), body if isinstance(body, bytes) else json.dumps(body).encode())
    return caught.value.detail


@pytest.mark.parametrize(
    ("kind", "body", "sentence"),
    [
        (messages.Ask, [], "The request must be an object, not a list."),
        (messages.Ask, {}, "The request lacks `unit`."),
        (messages.Ask, {"unit": 1.5}, "`unit` must be a whole number or text, not a number."),
        (messages.Ask, {"unit": "a", "x": 1}, "The request has no field `x`."),
        (messages.Ask, {"unit": "a", "segment": True}, "`segment` must be text or null, not true or false."),
        (messages.TellRequest, {"unit": "a", "value": "1"}, "`value` must be a number, not text."),
        (messages.TellRequest, b'{"unit": "a", "value": 1e999}', "`value` is too large a number."),
        (messages.TellRequest, {"unit": "a", "value": 1, "happened_at": "x"}, f"`happened_at` must be {TIME}."),
        (messages.TellRequest, {"unit": "a", "value": 1, "happened_at": 3},
         f"`happened_at` must be {TIME} or null, not a whole number."),
        (messages.TellMany, {"outcomes": [{"unit": "a", "value": 1}, {"unit": "a"}]}, "`outcomes[1]` lacks `value`."),
        (messages.ChangeRequest, {"what": "x"}, "`what` cannot be 'x'; /openapi.json lists what it can be."),
        (messages.Create, EXPERIMENT | {"outcome": {"kind": "x"}},
         "`outcome.kind` cannot be 'x'; /openapi.json lists what it can be."),
        (messages.Ask, b'{"unit": %b}' % (b"9" * 5000), "`unit` is too large a number."),
        (messages.Ask, b"", "The request has no body; send JSON."),
        (messages.Ask, b'{"unit": ', "The request is not JSON: it ends too early."),
        (messages.Ask, rb'{"unit": "\ud83d"}',
         r"The request has half of a character, such as \ud83d alone; send whole characters."),
        (messages.Ask, rb'{"unit": "\udca5 x"}',
         r"The request has half of a character, such as \ud83d alone; send whole characters."),
        (messages.Ask, b'{"unit": "\xff"}', "The request is not UTF-8; send JSON in UTF-8."),
        (messages.Ask, b'{"unit": NaN}', "The request is not JSON: invalid character at byte 9."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_body_is_a_plain_sentence(kind, body, sentence):
    assert refusal(kind, body) == sentence


def test_every_kind_of_problem_has_a_code_and_a_title():
    assert set(KINDS) == set(get_args(ProblemKind))
    assert {kind for _, kinds in PROBLEMS for kind in kinds} < set(KINDS)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OverloadedError("x"), "overloaded"),
        (DamagedError("x"), "storage"),
        (OutdatedError("x"), "conflict"),
        (bl.OptionError("x"), "invalid"),
        (bl.MergeError("x"), "invalid"),
        (KeyError("x"), "internal"),
    ],
)
def test_errors_are_problems_of_their_kind(error, kind):
    assert problem_of(error).kind == kind


@pytest.mark.parametrize("body", [{"unit": "a", "x" * 100_000: 1}, {"unit": "a", "a\nb`c": 1}])
def test_what_was_sent_is_repeated_in_one_short_line(body):
    sentence = refusal(messages.Ask, body)
    assert len(sentence) < 200
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("kind", "body", "name"),
    [
        (messages.Ask, b'{"unit": "a", "unit": "b"}', "unit"),
        (messages.Ask, b'{"unit" : "a", "\\u0075nit"\n: "b"}', "unit"),
        (messages.Ask, b'{"unit": "a", "segment": "x", "segment": null}', "segment"),
        (messages.AskMany, b'{"units": ["a"], "units": ["b"]}', "units"),
        (messages.TellRequest, b'{"unit": "a", "value": 0, "value": 1}', "value"),
        (messages.TellRequest, b'{"unit": "a", "value": 1, "correct": true, "correct": false}', "correct"),
        (messages.TellMany, b'{"outcomes": [{"unit": "b", "value": 1, "value": 0}]}', "value"),
        (messages.ChangeRequest, b'{"what": "start", "what": "close"}', "what"),
        (messages.Create, json.dumps(EXPERIMENT).replace('"uniform"', '"ucb", "name": "uniform"').encode(), "name"),
    ],
)  # fmt: skip
def test_a_key_that_is_there_twice_is_refused(kind, body, name):
    assert refusal(kind, body) == f"The request has `{name}` more than once in an object; send it once."


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (messages.Ask, {"unit": 'a":b', "segment": "x :y"}),
        (messages.Ask, {"unit": "unit", "segment": None}),
        (messages.AskMany, {"units": ["a:b", '"unit":'], "segments": [":", ":"]}),
        (messages.TellRequest, b'{"unit": "a", "value": 1, "key": ""}'),
        (messages.TellRequest, b'{"unit": %b, "value": 1, "key": ""}' % (b"9" * 4000)),
        (messages.TellMany, {"outcomes": [{"unit": "a:1", "value": 1, "key": "k", "correct": False}] * 3}),
        (messages.Create, EXPERIMENT),
    ],
)
def test_colons_in_values_are_no_keys(kind, body):
    decoded(msgspec.json.Decoder(kind), body if isinstance(body, bytes) else json.dumps(body).encode())


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


@pytest.mark.parametrize("code", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_json_in_another_encoding(shared, code):
    with nothing_stored(shared):
        reply = shared.post(ASK, '{"unit": "ada"}'.encode(code), content_type=f"application/json; charset={code}")
        assert (reply.status, reply.kind) == (400, "malformed")
