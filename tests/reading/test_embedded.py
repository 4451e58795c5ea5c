from __future__ import annotations

import pyarrow as pa

from belated.reading.embedded import connect, kept, register, sql_text


def test_data_come_into_an_engine_of_our_own():
    connection = connect()
    table = register(connection, pa.table({"x": [1, 2]}))
    copy = kept(connection, table.mutate(y=table.x + 1))
    assert copy.to_pyarrow().to_pydict() == {"x": [1, 2], "y": [2, 3]}
    assert connect() is not connection


def test_times_are_in_utc():
    zone = connect().con.execute("SELECT current_setting('TimeZone')").fetchone()
    assert zone == ("UTC",)


def test_quotes_in_sql():
    text = "it's"
    assert connect().con.execute(f"SELECT '{sql_text(text)}'").fetchone() == (text,)
