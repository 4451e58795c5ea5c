from __future__ import annotations

import msgspec
import pytest
from openfeature.evaluation_context import EvaluationContext
from openfeature.flag_evaluation import Reason

import belated as bl
from belated.live.openfeature import Provider
from belated.live.service.messages import Decisions, Stopped
from tests.live.service.conftest import ASK, BUTTON, TELL, nothing_stored


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


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e61", "2", '"1"', "null", "true"]
)
def test_nan_and_other_impossible_values(shared, value):
    with nothing_stored(shared):
        reply = shared.post(TELL, f'{{"unit": "ada", "value": {value}}}'.encode())
        assert (reply.status, reply.kind) in ((400, "malformed"), (422, "invalid"))
        many = shared.post(f"{BUTTON}/tell-many", f'{{"outcomes": [{{"unit": "ada", "value": {value}}}]}}'.encode())
        assert many.status in (400, 422) or many.json["told"][0]["status"] == "refused"
