from __future__ import annotations

import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from drawn import DRAWN, ROWS, database, refused, same, write

import belated as bl
from belated.reading.inputs import Input


def test_a_table_whose_types_are_sure_stays_as_it_is():
    table = ibis.memtable({"arm": ["A"], "y": [1.0]})
    given = Input(table, "t", ordered=True)
    assert given.loaded({"y": "outcome", "arm": "label"}) is given
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
    ("column", "value"), [("arm", 1), ("arm", ["A"]), ("outcome", "x"), ("assigned_at", "x"), ("p_A", "x")]
)
def test_dataframes_that_mix_types(column, value):
    frame = DRAWN.wide().to_pandas()
    frame[column] = frame[column].astype(object)
    frame.at[WITH_OUTCOME, column] = value
    error = refused(f"Column '{column}' in row {WITH_OUTCOME} is {re.escape(repr(value))}; it must be of type", frame)
    assert error.row == WITH_OUTCOME


def test_dataframes_without_column_names_that_mix_types():
    roles = {"arm": "0", "outcome": "1", "propensity": "2"}
    for value, words in (("x", "'x'; it must be of type float"), (2**70, "whole numbers must fit 64 bits")):
        outcome = [1.0, 2.0, value] if value == "x" else [1, 2, value]
        frame = pd.DataFrame({0: ["A", "B", "A"], 1: pd.Series(outcome, dtype=object), 2: 0.5})
        refused(f"Column '1' in row 2 is .*{words}", frame, **roles)


@pytest.mark.parametrize("kind", [pa.float16(), pa.decimal256(40, 2)])
def test_numbers_that_the_engine_does_not_know(kind):
    table = DRAWN.wide()
    place = table.column_names.index("outcome")
    outcome = table["outcome"].cast(pa.float64()).fill_null(0)
    whole = table.set_column(place, "outcome", pa.array(np.rint(outcome.to_numpy())))
    odd = whole.set_column(place, "outcome", pa.array(np.rint(outcome.to_numpy())).cast(kind))
    options = {"arrived_at": "none", "delay": "none"}
    wanted = bl.estimate(bl.read(whole, **options)).values
    assert bl.estimate(bl.read(odd, **options)).values.tolist() == wanted.tolist()
    pa.feather.write_feather(odd, "odd.feather")
    assert bl.estimate(bl.read("odd.feather", **options)).values.tolist() == wanted.tolist()


@pytest.mark.parametrize("form", ["parquet", "feather"])
def test_a_file_without_columns(form):
    (pa.parquet.write_table if form == "parquet" else pa.feather.write_feather)(pa.table({}), f"a.{form}")
    refused(f"^`a.{form}` cannot be read: it has no columns.$", f"a.{form}")


@pytest.mark.parametrize("value", [1 + 0j, object()])
def test_columns_of_what_is_no_data(value):
    frame = DRAWN.wide().to_pandas()
    frame["outcome"] = [value] * len(frame)
    refused(f"Column 'outcome' holds values of type {type(value).__name__}, which cannot be read", frame)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("Infinity", "^`outcome` in row 0 is inf although it has arrived; it must be a finite number"),
        ("-Infinity", "^`outcome` in row 0 is -inf"),
        ("1E+400", "^`outcome` in row 0 is inf"),
        ("NaN", None),
        ("sNaN", None),
        ("1E-400", None),
    ],
)
def test_decimals_that_arrow_does_not_know(value, sentence):
    outcomes = [Decimal(value), 2.0, None, Decimal("1.5")] * 3
    frame = pd.DataFrame({"arm": ["A", "B"] * 6, "outcome": outcomes, "propensity": [0.5] * 12}, dtype=object)
    if sentence is not None:
        refused(sentence, frame)
    else:
        least = [] if "NaN" in value else [0.0]
        assert bl.estimate(bl.read(frame.astype({"propensity": float})), "mean").arrived.tolist() == [3 * len(least), 6]


@pytest.mark.parametrize("names", [("outcome", "Outcome"), ("Arm", "arm"), ("p_A", "P_A")])
@pytest.mark.parametrize("kind", ["pandas", "arrow", "polars", "lazy", ".parquet", ".feather", ".csv"])
def test_columns_whose_names_differ_only_in_case(kind, names):
    table = DRAWN.wide()
    one = next(name for name in names if name in table.column_names)
    table = table.append_column(next(name for name in names if name != one), table[one])
    table = table.select(
        sorted(table.column_names, key=lambda name: (name.lower(), names.index(name) if name in names else 0))
    )
    given = {
        "pandas": table.to_pandas,
        "arrow": lambda: table,
        "polars": lambda: pl.from_arrow(table),
        "lazy": lambda: pl.from_arrow(table).lazy(),
        ".parquet": lambda: pa.parquet.write_table(table, "a.parquet") or "a.parquet",
        ".feather": lambda: pa.feather.write_feather(table, "a.feather") or "a.feather",
        ".csv": lambda: pa.csv.write_csv(table, "a.csv") or "a.csv",
    }[kind]()
    what = f"`a{kind}`" if kind.startswith(".") else "The dataframe"
    refused(f"^{what} has several columns named '{names[0]}' and '{names[1]}', which differ only in case", given)


