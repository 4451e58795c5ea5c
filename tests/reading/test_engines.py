from __future__ import annotations

import functools
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from engines import Engine, in_sql, only

import belated as bl
from belated.reading.columns import time
from belated.reading.engines import ENGINES, PACKAGES, compiled, engine_of, fetch, first_line, sentences

NAN = float("nan")
MOMENT = datetime(2026, 3, 1, 12, 30, 0, 123456)
ABROAD = datetime(2026, 3, 1, 12, 30, tzinfo=timezone(timedelta(hours=2)))
PAIR = pa.struct([("A", pa.float64()), ("B", pa.float64())])

VALUES = pa.table(
    {
        "row": pa.array([0, 1, 2, 3]),
        "double": pa.array([0.1, None, NAN, -math.inf], pa.float64()),
        "integer": pa.array([2**62 + 1, None, -1, 0], pa.int64()),
        "text": pa.array(["Zoë's \"\\😀\n", None, "", "NULL"], pa.string()),
        "timestamp": pa.array([MOMENT, None, datetime(1970, 1, 1), datetime(2199, 1, 1)], pa.timestamp("us")),
        "timestamptz": pa.array([ABROAD, None, ABROAD, ABROAD], pa.timestamp("us", "UTC")),
        "date": pa.array([date(2026, 3, 29), None, date(1969, 12, 31), date(2199, 1, 1)], pa.date32()),
        "decimal": pa.array([Decimal("0.2500"), None, Decimal("-99999999.9999"), Decimal(0)], pa.decimal128(12, 4)),
        "boolean": pa.array([True, None, False, True], pa.bool_()),
        "list": pa.array([[0.2, 0.8], None, [None, NAN], []], pa.list_(pa.float64())),
        "struct": pa.array([{"A": 0.2, "B": 0.8}, None, {"A": None, "B": NAN}, {"A": 0.0, "B": 1.0}], PAIR),
        "map": pa.array([[("A", 0.2), ("B", 0.8)], None, [("A", None)], []], pa.map_(pa.string(), pa.float64())),
        "json": pa.array(['{"A": 0.2}', None, "[0.2, 0.8]", "not JSON"], pa.string()),
    }
)


