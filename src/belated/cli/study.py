"""`belated study`: the performance of estimators in many runs of an experiment described in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from belated.cli import options
from belated.cli.options import option
from belated.cli.output import STOPPED, check_format, check_plot, show, write_plot


def study(
    description: options.Description,
    replications: Annotated[int | None, option("The number of runs. Default: that of the file.")] = None,
    seed: options.Seed = None,
    workers: options.Workers = None,
    form: options.StudyFormat = "table",
    closed_only: Annotated[
        bool, typer.Option("--closed-only", help="For events, count only assignments whose window has closed.")
    ] = False,
    save: Annotated[Path | None, option("Save the study to this file, for `bl.Study.load`.")] = None,
    plot: options.StudyPlot = None,
) -> None:
    """Run an experiment many times, and print bias, errors and coverage of each estimator.

    Ctrl-C stops the study; the runs completed by then are shown, with a note, and the exit code is 130.

    Example: `belated study experiment.toml --replications 10000 --plot coverage`
    """
    from belated.base.files import check_place
    from belated.base.text import one_line
    from belated.simulation import description as descriptions
    from belated.simulation.study import study as run
    from belated.simulation.study_files import check_saved

    shown_as = check_format(form)
    if save is not None:
        check_place(save, [description])
    check_plot(plot, [description])
    about = descriptions.read(description)
    if closed_only:
        descriptions.check_events(about, "closed_only")
    if save is not None:
        check_saved(about.bandit)
    chosen = {name: getattr(about, name) for name in ("estimators", "targets", "intervals")}
    result = run(
        about.bandit,
        about.policy,
        about.horizons,
        about.replications if replications is None else replications,
        seed=about.seed if seed is None else seed,
        level=about.level,
        maturing=about.maturing and not closed_only,
        workers=workers,
        **{name: value for name, value in chosen.items() if value is not None},
    )
    show(result, shown_as, result.policy_table)
    if save is not None:
        result.save(save)
    write_plot(plot, result.plot, "Performance of each estimator")
    if plot is not None:
        of = f", the last of {len(result.targets)}" if len(result.targets) > 1 else ""
        typer.echo(f"The figure shows the target {one_line(result.targets[-1].name)}{of}.", err=True)
    if result.stopped:
        raise typer.Exit(STOPPED)
