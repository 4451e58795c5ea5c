"""Charts as inline SVG, from plain data; colours are the page's, so that they follow its theme.

Places across are percentages and lines are stretched, so that a chart fills any width while its text keeps its size.
`charts.css`, among the templates, has the colours. Labels may be anything; what is not finite is said, not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import ArrayLike

from belated.base.columns import Array, Label
from belated.base.figures import LARGEST
from belated.base.tables import Column
from belated.base.text import Unit, count, percent
from belated.reports import svg
from belated.reports.scales import HEIGHT, NARROW, WIDE, Across, Scale
from belated.reports.svg import fit, fit_all, width

_MOST_LINES, _MOST_DESCRIBED = 60, 30
#: Pixels: margins, and the heights of the parts of charts.
_SIDE, _ROW, _TOP, _FOOT, _GAP = 16, 44, 30, 46, 16


@dataclass(frozen=True)
class ForestRow:
    """One line of a forest; digits follow the standard error, and a look below 0 is grey."""

    label: Label
    estimate: float
    low: float
    high: float
    std_error: float
    look: int = 0
    unit: Unit = "number"

    @property
    def texts(self) -> list[str]:
        """The estimate with its unit, and both limits, as people read them."""
        return estimate_texts(self.estimate, self.low, self.high, self.std_error, self.unit)

    @property
    def words(self) -> str:
        """The estimate with its interval, or that there is none."""
        estimate, low, high = self.texts
        if math.isnan(self.estimate):
            return "no answer"
        return f"{estimate}, no interval" if math.isnan(self.low) else f"{estimate} ({low} to {high})"


class Mark(NamedTuple):
    """Something that happened at a moment: a line across a chart, with a short label at its top."""

    moment: object
    label: str


@dataclass(frozen=True, eq=False)
class Series:
    """One line of a chart: its values over the chart's moments, and, if it has one, a band around them."""

    label: Label
    values: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    std_error: float = math.nan
    look: int = 0
    unit: Unit = "number"


def estimate_texts(estimate: float, low: float, high: float, std_error: float, unit: Unit) -> list[str]:
    """Return an estimate with its unit, and the limits of its interval, as people read them."""
    first = Column("", [estimate], "estimate", [std_error], unit=unit).texts()
    return first + Column("", [low, high], "limit", [std_error] * 2, unit=unit, terse=True).texts()


# ---------------------------------------------------------------- forests


