"""Coverage, bias and width of the answers to events whose windows are still open, beside closed windows only.

python benchmarks/maturing.py > benchmarks/MATURING.md      # 40 minutes on one core; --runs 100 for a first look
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple
from zlib import crc32

import numpy as np
from made_by import made_by

import belated as bl
from belated.simulation.performance import Performance

#: A day has so many assignments, and the experiment so many days.
DAY, DAYS = 200, 20

RATES = (0.01, 0.03, 0.1, 0.3)

PAGE = """# Events whose windows are open: coverage, bias and width

{made_by} {runs:,} runs a row, in one process, so that chance moves
95 % by about {error:.1f} points. {rows:,} assignments in {days} days, two arms; events of B are 1.2 times as likely as
those of A (`rate`) and come later: delays are geometric, with a mean of a fifth of the window for A and half of it for
B. Policies decide once a day from the events so far: epsilon-greedy explores 30 %, Thompson sampling has a floor of
10 %. `as of` is the day of the analysis: one day after the first window closes, and later.

95 % score intervals of `dipw`. `A`, `B` and `B - A` are their coverage in percent, bias and sd those of B - A, and
width is the median width of its interval; `closed` are the same if only closed windows count, and `ratio` is the
width of the former over that of the latter. An interval that does not exist counts as infinitely wide."""


class Case(NamedTuple):
    """A row of a table."""

    measure: str
    rate: float
    window: int  # in days
    as_of: int  # in days
    policy: str

    def bandit(self) -> bl.Bandit:
        """Return two arms of events, the second with more events, which come later."""
        value = bl.arms.lognormal(0.0, 1.0) if self.measure == "sum" else None
        repeats = 1.0 if self.measure == "count" else 0.0
        steps = self.window * DAY
        return bl.Bandit(
            {
                "A": bl.arms.events(self.rate, value=value, repeats=repeats),
                "B": bl.arms.events(1.2 * self.rate, value=value, repeats=repeats),
            },
            {"A": bl.delays.geometric(steps / 5), "B": bl.delays.geometric(steps / 2)},
            window=steps,
            measure=self.measure,  # type: ignore[arg-type]
        )

    def rule(self) -> bl.policies.Policy:
        """Return the policy, which decides once a day."""
        if self.policy.startswith("greedy"):
            rule = bl.policies.epsilon_greedy(c=0.3, decay=0.0, burn_in=DAY)
        elif self.measure == "indicator":
            rule = bl.policies.thompson_beta(c=0.1, decay=0.0, burn_in=DAY)
        else:
            sd = self.bandit().outcomes["A"].sd
            rule = bl.policies.thompson_normal(c=0.1, decay=0.0, noise_sd=sd, prior_sd=sd, burn_in=DAY)
        rule = rule.batched(DAY)
        return rule.matured() if self.policy.endswith("matured") else rule

    def results(self, runs: int, maturing: bool) -> list[Performance]:
        """Return how both arms and the contrast were answered in the runs."""
        targets = ["A", "B", ("B", "A")]
        days = min(self.as_of, DAYS)
        study = bl.study(
            self.bandit(), self.rule(), days * DAY, runs, estimators=["dipw"], intervals=["score"], targets=targets,
            wait=(self.as_of - days) * DAY, maturing=maturing, workers=1, progress=False,
            seed=crc32(repr(self).encode()),
        )  # fmt: skip
        return [study.cell("dipw", target) for target in targets]


def looks(window: int) -> tuple[int, int]:
    """Return the days of analysis: the day after the first window closes, and half a window later, or at the end."""
    return window + 1, max(window + window // 2, DAYS)


def cases(measure: str, policies: Iterable[str], rates: Iterable[float] = RATES) -> Iterator[Case]:
    """Return the rows of a table."""
    for rate, window, policy in product(rates, (DAYS // 2, DAYS), policies):
        for as_of in looks(window):
            yield Case(measure, rate, window, as_of, policy)


HEAD = (
    "| rate | window | as of | policy | A | B | B - A | bias | sd | width "
    "| closed: B - A | bias | sd | width | ratio |",
    "|--:|--:|--:|---|" + "--:|" * 11,
)


def row(case: Case, runs: int) -> tuple[str, list[float]]:
    """Return a row of a table, and the coverage of both arms and the contrast."""
    matured, closed = case.results(runs, True), case.results(runs, False)
    widths = [median_width(results[-1]) for results in (matured, closed)]
    shares = [100 * result.coverage for result in matured]
    said = [f"{case.rate:g}", f"{case.window} d", f"day {case.as_of}", case.policy, *(f"{s:.1f}" for s in shares)]
    for results, width in zip((matured, closed), widths, strict=True):
        said += [f"{100 * results[-1].coverage:.1f}"] if results is closed else []
        said += [f"{results[-1].bias:+.2g}", f"{results[-1].sd:.3g}", f"{width:.3g}"]
    return f"| {' | '.join([*said, f'{widths[0] / widths[1]:.2f}'])} |", shares


def median_width(result: Performance) -> float:
    """Return the median width of the intervals; an interval that does not exist is infinitely wide."""
    return float(np.median(np.nan_to_num(result.high - result.low, nan=math.inf)))


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    error = 100 * math.sqrt(0.95 * 0.05 / runs)
    print(PAGE.format(made_by=made_by(), runs=runs, error=error, rows=DAY * DAYS, days=DAYS))
    shares: list[float] = []
    tables = {
        "Whether there is an event": list(cases("indicator", ("greedy", "Thompson"))),
        "The number of events, 2 on average if there is one": list(cases("count", ("greedy", "Thompson"))),
        "The sum of lognormal values": list(cases("sum", ("greedy", "Thompson"))),
        "Policies that learn from the maturing estimate: whether there is an event": list(
            cases("indicator", ("greedy, matured", "Thompson, matured"), (0.03, 0.1))
        ),
    }
    for title, rows in tables.items():
        print(f"\n## {title}\n", *HEAD, sep="\n", flush=True)
        for case in rows:
            text, own = row(case, runs)
            shares += own
            print(text, flush=True)
    below = sum(share < 94 for share in shares)
    print(
        f"\nOf {len(shares)} intervals in these tables, {below} cover less than 94.0 %; the least is {min(shares):.1f} "
        f"%, the median {np.median(shares):.1f} %."
    )


if __name__ == "__main__":
    main()
