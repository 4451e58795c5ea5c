"""How often the checks of a report find fault with healthy logs, and with faulty ones.

python benchmarks/signs.py > benchmarks/SIGNS.md      # a quarter of an hour on 2 cores
"""

from __future__ import annotations

import argparse
import itertools
import math
import platform
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import scipy

import belated as bl
from belated.display.report import Report, answer
from belated.signs import drift, miscalibration, outcome_dependence, single_value
from belated.simulation.stage import Stage

OUTCOMES = {
    "normal": lambda: bl.arms.normal(1.0),
    "binary, 0.1": lambda: bl.arms.bernoulli(0.1),
    "binary, 0.02": lambda: bl.arms.bernoulli(0.02),
    "exponential": lambda: bl.arms.exponential(1.0),
    "lognormal": lambda: bl.arms.lognormal(0.0, 1.0),
}
DELAYS = {
    "Pareto": lambda slow, horizon: bl.delays.pareto(0.75 if slow else 1.25),
    "geometric": lambda slow, horizon: bl.delays.geometric(horizon / 20 if slow else 5),
    "negative binomial": lambda slow, horizon: bl.delays.negative_binomial(2, 0.02 if slow else 0.2),
    "mostly none": lambda slow, horizon: bl.delays.geometric(0.1),
}
POLICIES = ["eps-greedy, t^-0.5", "eps-greedy, t^-0.7", "clipped Thompson"]
SIGNS = {"dependence": 1e-3, "drift": 1e-4, "probabilities": 1e-4}  # and the p-value that is said loudly


def experiment(
    horizon: int, arms: int, policy: str, outcomes: str, delays: str
) -> tuple[bl.Bandit, bl.policies.Policy]:
    """Return equal arms, every other one slow, half of the first never reporting; and a policy."""
    late = {k: DELAYS[delays](k % 2 == 0, horizon).censored(0.5 if k == 0 else 0.0) for k in range(arms)}
    bandit = bl.Bandit({k: OUTCOMES[outcomes]() for k in range(arms)}, late)
    if policy.startswith("eps"):
        return bandit, bl.policies.epsilon_greedy(decay=float(policy[-3:]), burn_in=0.1)
    thompson = bl.policies.thompson_beta if outcomes.startswith("binary") else bl.policies.thompson_normal
    return bandit, thompson(1 / arms, 0.5).batched(20)


# ---------------------------------------------------------------- what engines are asked, with NumPy


