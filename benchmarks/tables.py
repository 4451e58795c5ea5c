"""Tables: what an answer from a Parquet file costs, against what the engine needs for less, in one run.

The floor is DuckDB's own `select arm, avg(outcome) group by arm` plus one sort of the assignment and arrival
times, which any answer with a history must at least match. Every figure is measured in a process of its own, so that
its peak memory is its own. `python benchmarks/tables.py` writes TABLES.md; `--rows 1e6` measures one size only.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIZES = (1_000_000, 10_000_000, 100_000_000)


def write(path: Path, rows: int) -> None:
    """Write an experiment of two arms, all propensities, Pareto delays, a tenth never coming."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, chunk, writer = np.random.default_rng(1), 1_000_000, None
    for start in range(0, rows, chunk):
        n = min(chunk, rows - start)
        t = np.arange(start + 1, start + n + 1)
        p = 0.1 + 0.8 * rng.random(n)
        arm = (rng.random(n) > p).astype(int)
        never = rng.random(n) < 0.1
        outcome = pa.array(rng.normal(1 + 0.1 * arm), mask=never)
        arrived = pa.array(t + np.floor(100 * rng.pareto(1.0, n)).astype(np.int64), mask=never)
        table = pa.table(
            {"assigned_at": t, "arm": np.array(["A", "B"])[arm], "p_A": p, "p_B": 1 - p, "outcome": outcome,
             "arrived_at": arrived}
        )  # fmt: skip
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def floor(path: str) -> float:
    """Time the engine's average by arm and one sort of the times."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET memory_limit = '4GB'")
    since = time.perf_counter()
    connection.execute("SELECT arm, avg(outcome) FROM read_parquet(?) GROUP BY arm", [path]).fetchall()
    sort = "SELECT assigned_at, arrived_at FROM read_parquet(?) ORDER BY assigned_at, arrived_at"
    connection.execute(f"CREATE TEMP TABLE sorted AS {sort}", [path])
    return time.perf_counter() - since


def answer(path: str) -> float:
    """Time reading and estimating, libraries loaded and kernels compiled."""
    import belated as bl

    _warm()
    since = time.perf_counter()
    bl.estimate(bl.read(path))
    return time.perf_counter() - since


def in_memory(path: str) -> float:
    """Time reading the file into arrays and the kernel's path over them."""
    from pyarrow import parquet

    import belated as bl

    _warm()
    since = time.perf_counter()
    frame = parquet.read_table(path)
    log = bl.Log.from_frame(
        frame, propensity={"A": "p_A", "B": "p_B"}, assigned_at="assigned_at", arrived_at="arrived_at"
    )
    bl.estimate(log)
    return time.perf_counter() - since


def _warm() -> None:
    import belated as bl
    from belated.kernels import jit

    jit.compile_kernels()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.parquet"
        write(path, 2_000)
        bl.estimate(bl.read(path))
        bl.estimate(bl.read(path).log())


def measured(what: str, path: Path) -> tuple[float, float]:
    """Return seconds and gigabytes at the peak of one measurement, in a process of its own."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, __file__, "--measure", what, str(path)], capture_output=True, text=True, check=True
    )
    seconds, peak = json.loads(done.stdout.splitlines()[-1])
    return seconds, peak


def main() -> None:
    """Measure every size, and write the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--measure", nargs=2)
    options.add_argument("--rows", type=float, nargs="*")
    chosen = options.parse_args()
    if chosen.measure:
        seconds = {"floor": floor, "answer": answer, "in_memory": in_memory}[chosen.measure[0]](chosen.measure[1])
        print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9]))
        return
    sizes = [int(n) for n in chosen.rows] if chosen.rows else SIZES
    lines = [
        "| rows | file, GB | floor, s | belated, s | ratio | peak, GB | into arrays and kernel, s | belated over it |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for rows in sizes:
            path = Path(folder) / "log.parquet"
            write(path, rows)
            base, _ = measured("floor", path)
            ours, peak = measured("answer", path)
            arrays = measured("in_memory", path)[0] if rows <= 10_000_000 else None
            beside = ("", "") if arrays is None else (f"{arrays:.2f}", f"{ours / arrays:.2f}")
            size = path.stat().st_size / 1e9
            lines.append(
                f"| {rows:,} | {size:.2f} | {base:.2f} | {ours:.2f} | {ours / base:.2f} | {peak:.2f} | "
                f"{beside[0]} | {beside[1]} |"
            )
            print(lines[-1], flush=True)
    text = "\n".join([_HEAD, *lines, "", _MACHINE.format(python=platform.python_version()), ""])
    if not chosen.rows:
        (Path(__file__).parent / "TABLES.md").write_text(text)
    print(text)


_HEAD = """# Answers from tables

One Parquet file, two arms, all propensities, Pareto delays, a tenth of the outcomes never arriving;
`bl.estimate(bl.read(path))`, the
default `daipw`, with every check of the rows and the test of whether arrival depends on the outcome. The floor is
DuckDB's own `select arm, avg(outcome) group by arm` plus one sort of the assignment and arrival times.
"""
_MACHINE = "2 cores, 24 GB, shared with others; Python {python}. Run again: `python benchmarks/tables.py`."

if __name__ == "__main__":
    main()
