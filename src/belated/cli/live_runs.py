"""`belated live simulate`, `import` and `demo`: experiments whose units come from a description or a table."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from belated.base.checks import Options
from belated.base.text import printable
from belated.cli import options
from belated.cli.live import (
    Author,
    Baseline,
    Every,
    Format,
    Kind,
    Level,
    Name,
    OutcomeOption,
    Place,
    PolicyOption,
    Reason,
    Target,
)
from belated.cli.options import option
from belated.cli.output import check_format, show


def simulate(
    description: options.Description,
    place: Annotated[
        str | None, option("The store for the experiment: a file or a database. Default: it is not kept.")
    ] = None,
    name: Annotated[str, typer.Option(help="The name of the experiment.")] = "rehearsal",
    rows: Annotated[int | None, option("The number of units. Default: the longest horizon of the file.")] = None,
    every: Annotated[
        int | None, option("The number of units between two policy versions. Default: 0.2 % of all units.", least=1)
    ] = None,
    baseline: Baseline = None,
    seed: options.Seed = None,
) -> None:
    """Rehearse an experiment: a live experiment whose units and outcomes come from a described bandit.

    Time is accelerated: one unit comes in each second of the experiment's own clock.

    Example: `belated live simulate experiment.toml --rows 5000`
    """
    from belated.live.rehearsal import rehearsal
    from belated.simulation import description as descriptions

    about = descriptions.read(description, needs_horizon=rows is None)
    size = max(about.horizons) if rows is None else rows
    chosen = about.seed if seed is None else seed
    with rehearsal(
        about.bandit, about.policy, size, place=place, name=name, seed=chosen, every=every, baseline=baseline
    ) as exp:
        show(exp.status(), "table")
        typer.echo()
        show(exp.answer(), "table")
    typer.echo(f"The true means are {_means(about.bandit.means)}.")
    for segment, means in getattr(about.bandit, "means_by_segment", {}).items():
        typer.echo(f"In {printable(str(segment))} they are {_means(means)}.")


def _means(means: Mapping[Hashable, float]) -> str:
    return ", ".join(f"{printable(str(label))} {mean:g}" for label, mean in means.items())


def import_(  # noqa: PLR0913
    place: Place,
    name: Name,
    source: options.Source,
    policy: PolicyOption = "thompson",
    outcome: OutcomeOption = "binary",
    unit: Annotated[str | None, option("The column of the units; with it, they keep their arms.")] = None,
    segment: Annotated[
        str | None, option("The column of the units' segments; the experiment then has these segments.")
    ] = None,
    baseline: Baseline = None,
    planned: Annotated[int | None, option("The planned number of units. Default: twice the rows.", least=1)] = None,
    level: Level = 0.95,
    kind: Kind = None,
    target: Target = None,
    every: Every = None,
    table: options.DatabaseTable = None,
    arm: options.Arm = None,
    outcome_column: Annotated[str | None, option("The column of the outcome.")] = None,
    propensity: options.Propensity = None,
    assigned_at: options.AssignedAt = None,
    arrived_at: options.ArrivedAt = None,
    delay: options.Delay = None,
    propensity_unit: options.PropensityUnit = "fraction",
    author: Author = None,
    reason: Reason = "",
    format: Format = "table",
) -> None:
    """Continue a running experiment from a table that has every arm's probability in each row.

    Example: `belated live import shop.belated "subject line" log.csv --unit customer --baseline Plain`
    """
    from belated.cli.live import read_outcome, read_policy
    from belated.live.importing import read_import
    from belated.live.storage import system_clock
    from belated.live.store import open_store

    form = check_format(format)
    declared = read_outcome(outcome)
    given: Options = {"kind": kind, "target": target, "every": every, "author": author, "reason": reason}
    columns: Options = {
        "table": table, "arm": arm, "propensity": propensity, "propensity_unit": propensity_unit,
        "assigned_at": assigned_at, "arrived_at": arrived_at, "delay": delay, "outcome_column": outcome_column,
    }  # fmt: skip
    imported = read_import(  # before a file is made
        name, source, policy=read_policy(policy, declared), outcome=declared, unit=unit, segment=segment,
        baseline=baseline, planned_rows=planned, level=level, **given, **columns,
    )  # fmt: skip
    imported.check_past(system_clock())
    with open_store(place, ticking=False) as store:
        show(imported.add(store).status(), form)


def demo(
    place: Annotated[Path, typer.Argument(help="The file for the store.")] = Path("demo.belated"),
    rows: Annotated[int, typer.Option(help="The number of customers.", min=10)] = 5000,
    seed: Annotated[int, typer.Option(help="The seed of the customers' behaviour.", min=0)] = 1,
) -> None:
    """Run an experiment on three subject lines with simulated customers, from creation to decision.

    Example: `belated live demo`
    """
    from belated.base.errors import OptionError
    from belated.live.rehearsal import rehearsal
    from belated.simulation import arms, delays, policies
    from belated.simulation.bandits import Bandit

    if place.exists():
        raise OptionError(f"`{place}` is already there; give another name.")
    rates = {"Plain": 0.10, "Emoji": 0.20, "Question": 0.11}
    bandit = Bandit({arm: arms.bernoulli(rate) for arm, rate in rates.items()}, delays.geometric(200).censored(0.2))
    typer.echo(f"{rows:,} customers get a mail, one a second; some open it, after about 200 seconds, a fifth never.\n")
    policy = policies.thompson_beta(burn_in=0.05)
    with rehearsal(
        bandit, policy, rows, place=place, name="subject line", seed=seed, every=max(rows // 100, 1), baseline="Plain"
    ) as exp:
        show(exp.status(), "table")
        typer.echo()
        answer = exp.answer()
        show(answer, "table")
        better = [(each.estimate, each.name) for _, each in answer.contrasts if each.low > 0]
        if better:
            line = max(better)[1].removesuffix(" - Plain")
            exp.stop(final=line, reason="its interval at every look excludes 0")
            typer.echo(f"\n{line} is better than Plain at every look. Stopped; later customers get {line}.")
        else:
            typer.echo("\nNo line is better than Plain at every look yet, so the experiment goes on.")
        checked = exp._store.verify()
    truth = ", ".join(f"{arm} {rate:.0%}" for arm, rate in rates.items())
    typer.echo(f"The true rates are {truth}. Every rule of the store holds: {checked.clean}.")
    where = shlex.quote(str(place))
    typer.echo(f'\nLook around: belated live answer {where} "subject line" --report report.html')
    typer.echo(f'             belated live changes {where} "subject line"')
