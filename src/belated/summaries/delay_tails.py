"""Tails of delays: the exponent with which the share of outcomes that are later than d falls."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from belated.base.columns import Array
from belated.summaries.evidence import FEW, ArrivalCounts

#: Exponents that are tried, scales about the median delay, and twice the drop of the log likelihood at an interval's
#: ends (99 %).
_EXPONENTS = np.geomspace(0.05, 10, 40)
_SCALES = np.geomspace(1e-3, 1e3, 13)
_DROP = 6.635


@dataclass(frozen=True)
class Tails:
    """By arm, the exponent b with which the share of outcomes later than d falls, d^-b; NaN where it cannot be told.

    Attributes
    ----------
    exponent, low, high : array
        With its 99 % interval; infinite if the share falls faster than any power that can be told apart.
    heavy : array
        Whether it lies below 1/2, by all delays above 0 as well as by the longer half of them alone, and the longest
        are not clearly fewer than d^-1/2 would make them.
    """

    exponent: Array
    low: Array
    high: Array
    heavy: Array


def delay_tails(arrivals: ArrivalCounts, grain: float) -> Tails:
    """Estimate the exponent of each arm's delays, whatever share of outcomes never comes.

    Notes
    -----
    An outcome that has come within the time e it was followed says, given that and a delay above m, nothing of those
    that never come: P(D <= d | m < D <= e) = (S(m) - S(d)) / (S(m) - S(e)). With S(d) = (1 + d / s)^-b (Lomax), m = 0,
    and the likelihood maximised over s; and with S(d) = d^-b, m the median delay: what rises late counts, not how the
    short delays are spread. The first is shown unless it fits any exponent. Intervals are those of the likelihood
    ratio, 99 %. Delays that are multiples of a grain are later than d exactly if they reach the next multiple.
    """
    ends = (np.floor(arrivals.delays / grain + 1e-9) + 1) * grain if grain else arrivals.delays
    counts = arrivals.counts[:, 1:-1]  # without those that came at once or are out
    # nor those whose outcome came in a bin that they were not followed through
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
            logs = -_EXPONENTS[:, np.newaxis] * np.log(ends[middle:] / ends[middle])
            far = _interval(_likelihood(own[middle:, middle + 1 :], logs))
            heavy[k] = max(high[k], far[2]) < 0.5
            if low[k] == 0:  # delays that hardly fall, or rise first: their longer half is more like a power
                fits[:, k] = far
            if exponent[k] < 0.5 and _thins_out(own[middle:, middle + 1 :], ends[middle:], arrivals.followed):
                heavy[k] = False  # a mixture of short and long delays, or delays that end: no power, and a light tail
                fits[:, k] = math.inf, 0.5, math.inf
        elif own.sum() >= 4 * FEW:  # hardly any delay is longer than the median
            fits[:, k] = math.inf, _EXPONENTS[-1], math.inf
    return Tails(exponent=exponent, low=low, high=high, heavy=heavy)


def _thins_out(counts: Array, ends: Array, followed: float) -> bool:
    """Whether the longest delays are clearly fewer than if the share later than d fell like d^-1/2, given the others.

    `counts` are by bin of the delay and bins followed, `ends` the bins' ends. The longest are those beyond a quarter or
    half of the time followed; the others all, or those beyond an eighth or a quarter of it.
    """
    if followed > ends[-1]:  # rows followed for longer than the longest delay: evenly so, up to the first row
        further = 6
        counts = np.pad(counts, ((0, further), (0, further)))
        counts[:, -further - 1 :] = counts[:, [-further - 1]] / (further + 1)
        ends = np.concatenate([ends, np.linspace(ends[-1], followed, further + 1)[1:]])
    for part in (math.inf, 8, 4):
        first = int(np.searchsorted(ends, ends[-1] / part))
        arrived, later = counts[first:, first:], np.sqrt(ends[first] / ends[first:])
        rows = arrived.sum(axis=0)
        for longest in (4, 2):
            cut = int(np.searchsorted(ends, ends[-1] / longest)) - first
            if 0 < cut < len(later) - 1:
                # of those that came within the time followed, the share beyond the cut
                beyond = np.clip((later[cut] - later[1:]) / (1 - later[1:]), 0.0, 1.0)
                if arrived[cut:].sum() - rows @ beyond < -3 * math.sqrt(float(rows @ (beyond * (1 - beyond)))):
                    return True
    return False


def _lomax(counts: Array, ends: Array, typical: float) -> Array:
    """Return, for each exponent, the largest log likelihood over the scale."""
    beyond = (ends - ends[0])[np.newaxis, :]
    exponents = _EXPONENTS[:, np.newaxis]

    def value(log_scale: Array) -> Array:
        return _likelihood(counts[:, 1:], -exponents * np.log1p(beyond / np.exp(log_scale)[:, np.newaxis]))

    grid = np.log(_SCALES * typical)
    tried = np.array([value(np.full(len(_EXPONENTS), at)) for at in grid])
    best = np.argmax(tried, axis=0)
    low, high = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, len(grid) - 1)]
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(12):  # to a three-hundredth of the distance between scales
        inner, outer = high - golden * (high - low), low + golden * (high - low)
        left = value(inner) > value(outer)
        low, high = np.where(left, low, inner), np.where(left, outer, high)
    profile: Array = np.maximum(tried.max(axis=0), value((low + high) / 2))
    return profile


def _likelihood(counts: Array, logs: Array) -> Array:
    """Return log likelihoods of delays by bin and bins followed, log S at the bins' ends being the rows of `logs`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        fell = np.log(-np.expm1(np.diff(logs))) + logs[:, :-1]
        within = np.log(-np.expm1(logs[:, 1:]))
    arrived, followed = counts.sum(axis=1), counts.sum(axis=0)
    some, any_followed = arrived > 0, followed > 0
    values = fell[:, some] @ arrived[some] - within[:, any_followed] @ followed[any_followed]
    likelihoods: Array = np.where(np.isnan(values), -math.inf, values)
    return likelihoods


def _interval(profile: Array) -> tuple[float, float, float]:
    """Return the exponent of the largest likelihood, and where twice its logarithm has dropped by `_DROP`."""
    best = int(np.argmax(profile))
    drop = 2 * (profile[best] - profile) - _DROP
    inside = np.flatnonzero(drop <= 0)
    first, last = inside[0], inside[-1]
    low = 0.0 if first == 0 else _crossing(drop, first - 1)
    high = math.inf if last == len(drop) - 1 else _crossing(drop, last)
    if best in (0, len(profile) - 1):
        return (math.inf if best else float(_EXPONENTS[0])), low, high
    # the top of the parabola through the best and its neighbours
    before, at, after = profile[best - 1 : best + 2]
    shift = 0.5 * (before - after) / (before - 2 * at + after) if math.isfinite(before + after) else 0.0
    return float(_EXPONENTS[best] * (_EXPONENTS[1] / _EXPONENTS[0]) ** shift), low, high


def _crossing(drop: Array, i: int) -> float:
    """Return the exponent at which the drop passes 0 between two that were tried."""
    a, b = np.clip(drop[i : i + 2], -1e9, 1e9)
    share = a / (a - b)
    return float(_EXPONENTS[i] ** (1 - share) * _EXPONENTS[i + 1] ** share)
