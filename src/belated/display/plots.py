"""Figures: how estimators did, as lines over horizons, histograms and normal quantiles.

Each figure is drawn from data that a function returns: `study_panels` and `study_errors` for studies,
`histogram` and `quantile` for one facet. Nothing here touches pyplot or matplotlib's settings.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from belated.checks import positive
from belated.columns import Array
from belated.errors import MissingLibraryError, OptionError
from belated.files import write_whole
from belated.tables import count, one_line, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours (without yellow), markers and dashes: any one of them tells estimators apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1)), (0, (3, 1, 1, 1, 1, 1)))
_INK, _GREY, _FAINT = "#222222", "#777777", "#E6E6E6"
_MOST_BINS, _MOST_POINTS, _LARGEST, _LONGEST = 120, 2000, 1e100, 22


# ---------------------------------------------------------------- data


def study_panels(study: Any, target: Any = None, interval: str | None = None) -> dict[str, Any]:
    """Return what `study_lines` draws: the arguments of `lines`."""
    kind = study.intervals[-1] if interval is None else interval
    wanted = study.target(study.targets[-1] if target is None else target)
    horizons = sorted(study.horizons)
    cells = {e: [study.cell(e, wanted, kind, h) for h in horizons] for e in study.estimators}

    def panel(value: Callable[[Any], float]) -> dict[str, Array]:
        return {e: np.array([value(cell) for cell in row]) for e, row in cells.items()}

    criteria = {"bias": "bias", "standard deviation": "sd", "coverage": "coverage", "interval length": "length"}
    panels = {name: panel(attrgetter(attribute)) for name, attribute in criteria.items()}
    reach = {e: special.ndtri(0.975) * error for e, error in panel(lambda c: c.bias_error).items()}
    low, high = panel(lambda c: c.coverage_low), panel(lambda c: c.coverage_high)
    return {
        "panels": {name: {e: (np.array(horizons), y) for e, y in rows.items()} for name, rows in panels.items()},
        "reference": {"bias": 0.0, "coverage": study.level},
        "bands": {
            "bias": {e: (y - reach[e], y + reach[e]) for e, y in panels["bias"].items()},
            "coverage": {e: (low[e], high[e]) for e in cells},
        },
        "title": f"{one_line(wanted.name, 50)}: {percent(study.level)} {kind} intervals, {_replications(study)}",
    }


def study_errors(
    study: Any, target: Any = None, horizon: int | None = None, interval: str | None = None
) -> dict[str, Any]:
    """Return what `study_histograms` and `study_quantiles` draw: studentised errors, and a title."""
    wanted = study.target(study.targets[-1] if target is None else target)
    length = max(study.horizons) if horizon is None else horizon
    values = {e: study.cell(e, wanted, interval, length).studentised for e in study.estimators}
    return {"values": values, "title": f"{one_line(wanted.name, 50)} at horizon {length:,}, {_replications(study)}"}


def _replications(study: Any) -> str:
    return count(max(len(moments) for moments in study.moments.values()), "replication")


def histogram(values: Any, width: float = 0.2) -> dict[str, Any]:
    """Return a density histogram of the finite values, in bins centred on multiples of `width`.

    Returns
    -------
    dict
        ``edges``, ``density``, ``width`` (a multiple of what was asked for if that would have taken more than
        120 bins), ``mean``, ``sd``, ``used``, and ``dropped``: values that are not finite, or beyond 1e100.
    """
    kept, about = _finite(values)
    width = positive("width", width)
    if not len(kept):
        return {"edges": np.array([]), "density": np.array([]), "width": width, **about}
    width *= max(1, math.ceil(np.ptp(kept) / width / (_MOST_BINS - 1)))
    bins = np.floor(kept / width + 0.5)
    first = bins.min()
    counts = np.bincount((bins - first).astype(np.int64))
    edges = (first + np.arange(len(counts) + 1) - 0.5) * width
    return {"edges": edges, "density": counts / (len(kept) * width), "width": width, **about}


def quantile(values: Any) -> dict[str, Any]:
    """Return the finite values' quantiles against the normal's; of many, 2,000 spread evenly over the normal's.

    Returns
    -------
    dict
        ``theoretical``, ``sample``, ``mean``, ``sd``, ``used``, ``dropped``.
    """
    kept, about = _finite(values)
    n = len(kept)
    rank = np.arange(n)
    if n > _MOST_POINTS:
        reach = special.ndtri(1 - 0.5 / n)
        even = special.ndtr(np.linspace(-reach, reach, _MOST_POINTS))
        rank = np.unique(np.clip(np.rint(even * n - 0.5), 0, n - 1).astype(np.int64))
    normal = special.ndtri((rank + 0.5) / max(n, 1))
    return {"theoretical": normal, "sample": np.sort(kept)[rank], **about}


def _finite(values: Any) -> tuple[Array, dict[str, Any]]:
    """Return the values that can be drawn, and what to say about them."""
    array = np.asarray(values, dtype=np.float64).ravel()
    kept = array[np.abs(array) <= _LARGEST]
    mean = float(kept.mean()) if len(kept) else math.nan
    sd = float(kept.std(ddof=1)) if len(kept) > 1 else math.nan
    return kept, {"mean": mean, "sd": sd, "used": len(kept), "dropped": len(array) - len(kept)}


# ---------------------------------------------------------------- figures


def lines(
    panels: Mapping[str, Mapping[str, tuple[Any, Any]]],
    *,
    reference: Mapping[str, float] | None = None,
    bands: Mapping[str, Mapping[str, tuple[Any, Any]]] | None = None,
    xlabel: str = "horizon",
    title: str = "",
) -> Figure:
    """Draw one facet for each criterion, and in it one line for each estimator.

    Parameters
    ----------
    panels : mapping from criterion to mapping from estimator to (x, y)
    reference : mapping from criterion to float, optional
        Where a dashed horizontal line says what would be ideal.
    bands : mapping from criterion to mapping from estimator to (low, high), optional
        Monte Carlo intervals, drawn as bars.
    xlabel, title : str

    Notes
    -----
    Where some estimators are so far off that the others could not be told apart, the axis is logarithmic (away from
    the reference, if there is one), and the facet says so. Points of one horizon stand a little side by side.
    """
    figure, facets = _figure(panels)
    from matplotlib.lines import Line2D
    from matplotlib.transforms import ScaledTranslation

    names = list(dict.fromkeys(name for rows in panels.values() for name in rows))
    ticks = sorted({float(at) for rows in panels.values() for x, _ in rows.values() for at in np.asarray(x)})
    if not ticks:
        raise OptionError("There is nothing to draw; `panels` holds no points.")
    step = 12.0 if len(ticks) == 1 else min(2.5, 60 / len(ticks) / len(names))
    looks: list[dict[str, Any]] = [
        {
            "color": _COLOURS[k % len(_COLOURS)], "marker": _MARKERS[k % len(_MARKERS)], "markersize": 4.5,
            "linestyle": _DASHES[k % len(_DASHES)] if len(ticks) > 1 else "none", "linewidth": 1.2,
            "markeredgecolor": "white", "markeredgewidth": 0.4,
        }
        for k in range(len(names))
    ]  # fmt: skip
    for (criterion, rows), axes in zip(panels.items(), facets, strict=True):
        ideal = (reference or {}).get(criterion)
        ranges = (bands or {}).get(criterion, {})
        if ideal is not None:
            axes.axhline(ideal, color=_GREY, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        for name, (x, y) in rows.items():
            k = names.index(name)
            aside = ScaledTranslation((k - (len(names) - 1) / 2) * step / 72, 0, figure.dpi_scale_trans)
            place: dict[str, Any] = {"transform": axes.transData + aside, "zorder": 3}
            axes.plot(x, _drawable(y), **place, **looks[k])
            if name in ranges:
                low, high = map(_drawable, ranges[name])
                axes.vlines(x, low, high, color=looks[k]["color"], linewidth=0.8, alpha=0.6, **place)
        bars = [np.array([_drawable(end) for end in ranges[name]]) for name in rows if name in ranges]
        points = np.concatenate([_drawable(y) for _, y in rows.values()])
        _up(axes, points, ideal, np.concatenate([np.empty((2, 0)), *bars], axis=1))
        _across(axes, ticks)
        axes.set_xlabel(_safe(xlabel), color=_INK, fontsize=9)
    labels = [_safe(name, _LONGEST) for name in names]
    deep = math.ceil(len(labels) * (max(map(len, labels)) + 8) / (56 * min(2, len(facets))))
    figure.legend(
        [Line2D([], [], **look) for look in looks], labels, title=_safe(title, 100) or None, title_fontsize=11,
        ncols=math.ceil(len(labels) / deep), loc="outside upper center", frameon=False, fontsize=9, labelcolor=_INK,
        handlelength=3,
    )  # fmt: skip
    return figure


def histograms(
    values: Mapping[str, Any], *, width: float = 0.2, title: str = "", xlabel: str = "studentised error"
) -> Figure:
    """Draw a density histogram of each estimator's values, with the standard normal density.

    Parameters
    ----------
    values : mapping from estimator to array
    width : float
        Of the bins; see `histogram`.
    title, xlabel : str
    """
    figure, facets = _figure(values, title)
    z = np.linspace(-4, 4, 201)
    for array, axes in zip(values.values(), facets, strict=True):
        data = histogram(array, width)
        if data["used"]:
            axes.stairs(data["density"], data["edges"], fill=True, color=_COLOURS[0], alpha=0.45, linewidth=0)
            axes.stairs(data["density"], data["edges"], color=_COLOURS[0], linewidth=0.8)
        axes.plot(z, np.exp(-z * z / 2) / math.sqrt(2 * math.pi), color=_INK, linewidth=1, linestyle=(0, (4, 2)))
        axes.set_ylim(bottom=0)
        axes.set_ylabel("density", color=_INK, fontsize=9)
        axes.locator_params(nbins=6)
        axes.set_xlabel(_safe(xlabel), color=_INK, fontsize=9)
        _small_print(axes, data)
    return figure


def quantiles(values: Mapping[str, Any], *, title: str = "") -> Figure:
    """Draw each estimator's values against the standard normal's quantiles.

    Parameters
    ----------
    values : mapping from estimator to array
    title : str
    """
    figure, facets = _figure(values, title)
    for array, axes in zip(values.values(), facets, strict=True):
        data = quantile(array)
        axes.plot([-4, 4], [-4, 4], color=_INK, linewidth=1, linestyle=(0, (4, 2)))
        axes.plot(data["theoretical"], data["sample"], ".", color=_COLOURS[0], markersize=3, markeredgewidth=0)
        axes.locator_params(nbins=6)
        axes.set_xlabel("normal quantile", color=_INK, fontsize=9)
        axes.set_ylabel("quantile", color=_INK, fontsize=9)
        _small_print(axes, data)
    return figure


def study_lines(study: Any, target: Any = None, interval: str | None = None) -> Figure:
    """Draw bias, standard deviation, coverage and length over a study's horizons.

    Parameters
    ----------
    study : Study
        ``study.viewed(estimators=...)`` chooses what is drawn.
    target : optional
        As in `study`; default: the last, a contrast unless others were asked for.
    interval : str, optional
        Default: the study's last.
    """
    return lines(**study_panels(study, target, interval))


def study_histograms(study: Any, target: Any = None, horizon: int | None = None, interval: str | None = None) -> Figure:
    """Draw histograms of the estimators' studentised errors at one horizon; default: the longest."""
    return histograms(**study_errors(study, target, horizon, interval))


