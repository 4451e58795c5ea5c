"""Parquet files: durations, and columns whose types differ between files."""

from __future__ import annotations

import datetime as dt
import os

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from drawn import DRAWN, ROWS, refused, same

import belated as bl

pytestmark = [pytest.mark.usefixtures("empty_folder"), pytest.mark.filterwarnings("ignore::belated.BelatedWarning")]

HOURS = dt.timedelta(hours=1)
SENT = [dt.datetime(2026, 3, 1) + int(t) * HOURS for t in DRAWN.t]
DELAYS = [None if out else int(delay) * HOURS for out, delay in zip(DRAWN.out, DRAWN.delay, strict=True)]


def timed(unit="us"):
    """Return the experiment in hours of a calendar, its delays as durations."""
    columns = {"assigned_at": pa.array(SENT), "delay": pa.array(DELAYS, pa.duration(unit))}
    return DRAWN.wide(**columns).drop(["arrived_at"])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_of_arrow_are_durations(unit):
    pa.parquet.write_table(timed(unit), "a.parquet")
    source = bl.read("a.parquet")
    assert source.roles.delay == "delay"
    same(source)
    same(bl.read(timed(unit)))


def test_durations_of_polars_and_of_duckdb_are_durations():
    pl.from_arrow(timed()).write_parquet("polars.parquet")
    same(bl.read("polars.parquet"))
    table = timed()
    duckdb.from_arrow(table).to_parquet("duckdb.parquet")
    same(bl.read("duckdb.parquet"))
    with duckdb.connect("a.duckdb") as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE sent AS SELECT * FROM given")
    same(bl.read("a.duckdb", table="sent"))


def test_delays_that_arrow_does_not_call_durations_are_numbers():
    whole = pa.array(DRAWN.delay, mask=DRAWN.out)
    pa.parquet.write_table(DRAWN.wide(delay=whole).drop(["arrived_at"]), "a.parquet")
    same(bl.read("a.parquet"))
    dated = DRAWN.wide(delay=whole, assigned_at=pa.array(SENT)).drop(["arrived_at"])
    pa.parquet.write_table(dated, "b.parquet", store_schema=False)
    refused("Column 'delay', for `delay`, holds whole numbers", "b.parquet")


def halves(one, two):
    """Write two tables as the files of a folder."""
    os.makedirs("folder", exist_ok=True)
    pa.parquet.write_table(one, "folder/a.parquet")
    pa.parquet.write_table(two, "folder/b [*].parquet")
    return "folder"


def test_durations_in_a_folder_are_of_one_unit():
    first, second = timed().slice(0, 30), timed().slice(30)
    same(bl.read(halves(first, second)))
    halves(first, timed("ms").slice(30))
    words = r"Column 'delay' holds durations in ms in `b \[\*\].parquet`, but durations in us in the files before it"
    refused(words, "folder")
    assert len(bl.read("folder", delay="none", arrived_at="none")) == ROWS  # if they are not used
    whole = pa.array(DRAWN.delay[30:], mask=DRAWN.out[30:])
    halves(first, second.set_column(second.schema.get_field_index("delay"), "delay", whole))
    refused(r"holds whole numbers in `b \[\*\].parquet`, but durations in us in the files before", "folder")


def test_text_in_one_file_of_a_folder_is_named_with_its_file():
    first, second = DRAWN.wide().slice(0, 30), DRAWN.wide().slice(30)
    place = second.schema.get_field_index("outcome")
    halves(first, second.set_column(place, "outcome", second["outcome"].cast(pa.string())))
    refused(r"Column 'outcome' holds text in `b \[\*\].parquet`, but numbers in the files before it", "folder")
    halves(first.set_column(place, "outcome", first["outcome"].cast(pa.string())), second)
    refused(r"Column 'outcome' holds numbers in `b \[\*\].parquet`, but text in the files before it", "folder")


def test_arms_may_be_numbers_in_one_file_and_text_in_another():
    first, second = DRAWN.wide().slice(0, 30), DRAWN.wide().slice(30)
    place = first.schema.get_field_index("arm")
    halves(first.set_column(place, "arm", pa.array(DRAWN.code[:30])), second)
    assert set(bl.read("folder", propensity="uniform").arms) == {"0", "1", "A", "B"}


def as_bytes(table, *names):
    for name in names:
        texts = [None if each is None else each.encode() for each in table[name].to_pylist()]
        table = table.set_column(table.column_names.index(name), name, pa.array(texts, pa.binary()))
    return table


def test_bytes_that_a_file_does_not_call_text_are_text(duckdb_engine):
    keys = [f"k\u00e9{i}" for i in range(ROWS)]
    arms = ["\u00e9\\" if k else "\u65e5" for k in DRAWN.code]
    sent = DRAWN.wide(arm=arms, key=keys).drop(["outcome", "arrived_at"])
    sent = sent.append_column("country", pa.array(["\u00d6", None, "x"] * (ROWS // 3)))
    bought = pa.table({"key": keys, "outcome": [float(i % 5) for i in range(ROWS)]})
    options = {"key": "key", "segment": "country", "propensity": "uniform", "arrived_at": "none", "arm": "arm"}
    wanted = bl.read(sent, bought, **options, assigned_at="assigned_at")
    plain = as_bytes(sent, "arm", "key", "country").append_column("photo", pa.array([b"\xff"] * ROWS))
    pa.parquet.write_table(plain, "a.parquet", store_schema=False)
    own = duckdb_engine.table(plain), duckdb_engine.table(bought)
    for tables in (("a.parquet", bought), (plain, bought), (pl.from_arrow(plain), bought), own):
        source = bl.read(*tables, **options, assigned_at="assigned_at")
        assert source.arms == ("\u00e9\\", "\u65e5")
        assert source.units.segment.labels == wanted.units.segment.labels == ("x", "\u00d6", "(missing)")
        assert bl.estimate(source).values.tolist() == pytest.approx(bl.estimate(wanted).values.tolist(), rel=1e-12)


def test_bytes_that_are_no_text_stay_apart():
    arms = [b"\xff" if k else b"\xfe" for k in DRAWN.code]
    pa.parquet.write_table(DRAWN.wide(arm=pa.array(arms)), "a.parquet")
    assert bl.read("a.parquet", arm="arm", propensity="uniform").arms == (r"\xFE", r"\xFF")
