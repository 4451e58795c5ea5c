from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from belated.reports import charts, scales
from belated.reports.charts import ForestRow, Series

HOSTILE = [
    "<script>window.pwned=1</script>",
    "quo\"te' & <b>bold</b>",
    "two\nlines\r\x00",
    "é 漢 \ud800 \ufffe \u202e",
    "🎉",
    "x" * 10_000,
    "שלום",
    "",
    "W" * 60,
]


def parsed(svg):
    svg.encode()  # a lone surrogate would be refused here
    root = ElementTree.fromstring(svg)  # noqa: S314
    assert root.tag == "svg"
    assert root.get("role") == "img"
    assert "nan" not in re.sub(r"<(title|desc|text)[^>]*>[^<]*", "", svg)
    assert root.find("title").text
    return root


def texts(root):
    return ["".join(element.itertext()) for element in root.iter("text")]


def ticks(root):
    return [element.text for element in root.iter("text") if element.get("class") == "tick"]


def row(label="A", estimate=1.0, low=0.8, high=1.2, std_error=0.1, look=0):
    return ForestRow(label, estimate, low, high, std_error, look)


# ---------------------------------------------------------------- forests


def test_a_forest_says_its_numbers_in_words_too():
    rows = [row("A"), row("B", 1.234, 1.014, 1.454, 0.11, look=1)]
    root = parsed(charts.forest(rows, title="Means", level=0.95))
    assert root.find("title").text == "Means"
    assert "A: 1.00 (0.80 to 1.20); B: 1.23 (1.01 to 1.45)." in root.find("desc").text
    assert "95% intervals" in root.find("desc").text
    assert "1.23 (1.01 to 1.45)" in texts(root)


def test_a_forest_says_what_it_cannot_draw():
    rows = [row("A"), row("B", 2.0, math.nan, math.nan, math.nan), row("C", *[math.nan] * 4)]
    root = parsed(charts.forest(rows, title="t", level=0.95, reference=0.0))
    assert "2, no interval" in texts(root)
    assert "no answer" in texts(root)
    assert len([e for e in root.iter("path") if e.get("class").startswith("mark")]) == 2


def test_wide_intervals_are_cut_with_an_arrow():
    rows = [row("A"), row("B"), row("C"), row("D", 1.0, -500, 500, 200), row("E", 1.0, -math.inf, 1.2)]
    root = parsed(charts.forest(rows, title="t", level=0.95))
    arrows = [e for e in root.iter("path") if e.get("class") == "arrow"]
    assert len(arrows) == 3
    assert "0 (-500 to 500)" in texts(root)


@pytest.mark.parametrize("number", [0.0, 5e-324, 1e-12, 1e12, -3e99, 1e308, math.nan, math.inf])
def test_a_forest_of_any_number(number):
    parsed(charts.forest([row("A", number, number, number, 0.0)], title="t", level=0.95))
    parsed(charts.forest([row("A", number, number, number, 0.0)], title="t", level=0.95, reference=0.0))


def test_a_reference_is_in_sight():
    root = parsed(charts.forest([row("A", 10, 9, 11)], title="t", level=0.95, reference=0.0))
    assert "0" in ticks(root)
    (zero,) = [e for e in root.iter("line") if e.get("class") == "zero"]
    assert 0 < float(zero.get("x1").rstrip("%")) < 10


def test_a_reference_crosses_no_text():
    rows = [row(name, 10, 9, 11) for name in "ABC"]
    root = parsed(charts.forest(rows, title="t", level=0.95, reference=0.0))
    spans = [(float(e.get("y1")), float(e.get("y2"))) for e in root.iter("line") if e.get("class") == "zero"]
    texts = [float(e.get("y")) for e in root.iter("text")]  # the lines that letters stand on
    assert len(spans) == 3
    assert not [y for y in texts for top, end in spans if top < y + 4 and end > y - 11]


# ---------------------------------------------------------------- lines


def test_curves_label_their_ends_without_touching():
    moments = np.arange(5)
    series = [Series(f"arm {k}", np.linspace(0, 0.9 + k / 1000, 5), look=k) for k in range(6)]
    root = parsed(charts.curves(moments, series, title="Arrivals", xlabel="days", ylabel="arrived"))
    names = [e for e in root.iter("text") if e.get("class") == "name"]
    assert {e.text for e in names} == {f"arm {k}" for k in range(6)}
    heights = sorted(float(e.get("y")) for e in names)
    assert min(np.diff(heights)) > 15
    assert "arm 0: 0.0% at 0, 90.0% at 4" in root.find("desc").text
    assert "100%" not in ticks(root)
    assert "80%" in ticks(root)


