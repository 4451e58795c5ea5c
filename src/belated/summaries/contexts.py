"""Whether probabilities swing between rows as those of a policy do that looks at the unit: its country, its device.

A policy that does not look at the unit changes its probabilities when outcomes arrive, or slowly with time. One that
does gives each kind of unit its own, so that they swing back and forth from row to row. A `Glimpse` holds the rows that
are looked at, `swings` counts in them, and `contexts` judges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from belated.base import special
from belated.base.columns import Array

#: Rows that are looked at: the earliest and, in longer logs, some later stretches.
EARLIEST, STRETCH, LATER = 5_000, 1_250, 4

#: Rows below which a log is too short to tell.
SHORT = 100

#: How far a probability must swing, in units of sqrt(p (1 - p)): with no arrival in between, or with some.
_QUIET, _LOUD = 0.2, 0.3

#: The smallest unit: estimates of small probabilities from a few draws would swing far in a smaller one.
_LEAST_UNIT = 0.25

#: Swings above this multiple of the jitter are not jitter.
_BEYOND_JITTER = 5.0

#: The jitter of probabilities from 25 Monte Carlo draws, and that below which it does not matter.
_LARGE_JITTER, _SMALL_JITTER = 0.2, 0.005

#: The upper quartile of the swings of independent normal values of standard deviation 1.
_USUAL_SWING = 0.924

#: Swings that count: how many, and the share of the triples of rows that may show them.
_FEW_QUIET, _QUIET_SHARE, _FEW_LOUD, _LOUD_SHARE = 3, 0.01, 6, 0.06

#: The share of `Swings.expected_other` that must be there.
_EXPECTED_SHARE = 0.4

#: Rows before a row whose average its probability is held against.
_ROWS_BEFORE = 8

#: Probabilities that differ by less, or by less than this share, are the same, but for rounding.
_TOLERANCE = 1e-9

#: What sums must show: standard errors, and as how many equal terms.
_BLATANT_Z, _TERMS = 3.72, 15

#: Probabilities that are looked at together, so that they stay in the processor's cache.
_CACHED_PROBABILITIES = 1 << 14

#: Probabilities from which the jitter is estimated, at most.
_MOST_JITTER = 1 << 20

Finding = Literal["quiet", "loud", "outcomes", "jitter", "none", "unknown"]


class Glimpse(NamedTuple):
    """Rows of a log that are looked at, in order of assignment, as stretches of rows that follow each other.

    Attributes
    ----------
    assigned : array
    code : array
    p : array of shape (rows, arms) or (rows,)
    outcome : array
        NaN if it has not arrived.
    starts : array
        The positions at which stretches begin.
    arrivals : array or None
        When outcomes arrived, ascending; they must be complete up to the last time of the first stretch. None: it is
        not known what the policy saw when.
    arrived_at : array or None
        When the outcome of each row of the first stretch arrived; any time if it has not. None as for `arrivals`.
    at_once : array
        Whether each row's outcome arrived at the time of its assignment.
    in_order : bool
        Whether rows of one time are in the order in which they were assigned, as far as is known.
    segment : array or None
        The number of each row's segment, within which probabilities are compared; -1 for rows that are not judged.
        None: the log has no segments.
    """

    assigned: Array
    code: Array
    p: Array
    outcome: Array
    starts: Array
    arrivals: Array | None
    arrived_at: Array | None
    at_once: Array
    in_order: bool
    segment: Array | None = None

    def groups(self, by_arm: bool) -> list[Array]:
        """Return the rows of each segment that is judged, or of each arm in it."""
        segment = np.zeros(len(self.code), np.intp) if self.segment is None else self.segment
        group = segment * (int(self.code.max(initial=0)) + 1) + self.code if by_arm else segment
        order = np.argsort(group, kind="stable")[np.count_nonzero(segment < 0) :]
        return np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else []


class Swings(NamedTuple):
    """How probabilities move over three consecutive rows; rows of one arm, if the other probabilities are unknown.

    In a log with segments, over three rows of one segment. A swing is a move of one arm's probability and a move back,
    the smaller of the two large.

    Attributes
    ----------
    rows : int
        How many were looked at.
    full : bool
        Whether every arm's probability is known.
    quiet, quiet_swings : int
        Triples of rows with no arrival in between, and those that swing, by more than jitter.
    jitter : float
        The standard deviation of a probability about its smooth course, from quiet triples, in sqrt(p (1 - p)): that of
        the arm for which it is largest.
    typical : float
        The same as a probability.
    late, late_swings, all_swings : int
        Triples in the later half of the rows, those of them that swing, and those of all rows.
    other, expected_other : float
        Swings in whose middle row another arm than the likeliest was tried in vain, with no outcome arriving before the
        last row that can turn a policy away from the likeliest, and how many are to be expected if swings have nothing
        to do with what is tried and what arrives.
    z, terms : float
        The sum of w (outcome - mean of its arm so far) (its probability - the average of the rows before) over its
        standard error, with w = 1 / sqrt(p), in the mean too; and the number of equal terms that would have that
        standard error.
    segmented : bool
        Whether rows were compared within segments.
    """

    rows: int
    full: bool
    quiet: int
    quiet_swings: int
    jitter: float
    typical: float
    late: int
    late_swings: int
    all_swings: int
    other: float
    expected_other: float
    z: float
    terms: float
    segmented: bool = False


def stretches(rows: int) -> list[tuple[int, int]]:
    """Return the positions of the rows to look at, as stretches from one to another; all rows of a short log."""
    if rows <= EARLIEST + LATER * STRETCH:
        return [(0, rows)]
    later = EARLIEST + (np.arange(1, LATER + 1) * (rows - EARLIEST - STRETCH)) // LATER
    return [(0, EARLIEST), *((int(start), int(start) + STRETCH) for start in later)]


def are_apart(assigned: Array) -> bool:
    """Whether no two rows, in order of assignment, have one time, so that their order is known wherever they are."""
    return bool((assigned[1:] > assigned[:-1]).all())


def swings(glimpse: Glimpse) -> Swings:
    """Count how probabilities swing."""
    quiet = _quiet_before(glimpse)
    whole = np.searchsorted(glimpse.starts, np.arange(len(glimpse.code)), side="right")
    full = glimpse.p.ndim == 2
    p = glimpse.p if full else glimpse.p[:, np.newaxis]
    paths = glimpse.groups(by_arm=not full) or [np.zeros(0, np.intp)]
    first, middle, last = np.concatenate([_triples(path, whole) for path in paths], axis=1)
    size = _largest_swings(p, first, middle, last)
    constant = glimpse.arrivals is None and bool((p == p[:1]).all())  # whatever arrived between them
    still, late = (quiet[first] == quiet[last]) | constant, middle >= len(quiet) / 2
    jitter, typical = _jitter(p, first[still], middle[still], last[still])
    beyond = 0.0 if jitter > _LARGE_JITTER else _BEYOND_JITTER * jitter
    loud = size > max(_LOUD, beyond) if glimpse.in_order else np.zeros(len(size), bool)
    other = expected = 0.0
    judged = sum(map(len, paths))
    if full and judged:
        in_vain = _in_vain(glimpse)[middle] & ~_turned(glimpse, middle, last)
        other, expected = float(in_vain[loud].sum()), float(in_vain.sum() / max(len(middle), 1) * loud.sum())
    z, terms = _outcomes_follow(glimpse, whole)
    return Swings(
        rows=judged,
        full=full,
        quiet=int(still.sum()),
        quiet_swings=int((still & (size > max(_QUIET, beyond))).sum()),
        jitter=jitter,
        typical=typical,
        late=int(late.sum()) if glimpse.in_order else 0,
        late_swings=int((loud & late).sum()),
        all_swings=int(loud.sum()),
        other=other,
        expected_other=expected,
        z=z,
        terms=terms,
        segmented=glimpse.segment is not None,
    )


def _quiet_before(glimpse: Glimpse) -> Array:
    """Return, for each row, how many stretches of quiet had ended before it: rows of one number have seen the same.

    Rows of one time may have been assigned one after another, and what arrived at that time in between. Of later
    stretches nothing is known: each of their rows is by itself.
    """
    rows, assigned = len(glimpse.code), glimpse.assigned
    news = np.ones(rows, bool)
    if glimpse.arrivals is None or not rows:
        return np.cumsum(news)
    known = glimpse.starts[1] if len(glimpse.starts) > 1 else rows
    time = assigned[:known]
    before, upto = (np.searchsorted(glimpse.arrivals, time, side) for side in ("left", "right"))
    alone = np.ones(known, bool)
    alone[1:] &= time[1:] != time[:-1]
    alone[:-1] &= time[1:] != time[:-1]
    own = glimpse.at_once[:known].astype(np.intp)
    between = upto[1:] - upto[:-1] + np.where(alone[:-1], own[:-1], (upto - before)[:-1]) - own[1:] * alone[1:]
    between = np.where(time[1:] == time[:-1], (upto - before)[1:], between)
    news[1:known] = between != 0
    if known < rows:  # rows of the last time may be missing
        news[:known] |= time == time[-1]
    return np.cumsum(news)


def _in_vain(glimpse: Glimpse) -> Array:
    """Return whether each row's arm was not the likeliest, and its outcome, if it has one, not above the arm's mean.

    The mean is that of the arm in the row's segment. What comes of such a row cannot turn the policy away from the
    likeliest arm. Rows that are not judged are none.
    """
    in_vain = np.zeros(len(glimpse.code), bool)
    for rows in glimpse.groups(by_arm=True):
        y = glimpse.outcome[rows]
        arrived = np.isfinite(y)
        mean = float(y[arrived].mean()) if arrived.any() else 0.0
        p = glimpse.p[rows]
        in_vain[rows] = (p[:, glimpse.code[rows[0]]] < p.max(axis=1) - _TOLERANCE) & ~(arrived & (y > mean))
    return in_vain


def _turned(glimpse: Glimpse, middle: Array, last: Array) -> Array:
    """Return whether an outcome that arrived between two rows can turn the policy away from the first's likeliest arm.

    It is one of that arm that is not above the arm's mean, or one of another arm that is. Of later stretches, and
    between rows of one time, nothing is known.
    """
    turned = np.zeros(len(middle), bool)
    if glimpse.arrived_at is None or not len(middle):
        return turned
    some = slice(0, len(glimpse.arrived_at))
    code, y, at_once, when = glimpse.code[some], glimpse.outcome[some], glimpse.at_once[some], glimpse.arrived_at
    there = np.isfinite(y)
    mean = np.zeros(glimpse.p.shape[1])
    for k in np.unique(code[there]):
        mean[k] = y[there & (code == k)].mean()
    above = y > mean[code]
    likeliest = glimpse.p[middle].argmax(axis=1)
    for k in np.unique(likeliest):
        news = there & np.where(code == k, ~above, above)
        late, once = np.sort(when[news & ~at_once]), np.sort(when[news & at_once])
        mine = (likeliest == k) & (last < len(when))
        # an outcome that arrived with its row is known to rows that were assigned later
        seen = [
            np.searchsorted(late, glimpse.assigned[rows[mine]], "right")
            + np.searchsorted(once, glimpse.assigned[rows[mine]], "left")
            for rows in (middle, last)
        ]
        turned[mine] = seen[1] > seen[0]
    return turned


def _triples(rows: Array, whole: Array) -> Array:
    """Return the first, the middle and the last rows of the triples of rows that follow each other in one stretch."""
    same = whole[rows[:-2]] == whole[rows[2:]]
    return np.stack([rows[:-2][same], rows[1:-1][same], rows[2:][same]])


def _jitter(p: Array, first: Array, middle: Array, last: Array) -> tuple[float, float]:
    """Return `Swings.jitter` and `Swings.typical` from quiet triples.

    It is told by the upper quartile of an arm's swings in triples in which its probability moves: the largest swing of
    many arms is larger than their jitter, and the estimate of a small probability is often the same in all three rows.
    """
    every = max(1, math.ceil(len(middle) * p.shape[1] / _MOST_JITTER))
    first, middle, last = first[::every], middle[::every], last[::every]
    if not len(middle):
        return 0.0, 0.0
    size, unit = _swings_of_arms(p[first], p[middle], p[last])
    moves = (np.abs(p[middle] - p[first]) > _TOLERANCE) | (np.abs(p[last] - p[middle]) > _TOLERANCE)
    moved = np.count_nonzero(moves, axis=0)
    quartile = np.maximum(3 * (moved - 1) // 4, 0)[np.newaxis]
    usual = np.take_along_axis(np.sort(np.where(moves, size, np.inf), axis=0), quartile, axis=0)[0]
    usual[moved == 0] = 0.0
    arm = int(usual.argmax())
    jitter = float(usual[arm]) / _USUAL_SWING
    return jitter, jitter * float(np.median(unit[:, arm]))


def _largest_swings(p: Array, first: Array, middle: Array, last: Array) -> Array:
    """Return the size of the largest swing of any arm, by triple."""
    largest = np.zeros(len(middle))
    block = max(1, _CACHED_PROBABILITIES // p.shape[1])
    for start in range(0, len(middle), block):
        some = slice(start, start + block)
        size, _ = _swings_of_arms(p[first[some]], p[middle[some]], p[last[some]])
        largest[some] = size.max(axis=1)
    return largest


def _swings_of_arms(first: Array, middle: Array, last: Array) -> tuple[Array, Array]:
    """Return the size of the swing of each arm, and its unit, sqrt(p (1 - p)), by triple and arm."""
    there, back = middle - first, last - middle
    mean = np.clip((first + middle + last) / 3, 0.0, 1.0)
    unit = np.maximum(np.sqrt(mean * (1 - mean)), _LEAST_UNIT)
    return np.where(there * back < 0, np.minimum(np.abs(there), np.abs(back)), 0.0) / unit, unit


def _outcomes_follow(glimpse: Glimpse, whole: Array) -> tuple[float, float]:
    """Return `Swings.z` and `Swings.terms`: whether an arm's outcomes are better where it is likelier than just before.

    If the policy does not look at the unit, an outcome's expectation is its arm's mean whatever its probability was:
    the sum is a martingale. If it does, an arm is likelier where it is better.
    """
    if glimpse.p.ndim == 2:
        paths = [(path, rows) for path in glimpse.groups(by_arm=False) for rows in _by_arm(glimpse, path)]
    else:
        paths = [(rows, rows) for rows in glimpse.groups(by_arm=True)]
    terms = [_terms(glimpse, rows, path, int(glimpse.code[rows[0]]), whole) for path, rows in paths]
    each = np.concatenate(terms) if terms else np.zeros(0)
    largest = float(np.max(np.abs(each), initial=0.0))
    if not 0 < largest < math.inf:
        return 0.0, 0.0
    each = each / largest  # so that no power vanishes
    square = float(each @ each)
    return float(each.sum()) / math.sqrt(square), square**2 / float(np.sum(each**4))


def _by_arm(glimpse: Glimpse, path: Array) -> list[Array]:
    """Return the rows of a path by arm."""
    code = glimpse.code[path]
    return [path[code == k] for k in np.unique(code)]


def _terms(glimpse: Glimpse, rows: Array, path: Array, arm: int, whole: Array) -> Array:
    """Return an arm's terms; `path` are the rows whose probability of it is known."""
    p = (glimpse.p[:, arm] if glimpse.p.ndim == 2 else glimpse.p)[path]
    place = np.searchsorted(path, rows)
    start = np.maximum(np.searchsorted(whole[path], whole[rows]), place - _ROWS_BEFORE)
    total = np.zeros(len(place))  # of few rows: differences of long sums would follow their rounding, which is no noise
    for rows_before in range(1, _ROWS_BEFORE + 1):
        known = place - rows_before >= start
        total[known] += p[place[known] - rows_before]
    above = p[place] - total / np.maximum(place - start, 1)
    above[(place == start) | (np.abs(above) <= _TOLERANCE * p[place])] = 0.0
    y, weight = glimpse.outcome[rows], 1 / np.sqrt(p[place])
    use = np.isfinite(y)
    y, weight, above = y[use], weight[use], above[use]
    if len(y) < 2:
        return np.zeros(0)
    y = y - y[0]
    scale = float(np.max(np.abs(y)))
    y = y / scale if 0 < scale < math.inf else np.zeros(len(y))
    so_far = np.cumsum(weight * y)[:-1] / np.cumsum(weight)[:-1]
    return np.asarray(weight[1:] * (y[1:] - so_far) * above[1:] / (np.std(y) or 1.0))


