from __future__ import annotations

import json

import numpy as np
import pytest
from live_experiments import SEGMENTS, UNITS, agree, create_by_segment, learn_by_segment

import belated as bl
from tests.live.conftest import in_storages


def test_the_log_read_and_answer_agree(place):
    exp = place.create(policy=bl.policies.thompson_beta(), arms=["A", "B", "C d"])
    rng = np.random.default_rng(1)
    for batch in range(10):
        units = [f"{batch}-{i}" for i in range(40)]
        replies = exp.ask_many(units)
        place.clock.forward(60)
        chance = {"A": 0.2, "B": 0.5, "C d": 0.4}
        exp.tell_many((each.unit, rng.random() < chance[each.arm]) for each in replies if rng.random() < 0.8)
        exp.tick()
    answer, read = exp.answer(), bl.read(place.home, table="button")
    assert read.arms == ("A", "B", "C d")
    assert bl.estimate(read, level=0.95).to_json() == answer.estimate.to_json() == bl.estimate(exp.log()).to_json()
    followed = bl.sequence(read, **exp.setup.sequence_options)
    assert followed.kind == "beta_binomial"
    assert followed.to_json() == answer.sequence.to_json()
    assert bl.diagnose(read).to_json() == answer.diagnosis.to_json()
    assert answer.best.to_json() == answer.estimate.best().to_json()
    assert exp.answer() is answer


@in_storages("measure", ["indicator", "count", "sum"])
def test_the_log_read_and_answer_agree_on_events(place, measure):
    exp = place.create(outcome=bl.live.events("10min", measure))
    for batch in range(6):
        units = [f"{batch}-{i}" for i in range(20)]
        exp.ask_many(units)
        place.clock.forward(200)
        exp.tell_many((unit, k + 0.5, f"order {k}") for unit in units[::3] for k in range(2))
    answer = exp.answer()
    read = bl.read(place.home, table="button", as_of=answer.as_of)
    assert answer.counts.told == len(read.closed()) == 80
    assert answer.counts.asked == len(read) == 120  # open windows count for the ages that they have reached
    assert bl.estimate(read).to_json() == answer.estimate.to_json()
    assert bl.sequence(read, **exp.setup.sequence_options).to_json() == answer.sequence.to_json()
    made = exp.tick()
    assert (sum(made.counts), sum(made.totals)) == (80, answer.log.closed().log().outcome.sum())


