"""Expressions that take the place of Ibis's for files."""

from __future__ import annotations

import numpy as np
import pytest

from belated.reading import expressions
from belated.reading.embedded import connect


@pytest.fixture
def table():
    connection = connect()
    connection.raw_sql(
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 0.1::DOUBLE, 'a''b'), (2, NULL, 'c\"d')) t(i, x, s)"
    )
    return connection.table("t")


def test_types_are_known_or_asked_for(table):
    assert table.schema() == {"i": "INTEGER", "x": "DOUBLE", "s": "VARCHAR"}
    chosen = (table.i > 1).ifelse(table.x, None)
    selected = table.select(a=table.i + 1, b=table.x * 2, c=table.i / 2, d=chosen, e=table.i.sum())
    assert selected.schema() == {"a": "INTEGER", "b": "DOUBLE", "c": "DOUBLE", "d": "DOUBLE", "e": "HUGEINT"}


def test_names_and_text_are_only_that(table):
    hostile = """x"; DROP TABLE t; --'"""
    named = table.select(**{hostile: table.s})
    matches = named.filter(named[hostile] == "a'b").to_pyarrow()
    assert matches.to_pydict() == {hostile: ["a'b"]}
    assert table.filter(table.s.isin(["'", 'c"d'])).to_pyarrow()["i"].to_pylist() == [2]


def test_numbers_arrive_to_the_last_digit(table):
    numbers = [0.1 + 0.2, 1e308, 5e-324, -0.0, float("inf"), 2**53 + 1, np.int64(7), np.float64(1 / 3)]
    selected = table.select(**{f"n{k}": expressions.literal(number) for k, number in enumerate(numbers)})
    assert list(selected.limit(1).to_pyarrow().to_pylist()[0].values()) == numbers


def test_sums_of_many_terms_are_not_nested(table):
    total = sum((table.x for _ in range(520)), table.x)  # of which DuckDB refuses about 500 that are nested
    assert table.aggregate(total=total.max()).to_pyarrow()["total"].to_pylist() == [pytest.approx(52.1)]


def test_an_expression_is_not_true_or_false(table):
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(table.i == 1)
