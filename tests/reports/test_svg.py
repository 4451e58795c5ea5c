"""Elements of charts."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from belated.base.documents import _templates
from belated.reports import svg
from belated.reports.svg import fit, fit_all, width


def test_an_image_says_what_it_shows():
    image = svg.chart("Means", "A: 1.", height=80, left=12, right=14)
    svg.text(image, "<b>", "tick", "50%", 3.14159, "middle")
    svg.line(image, "grid", (0, 1), (100, 2))
    root = ElementTree.fromstring(svg.string(image))  # noqa: S314
    assert (root.get("role"), root.find("title").text, root.find("desc").text) == ("img", "Means", "A: 1.")
    text, line = root.find("text"), root.find("line")
    assert (text.text, text.get("x"), text.get("y"), text.get("text-anchor")) == ("<b>", "50%", "3.1", "middle")
    assert [line.get(name) for name in ("x1", "y1", "x2", "y2")] == ["0.00%", "1.0", "100.00%", "2.0"]


def test_names_written_from_right_to_left_keep_their_places():
    image = svg.chart("t", "d", height=80, left=0, right=0)
    name = svg.text(image, "שלום - A", "name", 0, 0)
    (part,) = name
    assert (name.text, part.tag, part.text, part.tail) == ("", "tspan", "שלום", " - A")
    assert part.get("unicode-bidi") == "isolate"


@pytest.mark.parametrize(("look", "style"), [(0, "s0"), (6, "s6"), (7, "s0"), (-1, "rest")])
def test_looks_repeat_and_those_below_0_are_grey(look, style):
    assert svg.style_of(look) == style
    image = svg.chart("t", "d", height=80, left=0, right=0)
    svg.marker(image, 50.0, 10.0, look)
    assert image.find("svg").find("path").get("class") == f"mark {style}"


def test_each_look_has_a_marker_of_its_own():
    image = svg.chart("t", "d", height=80, left=0, right=0)
    for look in range(svg.LOOKS):
        svg.marker(image, 0.0, 0.0, look)
    assert len({path.get("d") for path in image.iter("path")}) == svg.LOOKS


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


@pytest.mark.parametrize("label", HOSTILE)
def test_labels_fit(label):
    short = fit(label, 12)
    assert len(short) <= 12
    assert short.isprintable()


@pytest.mark.parametrize(
    ("label", "pixels"),
    [
        ("OOOOOOOOOOOO", 123),
        ("QUOTED GOODHOOD", 141),
        ("№" * 12, 162),
        ("—" * 12, 156),
        ("&" * 12, 122),
        ("ЩЖЮЫШФЩЖЮЫШФ", 158),
        ("W" * 12, 154),
        ("e\u0301" * 12, 96),
    ],
)
def test_widths_are_about_those_of_a_wide_font(label, pixels):
    """As a browser measures them in DejaVu Sans, 13 pixels high: a label has at most the padding of a page more."""
    assert pixels - 10 <= width(label) <= pixels * 1.15


def test_long_labels_are_cut_where_they_are_alike():
    names = [f"a_very_long_prefix_{k:02}_and_a_long_suffix" for k in range(20)]
    assert fit_all(names, 12) == [f"…prefix_{k:02}…" for k in range(20)]
    assert fit_all(names, 9) == [f"…{k:02}…" for k in range(20)]
    assert fit_all([name[12:] for name in names], 12)[7] == "prefix_07…"
    assert fit_all(["A", "B"], 12) == ["A", "B"]
    assert fit_all(["x" * 50, "x" * 50], 12) == ["xxxxxx…xxxxx"] * 2
    assert fit_all([], 12) == []


def test_wide_characters_need_more_room():
    assert width("漢") > width("x")
    assert len(fit("漢" * 20, 12)) < len(fit("x" * 20, 12))


def test_every_margin_has_a_class_and_no_chart_an_inline_style():
    styles = _templates("belated.reports").get_template("charts.css").render()
    for pixels in (0, 12, 13, 99.5, 1e6):
        image = svg.chart("title", "words", height=1, left=pixels, right=pixels)
        assert image.get("style") is None
        _, left, right = image.get("class").split()
        assert f".{left} {{ --left: {left.removeprefix('left-')}px; }}" in styles
        assert f".{right} {{ --right: {right.removeprefix('right-')}px; }}" in styles
        assert int(left.removeprefix("left-")) >= min(pixels, svg.MARGINS[-1])
