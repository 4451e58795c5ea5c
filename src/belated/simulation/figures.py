"""Figures of studies: lines by horizon, histograms and normal quantiles.

Each figure is drawn from data that a function returns: `study_panels` and `study_errors` for studies,
`histogram` and `quantile` for one panel. This module does not use pyplot or change matplotlib's settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np

from belated.base import special
from belated.base.checks import positive
from belated.base.columns import Array
from belated.base.errors import OptionError
from belated.base.figures import (
    COLOURS,
    GREY,
    INK,
    LARGEST,
    LONGEST,
    drawable,
    new_figure,
    safe_label,
    safe_labels,
    scale_across,
    scale_up,
)
from belated.base.text import count, one_line, percent
from belated.estimation.intervals import Interval
from belated.simulation.performance import Performance
from belated.simulation.views import TargetLike, is_binary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from belated.simulation.results import Study

#: By criterion and estimator, where points are, or where bars begin and end.
Panels = Mapping[str, Mapping[str, tuple[Sequence[float] | Array, Sequence[float] | Array]]]

#: Beside the colours, markers and dashes: any one of them tells estimators apart.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

#: How a line is broken, as matplotlib has it.
Dash = Literal["-", "none"] | tuple[float, Sequence[float]]
_DASHES: tuple[Dash, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (1, 1)),
    (0, (3, 1, 1, 1, 1, 1)),
)
_MOST_BINS, _MOST_POINTS = 120, 2000


# ---------------------------------------------------------------- data


class LineArguments(TypedDict):
    """The arguments of `lines`."""

    panels: Panels
    reference: Mapping[str, float]
    bands: Panels
    title: str


class Errors(TypedDict):
    """The arguments of `histograms` and `quantiles`."""

    values: Mapping[str, Array]
    title: str


class LineLook(TypedDict):
    """How one line and its points are drawn, as matplotlib names it."""

    color: str
    marker: str
    markersize: float
    linestyle: Dash
    linewidth: float
    markeredgecolor: str
    markeredgewidth: float


class Summary(TypedDict):
    """The values that the small print of a panel shows."""

    mean: float
    sd: float
    used: int
    dropped: int


class Histogram(Summary):
    """A density histogram."""

    edges: Array
    density: Array
    width: float


class Quantiles(Summary):
    """Quantiles of a sample against the normal's."""

    theoretical: Array
    sample: Array


def study_panels(study: Study, target: TargetLike = None, interval: Interval | None = None) -> LineArguments:
    """Return the data that `study_lines` draws: the arguments of `lines`."""
    kind = study.intervals[-1] if interval is None else interval
    wanted = study.target(study.targets[-1] if target is None else target)
    horizons = sorted(study.horizons)
    cells = {e: [study.cell(e, wanted, kind, h) for h in horizons] for e in study.estimators}

    def panel(value: Callable[[Performance], float]) -> dict[str, Array]:
        return {e: np.array([value(cell) for cell in row]) for e, row in cells.items()}

    criteria = {"bias": "bias", "standard deviation": "sd", "coverage": "coverage", "interval length": "length"}
    # errors of rates are in percentage points
    size, unit = (100, ", points") if is_binary(study.bandit) else (1, "")
    criteria = {name if name == "coverage" else f"{name}{unit}": attribute for name, attribute in criteria.items()}
    panels = {name: panel(attrgetter(attribute)) for name, attribute in criteria.items()}
    panels = {name: {e: y * (1 if name == "coverage" else size) for e, y in p.items()} for name, p in panels.items()}
    bias = f"bias{unit}"
    reach = {e: size * special.ndtri(0.975) * error for e, error in panel(lambda c: c.bias_error).items()}
    low, high = panel(lambda c: c.coverage_low), panel(lambda c: c.coverage_high)
    word = "default" if kind == "auto" else kind  # which it is depends on the estimator
    return {
        "panels": {name: {e: (np.array(horizons), y) for e, y in rows.items()} for name, rows in panels.items()},
        "reference": {bias: 0.0, "coverage": study.level},
        "bands": {
            bias: {e: (y - reach[e], y + reach[e]) for e, y in panels[bias].items()},
            "coverage": {e: (low[e], high[e]) for e in cells},
        },
        "title": f"{one_line(wanted.name, 50)}: {percent(study.level)} {word} intervals, {_replications(study)}",
    }


