"""Sequences that are tested at their looks: those of logs with segments."""

from __future__ import annotations

import numpy as np
import pytest

import belated as bl
from belated.sequences.looks import Looks


@pytest.fixture(scope="module")
def sequence():
    rng = np.random.default_rng(3)
    rows = 1200
    arm = np.where(rng.random(rows) < 0.5, "B", "A")
    outcome = rng.normal(np.where(arm == "B", 0.6, 0.0))
    segment = np.where(rng.random(rows) < 0.5, "DE", "FR")
    log = bl.Log(arm, outcome, "uniform", segment=segment, assigned_at=np.arange(rows))
    return bl.sequence(log, looks=8)


@pytest.fixture(scope="module")
def rates():
    """Rates far from the null of an arm, of different arms and of the same."""
    rng = np.random.default_rng(4)
    arm, segment = rng.integers(3, size=1500), rng.integers(2, size=1500)
    outcome = rng.random(1500) < np.array([0.3, 0.5, 0.3])[arm]
    log = bl.Log(np.array(list("ABC"))[arm], outcome, np.full((1500, 3), 1 / 3), segment=segment)
    return bl.sequence(log, looks=60)


def test_what_is_followed_are_looks(sequence):
    assert isinstance(sequence._followed, Looks)
    assert len(sequence._followed.times) == 8


def test_intervals_exclude_what_the_test_excludes(sequence):
    answer = sequence.contrast("B", "A")
    assert answer.low > 0
    assert answer.excluded_at is not None
    assert answer.p_value < 1 - sequence.level
    track = sequence.track("B", "A")
    first = list(track.moments).index(answer.excluded_at)
    low, high = track.shown("low"), track.shown("high")
    assert low[first] > 0
    assert all(not (a > 0 or b < 0) for a, b in zip(low[:first], high[:first], strict=True) if np.isfinite(a))


def test_an_interval_for_every_look_is_wider_than_one_for_a_single_look(sequence):
    answer, fixed = sequence.contrast("B", "A"), sequence._followed.fixed(7).contrast("B", "A")
    assert answer.high - answer.low > fixed.high - fixed.low
    assert answer.estimate == pytest.approx(fixed.estimate, rel=0.05)


@pytest.mark.parametrize("pair", [("A",), ("B", "A"), ("C", "A")])
def test_the_score_of_rates_is_the_largest_of_any_look_and_takes_few_intervals(rates, pair, monkeypatch):
    codes, looks = [*map(rates.arms.index, pair), None][:2], rates._looked
    each = [looks._threshold_of(look, *codes) for look in range(len(looks.times))]
    asked, interval = [], Looks.interval
    monkeypatch.setattr(Looks, "interval", lambda self, *given: asked.append(given) or interval(self, *given))
    score, first = looks.score_null(*codes, 1)
    assert min(score, 746) == min(max(each), 746)
    assert first == next((t for t, own in zip(looks.times, each, strict=True) if own > looks.design.threshold(1)), None)
    assert len(asked) < 8 * len(looks.times)
