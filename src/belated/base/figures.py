"""Figures: how every matplotlib figure looks, and how it becomes files.

Nothing here touches pyplot or matplotlib's settings.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from belated.base.columns import Array
from belated.base.errors import MissingLibraryError, OptionError
from belated.base.files import write_whole
from belated.base.text import Unit, is_mark, number_text, one_line, printable, shorten_all

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, without yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, GREY, FAINT = "#222222", "#777777", "#E6E6E6"

#: From values to places on an axis, or back.
_Scale: TypeAlias = Callable[[ArrayLike], Array]

#: Values beyond this are not drawn, and labels longer than this are cut; names of facets have more room.
LARGEST, LONGEST, _LONGEST_FACET, _LONGEST_ALONE = 1e100, 22, 28, 60

#: What stands for a letter that the font lacks.
_BOX = "\u25a1"

#: From this size on, numbers are so wide that few ticks have room.
_WIDE_NUMBER = 1e5

#: Columns of text that the labels of a forest take.
ROW_LABEL = 34


# ---------------------------------------------------------------- files


def check_library() -> None:
    """Raise if matplotlib is not installed, before anything is computed."""
    if find_spec("matplotlib") is None:
        raise MissingLibraryError("matplotlib is not installed; run `pip install matplotlib`.")
    try:
        import matplotlib.figure  # noqa: F401
    except ValueError as error:  # a setting in the environment or in a file
        raise OptionError(f"matplotlib cannot be used: {one_line(str(error), 200)}") from None


def figure_files(path: str | Path) -> dict[str, Path]:
    """Return the files of a figure by their kind, from a path without suffix; one of its own kinds is not doubled."""
    base = Path(path)
    if base.name in ("", ".."):
        raise OptionError(f"The figure has no name: `{path}` is a folder; add one, such as `{base / 'figure'}`.")
    base = base.with_suffix("") if base.suffix.lower() in (".png", ".svg") else base
    return {suffix: base.with_name(f"{base.name}.{suffix}") for suffix in ("png", "svg")}


def save(figure: Figure, path: str | Path, title: str, *, private: bool = True) -> list[Path]:
    """Write a figure as PNG and SVG; a failure leaves no partial file, and equal figures give equal bytes.

    Parameters
    ----------
    figure : Figure
    path : str or Path
        Without suffix; .png and .svg are left out.
    title : str
        What the files say they show, to programs and to those who cannot see it.
    private : bool
        Whether new files are for their owner alone.

    Returns
    -------
    list of Path
    """
    written = []
    about, unwanted = one_line(title, longest=500), {"png": "Software", "svg": "Date"}
    for suffix, file in figure_files(path).items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix, dpi=150, metadata={"Title": about, unwanted[suffix]: None})
        content = _renumbered(buffer.getvalue()) if suffix == "svg" else buffer.getvalue()
        written.append(write_whole(file, content, private=private))
    return written


def _renumbered(svg: bytes) -> bytes:
    """Return an SVG whose ids, which matplotlib salts at random unless a global setting says how, are numbers."""
    numbers: dict[bytes, int] = {}

    def number(match: re.Match[bytes]) -> bytes:
        return b"%b-%d" % (match[1], numbers.setdefault(match[2], len(numbers)))

    named = re.sub(rb'((?:id="|#)\w*?)([0-9a-f]{10})(?=["\)])', number, svg)
    return named.replace(b"<svg ", b'<svg role="img" ', 1)


# ---------------------------------------------------------------- style


def new_figure(
    names: Iterable[object] | None, title: str = "", size: tuple[float, float] | None = None
) -> tuple[Figure, list[Axes]]:
    """Return a figure with one facet for each name, in two columns, or with one that has no name.

    Its size, in inches, follows from the number of facets.
    """
    check_library()
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from belated.base.picture import Picture

    facets = [None] if names is None else list(names)
    if not facets:
        raise OptionError("There is nothing to draw; a figure needs at least one facet.")
    columns, rows = min(2, len(facets)), math.ceil(len(facets) / 2)
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08)
    width, height = size or (4.2 * columns, 2.7 * rows + 0.8)
    figure = Picture(figsize=(width, height), facecolor="white", layout=layout)
    if title:
        room = int(11 * width)
        figure.suptitle("\n".join(textwrap.wrap(safe_label(title, 2 * room), room)[:2]), fontsize=11, color=INK)
    axes = [figure.add_subplot(rows, columns, k + 1, facecolor="white") for k in range(len(facets))]
    room = _LONGEST_FACET if len(facets) > 1 else _LONGEST_ALONE
    titles = [""] if names is None else safe_labels(facets, room)
    for name, facet in zip(titles, axes, strict=True):
        facet.set_title(name, loc="left", fontsize=10, color=INK)
        facet.spines[["top", "right"]].set_visible(False)
        facet.spines[["left", "bottom"]].set_color(GREY)
        facet.tick_params(colors=GREY, labelcolor=INK, labelsize=8.5, length=3)
        facet.grid(axis="y", color=FAINT, linewidth=0.7)
        facet.set_axisbelow(True)
    return figure, axes


class Whisker(NamedTuple):
    """One line of a forest: an estimate with its interval; a look below 0 is grey."""

    label: object
    estimate: float
    low: float
    high: float
    look: int = 0


def forest(lines: Sequence[Whisker], title: str, *, unit: Unit, xlabel: str, reference: float | None = None) -> Figure:
    """Draw estimates with their intervals, one below the other, in a figure of their own."""
    figure, (axes,) = new_figure(None, title, (7.2, 1.3 + 0.32 * len(lines)))
    draw_forest(axes, lines, unit=unit, reference=reference)
    in_points = ", in points" if unit == "points" else ""
    axes.set_xlabel(safe_label(f"{xlabel}{in_points}", 80), fontsize=9, color=INK)
    return figure


def draw_forest(axes: Axes, lines: Sequence[Whisker], *, unit: Unit, reference: float | None = None) -> None:
    """Draw estimates with their intervals; an interval that is infinite, or far wider than most, ends in an arrow."""
    low, high = _forest_range(lines, reference)
    reach = 0.04 * (high - low) or 0.1 * abs(high) or 1.0
    low, high = low - reach, high + reach
    axes.set_xlim(low, high)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    for y, line in enumerate(lines):
        colour = GREY if line.look < 0 else COLOURS[line.look % len(COLOURS)]
        if math.isnan(line.low) or math.isnan(line.high):
            words = "no answer" if math.isnan(line.estimate) else "no interval"
            place = axes.get_yaxis_transform()
            at, side = (0.995, "right") if not line.estimate > (low + high) / 2 else (0.005, "left")
            paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            axes.text(at, y, words, transform=place, ha=side, va="center", fontsize=8.5, color=GREY, bbox=paper)
        else:
            ends = np.clip([line.low, line.high], low, high)
            axes.plot(ends, [y, y], color=colour, linewidth=1.6, solid_capstyle="butt")
            marks = ["|" if line.low >= low else 4, "|" if line.high <= high else 5]  # 4 and 5 point left and right
            for end, mark in zip(ends, marks, strict=True):
                axes.plot([end], [y], marker=mark, color=colour, markersize=7, clip_on=False)
        if abs(line.estimate) <= LARGEST:
            axes.plot([line.estimate], [y], "o", color=colour, markersize=5.5, markeredgecolor="white", zorder=3)
    if reference is not None:
        axes.axvline(reference, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    axes.set_yticks(range(len(lines)), safe_labels((line.label for line in lines), ROW_LABEL))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=FAINT, linewidth=0.7)
    axes.locator_params(axis="x", nbins=7 if max(abs(low), abs(high)) < _WIDE_NUMBER else 3)
    scale_in(axes.xaxis, unit)
    axes.set_xlabel("")


def _forest_range(lines: Sequence[Whisker], reference: float | None) -> tuple[float, float]:
    """Return the range that shows every estimate, and every interval that is not far wider than most."""
    points = [line.estimate for line in lines] + ([] if reference is None else [reference])
    spans = [(line.low, line.high) for line in lines if max(abs(line.low), abs(line.high)) <= LARGEST]
    usual = float(np.median([high - low for low, high in spans])) if spans else 0.0
    points += [end for low, high in spans if high - low <= 6 * usual for end in (low, high)]
    points += [end for line in lines for end in (line.low, line.high) if math.isinf(line.low) or math.isinf(line.high)]
    finite = [point for point in points if abs(point) <= LARGEST]
    return (min(finite), max(finite)) if finite else (0.0, 1.0)


def draw_path(axes: Axes, moments: Sequence[object], lines: Sequence[Whisker], colour: str, label: str) -> None:
    """Draw how an estimate and its interval moved over moments."""
    when = [moment_to_draw(moment) for moment in moments]
    estimate, low, high = (drawable([getattr(line, part) for line in lines]) for part in ("estimate", "low", "high"))
    axes.fill_between(when, low, high, color=colour, alpha=0.15, linewidth=0)
    alone = "o" if np.isfinite(estimate).sum() < 2 else ""
    axes.plot(when, estimate, color=colour, linewidth=1.5, marker=alone, label=label)


def cut_height(axes: Axes, low: Array, high: Array, estimate: Array) -> None:
    """Scale the y axis to intervals but for the widest tenth, which early moments have; arrays are (moments, lines)."""
    known = np.isfinite(low) & np.isfinite(high)
    ends = list(estimate[np.isfinite(estimate)])
    if known.any():
        widths = (high - low)[known]
        kept = known & (high - low <= np.quantile(widths, 0.9))
        ends = [*low[kept], *high[kept], *estimate[-1][np.isfinite(estimate[-1])]]
    if ends:
        bottom, top = float(min(ends)), float(max(ends))
        reach = 0.05 * (top - bottom) or 0.05 * abs(top) or 1.0
        axes.set_ylim(bottom - reach, top + reach)


def moment_to_draw(moment: object) -> Any:  # matplotlib's types know no datetimes
    """Return a moment as matplotlib takes it."""
    return moment.astype("datetime64[us]").astype(object) if isinstance(moment, np.datetime64) else moment


def scale_moments(figure: Figure, axes: Axes, moments: Sequence[object]) -> None:
    """Write the x axis's ticks as moments."""
    first, last = (moment_to_draw(moments[k]) for k in (0, -1))
    axes.margins(x=0.01)
    axes.set_xlabel("as of", fontsize=9, color=INK)
    if isinstance(moments[0], np.datetime64):
        figure.autofmt_xdate()
        _write_dates(axes.xaxis)
    else:
        write_ticks(axes.xaxis, 10)
    if not axes.dataLim.width > 0:  # one moment is drawn, around which matplotlib shows years
        if first < last:
            axes.set_xlim(first, last + 0.02 * (last - first))
        else:
            axes.set_xticks([last], [number_text(moments[-1])])


