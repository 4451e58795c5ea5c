"""Intervals and tests: against the twin, and how often they miss."""

from __future__ import annotations

import math

import naive.sequences as naive
import numpy as np
import pytest
from scipy import stats
from sequence_logs import OPTIONS, as_log, events_of, random_columns

import belated as bl
from belated.sequences import history


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("shape", [{"ties": True}, {"ties": True, "batches": True}])
def test_every_answer_is_the_twins(kind, shape, monkeypatch):
    monkeypatch.setattr(history, "_LEAST", 4)  # several blocks
    rng = np.random.default_rng(len(kind))
    columns = random_columns(rng, 75, 3, kind, **shape)
    null = {0: 0.3, 2: -0.1} if kind != "beta_binomial" else {0: 0.5, 1: 0.4, 2: 0.4}
    options = OPTIONS[kind]
    sequence = bl.sequence(as_log(*columns), kind, level=0.9, target=200, null=null, looks=[10, 20], **options)
    twin = naive.Twin(kind, 3, 0.9, 200, null=[null.get(k, 0.0) for k in range(3)], **options)
    events = events_of(*columns)
    bounds = {"bernstein": (-1.0, 2.0), "beta_binomial": (0.0, 1.0)}.get(kind, (-math.inf, math.inf))
    width = bounds[1] - bounds[0]
    for a in range(3):
        q, low, high = twin.interval(events, a)
        answer = sequence.arm(a)
        assert answer.estimate == pytest.approx(q)
        assert (answer.low, answer.high) == pytest.approx((max(low, bounds[0]), min(high, bounds[1])))
        assert answer.excluded_at == twin.first(events, a)
        if kind != "beta_binomial":
            assert answer.p_value == pytest.approx(twin.p_value(events, a), rel=1e-6)
        for b in range(a):
            q, low, high = twin.interval(events, a, b)
            for sign, contrast in ((1, sequence.contrast(a, b)), (-1, sequence.contrast(b, a))):
                ends = sorted((sign * max(low, -width), sign * min(high, width)))
                assert (contrast.low, contrast.high) == pytest.approx(ends, rel=1e-6)
                assert contrast.estimate == pytest.approx(sign * q)
                assert contrast.excluded_at == twin.first(events, a, b)
            if kind != "beta_binomial":
                assert contrast.p_value == pytest.approx(twin.p_value(events, a, b), rel=1e-6)
            track = sequence.track(a, b)
            for i, moment in enumerate(track.moments[:-1]):
                q, low, high = twin.interval([e for e in events if e[0] <= moment], a, b)
                assert track.low[i] == pytest.approx(max(low, -width), rel=1e-6)
                assert track.high[i] == pytest.approx(min(high, width), rel=1e-6)
    joint = sequence.contrasts(simultaneous=True)
    threshold = math.log(3 / 0.1)
    pairs = [(1, 0), (2, 0), (2, 1)]
    for answer, (a, b) in zip(joint.answers, pairs, strict=True):
        _, low, high = twin.interval(events, a, b, threshold)
        assert (answer.low, answer.high) == pytest.approx((max(low, -width), min(high, width)), rel=1e-6)
        assert answer.excluded_at == twin.first(events, a, b, together=3)
        assert sequence.contrast(a, b, together=3) == answer
        track = sequence.track(a, b, together=3)
        assert (track.low[-1], track.high[-1], track.excluded_at) == (answer.low, answer.high, answer.excluded_at)


