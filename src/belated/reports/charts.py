"""Charts as inline SVG, from plain data; colours are the page's, so that they follow its theme.

Places across are percentages and lines are stretched, so that a chart fills any width while its text keeps its size.
`charts.css`, among the templates, has the colours. Labels may be anything; what is not finite is said, not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any
from xml.etree import ElementTree

import numpy as np

from belated.base.columns import Array
from belated.base.tables import Column
from belated.base.text import count, one_line, percent
from belated.reports.scales import HEIGHT, LARGEST, NARROW, WIDE, Across, Scale, width

#: Looks that tell series apart, by colour (the classes s0, s1, ... of charts.css), by marker and by dashes.
LOOKS = 7
_MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",  # disc
    "M-3.6-3.6h7.2v7.2h-7.2z",  # square
    "M0-4.8 4.6 3.4h-9.2z",  # triangle
    "M0-5 5 0 0 5-5 0z",  # diamond
    "M0 4.8 4.6-3.4h-9.2z",  # triangle, on its head
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",  # plus
    "M-4.5-2 0-4.8 4.5-2 2.8 3.8h-5.6z",  # pentagon
)
_MOST_LINES = 60
#: Pixels: margins, and the heights of what charts are made of.
_SIDE, _ROW, _TOP, _FOOT, _GAP = 14, 44, 30, 46, 16


@dataclass(frozen=True)
class Interval:
    """One line of a forest; digits follow the standard error, and a look below 0 is grey."""

    label: Any
    estimate: float
    low: float
    high: float
    std_error: float
    look: int = 0

    @property
    def texts(self) -> list[str]:
        """The estimate and both limits, as people read them."""
        numbers = [self.estimate, self.low, self.high]
        return Column("", numbers, "estimate", [self.std_error] * 3).texts()

    @property
    def words(self) -> str:
        """The estimate with its interval, or that there is none."""
        estimate, low, high = self.texts
        if math.isnan(self.estimate):
            return "no answer"
        return f"{estimate}, no interval" if math.isnan(self.low) else f"{estimate} ({low} to {high})"


@dataclass(frozen=True)
class Series:
    """One line of a chart: its values over the chart's moments, and, if it has one, a band around them."""

    label: Any
    values: Any
    low: Any = None
    high: Any = None
    std_error: float = math.nan
    look: int = 0


# ---------------------------------------------------------------- charts


def forest(rows: Sequence[Interval], *, title: str, level: float, reference: float | None = None) -> str:
    """Draw estimates with their intervals, one below the other.

    Parameters
    ----------
    rows : sequence of Interval
    title : str
        What is drawn, for those who cannot see it.
    level : float
        Of the intervals.
    reference : float, optional
        Where a line says what would be no difference; it is always in sight.

    Returns
    -------
    str
        An ``svg`` element. An interval too wide beside the others is cut, with an arrow at the edge.
    """
    said = "; ".join(f"{fit(row.label, 60)}: {row.words}" for row in rows)
    height = len(rows) * _ROW + _FOOT - 16
    svg = _chart(title, f"Estimates with {percent(level)} intervals. {said}.", height, _SIDE, _SIDE)
    scale = Scale(*_forest_range(rows, reference))
    base = len(rows) * _ROW + 4
    for tick, text in scale.ticks_across():
        _line(svg, "grid", scale.share(tick), 4, scale.share(tick), base)
        _text(svg, text, "tick", f"{scale.share(tick):.2f}%", base + 18, "middle")
    if reference is not None:
        _line(svg, "zero", scale.share(reference), 4, scale.share(reference), base)
    for k, (row, name) in enumerate(zip(rows, fit_all((row.label for row in rows), 27), strict=True)):
        _forest_row(svg, row, name, scale, k * _ROW)
    return _string(svg)


