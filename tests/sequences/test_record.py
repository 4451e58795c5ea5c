"""The record of arrivals: the same however they are cut."""

from __future__ import annotations

import numpy as np
import pytest
from sequence_logs import OPTIONS, as_log, made_up

import belated as bl
from belated.sequences.arrivals import ArrivedRows
from belated.sequences.record import Record


@pytest.mark.parametrize("kind", OPTIONS)
def test_in_parts_or_at_once(kind):
    log = as_log(*made_up(np.random.default_rng(4), 900, 3, kind, ties=True))
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
    log = as_log(*made_up(np.random.default_rng(4), 90, 2, "asymptotic"))
    record, arrivals = Record(bl.sequence(log).design), ArrivedRows.of(log)
    before = record.add(arrivals, np.array([arrivals.last_moment]))
    again = record.add(arrivals.after(len(arrivals)), np.array([arrivals.last_moment] * 2))
    assert (again == before).all()
    assert record.verdict(0, joint=False) == (record.best[0], record.first[0, 0])
