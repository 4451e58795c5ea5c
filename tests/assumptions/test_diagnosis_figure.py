from __future__ import annotations

from belated.assumptions.checks.check import Check
from belated.assumptions.diagnosis import Diagnosis


def test_every_check_is_drawn_with_its_light_and_finding():
    checks = (
        Check("drift", "practice", "Nothing changes.", "red", "The mean of $x^2$ changed.", "Ask."),
        Check("delay tail", "A2", "Delays are short.", "grey", "A sentence that goes on and on, " * 12),
    )
    figure = Diagnosis(name="log.csv", rows=7, arms=("A",), checks=checks).plot()
    said = " ".join(text.get_text() for text in figure.axes[0].texts)
    assert all(words in said for words in ("drift", "red", r"The mean of \$x^2\$ changed.", "delay tail", "grey"))
    figure.draw_without_rendering()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(box.x0, box.y0) >= -0.02
    assert box.x1 <= width + 0.02
    assert box.y1 <= height + 0.02
