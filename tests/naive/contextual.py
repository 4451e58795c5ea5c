"""A slow, obvious twin of the kernel that plays contextual bandits: everything is recomputed from the rows so far."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special, stats


class Row(NamedTuple):
    """One assignment."""

    segment: int
    x: list
    arm: int
    outcome: float
    delay: float
    propensity: list


def contextual_run(bandit, policy, horizon, seed, replication=0):
    """Play a run with NumPy's own generator, drawing in this order: segment, covariates, arm, outcome, delay."""
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(replication,))))
    labels, arms = list(bandit.segments), list(bandit.arms)
    shares = [bandit.shares[label] for label in labels]
    rows: list[Row] = []
    decided: dict[int, list] = {}
    steps: dict[int, int] = {}
    for t in range(1, horizon + 1):
        u = rng.random()
        segment = next(s for s in range(len(labels)) if u < sum(shares[: s + 1]) or s == len(labels) - 1)
        x = [outcome(rng, law) for law in bandit.covariates.values()]
        group, share = (segment, shares[segment]) if policy.by_segment else (0, 1.0)
        step = steps[group] = steps.get(group, 0) + 1
        burn_in = policy.burn_in_steps(share * horizon)
        if step <= burn_in:
            p = [1 / len(arms)] * len(arms)
        elif (step - burn_in - 1) % policy.batch == 0:
            arrived = [
                r
                for s, r in enumerate(rows, start=1)
                if s + max(r.delay, 1) <= t and (not policy.by_segment or r.segment == segment)
            ]
            p = decided[group] = probabilities(policy, arrived, step, len(arms))
        else:
            p = decided[group]
        u, arm = rng.random(), 0
        while u >= sum(p[: arm + 1]) and arm < len(arms) - 1:
            arm += 1
        own = bandit.segments[labels[segment]]
        y = outcome(rng, own.arms[arms[arm]])
        change = 0.0
        for name, value in zip(bandit.covariates, x, strict=True):
            slope = bandit.slopes.get(name, 0.0)
            y += (slope.get(arms[arm], 0.0) if isinstance(slope, dict) else slope) * value
            change += bandit.arrival.get(name, 0.0) * value
        rows.append(Row(segment, x, arm, y, delay(rng, own.delay(arms[arm]), change), list(p)))
    return rows


def outcome(rng, law):
    """Draw an outcome."""
    if law.name == "bernoulli":
        return float(rng.random() < law.parameters[0])
    if law.name == "gamma" and law.parameters[0] == 1:
        return -law.parameters[1] * math.log1p(-rng.random())
    return law.parameters[0] + law.parameters[1] * rng.standard_normal()


def delay(rng, law, change):
    """Draw a delay; `change` is added to the log-odds that the outcome ever arrives."""
    if law.name == "none" and not law.never:
        return 0.0
    v, arrives = rng.random(), 1 - law.never
    if change and 0 < arrives < 1:
        odds = float(special.expit(special.logit(arrives) + change))
        v = v / odds * arrives if v < odds else 1.0
    if v >= arrives:
        return math.inf
    steps, cumulative = law.table
    place = int(np.searchsorted(cumulative * arrives, v, side="right"))
    if place < len(steps):
        return float(steps[place])
    shape, scale = law.parameters  # Pareto's tail
    return math.floor(scale * (1 - v / arrives) ** (-1 / shape) - scale)


def probabilities(policy, arrived, step, n_arms):
    """Return the probabilities of epsilon-greedy, or of Thompson sampling with two arms."""
    c, decay, noise, prior = policy.parameters
    own = [[r.outcome for r in arrived if r.arm == k] for k in range(n_arms)]
    if policy.name == "epsilon_greedy":
        means = [sum(each) / len(each) if each else 0.0 for each in own]
        eps = min(c * step**-decay, (n_arms - 1) / n_arms)
        p = [eps / (n_arms - 1)] * n_arms
        p[means.index(max(means))] = 1 - eps
        return p
    weights = [len(each) + prior for each in own]
    mean = [sum(each) / weight for each, weight in zip(own, weights, strict=True)]
    spread = noise * math.sqrt(sum(1 / weight for weight in weights))
    first, least = float(stats.norm.cdf((mean[0] - mean[1]) / spread)), min(c * step**-decay, 1 / 2)
    first = min(max(first, least), 1 - least)
    return [first, 1 - first]
