"""Logs of small experiments, healthy ones and what becomes of them when a column is changed."""

from __future__ import annotations

import math

import numpy as np

import belated as bl

ARMS = {
    "normal": lambda: bl.arms.normal(1.0),
    "exponential": lambda: bl.arms.exponential(1.0),
    "rare": lambda: bl.arms.bernoulli(0.05),
}


POLICIES = {
    "greedy": bl.policies.epsilon_greedy(decay=0.7),
    "slow": bl.policies.epsilon_greedy(decay=0.3),
    "ucb": bl.policies.ucb(decay=0.5),
    "uniform": bl.policies.uniform(),
}


def played(horizon=2000, arms=2, kind="normal", policy="slow", delays=None, seed=1, labels=None, replication=0):
    labels = labels or list(range(arms))
    delays = delays or {labels[-1]: bl.delays.geometric(20).censored(0.5)}
    late = (
        {label: delays.get(label, bl.delays.geometric(20)) for label in labels} if isinstance(delays, dict) else delays
    )
    bandit = bl.Bandit({label: ARMS[kind]() for label in labels}, late)
    return bl.simulate(bandit, POLICIES[policy], horizon, seed, replication)


def experiment(arms=None, horizon=3000, never=0.4, seed=1, delay=None, decay=0.5):
    arms = arms or {"A": bl.arms.normal(0), "B": bl.arms.normal(1)}
    late = (delay or bl.delays.geometric(10)).censored(never)
    return bl.simulate(bl.Bandit(arms, late), bl.policies.epsilon_greedy(decay=decay, burn_in=0.05), horizon, seed)


def waits(log):
    return np.where(np.isnan(log.outcome), math.inf, log.arrived_at - log.assigned_at)


def changed(log, **columns):
    new = {"outcome": log.outcome, "propensity": log.propensity, "delay": waits(log), **columns}
    delay = np.where(np.isnan(new["outcome"]), math.inf, new["delay"])
    outcome = np.where(np.isinf(delay), math.nan, new["outcome"])
    labels = [log.arms[k] for k in log.code]
    return bl.Log(labels, outcome, new["propensity"], arms=log.arms, delay=delay, as_of=len(log.code))


def chosen(log):
    return log.propensity[np.arange(len(log.code)), log.code]


def two_segments(rows, seed=1, delay=0):
    """An epsilon-greedy policy that looks at the unit: A brings 0.5, B brings 1 in one segment, -0.2 in the other.

    So B - A is -0.1. Outcomes come after `delay` steps on average; all of them come.
    """
    rng = np.random.default_rng(seed)
    mean, count, total = np.array([[0.5, 0.5], [1.0, -0.2]]), np.zeros((2, 2)), np.zeros((2, 2))
    segment, noise, draw = rng.integers(2, size=rows), rng.normal(size=rows), rng.random(rows)
    wait = rng.geometric(1 / delay, rows) if delay else np.zeros(rows, int)
    code, propensity, landing = np.zeros(rows, int), np.zeros((rows, 2)), [[] for _ in range(rows)]
    outcome = np.zeros(rows)
    for t in range(rows):
        for row in landing[t]:
            count[code[row], segment[row]] += 1
            total[code[row], segment[row]] += outcome[row]
        average = total[:, segment[t]] / np.maximum(count[:, segment[t]], 1)
        explore = (t + 1) ** -0.3
        propensity[t] = explore / 2
        propensity[t, int(average[1] > average[0])] += 1 - explore
        code[t] = draw[t] < propensity[t, 1]
        outcome[t] = mean[code[t], segment[t]] + noise[t]
        if t + max(wait[t], 1) < rows:
            landing[t + max(wait[t], 1)].append(t)
    return bl.Log(np.array(["A", "B"])[code], outcome, propensity, delay=wait if delay else None)
