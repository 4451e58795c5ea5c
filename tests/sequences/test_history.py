"""How sequences follow a log."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sequence_logs import OPTIONS, as_log, events_of, random_columns

import belated as bl
from belated.kernels import jit
from belated.sequences.history import ArrivedRows, Record


def test_outcomes_recorded_only_when_they_happen_say_nothing():
    y = np.where(np.arange(200) % 3 == 0, 1.0, math.nan)
    log = bl.Log(np.arange(200) % 2, y, np.full(200, 0.5))
    with pytest.warns(bl.BelatedWarning, match="only events are recorded"):
        sequence = bl.sequence(log)
    assert sequence.arm(0).p_value == 1
    assert sequence.contrast(1, 0).excluded_at is None
    assert (sequence.arm(0).low, sequence.arm(0).high) == (-math.inf, math.inf)
    assert "only events are recorded" in sequence.arm(0).why


@pytest.mark.parametrize("binary", [False, True])
def test_beside_it_stands_the_interval_of_a_single_look(binary):
    arms = {k: bl.arms.bernoulli(0.3 + 0.1 * k) if binary else bl.arms.normal(k) for k in range(3)}
    log = bl.simulate(bl.Bandit(arms, bl.delays.geometric(30).censored(0.2)), bl.policies.ucb(), 600, seed=4)
    sequence = bl.sequence(log, looks=[100, 333])
    track = sequence.track(2, 0)
    for i, moment in enumerate(track.moments):
        fixed = bl.estimate(log.at(moment), "dipw").contrast(2, 0)
        assert (track.fixed_low[i], track.fixed_high[i]) == pytest.approx((fixed.low, fixed.high))
    assert sequence.arm(2).estimate == pytest.approx(
        log.outcome[(log.code == 2) & log.arrived].mean() if binary else bl.estimate(log, "dipw").values[2]
    )


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(sorted(OPTIONS)), st.booleans())
def test_growing_is_the_same_as_building(seed, kind, ties):
    rng = np.random.default_rng(seed)
    columns = random_columns(rng, 90, 2, kind, ties=ties)
    events = events_of(*columns)
    whole_log = as_log(*columns, chosen=True)
    whole = bl.sequence(whole_log, kind, target=100, **OPTIONS[kind])
    half = events[len(events) // 2][0]
    grown = bl.sequence(whole_log.at(half), kind, target=100, **OPTIONS[kind])
    by_log = bl.sequence(whole_log.at(half), kind, target=100, **OPTIONS[kind]).update(whole_log)
    later = [e for e in events if e[0] > half]
    cut = len(later) // 3
    while 0 < cut < len(later) and later[cut - 1][0] == later[cut][0]:
        cut += 1
    for part in (later[:cut], later[cut:]):
        if part:
            time, arm, y, p = (list(x) for x in zip(*part, strict=True))
            grown.update(arm, y, p, at=time)
    for one in (grown, by_log):
        for ask in (lambda s: s.arm(1), lambda s: s.contrast(1, 0)):
            a, b = ask(one).to_dict(), ask(whole).to_dict()
            numbers = ("estimate", "low", "high", "p_value")
            assert [a[n] for n in numbers] == pytest.approx([b[n] for n in numbers], rel=1e-9, nan_ok=True)
            assert a["excluded_at"] == b["excluded_at"]


def test_one_at_a_time():
    rng = np.random.default_rng(0)
    log = bl.Log([0, 1], [0.1, 0.2], [0.5, 0.5])
    grown = bl.sequence(log, "sub_gaussian", sigma=1, target=1000)
    arm, y = rng.integers(0, 2, 300), rng.normal(size=300)
    for a, x in zip(arm, y, strict=True):
        grown.update(int(a), x, 0.5)
    whole = bl.sequence(bl.Log([0, 1, *arm], [0.1, 0.2, *y], np.full(302, 0.5)), "sub_gaussian", sigma=1, target=1000)
    assert grown.moments[-1] == 302
    assert grown.contrast(1, 0).to_dict() == pytest.approx(whole.contrast(1, 0).to_dict())


def test_what_cannot_be_grown_is_refused():
    rng = np.random.default_rng(3)
    arm, y = rng.integers(0, 2, 60), rng.normal(size=60)
    log = bl.Log(arm, y, np.full(60, 0.5), assigned_at=np.arange(60))
    sequence = bl.sequence(log.at(30), "sub_gaussian", sigma=1)
    changed = y.copy()
    changed[10] += 1
    with pytest.raises(bl.LogError, match="not a later version"):
        sequence.update(bl.Log(arm, changed, np.full(60, 0.5), assigned_at=np.arange(60)))
    with pytest.raises(bl.OptionError, match="before the last look"):
        sequence.update(0, 1.0, 0.5, at=3)
    with pytest.raises(bl.OptionError, match="must not decrease"):
        sequence.update([0, 1], [1.0, 2.0], [0.5, 0.5], at=[40, 35])
    with pytest.raises(bl.OptionError, match="propensity"):
        sequence.update(0, 1.0, 0.0)
    with pytest.raises(bl.OptionError, match="not below 1e-30"):
        sequence.update(0, 1.0, 1e-31)
    with pytest.raises(bl.OptionError, match="row 0 is nan; it must be a finite number"):
        sequence.update(0, math.nan, 0.5)
    with pytest.raises(bl.UnknownArmError):
        sequence.update(7, 1.0, 0.5)
    binary = bl.sequence(bl.Log([0, 1], [0, 1], [0.5, 0.5]))
    with pytest.raises(bl.LogError, match="0 or 1"):
        binary.update(0, 0.5, 0.5)
    assert sequence.update(log).moments[-1] == 59


@pytest.mark.parametrize("kind", OPTIONS)
def test_in_parts_or_at_once(kind):
    log = as_log(*random_columns(np.random.default_rng(4), 900, 3, kind, ties=True))
    design = bl.sequence(log, kind, **OPTIONS[kind]).design
    arrivals = ArrivedRows.of(log)
    middle, last = arrivals.moments(np.array([len(arrivals) // 2, -1]))
    whole, parts = Record(design), Record(design)
    states = whole.add(arrivals, np.array([middle, last]))
    half = int(arrivals.count_by(np.array([middle]))[0])
    early = ArrivedRows(arrivals.columns._replace(arrived=arrivals.columns.arrived[:half]), arrivals.times)
    assert parts.add(early, np.array([middle]))[0] == pytest.approx(states[0])
    assert parts.add(arrivals.after(half), np.array([last]))[0] == pytest.approx(states[1])
    assert parts.best == pytest.approx(whole.best)
    assert (parts.first == whole.first).all()


def test_nothing_new_changes_nothing():
    log = as_log(*random_columns(np.random.default_rng(4), 90, 2, "asymptotic"))
    record, arrivals = Record(bl.sequence(log).design), ArrivedRows.of(log)
    before = record.add(arrivals, np.array([arrivals.last_moment]))
    again = record.add(arrivals.after(len(arrivals)), np.array([arrivals.last_moment] * 2))
    assert (again == before).all()
    assert record.verdict(0, joint=False) == (record.best[0], record.first[0, 0])


@pytest.mark.parametrize("rows", [60, 2000])
@pytest.mark.parametrize("shape", [{}, {"ties": True}, {"batches": True}, {"ties": True, "batches": True}])
def test_the_order_is_that_of_sorting(rows, shape):
    columns = random_columns(np.random.default_rng(rows), rows, 2, "asymptotic", **shape)
    events = events_of(*columns)
    arrivals = ArrivedRows.of(as_log(*columns))
    assert len(arrivals) == len(events)
    assert arrivals.moments(slice(None)).tolist() == [time for time, *_ in events]
    block = arrivals.block(3, 40)
    assert [(a, y, p) for _, a, y, p in events[3:40]] == list(
        zip(block.code, block.outcome, block.propensity, strict=True)
    )
    times = [time for time, *_ in events[3:40]]
    assert block.last.tolist() == [*(a != b for a, b in zip(times[1:], times, strict=False)), True]


def test_the_order_is_the_same_in_threads(monkeypatch):
    columns = random_columns(np.random.default_rng(0), 3000, 2, "asymptotic", ties=True)
    whole = ArrivedRows.of(as_log(*columns)).columns.arrived
    jit.compile_kernels()
    monkeypatch.setattr(jit, "LONG", 1000)
    assert (ArrivedRows.of(as_log(*columns)).columns.arrived == whole).all()


def test_counts_by_moments_and_what_is_after():
    log = bl.Log([0, 1, 0, 1], [1.0, 2.0, 3.0, math.nan], [0.5] * 4, arrived_at=[5, 3, 4, math.nan])
    arrivals = ArrivedRows.of(log)
    assert arrivals.columns.arrived.tolist() == [1, 2, 0]
    assert arrivals.count_by(np.array([0, 3, 4, 9])).tolist() == [0, 1, 2, 3]
    assert arrivals.last_moment == 5
    assert arrivals.after(2).moments(slice(None)).tolist() == [5]
    assert arrivals.after(3).last_moment is None


@pytest.mark.parametrize("repeat", [1, 300])
def test_outcomes_outside(repeat):
    arrivals = ArrivedRows.of(bl.Log([0, 1] * repeat, [0.0, 1.0] * repeat, [0.5] * 2 * repeat))
    assert arrivals.outside(0, 1, ends=True) is None
    assert arrivals.outside(0, 2, ends=True) == 1
    assert arrivals.outside(0.5, 2) == 0
