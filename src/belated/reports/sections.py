"""Sections of a report: each is a function that gives its tables and charts, or None if there is nothing to show.

A new section is a function here and its place in `SECTIONS`; the template shows whatever sections there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from belated.base.columns import Array, Label
from belated.base.names import shorten_all
from belated.base.tables import Column
from belated.base.text import NOTHING, count, in_unit, one_line, p_words, percent, with_unit
from belated.estimation.answers import Answer, Answers, answer_columns, lift_notes, name_column
from belated.estimation.buildup import Buildup, Windows
from belated.estimation.by_segment import Heterogeneity, Mix
from belated.estimation.comparison import CLOSED
from belated.estimation.estimate import Estimate
from belated.reports import charts
from belated.reports.layout import EstimatorRemark, Part, Section, Sheet
from belated.reports.narrative import strongest, upper
from belated.reports.report import Report
from belated.reports.svg import LOOKS, fit_all
from belated.sequences.answers import SequenceAnswer, Track
from belated.sequences.design import kind_text
from belated.sequences.sequence import ConfidenceSequence
from belated.summaries.evidence import SHARE_WITH_EVENT

#: What to know about each estimator beside the others.
REMARKS = {
    "daipw": "Adjusts for the policy's choices, and for late and missing outcomes; an outcome model narrows it.",
    "dipw": "The same adjustment without an outcome model: also right, often slightly wider.",
    "mean": "The average of the outcomes that arrived. Right if one arm is clearly better or probabilities are fixed. "
    "It fails when arms are nearly equal: the policy gives up an arm after bad luck, and its average stays too low.",
    "hajek": "Right, but wide: assignments with small probabilities get large weights.",
    "nh": "The usual AIPW. Wrong when outcomes are late or never come: it counts them as equal to its prediction.",
    "nh0": "The usual IPW. Wrong when outcomes are late or never come: it counts them as 0.",
    "iad": "Assumes that all arms lose the same share of their outcomes. Wrong when the shares differ.",
}

#: The same of events, of which rows whose windows are open count as well.
MATURING_REMARKS = {
    "dipw": "Counts every assignment for the ages it has reached, and adjusts for the policy's choices.",
    "mean": "Counts every assignment for the ages it has reached, without adjusting for the policy's choices. Right if "
    "one arm is clearly better or probabilities are fixed. It fails when arms are nearly equal: the policy gives up an "
    "arm after bad luck, and its average stays too low.",
    "hajek": REMARKS["hajek"],
    f"daipw, {CLOSED}": "Waits for windows to close, and leaves out younger assignments: also right, but wide while "
    "many windows are open.",
    f"dipw, {CLOSED}": "The same without an outcome model.",
}

#: The most arms whose bands can be told apart in one chart.
_MOST_BANDS = 3

_MOST_ROWS, _MOST_RIBBONS = 24, 6


def sections(report: Report) -> list[Section]:
    """Return the sections that a report has something to show in, in the page's order."""
    return [section for make in SECTIONS if (section := make(report)) is not None]


# ---------------------------------------------------------------- arms and differences