def _write_dates(axis: Axis) -> None:
    """Write an axis's ticks as dates, or as dates with times where they are hours apart."""
    from matplotlib.dates import HOURS_PER_DAY, MINUTES_PER_DAY, AutoDateFormatter

    formatter = AutoDateFormatter(axis.get_major_locator())  # type: ignore[no-untyped-call]
    formatter.scaled |= dict.fromkeys((1 / HOURS_PER_DAY, 1 / MINUTES_PER_DAY), "%Y-%m-%d %H:%M")
    axis.set_major_formatter(formatter)


def safe_label(label: object, longest: int = 60) -> str:
    """Return a label as matplotlib should show it: short, on one line, no mathematics, only letters the font has."""
    return one_line(_drawn(label), longest).replace("$", r"\$")


def safe_labels(labels: Iterable[object], room: int) -> list[str]:
    """Return labels as matplotlib should show them; different ones stay different, also if the font lacks letters."""
    texts = [printable(label) for label in labels]
    drawn = {text: _drawn(text) for text in texts}
    often = Counter(drawn.values())
    numbers = {text: f" ({k})" if often[drawn[text]] > 1 else "" for k, text in enumerate(drawn, 1)}
    return [safe_label(text) for text in shorten_all((drawn[text] + numbers[text] for text in texts), room)]