def ribbons(
    moments: Any,
    series: Sequence[Series],
    *,
    title: str,
    level: float,
    xlabel: str = "",
    reference: float | None = None,
) -> list[str]:
    """Draw how estimates and their intervals moved: one chart for each, all of one scale.

    Parameters
    ----------
    moments : array of numbers, datetime64 or timedelta64
    series : sequence of Series
        With a band each; digits of the last values follow their standard error.
    title : str
    level : float
    xlabel : str
    reference : float, optional
        Where a line says what would be no difference.

    Returns
    -------
    list of str
        One ``svg`` element for each series. Early intervals, often very wide, are cut at the edge.
    """
    across = Across(moments)
    scale = Scale(*_ribbon_range(series, across, reference))
    charts = []
    for one in series:
        values, low, high = (across.read(part) for part in (one.values, one.low, one.high))
        moved = [
            f"{Interval('', float(values[i]), float(low[i]), float(high[i]), one.std_error).words} at {across.text(i)}"
            for i in _ends(values)
        ]
        name = fit(one.label, 60)
        said = f"With {percent(level)} intervals. {name}: {', '.join(moved) or 'no answer'}."
        svg, plot, lines = _axes(f"{title}: {name}", said, across, scale, xlabel, _SIDE)
        if reference is not None and scale.low <= reference <= scale.high:
            y = scale.down(reference)
            _line(plot, "zero", 0, y, 100, y)
        look = _look(one.look)
        banded = _runs(np.isfinite(values) & ~np.isnan(low) & ~np.isnan(high))
        for run in banded:
            x = across.places[run]
            if len(x) == 1:
                x = np.array([x[0] - 2, x[0] + 2])
                run = np.repeat(run, 2)
            top, bottom = (scale.down(np.clip(part[run], -LARGEST, LARGEST)) for part in (high, low))
            d = _path(np.concatenate([x, x[::-1]]), np.concatenate([top, bottom[::-1]])) + "z"
            _add(lines, "path", {"class": f"band {look}", "d": d})
        _curve(lines, across.places, scale.down(values), f"{look} solid")
        for last in _ends(values)[-1:]:
            _marker(plot, across.places[last] / WIDE * 100, scale.down(values[last]), one.look)
        heading = _text(svg, fit(one.label, 28), "name", -_left(scale), 14)
        if not banded:
            _add(heading, "tspan", {"class": "range"}).text = ", no interval" if moved else ", no answer"
        charts.append(_string(svg))
    return charts


def curves(
    moments: Any,
    series: Sequence[Series],
    *,
    title: str,
    xlabel: str = "",
    ylabel: str = "",
    steps: bool = False,
) -> str:
    """Draw shares over moments or delays, one line for each series, labelled at its end.

    Parameters
    ----------
    moments : array of numbers, datetime64 or timedelta64
    series : sequence of Series
        Of shares, NaN where unknown, the most important first: beyond seven, the others are grey.
    title : str
    xlabel, ylabel : str
    steps : bool
        Whether a share holds until the next is known.

    Returns
    -------
    str
        An ``svg`` element.
    """
    across = Across(moments)
    coloured = series[:LOOKS]
    others = series[len(coloured) :]
    labels = fit_all((one.label for one in coloured), 12) + ([_others(len(others))] if others else [])
    shares = [across.read(one.values) for one in series]
    known = [(one, np.where(np.isinf(share), math.nan, share)) for one, share in zip(series, shares, strict=True)]
    top = max((float(np.nanmax(share)) for _, share in known if not np.isnan(share).all()), default=1.0)
    scale = Scale(0.0, min(1.0, top * 1.05) if top > 0 else 1.0, shares=True)
    right = 22 + math.ceil(max((width(label) for label in labels), default=0))
    said = "; ".join(_said(one, values, across) for one, values in known[:30])
    more = "" if len(series) <= 30 else f"; and {_others(len(series) - 30)}"
    svg, plot, lines = _axes(title, f"{said}{more}.", across, scale, xlabel, right)
    if ylabel:
        _text(svg, fit(ylabel, 48), "axis", -_left(scale), 14)
    for _, values in known[len(coloured) : _MOST_LINES]:
        _curve(lines, across.places, scale.down(values), "rest", steps=steps)
    ends = []
    for k, (one, values) in enumerate(known[: len(coloured)]):
        look = one.look if len(series) <= LOOKS else k
        y = scale.down(values)
        _curve(lines, across.places, y, _look(look), steps=steps)
        for last in _ends(values)[-1:]:
            _marker(plot, across.places[last] / WIDE * 100, float(y[last]), look)
            ends.append((float(y[last]), labels[k], look, one.label))
    drawn = [values[last] for _, values in known[len(coloured) :] for last in _ends(values)[-1:]]
    if drawn:
        ends.append((float(scale.down(float(np.median(drawn)))), labels[-1], -1, ""))
    aside = _add(plot, "svg", {"x": "100%", "overflow": "visible"})
    ends.sort(key=lambda end: end[0])
    for y, (_, label, look, name) in zip(_spread([end[0] for end in ends]), ends, strict=True):
        group = _add(aside, "g", {})
        if name:
            _add(group, "title", {}).text = fit(name, 200)
        if look >= 0:
            _marker(group, 14, y, look, unit="")
        else:
            _add(group, "path", {"class": "line rest", "d": f"M9 {y:.1f}h10"})
        _text(group, label, "name", 22, y + 4.5)
    return _string(svg)


def fit(label: Any, room: int) -> str:
    """Return a label on one line, its middle left out where it is longer than `room` usual characters."""
    text = one_line(label, 100_000)
    if len(text) <= room and width(text) <= 7.5 * room:
        return text
    ends = min(len(text), room) // 2
    while ends > 1 and width(text[:ends]) + width(text[-ends:]) > 7.5 * (room - 1):
        ends -= 1
    return f"{text[:ends]}…{text[-ends:]}"


