"""The figure of a confidence sequence, with single-look intervals for comparison."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from belated.base import figures as plots
from belated.base.text import in_unit, percent
from belated.sequences.answers import Track
from belated.sequences.design import kind_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BAND, _FIXED = "#0072B2", "#D55E00"

#: The margin of the picture on either side of the last interval, in widths of that interval.
_MARGIN = 4.0

#: The null value is left out of the picture if the picture would be more than this many times as high with it.
_FARTHEST = 10.0


def view(track: Track) -> tuple[float, float]:
    """Return the range of values to draw; early intervals, many times as wide as the last, are cut off."""
    low, high, estimate, null = track.shown("low"), track.shown("high"), track.estimate, track.null
    finite = np.isfinite(low) & np.isfinite(high)
    middle = estimate[np.isfinite(estimate)]
    if finite.any():
        last = np.nonzero(finite)[0][-1]
        room = _MARGIN * max(float(high[last] - low[last]), 1e-300)
        bottom, top = float(low[last]) - room, float(high[last]) + room
        bottom, top = max(bottom, float(low[finite].min())), min(top, float(high[finite].max()))
    elif len(middle):
        bottom, top = float(middle.min()), float(middle.max())
    else:
        bottom, top = -1.0, 1.0
    if bottom == top or max(top, null) - min(bottom, null) <= _FARTHEST * (top - bottom):
        bottom, top = min(bottom, null), max(top, null)
    reach = 0.05 * (top - bottom) or 0.05 * abs(top) or 1.0
    return bottom - reach, top + reach


def band(track: Track) -> Figure:
    """Draw a sequence over its looks."""
    title = f"{percent(track.level)} {kind_text(track.kind)} confidence sequence"
    figure, (axes,) = plots.new_figure([track.name], title, (7.2, 4.2))
    bottom, top = view(track)
    when = [plots.moment_to_draw(moment) for moment in track.moments]
    known = np.isfinite(track.low) | np.isfinite(track.high)
    far = 10 * (top - bottom)
    low, high = (np.clip(limit, bottom - far, top + far) for limit in map(track.shown, ("low", "high")))
    axes.fill_between(
        when, low, high, where=known.tolist(), color=_BAND, alpha=0.22, linewidth=0, label="holds at every look"
    )
    alone = known & ~np.append(False, known[:-1]) & ~np.append(known[1:], False)  # a band of one look has no width
    axes.vlines([when[i] for i in np.flatnonzero(alone)], low[alone], high[alone], color=_BAND, linewidth=3, alpha=0.6)
    for limit in (low, high):
        axes.plot(when, np.where(known, limit, math.nan), color=_BAND, linewidth=0.9)
    for end, label in (("fixed_low", "holds at a single look"), ("fixed_high", None)):
        axes.plot(when, track.shown(end), color=_FIXED, linewidth=0.9, linestyle=(0, (4, 2)), label=label)
    axes.plot(when, track.estimate, color="#222222", linewidth=1.3, label="estimate")
    axes.axhline(track.null, color="#777777", linewidth=0.8)
    if track.excluded_at is not None:
        moment, label = plots.moment_to_draw(track.excluded_at), f"{in_unit(track.null, track.unit)} excluded"
        axes.axvline(moment, color="#777777", linewidth=0.8, linestyle=":", label=label)
    axes.set_ylim(bottom, top)
    plots.scale_in(axes.yaxis, track.unit)
    plots.scale_moments(figure, axes, track.moments)
    axes.legend(facecolor="white", edgecolor="none", framealpha=0.85, fontsize=8.5, loc="best")
    return figure
