"""Whatever a sequence says of one question, it says everywhere: intervals, p-values, first times, tracks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sequence_logs import OPTIONS

import belated as bl
from belated.base.errors import without_warnings
from belated.sequences.intervals import intervals

#: Outcomes of every kind, from uniform numbers and the arms' codes.
OUTCOMES = {
    "asymptotic": lambda u, arm: np.round(3 * u) + 2 * arm,
    "sub_gaussian": lambda u, arm: 2 * u - 1 + arm,
    "bernstein": lambda u, arm: 3 * (u + arm > 0.6) - 1.0,
    "beta_binomial": lambda u, arm: 1.0 * (u + 0.5 * arm > 0.7),
}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(sorted(OPTIONS)), st.integers(2, 60), st.booleans())
def test_excluded_exactly_when_some_interval_leaves_it_out(seed, kind, rows, ties):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 3)) if kind == "asymptotic" else int(rng.integers(1, 4))
    order = np.sort(rng.integers(0, k, rows)) if rng.random() < 0.3 else rng.integers(0, k, rows)
    when = np.arange(rows) // (3 if ties else 1)
    log = bl.Log(
        order, OUTCOMES[kind](rng.random(rows), order), rng.choice([0.5, 0.2, 1.0], rows), arms=range(k),
        assigned_at=when, arrived_at=when + rng.integers(0, 4, rows),
    )  # fmt: skip
    null = dict(enumerate(rng.choice([0.0, 0.1, 0.5, 0.9, 1.0, 2.5, 5.0, -3.0], k)))
    level, looks = float(rng.choice([0.5, 0.8, 0.95])), np.unique([0, *log.arrived_at])
    with without_warnings():
        sequence = bl.sequence(log, kind, level=level, null=null, looks=looks.tolist(), **OPTIONS[kind])
        bare = bl.sequence(log, kind, level=level, null=null, looks=1, **OPTIONS[kind])
    several = sequence.design.n_contrasts
    questions = [(a, None, together) for a in range(k) for together in (1, k)]
    questions += [(a, b, together) for a in range(k) for b in range(k) if a != b for together in (1, several, 7)]
    for a, b, together in questions:
        answers = [
            s.arm(a, simultaneous=together > 1) if b is None else s.contrast(a, b, together=together)
            for s in ((sequence, bare) if together != 7 else (sequence,))
        ]
        track = intervals(sequence._history, a, b, sequence.design.threshold(together))
        tested = sequence.design.null_of(a, b)
        outside = [moment for moment, (_, low, high) in zip(looks, track, strict=True) if not low <= tested <= high]
        for answer in answers:
            assert answer.excluded_at == (outside[0] if outside else None)
            assert (answer.p_value <= 1 - level) == bool(outside)
            assert (answer.low, answer.high) == pytest.approx(track[-1][1:])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.1, 9.99, -1.0, 1e4]), st.sampled_from([0.0, -1.0, 300.0]))
def test_the_coding_of_outcomes_is_nothing_to_an_asymptotic_sequence(seed, unit, zero):
    rng = np.random.default_rng(seed)
    arm, two = rng.integers(0, 2, 200), rng.random() < 0.5
    y = 1.0 * (rng.random(200) < 0.2) if two else rng.exponential(size=200)
    plain, coded = (
        bl.sequence(bl.Log(arm, x, np.full(200, 0.5), arms=[0, 1]), "asymptotic", target=150)
        for x in (y, zero + unit * y)
    )
    for a, b, shift in ((0, None, zero), (1, 0, 0.0)):
        one, other = (s.arm(a) if b is None else s.contrast(a, b) for s in (plain, coded))
        ends = sorted(shift + unit * np.array([one.low, one.high]))
        assert [other.low, other.high] == pytest.approx(ends, rel=1e-6)
        assert (one.why is None) == (other.why is None)
        if b is not None:
            assert one.excluded_at == other.excluded_at
            assert one.p_value == pytest.approx(other.p_value, rel=1e-6)


@pytest.mark.parametrize("delay", [0, 2])
def test_a_value_that_bounds_leave_out_is_excluded_from_the_beginning(delay):
    log = bl.Log([0, 1, 0, 1], [2.0, 3.0, 2.0, 3.0], [0.5] * 4, delay=[delay] * 4)
    for looks, began in ((100, 1), (1, 1), ([2, 4], 1), ([0, 2], 0)):
        sequence = bl.sequence(log, bounds=(1, 5), looks=looks)
        answer, track = sequence.arm(0), sequence.track(0)
        assert (answer.low, answer.excluded_at, answer.p_value) == (1, began, 0)
        assert track.low.min() == 1
        assert track.excluded_at == began
    early = bl.sequence(log.at(1), bounds=(1, 5)).arm(0)  # also if no outcome has arrived
    assert (early.low, early.excluded_at, early.p_value) == (1, 1, 0)


def test_a_rate_above_1_is_excluded_in_segments_from_the_first_look():
    rng = np.random.default_rng(1)
    log = bl.Log(
        rng.integers(0, 2, 100), 1.0 * (rng.random(100) < 0.4), np.full((100, 2), 0.5), arms=[0, 1],
        segment=rng.choice(["x", "y"], 100), delay=np.full(100, 5),
    )  # fmt: skip
    sequence = bl.sequence(log, null=2, looks=[3, 100])
    answer, track = sequence.arm(0), sequence.track(0)
    assert (sequence.kind, track.high[0], answer.excluded_at, answer.p_value) == ("beta_binomial", 1, 3, 0)