@pytest.mark.parametrize("name", ["outcome", "note"])
def test_whole_numbers_that_are_too_large(name):
    frame = DRAWN.wide().to_pandas()
    frame[name] = [*range(len(frame) - 1), 2**64]
    refused(f"^Column '{name}' in row {ROWS - 1} is {2**64}; whole numbers must fit 64 bits", frame)


@pytest.mark.parametrize("text", ["soon, I hope", "2026-02-30", "32.1.2026", "2026-07-01 12:00 BST"])
@pytest.mark.parametrize("kind", ["object", "category"])
def test_text_that_is_no_time(text, kind):
    times = pd.Series([*["2026-01-01"] * (ROWS - 1), text], dtype=kind)
    frame = DRAWN.wide().to_pandas().drop(columns="arrived_at").assign(assigned_at=times)
    refused(
        f"column 'assigned_at' has {re.escape(repr(text))}; it must be a time, such as 2026-03-01 14:30:00.$", frame
    )


def test_periods_are_labels_as_they_are_written():
    arms = pd.PeriodIndex(["2026-01", "2026-02"] * 6, freq="M")
    frame = pd.DataFrame({"arm": arms, "outcome": [1.0, 2.0] * 6, "propensity": [0.5] * 12})
    assert bl.read(frame).arms == ("2026-01", "2026-02")


def test_a_sparse_dataframe():
    frame = DRAWN.wide().to_pandas()
    refused("The dataframe cannot be read: Sparse", frame.assign(p_A=frame["p_A"].astype("Sparse[float]")))


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
    same(bl.read("many.duckdb", table=hostile))
    refused("holds 2 tables", "many.duckdb")
    refused("Did you mean 't'", "many.duckdb", table="tt")
    refused("holds no table", database("none.duckdb", DRAWN.wide(), "SELECT 1"))
    refused("is not a database", write("a.csv", DRAWN.csv()), table="t")
    database("two.duckdb", DRAWN.wide(), "CREATE TABLE t AS SELECT * FROM given LIMIT 9", "CREATE SCHEMA s",
             "CREATE TABLE s.t AS SELECT * FROM given")  # fmt: skip
    refused("must be one of 'main.t', 's.t'", "two.duckdb", table="t")
    same(bl.read("two.duckdb", table="s.t"))
    same(bl.read("one.duckdb", table="main.t"))
    write("cut.duckdb", Path("one.duckdb").read_bytes()[:5000])
    refused("`cut.duckdb` cannot be read", "cut.duckdb")
    holder = [sys.executable, "-c", "import duckdb; c = duckdb.connect('one.duckdb'); print(1, flush=True); input()"]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        refused("another program has it open", "one.duckdb")
        other.communicate(b"\n")


#: What a view can do to whoever looks into it.
VIEWS = (
    "SELECT content AS arm FROM read_text('/etc/passwd')",
    "SELECT file AS arm FROM glob('/*')",
    "WITH RECURSIVE r AS (SELECT 1 AS arm UNION ALL SELECT arm + 1 FROM r) SELECT * FROM r",
    "SELECT * FROM t",
    "SELECT * FROM gone",
)


@pytest.mark.parametrize("view", VIEWS)
def test_views_of_a_database_file_are_not_looked_into(view):
    statements = ["CREATE TABLE t AS FROM given", "CREATE TABLE gone AS FROM given"]
    statements += [f"CREATE VIEW v AS {view}", "DROP TABLE gone"]
    database("a.duckdb", DRAWN.wide(), *statements)
    database("b.duckdb", DRAWN.wide(), *statements, "DROP TABLE t")
    same(bl.read("a.duckdb"))
    for name in ("v", "main.v"):
        refused("`v` is a view; only stored tables of a database file are read", "a.duckdb", table=name)
    refused("`v` is a view", "a.duckdb", "v", table="t")
    for options in ({}, {"table": "v"}):
        refused("`v` is a view", "b.duckdb", **options)
    refused("holds no table", "b.duckdb", table="w")


