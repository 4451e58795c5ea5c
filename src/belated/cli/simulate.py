"""`belated simulate`: one run of an experiment described in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from belated.cli import options
from belated.cli.options import option


def simulate(
    description: options.Description,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file for the log: .csv or .parquet.", show_default=False)
    ],
    horizon: Annotated[int | None, option("The number of steps. Default: the longest horizon of the file.")] = None,
    seed: options.Seed = None,
    replication: Annotated[int, typer.Option(min=0, help="The number of the run, as in a study.")] = 0,
) -> None:
    """Run an experiment once, and write its log.

    The log has one row per step: `step`, `arm`, each arm's propensity as `p_<arm>` and, if it arrives by the last
    step, the `outcome` and the step at which it `arrived`; with segments, also the `segment` and the covariates.

    If outcomes are events, the log has a `unit` in place of outcomes, and a second file, such as log-events.csv for
    log.csv, has the events: the `unit`, the step it `happened_at`, and its `value` if it has one.

    Example: `belated simulate experiment.toml -o log.parquet --seed 1`
    """
    from belated.base.text import count, printable
    from belated.simulation import description as descriptions
    from belated.simulation.log_files import check_log_path, events_path, write_events, write_log
    from belated.simulation.simulate import simulate as run

    check_log_path(output, [description])
    about = descriptions.read(description)
    if about.bandit.window is not None:
        check_log_path(events_path(output), [description])
    steps = max(about.horizons) if horizon is None else horizon
    log = run(about.bandit, about.policy, steps, about.seed if seed is None else seed, replication)
    write_log(log, output)
    typer.echo(f"{count(len(log), 'row')} written to {printable(output)}", err=True)
    if log.events is not None:
        events, number = write_events(log, output)
        typer.echo(f"{count(number, 'event')} written to {printable(events)}", err=True)
