from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import belated as bl
from belated.reading.opening import open_input

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
        with pytest.raises(bl.OptionError, match=r"`source` is a .*; it must be a path, a dataframe or an Ibis table"):
            open_input(given, role="source")


def test_a_table_is_opened_beside_another(postgres_engine):
    first = open_input(TABLE)
    assert open_input(TABLE, beside=first).connection is first.connection
    there = open_input(postgres_engine.table({"arm": ["A"]}))
    with pytest.raises(bl.OptionError, match="the assignments are in postgres; both must be in one engine"):
        open_input(TABLE, beside=there, role="outcomes")
