"""Sections of a report on time: how the answer moved, every look, and how events build up after assignment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from belated.base.columns import Label
from belated.base.tables import Column
from belated.base.text import count, one_line, p_words, percent, with_unit
from belated.estimation.answers import Answer
from belated.estimation.buildup import Buildup, Windows
from belated.estimation.estimate import Estimate
from belated.reports import charts
from belated.reports.layout import (
    MOST_RIBBONS,
    MOST_ROWS,
    Part,
    Section,
    Sheet,
    forest_row,
    look,
    pair_name,
    ribbon,
    sheet_columns,
)
from belated.reports.narrative import strongest, upper
from belated.reports.report import Report
from belated.sequences.answers import SequenceAnswer, Track
from belated.sequences.design import kind_text
from belated.sequences.sequence import ConfidenceSequence
from belated.summaries.caps import quantity
from belated.summaries.evidence import SHARE_WITH_EVENT

#: The most arms whose bands can be told apart in one chart.
_MOST_BANDS = 3


def moved_section(report: Report) -> Section | None:
    """Show how the answer moved, in intervals for a single look."""
    trajectory = report.trajectory
    if trajectory is None or len(trajectory) < 2:
        return None
    if report.contrasts is None:
        arm = report.estimate.arms[0]
        series = [ribbon(arm, trajectory.arm(arm), look(report, arm))]
        what, reference, possible = upper(report.measure), None, 1
    else:
        pairs = [report.pairs[i] for i in strongest(list(report.contrasts.answers), MOST_RIBBONS)]
        series = [ribbon(pair_name(report, *pair), trajectory.contrast(*pair), look(report, pair[0])) for pair in pairs]
        each = ", each by itself" if len(report.contrasts) > 1 else ""
        what, reference, possible = f"Differences in {report.measure}{each}", 0.0, len(report.contrasts)
    drawn = charts.ribbons(
        np.array(trajectory.moments),
        series,
        title=f"{what}{report.comma} as {'events' if report.within else 'outcomes'} came in",
        level=report.level,
        xlabel="as of",
        reference=reference,
    )
    more = f" The {len(series)} clearest of {possible} are drawn." if len(series) < possible else ""
    moments = count(len(trajectory), "moment")
    heading, known = "How the answer changed as outcomes arrived", "what had arrived by then"
    if report.buildup is not None:
        heading, known = "How the answer changed as events came in", "what had happened by then"
    elif report.within is not None:
        heading, known = "How the answer changed as windows closed", "the windows that had closed by then"
    return Section(
        name="moved",
        link="Over time",
        heading=heading,
        intro="Each interval holds for one look, at its own moment, and not for all moments together. Do not stop at "
        "the first that looks decisive.",
        parts=(Part(charts=drawn, caption=f"{what}, estimated at {moments} from {known}.{more}"),),
    )


def looked_section(report: Report) -> Section | None:
    """Show the main difference, or the only arm, as it would have been known at every look."""
    sequence = report.sequence
    if sequence is None or not report.ranked:
        return None
    if report.main is None:
        arm = report.estimate.arms[report.ranked[0]]
        track, answer = sequence.track(arm), sequence.arm(arm)
    else:
        arm = report.main[0]
        together = len(report.pairs) if report.contrasts is not None and report.contrasts.simultaneous else 1
        track = sequence.track(*report.main, together=together)
        answer = sequence.contrast(*report.main, together=together)
    error = (answer.high - answer.low) / 6 if math.isfinite(answer.high - answer.low) else math.nan
    name = one_line(track.name, 120)
    drawn = charts.ribbons(
        np.asarray(track.moments),
        _bands(track, error, look(report, arm)),
        title=f"{name} at every look",
        level=track.level,
        xlabel="as of",
        reference=None if report.main is None else 0.0,
    )
    words = _what_is_known(answer, error, is_contrast=report.main is not None)
    if report.main is not None and len(report.pairs) > 1:
        words = f"{words} {_one_of_several(answer, sequence, report)}"
    words = words if sequence.basis is None else f"{words} {sequence.basis}"
    return Section(
        name="looked",
        link="Every look",
        heading="If you look more than once",
        intro="The band for every look holds at all moments together: you may look as often as you like, and stop "
        f"{'at any look' if report.main is None else 'when it excludes 0'}.",
        parts=(
            Part(
                charts=drawn,
                caption=f"{name}: intervals for one look, and a {percent(track.level)} "
                f"{kind_text(sequence.kind)} confidence sequence. {report.wording(words)}",
            ),
        ),
    )


def _bands(track: Track, error: float, arm_look: int) -> list[charts.Series]:
    bands = (
        ("for one look", "fixed_estimate", "fixed_low", "fixed_high"),
        ("for every look", "estimate", "low", "high"),
    )
    series = []
    for label, *columns in bands:
        values, low, high = map(track.shown, columns)
        known = np.isfinite(low) & np.isfinite(high)
        series.append(
            charts.Series(
                label=label,
                values=values,
                low=np.where(known, low, np.nan),
                high=np.where(known, high, np.nan),
                std_error=error,
                look=arm_look,
                unit=track.unit,
            )
        )
    return series


def _what_is_known(answer: SequenceAnswer, error: float, *, is_contrast: bool) -> str:
    """Say where a sequence's interval is now, and since when it excludes 0."""
    excluded = is_contrast and answer.excluded_at is not None
    low, high = Column("", answer.shown, "limit", [error] * 2, unit=answer.unit, terse=True).texts()
    high = with_unit(high, answer.unit)
    words = f"It is now {low} to {high}."
    if answer.why:
        words = f"There is no interval {'now' if excluded else 'yet'}: {answer.why}"
    if not is_contrast or (answer.why and not excluded):
        return words
    when = Column("", [answer.excluded_at], "number").texts()[0]
    since = f"It first excluded 0 as of {when}" if excluded else "It has never excluded 0"
    return f"{words} {since} (always-valid p {p_words(answer.p_value)})."


