from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from engines import Engine

import belated as bl
from belated.kernels import jit, records
from belated.reading import postgres
from belated.reading.engines import ENGINES, UncopiedError

pytestmark = pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning")


ROWS = pa.table(
    {
        "flag": pa.array([True, None, False]),
        "small": pa.array([-1, None, 2**15 - 1], pa.int16()),
        "whole": pa.array([-(2**31), None, 7], pa.int32()),
        "large": pa.array([-(2**63), None, 2**63 - 1]),
        "real": pa.array([-0.5, None, float("inf")], pa.float32()),
        "double": pa.array([float("nan"), None, -1e308]),
        "text": pa.array(["", None, "é\U0001f389\n'"]),
        "day": pa.array([dt.date(1066, 10, 14), None, dt.date(2026, 3, 1)]),
        "time": pa.array(
            [dt.datetime(1066, 10, 14), None, dt.datetime(2026, 3, 1, 1, 2, 3, 456789)], pa.timestamp("us")
        ),
        "instant": pa.array([dt.datetime(2026, 3, 1), None, dt.datetime(1999, 1, 1)], pa.timestamp("us", "UTC")),
        "decimal": pa.array([Decimal("1.25"), None, Decimal("-7.50")], pa.decimal128(9, 2)),
    }
)


def copied(table, **options):
    every = {"keys": (), "documents": (), "limit": 1_000, **options}
    return ENGINES[table.get_backend().name].copied(table, table.columns, **every)


