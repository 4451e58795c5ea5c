"""The figure of a sensitivity analysis."""

from __future__ import annotations

import pytest
from simulated_logs import experiment

import belated as bl


def test_the_figure_shows_the_tipping_points():
    pytest.importorskip("matplotlib")
    answer = bl.sensitivity(experiment(), ("B", "A"))
    data = answer.plot_data()
    assert data["odds"][0]["gamma"] == [1.0]
    assert data["odds"][-1]["gamma"][0] > answer.tipping_point
    assert data["shift"][-1]["delta"][0] > answer.shift.tipping_point
    figure = answer.plot()
    left, right = figure.axes
    assert f"{answer.tipping_point:.3g}" in left.get_title(loc="right")
    assert f"{answer.shift.tipping_point:.3g}" in right.get_title(loc="right")
    few = bl.sensitivity(bl.Log(["A", "A", "B"], [1, 2, None], [0.5] * 3), ("B", "A"))
    assert few.plot().axes[0].get_title(loc="right") == "no interval"