def forest(rows: Sequence[ForestRow], *, title: str, level: float, reference: float | None = None) -> str:
    """Draw estimates with their intervals, one below the other.

    Parameters
    ----------
    rows : sequence of ForestRow
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
    words = "; ".join(f"{fit(row.label, 60)}: {row.words}" for row in rows)
    image = svg.chart(
        title,
        f"Estimates with {percent(level)} intervals. {words}.",
        height=len(rows) * _ROW + _FOOT - 16,
        left=_SIDE,
        right=_SIDE,
    )
    units = {row.unit for row in rows}
    unit: Unit = units.pop() if len(units) == 1 else "points" if units else "number"
    scale = Scale(*_forest_range(rows, reference), unit=unit)
    base = len(rows) * _ROW + 4
    for tick, text in scale.ticks_across():
        svg.line(image, "grid", (scale.share(tick), 4), (scale.share(tick), base))
        svg.text(image, text, "tick", f"{scale.share(tick):.2f}%", base + 18, "middle")
    if reference is not None:
        x = scale.share(reference)
        for k in range(len(rows)):  # below the texts of each row, so that it crosses none
            svg.line(image, "zero", (x, k * _ROW + 22), (x, (k + 1) * _ROW + 2))
    for k, (row, name) in enumerate(zip(rows, fit_all((row.label for row in rows), 27), strict=True)):
        _forest_row(image, row, name, scale, k * _ROW)
    return svg.string(image)


def _forest_range(rows: Sequence[ForestRow], reference: float | None) -> tuple[float, float]:
    """Return the range that shows every estimate, and every interval not far wider than most."""
    points = [row.estimate for row in rows if abs(row.estimate) <= LARGEST]
    spans = [(row.low, row.high) for row in rows if max(abs(row.low), abs(row.high)) <= LARGEST]
    usual = float(np.median([high - low for low, high in spans])) if spans else 0.0
    points += [end for low, high in spans if high - low <= 6 * usual for end in (low, high)]
    points += [end for row in rows for end in (row.low, row.high) if math.isinf(row.low) or math.isinf(row.high)]
    finite = [point for point in points if abs(point) <= LARGEST]
    finite += [] if reference is None else [reference]
    return (min(finite), max(finite)) if finite else (0.0, 1.0)


def _forest_row(image: Element, row: ForestRow, name: str, scale: Scale, top: float) -> None:
    group = svg.add(image, "g", {"class": svg.style_of(row.look)})
    svg.add(group, "title", {}).text = f"{fit(row.label, 200)}: {row.words}"
    svg.text(group, name, "name", -_SIDE, top + 17)
    estimate, low, high = row.texts
    number = svg.text(group, "no answer" if math.isnan(row.estimate) else estimate, "number", "100%", top + 17, "end")
    number.set("dx", str(_SIDE))
    if not abs(row.estimate) <= LARGEST:
        return
    if math.isnan(row.low) or math.isnan(row.high):
        svg.add(number, "tspan", {"class": "range"}).text = ", no interval"
    else:
        svg.add(number, "tspan", {"class": "range wide"}).text = f" ({low} to {high})"
        _whisker(group, row, scale, top + 31)
    svg.marker(group, scale.share(row.estimate), top + 31, row.look)


def _whisker(group: Element, row: ForestRow, scale: Scale, y: float) -> None:
    """Draw an interval; an end beyond the edge is an arrow."""
    ends = [min(max(end, scale.low), scale.high) for end in (row.low, row.high)]
    left, right = (scale.share(end) for end in ends)
    svg.line(group, "whisker", (left, y), (right, y))
    for end, cut, place, way in ((row.low, ends[0], left, -1), (row.high, ends[1], right, 1)):
        spot = svg.add(group, "svg", {"x": f"{place:.2f}%", "y": str(y), "overflow": "visible"})
        if end == cut:
            svg.add(spot, "path", {"class": "whisker", "d": "M0-5v10"})
        else:
            svg.add(spot, "path", {"class": "arrow", "d": f"M{way * 9} 0l{-way * 9}-5v10z"})


# ---------------------------------------------------------------- ribbons


class _Band(NamedTuple):
    """A series at the moments that can be drawn."""

    label: Label
    values: Array
    low: Array
    high: Array
    std_error: float
    look: int
    unit: Unit

    @classmethod
    def of(cls, series: Series, across: Across) -> _Band:
        values, low, high = (across.read(part) for part in (series.values, series.low, series.high))
        return cls(
            label=series.label, values=values, low=low, high=high, std_error=series.std_error, look=series.look,
            unit=series.unit,
        )  # fmt: skip

    def words(self, i: int, across: Across) -> str:
        row = ForestRow(
            label="",
            estimate=float(self.values[i]),
            low=float(self.low[i]),
            high=float(self.high[i]),
            std_error=self.std_error,
            unit=self.unit,
        )
        return f"{row.words} at {across.text(i)}"


def ribbons(
    moments: ArrayLike,
    series: Sequence[Series],
    *,
    title: str,
    level: float,
    xlabel: str = "",
    reference: float | None = None,
    marks: Sequence[Mark] = (),
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
    marks : sequence of Mark
        What happened meanwhile; those beyond the moments are left out.

    Returns
    -------
    list of str
        One ``svg`` element for each series. Early intervals, often very wide, are cut at the edge.
    """
    across = Across(moments)
    bands = [_Band.of(line, across) for line in series]
    unit = bands[0].unit if bands else "number"
    scale = Scale(*_ribbon_range(bands, reference), unit=unit)
    charts = []
    for band in bands:
        moved = [band.words(i, across) for i in _ends(band.values)]
        name = fit(band.label, 60)
        words = f"With {percent(level)} intervals. {name}: {', '.join(moved) or 'no answer'}."
        axes = _axes(f"{title}: {name}", words, across, scale, xlabel=xlabel, right=_SIDE)
        _mark(axes, across, marks)
        if reference is not None and scale.low <= reference <= scale.high:
            y = scale.down(reference)
            svg.line(axes.plot, "zero", (0, y), (100, y))
        has_band = _ribbon(axes, band, across, scale)
        heading = svg.text(axes.image, fit(band.label, 28), "name", -_left_margin(scale), 14)
        if not has_band:
            svg.add(heading, "tspan", {"class": "range"}).text = ", no interval" if moved else ", no answer"
        elif unit == "points":
            svg.add(heading, "tspan", {"class": "range"}).text = ", in points"
        charts.append(svg.string(axes.image))
    return charts


