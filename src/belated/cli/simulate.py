"""`belated simulate`: one run of an experiment that a file describes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from belated.cli import options
from belated.cli.options import option


def simulate(
    description: options.Description,
    output: Annotated[Path, typer.Option("--output", "-o", help="The log: .csv or .parquet.", show_default=False)],
    horizon: Annotated[int | None, option("Steps; default: the file's only or longest.")] = None,
    seed: options.Seed = None,
    replication: Annotated[int, typer.Option(min=0, help="Which of a study's runs.")] = 0,
) -> None:
    """Run an experiment once, and write its log.

    One row for each step: `step`, `arm`, each arm's propensity as `p_<arm>`, and, if it ever comes,
    the `outcome` and the step at which it was `arrived`.

    Example: `belated simulate experiment.toml -o log.parquet --seed 1`
    """
    from belated.simulation import description as descriptions
    from belated.simulation.log_files import check_log_path, write_log
    from belated.simulation.simulate import simulate as run

    check_log_path(output, [description])
    about = descriptions.read(description)
    steps = max(about.horizons) if horizon is None else horizon
    log = run(about.bandit, about.policy, steps, about.seed if seed is None else seed, replication)
    write_log(log, output)
    typer.echo(f"{len(log):,} rows to {output}", err=True)
