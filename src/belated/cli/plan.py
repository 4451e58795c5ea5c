"""`belated plan`: how long an experiment must run."""

from __future__ import annotations

from typing import Annotated

import typer

from belated.cli import options
from belated.cli.options import QUESTIONS, LogOptions, option
from belated.cli.output import check_format, check_plot, show, write_plot


def plan(  # noqa: PLR0913
    source: Annotated[
        str,
        typer.Argument(
            help="A TOML file that describes the experiment; or the log of a pilot: a file, a folder of Parquet files, "
            "a glob, or the URL of a database.",
            show_default=False,
        ),
    ],
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
    half_width: Annotated[float | None, option("The half-width of the interval to reach.", QUESTIONS)] = None,
    power: Annotated[
        float | None,
        option("Instead of --half-width: the probability that the interval excludes 0, such as 0.8.", QUESTIONS),
    ] = None,
    assurance: Annotated[
        float | None,
        option(
            "With --half-width: the share of experiments that must reach it. Default: the mean half-width must.",
            QUESTIONS,
        ),
    ] = None,
    target: Annotated[
        str | None,
        option(
            "The first arm minus the second, such as B-A, or an arm. Default: the first target of the description, "
            "otherwise the second of two arms minus the first.",
            QUESTIONS,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        option(
            "The policy: a name with options, such as epsilon_greedy,decay=0.5 or fixed:A=0.3,B=0.7, or a TOML file "
            "with a [policy] table. Default: the policy of the description; for a pilot, its mean probabilities.",
            QUESTIONS,
        ),
    ] = None,
    wait: Annotated[
        str | None,
        option(
            "Steps to wait after the last assignment, or full. Default: chosen by --patience.",
            QUESTIONS,
        ),
    ] = None,
    patience: Annotated[
        float, typer.Option(help="Steps that you would wait to save one assignment.", rich_help_panel=QUESTIONS)
    ] = 10.0,
    per_day: Annotated[float | None, option("Assignments per day, to show steps as days.", QUESTIONS)] = None,
    max_horizon: Annotated[
        int, typer.Option(help="The longest experiment, in assignments.", rich_help_panel=QUESTIONS)
    ] = 1_000_000,
    estimator: Annotated[
        str | None, option("As in analyze. Default: daipw; dipw for events whose windows are open.", QUESTIONS)
    ] = None,
    level: Annotated[
        float | None, option("The level of the interval. Default: that of the description, otherwise 0.95.", QUESTIONS)
    ] = None,
    interval: Annotated[str, typer.Option(help="As in analyze.", rich_help_panel=QUESTIONS)] = "auto",
    replications: Annotated[
        int, typer.Option(help="The largest number of simulated experiments.", rich_help_panel=QUESTIONS)
    ] = 4000,
    seed: options.Seed = None,
    workers: options.Workers = None,
    form: options.Format = "table",
    plot: options.Plot = None,
) -> None:
    """Find how long an experiment must run, and how long to wait after its last assignment.

    SOURCE is a TOML file that describes the experiment, as for `study`, or the log of a pilot, as for `analyze`.
    The plan is found by simulation, and comes with its Monte Carlo error.

    Example: `belated plan experiment.toml --half-width 0.1 --target B-A --plot plan`

    Example: `belated plan pilot.parquet --power 0.8 --policy epsilon_greedy,decay=0.5`
    """
    from functools import partial

    from belated.base.checks import one_of
    from belated.base.errors import OptionError, argument
    from belated.estimation.estimators import ESTIMATORS
    from belated.estimation.intervals import INTERVALS
    from belated.simulation.planning.asking import ask

    shown_as = check_format(form)
    pilot = LogOptions(
        source=source, outcomes=outcomes, table=table, arm=arm, outcome=outcome, propensity=propensity,
        assigned_at=assigned_at, arrived_at=arrived_at, delay=delay, key=key, arms=arms, as_of=as_of,
        duplicates=duplicates, events=events, window=window, windows=windows, closed_only=closed_only,
        lag=lag, recorded_at=recorded_at, measure=measure, cap=cap, copy_limit=copy_limit,
        propensity_unit=propensity_unit, encoding=encoding, decimal=decimal, date_format=date_format, segment=segment,
        covariates=covariates, arrival_probability=arrival_probability,
    )  # fmt: skip
    unused = [name for name in pilot.given if name != "closed_only"]
    if source.lower().endswith(".toml") and unused:
        raise OptionError(f"{argument(unused[0])} is for the log of a pilot, but `{source}` describes an experiment.")
    check_plot(plot, [source, policy or "", *pilot.files])
    read_pilot = partial(pilot.read, with_open=True)  # the pilot is the same, whichever windows the plan counts
    answer = ask(
        source, read_pilot, policy, target, half_width=half_width, power=power, assurance=assurance, wait=wait,
        maturing=not closed_only, patience=patience, per_day=per_day, max_horizon=max_horizon, level=level,
        estimator=None if estimator is None else one_of("estimator", estimator, ESTIMATORS),
        interval=one_of("interval", interval, INTERVALS),
        replications=replications, seed=seed, workers=workers,
    )  # fmt: skip
    show(answer, shown_as, answer.curve)
    write_plot(plot, answer.plot, answer.words)