def test_curves_may_have_bands_and_any_unit():
    ages = [0.0, 5.0, 10.0]
    series = [
        Series("A", [0.0, 2.0, 3.0], [0.0, 1.0, 2.0], [0.0, 3.0, 4.0]),
        Series("B", [0.0, 3.0, 5.0], [0.0, 2.0, 4.0], [0.0, 4.0, 6.0], look=1),
    ]
    drawn = charts.curves(ages, series, title="x", unit="number")
    root = parsed(drawn)
    assert ticks(root)[:4] == ["0", "2", "4", "6"]
    assert [path.get("class") for path in root.iter("path") if "band" in path.get("class")] == ["band s0", "band s1"]
    assert drawn.index("band s1") < drawn.index("line s0")  # bands lie below the lines
    assert "5 at 10" in root.find("desc").text
    below = charts.curves(ages, [Series("A", [0.0, -2.0, -3.0])], title="x", unit="number")
    assert "-3" in ticks(parsed(below))


def test_beyond_seven_series_the_others_are_grey():
    series = [Series(f"arm {k:02}", [0.5, k / 100], look=k) for k in range(100)]
    root = parsed(charts.curves([0, 1], series, title="t"))
    looks = [e.get("class") for e in root.iter("path") if e.get("class").startswith("line")]
    assert {look for look in looks if "rest" not in look} == {f"line s{k}" for k in range(7)}
    assert looks.count("line rest") == 60 - 7 + 1
    assert "93 others" in texts(root)


def test_unknown_shares_are_gaps():
    values = [math.nan, 0.1, 0.2, math.nan, 0.3]
    root = parsed(charts.curves(range(5), [Series("A", values), Series("B", [math.nan] * 5, look=1)], title="t"))
    assert len([e for e in root.iter("path") if e.get("class").startswith("line")]) == 2
    assert "A: 10.0% at 1, 30.0% at 4; B: unknown." in root.find("desc").text


def test_moments_that_are_not_are_left_out():
    moments = np.array(["2026-01-01", "NaT", "2026-01-03"], dtype="datetime64[D]")
    root = parsed(charts.curves(moments, [Series("A", [0.1, 0.9, 0.2])], title="t"))
    assert "10.0% at 2026-01-01, 20.0% at 2026-01-03" in root.find("desc").text
    parsed(charts.curves([0.0, math.nan, math.inf, 1.0], [Series("A", [0.1, 0.5, 0.6, 0.2])], title="t"))
    parsed(charts.curves([0, 1], [Series("A", [0.1, math.inf])], title="t"))
    parsed(charts.curves([], [], title="t"))


@pytest.mark.parametrize(
    "moments", [[3], np.array(["2026-01-01"], dtype="datetime64[s]"), np.array([3], dtype="m8[h]")]
)
def test_one_moment_is_enough(moments):
    parsed(charts.curves(moments, [Series("A", [0.5])], title="t", steps=True))
    (svg,) = charts.ribbons(moments, [Series("A", [0.5], [0.4], [0.6], 0.05)], title="t", level=0.9)
    parsed(svg)


def test_ribbons_share_a_scale_and_cut_the_early_intervals():
    moments = np.arange(1, 41)
    width = 10.0 / moments**2
    series = [Series(f"arm {k}", k + width, k + width - 1, k + width + 1 + width, 0.5, k) for k in range(2)]
    roots = [parsed(svg) for svg in charts.ribbons(moments, series, title="t", level=0.95, reference=0.0)]
    assert len({tuple(ticks(root)) for root in roots}) == 1
    assert "arm 1: 11.00 (10.00 to 22.00) at 1, 1.01 (0.01 to 2.01) at 40" in roots[1].find("desc").text
    assert [len([e for e in root.iter("line") if e.get("class") == "zero"]) for root in roots] == [1, 1]
    heights = [float(e.text) for e in roots[0].iter("text") if e.get("text-anchor") == "end"]
    assert max(heights) < 10


