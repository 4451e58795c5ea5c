"""How often confidence sequences ever miss, looking at every arrival, and how wide they are at their target.

python benchmarks/sequences.py > benchmarks/SEQUENCES.md      # an hour on one core
python benchmarks/sequences.py --speed                        # only the time that ten million arrivals take
"""

from __future__ import annotations

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from numba import njit

import belated as bl
from belated.kernels import jit

GRID = np.linspace(0.0, 1.0, 1001)
FAMILIES = {
    "normal": (lambda m: bl.arms.normal(m), {"asymptotic": {}, "sub_gaussian": {"sigma": 1.0}}),
    "exponential": (lambda m: bl.arms.exponential(1 + m), {"asymptotic": {}}),
    "lognormal": (lambda m: bl.arms.lognormal(np.log1p(m), 1.0), {"asymptotic": {}}),
    "Student t, 3": (lambda m: bl.arms.student_t(3, m), {"asymptotic": {}}),
    "uniform": (
        lambda m: bl.arms.empirical(0.8 * GRID + 0.2 * (m > 0)),
        {"asymptotic": {}, "bernstein": {"bounds": (0, 1)}},
    ),
    **{
        f"binary, {rate}": (
            lambda m, rate=rate: bl.arms.bernoulli(rate * (1 + m)),
            {"asymptotic": {}, "bernstein": {"bounds": (0, 1)}, "beta_binomial": {}},
        )
        for rate in (0.5, 0.05, 0.02)
    },
}


@njit
def turn(count: np.ndarray, total: np.ndarray, t: int) -> np.ndarray:
    """Favour one of two arms, then the other, over ever longer stretches: what contrasts may suffer from."""
    rest = min(0.5, t**-0.7)
    return np.array([1 - rest, rest] if int(1.5 * np.log(t)) % 2 == 0 else [rest, 1 - rest])


POLICIES = {
    "turning": lambda k: bl.policies.own(turn),
    "uniform": lambda k: bl.policies.uniform(),
    "t^-0.3": lambda k: bl.policies.epsilon_greedy(decay=0.3, burn_in=0.02),
    "t^-0.5": lambda k: bl.policies.epsilon_greedy(decay=0.5),
    "t^-0.7": lambda k: bl.policies.epsilon_greedy(decay=0.7, burn_in=0.02),
    "t^-0.9": lambda k: bl.policies.epsilon_greedy(decay=0.9, burn_in=0.02),
    "Thompson": lambda k: bl.policies.thompson_normal(1 / k, 0.5).batched(20),
    "UCB": lambda k: bl.policies.ucb(decay=0.5),
    "5 batches": lambda k: bl.policies.epsilon_greedy(decay=0.3).batched(4000),
}
DELAYS = {
    "none": bl.delays.none(),
    "geometric": bl.delays.geometric(100),
    "Pareto 0.3": bl.delays.pareto(0.3),
    "half never": bl.delays.pareto(0.75).censored(0.5),
}
#: Family, policy, delays, arms, margin of the first arm.
SETTINGS = [
    ("exponential", "t^-0.5", "none", 2, 0.0), ("lognormal", "t^-0.5", "geometric", 2, 0.0),
    ("binary, 0.05", "t^-0.5", "half never", 2, 0.0), ("normal", "t^-0.5", "half never", 2, 0.0),
    ("Student t, 3", "t^-0.7", "Pareto 0.3", 2, 0.0), ("exponential", "t^-0.7", "geometric", 2, 0.0),
    ("uniform", "t^-0.3", "Pareto 0.3", 5, 0.0), ("binary, 0.5", "t^-0.7", "geometric", 2, 0.2),
    ("normal", "Thompson", "Pareto 0.3", 5, 0.0), ("lognormal", "Thompson", "half never", 2, 0.0),
    ("binary, 0.02", "uniform", "none", 2, 0.0), ("exponential", "UCB", "half never", 5, 0.0),
    ("lognormal", "uniform", "none", 2, 0.0), ("normal", "t^-0.9", "geometric", 2, 0.0),
    ("exponential", "t^-0.9", "half never", 2, 0.0), ("exponential", "5 batches", "none", 5, 0.0),
    ("lognormal", "t^-0.3", "half never", 5, 0.0), ("Student t, 3", "t^-0.9", "half never", 2, 0.0),
    ("uniform", "t^-0.5", "half never", 2, 0.2), ("binary, 0.05", "uniform", "half never", 5, 0.0),
    ("binary, 0.05", "t^-0.7", "Pareto 0.3", 2, 0.5), ("binary, 0.02", "UCB", "geometric", 2, 0.0),
    ("normal", "turning", "none", 2, 0.0), ("normal", "uniform", "none", 20, 0.0),
    ("normal", "t^-0.7", "Pareto 0.3", 5, 0.3),
]  # fmt: skip


def cell(job: tuple) -> dict:
    """Return, by kind, ever-misses, median width ratios to the fixed-time intervals, and shares that are finite."""
    (family, policy, delay, arms, margin), horizon, replications, seed = job
    make, kinds = FAMILIES[family]
    bandit = bl.Bandit({k: make(margin if k == 0 else 0.0) for k in range(arms)}, DELAYS[delay])
    truth = {k: arm.mean for k, arm in bandit.arms.items()}
    rule = POLICIES[policy](arms)
    jit.compile_kernels()
    found: dict = {kind: [] for kind in kinds}
    for r in range(replications):
        log = bl.simulate(bandit, rule, horizon, seed, r)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.BelatedWarning)
            fixed = bl.estimate(log)
            paper = bl.estimate(fixed.sums, interval="normal")
            for kind, options in kinds.items():
                sequence = bl.sequence(log, kind, null=truth, looks=1, **options)
                questions = [(sequence.arm(k), fixed.arm(k), paper.arm(k)) for k in (0, 1)]
                questions.append((sequence.contrast(1, 0), fixed.contrast(1, 0), paper.contrast(1, 0)))
                found[kind].append([_facts(*question) for question in questions])
    summary = {}
    for kind, rows in found.items():
        facts = np.array(rows)  # (replications, questions, facts)
        missed = facts[:, :, 0].mean(axis=0)
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            ratio, classic = (np.nanmedian(facts[:, :, f], axis=0) for f in (1, 2))
        summary[kind] = missed, ratio, classic, np.isfinite(facts[:, :, 1]).mean(axis=0)
    return summary


