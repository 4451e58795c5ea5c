"""An experiment run by an algorithm, with late and missing outcomes, and what it really says.

Three onboarding flows; an epsilon-greedy algorithm sends each new customer to one of them, by what
has been heard so far. A customer's score comes in late, later for flow B, and half of those who
were sent to flow B are never heard of again. Flows A and B are equally good; C is worse.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import belated as bl

FLOWS = np.array(["A", "B", "C"])
TRUTH = np.array([1.0, 1.0, 0.7])
MEAN_DELAY = np.array([20, 60, 20])
NEVER = np.array([0.0, 0.5, 0.0])


def run(customers: int, rng: np.random.Generator) -> bl.Log:
    """Run the experiment once and return its log."""
    n = len(FLOWS)
    uniforms, noise, lost = rng.random(customers), rng.normal(size=customers), rng.random(customers)
    waits = rng.geometric(1 / MEAN_DELAY, size=(customers, n))
    count, total = np.zeros(n), np.zeros(n)
    landing: list[list[int]] = [[] for _ in range(customers)]
    arm, propensity = np.zeros(customers, dtype=int), np.zeros((customers, n))
    outcome, delay = np.full(customers, np.nan), np.full(customers, np.nan)
    for t in range(customers):
        for row in landing[t]:
            count[arm[row]] += 1
            total[arm[row]] += outcome[row]
        explore = 1.0 if t < customers // 20 else (t + 1) ** -0.7
        p = np.full(n, explore / n)
        p[np.argmax(total / np.maximum(count, 1))] += 1 - explore
        k = arm[t] = min(int(np.searchsorted(p.cumsum(), uniforms[t])), n - 1)
        propensity[t] = p
        wait = int(waits[t, k])
        if lost[t] >= NEVER[k] and t + wait < customers:
            outcome[t], delay[t] = TRUTH[k] + noise[t], wait
            landing[t + wait].append(t)
    return bl.Log(FLOWS[arm], outcome, propensity, delay=delay)


def main() -> None:
    """Show one experiment, then how often the answers hold over many."""
    log = run(2000, np.random.default_rng(8))
    print(log, end="\n\n")
    print(bl.estimate(log), end="\n\n")
    print("Is B better than A? (In truth they are equal.)")
    print(bl.estimate(log).contrast("B", "A"), end="\n\n")
    print("The same question put to every estimator:")
    print(bl.compare(log).contrast("B", "A"), end="\n\n")

    repeats = 300
    asked = {
        "sample mean, t interval": ("mean", "t"),
        "usual IPW (nh0)": ("nh0", "normal"),
        "usual AIPW (nh)": ("nh", "normal"),
        "the paper's DAIPW": ("daipw", "normal"),
        "belated's default": ("daipw", "auto"),
    }
    hits = dict.fromkeys(asked, 0)
    rng = np.random.default_rng(1)
    for i in range(repeats):
        if sys.stderr.isatty():
            print(f"\rrunning the experiment again, {i + 1} of {repeats}", end="", file=sys.stderr)
        again = run(500, rng)
        for name, (estimator, interval) in asked.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", bl.BelatedWarning)
                answer = bl.estimate(again, estimator, interval=interval).contrast("B", "A")
            hits[name] += answer.low <= 0 <= answer.high
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    print(f"{repeats} such experiments of 500 customers: how often the 95% interval for B - A holds the truth")
    for name, count in hits.items():
        print(f"  {name:<24} {count / repeats:6.1%}")


if __name__ == "__main__":
    main()
