"""How often a diagnosis finds fault with healthy logs, and with faulty ones.

python benchmarks/diagnostics.py > benchmarks/DIAGNOSTICS.md      # about two hours on one core
"""

from __future__ import annotations

import argparse
import itertools
import math
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import event_logs
import numpy as np
from made_by import made_by
from scipy import special

import belated as bl
from belated.assumptions.checks.cohorts import same_build_up
from belated.reports.narrative import answer
from belated.reports.report import Report
from belated.simulation.stage import Stage

OUTCOMES = {
    "normal": lambda mean: bl.arms.normal(mean),
    "exponential": lambda mean: bl.arms.exponential(mean),
    "lognormal": lambda mean: bl.arms.lognormal(math.log(mean), 1.0),
    "binary, 0.05": lambda mean: bl.arms.bernoulli(0.05 * mean),
    "binary, 0.5": lambda mean: bl.arms.bernoulli(0.5 * mean),
}
DELAYS = {
    "none": bl.delays.none(),
    "geometric": bl.delays.geometric(20),
    "Poisson": bl.delays.poisson(20),
    "Pareto 0.75": bl.delays.pareto(0.75),
    "Pareto 1.25": bl.delays.pareto(1.25),
}
POLICIES = {
    "uniform": lambda arms, binary: bl.policies.uniform(),
    "eps-greedy, t^-0.3": lambda arms, binary: bl.policies.epsilon_greedy(decay=0.3),
    "eps-greedy, t^-0.5": lambda arms, binary: bl.policies.epsilon_greedy(decay=0.5),
    "eps-greedy, t^-0.7": lambda arms, binary: bl.policies.epsilon_greedy(decay=0.7),
    "eps-greedy, t^-0.7, burn-in": lambda arms, binary: bl.policies.epsilon_greedy(decay=0.7, burn_in=0.1),
    "clipped Thompson": lambda arms, binary: (bl.policies.thompson_beta if binary else bl.policies.thompson_normal)(
        1 / arms, 0.5
    ).batched(20),
    "UCB": lambda arms, binary: bl.policies.ucb(decay=0.5),
}


def experiment(
    arms: int, policy: str, outcomes: str, delays: str, margin: float, never: float = 0.5
) -> tuple[bl.Bandit, bl.policies.Policy]:
    """Return arms of which the first is better by the margin, half of the last never reporting; and a policy."""
    late = {k: DELAYS[delays].censored(never if k == arms - 1 else 0.0) for k in range(arms)}
    bandit = bl.Bandit({k: OUTCOMES[outcomes](1.0 + margin * (k == 0)) for k in range(arms)}, late)
    return bandit, POLICIES[policy](arms, outcomes.startswith("binary"))


def log_of(code: np.ndarray, y: np.ndarray, p: np.ndarray, delay: np.ndarray) -> bl.Log:
    """Return rows assigned at 1, 2, ... as a log looked at with the last."""
    return bl.Log(code, np.where(np.isinf(delay), np.nan, y), p, arms=range(p.shape[1]), delay=delay, as_of=len(code))


# ---------------------------------------------------------------- healthy logs


def healthy(job: tuple) -> tuple[Counter, Counter, int, int]:
    """Return how often each check is red, and amber, in healthy logs; how many have any red; and of how many."""
    (horizon, *kind), replications, seed = job
    stage = Stage(*experiment(*kind), horizon)
    red, amber, any_red = Counter(), Counter(), 0
    for r in range(replications):
        diagnosis = bl.diagnose(log_of(*stage.rows(seed, r)))
        red.update(diagnosis.red)
        amber.update(diagnosis.amber)
        any_red += bool(diagnosis.red)
    return red, amber, any_red, replications


