from __future__ import annotations

import msgspec
import pytest
from openfeature.evaluation_context import EvaluationContext
from openfeature.flag_evaluation import Reason

import belated as bl
from belated.live.openfeature import Provider
from belated.live.service.messages import Decisions, Stopped

BUTTON = "/v1/experiments/button"


def test_ask_and_tell(served):
    first = served.post(f"{BUTTON}/ask", {"unit": "ada"})
    again = served.post(f"{BUTTON}/ask", {"unit": "ada"})
    assert (first.status, again.status) == (200, 200)
    assert not first.json["repeated"]
    assert again.json == first.json | {"repeated": True}
    assert first.json["probabilities"] == {"A": 0.5, "B": 0.5}
    assert served.post(f"{BUTTON}/tell", {"unit": "ada", "value": 1}).json["status"] == "new"
    assert served.post(f"{BUTTON}/tell", {"unit": "ada", "value": 1}).json["status"] == "repeated"
    other = served.post(f"{BUTTON}/tell", {"unit": "ada", "value": 0})
    assert (other.status, other.kind) == (409, "contradiction")
    parked = served.post(f"{BUTTON}/tell", {"unit": "bob", "value": 0})
    assert (parked.status, parked.json["status"]) == (202, "parked")
    status = served.get(BUTTON).json
    assert (status["asked"], status["told"], status["parked"]) == (1, 1, 1)


def test_a_new_unit_of_a_stopped_experiment_is_refused_with_the_final_arm(served):
    first = served.post(f"{BUTTON}/ask", {"unit": "ada"}).json
    assert served.post(f"{BUTTON}/changes", {"what": "stop", "final": "B"}).status == 200
    refused = served.post(f"{BUTTON}/ask", {"unit": "bob"})
    assert (refused.status, refused.kind) == (409, "not-running")
    assert (refused.json["arm"], refused.json["logged"], refused.json["unit"]) == ("B", False, "bob")
    assert msgspec.json.decode(refused.body, type=Stopped).detail.startswith("The experiment has stopped")
    assert served.post(f"{BUTTON}/ask", {"unit": "ada"}).json == first | {"repeated": True}
    many = served.post(f"{BUTTON}/ask-many", {"units": ["ada", "bob"]})
    assert (many.status, [each["logged"] for each in many.json["decisions"]]) == (200, [True, False])
    assert many.json["decisions"][1]["arm"] == "B"
    status = served.get(BUTTON).json
    assert (status["asked"], status["told"]) == (1, 0)
    assert 'belated_rows_total{kind="ask",experiment="button"} 3\n' in served.get("/metrics").body.decode()
    with bl.live.open(served.url, token=served.token, fallback="A") as store:
        remote, here = store.experiment("button"), served.store.experiment("button")
        assert remote.ask("bob") == here.ask("bob") == remote.ask_many(["bob"])[0]
        provider = Provider(store)
        found = provider.resolve_string_details("button", "A", EvaluationContext(targeting_key="bob"))
        assert (found.value, found.reason, found.flag_metadata["logged"]) == ("B", Reason.DEFAULT, False)


def test_without_a_final_arm_or_a_start_there_is_none_to_go_on_with(served, place):
    place.create("draft", start=False)
    served.post(f"{BUTTON}/changes", {"what": "stop"})
    for name in ("button", "draft"):
        refused = served.post(f"/v1/experiments/{name}/ask", {"unit": "bob"})
        assert (refused.status, refused.kind) == (409, "not-running")
        assert not {"arm", "logged"} & {*refused.json}
        with bl.live.open(served.url, token=served.token) as store, pytest.raises(bl.live.NotRunningError):
            store.experiment(name).ask("bob")
    (each,) = served.post(f"{BUTTON}/ask-many", {"units": ["bob"]}).json["decisions"]
    assert each["problem"]["type"] == "about:blank#not-running"
    served.post(f"{BUTTON}/changes", {"what": "close"})
    closed = served.post(f"{BUTTON}/ask", {"unit": "bob"})
    assert (closed.status, closed.kind) == (410, "closed")


def test_a_batch_has_the_replies_of_each_alone(served):
    """What its decisions share is written once: they are of several arms, versions, times and segments."""
    served.store.create(
        "mail", arms=["A", 'B "\\é'], policy=bl.policies.uniform(), outcome=bl.live.binary(), segments=["DE", "FR"]
    ).start()
    units = ["plain", 'a "quote"', "back\\slash", "é ☃ 😀", "\x01", "7", *map(str, range(20, 50))]
    for name, segments in (("button", [None] * len(units)), ("mail", ["DE", "FR"] * (len(units) // 2))):
        asks = [{"unit": u} | ({"segment": s} if s else {}) for u, s in zip(units, segments, strict=True)]
        path, given = f"/v1/experiments/{name}/ask", {"segments": segments} if segments[0] else {}
        for ask in asks[::3]:
            assert served.post(path, ask).json["unit"] == ask["unit"]
        served.store.experiment(name).set_policy(bl.policies.thompson_beta(burn_in=5))
        served.post(f"{path}-many", {"units": units} | given)
        many = served.post(f"{path}-many", {"units": units} | given)
        assert many.json == {"decisions": [served.post(path, ask).json for ask in asks]}
        assert {each["version"] for each in many.json["decisions"]} == {1, 2}
        msgspec.json.decode(many.body, type=Decisions, strict=True)


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
