"""Logs with segments and covariates, as columns that a test can change, and many experiments at once."""

from __future__ import annotations

import numpy as np

import belated as bl

LABELS = ("DE", "FR", "IT", "PL")


def columns(rows=240, segments=3, arms=2, covariates=0, seed=0, missing=0.2):
    """Return arm, outcome, propensity, segment (numbers) and covariates; the policy looks at the segment only."""
    rng = np.random.default_rng(seed)
    segment = rng.integers(segments, size=rows)
    propensity = (0.5 * rng.dirichlet(np.ones(arms), segments) + 0.5 / arms)[segment]
    arm = (rng.random(rows)[:, np.newaxis] > propensity.cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
    x = rng.normal(size=(rows, covariates)) + 0.3 * segment[:, np.newaxis]
    outcome = 0.5 * arm * (1 + segment) + segment + x @ np.arange(1, covariates + 1) + rng.normal(size=rows)
    outcome[rng.random(rows) < missing] = np.nan
    return arm, outcome, propensity, segment, x


def named(x):
    """Return the columns of an array as covariates with names."""
    return {f"x{j}": x[:, j] for j in range(x.shape[1])}


def log_with_segments(rows=240, *, covariates=0, labels=LABELS, **options):
    """Return a log with segments "DE", "FR", ..., and covariates if asked for."""
    kept = {name: options.pop(name) for name in ("cap", "as_of", "delay", "arrival_probability") if name in options}
    arm, outcome, propensity, segment, x = columns(rows, covariates=covariates, **options)
    return bl.Log(
        arm, outcome, propensity, segment=np.array(labels)[segment], covariates=named(x) if covariates else None, **kept
    )


def contextual_experiments(runs, rows, means, *, seed=1, shares=(0.6, 0.4), never=0.2, learn_from=1.0):
    """Return segment, arm, outcome and propensity, (runs, rows), of an epsilon-greedy policy that looks at segments.

    `means` has shape (segments, arms). Outcomes come at once or, with probability `never`, never.
    """
    rng, means = np.random.default_rng(seed), np.asarray(means, dtype=float)
    n_segments, arms = means.shape
    each = np.arange(runs)
    segment = rng.choice(n_segments, size=(runs, rows), p=shares)
    draw, noise, gone = rng.random((runs, rows)), rng.normal(size=(runs, rows)), rng.random((runs, rows)) < never
    count, total = np.zeros((2, runs, n_segments, arms))
    arm, outcome = np.zeros((runs, rows), int), np.zeros((runs, rows))
    propensity = np.zeros((runs, rows, arms))
    for t in range(rows):
        s = segment[:, t]
        average = total[each, s] / np.maximum(count[each, s], learn_from)
        explore = (t + 1) ** -0.3
        propensity[:, t] = explore / arms
        propensity[each, t, average.argmax(axis=1)] += 1 - explore
        a = (draw[:, t, np.newaxis] > propensity[:, t].cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
        y = means[s, a] + noise[:, t]
        arrived = ~gone[:, t]
        count[each[arrived], s[arrived], a[arrived]] += 1
        total[each[arrived], s[arrived], a[arrived]] += y[arrived]
        arm[:, t], outcome[:, t] = a, np.where(arrived, y, np.nan)
    return segment, arm, outcome, propensity
