"""Answers as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json

import pytest
from reports.samples import experiment, many_arms

import belated as bl
from belated.reports import formats
from belated.reports.analysis import Questions, analyse


@pytest.fixture(scope="module")
def log():
    return experiment(means=(0.0, 1.0, 2.0), delays=bl.delays.geometric(5))


def test_a_row_for_each_question(log):
    result = bl.estimate(log)
    rows = formats.estimate_rows("daipw", result, {(1, 0): result.contrast(1, 0)}, [{0: 0.2, 2: 0.8}, "greedy"])
    assert [(row["kind"], row["question"]) for row in rows] == [
        ("arm", "0"), ("arm", "1"), ("arm", "2"), ("contrast", "1 - 0"), ("policy", "0=0.2,2=0.8"), ("policy", "greedy")
    ]  # fmt: skip
    assert rows[3]["estimate"] == result.contrast(1, 0).estimate
    assert sum(row["assigned"] for row in rows[:3]) == len(log)


def test_a_lift_has_a_row_and_an_object_beside_its_contrast(log):
    result = bl.estimate(log)
    contrasts = dict(zip([(0, 2), (1, 2)], result.contrasts(2, lift=True, simultaneous=True).answers, strict=True))
    rows = formats.estimate_rows("daipw", result, contrasts, [])[3:]
    assert [(row["kind"], row["question"]) for row in rows] == [
        ("contrast", "0 - 2"), ("lift", "0 over 2"), ("contrast", "1 - 2"), ("lift", "1 over 2")
    ]  # fmt: skip
    lift = contrasts[0, 2].lift
    assert (rows[1]["low"], rows[1]["high"], rows[1]["p_value"]) == (lift.low, lift.high, contrasts[0, 2].p_value)
    text = formats.write_csv(rows, sequential=False, simultaneous=True)
    assert {row["simultaneous"] for row in csv.DictReader(io.StringIO(text))} == {"True"}
    content = formats.estimate_json("daipw", result, contrasts, [])["contrasts"]
    assert content[0]["lift"] == {"estimate": lift.estimate, "low": lift.low, "high": lift.high, "why": None}
    assert [one["simultaneous"] for one in content] == [True, True]


def test_what_is_unknown_is_an_empty_field(log):
    rows = formats.estimate_rows("daipw", bl.estimate(log), {}, ["greedy"])
    text = formats.write_csv(rows, sequential=False)
    read = list(csv.DictReader(io.StringIO(text)))
    assert (read[-1]["p_value"], read[-1]["assigned"]) == ("", "")
    assert "excluded_at" not in read[0]


def test_a_sequence_has_rows_and_an_object(log):
    sequence = bl.sequence(log)
    rows = formats.sequence_rows(sequence, {(2, 0): sequence.contrast(2, 0)})
    assert {row["estimator"] for row in rows} == {"sequence"}
    assert rows[-1]["excluded_at"] == sequence.contrast(2, 0).excluded_at
    assert formats.write_csv(rows, sequential=True).splitlines()[0].endswith(",excluded_at")
    content = formats.sequence_json(sequence, {(2, 0): sequence.contrast(2, 0)})
    assert content["contrasts"][0]["excluded_at"] == str(sequence.contrast(2, 0).excluded_at)
    assert set(content["arms"][0]) == {"arm", "estimate", "low", "high", "why"}


def test_only_the_chosen_arms_probabilities_leave_the_observed_share_unknown():
    log = bl.Log(["A", "B"] * 50, [float(k) for k in range(100)], [0.5] * 100)
    content = formats.estimate_json("dipw", bl.estimate(log, "dipw"), {}, [])
    assert [arm["observed_share"] for arm in content["arms"]] == [None, None]


def test_labels_that_json_has_not_are_lists_and_text():
    names = (("blue", 1), ("blue", 2), ("red", 1))
    analysis = analyse(many_arms(names), Questions(policies=({names[0]: 1.0},)))
    (answer,) = json.loads(analysis.to_json())["answers"]
    assert [arm["arm"] for arm in answer["arms"]] == [list(name) for name in names]
    assert answer["policies"][0]["policy"] == {str(names[0]): 1.0}
