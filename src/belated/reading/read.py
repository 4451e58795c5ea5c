"""Reading: from what people have to a `Source`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from belated.base.checks import Options, one_of, whole
from belated.base.columns import ByArm, Label
from belated.base.errors import LogError, OptionError, argument
from belated.base.text import one_line
from belated.log.clock import MomentLike
from belated.log.durations import Window, WindowLike, longest_of, read_window
from belated.log.labels import given_arms
from belated.log.splits import is_split
from belated.reading.columns import ColumnKind, kinds_of
from belated.reading.contents import is_live
from belated.reading.copying import COPY_LIMIT, copy_tables
from belated.reading.csv_files import CsvFile, lacks_checksum
from belated.reading.csv_texts import TextFormat, Use
from belated.reading.databases import open_url, table_named
from belated.reading.embedded import Connection, confine, connect, literal_path, register
from belated.reading.empty_columns import without_type
from belated.reading.engines import UncopiedError, engine_of, sentences
from belated.reading.event_rows import learned_lag
from belated.reading.first_look import open_tables
from belated.reading.formats import find_files, format_of, looks_like_a_file, read_files
from belated.reading.guessing import find as find_roles
from belated.reading.inputs import Input, arrow_table, is_url, path_of, table_beside, zone_notes
from belated.reading.keys import with_alike_keys
from belated.reading.live_logs import LiveLog, NamedFrame, live_log_of_database, live_log_of_file
from belated.reading.parquet_files import ParquetFiles
from belated.reading.roles import PROPENSITY_UNITS, PropensityUnit, Roles
from belated.reading.rows_query import DUPLICATES, Duplicates, RowsQuery
from belated.reading.source import Reading, Source
from belated.summaries.caps import read_cap
from belated.summaries.maturing import MEASURES, Measure

if TYPE_CHECKING:
    import ibis.expr.types as ir

_NO_CHECKSUM = "`{}` was compressed without a checksum: damage to it may go unnoticed. `zstd --check` adds one."


def read(  # noqa: PLR0913
    source: object,
    outcomes: object = None,
    *,
    table: str | None = None,
    arm: str | None = None,
    outcome: str | None = None,
    propensity: str | Sequence[str] | ByArm[str] | ByArm[float] | None = None,
    assigned_at: str | None = None,
    arrived_at: str | None = None,
    delay: str | None = None,
    key: str | tuple[str, str] | None = None,
    segment: str | Sequence[str] | None = None,
    covariates: str | Sequence[str] | None = None,
    arrival_probability: str | None = None,
    arms: Sequence[Label] | None = None,
    as_of: MomentLike | None = None,
    duplicates: Duplicates = "error",
    events: bool | Measure = False,
    window: WindowLike | None = None,
    windows: Sequence[WindowLike] | None = None,
    maturing: bool = True,
    lag: WindowLike | None = None,
    recorded_at: str | None = None,
    cap: float | None = None,
    copy_limit: int = COPY_LIMIT,
    propensity_unit: PropensityUnit = "fraction",
    encoding: str | None = None,
    decimal: str = ".",
    date_format: str | None = None,
) -> Source:
    """Read an experiment from a file, a dataframe, a database or a table of any engine that Ibis supports.

    The table is not loaded into memory: for `estimate`, `compare` and `trajectory`, files are streamed through the
    compiled kernel, and other engines compute the sums.

    Parameters
    ----------
    source : path, URL, dataframe or Ibis table
        The assignments, one row each: CSV, Parquet (a file, a folder or a glob), Arrow or Feather, a DuckDB database;
        pandas, polars or pyarrow; a database by its URL, such as ``"postgresql://user@host/db"``; or a table of
        PostgreSQL, Spark, BigQuery and so on by your own Ibis connection. A file or database of live experiments, with
        the experiment's name as `table`.
    outcomes : path, dataframe, Ibis table or name, optional
        The outcomes or events, if they are in a second table; a name means a table of the same database.
    table : str, optional
        The table of a database, such as ``"sent"`` or ``"schema.sent"``.
    arm, outcome, assigned_at, arrived_at, delay : str, optional
        Names of columns; others are guessed from common names. `Source.roles` has the result.
    propensity : str, list or dict, optional
        A column for each arm, as a pattern (``"p_*"``), a list or a dict; one column with a list, struct, map or JSON;
        or the column of the chosen arm's probability. If probabilities were the same in all rows and there is no
        column: ``"uniform"``, or ``{"A": 0.5, "B": 0.5}``.
    key : str or pair of str, optional
        The key that joins outcomes to assignments: a column of both tables, or one of each.
    segment : str or list of str, optional
        The column with the segment of each row, known when it was assigned, such as a country; several give their
        combinations. Estimates are made by segment and averaged, which is right if the policy looked at the segment.
        Segments and covariates are never guessed, because they change what is estimated.
    covariates : str or list of str, optional
        Columns of numbers, known when the row was assigned, for which estimates are adjusted. A covariate that is
        measured after the assignment makes estimates wrong.
    arrival_probability : str, optional
        The column with the probability that each row's outcome ever arrives, from a model of your own.
    arms : sequence, optional
        The arms in the order of a list of propensities; by default the sorted labels of the table.
    as_of : optional
        The time as of which the experiment is analysed; by default everything that has arrived counts.
    duplicates : {"error", "first", "last", "sum"}
        How to treat different outcomes of one key. Equal outcomes of one key count once.
    events : bool or {"indicator", "count", "sum"}
        Whether outcomes are events, recorded only when they happen, such as purchases. The outcome of an assignment is
        then whether any event happened within the `window`, their number, or the sum of their values (the default if
        there are values). Assignments whose window is still open at `as_of` count for the ages that they have reached.
    window : int, float, str or timedelta, optional
        The window of events: steps, or a duration such as ``"7d"``, ``"12h"`` or ``"30min"``.
    windows : list, optional
        Several windows instead of one. Answers are about the longest; `Estimate.windows` has all of them.
    maturing : bool, default True
        If False, only assignments whose window has closed by `as_of` are used.
    lag : int, float, str or timedelta, optional
        The longest time from an event to its record. Assignments count as younger by this time.
    recorded_at : str, optional
        The column with the time when each event was recorded, from which the lag is learned.
    cap : float, optional
        Outcomes above the cap count as the cap, and estimates are of the mean of the capped outcomes. For events, the
        outcome of an assignment is capped, not each event.
    copy_limit : int
        Tables of a database with at most this many rows are copied into memory once, which is faster; the database
        computes the sums of larger ones. 0 never copies. Tables of Spark are never copied.
    propensity_unit : {"fraction", "percent"}
        Whether probabilities sum to 1 or to 100.
    encoding : str, optional
        The encoding of CSV files, such as ``"latin-1"``, ``"cp1252"`` or ``"utf-16"``; UTF-8 by default.
    decimal : {".", ","}
        The decimal mark of CSV files.
    date_format : str, optional
        The format of dates in CSV files: ``"day-first"``, ``"month-first"`` or a pattern such as
        ``"%d.%m.%Y %H:%M"``; by default as in 2026-03-01.

    Returns
    -------
    Source

    Examples
    --------
    >>> import belated as bl, pyarrow as pa
    >>> sent = pa.table({"id": [1, 2, 3], "variant": ["A", "B", "A"], "p_A": [0.5, 0.5, 0.6], "p_B": [0.5, 0.5, 0.4]})
    >>> paid = pa.table({"id": [3, 2, 1], "revenue": [2.0, 1.0, 4.0]})
    >>> source = bl.read(sent, paid)
    >>> len(source), source.arms
    (3, ('A', 'B'))
    """
    given = {name: value for name, value in locals().items() if name not in ("source", "outcomes")}
    one_of("duplicates", duplicates, DUPLICATES)
    one_of("propensity_unit", propensity_unit, PROPENSITY_UNITS)
    live = _find_live(source, table)
    if live is not None:
        return _read_live(live, given)
    form = TextFormat(encoding, decimal, date_format)
    if cap is not None:
        read_cap(cap)
    window = _event_window(events, window, windows, maturing=maturing, lag=lag, recorded_at=recorded_at)
    assignments = open_input(source, table, role="source", form=form)
    deliveries = None if outcomes is None else open_input(outcomes, beside=assignments, role="outcomes", form=form)
    files = assignments.files if deliveries is None else (*assignments.files, *deliveries.files)
    versions = assignments.versions if deliveries is None else (*assignments.versions, *deliveries.versions)
    if form.given is not None and not isinstance(assignments, CsvFile) and not isinstance(deliveries, CsvFile):
        raise OptionError(f"{argument(form.given)} is given, but no CSV file is read; it applies only to CSV files.")
    if not _is_ibis(source) and not isinstance(source, NamedFrame):
        _confine(assignments, files)
    if deliveries is not None and deliveries.connection is not assignments.connection:
        raise OptionError(
            f"{argument('source')} and {argument('outcomes')} must be in one "
            "engine: give tables of the same Ibis connection."
        )
    if events in ("indicator", "count") and outcome is None:
        outcome = ""  # events are counted, whatever they are worth
    options: Options = {
        "arm": arm, "outcome": outcome, "propensity": propensity, "assigned_at": assigned_at,
        "arrived_at": arrived_at, "delay": delay, "key": key, "events": bool(events),
        "unit": propensity_unit, "segment": segment, "covariates": covariates,
        "arrival_probability": arrival_probability, "recorded_at": recorded_at,
    }  # fmt: skip
    reading = Reading(tuple(_kinds(assignments)), lambda **changes: read(source, outcomes, **given | changes))
    texts = {"texts": isinstance(assignments, CsvFile)}
    columns = find_roles(_kinds(assignments), None if deliveries is None else _kinds(deliveries), options | texts)
    given_table, notes = assignments.table, zone_notes(assignments, deliveries, columns)
    assignments, deliveries = _loaded(assignments, deliveries, columns, percent=propensity_unit == "percent")
    notes += [_NO_CHECKSUM.format(one_line(Path(file).name)) for file in files if lacks_checksum(file)]
    engine = engine_of(assignments.table)
    assignments, deliveries, held_in, why = _copied(
        assignments, deliveries, columns, whole("copy_limit", copy_limit, least=0)
    )
    notes += why
    if deliveries is not None:
        with sentences(assignments.name, versions):
            assignments, deliveries = with_alike_keys(assignments, deliveries, columns)
    assignments, deliveries = without_type(assignments, deliveries, columns)
    query = RowsQuery(
        assignments=assignments.table,
        deliveries=None if deliveries is None else deliveries.table,
        roles=columns,
        duplicates=duplicates,
        measure=_measure(events, columns),
        window=window,
        maturing=bool(events) and maturing,
        ordered=assignments.ordered,
        copied_from=held_in,
        line=assignments.line,
        whole=given_table if engine.is_embedded else None,
        versions=versions,
    )
    query, words = _with_lag(query, assignments.name, lag)
    notes = [*notes, *words]
    if arms is None and isinstance(propensity, Mapping) and not is_split(propensity):
        arms = list(propensity)
    arms = given_arms(arms)
    name = assignments.name
    if deliveries is not None and deliveries.name != name and not isinstance(source, NamedFrame):
        name = f"{name} and {deliveries.name}"
    opened = Source(
        open_tables(query, name, arms, as_of, notes), files=files, reading=reading, windows=tuple(windows or ())
    )
    return opened if cap is None else opened.capped(cap)


def _event_window(
    events: bool | Measure,
    window: WindowLike | None,
    windows: Sequence[WindowLike] | None,
    *,
    maturing: bool,
    lag: WindowLike | None,
    recorded_at: str | None,
) -> Window | None:
    """Return the window of events, the longest of several; None if outcomes are not events."""
    if isinstance(events, str):
        one_of("events", events, MEASURES)
    if window is not None and windows is not None:
        raise OptionError(f"{argument('window')} and {argument('windows')} are both given; give one of them.")
    if windows is not None and not maturing:
        raise OptionError(
            f"{argument('windows')} needs rows whose window is still open; give one {argument('window')} if only "
            "closed windows count."
        )
    if not events and (lag is not None or recorded_at is not None):
        name = "lag" if lag is not None else "recorded_at"
        raise OptionError(f"{argument(name)} is given without {argument('events')}; it is about events in a window.")
    if bool(events) != (window is not None or windows is not None):
        given = "window" if windows is None else "windows"
        missing, there = (given, "events") if events else ("events", given)
        raise OptionError(
            f"{argument(there)} is given without {argument(missing)}; events count within a window, such as "
            f"{argument('window', '7d')}."
        )
    if windows is not None:
        return longest_of(windows)
    return None if window is None else read_window(window)


def _with_lag(query: RowsQuery, name: str, lag: WindowLike | None) -> tuple[RowsQuery, list[str]]:
    """Return the query with the lag from events to their records, and what to say of it."""
    if query.measure is None:
        return query, []
    with sentences(name, query.versions):
        known, words = learned_lag(query, None if lag is None else read_window(lag, "lag"))
    return replace(query, lag=known), words


def _find_live(source: object, table: str | None) -> LiveLog | None:
    """Return the log of a live experiment, if that is what a path or URL and a name stand for."""
    if isinstance(source, LiveLog):
        return source
    if isinstance(source, str) and source.startswith(("postgresql://", "postgres://")):
        return live_log_of_database(source, table)
    if isinstance(source, (str, os.PathLike)) and os.path.isfile(source) and is_live(source):
        return live_log_of_file(source, table)
    return None


def _read_live(live: LiveLog, given: Options) -> Source:
    """Return the log of a live experiment, in memory: its answers are those of `answer`, to the last digit."""
    own = {"table": None} | live.options
    if given["as_of"] is not None:
        own["as_of"] = given["as_of"]
    opened = read(live.assignments, live.events, **given | own)
    opened.hold()
    return opened


def _confine(assignments: Input, files: Sequence[str]) -> None:
    """Prevent the content of a database file, which may come from anybody, from reading other files."""
    if any(format_of(file).is_database for file in files):
        others = [file for file in files if not format_of(file).is_database]
        confine(assignments.connection, [*others, *map(literal_path, others)])


def _measure(events: bool | Measure, columns: Roles) -> Measure | None:
    """Return how events become an outcome; None if the table has outcomes, not events."""
    if not events:
        return None
    by_default: Measure = "indicator" if columns.outcome is None else "sum"
    measure = events if isinstance(events, str) else by_default
    if measure == "sum" and columns.outcome is None:
        raise OptionError(
            f"The values of events are to be summed, but no column holds them; name it with {argument('outcome')}."
        )
    if columns.arrived_at is None:
        raise OptionError(
            f"Events need the time at which each happened; name its column with {argument('arrived_at')}."
        )
    return measure


def _kinds(table: Input) -> dict[str, ColumnKind]:
    return {**kinds_of(table.table), **table.kinds}


def _copied(
    assignments: Input, deliveries: Input | None, roles: Roles, limit: int
) -> tuple[Input, Input | None, str | None, list[str]]:
    """Copy the tables of a database; return them, the database's name if they were copied, and a note if not."""
    engine = engine_of(assignments.table)
    if engine.is_embedded or not engine.copies:
        return assignments, deliveries, None, []
    database = assignments.connection.name
    with sentences(assignments.name):
        labelled = engine.labelled(assignments.table, [roles.arm, *roles.segment])
    assignments = replace(assignments, table=labelled)
    try:
        if limit == 0:
            raise UncopiedError(f"{argument('copy_limit')} is 0")
        with sentences(assignments.name):
            chances = _chances(assignments, roles)
        return *copy_tables(assignments, deliveries, roles, chances, limit), database, []
    except UncopiedError as error:
        if not engine.computes_sums:
            raise LogError(
                f"{database} cannot compute the sums itself, and its rows are not copied: {error}. Raise "
                f"{argument('copy_limit')}, or write the table to a Parquet file."
            ) from None
        note = f"{database} computes the sums, because its rows are not copied: {error}."
        return assignments, deliveries, None, [note] if limit > 0 else []