def arms_section(report: Report) -> Section:
    """Show every arm's mean."""
    estimate = report.estimate
    answers, sums = estimate.arm_answers, estimate.sums
    shown = list(range(len(answers)))
    more = ""
    if len(answers) > _MOST_ROWS:
        shown = report.ranked[:_MOST_ROWS] or shown[:_MOST_ROWS]
        more = f" The {len(shown)} highest of {len(answers)} arms are drawn."
    rows = [_row(estimate.arms[k], answers[k], look(report, estimate.arms[k])) for k in shown]
    columns = [Column("arm", list(estimate.arms), "label"), *_answer_columns(answers)]
    columns.append(Column("assigned", sums["assigned"].astype(int).tolist(), "count"))
    if estimate.maturity is not None:
        columns.append(Column("closed", estimate.arrived.astype(int).tolist(), "count"))
        columns.append(Column("events", estimate.maturity.events.sum(axis=0).astype(int).tolist(), "count"))
    elif report.within is None:
        columns.append(Column("arrived", sums["arrived"].astype(int).tolist(), "count"))
    columns += [] if sums.cap is None else [Column("capped", sums.cap.above.astype(int).tolist(), "count")]
    if report.within is None and not np.isnan(sums["h"]).any():
        columns.append(Column("ever arrives", estimate.observed_share.tolist(), "share"))
    columns.append(Column("eff. size", estimate.effective_size.tolist(), "count"))
    title = f"{upper(report.measure)}{report.comma} by arm"
    part = Part(
        charts=[charts.forest(rows, title=title, level=report.level)],
        caption=f"{title}, with {percent(report.level)} intervals.{more}",
        sheet=Sheet(f"The arms in numbers; {percent(report.level)} {estimate.interval} intervals", columns),
    )
    return Section(
        name="arms",
        link="Arms",
        heading="The arm" if len(estimate.arms) == 1 else "The arms",
        intro=f"The {report.quantity}{report.comma} if every assignment had gone to that arm.",
        parts=(part,),
    )


def differences_section(report: Report) -> Section | None:
    """Show the contrasts, and the answers to further questions."""
    contrasts, further = _contrasts(report), _further(report)
    parts = tuple(part for part in (contrasts, further) if part is not None)
    if not parts:
        return None
    heading = "Further questions" if contrasts is None else "Differences"
    return Section(
        name="differences",
        link="Differences",
        heading=f"{heading} and further questions" if len(parts) == 2 else heading,
        parts=parts,
    )


def _contrasts(report: Report) -> Part | None:
    if report.contrasts is None:
        return None
    answers = list(report.contrasts.answers)
    shown = strongest(answers, _MOST_ROWS)
    rows = [_row(_label(report, *report.pairs[i]), answers[i], look(report, report.pairs[i][0])) for i in shown]
    together = _together(report)
    intervals = f"{percent(report.level)} {report.contrasts.interval} intervals{together}"
    title = f"Differences in {report.measure}"
    more = f" The {len(shown)} clearest of {len(answers)} are drawn." if len(shown) < len(answers) else ""
    names = name_column("difference", answers)
    if report.baseline is not None:
        arms = report.estimate.arms
        base = shorten_all(arms, 20)[arms.index(report.baseline)]
        names = Column(f"arm, minus {base}", [arm for arm, _ in report.pairs], "label")
    columns = [names, *_answer_columns(answers, test=True)]
    return Part(
        charts=[charts.forest(rows, title=title, level=report.level, reference=0.0)],
        caption=f"{title}, with {percent(report.level)} intervals{together}. "
        f"If an interval includes 0, the data do not say which arm is better.{more}{_lift_words(answers)}",
        sheet=Sheet(f"The differences in numbers; {intervals}, tests against 0", columns),
    )


def _together(report: Report) -> str:
    """Say of intervals of the contrasts whether they are adjusted for being several."""
    if report.contrasts is None or len(report.contrasts) < 2:
        return ""
    return " that hold together" if report.contrasts.simultaneous else ", each by itself"


def _lift_words(answers: Sequence[Answer]) -> str:
    """Say what a lift is, and why some have no bounds, if there are any."""
    if not any(answer.lift for answer in answers):
        return ""
    return " ".join(
        ["", "A lift is the difference in percent of the size of the second arm's mean.", *lift_notes(answers)]
    )


def _further(report: Report) -> Part | None:
    if not report.further:
        return None
    answers = list(report.further)
    tests = [f"{in_unit(answer.null, answer.unit)}, {answer.alternative}" for answer in answers]
    columns = [name_column("question", answers), *_answer_columns(answers, test=True)]
    joint = sum(answer.joint for answer in answers)
    together = " Each interval holds by itself." if len(answers) > 1 and not joint else ""
    together = f" The intervals of the {joint} differences hold together." if joint > 1 else together
    title = f"Further questions about {report.measure}"
    labels = [_label(report, *a.parts) if len(a.parts) == 2 else a.name for a in answers[:_MOST_ROWS]]
    rows = [_row(label, answer, 0) for label, answer in zip(labels, answers, strict=False)]
    return Part(
        heading="" if report.contrasts is None else "Further questions",
        charts=[charts.forest(rows, title=title, level=answers[0].level)],
        caption=f"{title}, with {percent(answers[0].level)} intervals.{together}{_lift_words(answers)}",
        sheet=Sheet("The same in numbers", [*columns, Column("tested against", tests, "label")]),
    )


