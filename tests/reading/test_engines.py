from __future__ import annotations

import functools
import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from engines import Engine, only

from belated.reading.engines import ENGINES, PACKAGES, engine_of, fetch

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


def _told_apart(value: object) -> object:
    """Give a value in which NaN is equal to itself and to nothing else."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return {key: _told_apart(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_told_apart(item) for item in value]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    return value


@pytest.mark.parametrize("name", [name for name in VALUES.column_names if name not in ("struct", "map")])
def test_a_table_comes_back_as_it_went_in(engine: Engine, name: str) -> None:
    table = _values(engine)
    found = engine.read(table.order_by("row").select(name))[name].to_pylist()
    assert [_told_apart(value) for value in found] == [_told_apart(value) for value in VALUES[name].to_pylist()]


def test_structs_and_maps_come_back_as_they_went_in(engine: Engine) -> None:
    table = _values(engine).order_by("row")
    if engine.name == "postgres":  # a composite type and JSONB there
        read = engine.read(table.select(struct=table.struct.cast("string"), map=table.map.cast("string")))
        assert read["struct"].to_pylist() == ["(0.2,0.8)", None, "(,NaN)", "(0,1)"]
        maps = [text and json.loads(text) for text in read["map"].to_pylist()]
    else:
        read = engine.read(table.select("struct", "map"))
        assert _told_apart(read["struct"].to_pylist()) == _told_apart(VALUES["struct"].to_pylist())
        maps = [None if pairs is None else dict(pairs) for pairs in read["map"].to_pylist()]
    assert maps == [{"A": 0.2, "B": 0.8}, None, {"A": None}, {}]


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


def test_each_engine_is_known_by_ibis_s_name_for_it(engine: Engine) -> None:
    table = engine.table({"x": [1.0, NAN, None]})
    special = engine_of(table)
    assert special is ENGINES[table.get_backend().name]
    assert special.is_embedded == (engine.name == "duckdb")
    assert set(special.packages) <= PACKAGES


def test_nan_and_null_stay_apart_when_fetched(engine: Engine) -> None:
    table = engine.table({"row": [0, 1, 2], "x": [1.0, NAN, None]}).order_by("row")
    assert [_told_apart(value) for value in fetch(table)["x"].to_pylist()] == [1.0, "NaN", None]
    batches = list(engine_of(table).batches(table))
    assert sum(len(batch) for batch in batches) == 3
