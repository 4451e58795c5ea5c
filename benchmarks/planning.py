"""What a plan promises beside what fresh experiments reach.

python benchmarks/planning.py > benchmarks/PLANNING.md      # a quarter of an hour on two cores
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from made_by import made_by

import belated as bl
from belated.base.text import one_line

N, B, E, L = bl.arms.normal, bl.arms.bernoulli, bl.arms.exponential, bl.arms.lognormal
D, P = bl.delays, bl.policies

PARETO = {"A": D.pareto(0.75).censored(0.5), "B": D.pareto(1.25)}
FIVE = {"A": N(0.5), "B": N(0.0), "C": N(0.0), "D": N(0.0), "E": N(0.0)}


def two(first: object, second: object, delays: object = None) -> bl.Bandit:
    """Return a bandit of two arms."""
    return bl.Bandit({"A": first, "B": second}, D.none() if delays is None else delays)


#: Name, bandit, policy, the goal.
DESCRIBED = [
    ("normal, no delay, uniform", two(N(0), N(0.5)), P.uniform(), {"half_width": 0.1}),
    ("normal, Pareto, half of A never, eps t^-0.5", two(N(0), N(0.5), PARETO), P.epsilon_greedy(), {"half_width": 0.2}),
    ("normal, Pareto, eps t^-0.7, no margin", two(N(0), N(0), PARETO), P.epsilon_greedy(decay=0.7, burn_in=0.1),
     {"half_width": 0.25}),
    ("normal, 5 arms, geometric, eps t^-0.5", bl.Bandit(FIVE, D.geometric(50)), P.epsilon_greedy(burn_in=0.1),
     {"half_width": 0.25}),
    ("normal, geometric 2,000, uniform", two(N(0), N(0.5), D.geometric(2000)), P.uniform(), {"half_width": 0.1}),
    ("normal, Pareto tail 0.3, UCB", two(N(0), N(0.5), D.pareto(0.3)), P.ucb(), {"half_width": 0.2}),
    ("normal, clipped Thompson, geometric", two(N(0), N(0.2), D.geometric(100)),
     P.thompson_normal(0.5, 0.5).batched(20), {"half_width": 0.15}),
    ("binary 0.3/0.35, Thompson, geometric", two(B(0.3), B(0.35), D.geometric(50)),
     P.thompson_beta(0.5, 0.3).batched(20), {"half_width": 0.05}),
    ("binary 0.05/0.07, uniform, half never", two(B(0.05), B(0.07), D.poisson(100).censored(0.5)), P.uniform(),
     {"half_width": 0.02}),
    ("exponential, eps t^-0.5, Pareto", two(E(1.0), E(1.5), PARETO), P.epsilon_greedy(burn_in=0.1),
     {"half_width": 0.25}),
    ("lognormal, eps t^-0.3, geometric", two(L(0.0, 1.0), L(0.2, 1.0), D.geometric(50)), P.epsilon_greedy(decay=0.3),
     {"half_width": 0.3}),
    ("normal, eps t^-0.5, 90 % assurance", two(N(0), N(0.3), D.geometric(50)), P.epsilon_greedy(),
     {"half_width": 0.2, "assurance": 0.9}),
    ("normal, margin 0.2, uniform", two(N(0), N(0.2), D.geometric(200)), P.uniform(), {"power": 0.8}),
    ("normal, margin 0.3, eps t^-0.5, Pareto", two(N(0), N(0.3), PARETO), P.epsilon_greedy(), {"power": 0.8}),
    ("binary 0.10/0.13, Thompson", two(B(0.10), B(0.13), D.geometric(50)), P.thompson_beta(0.5, 0.3).batched(20),
     {"power": 0.9}),
    ("exponential 1.0/1.3, eps t^-0.3", two(E(1.0), E(1.3), D.geometric(20)), P.epsilon_greedy(decay=0.3),
     {"power": 0.8}),
]  # fmt: skip

#: The same from a pilot of 2,000 rows under the policy named first; then the policy to be run, None: the pilot's.
PILOTS = [
    ("normal, Pareto, pilot uniform, then eps t^-0.5", two(N(0), N(0.5), PARETO), P.uniform(), P.epsilon_greedy(),
     {"half_width": 0.2}),
    ("exponential, geometric 200, uniform", two(E(1.0), E(1.5), D.geometric(200)), P.uniform(), None,
     {"half_width": 0.1}),
    ("binary 0.3/0.35, half of A never, eps t^-0.3", two(B(0.3), B(0.35), PARETO), P.epsilon_greedy(decay=0.3), None,
     {"half_width": 0.03}),
]  # fmt: skip


def reached(bandit: bl.Bandit, policy: bl.policies.Policy, plan: bl.Plan, replications: int) -> tuple[float, float]:
    """Return what fresh experiments of the plan reach, and the Monte Carlo error."""
    fresh = bl.study(
        bandit, policy, plan.horizon, replications, estimators=["daipw"], targets=[("B", "A")], intervals=["auto"],
        seed=987_654_321, wait=plan.wait,
    )  # fmt: skip
    point = plan.goal.point(fresh.cell("daipw", ("B", "A")), plan.wait)
    return point.value, point.error


def row(name: str, plan: bl.Plan, value: float, error: float, seconds: float) -> tuple[str, float]:
    """Return a line of the table, and how far off the promise was."""
    goal = plan.goal
    if goal.name == "power":
        off = value - goal.asked
        compared = f"{100 * off:+.1f} points"
    else:
        off = value / goal.asked - 1
        compared = f"{100 * off:+.1f} %"
    what = goal.name.replace("_", "-") + (f", {goal.assurance:.0%} of runs" if goal.assurance else "")
    wait = f"{plan.wait:,.0f}" if math.isfinite(plan.wait) else "all"
    horizon = f"{plan.horizon:,} ({plan.low:,} to {plan.high:,})"
    cells = [one_line(name, 80), f"{what} {goal.asked:g}", horizon, wait, f"{value:.4g} ± {error:.1g}", compared,
             f"{seconds:.0f} s"]  # fmt: skip
    return f"| {' | '.join(cells)} |", off


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    head = ("| experiment | promised | horizon | wait | reached | off by | processor |\n"
            "|:--|:--|:--|--:|--:|--:|--:|")  # fmt: skip
    print("# Planning\n\nEach plan for B - A (95 % intervals, the defaults) is followed by "
          f"{options.replications:,} new experiments with another seed at its horizon and wait: their mean half-width, "
          f"its quantile under an assurance, or the power. The plan's own interval is in brackets. "
          f"{made_by()}\n")  # fmt: skip
    widths: list[float] = []
    powers: list[float] = []
    print(f"## From a description\n\n{head}")
    for name, bandit, policy, goal in DESCRIBED:
        if options.only not in name:
            continue
        since = time.process_time()
        plan = bl.plan(bandit, policy, ("B", "A"), **goal)
        took = time.process_time() - since
        line, off = row(name, plan, *reached(bandit, policy, plan, options.replications), took)
        (powers if "power" in goal else widths).append(off)
        print(line, flush=True)
    print("\n## From a pilot of 2,000 rows\n\nThe plan is made from the pilot's log alone; the new experiments use the "
          "bandit behind it. `off by` is the mean and the largest difference over five pilots; the other numbers are "
          f"for the last pilot.\n\n{head}")  # fmt: skip
    pilots: list[float] = []
    for name, bandit, before, policy, goal in PILOTS:
        if options.only not in name:
            continue
        offs = []
        for seed in range(5):
            log = bl.simulate(bandit, before, 2000, seed=1000 + seed)
            since = time.process_time()
            plan = bl.plan(log, policy, ("B", "A"), **goal)
            took = time.process_time() - since
            value, error = reached(bandit, plan.policy, plan, max(options.replications // 5, 40))
            line, off = row(name, plan, value, error, took)
            offs.append(off)
        furthest = max(offs, key=abs)
        print(line.replace(f"{100 * off:+.1f} %", f"{100 * np.mean(offs):+.1f} %, {100 * furthest:+.1f} %"), flush=True)
        pilots += offs
    if not options.only:
        print(f"\nLargest differences: half-widths {100 * max(widths, key=abs):+.1f} %, power "
              f"{100 * max(powers, key=abs):+.1f} points, pilots {100 * max(pilots, key=abs):+.1f} %.")  # fmt: skip


if __name__ == "__main__":
    main()
