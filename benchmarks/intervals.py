"""Coverage and width of intervals, and wrong decisions, over outcomes that people measure.

python benchmarks/intervals.py > benchmarks/COVERAGE.md      # some minutes on two cores
python benchmarks/intervals.py --small                       # only the section on small logs
"""

from __future__ import annotations

import argparse
import itertools
import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from made_by import made_by
from scipy import special, stats

import belated as bl
from belated.base.multiplicity import joint_tail
from belated.estimation.intervals import combine
from belated.simulation.arms import Arm
from belated.simulation.policies import Policy

#: Runs with an interval from which on coverage is shown.
FEWEST = 100

#: Values of a sample that stands for a distribution that `bl.arms` has not: its quantiles, so that its mean is exact.
SAMPLE = 400_000


def rare(share: float, values: Callable[[np.ndarray], np.ndarray]) -> Arm:
    """Return outcomes that are 0 but for a share, which have the given quantiles."""
    positive = round(share * SAMPLE)
    quantiles = values((np.arange(positive) + 0.5) / positive)
    return bl.arms.empirical(np.concatenate([quantiles, np.zeros(SAMPLE - positive)]))


def spent(share: float, sigma: float) -> Arm:
    """Return revenue: 0, or lognormal of mean 50 with a probability."""
    return rare(share, lambda u: 50 * np.exp(sigma * special.ndtri(u) - sigma**2 / 2))


def gamma_spent(share: float, shape: float) -> Arm:
    """Return revenue: 0, or gamma of mean 50 with a probability."""
    return rare(share, lambda u: 50 * special.gammaincinv(shape, u) / shape)


def counts(mean: float) -> Arm:
    """Return Poisson counts."""
    return bl.arms.empirical(stats.poisson.ppf((np.arange(SAMPLE) + 0.5) / SAMPLE, mean))


def signs(rate: float) -> Arm:
    """Return outcomes that are 1 at a rate, otherwise -1."""
    return bl.arms.empirical(2 * rare(rate, np.ones_like).values - 1)


def lognormal(mean: float, sigma: float) -> Arm:
    """Return lognormal outcomes by their mean."""
    return bl.arms.lognormal(math.log(mean) - sigma**2 / 2, sigma)


def price(share: float) -> Arm:
    """Return revenue at one price."""
    return rare(share, lambda u: np.full(len(u), 9.99))


def raised(share: float) -> float:
    """Return the share of a better arm."""
    return 1.5 * share if share < 0.5 else 1 - 0.6 * (1 - share)


def by_share(kind: Callable[..., Arm], share: float, *more: float) -> Callable[[bool], Arm]:
    """Return what makes an arm, or a better one, of outcomes that a share decides."""
    return lambda better: kind(raised(share) if better else share, *more)


#: Outcomes by name: what makes an arm, or a better one.
OUTCOMES: dict[str, Callable[[bool], Arm]] = {
    **{f"0/1, {p}": by_share(bl.arms.bernoulli, p) for p in (0.005, 0.01, 0.05, 0.3, 0.7, 0.97)},
    **{f"revenue {p}, sigma {s}": by_share(spent, p, s) for p in (0.01, 0.03, 0.1, 0.3) for s in (1.0, 1.5)},
    **{f"gamma revenue {p}": by_share(gamma_spent, p, 1.0) for p in (0.03, 0.1, 0.3)},
    **{f"price 9.99, {p}": by_share(price, p) for p in (0.03, 0.1)},
    **{f"-1/1, {p}": by_share(signs, p) for p in (0.05, 0.3, 0.5)},
    **{f"counts, mean {m:g}": lambda better, m=m: counts(1.5 * m if better else m) for m in (0.1, 1.0)},
    **{f"lognormal, sigma {s}": lambda better, s=s: lognormal(1.3 if better else 1.0, s) for s in (1.0, 1.5)},
    "exponential": lambda better: bl.arms.exponential(1.3 if better else 1.0),
    "normal": lambda better: bl.arms.normal(0.3 if better else 0.0),
    "normal, 20 sd from 0": lambda better: bl.arms.normal(20.3 if better else 20.0),
}


def thompson(arm: Arm, floor: float = 0.02) -> Policy:
    """Return clipped Thompson sampling for such outcomes, with a wide prior."""
    if arm.binary:
        return bl.policies.thompson_beta(floor, 0.0)
    return bl.policies.thompson_normal(floor, 0.0, noise_sd=arm.sd, prior_sd=30 * arm.sd)


