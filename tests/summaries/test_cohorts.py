"""The scores of cohorts against a slow twin, and their tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from naive import cohorts as naive

from belated.summaries.cohorts import BINS, IN_FULL, Exposed, changes, cohort_scores
from belated.summaries.evidence import FEW, CohortEvidence
from belated.summaries.maturing import Happened


def random_rows(seed, rows=90, events=140, cells=4, ties=True):
    """Return rows and events of cells, the values of both signs, with ties among ages."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(0, 10, rows).clip(0, 7)
    age = age.round() if ties else age
    exposed = Exposed(rng.integers(cells, size=rows), rng.permutation(rows) * 1.0, age, np.ones(rows))
    entry = np.sort(rng.integers(rows, size=events))
    when = rng.uniform(0, 7, events)
    when = when.round() if ties else when
    kept = when <= age[entry]
    return exposed, Happened(entry[kept], when[kept], rng.normal(size=events)[kept])


def text(age):
    return f"{age:g}"


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_formula(seed, ties):
    rows, events = random_rows(seed, ties=ties)
    evidence = cohort_scores(rows, events, (2, 2), text)
    n = len(rows.cell)
    x = np.argsort(np.argsort(rows.since)) / n + 0.5 / n - 0.5
    edges = np.unique(np.quantile(events.age, np.linspace(0, 1, min(len(events.age) // FEW, BINS) + 1)[1:]))
    most = np.sort(np.abs(events.value))[math.ceil(IN_FULL * (len(events.value) - 1))]
    value = np.clip(events.value, -most, most)
    terms = naive.terms(
        list(zip(rows.cell, x, rows.age, strict=True)), list(zip(events.entry, events.age, value, strict=True)), edges
    )
    assert evidence.ages == tuple(map(text, edges))
    for arm in (0, 1):
        own = terms[rows.cell % 2 == arm]
        np.testing.assert_allclose(evidence.score[arm], own.sum(axis=0), atol=1e-10)
        np.testing.assert_allclose(evidence.spread[arm], own.T @ own, atol=1e-10)
        assert evidence.events[arm] == (rows.cell[events.entry] % 2 == arm).sum()


def test_rows_without_events_may_be_counted_in_groups():
    rng = np.random.default_rng(4)
    silent = rng.integers(1, 6, 30)
    cell, since, age = rng.integers(2, size=30), np.arange(30.0), np.arange(30)[::-1].clip(0, 12) * 1.0
    loud = Exposed(rng.integers(2, size=40), rng.uniform(0, 17, 40), np.full(40, 12.0), np.ones(40))
    groups = Exposed(
        *(np.concatenate(pair) for pair in zip(loud, (cell, since, age, silent.astype(float)), strict=True))
    )
    singly = [np.repeat(column, silent) for column in (cell, since, age)]
    # rows of a group share a place in the order
    apart = Exposed(*(np.concatenate(pair) for pair in zip(loud[:3], singly, strict=True)), np.ones(40 + silent.sum()))
    events = Happened(np.arange(40), rng.uniform(0, 12, 40), np.ones(40))
    together, single = (cohort_scores(rows, events, (1, 2), text) for rows in (groups, apart))
    np.testing.assert_allclose(together.score, single.score, atol=1e-10)
    np.testing.assert_allclose(together.spread, single.spread, rtol=1e-2)


def test_the_order_of_the_rows_of_a_batch_says_nothing():
    rng = np.random.default_rng(5)
    loud = np.arange(600) < 200  # as rows that are added up come after those with events
    day = rng.integers(3, size=600) * 1.0
    rows = Exposed(np.zeros(600, int), day, np.full(600, 9.0), np.ones(600))
    happened = Happened(np.arange(200), rng.uniform(0, 9, 200), np.ones(200))
    evidence = cohort_scores(rows, happened, (1, 1), text)
    new = rng.permutation(600)
    place = np.argsort(new)
    moved = cohort_scores(
        Exposed(*(column[new] for column in rows)), happened._replace(entry=place[:200]), (1, 1), text
    )
    np.testing.assert_allclose(moved.score, evidence.score, atol=1e-9)
    np.testing.assert_allclose(moved.spread, evidence.spread, rtol=1e-9)
    assert changes(evidence)[0].p_value > 0.1
    rounded = np.where(loud, day, day + rng.uniform(-1, 1, 600) * 1e-11)
    close = cohort_scores(rows._replace(since=rounded + 1), happened, (1, 1), text)
    np.testing.assert_allclose(close.score, evidence.score, atol=1e-9)


def test_without_events_there_is_nothing_to_test():
    rows, _ = random_rows(0)
    none = Happened(np.zeros(0, int), np.zeros(0), np.zeros(0))
    evidence = cohort_scores(rows, none, (2, 2), text)
    assert evidence.score.shape == (2, 1)
    assert changes(evidence) == []


def test_an_arm_with_few_events_is_only_tested_with_the_others():
    score, spread = np.array([[3.0, 1.0], [2.0, 0.0]]), np.stack([np.eye(2), np.eye(2)])
    results = changes(CohortEvidence(("1", "2"), np.array([FEW - 1, FEW]), score, spread))
    assert [change.arm for change in results] == [None, 1]
    assert results[0].total == pytest.approx(6 / 2)
    np.testing.assert_allclose(results[0].z, [5 / math.sqrt(2), 1 / math.sqrt(2)])
    # twice the smaller of P(chi2_1 > 9) and P(chi2_2 > 13)
    assert results[0].p_value == pytest.approx(2 * min(0.0026998, math.exp(-13 / 2)), rel=1e-4)


def test_one_arm_is_tested_once():
    results = changes(CohortEvidence(("1",), np.array([FEW]), np.array([[1.0]]), np.ones((1, 1, 1))))
    assert [change.arm for change in results] == [None]
