"""`belated diagnose`: checks of the assumptions behind the estimates."""

from __future__ import annotations

from belated.cli import options
from belated.cli.options import LogOptions
from belated.cli.output import check_format, show


def diagnose(  # noqa: PLR0913
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
    form: options.Format = "table",
) -> None:
    """Check the assumptions behind the estimates: a light, a finding and advice for each.

    Red: do not use the estimates as they are. Amber: look into it, and report it with the result. Grey: the log cannot
    tell. The options for reading the log are those of `analyze`. The exit code is 0 whatever the lights are, and 2 if
    the log cannot be read. Scripts can read `worst` from `--format json`.

    Example: `belated diagnose log.parquet --as-of 2026-03-01`
    """
    from belated.assumptions.diagnosis import diagnose as check

    shown_as = check_format(form)
    log = LogOptions(
        source=source, outcomes=outcomes, table=table, arm=arm, outcome=outcome, propensity=propensity,
        assigned_at=assigned_at, arrived_at=arrived_at, delay=delay, key=key, arms=arms, as_of=as_of,
        duplicates=duplicates, events=events, window=window, windows=windows, closed_only=closed_only,
        lag=lag, recorded_at=recorded_at, measure=measure, cap=cap, copy_limit=copy_limit,
        propensity_unit=propensity_unit, encoding=encoding, decimal=decimal, date_format=date_format, segment=segment,
        covariates=covariates, arrival_probability=arrival_probability,
    ).read()  # fmt: skip
    show(check(log), shown_as)
