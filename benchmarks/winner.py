"""Coverage of the winner's intervals, of the set of contenders, and of contrasts that hold together.

python benchmarks/winner.py > benchmarks/WINNER.md      # half an hour on one core
"""

from __future__ import annotations

import argparse
import itertools
import sys

import numpy as np
from made_by import made_by
from scipy import special

import belated as bl
from belated.base.multiplicity import joint_tail
from belated.estimation.estimators import ArmStatistics
from belated.estimation.intervals import combine
from belated.estimation.winner import Rivalry, Winner, winner

POLICIES = {
    "uniform": lambda arms, family: bl.policies.uniform(),
    "eps-greedy, t^-0.5": lambda arms, family: bl.policies.epsilon_greedy(decay=0.5, burn_in=0.1),
    "eps-greedy, t^-0.7": lambda arms, family: bl.policies.epsilon_greedy(decay=0.7, burn_in=0.1),
    "clipped Thompson, t^-0.5": lambda arms, family: (
        bl.policies.thompson_beta if family == "binary" else bl.policies.thompson_normal
    )(1 / arms, 0.5).batched(20),
}
FAMILIES = [
    ("normal", 0.0, 0.5), ("binary", 0.5, 0.2), ("binary", 0.05, 0.05), ("exponential", 1.0, 0.5),
    ("revenue", 1.5, 0.5),
]  # fmt: skip
DEFAULT = "score"

#: Mostly zero: 3 in 100 are above it, lognormal with sigma 1; of mean 1.
REVENUE = np.random.default_rng(3)
REVENUE = np.where(REVENUE.random(100_000) < 0.03, REVENUE.lognormal(0.0, 1.0, 100_000), 0.0)
REVENUE /= REVENUE.mean()


def duels(arms):
    """Return a function that compares pairs of arms of one experiment."""
    return lambda better, worse: combine(
        arms.subset(np.stack([better, worse], axis=-1)), np.array([1.0, -1.0]), DEFAULT
    )


def arm_of(family: str, mean: float) -> bl.simulation.arms.Arm:
    """Return an arm of a family."""
    if family == "revenue":
        return bl.arms.empirical(mean * REVENUE)
    kinds = {"normal": bl.arms.normal, "binary": bl.arms.bernoulli, "exponential": bl.arms.exponential}
    return kinds[family](mean)


def taken(statistics: ArmStatistics, rows: np.ndarray, arms: np.ndarray) -> ArmStatistics:
    """Return the statistics of some runs, of other arms in each."""
    return statistics.at((rows[:, None], arms))


def each_alone(statistics: ArmStatistics) -> tuple:
    """Return what `winner` needs of every run: values, limits by tail, degrees."""
    alone = combine(statistics.at((..., np.newaxis)), np.ones(1), DEFAULT)
    return statistics.value, alone.limits, alone.degrees[..., 0]


def selected(statistics: ArmStatistics, means: np.ndarray, level: float = 0.95) -> dict[str, np.ndarray]:
    """Return, by run, whether each interval held the winner's mean, and the hybrid's width over the band's.

    As in `Estimate.best`, arms without an interval take no part.
    """
    live = np.isfinite(each_alone(statistics)[1](0.025)[0])
    order = np.argsort(~live, axis=1, kind="stable")
    out: dict[str, list] = {}
    for m in np.unique(live.sum(axis=1)):
        if m < 2:
            continue
        rows = np.flatnonzero(live.sum(axis=1) == m)
        arms = order[rows, :m]
        w = winner(*each_alone(taken(statistics, rows, arms)), level)
        truth = means[arms[np.arange(len(rows)), w.index]]
        for name, value in judged(w, truth).items():
            out.setdefault(name, []).append(value)
    return {name: np.concatenate(parts) for name, parts in out.items()}


def judged(w: Winner, truth: np.ndarray) -> dict[str, np.ndarray]:
    """Return whether the intervals of many runs held the truth."""
    reported = [np.where(w.near_tie, s, h) for s, h in zip(w.simultaneous, w.hybrid, strict=True)]
    held = {
        name: (limits[0] <= truth) & (truth <= limits[1])
        for name, limits in (
            ("band", w.simultaneous),
            ("conditional", w.conditional),
            ("hybrid", w.hybrid),
            ("reported", reported),
        )
    }
    band = w.simultaneous.high - w.simultaneous.low
    with np.errstate(invalid="ignore", divide="ignore"):
        held["width"] = np.where(band > 0, (w.hybrid.high - w.hybrid.low) / band, 1.0)
        held["reported width"] = np.where(band > 0, (reported[1] - reported[0]) / band, 1.0)
    held["below"] = w.median < truth
    return held


