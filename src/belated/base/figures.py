"""Figures: how every matplotlib figure looks, and how it becomes files.

Nothing here touches pyplot or matplotlib's settings.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from belated.base.columns import Array
from belated.base.errors import MissingLibraryError, OptionError
from belated.base.files import write_whole
from belated.base.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, without yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, GREY, FAINT = "#222222", "#777777", "#E6E6E6"

#: From values to places on an axis, or back.
_Scale: TypeAlias = Callable[[ArrayLike], Array]

#: Values beyond this are not drawn, and labels longer than this are cut.
LARGEST, LONGEST = 1e100, 22


# ---------------------------------------------------------------- files


def check_library() -> None:
    """Say, before anything is computed, if there is nothing to draw with."""
    if find_spec("matplotlib") is None:
        raise MissingLibraryError("matplotlib is not installed; `pip install matplotlib` brings it.")


def figure_files(path: str | Path) -> dict[str, Path]:
    """Return the files of a figure by their kind, from a path without suffix."""
    base = Path(path)
    return {suffix: base.with_name(f"{base.name}.{suffix}") for suffix in ("png", "svg")}


def save(figure: Figure, path: str | Path, title: str, *, private: bool = True) -> list[Path]:
    """Write a figure as PNG and SVG, each whole or not at all; the same figure gives the same bytes.

    Parameters
    ----------
    figure : Figure
    path : str or Path
        Without suffix.
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


def new_figure(names: Iterable[object], title: str = "") -> tuple[Figure, list[Axes]]:
    """Return a figure with one facet for each name, in two columns."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise MissingLibraryError("matplotlib is not installed; `pip install matplotlib` brings it.") from None
    facets = list(names)
    if not facets:
        raise OptionError("There is nothing to draw; a figure needs at least one facet.")
    columns, rows = min(2, len(facets)), math.ceil(len(facets) / 2)
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08)
    figure = Figure(figsize=(4.2 * columns, 2.7 * rows + 0.8), facecolor="white", layout=layout)
    if title:
        figure.suptitle(safe_label(title, 50 * columns), fontsize=11, color=INK)
    axes = [figure.add_subplot(rows, columns, k + 1, facecolor="white") for k in range(len(facets))]
    for name, facet in zip(facets, axes, strict=True):
        facet.set_title(safe_label(name, LONGEST), loc="left", fontsize=10, color=INK)
        facet.spines[["top", "right"]].set_visible(False)
        facet.spines[["left", "bottom"]].set_color(GREY)
        facet.tick_params(colors=GREY, labelcolor=INK, labelsize=8.5, length=3)
        facet.grid(axis="y", color=FAINT, linewidth=0.7)
        facet.set_axisbelow(True)
    return figure, axes


def safe_label(label: object, longest: int = 60) -> str:
    """Return a label as matplotlib should show it: short, on one line, no mathematics, only letters the font has."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in FontProperties().get_family()]
    letters = (
        c if any(font.get_char_index(ord(c)) for font in fonts) else c.encode("ascii", "backslashreplace").decode()
        for c in str(label)[: longest + 1]
    )
    return one_line("".join(letters), longest).replace("$", r"\$")


def drawable(values: ArrayLike) -> Array:
    """Return values as floats, with NaN for what cannot be drawn."""
    array = np.array(values, dtype=np.float64)
    array[~(np.abs(array) <= LARGEST)] = math.nan
    return array


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
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.10g}")


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
            forward, back = lambda v: np.arcsinh((np.asarray(v) - ideal) / unit), lambda v: ideal + unit * np.sinh(v)
    bottom, top = map(float, forward([low, high]))
    reach = 0.06 * (top - bottom) or 0.05 * abs(top) or 1.0
    axes.set_ylim(*back([bottom - reach, top + reach]))
    if candidates:
        axes.set_yscale("log") if ideal is None else axes.set_yscale("function", functions=(forward, back))
        axes.set_yticks([], minor=True)
        axes.set_yticks(_apart([c for c in candidates if low <= c <= high], forward, top - bottom, 0.11))
        axes.yaxis.set_major_formatter(lambda v, _: f"{v:,.6g}")
        axes.set_title(note, loc="right", fontsize=8, color=GREY)


def _apart(candidates: list[float], forward: _Scale, span: float, gap: float) -> list[float]:
    """Return those of the candidates, the first first, that stand at least a share `gap` of the span apart."""
    kept: dict[float, float] = {}
    for candidate, place in zip(candidates, forward(candidates).tolist(), strict=True):
        if candidate not in kept and all(abs(place - other) >= gap * span for other in kept.values()):
            kept[candidate] = place
    return list(kept)
