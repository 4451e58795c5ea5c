from __future__ import annotations

import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import ibis
import numpy as np
import pytest
from drawn import DRAWN, database, refused, same, write

import belated as bl
from belated.reading.inputs import Input


def test_a_table_whose_types_are_sure_stays_as_it_is():
    table = ibis.memtable({"arm": ["A"], "y": [1.0]})
    given = Input(table, "t", ordered=True)
    assert given.loaded({"y": "DOUBLE"}, ["y"], "arm") is given
    assert given.kinds == {}
    assert given.connection.name == "duckdb"


pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


def test_text_that_is_not_text():
    frame = DRAWN.wide().to_pandas()
    frame["arm"] = frame["arm"].astype(object).replace("A", "\ud83d")
    refused("is not text", frame, propensity={"\ud83d": "p_A", "B": "p_B"})


WITH_OUTCOME, WITHOUT_OUTCOME = int(DRAWN.arrived[5]), int(np.flatnonzero(DRAWN.out)[0])


@pytest.mark.parametrize(
    ("column", "value"), [("arm", 1), ("arm", ["A"]), ("outcome", "x"), ("assigned_at", "x"), ("p_A", Decimal("0.5"))]
)
def test_dataframes_that_mix_types(column, value):
    frame = DRAWN.wide().to_pandas()
    frame[column] = frame[column].astype(object)
    frame.at[WITH_OUTCOME, column] = value
    error = refused(f"Column '{column}' in row {WITH_OUTCOME} is {re.escape(repr(value))}; it must be of type", frame)
    assert error.row == WITH_OUTCOME


pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


def test_databases():
    hostile = "ta\"b'le; --"
    same(bl.read(database("one.duckdb", DRAWN.wide())))
    database(
        "many.duckdb", DRAWN.wide(), "CREATE TABLE t AS SELECT * FROM given", "CREATE VIEW v AS SELECT * FROM t",
        "CREATE SCHEMA \"s 'x\"", 'CREATE TABLE "s \'x"."ta""b\'le; --" AS SELECT * FROM given',
    )  # fmt: skip
    same(bl.read("many.duckdb", table="v"))
    same(bl.read("many.duckdb", table=hostile))
    refused("holds 3 tables", "many.duckdb")
    refused("Did you mean 't'", "many.duckdb", table="tt")
    refused("holds 0 tables", database("none.duckdb", DRAWN.wide(), "SELECT 1"))
    refused("is not a database", write("a.csv", DRAWN.csv()), table="t")
    database("two.duckdb", DRAWN.wide(), "CREATE TABLE t AS SELECT * FROM given LIMIT 9", "CREATE SCHEMA s",
             "CREATE TABLE s.t AS SELECT * FROM given")  # fmt: skip
    refused("must be one of 'main.t', 's.t'", "two.duckdb", table="t")
    same(bl.read("two.duckdb", table="s.t"))
    database("view.duckdb", DRAWN.wide(), "CREATE TABLE x AS SELECT 1 AS a", "CREATE VIEW v AS SELECT * FROM x",
             "DROP TABLE x")  # fmt: skip
    refused("a view of what is not there", "view.duckdb")
    write("cut.duckdb", Path("one.duckdb").read_bytes()[:5000])
    refused("`cut.duckdb` cannot be read", "cut.duckdb")
    holder = [sys.executable, "-c", "import duckdb; c = duckdb.connect('one.duckdb'); print(1, flush=True); input()"]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        refused("another program has it open", "one.duckdb")
        other.communicate(b"\n")
