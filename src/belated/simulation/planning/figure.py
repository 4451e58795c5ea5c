"""The figure of a plan: half-width or power by horizon, and the horizon by wait."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from belated.base.columns import Array
from belated.base.figures import (
    COLOURS,
    FAINT,
    GREY,
    INK,
    drawable,
    new_figure,
    safe_label,
    scale_across,
    scale_in,
    scale_up,
    write_ticks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from belated.simulation.planning.results import Plan


class PlanData(TypedDict):
    """The data that `plan_figure` draws."""

    horizon: Array
    value: Array
    low: Array
    high: Array
    asked: float
    between: tuple[float, float]
    waits: Array
    needed: Array
    chosen: tuple[float, float]


def plan_data(plan: Plan) -> PlanData:
    """Return the data that `plan_figure` draws: the curve, the goal, the horizon with its interval, and the waits."""
    points = [point for point in plan.curve.points if math.isfinite(point.value)]
    options = [option for option in plan.options if option.reached and math.isfinite(option.wait)]
    return {
        "horizon": np.array([point.horizon for point in points], dtype=np.float64),
        "value": np.array([point.value for point in points]),
        "low": np.array([point.low for point in points]),
        "high": np.array([point.high for point in points]),
        "asked": plan.goal.asked,
        "between": (float(plan.low), float(plan.high)),
        "waits": np.array([option.wait for option in options]),
        "needed": np.array([option.horizon for option in options]),
        "chosen": (plan.wait, float(plan.horizon)),
    }


def plan_figure(plan: Plan) -> Figure:
    """Draw the half-width or power against the horizon, and, if waiting matters, the horizon against the wait."""
    data = plan_data(plan)
    what = plan.goal.words
    trade = len(data["waits"]) > 1
    figure, facets = new_figure([what, "assignments needed"] if trade else [what], f"{plan.target}: {what} by horizon")
    axes = facets[0]
    x, y = data["horizon"], drawable(data["value"])
    bars = np.array([drawable(data["low"]), drawable(data["high"])])
    axes.fill_between(x, bars[0], bars[1], color=COLOURS[0], alpha=0.15, linewidth=0)
    axes.plot(x, y, color=COLOURS[0], marker="o", markersize=4, linewidth=1.2, markeredgecolor="white")
    axes.axhline(data["asked"], color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    if plan.reached and all(map(math.isfinite, data["between"])):
        axes.axvspan(*data["between"], color=COLOURS[1], alpha=0.25, linewidth=0)
        axes.plot([data["chosen"][1]], [data["asked"]], "D", color=COLOURS[1], markersize=5, zorder=4)
    if len(x):
        scale_up(axes, np.append(y, data["asked"]), None, bars)
        scale_across(axes, x.tolist())
    if plan.goal.axis is not None:
        axes.set_ylim(*plan.goal.axis)
    scale_in(axes.yaxis, plan.goal.value_unit)
    axes.set_xlabel("assignments", color=INK, fontsize=9)
    axes.set_title(f"band: {plan.goal.band}", loc="right", fontsize=8, color=GREY)
    if trade:
        aside = facets[1]
        aside.plot(data["waits"], data["needed"], color=COLOURS[0], marker="o", markersize=4, linewidth=1.2)
        aside.plot(*([each] for each in data["chosen"]), "D", color=COLOURS[1], markersize=5, zorder=4)
        aside.set_ylim(0, 1.08 * float(data["needed"].max()))
        aside.grid(axis="x", color=FAINT, linewidth=0.7)
        aside.locator_params(nbins=5)
        write_ticks(aside.xaxis, 10)
        write_ticks(aside.yaxis, 10)
        aside.set_xlabel(safe_label("steps of waiting after the last assignment"), color=INK, fontsize=9)
    return figure
