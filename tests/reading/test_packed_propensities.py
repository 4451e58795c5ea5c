from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import ibis
import pyarrow as pa
import pytest
from engines import Engine, in_sql, only

from belated.base.errors import LogError
from belated.reading.packed_propensities import columns, keys, length

NAN = float("nan")
HOSTILE = [
    "A", "a'b", 'q"q', "''", "d.o.t", "b[0]", "[0]", "$", "$.A", "$[*]", "back\\slash", "\\'", "\\u0041", "new\nline",
    "\t", " ", "", "*", "%s", "{0}", "`", "?", "@", "null", "0", "-1", "Zoë", "Zoe\u0308", "😀", "--", "/* */",
    "A\u200b", "x" * 10_000, "a", "; DROP TABLE x",
]  # fmt: skip


def _read(engine: Engine, table: Any, values: list[Any]) -> list[list[float | None]]:
    """Give each column's values in the order of the rows, NaN as text."""
    names = [f"v{i}" for i in range(len(values))]
    query = table.select("row", **dict(zip(names, values, strict=True))).order_by("row")
    read = engine.read(query)
    return [["NaN" if x is not None and math.isnan(x) else x for x in read[name].to_pylist()] for name in names]


def _table(engine: Engine, values: Any, **types: str) -> Any:
    return engine.table({"row": list(range(len(values))), "p": values}, **types)


def _json_types(engine: Engine) -> list[dict[str, str]]:
    """Give the types in which an engine can hold JSON; none is text."""
    return {"duckdb": [{}, {"p": "json"}], "postgres": [{}, {"p": "json"}, {"p": "jsonb"}], "spark": [{}]}[engine.name]


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.float32(), pa.int64(), pa.decimal128(12, 4), pa.decimal128(38, 18), pa.string()], ids=str
)
@in_sql
def test_lists_go_by_position(engine: Engine, kind: pa.DataType) -> None:
    whole = pa.types.is_integer(kind)
    one, two = ("1", "0") if whole else ("0.25", "0.75")
    cast = {pa.int64(): int, pa.float32(): float, pa.float64(): float, pa.string(): str}.get(kind, Decimal)
    rows = [[cast(one), cast(two)], None, [None, cast(two)], [cast(one)], [], [cast(one), cast(two), cast(one)]]
    table = _table(engine, pa.array(rows, pa.list_(kind)))
    assert keys(table.p) == 3
    first, second = float(one), float(two)
    assert _read(engine, table, [*columns(table.p, 2), length(table.p)]) == [
        [first, None, None, first, None, first],
        [second, None, second, None, None, second],
        [2, None, 2, 1, 0, 3],
    ]


@in_sql
def test_lists_too_short_are_never_filled(engine: Engine) -> None:
    table = _table(engine, pa.array([[0.2], [0.2, 0.8]]))
    assert _read(engine, table, columns(table.p, 2, absent=0.0)) == [[0.2, 0.2], [None, 0.8]]


@in_sql
def test_nan_and_null_stay_apart(engine: Engine) -> None:
    table = _table(engine, pa.array([[NAN, None], [math.inf, 0.0]], pa.list_(pa.float64())))
    assert _read(engine, table, columns(table.p, 2)) == [["NaN", math.inf], [None, 0.0]]


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(12, 4), pa.int64()], ids=str)
@in_sql
def test_structs_go_by_name(engine: Engine, kind: pa.DataType) -> None:
    fields = [("B", kind), ("A", kind), ("b.[0] $x", kind)]
    rows = [{"A": 1, "B": 0, "b.[0] $x": 3}, None, {"A": None, "B": 2, "b.[0] $x": None}]
    table = _table(engine, pa.array(rows, pa.struct(fields)))
    assert keys(table.p) == ["B", "A", "b.[0] $x"] or engine.name == "postgres"
    assert set(keys(table.p) or ()) == {"A", "B", "b.[0] $x"}
    named = columns(table.p, ["A", "B", "b.[0] $x", "Z"])
    expected = [[1, None, None], [0, None, 2], [3, None, None], [None, None, None]]
    filled, filling = columns(table.p, ["Z", "A"], absent=0.5), [[0.5, None, 0.5], [1, None, None]]
    assert _read(engine, table, [*named, *filled, length(table.p)]) == [*expected, *filling, [3, None, 3]]


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(12, 4), pa.string()], ids=str)
@in_sql
def test_maps_go_by_name(engine: Engine, kind: pa.DataType) -> None:
    cast = {pa.float64(): float, pa.string(): str}.get(kind, Decimal)
    rows = [[("A", cast("0.2")), ("B", cast("0.8"))], None, [("B", cast("1"))], [("A", None)], []]
    table = _table(engine, pa.array(rows, pa.map_(pa.string(), kind)))
    assert keys(table.p) == ["A", "B"]
    named, filled = columns(table.p, ["A", "B"]), columns(table.p, ["A", "B"], absent=0.0)
    assert _read(engine, table, [*named, *filled, length(table.p)]) == [
        [0.2, None, None, None, None],
        [0.8, None, 1.0, None, None],
        [0.2, None, 0.0, None, 0.0],
        [0.8, None, 1.0, 0.0, 0.0],
        [2, None, 1, 1, 0],
    ]


