"""Coverage of standardised, segment and policy answers under policies that look at the segment.

python benchmarks/segments.py > benchmarks/SEGMENTS.md      # about an hour on two cores; --runs 100 for a first look
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import NamedTuple

import numpy as np
from intervals import spent, thompson
from made_by import made_by

import belated as bl
from belated.estimation.estimate import Estimate
from belated.estimation.estimators import ESTIMATORS
from belated.simulation.arms import Arm

LEVEL = 0.95

PAGE = """# Segments and covariates: coverage, in percent

{made_by} Policies learn in each segment on its own. Means, delays
(Pareto) and the share of outcomes that never arrive (0 to 60 %) differ by segment and arm. 95 % score intervals, daipw,
{runs:,} runs a row, so that chance moves 95 % by about {error:.1f} points.

`contrast` is the last arm minus the first, `in segments` the average over segments, `greedy` the best arm of each
segment as estimated, `differ` how often heterogeneity is found, `width` the median width of the contrast, and `merged`
the share of runs in which small segments were merged (then there is no policy by segment). Not in it: outcomes with
longer tails, means that drift, covariates that predict arrival."""

#: Outcomes by name: from a number that grows with the mean, in [0, 1], to an arm.
OUTCOMES: dict[str, Callable[[float], Arm]] = {
    "normal": lambda u: bl.arms.normal(u),
    "0/1, .03": lambda u: bl.arms.bernoulli(0.03 * (1 + u)),
    "0/1, .1": lambda u: bl.arms.bernoulli(0.1 * (1 + u)),
    "0/1, .5": lambda u: bl.arms.bernoulli(0.4 + 0.2 * u),
    "revenue .1": lambda u: spent(0.1 * (1 + u / 2), 1.0),
}


class Cell(NamedTuple):
    """A cell of the grid."""

    outcomes: str
    segments: int
    arms: int
    policy: str
    rows: int
    slope: float = 0.0  # of a covariate
    covariates: int = 0  # that the estimate is adjusted for; those after the first are useless
    same: bool = False  # whether arms are alike in all segments, so that effects do not differ

    def bandit(self) -> bl.ContextualBandit:
        """Return arms, delays and shares that differ by segment and arm, the same in every run."""
        rng = np.random.default_rng([self.segments, self.arms])
        level, never = rng.random((2, self.segments, self.arms))
        if self.same:
            level[:] = level[0]
        late = [bl.delays.pareto(1.0 + k / 4) for k in range(self.arms)]
        segments = {
            f"s{s}": bl.Bandit(
                {k: OUTCOMES[self.outcomes](level[s, k]) for k in range(self.arms)},
                {k: late[k].censored(0.6 * never[s, k]) for k in range(self.arms)},
            )
            for s in range(self.segments)
        }
        shares = rng.dirichlet(np.full(self.segments, 4.0))
        x = {f"x{i}": bl.arms.normal(0.0, 1.0) for i in range(max(self.covariates, 1 if self.slope else 0))}
        return bl.ContextualBandit(
            segments,
            shares=dict(zip(segments, shares, strict=True)),
            covariates=x,
            slopes={"x0": self.slope} if self.slope else {},
        )

    def rule(self) -> bl.policies.Policy:
        """Return the policy, which learns in each segment on its own."""
        if self.policy == "greedy":
            return bl.policies.epsilon_greedy(decay=0.4)
        return thompson(OUTCOMES[self.outcomes](0.5), floor=0.05 if self.arms < 5 else 0.03).batched(10)


@cache
def bandit_of(cell: Cell) -> bl.ContextualBandit:
    """Return the bandit of a cell, made once."""
    return cell.bandit()


class Run(NamedTuple):
    """What one run shows: for each question whether it was covered (NaN: no interval), and the contrast's width."""

    arm: float
    contrast: float
    segments: float
    policy: float
    greedy: float
    differ: float  # whether heterogeneity was found
    width: float
    merged: float


def covered(answer: bl.Answer, truth: float) -> float:
    """Return 1 if the interval has the truth, 0 if not, NaN if there is none."""
    return math.nan if math.isnan(answer.low) else float(answer.low <= truth <= answer.high)