#: Policies by name, from an arm and the number of rows.
POLICIES: dict[str, Callable[[Arm, int], Policy]] = {
    "coin": lambda arm, rows: bl.policies.uniform(),
    "greedy": lambda arm, rows: bl.policies.epsilon_greedy(decay=0.5),
    "greedy .7": lambda arm, rows: bl.policies.epsilon_greedy(decay=0.7),
    "Thompson": lambda arm, rows: thompson(arm),
    "UCB": lambda arm, rows: bl.policies.ucb(decay=0.5, width=arm.sd),
    "greedy, batches": lambda arm, rows: bl.policies.epsilon_greedy(decay=0.5).batched(rows // 10),
    "Thompson, batches": lambda arm, rows: thompson(arm).batched(rows // 10),
}
DELAYS: dict[str, list] = {
    "none": [bl.delays.none()],
    "geometric": [bl.delays.geometric(20)],
    "Pareto": [bl.delays.pareto(0.75)],
    "a tenth never": [bl.delays.geometric(10).censored(0.1)],
    "half of the first never": [bl.delays.pareto(1.25), bl.delays.pareto(0.75).censored(0.5)],
}


class Experiment(NamedTuple):
    """A cell of the grid."""

    outcomes: str
    rows: int
    arms: int = 2
    policy: str = "coin"
    delays: str = "none"
    better: bool = False  # whether the first arm is better than the others

    @property
    def bandit(self) -> bl.Bandit:
        """The arms and their delays."""
        make, delays = OUTCOMES[self.outcomes], DELAYS[self.delays]
        first, other = make(self.better), make(False)
        late = {k: delays[-1 if k == 0 else 0] for k in range(self.arms)}
        return bl.Bandit({k: other if k else first for k in range(self.arms)}, late)

    @property
    def rule(self) -> Policy:
        """The policy."""
        return POLICIES[self.policy](OUTCOMES[self.outcomes](False), self.rows)

    @property
    def targets(self) -> dict[str, object]:
        """What is estimated."""
        weights = dict.fromkeys(range(self.arms), 1 / self.arms)
        return {"first arm": 0, "last arm": self.arms - 1, "contrast": (0, 1), "all arms": weights}

    def runs(self, most: int) -> int:
        """Return how many runs are affordable."""
        return most // 2 if self.arms > 5 or self.rows > 10_000 else most

    @property
    def line(self) -> str:
        """The beginning of its line."""
        means = "first better" if self.better else "equal"
        return f"| {self.outcomes} | {self.rows:,} | {self.arms} | {self.policy} | {self.delays} | {means} |"

    @property
    def text(self) -> str:
        """The same in a sentence."""
        return self.line.strip("| ").replace(" | ", "; ")


def grid() -> list[Experiment]:
    """Return the cells."""
    cells = []
    for share in (0.01, 0.03, 0.1, 0.3):
        name = f"revenue {share}, sigma"
        cells += [Experiment(f"{name} 1.0", rows) for rows in (100, 300, 1000)]
        cells += [Experiment(f"{name} 1.5", rows) for rows in (300, 1000)]
        cells += [
            Experiment(f"{name} 1.0", 1000, 2, "greedy", "a tenth never"),
            Experiment(f"{name} 1.0", 2000, 2, "greedy", "none", True),
            Experiment(f"{name} 1.0", 1000, 2, "Thompson"),
            Experiment(f"{name} 1.0", 1000, 5, "Thompson", "none", True),
            Experiment(f"{name} 1.5", 5000, 2, "greedy", "half of the first never", True),
            Experiment(f"{name} 1.5", 5000, 2, "Thompson", "geometric"),
            Experiment(f"{name} 1.0", 5000, 5, "UCB", "Pareto", True),
            Experiment(f"{name} 1.0", 1000, 2, "Thompson, batches", "a tenth never", True),
        ]
    cells += [Experiment("revenue 0.03, sigma 1.0", 20_000, 2, "greedy .7", "a tenth never", True)]
    cells += [
        Experiment("revenue 0.01, sigma 1.5", 20_000),
        Experiment("revenue 0.1, sigma 1.5", 20_000, 5, "Thompson"),
    ]
    others = {
        "gamma revenue 0.03": [(300,), (1000, 2, "Thompson", "a tenth never", True), (2000, 2, "UCB", "geometric")],
        "gamma revenue 0.1": [(1000, 5, "greedy", "none", True), (5000, 2, "greedy .7", "half of the first never")],
        "gamma revenue 0.3": [(100,), (1000, 5, "Thompson, batches")],
        "price 9.99, 0.03": [(300,), (1000, 2, "Thompson", "none", True), (5000, 5, "greedy .7", "Pareto")],
        "price 9.99, 0.1": [(100, 5), (400, 2, "greedy", "a tenth never")],
        "-1/1, 0.05": [(100,), (400, 2, "Thompson")],
        "-1/1, 0.3": [(300, 2, "greedy", "none", True), (1000, 5, "greedy, batches")],
        "-1/1, 0.5": [(100,)],
        "counts, mean 0.1": [(100,), (300, 2, "greedy .7"), (1000, 2, "Thompson", "a tenth never", True)],
        "counts, mean 1": [(100,), (300, 5, "greedy", "half of the first never", True), (5000, 2, "Thompson")],
        "lognormal, sigma 1.0": [
            (100,), (300, 2, "greedy"), (1000, 2, "Thompson", "none", True), (300, 5, "Thompson"),
            (5000, 5, "greedy .7", "half of the first never"),
        ],
        "lognormal, sigma 1.5": [
            (100,), (1000,), (1000, 2, "Thompson"), (1000, 5, "greedy", "none", True), (300, 2, "greedy .7"),
            (5000, 5, "UCB"), (5000, 2, "greedy", "a tenth never", True), (20_000, 2, "Thompson"),
        ],
        "exponential": [
            (100,), (300, 2, "greedy .7", "half of the first never"), (1000, 5, "Thompson"), (300, 5, "greedy"),
            (1000, 2, "greedy, batches", "geometric"), (5000, 5, "Thompson"),
        ],
        "normal": [
            (100,), (100, 5), (300, 2, "greedy"), (300, 5, "greedy .7", "half of the first never", True),
            (300, 2, "Thompson"), (1000, 5, "Thompson"), (1000, 2, "UCB", "Pareto"),
            (300, 5, "Thompson, batches", "a tenth never"), (20_000, 2, "greedy .7"),
        ],
        "normal, 20 sd from 0": [(400, 2, "greedy"), (1000, 5, "Thompson", "half of the first never", True)],
        "0/1, 0.005": [(100,), (300,), (1000,), (5000,), (20_000, 2, "Thompson", "none", True)],
        "0/1, 0.01": [(1000, 2, "Thompson", "a tenth never", True), (5000, 5, "greedy", "a tenth never", True)],
        "0/1, 0.05": [
            (100,), (300,), (300, 2, "greedy"), (1000, 2, "greedy .7", "half of the first never", True),
            (1000, 5, "Thompson", "none", True), (5000, 2, "UCB", "Pareto"),
        ],
        "0/1, 0.3": [
            (100,), (300, 2, "Thompson"), (300, 5, "greedy .7", "Pareto", True),
            (1000, 5, "UCB", "geometric", True), (100, 5, "Thompson"),
        ],
        "0/1, 0.7": [(100,), (1000, 2, "greedy, batches", "a tenth never"), (300, 5, "Thompson, batches")],
        "0/1, 0.97": [(100,), (1000,), (1000, 2, "Thompson", "none", True), (1000, 5, "greedy", "Pareto")],
    }  # fmt: skip
    cells += [Experiment(name, *each) for name, some in others.items() for each in some]
    many = [
        ("0/1, 0.005", 10_000), ("0/1, 0.01", 10_000, "coin", "a tenth never"), ("0/1, 0.05", 1000),
        ("0/1, 0.05", 10_000, "Thompson", "half of the first never"), ("0/1, 0.3", 100), ("0/1, 0.7", 1000, "Thompson"),
        ("revenue 0.03, sigma 1.0", 10_000), ("revenue 0.1, sigma 1.0", 10_000, "Thompson", "a tenth never"),
        ("gamma revenue 0.1", 1000), ("price 9.99, 0.03", 10_000, "coin", "a tenth never"),
        ("counts, mean 0.1", 1000), ("lognormal, sigma 1.0", 100), ("lognormal, sigma 1.5", 10_000),
        ("exponential", 1000, "greedy", "half of the first never"), ("normal", 100), ("normal", 1000, "greedy"),
        ("normal, 20 sd from 0", 100, "coin", "a tenth never"),
    ]  # fmt: skip
    return cells + [Experiment(name, rows, 34, *more) for name, rows, *more in many]


# ---------------------------------------------------------------- intervals


class Performance(NamedTuple):
    """What one kind of interval did for one target."""

    target: str
    kind: str
    coverage: float  # in percent, of the runs that have the interval
    given: int
    none: float  # percent of runs without it
    width: float  # the median


def performance(study: bl.Study, target: str, question: object, kind: str) -> Performance:
    """Return what a kind of interval did for a target."""
    cell = study.cell("daipw", question, kind)
    known = cell.replications >= FEWEST
    coverage, width = (100 * cell.coverage, np.nanmedian(cell.high - cell.low)) if known else (math.nan, math.nan)
    return Performance(target, kind, coverage, cell.replications, 100 * cell.missing / len(cell.low), float(width))


def percent(share: float) -> str:
    """Return a share as text; a dash if too few runs have an interval."""
    return "-" if math.isnan(share) else f"{share:.1f}"


def wider(t: Performance, score: Performance) -> float:
    """Return the width of `score` over that of `t`; NaN unless `t`, where `score` has an interval, holds in 94 %."""
    holds = score.given > 0 and t.given / score.given * t.coverage >= 94
    return score.width / t.width if holds else math.nan


def all_pairs_miss(study: bl.Study, arms: int) -> float:
    """Return how often one of the intervals of all pairs, simultaneous, missed."""
    statistics, means = study.statistics("daipw"), study.means
    pairs = list(itertools.combinations(range(arms), 2))
    tail, miss = joint_tail(np.ones(len(pairs)), None, 0.025), np.zeros(len(statistics.value), dtype=bool)
    with np.errstate(all="ignore"):
        for a, b in pairs:
            low, high = combine(statistics, np.eye(arms)[b] - np.eye(arms)[a], "score").limits(tail)
            miss |= (low > means[b] - means[a]) | (high < means[b] - means[a])
    return float(100 * miss.mean())


def table_of_intervals(cells: list[Experiment], most: int) -> tuple[list[tuple[Experiment, Performance]], list[str]]:
    """Print the table; return everything found, and the lines of the tests of contrasts."""
    everything, tests, levels = [], [], {0.8: [], 0.99: []}
    print("| outcomes | rows | arms | policy | delays | means | first arm | last arm | contrast | all arms | wilson "
          "| width | none |\n|:--|--:|--:|:--|:--|:--|--:|--:|--:|--:|--:|--:|--:|")  # fmt: skip
    for i, cell in enumerate(cells):
        study = bl.study(
            cell.bandit, cell.rule, cell.rows, cell.runs(most), estimators=["daipw"],
            targets=list(cell.targets.values()), seed=12_000 + i, progress=False,
        )  # fmt: skip
        binary = cell.outcomes.startswith("0/1")
        kinds = ("score", "t", "normal", *(("wilson",) if binary else ()))
        new = {(t, k): performance(study, t, q, k) for t, q in cell.targets.items() for k in kinds}
        everything += [(cell, each) for each in new.values()]
        for level in levels:
            view = study.viewed(level=level)
            levels[level] += [performance(view, t, q, "score").coverage for t, q in cell.targets.items()]
        shown = [" / ".join(percent(new[t, k].coverage) for k in kinds[:3]) for t in cell.targets]
        wilson = " / ".join(percent(new[t, "wilson"].coverage) for t in cell.targets) if binary else ""
        ratios = [wider(new[t, "t"], new[t, "score"]) for t in cell.targets]
        width = "" if np.isnan(ratios).all() else f"{np.nanmax(ratios):.2f}"
        none = max(new[t, "score"].none for t in cell.targets)
        print(f"{cell.line} {' | '.join(shown)} | {wilson} | {width} | {none:.1f} |", flush=True)
        contrast = new["contrast", "score"]
        wrong = (100 - contrast.coverage) * (1 - contrast.none / 100)
        pairs = f"{all_pairs_miss(study, cell.arms):.1f}" if cell.arms > 2 else ""
        tests.append(f"{cell.line} {wrong:.1f} | {pairs} |")
    print()
    for level, shares in levels.items():
        least, shares = 100 * level - (2 if level == 0.8 else 0.5), [s for s in shares if not math.isnan(s)]
        print(f"At {level:.0%}, `score` is below {least:g} % in {sum(s < least for s in shares)} of "
              f"{len(shares)} targets, the lowest {min(shares):.1f} %.")  # fmt: skip
    return everything, tests


def below(everything: list[tuple[Experiment, Performance]]) -> None:
    """Print the summary, and what is below 94 %."""
    by = {(cell, f.target, f.kind): f for cell, f in everything}

    def surely(f: Performance) -> bool:
        return bool(stats.binom.cdf(round(f.coverage / 100 * f.given), f.given, 0.94) < 0.01)

    print("\n## In short\n\n| | targets | below 94 % | refuted at 1 % | least |\n|:--|--:|--:|--:|--:|")
    targets = ("first arm", "last arm", "contrast", "all arms")
    for kind, target in itertools.product(("score", "t", "normal", "wilson"), targets):
        some = [f for _, f in everything if (f.target, f.kind) == (target, kind) and f.given >= FEWEST]
        low = [f for f in some if f.coverage < 94]
        if some:
            print(f"| `{kind}`, {target} | {len(some)} | {len(low)} | {sum(map(surely, low))} "
                  f"| {min(f.coverage for f in some):.1f} |")  # fmt: skip
    ratios = {
        (c, t): wider(by[c, t, "t"], by[c, t, "score"]) for c, t in dict.fromkeys((c, f.target) for c, f in everything)
    }
    single = {key: ratio for key, ratio in ratios.items() if not math.isnan(ratio)}
    whole = {  # of cells in which t holds for arms and contrast
        (c, t): r for (c, t), r in single.items() if not any(math.isnan(ratios[c, each]) for each in targets[:3])
    }
    print(f"\nIf `t` covers in 94 % for arms and contrast ({len({c for c, _ in whole})} cells, {len(whole)} targets) "
          f"`score` is {np.median(list(whole.values())):.2f} times as wide in the median, and more than 1.5 times for "
          f"{sum(r > 1.5 for r in whole.values())}. Over single targets for which it covers, such as contrasts of "
          f"equal arms whose means it misses ({len(single)} targets): {np.median(list(single.values())):.2f} times, "
          f"and more "
          f"than 1.5 times for {sum(r > 1.5 for r in single.values())}.")  # fmt: skip
    print("\nAll cases of `score` below 94 % (* if 94 % is rejected at the 1 % level):\n")
    for cell, f in everything:
        if f.kind == "score" and f.coverage < 94:
            print(f"- {f.coverage:.1f}{'*' if surely(f) else ''}: {f.target}; {cell.text}")
    print(WHY, end="")
    print("\n`score` more than 1.5 times as wide as `t` in cells where `t` covers for arms and contrast:\n")
    for (cell, target), ratio in whole.items():
        if ratio > 1.5:
            covers = " against ".join(f"{by[cell, target, kind].coverage:.1f} %" for kind in ("score", "t"))
            print(f"- {ratio:.2f}: {target} ({covers}); {cell.text}")


# ---------------------------------------------------------------- small logs


#: Outcomes, and settings, of logs of a few dozen rows; settings with five arms begin at 30 rows.
FEW = ["0/1, 0.05", "0/1, 0.3", "-1/1, 0.3", "counts, mean 1", "revenue 0.1, sigma 1.0", "normal",
       "normal, 20 sd from 0", "exponential", "lognormal, sigma 1.0", "lognormal, sigma 1.5"]  # fmt: skip
SETTINGS = [(2, "coin", "none"), (2, "greedy", "a tenth never"), (2, "Thompson", "none"), (5, "coin", "none")]


def small_logs(runs: int) -> None:
    """Print how often intervals from a few dozen rows miss."""
    print(f"\n## Small logs\n\nPercent of {runs:,} runs, of those with an interval, in which `score` misses at 95 % "
          "/ 99 %. Equal arms. Intervals of one arm's mean, and of the mean over all arms, miss too often if outcomes "
          "have a long tail, which a few outcomes do not show; those of contrasts hardly do, because the tails of two "
          "arms offset each other.\n")  # fmt: skip
    print("| outcomes | rows | arms | policy | delays | first arm | contrast | all arms |\n"
          "|:--|--:|--:|:--|:--|--:|--:|--:|")  # fmt: skip
    grid = [
        Experiment(name, rows, *setting)
        for name in FEW
        for setting in SETTINGS
        for rows in (10, 20, 30, 60)
        if rows >= 5 * setting[0]
    ]
    most: dict[tuple[str, str], tuple[float, float]] = {}
    for i, cell in enumerate(grid):
        targets = {name: q for name, q in cell.targets.items() if name != "last arm"}
        study = bl.study(
            cell.bandit, cell.rule, cell.rows, runs, estimators=["daipw"], targets=list(targets.values()),
            seed=14_000 + i, progress=False,
        )  # fmt: skip
        views = [study.viewed(level=level) for level in (0.95, 0.99)]
        missed = {t: [100 - performance(v, t, q, "score").coverage for v in views] for t, q in targets.items()}
        for target, (often, rarely) in missed.items():
            before = most.get((cell.outcomes, target), (0.0, 0.0))
            most[cell.outcomes, target] = float(np.fmax(before[0], often)), float(np.fmax(before[1], rarely))
        shown = [" / ".join(map(percent, shares)) for shares in missed.values()]
        print(f"{cell.line.rsplit(' | ', 1)[0]} | {' | '.join(shown)} |", flush=True)
    print("\nThe largest, by outcomes:\n\n| outcomes | first arm | contrast | all arms |\n|:--|--:|--:|--:|")
    for name in FEW:
        shown = [" / ".join(map(percent, most[name, target])) for target in ("first arm", "contrast", "all arms")]
        print(f"| {name} | {' | '.join(shown)} |")


# ---------------------------------------------------------------- decisions


#: Cells in which everything is asked of each log.
ASKED = [
    Experiment("revenue 0.03, sigma 1.0", 1000), Experiment("revenue 0.03, sigma 1.0", 300),
    Experiment("revenue 0.03, sigma 1.0", 2000, 5), Experiment("revenue 0.1, sigma 1.0", 1000, 5, "Thompson"),
    Experiment("revenue 0.1, sigma 1.0", 1000, 5, "greedy", "a tenth never", True),
    Experiment("revenue 0.03, sigma 1.0", 1000, 2, "Thompson", "none", True),
    Experiment("price 9.99, 0.03", 1000, 5), Experiment("lognormal, sigma 1.0", 300, 5, "Thompson"),
    Experiment("lognormal, sigma 1.5", 1000, 5), Experiment("exponential", 1000, 5, "greedy", "none", True),
    Experiment("normal", 300, 5, "Thompson"), Experiment("0/1, 0.05", 500, 5),
    Experiment("0/1, 0.05", 1000, 5, "Thompson", "half of the first never", True),
    Experiment("0/1, 0.3", 300, 2, "greedy"),
]  # fmt: skip


def decisions(cell: Experiment, runs: int, seed: int) -> str:
    """Return the shares of logs in which each decision is wrong."""
    bandit, rule = cell.bandit, cell.rule
    means = np.array([arm.mean for arm in bandit.arms.values()])
    wrong, asked = np.zeros(5), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.BelatedWarning)
        for r in range(runs):
            estimate = bl.estimate(bl.simulate(bandit, rule, cell.rows, seed, replication=r))
            try:
                best = estimate.best()
            except bl.OptionError:
                continue
            asked += 1
            to_first = estimate.contrasts(baseline=0, simultaneous=True).answers
            low, high = best.interval
            claimed = best.p_value < 0.05 and (means[best.arm] < means.max() or not cell.better)
            wrong += [
                any(a.low > means[k] - means[0] or a.high < means[k] - means[0] for k, a in enumerate(to_first, 1)),
                0 not in best.contenders,
                sum(best.p_values[k] <= 0.05 for k in range(cell.arms)) == cell.arms,
                claimed,
                not low <= means[best.arm] <= high,
            ]
    shares = " | ".join(f"{100 * w / max(asked, 1):.1f}" for w in wrong)
    return f"{cell.line} {shares} | {100 * (1 - asked / runs):.1f} |"


# ---------------------------------------------------------------- the page


HEAD = """# Coverage

The default interval `score`, compared with `t` and the paper's `normal`: how often a 95 % interval covers the true
value, and how often decisions based on it are wrong. `daipw` on simulated logs; {runs:,} runs in each cell (Monte
Carlo error
{error:.1f} points), half as many with 34 arms and with 20,000 rows. {made_by}

Outcomes: `revenue p` is 0, or with probability p lognormal of mean 50 with that sigma; `gamma revenue` the same with
exponential amounts; `price` is 0 or 9.99, `-1/1` is a rate in another coding, `counts` are Poisson. Distributions
that `bl.arms` does not have are drawn from {sample:,} quantiles, whose mean is exact. If the `first` arm is `better`,
it has 1.5 times the
probability or the mean count (0.6 times the failures above a half), 1.3 times the lognormal or exponential mean, or 0.3
standard deviations more. Policies: `greedy` is epsilon-greedy with t^-0.5 (`.7`: t^-0.7), `Thompson` is clipped at 0.02
with a wide prior, `UCB` explores with t^-0.5, `batches` are ten. Delays: geometric of mean 20 steps, Pareto of exponent
0.75; "a tenth never" is geometric of mean 10 and a tenth of all outcomes never arrives; in the last kind, half of the
first arm's outcomes never arrive, and its delays are longer.

**Not covered**: tails heavier than lognormal with sigma 1.5 (cap those), contexts, drifting means, wrongly logged
propensities, arrival that depends on the outcome, outcome models given by users, arms whose outcomes are
constant by nature, several arms that differ, other estimators than `daipw`. Coverage is over
logs: among logs with some property (an arm with only zeros, for example), it can be higher or lower.

## Intervals

Coverage in percent of `score` / `t` / `normal`, for the `first arm`, the `last arm`, the `contrast` of the first two,
and `all arms` with equal weight, among the runs that have the interval. `t` and `normal` have no interval for an arm
whose outcomes are all equal, so their coverage is over the more favourable runs. `score` has none only if all
outcomes of the log are equal or an arm has fewer than two. A dash means that fewer than {fewest} runs have an
interval. `wilson` is the coverage of that interval, for 0/1 outcomes, for the four targets. `width` is the largest
ratio, over the four targets, of the median widths of `score` and `t`, if `t` covers in at least 94 % of the runs that
have a `score` interval. `none` is the percentage of runs without a `score` interval, the maximum over the targets.
"""

WHY = """
Reasons: under Thompson sampling, estimates are slightly too low, because an arm that starts badly is hardly tried
again. With five arms, this is a quarter of each arm's standard deviation, which its interval tolerates, and 0.6 of
the standard deviation of the mean over all arms; `t` has the same problem. It is mostly the bias of the estimate,
which no interval around it can correct. With revenue 0.01 and sigma 1.5, 300 rows have three purchases, and none of
the large ones.
"""


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=4000)
    parser.add_argument("--logs", type=int, default=500, help="Logs in each cell of the last table.")
    parser.add_argument("--first", type=int, help="Only so many cells.")
    parser.add_argument("--small", action="store_true", help="Only the section on small logs.")
    options = parser.parse_args()
    runs = options.replications
    if options.small:
        small_logs(runs)
        return
    error = 100 * (0.95 * 0.05 / runs) ** 0.5
    print(HEAD.format(runs=runs, error=error, sample=SAMPLE, fewest=FEWEST, made_by=made_by()))
    everything, tests = table_of_intervals(grid()[: options.first], runs)
    below(everything)
    print("\n## Tests\n\nPercent of runs in which the contrast of the first two arms excludes the true value (its "
          "p-value against the true value is then below 0.05), and in which any of all pairs does with `simultaneous`. "
          "Runs without an interval exclude nothing.\n")  # fmt: skip
    print(
        "| outcomes | rows | arms | policy | delays | means | contrast | any pair |\n|:--|--:|--:|:--|:--|:--|--:|--:|"
    )
    print("\n".join(tests))
    small_logs(runs)
    print(f"\n## Which arm is best\n\nAll decisions for {options.logs:,} logs in each cell (Monte Carlo error "
          f"{100 * (0.95 * 0.05 / options.logs) ** 0.5:.1f} points). Percent of logs in which a simultaneous interval "
          "against the first arm misses; the contenders do not include the best arm (the first if several are equal); "
          "there are no contenders; `best().p_value` is below 0.05 although the arm is not the only best; "
          "`best().interval` misses the mean of its arm; and in which no arm had an interval (these "
          "count in no other column).\n")  # fmt: skip
    print("| outcomes | rows | arms | policy | delays | means | any contrast | best left out | all left out "
          "| wrong best | interval misses | none |\n|:--|--:|--:|:--|:--|:--|--:|--:|--:|--:|--:|--:|")  # fmt: skip
    for i, cell in enumerate(ASKED[: options.first]):
        print(decisions(cell, options.logs, 13_000 + i), flush=True)


if __name__ == "__main__":
    main()