def study_quantiles(study: Any, target: Any = None, horizon: int | None = None, interval: str | None = None) -> Figure:
    """Draw the estimators' studentised errors at one horizon against normal quantiles."""
    return quantiles(**study_errors(study, target, horizon, interval))


# ---------------------------------------------------------------- files


def check_library() -> None:
    """Say, before anything is computed, if there is nothing to draw with."""
    if find_spec("matplotlib") is None:
        raise MissingLibraryError("matplotlib is not installed; `pip install matplotlib` brings it.")


def save(figure: Figure, path: str | Path, title: str) -> list[Path]:
    """Write a figure as PNG and SVG, each whole or not at all; the same figure gives the same bytes.

    Parameters
    ----------
    figure : Figure
    path : str or Path
        Without suffix.
    title : str
        What the files say they show, to programs and to those who cannot see it.

    Returns
    -------
    list of Path
    """
    base, written = Path(path), []
    about = one_line(title, longest=500)
    for suffix, unwanted in (("png", "Software"), ("svg", "Date")):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix, dpi=150, metadata={"Title": about, unwanted: None})
        content = _renumbered(buffer.getvalue()) if suffix == "svg" else buffer.getvalue()
        written.append(write_whole(base.with_name(f"{base.name}.{suffix}"), content))
    return written