def naive(statistics: ArmStatistics, means: np.ndarray) -> float:
    """Return how often the selected arm's own interval held its mean."""
    values, limits, _ = each_alone(statistics)
    low, high = limits(0.025)
    rows, index = np.arange(len(values)), np.nanargmax(np.where(np.isfinite(low), values, -np.inf), axis=1)
    return float(np.mean((low[rows, index] <= means[index]) & (means[index] <= high[rows, index])))


def all_pairs(statistics: ArmStatistics, means: np.ndarray) -> float:
    """Return how often the simultaneous intervals of all pairs held all of them."""
    arms = len(means)
    pairs = list(itertools.combinations(range(arms), 2))
    tail, held = joint_tail(np.ones(len(pairs)), None, 0.025), np.ones(len(statistics.value), dtype=bool)
    for a, b in pairs:
        low, high = combine(statistics, np.eye(arms)[b] - np.eye(arms)[a], DEFAULT).limits(tail)
        held &= np.isnan(low) | ((low <= means[b] - means[a]) & (means[b] - means[a] <= high))
    return float(held.mean())


def best_of(statistics: ArmStatistics, means: np.ndarray, runs: int) -> tuple[float, float, float, float]:
    """Return how often the contenders held the best arm, their mean number, false claims, and Hsu's intervals."""
    held, number, false, hsu = 0, 0, 0, 0
    values, limits, degrees = each_alone(statistics)
    gap = means - np.array([np.max(np.delete(means, k)) for k in range(len(means))])
    best, count = np.flatnonzero(means == means.max()), 0
    known = {}
    for r in range(min(runs, len(values))):
        if not np.isfinite(limits(0.025)[0][r]).all():
            continue
        count += 1

        def mine(tail: float, r: int = r) -> tuple:
            if tail not in known:
                known[tail] = limits(tail)
            return known[tail][0][r], known[tail][1][r]

        rivalry = Rivalry.of(values[r], mine, degrees[r], 0.95, duels(statistics.at(r)))
        p_values, index = rivalry.not_best(), int(np.argmax(values[r]))
        held += bool(p_values[best[0]] > 0.05)
        number += int((p_values > 0.05).sum())
        false += rivalry.winner_not_best() < 0.05 and (index not in best or len(best) > 1)
        low, high = rivalry.against_best()
        hsu += bool(((low <= gap + 1e-12) & (gap - 1e-12 <= high)).all())
    return held / count, number / count, false / count, hsu / count


def exact_draws(runs: int) -> None:
    """Print coverage for normal estimates with estimated standard errors."""
    rng = np.random.default_rng(2024)
    print("## Exact draws\n\nEstimates N(mu, s^2) whose standard errors have `df` degrees of freedom; equal means, "
          "means in equal steps over 3 standard errors, and equal means with standard errors from 0.2 to 2. "
          f"{runs:,} draws (Monte Carlo error {100 * (0.95 * 0.05 / runs) ** 0.5:.1f}).\n")  # fmt: skip
    print("| arms | df | means | own interval | band | conditional | hybrid | reported | widest hybrid / band "
          "| median reported / band | median below |\n|--:|--:|:--|" + "--:|" * 8)  # fmt: skip
    for arms, nu in itertools.product((2, 5, 20), (5.0, 10.0, 30.0, np.inf)):
        designs = {
            "equal": (np.zeros(arms), np.ones(arms)),
            "steps": (np.linspace(0, 3, arms), np.ones(arms)),
            "unequal errors": (np.zeros(arms), np.geomspace(0.2, 2, arms)),
        }
        for name, (means, sd) in designs.items():
            x = means + sd * rng.normal(size=(runs, arms))
            s = sd * (np.sqrt(rng.chisquare(nu, (runs, arms)) / nu) if nu < np.inf else np.ones((runs, arms)))

            def limits(tail: float, x: np.ndarray = x, s: np.ndarray = s, nu: float = nu) -> tuple:
                q = -special.stdtrit(min(nu, 1e9), tail)
                return x - q * s, x + q * s

            w = winner(x, limits, np.full(x.shape, nu), 0.95)
            own, rows = limits(0.025), np.arange(runs)
            truth = means[w.index]
            simple = np.mean((own[0][rows, w.index] <= truth) & (truth <= own[1][rows, w.index]))
            shown = line(simple, judged(w, truth))
            print(f"| {arms} | {'∞' if np.isinf(nu) else f'{nu:.0f}'} | {name} | {shown} |", flush=True)


def line(simple: float, results: dict[str, np.ndarray]) -> str:
    """Return the figures of one line."""
    shares = [simple, *(results[name].mean() for name in ("band", "conditional", "hybrid", "reported"))]
    widths = [results["width"].max(), np.median(results["reported width"])]
    texts = [f"{100 * s:.1f}" for s in shares] + [f"{w:.2f}" for w in widths] + [f"{100 * results['below'].mean():.1f}"]
    return " | ".join(texts)


