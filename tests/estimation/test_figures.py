from __future__ import annotations

import math
import warnings
from itertools import pairwise

import numpy as np
import pytest

import belated as bl
from belated.base.figures import Whisker, forest


def log_of(arms, rows=240, rates=True):
    rng = np.random.default_rng(5)
    k = len(arms)
    outcomes = (rng.random(rows) < 0.4).astype(float) if rates else rng.normal(5, 1, rows)
    return bl.Log([arms[i % k] for i in range(rows)], outcomes, np.full((rows, k), 1 / k), arms=arms)


LONG = tuple(f"summer_campaign_2026_email_to_customers_variant_{k:02d}" for k in range(34))
DRAWN = {
    "estimate": lambda log: bl.estimate(log),
    "best": lambda log: bl.estimate(log).best(),
    "comparison": lambda log: bl.compare(log),
    "trajectory": lambda log: bl.trajectory(log, at=8),
    "diagnosis": lambda log: bl.diagnose(log),
    "contrasts": lambda log: bl.estimate(log).contrasts(log.arms[0]),
    "by estimator": lambda log: bl.compare(log).arm(log.arms[0]),
    "by moment": lambda log: bl.trajectory(log, at=8).arm(log.arms[0]),
}


@pytest.mark.parametrize("arms", [("only",), ("A", "$x^2$"), LONG], ids=["one arm", "two arms", "34 arms"])
@pytest.mark.parametrize("name", DRAWN)
def test_every_result_draws_itself_within_the_figure(name, arms):
    if name == "contrasts" and len(arms) == 1:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = DRAWN[name](log_of(arms)).plot()
    assert figure.get_facecolor() == (1, 1, 1, 1)
    figure.draw_without_rendering()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert box.x0 >= -0.02
    assert box.y0 >= -0.02
    assert box.x1 <= width + 0.02
    assert box.y1 <= height + 0.02
    assert "''" not in {axes.get_title("left") for axes in figure.axes}


def test_axes_of_rates_are_in_percent_and_of_differences_in_points():
    est = bl.estimate(log_of(("A", "B")))
    axes = est.plot().axes[0]
    assert axes.xaxis.get_major_formatter()(0.25, 0) == "25%"
    assert axes.get_xlabel() == "outcome rate"
    axes = est.contrasts("A").plot().axes[0]
    assert axes.xaxis.get_major_formatter()(0.25, 0) == "25"
    assert axes.get_xlabel() == "difference, in points"
    axes = bl.estimate(log_of(("A", "B"), rates=False)).plot().axes[0]
    assert axes.get_xlabel() == "mean outcome"


def test_intervals_that_are_infinite_or_missing_are_said():
    lines = [
        Whisker("infinite", 1.0, -math.inf, 2.0),
        Whisker("one outcome", 1.5, math.nan, math.nan),
        Whisker("none", math.nan, math.nan, math.nan),
        Whisker("usual", 1.0, 0.5, 1.5),
    ]
    figure = forest(lines, "title", unit="number", xlabel="mean")
    words = [text.get_text() for text in figure.axes[0].texts]
    assert words == ["no interval", "no answer"]
    low, high = figure.axes[0].get_xlim()
    assert 0 < low < 0.5
    assert 2.0 < high < 2.5


def test_contrasts_show_both_arms():
    figure = bl.estimate(log_of(LONG[:5])).contrasts(LONG[0]).plot()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert all("_00" in label and f"_{k:02d}" in label for k, label in enumerate(labels, 1))


def test_large_numbers_are_written_in_full_with_room_for_each():
    lines = [Whisker("A", 1e8 + 0.04, 1e8 - 0.07, 1e8 + 0.14), Whisker("B", 1e8 + 2, 1e8 + 1.9, 1e8 + 2.1)]
    figure = forest(lines, "title", unit="number", xlabel="mean")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    ticks = [tick.get_text() for tick in axes.get_xticklabels()]
    assert {"100,000,000", "100,000,002"} <= set(ticks)
    assert axes.xaxis.get_offset_text().get_text() == ""
    boxes = [tick.get_window_extent() for tick in axes.get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