def _one_of_several(answer: SequenceAnswer, sequence: ConfidenceSequence, report: Report) -> str:
    """Say whether a sequence is adjusted for being one of several, and what it says if it is not."""
    number = len(report.pairs)
    if answer.together > 1:
        return f"The sequences of all {number} differences hold together."
    alone = f"It is one of {number} differences, and is not adjusted for the others"
    if answer.excluded_at is None or report.main is None:
        return f"{alone}."
    joint = sequence.contrast(*report.main, together=number)
    what = "never excluded 0" if joint.excluded_at is None else "also excluded 0"
    return f"{alone}; adjusted for all of them, it has {what}."


# ---------------------------------------------------------------- events


def buildup_section(report: Report) -> Section | None:
    """Show how each arm's mean builds up after the assignment, while windows are open."""
    buildup, maturity = report.buildup, report.estimate.maturity
    if buildup is None or maturity is None:
        return None
    size, unit = maturity.scale
    ages, shown = np.array([0.0, *buildup.ages]) / size, report.ranked[:MOST_RIBBONS]
    series = [_rising(buildup.arms[k], buildup.arm(buildup.arms[k]), look(report, buildup.arms[k])) for k in shown]
    title = f"{upper(report.quantity)}{report.comma} up to each age"
    xlabel = f"time since assignment, {unit}"
    if len(series) <= _MOST_BANDS:
        drawn = [
            charts.curves(ages, series, title=title, xlabel=xlabel, ylabel=report.quantity, unit=report.estimate.unit)
        ]
    else:
        drawn = charts.ribbons(ages, series, title=title, level=report.level, xlabel=xlabel)
    what = "events build up"
    if report.outcome != SHARE_WITH_EVENT:
        what = f"the {quantity(one_line(report.outcome, 60), report.estimate.unit)} builds up"
    more = f" The {len(shown)} highest of {len(buildup.arms)} arms are drawn." if len(shown) < len(buildup.arms) else ""
    part = Part(
        charts=drawn,
        caption=f"{title}, with {percent(report.level)} intervals, each for one arm and one age.{more}",
        sheet=_by_age(report, buildup) if report.windows is None else _by_window(report.windows),
    )
    several = [] if report.windows is None or report.contrasts is None else [_window_contrasts(report, report.windows)]
    return Section(
        name="buildup",
        link="Build-up",
        heading=f"How {what} after assignment",
        intro=_open_words(report),
        parts=(part, *several),
    )


