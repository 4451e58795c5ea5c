from __future__ import annotations

import math
import re

import numpy as np

import belated as bl
from belated.base.limits import RANGES, shown_limit


def test_limits_are_cut_at_what_is_possible_or_at_the_estimate():
    limits = [-8.0, 0.25, 1.5, 1.5, -math.inf, math.nan]
    estimates = [0.5, 0.5, 0.5, 1.25, 0.5, 0.5]
    shown = shown_limit(limits, estimates, RANGES["percent"])
    np.testing.assert_array_equal(shown, [0.0, 0.25, 1.0, 1.25, 0.0, math.nan])
    np.testing.assert_array_equal(shown_limit(limits, math.nan, RANGES["number"]), limits)
    assert shown_limit(-1.5, 0.0, RANGES["points"]) == -1


def few() -> bl.Log:
    """Return a log of so few outcomes that intervals of rates reach beyond what rates can be."""
    return bl.Log(list("AAAABB"), [1.0, 0, 0, 0, 0, 1], np.full((6, 2), 0.5))


def test_limits_of_rates_are_shown_between_0_and_100_percent_and_kept_as_they_are():
    result = bl.estimate(few(), level=0.9)
    arm, contrast = result.arm("A"), result.contrasts()
    assert arm.low < -0.2
    assert contrast[0].low < -1.2
    assert " 0%   99%" in repr(arm)
    assert "-100   100" in repr(contrast)
    assert "points" in repr(contrast)
    for table in (result, arm, contrast, result.best(), bl.compare(few())):
        shown = [float(text) for text in re.findall(r"<td[^>]*>(-?\d[\d.]*)%?</td>", table.to_html())]
        assert shown
        assert min(shown) >= (-100 if table is contrast else 0)
    assert arm.to_dict()["low"] == arm.low
    assert f"{arm.low}" in result.to_csv()
    assert f"{contrast[0].low}" in contrast.to_json()


def test_other_combinations_of_rates_are_cut_at_what_they_can_be():
    result = bl.estimate(few(), level=0.9)
    both = result.linear({"A": 2.0, "B": 1.0})
    assert both.shown == (0.0, 3.0)
    assert result.linear({"A": 1.0, "B": -0.5}).shown[0] == -0.5
    numbers = bl.estimate(bl.Log(list("AAAABB"), [2.0, 1, 1, 0, 1, 0], np.full((6, 2), 0.5))).arm("A")
    assert numbers.shown == (numbers.low, numbers.high)


def test_figures_and_reports_show_the_same_limits(tmp_path):
    result = bl.estimate(few())
    assert result.arm("A").low < -0.2
    for figure in (result.plot(), result.best().plot()):
        (axes,) = figure.axes
        places = np.concatenate([np.asarray(line.get_xdata(), float) for line in axes.lines])
        assert places.min() >= 0
        assert places.max() <= 1
    moved = bl.trajectory(few(), at=[6]).plot().axes[0]
    assert min(area.get_paths()[0].vertices[:, 1].min() for area in moved.collections) >= 0
    page = bl.report(few(), tmp_path / "report.html").read_text()
    assert f"{100 * result.arm('A').low:.0f}%" not in page
    assert "(0% to 100%)" in page
