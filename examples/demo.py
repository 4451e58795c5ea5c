"""Four subject lines, chosen by an algorithm, with purchases that come late: one experiment, then a thousand.

Every two minutes a customer gets an e-mail. Thompson sampling chooses the subject line by the purchases known so far,
and keeps a minimum probability for every line. Whether a customer buys is known days later, later for some lines than
for others, and for one customer in ten it is never known.
"""

from __future__ import annotations

import csv
import datetime as dt
import math
import sys
from pathlib import Path

import duckdb
import numpy as np

import belated as bl
from belated.estimation.target import Target
from belated.kernels.moments import ARRIVED, ASSIGNED

TRUTH = {"Plain": 0.10, "Question": 0.12, "Emoji": 0.08, "Your name": 0.15}
DAY = 720  # steps of two minutes
STEPS = 28 * DAY
DELAYS = {
    "Plain": bl.delays.geometric(1 * DAY).censored(0.1),
    "Question": bl.delays.geometric(3 * DAY).censored(0.1),
    "Emoji": bl.delays.geometric(0.5 * DAY).censored(0.1),
    "Your name": bl.delays.geometric(9 * DAY).censored(0.1),
}
BANDIT = bl.Bandit({line: bl.arms.bernoulli(rate) for line, rate in TRUTH.items()}, DELAYS)
POLICY = bl.policies.thompson_beta(c=1.0, decay=0.35, burn_in=0.05)
START = dt.datetime(2026, 2, 2, 8, 0)

EQUAL = bl.Bandit(dict.fromkeys(TRUTH, bl.arms.bernoulli(0.10)), DELAYS)
HASTY = bl.policies.thompson_beta(c=1.0, decay=0.5, burn_in=0.01)
RUNS = 1000


def main(folder: Path) -> None:
    """Run the experiment once, as a user would, then often enough to see which intervals can be trusted."""
    folder.mkdir(exist_ok=True)
    once(folder)
    print(f"\nThe same experiment, {RUNS:,} times: how often does each 95% interval hold the truth?")
    runs = repeat(BANDIT, POLICY)
    print_coverage(runs)
    print_winners(runs)
    print(
        "Counting so far treats an unknown outcome as no purchase: the slower the line, the larger the error.\n"
        "The usual AIPW replaces unknown outcomes by its own predictions: its intervals are too narrow.\n"
        "The mean of what arrived works here, where one line is clearly better. It does not always work:"
    )
    print(f"\nFour equally good lines, and an algorithm that soon drops what looks bad, {RUNS:,} times:")
    print_coverage(repeat(EQUAL, HASTY))
    print(
        "A line that is unlucky at first is sent less often, so its mean stays low. belated weights e-mails by the\n"
        "probability with which their line was chosen. (In 1,000 runs, chance moves 95% by about 1.4 points.)"
    )


def once(folder: Path) -> None:
    """Simulate one experiment, write its tables, and analyse them."""
    sent, bought = folder / "sent.parquet", folder / "bought.csv"
    log = bl.simulate(BANDIT, POLICY, STEPS, seed=3)
    write(log, sent, bought)
    print(f"28 days, {len(log):,} e-mails: {sent} and {bought}\n")

    command = f"belated analyze {sent} --outcomes {bought} --baseline Plain --report {folder / 'report.html'}"
    print(f"$ {command}\n")
    table = bl.read(sent, bought)
    est = bl.estimate(table)
    print(table, est, est.contrasts("Plain"), est.best().note, sep="\n\n")
    every_look = bl.sequence(table).contrast("Your name", "Plain")
    day = every_look.excluded_at.astype("datetime64[D]")
    print(f"With intervals that hold at every look, you could have stopped on {day}: Your name beats Plain.")

    print("\nPurchases per 100 recipients")
    print(f"{'':<12}{'truth':>8}{'counting so far':>18}{'mean of what arrived':>23}{'belated, 95% interval':>26}")
    mean = bl.estimate(table, "mean")
    for k, line in enumerate(est.arms):
        right = est.arm(line)
        so_far = 100 * mean.values[k] * est.sums["arrived"][k] / est.sums["assigned"][k]
        print(
            f"{line:<12}{100 * TRUTH[line]:>8.1f}{so_far:>18.1f}{100 * mean.values[k]:>23.1f}"
            f"{100 * right.estimate:>12.1f} ({100 * right.low:4.1f} to {100 * right.high:4.1f})"
        )
    report = bl.report(table, folder / "report.html", title="Four subject lines", baseline="Plain")
    print(f"\nReport: {report}")


