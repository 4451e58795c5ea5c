"""The command line: belated analyze, simulate, study, paper."""

from __future__ import annotations

import csv
import inspect
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from belated import __version__
from belated.base.errors import BelatedError, OptionError

if TYPE_CHECKING:
    from belated.reading.source import Source

app = typer.Typer(
    name="belated",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

#: What is wrong with a command line, whichever Click it is that Typer brings.
_UsageError: Any = typer.BadParameter.__base__

Description = Annotated[Path, typer.Argument(help="A TOML file that describes the experiment.", show_default=False)]
_TABLES, _COLUMNS = "The tables", "The columns, guessed from common names if they are not given"
_ASK, _GIVE = "The questions", "The answers"


def _column(help_: str) -> Any:
    return typer.Option(help=help_, show_default=False, rich_help_panel=_COLUMNS)


Seed = Annotated[int | None, typer.Option(help="Instead of the file's.", show_default=False)]
Workers = Annotated[int | None, typer.Option(min=1, help="Threads; default: one for each core.", show_default=False)]


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn what is wrong into one sentence on stderr and exit code 2; Ctrl-C into 130."""
    try:
        yield
    except BelatedError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    except BrokenPipeError:  # whoever read our output has enough of it
        raise typer.Exit(0) from None
    except OSError as error:
        where = f"`{error.filename}`: " if error.filename else ""
        typer.echo(f"Error: {where}{error.strerror}.", err=True)
        raise typer.Exit(2) from None
    except MemoryError:
        typer.echo("Error: there is not enough memory for this.", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("Stopped; nothing was written.", err=True)
        raise typer.Exit(130) from None


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"belated {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Valid statistics for bandit experiments whose outcomes come late, or never.

    An algorithm chose the arms, and the outcomes arrive days later, or never. `analyze` answers such an experiment
    from its tables; `plan` says how long one must run; `simulate` and `study` run one that a file describes; `paper`
    reproduces the method's study.

    Example: `belated analyze sent.parquet --outcomes bought.csv --baseline A --report report.html`
    """


def _read(
    source: str, outcomes: str | None, *, arms: str | None, events: bool, measure: str | None, **options: Any
) -> Source:
    """Return the log that the options of `analyze` name, having said what was guessed."""
    from belated.reading.read import read

    if measure is not None and not events:
        raise OptionError("`measure` is given without `events`; it says what of the events is the outcome.")
    order = None if arms is None else next(csv.reader([arms], skipinitialspace=True), [])
    log = read(source, outcomes, arms=order, events=measure or events, **options)
    for words in (log.roles.line(cli=True), *log.notes):
        typer.echo(words, err=True)
    return log


def _reads(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `analyze` that say where the log is; it gets, first, what reads it."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    panels = (_TABLES, _COLUMNS)
    where = [
        parameter
        for parameter in inspect.signature(analyze, eval_str=True).parameters.values()
        if parameter.name == "source" or getattr(parameter.annotation.__metadata__[0], "rich_help_panel", "") in panels
    ]

    @wraps(command)
    def asked(**options: Any) -> None:
        with _sentences():
            found = {parameter.name: options.pop(parameter.name) for parameter in where}
            command(partial(_read, **found), **options)

    shown = [each.replace(kind=each.KEYWORD_ONLY) for each in (*where, *own)]
    vars(asked)["__signature__"] = inspect.Signature(shown)
    asked.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return asked


@app.command()
def analyze(
    source: Annotated[
        str,
        typer.Argument(
            help="The assignments: a .csv, .parquet, .arrow or .duckdb file, a folder of Parquet files, or a glob.",
            show_default=False,
        ),
    ],
    outcomes: Annotated[
        str | None,
        typer.Option(
            help="Outcomes or events, if they are in a table of their own: a file, or a table of the same database.",
            show_default=False,
            rich_help_panel=_TABLES,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="Which table of a DuckDB file.", show_default=False, rich_help_panel=_TABLES),
    ] = None,
    arm: Annotated[str | None, _column("Which arm each row got.")] = None,
    outcome: Annotated[str | None, _column("The outcome; empty where it has not come.")] = None,
    propensity: Annotated[
        str | None,
        typer.Option(
            help="The probabilities: a column for each arm as a pattern ('p_*') or a list (A=p_A,B=p_B), one column "
            "with a list, struct, map or JSON, or that of the chosen arm.",
            show_default=False,
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    assigned_at: Annotated[str | None, _column("When each row was assigned; default: in the file's order.")] = None,
    arrived_at: Annotated[str | None, _column("When the outcome came, or the event happened.")] = None,
    delay: Annotated[str | None, _column("Instead: how long after its assignment the outcome came.")] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="What joins outcomes to assignments: a column of both tables, or assignment_id=ref.",
            show_default=False,
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    arms: Annotated[
        str | None, _column("The arms in the order of a list of probabilities, such as A,B,C; default: sorted.")
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            help="The moment to look from: later assignments and arrivals do not exist yet. A date, a time or a step.",
            show_default=False,
            rich_help_panel=_TABLES,
        ),
    ] = None,
    duplicates: Annotated[
        str,
        typer.Option(
            help="When one key has different outcomes: error, first, last or sum. The same one again counts once.",
            rich_help_panel=_TABLES,
        ),
    ] = "error",
    events: Annotated[
        bool,
        typer.Option(
            "--events",
            help="The outcomes exist only when they happen, such as purchases; needs --window.",
            rich_help_panel=_TABLES,
        ),
    ] = False,
    window: Annotated[
        str | None,
        typer.Option(
            help="How long after an assignment events count: 7d, 12h, 30min, or a number of steps. Only assignments "
            "that old by --as-of count.",
            show_default=False,
            rich_help_panel=_TABLES,
        ),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            help="Of the events in the window: indicator (any), count or sum; default: sum if they have values.",
            show_default=False,
            rich_help_panel=_TABLES,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="The arm that the others are compared with.", show_default=False, rich_help_panel=_ASK),
    ] = None,
    contrast: Annotated[
        list[str] | None,
        typer.Option(
            help="The first arm minus the second, such as B-A; may be repeated. Default: all pairs.",
            show_default=False,
            rich_help_panel=_ASK,
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="What a policy would earn, such as A=0.2,B=0.8, or greedy: that of the best arm; may be repeated.",
            show_default=False,
            rich_help_panel=_ASK,
        ),
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            help="daipw, dipw, mean, hajek, nh, nh0, iad, or all, side by side. Default: daipw, or dipw if only the "
            "chosen arm's probability is known.",
            show_default=False,
            rich_help_panel=_ASK,
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Of the intervals.", rich_help_panel=_ASK)] = 0.95,
    interval: Annotated[str, typer.Option(help="auto, t, skew, wilson or normal.", rich_help_panel=_ASK)] = "auto",
    sequential: Annotated[
        bool,
        typer.Option(
            "--sequential",
            help="Also give intervals that hold at every look, however often one looks, and whenever one stops.",
            rich_help_panel=_ASK,
        ),
    ] = False,
    target: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The number of assignments at which those should be narrowest; default: the log's.",
            show_default=False,
            rich_help_panel=_ASK,
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="table, markdown, csv or json.", rich_help_panel=_GIVE)
    ] = "table",
    report: Annotated[
        Path | None,
        typer.Option(help="Write a report to send: one HTML file.", show_default=False, rich_help_panel=_GIVE),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Of the report.", show_default=False, rich_help_panel=_GIVE)] = None,
) -> None:
    """Answer an experiment: how good is each arm, which differ, what would a policy earn, and how sure is that.

    One row for each assignment: its arm, the probabilities, and, if it has come, the outcome and when it came. Columns
    that are not named are guessed, and the guess is said. Outcomes may be in a table of their own, joined by a key;
    with --events they are what happened within a window.

    Answers go to stdout; what was guessed and what to beware of to stderr. Exit code 2: the question or the data
    cannot be; one sentence says why.

    Example: `belated analyze log.parquet --baseline A --policy A=0.2,B=0.8 --report report.html`

    Example: `belated analyze sent.csv --outcomes paid.csv --key customer_id --events --window 7d --as-of 2026-03-01`
    """
    with _sentences():
        from belated.base.checks import fraction, one_of
        from belated.base.files import check_place
        from belated.estimation.estimators import ESTIMATORS
        from belated.estimation.intervals import INTERVALS
        from belated.reports.analysis import Questions, analyse

        one_of("format", form, ("table", "markdown", "csv", "json"))
        if estimator is not None:
            one_of("estimator", estimator, [*ESTIMATORS, "all"])
        one_of("interval", interval, INTERVALS)
        fraction("level", level)
        if report is not None:
            check_place(report)
        log = _read(
            source, outcomes, table=table, arm=arm, outcome=outcome, propensity=propensity, assigned_at=assigned_at,
            arrived_at=arrived_at, delay=delay, key=key, as_of=as_of, arms=arms,
            duplicates=duplicates, events=events, window=window, measure=measure,
        )  # fmt: skip
        if estimator is None and not log.has_all_propensities:
            typer.echo("Only the chosen arm's probability is known: the estimator is dipw.", err=True)
        questions = Questions(
            estimator, baseline, tuple(contrast or ()), tuple(policy or ()), level, interval, sequential, target
        )
        found = analyse(log, questions)
        for words in found.warnings:
            typer.echo(f"Warning: {words}", err=True)
        if report is not None:
            from belated.reports.gather import write_report

            write_report(found, report, title=title, command=shlex.join(["belated", *sys.argv[1:]]))
        writers = {"table": found.to_text, "markdown": found.to_markdown, "csv": found.to_csv, "json": found.to_json}
        typer.echo(writers[form]().rstrip("\n"))
        if report is not None:
            typer.echo(f"Report: {report}", err=True)


@app.command()
@_reads
def diagnose(
    log: Callable[[], Any],
    form: Annotated[
        str, typer.Option("--format", help="table, markdown, csv or json.", rich_help_panel=_GIVE)
    ] = "table",
) -> None:
    """Hold an experiment against what its answers assume: a light for each assumption, in words, and what to do.

    Red: the answers should not be used as they are. Amber: look, and say it beside them. Grey: the log cannot tell. The
    log is read with the same options as by `analyze`. The exit code is 0 whatever the lights are; 2 if the log
    cannot be read. A script asks `--format json` for `worst`.

    Example: `belated diagnose log.parquet --as-of 2026-03-01`
    """
    from belated.assumptions.diagnosis import diagnose as ask
    from belated.base.checks import one_of

    one_of("format", form, ("table", "markdown", "csv", "json"))
    found = ask(log())
    writers = {"table": found.to_text, "markdown": found.to_markdown, "csv": found.to_csv, "json": found.to_json}
    typer.echo(writers[form]().rstrip("\n"))


@app.command()
@_reads
def sensitivity(
    log: Callable[[], Any],
    contrast: Annotated[
        str, typer.Option(help="The first arm minus the second, such as B-A.", show_default=False, rich_help_panel=_ASK)
    ],
    gamma: Annotated[
        str | None,
        typer.Option(
            help="The factors by which the odds of arriving may vary, such as 1,1.5,2,3.",
            show_default=False,
            rich_help_panel=_ASK,
        ),
    ] = None,
    mature: Annotated[
        str | None,
        typer.Option(
            help="How long before the end a row must have been assigned to count: 7d, 12h, or a number of steps. "
            "Default: until nearly all outcomes that come have come.",
            show_default=False,
            rich_help_panel=_ASK,
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Of the intervals.", rich_help_panel=_ASK)] = 0.95,
    form: Annotated[
        str, typer.Option("--format", help="table, markdown, csv or json.", rich_help_panel=_GIVE)
    ] = "table",
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw it: this name with .png and .svg.", show_default=False, rich_help_panel=_GIVE),
    ] = None,
) -> None:
    """Ask how much arrival may depend on the outcome before a conclusion falls.

    Whether outcomes that never come are like those that do cannot be seen in a log. This says what the contrast can be
    if the odds that an outcome arrives vary with it by at most a factor, and by how much they must to overturn it.

    Example: `belated sensitivity log.parquet --contrast B-A --plot sensitivity`
    """
    from belated.assumptions.sensitivity import sensitivity as run
    from belated.base import figures as plots
    from belated.base.checks import fraction, one_of
    from belated.base.files import check_place
    from belated.estimation.target import read_contrast

    one_of("format", form, ("table", "markdown", "csv", "json"))
    fraction("level", level)
    if plot is not None:
        check_place(plot)
        plots.check_library()
    try:
        gammas = None if gamma is None else [float(factor) for factor in gamma.split(",")]
    except ValueError:
        raise OptionError(f"`gamma` is {gamma!r}; it must be numbers, such as 1,1.5,2.") from None
    source = log()
    found = run(source, read_contrast(source.arms, contrast), gammas=gammas, level=level, mature=mature)
    if form in ("csv", "json"):
        typer.echo(found.to_csv().rstrip("\n") if form == "csv" else found.to_json())
    else:
        tables = (found, found.shift)
        typer.echo("\n\n".join(t.to_text(every=True) if form == "table" else t.to_markdown() for t in tables))
    if plot is not None:
        plots.save(found.plot(), plot, f"Sensitivity of {found.name}")


@app.command()
@_reads
def plan(
    log: Any,
    half_width: Annotated[
        float | None, typer.Option(help="Of the interval, to be reached.", show_default=False, rich_help_panel=_ASK)
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(
            help="Instead: the chance that the interval excludes 0, such as 0.8.",
            show_default=False,
            rich_help_panel=_ASK,
        ),
    ] = None,
    assurance: Annotated[
        float | None,
        typer.Option(
            help="With --half-width: the share of experiments that must reach it; default: the mean must.",
            show_default=False,
            rich_help_panel=_ASK,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="The first arm minus the second, such as B-A, or an arm. Default: the second of two arms minus the "
            "first.",
            show_default=False,
            rich_help_panel=_ASK,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="How arms will be chosen: epsilon_greedy,decay=0.5 for one, or a TOML file with a [policy]. Default: "
            "the file's; of a pilot, its mean probabilities.",
            show_default=False,
            rich_help_panel=_ASK,
        ),
    ] = None,
    wait: Annotated[
        str | None,
        typer.Option(
            help="Steps to wait after the last assignment, or full. Default: as long as it pays.",
            show_default=False,
            rich_help_panel=_ASK,
        ),
    ] = None,
    patience: Annotated[
        float, typer.Option(help="Steps one would wait to save one assignment.", rich_help_panel=_ASK)
    ] = 10.0,
    per_day: Annotated[
        float | None, typer.Option(help="Assignments a day.", show_default=False, rich_help_panel=_ASK)
    ] = None,
    max_horizon: Annotated[int, typer.Option(help="Assignments at most.", rich_help_panel=_ASK)] = 1_000_000,
    estimator: Annotated[str, typer.Option(help="As in analyze.", rich_help_panel=_ASK)] = "daipw",
    level: Annotated[
        float | None, typer.Option(help="Of the interval; default: 0.95.", show_default=False, rich_help_panel=_ASK)
    ] = None,
    interval: Annotated[str, typer.Option(help="As in analyze.", rich_help_panel=_ASK)] = "auto",
    replications: Annotated[int, typer.Option(help="Simulated experiments, at most.", rich_help_panel=_ASK)] = 4000,
    seed: Seed = None,
    workers: Workers = None,
    form: Annotated[
        str, typer.Option("--format", help="table, markdown, csv or json.", rich_help_panel=_GIVE)
    ] = "table",
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw it: this name with .png and .svg.", show_default=False, rich_help_panel=_GIVE),
    ] = None,
) -> None:
    """Say how long an experiment must run, and how long to wait after its last assignment.

    SOURCE is a TOML file that describes the experiment, as for `study`, or the table of a pilot, as for `analyze`.
    The answer comes from simulating it, and says how sure it is.

    Example: `belated plan experiment.toml --half-width 0.1 --target B-A --plot plan`

    Example: `belated plan pilot.parquet --power 0.8 --policy epsilon_greedy,decay=0.5`
    """
    from belated.base import figures as plots
    from belated.base.checks import one_of
    from belated.base.files import check_place
    from belated.planning.asking import ask

    one_of("format", form, ("table", "markdown", "csv", "json"))
    if plot is not None:
        check_place(plot)
        plots.check_library()
    found = ask(
        log.keywords["source"], log, policy, target, half_width=half_width, power=power, assurance=assurance, wait=wait,
        patience=patience, per_day=per_day, max_horizon=max_horizon, estimator=estimator, level=level,
        interval=interval, replications=replications, seed=seed, workers=workers,
    )  # fmt: skip
    if form in ("csv", "json"):
        typer.echo(found.to_csv().rstrip("\n") if form == "csv" else found.to_json())
    else:
        for table in (found, found.curve):
            typer.echo(f"{table.to_text(every=True) if form == 'table' else table.to_markdown()}\n")
    if plot is not None:
        plots.save(found.plot(), plot, found.words)


@app.command()
def simulate(
    description: Description,
    output: Annotated[Path, typer.Option("--output", "-o", help="The log: .csv or .parquet.", show_default=False)],
    horizon: Annotated[
        int | None, typer.Option(help="Steps; default: the file's only or longest.", show_default=False)
    ] = None,
    seed: Seed = None,
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

    with _sentences():
        check_log_path(output)
        about = descriptions.read(description)
        steps = max(about.horizons) if horizon is None else horizon
        log = run(about.bandit, about.policy, steps, about.seed if seed is None else seed, replication)
        write_log(log, output)
        typer.echo(f"{len(log):,} rows to {output}", err=True)


@app.command()
def study(
    description: Description,
    replications: Annotated[int | None, typer.Option(help="Instead of the file's.", show_default=False)] = None,
    seed: Seed = None,
    workers: Workers = None,
    form: Annotated[str, typer.Option("--format", help="table, markdown, csv or json.")] = "table",
    save: Annotated[Path | None, typer.Option(help="Keep the study, for `bl.Study.load`.", show_default=False)] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw it: this name with .png and .svg.", show_default=False)
    ] = None,
) -> None:
    """Run an experiment many times, and say how each estimator did.

    Ctrl-C stops it; what is done by then is shown, with a note, and the exit code is 130.

    Example: `belated study experiment.toml --replications 10000 --plot coverage`
    """
    from belated.base import figures as plots
    from belated.base.checks import one_of
    from belated.base.files import check_place
    from belated.simulation import description as descriptions
    from belated.simulation.study import study as run

    with _sentences():
        one_of("format", form, ("table", "markdown", "csv", "json"))
        for path in (save, plot):
            if path is not None:
                check_place(path)
        if plot is not None:
            plots.check_library()
        about = descriptions.read(description)
        chosen = {name: getattr(about, name) for name in ("estimators", "targets", "intervals")}
        result = run(
            about.bandit,
            about.policy,
            about.horizons,
            about.replications if replications is None else replications,
            seed=about.seed if seed is None else seed,
            level=about.level,
            workers=workers,
            **{name: value for name, value in chosen.items() if value is not None},
        )
        if form in ("csv", "json"):
            typer.echo(result.to_csv().rstrip("\n") if form == "csv" else result.to_json())
        else:
            for table in (result, result.policy_table):
                typer.echo(f"{table.to_text(every=True) if form == 'table' else table.to_markdown()}\n")
        if save is not None:
            result.save(save)
        if plot is not None:
            plots.save(result.plot(), plot, "How each estimator did")
        if result.stopped:
            raise typer.Exit(130)


@app.command()
def paper(
    figure: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this figure; may be repeated: zero-margin, nonzero-margin, no-delay, negative-binomial, pareto, "
            "weak-margin, strong-margin.",
            show_default=False,
        ),
    ] = None,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Use the definitions of the authors' code.")
    ] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder.")] = Path("paper"),
    replications: Annotated[int, typer.Option(min=2, help="Runs of each cell.")] = 1000,
    seed: Annotated[int, typer.Option(min=0)] = 2023,
    workers: Workers = None,
) -> None:
    """Reproduce the simulation study of Shi, Wang and Wu (ICML 2023).

    Writes every figure as PNG and SVG, every number as CSV, and a page that sets ours beside the
    authors' records with the Monte Carlo error of each difference.

    Example: `belated paper --figure no-delay --as-published -o no-delay`
    """
    from belated.base.figures import check_library
    from belated.simulation.paper.files import write
    from belated.simulation.paper.reproduction import reproduce

    with _sentences():
        check_library()
        if output.exists() and not output.is_dir():
            raise OptionError(f"`{output}` is a file; the output must be a folder.")
        done = reproduce(figure, as_published=as_published, replications=replications, seed=seed, workers=workers)
        files = write(done, output, __version__)
        z = [abs(d.z) for d in done.comparison()]
        close = sum(x <= 2 for x in z)
        typer.echo(f"{close:,} of {len(z):,} recorded quantities lie within two Monte Carlo errors of ours.")
        typer.echo(f"{len(files)} files in {output}; open {output / 'index.html'}")


def run() -> None:
    """Run the command line; what is wrong with it is said in one sentence too."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what its encoding does not have is spelt out
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
    except _UsageError as error:
        told = error.format_message() if sys.argv[1:] else ""
        if not told:  # nothing was asked
            error.show()
        else:
            typer.echo(f"Error: {told.rstrip('.?')}{'?' if told.endswith('?') else '.'}", err=True)
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("Stopped; nothing was written.", err=True)
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