def _comparable(value: object) -> object:
    """Give a value in which NaN is equal to itself and to nothing else."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    return value


@in_sql
def test_a_table_comes_back_as_it_went_in(engine: Engine) -> None:
    names = [name for name in VALUES.column_names if name not in ("struct", "map")]
    read = engine.read(_values(engine).order_by("row").select(*names))
    for name in names:
        assert _comparable(read[name].to_pylist()) == _comparable(VALUES[name].to_pylist()), name


@in_sql
def test_structs_and_maps_come_back_as_they_went_in(engine: Engine) -> None:
    table = _values(engine).order_by("row")
    if engine.name == "postgres":  # a composite type and JSONB there
        read = engine.read(table.select(struct=table.struct.cast("string"), map=table.map.cast("string")))
        assert read["struct"].to_pylist() == ["(0.2,0.8)", None, "(,NaN)", "(0,1)"]
        maps = [text and json.loads(text) for text in read["map"].to_pylist()]
    else:
        read = engine.read(table.select("struct", "map"))
        assert _comparable(read["struct"].to_pylist()) == _comparable(VALUES["struct"].to_pylist())
        maps = [None if pairs is None else dict(pairs) for pairs in read["map"].to_pylist()]
    assert maps == [{"A": 0.2, "B": 0.8}, None, {"A": None}, {}]


@in_sql
def test_types_are_the_engine_s_own(engine: Engine) -> None:
    schema = _values(engine).schema()
    assert schema["double"].is_float64()
    assert schema["integer"].is_int64()
    assert schema["date"].is_date()
    assert schema["boolean"].is_boolean()
    assert (schema["decimal"].precision, schema["decimal"].scale) == (12, 4)
    assert schema["list"].is_array()
    assert schema["list"].value_type.is_float64()
    assert schema["timestamp"].is_timestamp()
    assert schema["timestamptz"].timezone == (None if engine.name == "spark" else "UTC")  # Ibis does not tell Spark's


@only("duckdb", "postgres")
@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_a_column_can_be_of_a_type_that_arrow_lacks(engine: Engine, kind: str) -> None:
    kind = "json" if engine.name == "duckdb" else kind
    assert engine.table({"p": ['{"A": 0.2}']}, p=kind)["p"].type().is_json()


@functools.cache
def _values(engine: Engine) -> Any:
    return engine.table(VALUES)


@in_sql
def test_each_engine_is_known_by_ibis_s_name_for_it(engine: Engine) -> None:
    table = engine.table({"x": [1.0, NAN, None]})
    special = engine_of(table)
    assert special is ENGINES[table.get_backend().name]
    assert special.is_embedded == (engine.name == "duckdb")
    assert set(special.packages) <= PACKAGES


@in_sql
def test_nan_and_null_stay_apart_when_fetched(engine: Engine) -> None:
    table = engine.table({"row": [0, 1, 2], "x": [1.0, NAN, None]}).order_by("row")
    assert [_comparable(value) for value in fetch(table)["x"].to_pylist()] == [1.0, "NaN", None]
    batches = list(engine_of(table).batches(table))
    assert sum(len(batch) for batch in batches) == 3


pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


def late(rows, **columns):
    """Return a longer experiment, in which only the last rows show what the columns hold."""
    arm = np.array(["A", "B"])[np.arange(rows) % 2]
    step = np.arange(1, rows + 1)
    plain = {"arm": arm, "outcome": step % 3, "assigned_at": step, "arrived_at": step + 3, "p_A": np.full(rows, 0.5),
             "p_B": np.full(rows, 0.5)}  # fmt: skip
    table = pa.table({**plain, **columns})
    pa.csv.write_csv(table, "late.csv")
    return table


def command(*arguments, **options):
    source = Path(bl.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source), "TMPDIR": str(Path.cwd().parent / "spill")}
    return subprocess.Popen(
        [sys.executable, "-m", "belated", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment, **options,
    )  # fmt: skip


def test_text_of_a_database_that_is_not_utf_8():
    arms = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 1], dtype=np.int32)), pa.py_buffer(b"\xff"))
    with pytest.raises(bl.LogError, match="`sent` cannot be read: text in it is not in UTF-8"), sentences("sent"):
        arms.to_pylist()  # as DuckDB gives text that whoever altered a file has put there


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_leaves_nothing():
    late(600_000)
    with command("analyze", "late.csv", "--report", "r.html") as process:
        assert process.stderr.readline().startswith("columns: ")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err == "Stopped. No incomplete file was written.\n"
    assert os.listdir() == ["late.csv"]
    with pytest.raises(KeyboardInterrupt), sentences("late.csv"):
        raise RuntimeError("Query interrupted")  # as DuckDB says it


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("name", ["log.parquet", "log.duckdb"])
def test_ctrl_c_stops_the_reading_of_a_long_file(name):
    rows = """SELECT ['A', 'B'][1 + i % 2] AS arm, i % 3 AS outcome, hash(i) % 1000000000 AS assigned_at,
        assigned_at + 3 AS arrived_at, 0.5 AS p_A, 0.5 AS p_B FROM range(4000000) AS r(i)"""
    with duckdb.connect(name if name.endswith("duckdb") else ":memory:") as connection:
        connection.execute(f"CREATE TABLE log AS {rows}" if name.endswith("duckdb") else f"COPY ({rows}) TO '{name}'")
    with command("analyze", name, "--report", "r.html") as process:
        assert process.stderr.readline().startswith("columns: ")
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (130, "", "Stopped. No incomplete file was written.\n")
    assert os.listdir() == [name]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_stops_a_view_of_sqlite_that_has_no_end():
    with sqlite3.connect("log.sqlite") as connection:
        connection.execute(
            """CREATE VIEW log AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)
            SELECT 'A' AS arm, i AS outcome, i AS assigned_at, i AS arrived_at, 1.0 AS p_A FROM r"""
        )
    code = """import signal, belated as bl
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.alarm(4)
try:
    bl.read("sqlite://log.sqlite", table="log")