def run(cell: Cell, replication: int) -> Run:
    """Simulate and estimate once."""
    bandit = bandit_of(cell)
    log = bl.simulate(bandit, cell.rule(), cell.rows, seed=1, replication=replication)
    if cell.slope and not cell.covariates:
        log = log.without_covariates()
    estimator = ESTIMATORS["daipw"]
    sums = log.sums([estimator.parts], plain=False)[0][-1]
    est = Estimate(sums=sums, estimator=estimator, level=LEVEL, interval="score")
    truth, mean = bandit.means, bandit.means_by_segment
    last, first = cell.arms - 1, 0
    contrast = est.contrast(last, first)
    own = [
        covered(est.segment(s).contrast(last, first), mean[s][last] - mean[s][first]) for s in est.segments if s in mean
    ]
    policy = greedy = math.nan
    merged = set(est.segments) != set(mean)
    if not merged:
        shares = dict(zip(bandit.labels, bandit.mix, strict=True))
        choice = {s: i % cell.arms for i, s in enumerate(mean)}
        policy = covered(est.policy(choice), sum(shares[s] * mean[s][a] for s, a in choice.items()))
        best = {s: int(np.argmax(est.segment(s).values)) for s in mean}
        greedy = covered(est.policy("greedy"), sum(shares[s] * mean[s][a] for s, a in best.items()))
    return Run(
        arm=covered(est.arm(first), truth[first]),
        contrast=covered(contrast, truth[last] - truth[first]),
        segments=float(np.nanmean(own)) if own else math.nan,
        policy=policy,
        greedy=greedy,
        differ=float(est.heterogeneity(last, first).p_value < 1 - LEVEL),
        width=contrast.high - contrast.low,
        merged=float(merged),
    )


