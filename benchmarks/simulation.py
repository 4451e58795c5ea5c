"""How fast studies run, as ratios to drawing their random numbers alone.

Every ratio comes from one run of one process, each time the best of several rounds in turn, so
that a noisy machine disturbs both sides alike. The random numbers of a step are what the model
draws: a uniform for the arm, a normal for the outcome, a uniform for whether it ever comes, and a
delay. They are drawn alone in three ways: by NumPy in arrays, by a compiled loop that asks the same
generator for one number after another, and as belated draws them, in place.

    python benchmarks/simulation.py > benchmarks/SIMULATION.md
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
from made_by import made_by
from speed import best

import belated as bl
from belated.kernels import streams
from belated.simulation.paper.files import write
from belated.simulation.paper.reproduction import reproduce

STEPS = 10_000_000
NONE = bl.delays.none()
DELAYS = {
    "none": (NONE, NONE),
    "Pareto": (bl.delays.pareto(0.75), bl.delays.pareto(1.25)),
    "negative binomial": (bl.delays.negative_binomial(50, 0.5), bl.delays.negative_binomial(5, 0.5)),
    "Poisson": (bl.delays.poisson(50), bl.delays.poisson(5)),
}
GREEDY = bl.policies.epsilon_greedy(burn_in=0.1)


def generator() -> np.random.Generator:
    """The same bit generator as belated's."""
    return np.random.Generator(np.random.SFC64(1))


@numba.njit
def one_by_one(rng, n, delay):
    """Draw each step's numbers, one after another."""
    total = 0.0
    for _ in range(n):
        total += rng.random() + rng.standard_normal() + rng.random()
        if delay == 1:
            total += rng.pareto(0.75)
        elif delay == 2:
            total += rng.negative_binomial(50, 0.5)
        elif delay == 3:
            total += rng.poisson(50.0)
    return total


def in_arrays(rng: np.random.Generator, n: int, delay: int) -> None:
    """Draw the same in arrays that stay in the cache."""
    for _ in range(n // 1000):
        rng.random(1000)
        rng.standard_normal(1000)
        rng.random(1000)
        if delay:
            [None, lambda: rng.pareto(0.75, 1000), lambda: rng.negative_binomial(50, 0.5, 1000),
             lambda: rng.poisson(50, 1000)][delay]()  # fmt: skip


@numba.njit
def in_place(stream, block, n):
    """Draw two uniforms and a normal for each step, as the kernel does."""
    for _ in range(n // len(block)):
        streams.fill_uniform(stream, block, 0, len(block))
        streams.fill_normal(stream, block, 0, len(block))
        streams.fill_uniform(stream, block, 0, len(block))


def bandit(delay: str, arms: int = 2, never: float = 0.5) -> bl.Bandit:
    """The paper's bandit, or more arms like its second."""
    first, second = DELAYS[delay]
    outcomes = {k: bl.arms.normal(1.0 if k == 0 else 0.5) for k in range(arms)}
    return bl.Bandit(outcomes, {0: first.censored(never), **dict.fromkeys(range(1, arms), second)})


def ran(
    given: bl.Bandit, policy: bl.policies.Policy, horizon: int, steps: int = STEPS, workers: int = 1
) -> Callable[[], object]:
    """A study of so many steps."""
    return lambda: bl.study(given, policy, horizon, max(2, steps // horizon), workers=workers, progress=False)


def say(what: str, value: str, target: str = "-") -> None:
    """Print a row, and that it is there."""
    print(f"| {what} | {value} | {target} |", flush=True)
    print(what, value, file=sys.stderr)


def main() -> None:
    """Measure everything."""
    print("# Simulation\n")
    print(f"{made_by()}\n")
    print("| what | ratio | target |\n|:--|--:|--:|")
    rng, stream, block = generator(), streams.streams(1, np.array([0]))[0], np.empty(1024)
    numbers_of_all = 0.0
    for i, name in enumerate(DELAYS):
        study, arrays, numbers, place = best(
            ran(bandit(name), GREEDY, 10_000),
            lambda i=i: in_arrays(rng, STEPS, i),
            lambda i=i: one_by_one(rng, STEPS, i),
            lambda: in_place(stream, block, STEPS),
            rounds=15,
        )
        target = "at most 1.6" if name == "none" else "at most 2"
        what = f"epsilon-greedy, K = 2, delays {name}, to its numbers drawn"
        say(f"{what} by NumPy in arrays", f"{study / arrays:.2f}", target)
        say(f"{what} one by one in a compiled loop", f"{study / numbers:.2f}", target)
        if name == "none":
            say(f"{what} in place", f"{study / place:.2f}")
            say("a step of that, in nanoseconds", f"{study / STEPS * 1e9:.0f}")
        numbers_of_all += {"Pareto": 90e6}.get(name, 50e6) / STEPS * numbers
    plain = bandit("none")
    for name in ("none", "Pareto"):
        for horizon in (1_000, 100_000, 1_000_000, 10_000_000):
            steps, given = max(STEPS, 4 * horizon), bandit(name)
            long, short = best(ran(given, GREEDY, horizon, steps), ran(given, GREEDY, 10_000, steps), rounds=4)
            say(f"a step at horizon {horizon:,} to one at 10,000, delays {name}", f"{long / short:.2f}", "about 1")
    for name in ("none", "Pareto"):
        half, every = best(ran(bandit(name), GREEDY, 10_000), ran(bandit(name, never=0.0), GREEDY, 10_000))
        say(
            f"half of an arm's outcomes never arriving to all arriving, delays {name}", f"{half / every:.2f}", "about 1"
        )
    one, two = best(*(ran(plain, GREEDY, 10_000, 4 * STEPS, workers) for workers in (1, 2)))
    say("one core to two", f"{one / two:.2f}", "at least 1.8")
    equal = bl.Bandit({k: bl.arms.normal(0.5) for k in range(5)})
    rates = bl.Bandit({k: bl.arms.bernoulli(0.5) for k in range(5)})
    for name, given, policy in (
        ("normal, different means", bandit("none", 5, 0.0), bl.policies.thompson_normal()),
        ("normal, equal means", equal, bl.policies.thompson_normal()),
        ("Beta, equal means", rates, bl.policies.thompson_beta()),
    ):
        exact, greedy = best(ran(given, policy, 10_000, 500_000), ran(plain, GREEDY, 10_000, 500_000))
        say(f"clipped Thompson, K = 5, {name}, to epsilon-greedy with K = 2", f"{exact / greedy:.1f}", "at most 60")
    with tempfile.TemporaryDirectory() as folder:
        (whole,) = best(
            lambda: write(reproduce(as_published=True, progress=False), Path(folder), bl.__version__), rounds=3
        )
    what = "the paper's whole study, figures and all, to its numbers drawn one by one on all cores"
    say(what, f"{whole * (os.cpu_count() or 1) / numbers_of_all:.2f}", "at most 3")
    say("the same, in seconds", f"{whole:.1f}")


if __name__ == "__main__":
    main()
