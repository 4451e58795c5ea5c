"""Files are read without Ibis: every answer from them is the one that Ibis's own queries of DuckDB give."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import ibis
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import belated as bl
from belated.reading.embedded import connect, register, sql_text

ROWS = 600


@pytest.fixture(scope="module")
def columns():
    """Be an experiment of three arms in columns."""
    rng = np.random.default_rng(5)
    p = rng.dirichlet([5, 5, 5], ROWS)
    arm = np.array([rng.choice(3, p=row) for row in p])
    step = np.arange(1, ROWS + 1)
    arrived_at = step + rng.geometric(0.05, ROWS)
    out = rng.random(ROWS) < 0.2
    return {
        "id": step, "arm": np.array(["A", "it's", 'C"'])[arm], "p": p, "assigned_at": step,
        "arrived_at": pa.array(arrived_at, mask=out), "outcome": pa.array(rng.normal(arm, 1.0), mask=out),
    }  # fmt: skip


def times(values):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return pa.array([None if v is None else start + timedelta(minutes=int(v)) for v in pa.array(values).to_pylist()])


def propensities(kind, p):
    names = ["A", "it's", 'C"']
    rows = [dict(zip(names, map(float, row), strict=True)) for row in p]
    if kind == "wide":
        return {f"p_{name}": p[:, k] for k, name in enumerate(names)}
    if kind == "list":
        return {"propensities": pa.array(p[:, [0, 2, 1]].tolist())}  # the arms, sorted
    if kind == "struct":
        return {"propensities": pa.array(rows)}
    if kind == "map":
        return {"propensities": pa.array([list(row.items()) for row in rows], pa.map_("string", "float64"))}
    return {"propensities": list(map(json.dumps, rows))}


def same(mine, theirs, *, checked=True):
    """Ask both all that is asked of tables; `checked`: also for a diagnosis, which takes longest."""
    assert mine.arms == theirs.arms
    assert mine.notes == theirs.notes
    assert str(bl.estimate(mine)) == str(bl.estimate(theirs))
    if checked:
        said = [str(bl.diagnose(source)).partition(" (")[2] for source in (mine, theirs)]
        assert said[0] == said[1]
    assert mine.oddities() == theirs.oddities()
    np.testing.assert_array_equal(mine.arrived, theirs.arrived)
    sums = [source.sums([("sqrt", "running_mean")], source.even_moments(2))[0] for source in (mine, theirs)]
    for ours, others in zip(*sums, strict=True):
        np.testing.assert_allclose(ours.own, others.own, rtol=1e-12)
        np.testing.assert_allclose(ours.spread, others.spread, rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "clock"), [*((kind, "steps") for kind in ("wide", "list", "struct", "map", "json")), ("wide", "times")]
)
def test_one_table(columns, tmp_path, kind, clock):
    data = {**columns, **propensities(kind, columns["p"])}
    del data["p"]
    if clock == "times":
        data |= {name: times(data[name]) for name in ("assigned_at", "arrived_at")}
    path = tmp_path / "log.parquet"
    parquet.write_table(pa.table(data), path)
    same(bl.read(path), bl.read(ibis.duckdb.connect().read_parquet(path)), checked=kind == "wide")


@pytest.mark.parametrize("options", [
    {}, {"as_of": 400}, {"duplicates": "first"}, {"duplicates": "last"}, {"duplicates": "sum"}, {"cap": 1.0},
    *({"events": measure, "window": 20, "maturing": False} for measure in ("indicator", "count", "sum")),
])  # fmt: skip
def test_two_tables(columns, tmp_path, options):
    sent = {name: columns[name] for name in ("id", "arm", "assigned_at")} | propensities("wide", columns["p"])
    paid = pa.table({name: columns[name] for name in ("id", "outcome", "arrived_at")}).drop_null()
    if options.get("duplicates"):
        again = paid.slice(0, 100).set_column(1, "outcome", pa.array(np.linspace(0, 1, 100)))
        paid = pa.concat_tables([paid, again])
    paid = pa.concat_tables([paid, pa.table({"id": [10_000], "outcome": [1.0], "arrived_at": [700]})])
    parquet.write_table(pa.table(sent), tmp_path / "sent.parquet")
    parquet.write_table(paid, tmp_path / "paid.parquet")
    connection = ibis.duckdb.connect()
    tables = [connection.read_parquet(tmp_path / f"{name}.parquet") for name in ("sent", "paid")]
    mine = bl.read(tmp_path / "sent.parquet", tmp_path / "paid.parquet", **options)
    same(mine, bl.read(*tables, **options), checked=not options)


def test_an_answer_from_a_file_needs_neither_ibis_nor_pandas(columns, tmp_path):
    data = {**columns, **propensities("wide", columns["p"])}
    del data["p"]
    parquet.write_table(pa.table(data), tmp_path / "log.parquet")
    code = """
import sys
names = "ibis pandas psycopg starlette sqlglot narwhals matplotlib jinja2 scipy.stats scipy.optimize pyarrow.compute"
for heavy in names.split():
    sys.modules[heavy] = None
from belated.cli.app import run
run()
"""
    command = [sys.executable, "-c", code, "analyze", str(tmp_path / "log.parquet")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "daipw: 95% score intervals, 600 rows" in done.stdout


# ---------------------------------------------------------------- connections


def test_data_come_into_an_engine_of_our_own():
    connection = connect()
    table = register(connection, pa.table({"x": [1, 2]}))
    assert table.mutate(y=table.x + 1).to_pyarrow().to_pydict() == {"x": [1, 2], "y": [2, 3]}
    assert connect() is not connection


def test_times_are_in_utc():
    zone = connect().con.execute("SELECT current_setting('TimeZone')").fetchone()
    assert zone == ("UTC",)


NOTEBOOK = """
import sys
from types import ModuleType, SimpleNamespace

sys.modules["IPython"] = shell = ModuleType("IPython")
shell.get_ipython = lambda: SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["ipywidgets"] = None
import pyarrow as pa

import belated as bl

table = pa.table({"arm": ["A", "B"] * 9, "outcome": [0.0, 1.0, 2.0] * 6})
print(bl.estimate(bl.read(table, propensity="uniform"), "mean").values.tolist())
"""


def test_a_notebook_without_ipywidgets():
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[1.0, 1.0]\n"), done.stderr


def test_quotes_in_sql():
    text = "it's"
    assert connect().con.execute(f"SELECT '{sql_text(text)}'").fetchone() == (text,)


# ---------------------------------------------------------------- tables


@pytest.fixture
def table():
    connection = connect()
    connection.raw_sql(
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 0.1::DOUBLE, 'a''b'), (2, NULL, 'c\"d')) t(i, x, s)"
    )
    return connection.table("t")


def test_whole_numbers_stay_whole_when_summed(table):
    (total,) = table.aggregate(total=table.i.sum()).to_pyarrow()["total"].to_pylist()
    assert total == 3
    assert isinstance(total, int)


def test_tables_that_share_a_column_are_not_joined(table):
    with pytest.raises(ValueError, match="Both tables have a column named"):
        table.inner_join(table, table.i == table.i)


def test_a_column_that_is_not_there(table):
    with pytest.raises(AttributeError, match="'y'"):
        _ = table.y