def print_healthy(pool: ProcessPoolExecutor, replications: int, horizons: list[int]) -> None:
    """Print how often lights are red without a reason."""
    inner = list(itertools.product(DELAYS, (0.0, 0.5)))
    print("## Healthy logs\n\nPercentage of logs with any red light, pooled over five kinds of delays (none, geometric "
          "and Poisson of mean 20, Pareto 0.75 and 1.25), equal arms and a first arm better by half, half of the last "
          "arm's outcomes never arriving; then the check that was red most often, and the worst of the ten pooled "
          "settings. Should be below 5.\n")  # fmt: skip
    print("| rows | arms | policy | outcomes | logs | any red, % | of which most often | worst setting, % | amber, "
          "most often |\n|--:|--:|:--|:--|--:|--:|:--|--:|:--|")  # fmt: skip
    grid = list(itertools.product(horizons, (2, 5), POLICIES, OUTCOMES))
    each = max(replications // len(inner), 1)
    jobs = [
        ((horizon, arms, policy, outcomes, *rest), each, 100 * i + j)
        for i, (horizon, arms, policy, outcomes) in enumerate(grid)
        for j, rest in enumerate(inner)
    ]
    results = pool.map(healthy, jobs)
    total, everything, worst = 0, Counter(), (0.0, "")
    logs = 0
    for cell in grid:
        settings = [next(results) for _ in inner]
        reds, ambers, any_reds, sizes = zip(*settings, strict=True)
        red, amber = sum(reds, Counter()), sum(ambers, Counter())
        any_red, n = sum(any_reds), sum(sizes)
        share = 100 * any_red / n
        setting = max(100 * k / size for k, size in zip(any_reds, sizes, strict=True))
        name = ", ".join(map(str, cell))
        worst = max(worst, (share, name))
        total, everything, logs = total + any_red, everything + red, logs + n
        most = " ".join(f"{k} {100 * v / n:.2g}" for k, v in red.most_common(1)) or "–"
        then = " ".join(f"{k} {100 * v / n:.0f}" for k, v in amber.most_common(1)) or "–"
        head = " | ".join(map(str, cell))
        print(f"| {head} | {n:,} | {share:.2g} | {most} | {setting:.2g} | {then} |", flush=True)
    by_check = ", ".join(f"{name} {100 * n / logs:.2g} %" for name, n in everything.most_common()) or "none"
    error = 100 * math.sqrt(0.05 * 0.95 / (each * len(inner)))
    print(f"\nOf all {logs:,} logs {100 * total / logs:.2g} % have a red light ({by_check}). The worst line: "
          f"{worst[0]:.2g} % ({worst[1]}). Monte Carlo error of a line at 5 %: {error:.1f}.\n")  # fmt: skip


# ---------------------------------------------------------------- small healthy logs


def revenue(share: float, sigma: float) -> np.ndarray:
    """Return equally likely outcomes: lognormal of mean 50 with a probability, else 0."""
    n = round(20_000 * share)
    values = np.exp(np.log(50) - sigma**2 / 2 + sigma * special.ndtri((np.arange(n) + 0.5) / n))
    return np.concatenate([values, np.zeros(20_000 - n)])


SMALL_OUTCOMES = {
    "normal": lambda better: bl.arms.normal(1.0 + better),
    "exponential": lambda better: bl.arms.exponential(1.0 + better),
    "binary, 0.05": lambda better: bl.arms.bernoulli(0.05 * (1 + better)),
    "revenue, 0.03": lambda better: bl.arms.empirical(revenue(0.03 * (1 + better), 1.0)),
    "revenue, 0.1": lambda better: bl.arms.empirical(revenue(0.1 * (1 + better), 1.0)),
    "revenue, 0.3": lambda better: bl.arms.empirical(revenue(0.3 * (1 + better), 1.0)),
}
SMALL_DELAYS = {
    "none": bl.delays.none(),
    "geometric 20, 30 % never": bl.delays.geometric(20).censored(0.3),
    "Pareto 0.75, 10 % never": bl.delays.pareto(0.75).censored(0.1),
}
SMALL_POLICIES = {
    "coin": lambda arms, binary: bl.policies.uniform(),
    "eps-greedy, t^-0.5": lambda arms, binary: bl.policies.epsilon_greedy(decay=0.5, burn_in=0.1),
    "Thompson, floor 0.2 / K": lambda arms, binary: (
        bl.policies.thompson_beta if binary else bl.policies.thompson_normal
    )(0.2 / arms, 0.0).batched(5),
    "Thompson, floor t^-0.5 / K": lambda arms, binary: (
        bl.policies.thompson_beta if binary else bl.policies.thompson_normal
    )(1 / arms, 0.5).batched(5),
    "UCB, floor 0.2 / (K - 1)": lambda arms, binary: bl.policies.ucb(0.2, 0.0),
}


def small(job: tuple) -> tuple[Counter, int, int]:
    """Return how often each check is red in small healthy logs, how many have any red, and of how many."""
    (rows, arms, policy, outcomes, delays), replications, seed = job
    bandit = bl.Bandit({k: SMALL_OUTCOMES[outcomes](0.5 * (k == 0)) for k in range(arms)}, SMALL_DELAYS[delays])
    stage = Stage(bandit, SMALL_POLICIES[policy](arms, outcomes.startswith("binary")), rows)
    red = [bl.diagnose(log_of(*stage.rows(seed, r))).red for r in range(replications)]
    return Counter(name for names in red for name in names), sum(map(bool, red)), replications


def print_small(pool: ProcessPoolExecutor, replications: int) -> None:
    """Print how often small healthy logs have a red light."""
    print("## Small healthy logs\n\nPercentage of logs with any red light, pooled over delays (none; geometric of mean "
          "20 and 30 % never; Pareto 0.75 and 10 % never). Revenue is lognormal of sigma 1 with that probability, else "
          "0; the first arm is better by half. Should be below 1.\n")  # fmt: skip
    sizes = [(60, 5), (60, 10), (100, 5), (100, 10), (300, 5), (300, 10)]
    heads = " | ".join(f"{rows} rows, {arms} arms" for rows, arms in sizes)
    print(f"| policy | outcomes | {heads} |\n|:--|:--|" + "--:|" * len(sizes))
    grid = list(itertools.product(SMALL_POLICIES, SMALL_OUTCOMES))
    each = max(replications // len(SMALL_DELAYS), 1)
    cells = [(*size, *cell, d) for cell in grid for size in sizes for d in SMALL_DELAYS]
    # a seed each: the same draws under several delays would be one log counted several times
    results = pool.map(small, [(cell, each, 1000 + i) for i, cell in enumerate(cells)])
    everything, total, logs = Counter(), 0, 0
    for policy, outcomes in grid:
        shares = []
        for _ in sizes:
            checks, any_red, n = zip(*(next(results) for _ in SMALL_DELAYS), strict=True)
            everything, total, logs = sum(checks, everything), total + sum(any_red), logs + sum(n)
            shares.append(f"{100 * sum(any_red) / sum(n):.2g}")
        print(f"| {policy} | {outcomes} | " + " | ".join(shares) + " |", flush=True)
    by_check = ", ".join(f"{name} {100 * n / logs:.2g} %" for name, n in everything.most_common()) or "none"
    print(
        f"\nOf all {logs:,} logs {100 * total / logs:.2g} % have a red light ({by_check}); {3 * each} logs per "
        f"number.\n"
    )


# ---------------------------------------------------------------- tails of outcomes

TAILS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "0 and 9.99, 0.05": lambda rng, n: 9.99 * (rng.random(n) < 0.05),
    "counts, mean 0.5": lambda rng, n: rng.poisson(0.5, n).astype(float),
    "lognormal, sigma 1": lambda rng, n: rng.lognormal(0, 1, n),
    "revenue, 0.1, sigma 1": lambda rng, n: np.where(rng.random(n) < 0.1, rng.lognormal(0, 1, n), 0.0),
    "revenue, 0.03, sigma 1": lambda rng, n: np.where(rng.random(n) < 0.03, rng.lognormal(0, 1, n), 0.0),
    "lognormal, sigma 1.5": lambda rng, n: rng.lognormal(0, 1.5, n),
    "revenue, 0.1, sigma 1.5": lambda rng, n: np.where(rng.random(n) < 0.1, rng.lognormal(0, 1.5, n), 0.0),
    "lognormal, sigma 2": lambda rng, n: rng.lognormal(0, 2, n),
    "revenue, 0.1, sigma 2": lambda rng, n: np.where(rng.random(n) < 0.1, rng.lognormal(0, 2, n), 0.0),
    "Pareto 1.5": lambda rng, n: rng.random(n) ** (-1 / 1.5),
}


def tailed(job: tuple) -> str:
    """Return the percentages of logs whose light of the largest outcomes is green, amber and red."""
    outcomes, rows, replications, seed = job
    rng, half = np.random.default_rng(seed), np.full((rows, 2), 0.5)
    logs = (bl.Log(rng.integers(2, size=rows), TAILS[outcomes](rng, rows), half) for _ in range(replications))
    lights = Counter(bl.diagnose(log)["largest outcomes"].light for log in logs)
    return " / ".join(f"{100 * lights[light] / replications:.3g}" for light in ("green", "amber", "red"))


def print_tails(pool: ProcessPoolExecutor, replications: int) -> None:
    """Print the light of the largest outcomes, by what outcomes are drawn from."""
    print("## Tails of outcomes\n\nPercentage of logs, with two arms chosen by a coin and no delays, for which the "
          f"check `largest outcomes` is green / amber / red; {replications:,} logs each.\n")  # fmt: skip
    sizes = [200, 1000, 5000, 20_000]
    print("| outcomes | " + " | ".join(f"{rows:,} rows" for rows in sizes) + " |\n|:--|" + "--:|" * len(sizes))
    results = pool.map(
        tailed, [(outcomes, rows, replications, i) for i, outcomes in enumerate(TAILS) for rows in sizes]
    )
    for outcomes in TAILS:
        print(f"| {outcomes} | " + " | ".join(next(results) for _ in sizes) + " |", flush=True)
    print()


# ---------------------------------------------------------------- faulty logs


def tail(rng, code, y, p, delay):
    """Delays are Pareto 0.3."""
    return code, y, p, np.where(np.isinf(delay), delay, np.floor(rng.random(len(y)) ** (-1 / 0.3) - 1))


def tilted(by: float):
    """Return a fault: delays grow with outcomes."""
    return lambda rng, code, y, p, delay: (code, y, p, np.floor(delay * np.exp(by * (y - 1))))


def zeros_later(rng, code, y, p, delay):
    """Zeros come five times later."""
    return code, y, p, np.where(y == 0, 5 * delay + 4, delay)


def only_positive(rng, code, y, p, delay):
    """Zeros never come."""
    return code, y, p, np.where(y == 0, np.inf, delay)


def only_buyers(rng, code, y, p, delay):
    """Two of ten have an amount, the others nothing."""
    return code, y, p, np.where(rng.random(len(y)) < 0.8, np.inf, delay)


def next_arm(rng, code, y, p, delay):
    """Probabilities stand with the next arm."""
    return code, y, np.roll(p, 1, axis=1), delay


def permuted(rng, code, y, p, delay):
    """Probabilities stand with other arms, by a random permutation."""
    while (order := rng.permutation(p.shape[1])).tolist() == list(range(p.shape[1])):
        pass
    return code, y, p[:, order], delay


def two_swapped(rng, code, y, p, delay):
    """The probabilities of the first two arms stand in each other's place."""
    order = [1, 0, *range(2, p.shape[1])]
    return code, y, p[:, order], delay


def shuffled(rng, code, y, p, delay):
    """Probabilities stand in the wrong rows."""
    return code, y, rng.permutation(p), delay


def equal(rng, code, y, p, delay):
    """Probabilities are logged as 1 / K."""
    return code, y, np.full_like(p, 1 / p.shape[1]), delay


def rising(by: float):
    """Return a fault: outcomes grow evenly."""
    return lambda rng, code, y, p, delay: (code, y + by * np.arange(len(y)) / len(y), p, delay)


def jump(by: float):
    """Return a fault: outcomes are larger in the second half."""
    return lambda rng, code, y, p, delay: (code, y + by * (np.arange(len(y)) >= len(y) / 2), p, delay)


def more_ones(rng, code, y, p, delay):
    """The rate doubles in the second half, from 0.05."""
    late = np.arange(len(y)) >= len(y) / 2
    return code, np.where(np.isnan(y) | ~late, y, np.maximum(y, rng.random(len(y)) < 0.05)), p, delay


def heavy(share: float):
    """Return a fault: one row holds a share of its arm's weight."""

    def spoil(rng, code, y, p, delay):
        arrived = np.flatnonzero(np.arange(len(y)) + 1 + delay <= len(y))
        row = rng.choice(arrived)
        arm = code[row]
        others = arrived[(code[arrived] == arm) & (arrived != row)]
        weight = share / (1 - share) * np.sum(p[others, arm] ** -0.5)
        p = p.copy()
        small = 1 / weight**2
        p[row] *= (1 - small) / max(1 - p[row, arm], 1e-12)
        p[row, arm] = small
        return code, y, p / p.sum(axis=1, keepdims=True), delay

    return spoil


def recording_stops(rng, code, y, p, delay):
    """From a fifth to two fifths of the time, half of the outcomes are lost."""
    at = np.arange(len(y)) / len(y)
    return code, y, p, np.where((at > 0.2) & (at < 0.4) & (rng.random(len(y)) < 0.5), np.inf, delay)


FAULTS = {
    "delay tail 0.3": ("normal", "delay tail", tail),
    "only ones arrive, rate 0.05": ("binary, 0.05", "recorded outcomes", only_positive),
    "only ones arrive, rate 0.5": ("binary, 0.5", "recorded outcomes", only_positive),
    "only buyers' amounts arrive, 20 %": ("lognormal", "recorded outcomes", only_buyers),
    "delays grow by 65 % with each unit of the outcome": ("normal", "outcome and delay", tilted(0.5)),
    "delays grow by 22 % with each unit of the outcome": ("normal", "outcome and delay", tilted(0.2)),
    "zeros come five times later, rate 0.05": ("binary, 0.05", "outcome and delay", zeros_later),
    "probabilities with the next arm": ("normal", "probabilities", next_arm),
    "probabilities permuted between arms": ("normal", "probabilities", permuted),
    "probabilities of two arms swapped": ("normal", "probabilities", two_swapped),
    "probabilities in the wrong rows": ("normal", "probabilities", shuffled),
    "probabilities logged as 1 / K": ("normal", "probabilities", equal),
    "outcomes rise by 1 standard deviation": ("normal", "drift", rising(1.0)),
    "outcomes rise by 0.5 standard deviations": ("normal", "drift", rising(0.5)),
    "outcomes jump by 0.5 standard deviations halfway": ("normal", "drift", jump(0.5)),
    "skewed outcomes rise by 0.5 standard deviations": ("lognormal", "drift", rising(0.5 * 2.16)),
    "the rate doubles from 0.05 halfway": ("binary, 0.05", "drift", more_ones),
    "one row holds 20 % of its arm's weight": ("normal", "largest weight", heavy(0.2)),
    "one row holds 30 % of its arm's weight": ("normal", "largest weight", heavy(0.3)),
    "half of the outcomes lost for a while": ("normal", "variance sums", recording_stops),
}


def faulty(job: tuple) -> tuple[float, float]:
    """Return the percentages of faulty logs in which the check that speaks of the fault is red, and red or amber."""
    horizon, arms, policy, margin, fault, replications, seed = job
    outcomes, check, spoil = FAULTS[fault]
    stage = Stage(*experiment(arms, policy, outcomes, "geometric", margin), horizon)
    rng = np.random.default_rng(seed)
    lights = [bl.diagnose(log_of(*spoil(rng, *stage.rows(seed, r))))[check].light for r in range(replications)]
    return 100 * lights.count("red") / replications, 100 * (lights.count("red") + lights.count("amber")) / replications


def print_faulty(pool: ProcessPoolExecutor, replications: int) -> None:
    """Print how often each fault is found."""
    print("## Faulty logs\n\nPercentage of logs of 10,000 rows in which the check for the fault is red / red or amber: "
          f"geometric delays of mean 20, half of the last arm's outcomes never arriving, {replications:,} "
          "logs each. Faults are added after the simulation. Columns: arms, and whether the first is "
          "better by half. Should be 90 or more.\n")  # fmt: skip
    sizes = [(2, 0.0), (5, 0.5)]
    policies = ["eps-greedy, t^-0.5", "eps-greedy, t^-0.7", "clipped Thompson"]
    heads = " | ".join(f"{arms} arms, {'better' if margin else 'equal'}" for arms, margin in sizes)
    print(f"| fault | policy | {heads} |\n|:--|:--|" + "--:|" * len(sizes))
    grid = list(itertools.product(FAULTS, policies))
    jobs = [
        (10_000, arms, policy, margin, fault, replications, i)
        for i, (fault, policy) in enumerate(grid)
        for arms, margin in sizes
    ]
    results = pool.map(faulty, jobs)
    for fault, policy in grid:
        figures = ["{:.0f} / {:.0f}".format(*next(results)) for _ in sizes]
        print(f"| {fault} | {policy} | " + " | ".join(figures) + " |", flush=True)
    print()


# ---------------------------------------------------------------- policies that look at the unit

UNIT_POLICIES = {
    "eps-greedy, t^-0.3": lambda arms, binary: bl.policies.epsilon_greedy(decay=0.3),
    "eps-greedy, 0.1": lambda arms, binary: bl.policies.epsilon_greedy(0.1, 0.0),
    "eps-greedy, 0.2, batches of 10": lambda arms, binary: bl.policies.epsilon_greedy(0.2, 0.0).batched(10),
    "eps-greedy, 0.2, burn-in": lambda arms, binary: bl.policies.epsilon_greedy(0.2, 0.0, burn_in=0.2),
    "Thompson, floor 0.2 / K": lambda arms, binary: (
        bl.policies.thompson_beta if binary else bl.policies.thompson_normal
    )(0.2 / arms, 0.0),
    "Thompson, floor t^-0.5 / K, batches of 20": lambda arms, binary: (
        bl.policies.thompson_beta if binary else bl.policies.thompson_normal
    )(1 / arms, 0.5).batched(20),
    "UCB, floor 0.2 / (K - 1)": lambda arms, binary: bl.policies.ucb(0.2, 0.0),
    "UCB, floor t^-0.5, width 3": lambda arms, binary: bl.policies.ucb(decay=0.5, width=3.0),
}
UNIT_DELAYS = {
    "none": bl.delays.none(),
    "geometric 20": bl.delays.geometric(20),
    "Pareto 0.75, 10 % never": bl.delays.pareto(0.75).censored(0.1),
}
UNIT_OUTCOMES = {
    "normal": lambda best: bl.arms.normal(float(best)),
    "binary, 0.05": lambda best: bl.arms.bernoulli(0.1 if best else 0.05),
    "binary, 0.4": lambda best: bl.arms.bernoulli(0.6 if best else 0.4),
}


def interleaved(segments: list[tuple], policy: bl.policies.Policy, rows: int, rng: np.random.Generator) -> tuple:
    """Return the rows of a policy that learns in each segment on its own: arm, outcome, probabilities, arrival."""
    segment = rng.integers(len(segments), size=rows)
    code, y, arrived = np.zeros(rows, int), np.zeros(rows), np.full(rows, np.inf)
    p = np.zeros((rows, len(segments[0].arms)))
    for s, bandit in enumerate(segments):
        where = np.flatnonzero(segment == s)
        if not len(where):
            continue
        code[where], y[where], p[where], delay = Stage(bandit, policy, len(where)).rows(int(rng.integers(1 << 30)), 0)
        known_by = np.arange(len(where)) + np.ceil(delay)  # by which row of its segment
        in_time = known_by < len(where)
        arrived[where[in_time]] = (
            np.where(delay[in_time] < 1, where[in_time], where[known_by[in_time].astype(int)]) + 1.0
        )
    return code, y, p, arrived


def units(job: tuple) -> tuple[int, int, int]:
    """Return how many logs are red, how many amber by the check of units, and of how many."""
    rows, segments, policy, outcomes, delays, width, replications, seed = job
    rng, lights = np.random.default_rng(seed), Counter()
    for _ in range(replications):
        arms = int(rng.choice([2, 3, 5] if segments == 1 else [2, 3]))
        best = [s % arms if s < 2 else rng.integers(arms) for s in range(segments)]
        if segments == 1 and rng.random() < 0.5:
            best = [-1]  # equal arms
        bandits = [
            bl.Bandit({k: UNIT_OUTCOMES[outcomes](k == b) for k in range(arms)}, UNIT_DELAYS[delays]) for b in best
        ]
        code, y, p, arrived = interleaved(bandits, UNIT_POLICIES[policy](arms, outcomes != "normal"), rows, rng)
        log = bl.Log(
            code, np.where(np.isinf(arrived), np.nan, y), p, arms=range(arms),
            assigned_at=np.arange(1, rows + 1) // width, arrived_at=np.floor(arrived / width),
        )  # fmt: skip
        lights[bl.diagnose(log)["units"].light] += 1
    return lights["red"], lights["amber"], replications


def print_units(pool: ProcessPoolExecutor, replications: int) -> None:
    """Print how often a policy is said to look at the unit, by whether it does."""
    widths = {1: "exact", 10: "10 rows share a time", 60: "60 rows share a time"}
    inner = list(itertools.product(UNIT_OUTCOMES, UNIT_DELAYS))
    each = max(replications // len(inner), 1)

    def table(sizes: list[int], policies: list[str], segments: list[int]) -> None:
        heads = " | ".join(f"{rows:,} rows" for rows in sizes)
        print(f"| policy | times | {heads} |\n|:--|:--|" + "--:|" * len(sizes))
        grid = list(itertools.product(policies, widths))
        jobs = [
            (rows, count, policy, outcomes, delays, width, each, 7 * i + 1000 * j + 100_000 * rows + count)
            for i, (policy, width) in enumerate(grid)
            for rows in sizes
            for j, (outcomes, delays) in enumerate(inner)
            for count in segments
        ]
        results, red, amber, logs = pool.map(units, jobs), 0, 0, 0
        for policy, width in grid:
            shares = []
            for _ in sizes:
                some = [next(results) for _ in range(len(inner) * len(segments))]
                reds, ambers, n = (sum(column) for column in zip(*some, strict=True))
                red, amber, logs = red + reds, amber + ambers, logs + n
                shares.append(f"{100 * reds / n:.3g}")
            print(f"| {policy} | {widths[width]} | " + " | ".join(shares) + " |", flush=True)
        print(f"\nOf all {logs:,} logs {100 * red / logs:.2g} % are red, {100 * amber / logs:.2g} % amber.\n")

    print("## Policies that look at the unit\n\nPercentage of logs whose light of units is red, pooled over outcomes "
          "(normal; 0/1 with rates 0.05 and 0.4) and delays (none; geometric of mean 20; Pareto 0.75 with 10 % never). "
          "Every row has its own time, or 10 or 60 rows, and the outcomes that arrive meanwhile, share one.\n\n"
          "Policies that do not look at the unit: 2, 3 or 5 arms, half of the logs with equal arms. Should be "
          "below 1.\n")  # fmt: skip
    table([30, 150, 600, 3000], list(UNIT_POLICIES), [1])
    print("Policies that look at the unit and learn in each of 2, 3 or 10 segments on its own. The best arms of "
          "segments differ, by 1 standard deviation, or as rates of 0.05 and 0.1, or 0.4 and 0.6. Should be 95 or "
          "more.\n")  # fmt: skip
    contextual = [name for name in UNIT_POLICIES if not name.startswith("UCB") and "burn-in" not in name]
    table([300, 1000, 3000, 10_000], contextual, [2, 3, 10])


# ---------------------------------------------------------------- the best arm


def certain(job: tuple) -> float:
    """Return the percentage of reports that call one of equal arms certainly the best."""
    horizon, arms, policy, outcomes, replications, seed = job
    bandit, chosen = experiment(arms, policy, outcomes, "Pareto 0.75", 0.0)
    said = 0
    for r in range(replications):
        log = bl.simulate(bandit, chosen, horizon, seed, r)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.BelatedWarning)
            said += "It lies above" in answer(Report(title="", estimate=bl.estimate(log)))[0]
    return 100 * said / replications


def print_best(pool: ProcessPoolExecutor, replications: int) -> None:
    """Print how often an arm is called certainly the best though all are equal."""
    sizes = {2: replications, 5: max(replications // 2, 1), 20: max(replications // 5, 1)}
    many = ", ".join(f"{n} logs of {k} arms" for k, n in sizes.items())
    print("## The best arm\n\nPercentage of reports that call one of several equal arms better than every other, at 95 "
          f"%; should be at most 5 ({many}).\n")  # fmt: skip
    print("| rows | policy | outcomes | " + " | ".join(f"{k} arms" for k in sizes) + " |\n|--:|:--|:--|" + "--:|" * 3)
    policies = ["eps-greedy, t^-0.5", "eps-greedy, t^-0.7, burn-in", "clipped Thompson"]
    grid = list(itertools.product((1000, 5000), policies, ("normal", "binary, 0.05", "exponential")))
    jobs = [(*cell[:1], k, *cell[1:], n, i) for i, cell in enumerate(grid) for k, n in sizes.items()]
    results = pool.map(certain, jobs)
    for rows, policy, outcomes in grid:
        figures = " | ".join(f"{next(results):.1f}" for _ in sizes)
        print(f"| {rows:,} | {policy} | {outcomes} | {figures} |", flush=True)


# ---------------------------------------------------------------- events


def cohorts(job: tuple) -> tuple[float, float, float]:
    """Return the shares of logs of events whose build-up over time is tested, amber or red, and red."""
    (rows, rate, policy, measure, as_of), change, replications, seed = job
    rng, lights = np.random.default_rng(seed), Counter()
    for _ in range(replications):
        columns = event_logs.experiment(rng, rows, (rate, 1.2 * rate), policy=policy, measure=measure, change=change)
        evidence = columns.log(as_of, measure).evidence()
        lights[same_build_up(evidence).light] += 1
    counts = replications - lights["grey"], lights["amber"] + lights["red"], lights["red"]
    return tuple(100 * n / replications for n in counts)


def print_cohorts(pool: ProcessPoolExecutor, replications: int) -> None:
    """Print how often the build-up over time is amber or red, in healthy logs and in faulty ones."""
    print("## Events: build-up over time\n\nRows are assigned over three windows. Arms have mean delays of 0.2 and 0.5 "
          "windows, and the second converts 1.2 times as often; the policy learns from the events so far. "
          f"Percentage of {replications:,} logs.\n")  # fmt: skip
    faults = {"none": None, "half as often": event_logs.Change(rate=0.5), "twice as fast": event_logs.Change(delay=0.5)}
    print("| rows | rate | policy | measure | as of, windows | change in the second half | tested | amber or red | red "
          "|\n|--:|--:|:--|:--|--:|:--|--:|--:|--:|")  # fmt: skip
    grid = itertools.product(
        (200, 1000, 5000), (0.01, 0.1, 0.3), ("eps-greedy", "thompson"), ("indicator", "count", "sum"), (1.1, 2.0)
    )
    cells = [(cell, "none") for cell in grid if cell[0] * cell[1] >= 20]
    changed = itertools.product((1000, 5000), (0.1, 0.3), ("eps-greedy",), ("indicator", "sum"), (3.0,))
    cells += [(cell, fault) for cell in changed for fault in list(faults)[1:]]
    jobs = [(cell, faults[fault], replications, i) for i, (cell, fault) in enumerate(cells)]
    healthy_logs = []
    for (cell, fault), shares in zip(cells, pool.map(cohorts, jobs), strict=True):
        print(
            f"| {' | '.join(map(str, cell))} | {fault} | " + " | ".join(f"{x:.3g}" for x in shares) + " |", flush=True
        )
        if fault == "none":
            healthy_logs.append(shares)
    amber, red = np.mean(healthy_logs, axis=0)[1:]
    print(
        f"\nOf {len(healthy_logs) * replications:,} healthy logs {amber:.2g} % are amber or red and {red:.2g} % red.\n"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2000, help="of each line of a table")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--horizons", type=int, nargs="*", default=[200, 1000, 10_000])
    parser.add_argument(
        "--parts", nargs="*", default=["healthy", "small", "tails", "faulty", "units", "best", "cohorts"]
    )
    options = parser.parse_args()
    print(f"# Diagnosis\n\nHow often `bl.diagnose` reports a problem. {made_by()}\n")
    with ProcessPoolExecutor(options.workers) as pool:
        if "healthy" in options.parts:
            print_healthy(pool, options.replications, options.horizons)
        if "small" in options.parts:
            print_small(pool, options.replications)
        if "tails" in options.parts:
            print_tails(pool, max(options.replications // 10, 1))
        if "faulty" in options.parts:
            print_faulty(pool, options.replications)
        if "units" in options.parts:
            print_units(pool, options.replications)
        if "best" in options.parts:
            print_best(pool, max(options.replications // 4, 1))
        if "cohorts" in options.parts:
            print_cohorts(pool, max(options.replications // 4, 1))


if __name__ == "__main__":
    main()
