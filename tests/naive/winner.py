"""Slow, obvious twins of `winner`: for normal estimates, by root finding on the textbook formulas."""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, stats


def critical(miss, arms):
    """The number of standard errors at which all of several independent intervals hold."""
    return -stats.norm.ppf((1 - (1 - miss) ** (1 / arms)) / 2)


def conditional(x, runner_up, s, p):
    """The mean under which an estimate above the runner-up exceeds x with probability p."""

    def off(mu):
        return stats.norm.logsf((x - mu) / s) - stats.norm.logsf((runner_up - mu) / s) - math.log(p)

    low, high = x - s, x + s
    while off(low) > 0:
        low -= 2 * (x - low)
    while off(high) < 0:
        high += 2 * (high - x)
    return optimize.brentq(off, low, high, xtol=1e-12 * s, rtol=1e-14)


def hybrid(x, runner_up, s, arms, level):
    """The hybrid interval, with the median; its outer band at a tenth of the miss rate, or 1.25 times the band."""
    miss = 1 - level
    c = min(critical(miss / 10, arms), 1.25 * critical(miss, arms))
    beta = 1 - (1 - 2 * stats.norm.sf(c)) ** arms
    left = (miss - beta) / (1 - beta)

    def solve(p):
        def off(mu):  # truncated normal between max(L, mu - c s) and mu + c s
            top, bottom = mu + c * s, max(runner_up, mu - c * s)
            inside = stats.norm.sf((bottom - mu) / s) - stats.norm.sf((top - mu) / s)
            return (stats.norm.sf((x - mu) / s) - stats.norm.sf((top - mu) / s)) / inside - p

        edge = 1e-9 * s
        return optimize.brentq(off, x - c * s + edge, x + c * s - edge, xtol=1e-12 * s)

    return solve(left / 2), solve(0.5), solve(1 - left / 2)


def not_best(x, s, k, draws, rng):
    """How often, of equal arms, some other beats arm k by as many standard errors as one does here.

    At least as often as two equal arms differ by as many.
    """
    others = [j for j in range(len(x)) if j != k]
    most = max((x[j] - x[k]) / math.hypot(s[j], s[k]) for j in others)
    z = rng.normal(0, s, (draws, len(s)))
    hits = np.max([(z[:, j] - z[:, k]) / math.hypot(s[j], s[k]) for j in others], axis=0) >= most
    return max(hits.mean(), min(2 * stats.norm.sf(most), 1.0))


def against_best(x, s, d):
    """Hsu's constrained intervals, given every arm's Dunnett quantile d."""
    arms = range(len(x))
    error = np.hypot.outer(s, s)
    upper = [max(0.0, min(x[i] - x[j] + d[i] * error[i, j] for j in arms if j != i)) for i in arms]
    contenders = [i for i in arms if upper[i] > 0]
    lower = []
    for i in arms:
        others = [j for j in contenders if j != i]
        lower.append(min(0.0, min((x[i] - x[j] - d[j] * error[i, j] for j in others), default=0.0)))
    return lower, upper
