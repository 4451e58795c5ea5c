"""Coverage and width of the default interval, beside the paper's, over many kinds of experiments.

python benchmarks/intervals.py > benchmarks/COVERAGE.md      # a quarter of an hour on two cores
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import belated as bl

POLICIES = [("eps-greedy", 0.3), ("eps-greedy", 0.5), ("eps-greedy", 0.7), ("eps-greedy", 0.9),
            ("clipped Thompson", 0.5), ("clipped Thompson", 0.7)]  # fmt: skip
FAMILIES = [("normal", 0.5, 0.5), ("binary", 0.5, 0.2), ("binary", 0.05, 0.05)]


def experiment(arms: int, name: str, decay: float, family: str, base: float, margin: float) -> tuple:
    """Return a bandit with Pareto delays, half of the first arm never reporting, and a policy."""
    kind = bl.arms.bernoulli if family == "binary" else bl.arms.normal
    delays = {k: bl.delays.pareto(0.75 if k % 2 == 0 else 1.25).censored(0.5 if k == 0 else 0) for k in range(arms)}
    bandit = bl.Bandit({k: kind(base + margin if k == 0 else base) for k in range(arms)}, delays)
    if name == "eps-greedy":
        return bandit, bl.policies.epsilon_greedy(decay=decay, burn_in=0.1)
    thompson = bl.policies.thompson_beta if family == "binary" else bl.policies.thompson_normal
    return bandit, thompson(1 / arms, decay).batched(20)


def cell(job: tuple) -> tuple:
    """Return coverage (default, paper's), the ratio of their median widths, and the share with an interval."""
    horizon, arms, (name, decay), (family, base, margin), replications, seed = job
    bandit, policy = experiment(arms, name, decay, family, base, margin)
    hits, widths, total = np.zeros(2), [], 0
    for r in range(replications):
        log = bl.simulate(bandit, policy, horizon, 10_000 * seed + r)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.BelatedWarning)
            estimate = bl.estimate(log)
            answers = [e.contrast(0, 1) for e in (estimate, bl.estimate(estimate.sums, interval="normal"))]
        if np.isfinite(answers[0].low):
            total += 1
            hits += [a.low <= margin <= a.high for a in answers]
            widths.append([a.high - a.low for a in answers])
    ratio = np.median(np.array(widths)[:, 0]) / max(np.median(np.array(widths)[:, 1]), 1e-12)
    return (*hits / total, ratio, total / replications)


def main() -> None:
    """Print the table: each cell the worst over margins 0 and the family's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--horizons", type=int, nargs="+", default=[200, 1000, 5000, 20000])
    options = parser.parse_args()
    grid = list(itertools.product(options.horizons, (2, 5), POLICIES, FAMILIES))
    jobs = [
        (horizon, arms, policy, (family, base, m), options.replications, 2023 + i)
        for i, (horizon, arms, policy, (family, base, margin)) in enumerate(grid)
        for m in (0.0, margin)
    ]
    error = 100 * (0.95 * 0.05 / options.replications) ** 0.5
    print("# Coverage\n\nContrast of two arms at 95 %: coverage of the default interval, that of the paper's, and the "
          f"default's width over the paper's; the worse of two margins, {options.replications:,} replications each "
          f"(Monte Carlo error {error:.1f} points). Pareto delays; half of the first arm never reports.\n")  # fmt: skip
    print("| rows | arms | policy | outcomes | default | paper | width |\n|--:|--:|:--|:--|--:|--:|--:|")
    with ProcessPoolExecutor(options.workers) as pool:
        results = pool.map(cell, jobs)
        pairs = zip(results, results, strict=True)
        for (horizon, arms, (policy, decay), (family, base, _)), pair in zip(grid, pairs, strict=True):
            (default, paper, *_), worst = np.min(pair, axis=0), np.max(pair, axis=0)
            name = f"{policy}, t^-{decay}"
            what = family if family == "normal" else f"binary, {base}"
            figures = f"{100 * default:.1f} | {100 * paper:.1f} | {worst[2]:.2f}"
            print(f"| {horizon:,} | {arms} | {name} | {what} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