def fit_all(labels: Iterable[Any], room: int) -> list[str]:
    """Return labels that fit, cut where they are alike rather than where they differ."""
    texts = [one_line(label, 100_000) for label in labels]
    short = [fit(text, room) for text in texts]
    if len(set(short)) == len(set(texts)):
        return short
    head = _shared(texts)
    tail = _shared([text[head:][::-1] for text in texts])
    cores = [text[head : len(text) - tail] for text in texts]
    start = max(0, head - max(0, room - 2 - max(map(len, cores))))
    while 0 < start < head and texts[0][start - 1].isalnum():
        start += 1
    return [fit(f"{'…' * (start > 0)}{texts[0][start:head]}{core}{'…' * (tail > 0)}", room) for core in cores]


# ---------------------------------------------------------------- forests


def _forest_range(rows: Sequence[Interval], reference: float | None) -> tuple[float, float]:
    """Return the range that shows every estimate, and every interval not far wider than most."""
    points = [row.estimate for row in rows if abs(row.estimate) <= LARGEST]
    spans = [(row.low, row.high) for row in rows if max(abs(row.low), abs(row.high)) <= LARGEST]
    usual = float(np.median([high - low for low, high in spans])) if spans else 0.0
    points += [end for low, high in spans if high - low <= 6 * usual for end in (low, high)]
    points += [end for row in rows for end in (row.low, row.high) if math.isinf(row.low) or math.isinf(row.high)]
    finite = [point for point in points if abs(point) <= LARGEST]
    finite += [] if reference is None else [reference]
    return (min(finite), max(finite)) if finite else (0.0, 1.0)


def _forest_row(svg: Any, row: Interval, name: str, scale: Scale, top: float) -> None:
    group = _add(svg, "g", {"class": _look(row.look)})
    _add(group, "title", {}).text = f"{fit(row.label, 200)}: {row.words}"
    _text(group, name, "name", -_SIDE, top + 17)
    estimate, low, high = row.texts
    number = _text(group, "no answer" if math.isnan(row.estimate) else estimate, "number", "100%", top + 17, "end")
    number.set("dx", str(_SIDE))
    y = top + 31
    if not abs(row.estimate) <= LARGEST:
        return
    if math.isnan(row.low) or math.isnan(row.high):
        _add(number, "tspan", {"class": "range"}).text = ", no interval"
    else:
        _add(number, "tspan", {"class": "range wide"}).text = f" ({low} to {high})"
        ends = [min(max(end, scale.low), scale.high) for end in (row.low, row.high)]
        left, right = (scale.share(end) for end in ends)
        _line(group, "whisker", left, y, right, y)
        for end, cut, place, way in ((row.low, ends[0], left, -1), (row.high, ends[1], right, 1)):
            spot = _add(group, "svg", {"x": f"{place:.2f}%", "y": str(y), "overflow": "visible"})
            if end == cut:
                _add(spot, "path", {"class": "whisker", "d": "M0-5v10"})
            else:
                _add(spot, "path", {"class": "arrow", "d": f"M{way * 9} 0l{-way * 9}-5v10z"})
    _marker(group, scale.share(row.estimate), y, row.look)


# ---------------------------------------------------------------- lines


def _axes(title: str, said: str, across: Across, scale: Scale, xlabel: str, right: int) -> tuple[Any, Any, Any]:
    """Return a chart with its axes drawn, the place for marks, and the place for lines, which is stretched."""
    svg = _chart(title, said, _TOP + HEIGHT + _FOOT, _left(scale), right)
    plot = _add(svg, "g", {"transform": f"translate(0 {_TOP})"})
    for tick, text in scale.ticks():
        y = scale.down(tick)
        _line(plot, "grid", 0, y, 100, y)
        _text(plot, text, "tick", -8, y + 4, "end")
    _line(plot, "base", 0, HEIGHT, 100, HEIGHT)
    for place, text in across.ticks(NARROW - _left(scale) - right):
        _line(plot, "base", place, HEIGHT, place, HEIGHT + 4)
        _text(plot, text, "tick", f"{place:.2f}%", HEIGHT + 19, "middle")
    if xlabel or across.unit:
        unit = f"{xlabel}, {across.unit}" if xlabel and across.unit else xlabel or across.unit
        _text(plot, fit(unit, 40), "axis", "50%", HEIGHT + 37, "middle")
    box = {"y": "-2", "width": "100%", "height": f"{HEIGHT + 4}", "preserveAspectRatio": "none"}
    return svg, plot, _add(plot, "svg", {**box, "viewBox": f"0 -2 {WIDE} {HEIGHT + 4}"})


