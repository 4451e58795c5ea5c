from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import ibis
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from drawn import DRAWN, NAMES, ROWS, Drawn, database, named, refused, same, write

import belated as bl
from belated.reading.read import open_input

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


#: Names that columns have inside, and words of SQL.
INSIDE = (
    "code", "outcome", "assigned", "arrived", "key", "key_", "when", "delay", "conflict", "total", "p", "p0", "k",
    "own", "pi", "about", "seen", "turn", "moment", "mean", "n", "select", "from", "order", "rowid", "*", "a.b",
)  # fmt: skip


@pytest.mark.parametrize("form", ["parquet", "feather", "csv", "duckdb", "pandas", "polars", "arrow"])
def test_arms_of_any_name(form):
    labels = tuple(name for name in NAMES if form != "csv" or "\r" not in name)
    drawn = Drawn(labels, rows=200)
    table = drawn.table()
    if form == "parquet":
        pa.parquet.write_table(table, "a.parquet")
    elif form == "feather":
        pa.feather.write_feather(table, "a.feather")
    elif form == "csv":
        pa.csv.write_csv(table, "a.csv")
    elif form == "duckdb":
        database("a.duckdb", table)
    frames = {"pandas": pa.Table.to_pandas, "polars": pl.from_arrow, "arrow": lambda t: t}
    source = bl.read(frames[form](table) if form in frames else f"a.{form}", propensity=named(drawn))
    assert source.arms == labels
    same(source, drawn)


@pytest.mark.parametrize(
    "labels",
    [(1, 2), (-1, -2), (0.5, 1.5), (True, False), (Decimal("1.5"), Decimal("2.5")), ("A", "a")],
)
def test_arms_of_any_type(labels):
    drawn = Drawn(labels)
    same(bl.read(drawn.table(), propensity=named(drawn)), drawn)


@pytest.mark.parametrize("kind", [pa.decimal128(38, 0), pa.decimal128(38, 1), pa.float64()], ids=str)
@pytest.mark.parametrize("name", [int, float, str], ids=["int", "float", "str"])
def test_whole_arms_of_other_types_are_named_by_whole_numbers(kind, name):
    rows = {"outcome": [1.0, 2.0, 3.0, 4.0], "zero": [0.5] * 4, "one": [0.5] * 4}
    table = pa.table({"arm": pa.array([0, 1, 0, 1]).cast(kind), **rows})
    source = bl.read(table, propensity={name(1): "one", name(0): "zero"})
    assert source.arms == (1, 0)
    assert bl.estimate(source).arm(0).estimate == 2.0


def test_whole_decimals_that_floats_cannot_tell_apart():
    """Warehouses keep identifiers as NUMBER(38, 0)."""
    ids = pa.array([Decimal(2**60 + i % 2) for i in range(40)], pa.decimal128(38, 0))
    frame = pa.table({"arm": ["A", "A", "B", "B"] * 10, "id": ids, "outcome": [float(i) for i in range(40)]})
    options = {"arm": "arm", "outcome": "outcome", "propensity": "uniform", "segment": "id"}
    for log in (bl.read(frame, **options), bl.Log.from_frame(frame, **options)):
        assert log.segments == (2**60, 2**60 + 1)
    larger = pl.DataFrame({"arm": [2**70, 2**70 + 1], "outcome": [1.0, 2.0]}, schema_overrides={"arm": pl.Int128})
    assert bl.Log.from_frame(larger, arm="arm", outcome="outcome", propensity="uniform").arms == (2**70, 2**70 + 1)


def test_dates_and_bytes_are_no_arms():
    for labels in ((dt.date(2026, 1, 1), dt.date(2026, 1, 2)), (b"a", b"b")):
        refused("'arm' is named like an arm, but is of kind", Drawn(labels).table(), propensity="p0")


def chosen(name):
    return {
        "arm": name("arm"), "outcome": name("outcome"), "assigned_at": name("assigned_at"),
        "arrived_at": name("arrived_at"), "propensity": {"A": name("p0"), "B": name("p1")},
    }  # fmt: skip


def test_columns_of_any_name():
    roles = ["arm", "outcome", "assigned_at", "arrived_at", "p0", "p1"]
    hostile = [name for name in (*NAMES, *INSIDE) if "\0" not in name]
    for start in range(0, len(hostile), 5):
        some = [*hostile[start : start + 5], "spare", "more", "yet more"][: len(roles) - 1]
        if len({name.lower() for name in some}) < len(some):
            some = [f"{i}{name}" for i, name in enumerate(some)]
        names = dict(zip(roles[start % 2 :], some, strict=False))
        given = chosen(lambda role: names.get(role, f"plain {role}"))  # noqa: B023
        table = DRAWN.table({role: names.get(role, f"plain {role}") for role in roles})
        same(bl.read(table, **given))


