"""Figures: a diagnosis, and a sensitivity analysis."""

from __future__ import annotations

import pytest
from simulated_logs import experiment

import belated as bl
from belated.assumptions.checks.check import LIGHTS, Check
from belated.assumptions.diagnosis import Diagnosis


def test_every_check_is_drawn_with_its_light_and_finding():
    checks = (
        Check("drift", "practice", "Nothing changes.", "red", "The mean of $x^2$ changed.", "Ask."),
        Check("delay tail", "A2", "Delays are short.", "grey", "A sentence that goes on and on, " * 12),
    )
    figure = Diagnosis(name="log.csv", rows=7, arms=("A",), checks=checks).plot()
    said = " ".join(text.get_text() for text in figure.axes[0].texts)
    assert all(words in said for words in ("drift", "red", r"The mean of \$x^2\$ changed.", "delay tail", "grey"))
    assert [line.get_color() for line in figure.axes[0].lines] == [LIGHTS[each].colour for each in ("red", "grey")]
    figure.draw_without_rendering()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(box.x0, box.y0) >= -0.02
    assert box.x1 <= width + 0.02
    assert box.y1 <= height + 0.02


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
    nothing = bl.sensitivity(bl.Log(["A", "A", "B"], [None] * 3, [0.5] * 3), ("B", "A"))
    assert [axes.get_ylim() for axes in nothing.plot().axes] == [(-1, 1), (-1, 1)]
