"""How long an estimate and a report take on each engine, beside what the engine needs to read the same columns.

    python benchmarks/engines.py [rows] [engine ...]

Each floor is measured in the same run, between the others: for files and DuckDB an aggregate by arm over the same
columns, for rows copied from PostgreSQL binary COPY of them to nowhere, for sums made by PostgreSQL and Spark a `group
by` there. Times are the least of several turns after one that warms up, in seconds, and in CPU seconds of all processes
that take part, which other work on the machine disturbs less.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import duckdb
import ibis
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from engines import _postgres_server

import belated as bl

COLUMNS = ("arm", "outcome", "assigned_at", "arrived_at", "p_A", "p_B", "p_C")
SUMS = "count(*), sum(outcome), max(assigned_at), max(arrived_at), sum(p_A), sum(p_B), sum(p_C)"
#: Rows that PostgreSQL sums up itself.
SUMMED = 300_000
TIMES = int(os.environ.get("TIMES", "3"))


def rows_of(rows: int) -> pa.Table:
    """Return an experiment with three arms whose outcomes come late, a tenth of them never."""
    rng = np.random.default_rng(1)
    p = 0.7 * rng.dirichlet((1, 5, 2), rows) + 0.1
    p /= p.sum(axis=1, keepdims=True)
    arm = (rng.random(rows)[:, np.newaxis] > p.cumsum(axis=1)).sum(axis=1)
    sent = np.datetime64("2026-01-01", "us") + (np.arange(rows) * 1_000_000).astype("timedelta64[us]")
    arrived = sent + (rng.exponential(86_400 * 1e6, rows)).astype("timedelta64[us]")
    missing = rng.random(rows) < 0.1
    outcome = (rng.random(rows) < 0.10 + 0.02 * arm).astype(float)
    return pa.table(
        {
            "arm": np.array(["A", "B", "C"])[np.minimum(arm, 2)],
            "outcome": pa.array(outcome, mask=missing),
            "assigned_at": sent,
            "arrived_at": pa.array(arrived, mask=missing),
            **{f"p_{name}": p[:, k] for k, name in enumerate("ABC")},
        }
    )


def measured(name: str, floor: Callable[[], Any], read: Callable[[], bl.Source], folder: str) -> None:
    """Print a line of the table: floor, estimate and report, each with its reading, in turn."""
    asked = {
        "floor": floor,
        "estimate": lambda: bl.estimate(read()),
        "report": lambda: bl.report(read(), Path(folder, "report.html")),
    }
    seconds, work = dict.fromkeys(asked, float("inf")), dict.fromkeys(asked, float("inf"))
    for turn in range(TIMES + 1):  # the first turn warms up
        for what, ask in asked.items():
            start, before = time.perf_counter(), cpu()
            ask()
            took = time.perf_counter() - start
            time.sleep(0.5)  # until a server's worker has ended, whose work then counts
            if turn:
                seconds[what] = min(seconds[what], took)
                work[what] = min(work[what], cpu() - before)
    cells = [
        f"{floor:.2f} | {estimate:.2f} | {estimate / floor:.1f} | {report:.2f} | {report / estimate:.1f}"
        for floor, estimate, report in (seconds.values(), work.values())
    ]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def cpu() -> float:
    """Return the CPU seconds of this process and all that it started: servers, their workers, Spark."""
    parents, times = {}, {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            parents[int(entry.parent.name)], times[int(entry.parent.name)] = (
                int(fields[1]),
                sum(map(int, fields[11:15])),
            )
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(times[pid] for pid in ours if pid in times) / os.sysconf("SC_CLK_TCK")


def file(table: pa.Table, folder: str) -> None:
    """Measure Parquet."""
    path = f"{folder}/log.parquet"
    pa.parquet.write_table(table, path)
    query = f"SELECT arm, {SUMS} FROM '{path}' GROUP BY arm"  # noqa: S608
    measured("Parquet", lambda: duckdb.sql(query).fetchall(), lambda: bl.read(path), folder)


def duck(table: pa.Table, folder: str) -> None:
    """Measure a DuckDB file."""
    path = f"{folder}/log.duckdb"
    with duckdb.connect(path) as connection:
        connection.register("incoming", table)
        connection.execute("CREATE TABLE log AS FROM incoming")

    def floor() -> None:
        with duckdb.connect(path, read_only=True) as connection:
            connection.execute(f"SELECT arm, {SUMS} FROM log GROUP BY arm").fetchall()  # noqa: S608

    measured("DuckDB", floor, lambda: bl.read(path), folder)


def postgres(table: pa.Table, folder: str) -> None:
    """Measure PostgreSQL: all rows copied, and some of them summed there."""
    import psycopg

    part = table[:SUMMED]

    with _postgres_server() as host:
        url = f"postgresql://postgres@/postgres?host={host}"
        with psycopg.connect(url, autocommit=True) as connection:
            for name, rows in (("log", table), ("part", part)):
                connection.execute(
                    f"CREATE TABLE {name} (arm text, outcome float8, assigned_at timestamp, arrived_at timestamp, "
                    '"p_A" float8, "p_B" float8, "p_C" float8)'
                )
                sink = pa.BufferOutputStream()
                pa.csv.write_csv(rows, sink, pa.csv.WriteOptions(include_header=False))
                with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
                    copy.write(sink.getvalue().to_pybytes())
                connection.execute(f"VACUUM ANALYZE {name}")
        columns = ", ".join(f'"{name}"' for name in COLUMNS)
        copy = f"COPY (SELECT {columns} FROM log) TO STDOUT (FORMAT binary)"  # noqa: S608
        sums = SUMS.replace("p_", '"p_').replace("A)", 'A")').replace("B)", 'B")').replace("C)", 'C")')
        group = f"SELECT arm, {sums} FROM part GROUP BY arm"  # noqa: S608
        for name, title, statement, limit in (
            ("log", "PostgreSQL, copied", copy, 10**9),
            ("part", f"PostgreSQL, summed there, {len(part):,} rows", group, 0),
        ):
            command = ["psql", "-q", url, "-c", statement, "-o", "/dev/null"]
            measured(
                title,
                lambda command=command: subprocess.run(command, check=True),  # noqa: S603
                lambda name=name, limit=limit: bl.read(url, table=name, copy_limit=limit),
                folder,
            )


def spark(table: pa.Table, folder: str) -> None:
    """Measure Spark on this machine."""
    with _spark_session(folder) as session:
        path = f"{folder}/spark.parquet"
        pa.parquet.write_table(table, path)
        session.read.parquet(path).write.saveAsTable("log")
        connection = ibis.pyspark.connect(session)
        query = f"SELECT arm, {SUMS} FROM log GROUP BY arm"  # noqa: S608
        measured("Spark", lambda: session.sql(query).toArrow(), lambda: bl.read(connection.table("log")), folder)


@contextlib.contextmanager
def _spark_session(folder: str) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    options = {
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "4g",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC", "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF",
    }  # fmt: skip
    session = SparkSession.builder.master("local[*]").config(map=options).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


ENGINES = {"file": file, "duckdb": duck, "postgres": postgres, "spark": spark}


def main() -> None:
    """Measure the engines that are asked for, or all."""
    given = sys.argv[1:]
    rows = int(given.pop(0)) if given and given[0].isdigit() else 1_000_000
    table = rows_of(rows)
    print(f"{rows:,} rows, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}:\n")
    head = "floor | estimate | / floor | report | / estimate"
    print(f"| seconds, then CPU seconds | {head} | {head} |")
    print(f"|---|{'--:|' * 10}", flush=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in given or ENGINES:
            if name == "spark" and importlib.util.find_spec("pyspark") is None:
                continue
            ENGINES[name](table, folder)


if __name__ == "__main__":
    main()
