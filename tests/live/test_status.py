from __future__ import annotations

import json

import pytest

import belated as bl
from belated.live.design import ArmRow, Snapshot, plan_setup
from belated.live.records import Change, Version, moment
from belated.live.status import Changes, Status
from tests.live.conftest import NOON

ARMS = (ArmRow(0, "A", "offered"), ArmRow(1, "B", "paused"))


def snapshot(version=None, segments=(), problem=None):
    setup = plan_setup(["A", "B"], bl.live.binary(), baseline=None, planned_rows=10, segmented=bool(segments))
    state = "draft" if version is None else "running"
    return Snapshot(1, "button", state, b"", setup, None, problem, False, ARMS, segments, version)


def version(step, probabilities, steps=()):
    none = (0.0,) * len(probabilities)
    return Version(3, 1, step, 0, NOON, (0,), probabilities, none, none, "tick", steps)


def test_a_status_has_the_probabilities_of_the_version():
    status = Status.of(snapshot(version(5, (0.25, 0.75))), asked=4, told=2, parked=1)
    assert (status.version, status.made_at, status.segments) == (3, moment(NOON), ())
    assert status.to_dict()["made_at"] == moment(NOON).isoformat()
    assert status.arms == (("A", "offered", 0.25), ("B", "paused", 0.75))
    assert str(status).startswith("button: running, version 3, 4 units asked, 2 outcomes told, 1 outcome parked\n")


def test_a_draft_has_no_probabilities_yet():
    for segments in ((), ("DE", "FR")):
        status = Status.of(snapshot(segments=segments), asked=0, told=0, parked=0)
        assert (status.state, status.version, status.made_at) == ("draft", 0, None)
        assert status.to_dict()["made_at"] is None
        assert status.arms == (("A", "offered", 0.0), ("B", "paused", 0.0))
        assert "parked" not in str(status)


def test_the_probability_of_an_arm_is_the_average_over_the_units_of_all_segments():
    known = version(5, (0.2, 0.8, 0.6, 0.4), (4, 2))  # three units of the first segment, and one of the second
    status = Status.of(snapshot(known, ("DE", "FR")), asked=4, told=0, parked=0)
    assert status.segments == (("DE", 3, (0.2, 0.8)), ("FR", 1, (0.6, 0.4)))
    assert [p for *_, p in status.arms] == pytest.approx([0.3, 0.7])
    shown = json.loads(status.to_json())["arms"]
    assert [(row["segment"], row["arm"], row["probability"]) for row in shown] == [
        ("DE", "A", 0.2), ("DE", "B", 0.8), ("FR", "A", 0.6), ("FR", "B", 0.4),
    ]  # fmt: skip
    begun = Status.of(snapshot(version(1, (0.2, 0.8, 0.6, 0.4), (1, 1)), ("DE", "FR")), asked=0, told=0, parked=0)
    assert [p for *_, p in begun.arms] == pytest.approx([0.4, 0.6])


def test_a_problem_is_shown_with_what_it_means():
    status = Status.of(snapshot(version(5, (0.25, 0.75)), problem="It failed."), asked=4, told=2, parked=0)
    assert "The last good version stays in use: It failed." in str(status)
    assert status.to_dict()["problem"] == "It failed."


def test_changes_are_shown_in_words_and_kept_as_they_are():
    created = '{"arms": ["A", "B"], "policy": {"name": "uniform"}, "setup": {"level": 0.95}}'
    details = [created, '{"arm": "C"}', '{"final": null}', "altered", '{"policy": {}}']
    changes = Changes("button", [Change("change", each, "Ada", "", moment(NOON)) for each in details])
    assert (len(changes), changes[1].detail, [each.detail for each in changes]) == (5, '{"arm": "C"}', details)
    text = changes.to_text()
    for words in ("button: 5 changes", "arms A, B; policy uniform", "arm C", "altered", '{"policy": {}}'):
        assert words in text
    assert "level" not in text
    assert "null" not in text
    assert [row["detail"] for row in json.loads(changes.to_json())["changes"]] == details
