"""`belated sensitivity`: how much arrival may depend on the outcome before a conclusion changes."""

from __future__ import annotations

from typing import Annotated

from belated.base.checks import fraction
from belated.base.errors import OptionError, argument
from belated.cli import options
from belated.cli.options import QUESTIONS, LogOptions, option
from belated.cli.output import check_format, check_plot, show, write_plot


def sensitivity(  # noqa: PLR0913
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
    *,
    contrast: Annotated[str, option("The first arm minus the second, such as B-A.", QUESTIONS)],
    gamma: Annotated[
        str | None, option("The factors by which the odds of arriving may vary, such as 1,1.5,2,3.", QUESTIONS)
    ] = None,
    mature: Annotated[
        str | None,
        option(
            "Use only rows assigned at least this long before the end: 7d, 12h, or a number of steps. Default: the "
            "time in which 99 % of the outcomes arrive.",
            QUESTIONS,
        ),
    ] = None,
    level: options.Level = 0.95,
    form: options.Format = "table",
    plot: options.Plot = None,
) -> None:
    """Find how much arrival may depend on the outcome before a conclusion changes.

    A log cannot show whether outcomes that never arrive are like those that do. This command prints the range of the
    contrast if the odds that an outcome arrives vary with its value by at most a factor, and the factor at which the
    conclusion changes.

    Example: `belated sensitivity log.parquet --contrast B-A --plot sensitivity`
    """
    from belated.assumptions.sensitivity import sensitivity as ask
    from belated.estimation.target import read_contrast

    shown_as = check_format(form)
    fraction("level", level)
    gammas = None if gamma is None else _factors(gamma)
    tables = LogOptions(
        source=source, outcomes=outcomes, table=table, arm=arm, outcome=outcome, propensity=propensity,
        assigned_at=assigned_at, arrived_at=arrived_at, delay=delay, key=key, arms=arms, as_of=as_of,
        duplicates=duplicates, events=events, window=window, windows=windows, closed_only=closed_only,
        lag=lag, recorded_at=recorded_at, measure=measure, cap=cap, copy_limit=copy_limit,
        propensity_unit=propensity_unit, encoding=encoding, decimal=decimal, date_format=date_format, segment=segment,
        covariates=covariates, arrival_probability=arrival_probability,
    )  # fmt: skip
    check_plot(plot, tables.files)
    log = tables.read()
    answer = ask(log, read_contrast(log.arms, contrast), gammas=gammas, level=level, mature=mature)
    show(answer, shown_as, answer.shift)
    write_plot(plot, answer.plot, f"Sensitivity of {answer.name}")


def _factors(text: str) -> list[float]:
    try:
        return [float(factor) for factor in text.split(",")]
    except ValueError:
        raise OptionError(f"{argument('gamma')} is {text!r}; it must be numbers, such as 1,1.5,2.") from None