def logs(runs: int, horizons: list[int], arms_of: list[int]) -> None:
    """Print coverage on logs of bandits."""
    print("\n## Logs\n\nThe interval for the mean of the arm with the largest estimate, from DAIPW with the default "
          "interval. "
          "Pareto delays of exponent 0.75, half of the first arm's outcomes never arrive. Equal means, or in equal "
          "steps up to a margin (normal 0.5, rates 0.5 + 0.2 and 0.05 + 0.05, "
          f"exponential 1 + 0.5). {runs:,} runs (Monte Carlo error {100 * (0.95 * 0.05 / runs) ** 0.5:.1f}).\n"
          )  # fmt: skip
    print("| rows | arms | policy | outcomes | means | own interval | band | conditional | hybrid | reported "
          "| widest hybrid / band | median reported / band | median below |\n|--:|--:|:--|:--|:--|"
          + "--:|" * 8)  # fmt: skip
    lows, wide = {}, 0.0
    for horizon, arms, name, (family, base, margin), equal in itertools.product(
        horizons, arms_of, POLICIES, FAMILIES, (True, False)
    ):
        means = base + (np.zeros(arms) if equal else np.linspace(0, margin, arms))
        study = run(means, family, name, horizon, runs)
        statistics = study.statistics("daipw")
        results = selected(statistics, means)
        what = family if family != "binary" else f"binary, {base}"
        shown = line(naive(statistics, means), results)
        print(f"| {horizon:,} | {arms} | {name} | {what} | {'equal' if equal else 'steps'} | {shown} |", flush=True)
        for which in ("hybrid", "reported"):
            lows.setdefault((family, which), []).append(100 * results[which].mean())
        wide = max(wide, results["width"].max())
    print()
    for (family, which), values in lows.items():
        print(f"- lowest {which} coverage, {family} outcomes: {min(values):.1f}")
    print(f"- widest hybrid over the simultaneous band in any run: {wide:.3f}")


def run(means: np.ndarray, family: str, policy: str, horizon: int, runs: int) -> bl.Study:
    """Run a bandit many times."""
    arms = len(means)
    delays = {k: bl.delays.pareto(0.75).censored(0.5 if k == 0 else 0.0) for k in range(arms)}
    bandit = bl.Bandit({k: arm_of(family, float(m)) for k, m in enumerate(means)}, delays)
    seed = int(horizon + 7 * arms + 100 * means.sum())
    rule = POLICIES[policy](arms, family)
    return bl.study(bandit, rule, horizon, runs, estimators=["daipw"], seed=seed, workers=1, progress=False)


def together(runs: int) -> None:
    """Print coverage of what is said of several arms at once."""
    print("\n## Several arms at once\n\nHow often the contenders include the best arm (the first if several are "
          "equal), their number, how often the winner is wrongly called the best at 5 % (if several are equal: at "
          "all), and how often the intervals against the best of the others (Hsu) and of all pairs (Sidak) cover "
          "together. 3,000 rows, "
          f"{runs:,} runs for all pairs, half of them for the rest, a fifth with 20 arms.\n")  # fmt: skip
    print("| arms | policy | outcomes | means | contenders hold the best | number | wrong claims | against the best "
          "| all pairs |\n|--:|:--|:--|:--|--:|--:|--:|--:|--:|")  # fmt: skip
    for arms, name, (family, base, margin), equal in itertools.product(
        (2, 5, 20), list(POLICIES)[::3], FAMILIES[::2], (True, False)
    ):
        means = base + (np.zeros(arms) if equal else np.linspace(0, margin, arms))
        statistics = run(means, family, name, 3000, runs).statistics("daipw")
        held, number, false, hsu = best_of(statistics, means, runs // 2 if arms < 20 else runs // 5)
        pairs = all_pairs(statistics, means)
        print(f"| {arms} | {name} | {family} | {'equal' if equal else 'steps'} | {100 * held:.1f} | {number:.1f} "
              f"| {100 * false:.1f} | {100 * hsu:.1f} | {100 * pairs:.1f} |", flush=True)  # fmt: skip


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--horizons", type=int, nargs="+", default=[1000, 5000, 20000])
    parser.add_argument("--arms", type=int, nargs="+", default=[2, 5, 20])
    parser.add_argument("--parts", nargs="+", default=["draws", "together", "logs"])
    options = parser.parse_args()
    if options.parts[0] == "draws":
        print("# The winner\n\n95 % intervals; coverage in percent. `reported` is `Best.interval`: the hybrid, or near "
              "a tie the simultaneous band. `median below`: how often the median-unbiased estimate is below the mean."
              "\n\n"
              f"{made_by()}\n")  # fmt: skip
    if "draws" in options.parts:
        exact_draws(5 * options.replications)
    if "together" in options.parts:
        together(options.replications)
    if "logs" in options.parts:
        logs(options.replications, options.horizons, options.arms)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