# ---------------------------------------------------------------- segments


def segments_section(report: Report) -> Section | None:
    """Show the segments, their shares, and the main contrasts in each."""
    estimate = report.estimate
    if not estimate.segments:
        return None
    mix = Mix(estimate)
    shares = Part(charts=[], caption="", sheet=Sheet("The segments, and their shares of the population", mix.columns))
    number = count(len(estimate.segments), "segment")
    return Section(
        name="segments",
        link="By segment",
        heading="By segment",
        intro=f"The answers above are averages over {number}, each with its share of the population. Segments must be "
        "known at assignment.",
        parts=(*(_in_segments(report, *each) for each in report.by_segment.items()), shares),
    )


def _in_segments(report: Report, pair: tuple[Label, Label], test: Heterogeneity) -> Part:
    """Show a contrast in every segment, those with the most rows first, and over all of them."""
    answers = list(test.contrasts.answers)
    rows = {each["segment"]: each["assigned"] for each in Mix(report.estimate).rows}
    shown = sorted(answers, key=lambda answer: -rows[answer.segment])[:_MOST_ROWS]
    overall = report.estimate.contrast(*pair)
    name = _label(report, *pair)
    together = _together(report) if len(report.pairs) > 1 else ", each by itself"
    together = " that hold together" if test.contrasts.simultaneous else together
    drawn = [_row("all segments", overall, -1), *(_row(a.segment, a, look(report, pair[0])) for a in shown)]
    title = f"{name} by segment"
    more = f" The {len(shown)} largest of {len(answers)} segments are drawn." if len(shown) < len(answers) else ""
    return Part(
        heading=name,
        charts=[charts.forest(drawn, title=title, level=report.level, reference=0.0)],
        caption=f"{title}, with {percent(report.level)} intervals{together}. {test.note}{more}",
        sheet=Sheet(
            f"{name} in every segment; tests against 0",
            [Column("segment", [answer.segment for answer in answers], "label"), *_answer_columns(answers, test=True)],
        ),
    )


# ---------------------------------------------------------------- over time


