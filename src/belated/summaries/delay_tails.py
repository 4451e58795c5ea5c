"""Tails of delays: the exponent with which the share of delays above d falls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from belated.base.columns import Array
from belated.summaries.evidence import FEW, ArrivalCounts

#: The exponents and the scales (relative to the median delay) of the grid, and twice the drop of the log likelihood at
#: the limits of a 99 % interval.
_EXPONENTS = np.geomspace(0.05, 10, 40)
_SCALES = np.geomspace(1e-3, 1e3, 13)
_LIKELIHOOD_DROP = 6.635

#: So many delays beyond the longest are expected if its length has a chance of one in a thousand.
_MOST_BEYOND = math.log(1000)


@dataclass(frozen=True)
class DelayTails:
    """By arm, the exponent b with which the share of delays above d falls, d^-b; NaN where it is unknown.

    Attributes
    ----------
    exponent, low, high : array
        The exponent and its 99 % interval; infinite if the share falls faster than any power on the grid.
    heavy : array
        Whether the exponent is below 1/2, both by all delays above 0 and by the longer half of them alone, and the
        longest delays are not clearly fewer than d^-1/2 implies.
    """

    exponent: Array
    low: Array
    high: Array
    heavy: Array


def delay_tails(arrivals: ArrivalCounts, grain: float) -> DelayTails:
    """Estimate the exponent of each arm's delays; the share of outcomes that never arrive does not matter.

    Notes
    -----
    Given that an outcome arrived within its follow-up time e and with a delay above m, its delay does not depend on the
    share that never arrives: P(D <= d | m < D <= e) = (S(m) - S(d)) / (S(m) - S(e)). Two models are fitted: S(d) =
    (1 + d / s)^-b (Lomax) with m = 0, maximised over s; and S(d) = d^-b with m the median delay, which ignores the
    distribution of short delays. The first is shown unless it fits any exponent. Intervals are 99 % likelihood-ratio
    intervals. A delay that is a multiple of a grain exceeds d exactly if it reaches the next multiple.
    """
    ends = (np.floor(arrivals.delays / grain + 1e-9) + 1) * grain if grain else arrivals.delays
    counts = arrivals.counts[:, 1:-1]  # without rows whose outcome arrived at once or has not arrived
    # and without those whose outcome arrived in a bin that they were not followed through
    through = np.arange(1, counts.shape[1] + 1)[:, np.newaxis] <= np.arange(counts.shape[2])
    counts = np.where(through, counts, 0.0)
    exponent, low, high = fits = np.full((3, len(counts)), math.nan)
    heavy = np.zeros(len(counts), dtype=bool)
    for k, own in enumerate(counts):
        if own.sum() < FEW:
            continue
        by_delay = own.sum(axis=1)
        middle = int(np.searchsorted(np.cumsum(by_delay), by_delay.sum() / 2)) + 1
        fits[:, k] = _interval(_lomax(own, ends, ends[middle]))
        if own[middle:].sum() >= FEW / 2:
            bins = _Bins.of(own[middle:, middle + 1 :])
            logs = -_EXPONENTS[:, np.newaxis] * np.log(ends[middle:][bins.used] / ends[middle])
            far = _interval(bins.likelihood(logs))
            heavy[k] = max(high[k], far[2]) < 0.5
            if low[k] == 0:  # the density hardly falls, or rises first: a power law fits the longer half better
                fits[:, k] = far
            if exponent[k] < 0.5 and _thins_out(own[middle:, middle + 1 :], ends[middle:], arrivals.followed):
                heavy[k] = False  # a mixture of short and long delays, or bounded delays: a light tail
                fits[:, k] = math.inf, 0.5, math.inf
        elif own.sum() >= 4 * FEW:  # hardly any delay is longer than the median
            fits[:, k] = math.inf, _EXPONENTS[-1], math.inf
        elif low[k] == 0 and ends[middle - 1] > 0:
            # the density does not fall up to the longest delay, which may be as long as the others
            last = _to_the_end(own[middle - 1 :, middle:], ends[middle - 1 :], arrivals.followed)
            if _are_few(*last, cut=1):
                fits[:, k] = math.inf, 0.5, math.inf
    return DelayTails(exponent=exponent, low=low, high=high, heavy=heavy)


def _thins_out(counts: Array, ends: Array, followed: float) -> bool:
    """Whether the longest delays are clearly fewer than a tail of d^-1/2 implies, given the others.

    `counts` are by delay bin and number of bins followed, `ends` the ends of the bins. The longest delays are those
    above a quarter or half of the time followed; the others are all delays, or those above an eighth or a quarter. Or
    the longest delay of all is far too short.
    """
    counts, ends = _to_the_end(counts, ends, followed)
    if _stops_early(counts, ends):
        return True
    for part in (math.inf, 8, 4):
        first = int(np.searchsorted(ends, ends[-1] / part))
        for longest in (4, 2):
            cut = int(np.searchsorted(ends, ends[-1] / longest)) - first
            if 0 < cut < len(ends) - first - 1 and _are_few(counts[first:, first:], ends[first:], cut):
                return True
    return False


def _to_the_end(counts: Array, ends: Array, followed: float) -> tuple[Array, Array]:
    """Return counts and ends with bins up to the time for which the first row was followed.

    Rows that were followed beyond the last bin are assumed to be spread evenly up to the first row.
    """
    if not followed > ends[-1]:
        return counts, ends
    further = 6
    counts = np.pad(counts, ((0, further), (0, further)))
    counts[:, -further - 1 :] = counts[:, [-further - 1]] / (further + 1)
    return counts, np.concatenate([ends, np.linspace(ends[-1], followed, further + 1)[1:]])


def _stops_early(counts: Array, ends: Array) -> bool:
    """Whether a tail of d^-1/2 implies many delays beyond the longest, although rows were followed long enough."""
    cut = int(np.flatnonzero(counts.sum(axis=1))[-1]) + 1
    # the number expected beyond the longest delay has a standard exponential distribution
    return bool(counts.sum(axis=0) @ _share_beyond(ends, cut) > _MOST_BEYOND)


def _are_few(counts: Array, ends: Array, cut: int) -> bool:
    """Whether the delays beyond the end number `cut` are clearly fewer than a tail of d^-1/2 implies."""
    rows, beyond = counts.sum(axis=0), _share_beyond(ends, cut)
    return bool(counts[cut:].sum() - rows @ beyond < -3 * math.sqrt(float(rows @ (beyond * (1 - beyond)))))


def _share_beyond(ends: Array, cut: int) -> Array:
    """Return, by bins followed, the share of arrived outcomes with a delay beyond the end number `cut` if d^-1/2."""
    later = np.sqrt(ends[0] / ends)
    within = 1 - later[1:]
    share = np.divide(later[cut] - later[1:], within, out=np.zeros_like(within), where=within > 0)
    return np.asarray(np.clip(share, 0.0, 1.0))


def _lomax(counts: Array, ends: Array, typical: float) -> Array:
    """Return, for each exponent, the largest log likelihood over the scale."""
    bins = _Bins.of(counts[:, 1:])
    beyond = (ends - ends[0])[np.newaxis, bins.used]
    exponents = _EXPONENTS[:, np.newaxis]

    def value(log_scale: Array) -> Array:
        return bins.likelihood(-exponents * np.log1p(beyond / np.exp(log_scale)[:, np.newaxis]))

    grid = np.log(_SCALES * typical)
    tried = np.array([value(np.full(len(_EXPONENTS), at)) for at in grid])
    best = np.argmax(tried, axis=0)
    low, high = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, len(grid) - 1)]
    golden = (math.sqrt(5) - 1) / 2
    inner, outer = high - golden * (high - low), low + golden * (high - low)
    at_inner, at_outer = value(inner), value(outer)
    for _ in range(12):  # to a three-hundredth of the distance between scales
        left = at_inner > at_outer
        low, high = np.where(left, low, inner), np.where(left, outer, high)
        new = np.where(left, high - golden * (high - low), low + golden * (high - low))
        at_new = value(new)  # the other inner point is one of the last two
        inner, outer = np.where(left, new, outer), np.where(left, inner, new)
        at_inner, at_outer = np.where(left, at_new, at_outer), np.where(left, at_inner, at_new)
    profile: Array = np.maximum(tried.max(axis=0), np.maximum(at_inner, at_outer))
    return profile


class _Bins(NamedTuple):
    """The bins of delays that have outcomes, and those that are the last ones followed; of most delays, few of all.

    `used` are the ends of bins at which log S is needed; `begin`, `end` and `last` are places among them.
    """

    used: Array
    begin: Array
    end: Array
    last: Array
    arrived: Array
    followed: Array

    @classmethod
    def of(cls, counts: Array) -> _Bins:
        """Return the bins of counts by delay bin and number of bins followed."""
        arrived, followed = counts.sum(axis=1), counts.sum(axis=0)
        some, last = np.flatnonzero(arrived), np.flatnonzero(followed) + 1
        used = np.unique(np.concatenate([some, some + 1, last]))
        begin, end, until = (np.searchsorted(used, each) for each in (some, some + 1, last))
        return cls(used, begin, end, until, arrived[some], followed[last - 1])

    def likelihood(self, logs: Array) -> Array:
        """Return log likelihoods; rows of `logs` are log S at the ends that are used."""
        with np.errstate(divide="ignore", invalid="ignore"):
            fell = np.log(-np.expm1(logs[:, self.end] - logs[:, self.begin])) + logs[:, self.begin]
            within = np.log(-np.expm1(logs[:, self.last]))
        values = fell @ self.arrived - within @ self.followed
        likelihoods: Array = np.where(np.isnan(values), -math.inf, values)
        return likelihoods


def _interval(profile: Array) -> tuple[float, float, float]:
    """Return the maximum-likelihood exponent, and the limits of its interval."""
    best = int(np.argmax(profile))
    drop = 2 * (profile[best] - profile) - _LIKELIHOOD_DROP
    inside = np.flatnonzero(drop <= 0)
    first, last = inside[0], inside[-1]
    low = 0.0 if first == 0 else _crossing(drop, first - 1)
    high = math.inf if last == len(drop) - 1 else _crossing(drop, last)
    if best in (0, len(profile) - 1):
        return (math.inf if best else float(_EXPONENTS[0])), low, high
    # the maximum of the parabola through the best exponent and its neighbours
    before, at, after = profile[best - 1 : best + 2]
    shift = 0.5 * (before - after) / (before - 2 * at + after) if math.isfinite(before + after) else 0.0
    return float(_EXPONENTS[best] * (_EXPONENTS[1] / _EXPONENTS[0]) ** shift), low, high


def _crossing(drop: Array, i: int) -> float:
    """Return the exponent at which the drop crosses 0 between two points of the grid."""
    a, b = np.clip(drop[i : i + 2], -1e9, 1e9)
    share = a / (a - b)
    return float(_EXPONENTS[i] ** (1 - share) * _EXPONENTS[i + 1] ** share)
