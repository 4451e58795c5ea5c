"""Whether intervals cover if arrival depends on the outcome as much as they allow, and fail if twice as much.

python benchmarks/sensitivity.py > benchmarks/SENSITIVITY.md      # a quarter of an hour on 1 core
"""

from __future__ import annotations

import argparse
import math
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from made_by import made_by
from scipy import special

import belated as bl
from belated.simulation.stage import Stage

GRID = (np.arange(4_000) + 0.5) / 4_000
OUTCOMES = {
    "normal": special.ndtri(GRID),
    "uniform": GRID,
    "exponential": -np.log1p(-GRID),
    "lognormal": np.exp(special.ndtri(GRID)),
    "Student t, 5": special.stdtrit(5, GRID),
    "binary, 0.5": (GRID > 0.5).astype(float),
    "binary, 0.1": (GRID > 0.9).astype(float),
    "binary, 0.05": (GRID > 0.95).astype(float),
}
POLICIES = {
    "fixed": bl.policies.fixed({"A": 0.5, "B": 0.5}),
    "eps-greedy, t^-0.3": bl.policies.epsilon_greedy(decay=0.3, burn_in=0.02),
    "eps-greedy, t^-0.5": bl.policies.epsilon_greedy(decay=0.5, burn_in=0.02),
    "clipped Thompson": bl.policies.thompson_normal(0.5, 0.5).batched(20),
}
BANDITS = ["eps-greedy, t^-0.5", "clipped Thompson"]
LARGE = ["normal", "exponential", "binary, 0.1"]
SMALL = ["normal", "exponential", "lognormal", "binary, 0.1"]
DELAYS = {
    "none": bl.delays.none(),
    "geometric": bl.delays.geometric(50),
    "Pareto, 0.75": bl.delays.pareto(0.75),
    "Pareto, 0.3": bl.delays.pareto(0.3),
}


# ---------------------------------------------------------------- planted dependence


def planted(law: np.ndarray, share: float, gamma: float, up: bool) -> tuple[np.ndarray, float]:
    """Return equally likely outcomes as they arrive, and the mean of all, arrived or not.

    Outcomes are drawn from `law` and arrive with odds o on one side of a threshold and o / gamma on the other, such
    that a given share arrives. The threshold is the mean of those that do not: no other shifts it further.
    """
    threshold = law.mean()
    for _ in range(30):
        rare = (law > threshold) == up
        low, high = -30.0, 30.0
        for _ in range(45):
            middle = (low + high) / 2
            arrives = special.expit(middle - np.log(gamma) * rare)
            low, high = (middle, high) if arrives.mean() < share else (low, middle)
        threshold = np.average(law, weights=1 - arrives)
    places = np.interp(GRID, (np.cumsum(arrives) - arrives / 2) / arrives.sum(), np.arange(len(law)))
    return law[np.rint(places).astype(int)], float(law.mean())


def experiment(outcomes: str, delays: str, shares: tuple[float, float], gamma: float, up: bool) -> tuple:
    """Return a bandit whose log is that of the planted experiment, and the true contrast, B - A.

    Who sees only outcomes that arrive cannot tell arrivals that depend on the outcome from those that do not, of
    outcomes drawn from the arrived ones' law: the log has the same distribution, so it is simulated like that.
    """
    law = OUTCOMES[outcomes]
    b, mean_b = planted(law, shares[1], gamma, up)
    a, mean_a = planted(law, shares[0], gamma, not up)
    late = {"A": DELAYS[delays].censored(1 - shares[0]), "B": DELAYS[delays].censored(1 - shares[1])}
    return bl.Bandit({"A": bl.arms.empirical(a), "B": bl.arms.empirical(b)}, late), mean_b - mean_a


