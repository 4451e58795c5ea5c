"""Coverage and width of the default interval, beside `t` and the paper's, over many kinds of experiments.

python benchmarks/intervals.py > benchmarks/COVERAGE.md      # some minutes on two cores
"""

from __future__ import annotations

import argparse
import itertools
import math

import numpy as np

import belated as bl

POLICIES = [("eps-greedy", 0.3), ("eps-greedy", 0.5), ("eps-greedy", 0.7), ("eps-greedy", 0.9),
            ("clipped Thompson", 0.5), ("clipped Thompson", 0.7)]  # fmt: skip

#: Outcomes by name: what makes an arm from its mean, the mean, and the margin of the first arm that is not 0.
FAMILIES = {
    "normal": (bl.arms.normal, 0.5, 0.5),
    "binary, 0.5": (bl.arms.bernoulli, 0.5, 0.2),
    "binary, 0.05": (bl.arms.bernoulli, 0.05, 0.05),
    "exponential": (bl.arms.exponential, 1.0, 0.5),
    "lognormal": (lambda mean: bl.arms.lognormal(math.log(mean) - 0.5, 1.0), 1.0, 0.5),
}


def experiment(arms: int, name: str, decay: float, family: str, margin: float) -> tuple:
    """Return a bandit with Pareto delays, half of the first arm never reporting, and a policy."""
    kind, base, _ = FAMILIES[family]
    delays = {k: bl.delays.pareto(0.75 if k % 2 == 0 else 1.25).censored(0.5 if k == 0 else 0) for k in range(arms)}
    bandit = bl.Bandit({k: kind(base + margin if k == 0 else base) for k in range(arms)}, delays)
    if name == "eps-greedy":
        return bandit, bl.policies.epsilon_greedy(decay=decay, burn_in=0.1)
    thompson = bl.policies.thompson_beta if family.startswith("binary") else bl.policies.thompson_normal
    return bandit, thompson(1 / arms, decay).batched(20)


def coverage(horizon: int, arms: int, policy: tuple, family: str, margin: float, replications: int, seed: int) -> list:
    """Return the coverage by the default, `t` and the paper's interval, and the default's median width over `t`'s."""
    study = bl.study(
        *experiment(arms, *policy, family, margin), horizon, replications,
        estimators=["daipw"], targets=[(0, 1)], seed=seed, progress=False,
    )  # fmt: skip
    cells = [study.cell("daipw", (0, 1), interval) for interval in ("auto", "t", "normal")]
    widths = [np.nanmedian(cell.high - cell.low) for cell in cells]
    return [*(cell.coverage for cell in cells), widths[0] / widths[1]]


def main() -> None:
    """Print the table: each cell the worst over margins 0 and the family's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=4000)
    parser.add_argument("--horizons", type=int, nargs="+", default=[200, 1000, 5000, 20000])
    parser.add_argument("--outcomes", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    options = parser.parse_args()
    error = 100 * (0.95 * 0.05 / options.replications) ** 0.5
    print("# Coverage\n\nContrast of two arms at 95 %: coverage of the default interval (wilson for 0/1 outcomes, skew "
          "for skewed ones, else t), that of t, that of the paper's, and the default's median width over t's; the "
          f"worse of two margins, {options.replications:,} replications each (Monte Carlo error {error:.1f} points). "
          "Pareto delays; half of the first arm never reports.\n")  # fmt: skip
    print("| rows | arms | policy | outcomes | default | t | paper | width |\n|--:|--:|:--|:--|--:|--:|--:|--:|")
    grid = itertools.product(options.horizons, (2, 5), POLICIES, options.outcomes)
    for i, (horizon, arms, (policy, decay), family) in enumerate(grid):
        margins = (0.0, FAMILIES[family][2])
        found = [
            coverage(horizon, arms, (policy, decay), family, m, options.replications, 2 * i + j)
            for j, m in enumerate(margins)
        ]
        covers, width = 100 * np.min(found, axis=0)[:3], np.max(found, axis=0)[3]
        shown = " | ".join(f"{x:.1f}" for x in covers)
        print(f"| {horizon:,} | {arms} | {policy}, t^-{decay} | {family} | {shown} | {width:.2f} |", flush=True)


if __name__ == "__main__":
    main()
