"""Figures of estimates: forests of arms, contrasts and estimators, and how answers moved."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from belated.base import figures as plots
from belated.base.columns import Label
from belated.base.figures import COLOURS, GREY, INK, Whisker
from belated.base.text import count, percent, shorten_all
from belated.summaries.caps import capped_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from belated.estimation.answers import Answer, Answers, Contrasts
    from belated.estimation.best import Best
    from belated.estimation.buildup import Buildup
    from belated.estimation.comparison import Comparison
    from belated.estimation.estimate import Estimate
    from belated.estimation.trajectory import Trajectory

#: The most arms that a figure of several estimators, and of several moments in colour, shows.
_MOST_FACETS, _MOST_PATHS = 12, len(COLOURS)

#: The most arms whose bands can be told apart in one facet.
_MOST_BANDS = 3

#: Columns of text that an arm's name takes in a legend.
_LEGEND = 24


def estimate_figure(estimate: Estimate) -> Figure:
    """Draw every arm's mean with its interval."""
    lines = _lines(estimate.arms, estimate.arm_answers)
    title = f"{estimate.estimator.name}: {percent(estimate.level)} {estimate.interval} intervals"
    return plots.forest(lines, title, unit=estimate.unit, xlabel=estimate.estimand)


def contrasts_figure(contrasts: Contrasts) -> Figure:
    """Draw contrasts with their intervals, and a line at 0."""
    names = contrasts._columns()[0].texts(plots.ROW_LABEL)
    unit = contrasts.answers[0].unit
    xlabel = f"difference{capped_at(contrasts.cap)}"
    return plots.forest(_lines(names, contrasts.answers), contrasts._title(), unit=unit, xlabel=xlabel, reference=0.0)


def best_figure(best: Best) -> Figure:
    """Draw the arms in their order, those that may be best in colour, and the best arm's own interval at the top."""
    arm, estimate, _, low, high, *_ = (column.shown or column.values for column in best._columns())
    rows = zip(arm, estimate, low, high, strict=True)
    lines = [Whisker("best, adjusted", best.estimate, *best.shown, 1)]
    lines += [Whisker(a, x, b, t, 0 if a in best.contenders else -1) for a, x, b, t in rows]  # type: ignore[arg-type]
    title = f"The best of {count(len(best.p_values), 'arm')}: those in colour may be best"
    return plots.forest(lines, title, unit=best.unit, xlabel=best.source.estimand)


def comparison_figure(comparison: Comparison) -> Figure:
    """Draw every estimator's answer, in a facet for each arm; of many arms the first."""
    estimates = comparison.estimates
    first = next(iter(estimates.values()))
    arms = first.arms[:_MOST_FACETS]
    more = f", the first {len(arms)} of {len(first.arms)} arms" if len(arms) < len(first.arms) else ""
    title = f"{first.estimand}: {percent(first.level)} intervals by estimator{more}"
    figure, facets = plots.new_figure(arms, title)
    for facet, arm in zip(facets, arms, strict=True):
        answers = {name: estimate.arm(arm) for name, estimate in estimates.items()}
        plots.draw_forest(facet, _lines(answers, answers.values()), unit=first.unit)
    return figure


def answers_figure(answers: Answers) -> Figure:
    """Draw one question's answers: by estimator below each other, over moments as a band."""
    given = list(answers.answers.values())
    reference = 0.0 if len(given[-1].parts) > 1 else None
    if answers.by != "as_of":
        lines = _lines(answers.answers, given)
        return plots.forest(lines, answers._title(), unit=given[-1].unit, xlabel=given[-1].name, reference=reference)
    title = f"{given[-1].name}: {percent(given[-1].level)} intervals, each for a single look"
    return _paths(list(answers.answers), {given[-1].name: given}, title, reference)