def _ribbon(axes: _Axes, band: _Band, across: Across, scale: Scale) -> bool:
    """Draw a band with its line; return whether there is any interval to draw."""
    style = svg.style_of(band.look)
    has_band = _fill(axes, band, across, scale, style)
    _curve(axes.lines, across.places, scale.down(band.values), f"{style} solid")
    for last in _ends(band.values)[-1:]:
        svg.marker(axes.plot, across.places[last] / WIDE * 100, scale.down(float(band.values[last])), band.look)
    return has_band


def _fill(axes: _Axes, band: _Band, across: Across, scale: Scale, style: str) -> bool:
    """Draw a band without its line; return whether there is any interval to draw."""
    runs = _runs(np.isfinite(band.values) & ~np.isnan(band.low) & ~np.isnan(band.high))
    for run in runs:
        x = across.places[run]
        if len(x) == 1:
            x = np.array([x[0] - 2, x[0] + 2])
            run = np.repeat(run, 2)
        top, bottom = (scale.down(np.clip(part[run], -LARGEST, LARGEST)) for part in (band.high, band.low))
        d = _path(np.concatenate([x, x[::-1]]), np.concatenate([top, bottom[::-1]])) + "z"
        svg.add(axes.lines, "path", {"class": f"band {style}", "d": d})
    return bool(runs)


def _ribbon_range(bands: Sequence[_Band], reference: float | None) -> tuple[float, float]:
    """Return the range of the bands but for the widest tenth, with the last of each."""
    ends: list[float] = [] if reference is None else [reference]
    for band in bands:
        known = np.isfinite(band.low) & np.isfinite(band.high)
        if known.any():
            low, high = band.low[known], band.high[known]
            kept = high - low <= np.quantile(high - low, 0.9)
            ends += [float(low[kept].min()), float(high[kept].max()), float(low[-1]), float(high[-1])]
        elif np.isfinite(band.values).any():
            ends += [float(np.nanmin(band.values)), float(np.nanmax(band.values))]
        ends += [float(band.values[last]) for last in _ends(band.values)[-1:]]
    return (min(ends), max(ends)) if ends else (0.0, 1.0)


# ---------------------------------------------------------------- curves


class _End(NamedTuple):
    """Where a curve ends, and the label that stands there; a look below 0 stands for several."""

    y: float
    label: str
    look: int
    name: Label