def test_ribbons_say_what_they_lack():
    nothing = [math.nan] * 3
    series = [Series("A", [1, 2, 3], nothing, nothing), Series("B", nothing, nothing, nothing)]
    roots = [parsed(svg) for svg in charts.ribbons(range(3), series, title="t", level=0.95)]
    assert "A, no interval" in texts(roots[0])
    assert "B, no answer" in texts(roots[1])
    one_sided = Series("A", [1, 2, 3], [-math.inf] * 3, [2, 3, 4])
    parsed(charts.ribbons(range(3), [one_sided], title="t", level=0.95)[0])


# ---------------------------------------------------------------- labels and axes


def test_hostile_labels_are_text_and_nothing_else():
    forest = charts.forest([row(name, look=k) for k, name in enumerate(HOSTILE)], title=HOSTILE[0], level=0.95)
    series = [Series(name, [0.1, 0.2], [0.0, 0.1], [0.2, 0.3], 0.1, k) for k, name in enumerate(HOSTILE)]
    lines = charts.curves([0, 1], series, title=HOSTILE[3], xlabel=HOSTILE[5], ylabel=HOSTILE[1])
    for svg in [forest, lines, *charts.ribbons([0, 1], series, title=HOSTILE[2], level=0.95)]:
        root = parsed(svg)
        assert {e.tag for e in root.iter()} <= {"svg", "title", "desc", "g", "path", "line", "text", "tspan"}
        assert max(len(text) for text in texts(root)) < 60
        assert not any(name.startswith("on") for e in root.iter() for name in e.attrib)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("2026-01-05T06", "2026-01-30T07", ["12 Jan", "19 Jan", "26 Jan"]),
        ("2026-01-05T00", "2026-01-09T00", ["5 Jan", "6 Jan", "7 Jan", "8 Jan", "9 Jan"]),
        ("2025-11-05T00", "2026-04-02T00", ["Dec", "2026", "Feb", "Mar", "Apr"]),
        ("2019-02-01T00", "2026-03-01T00", ["2020", "2022", "2024", "2026"]),
        ("2026-01-05T09:10", "2026-01-05T11:40", ["09:30", "10:00", "10:30", "11:00", "11:30"]),
        ("2026-01-05T21", "2026-01-06T05", ["22:00", "6 Jan", "02:00", "04:00"]),
        ("2026-01-05T21:00:01", "2026-01-05T21:00:09", ["21:00:02", "21:00:04", "21:00:06", "21:00:08"]),
    ],
)
def test_dates_are_shown_as_dates(first, last, expected):
    moments = np.array([first, last], dtype="datetime64[s]")
    low, high = moments.astype(np.int64).astype(float)
    assert [text for _, text in scales.round_dates(low, high, 5)] == expected
    root = parsed(charts.curves(moments, [Series("A", [0, 1])], title="t", xlabel="sent"))
    assert any(text.startswith("sent, 20") for text in texts(root))


def test_delays_have_a_unit():
    delays = np.arange(0, 11) * np.timedelta64(86_400, "s")
    root = parsed(charts.curves(delays, [Series("A", np.linspace(0, 1, 11))], title="t", xlabel="delay"))
    assert "delay, days" in texts(root)
    assert "A: 0.0% at 0 days, 100.0% at 10 days." in root.find("desc").text


# ---------------------------------------------------------------- marks


def test_marks_are_lines_at_their_moments_and_those_beyond_are_left_out():
    moments = np.array(["2026-01-01", "2026-01-03"], "datetime64[us]")
    marks = [charts.Mark(np.datetime64(day), label) for day, label in (("2026-01-02", "1"), ("2026-01-09", "<b>"))]
    line = Series("A", [0.1, 0.2], [0.0, 0.1], [0.2, 0.3])
    for drawn in (
        charts.curves(moments, [line], title="t", marks=marks),
        *charts.ribbons(moments, [line], title="t", level=0.9, marks=marks),
    ):
        (event,) = [each for each in parsed(drawn).iter("line") if each.get("class") == "event"]
        assert (event.get("x1"), event.get("x2")) == ("50.00%", "50.00%")
        assert "1" in texts(parsed(drawn))


def test_labels_of_marks_do_not_touch():
    marks = [charts.Mark(at, str(label)) for label, at in enumerate((5.0, 5.01, 9.0))]
    drawn = parsed(charts.curves([0.0, 10.0], [Series("A", [0.1, 0.2])], title="t", marks=marks))
    assert len([each for each in drawn.iter("line") if each.get("class") == "event"]) == 3
    assert [each for each in texts(drawn) if each in "012"][-2:] == ["0", "2"]