def _loaded(
    assignments: Input, deliveries: Input | None, columns: Roles, *, percent: bool
) -> tuple[Input, Input | None]:
    """Read CSV files once, as roles ask for: the first rows do not bind the others; check Parquet files."""
    if not any(isinstance(table, (CsvFile, ParquetFiles)) for table in (assignments, deliveries)):
        return assignments, deliveries
    first: dict[str | None, Use] = {columns.arm: "label", columns.assigned_at: "time", columns.key: "key"}
    first |= dict.fromkeys(_chances(assignments, columns), "share")
    first |= {**dict.fromkeys(columns.segment, "label"), **dict.fromkeys(columns.covariates, "outcome")}
    first[columns.arrival_probability] = "outcome"
    second: dict[str | None, Use] = {columns.outcome: "outcome", columns.arrived_at: "time", columns.delay: "delay"}
    second[columns.recorded_at] = "time"
    if deliveries is None:
        return assignments.loaded(_used({**first, **second}), percent=percent), None
    second[columns.outcome_key] = "key"
    return assignments.loaded(_used(first), percent=percent), deliveries.loaded(_used(second))


def _used(columns: Mapping[str | None, Use]) -> dict[str, Use]:
    return {column: use for column, use in columns.items() if column is not None}


def _chances(assignments: Input, columns: Roles) -> list[str]:
    """Return the columns that may hold propensities, as far as the arms of the first rows tell."""
    propensity = columns.propensity
    if propensity is None:
        return []
    instead = () if propensity.instead is None else propensity.instead.columns
    if propensity.kind != "guess":
        return [*propensity.columns, *instead]
    try:
        likely = columns.settled(assignments.first_labels(columns.arm)).propensity or propensity
    except LogError:  # the columns that are certainly numbers
        kinds = _kinds(assignments)
        return [*(column for column in propensity.columns if kinds[column] != "mixed"), *instead]
    return [*likely.columns, *likely.extra.values(), *instead]


