"""Sequences of events while windows are open: the twin, the gates, updates, and how often they are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from event_logs import experiment
from naive.maturing_sequences import Twin
from scipy import stats

import belated as bl
from belated.sequences.sequence import MaturingSequence


def columns(seed=1, rows=400, rates=(0.3, 0.4), measure="indicator", **options):
    return experiment(np.random.default_rng(seed), rows, rates, measure=measure, values=0.5, **options)


def twin_of(given, measure, target, **options):
    events = sorted(zip(given.unit.tolist(), given.age.tolist(), given.value.tolist(), strict=True))
    if measure == "indicator":
        events = [event for i, event in enumerate(events) if i == 0 or events[i - 1][0] != event[0]]
    if measure != "sum":
        events = [(row, age, 1.0) for row, age, _ in events]
    chosen = given.propensity[np.arange(len(given.arm)), given.arm]
    rows = list(zip(given.arm.tolist(), chosen.tolist(), given.at.tolist(), strict=True))
    return Twin(rows, events, 2, window=1.0, measure=measure, level=0.9, target=target, **options)


@pytest.mark.parametrize("measure", ["indicator", "count", "sum"])
def test_intervals_and_p_values_are_those_of_the_twin(measure):
    given = columns(measure=measure)
    null, looks = {0: 0.1, 1: 0.7}, [1.1, 1.8, 2.4]
    sequence = bl.sequence(given.log(2.4, measure), level=0.9, target=500, null=null, looks=looks)
    assert isinstance(sequence, MaturingSequence)
    assert sequence.kind == ("beta_binomial" if measure == "indicator" else "asymptotic")
    twin = twin_of(given, measure, 500)
    finite = 0
    for pair in ((0,), (1,), (1, 0)):
        track = sequence.track(*pair)
        for look, now in enumerate(looks):
            expected = twin.interval(now, *pair)
            actual = track.estimate[look], track.low[look], track.high[look]
            finite += math.isfinite(expected[1])
            if measure == "indicator" and not math.isfinite(expected[1]):
                expected = expected[0], *((0, 1) if len(pair) == 1 else (-1, 1))
            assert actual == pytest.approx(expected, rel=1e-6)
        answer = sequence.arm(*pair) if len(pair) == 1 else sequence.contrast(*pair)
        tested = null[pair[0]] - (null[pair[1]] if len(pair) == 2 else 0)
        smallest = twin.p_value(looks, tested, *pair)
        assert answer.p_value == pytest.approx(smallest, rel=1e-4)
        outside = [now for look, now in enumerate(looks) if not track.low[look] <= tested <= track.high[look]]
        assert answer.excluded_at == (outside[0] if outside else None)
        assert (answer.p_value <= 0.1) == bool(outside)
    assert finite >= 3


def test_a_lag_makes_rows_younger():
    given = columns()
    known = given.at[given.unit] + given.age <= 2.0 - 0.2
    events = {"unit": given.unit[known], "age": given.age[known]}
    log = bl.Log.of_events(
        given.arm, given.propensity, events, window=1.0, assigned_at=given.at, as_of=2.0, lag=0.2, measure="indicator",
        arms=[0, 1],
    )  # fmt: skip
    answer = bl.sequence(log, level=0.9, target=500).arm(1)
    assert (answer.estimate, answer.low, answer.high) == pytest.approx(
        twin_of(given, "indicator", 500, lag=0.2).interval(2.0, 1), rel=1e-6
    )


def test_with_every_window_closed_it_is_the_exact_one():
    log = columns().log(4.2, "indicator")
    sequence, closed = bl.sequence(log), bl.sequence(log.closed())
    for pair in (("arm", 0), ("arm", 1), ("contrast", 1, 0)):
        one, other = (getattr(each, pair[0])(*pair[1:]) for each in (sequence, closed))
        assert (one.estimate, one.low, one.high) == pytest.approx((other.estimate, other.low, other.high), abs=1e-9)


def test_it_is_narrower_than_that_of_closed_windows():
    log = columns(rows=3000).log(1.3, "indicator")
    open_too, closed = (bl.sequence(each, target=3000).contrast(1, 0) for each in (log, log.closed()))
    assert open_too.high - open_too.low < 0.75 * (closed.high - closed.low)


def test_printed_sequences_say_which_rows_count():
    log = columns().log(2.0, "indicator")
    text = str(bl.sequence(log))
    assert "open; tested at 100 looks" in text
    assert "asymptotic: that it holds was checked by simulation, not proved." in text
    assert "closed  open  events" in text
    assert "Only rows whose window of 1 step has closed count." in str(bl.sequence(log.closed()))
    assert bl.sequence(bl.Log([0, 1], [1.0, 0.0], "uniform")).basis is None


def test_over_segments_only_closed_windows_count():
    given = columns(rows=1500)
    there = given.at <= 2.0
    events = {"unit": given.unit, "age": given.age}
    log = bl.Log.of_events(
        given.arm, given.propensity, events, window=1.0, assigned_at=given.at, as_of=2.0, measure="indicator",
        segment=np.where(np.arange(1500) % 2, "DE", "FR"), arms=[0, 1],
    )  # fmt: skip
    assert there.sum() < 1500
    sequence = bl.sequence(log)
    assert sequence.basis == "Only rows whose window of 1 step has closed count."
    assert sequence.arm(0).estimate == pytest.approx(bl.sequence(log.known_at_closing()).arm(0).estimate)
    assert isinstance(bl.sequence(log, segment="DE"), MaturingSequence)


def test_intervals_are_infinite_until_there_is_enough():
    given = columns(rows=60)
    early = bl.sequence(given.log(0.9, "indicator"))
    assert early.arm(0).why.startswith("Arm 0 has 0 closed windows and ")
    assert (early.arm(0).low, early.arm(0).high) == (0.0, 1.0)
    few = bl.sequence(columns(rows=60, measure="count").log(1.4, "count"))
    assert "effective number of" in few.arm(0).why
    assert (few.arm(0).low, few.arm(0).high) == (-math.inf, math.inf)
    rare = bl.sequence(columns(rows=400, rates=(0.01, 0.01), measure="count", policy="uniform").log(3.0, "count"))
    assert "few and skewed" in rare.arm(0).why


def test_update_looks_at_a_later_version():
    given = columns()
    sequence = bl.sequence(given.log(1.5, "indicator"), target=400, looks=5)
    before = sequence.moments
    assert sequence.update(given.log(2.5, "indicator")) is sequence
    assert sequence.moments == (*before, 2.5)
    at_once = bl.sequence(given.log(2.5, "indicator"), target=400, looks=1).arm(1)
    assert (sequence.arm(1).low, sequence.arm(1).high) == pytest.approx((at_once.low, at_once.high))
    with pytest.raises(bl.OptionError, match="earlier as-of time"):
        sequence.update(given.log(2.0, "indicator"))
    with pytest.raises(bl.OptionError, match="closed\\(\\)\\), takes outcomes one by one"):
        sequence.update(0, 1.0, 0.5)
    with pytest.raises(bl.OptionError, match="same arms, type of times and window"):
        sequence.update(given.log(3.0, "count"))
    with pytest.raises(bl.LogError, match="not a later version"):
        sequence.update(columns(seed=2).log(3.0, "indicator"))


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("bernstein", {"bounds": (0, 1)}, "count only rows whose window has closed"),
        ("auto", {"sigma": 1.0}, "uses no bounds and no sigma"),
        ("auto", {"bounds": (0, 5)}, "uses no bounds and no sigma"),
        ("beta_binomial", {}, "the outcome is a count"),
        ("normal", {}, "`kind` is 'normal'"),
    ],
)
def test_other_kinds_need_closed_windows(kind, options, said):
    with pytest.raises(bl.OptionError, match=said):
        bl.sequence(columns(measure="count").log(2.0, "count"), kind, **options)
    if kind == "auto":
        assert bl.sequence(columns().log(2.0, "indicator"), bounds=(0, 1)).kind == "beta_binomial"


@pytest.mark.parametrize(("measure", "rate"), [("indicator", 0.1), ("count", 0.4), ("sum", 0.4)])
def test_intervals_are_hardly_ever_wrong_at_any_look(measure, rate):
    rng, runs, wrong = np.random.default_rng(8), 40, np.zeros(3)
    truth = {0: rate, 1: 1.2 * rate}
    for _ in range(runs):
        log = experiment(rng, 500, tuple(truth.values()), measure=measure).log(4.0, measure)
        sequence = bl.sequence(log, null=truth, looks=25)
        wrong += [each.excluded_at is not None for each in (sequence.arm(0), sequence.arm(1), sequence.contrast(1, 0))]
    # P(more) < 0.001 if one in twenty is wrong
    assert (wrong <= stats.binom.ppf(0.999, runs, 0.05)).all()
