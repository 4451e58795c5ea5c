"""Slow, obvious twins of the sensitivity analysis."""

from __future__ import annotations

from itertools import product

import numpy as np


def weighted_mean(y, weights):
    return sum(v * u for v, u in zip(y, weights, strict=True)) / sum(weights)


def extreme_mean_of_any_weights(w, y, gamma, up):
    """The extreme mean over every choice of tau in {1, gamma} for every row."""
    means = [
        weighted_mean(y, [u * t for u, t in zip(w, tau, strict=True)]) for tau in product((1.0, gamma), repeat=len(y))
    ]
    return max(means) if up else min(means)


def extreme_tau(w, y, gamma, up):
    """The tau of the threshold with the extreme mean; every outcome is tried as threshold."""
    best = None
    for c in [min(y) - 1, *y]:
        tau = [gamma if (v > c) == up else 1.0 for v in y]
        mean = weighted_mean(y, [u * t for u, t in zip(w, tau, strict=True)])
        if best is None or (mean > best[0] if up else mean < best[0]):
            best = mean, tau
    return best


def matured(code, arm, assigned, moment, age):
    return [i for i in range(len(code)) if code[i] == arm and assigned[i] <= moment - age]


def extreme(w, arrived, y, gamma, up, shift=0.0):
    """The extreme mean of one arm, its variance and effective size, row by row."""
    rows = range(len(w))
    arrivals = [i for i in rows if arrived[i]]
    total = sum(w[i] for i in rows)
    arrived_weight = sum(w[i] for i in arrivals)
    p = arrived_weight / total
    q = weighted_mean([y[i] for i in arrivals], [w[i] for i in arrivals])
    missing, tau = extreme_tau([w[i] for i in arrivals], [y[i] for i in arrivals], gamma, up)
    tau_total = sum(w[i] * t for i, t in zip(arrivals, tau, strict=True))
    r = missing + shift
    mean = p * q + (1 - p) * r
    error, leverage = {}, {}
    for i, t in zip(arrivals, tau, strict=True):
        error[i] = p * (y[i] - q) / arrived_weight + (1 - p) * t * (y[i] - missing) / tau_total
        leverage[i] = p * w[i] / arrived_weight + (1 - p) * w[i] * t / tau_total
    largest = max(leverage.values())
    slope = (2 - largest) / (1 - largest) ** 2
    corrected = sum((w[i] * error[i]) ** 2 * (1 + slope * leverage[i]) for i in arrivals)
    e = [arrived_weight * error[i] for i in arrivals]
    plain = np.var(e, ddof=1) * sum(w[i] ** 2 for i in arrivals) / arrived_weight**2
    largest = max(w[i] / total for i in rows)
    slope = (2 - largest) / (1 - largest) ** 2
    share_corrected = sum((w[i] / total * (arrived[i] - p)) ** 2 * (1 + slope * w[i] / total) for i in rows)
    share_plain = np.var([float(a) for a in arrived], ddof=1) * sum(w[i] ** 2 for i in rows) / total**2
    variance = max(plain, corrected) + (q - r) ** 2 * max(share_plain, share_corrected)
    size = 1 / sum(leverage[i] ** 2 for i in arrivals)
    return mean, variance, size
