"""Coverage of the default interval when the policy decides only a few times: five batches of many rows.

python benchmarks/batches.py > benchmarks/BATCHES.md      # some minutes
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass, fields

import numpy as np
from made_by import made_by
from winner import DEFAULT, selected

import belated as bl
from belated.estimation.estimators import ArmStatistics, Moments, evaluate
from belated.estimation.intervals import combine

BATCHES = 5
FAMILIES = [("normal", 0.0, 0.5), ("binary", 0.05, 0.05), ("exponential", 1.0, 0.5)]
POLICIES = [("eps-greedy", 0.2), ("eps-greedy", 0.04), ("Thompson", 0.02)]


@dataclass(frozen=True)
class Setting:
    """What is simulated; `floor` is the least that the policy leaves to the other arms."""

    arms: int
    policy: str
    floor: float
    family: str
    base: float
    margin: float
    rows: int

    @property
    def means(self) -> np.ndarray:
        """The arms' means: the first is better by the margin."""
        means = np.full(self.arms, self.base)
        means[0] += self.margin
        return means

    @property
    def seeds(self) -> list[int]:
        """What tells this setting's random numbers from others'."""
        hundredths = int(100 * self.base), int(100 * self.margin)
        return [self.arms, int(1000 * self.floor), len(self.family), *hundredths, self.rows]


def outcomes(rng: np.random.Generator, family: str, means: np.ndarray) -> np.ndarray:
    """Draw an outcome for each mean."""
    if family == "normal":
        return rng.normal(means)
    return (rng.random(len(means)) < means) * 1.0 if family == "binary" else rng.exponential(means)


def decide(rng: np.random.Generator, policy: str, floor: float, count: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return the next batch's probabilities, the least of them the floor (eps-greedy: eps over the other arms)."""
    arms = len(count)
    average = total / np.maximum(count, 1)
    if policy == "eps-greedy":
        p = np.full(arms, floor / (arms - 1))
        p[np.argmax(average)] = 1 - floor
        return p
    draws = rng.normal(average, 1 / np.sqrt(count + 1), size=(500, arms))
    p = np.bincount(np.argmax(draws, axis=1), minlength=arms) / 500
    return floor + (1 - arms * floor) * p


def simulated_log(rng: np.random.Generator, setting: Setting) -> bl.Log:
    """Run five batches: a third of the outcomes come one batch late, a tenth never."""
    arms, rows, means = setting.arms, setting.rows, setting.means
    p = np.full(arms, 1 / arms)
    late_count, late_total = np.zeros(arms), np.zeros(arms)
    count, total = np.zeros(arms), np.zeros(arms)
    arm = np.empty((BATCHES, rows), dtype=int)
    y, late, shares = np.empty((BATCHES, rows)), np.empty((BATCHES, rows)), np.empty((BATCHES, arms))
    for b in range(BATCHES):
        shares[b] = p
        arm[b] = np.minimum(np.searchsorted(np.cumsum(p), rng.random(rows), side="right"), arms - 1)
        y[b] = outcomes(rng, setting.family, means[arm[b]])
        u = rng.random(rows)
        late[b] = np.where(u < 0.1, np.inf, np.where(u < 0.4, 1.5, 0.5))  # in batches; the next starts 1 later
        count, total = count + late_count, total + late_total
        now, then = late[b] == 0.5, late[b] == 1.5
        count = count + np.bincount(arm[b][now], minlength=arms)
        total = total + np.bincount(arm[b][now], y[b][now], minlength=arms)
        late_count = np.bincount(arm[b][then], minlength=arms)
        late_total = np.bincount(arm[b][then], y[b][then], minlength=arms)
        p = decide(rng, setting.policy, setting.floor, count, total)
    y[np.isinf(late)] = np.nan
    start = np.repeat(np.arange(BATCHES, dtype=float), rows)
    propensity = np.repeat(shares, rows, axis=0)
    return bl.Log(
        arm.ravel(), y.ravel(), propensity, arms=range(arms), assigned_at=start, delay=late.ravel(), as_of=5.0
    )


def cell(setting: Setting, runs: int, seed: int = 0) -> tuple:
    """Return coverage of the contrast by the default and the paper's interval, of both arms, of the winner."""
    means = setting.means
    rng = np.random.default_rng([*setting.seeds, seed] if seed else setting.seeds)
    daipw = bl.ESTIMATORS["daipw"]
    by_run = [evaluate(bl.Sums.of(simulated_log(rng, setting), *daipw.parts), daipw) for _ in range(runs)]
    parts = {f.name: np.array([getattr(each, f.name) for each in by_run]) for f in fields(ArmStatistics)}
    moments = Moments(*(np.array(each) for each in zip(*(each.moments for each in by_run), strict=True)))
    statistics = ArmStatistics(**parts | {"moments": moments, "shared": None, "common": None})
    first, second = np.eye(setting.arms)[:2]
    held = []
    for coefficients, paper in ((first - second, False), (first - second, True), (first, False), (second, False)):
        truth = coefficients @ means
        low, high = combine(statistics, coefficients, "normal" if paper else DEFAULT).limits(0.025)
        held.append(100 * ((low <= truth) & (truth <= high))[np.isfinite(low)].mean())
    winner = selected(statistics, means)
    return (*held, 100 * winner["reported"].mean(), winner["width"].max())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--rows", type=int, nargs="+", default=[200])
    options = parser.parse_args()
    runs = options.replications
    print("# Five batches\n\nThe policy decides four times; its probabilities are constant within a batch. A third of "
          "the outcomes arrive one batch late, a tenth never. 95 % coverage of the default interval of the contrast of "
          "the first two arms, of the paper's interval, of the two arms' means, and of the mean of the arm with the "
          "largest estimate (`Estimate.best`); `margin` is the lead of the first arm. `floor` is the probability of "
          "all other arms together under eps-greedy, or the minimum for each arm under Thompson. "
          f"{runs:,} replications (Monte Carlo error {100 * (0.95 * 0.05 / runs) ** 0.5:.1f} points).\n\n"
          f"{made_by()}\n")  # fmt: skip
    print("| rows a batch | arms | policy | floor | outcomes | margin | contrast | paper's | arm 0 | arm 1 | winner |")
    print("|--:|--:|:--|--:|:--|--:|--:|--:|--:|--:|--:|")
    lowest, widest = [], 0.0
    for rows, arms, (policy, floor), (family, base, gain) in itertools.product(
        options.rows, (2, 5), POLICIES, FAMILIES
    ):
        for margin in (0.0, gain):
            setting = Setting(arms=arms, policy=policy, floor=floor, family=family, base=base, margin=margin, rows=rows)
            *figures, wide = cell(setting, runs)
            lowest.append((figures[0], figures[4]))
            if figures[0] <= min(lowest)[0]:
                worst = setting
            widest = max(widest, wide)
            name = family if family != "binary" else f"binary, {base}"
            shown = " | ".join(f"{f:.1f}" for f in figures)
            print(f"| {rows} | {arms} | {policy} | {floor} | {name} | {margin} | {shown} |", flush=True)
    low = np.min(lowest, axis=0)
    again = cell(worst, 4 * runs, seed=1)
    print(f"\nLowest: contrast {low[0]:.1f}, winner {low[1]:.1f}. "
          f"The lowest contrast again, {4 * runs:,} other runs: {again[0]:.1f}. "
          f"Largest ratio of the widths of the hybrid and the simultaneous interval: {widest:.2f}.")  # fmt: skip


if __name__ == "__main__":
    main()