def test_generated_columns_of_a_database_file_are_not_computed():
    slow = "CASE WHEN current_setting('lock_configuration')::VARCHAR = 'true' THEN error('computed') ELSE 1 END"
    create = f"CREATE TABLE g (arm VARCHAR, outcome DOUBLE GENERATED ALWAYS AS ({slow}), p_A DOUBLE, p_B DOUBLE)"
    database("a.duckdb", DRAWN.wide(), "CREATE TABLE t AS FROM given", create, "INSERT INTO g VALUES ('A', 0.5, 0.5)")
    for options in ({"table": "g"}, {"outcomes": "g", "table": "t"}):
        refused("`g` has a generated column; only stored values of a database file are read", "a.duckdb", **options)
    same(bl.read("a.duckdb", table="t"))


def test_what_is_read_beside_a_database_file_is_all_that_can_be_read():
    rows = DRAWN.wide().append_column("id", pa.array(range(ROWS)))
    assignments, outcomes = rows.drop(["outcome", "arrived_at"]), rows.select(["id", "outcome", "arrived_at"])
    outcomes = outcomes.filter(outcomes["outcome"].is_valid())
    database("assignments.duckdb", assignments)
    database("outcomes.duckdb", outcomes)
    Path("fol'der [x]*").mkdir()
    path = "fol'der [x]*/outcomes[1].{}"
    pa.csv.write_csv(outcomes, path.format("csv"))
    pa.parquet.write_table(outcomes, path.format("parquet"))
    pa.feather.write_feather(outcomes, path.format("feather"))
    pa.csv.write_csv(assignments, "assignments.csv")
    write("secret.txt", "secret")
    for first in ("assignments.duckdb", "assignments.csv", assignments):
        for second in ("outcomes.duckdb", outcomes, *map(path.format, ("csv", "parquet", "feather"))):
            source = bl.read(first, second)
            same(source)
            connection = source.rows.get_backend().con
            if "duckdb" in f"{first} {second}":
                for statement, words in {
                    "FROM read_text('secret.txt')": "disabled by configuration",
                    "FROM glob('*')": "disabled by configuration",
                    "ATTACH 'new.duckdb'": "disabled by configuration",
                    "LOAD httpfs": "disabled",
                    "SET enable_external_access = true": "locked",
                    "SET autoload_known_extensions = true": "locked",
                }.items():
                    with pytest.raises(duckdb.Error, match=words):
                        connection.execute(statement).fetchall()


def test_names_of_several_levels_are_refused():
    frame = pd.concat({"log": DRAWN.wide().to_pandas()}, axis=1)
    refused("column names of several levels; each column must have one name", frame)


# ---------------------------------------------------------------- times of which some have a zone

DAYS = 24
SENT = pd.date_range("2026-03-01", periods=DAYS, freq="D")
NOTE = "The times of `{}` have no time zone, unlike those of `{}`; they count as UTC."


def dated(sent, bought):
    return pd.DataFrame(
        {"arm": ["A", "B"] * 12, "outcome": [1, 0, 0] * 8, "sent_at": sent, "bought_at": bought, "p": [0.5] * DAYS}
    )


def remarks(*tables, **options):
    return [note for note in bl.read(*tables, **options).notes if "zone" in note]


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_times_without_a_zone_are_remarked_on_if_others_have_one(unit):
    zoned = SENT.tz_localize("Europe/Berlin").as_unit(unit)
    plain = SENT.as_unit(unit) + pd.Timedelta("3h")
    assert remarks(dated(zoned, plain)) == [NOTE.format("bought_at", "sent_at")]
    assert remarks(dated(SENT.as_unit(unit), zoned + pd.Timedelta("3h"))) == [NOTE.format("sent_at", "bought_at")]
    assert remarks(dated(zoned, zoned)) == remarks(dated(SENT, plain)) == []


def test_zones_of_files_and_of_two_tables():
    zoned, later = SENT.tz_localize("UTC"), SENT + pd.Timedelta("3h")
    dated(zoned, later).to_parquet("a.parquet")
    write("a.csv", dated(zoned.astype(str), later).to_csv(index=False))
    for path in ("a.parquet", "a.csv"):
        assert remarks(path) == [NOTE.format("bought_at", "sent_at")]
    both = dated(zoned, later).assign(id=range(DAYS))
    two = both[["id", "arm", "sent_at", "p"]], both[["id", "outcome", "bought_at"]]
    assert remarks(*two) == [NOTE.format("bought_at", "sent_at")]
    some = [f"{time}Z" if row % 2 else str(time) for row, time in enumerate(SENT)]
    write("b.csv", dated(some, later).to_csv(index=False))
    assert remarks("b.csv") == ["Some times of `sent_at` have no time zone; they count as UTC."]