def _renumbered(svg: bytes) -> bytes:
    """Return an SVG whose ids, which matplotlib salts at random unless a global setting says how, are numbers."""
    numbers: dict[bytes, int] = {}

    def number(found: re.Match[bytes]) -> bytes:
        return b"%b-%d" % (found[1], numbers.setdefault(found[2], len(numbers)))

    named = re.sub(rb'((?:id="|#)\w*?)([0-9a-f]{10})(?=["\)])', number, svg)
    return named.replace(b"<svg ", b'<svg role="img" ', 1)


# ---------------------------------------------------------------- style


def _figure(names: Iterable[Any], title: str = "") -> tuple[Figure, list[Axes]]:
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
        figure.suptitle(_safe(title, 50 * columns), fontsize=11, color=_INK)
    axes = [figure.add_subplot(rows, columns, k + 1, facecolor="white") for k in range(len(facets))]
    for name, facet in zip(facets, axes, strict=True):
        facet.set_title(_safe(name, _LONGEST), loc="left", fontsize=10, color=_INK)
        facet.spines[["top", "right"]].set_visible(False)
        facet.spines[["left", "bottom"]].set_color(_GREY)
        facet.tick_params(colors=_GREY, labelcolor=_INK, labelsize=8.5, length=3)
        facet.grid(axis="y", color=_FAINT, linewidth=0.7)
        facet.set_axisbelow(True)
    return figure, axes


