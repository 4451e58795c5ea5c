"""`belated analyze`: estimates, contrasts and a report of an experiment."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from belated.cli import options
from belated.cli.options import ANSWERS, QUESTIONS, LogOptions, option
from belated.cli.output import check_format, show


def analyze(  # noqa: PLR0913
    source: options.Source,
    outcomes: options.Outcomes = None,
    table: options.DatabaseTable = None,
    arm: options.Arm = None,
    outcome: options.Outcome = None,
    propensity: options.Propensity = None,
    assigned_at: options.AssignedAt = None,
    arrived_at: options.ArrivedAt = None,
    delay: options.Delay = None,
    key: options.Key = None,
    arms: options.Arms = None,
    segment: options.Segment = None,
    covariates: options.Covariates = None,
    arrival_probability: options.ArrivalProbability = None,
    as_of: options.AsOf = None,
    duplicates: options.Duplicates = "error",
    events: options.Events = False,
    window: options.Window = None,
    windows: options.Windows = None,
    closed_only: options.ClosedOnly = False,
    lag: options.Lag = None,
    recorded_at: options.RecordedAt = None,
    measure: options.Measure = None,
    cap: options.Cap = None,
    copy_limit: options.CopyLimit = None,
    propensity_unit: options.PropensityUnit = "fraction",
    encoding: options.Encoding = None,
    decimal: options.Decimal = ".",
    date_format: options.DateFormat = None,
    baseline: Annotated[str | None, option("The arm with which to compare the others.", QUESTIONS)] = None,
    contrast: Annotated[
        list[str] | None,
        option(
            "The first arm minus the second, such as B-A; may be repeated. Default: all pairs, or with more than 8 "
            "arms, every other arm minus the first.",
            QUESTIONS,
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        option(
            "The mean outcome under a policy such as A=0.2,B=0.8, or by segment DE:B,FR:A, or greedy (always the best "
            "arm, of each segment); may be repeated.",
            QUESTIONS,
        ),
    ] = None,
    estimator: Annotated[
        str | None,
        option(
            "The estimator: daipw, daipw_paper, dipw, mean, hajek, nh, nh0, iad, or all (side by side). Default: "
            "daipw, or dipw if only the chosen arm's probability is known or windows of events may be open.",
            QUESTIONS,
        ),
    ] = None,
    level: options.Level = 0.95,
    interval: Annotated[
        str, typer.Option(help="The kind of interval: auto, score, t, wilson or normal.", rich_help_panel=QUESTIONS)
    ] = "auto",
    simultaneous: Annotated[
        bool,
        typer.Option(
            "--simultaneous",
            help="Adjust intervals and p-values so that they hold for all contrasts at once. Default: each holds by "
            "itself.",
            rich_help_panel=QUESTIONS,
        ),
    ] = False,
    lift: Annotated[
        bool,
        typer.Option(
            "--lift",
            help="Also show each contrast in percent of the second arm's mean.",
            rich_help_panel=QUESTIONS,
        ),
    ] = False,
    by_segment: Annotated[
        bool,
        typer.Option(
            "--by-segment",
            help="Also show every contrast in each segment, and test whether it differs between segments.",
            rich_help_panel=QUESTIONS,
        ),
    ] = False,
    sequential: Annotated[
        bool,
        typer.Option(
            "--sequential",
            help="Also show confidence sequences: intervals that hold at every look, whenever you stop.",
            rich_help_panel=QUESTIONS,
        ),
    ] = False,
    target: Annotated[
        int | None,
        option(
            "For --sequential: the number of assignments at which intervals are narrowest. Default: that of the log.",
            QUESTIONS,
            least=1,
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="For --sequential: beta_binomial for 0/1 outcomes, bernstein for bounded ones, sub_gaussian, "
            "asymptotic, or auto.",
            rich_help_panel=QUESTIONS,
        ),
    ] = "auto",
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(
            help="For --sequential: the smallest and largest possible outcome, such as 0 500.",
            metavar="<low high>",
            rich_help_panel=QUESTIONS,
        ),
    ] = None,
    form: options.Format = "table",
    report: Annotated[Path | None, option("Write a report to this HTML file.", ANSWERS)] = None,
    title: Annotated[str | None, option("The title of the report.", ANSWERS)] = None,
) -> None:
    """Estimate each arm's mean outcome, contrasts between arms and policies, with intervals and tests.

    The table has one row per assignment: the arm, the probabilities and, if it has arrived, the outcome and its time of
    arrival. Columns that are not named are guessed, and the guess is printed. Outcomes may be in a second table, joined
    by a key; with --events they are events within a window, and assignments whose window is still open count for the
    ages they have reached.

    Results go to stdout; guesses and warnings go to stderr. The exit code is 2 if the options or the data are invalid,
    with an error message of one sentence.

    Example: `belated analyze log.parquet --baseline A --policy A=0.2,B=0.8 --report report.html`

    Example: `belated analyze sent.parquet --segment country --covariates age,visits --by-segment`

    Example: `belated analyze postgresql://ann@db.example.com/shop --table sent --outcomes bought`

    Example: `belated analyze sent.csv --outcomes paid.csv --key customer_id --events --window 7d --as-of 2026-03-01`
    """
    from belated.base.checks import fraction, one_of
    from belated.base.errors import OptionError, argument
    from belated.base.files import check_page
    from belated.base.text import masked, printable
    from belated.estimation.by_segment import read_policy_by_segment
    from belated.estimation.intervals import INTERVALS
    from belated.estimation.target import find_arm, read_contrast, read_policy
    from belated.reports.analysis import ESTIMATOR_OPTIONS, Questions, analyse
    from belated.sequences.design import KIND_OPTIONS

    shown_as = check_format(form)
    chosen = None if estimator is None else one_of("estimator", estimator, ESTIMATOR_OPTIONS)
    interval_kind, share = one_of("interval", interval, INTERVALS), fraction("level", level)
    tables = LogOptions(
        source=source, outcomes=outcomes, table=table, arm=arm, outcome=outcome, propensity=propensity,
        assigned_at=assigned_at, arrived_at=arrived_at, delay=delay, key=key, arms=arms, as_of=as_of,
        duplicates=duplicates, events=events, window=window, windows=windows, closed_only=closed_only,
        lag=lag, recorded_at=recorded_at, measure=measure, cap=cap, copy_limit=copy_limit,
        propensity_unit=propensity_unit, encoding=encoding, decimal=decimal, date_format=date_format, segment=segment,
        covariates=covariates, arrival_probability=arrival_probability,
    )  # fmt: skip
    if report is not None:
        check_page(report, tables.files)
    elif title is not None:
        raise OptionError(f"{argument('title')} is given without {argument('report')}; it is the report's title.")
    log = tables.read()
    if estimator is None and not log.has_all_propensities and not log.is_maturing:
        typer.echo("Only the chosen arm's probability is known, so the estimator is dipw.", err=True)
    questions = Questions(
        estimator=chosen,
        baseline=None if baseline is None else find_arm(log.arms, baseline),
        contrasts=tuple(read_contrast(log.arms, text) for text in contrast or ()),
        policies=tuple(
            read_policy_by_segment(log.arms, log.segments, text) or read_policy(log.arms, text) for text in policy or ()
        ),
        interval=interval_kind,
        level=share,
        simultaneous=simultaneous,
        lift=lift,
        by_segment=by_segment,
        sequential=sequential,
        target=target,
        kind=one_of("kind", kind, KIND_OPTIONS),
        bounds=bounds,
    )
    if report is None:
        analysis = analyse(log, questions)
    else:
        from belated.reports.rendering import report_on

        command = shlex.join(["belated", *map(masked, sys.argv[1:])])
        analysis = report_on(log, questions, report, title=title, command=command)
    for words in analysis.warnings:
        typer.echo(f"Warning: {words}", err=True)
    show(analysis, shown_as)
    if report is not None:
        typer.echo(f"Report: {printable(report)}", err=True)