def _drawn(label: object) -> str:
    """Return a label with a box for every letter that the font lacks; one for an emoji that is made of several."""
    check_library()
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in FontProperties().get_family()]
    letters, joined = "", False
    for letter in printable(label):
        if letter == "\u200d":  # joins two emoji
            joined = True
        elif any(font.get_char_index(ord(letter)) for font in fonts):
            letters, joined = letters + letter, False
        elif not is_mark(letter):
            letters, joined = letters + ("" if joined else _BOX), False
    return letters


def drawable(values: ArrayLike) -> Array:
    """Return values as floats, with NaN for what cannot be drawn."""
    array = np.array(values, dtype=np.float64)
    array[~(np.abs(array) <= LARGEST)] = math.nan
    return array


def write_ticks(axis: Axis, digits: int, factor: float = 1, sign: str = "") -> None:
    """Write an axis's ticks in full, as factor * value and a sign; a figure with them can be pickled."""
    axis.set_major_formatter(partial(_written, digits=digits, factor=factor, sign=sign))


def _written(value: float, _place: int | None, digits: int, factor: float, sign: str) -> str:
    return f"{factor * value:,.{digits}g}{sign}"


def scale_in(axis: Axis, unit: Unit) -> None:
    """Write an axis's ticks in a unit, in full; an axis of points is called so."""
    if unit == "number":
        write_ticks(axis, 12)
    else:
        write_ticks(axis, 6, 100, "%" if unit == "percent" else "")
    if unit == "points":
        axis.set_label_text("points", fontsize=9, color=INK)