def trajectory_figure(trajectory: Trajectory) -> Figure:
    """Draw how every arm's estimate and interval moved; of many arms those that ended highest, and how many more."""
    last = trajectory.estimates[-1]
    chosen = _highest(last)
    names = shorten_all((last.arms[k] for k in chosen), _LEGEND)
    paths = {
        name: [estimate.arm_answers[k] for estimate in trajectory.estimates]
        for name, k in zip(names, chosen, strict=True)
    }
    more = f", the {len(chosen)} highest of {len(last.arms)} arms" if len(chosen) < len(last.arms) else ""
    title = f"{last.estimand}: {percent(last.level)} intervals, each for a single look{more}"
    return _paths(trajectory.moments, paths, title, None)


def buildup_figure(buildup: Buildup) -> Figure:
    """Draw how every arm's mean builds up by age, with bands: few arms together, more in a facet each."""
    last, maturity = buildup.estimates[-1], buildup.estimates[-1].maturity
    chosen = _highest(last)
    names = shorten_all((last.arms[k] for k in chosen), _LEGEND)
    scale, unit = (1.0, "steps") if maturity is None else maturity.scale
    more = f", the {len(chosen)} highest of {len(last.arms)} arms" if len(chosen) < len(last.arms) else ""
    title = f"{last.estimand} after assignment: {percent(last.level)} intervals, each for one age{more}"
    together = len(chosen) <= _MOST_BANDS
    figure, facets = plots.new_figure(None if together else names, title, (7.2, 4.4) if together else None)
    ages = [0.0, *(age / scale for age in buildup.ages)]
    answers = [[estimate.arm_answers[k] for estimate in buildup.estimates] for k in chosen]
    low, high = (np.array([[0.0, *(a.shown[end] for a in own)] for own in answers]).T for end in (0, 1))
    means = np.array([[0.0, *(a.estimate for a in own)] for own in answers]).T
    for place, (name, own) in enumerate(zip(plots.safe_labels(names, _LEGEND), answers, strict=True)):
        lines = [Whisker("", 0.0, 0.0, 0.0), *_lines(buildup.names, own)]
        axes = facets[0 if together else place]
        plots.draw_path(axes, ages, lines, COLOURS[place % len(COLOURS)], name)
    for axes in facets:
        plots.cut_height(axes, low, high, means)
        plots.scale_in(axes.yaxis, last.unit)
        axes.set_xlabel(f"{unit} since assignment", fontsize=9, color=INK)
        axes.set_xlim(0.0, ages[-1])
    if together and len(chosen) > 1:
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    return figure


def _highest(estimate: Estimate) -> list[int]:
    """Return the arms with the highest estimates that a figure can tell apart, in order."""
    order = np.argsort(np.nan_to_num(-estimate.values, nan=np.inf), kind="stable")[:_MOST_PATHS]
    return sorted(order.tolist())


def _paths(
    moments: Sequence[Hashable], paths: Mapping[str, Sequence[Answer]], title: str, reference: float | None
) -> Figure:
    figure, (axes,) = plots.new_figure(None, title, (7.2, 4.4))
    for k, (name, answers) in enumerate(zip(plots.safe_labels(paths, _LEGEND), paths.values(), strict=True)):
        plots.draw_path(axes, moments, _lines(moments, answers), COLOURS[k % len(COLOURS)], name)
    low, high = (np.array([[a.shown[end] for a in answers] for answers in paths.values()]).T for end in (0, 1))
    estimate = np.array([[a.estimate for a in answers] for answers in paths.values()]).T
    plots.cut_height(axes, low, high, estimate)
    if reference is not None:
        axes.axhline(reference, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
    plots.scale_in(axes.yaxis, next(iter(paths.values()))[-1].unit)
    plots.scale_moments(figure, axes, moments)
    if len(paths) > 1:
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    return figure


def _lines(labels: Iterable[Label], answers: Iterable[Answer]) -> list[Whisker]:
    return [Whisker(label, a.estimate, *a.shown) for label, a in zip(labels, answers, strict=True)]
