"""Rendering: a report as one page of HTML, and `bl.report`, which writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from belated.assumptions.checks.check import LIGHTS
from belated.base.columns import Label
from belated.base.documents import page
from belated.base.files import check_page, write_whole
from belated.base.text import count, percent
from belated.estimation.estimators import Estimator
from belated.estimation.intervals import Interval
from belated.log.data import Data, require_data
from belated.reports.analysis import Analysis, EstimatorOption, Questions, analyse
from belated.reports.formats import PolicyAsked
from belated.reports.gather import gather
from belated.reports.narrative import answer, question
from belated.reports.report import Report, Wording
from belated.reports.sections import sections
from belated.sequences.design import KindOption


def report(  # noqa: PLR0913
    log: Data,
    path: str | Path,
    *,
    title: str | None = None,
    estimator: EstimatorOption | Estimator | None = None,
    baseline: Label | None = None,
    contrasts: Sequence[tuple[Label, Label]] = (),
    policies: Sequence[PolicyAsked] = (),
    level: float = 0.95,
    interval: Interval = "auto",
    simultaneous: bool = False,
    lift: bool = False,
    sequential: bool = False,
    target: int | None = None,
    kind: KindOption = "auto",
    bounds: tuple[float, float] | None = None,
    cap: float | None = None,
) -> Path:
    """Write a report: one self-contained HTML file for readers who did not run the experiment.

    If the log has segments, the report shows the main contrasts in each.

    Parameters
    ----------
    log : Log or Source
        A log in memory, or a table from `read`.
    path : path
        The HTML file, whose name ends in .html or .htm, or has no ending. A failure leaves no partial file.
    title : str, optional
        The title of the report; by default the name of the table.
    estimator, level, interval
        As in `estimate`.
    baseline : label, optional
        The arm to compare the others with. By default all pairs are compared or, with more than 8 arms, every other
        arm with the first.
    contrasts : sequence of (arm, arm)
        Further contrasts, the first arm minus the second.
    policies : sequence of dict, or "greedy"
        Policies whose mean outcome is shown: a probability for each arm; or, by segment, an arm or such probabilities.
    simultaneous : bool
        Whether the intervals of all contrasts hold together. If False, each holds by itself, and the report says so.
    lift : bool
        Whether to show each contrast also relative to its second arm.
    sequential, target, kind, bounds
        Whether to show a confidence sequence, and its options, as in `sequence`. If `sequential` is False, the report
        shows a sequence of kind "auto" unless the log is very long.
    cap : float, optional
        Outcomes above the cap count as the cap. By default, the cap of the log, if it has one.

    Returns
    -------
    Path
        The path of the file.
    """
    questions = Questions(
        estimator=estimator,
        baseline=baseline,
        contrasts=tuple(contrasts),
        policies=tuple(policies),
        level=level,
        interval=interval,
        simultaneous=simultaneous,
        lift=lift,
        sequential=sequential,
        target=target,
        kind=kind,
        bounds=bounds,
    )
    report_on(require_data(log, cap), questions, path, title=title)
    return Path(path)


def report_on(
    log: Data,
    questions: Questions,
    path: str | Path,
    *,
    title: str | None = None,
    command: str | None = None,
    wording: Wording = str,
) -> Analysis:
    """Answer questions about a log, write the report, and return the answers.

    `command` is what makes it again, and `wording` turns advice into that for its readers.
    """
    check_page(path, log.files)
    log.hold()
    analysis = analyse(log, questions)
    write_report(analysis, path, title=title, command=command, wording=wording)
    return analysis


def write_report(
    analysis: Analysis,
    path: str | Path,
    *,
    title: str | None = None,
    command: str | None = None,
    wording: Wording = str,
) -> Path:
    """Write the report of an analysis that has been made."""
    return write_whole(path, render(gather(analysis, title=title, command=command).worded(wording)))


def render(report: Report) -> str:
    """Return a report as one page of HTML, which needs no other file."""
    return page(
        "belated.reports",
        "report.html",
        report=report,
        question=question(report),
        answer=answer(report),
        facts=_facts(report),
        sections=sections(report),
        lights=LIGHTS,
        how=_how_computed(report),
    )


def _facts(report: Report) -> list[str]:
    estimate, maturity = report.estimate, report.estimate.maturity
    assigned, arrived = int(estimate.sums["assigned"].sum()), int(estimate.arrived.sum())
    share = f" ({arrived / assigned:.1%})" if assigned else ""
    as_of = estimate.as_of
    come = [f"{count(arrived, 'outcome')} arrived{share}"]
    if maturity is not None:
        come = [
            f"{count(arrived, 'window')} of {report.within} closed{share}",
            count(int(maturity.events.sum()), "event"),
        ]
    elif report.within is not None:
        come = ["whose windows have closed"]
    return [
        count(assigned, "assignment"),
        *come,
        *(note.removesuffix(".") for note in estimate.cap_notes()),
        *([f"as of {as_of}"] if as_of else []),
        f"{estimate.estimator.name}, {percent(report.level)} intervals",
    ]


def _how_computed(report: Report) -> dict[str, str]:
    """Return how the report was computed: facts of the log, and below them those of the estimate that it lacks."""
    own = {"estimator": report.estimate.estimator.name, "interval": report.estimate.interval}
    own |= {"version": f"belated {report.version}"} if report.version else {}
    own |= {"made": report.made_at} if report.made_at else {}
    known = dict(report.how)
    return known | {name: value for name, value in own.items() if name not in known}
