from __future__ import annotations

import datetime as dt
import json

import pytest

from belated.live.records import (
    Decision,
    Tell,
    Told,
    Version,
    make_decision,
    make_tell,
    make_told,
    moment,
    stamp,
)

NOON = dt.datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=dt.UTC)


@pytest.mark.parametrize("microseconds", [0, 1, -1, 1_780_000_000_000_001, -62_135_596_800_000_000])
def test_a_stamp_becomes_a_time_and_the_same_stamp_again(microseconds):
    assert stamp(moment(microseconds)) == microseconds


def test_a_stamp_is_of_utc():
    assert stamp(NOON) == stamp(NOON.replace(tzinfo=None)) == 1_772_366_400_000_005
    assert stamp(NOON.astimezone(dt.timezone(dt.timedelta(hours=-7)))) == stamp(NOON)
    assert moment(stamp(NOON)).utcoffset() == dt.timedelta(0)


def test_records_of_tuples_are_those_of_fields():
    decision = Decision("x", "A", {"A": 1.0}, 3, NOON, repeated=True, logged=True, segment="DE")
    told, tell = Told("x", "refused", "why"), Tell("x", 1.0, "order 1", NOON, correct=True)
    for made, record in ((make_decision, decision), (make_told, told), (make_tell, tell)):
        again = made(tuple(record))
        assert (again, type(again)) == (record, type(record))


def test_a_decision_is_values_that_json_has():
    reply = Decision("x", "A", {"A": 0.25, "B": 0.75}, 3, NOON, segment="DE")
    table = json.loads(json.dumps(reply.to_dict()))
    assert table["assigned_at"] == "2026-03-01T12:00:00.000005+00:00"
    assert (table["probabilities"], table["repeated"], table["logged"]) == ({"A": 0.25, "B": 0.75}, False, True)
    assert set(table) == set(Decision._fields)
    assert reply._replace(assigned_at=None).to_dict()["assigned_at"] is None


def test_an_outcome_is_taken_unless_it_was_refused():
    taken = {status: Told("x", status).taken for status in ("new", "repeated", "corrected", "parked")}
    assert all(taken.values())
    assert not Told("x", "contradiction").taken
    assert not Told("x", "refused").taken


def test_the_probabilities_of_a_version_are_by_segment():
    plain = Version(1, 1, 1, 0, 0, (0, 1), (0.25, 0.75), (0.0,) * 2, (0.0,) * 2, "start")
    assert (plain.arms, plain.chances(None)) == (2, (0.25, 0.75))
    chances = (0.1, 0.9, 0.2, 0.8, 0.3, 0.7)
    version = Version(1, 1, 1, 0, 0, (0, 1), chances, (0.0,) * 6, (0.0,) * 6, "start", (1, 1, 1))
    assert version.arms == 2
    assert [version.chances(segment) for segment in range(3)] == [(0.1, 0.9), (0.2, 0.8), (0.3, 0.7)]