def _open_words(report: Report) -> str:
    """Say which windows are closed, and how rows whose window is open count."""
    maturity = report.estimate.maturity
    closed, still = (0, 0) if maturity is None else (int(maturity.closed.sum()), int(maturity.open.sum()))
    if not still:
        return f"All {count(closed, 'window')} of {report.within} have closed."
    return (
        f"{upper(count(closed, 'assignment'))} {'has' if closed == 1 else 'have'} lived {report.within} or longer; "
        f"{still:,} {'is' if still == 1 else 'are'} younger. A younger assignment counts for the ages it has reached, "
        "and says nothing about later ones. This is right if events come as soon after assignment for late "
        "assignments as for early ones."
    )


def _by_age(report: Report, buildup: Buildup) -> Sheet:
    """Return the build-up at four ages."""
    shown = sorted({max(0, round(len(buildup) * quarter / 4) - 1) for quarter in (1, 2, 3, 4)})
    estimates = {buildup.names[i]: buildup.estimates[i] for i in shown}
    return Sheet(f"The build-up in numbers; {percent(report.level)} intervals", _arm_columns("age", estimates))


def _by_window(windows: Windows) -> Sheet:
    level = next(iter(windows.estimates.values())).level
    return Sheet(f"The windows in numbers; {percent(level)} intervals", _arm_columns("window", windows.estimates))


def _arm_columns(name: str, estimates: Mapping[str, Estimate]) -> list[Column]:
    rows = [(text, arm, a) for text, e in estimates.items() for arm, a in zip(e.arms, e.arm_answers, strict=True)]
    return [
        Column(name, [text for text, _, _ in rows], "label"),
        Column("arm", [arm for _, arm, _ in rows], "label"),
        *sheet_columns([answer for _, _, answer in rows]),
    ]


def _window_contrasts(report: Report, windows: Windows) -> Part:
    """Show the main differences in each window."""
    answers = [] if report.contrasts is None else list(report.contrasts.answers)
    pairs = [report.pairs[i] for i in strongest(answers, MOST_RIBBONS)]
    rows = [(window, pair, windows[window].contrast(*pair)) for pair in pairs for window in windows]
    drawn = [
        forest_row(f"{pair_name(report, *pair)}, {window}" if len(pairs) > 1 else window, answer, look(report, pair[0]))
        for window, pair, answer in rows[:MOST_ROWS]
    ]
    what = f"Differences in {report.quantity}{report.comma}" if len(pairs) > 1 else pair_name(report, *pairs[0])
    title = f"{what} by window"
    more = f" The {len(pairs)} clearest of {len(answers)} differences are shown." if len(pairs) < len(answers) else ""
    columns = [
        Column("window", [window for window, _, _ in rows], "label"),
        Column("difference", [pair_name(report, *pair) for _, pair, _ in rows], "label"),
        *sheet_columns([answer for _, _, answer in rows], test=True),
    ]
    return Part(
        heading="Differences by window",
        charts=[charts.forest(drawn, title=title, level=report.level, reference=0.0)],
        caption=f"{title}, with {percent(report.level)} intervals, each by itself.{more}",
        sheet=Sheet("The differences by window in numbers; each interval by itself, tests against 0", columns),
    )


def _rising(label: Label, answers: Sequence[Answer], line_look: int) -> charts.Series:
    """Return a curve that begins at 0 with its band."""
    return charts.Series(
        label=label,
        values=[0.0, *(answer.estimate for answer in answers)],
        low=[0.0, *(answer.shown[0] for answer in answers)],
        high=[0.0, *(answer.shown[1] for answer in answers)],
        std_error=answers[-1].std_error,
        look=line_look,
        unit=answers[-1].unit,
    )
