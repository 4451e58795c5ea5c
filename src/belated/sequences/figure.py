"""Figures of confidence sequences: the band that holds at every look, with the single look's interval beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.base import figures as plots
from belated.base.columns import Array
from belated.base.text import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BAND, _FIXED = "#0072B2", "#D55E00"

#: Widths of the last band that the picture reaches on either side of it.
_ROOM = 4.0


def view(low: Array, high: Array, estimate: Array, null: float | None) -> tuple[float, float]:
    """Return the range of values worth drawing: early bands, many times as wide as the last, are cut off."""
    finite = np.isfinite(low) & np.isfinite(high)
    middle = estimate[np.isfinite(estimate)]
    if finite.any():
        last = np.nonzero(finite)[0][-1]
        room = _ROOM * max(float(high[last] - low[last]), 1e-300)
        bottom, top = float(low[last]) - room, float(high[last]) + room
        bottom, top = max(bottom, float(low[finite].min())), min(top, float(high[finite].max()))
    elif len(middle):
        bottom, top = float(middle.min()), float(middle.max())
    else:
        bottom, top = -1.0, 1.0
    if null is not None:
        bottom, top = min(bottom, null), max(top, null)
    reach = 0.05 * (top - bottom) or 0.05 * abs(top) or 1.0
    return bottom - reach, top + reach


def band(
    *,
    name: str,
    kind: str,
    level: float,
    moments: Sequence[Any],
    estimate: Array,
    low: Array,
    high: Array,
    fixed_low: Array,
    fixed_high: Array,
    null: float | None = None,
    excluded_at: Any = None,
) -> Figure:
    """Draw a sequence over its looks: what `Track.drawing` returns."""
    figure, (axes,) = plots.new_figure([name], f"{percent(level)} {kind.replace('_', '-')} confidence sequence")
    figure.set_size_inches(7.2, 4.2)
    bottom, top = view(low, high, estimate, null)
    when: Any = np.array(moments)
    if when.dtype.kind == "M":
        when = when.astype("datetime64[us]").astype(object)
    known = np.isfinite(low) | np.isfinite(high)
    far = 10 * (top - bottom)
    shown_low, shown_high = (np.clip(limit, bottom - far, top + far) for limit in (low, high))
    axes.fill_between(
        when, shown_low, shown_high, where=known.tolist(), color=_BAND, alpha=0.22, linewidth=0,
        label="holds at every look",
    )  # fmt: skip
    for limit in (shown_low, shown_high):
        axes.plot(when, np.where(known, limit, math.nan), color=_BAND, linewidth=0.9)
    for i, limit in enumerate((fixed_low, fixed_high)):
        label = "holds at a single look" if i == 0 else None
        axes.plot(when, limit, color=_FIXED, linewidth=0.9, linestyle=(0, (4, 2)), label=label)
    axes.plot(when, estimate, color="#222222", linewidth=1.3, label="estimate")
    if null is not None and bottom <= null <= top:
        axes.axhline(null, color="#777777", linewidth=0.8)
    if excluded_at is not None:
        moment: Any = excluded_at
        if isinstance(moment, np.datetime64):
            moment = moment.astype("datetime64[us]").astype(object)
        axes.axvline(moment, color="#777777", linewidth=0.8, linestyle=":", label=f"{null:g} excluded")
    axes.set_ylim(bottom, top)
    axes.margins(x=0.01)
    axes.set_xlabel("as of", fontsize=9, color="#222222")
    if np.array(moments).dtype.kind == "M":
        figure.autofmt_xdate()
    else:
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.10g}")
    axes.legend(frameon=False, fontsize=8.5, loc="best")
    return figure