def runs(cell: Cell, start: int, stop: int) -> list[Run]:
    """Return several runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [run(cell, replication) for replication in range(start, stop)]


class Merged(NamedTuple):
    """Small segments, of two kinds by turns, that are merged: outcomes of the first kind are lower and arrive less."""

    segments: int
    rows: int
    arrive: tuple[float, float]  # of each kind
    means: tuple[tuple[float, float], tuple[float, float]]  # of each kind and arm

    def bandit(self) -> bl.ContextualBandit:
        """Return the segments, all of the same size."""
        return bl.ContextualBandit(
            {
                f"s{s:03d}": bl.Bandit(
                    {k: bl.arms.normal(mean) for k, mean in enumerate(self.means[s % 2])},
                    bl.delays.poisson(5).censored(1 - self.arrive[s % 2]),
                )
                for s in range(self.segments)
            }
        )


#: Two segments with opposite effects; then many small ones, whose outcomes arrive differently or alike.
MERGED = [
    Merged(2, 600, (0.6, 1.0), ((1.0, 0.0), (0.0, 1.0))),
    Merged(12, 200, (0.4, 1.0), ((0.0, 0.0), (1.0, 0.8))),
    Merged(40, 600, (0.4, 1.0), ((0.0, 0.0), (1.0, 0.8))),
    Merged(100, 600, (0.4, 1.0), ((0.0, 0.0), (1.0, 0.8))),
    Merged(60, 3_000, (0.4, 1.0), ((0.0, 0.0), (1.0, 0.8))),
    Merged(40, 600, (0.7, 0.7), ((0.0, 0.0), (1.0, 0.8))),
    Merged(100, 600, (0.7, 0.7), ((0.0, 0.0), (1.0, 0.8))),
]


def merged_runs(cell: Merged, start: int, stop: int) -> list[list[float]]:
    """Return, for each run in which segments were merged, what was covered, with which width.

    That is for arrival as estimated, as if all outcomes arrived alike, and as it is: arms, contrast and its width.
    """
    bandit, estimator = cell.bandit(), ESTIMATORS["daipw"]
    rule = thompson(bl.arms.normal(0.5), floor=0.02 if cell.segments == 2 else 0.05).pooled()
    mean, results = bandit.means, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for replication in range(start, stop):
            log = bl.simulate(bandit, rule, cell.rows, seed=1, replication=replication)
            column = log.segment_column
            if not log.layout.merged or column is None:
                continue
            known = np.array([cell.arrive[int(str(label)[1:]) % 2] for label in column.labels])[column.code]
            one = []
            for each in (log, log.with_arrival(np.ones(len(known))), log.with_arrival(known)):
                sums = each.sums([estimator.parts], plain=False)[0][-1]
                est = Estimate(sums=sums, estimator=estimator, level=LEVEL, interval="score")
                contrast = est.contrast(1, 0)
                one += [covered(est.arm(0), mean[0]), covered(est.arm(1), mean[1])]
                one += [covered(contrast, mean[1] - mean[0]), contrast.high - contrast.low]
            results.append(one)
    return results


def merged_table(pool: ProcessPoolExecutor, many: int) -> None:
    """Print the table of small segments."""
    print("\n## Small segments that are merged\n")
    print("Thompson sampling that does not look at segments, of two kinds by turns. Only runs in which segments were")
    print("merged. `width` is that of the contrast over the width with the true `arrival_probability=`.\n")
    asked = " | ".join(
        f"{question}, {how}" for how in ("estimated", "as if alike", "known") for question in ("A", "B", "B - A")
    )
    print(f"| S | rows | arrive | runs | {asked} | width |")
    print("|--:|--:|---|--:|" + "--:|" * 10)
    for cell in MERGED:
        parts = [pool.submit(merged_runs, cell, at, min(at + 50, many)) for at in range(0, many, 50)]
        each = np.array([one for part in parts for one in part.result()])
        shares = " | ".join(f"{100 * np.nanmean(each[:, at]):.1f}" for at in (0, 1, 2, 4, 5, 6, 8, 9, 10))
        arrive = " and ".join(f"{100 * share:.0f} %" for share in dict.fromkeys(cell.arrive))
        width = np.nanmedian(each[:, 3] / each[:, 11])
        print(f"| {cell.segments} | {cell.rows:,} | {arrive} | {len(each)} | {shares} | {width:.2f} |", flush=True)


def table(title: str, cells: list[Cell], pool: ProcessPoolExecutor, many: int) -> dict[Cell, np.ndarray]:
    """Print a table of cells, and return what each shows."""
    print(f"\n## {title}\n")
    asked = "arm | contrast | in segments | policy by segment | greedy | differ | width | merged"
    print(f"| outcomes | S | K | policy | rows | {asked} |")
    print("|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    results = {}
    for cell in cells:
        parts = [pool.submit(runs, cell, at, min(at + 50, many)) for at in range(0, many, 50)]
        each = np.array([one for part in parts for one in part.result()])
        results[cell] = each
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean = np.nanmean(each, axis=0)
        shares = " | ".join("–" if math.isnan(x) else f"{100 * x:.1f}" for x in mean[:6])
        width = float(np.nanmedian(each[:, 6]))
        what = f"{cell.outcomes} | {cell.segments} | {cell.arms} | {cell.policy} | {cell.rows:,}"
        print(f"| {what} | {shares} | {width:.3g} | {100 * mean[7]:.0f} % |", flush=True)
    return results


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    error = 100 * math.sqrt(LEVEL * (1 - LEVEL) / options.runs)
    print(PAGE.format(runs=options.runs, error=error, made_by=made_by()))
    grid = [
        Cell(outcomes, s, k, policy, rows)
        for outcomes in OUTCOMES
        for s, k, rows in ((2, 2, 1_000), (3, 3, 3_000), (10, 2, 10_000), (10, 5, 10_000))
        for policy in ("greedy", "Thompson")
    ]
    with ProcessPoolExecutor(options.workers) as pool:
        table("Policies by segment", grid, pool, options.runs)
        alike = [Cell(o, s, 2, p, 3_000, same=True) for o in OUTCOMES for s in (3, 10) for p in ("greedy", "Thompson")]
        table("Effects that do not differ: `differ` should be at most 5", alike, pool, options.runs)
        base = [Cell("normal", 3, 2, p, rows, slope=1.0) for rows in (1_000, 3_000) for p in ("greedy", "Thompson")]
        plain = table("A covariate that explains half of the variance, ignored", base, pool, options.runs)
        better = table("The same, adjusted for", [cell._replace(covariates=1) for cell in base], pool, options.runs)
        ratios = [np.nanmedian(better[c._replace(covariates=1)][:, 6]) / np.nanmedian(plain[c][:, 6]) for c in base]
        print(f"\nWidths over those without: {', '.join(f'{r:.2f}' for r in ratios)}.")
        none = [Cell("normal", 3, 2, "greedy", 1_000)]
        without = table("No covariate", none, pool, options.runs)
        useless = [none[0]._replace(covariates=n) for n in (1, 5, 20)]
        many = table("Useless covariates: 1, 5, 20", useless, pool, options.runs)
        ratios = [np.nanmedian(many[c][:, 6]) / np.nanmedian(without[none[0]][:, 6]) for c in useless]
        print(f"\nWidths over that without: {', '.join(f'{r:.2f}' for r in ratios)}.")
        merged_table(pool, options.runs)


if __name__ == "__main__":
    main()
