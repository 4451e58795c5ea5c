"""Elements of charts."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from belated.reports import svg


def test_an_image_says_what_it_shows():
    image = svg.chart("Means", "A: 1.", height=80, left=12, right=14)
    svg.text(image, "<b>", "tick", "50%", 3.14159, "middle")
    svg.line(image, "grid", (0, 1), (100, 2))
    root = ElementTree.fromstring(svg.string(image))  # noqa: S314
    assert (root.get("role"), root.find("title").text, root.find("desc").text) == ("img", "Means", "A: 1.")
    text, line = root.find("text"), root.find("line")
    assert (text.text, text.get("x"), text.get("y"), text.get("text-anchor")) == ("<b>", "50%", "3.1", "middle")
    assert [line.get(name) for name in ("x1", "y1", "x2", "y2")] == ["0.00%", "1.0", "100.00%", "2.0"]


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
