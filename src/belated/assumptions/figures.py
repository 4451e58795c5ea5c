"""Figures: a diagnosis, and a sensitivity analysis."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypedDict

import numpy as np

from belated.assumptions.checks.check import LIGHTS
from belated.assumptions.missing import Size
from belated.base.figures import COLOURS, INK, new_figure, safe_label, scale_in, write_ticks
from belated.base.tables import RANGES, shown_limit
from belated.base.text import Unit, in_unit, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from belated.assumptions.diagnosis import Diagnosis

#: Characters of a line of a finding.
_FINDING_WIDTH = 74

#: A row of bounds, as `Bounds.to_dict` gives it: every value is a list of one.
BoundsRow: TypeAlias = Mapping[str, Sequence[float]]


# ---------------------------------------------------------------- a diagnosis


def diagnosis_figure(diagnosis: Diagnosis) -> Figure:
    """Draw the checks one below the other: the light, the name, and the finding."""
    findings = [textwrap.wrap(safe_label(check.finding, 400), _FINDING_WIDTH)[:4] or [""] for check in diagnosis.checks]
    lines = sum(len(finding) for finding in findings)
    figure, (axes,) = new_figure(None, diagnosis._title(), (8.4, 0.9 + 0.19 * lines + 0.14 * len(findings)))
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(lines + 0.75 * len(findings), -0.75)
    y = 0.0
    for check, finding in zip(diagnosis.checks, findings, strict=True):
        _, _, colour, marker = LIGHTS[check.light]
        axes.plot([0.01], [y], marker=marker, color=colour, markersize=8, clip_on=False)
        axes.text(0.035, y, safe_label(check.light, 8), color=colour, fontsize=9, va="center")
        axes.text(0.105, y, safe_label(check.name, 24), color=INK, fontsize=9, va="center", fontweight="bold")
        axes.text(0.33, y - 0.5, "\n".join(finding), color=INK, fontsize=8.5, va="top", linespacing=1.2)
        y += len(finding) + 0.75
    return figure


# ---------------------------------------------------------------- a sensitivity analysis


class Curves(TypedDict):
    """The data of the figure.

    Attributes
    ----------
    odds, shift : sequence of mappings
        Rows with ``gamma`` or ``delta``, ``bound_low``, ``bound_high``, ``low`` and ``high``, as lists of one value.
    odds_tipping, shift_tipping : float
    sd : float
        The standard deviation of the outcomes.
    null : float
    name : str
        The name of the arm or contrast.
    level : float
    unit : str
        The unit for display.
    """

    odds: Sequence[BoundsRow]
    shift: Sequence[BoundsRow]
    odds_tipping: float
    shift_tipping: float
    sd: float
    null: float
    name: str
    level: float
    unit: Unit


def sensitivity_figure(curves: Curves) -> Figure:
    """Draw bounds and intervals over the factor of the odds, and over the shift, with the tipping points."""
    odds, shift, sd, unit = curves["odds"], curves["shift"], curves["sd"], curves["unit"]
    figure, (left, right) = new_figure(["odds of arriving", "shift of the mean"], curves["name"])
    of_shift: Unit = "number" if unit == "number" else "points"
    _bands(left, odds, "gamma", curves)
    for axes in (left, right):
        scale_in(axes.yaxis, unit)
    left.set_xlabel("largest factor G between odds of arriving", color=INK, fontsize=9)
    left.set_xscale("log")
    last = odds[-1]["gamma"][0]
    ticks = [g for g in (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000, 10000) if g <= last]
    left.set_xticks(ticks if last <= 20 else ticks[::2])
    left.set_xticks([], minor=True)
    write_ticks(left.xaxis, 4)
    left.set_xlim(1, last)
    _bands(right, shift, "delta", curves)
    deviation = f" (1 sd = {in_unit(float(f'{sd:.3g}'), of_shift)})" if sd > 0 else ""
    scale_in(right.xaxis, of_shift)
    right.set_xlabel(f"largest difference of means{deviation}", color=INK, fontsize=9)
    right.set_xlim(0, shift[-1]["delta"][0])
    right.locator_params(nbins=6)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9, labelcolor=INK)
    return figure


def _bands(axes: Axes, rows: Sequence[BoundsRow], size: Size, curves: Curves) -> None:
    null, level, unit = curves["null"], curves["level"], curves["unit"]
    tipping = curves["odds_tipping"] if size == "gamma" else curves["shift_tipping"]
    tipping_unit: Unit = "points" if size == "delta" and unit != "number" else "number"
    x, bound_low, bound_high, low, high = (
        shown_limit([row[key][0] for row in rows], math.nan, RANGES["number" if key == size else unit])
        for key in (size, "bound_low", "bound_high", "low", "high")
    )
    axes.fill_between(x, low, high, color=COLOURS[0], alpha=0.16, linewidth=0, label=f"{percent(level)} interval")
    axes.fill_between(
        x, bound_low, bound_high, color=COLOURS[0], alpha=0.45, linewidth=0, label="bounds of the estimate"
    )
    axes.plot(x, low, color=COLOURS[0], linewidth=1)
    axes.plot(x, high, color=COLOURS[0], linewidth=1)
    axes.axhline(null, color=INK, linewidth=1)
    limits = np.concatenate([bound_low, bound_high, low, high])
    if not (limits[np.isfinite(limits)] != null).any():  # nothing to choose a scale by
        axes.set_ylim(null - 1, null + 1)
    inside = x[0] < tipping <= x[-1]
    shown = tipping if inside else math.nan
    axes.plot([shown], [null], "o", color=COLOURS[1], markersize=6, zorder=3, label="tipping point")
    if inside:
        axes.axvline(tipping, color=COLOURS[1], linewidth=1, linestyle=(0, (4, 2)))
        words = in_unit(float(f"{tipping:.3g}"), tipping_unit)
    elif tipping <= x[0]:
        words = f"already includes {in_unit(null, unit)}"
    else:
        words = "no tipping point in this range" if tipping > x[-1] else "no interval"
    axes.set_title(safe_label(f"tips at {words}" if inside else words), loc="right", fontsize=8.5, color=COLOURS[1])
