from __future__ import annotations

import math

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
    return bl.Log(list("AAAAABB"), [1.0, 1, 1, 0, 1, 1, 1], np.full((7, 2), 0.5))


def test_limits_of_rates_are_shown_between_0_and_100_percent_and_kept_as_they_are():
    result = bl.estimate(few(), level=0.9)
    arm, contrast = result.arm("A"), result.contrasts()
    assert arm.low < -0.5
    assert contrast[0].low < -1.5
    assert "0%  100%" in repr(arm)
    assert "-100   100" in repr(contrast)
    assert "points" in repr(contrast)
    for table in (result, arm, contrast, result.best(), bl.compare(few()), bl.trajectory(few(), at=[7])):
        assert "%" in table.to_text()
        assert "-" not in table.to_html().replace("text-align", "").replace("B - A", "").replace("-100", "")
    assert arm.to_dict()["low"] == arm.low
    assert f"{arm.low}" in result.to_csv()
    assert f"{contrast[0].low}" in contrast.to_json()


def test_other_combinations_of_rates_are_cut_at_what_they_can_be():
    result = bl.estimate(few(), level=0.9)
    both = result.linear({"A": 2.0, "B": 1.0})
    assert both.shown == (0.0, 3.0)
    assert result.linear({"A": 1.0, "B": -0.5}).shown == (-0.5, 1.0)
    numbers = bl.estimate(bl.Log(list("AAAAABB"), [2.0, 1, 1, 0, 1, 1, 1], np.full((7, 2), 0.5))).arm("A")
    assert numbers.shown == (numbers.low, numbers.high)


def test_figures_and_reports_show_the_same_limits(tmp_path):
    result = bl.estimate(few())
    for figure in (result.plot(), result.best().plot(), bl.trajectory(few(), at=[5, 7]).plot()):
        drawn = [line.get_xdata() if len(figure.axes[0].get_yticks()) < 5 else [] for line in figure.axes[0].lines]
        for places in drawn:
            assert all(-1e-9 <= place <= 1 + 1e-9 for place in np.asarray(places, float))
    page = bl.report(few(), tmp_path / "report.html").read_text()
    assert result.arm("A").low < -1
    assert f"{100 * result.arm('A').low:.0f}%" not in page
    assert "(0% to 100%)" in page