def _left(scale: Scale) -> int:
    return 12 + math.ceil(max((width(text) for _, text in scale.ticks()), default=0) * 0.93)


def _ribbon_range(series: Sequence[Series], across: Across, reference: float | None) -> tuple[float, float]:
    """Return the range of the bands but for the widest tenth, with the last of each."""
    ends: list[float] = [] if reference is None else [reference]
    for one in series:
        values, low, high = (across.read(part) for part in (one.values, one.low, one.high))
        known = np.isfinite(low) & np.isfinite(high)
        if known.any():
            width = high[known] - low[known]
            kept = width <= np.quantile(width, 0.9)
            ends += [float(low[known][kept].min()), float(high[known][kept].max())]
            ends += [float(low[known][-1]), float(high[known][-1])]
        elif np.isfinite(values).any():
            ends += [float(np.nanmin(values)), float(np.nanmax(values))]
        ends += [float(values[last]) for last in _ends(values)[-1:]]
    return (min(ends), max(ends)) if ends else (0.0, 1.0)


def _curve(parent: Any, x: Array, y: Any, look: str, *, steps: bool = False) -> None:
    """Draw a line, with gaps where it is unknown; a lone point is a dash."""
    for run in _runs(np.isfinite(y)):
        if len(run) == 1:
            d = _path(x[run] + np.array([-4, 4]), y[run].repeat(2))
        elif steps:
            d = _path(x[run].repeat(2)[1:], y[run].repeat(2)[:-1])
        else:
            d = _path(x[run], y[run])
        _add(parent, "path", {"class": f"line {look}", "d": d})


def _runs(known: Array) -> list[Array]:
    """Return the places of each unbroken run of what is known."""
    places = np.flatnonzero(known)
    return [run for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(run)]


def _path(x: Array, y: Array) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x.tolist(), np.clip(y, -1e5, 1e5).tolist(), strict=True))


def _spread(places: list[float]) -> list[float]:
    """Return sorted places pushed apart until labels at them do not touch."""
    apart: list[float] = []
    for place in places:
        apart.append(max(place, apart[-1] + _GAP) if apart else place)
    limit = float(HEIGHT + 4)
    for i in reversed(range(len(apart))):
        apart[i] = limit = min(apart[i], limit)
        limit -= _GAP
    return apart


def _shared(texts: list[str]) -> int:
    """Return how many characters texts have in common at their beginning."""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*texts, strict=False)))


def _others(number: int) -> str:
    return count(number, "other")


def _said(one: Series, values: Array, across: Across) -> str:
    ends = _ends(values)
    shares = Column("", [values[i] for i in ends], "share").texts()
    moved = [f"{share} at {across.text(i)}" for share, i in zip(shares, ends, strict=True)]
    return f"{fit(one.label, 60)}: {', '.join(moved) or 'unknown'}"


def _ends(values: Array) -> list[int]:
    """Return the places of the first and the last value that is known."""
    known = np.flatnonzero(np.isfinite(values)).tolist()
    return list(dict.fromkeys(known[:1] + known[-1:]))


# ---------------------------------------------------------------- marks


def _chart(title: str, said: str, height: float, left: float, right: float) -> Any:
    sides = {"class": "chart", "style": f"--left:{left}px;--right:{right}px"}
    svg = ElementTree.Element("svg", {**sides, "role": "img", "width": "100%", "height": f"{height}"})
    _add(svg, "title", {}).text = one_line(title, 200)
    _add(svg, "desc", {}).text = one_line(said, 4000)
    return svg


def _add(parent: Any, tag: str, attributes: dict[str, str]) -> Any:
    return ElementTree.SubElement(parent, tag, attributes)


def _text(parent: Any, text: str, look: str, x: Any, y: float, anchor: str = "start") -> Any:
    place = {"class": look, "x": str(x), "y": f"{y:.1f}"}
    element = _add(parent, "text", place if anchor == "start" else {**place, "text-anchor": anchor})
    element.text = text
    return element


def _line(parent: Any, look: str, x1: float, y1: float, x2: float, y2: float) -> None:
    ends = {"x1": f"{x1:.2f}%", "y1": f"{y1:.1f}", "x2": f"{x2:.2f}%", "y2": f"{y2:.1f}"}
    _add(parent, "line", {"class": look, **ends})


def _marker(parent: Any, x: float, y: float, look: int, unit: str = "%") -> None:
    spot = _add(parent, "svg", {"x": f"{x:.2f}{unit}", "y": f"{y:.1f}", "overflow": "visible"})
    _add(spot, "path", {"class": f"mark {_look(look)}", "d": _MARKERS[max(look, 0) % LOOKS]})


def _look(look: int) -> str:
    return "rest" if look < 0 else f"s{look % LOOKS}"


def _string(svg: Any) -> str:
    return str(ElementTree.tostring(svg, encoding="unicode"))