@pytest.mark.parametrize(("kind", "arms", "options"), [
    ("asymptotic", bl.arms.exponential(1), {}),
    ("asymptotic", bl.arms.normal(0), {}),
    ("sub_gaussian", bl.arms.normal(0), {"sigma": 1.0}),
    ("bernstein", bl.arms.bernoulli(0.1), {"bounds": (0, 1)}),
    ("beta_binomial", bl.arms.bernoulli(0.05), {}),
])  # fmt: skip
def test_the_truth_is_hardly_ever_excluded(kind, arms, options):
    bandit = bl.Bandit({0: arms, 1: arms}, bl.delays.pareto(0.3).censored(0.3))
    policy = bl.policies.epsilon_greedy(decay=0.5)
    runs, missed = 60, np.zeros(3)
    for r in range(runs):
        sequence = bl.sequence(
            bl.simulate(bandit, policy, 2000, 17, r), kind, looks=1, level=0.9, null=arms.mean, **options
        )
        answers = [sequence.arm(0), sequence.arm(1), sequence.contrast(1, 0)]
        missed += [answer.excluded_at is not None for answer in answers]
    for n in missed:
        assert stats.binomtest(int(n), runs, 0.1, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize(("kind", "arms", "options"), [
    ("asymptotic", bl.arms.normal(0), {}),
    ("sub_gaussian", bl.arms.normal(0), {"sigma": 1.0}),
    ("bernstein", bl.arms.bernoulli(0.5), {"bounds": (0, 1)}),
    ("beta_binomial", bl.arms.bernoulli(0.3), {}),
])  # fmt: skip
@pytest.mark.parametrize("never", [0.0, 0.6])
def test_at_its_target_it_is_hardly_wider_than_the_fixed_interval(kind, arms, options, never):
    bandit = bl.Bandit({0: arms, 1: arms}, bl.delays.geometric(50).censored(never))
    log = bl.simulate(bandit, bl.policies.epsilon_greedy(decay=0.3), 20_000, 3)
    sequence, fixed = bl.sequence(log, kind, **options), bl.estimate(log)
    for sequential, answer in (
        (sequence.arm(0), fixed.arm(0)),
        (sequence.arm(1), fixed.arm(1)),
        (sequence.contrast(1, 0), fixed.contrast(1, 0)),
    ):
        assert 1.2 < (sequential.high - sequential.low) / (answer.high - answer.low) < 1.6


def test_first_times_are_kept():
    rng = np.random.default_rng(1)
    y = np.concatenate([rng.normal(1, 0.1, 400), rng.normal(-1, 0.1, 400)])
    sequence = bl.sequence(bl.Log(np.arange(800) % 2, np.where(np.arange(800) % 2, y, 0), np.full(800, 0.5)), sigma=0.2)
    answer = sequence.contrast(1, 0)
    assert answer.excluded_at < 400
    assert answer.low < 0 < answer.high
    assert answer.p_value < 0.05


def test_many_arms():
    rng = np.random.default_rng(8)
    arm = rng.integers(0, 60, 5000)
    log = bl.Log(arm, rng.normal(arm == 7, 0.2), np.full(5000, 1 / 60), arms=range(60))
    sequence = bl.sequence(log, sigma=0.2)
    assert sequence.contrast(7, 3).excluded_at is not None
    assert bl.sequence(log, sigma=0.2, baseline=3).contrast(7, 3).excluded_at <= sequence.contrast(7, 3).excluded_at
    assert len(sequence.contrasts(3)) == 59


def test_it_is_infinite_and_says_why():
    rng = np.random.default_rng(5)
    n = 4000

    def one(y, pi=0.5, arm=None):
        arms = np.arange(len(y)) % 2 if arm is None else arm
        return bl.sequence(bl.Log(arms, y, np.full(len(y), pi), arms=[0, 1, 2]), "asymptotic")

    few = one(rng.normal(size=40))
    assert math.isinf(few.contrast(0, 1).high)
    assert "effective sample size of 20 (" in few.arm(0).why
    assert "No outcome of arm 2" in few.contrast(0, 2).why
    assert "No outcome" in str(few)
    rare = one((rng.uniform(size=n) < 0.002).astype(float))
    assert "its relative error is" in rare.arm(1).why
    assert "an asymptotic sequence needs 32% or less, a sequence with bounds" in rare.arm(1).why
    assert "are 3, so their variance is unknown" in one(np.full(n, 3.0)).arm(0).why
    assert "differ by too little" in one(rng.normal(size=n) * 1e-100).arm(0).why
    assert "its relative error is" in one(np.where(np.arange(n) < 4, 1e6, rng.normal(size=n))).arm(1).why
    uneven = bl.Log([0] * n, rng.gamma(4, size=n), np.where(np.arange(n) == 0, 1e-5, 1.0))
    assert "few and skewed" in bl.sequence(uneven, "asymptotic").arm(0).why
    sound = one(rng.normal(size=n))
    assert sound.arm(0).why is None
    assert math.isfinite(sound.arm(0).high)
    heavy = bl.sequence(
        bl.Log(np.zeros(200, int), rng.normal(size=200), np.where(np.arange(200) == 0, 1e-6, 0.9)), "asymptotic"
    )
    assert "effective sample size of" in heavy.arm(0).why