def _facts(answer: bl.Answer, fixed: bl.Answer, paper: bl.Answer) -> tuple[float, float, float]:
    width = answer.high - answer.low
    # an interval that is all that can be says nothing, as an infinite one does
    width = np.nan if answer.why or width >= 2 or np.isinf(width) else width
    ratios = [width / max(other.high - other.low, 1e-12) for other in (fixed, paper)]
    return float(answer.excluded_at is not None), *ratios


def speed(arrivals: int) -> list[str]:
    """Return the rows of a table: seconds of the estimate's pass and of the sequences', and their ratio."""
    rng = np.random.default_rng(1)
    pi = np.clip(rng.uniform(size=arrivals), 0.05, 0.95)
    code = (rng.uniform(size=arrivals) >= pi).astype(np.int64)
    delay = rng.geometric(0.001, size=arrivals)
    propensity = np.stack([pi, 1 - pi], axis=1)
    lines = []
    for outcomes, kinds in (
        (rng.normal(size=arrivals), {"asymptotic": {}, "sub_gaussian": {"sigma": 1.0}}),
        (
            (rng.uniform(size=arrivals) < 0.3).astype(float),
            {"asymptotic": {}, "bernstein": {"bounds": (0, 1)}, "beta_binomial": {}},
        ),
    ):
        for kind, options in kinds.items():
            times = []
            for _ in range(3):
                pair = []
                for sequential in (False, True):
                    log = bl.Log(code, outcomes, propensity, delay=delay)
                    start = time.perf_counter()
                    _ = bl.sequence(log, kind, **options) if sequential else bl.estimate(log)
                    pair.append(time.perf_counter() - start)
                times.append(pair)
            estimate, sequence = min(times, key=lambda pair: pair[1] / pair[0])
            what = "0/1" if outcomes.max() == 1 else "normal"
            lines.append(f"| {kind}, {what} | {estimate:.2f} | {sequence:.2f} | {sequence / estimate:.2f} |")
    return lines


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--horizon", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="settings whose family begins so")
    parser.add_argument("--arrivals", type=int, default=10_000_000)
    parser.add_argument("--speed", action="store_true", help="only the speed")
    options = parser.parse_args()
    if not options.speed:
        chosen = [s for s in SETTINGS if s[0].startswith(options.only)]
        jobs = [(s, options.horizon, options.replications, 100 + SETTINGS.index(s)) for s in chosen]
        error = 100 * (0.05 * 0.95 / options.replications) ** 0.5
        print(
            "# Confidence sequences\n\nLooking at every arrival: the share of runs in which a 95 % sequence ever "
            "missed the truth, from the moment it was finite (first arm, second arm, second minus first); its width "
            "at the target over that of the default fixed-time interval (median), over the paper's normal one, and the "
            "share "
            f"of runs in which it said anything by then. {options.horizon:,} assignments, the target being the "
            f"last; {options.replications:,} replications (Monte Carlo error at 5 %: {error:.1f} points).\n"
        )
        print("| outcomes | policy | delays | arms | kind | ever missed, % | width / default | / paper's | finite, % |")
        print("|:--|:--|:--|--:|:--|:--|:--|:--|:--|")
        worst: dict[str, list[float]] = {}
        with ProcessPoolExecutor(options.workers) as pool:
            for setting, summary in zip(chosen, pool.map(cell, jobs), strict=True):
                family, policy, delay, arms, margin = setting
                for kind, (missed, ratio, classic, finite) in summary.items():
                    what = f"{family}{f', margin {margin}' if margin else ''} | {policy} | {delay} | {arms} | {kind}"
                    cells = [" / ".join(f"{x:.1f}" for x in 100 * missed)]
                    cells += [" / ".join("–" if np.isnan(x) else f"{x:.2f}" for x in r) for r in (ratio, classic)]
                    cells.append(" / ".join(f"{x:.0f}" for x in 100 * finite))
                    print(f"| {what} | {' | '.join(cells)} |", flush=True)
                    old = worst.get(kind, [0.0, 0.0, 0.0])
                    often = np.where(finite >= 0.5, ratio, 0.0)
                    new = missed[:2].max(), missed[2], np.nanmax(often)
                    worst[kind] = [max(pair) for pair in zip(old, new, strict=True)]
        print("\n| worst over all settings | arms, % | contrast, % | width / default |\n|:--|--:|--:|--:|")
        for kind, (arm, contrast, width) in worst.items():
            print(f"| {kind} | {100 * arm:.1f} | {100 * contrast:.1f} | {width:.2f} |")
        print("\nWorst widths are of questions that were finite in at least half of the runs.\n")
    print(f"Speed: {options.arrivals:,} arrivals, two arms, both timed from the same log in one run.\n")
    print("| sequence | estimate, s | sequence, s | ratio |\n|:--|--:|--:|--:|")
    print("\n".join(speed(options.arrivals)))


if __name__ == "__main__":
    main()
