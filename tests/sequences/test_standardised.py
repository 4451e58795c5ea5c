"""Sequences of logs with segments: of one segment, and over all of them."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from contextual_policies import contextual
from naive.sequences import naive_standardised
from scipy import stats

import belated as bl
from belated.sequences.sequence import StandardisedSequence


def test_a_sequence_of_one_segment_is_that_of_its_rows():
    log = contextual(800, 2, kind="rate").log
    one, rows = bl.sequence(log, segment="S1"), bl.sequence(log.in_segment("S1"))
    assert not isinstance(one, StandardisedSequence)
    assert one.contrast("B", "A").to_dict() == rows.contrast("B", "A").to_dict()


@pytest.mark.parametrize("kind", ["normal", "exponential", "rate"])
def test_intervals_agree_with_a_slow_twin(kind):
    log = contextual(900, 3, policy="thompson", kind=kind, seed=4).log
    sequence = bl.sequence(log, looks=6, target=1000)
    assert sequence.kind == ("beta_binomial" if kind == "rate" else "asymptotic")
    assert sequence.segments == log.segments
    for arm, baseline in (("A", None), ("B", "A")):
        track = sequence.track(arm, baseline)
        for look, moment in enumerate(track.moments):
            expected = naive_standardised(log.at(moment), log.layout, arm, baseline, target=1000)
            np.testing.assert_allclose(
                [track.estimate[look], track.low[look], track.high[look]], expected, rtol=1e-6, atol=1e-7
            )
    assert math.isfinite(sequence.contrast("B", "A").low)


@pytest.mark.parametrize("kind", ["normal", "rate"])
def test_test_and_interval_agree_at_every_look(kind):
    log = contextual(1500, 2, policy="thompson", kind=kind, seed=5).log
    middle = bl.sequence(log).contrast("B", "A").estimate
    for null in (middle - 0.6, middle - 0.35, middle - 0.12, middle, middle + 0.2):
        sequence = bl.sequence(log, null={"B": null}, looks=30)
        answer, track = sequence.contrast("B", "A"), sequence.track("B", "A")
        outside = [
            m for m, low, high in zip(track.moments, track.low, track.high, strict=True) if not low <= null <= high
        ]
        assert answer.excluded_at == track.excluded_at == (outside[0] if outside else None)
        assert (answer.p_value <= 0.05) == bool(outside)
        joint = sequence.contrast("B", "A", together=5)
        assert joint.p_value >= answer.p_value


@pytest.mark.parametrize(("kind", "policy"), [("normal", "greedy"), ("exponential", "thompson"), ("rate", "thompson")])
def test_it_is_seldom_ever_wrong(kind, policy):
    wrong = np.zeros(3, int)
    for seed in range(50):
        played = contextual(500, 2, policy=policy, kind=kind, delay=5, seed=seed + 100)
        null = dict(zip("AB", played.truth, strict=True))
        sequence = bl.sequence(played.log, null=null, looks=12)
        answers = (sequence.arm("A"), sequence.arm("B"), sequence.contrast("B", "A"))
        wrong += [answer.excluded_at is not None for answer in answers]
    for misses in wrong:
        assert stats.binomtest(int(misses), 50, 0.05, alternative="greater").pvalue > 0.01


def test_a_later_log_adds_a_look_and_keeps_exclusions():
    log = contextual(1500, means=[[0.0, 1.0], [0.5, 1.5]], seed=6).log
    sequence = bl.sequence(log.at(1000), looks=10)
    first = sequence.contrast("B", "A")
    assert first.excluded_at is not None
    assert sequence.update(log) is sequence
    assert len(sequence.moments) == 11
    assert sequence.contrast("B", "A").excluded_at == first.excluded_at
    assert sequence.contrast("B", "A").p_value <= first.p_value
    assert sequence.fixed().contrast("B", "A").estimate == pytest.approx(
        bl.estimate(log, "dipw").contrast("B", "A").estimate
    )
    with pytest.raises(bl.OptionError, match="earlier as-of time"):
        sequence.update(log.at(500))
    with pytest.raises(bl.OptionError, match="takes a later version of the log"):
        sequence.update("A", 1.0, 0.5)
    with pytest.raises(bl.LogError, match="not a later version"):
        bl.sequence(log.at(1000)).update(contextual(1500, means=[[0.0, 1.0], [0.5, 1.5]], seed=7).log)


def test_what_is_not_possible_is_said():
    log = contextual(600, 2, kind="rate", delay=0).log
    with pytest.raises(bl.OptionError, match="has no segments"):
        bl.sequence(log.in_segment("S0"), segment="S0")
    with pytest.raises(bl.OptionError, match="There is no segment 'S7'"):
        bl.sequence(log, segment="S7")
    with pytest.raises(bl.OptionError, match="'asymptotic' or 'beta_binomial'"):
        bl.sequence(log, "bernstein", bounds=(0, 1))
    finer = contextual(2000, 2, traits=2, delay=0, seed=3).log
    with pytest.raises(bl.OptionError, match="nothing but the segment"):
        bl.sequence(finer)
    small = contextual(400, shares=[0.9, 0.05, 0.05], means=np.full((3, 2), 0.3), kind="rate", delay=0).log
    assert small.segments[-1] == "other"
    assert bl.sequence(small).kind == "asymptotic"
    with pytest.raises(bl.OptionError, match="several segments that were merged"):
        bl.sequence(small, segment="other")
    with pytest.raises(bl.OptionError, match="merged; use kind='asymptotic'"):
        bl.sequence(small, "beta_binomial")


def test_outcomes_other_than_0_and_1_are_not_taken_for_these():
    log = contextual(800, 2, kind="rate", policy="uniform", delay=0).log
    outcome = np.where(np.arange(800) < 400, log.outcome, 3 * log.outcome)
    rows = np.array(log.arms)[log.code], outcome, "uniform"
    later = bl.Log(*rows, arms=log.arms, segment=np.array(log.segments)[log.segment_column.code])
    assert bl.sequence(later).kind == "asymptotic"
    sequence = bl.sequence(later.at(400), target=800)
    assert sequence.kind == "beta_binomial"
    for ask in (lambda: sequence.update(later), lambda: bl.sequence(later, "beta_binomial")):
        with pytest.raises(bl.LogError, match="outcome is 3, but a beta-binomial sequence needs outcomes"):
            ask()
    assert len(sequence.moments) == len(bl.sequence(later.at(400)).moments)


def test_an_interval_of_a_contrast_has_no_reason_to_be_missing():
    rng = np.random.default_rng(7)
    rows = 400
    paid = np.where(rng.random(rows) < 0.1, rng.lognormal(size=rows), 0.0)
    arm = np.arange(rows) % 2  # the second arm's outcomes alone are skewed
    outcome = np.where(arm == 0, rng.normal(size=rows), 0.1 * paid)
    log = bl.Log(np.array(["A", "B"])[arm], outcome, "uniform", segment=np.arange(rows) // 2 % 2)
    sequence = bl.sequence(log)
    assert sequence.arm("B").why is not None
    answer = sequence.contrast("B", "A")
    assert math.isfinite(answer.low)
    assert answer.why is None


@pytest.mark.parametrize("rates", [False, True])
def test_chances_of_arrival_that_differ_count_over_segments_only(rates):
    rng = np.random.default_rng(0)
    rows = 3000
    good = np.arange(rows) % 3 == 0  # their outcomes are larger, and arrive more often
    chance = np.where(good, 0.9, 0.2)
    outcome = (rng.random(rows) < np.where(good, 0.6, 0.2)).astype(float) if rates else good + rng.normal(size=rows)
    outcome[rng.random(rows) > chance] = np.nan
    columns = rng.choice(["A", "B"], rows), outcome, "uniform"
    log = bl.Log(*columns, segment=np.zeros(rows, int), arrival_probability=chance)
    sequence = bl.sequence(log)
    assert sequence.kind == "asymptotic"
    answer = sequence.arm("A")
    assert answer.low < 1 / 3 < answer.high  # the mean of all rows
    assert answer.estimate == pytest.approx(bl.estimate(log, "dipw").arm("A").estimate)
    assert bl.sequence(bl.Log(*columns)).arm("A").low > 1 / 3  # rows that arrive often count too much
    if rates:
        with pytest.raises(bl.OptionError, match="not possible with `arrival_probability`; use kind='asymptotic'"):
            bl.sequence(log, "beta_binomial")
    plain = bl.Log(*columns, arrival_probability=chance)
    asked = (
        lambda: bl.sequence(plain),
        lambda: bl.sequence(log, segment=0),
        lambda: bl.sequence(bl.Log(*columns)).update(plain),
    )
    for ask in asked:
        with pytest.raises(bl.OptionError, match="`arrival_probability`, which a sequence takes into account only"):
            ask()


def test_few_outcomes_in_a_segment_are_the_reason():
    log = contextual(200, 2, delay=0, policy="uniform").log
    log = next(now for now in map(log.at, range(20, 200)) if len(now.segments) == 2)  # with 8 outcomes in a cell
    answer = next(answer for arm in "AB" if (answer := bl.sequence(log).arm(arm)).why)
    assert math.isinf(answer.high)
    assert "in segment" in answer.why
    assert answer.p_value == 1
    assert answer.excluded_at is None


def test_it_prints_and_draws():
    log = contextual(500, 2).log
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sequence = bl.sequence(log, looks=5)
        assert "mix of 2 segments, tested at 5 looks" in repr(sequence)
        assert sequence.plot("B", "A").get_axes()
        assert len(sequence.contrasts()) == 1
