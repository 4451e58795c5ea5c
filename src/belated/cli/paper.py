"""`belated paper`: the simulation study of the paper, compared with the authors' records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from belated.base.errors import OptionError
from belated.base.version import __version__
from belated.cli import options
from belated.cli.options import option


def paper(
    figure: Annotated[
        list[str] | None,
        option(
            "Make only this figure; may be repeated: zero-margin, nonzero-margin, no-delay, negative-binomial, pareto, "
            "weak-margin, strong-margin."
        ),
    ] = None,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Use the definitions of the authors' code.")
    ] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the files.")] = Path("paper"),
    replications: Annotated[int, typer.Option(min=2, help="Simulated experiments per cell.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the random numbers.")] = 2023,
    workers: options.Workers = None,
) -> None:
    """Reproduce the simulation study of Shi, Wang and Wu (ICML 2023).

    Writes every figure as PNG and SVG, every number as CSV, and a page that compares them with the
    authors' records, with the Monte Carlo error of each difference.

    Example: `belated paper --figure no-delay --as-published -o no-delay`
    """
    from belated.base.figures import check_library
    from belated.base.text import printable
    from belated.simulation.paper.files import write
    from belated.simulation.paper.reproduction import reproduce

    check_library()
    if output.exists() and not output.is_dir():
        raise OptionError(f"`{output}` is a file; the output must be a folder.")
    reproduction = reproduce(figure, as_published=as_published, replications=replications, seed=seed, workers=workers)
    files = write(reproduction, output, __version__)
    z = [abs(difference.z) for difference in reproduction.comparison()]
    close = sum(distance <= 2 for distance in z)
    if z:
        typer.echo(f"{close:,} of {len(z):,} recorded quantities lie within two Monte Carlo errors of ours.")
    else:
        typer.echo("There is nothing to compare: the authors recorded no quantity of what is drawn.")
    typer.echo(f"{len(files)} files in {printable(output)}; open {printable(output / 'index.html')}")