except KeyboardInterrupt:
    print("stopped")"""
    environment = {**os.environ, "PYTHONPATH": str(Path(bl.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=60, stdout=subprocess.PIPE)
    assert done.stdout == b"stopped\n"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            "IO Error: No magic bytes found at end of file '/tmp/x/a.parquet'",
            "it is not a Parquet file, or it is incomplete.",
        ),
        ("IO Error: TProtocolException: Invalid data", "it is a damaged Parquet file."),
        ("Invalid Input Error: don't know what type: \x0f", "it is a damaged Parquet file."),
        ("Out of buffer", "it is a damaged Parquet file."),
        ("Parquet metadata is corrupt. Column has 4 values", "it is a damaged Parquet file."),
        ("Failed to read file: Snappy decompression failure.", "it is a damaged Parquet file."),
        (
            "Corrupt database file: computed checksum 1 does not match stored checksum 2",
            "it is a damaged DuckDB database.",
        ),
        ("[Errno 13] Permission denied: '/root/a.csv'", "that is not permitted."),
        (
            "Invalid Input Error: this connection is busy with another call; use a separate connection from cursor()",
            "another thread is reading it; read it once in each thread, or share its `log()`.",
        ),
        ("Something else. See also https://x.org", "Something else."),
    ],
)
def test_an_engine_s_words_become_a_sentence(said, meant):
    with pytest.raises(bl.LogError) as caught, sentences("a.parquet"):
        raise OSError(said)
    assert str(caught.value) == f"`a.parquet` cannot be read: {meant}"


def test_mistakes_of_ours_are_not_an_engine_s():
    with pytest.raises(KeyError), sentences("a.csv"):
        raise KeyError("x")
    with pytest.raises(bl.OptionError, match="as it was"), sentences("a.csv"):
        raise bl.OptionError("as it was")


def test_the_first_line_has_no_folders_and_advice():
    assert first_line(OSError("Catalog Error: /home/me/x.csv is odd!\nLINE 1: SELECT")) == "x.csv is odd."
    assert first_line(OSError("")) == "OSError."


def test_postgres_computes_a_column_once_and_keeps_its_parallel_workers(postgres_engine):
    table = postgres_engine.table({"x": pa.array([1.0, 4.0])})
    once = engine_of(table).once(table.select(root=table.x.sqrt()))
    query = compiled(once.aggregate(a=once.root.sum(), b=(once.root * once.root).sum()))
    assert query.count("SQRT") == query.count("OFFSET") == 1  # which keeps selects apart
    connection = postgres_engine.connection.con
    with connection.transaction():
        for setting in ("min_parallel_table_scan_size", "parallel_setup_cost", "parallel_tuple_cost"):
            connection.execute(f"SET LOCAL {setting} = 0")
        plan = [line for (line,) in connection.execute(f"EXPLAIN {query}").fetchall()]
    assert any("Partial Aggregate" in line for line in plan)  # workers add up what they read, and send no rows
    assert fetch(once).to_pydict() == {"root": [1.0, 2.0]}


def test_a_label_is_never_taken_for_the_bound_that_keeps_selects_apart(postgres_engine):
    label = f"A LIMIT {1 << 62}"
    table = postgres_engine.table({"x": pa.array([label, "B"])})
    once = engine_of(table).once(table.filter(table.x == label))
    assert fetch(once).to_pydict() == {"x": [label]}


@only("duckdb", "postgres")
def test_texts_are_times_by_one_rule(engine: Engine) -> None:
    """DuckDB takes BST for Bangladesh's, PostgreSQL UTC+2 for a zone in the west and the first number for a month."""
    hours = {"": 12, "Z": 12, " UTC": 12, " +0200": 10, " UTC+2": 10, " GMT-05": 17, " Asia/Dhaka": 6, " Etc/GMT+5": 17}
    table = engine.table({"t": [None, *(f"2026-07-01 12:00{zone}" for zone in hours)]})
    never, *times = engine.read(table.select(t=time("assigned_at", table.t)))["t"].cast("int64").to_pylist()
    assert never is None
    noon = datetime(2026, 7, 1, tzinfo=UTC).timestamp()
    assert [(each / 1e6 - noon) / 3600 for each in times] == [*hours.values()]
    for text in ("2026-07-01 12:00 BST", "2026-07-01 12:00 EST", "02/03/2026 12:00", "July 1, 2026", "now", ""):
        table = engine.table({"when": ["2026-07-01", text]})
        with pytest.raises(bl.LogError, match=rf"column 'when' has '{text}'; it must be a time"), sentences("x"):
            fetch(table.select(t=time("assigned_at", table.when)))