@pytest.mark.parametrize(
    ("kind", "names"),
    [(pa.int32(), {3: "3", -1: "-1"}), (pa.float64(), {0.5: "0.5", 2.5: "2.5"}), (pa.bool_(), {True: "true"})],
    ids=str,
)
@in_sql
def test_keys_of_maps_are_names_whatever_their_type(engine: Engine, kind: pa.DataType, names: dict[Any, str]) -> None:
    rows = [[(key, 0.25) for key in names], None, []]
    table = _table(engine, pa.array(rows, pa.map_(kind, pa.float64())))
    assert sorted(keys(table.p) or ()) == sorted(names.values())
    every = columns(table.p, list(names.values()), absent=0.0)
    assert _read(engine, table, [*every, length(table.p)]) == [
        *([0.25, None, 0.0] for _ in names),
        [len(names), None, 0],
    ]


@in_sql
def test_json_objects_go_by_name(engine: Engine) -> None:
    rows = [
        '{"A": 0.2, "B": 0.8}', None, ' {"B": 1e0, "C": 0} ', '{"A": null}', "{}", "null", "[0.2, 0.8]", "3",
        '{"A": "0.25", "B": true}', '{"A": {"A": 1}, "B": [1]}', '{"A": 0.1234567890123456789, "B": 1e-300}',
    ]  # fmt: skip
    for types in _json_types(engine):
        table = _table(engine, rows, **types)
        assert keys(table.p) == ["A", "B", "C"]
        named, filled = columns(table.p, ["A", "B"]), columns(table.p, ["A"], absent=0.0)
        assert _read(engine, table, [*named, *filled, length(table.p)]) == [
            [0.2, None, None, None, None, None, None, None, 0.25, None, 0.12345678901234568],
            [0.8, None, 1.0, None, None, None, None, None, None, None, 1e-300],
            [0.2, None, 0.0, None, 0.0, None, None, None, 0.25, None, 0.12345678901234568],
            [2, None, 2, 1, 0, None, 2, None, 2, 2, 2],
        ]


@in_sql
def test_json_lists_go_by_position(engine: Engine) -> None:
    rows = ["[0.2, 0.8]", None, "[1, null, 0]", '["0.25"]', "[]", '{"0": 0.2, "1": 0.8}', "null"]
    for types in _json_types(engine):
        table = _table(engine, rows, **types)
        assert keys(table.p) == 3
        assert _read(engine, table, [*columns(table.p, 2), length(table.p)]) == [
            [0.2, None, 1.0, 0.25, None, None, None],
            [0.8, None, None, None, None, None, None],
            [2, None, 3, 1, 0, 2, None],
        ]


@pytest.mark.parametrize("held", ["map", "JSON"])
@in_sql
def test_names_are_matched_exactly(engine: Engine, held: str) -> None:
    chances = {name: (i + 1) / 1000 for i, name in enumerate(HOSTILE)}
    rows: Any = [json.dumps(chances), json.dumps(chances, ensure_ascii=False)]
    if held == "map":
        rows = pa.array([list(chances.items())] * 2, pa.map_(pa.string(), pa.float64()))
    table = _table(engine, rows)
    assert set(keys(table.p) or ()) == set(HOSTILE)
    read = _read(engine, table, columns(table.p, HOSTILE))
    assert read == [[chances[name]] * 2 for name in HOSTILE]
    read = _read(engine, table, columns(table.p, ["B", "$.a", "x", "😁", "A ", "b"], absent=-1.0))
    assert read == [[-1.0, -1.0]] * 6


@only("duckdb", "spark")
def test_broken_json_is_null(engine: Engine) -> None:
    table = _table(engine, ["oops", '{"A": 0.2', "", '{"A": 0.2}', '{"A" 0.2}', "[0.2"])
    assert keys(table.p) == ["A"]
    named, listed = columns(table.p, ["A"], absent=0.0), columns(table.p, 1)
    assert _read(engine, table, [*named, *listed, length(table.p)]) == [
        [None, None, None, 0.2, None, None],
        [None] * 6,
        [None, None, None, 1, None, None],
    ]


