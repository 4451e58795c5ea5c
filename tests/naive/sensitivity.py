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


def chances_that_fit(w, arrived, chance):
    """Chances times a factor with which the arrived rows, each counted w / p, stand for all rows; at most 1."""
    factor = sum(w[i] / chance[i] for i in range(len(w)) if arrived[i]) / sum(w)
    return [min(factor * c, 1.0) for c in chance], [w[i] / (factor * chance[i]) for i in range(len(w))]


def weights_for_missing(w, arrived, chance):
    """The weights with which the arrived rows stand for missing ones."""
    p, v = chances_that_fit(w, arrived, chance)
    return [v[i] * (1 - p[i]) for i in range(len(w)) if arrived[i]]


def extreme_of_chances(w, arrived, y, chance, gamma, up, shift=0.0):
    """The extreme mean of an arm whose rows differ in the chance to arrive, its variance and effective size."""
    p, v = chances_that_fit(w, arrived, chance)
    arrivals = [i for i in range(len(w)) if arrived[i]]
    u = {i: v[i] * (1 - p[i]) for i in arrivals}
    total, missing_total = sum(v[i] for i in arrivals), sum(u.values())
    values = [y[i] for i in arrivals]
    missing, each = extreme_tau(list(u.values()), values, gamma, up)
    scale = missing_total / sum(u[i] * t for i, t in zip(arrivals, each, strict=True))
    tau = {i: t * scale for i, t in zip(arrivals, each, strict=True)}
    r = missing + shift
    mean = (sum(v[i] * p[i] * y[i] for i in arrivals) + r * missing_total) / total
    share, error = {i: p[i] + (1 - p[i]) * tau[i] for i in arrivals}, {}
    for i in arrivals:
        error[i] = p[i] * (y[i] - mean) + (1 - p[i]) * (r - mean) + (1 - p[i]) * tau[i] * (y[i] - missing)
    # of each side of the cut: no leverage is larger
    sides = [i for i in arrivals if y[i] < missing], [i for i in arrivals if y[i] >= missing]
    largest = max(max(v[i] * p[i] for i in side) + max(tau[i] * u[i] for i in side) for side in sides) / total
    slope = (2 - largest) / (1 - largest) ** 2
    corrected = sum((v[i] * error[i] / total) ** 2 * (1 + slope * v[i] * share[i] / total) for i in arrivals)
    plain = np.var([error[i] for i in arrivals], ddof=1) * sum(v[i] ** 2 for i in arrivals) / total**2
    rows, all_w = range(len(w)), sum(w)
    largest = max(w) / all_w
    slope = (2 - largest) / (1 - largest) ** 2
    share_corrected = sum((w[i] / all_w * (arrived[i] - p[i])) ** 2 * (1 + slope * w[i] / all_w) for i in rows)
    share_plain = np.var([float(a) for a in arrived], ddof=1) * sum(w[i] ** 2 for i in rows) / all_w**2
    gap = r - weighted_mean(values, list(u.values()))
    variance = max(plain, corrected) + gap**2 * max(share_plain, share_corrected)
    return mean, variance, 1 / sum((v[i] * share[i] / total) ** 2 for i in arrivals)