def _safe(label: Any, longest: int = 60) -> str:
    """Return a label as matplotlib should show it: short, on one line, no mathematics, only letters the font has."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in FontProperties().get_family()]
    letters = (
        c if any(font.get_char_index(ord(c)) for font in fonts) else c.encode("ascii", "backslashreplace").decode()
        for c in str(label)[: longest + 1]
    )
    return one_line("".join(letters), longest).replace("$", r"\$")


def _small_print(axes: Axes, data: Mapping[str, Any]) -> None:
    dropped = f", {data['dropped']:,} dropped" if data["dropped"] else ""
    text = f"mean {data['mean']:.3g}, sd {data['sd']:.3g}{dropped}" if data["used"] else f"no finite values{dropped}"
    axes.set_title(text, loc="right", fontsize=8, color=_GREY)


def _drawable(values: Any) -> Array:
    array = np.array(values, dtype=np.float64)
    array[~(np.abs(array) <= _LARGEST)] = math.nan
    return array


def _across(axes: Axes, ticks: list[float]) -> None:
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


def _up(axes: Axes, points: Array, ideal: float | None, bars: Array) -> None:
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
    forward: Callable[[Any], Any] = np.array
    back: Callable[[Any], Any] = np.array
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
        axes.set_title(note, loc="right", fontsize=8, color=_GREY)


def _apart(candidates: list[float], forward: Callable[[Any], Any], span: float, gap: float) -> list[float]:
    """Return those of the candidates, the first first, that stand at least a share `gap` of the span apart."""
    kept: dict[float, float] = {}
    for candidate, place in zip(candidates, forward(candidates).tolist(), strict=True):
        if candidate not in kept and all(abs(place - other) >= gap * span for other in kept.values()):
            kept[candidate] = place
    return list(kept)