def curves(
    moments: ArrayLike,
    series: Sequence[Series],
    *,
    title: str,
    xlabel: str = "",
    ylabel: str = "",
    steps: bool = False,
    unit: Unit = "percent",
    marks: Sequence[Mark] = (),
) -> str:
    """Draw shares or means over moments or ages, one line for each series, labelled at its end.

    Parameters
    ----------
    moments : array of numbers, datetime64 or timedelta64
    series : sequence of Series
        NaN where unknown, the most important first: beyond seven, the others are grey. Bands are drawn below the lines.
    title : str
    xlabel, ylabel : str
    steps : bool
        Whether a share holds until the next is known.
    unit : str
        Of the values: "percent" if they are shares.
    marks : sequence of Mark
        What happened meanwhile; those beyond the moments are left out.

    Returns
    -------
    str
        An ``svg`` element.
    """
    across = Across(moments)
    coloured, others = series[: svg.LOOKS], series[svg.LOOKS :]
    labels = fit_all((line.label for line in coloured), 12) + ([_others(len(others))] if others else [])
    shares = [_shares(across.read(line.values)) for line in series]
    bands = [_Band.of(line, across) for line in coloured if line.low is not None]
    scale = _curve_scale(shares, bands, unit)
    right = 22 + math.ceil(max((width(label) for label in labels), default=0))
    words = _described(series, shares, across, unit)
    axes = _axes(title, words, across, scale, xlabel=xlabel, right=right)
    _mark(axes, across, marks)
    if ylabel:
        svg.text(axes.image, fit(ylabel, 48), "axis", -_left_margin(scale), 14)
    for k, band in enumerate(bands):
        _fill(axes, band, across, scale, svg.style_of(k if others else band.look))
    for values in shares[len(coloured) : _MOST_LINES]:
        _curve(axes.lines, across.places, scale.down(values), "rest", steps=steps)
    ends = []
    for k, (line, values) in enumerate(zip(coloured, shares, strict=False)):
        look = k if others else line.look
        y = scale.down(values)
        _curve(axes.lines, across.places, y, svg.style_of(look), steps=steps)
        for last in _ends(values)[-1:]:
            svg.marker(axes.plot, across.places[last] / WIDE * 100, float(y[last]), look)
            ends.append(_End(y=float(y[last]), label=labels[k], look=look, name=line.label))
    last_of_others = [float(values[last]) for values in shares[len(coloured) :] for last in _ends(values)[-1:]]
    if last_of_others:
        ends.append(_End(y=scale.down(float(np.median(last_of_others))), label=labels[-1], look=-1, name=""))
    _label_ends(axes.plot, ends)
    return svg.string(axes.image)


def _label_ends(plot: Element, ends: list[_End]) -> None:
    """Write each label beside the end of its curve, and none over another."""
    aside = svg.add(plot, "svg", {"x": "100%", "overflow": "visible"})
    ends = sorted(ends, key=lambda end: end.y)
    for y, end in zip(_spread([end.y for end in ends]), ends, strict=True):
        group = svg.add(aside, "g", {})
        if end.name:
            svg.add(group, "title", {}).text = fit(end.name, 200)
        if end.look >= 0:
            svg.marker(group, 14, y, end.look, unit="")
        else:
            svg.add(group, "path", {"class": "line rest", "d": f"M9 {y:.1f}h10"})
        svg.text(group, end.label, "name", 22, y + 4.5)


def _shares(values: Array) -> Array:
    return np.where(np.isinf(values), math.nan, values)


def _curve_scale(values: Sequence[Array], bands: Sequence[_Band], unit: Unit) -> Scale:
    """Return the range from 0 that shows every curve, and the bands but for the widest tenth."""
    low, high = _ribbon_range(bands, None) if bands else (0.0, 0.0)
    ends = [float(end(each)) for each in values if not np.isnan(each).all() for end in (np.nanmin, np.nanmax)]
    low, high = min([low, 0.0, *ends]), max([high, 0.0, *ends])
    high = (high * 1.05 if high > 0 else high) if ends else 1.0
    low, high = low * 1.05, high if high > low else low + 1.0
    return Scale(low, min(1.0, high) if unit == "percent" else high, unit=unit, spare=False)


