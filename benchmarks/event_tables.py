"""Tables of events: what counting open windows costs, against closed windows only, in one run.

Every figure is measured in a process of its own, so that its peak memory is its own; the two take turns. `python
benchmarks/event_tables.py` prints EVENT_TABLES.md; `--rows 1e8` measures another size. There are a tenth as many events
as assignments.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from made_by import made_by

DAY = 86_400_000_000
CHUNK = 5_000_000


def write(folder: Path, rows: int) -> None:
    """Write two arms over 20 days, and purchases that come days later."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, start = np.random.default_rng(1), np.datetime64("2026-03-01", "us").astype(np.int64)
    sent, bought = None, None
    for done in range(0, rows, CHUNK):
        n = min(CHUNK, rows - done)
        t = start + (20 * DAY * (done + np.sort(rng.random(n)) * n) / rows).astype(np.int64)
        p = np.where(t < start + 2 * DAY, 0.5, 0.3)
        arm = (rng.random(n) < p).astype(int)
        table = pa.table(
            {"id": np.arange(done, done + n), "arm": np.array(["A", "B"])[arm], "sent_at": t.view("datetime64[us]"),
             "p_A": 1 - p, "p_B": p}
        )  # fmt: skip
        buys = np.flatnonzero(rng.random(n) < 0.1)
        when = t[buys] + (DAY * rng.exponential(np.where(arm[buys] == 1, 5, 2))).astype(np.int64)
        amount = rng.lognormal(0, 1, len(buys))
        events = pa.table({"id": done + buys, "bought_at": when.view("datetime64[us]"), "amount": amount})
        sent = sent or parquet.ParquetWriter(folder / "sent.parquet", table.schema)
        bought = bought or parquet.ParquetWriter(folder / "bought.parquet", events.schema)
        sent.write_table(table)
        bought.write_table(events)
    for writer in (sent, bought):
        if writer is not None:
            writer.close()


def measure(folder: str, maturing: bool) -> dict[str, object]:
    """Read and estimate once; return seconds, CPU seconds, peak memory in GB, and the estimates."""
    import belated as bl

    clock, cpu = time.perf_counter(), time.process_time()
    source = bl.read(
        f"{folder}/sent.parquet", f"{folder}/bought.parquet", arrived_at="bought_at", events="sum", window="10d",
        as_of="2026-03-21", maturing=maturing,
    )  # fmt: skip
    estimate = bl.estimate(source, "dipw")
    return {
        "clock": time.perf_counter() - clock,
        "cpu": time.process_time() - cpu,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "width": [answer.high - answer.low for answer in estimate.arm_answers],
    }


def apart(folder: Path, maturing: bool) -> dict[str, object]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--measure", str(folder), "--maturing", str(int(maturing))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Print the page, or measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--measure")
    parser.add_argument("--maturing", type=int, default=1)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, bool(given.maturing))))
        return
    rows = int(given.rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, rows)
        runs = {kind: [] for kind in (False, True)}
        for _ in range(given.turns):
            for kind, results in runs.items():
                results.append(apart(folder, kind))
    medians = {
        kind: {name: statistics.median(run[name] for run in results) for name in ("clock", "cpu", "memory")}
        for kind, results in runs.items()
    }
    widths = np.array(runs[True][0]["width"]) / np.array(runs[False][0]["width"])
    print("# Tables of events\n")
    print(f"{rows:,} assignments and {rows // 10:,} events in Parquet, a window of 10 days, as of day 20; medians of")
    print(f"{given.turns} turns, each in a process of its own. {made_by()}\n")
    print("| rows that count | seconds | CPU seconds | peak memory |\n|---|--:|--:|--:|")
    for kind, label in ((False, "closed windows only"), (True, "open windows too")):
        each = medians[kind]
        print(f"| {label} | {each['clock']:.1f} | {each['cpu']:.1f} | {each['memory']:.2f} GB |")
    ratio = {name: medians[True][name] / medians[False][name] for name in ("clock", "cpu", "memory")}
    print(f"| ratio | {ratio['clock']:.2f} | {ratio['cpu']:.2f} | {ratio['memory']:.2f} |\n")
    print(f"Intervals are {widths.min():.2f} to {widths.max():.2f} times as wide.")


if __name__ == "__main__":
    main()
