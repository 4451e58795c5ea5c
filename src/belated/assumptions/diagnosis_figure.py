"""The figure of a diagnosis: every check with its light and finding."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from belated.base.figures import GREY, INK, new_figure, safe_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from belated.assumptions.checks.check import Light
    from belated.assumptions.diagnosis import Diagnosis

#: Colour and marker of each light.
_LOOKS: dict[Light, tuple[str, str]] = {
    "red": ("#A11F0B", "X"),
    "amber": ("#C77700", "^"),
    "green": ("#1A6B3C", "o"),
    "grey": (GREY, "."),
}

#: Characters of a line of text.
_LINE = 74


def diagnosis_figure(diagnosis: Diagnosis) -> Figure:
    """Draw the checks one below the other: the light, the name, and the finding."""
    findings = [textwrap.wrap(safe_label(check.finding, 400), _LINE)[:4] or [""] for check in diagnosis.checks]
    lines = sum(len(finding) for finding in findings)
    figure, (axes,) = new_figure([""], diagnosis._title(), (8.4, 0.9 + 0.19 * lines + 0.14 * len(findings)))
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(lines + 0.75 * len(findings), -0.75)
    y = 0.0
    for check, finding in zip(diagnosis.checks, findings, strict=True):
        colour, marker = _LOOKS[check.light]
        axes.plot([0.01], [y], marker=marker, color=colour, markersize=8, clip_on=False)
        axes.text(0.035, y, safe_label(check.light, 8), color=colour, fontsize=9, va="center")
        axes.text(0.105, y, safe_label(check.name, 24), color=INK, fontsize=9, va="center", fontweight="bold")
        axes.text(0.33, y - 0.5, "\n".join(finding), color=INK, fontsize=8.5, va="top", linespacing=1.2)
        y += len(finding) + 0.75
    return figure