@pytest.mark.parametrize("key", ["key_", "when", "outcome", 'a"; DROP TABLE t; --', "x" * 10_000, "new\nline"])
def test_columns_of_any_name_in_two_tables(key):
    table = DRAWN.table()
    ids = pa.array(range(ROWS))
    assignments = table.select(["arm", "assigned_at", "p0", "p1"]).rename_columns(["code", "total", "arrived", "p"])
    outcomes = table.select(["outcome", "arrived_at"]).rename_columns(["conflict", "assigned"])
    outcomes = outcomes.append_column(key, ids).filter(pc.is_valid(table["outcome"]))
    same(
        bl.read(
            assignments.append_column(key, ids), outcomes, key=(key, key), arm="code", assigned_at="total",
            outcome="conflict", arrived_at="assigned", propensity={"A": "arrived", "B": "p"},
        )
    )  # fmt: skip


def test_roles_may_have_each_others_names():
    swapped = {"arm": "outcome", "outcome": "arm", "assigned_at": "arrived", "arrived_at": "assigned", "p0": "p1",
               "p1": "p0"}  # fmt: skip
    same(bl.read(DRAWN.table(swapped), **chosen(swapped.get)))


def test_names_that_come_twice():
    table = DRAWN.wide()
    twice = pa.table([*table.columns, table["arm"]], names=[*table.column_names, "arm"])
    refused("several columns named 'arm'", twice)
    frame = table.to_pandas()
    frame.insert(1, "arm", "q", allow_duplicates=True)
    refused("several columns named 'arm'", frame)
    write("a.csv", DRAWN.csv().replace("arrived_at", "outcome", 1))
    refused("`a.csv` has several columns named 'outcome'", "a.csv")
    write("a.csv", DRAWN.csv().replace("arrived_at", "out\0come", 1))
    refused("cannot contain that character", "a.csv")


TABLE = pa.table({"arm": ["A", "B"], "y": [1.0, 2.0]})


@pytest.mark.usefixtures("empty_folder")
def test_whatever_people_have_is_a_table_with_a_name(duckdb_engine):
    pa.parquet.write_table(TABLE, "log.parquet")
    for given, name, ordered in (
        ("log.parquet", "log.parquet", True),
        (Path("log.parquet"), "log.parquet", True),
        (TABLE, "the dataframe", True),
        (TABLE.to_pandas(), "the dataframe", True),
        (duckdb_engine.table(TABLE, name="of_an_engine"), "of_an_engine", False),
    ):
        opened = open_input(given)
        assert (opened.name, opened.ordered) == (name, ordered)
        assert opened.table.to_pyarrow().to_pydict() == TABLE.to_pydict()


def test_what_is_no_table():
    for given in (7, b"log.csv", None):
        with pytest.raises(
            bl.OptionError, match=r"`source` is of type .*; it must be a path, a dataframe or an Ibis table"
        ):
            open_input(given, role="source")


def test_a_table_is_opened_beside_another(postgres_engine):
    first = open_input(TABLE)
    assert open_input(TABLE, beside=first).connection is first.connection
    there = open_input(postgres_engine.table({"arm": ["A"]}))
    with pytest.raises(bl.OptionError, match="the assignments are in postgres; both must be in one engine"):
        open_input(TABLE, beside=there, role="outcomes")


def test_tables_of_ibis_that_cannot_be_read():
    unbound = ibis.table({"arm": "string", "outcome": "float64", "propensity": "float64"}, name="t")
    refused("`source` is an Ibis table without a connection", unbound)
    refused("`source` is an Ibis table without a connection", unbound.filter(unbound.outcome > 0))
    refused("`source` is of type StringColumn of Ibis; it must be a table", unbound.arm)


def test_a_table_of_what_is_no_database():
    refused("`table` is 't', but `source` is not a database", DRAWN.wide(), table="t")


@pytest.mark.parametrize("arms", [5, "AB", b"AB", [], ()])
def test_arms_that_are_no_list(arms):
    refused("`arms` is .*; it must list the arms' labels, at least one", DRAWN.wide(), arms=arms)


def test_a_declared_split_may_be_in_per_cent():
    table = pa.table({"arm": ["A", "B", "A"], "outcome": [1.0, 2.0, 3.0]})
    source = bl.read(table, propensity={"A": 80, "B": 20}, propensity_unit="percent")
    assert source.roles.propensity.split == {"A": 0.8, "B": 0.2}
    assert source.log().propensity.tolist() == [[0.8, 0.2]] * 3
    refused("sum to 0.01", table, propensity={"A": 0.5, "B": 0.5}, propensity_unit="percent")
