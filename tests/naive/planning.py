"""Slow, obvious twins of what planning does."""

from __future__ import annotations

import math

import belated as bl


def kaplan_meier(waited, arrived):
    """Return the share that has arrived by each delay at which some did, by the product over delays."""
    curve, left = {}, 1.0
    for at in sorted({w for w, known in zip(waited, arrived, strict=True) if known}):
        at_risk = sum(1 for w in waited if w >= at)
        events = sum(1 for w, known in zip(waited, arrived, strict=True) if known and w == at)
        left *= 1 - events / at_risk
        curve[at] = 1 - left
    return curve


def half_widths(bandit, policy, target, horizon, wait, replications, seed, interval="auto"):
    """Return half-widths, and whether the interval excludes 0 from above, from whole logs looked at after a wait."""
    widths, above = [], []
    for r in range(replications):
        log = bl.simulate(bandit, policy, horizon, seed, r)
        answer = bl.estimate(log.at(None if math.isinf(wait) else horizon + wait), interval=interval).contrast(*target)
        widths.append((answer.high - answer.low) / 2)
        above.append(answer.low > 0)
    return widths, above


def share_within(delay, steps):
    """Return the share of the outcomes that come which take at most so many steps, from the definitions."""
    if steps < 0:
        return 0.0
    first, second = (*delay.parameters, 0.0, 0.0)[:2]
    if delay.name == "pareto":  # floor(P - scale) <= d where P < d + 1 + scale
        return 1 - (second / (steps + 1 + second)) ** first
    if delay.name == "geometric":
        return 1 - (1 - first) ** (steps + 1)
    if delay.name == "lognormal":
        return 0.5 * math.erfc(-(math.log(steps + 1) - first) / second / math.sqrt(2))
    if delay.name == "poisson":
        return sum(math.exp(d * math.log(first) - first - math.lgamma(d + 1)) for d in range(int(steps) + 1))
    values = [v for v in (delay.values if delay.name == "empirical" else delay.parameters or (0.0,)) if v < math.inf]
    return sum(1 for v in values if v <= steps) / len(values)
