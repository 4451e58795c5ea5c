"""Options that several commands share, and the panels of the help in which they stand."""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from belated.base.checks import one_of
from belated.base.errors import OptionError, argument

if TYPE_CHECKING:
    from belated.reading import source as sources

TABLES = "Input"
COLUMNS = "Columns (guessed from common names if not given)"
UNITS = "Segments and covariates (never guessed)"
QUESTIONS = "Analysis"
ANSWERS = "Output"


def option(help_: str, panel: str | None = None, *, least: int | None = None) -> object:
    """Return an option whose help text describes its default."""
    return typer.Option(help=help_, show_default=False, rich_help_panel=panel, min=least)


def _format(panel: str | None) -> object:
    return typer.Option("--format", help="The format: table, markdown, csv or json.", rich_help_panel=panel)


class _Flags:
    """A command or group whose help names no type behind an option that takes no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in params:
            if getattr(each, "is_flag", False):
                each.metavar = ""
        return params


class Command(_Flags, TyperCommand):
    """A command."""


class Group(_Flags, TyperGroup):
    """A group of commands."""


class Signed(Command):
    """A command whose arguments may be negative numbers, which are not options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments that are left."""
        ctx.ignore_unknown_options = any(_NEGATIVE_NUMBER.match(each) for each in args)
        return super().parse_args(ctx, args)


_NEGATIVE_NUMBER = re.compile(r"-\.?[0-9]")


# ---------------------------------------------------------------- where the log is

Source = Annotated[
    str,
    typer.Argument(
        help="The assignments: a .csv, .parquet, .arrow or .duckdb file, a folder of Parquet files, a glob, or the URL "
        "of a database, such as postgresql://user@host/db.",
        show_default=False,
    ),
]
Outcomes = Annotated[
    str | None,
    option("Outcomes or events, if they are in a second table: a file, or a table of the same database.", TABLES),
]
DatabaseTable = Annotated[str | None, option("Which table of the database, such as sent or schema.sent.", TABLES)]
CopyLimit = Annotated[
    int | None,
    option(
        "Tables of a database with at most this many rows are copied once; larger ones are summed by the database. "
        "Default: 10,000,000.",
        TABLES,
        least=0,
    ),
]
AsOf = Annotated[
    str | None,
    option("Ignore assignments and arrivals after this date, time or step.", TABLES),
]
Duplicates = Annotated[
    str,
    typer.Option(
        help="What to use if a key has different outcomes: error (stop), first, last or sum. Equal ones count once.",
        rich_help_panel=TABLES,
    ),
]
Events = Annotated[
    bool,
    typer.Option(
        "--events",
        help="The outcomes are events, recorded only when they happen, such as purchases; needs --window.",
        rich_help_panel=TABLES,
    ),
]
Window = Annotated[
    str | None,
    option(
        "The time after an assignment in which events count: 7d, 12h, 30min, or a number of steps. Assignments whose "
        "window is still open at --as-of count for the ages they have reached.",
        TABLES,
    ),
]
Windows = Annotated[
    str | None, option("Several windows instead of one, such as 1d,7d,30d; the longest is analysed in full.", TABLES)
]
ClosedOnly = Annotated[
    bool,
    typer.Option(
        "--closed-only",
        help="Use only assignments whose window has closed at --as-of.",
        rich_help_panel=TABLES,
    ),
]
Lag = Annotated[str | None, option("The longest time from an event to its record, such as 6h.", TABLES)]
RecordedAt = Annotated[
    str | None, option("When each event was recorded; --lag is learned from it unless it is given.", COLUMNS)
]
Measure = Annotated[
    str | None,
    option(
        "How events in the window become an outcome: indicator (1 if there is any), count or sum. Default: sum if "
        "they have values, otherwise indicator.",
        TABLES,
    ),
]

Cap = Annotated[
    float | None,
    option("Outcomes above this cap count as the cap, such as 500 for revenue.", TABLES),
]

Encoding = Annotated[
    str | None, option("The encoding of CSV files, such as latin-1, cp1252 or utf-16. Default: UTF-8.", TABLES)
]
Decimal = Annotated[str, typer.Option(help="The decimal mark in CSV files: . or ,", rich_help_panel=TABLES)]
DateFormat = Annotated[
    str | None,
    option(
        "The format of dates in CSV files: day-first, month-first or a pattern such as %d.%m.%Y. Default: as in "
        "2026-03-01.",
        TABLES,
    ),
]

# ---------------------------------------------------------------- columns

Arm = Annotated[str | None, option("The arm of each row.", COLUMNS)]
Outcome = Annotated[str | None, option("The outcome; empty if it has not arrived.", COLUMNS)]
Propensity = Annotated[
    str | None,
    option(
        "The probabilities: a column for each arm, as a pattern ('p_*') or a list (A=p_A,B=p_B); one column with a "
        "list, struct, map or JSON; or one column with the chosen arm's. For a fixed split: uniform, or A=0.5,B=0.5.",
        COLUMNS,
    ),
]
PropensityUnit = Annotated[
    str,
    typer.Option(help="The unit of the probabilities: fraction (they sum to 1) or percent.", rich_help_panel=COLUMNS),
]
AssignedAt = Annotated[str | None, option("The time of assignment. Default: the order of the rows.", COLUMNS)]
ArrivedAt = Annotated[str | None, option("The time when the outcome arrived, or the event happened.", COLUMNS)]
Delay = Annotated[
    str | None, option("Instead of --arrived-at: the delay of the outcome after its assignment.", COLUMNS)
]
Key = Annotated[
    str | None,
    option(
        "The key that joins outcomes to assignments: a column of both tables, or one of each: assignment_id=ref.",
        COLUMNS,
    ),
]
Arms = Annotated[
    str | None, option("The order of the arms in a list of probabilities, such as A,B,C. Default: sorted.", COLUMNS)
]

# ---------------------------------------------------------------- who the rows are

Segment = Annotated[
    str | None,
    option(
        "The segment of each row, known at assignment, such as country; several (country,device) give their "
        "combinations. Estimates are made by segment and averaged.",
        UNITS,
    ),
]
Covariates = Annotated[
    str | None,
    option("Numbers known at assignment, such as age,visits, for which estimates are adjusted.", UNITS),
]
ArrivalProbability = Annotated[
    str | None, option("The probability that each row's outcome ever arrives, from a model of your own.", UNITS)
]

# ---------------------------------------------------------------- questions and answers

Level = Annotated[float, typer.Option(help="The level of the intervals.", rich_help_panel=QUESTIONS)]
Format = Annotated[str, _format(ANSWERS)]
Plot = Annotated[Path | None, option("Write a figure to two files: this name with .png and with .svg.", ANSWERS)]

# ---------------------------------------------------------------- simulation

Description = Annotated[Path, typer.Argument(help="A TOML file that describes the experiment.", show_default=False)]
Seed = Annotated[int | None, option("The seed of the random numbers. Default: that of the file.")]
Workers = Annotated[int | None, option("The number of threads. Default: one per core.", least=1)]
StudyFormat = Annotated[str, _format(None)]
StudyPlot = Annotated[Path | None, option("Write a figure to two files: this name with .png and with .svg.")]


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """The options that say where a log is and what its columns mean; names are those of the options."""

    source: str
    outcomes: str | None
    table: str | None
    as_of: str | None
    duplicates: str = "error"
    events: bool = False
    window: str | None
    windows: str | None
    closed_only: bool = False
    lag: str | None
    recorded_at: str | None
    measure: str | None
    cap: float | None
    arm: str | None
    outcome: str | None
    propensity: str | None
    assigned_at: str | None
    arrived_at: str | None
    delay: str | None
    key: str | None
    arms: str | None
    copy_limit: int | None
    propensity_unit: str = "fraction"
    encoding: str | None
    decimal: str = "."
    date_format: str | None
    segment: str | None
    covariates: str | None
    arrival_probability: str | None

    @property
    def given(self) -> list[str]:
        """The names of the options that are not as they are by default, without the source."""
        usual = {field.name: None if field.default is MISSING else field.default for field in fields(self)}
        return [name for name, value in usual.items() if name != "source" and getattr(self, name) != value]

    @property
    def files(self) -> list[str]:
        """The files that are read, as far as they are there."""
        from belated.reading.formats import find_files
        from belated.reading.inputs import path_of

        files: list[str] = []
        for given in (self.source, self.outcomes):
            with suppress(OptionError):  # said when it is read
                path = None if given is None else path_of(given, ("duckdb", "file", "sqlite")) or given
                files += [] if path is None else find_files(path, "source", None).paths
        return files

    def read(self, *, with_open: bool = False) -> sources.Source:
        """Return the log, having said on stderr what was guessed; `with_open` reads open windows in any case."""
        from belated.reading.copying import COPY_LIMIT
        from belated.reading.read import read
        from belated.reading.roles import PROPENSITY_UNITS
        from belated.reading.rows_query import DUPLICATES
        from belated.summaries.maturing import MEASURES

        if self.measure is not None and not self.events:
            raise OptionError(
                f"{argument('measure')} is given without {argument('events')}; it chooses how events become an outcome."
            )
        if self.closed_only and not self.events:
            raise OptionError(f"{argument('closed_only')} is given without {argument('events')}; it is about events.")
        log = read(
            self.source,
            self.outcomes,
            table=self.table,
            arm=self.arm,
            outcome=self.outcome,
            propensity=self.propensity,
            assigned_at=self.assigned_at,
            arrived_at=self.arrived_at,
            delay=self.delay,
            key=self.key,
            arms=None if self.arms is None else next(csv.reader([self.arms], skipinitialspace=True), []),
            as_of=self.as_of,
            duplicates=one_of("duplicates", self.duplicates, DUPLICATES),
            events=one_of("measure", self.measure, MEASURES) if self.measure else self.events,
            window=self.window,
            windows=None if self.windows is None else [each.strip() for each in self.windows.split(",")],
            maturing=with_open or not self.closed_only,
            lag=self.lag,
            recorded_at=self.recorded_at,
            cap=self.cap,
            copy_limit=COPY_LIMIT if self.copy_limit is None else self.copy_limit,
            propensity_unit=one_of("propensity_unit", self.propensity_unit, PROPENSITY_UNITS),
            encoding=self.encoding,
            decimal=self.decimal,
            date_format=self.date_format,
            segment=self.segment,
            covariates=self.covariates,
            arrival_probability=self.arrival_probability,
        )
        for words in (log.roles.line(cli=True), *log.notes):
            typer.echo(words, err=True)
        return log
