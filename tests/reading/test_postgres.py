from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from engines import Engine

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
