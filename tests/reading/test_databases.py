from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from drawn import DRAWN, database, refused, same, write

import belated as bl

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