# ---------------------------------------------------------------- what people have


def open_input(
    given: object,
    table: str | None = None,
    beside: Input | None = None,
    role: str = "table",
    *,
    form: TextFormat | None = None,
) -> Input:
    """Return the given table, path or dataframe as an input.

    Parameters
    ----------
    given : path, dataframe or Ibis table
    table : str, optional
        Which table of a database file.
    beside : Input, optional
        A table that this one is to be joined with: text may name another table of its database.
    role : str
        What errors call it.
    form : TextFormat, optional
        The form of text files: encoding, decimal mark and dates.
    """
    if table is not None and not isinstance(given, (str, os.PathLike)):
        raise OptionError(f"{argument('table')} is {table!r}, but {argument(role)} is not a database; it is one table.")
    if _is_ibis(given):
        _check_bound(given, role)
        opened = Input(given, _ibis_name(given), ordered=False)
    elif isinstance(given, str) and is_url(given):
        opened = _open_url(given, table, beside, role, form)
    elif isinstance(given, (str, os.PathLike)) and not isinstance(os.fspath(given), bytes):
        opened = _open_path(os.fspath(given), table, beside, role, form)
    elif isinstance(given, NamedFrame):
        opened = Input(register(connect(), given.frame), one_line(given.name), ordered=True, files=given.files)
    else:
        connection = _connection(beside, role)
        with sentences("the dataframe"):
            opened = Input(register(connection, arrow_table(given, role)), "the dataframe", ordered=True)
    return opened.understood()