def study_errors(
    study: Study, target: TargetLike = None, horizon: int | None = None, interval: Interval | None = None
) -> Errors:
    """Return the data that `study_histograms` and `study_quantiles` draw: studentised errors, and a title."""
    wanted = study.target(study.targets[-1] if target is None else target)
    length = max(study.horizons) if horizon is None else horizon
    values: dict[str, Array] = {e: study.cell(e, wanted, interval, length).studentised for e in study.estimators}
    return {"values": values, "title": f"{one_line(wanted.name, 50)} at horizon {length:,}, {_replications(study)}"}


def _replications(study: Study) -> str:
    return count(max(len(moments) for moments in study.moments.values()), "replication")


def histogram(values: Sequence[float] | Array, width: float = 0.2) -> Histogram:
    """Return a density histogram of the finite values, in bins centred on multiples of `width`.

    Returns
    -------
    dict
        ``edges``, ``density``, ``width`` (a multiple of the requested width if that needs more than 120 bins),
        ``mean``, ``sd``, ``used``, and ``dropped``, the number of values that are not finite or above 1e100.
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


def quantile(values: Sequence[float] | Array) -> Quantiles:
    """Return the quantiles of the finite values and of the normal distribution; at most 2,000 of them.

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


def _finite(values: Sequence[float] | Array) -> tuple[Array, Summary]:
    """Return the values that can be drawn, and their summary."""
    array = np.asarray(values, dtype=np.float64).ravel()
    kept = array[np.abs(array) <= LARGEST]
    mean = float(kept.mean()) if len(kept) else math.nan
    sd = float(kept.std(ddof=1)) if len(kept) > 1 else math.nan
    return kept, {"mean": mean, "sd": sd, "used": len(kept), "dropped": len(array) - len(kept)}


# ---------------------------------------------------------------- figures