@pytest.mark.parametrize(
    ("arms", "segments", "rows"), [(["A", "B"], None, 40), (["A", "B"], ["x", "y"], 80), (["A"], None, 20)]
)
def test_an_answer_says_why_intervals_at_every_look_are_infinite(place, arms, segments, rows):
    """At least one arm of a segment has fewer than the 25 outcomes that an asymptotic sequence needs."""
    exp = place.create(arms=arms, outcome=bl.live.real(), segments=segments)
    units = [f"unit {i}" for i in range(rows)]
    exp.ask_many(units, segments and segments * (rows // 2))
    exp.tell_many((unit, float(i)) for i, unit in enumerate(units))
    text = str(exp.answer())
    assert "∞" in text
    assert "an asymptotic sequence needs 25" in text
    assert ("In segment 'x': Arm '" in text) == (segments is not None)


def test_the_first_answers_say_nothing_without_need(place):
    exp = place.create()
    exp.ask_many(UNITS)
    title, why = str(exp.answer()).splitlines()
    assert title.startswith("button: 40 asked, 0 told, 40 out")
    assert why == "No outcome has arrived yet."
    exp.tell(UNITS[0], 1)
    assert str(exp.answer()).count("No outcome of arm") == 1


def test_an_answer_says_why_it_cannot_be(place, tmp_path):
    exp = place.create(outcome=bl.live.events("1h"))
    exp.ask_many(UNITS[:4])
    place.clock.forward(3601)
    exp.add_arm("C")
    exp.ask_many(UNITS)
    answer = exp.answer()
    assert answer.counts == bl.live.Counts(asked=40, told=4, out=36)
    assert (answer.estimate, answer.contrasts) == (None, ())
    assert "no row that has lived beyond its assignment; wait" in str(answer)
    with pytest.raises(bl.LogError, match="cannot be reported: some arm has no row that has lived"):
        answer.report(tmp_path / "report.html")


def test_the_log_read_and_answer_agree_by_segment(place):
    exp = create_by_segment(place, policy=bl.policies.thompson_beta(burn_in=100))
    learn_by_segment(exp, 12, 60, clock=place.clock)
    answer = agree(place, exp)
    assert answer.estimate.segments == ("DE", "ES", "FR")
    assert (answer.sequence.kind, answer.segments["DE"].sequence.kind) == ("beta_binomial", "beta_binomial")
    names = [fixed.name for fixed, _ in answer.contrasts]
    assert names[:3] == ["B - A", "C - A", "B - A in DE"]
    assert len(names) == 8
    assert all(name in str(answer) for name in names)
    assert [row["segment"] for row in answer.to_dict()["contrasts"]][::2] == [None, "DE", "ES", "FR"]
    found = {fixed.name: each for fixed, each in answer.contrasts}
    assert found["B - A in DE"].estimate > 0 > found["B - A in FR"].estimate
    assert set(answer.exclusions) == {name for name, each in found.items() if each.excluded_at is not None}
    assert exp.answer() is answer


def test_outcomes_of_any_size_agree(place):
    exp = create_by_segment(place, outcome=bl.live.bounded(-9, 9), policy=bl.policies.thompson_normal(burn_in=100))
    learn_by_segment(
        exp, 10, 60, values=lambda chance, rng: float(np.clip(rng.normal(chance), -9, 9)), clock=place.clock
    )
    answer = agree(place, exp)
    assert (answer.sequence.kind, answer.segments["DE"].sequence.kind) == ("asymptotic", "asymptotic")


@in_storages("measure", ["indicator", "sum"])
def test_events_have_segments(place, measure):
    exp = create_by_segment(
        place, outcome=bl.live.events("10min", measure), policy=bl.policies.uniform(), arms=["A", "B"]
    )
    for batch in range(12):
        units = [f"{batch}-{i}" for i in range(60)]
        exp.ask_many(units, [SEGMENTS[i % 3] for i in range(60)])
        place.clock.forward(120)
        exp.tell_many((unit, k + 0.5, f"order {k}") for unit in units[::4] for k in range(2))
        if batch == 5:
            exp.tick()
    answer = exp.answer()
    read = bl.read(place.home, table="button", as_of=answer.as_of)
    assert answer.counts.told == len(read.closed())
    assert agree(place, exp, as_of=answer.as_of) is answer
    made, closed = exp.tick(), answer.log.closed().log()
    labels, code = closed.segment_column
    for segment in SEGMENTS:
        mine = code == labels.index(segment)
        own = slice(2 * SEGMENTS.index(segment), 2 * SEGMENTS.index(segment) + 2)
        assert made.counts[own] == tuple(np.bincount(closed.code[mine], minlength=2))
        assert made.totals[own] == tuple(np.bincount(closed.code[mine], closed.outcome[mine], 2))
    assert exp._store.verify().clean


def test_an_answer_of_few_outcomes_merges_segments(place):
    exp = create_by_segment(place, policy=bl.policies.uniform())
    assert exp.answer().segments == {}
    exp.ask_many([f"u{i}" for i in range(60)], ["FR"] * 40 + ["DE"] * 12 + ["ES"] * 8)
    exp.tell_many((f"u{i}", i % 2) for i in range(60))
    answer = exp.answer()
    merged = [label for label, own in answer.segments.items() if own.sequence is None]
    assert merged in ([], ["other"])
    assert "B - A" in str(answer)
    assert json.loads(answer.to_json())["contrasts"][0]["segment"] is None
    assert bl.estimate(bl.read(place.home, table="button")).to_json() == answer.estimate.to_json()
