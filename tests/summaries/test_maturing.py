"""Matured outcomes: the formula, closed windows, and the curve of a library for survival."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.duration.survfunc import SurvfuncRight

from belated.summaries.maturing import Exposure, Happened, matured_outcomes, reach
from tests.naive.maturing import Row, mean_and_variance

_AGES = st.integers(0, 12)


@st.composite
def _rows(draw: st.DrawFn) -> list[tuple[int, Row]]:
    """Rows of two cells, each with its weight, age and events."""
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        age = draw(_AGES)
        events = draw(st.lists(st.tuples(_AGES, st.integers(-3, 5)), max_size=3))
        rows.append((draw(st.integers(0, 1)), Row(draw(st.sampled_from([1.0, 1.5, 4.0])), age, events)))
    return rows


def _matured(rows: list[tuple[int, Row]], window: float) -> tuple[Exposure, np.ndarray]:
    cell = np.array([c for c, _ in rows])
    age = np.minimum([row.age for _, row in rows], window).astype(float)
    exposure = Exposure(cell, age, np.array([row.w for _, row in rows]))
    happened = [(i, d, v) for i, (_, row) in enumerate(rows) for d, v in row.events if d <= age[i]]
    columns = np.array(happened, dtype=float).reshape(-1, 3).T
    events = Happened(columns[0].astype(int), columns[1], columns[2])
    return exposure, matured_outcomes(exposure, events, 2, window)


@settings(deadline=None)
@given(rows=_rows(), window=st.integers(1, 12))
def test_their_mean_and_variance_are_those_of_the_formula(rows: list[tuple[int, Row]], window: int) -> None:
    exposure, outcome = _matured(rows, window)
    for c in range(2):
        own = exposure.cell == c
        if not own.any():
            continue
        mean, variance = mean_and_variance([row for k, row in rows if k == c], window)
        w, y = exposure.w[own], outcome[own]
        assert np.sum(w * y) / w.sum() == pytest.approx(mean, abs=1e-10)
        assert np.sum(w**2 * (y - mean) ** 2) / w.sum() ** 2 == pytest.approx(variance, abs=1e-10)


@given(w=st.lists(st.floats(0.1, 9.0), min_size=3, max_size=6), values=st.lists(st.floats(0.1, 99.0), min_size=1))
def test_if_only_one_row_has_reached_the_ages_of_all_events_nothing_varies(w: list[float], values: list[float]) -> None:
    first = Row(w[0], 12, [(5 + i / 99, value) for i, value in enumerate(values)])
    _, outcome = _matured([(0, first), *((0, Row(each, i / 9, [])) for i, each in enumerate(w[1:]))], 12)
    assert len(set(outcome.tolist())) == 1
    assert outcome[0] == pytest.approx(sum(values))


@given(rows=_rows())
def test_if_every_window_has_closed_they_are_the_outcomes(rows: list[tuple[int, Row]]) -> None:
    closed = [(c, row._replace(age=12)) for c, row in rows]
    _, outcome = _matured(closed, 12)
    np.testing.assert_array_equal(outcome, [sum(v for _, v in row.events) for _, row in closed])


def test_without_weights_the_mean_number_of_events_is_nelson_and_aalens() -> None:
    rng = np.random.default_rng(1)
    age = rng.uniform(0, 10, 300)
    age[:40] = 10.0
    events = [np.sort(rng.uniform(0, 14, number)) for number in rng.poisson(1.2, 300)]
    events = [each[each <= reached] for each, reached in zip(events, age, strict=True)]
    # a unit is at risk again after each event
    pieces = [
        (start, stop, int(k < len(each)))
        for each, reached in zip(events, age, strict=True)
        for k, (start, stop) in enumerate(zip([-1e-9, *each], [*each, reached], strict=True))
    ]
    entry, time, status = map(np.array, zip(*pieces, strict=True))
    theirs = SurvfuncRight(time, status, entry=entry)
    rows = [(0, Row(1.0, reached, [(d, 1.0) for d in each])) for each, reached in zip(events, age, strict=True)]
    _, outcome = _matured(rows, 10.0)
    assert outcome.mean() == pytest.approx(np.sum(theirs.n_events / theirs.n_risk), rel=1e-12)


def test_reach_finds_the_longest_age_and_the_one_that_enough_rows_have_reached() -> None:
    age = np.append(np.arange(30.0), [3.0, 4.0])
    cell = np.append(np.zeros(30, int), [1, 1])
    known = reach(Exposure(cell, np.minimum(age, 25.0), np.ones(32)), np.ones(32), 3, 25.0)
    np.testing.assert_array_equal(known.longest, [25.0, 4.0, math.nan])
    np.testing.assert_array_equal(known.well, [20.0, math.nan, math.nan])  # ages 20 to 29 are ten rows
    np.testing.assert_array_equal(known.closed, [5.0, 0.0, 0.0])


def test_groups_of_rows_give_what_their_rows_give() -> None:
    exposure = Exposure(np.zeros(4, int), np.array([2.0, 2.0, 5.0, 5.0]), np.array([1.0, 2.0, 1.0, 1.5]))
    events = Happened(np.array([2]), np.array([1.0]), np.array([3.0]))
    one = matured_outcomes(exposure, events, 1, 5.0)
    grouped = Exposure(np.zeros(3, int), np.array([2.0, 5.0, 5.0]), np.array([3.0, 1.0, 1.5]))
    other = matured_outcomes(grouped, Happened(np.array([1]), np.array([1.0]), np.array([3.0])), 1, 5.0)
    np.testing.assert_allclose(other, [one[0], one[2], one[3]], rtol=1e-14)
