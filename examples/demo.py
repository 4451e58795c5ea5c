"""Four subject lines, sent by an algorithm, answered late: two tables, the naive answer and the right one.

Every two minutes a customer gets an e-mail. Thompson sampling, with a floor under its probabilities, chooses the
subject line by the answers it has so far. Whether a customer buys is known days later, later for some lines than for
others, and one customer in ten is never seen again.
"""

from __future__ import annotations

import csv
import datetime as dt
import math
import sys
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

import belated as bl

TRUTH = {"Plain": 0.10, "Question": 0.12, "Emoji": 0.08, "Your name": 0.15}
DAY = 720  # steps of two minutes
BANDIT = bl.Bandit(
    {line: bl.arms.bernoulli(rate) for line, rate in TRUTH.items()},
    {
        "Plain": bl.delays.geometric(1 * DAY).censored(0.1),
        "Question": bl.delays.geometric(3 * DAY).censored(0.1),
        "Emoji": bl.delays.geometric(0.5 * DAY).censored(0.1),
        "Your name": bl.delays.geometric(9 * DAY).censored(0.1),
    },
)
POLICY = bl.policies.thompson_beta(c=1.0, decay=0.35, burn_in=0.05)
START = dt.datetime(2026, 2, 2, 8, 0)


def main(folder: Path) -> None:
    """Run the experiment, write its tables, and answer it."""
    folder.mkdir(exist_ok=True)
    sent, bought = folder / "sent.parquet", folder / "bought.csv"
    log = bl.simulate(BANDIT, POLICY, 28 * DAY, seed=3)
    write(log, sent, bought)
    print(f"28 days, {len(log):,} e-mails: {sent} and {bought}\n")

    command = f"belated analyze {sent} --outcomes {bought} --baseline Plain --report {folder / 'report.html'}"
    print(f"$ {command}\n")
    table = bl.read(sent, bought)
    est = bl.estimate(table)
    print(table, est, est.contrasts("Plain"), est.best().note, sep="\n\n")
    every_look = bl.sequence(table).contrast("Your name", "Plain")
    day = every_look.excluded_at.astype("datetime64[D]")
    print(f"Looking at every answer, one could have stopped on {day}: Your name beats Plain, at 95% for all looks.")

    print("\nHow many buy, of 100 who get the line")
    print(f"{'':<12}{'truth':>8}{'bought so far':>16}{'mean of known':>16}{'belated, 95% interval':>26}")
    mean = bl.estimate(table, "mean")
    for k, line in enumerate(est.arms):
        right = est.arm(line)
        so_far = 100 * mean.values[k] * est.sums["arrived"][k] / est.sums["assigned"][k]
        print(
            f"{line:<12}{100 * TRUTH[line]:>8.1f}{so_far:>16.1f}{100 * mean.values[k]:>16.1f}"
            f"{100 * right.estimate:>12.1f} ({100 * right.low:4.1f} to {100 * right.high:4.1f})"
        )
    report = bl.report(table, folder / "report.html", title="Four subject lines", baseline="Plain")
    print(f"\nReport: {report}")


def write(log: bl.Log, sent: Path, bought: Path) -> None:
    """Write the tables as people have them: deliveries repeated, out of order, and some that belong elsewhere."""
    lines = [log.arms[k] for k in log.code]
    chances = {f"p_{line}": log.propensity[:, k] for k, line in enumerate(log.arms)}
    at = [START + dt.timedelta(minutes=2 * step) for step in range(len(lines))]
    customers = [f"C{10_000 + 7 * i}" for i in range(len(lines))]
    parquet.write_table(pa.table({"customer_id": customers, "sent_at": at, "subject_line": lines, **chances}), sent)
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
