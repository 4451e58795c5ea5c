from __future__ import annotations

import io
import math
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import belated as bl
from belated.base.tables import RANGES, Column, markdown, shown_limit
from belated.base.text import columns_of

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


def test_names_written_from_right_to_left_do_not_move_numbers_in_html():
    log = bl.Log(["שלום", "مرحبا"] * 5, [0, 1, 1, 0, 1] * 2, [[0.5, 0.5]] * 10, arms=["שלום", "مرحبا"])
    est = bl.estimate(log)
    both = "<bdi>שלום</bdi> - <bdi>مرحبا</bdi>"
    assert f"<caption>{both}: 95% score interval" in est.contrast("שלום", "مرحبا").to_html()
    assert f">{both}</td>" in est.contrasts("مرحبا").to_html()
    assert re.search("<td colspan=[^>]*><bdi>[^<]*</bdi> has the largest estimate, ", est.best().to_html())


@pytest.mark.parametrize(("encoding", "sign"), [("ascii", r"\u2713"), ("cp1252", r"\u2713"), ("utf-8", "✓")])
def test_print_writes_what_the_encoding_of_stdout_lacks_as_escapes(monkeypatch, encoding, sign):
    diagnosis = bl.diagnose(bl.Log(["A", "B"] * 30, np.arange(60.0), [[0.5, 0.5]] * 60))
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    for shown in (diagnosis, diagnosis["arrivals"]):
        printed = str(shown).encode(encoding).decode(encoding)
        assert re.search(f"(?m)^{re.escape(sign)} green +arrivals ", printed)
    assert "✓ green" in repr(diagnosis)


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
    durations = [
        np.timedelta64(90, "m"),
        np.timedelta64(36, "h"),
        np.timedelta64(250, "ms"),
        np.timedelta64("NaT", "s"),
    ]
    assert texts(durations, "number") == ["1.5 h", "1.5 d", "250 ms", "–"]


def test_a_long_table_is_cut_in_the_middle():
    text = str(TABLES["trajectory"]())
    assert "... 36 more rows ..." in text
    assert len(text.splitlines()) == 2 + 24 + 1


def rates(arms=("A", "B"), rows=400):
    rng = np.random.default_rng(3)
    n = len(arms)
    outcomes = (rng.random(rows) < 0.3).astype(float)
    return bl.Log([arms[i % n] for i in range(rows)], outcomes, np.full((rows, n), 1 / n), arms=arms)


def test_outcomes_that_are_0_or_1_are_shown_in_percent_and_kept_as_they_are():
    est = bl.estimate(rates())
    contrast = est.contrast("B", "A")
    cells = dict(zip(est.to_text().splitlines()[1].split(), est.to_text().splitlines()[2].split(), strict=True))
    assert cells["estimate"].endswith("%")
    assert float(cells["estimate"][:-1]) == pytest.approx(100 * est.values[0], abs=0.1)
    assert cells["low"].endswith("%")
    assert f"{100 * contrast.estimate:.1f} points" in str(contrast)
    assert "points" in contrast.to_markdown()
    assert "points" in contrast.to_html()
    assert est.to_dict()["estimate"] == est.values.tolist()
    assert str(est.values[0]) in est.to_csv()
    assert str(est.values[0]) in est.to_json()
    assert contrast.to_dict()["estimate"] == contrast.estimate == est.values[1] - est.values[0]


def test_one_table_has_one_unit_whatever_its_parts_show():
    log = rates()
    outcome = log.outcome.copy()
    outcome[-1] = 2.5
    mixed = bl.Log([log.arms[k] for k in log.code], outcome, log.propensity, arms=log.arms)
    assert "%" not in "".join(str(bl.trajectory(mixed, at=4)).splitlines()[1:])
    assert "%" not in "".join(str(bl.sequence(mixed, "asymptotic").track("A")).splitlines()[1:])
    assert bl.trajectory(log, at=4)[0].unit == "percent"
    assert bl.sequence(log).contrast("B", "A").unit == "points"
    assert bl.estimate(mixed, cap=1).unit == "percent"
    assert bl.estimate(log).policy({"A": 0.4, "B": 0.6}).unit == "percent"
    assert bl.estimate(log).linear({"A": 1, "B": 1}).unit == "points"
    assert "test against 10%" in str(bl.estimate(log).arm("A").test(0.1))
    assert "test against 1 point " in str(bl.estimate(log).contrast("B", "A").test(0.01))


def test_outcomes_of_which_only_0_has_come_may_be_amounts():
    log = bl.Log(["A", "B"] * 20, [0.0] * 40, np.full((40, 2), 0.5))
    with pytest.warns(bl.BelatedWarning, match="equal"):
        assert bl.estimate(log).unit == "number"


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 140])
@pytest.mark.parametrize("name", ["estimate", "contrasts", "lifts", "comparison", "best", "policy"])
def test_no_column_is_lost_on_a_narrow_screen(monkeypatch, columns, name):
    monkeypatch.setenv("COLUMNS", str(columns))
    arms = tuple(f"a_name_that_is_rather_long_of_arm_{k}" for k in "ABC")
    log = rates(arms)
    est = bl.estimate(log)
    table = {
        "estimate": lambda: est,
        "contrasts": lambda: est.contrasts(arms[0]),
        "lifts": lambda: est.contrasts(lift=True),
        "comparison": lambda: bl.compare(log),
        "best": est.best,
        "policy": lambda: est.policy(dict.fromkeys(arms, 1 / 3)),
    }[name]()
    lines = table.to_text().splitlines()[1:]
    body = lines[: len(lines) - len(table._notes())]
    assert all(columns_of(line) <= columns for line in body)
    heads = " ".join(body).replace("_", " ")
    assert all(word in heads for column in table._columns() for word in column.name.split("_"))


