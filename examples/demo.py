"""An experiment run by an algorithm, with late and missing outcomes, and what it really says.

Three onboarding flows; an epsilon-greedy algorithm sends each new customer to one of them, by what
has been heard so far. A customer's score comes in late, later for flow B, and half of those who
were sent to flow B are never heard of again. Flows A and B are equally good; C is worse.
"""

from __future__ import annotations

import sys
import warnings

import belated as bl

BANDIT = bl.Bandit(
    {"A": bl.arms.normal(1.0), "B": bl.arms.normal(1.0), "C": bl.arms.normal(0.7)},
    {
        "A": bl.delays.geometric(20),
        "B": bl.delays.geometric(60).censored(0.5),
        "C": bl.delays.geometric(20),
    },
)
POLICY = bl.policies.epsilon_greedy(decay=0.7, burn_in=0.05)


def main() -> None:
    """Show one experiment, then how often the answers hold over many."""
    log = bl.simulate(BANDIT, POLICY, 2000, seed=8)
    print(log, end="\n\n")
    print(bl.estimate(log), end="\n\n")
    print("Is B better than A? (In truth they are equal.)")
    print(bl.estimate(log).contrast("B", "A"), end="\n\n")
    print("The same question put to every estimator:")
    print(bl.compare(log).contrast("B", "A"), end="\n\n")

    repeats = 1000
    asked = {
        "sample mean, t interval": ("mean", "t"),
        "usual IPW (nh0)": ("nh0", "normal"),
        "usual AIPW (nh)": ("nh", "normal"),
        "the paper's DAIPW": ("daipw", "normal"),
        "belated's default": ("daipw", "auto"),
    }
    hits = dict.fromkeys(asked, 0)
    for i in range(repeats):
        if sys.stderr.isatty():
            print(f"\rrunning the experiment again, {i + 1} of {repeats}", end="", file=sys.stderr)
        again = bl.simulate(BANDIT, POLICY, 500, seed=i)
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
