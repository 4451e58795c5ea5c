"""Cohorts: whether events build up with age alike in rows assigned early and late.

The rows of an arm (in a segment) that have reached age d are compared at d: x is a row's place in the order of
assignment, from -1/2 to 1/2 (the rows of a batch share the middle of their places), and m(d) the mean of x over them.
An event at age d adds x - m(d), times its value, to the score of its bin of ages. If the build-up does not depend on
the time of assignment, the score is a sum over rows of

    sum over its events of v (x - m(d))  -  sum over the cell's events k, up to its age, of v_k (x - m(d_k)) / n(d_k)

with mean 0, n(d) the number of rows of that age. The sum of squares of these terms is the score's variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from belated.base import special
from belated.base.columns import Array
from belated.summaries.evidence import FEW, CohortEvidence
from belated.summaries.maturing import Happened

#: The most bins of ages, and the share of events whose values count in full; others count as the largest of these.
BINS, IN_FULL = 4, 0.75

#: How many times of assignment are told apart.
_RESOLUTION = 1e9


class Exposed(NamedTuple):
    """Rows, or groups of rows without events: when they were assigned, and the age that they have reached."""

    cell: Array
    since: Array
    age: Array
    n: Array  # the number of rows


def cohort_scores(
    rows: Exposed, events: Happened, shape: tuple[int, int], text: Callable[[float], str]
) -> CohortEvidence:
    """Return the scores by arm and bin; `shape` is the numbers of segments and arms, `text` puts an age into words."""
    edges = np.zeros(1)
    value, happened_in = events.value, rows.cell[events.entry]
    if len(value):
        bins = int(np.clip(len(value) // FEW, 1, BINS))
        edges = np.unique(np.quantile(events.age, np.arange(1, bins + 1) / bins))
        most = np.quantile(np.abs(value), IN_FULL, method="higher")
        value = np.clip(value, -most, most)
    x = _places(rows)
    cells, (segments, arms) = np.arange(shape[0] * shape[1] + 1), shape
    by_age, by_event_age = np.lexsort((rows.age, rows.cell)), np.lexsort((events.age, happened_in))
    rows_to = np.searchsorted(rows.cell[by_age], cells)
    events_to = np.searchsorted(happened_in[by_event_age], cells)
    place = np.empty(len(x), np.intp)
    place[by_age] = np.arange(len(x)) - rows_to[rows.cell[by_age]]
    score, spread = np.zeros((arms, len(edges))), np.zeros((arms, len(edges), len(edges)))
    for c in range(segments * arms):
        exposed, happened = by_age[rows_to[c] : rows_to[c + 1]], by_event_age[events_to[c] : events_to[c + 1]]
        if not len(happened):
            continue
        one, n = Happened(place[events.entry[happened]], events.age[happened], value[happened]), rows.n[exposed]
        terms = _terms(Exposed(exposed, x[exposed], rows.age[exposed], n), one, edges)
        score[c % arms] += n @ terms
        spread[c % arms] += (terms * n[:, np.newaxis]).T @ terms
    counts = np.bincount(happened_in % arms, minlength=arms)
    return CohortEvidence(tuple(map(text, edges)), counts, score, spread)


def _places(rows: Exposed) -> Array:
    """Return the place of each row in the order of assignment, from -0.5 to 0.5; that of a batch is its middle.

    The mean time of rows that are added up may be rounded: times that differ by less than the resolution are equal.
    """
    if not len(rows.since):
        return np.zeros(0)
    since = rows.since - rows.since.min()
    _, batch = np.unique(np.rint(since / (since.max() or 1.0) * _RESOLUTION), return_inverse=True)
    n = np.bincount(batch, rows.n)
    middle: Array = (np.cumsum(n) - n / 2) / max(float(n.sum()), 1.0) - 0.5
    return middle[batch]


def _terms(rows: Exposed, events: Happened, edges: Array) -> Array:
    """Return what each row of a cell adds to the score of each bin; rows and events are in order of age."""
    x, n = rows.since, rows.n
    start = np.searchsorted(rows.age, events.age, side="left")  # of the rows that have reached the age
    at_risk, total = (np.append(np.cumsum(each[::-1])[::-1], 0.0)[start] for each in (n, n * x))
    mean, each = total / at_risk, events.value / at_risk
    past = np.append(np.zeros((1, 2)), np.cumsum(np.column_stack([each, each * mean]), axis=0), axis=0)
    reached = np.searchsorted(events.age, rows.age, side="right")
    ends = np.append(0, np.searchsorted(events.age, edges, side="right"))
    terms = np.zeros((len(x), len(edges)))
    for b, (first, last) in enumerate(pairwise(ends)):
        slope, level = (past[np.clip(reached, first, last)] - past[first]).T
        terms[:, b] = level - slope * x
        inside = slice(first, last)
        away = events.value[inside] * (x[events.entry[inside]] - mean[inside])
        terms[:, b] += np.bincount(events.entry[inside], away, len(x))
    return terms


class CohortTest(NamedTuple):
    """The test of one arm, or of all arms together (None): the p-value, and standardised scores."""

    arm: int | None
    p_value: float
    total: float  # of all ages
    z: Array  # of each bin


def changes(cohorts: CohortEvidence) -> list[CohortTest]:
    """Test whether the build-up changed, in all arms together and in each arm with enough events.

    Each is tested by its total score and by the scores of all bins, as normal and chi-squared; the p-value is twice the
    smaller one.
    """
    groups: list[tuple[int | None, Array]] = [(None, np.arange(len(cohorts.events)))]
    if len(cohorts.events) > 1:
        groups += [(k, np.array([k])) for k in range(len(cohorts.events))]
    changed = []
    for arm, some in groups:
        score, spread = cohorts.score[some].sum(axis=0), cohorts.spread[some].sum(axis=0)
        if cohorts.events[some].sum() < FEW or not spread.sum() > 0:
            continue
        variances = np.diag(spread)
        z = np.divide(score, np.sqrt(variances), out=np.zeros(len(score)), where=variances > 0)
        total = float(score.sum() / math.sqrt(spread.sum()))
        joint = float(score @ np.linalg.pinv(spread) @ score)
        p_value = min(special.chdtrc(1, total**2), special.chdtrc(int((variances > 0).sum()), joint))
        changed.append(CohortTest(arm, min(2 * float(p_value), 1.0), total, z))
    return changed