def repeat(bandit: bl.Bandit, policy: bl.policies.Policy) -> bl.Study:
    """Run an experiment many times; a terminal shows how far it is."""
    lines = [*bandit.arms, *((line, "Plain") for line in bandit.arms if line != "Plain")]
    return bl.study(bandit, policy, STEPS, RUNS, targets=lines, seed=3)


def print_coverage(runs: bl.Study) -> None:
    """Print how often each method's interval held the truth: the usual intervals, and belated's own."""
    print(f"{'':<20}{'counting so far':>18}{'mean of what arrived':>23}{'usual AIPW':>13}{'belated':>10}")
    for target in runs.targets:
        shares = (
            coverage_so_far(runs, target),
            runs.coverage("mean", target, "normal"),
            runs.coverage("nh", target, "normal"),
            runs.coverage("daipw", target, "auto"),
        )
        print(f"{target.name:<20}{shares[0]:>18.1%}{shares[1]:>23.1%}{shares[2]:>13.1%}{shares[3]:>10.1%}")


def print_winners(runs: bl.Study) -> None:
    """Print how often each method's highest estimate was that of the line that is best."""
    estimates = (so_far(runs)[0], *(runs.statistics(name).value for name in ("mean", "nh", "daipw")))
    right = [np.mean(each.argmax(axis=1) == runs.means.argmax()) for each in estimates]
    print(f"{'finds the best line':<20}{right[0]:>18.1%}{right[1]:>23.1%}{right[2]:>13.1%}{right[3]:>10.1%}")


def so_far(runs: bl.Study) -> tuple[np.ndarray, np.ndarray]:
    """Return each run's purchases per recipient, where what has not come counts as none, and their variances."""
    assigned, arrived = (runs.moments[STEPS][:, :, column] for column in (ASSIGNED, ARRIVED))
    rate = runs.statistics("mean").value * arrived / assigned
    return rate, rate * (1 - rate) / assigned


def coverage_so_far(runs: bl.Study, target: Target) -> float:
    """Return how often the textbook interval for those purchases per recipient held the truth."""
    rate, variance = so_far(runs)
    error = rate @ target.coefficients - runs.truth(target)
    return float(np.mean(np.abs(error) <= 1.96 * np.sqrt(variance @ target.coefficients**2)))


def write(log: bl.Log, sent: Path, bought: Path) -> None:
    """Write the tables as people have them: deliveries repeated, out of order, and some that belong elsewhere."""
    customers = [f"C{10_000 + 7 * i}" for i in range(len(log))]
    columns = {
        "customer_id": np.array(customers, dtype=object),
        "sent_at": np.datetime64(START, "us") + np.arange(len(log)) * np.timedelta64(2, "m"),
        "subject_line": np.array(log.arms, dtype=object)[log.code],
    }
    columns |= {f"p_{line}": np.ascontiguousarray(log.propensity[:, k]) for k, line in enumerate(log.arms)}
    with duckdb.connect() as engine:
        engine.register("columns", columns)
        engine.table("columns").write_parquet(str(sent))
    known = [
        (START + dt.timedelta(minutes=2 * float(step - 1)), customer, int(outcome))
        for customer, outcome, step, arrived in zip(customers, log.outcome, log.arrived_at, log.arrived, strict=True)
        if arrived and math.isfinite(step)
    ]
    known += known[::500] + [(START + dt.timedelta(days=20), f"X{i}", 1) for i in range(12)]
    with bought.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["customer_id", "bought", "known_at"])
        writer.writerows((customer, outcome, time.isoformat(sep=" ")) for time, customer, outcome in sorted(known))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