def cell(job: tuple) -> tuple[float, float, float]:
    """Return the percentages of intervals at G = 1, half the planted G and the planted G that cover the truth."""
    horizon, policy, outcomes, delays, gamma, shares, replications, seed = job
    covered = []
    for up in (True, False):
        bandit, truth = experiment(outcomes, delays, shares, gamma, up)
        stage = Stage(bandit, POLICIES[policy], horizon)
        for r in range(replications // 2):
            code, y, p, delay = stage.rows(seed, r)
            log = bl.Log(code, np.where(np.isinf(delay), np.nan, y), p, arms=(0, 1), delay=delay, as_of=horizon)
            analysis = bl.sensitivity(log, (1, 0))
            covered.append([analysis.at(factor).includes(truth) for factor in (1.0, gamma / 2, gamma)])
    none, half, full = 100 * np.mean(covered, axis=0)
    return float(none), float(half), float(full)


def print_cells(pool: ProcessPoolExecutor, cells: list[tuple], replications: int) -> None:
    """Print the coverage of cells: horizon, policy, outcomes, delays, G, shares."""
    print("| rows | policy | outcomes | delays | share that comes, A and B | planted G | G = 1 | half of G | G |\n"
          "|--:|:--|:--|:--|:--|--:|--:|--:|--:|")  # fmt: skip
    for job, rates in zip(cells, pool.map(cell, [(*c, replications, 7) for c in cells]), strict=True):
        rows, policy, outcomes, delays, gamma, (a, b) = job
        coverage = " | ".join(f"{rate:.1f}" for rate in rates)
        print(
            f"| {rows:,} | {policy} | {outcomes} | {delays} | {a:.0%}, {b:.0%} | {gamma:g} | {coverage} |", flush=True
        )
    print()


def print_speed() -> None:
    """Print how long a million rows take, beside an estimate."""
    bandit = bl.Bandit({"A": bl.arms.normal(0), "B": bl.arms.normal(0.3)}, bl.delays.geometric(50).censored(0.3))
    log = bl.simulate(bandit, bl.policies.epsilon_greedy(decay=0.3), 1_000_000, 1)
    took = {}
    for _ in range(2):
        times = [time.perf_counter()]
        bl.estimate(log, "dipw")
        times.append(time.perf_counter())
        analysis = bl.sensitivity(log, ("B", "A"))
        times.append(time.perf_counter())
        _ = analysis.tipping_point, analysis.shift.tipping_point
        times.append(time.perf_counter())
        took = dict(zip(("estimate", "sensitivity", "tipping points"), np.diff(times), strict=True))
    durations = ", ".join(f"{name} {1000 * seconds:.0f} ms" for name, seconds in took.items())
    print(f"## Speed\n\nA million rows, second call: {durations}.\n", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    n = options.replications
    error = 100 * math.sqrt(0.95 * 0.05 / n)
    print(f"# Sensitivity\n\nPercentage of 95 % intervals for B - A that cover the true difference of the means over "
          f"all assigned rows, if the odds of arriving vary with the outcome by exactly G, in the form that changes "
          f"the mean most: large outcomes of B and small ones of A arrive rarely, or vice versa "
          f"(half of the {n:,} logs each). Monte Carlo error of 95: {error:.1f}. The last column should be 95 or more; "
          f"the one before it should be low, given enough rows. {made_by()}\n")  # fmt: skip
    half = (0.5, 0.5)
    with ProcessPoolExecutor(options.workers) as pool:
        print("## Enough rows to tell G from its half\n")
        print_cells(pool, [(10000, "fixed", o, "geometric", 3.0, half) for o in LARGE], n)
        print("## Bandits\n")
        print_cells(pool, [(5000, policy, o, "geometric", 3.0, half) for policy in BANDITS for o in SMALL], n)
        print("## Delays, shares and other G\n")
        others = [("normal", "Pareto, 0.3", 3.0, half), ("binary, 0.1", "geometric", 8.0, (0.3, 0.7))]
        print_cells(pool, [(5000, "eps-greedy, t^-0.3", *other) for other in others], n)
    print_speed()


if __name__ == "__main__":
    main()
