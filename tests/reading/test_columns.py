from __future__ import annotations

import datetime as dt
import re

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from drawn import DRAWN, ROWS, refused, same

import belated as bl
from belated.log.clock import NEVER, Clock
from belated.reading.columns import (
    KINDS,
    LATER,
    NAMES,
    ONLY,
    ROLES,
    clock_times,
    floats,
    numbers,
    quoted,
    snake,
    some,
    text_of,
    unique,
)


def test_every_role_has_names_and_kinds():
    assert set(KINDS) == set(ROLES)
    assert set(ROLES) - set(NAMES) == {"segment", "covariates", "arrival_probability", "recorded_at"}  # never guessed
    assert {role for role, _ in ONLY} <= set(ROLES)
    for pattern in (*(pattern for tiers in NAMES.values() for pattern in tiers), *LATER):
        re.compile(pattern)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("assignedAt", "assigned_at"), ("Assigned At", "assigned_at"), ("HTTPServer", "http_server"),
        ("p.A", "p_a"), ("__x__", "x"), ("order2Total", "order2_total"), ("é", "é"),
    ],
)  # fmt: skip
def test_snake_case(name, wanted):
    assert snake(name) == wanted


def test_names_in_sentences():
    assert quoted("a\nb") == "'a\\nb'"
    assert some(["a", "b"]) == "'a', 'b'"
    assert some(map(str, range(25)), quote="").endswith("18, 19 and 5 more")
    assert [text_of(label) for label in (1.0, 1.5, "x", True)] == ["1", "1.5", "x", "True"]


def test_what_comes_twice_is_left_out():
    assert unique([("a", "1"), ("b", "2"), ("a", "3"), ("b", "2")]) == {"b": "2"}


pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


def at(values, start=dt.datetime(2026, 1, 1), unit="us", zone=None):
    times = [None if v is None else start + dt.timedelta(hours=int(v)) for v in values]
    return pa.array(times, pa.timestamp("us")).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, zone))


ARRIVED = [None if out else int(t + d) for t, d, out in zip(DRAWN.t, DRAWN.delay, DRAWN.out, strict=True)]


@pytest.mark.parametrize(
    ("assigned", "arrived"),
    [
        ({"unit": "ns"}, {"unit": "ns"}),
        ({"unit": "s"}, {"unit": "ms"}),
        ({"unit": "ns", "zone": "Asia/Tokyo"}, {"unit": "ns", "zone": "Asia/Tokyo"}),
        ({"zone": "America/New_York"}, {"zone": "Europe/Berlin"}),
        ({"zone": "UTC"}, {}),
        ({}, {"zone": "UTC"}),
        ({"start": dt.datetime(1890, 1, 1)}, {"start": dt.datetime(1890, 1, 1)}),
        ({"start": dt.datetime(2300, 1, 1)}, {"start": dt.datetime(2300, 1, 1)}),
    ],
)
def test_times_of_any_kind(assigned, arrived):
    table = DRAWN.wide(assigned_at=at(DRAWN.t, **assigned), arrived_at=at(ARRIVED, **arrived))
    same(bl.read(table.to_pandas()))
    pa.parquet.write_table(table, "a.parquet")
    same(bl.read("a.parquet"))


def test_times_as_text_dates_and_durations():
    assigned, arrived = at(DRAWN.t).to_pylist(), at(ARRIVED).to_pylist()
    zones = [dt.timezone(dt.timedelta(hours=h)) for h in (2, -5, 0)]
    texts = [t.replace(tzinfo=dt.UTC).astimezone(zones[i % 3]).isoformat() for i, t in enumerate(assigned)]
    text = DRAWN.wide(assigned_at=pa.array(texts), arrived_at=pa.array([t and f"{t.isoformat()}Z" for t in arrived]))
    same(bl.read(text))
    pa.csv.write_csv(text, "a.csv")
    same(bl.read("a.csv"))
    days = [None if c is None else dt.date(2026, 1, 1) + dt.timedelta(c) for c in ARRIVED]
    dates = DRAWN.wide(assigned_at=pa.array([dt.date(2026, 1, 1) + dt.timedelta(int(t)) for t in DRAWN.t]),
                       arrived_at=pa.array(days))  # fmt: skip
    same(bl.read(dates))
    waits = [None if out else dt.timedelta(hours=int(d)) for d, out in zip(DRAWN.delay, DRAWN.out, strict=True)]
    for unit in ("s", "ns"):
        delay = pa.array(waits, pa.duration("us")).cast(pa.duration(unit))
        same(bl.read(DRAWN.wide(assigned_at=at(DRAWN.t)).drop(["arrived_at"]).append_column("delay", delay)))


