from __future__ import annotations

import belated as bl

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