def p_values(code: np.ndarray, y: np.ndarray, p: np.ndarray, delay: np.ndarray) -> list[float]:
    """Return the p-values of `SIGNS` for rows assigned at 1, 2, ... and looked at with the last."""
    horizon, arms = p.shape
    step = np.arange(1, horizon + 1)
    half = (horizon - 1) / 2
    old = (step <= horizon - half) & (delay <= half)
    late, seen, arm = np.log1p(delay[old] / (half / 1000)), y[old], code[old]
    moments = [[np.bincount(arm, late**i * seen**j, arms) for j in range(3)] for i in range(3)]
    came = step + delay <= horizon
    place = np.minimum(10 * (step[came] - 1) // (horizon - 1), 9) * arms + code[came]
    stretches = [np.bincount(place, y[came] ** j, 10 * arms).reshape(10, arms) for j in range(3)]
    square = np.sum(p**2, axis=1)
    excess = [*(np.bincount(code, minlength=arms) - p.sum(axis=0)), np.sum(p[step - 1, code] - square)]
    variance = [*np.sum(p * (1 - p), axis=0), np.sum(np.sum(p**3, axis=1) - square**2)]
    return [
        outcome_dependence(np.moveaxis(moments, 2, 0))[0],
        drift(*stretches),
        miscalibration(np.array(excess), np.array(variance)),
    ]


# ---------------------------------------------------------------- healthy logs


def healthy(job: tuple) -> np.ndarray:
    """Return, by replication, the p-values of healthy logs."""
    (horizon, *kind), replications, seed = job
    stage = Stage(*experiment(horizon, *kind), horizon)
    return np.array([p_values(*stage.rows(seed, r)) for r in range(replications)])


def shares(p: np.ndarray, bounds: tuple[float, ...]) -> list[float]:
    """Return the percentages of p-values below the bounds, of those that there are."""
    known = p[~np.isnan(p)]
    return [100 * float(np.mean(known < bound)) if len(known) else math.nan for bound in bounds]


def print_healthy(pool: ProcessPoolExecutor, replications: int) -> None:
    """Print how often each sign is given without a reason, pooled over numbers of arms and delays."""
    print("## Healthy logs\n\nEqual arms, no fault; pooled over 2 and 5 arms and four kinds of delays (Pareto, "
          "geometric, negative binomial, mostly none; every other arm slow, half of the first arm's outcomes never "
          "coming). Percentage of logs with a p-value below 0.05 / 0.01 / the loud threshold, of those that can be "
          "tested; and of all logs with a loud finding, or any below 0.01.\n")  # fmt: skip
    heads = " | ".join(f"{name}, {loud:g}" for name, loud in SIGNS.items())
    print(f"| rows | policy | outcomes | logs | {heads} | loud | any |\n|--:|:--|:--|--:|" + "--:|" * 5)
    horizons = {500: replications, 2000: replications, 20000: replications // 5}
    grid = list(itertools.product(horizons, POLICIES, OUTCOMES))
    inner = list(itertools.product((2, 5), DELAYS))
    jobs = [
        ((horizon, arms, policy, outcomes, delays), horizons[horizon], 100 * i + j)
        for i, (horizon, policy, outcomes) in enumerate(grid)
        for j, (arms, delays) in enumerate(inner)
    ]
    results = pool.map(healthy, jobs)
    loud, everything = np.array(list(SIGNS.values())), []
    for horizon, policy, outcomes in grid:
        p = np.concatenate([next(results) for _ in inner])
        everything.append(p)
        figures = [" / ".join(f"{s:.2g}" for s in shares(p[:, i], (0.05, 0.01, loud[i]))) for i in range(len(SIGNS))]
        any_of = [100 * np.mean((p < bound).any(axis=1)) for bound in (loud, 0.01)]
        print(f"| {horizon:,} | {policy} | {outcomes} | {len(p):,} | " + " | ".join(figures)
              + f" | {any_of[0]:.2g} | {any_of[1]:.2g} |", flush=True)  # fmt: skip
    p = np.concatenate(everything)
    told = ", ".join(f"{name} {shares(p[:, i], (loud[i],))[0]:.2g} %" for i, name in enumerate(SIGNS))
    print(f"\nSaid loudly, of all {len(p):,} logs: {told}.\n")


# ---------------------------------------------------------------- faulty logs


def tilted(by: float):
    """Return a fault: delays grow with outcomes."""
    return lambda rng, code, y, p, delay: (code, y, p, np.floor(delay * np.exp(by * (y - 1))))


def zeros_later(rng, code, y, p, delay):
    """Zeros come five times later."""
    return code, y, p, np.where(y == 0, 5 * delay + 4, delay)


def zeros_rarely(rng, code, y, p, delay):
    """Four zeros of five never come, the others like ones."""
    return code, y, p, np.where((y == 0) & (rng.random(len(y)) < 0.8), np.inf, delay)


def zeros_never(rng, code, y, p, delay):
    """Only ones come."""
    return code, y, p, np.where(y == 0, np.inf, delay)


def swapped(rng, code, y, p, delay):
    """Probabilities stand with the next arm."""
    return code, y, np.roll(p, 1, axis=1), delay


def shuffled(rng, code, y, p, delay):
    """Probabilities stand in the wrong rows."""
    return code, y, rng.permutation(p), delay


def uniform(rng, code, y, p, delay):
    """Probabilities are logged as 1 / K."""
    return code, y, np.full_like(p, 1 / p.shape[1]), delay


def grown(by: float):
    """Return a fault: outcomes are larger in the second half."""
    return lambda rng, code, y, p, delay: (code, y + by * (np.arange(len(y)) >= len(y) / 2), p, delay)


def more_ones(rng, code, y, p, delay):
    """The rate rises from 0.1 to 0.19 in the second half."""
    late = np.arange(len(y)) >= len(y) / 2
    return code, np.where(np.isnan(y) | ~late, y, np.maximum(y, rng.random(len(y)) < 0.1)), p, delay


FAULTS = {
    "delays grow by 65 % with each unit of the outcome": ("normal", "dependence", tilted(0.5)),
    "delays grow by 22 % with each unit of the outcome": ("normal", "dependence", tilted(0.2)),
    "zeros come five times later": ("binary, 0.1", "dependence", zeros_later),
    "zeros never come": ("binary, 0.1", "one value", zeros_never),
    "four zeros of five never come (cannot be seen)": ("binary, 0.1", "dependence", zeros_rarely),
    "probabilities stand with the next arm": ("normal", "probabilities", swapped),
    "probabilities stand in the wrong rows": ("normal", "probabilities", shuffled),
    "probabilities are logged as 1 / K": ("normal", "probabilities", uniform),
    "outcomes grow by 0.5 standard deviations halfway": ("normal", "drift", grown(0.5)),
    "outcomes grow by 0.2 standard deviations halfway": ("normal", "drift", grown(0.2)),
    "the rate grows from 0.1 to 0.19 halfway": ("binary, 0.1", "drift", more_ones),
    "skewed outcomes grow by 0.5 standard deviations halfway": ("lognormal", "drift", grown(0.5 * 2.16)),
}


def faulty(job: tuple) -> tuple[float, float]:
    """Return the percentages of faulty logs of which the fault is said loudly, and at all."""
    horizon, arms, policy, fault, replications, seed = job
    outcomes, sign, spoil = FAULTS[fault]
    stage = Stage(*experiment(horizon, arms, policy, outcomes, "geometric"), horizon)
    rng = np.random.default_rng(seed)
    found = []
    for r in range(replications):
        rows = spoil(rng, *stage.rows(seed, r))
        if sign == "one value":
            code, y, p, delay = rows
            log = bl.Log(code, np.where(np.isinf(delay), np.nan, y), p, arms=range(arms), delay=delay, as_of=horizon)
            found.append(1.0 if single_value(bl.Sums.of(log)) is None else 0.0)
        else:
            found.append(p_values(*rows)[list(SIGNS).index(sign)])
    loud, told = (np.nan_to_num(found, nan=1.0) < bound for bound in (SIGNS.get(sign, 0.5), 0.01))
    return 100 * float(loud.mean()), 100 * float(told.mean())


def print_faulty(pool: ProcessPoolExecutor, replications: int) -> None:
    """Print how often each fault is found."""
    print("## Faulty logs\n\nPercentage of logs in which the fault is said loudly / at all: equal arms, geometric "
          f"delays, {replications} logs each. Faults are planted after the experiment was played.\n")  # fmt: skip
    sizes = list(itertools.product((2000, 10000), (2, 5)))
    policies = [POLICIES[0], POLICIES[2]]
    heads = " | ".join(f"{rows:,} rows, {arms} arms" for rows, arms in sizes)
    print(f"| fault | policy | {heads} |\n|:--|:--|" + "--:|" * len(sizes))
    grid = list(itertools.product(FAULTS, policies))
    jobs = [(*size, policy, fault, replications, i) for i, (fault, policy) in enumerate(grid) for size in sizes]
    results = pool.map(faulty, jobs)
    for fault, policy in grid:
        figures = ["{:.0f} / {:.0f}".format(*next(results)) for _ in sizes]
        print(f"| {fault} | {policy} | " + " | ".join(figures) + " |", flush=True)
    print()


# ---------------------------------------------------------------- the best arm


def certain(job: tuple) -> float:
    """Return the percentage of reports that call one of equal arms certainly the best."""
    horizon, arms, policy, outcomes, replications, seed = job
    bandit, chosen = experiment(horizon, arms, policy, outcomes, "Pareto")
    said = 0
    for r in range(replications):
        log = bl.simulate(bandit, chosen, horizon, seed, r)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.BelatedWarning)
            said += "It lies above" in answer(Report("", bl.estimate(log)))[0]
    return 100 * said / replications


def print_best(pool: ProcessPoolExecutor, replications: int) -> None:
    """Print how often an arm is called certainly the best though all are equal."""
    sizes = {2: replications, 5: max(replications // 2, 1), 20: max(replications // 5, 1)}
    many = ", ".join(f"{n} logs of {k} arms" for k, n in sizes.items())
    print("## The best arm\n\nPercentage of reports that say of one of equal arms that it lies above every other, at "
          f"95 %: should be at most 5 ({many}).\n")  # fmt: skip
    print("| rows | policy | outcomes | " + " | ".join(f"{k} arms" for k in sizes) + " |\n|--:|:--|:--|" + "--:|" * 3)
    grid = list(itertools.product((1000, 5000), POLICIES, ("normal", "binary, 0.1", "exponential")))
    jobs = [(*cell[:1], k, *cell[1:], n, i) for i, cell in enumerate(grid) for k, n in sizes.items()]
    results = pool.map(certain, jobs)
    for rows, policy, outcomes in grid:
        figures = " | ".join(f"{next(results):.1f}" for _ in sizes)
        print(f"| {rows:,} | {policy} | {outcomes} | {figures} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}"
    print(f"# Signs\n\nHow often the checks of a report find fault. {options.workers} cores, {versions}.\n")
    with ProcessPoolExecutor(options.workers) as pool:
        print_healthy(pool, options.replications)
        print_faulty(pool, max(options.replications // 5, 1))
        print_best(pool, options.replications)


if __name__ == "__main__":
    main()
