"""Answers of sequences, as people see them."""

from __future__ import annotations

import dataclasses

import numpy as np

import belated as bl
from belated.sequences.answers import reasons


def test_reasons_are_said_once_and_five_at_most():
    assert reasons([None, "a", "a", None, "b"]) == ["a", "b"]
    assert reasons(list("abcdefg")) == [*"abcde", "The same holds for 2 more arms or contrasts."]


def followed():
    y = np.random.default_rng(0).normal(size=300)
    return bl.sequence(bl.Log(list("ABC") * 100, y, np.full(300, 1 / 3)), "sub_gaussian", sigma=1, looks=3)


def test_one_answer():
    answer = followed().contrast("B", "A")
    assert str(answer).startswith("B - A: 95% sub-gaussian confidence sequence\n")
    assert list(answer.to_dict())[:4] == ["name", "estimate", "low", "high"]
    assert answer.to_pandas().shape == (1, 10)
    joint = dataclasses.replace(answer, together=3)
    assert "confidence sequence, one of 3\n" in str(joint)


def test_the_moment_of_exclusion_survives_the_way_into_frames():
    moments = np.datetime64("2026-01-01T00:00") + np.arange(300) * np.timedelta64(10, "m")
    log = bl.Log(list("AB") * 150, [0, 1, 1, 1] * 75, np.full((300, 2), 0.5), assigned_at=moments)
    answer = bl.sequence(log).arm("A")
    moment = answer.excluded_at
    assert moment is not None
    for frame in (answer.to_polars(), answer.to_pandas(), answer.to_arrow().to_pandas()):
        assert np.datetime64(frame["excluded_at"][0]) == moment


def test_several_answers():
    answers = followed().contrasts(simultaneous=True)
    assert len(answers) == 3
    assert answers[0].name == "B - A"
    assert str(answers).startswith("95% simultaneous sub-gaussian confidence sequences\n")
    assert next(iter(answers.to_dict())) == "contrast"


def test_a_track():
    track = followed().track("B", "A")
    assert len(track) == 3
    assert str(track).startswith("B - A: 95% sub-gaussian confidence sequence over time\n")
    assert next(iter(track.to_dict())) == "as_of"
    assert track == track != followed().track("B", "A")  # as of other results with arrays, which are not compared


def test_the_reason_of_an_arm_is_given_once():
    log = bl.Log(list("ABC") * 4, np.arange(12.0), "uniform")
    answers = bl.sequence(log).contrasts()
    said = [note for note in answers._notes() if note.startswith("Arm ")]
    assert [note[:7] for note in said] == ["Arm 'B'", "Arm 'A'", "Arm 'C'"]
    assert answers[0].why == f"{said[0]} {said[1]}"
    few = bl.sequence(bl.Log(list("ABCDEFGH") * 2, np.arange(16.0), "uniform")).contrasts()
    assert few._notes()[-1] == "The same holds for 3 more arms or contrasts."
