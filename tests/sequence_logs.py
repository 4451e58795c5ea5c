"""Logs for the tests of confidence sequences, and the same as events for the twin."""

from __future__ import annotations

import math

import naive.sequences as naive
import numpy as np

import belated as bl

OPTIONS = {
    "asymptotic": {},
    "sub_gaussian": {"sigma": 0.6},
    "bernstein": {"bounds": (-1.0, 2.0)},
    "beta_binomial": {},
}


def random_columns(rng, rows, arms, kind, *, ties=False, batches=False):
    """Columns of a log: arms, outcomes, every propensity, assignment and arrival times (None: never)."""
    pi = rng.dirichlet(np.ones(arms), size=rows) * 0.9 + 0.1 / arms
    arm = np.array([rng.choice(arms, p=p / p.sum()) for p in pi])
    outcome = rng.normal(0.3 * arm, 0.4, size=rows).clip(-1, 2)
    if kind == "beta_binomial":
        outcome = (rng.uniform(size=rows) < 0.2 + 0.6 * (arm == 0)).astype(float)
    assigned = rng.permutation(rows) // (4 if batches else 1)
    late = rng.integers(0, 6, size=rows) if ties else rng.exponential(5.0, size=rows)
    arrived = [float(a + d) if rng.uniform() < 0.8 else None for a, d in zip(assigned, late, strict=True)]
    return arm, outcome, pi, assigned.astype(float), arrived


def as_log(arm, outcome, pi, assigned, arrived, as_of=None, chosen=False):
    times = np.array([math.nan if t is None else t for t in arrived])
    y = np.where(np.isnan(times), math.nan, outcome)
    p = pi[np.arange(len(arm)), arm] if chosen else pi
    return bl.Log(arm, y, p, arms=range(pi.shape[1]), assigned_at=assigned, arrived_at=times, as_of=as_of)


def events_of(arm, outcome, pi, assigned, arrived, as_of=None):
    own = pi[np.arange(len(arm)), arm]
    return naive.arrivals(arm, outcome, own, assigned, arrived, as_of)
