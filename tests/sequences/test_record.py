"""The record of arrivals: the same however they are cut."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sequence_logs import OPTIONS, as_log, events_of, random_columns

import belated as bl
from belated.kernels import jit
from belated.sequences.record import ArrivedRows, Record


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
