"""`belated live`: run experiments from a shell, in a file or a PostgreSQL database."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from belated.base.checks import Options
from belated.base.errors import OptionError, argument
from belated.base.text import count, printable
from belated.cli.options import option
from belated.cli.output import WRONG, check_format, show

if TYPE_CHECKING:
    from belated.live.experiment import Experiment
    from belated.live.outcomes import Outcome
    from belated.live.store import Store
    from belated.simulation.policies import Policy

Place = Annotated[
    str, typer.Argument(help="The store: a file, or the URL of a database, postgresql://...", show_default=False)
]
Name = Annotated[str, typer.Argument(help="The experiment's name.", show_default=False)]
Author = Annotated[str | None, option("Your name for the audit. Default: this user.")]
Reason = Annotated[str, option("The reason, for the audit.")]
Format = Annotated[str, typer.Option("--format", help="The format: table, markdown, csv or json.")]
PolicyOption = Annotated[
    str,
    typer.Option(
        help="The policy: uniform, thompson, epsilon_greedy, ucb, or with options thompson:c=0.5,burn_in=100, or fixed "
        "shares fixed:A=0.3,B=0.7."
    ),
]
OutcomeOption = Annotated[
    str,
    typer.Option(help="The outcome: binary, real, bounded:0,10, events:7d, or events:7d,count or events:7d,sum."),
]
Baseline = Annotated[str | None, option("The arm with which the others are compared.")]
SegmentsOption = Annotated[
    str | None, option("The segments, such as DE,FR; every unit has one, and the policy learns separately in each.")
]
Planned = Annotated[int, typer.Option(help="The planned number of units.", min=1)]
Level = Annotated[float, typer.Option(help="The level of the intervals.")]
Kind = Annotated[
    str | None,
    option(
        "The confidence sequence: auto, asymptotic, or the outcome's own kind, the default (beta_binomial for 0/1 "
        "outcomes, bernstein for bounded ones)."
    ),
]
Target = Annotated[
    int | None,
    option("The number of units at which the sequence is narrowest. Default: the planned number.", least=1),
]
Every = Annotated[
    int | None,
    option("The number of rows after which a policy version is made. Default: 0.2 % of the planned units.", least=1),
]


@contextmanager
def opened(place: str, name: str) -> Iterator[Experiment]:
    """Open an experiment; when it is closed, make the version that is due."""
    from belated.live.store import open_store

    with open_store(place, make=False, ticking=False) as store:
        yield store.experiment(name)
        store.tick_if_due(name)


@contextmanager
def _changing(place: str, name: str, format: str) -> Iterator[Experiment]:
    """Open an experiment to change it, and print its status afterwards."""
    form = check_format(format)
    with _store(place) as store:
        exp = store.experiment(name)
        yield exp
        show(exp.status(), form)


def read_policy(text: str, outcome: Outcome) -> Policy:
    """Return a policy from its name and options; "thompson" means the one that fits the outcome."""
    from belated.live.deciding import thompson_for
    from belated.simulation.words import policy_from_words

    return policy_from_words(text, {"thompson": thompson_for(outcome)})


def read_outcome(text: str) -> Outcome:
    """Return a kind of outcome from its words."""
    from belated.live.outcomes import outcome_of
    from belated.simulation.words import read_number
    from belated.summaries.maturing import MEASURES

    kind, _, given = text.partition(":")
    parts = [part.strip() for part in given.split(",")] if given else []
    if kind in ("binary", "real") and not parts:
        return outcome_of(kind)
    if kind == "bounded" and len(parts) == 2:
        low, high = (read_number("outcome", part) for part in parts)
        return outcome_of(kind, low=low, high=high)
    if kind == "events" and (len(parts) == 1 or (len(parts) == 2 and parts[1] in MEASURES)):
        return outcome_of(kind, window=parts[0], measure=parts[1] if parts[1:] else "indicator")
    raise OptionError(
        f"{argument('outcome')} is {text!r}; it must be binary, real, bounded:0,10, events:7d or events:7d,sum."
    )


# ---------------------------------------------------------------- running


def create(  # noqa: PLR0913
    place: Place,
    name: Name,
    arms: Annotated[str, option("The arms, such as Plain,Emoji,Question.")],
    policy: PolicyOption = "thompson",
    outcome: OutcomeOption = "binary",
    segments: SegmentsOption = None,
    baseline: Baseline = None,
    planned: Planned = 10_000,
    level: Level = 0.95,
    kind: Kind = None,
    target: Target = None,
    every: Every = None,
    draft: Annotated[bool, typer.Option("--draft", help="Do not start the experiment yet.")] = False,
    author: Author = None,
    reason: Reason = "",
    format: Format = "table",
) -> None:
    """Create an experiment, and start it. The file is made if it does not exist.

    The outcome, level and baseline, and the kind and target of the confidence sequence cannot be changed later.

    Example: `belated live create shop.belated "subject line" --arms Plain,Emoji --baseline Plain --planned 20000`
    """
    from belated.live.creating import plan_creation
    from belated.live.store import open_store

    form = check_format(format)
    declared = read_outcome(outcome)
    options: Options = {
        "arms": _names(arms), "policy": read_policy(policy, declared), "outcome": declared,
        "segments": None if segments is None else _names(segments), "baseline": baseline, "planned_rows": planned,
        "level": level, "kind": kind, "target": target, "every": every, "author": author, "reason": reason,
    }  # fmt: skip
    plan_creation(name, **options)  # before a file is made
    with open_store(place, ticking=False) as store:
        exp = store.create(name, **options)
        if not draft:
            exp.start(author=author)
        show(exp.status(), form)


def _names(text: str) -> list[str]:
    """Return names that are separated by commas; a name with a comma must be in double quotes."""
    return next(csv.reader([text], skipinitialspace=True), [])


def start(
    place: Place,
    name: Name,
    author: Author = None,
    reason: Reason = "",
    format: Format = "table",
) -> None:
    """Start an experiment that was created as a draft.

    Example: `belated live start shop.belated "subject line"`
    """
    form = check_format(format)
    with opened(place, name) as exp:
        exp.start(author=author, reason=reason)
        show(exp.status(), form)


def answer(
    place: Place,
    name: Name,
    report: Annotated[Path | None, option("Write a report, one HTML file.")] = None,
    format: Format = "table",
) -> None:
    """Print the results so far, with intervals that hold at every look.

    Example: `belated live answer shop.belated "subject line" --report report.html`
    """
    from belated.base.files import check_page

    form = check_format(format)
    if report is not None:
        check_page(report)
    with opened(place, name) as exp:
        so_far = exp.answer()
        show(so_far, form)
        if report is not None:
            so_far.report(report)
            typer.echo(f"Report written to {printable(report)}", err=True)


def status(
    place: Place,
    name: Annotated[str | None, typer.Argument(help="The experiment; default: all.", show_default=False)] = None,
    format: Format = "table",
) -> None:
    """Print the state, arms and counts of an experiment, or the experiments of the store.

    Example: `belated live status shop.belated "subject line"`
    """
    form = check_format(format)
    with _store(place) as store:
        show(store.experiments() if name is None else store.experiment(name).status(), form)


def log(
    place: Place,
    name: Name,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv or .parquet file. Default: print CSV.")
    ] = None,
) -> None:
    """Write the log: an arm, its probabilities, the segment, outcome and times in each row, without units.

    For events, the log has the units whose window has closed.

    Example: `belated live log shop.belated "subject line" -o log.parquet`
    """
    from belated.live.logs import log_text, write_log

    with _store(place) as store:
        exp = store.experiment(name)
        data = (exp.log().closed() if exp.setup.outcome.is_events else exp.log()).log()
    if output is None:
        typer.echo(log_text(data).rstrip("\n"))
    else:
        write_log(data, output)
        typer.echo(f"{count(len(data), 'row')} written to {printable(output)}", err=True)


def changes(place: Place, name: Name, format: Format = "table") -> None:
    """Print every change of an experiment: when, by whom and why.

    Example: `belated live changes shop.belated "subject line"`
    """
    form = check_format(format)
    with _store(place) as store:
        show(store.experiment(name).changes(), form)


def stop(
    place: Place,
    name: Name,
    final: Annotated[str | None, option("The arm that later units get; it is not logged.")] = None,
    author: Author = None,
    reason: Reason = "",
    format: Format = "table",
) -> None:
    """Take no new units, but still take outcomes.

    Example: `belated live stop shop.belated "subject line" --final Emoji --reason "the interval excludes 0"`
    """
    with _changing(place, name, format) as exp:
        exp.stop(final, author=author, reason=reason)


def close(
    place: Place,
    name: Name,
    author: Author = None,
    reason: Reason = "",
    format: Format = "table",
) -> None:
    """Take no units and no outcomes from now on.

    Example: `belated live close shop.belated "subject line"`
    """
    with _changing(place, name, format) as exp:
        exp.close(author=author, reason=reason)


def erase(
    place: Place,
    name: Name,
    unit: Annotated[str, typer.Argument(help="The unit to erase.", show_default=False)],
    author: Author = None,
    reason: Reason = "",
) -> None:
    """Erase a person: replace the unit's name by a random one. Answers do not change.

    Example: `belated live erase shop.belated "subject line" customer-17`
    """
    with _store(place) as store:
        erased = store.experiment(name).erase(unit, author=author, reason=reason)
    typer.echo("erased" if erased else "there was nothing to erase")


# ---------------------------------------------------------------- arms, segments and policies


def add(
    place: Place,
    name: Name,
    arm: Annotated[str, typer.Argument(help="The new arm.", show_default=False)],
    author: Author = None,
    reason: Reason = "",
    format: Format = "table",
) -> None:
    """Add an arm to a running experiment.

    Example: `belated live arm add shop.belated "subject line" Question --reason "an idea"`
    """
    with _changing(place, name, format) as exp:
        exp.add_arm(arm, author=author, reason=reason)


def add_segment(
    place: Place,
    name: Name,
    segment: Annotated[str, typer.Argument(help="The new segment.", show_default=False)],
    author: Author = None,
    reason: Reason = "",
    format: Format = "table",
) -> None:
    """Add a segment to an experiment with segments.

    Example: `belated live segment add shop.belated "subject line" ES --reason "the shop opens in Spain"`
    """
    with _changing(place, name, format) as exp:
        exp.add_segment(segment, author=author, reason=reason)


_Arm = Annotated[str, typer.Argument(help="The arm.", show_default=False)]


def pause(
    place: Place,
    name: Name,
    arm: _Arm,
    author: Author = None,
    reason: Reason = "",
    format: Format = "table",
) -> None:
    """Stop choosing an arm until it is resumed.

    Example: `belated live arm pause shop.belated "subject line" Emoji`
    """
    with _changing(place, name, format) as exp:
        exp.pause_arm(arm, author=author, reason=reason)


def resume(
    place: Place,
    name: Name,
    arm: _Arm,
    author: Author = None,
    reason: Reason = "",
    format: Format = "table",
) -> None:
    """Choose a paused arm again.

    Example: `belated live arm resume shop.belated "subject line" Emoji`
    """
    with _changing(place, name, format) as exp:
        exp.resume_arm(arm, author=author, reason=reason)


def drop(
    place: Place,
    name: Name,
    arm: _Arm,
    author: Author = None,
    reason: Reason = "",
    format: Format = "table",
) -> None:
    """Stop choosing an arm, for good.

    Example: `belated live arm drop shop.belated "subject line" Emoji --reason "it annoys people"`
    """
    with _changing(place, name, format) as exp:
        exp.drop_arm(arm, author=author, reason=reason)


def set_(
    place: Place,
    name: Name,
    policy: PolicyOption,
    author: Author = None,
    reason: Reason = "",
    format: Format = "table",
) -> None:
    """Use another policy from now on.

    Example: `belated live policy set shop.belated "subject line" --policy uniform --reason "the last week"`
    """
    with _changing(place, name, format) as exp:
        exp.set_policy(read_policy(policy, exp.setup.outcome), author=author, reason=reason)


# ---------------------------------------------------------------- keeping


def verify(place: Place, format: Format = "table") -> None:
    """Draw every decision again, compute every policy version again, and check every rule of the logs.

    Example: `belated live verify shop.belated`
    """
    form = check_format(format)
    with _store(place) as store:
        verification = store.verify()
    show(verification, form)
    if not verification.clean:
        raise typer.Exit(WRONG)


def backup(
    place: Place, path: Annotated[Path, typer.Argument(help="The new file for the copy.", show_default=False)]
) -> None:
    """Copy the store to a new file while it is in use.

    Example: `belated live backup shop.belated copy.belated`
    """
    with _store(place) as store:
        typer.echo(f"Copied to {printable(store.backup(path))}", err=True)


def restore(
    path: Annotated[Path, typer.Argument(help="A backup.", show_default=False)],
    place: Place,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a store at that place; no process may be using it.")
    ] = False,
) -> None:
    """Make a store from a backup; units that were erased in the replaced store are erased again.

    Example: `belated live restore copy.belated shop.belated --replace`
    """
    from belated.live.keeping import restore as restored

    typer.echo(f"{count(restored(path, place, replace=replace), 'unit')} erased again")


def migrate(place: Place) -> None:
    """Upgrade a store that an older version of belated made.

    Example: `belated live migrate shop.belated`
    """
    from belated.live.keeping import migrate as migrated

    typer.echo(f"schema {migrated(place)}")


@contextmanager
def _store(place: str) -> Iterator[Store]:
    from belated.live.store import open_store

    with open_store(place, make=False, ticking=False) as store:
        yield store


def commands() -> dict[tuple[str, ...], Callable[..., None]]:
    """Return every command by its words, in the order of the help."""
    from belated.cli.live_asking import ask, tell
    from belated.cli.live_runs import demo, import_, simulate
    from belated.cli.live_service import link, list_, make, revoke, serve

    plain = (
        create,
        start,
        ask,
        tell,
        answer,
        status,
        log,
        changes,
        stop,
        close,
        erase,
        verify,
        backup,
        restore,
        migrate,
    )
    return {
        **{(each.__name__,): each for each in plain},
        ("arm", "add"): add, ("arm", "pause"): pause, ("arm", "resume"): resume, ("arm", "drop"): drop,
        ("segment", "add"): add_segment, ("policy", "set"): set_,
        ("simulate",): simulate, ("import",): import_, ("demo",): demo,
        ("serve",): serve, ("token", "create"): make, ("token", "list"): list_, ("token", "revoke"): revoke,
        ("token", "link"): link,
    }  # fmt: skip