@only("postgres")
def test_broken_json_is_an_error_of_postgresql_s(engine: Engine) -> None:
    from psycopg.errors import InvalidTextRepresentation

    table = _table(engine, ["oops", '{"A": 0.2}'])
    assert keys(table.p) == ["A"]
    with pytest.raises(InvalidTextRepresentation, match="invalid input syntax for type json"):
        _read(engine, table, columns(table.p, ["A"]))


@only("postgres")
def test_hstore_goes_by_name(engine: Engine) -> None:
    try:
        engine.sql("CREATE EXTENSION IF NOT EXISTS hstore")
    except Exception as error:  # contrib is a package of its own on some systems
        pytest.skip(f"no hstore: {error}")
    table = _table(engine, ["A=>0.2, B=>0.8", None, "B=>NULL", "A=>oops"], p="hstore")
    assert keys(table.p) == ["A", "B"]
    assert _read(engine, table, columns(table.p, ["A", "B"], absent=0.0)) == [
        [0.2, None, 0.0, None],
        [0.8, None, None, 0.0],
    ]


@in_sql
def test_columns_can_be_part_of_anything_larger(engine: Engine) -> None:
    rows = ['{"A": 0.25, "B": 0.75}', '{"A": 0.5, "B": 0.5}', None, '{"A": 0.125, "B": 0.875}']
    table = _table(engine, rows)
    a, b = columns(table.p, ["A", "B"], absent=0.0)
    assert _read(engine, table.filter(a < b), [a]) == [[0.25, 0.125]]
    running = a.sum().over(ibis.window(order_by=table.row, rows=(None, 0)))
    assert _read(engine, table, [running]) == [[0.25, 0.75, 0.75, 0.875]]
    grouped = table.group_by(row=(b > 0.6).fill_null(False)).agg(total=a.sum(), size=length(table.p).max())
    read = engine.read(grouped.order_by("row"))
    assert read["total"].to_pylist() == [0.5, 0.375]
    assert read["size"].to_pylist() == [2, 2]
    exploded = table.select("row", q=ibis.array([a, b]).unnest())
    assert engine.read(exploded.q.sum()).to_pydict().popitem()[1] == [3.0]
    twice = table.mutate(a=a, b=b).filter(lambda t: t.a + t.b == 1)
    assert engine.read(twice.count()).to_pydict().popitem()[1] == [3]


@in_sql
def test_computed_columns_can_be_read_too(engine: Engine) -> None:
    table = _table(engine, ['{"A": 0.25}', "x"])
    p = ibis.ifelse(table.row == 0, table.p, ibis.null("string")).name("q")
    assert keys(p) == ["A"]
    assert _read(engine, table, columns(p, ["A"])) == [[0.25, None]]


@in_sql
def test_nothing_to_learn_from(engine: Engine) -> None:
    for kind in (pa.string(), pa.list_(pa.float64()), pa.map_(pa.string(), pa.float64())):
        assert keys(_table(engine, pa.array([None, None], kind)).p) is None
    assert keys(_table(engine, ["{}", "{}"]).p) is None
    assert keys(_table(engine, pa.array([[]], pa.list_(pa.float64()))).p) is None


@in_sql
def test_what_cannot_be_read_is_refused_in_a_sentence(engine: Engine) -> None:
    table = engine.table(
        {
            "text": ["A:0.2"],
            "number": [0.2],
            "list": pa.array([[0.2]]),
            "flags": pa.array([[True]]),
        }
    )
    with pytest.raises(LogError, match=r"^`text` holds 'A:0.2'; it must hold a list, a struct, a map or JSON with"):
        keys(table.text)
    for ask in (keys, length, lambda column: columns(column, 2)):
        with pytest.raises(LogError, match=r"^`number` holds float64 on \w+; it must"):
            ask(table.number)
    with pytest.raises(LogError, match=r"^`list` holds array<float64>; it must hold a struct, a map or a JSON object"):
        columns(table["list"], ["A"])
    with pytest.raises(LogError, match=r"^`flags` holds array<boolean>; it must hold a list"):
        columns(table.flags, 1)


@only("duckdb", "spark")
def test_structs_and_maps_have_no_positions(engine: Engine) -> None:
    table = _table(engine, pa.array([{"A": 0.2}]))
    with pytest.raises(LogError, match=r"^`p` holds struct<A: float64>; it must hold a list with every"):
        columns(table.p, 1)


@only("duckdb")
def test_lists_of_fixed_size(engine: Engine) -> None:
    table = _table(engine, pa.array([[0.2, 0.8], None], pa.list_(pa.float64(), 2)))
    assert keys(table.p) == 2
    assert _read(engine, table, [*columns(table.p, 2), length(table.p)]) == [[0.2, None], [0.8, None], [2, None]]