def _is_ibis(given: object) -> bool:
    return type(given).__module__.startswith("ibis.") and hasattr(given, "get_backend")


def _check_bound(given: object, role: str) -> None:
    """Raise if what Ibis made is no table, or a table without a database."""
    import ibis
    import ibis.expr.types as ir

    if not isinstance(given, ir.Table):
        raise OptionError(f"{argument(role)} is of type {type(given).__name__} of Ibis; it must be a table.")
    try:
        given.get_backend()
    except ibis.IbisError:
        raise OptionError(
            f"{argument(role)} is an Ibis table without a connection; give a table of a connection."
        ) from None


def _ibis_name(table: ir.Table) -> str:
    name = getattr(table.op(), "name", None)
    return one_line(name) if isinstance(name, str) else "the table"


def _open_url(url: str, table: str | None, beside: Input | None, role: str, form: TextFormat | None) -> Input:
    path = path_of(url)
    if path is not None:
        return _open_path(path, table, beside, role, form)
    if beside is not None:
        raise OptionError(f"`{role}` is a URL; it must be the name of a table in the database of the assignments.")
    return open_url(url, table, role)


def _open_path(path: str, table: str | None, beside: Input | None, role: str, form: TextFormat | None) -> Input:
    if beside is not None and table is None and not os.path.exists(path) and not looks_like_a_file(path):
        if not engine_of(beside.table).is_embedded:
            return table_named(beside, path)
        other = table_beside(beside, path)
        if other is not None:
            return other
    files = find_files(path, role, table, form)
    return read_files(_connection(beside, role), files)


def _connection(beside: Input | None, role: str) -> Connection:
    """Return the embedded engine to read into: that of the other table, or a new one."""
    if beside is None:
        return connect()
    if not engine_of(beside.table).is_embedded:
        name = beside.connection.name
        raise OptionError(
            f"{argument(role)} is a file or dataframe, and the assignments are in "
            f"{name}; both must be in one engine: give an "
            "Ibis table of the same connection."
        )
    connection: Connection = beside.connection
    return connection