def test_a_contrast_shows_both_arms_however_long_their_names(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    arms = tuple(f"{'x' * 200}_{k}_{'y' * 200}" for k in "ABC")
    est = bl.estimate(rates(arms))
    rows = [line for line in str(est.contrasts(arms[0])).splitlines() if " - " in line]
    assert ["…B…" in rows[0], "…C…" in rows[1], all("…A…" in row for row in rows)] == [True] * 3
    title = est.contrast(arms[1], arms[0]).name
    first, second = title.split(" - ")
    assert first != second
    assert len(title) < 130


def test_wide_letters_align(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    lines = str(bl.estimate(rates(("日本語", "👨‍👩‍👧 x", "plain")))).splitlines()[1:]
    assert len({columns_of(line) for line in lines}) == 1


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(bl.MissingLibraryError, match="pip install pandas"):
        estimate().to_pandas()


def test_limits_are_cut_at_what_is_possible_or_at_the_estimate():
    limits = [-8.0, 0.25, 1.5, 1.5, -math.inf, math.nan]
    estimates = [0.5, 0.5, 0.5, 1.25, 0.5, 0.5]
    shown = shown_limit(limits, estimates, RANGES["percent"])
    np.testing.assert_array_equal(shown, [0.0, 0.25, 1.0, 1.25, 0.0, math.nan])
    np.testing.assert_array_equal(shown_limit(limits, math.nan, RANGES["number"]), limits)
    assert shown_limit(-1.5, 0.0, RANGES["points"]) == -1


def few() -> bl.Log:
    """Return a log of so few outcomes that intervals of rates reach beyond what rates can be."""
    return bl.Log(list("AAAABB"), [1.0, 0, 0, 0, 0, 1], np.full((6, 2), 0.5))


def test_limits_of_rates_are_shown_between_0_and_100_percent_and_kept_as_they_are():
    result = bl.estimate(few(), level=0.9)
    arm, contrast = result.arm("A"), result.contrasts()
    assert arm.low < -0.2
    assert contrast[0].low < -1.2
    assert " 0%   99%" in repr(arm)
    assert "-100   100" in repr(contrast)
    assert "points" in repr(contrast)
    for table in (result, arm, contrast, result.best(), bl.compare(few())):
        shown = [float(text) for text in re.findall(r"<td[^>]*>(-?\d[\d.]*)%?</td>", table.to_html())]
        assert shown
        assert min(shown) >= (-100 if table is contrast else 0)
    assert arm.to_dict()["low"] == arm.low
    assert f"{arm.low}" in result.to_csv()
    assert f"{contrast[0].low}" in contrast.to_json()


def test_other_combinations_of_rates_are_cut_at_what_they_can_be():
    result = bl.estimate(few(), level=0.9)
    both = result.linear({"A": 2.0, "B": 1.0})
    assert both.shown == (0.0, 3.0)
    assert result.linear({"A": 1.0, "B": -0.5}).shown[0] == -0.5
    numbers = bl.estimate(bl.Log(list("AAAABB"), [2.0, 1, 1, 0, 1, 0], np.full((6, 2), 0.5))).arm("A")
    assert numbers.shown == (numbers.low, numbers.high)


def test_figures_and_reports_show_the_same_limits(tmp_path):
    result = bl.estimate(few())
    assert result.arm("A").low < -0.2
    for figure in (result.plot(), result.best().plot()):
        (axes,) = figure.axes
        places = np.concatenate([np.asarray(line.get_xdata(), float) for line in axes.lines])
        assert places.min() >= 0
        assert places.max() <= 1
    moved = bl.trajectory(few(), at=[6]).plot().axes[0]
    assert min(area.get_paths()[0].vertices[:, 1].min() for area in moved.collections) >= 0
    page = bl.report(few(), tmp_path / "report.html").read_text()
    assert f"{100 * result.arm('A').low:.0f}%" not in page
    assert "(0% to 100%)" in page


def test_spaces_at_the_ends_of_labels_are_seen():
    est = bl.estimate(bl.Log(["A", "A "] * 20, [float(i % 7) for i in range(40)], [0.5] * 40), "dipw")
    assert [line.split("  ")[0] for line in str(est).splitlines()[2:4]] == ["A", "'A '"]
    est = bl.estimate(bl.Log(["A", ""] * 20, [float(i % 7) for i in range(40)], [0.5] * 40), "dipw")
    assert [line.split("  ")[0] for line in str(est).splitlines()[2:4]] == ["''", "A"]
    assert "A - ''" in str(est.contrasts(""))


def test_labels_are_neither_entities_nor_mathematics_in_markdown():
    est = bl.estimate(bl.Log(["&lt;", "$x$"] * 20, [float(i % 7) for i in range(40)], [0.5] * 40), "dipw")
    assert all(text in est.to_markdown() for text in ("\\&lt;", "\\$x\\$"))


@pytest.mark.parametrize(
    ("words", "shown"),
    [("# A: x", "\\# A: x"), ("## A", "\\## A"), ("- B", "\\- B"), ("1. C", "1\\. C"), ("2) D", "2\\) D"),
     ("-0.5", "-0.5"), ("1.5 points", "1.5 points"), ("A # 1. b", "A # 1. b")],
)  # fmt: skip
def test_a_title_is_neither_a_heading_nor_a_list_in_markdown(words, shown):
    assert markdown(words) == shown