def contexts(swings: Swings) -> Finding:
    """Judge how probabilities swing.

    Returns
    -------
    str
        "quiet": they swing though no outcome arrives in between; "loud": they swing often, and whatever arm is
        tried; "outcomes": an arm's outcomes are better where it is likelier: each shows that the policy looked at the
        unit. "jitter": they move a little from row to row, as Monte Carlo estimates do. "none" of these; or "unknown":
        the log cannot show it.
    """
    if swings.rows < SHORT:
        return "unknown"
    # a policy that learns from something other than the outcome moves away from the arms it tried
    is_blind = swings.full and swings.expected_other > 0 and special.pdtr(swings.other, swings.expected_other) < 0.01
    if swings.quiet_swings >= max(_FEW_QUIET, _QUIET_SHARE * swings.quiet) and not is_blind:
        return "quiet"
    often = swings.all_swings >= _FEW_LOUD and swings.late_swings >= _LOUD_SHARE * swings.late
    if often and swings.other >= max(2.0, _EXPECTED_SHARE * swings.expected_other):
        return "loud"
    if swings.z > _BLATANT_Z and swings.terms >= _TERMS:
        return "outcomes"
    if swings.jitter > _SMALL_JITTER and swings.quiet >= 2 * _FEW_QUIET:
        return "jitter"
    enough = swings.quiet + swings.late > 0 if swings.full else swings.quiet >= 30
    return "none" if enough else "unknown"


def joined(parts: Sequence[Glimpse]) -> Glimpse:
    """Return stretches of rows as one glimpse; what arrived when is known of the first."""
    rows = [len(part.code) for part in parts]
    segment = [part.segment for part in parts if part.segment is not None]
    return Glimpse(
        assigned=np.concatenate([part.assigned for part in parts]),
        code=np.concatenate([part.code for part in parts]),
        p=np.concatenate([part.p for part in parts]),
        outcome=np.concatenate([part.outcome for part in parts]),
        starts=np.concatenate([[0], np.cumsum(rows)[:-1]]).astype(np.intp),
        arrivals=parts[0].arrivals,
        arrived_at=parts[0].arrived_at,
        at_once=np.concatenate([part.at_once for part in parts]),
        in_order=all(part.in_order for part in parts),
        segment=None if not segment else np.concatenate(segment),
    )