def moved_section(report: Report) -> Section | None:
    """Show how the answer moved, in intervals for a single look."""
    trajectory = report.trajectory
    if trajectory is None or len(trajectory) < 2:
        return None
    if report.contrasts is None:
        arm = report.estimate.arms[0]
        series = [_ribbon(arm, trajectory.arm(arm), look(report, arm))]
        what, reference, possible = upper(report.measure), None, 1
    else:
        pairs = [report.pairs[i] for i in strongest(list(report.contrasts.answers), _MOST_RIBBONS)]
        series = [_ribbon(_label(report, *pair), trajectory.contrast(*pair), look(report, pair[0])) for pair in pairs]
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
        intro="The band for every look holds at all moments together: you may look as often as you like, and stop when "
        "it excludes 0.",
        parts=(
            Part(
                charts=drawn,
                caption=f"{name}: intervals for one look, and a {percent(track.level)} "
                f"{kind_text(sequence.kind)} confidence sequence. {words}",
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
    low, high = Column("", answer.shown, "estimate", [error] * 2, unit=answer.unit, terse=True).texts()
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


# ---------------------------------------------------------------- the experiment


def buildup_section(report: Report) -> Section | None:
    """Show how each arm's mean builds up after the assignment, while windows are open."""
    buildup, maturity = report.buildup, report.estimate.maturity
    if buildup is None or maturity is None:
        return None
    size, unit = maturity.scale
    ages, shown = np.array([0.0, *buildup.ages]) / size, report.ranked[:_MOST_RIBBONS]
    series = [_rising(buildup.arms[k], buildup.arm(buildup.arms[k]), look(report, buildup.arms[k])) for k in shown]
    title = f"{upper(report.quantity)}{report.comma} up to each age"
    xlabel = f"time since assignment, {unit}"
    if len(series) <= _MOST_BANDS:
        drawn = [
            charts.curves(ages, series, title=title, xlabel=xlabel, ylabel=report.quantity, unit=report.estimate.unit)
        ]
    else:
        drawn = charts.ribbons(ages, series, title=title, level=report.level, xlabel=xlabel)
    what = "events build up" if report.outcome == SHARE_WITH_EVENT else f"{one_line(report.outcome, 60)} builds up"
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
        *_answer_columns([answer for _, _, answer in rows]),
    ]


def _window_contrasts(report: Report, windows: Windows) -> Part:
    """Show the main differences in each window."""
    answers = [] if report.contrasts is None else list(report.contrasts.answers)
    pairs = [report.pairs[i] for i in strongest(answers, _MOST_RIBBONS)]
    rows = [(window, pair, windows[window].contrast(*pair)) for pair in pairs for window in windows]
    drawn = [
        _row(f"{_label(report, *pair)}, {window}" if len(pairs) > 1 else window, answer, look(report, pair[0]))
        for window, pair, answer in rows[:_MOST_ROWS]
    ]
    what = f"Differences in {report.quantity}" if len(pairs) > 1 else _label(report, *pairs[0])
    title = f"{what} by window"
    more = f" The {len(pairs)} clearest of {len(answers)} differences are shown." if len(pairs) < len(answers) else ""
    columns = [
        Column("window", [window for window, _, _ in rows], "label"),
        Column("difference", [_label(report, *pair) for _, pair, _ in rows], "label"),
        *_answer_columns([answer for _, _, answer in rows], test=True),
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


def arrivals_section(report: Report) -> Section | None:
    """Show when outcomes arrive, or events happen."""
    arrivals = report.arrivals
    if arrivals is None:
        return None
    events = report.within is not None
    title = f"Share {'with an event' if events else 'of outcomes arrived'}, by time since assignment"
    drawn = charts.curves(
        arrivals.delays,
        [_line(arrivals.arms[k], arrivals.share[k], k) for k in _by_weight(report, arrivals.arms)],
        title=title,
        xlabel="time since assignment",
        ylabel="with an event" if events else "arrived",
        steps=True,
    )
    shares = {"arrived": arrivals.arrived, "still out": arrivals.still_out, "overdue or never": arrivals.overdue}
    if events:
        shares = {"with an event": arrivals.arrived, "without": arrivals.overdue}
    columns = [Column("arm", list(arrivals.arms), "label")]
    columns += [Column(name, np.asarray(values).tolist(), "share") for name, values in shares.items()]
    part = Part(
        charts=[drawn] if np.isfinite(arrivals.share).any() else [],
        caption=f"{title}{'' if events else ', among the assignments old enough to tell'}.",
        sheet=Sheet(f"Assignments within {report.within}" if events else "Where each arm's outcomes are", columns),
    )
    return Section(
        name="arrivals",
        link="Events" if events else "Arrivals",
        heading="When events happen" if events else "When outcomes arrive",
        parts=(part,),
    )


def policy_section(report: Report) -> Section | None:
    """Show what the policy did over time."""
    chosen = report.chosen
    if chosen is None:
        return None
    title = "Probability of each arm" if chosen.probabilities else "Share of assignments by arm"
    drawn = charts.curves(
        chosen.moments,
        [_line(chosen.arms[k], chosen.share[:, k], k) for k in _by_weight(report, chosen.arms)],
        title=f"{title} over time",
        xlabel="assigned",
        ylabel=title.lower(),
    )
    why = "" if chosen.probabilities else " The log holds only the chosen arms' probabilities."
    return Section(
        name="policy",
        link="Policy",
        heading="What the policy did",
        parts=(Part(charts=[drawn], caption=f"{title} over time.{why}"),),
    )


def estimators_section(report: Report) -> Section | None:
    """Show the main answer by every estimator."""
    comparison = report.comparison
    if comparison is None or not report.ranked:
        return None
    if report.main is None:
        answers, reference = comparison.arm(report.estimate.arms[report.ranked[0]]).answers, None
    else:
        answers, reference = comparison.contrast(*report.main).answers, 0.0
    used = report.estimate.estimator.name
    rows = [_row(name, answer, 0 if name == used else -1) for name, answer in answers.items()]
    title = f"{one_line(next(iter(answers.values())).name, 120)} by estimator"
    alone = f", not adjusted for the {len(report.pairs)} differences" if len(report.pairs) > 1 else ""
    remarks = REMARKS if report.estimate.maturity is None else MATURING_REMARKS
    columns = [
        Column("estimator", list(answers), "label"),
        *_answer_columns(list(answers.values())),
        Column("interval", [answer.interval for answer in answers.values()], "label"),
    ]
    part = Part(
        charts=[charts.forest(rows, title=title, level=report.level, reference=reference)],
        caption=f"{title}, with {percent(report.level)} intervals{alone}. This report uses {used}.",
        sheet=Sheet("The estimators in numbers", columns),
    )
    return Section(
        name="estimators",
        link="Estimators",
        heading="The estimators side by side",
        parts=(part,),
        remarks=tuple(
            EstimatorRemark(estimator=name, words=remarks[name], is_used=name == used)
            for name in answers
            if name in remarks
        ),
    )


#: The sections, in the page's order.
SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    arms_section,
    differences_section,
    segments_section,
    buildup_section,
    moved_section,
    looked_section,
    arrivals_section,
    policy_section,
    estimators_section,
)

# ---------------------------------------------------------------- rows, lines and columns


def look(report: Report, arm: Label) -> int:
    """Return the colour and marker of an arm; with many arms all of them look alike."""
    arms = list(report.estimate.arms)
    return arms.index(arm) if len(arms) <= LOOKS else 0


def _label(report: Report, arm: Label, other: Label) -> str:
    """Return a contrast's name, short enough to show both arms."""
    arms = list(report.estimate.arms)
    names = fit_all(arms, 12)
    return f"{names[arms.index(arm)]} - {names[arms.index(other)]}"


def _row(label: Label, answer: Answer, row_look: int) -> charts.ForestRow:
    return charts.ForestRow(
        label=label,
        estimate=answer.estimate,
        low=answer.shown[0],
        high=answer.shown[1],
        std_error=answer.std_error,
        look=row_look,
        unit=answer.unit,
    )


def _line(label: Label, shares: Array, line_look: int) -> charts.Series:
    return charts.Series(label=label, values=shares, look=line_look)


def _ribbon(label: Label, moved: Answers, ribbon_look: int) -> charts.Series:
    answers = list(moved.answers.values())
    return charts.Series(
        label=label,
        values=[answer.estimate for answer in answers],
        low=[answer.shown[0] for answer in answers],
        high=[answer.shown[1] for answer in answers],
        std_error=answers[-1].std_error,
        look=ribbon_look,
        unit=answers[-1].unit,
    )


def _answer_columns(answers: Sequence[Answer], *, test: bool = False) -> list[Column]:
    estimate, std_error, *limits = answer_columns(list(answers), test=False)[:4]
    columns = [estimate, replace(std_error, name="std. error"), *limits]
    columns += [Column("p", [answer.p_value for answer in answers], "p_value")] * test
    lifts = [NOTHING if answer.lift is None else answer.lift.words for answer in answers]
    return columns + [Column("lift", lifts, "label")] * any(answer.lift for answer in answers)


def _by_weight(report: Report, arms: Sequence[Label]) -> list[int]:
    """Return arms by number, in their order if all can have a colour, otherwise the baseline and the highest first."""
    if len(arms) <= LOOKS:
        return list(range(len(arms)))
    labels = list(arms)
    ranked = [labels.index(report.estimate.arms[k]) for k in report.ranked if report.estimate.arms[k] in labels]
    first = [labels.index(report.baseline)] if report.baseline is not None and report.baseline in labels else []
    return list(dict.fromkeys([*first, *ranked, *range(len(labels))]))
