"""Elements of charts: texts, fitted to their room, lines and marks of an SVG image."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from belated.base.documents import fill
from belated.base.text import is_mark, one_line, shorten, shorten_all

#: Looks that tell series apart, by colour (the classes s0, s1, ... of charts.css), by marker and by dashes.
LOOKS = 7

#: Margins of charts in pixels, as charts.css has them.
MARGINS = range(12, 181, 4)

_MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",  # disc
    "M-3.6-3.6h7.2v7.2h-7.2z",  # square
    "M0-4.8 4.6 3.4h-9.2z",  # triangle
    "M0-5 5 0 0 5-5 0z",  # diamond
    "M0 4.8 4.6-3.4h-9.2z",  # triangle, on its head
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",  # plus
    "M-4.5-2 0-4.8 4.5-2 2.8 3.8h-5.6z",  # pentagon
)


def margin(pixels: float) -> int:
    """Return a margin that charts.css has a class for: no page needs inline styles, which strict ones do not allow."""
    return next((margin for margin in MARGINS if margin >= pixels), MARGINS[-1])


def chart(title: str, description: str, *, height: float, left: float, right: float) -> Element:
    """Return an empty image, with what it shows in words."""
    sides = {"class": f"chart left-{margin(left)} right-{margin(right)}"}
    svg = Element("svg", {**sides, "role": "img", "width": "100%", "height": f"{height}"})
    add(svg, "title", {}).text = one_line(title, 200)
    add(svg, "desc", {}).text = one_line(description, 4000)
    return svg


def add(parent: Element, tag: str, attributes: dict[str, str]) -> Element:
    """Add an element, and return it."""
    return ElementTree.SubElement(parent, tag, attributes)


def text(parent: Element, words: str, style: str, x: float | str, y: float, anchor: str = "start") -> Element:
    """Add a text at a place, which may be a percentage across."""
    place = {"class": style, "x": str(x), "y": f"{y:.1f}"}
    element = add(parent, "text", place if anchor == "start" else {**place, "text-anchor": anchor})
    fill(element, words, "tspan", **{"unicode-bidi": "isolate"})
    return element


def line(parent: Element, style: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Add a line between two places, each in percent across and pixels down."""
    ends = {"x1": f"{start[0]:.2f}%", "y1": f"{start[1]:.1f}", "x2": f"{end[0]:.2f}%", "y2": f"{end[1]:.1f}"}
    add(parent, "line", {"class": style, **ends})


def marker(parent: Element, x: float, y: float, look: int, unit: str = "%") -> None:
    """Add the mark of a look."""
    spot = add(parent, "svg", {"x": f"{x:.2f}{unit}", "y": f"{y:.1f}", "overflow": "visible"})
    add(spot, "path", {"class": f"mark {style_of(look)}", "d": _MARKERS[max(look, 0) % LOOKS]})


def style_of(look: int) -> str:
    """Return the class of a look; below 0 it is grey."""
    return "rest" if look < 0 else f"s{look % LOOKS}"


def string(svg: Element) -> str:
    """Return an image as text."""
    return ElementTree.tostring(svg, encoding="unicode")


def width(text: Iterable[str]) -> float:
    """Return about how many pixels wide a text of 13 pixels is, in a wide font."""
    return sum(map(_pixels, text))


@lru_cache(maxsize=4096)
def _pixels(character: str) -> float:
    """Return about how many pixels wide a character is; those beyond Latin may be wider than usual ones."""
    if is_mark(character):
        return 0.0
    category = unicodedata.category(character)
    is_latin = character < "\u0250" or category.startswith("P")  # as are the dots for what is left out
    if character in "MWmw%@—" or category in ("Nl", "So") or unicodedata.east_asian_width(character) in "WF":
        return 13.0
    if category in ("Lu", "Sm") or character in "&#":
        return 10.0 if is_latin else 13.0
    return 7.5 if is_latin else 10.0


def fit(label: object, room: int) -> str:
    """Return a label on one line, its middle left out where it is longer than `room` usual characters."""
    return shorten(label, 7.5 * room, width)


def fit_all(labels: Iterable[object], room: int) -> list[str]:
    """Return labels that fit, cut where they are alike rather than where they differ."""
    return shorten_all(labels, 7.5 * room, width)