def lines(
    panels: Panels,
    *,
    reference: Mapping[str, float] | None = None,
    bands: Panels | None = None,
    xlabel: str = "horizon",
    title: str = "",
) -> Figure:
    """Draw one panel per criterion, with one line per estimator.

    Parameters
    ----------
    panels : mapping from criterion to mapping from estimator to (x, y)
    reference : mapping from criterion to float, optional
        The ideal value, drawn as a dashed horizontal line.
    bands : mapping from criterion to mapping from estimator to (low, high), optional
        Monte Carlo intervals, drawn as bars.
    xlabel, title : str

    Notes
    -----
    If some estimators are so far off that the others would overlap, the axis is logarithmic (in the distance from the
    reference, if there is one), and the panel says so. Points of one horizon are drawn slightly side by side.
    """
    figure, facets = new_figure(panels)
    from matplotlib.lines import Line2D
    from matplotlib.transforms import ScaledTranslation

    names = list(dict.fromkeys(name for rows in panels.values() for name in rows))
    ticks = sorted({float(at) for rows in panels.values() for x, _ in rows.values() for at in np.asarray(x)})
    if not ticks:
        raise OptionError("There is nothing to draw; `panels` has no points.")
    step = 12.0 if len(ticks) == 1 else min(2.5, 60 / len(ticks) / len(names))
    looks: list[LineLook] = [
        {
            "color": COLOURS[k % len(COLOURS)], "marker": _MARKERS[k % len(_MARKERS)], "markersize": 4.5,
            "linestyle": _DASHES[k % len(_DASHES)] if len(ticks) > 1 else "none", "linewidth": 1.2,
            "markeredgecolor": "white", "markeredgewidth": 0.4,
        }
        for k in range(len(names))
    ]  # fmt: skip
    for (criterion, rows), axes in zip(panels.items(), facets, strict=True):
        ideal = (reference or {}).get(criterion)
        ranges = (bands or {}).get(criterion, {})
        if ideal is not None:
            axes.axhline(ideal, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        for name, (x, y) in rows.items():
            k = names.index(name)
            aside = ScaledTranslation((k - (len(names) - 1) / 2) * step / 72, 0, figure.dpi_scale_trans)
            moved = axes.transData + aside
            axes.plot(x, drawable(y), transform=moved, zorder=3, **looks[k])
            if name in ranges:
                low, high = map(drawable, ranges[name])
                colour = looks[k]["color"]
                axes.vlines(x, low, high, color=colour, linewidth=0.8, alpha=0.6, transform=moved, zorder=3)
        bars = [np.array([drawable(end) for end in ranges[name]]) for name in rows if name in ranges]
        points = np.concatenate([drawable(y) for _, y in rows.values()])
        scale_up(axes, points, ideal, np.concatenate([np.empty((2, 0)), *bars], axis=1))
        scale_across(axes, ticks)
        axes.set_xlabel(safe_label(xlabel), color=INK, fontsize=9)
    labels = safe_labels(names, LONGEST)
    deep = math.ceil(len(labels) * (max(map(len, labels)) + 8) / (56 * min(2, len(facets))))
    figure.legend(
        [Line2D([], [], **look) for look in looks], labels, title=safe_label(title, 100) or None, title_fontsize=11,
        ncols=math.ceil(len(labels) / deep), loc="outside upper center", frameon=False, fontsize=9, labelcolor=INK,
        handlelength=3,
    )  # fmt: skip
    return figure


def histograms(
    values: Mapping[str, Sequence[float] | Array],
    *,
    width: float = 0.2,
    title: str = "",
    xlabel: str = "studentised error",
) -> Figure:
    """Draw a density histogram of each estimator's values, with the standard normal density.

    Parameters
    ----------
    values : mapping from estimator to array
    width : float
        The width of the bins; see `histogram`.
    title, xlabel : str
    """
    figure, facets = new_figure(values, title)
    z = np.linspace(-4, 4, 201)
    for array, axes in zip(values.values(), facets, strict=True):
        data = histogram(array, width)
        if data["used"]:
            axes.stairs(data["density"], data["edges"], fill=True, color=COLOURS[0], alpha=0.45, linewidth=0)
            axes.stairs(data["density"], data["edges"], color=COLOURS[0], linewidth=0.8)
        axes.plot(z, np.exp(-z * z / 2) / math.sqrt(2 * math.pi), color=INK, linewidth=1, linestyle=(0, (4, 2)))
        axes.set_ylim(bottom=0)
        axes.set_ylabel("density", color=INK, fontsize=9)
        axes.locator_params(nbins=6)
        axes.set_xlabel(safe_label(xlabel), color=INK, fontsize=9)
        _small_print(axes, data)
    return figure


def quantiles(values: Mapping[str, Sequence[float] | Array], *, title: str = "") -> Figure:
    """Draw each estimator's values against standard normal quantiles.

    Parameters
    ----------
    values : mapping from estimator to array
    title : str
    """
    figure, facets = new_figure(values, title)
    for array, axes in zip(values.values(), facets, strict=True):
        data = quantile(array)
        axes.plot([-4, 4], [-4, 4], color=INK, linewidth=1, linestyle=(0, (4, 2)))
        axes.plot(data["theoretical"], data["sample"], ".", color=COLOURS[0], markersize=3, markeredgewidth=0)
        axes.locator_params(nbins=6)
        axes.set_xlabel("normal quantile", color=INK, fontsize=9)
        axes.set_ylabel("quantile", color=INK, fontsize=9)
        _small_print(axes, data)
    return figure


def study_lines(study: Study, target: TargetLike = None, interval: Interval | None = None) -> Figure:
    """Draw bias, standard deviation, coverage and length over a study's horizons.

    Parameters
    ----------
    study : Study
        ``study.viewed(estimators=...)`` chooses what is drawn.
    target : optional
        As in `study`; by default the last target of the study, usually a contrast.
    interval : str, optional
        By default the last of the study.
    """
    return lines(**study_panels(study, target, interval))


def study_histograms(
    study: Study, target: TargetLike = None, horizon: int | None = None, interval: Interval | None = None
) -> Figure:
    """Draw histograms of the estimators' studentised errors at one horizon, by default the longest."""
    return histograms(**study_errors(study, target, horizon, interval))


def study_quantiles(
    study: Study, target: TargetLike = None, horizon: int | None = None, interval: Interval | None = None
) -> Figure:
    """Draw the estimators' studentised errors at one horizon against normal quantiles."""
    return quantiles(**study_errors(study, target, horizon, interval))


def _small_print(axes: Axes, data: Summary) -> None:
    dropped = f", {data['dropped']:,} dropped" if data["dropped"] else ""
    text = f"mean {data['mean']:.3g}, sd {data['sd']:.3g}{dropped}" if data["used"] else f"no finite values{dropped}"
    axes.set_title(text, loc="right", fontsize=8, color=GREY)
