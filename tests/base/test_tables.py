from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import belated as bl
from belated.base.tables import Column

HOSTILE = [
    "<script>alert(1)</script>",
    "'; DROP TABLE log; --",
    "a|b*c_d`e",
    "two\nlines\r\x00\x1b[31m",
    "😀 ünï",
    "x" * 10_000,
    "\ud800",
    "&lt;b&gt;",
]


def estimate(arms=("A", "B")):
    rng = np.random.default_rng(0)
    n = len(arms)
    return bl.estimate(bl.Log(list(arms) * 20, rng.normal(size=20 * n), np.full((20 * n, n), 1 / n), arms=arms))


TABLES = {
    "log": lambda: bl.Log(["A", "B"], [1, 2], [[0.5, 0.5]] * 2),
    "estimate": estimate,
    "answer": lambda: estimate().contrast("B", "A"),
    "contrasts": lambda: estimate().contrasts("A", simultaneous=True),
    "comparison": lambda: bl.compare(bl.Log(["A", "B"] * 5, np.arange(10.0), [[0.5, 0.5]] * 10)),
    "answers": lambda: bl.compare(bl.Log(["A", "B"] * 5, np.arange(10.0), [[0.5, 0.5]] * 10)).contrast("B", "A"),
    "trajectory": lambda: bl.trajectory(bl.Log(["A", "B"] * 30, np.arange(60.0), [[0.5, 0.5]] * 60), at=30),
}


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("name", TABLES)
def test_every_result_is_shown_and_taken_everywhere(name):
    table = TABLES[name]()
    text, markdown, html = str(table), table._repr_markdown_(), table._repr_html_()
    assert len(text.splitlines()) >= 3
    assert markdown.splitlines()[3].startswith("| ")
    reader = Reader()
    reader.feed(html)
    assert set(reader.tags) == {"table", "caption", "thead", "tr", "th", "tbody", "td"}
    rows = len(next(iter(table._data().values())))
    for frame in (table.to_pandas(), table.to_polars(), table.to_arrow()):
        assert len(frame) == rows
    assert list(table.to_pandas()) == table.to_polars().columns == table.to_arrow().column_names
    assert list(table.to_dict()) == list(table._data())


def test_datetimes_survive_the_way_into_frames():
    days = np.array(["2026-01-01", "2026-01-02"] * 5, "datetime64[D]")
    log = bl.Log(["A", "B"] * 5, np.arange(10.0), [[0.5, 0.5]] * 10, assigned_at=days)
    path = bl.trajectory(log, at=2)
    assert path.to_pandas()["as_of"].iloc[-1] == pd.Timestamp("2026-01-02")
    assert path.to_polars()["as_of"].dtype == pl.Datetime("us")
    assert path.to_arrow().schema.field("as_of").type == pa.timestamp("us")
    assert log.to_pandas()["median_delay"].iloc[0] == pd.Timedelta(0)
    assert "2026-01-02" in str(path)


def test_hostile_labels_are_text_and_nothing_else():
    est = estimate(HOSTILE)
    reader = Reader()
    reader.feed(est._repr_html_())
    assert "script" not in reader.tags
    assert "<script>alert(1)</script>" in reader.text
    assert "&lt;b&gt;" in reader.text
    assert len(str(est).splitlines()) == 2 + len(HOSTILE)
    assert "\x1b" not in str(est)
    assert max(map(len, str(est).splitlines())) < 200
    rows = [line for line in est.to_markdown().splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(HOSTILE)
    assert est.contrast("two\nlines\r\x00\x1b[31m", HOSTILE[0]).name.isprintable()


def test_labels_of_mixed_types_become_text_in_frames():
    est = estimate((1, "A", (2, 3)))
    assert est.to_polars()["arm"].to_list() == ["1", "A", "(2, 3)"]
    assert est.to_dict()["arm"] == [1, "A", (2, 3)]


def test_numbers_have_the_digits_they_deserve():
    def texts(values, kind, errors=None):
        return Column("x", values, kind, errors).texts()

    assert texts([1.23456, 1234.5678, -0.00012345, 5.0], "estimate", [0.0123, 12.3, 0.0000456, 0.0]) == [
        "1.235",
        "1,235",
        "-0.000123",
        "5",
    ]
    assert texts([123456.0, -0.001], "estimate", [2345.0, 0.1]) == ["123,500", "0.00"]
    assert texts([float("nan"), float("inf"), -float("inf")], "estimate", [1.0, 1.0, 1.0]) == ["–", "∞", "-∞"]
    assert texts([0.00001, 0.01234, 0.5, float("nan")], "p_value") == ["<0.0001", "0.0123", "0.500", "–"]
    assert texts([1.23456, float("nan"), -float("inf")], "statistic") == ["1.23", "–", "-∞"]
    assert texts([0.123456, float("nan")], "share") == ["12.3%", "–"]
    assert texts([1234567, float("nan")], "count") == ["1,234,567", "–"]
    durations = [np.timedelta64(90, "m"), np.timedelta64(36, "h"), np.timedelta64(250, "ms"), np.timedelta64("NaT")]
    assert texts(durations, "number") == ["1.5 h", "1.5 d", "250 ms", "–"]


def test_a_long_table_is_cut_in_the_middle():
    text = str(TABLES["trajectory"]())
    assert "... 36 more rows ..." in text
    assert len(text.splitlines()) == 2 + 24 + 1


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(bl.MissingLibraryError, match="pip install pandas"):
        estimate().to_pandas()
