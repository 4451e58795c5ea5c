from __future__ import annotations

import ibis

from belated.reading.inputs import Input


def test_a_table_whose_types_are_sure_stays_as_it_is():
    table = ibis.memtable({"arm": ["A"], "y": [1.0]})
    given = Input(table, "t", ordered=True)
    assert given.loaded({"y": "DOUBLE"}, ["y"], "arm") is given
    assert given.kinds == {}
    assert given.connection.name == "duckdb"