def _described(series: Sequence[Series], shares: Sequence[Array], across: Across, unit: Unit) -> str:
    """Return in words where the first of many curves begin and end."""
    described = []
    for line, values in zip(series[:_MOST_DESCRIBED], shares, strict=False):
        ends = _ends(values)
        texts = Column("", [values[i] for i in ends], "share" if unit == "percent" else "number").texts()
        moved = [f"{text} at {across.text(i)}" for text, i in zip(texts, ends, strict=True)]
        described.append(f"{fit(line.label, 60)}: {', '.join(moved) or 'unknown'}")
    more = "" if len(series) <= _MOST_DESCRIBED else f"; and {_others(len(series) - _MOST_DESCRIBED)}"
    return f"{'; '.join(described)}{more}."


def _others(number: int) -> str:
    return count(number, "other")


# ---------------------------------------------------------------- axes and lines


class _Axes(NamedTuple):
    """A chart with its axes drawn, the place for marks, and the place for lines, which is stretched."""

    image: Element
    plot: Element
    lines: Element


def _axes(title: str, words: str, across: Across, scale: Scale, *, xlabel: str, right: int) -> _Axes:
    left = _left_margin(scale)
    image = svg.chart(title, words, height=_TOP + HEIGHT + _FOOT, left=left, right=right)
    plot = svg.add(image, "g", {"transform": f"translate(0 {_TOP})"})
    for tick, text in scale.ticks():
        y = scale.down(tick)
        svg.line(plot, "grid", (0, y), (100, y))
        svg.text(plot, text, "tick", -8, y + 4, "end")
    svg.line(plot, "base", (0, HEIGHT), (100, HEIGHT))
    for place, text in across.ticks(NARROW - left - right):
        svg.line(plot, "base", (place, HEIGHT), (place, HEIGHT + 4))
        svg.text(plot, text, "tick", f"{place:.2f}%", HEIGHT + 19, "middle")
    if xlabel or across.unit:
        unit = f"{xlabel}, {across.unit}" if xlabel and across.unit else xlabel or across.unit
        svg.text(plot, fit(unit, 40), "axis", "50%", HEIGHT + 37, "middle")
    box = {"y": "-2", "width": "100%", "height": f"{HEIGHT + 4}", "preserveAspectRatio": "none"}
    lines = svg.add(plot, "svg", {**box, "viewBox": f"0 -2 {WIDE} {HEIGHT + 4}"})
    return _Axes(image=image, plot=plot, lines=lines)


def _mark(axes: _Axes, across: Across, marks: Sequence[Mark]) -> None:
    """Draw lines at moments at which something happened; labels that would touch the last one are left out."""
    last = -math.inf
    for place, mark in sorted((across.share(mark.moment), mark) for mark in marks):
        if not 0 <= place <= 100:
            continue
        group = svg.add(axes.plot, "g", {})
        svg.add(group, "title", {}).text = fit(mark.label, 200)
        svg.line(group, "event", (place, 0), (place, HEIGHT))
        words = fit(mark.label, 4)
        if (place - last) / 100 * NARROW > width(words):
            svg.text(group, words, "tick", f"{place:.2f}%", -3, "middle")
            last = place


def _left_margin(scale: Scale) -> int:
    return svg.margin(12 + max((width(text) for _, text in scale.ticks()), default=0) * 0.93)


def _curve(parent: Element, x: Array, y: Array, style: str, *, steps: bool = False) -> None:
    """Draw a line, with gaps where it is unknown; a lone point is a dash."""
    for run in _runs(np.isfinite(y)):
        if len(run) == 1:
            d = _path(x[run] + np.array([-4, 4]), y[run].repeat(2))
        elif steps:
            d = _path(x[run].repeat(2)[1:], y[run].repeat(2)[:-1])
        else:
            d = _path(x[run], y[run])
        svg.add(parent, "path", {"class": f"line {style}", "d": d})


def _runs(known: Array) -> list[Array]:
    """Return the positions of each unbroken run of known values."""
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


def _ends(values: Array) -> list[int]:
    """Return the places of the first and the last value that is known."""
    known = np.flatnonzero(np.isfinite(values)).tolist()
    return list(dict.fromkeys(known[:1] + known[-1:]))
