"""The rows of a log in a table, on every engine."""

from __future__ import annotations

import numpy as np
import pytest

import belated as bl


@pytest.mark.parametrize("two", [False, True])
def test_nan_is_not_nothing(engine, two):
    """Null is an outcome that has not come; NaN is refused where nothing else says whether it has."""
    assignments = {"id": [1, 2, 3, 4], "arm": ["A", "B"] * 2, "propensity": [0.5] * 4, "assigned_at": [1, 2, 3, 4]}
    outcomes = {"id": [1, 2, 3], "outcome": [1.0, float("nan"), 2.0]}
    tables = [assignments, outcomes] if two else [{**assignments, "outcome": [1.0, float("nan"), 2.0, None]}]
    with pytest.raises(bl.LogError, match=r"`outcome` is NaN in 1 row; it must be a number, or null"):
        bl.read(*(engine.table(table) for table in tables))


def test_whole_outcomes_are_capped_at_fractions(engine):
    columns = {"arm": ["A", "B"] * 3, "assigned_at": list(range(6)), "revenue": [1, 7, 3, 0, 5, 2], "p": [0.5] * 6}
    table = bl.read(engine.table(columns), cap=2.5)
    assert bl.estimate(table, "mean").values == pytest.approx([(1 + 2.5 + 2.5) / 3, (2.5 + 0 + 2) / 3])
    assert table.above_cap().tolist() == [[2, 1]]


def test_a_cap_does_not_hide_an_outcome_that_cannot_be(engine):
    columns = {"arm": ["A", "B"] * 2, "assigned_at": list(range(4)), "outcome": [1, np.inf, 3, 0], "p": [0.5] * 4}
    with pytest.raises(bl.LogError, match=r"outcome.*inf"):
        bl.estimate(bl.read(engine.table(columns), cap=2), "dipw")


COLUMNS = {
    "arm": ["B", "A", "B", "A", "B"],
    "country": ["DE", "FR", "DE", None, "FR"],
    "assigned_at": [3, 1, 5, 2, 4],
    "arrived_at": [4, 9, None, 2, 6],
    "outcome": [1.0, 2.0, None, 4.0, 5.0],
    "p": [0.5] * 5,
}


def test_counts_and_times_of_the_rows(engine):
    source = bl.read(engine.table(COLUMNS))
    assert (len(source), source.arms, source.span, source.last_look) == (5, ("A", "B"), (1, 5), 9)
    assert source.assigned.tolist() == [2, 3]
    assert source.arrived.tolist() == [2, 2]
    assert not source.has_all_propensities
    assert source.at(4).last_look == 4
    assert len(source.at(4)) == 4


def test_the_first_rows_from_a_moment_on_come_in_order_of_assignment(engine):
    source = bl.read(engine.table(COLUMNS))
    (rows, _), (later, _) = source.stretches([(None, 2), (3, 9)])
    assert rows.assigned.tolist() == [1, 2]
    assert later.assigned.tolist() == [3, 4, 5]
    assert later.code.tolist() == [1, 1, 1]


def test_segments_are_columns_of_the_rows(engine):
    source = bl.read(engine.table(COLUMNS), segment="country")
    assert source.unit_names == ("s0",)
    assert bl.read(engine.table(COLUMNS)).unit_names == ()
    assert source.layout.labels == source.segments