def scale_across(axes: Axes, ticks: list[float]) -> None:
    """Put the x axis's ticks at the horizons, as many as have room."""
    wide = ticks[0] > 0 and ticks[-1] >= 20 * ticks[0]
    forward, back = (np.log, np.exp) if wide else (np.array, np.array)
    first, last = map(float, forward([ticks[0], ticks[-1]]))
    reach = 0.1 * (last - first) or 0.5
    axes.set_xscale("log" if wide else "linear")
    axes.set_xlim(*back([first - reach, last + reach]))
    axes.set_xticks(_apart([ticks[-1], *ticks], forward, last - first, 0.14))
    axes.set_xticks([], minor=True)
    write_ticks(axes.xaxis, 10)


def scale_up(axes: Axes, points: Array, ideal: float | None, bars: Array) -> None:
    """Scale the y axis to points, Monte Carlo bars (low, high) and reference.

    Where the furthest points would flatten the others, the scale is logarithmic, away from the reference if there is
    one: asinh, in units of what is small among the points' distances from it, but not below Monte Carlo noise.
    """
    everything = np.concatenate([points, bars.ravel(), [] if ideal is None else [ideal]])
    everything = everything[np.isfinite(everything)]
    if not len(everything):
        return
    low, high = float(everything.min()), float(everything.max())
    candidates: list[float] = []
    forward: _Scale = np.array
    back: _Scale = np.array
    if ideal is None and high >= 20 * low > 0:
        decades = 10.0 ** np.arange(math.floor(math.log10(low)), math.ceil(math.log10(high)))
        candidates, note = [float(d * k) for k in (1, 2, 5, 3) for d in decades], "log scale"
        forward, back = np.log, np.exp
    elif ideal is not None:
        away, noise = np.abs(points - ideal), np.abs(bars[1] - bars[0]) / 2
        small = [float(np.nanquantile(a, 0.25)) for a in (away, noise) if np.isfinite(a).any()]
        furthest = max(high - ideal, ideal - low)
        unit = max([*small, furthest / 1000])
        if furthest > 20 * unit:
            steps = 10.0 ** np.arange(math.ceil(math.log10(furthest)), math.ceil(math.log10(unit)) - 1, -1)
            steps = np.ravel(np.outer(steps, (1, 0.5, 0.2)))
            multiples = [np.arange(math.ceil(low / step), math.floor(high / step) + 1) * step for step in steps]
            candidates, note = [ideal, *np.concatenate(multiples).tolist()], f"log scale about {ideal:.4g}"
            forward, back = partial(_drawn_together, ideal, unit), partial(_drawn_apart, ideal, unit)
    bottom, top = map(float, forward([low, high]))
    reach = 0.06 * (top - bottom) or 0.05 * abs(top) or 1.0
    axes.set_ylim(*back([bottom - reach, top + reach]))
    if candidates:
        axes.set_yscale("log") if ideal is None else axes.set_yscale("function", functions=(forward, back))
        axes.set_yticks([], minor=True)
        axes.set_yticks(_apart([c for c in candidates if low <= c <= high], forward, top - bottom, 0.11))
        write_ticks(axes.yaxis, 6)
        axes.set_title(note, loc="right", fontsize=8, color=GREY)


def _drawn_together(ideal: float, unit: float, values: ArrayLike) -> Array:
    return np.arcsinh((np.asarray(values) - ideal) / unit)


def _drawn_apart(ideal: float, unit: float, values: ArrayLike) -> Array:
    return ideal + unit * np.sinh(values)


def _apart(candidates: list[float], forward: _Scale, span: float, gap: float) -> list[float]:
    """Return those of the candidates, the first first, that stand at least a share `gap` of the span apart."""
    kept: dict[float, float] = {}
    for candidate, place in zip(candidates, forward(candidates).tolist(), strict=True):
        if candidate not in kept and all(abs(place - other) >= gap * span for other in kept.values()):
            kept[candidate] = place
    return list(kept)