@pytest.mark.parametrize("compiled", [False, True])
def test_values_come_as_they_are(postgres_engine: Engine, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled:
        jit.compile_kernels()
    else:
        for name in records.KERNELS:
            monkeypatch.setattr(records, name, getattr(getattr(records, name), "py_func", getattr(records, name)))
    table = copied(postgres_engine.table(ROWS))
    for name in ROWS.column_names:
        expected = [None if x is None else float(x) if name == "decimal" else x for x in ROWS[name].to_pylist()]
        np.testing.assert_equal(table[name].to_pylist(), expected)
    assert table["instant"].type.tz == "UTC"


def test_many_pieces_are_one_table(postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    table = postgres_engine.table({"x": list(range(500)), "text": [f"{i}" if i % 7 else None for i in range(500)]})
    whole = copied(table).to_pydict()
    monkeypatch.setattr(postgres, "_PIECE", 100)
    monkeypatch.setattr(postgres, "_AT_ONCE", 3)
    assert copied(table).to_pydict() == whole
    assert copied(table.filter(table.x < 0)).num_rows == 0


def test_an_expression_is_copied_too(postgres_engine: Engine) -> None:
    table = postgres_engine.table({"x": [1, 2, 3]})
    assert copied(table.filter(table.x > 1).mutate(y=table.x * 2.0)).to_pydict() == {"x": [2, 3], "y": [4.0, 6.0]}


def test_what_is_too_large_or_would_change_stays(postgres_engine: Engine) -> None:
    table = postgres_engine.table({"x": [1, 2, 3]})
    with pytest.raises(UncopiedError, match="more than 2 "):
        copied(table, limit=2)
    assert copied(table, limit=3).num_rows == 3
    decimal = postgres_engine.table(ROWS.select(["decimal"]))
    with pytest.raises(UncopiedError, match="'decimal' has a type"):
        copied(decimal, keys=("decimal",))
    endless = postgres_engine.table({"t": [dt.datetime(2026, 1, 1)]})
    postgres_engine.sql(f"INSERT INTO {endless.get_name()} VALUES ('infinity')")  # noqa: S608
    with pytest.raises(UncopiedError, match="times without an end"):
        copied(endless)


def test_a_connection_can_be_used_after_a_copy_that_failed(postgres_engine: Engine) -> None:
    zero = postgres_engine.table({"x": [1] * 5_000 + [0]})
    postgres_engine.sql(f"CREATE VIEW failing AS SELECT 1 / x AS x FROM {zero.get_name()}")  # noqa: S608
    with pytest.raises(Exception, match="division by zero"):
        copied(postgres_engine.connection.table("failing"), limit=10**9)
    with pytest.raises(UncopiedError):
        copied(zero, limit=4_000)
    assert copied(zero, limit=10**9).num_rows == 5_001


@pytest.mark.parametrize("limit", [0, 100])
@pytest.mark.parametrize("kind", ["numeric", "numeric(38, 0)"])
def test_whole_decimals_that_floats_cannot_tell_apart(postgres_engine: Engine, kind: str, limit: int) -> None:
    ids = [str(2**60 + i % 2) for i in range(40)]
    rows = {"id": ids, "outcome": [float(i) for i in range(40)], "t": list(range(40))}
    table = postgres_engine.table(rows, id=kind)
    options = {"outcome": "outcome", "assigned_at": "t", "propensity": "uniform", "copy_limit": limit}
    source = bl.read(table, arm="id", **options)
    assert source.arms == (2**60, 2**60 + 1)
    assert bl.estimate(source, "mean").arm(2**60).estimate == 19.0
    by_segment = bl.read(table.mutate(arm=(table.t % 4 < 2).ifelse("A", "B")), arm="arm", segment="id", **options)
    assert by_segment.segments == (2**60, 2**60 + 1)
    with pytest.raises(bl.LogError, match=r"'id' holds 11805916207174113\d+, .*cast the column to text"):
        bl.read(table.mutate(id=table.id * 1024), arm="id", **options)


@pytest.mark.parametrize("limit", [0, 100])
def test_decimals_that_are_not_whole_are_floats(postgres_engine: Engine, limit: int) -> None:
    rows = {"arm": ["1.0", "2.5"] * 10, "outcome": [1.0, 2.0] * 10, "t": list(range(20))}
    table = postgres_engine.table(rows, arm="numeric")
    options = {"arm": "arm", "assigned_at": "t", "propensity": "uniform", "copy_limit": limit}
    assert bl.read(table, **options).arms == (1.0, 2.5)
    assert str(bl.read(table.filter(table.arm < 2), **options).arms) == "(1,)"


@pytest.mark.parametrize("limit", [0, 100])
def test_a_decimal_that_is_no_number_is_missing(postgres_engine: Engine, limit: int) -> None:
    rows = {"arm": list("ABBA") * 10, "outcome": ["1.5", "NaN", "2.5", "3.5"] * 10, "t": list(range(40))}
    table = postgres_engine.table(rows, outcome="numeric")
    options = {"assigned_at": "t", "propensity": "uniform", "copy_limit": limit}
    came = table.mutate(arrived_at=(table.t % 4 != 1).ifelse(table.t + 1, None))
    assert bl.estimate(bl.read(came, **options), "mean").arm("B").estimate == 2.5
    with pytest.raises(bl.LogError, match="`outcome` is NaN in 10 rows"):
        bl.read(table, **options)


@pytest.mark.parametrize("split", ["uniform", {"A": 0.4, "B": 0.6}])
def test_the_server_computes_with_declared_probabilities(
    postgres_engine: Engine, split: str | dict[str, float]
) -> None:
    rows = {"arm": list("ABBA") * 10, "outcome": [float(i % 7) for i in range(40)], "t": list(range(40))}
    options = {"arm": "arm", "assigned_at": "t", "propensity": split}
    answers = [bl.estimate(bl.read(postgres_engine.table(rows), copy_limit=n, **options)) for n in (0, 100)]
    for arm in "AB":
        summed, copied = (answer.arm(arm) for answer in answers)
        assert (summed.low, summed.high) == pytest.approx((copied.low, copied.high), rel=1e-9)


@pytest.mark.parametrize("limit", [0, 100])
def test_arms_may_be_uuids(postgres_engine: Engine, limit: int) -> None:
    arms = [f"00000000-0000-0000-0000-00000000000{k}" for k in (1, 2)]
    table = postgres_engine.table({"arm": arms * 10, "outcome": [1.0, 2.0] * 10, "t": list(range(20))}, arm="uuid")
    source = bl.read(table, assigned_at="t", propensity="uniform", copy_limit=limit)
    assert source.arms == tuple(arms)
    assert bl.estimate(source, "mean").arm(arms[1]).estimate == 2.0


DOMAINS = {
    "arm": "text", "p_A": "double precision", "p_B": "numeric(3, 2)", "sent_at": "timestamptz", "delay": "interval",
    "outcome": "smallint", "country": "varchar(2)", "day": "date", "returning": "boolean", "unit": "uuid",
    "amount": "real",
}  # fmt: skip


def test_a_domain_is_of_the_type_that_it_restricts(postgres_engine: Engine) -> None:
    for name, kind in DOMAINS.items():
        postgres_engine.sql(f'CREATE DOMAIN "belated_{name}" AS {kind}')
    kinds = ", ".join(f'"{name}" "belated_{name}"' for name in DOMAINS)
    postgres_engine.sql(f'CREATE TABLE domains ({kinds}, letter "char")')
    postgres_engine.sql(
        "INSERT INTO domains SELECT CASE WHEN i % 3 = 0 THEN 'A' ELSE 'B' END, 0.5, 0.5, '2026-03-01Z'::timestamptz + "
        "i * '1 hour'::interval, '2 hours', i % 5, 'x', '2026-03-01', i % 2 = 0, gen_random_uuid(), i, "
        "CASE WHEN i % 3 = 0 THEN 'A' ELSE 'B' END FROM generate_series(1, 40) AS i"
    )
    table = postgres_engine.connection.table("domains")
    columns = {"assigned_at": "sent_at", "delay": "delay", "outcome": "outcome", "propensity": "p_*"}
    for more in ({}, {"segment": ["country", "day", "returning"]}, {"covariates": ["amount"]}):
        several = [
            bl.estimate(bl.read(table, arm=arm, **columns, **more, copy_limit=limit))
            for arm in ("arm", "letter")
            for limit in (0, 1_000)
        ]
        assert {estimate.arms for estimate in several} == {("A", "B")}
        assert [estimate.values for estimate in several] == [pytest.approx(several[0].values, rel=1e-9)] * 4
    assert len(bl.read(table, arm="unit", **columns | {"propensity": "uniform"}).arms) == 40
