"""A slow, obvious twin of the kernel that plays bandits of events: everything is recomputed from the rows so far."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from naive.contextual import delay, outcome


class Row(NamedTuple):
    """One assignment, with its events within the window: pairs of age and value."""

    segment: int
    arm: int
    propensity: list
    events: list


def event_run(bandit, policy, horizon, seed, replication=0):
    """Play a run with NumPy's own generator, drawing in this order: segment, arm, whether there are events, each."""
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(replication,))))
    contextual = hasattr(bandit, "segments")
    segments = list(bandit.segments.values()) if contextual else [bandit]
    shares = bandit.mix.tolist() if contextual else [1.0]
    arms = list(bandit.arms)
    rows: list[Row] = []
    decided: dict[int, list] = {}
    steps: dict[int, int] = {}
    for t in range(1, horizon + 1):
        segment = 0
        if len(segments) > 1:
            u = rng.random()
            segment = next(s for s in range(len(segments)) if u < sum(shares[: s + 1]) or s == len(segments) - 1)
        group, share = (segment, shares[segment]) if policy.by_segment else (0, 1.0)
        step = steps[group] = steps.get(group, 0) + 1
        burn_in = policy.burn_in_steps(share * horizon)
        if step <= burn_in:
            p = [1 / len(arms)] * len(arms)
        elif (step - burn_in - 1) % policy.batch == 0:
            own = [(s, r) for s, r in enumerate(rows, start=1) if not policy.by_segment or r.segment == segment]
            learnt = [
                (matured if policy.maturing else so_far)([(s, r) for s, r in own if r.arm == k], t, bandit)
                for k in range(len(arms))
            ]
            p = decided[group] = probabilities(policy, learnt, step)
        else:
            p = decided[group]
        u, arm = rng.random(), 0
        while u >= sum(p[: arm + 1]) and arm < len(arms) - 1:
            arm += 1
        own_arm, law = segments[segment].arms[arms[arm]], segments[segment].delay(arms[arm])
        rows.append(Row(segment, arm, list(p), events(rng, own_arm, law, bandit)))
    return rows


def events(rng, arm, law, bandit):
    """Draw the events of a row that count."""
    rate, repeats = arm.parameters
    drawn, coming = [], rng.random() < rate
    while coming:
        age = delay(rng, law, 0.0)
        value = outcome(rng, arm.value) if bandit.measure == "sum" else 1.0
        if age <= bandit.window:
            drawn.append((age, value))
        coming = repeats > 0 and rng.random() < repeats / (1 + repeats)
    return [min(drawn)] if drawn and bandit.measure == "indicator" else drawn


def known(step, row, t):
    """Return the events of a row that have happened before a step."""
    return [(age, value) for age, value in row.events if step + max(age, 1) <= t]


def so_far(rows, t, bandit):
    """Return count and total if every row counts, with its events so far."""
    return len(rows), sum(value for step, row in rows for _, value in known(step, row, t))


def matured(rows, t, bandit):
    """Return count and total from the maturing estimate: the average is the sum of v / R(d)."""
    happened = [event for step, row in rows for event in known(step, row, t)]
    if not happened:
        return sum(t - step >= bandit.window for step, _ in rows), 0.0
    risks = [sum(t - step >= age for step, _ in rows) for age, _ in happened]
    count = len(happened) / sum(1 / risk for risk in risks)
    total = count * sum(value / risk for (_, value), risk in zip(happened, risks, strict=True))
    return (max(count, total) if bandit.measure == "indicator" else count), total


def probabilities(policy, learnt, step):
    """Return the probabilities of epsilon-greedy, or of Thompson sampling with two arms and normal outcomes."""
    c, decay, noise, prior = policy.parameters
    n_arms = len(learnt)
    if policy.name == "epsilon_greedy":
        means = [total / count if count else 0.0 for count, total in learnt]
        eps = min(c * step**-decay, (n_arms - 1) / n_arms)
        p = [eps / (n_arms - 1)] * n_arms
        p[means.index(max(means))] = 1 - eps
        return p
    weights = [count + prior for count, _ in learnt]
    mean = [total / weight for (_, total), weight in zip(learnt, weights, strict=True)]
    spread = noise * math.sqrt(sum(1 / weight for weight in weights))
    first, least = float(stats.norm.cdf((mean[0] - mean[1]) / spread)), min(c * step**-decay, 1 / 2)
    first = min(max(first, least), 1 - least)
    return [first, 1 - first]
