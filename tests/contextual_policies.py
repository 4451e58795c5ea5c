"""Logs of policies that look at the segment: epsilon-greedy and Thompson sampling, by segment, in plain NumPy."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

import belated as bl

ARMS = ("A", "B", "C", "D", "E")


class Played(NamedTuple):
    """A log with segments, and what it was drawn from: true means and shares of (segment, arm) and of segments."""

    log: bl.Log
    means: np.ndarray
    shares: np.ndarray

    @property
    def truth(self):
        """The standardised mean of each arm."""
        return self.shares @ self.means


def probabilities(policy, count, total, step, draws):
    """The probabilities of arms from numbers and sums of outcomes of one kind of unit."""
    arms = len(count)
    mean = total / np.maximum(count, 1)
    if policy == "uniform":
        return np.full(arms, 1 / arms)
    if policy == "greedy":
        explore = (step + 1) ** -0.3
        p = np.full(arms, explore / arms)
        p[int(np.argmax(np.where(count > 0, mean, math.inf)))] += 1 - explore
        return p
    sd = 1 / np.sqrt(count + 1)
    if arms == 2:
        best = special.ndtr((mean[1] - mean[0]) / math.hypot(*sd))
        p = np.array([1 - best, best])
    else:
        p = np.bincount((mean + sd * draws).argmax(axis=1), minlength=arms) / len(draws)
    p = np.maximum(p, 0.1 / arms)
    return p / p.sum()


class Design(NamedTuple):
    """What is played: outcomes come after `delay` steps on average, and up to `never` of them do not come.

    The share that never comes grows with arm and segment. With several `traits`, the policy also looks at a trait that
    the log does not have. `columns` are further arguments of `Log`, or a function to them from a generator, the
    segments and the arms.
    """

    policy: str = "greedy"
    batch: int = 1
    delay: int = 10
    never: float = 0.2
    kind: str = "normal"
    traits: int = 1
    means: object = None
    shares: object = None
    columns: object = None


def contextual(rows=1000, segments=3, arms=2, *, seed=1, **design):
    """Play a policy that learns by segment."""
    policy, batch, delay, never, kind, traits, means, shares, columns = Design(**design)
    rng = np.random.default_rng(seed)
    if means is None:
        rate = kind == "rate"
        base = np.linspace(0.2, 0.5, segments) if rate else np.linspace(0.0, 1.0, segments)
        effect = np.resize([0.1, -0.05] if rate else [0.5, -0.25], segments)
        means = base[:, np.newaxis] + effect[:, np.newaxis] * np.arange(arms)
    means = np.asarray(means, float)
    segments, arms = means.shape
    shares = np.linspace(2, 1, segments) / np.linspace(2, 1, segments).sum() if shares is None else np.asarray(shares)
    segment, trait = rng.choice(segments, rows, p=shares), rng.integers(traits, size=rows)
    unit, noise, chance = segment * traits + trait, rng.normal(size=rows), rng.random(rows)
    lost = never * (np.arange(arms) + np.arange(segments)[:, np.newaxis] + 1) / (arms + segments - 1)
    count, total = np.zeros((2, segments * traits, arms))
    wait = rng.geometric(1 / delay, rows) if delay else np.zeros(rows, int)
    code, propensity, outcome = np.zeros(rows, int), np.zeros((rows, arms)), np.full(rows, math.nan)
    landing = [[] for _ in range(rows)]
    draws, now = rng.normal(size=(400, arms)), {}
    gone = rng.random(rows)
    for t in range(rows):
        for row in landing[t]:
            count[unit[row], code[row]] += 1
            total[unit[row], code[row]] += outcome[row]
        if t % batch == 0:
            now = {}
        u = unit[t]
        if u not in now:
            now[u] = probabilities(policy, count[u], total[u], t, draws)
        propensity[t] = now[u]
        k = min(int(np.searchsorted(np.cumsum(now[u]), chance[t])), arms - 1)
        code[t] = k
        if gone[t] < lost[segment[t], k]:
            continue
        mean = means[segment[t], k] + (traits > 1) * k * (2 * trait[t] - 1)
        outcome[t] = {
            "normal": lambda m=mean, t=t: m + noise[t],
            "rate": lambda m=mean, t=t: float(special.ndtr(noise[t]) < m),
            "exponential": lambda m=mean, t=t: m - math.log(special.ndtr(noise[t])),
        }[kind]()
        if t + max(wait[t], 1) < rows:
            landing[t + max(wait[t], 1)].append(t)
    names = np.array([f"S{s}" for s in range(segments)])[segment]
    late = {} if not delay else {"delay": np.where(np.isnan(outcome), np.inf, wait), "as_of": rows}
    further = columns(rng, segment, code) if callable(columns) else columns or {}
    log = bl.Log(np.array(ARMS)[code], outcome, propensity, arms=ARMS[:arms], **{"segment": names, **late, **further})
    extra = 1.0 if kind == "exponential" else 0.0
    return Played(log, means + extra, shares)