def test_numbers_of_any_type():
    wide, arms = DRAWN.wide(), pa.array(["AB"[k] for k in DRAWN.code])
    same(bl.read(DRAWN.wide(arm=arms.dictionary_encode())))
    same(bl.read(wide.to_pandas().astype({"arm": "category"})))
    same(bl.read(pl.from_arrow(wide).with_columns(pl.col("arm").cast(pl.Enum(["B", "A"])))))
    for dtype in ("int8", "uint64", pa.decimal128(20, 0)):
        times = {name: wide[name].cast(dtype) for name in ("assigned_at", "arrived_at")}
        same(bl.read(DRAWN.wide(**times)))
    single = DRAWN.table(p0=pa.array(DRAWN.p[:, 0], pa.float32()), p1=pa.array(DRAWN.p[:, 1], pa.float32()))
    got = bl.estimate(bl.read(single, propensity={"A": "p0", "B": "p1"}))
    assert got.values == pytest.approx(DRAWN.answers.values, rel=1e-6)
    bits = bl.estimate(bl.read(DRAWN.wide(outcome=pa.array(DRAWN.y > 5, mask=DRAWN.out)))).values
    ones = bl.estimate(bl.read(DRAWN.wide(outcome=pa.array((DRAWN.y > 5).astype(float), mask=DRAWN.out)))).values
    assert bits == pytest.approx(ones, rel=1e-12)
    empty = bl.read(DRAWN.wide(outcome=pa.nulls(ROWS), arrived_at=pa.nulls(ROWS)))
    assert np.isnan(bl.estimate(empty).values).all()


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"arrived_at": at(ARRIVED)}, "'arrived_at' is named like `arrived_at`, but is of kind time"),
        ({"assigned_at": at(DRAWN.t)}, "'arrived_at' is named like `arrived_at`, but is of kind integer"),
        ({"assigned_at": pa.nulls(ROWS)}, "'assigned_at' is named like `assigned_at`, but is of kind other"),
        ({"assigned_at": pa.nulls(ROWS, "int64")}, "`assigned_at` in row 0 is missing"),
        ({"assigned_at": pa.array([dt.time(1)] * ROWS)}, "'assigned_at' is named like"),
        ({"assigned_at": pa.array(["yesterday"] * ROWS), "arrived_at": at(ARRIVED)}, "yesterday"),
        ({"assigned_at": pa.array(range(2**63, 2**63 + ROWS), "uint64")}, "out of range"),
        ({"outcome": pa.array(["5"] * ROWS)}, "'outcome' is named like an outcome, but is of kind text"),
        ({"p0": pa.nulls(ROWS)}, "propensities"),
    ],
)
def test_columns_that_cannot_be(columns, words):
    refused(words, DRAWN.wide(**columns))


def test_delays_that_cannot_be_read_are_not_passed_over():
    table = DRAWN.wide().drop(["arrived_at"])
    refused("'delay' is named like `delay`", table.append_column("delay", pa.array(["3 days"] * ROWS)))
    refused("before its assignment", table.append_column("delay", pa.array([-1] * ROWS)))
    steps = table.drop(["assigned_at"]).append_column("arrived_at", pa.array(ARRIVED))
    same(bl.read(steps))


def test_null_is_nan_among_floats():
    np.testing.assert_array_equal(floats(pa.array([1.5, None, float("nan")])), [1.5, np.nan, np.nan])
    assert floats(pa.chunked_array([[1, 2], [3]])).dtype == np.float64


def test_times_are_numbers_of_the_clock():
    assert clock_times(pa.array([3, None]), Clock()).tolist() == [3, NEVER]
    np.testing.assert_array_equal(clock_times(pa.array([3, None]), Clock(whole=False)), [3.0, np.nan])
    moments = pa.array([dt.datetime(1970, 1, 1, 0, 0, 1), None])
    assert clock_times(moments, Clock(unit="us")).tolist() == [10**6, NEVER]
    assert clock_times(moments, Clock(unit="ns")).tolist() == [10**9, NEVER]


@pytest.mark.parametrize("start", [0, 3, 8, 11])
def test_numbers_of_a_slice_know_what_is_missing(start):
    whole = [None if i % 3 == 0 else i for i in range(20)]
    for kind, missing in (("float64", -1.0), ("int64", -1)):
        column = pa.array(whole, type=kind).slice(start, 7)
        assert numbers(column, missing).tolist() == [missing if x is None else x for x in whole[start : start + 7]]
    assert numbers(pa.chunked_array([[1.0], [None, 2.0]]), 0.0).tolist() == [1.0, 0.0, 2.0]
    assert numbers(pa.array([], type="float64"), 0.0).tolist() == []
