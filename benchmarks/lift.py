"""Coverage of the interval of a lift, and how often it has bounds.

python benchmarks/lift.py > benchmarks/LIFT.md      # half an hour on one core
"""

from __future__ import annotations

import argparse
import itertools
import math
import warnings

from made_by import made_by

import belated as bl

#: Outcomes by name: what makes an arm from its mean, the baseline's mean, and the other arm's.
FAMILIES = {
    "0/1, 0.05": (bl.arms.bernoulli, 0.05, 0.06),
    "0/1, 0.3": (bl.arms.bernoulli, 0.3, 0.36),
    "normal, 5 sd from 0": (bl.arms.normal, 5.0, 6.0),
    "normal, -5 sd from 0": (bl.arms.normal, -5.0, -4.0),
    "normal, 0.1 sd from 0": (bl.arms.normal, 0.1, 0.3),
    "exponential": (bl.arms.exponential, 1.0, 1.2),
}
POLICIES = {"coin": bl.policies.uniform(), "eps-greedy": bl.policies.epsilon_greedy(decay=0.5, burn_in=0.1)}


def coverage(family: str, policy: str, horizon: int, replications: int) -> tuple[int, int, int]:
    """Return how many lifts have bounds, how many of these hold the truth, and how many contradict the contrast."""
    kind, base, other = FAMILIES[family]
    bandit = bl.Bandit({"A": kind(base), "B": kind(other)}, bl.delays.geometric(10).censored(0.1))
    truth = (other - base) / abs(base)
    bounded = hits = contradictions = 0
    for seed in range(replications):
        log = bl.simulate(bandit, POLICIES[policy], horizon, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.BelatedWarning)
            estimate = bl.estimate(log)
        lift, contrast = estimate.lift("B", "A"), estimate.contrast("B", "A")
        if math.isnan(lift.low):
            continue
        bounded += 1
        hits += lift.low <= truth <= lift.high
        contradictions += (lift.low <= 0 <= lift.high) != (contrast.low <= 0 <= contrast.high)
    return bounded, hits, contradictions


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--horizons", type=int, nargs="+", default=[200, 1000, 10000])
    options = parser.parse_args()
    runs = options.replications
    error = 100 * (0.95 * 0.05 / runs) ** 0.5
    print("# Lift\n\nThe lift of B over A at 95 % under the default interval: how often it has bounds, how often the "
          "bounds cover the true value, how often the lift covers it if a lift without bounds counts as covering, how "
          f"often the lift excludes 0 and the contrast does not, or vice versa; {runs:,} runs each (Monte Carlo error "
          f"{error:.1f} points). "
          "Delays are geometric with mean 10, a tenth of the outcomes never arrives. Not covered: more than two arms, "
          f"heavy tails. {made_by()}\n")  # fmt: skip
    print("| rows | policy | outcomes | bounded | bounded and holds | holds | contradicts |")
    print("|--:|:--|:--|--:|--:|--:|--:|")
    for horizon, policy, family in itertools.product(options.horizons, POLICIES, FAMILIES):
        bounded, hits, contradictions = coverage(family, policy, horizon, runs)
        shares = (bounded / runs, hits / max(bounded, 1), 1 - (bounded - hits) / runs)
        shown = " | ".join(f"{100 * share:.1f}" for share in shares)
        print(f"| {horizon:,} | {policy} | {family} | {shown} | {contradictions} |", flush=True)


if __name__ == "__main__":
    main()
