"""Adaptive experiments with late and missing outcomes, simulated for the tests.

A policy sees what has arrived and logs the exact probabilities that it used.
"""

from __future__ import annotations

import math

import numba
import numpy as np

EPSILON_GREEDY, THOMPSON = 0, 1


@numba.njit(cache=True)
def _below(x):
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


@numba.njit(cache=True)
def _best_probabilities(mean, sd):
    """Return each arm's probability of having the largest of independent normal draws."""
    n_arms = len(mean)
    p = np.zeros(n_arms)
    for k in range(n_arms):
        for i in range(41):
            z = -5.0 + 0.25 * i
            f = math.exp(-z * z / 2)
            for j in range(n_arms):
                if j != k:
                    f *= _below((mean[k] + sd[k] * z - mean[j]) / sd[j])
            p[k] += f
    return p / p.sum()


@numba.njit(cache=True)
def _raised(p, floor):
    """Raise probabilities to a floor, and scale the others."""
    low = p < floor
    for _ in range(len(p)):
        scaled = p * (1 - floor * low.sum()) / p[~low].sum()
        more = low | (scaled < floor)
        if (more == low).all():
            break
        low = more
    return np.where(low, floor, p * (1 - floor * low.sum()) / p[~low].sum())


@numba.njit(cache=True)
def _run(rng, horizon, means, policy, decay, binary, never, shapes, code, outcome, propensity, delay):
    n_arms = len(means)
    count, total = np.zeros(n_arms), np.zeros(n_arms)
    last, previous = np.full(horizon + 2, -1), np.full(horizon, -1)
    p = np.full(n_arms, 1.0 / n_arms)
    for t in range(1, horizon + 1):
        row = last[t]
        while row >= 0:
            count[code[row]] += 1
            total[code[row]] += outcome[row]
            row = previous[row]
        eps = t**-decay
        if policy == EPSILON_GREEDY:
            if t > horizon // 10:
                average = np.where(count > 0, total / np.maximum(count, 1), 0.0)
                p[:] = eps / (n_arms - 1)
                p[np.argmax(average)] = 1 - eps
        elif t % 10 == 1:
            if binary:
                a, b = 1 + total, 1 + count - total
                mean, sd = a / (a + b), np.sqrt(a * b / ((a + b) ** 2 * (a + b + 1)))
            else:
                mean, sd = total / (count + 1), 1 / np.sqrt(count + 1)
            p = _raised(_best_probabilities(mean, sd), eps / n_arms)
        propensity[t - 1] = p
        u, arm, below = rng.random(), 0, p[0]
        while u > below and arm < n_arms - 1:
            arm += 1
            below += p[arm]
        code[t - 1] = arm
        outcome[t - 1] = math.floor(rng.random() + means[arm]) if binary else means[arm] + rng.normal()
        late = math.floor(rng.random() ** (-1 / shapes[arm]) - 1)
        delay[t - 1] = math.inf if rng.random() < never[arm] else late
        seen = t + max(delay[t - 1], 1.0)
        if seen <= horizon:
            previous[t - 1] = last[int(seen)]
            last[int(seen)] = t - 1


def columns(rng, horizon, means, policy=EPSILON_GREEDY, decay=0.5, binary=False):
    """Return the columns of one experiment: Pareto delays, half of the first arm never reporting."""
    n_arms = len(means)
    code, outcome = np.zeros(horizon, dtype=np.int64), np.zeros(horizon)
    propensity, delay = np.zeros((horizon, n_arms)), np.zeros(horizon)
    never = np.zeros(n_arms)
    never[0] = 0.5
    shapes = np.where(np.arange(n_arms) % 2 == 0, 0.75, 1.25)
    _run(rng, horizon, np.asarray(means, float), policy, decay, binary, never, shapes, code, outcome, propensity, delay)
    outcome[np.arange(1, horizon + 1) + delay > horizon] = np.nan
    delay[np.isnan(outcome)] = np.nan
    return {"arm": code, "outcome": outcome, "propensity": propensity, "delay": delay}
