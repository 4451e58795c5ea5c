"""Sections of a report: each is a function that gives its tables and charts, or None if there is nothing to show.

A new section is a function here and its place in `SECTIONS`; the template shows whatever sections there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from belated.base.columns import Label
from belated.base.tables import Column
from belated.base.text import in_unit, one_line, percent, shorten_all
from belated.estimation.answers import Answer, lift_notes, name_column
from belated.estimation.by_segment import Heterogeneity, Mix
from belated.estimation.comparison import CLOSED
from belated.reports import charts
from belated.reports.layout import (
    MOST_ROWS,
    EstimatorRemark,
    Part,
    Section,
    Sheet,
    by_weight,
    forest_row,
    look,
    pair_name,
    sheet_columns,
)
from belated.reports.narrative import one_segment, strongest, upper
from belated.reports.report import Report
from belated.reports.sections_over_time import buildup_section, looked_section, moved_section

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

#: The same for events if rows with open windows count.
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


def sections(report: Report) -> list[Section]:
    """Return the sections that a report has something to show in, in the page's order."""
    return [section for make in SECTIONS if (section := make(report)) is not None]


# ---------------------------------------------------------------- arms and differences


def arms_section(report: Report, most: int = MOST_ROWS) -> Section:
    """Show every arm's mean; a limited number is drawn."""
    estimate = report.estimate
    answers, sums = estimate.arm_answers, estimate.sums
    shown = list(range(len(answers)))
    more = ""
    if len(answers) > most:
        shown = report.ranked[:most] or shown[:most]
        more = f" The {len(shown)} highest of {len(answers)} arms are drawn."
    rows = [forest_row(estimate.arms[k], answers[k], look(report, estimate.arms[k])) for k in shown]
    columns = [Column("arm", list(estimate.arms), "label"), *sheet_columns(answers)]
    columns.append(Column("assigned", sums["assigned"].astype(int).tolist(), "count"))
    if estimate.maturity is not None:
        columns.append(Column("closed", estimate.arrived.astype(int).tolist(), "count"))
        columns.append(Column("events", estimate.maturity.events.sum(axis=0).astype(int).tolist(), "count"))
    elif report.within is None:
        columns.append(Column("arrived", sums["arrived"].astype(int).tolist(), "count"))
    columns += [] if sums.cap is None else [Column("capped", sums.cap.above.astype(int).tolist(), "count")]
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


def differences_section(report: Report, most: int = MOST_ROWS) -> Section | None:
    """Show the contrasts, of which a limited number is drawn, and the answers to further questions."""
    contrasts, further = _contrasts(report, most), _further(report)
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


def _contrasts(report: Report, most: int) -> Part | None:
    if report.contrasts is None:
        return None
    answers = list(report.contrasts.answers)
    shown = strongest(answers, most)
    rows = [
        forest_row(pair_name(report, *report.pairs[i]), answers[i], look(report, report.pairs[i][0])) for i in shown
    ]
    together = _together(report)
    intervals = f"{percent(report.level)} {report.contrasts.interval} intervals{together}"
    title = f"Differences in {report.measure}"
    more = f" The {len(shown)} clearest of {len(answers)} are drawn." if len(shown) < len(answers) else ""
    names = name_column("difference", answers)
    if report.baseline is not None:
        arms = report.estimate.arms
        base = shorten_all(arms, 20)[arms.index(report.baseline)]
        names = Column(f"arm, minus {base}", [arm for arm, _ in report.pairs], "label")
    columns = [names, *sheet_columns(answers, test=True)]
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
    columns = [name_column("question", answers), *sheet_columns(answers, test=True)]
    joint = sum(answer.joint for answer in answers)
    together = " Each interval holds by itself." if len(answers) > 1 and not joint else ""
    together = f" The intervals of the {joint} differences hold together." if joint > 1 else together
    title = f"Further questions about {report.measure}"
    labels = [pair_name(report, *a.parts) if len(a.parts) == 2 else a.name for a in answers[:MOST_ROWS]]
    rows = [forest_row(label, answer, 0) for label, answer in zip(labels, answers, strict=False)]
    return Part(
        heading="" if report.contrasts is None else "Further questions",
        charts=[charts.forest(rows, title=title, level=answers[0].level)],
        caption=f"{title}, with {percent(answers[0].level)} intervals.{together}{_lift_words(answers)}",
        sheet=Sheet("The same in numbers", [*columns, Column("tested against", tests, "label")]),
    )


# ---------------------------------------------------------------- segments


def segments_section(report: Report, most: int = MOST_ROWS) -> Section | None:
    """Show the segments, their shares, and the main contrasts in each; a limited number of segments is drawn."""
    estimate = report.estimate
    if not estimate.segments:
        return None
    mix = Mix(estimate)
    shares = Part(charts=[], caption="", sheet=Sheet("The segments, and their shares of the population", mix.columns))
    number = f"{len(estimate.segments):,} segments"
    averaged = f"The answers above are averages over {number}, each with its share of the population."
    return Section(
        name="segments",
        link="By segment",
        heading="By segment",
        intro=f"{one_segment(report) or averaged} Segments must be known at assignment.",
        parts=(*(_in_segments(report, *each, most) for each in report.by_segment.items()), shares),
    )


def _in_segments(report: Report, pair: tuple[Label, Label], test: Heterogeneity, most: int) -> Part:
    """Show a contrast in every segment, those with the most rows first, and over all of them."""
    answers = list(test.contrasts.answers)
    rows = {each["segment"]: each["assigned"] for each in Mix(report.estimate).rows}
    shown = sorted(answers, key=lambda answer: -rows[answer.segment])[:most]
    overall = report.estimate.contrast(*pair)
    name = pair_name(report, *pair)
    together = _together(report) if len(report.pairs) > 1 else ", each by itself"
    together = " that hold together" if test.contrasts.simultaneous else together
    drawn = [forest_row("all segments", overall, -1), *(forest_row(a.segment, a, look(report, pair[0])) for a in shown)]
    title = f"{name} by segment"
    more = f" The {len(shown)} largest of {len(answers)} segments are drawn." if len(shown) < len(answers) else ""
    return Part(
        heading=name,
        charts=[charts.forest(drawn, title=title, level=report.level, reference=0.0)],
        caption=f"{title}, with {percent(report.level)} intervals{together}. {test.note}{more}",
        sheet=Sheet(
            f"{name} in every segment; tests against 0",
            [Column("segment", [answer.segment for answer in answers], "label"), *sheet_columns(answers, test=True)],
        ),
    )


# ---------------------------------------------------------------- the experiment


def arrivals_section(report: Report) -> Section | None:
    """Show when outcomes arrive, or events happen."""
    arrivals = report.arrivals
    if arrivals is None:
        return None
    events = report.within is not None
    title = f"Share {'with an event' if events else 'of outcomes arrived'}, by time since assignment"
    drawn = charts.curves(
        arrivals.delays,
        [charts.Series(arrivals.arms[k], arrivals.share[k], look=k) for k in by_weight(report, arrivals.arms)],
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
        [charts.Series(chosen.arms[k], chosen.share[:, k], look=k) for k in by_weight(report, chosen.arms)],
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
    rows = [forest_row(name, answer, 0 if name == used else -1) for name, answer in answers.items()]
    title = f"{one_line(next(iter(answers.values())).name, 120)} by estimator"
    alone = f", not adjusted for the {len(report.pairs)} differences" if len(report.pairs) > 1 else ""
    remarks = REMARKS if report.estimate.maturity is None else MATURING_REMARKS
    columns = [
        Column("estimator", list(answers), "label"),
        *sheet_columns(list(answers.values())),
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
