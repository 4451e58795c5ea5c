"""Inputs: tables that people have, each as an Ibis table with a name."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from belated.base.checks import one_of
from belated.base.columns import Label, is_missing
from belated.base.errors import LogError, OptionError, argument
from belated.base.files import FileVersion
from belated.base.text import one_line, shown
from belated.reading.columns import ColumnKind
from belated.reading.csv_texts import Use
from belated.reading.embedded import Connection, new_name, sql_text
from belated.reading.engines import engine_of, fetch, first_line, is_bytes, sentences

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir
    import pyarrow as pa
    from ibis.backends import BaseBackend

    from belated.log.frames import NarwhalsFrame, NarwhalsSeries
    from belated.reading.roles import Roles


#: Rows that are looked at before a file is read.
FIRST_ROWS = 10_000


#: A URL, and the name of its scheme.
URL = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*)(?:\+[A-Za-z0-9_]+)?://")


@dataclass(frozen=True)
class Input:
    """A table, and how to speak of it.

    Attributes
    ----------
    table : ibis table
    name : str
    ordered : bool
        Whether its rows have an order, as those of files and dataframes do.
    files : tuple of str
        The files that it is in.
    versions : tuple of FileVersion
        Those that are read again for every answer, as they were when they were found.
    line : callable or None
        Returns the line of the file in which a row begins, of CSV files.
    zoned : frozenset of str
        The columns of times with a zone.
    in_bytes : frozenset of str
        The columns of bytes, which are read as text if they are named, and never guessed.
    """

    table: ir.Table
    name: str
    ordered: bool
    files: tuple[str, ...] = field(default=(), kw_only=True)
    versions: tuple[FileVersion, ...] = field(default=(), kw_only=True)
    line: Callable[[int], str] | None = field(default=None, kw_only=True)
    zoned: frozenset[str] = field(default=frozenset(), kw_only=True)
    in_bytes: frozenset[str] = field(default=frozenset(), kw_only=True)

    @property
    def connection(self) -> BaseBackend:
        """The Ibis connection that the table is in."""
        return self.table.get_backend()

    @property
    def kinds(self) -> Mapping[str, ColumnKind]:
        """Columns about which more is known than their types."""
        return dict.fromkeys(self.in_bytes, "other")

    def understood(self) -> Input:
        """Return the same table without types that its engine has and Ibis does not know."""
        types = self.table.schema().items()
        return replace(
            self,
            table=engine_of(self.table).understood(self.table),
            zoned=frozenset(name for name, kind in types if _has_zone(kind)),
            in_bytes=frozenset(name for name, kind in types if is_bytes(kind)),
        )

    def loaded(self, uses: Mapping[str, Use], *, percent: bool = False) -> Input:
        """Return the same table, its columns read as their uses ask for, where they are text; shares in per cent."""
        return self

    def zones(self, column: str) -> set[bool]:
        """Return whether the times of a column have a zone: {True}, {False}, both, or {} if nobody knows."""
        kind = self.table[column].type()
        return {column in self.zoned} if kind.is_timestamp() or kind.is_date() else set()

    def first_labels(self, arm: str) -> list[Label]:
        """Return the arms of the first rows."""
        with sentences(self.name):
            rows = fetch(self.table.select(arm=self.table[arm]).limit(FIRST_ROWS))
        return [label for label in rows["arm"].unique().to_pylist() if label is not None]


def _has_zone(kind: dt.DataType) -> bool:
    """Whether a type is that of times with a zone; Ibis does not know DuckDB's finest."""
    return getattr(kind, "timezone", None) is not None or str(getattr(kind, "raw_type", kind)) == "TIMESTAMPTZ_NS"


def zone_notes(assignments: Input, deliveries: Input | None, roles: Roles) -> list[str]:
    """Return that times without a zone count as UTC, if others have a zone."""
    later = assignments if deliveries is None else deliveries
    used = [(assignments, roles.assigned_at), (later, roles.arrived_at), (later, roles.recorded_at)]
    zones = {column: table.zones(column) for table, column in used if column is not None}
    zoned = [f"`{one_line(column)}`" for column, has in zones.items() if has == {True}]
    notes = []
    for column, has in zones.items():
        if has == {True, False}:
            notes.append(f"Some times of `{one_line(column)}` have no time zone; they count as UTC.")
        elif has == {False} and zoned:
            notes.append(
                f"The times of `{one_line(column)}` have no time zone, unlike those of {zoned[0]}; they count as UTC."
            )
    return notes


def is_url(text: str) -> bool:
    """Whether text is a URL."""
    return URL.match(text) is not None


def path_of(url: str, schemes: Collection[str] = ("duckdb", "file")) -> str | None:
    """Return the path of a file that a URL is another way to write; None if it is not."""
    match = URL.match(url)
    return unquote(rest_of(url).split("?")[0]) if match and match[1].lower() in schemes else None


def rest_of(url: str) -> str:
    """Return what follows a URL's scheme."""
    return url.partition("://")[2]


def alike_names(columns: Iterable[str]) -> list[str]:
    """Return the first names that the engine takes for one, as it does not look at case."""
    alike: dict[str, list[str]] = {}
    for column in columns:
        alike.setdefault(column.lower(), []).append(column)
    return next((names for names in alike.values() if len(names) > 1), [])


def check_names(what: str, columns: Iterable[str]) -> None:
    """Refuse a table in which two columns have one name, or names that differ only in case."""
    if alike := alike_names(columns):
        same = alike[0] == alike[1]
        named = shown(alike[0]) if same else f"{shown(alike[0])} and {shown(alike[1])}, which differ only in case"
        raise LogError(f"{what} has several columns named {named}; each must have a name of its own.")


def arrow_table(frame: Any, role: str) -> pa.Table:
    """Return a dataframe of any library that Narwhals knows as an Arrow table; errors call it `role`."""
    import narwhals as nw
    import pyarrow as pa

    columns = () if hasattr(frame, "collect") else getattr(frame, "columns", ())  # a lazy frame would run
    if getattr(columns, "nlevels", 1) > 1:
        raise LogError("The dataframe has column names of several levels; each column must have one name.")
    names = list(map(str, columns))
    if isinstance(frame, (pa.Table, pa.RecordBatch)):
        frame = pa.Table.from_batches([frame]) if isinstance(frame, pa.RecordBatch) else frame
        names = frame.column_names
    check_names("The dataframe", names)
    if isinstance(frame, pa.Table):
        return _plain(frame)
    try:
        native = nw.from_native(frame)
    except TypeError:
        raise OptionError(
            f"{argument(role)} is of type {type(frame).__name__}; it must be a path, a dataframe or an Ibis table."
        ) from None
    whole = native.collect() if isinstance(native, nw.LazyFrame) else native
    try:
        return _plain(whole.to_arrow())
    except (pa.ArrowException, TypeError, OverflowError) as error:
        changed = [series for series in (_as_floats(column) for column in whole.iter_columns()) if series is not None]
        if not changed:
            raise _mixed(whole, error) from None
        return arrow_table(whole.with_columns(*changed).to_native(), role)


def _as_floats(column: NarwhalsSeries) -> NarwhalsSeries | None:
    """Return a column of Python's numbers as floats, if decimals are among them: Arrow knows no infinite ones."""
    import narwhals as nw

    if column.dtype != nw.Object:
        return None
    values = column.to_list()
    kinds = {type(value) for value in values if not is_missing(value)}
    if Decimal not in kinds or not kinds <= {Decimal, int, float}:
        return None
    floats = [None if is_missing(value) else float(value) for value in values]
    return nw.new_series(column.name, floats, nw.Float64, backend=column.implementation)


def is_unknown(type_: pa.DataType) -> bool:
    """Whether numbers are of a type that the engine does not know."""
    import pyarrow as pa

    return bool(pa.types.is_float16(type_) or pa.types.is_decimal256(type_))


def _plain(table: pa.Table) -> pa.Table:
    """Return a table with types that the engine knows: it has no floats of 16 bits and no decimals of 256.

    Periods of pandas, which it would take for numbers, are text.
    """
    import pyarrow as pa

    check_names("The dataframe", table.column_names)
    for i, field_ in enumerate(table.schema):
        if getattr(field_.type, "extension_name", None) == "pandas.period":
            table = table.set_column(i, field_.name, pa.array(table.column(i).to_pandas().astype("string")))
        elif is_unknown(field_.type):
            table = table.set_column(i, field_.name, table.column(i).cast(pa.float64()))
    return table


def _mixed(frame: NarwhalsFrame, error: BaseException) -> LogError:
    """Return which value of a dataframe's column is unlike the others, or too large."""
    if isinstance(error, OverflowError):
        for column in frame.iter_columns():
            for row, value in enumerate(column.to_list()):
                if isinstance(value, int) and not -(2**63) <= value < 2**64:
                    place = f"Column {shown(str(column.name))} in row {row}"
                    return LogError(f"{place} is {shown(value)}; whole numbers must fit 64 bits.", row=row)
    failed = re.search(r"Conversion failed for column (.*) with type", str(error), re.DOTALL)
    failing = {str(column.name): column for column in frame.iter_columns()}.get("" if failed is None else failed[1])
    if failed is not None and failing is not None:
        values = [(row, value) for row, value in enumerate(failing.to_list()) if not is_missing(value)]
        types = Counter(type(value) for _, value in values).most_common(2)
        usual = types[0][0]
        if len(types) == 1:
            return LogError(
                f"Column {one_line(repr(failed[1]))} holds values of type {usual.__name__}, which cannot be read; it "
                "must hold numbers, text, times or true and false."
            )
        row, value = next(((r, v) for r, v in values if type(v) is not usual), values[0])
        return LogError(
            f"Column {one_line(repr(failed[1]))} in row {row} is {one_line(repr(value))}; it must be of type "
            f"{usual.__name__}, as most of the column is.",
            row=row,
        )
    return LogError(f"The dataframe cannot be read: {first_line(error)}")


def table_of_file(connection: Connection, path: str, table: str | None) -> Input:
    """Return a table of a database file, which is attached for reading only; without a name, its only one."""
    catalog = new_name("database")
    with sentences(one_line(Path(path).name)):
        connection.raw_sql(f"ATTACH '{sql_text(os.path.abspath(path))}' AS {catalog} (READ_ONLY, TYPE duckdb)")
        tables = _tables(connection, catalog)
    often = Counter(name for _, name in tables)
    names = [name if often[name] == 1 else f"{schema}.{name}" for schema, name in tables]
    table = next((short for short, whole in zip(names, tables, strict=True) if table == ".".join(whole)), table)
    if not tables or (table is not None and table not in names):
        _refuse_view(connection, catalog, table)
    if not tables:
        raise OptionError(f"`{one_line(path)}` holds no table.")
    if table is None and len(tables) > 1:
        known = ", ".join(map(repr, map(one_line, names[:20])))
        raise OptionError(
            f"`{one_line(path)}` holds {len(tables)} tables ({known}); choose one with {argument('table')}."
        )
    table = names[0] if table is None else table
    schema, name = tables[names.index(one_of("table", table, names))]
    return _stored(connection, catalog, schema, name)


def table_beside(beside: Input, name: str) -> Input | None:
    """Return another table of the database file that a table is in; None if it is in none."""
    space = getattr(beside.table.op(), "namespace", None)
    if space is None or space.catalog is None or not engine_of(beside.table).is_embedded:
        return None
    connection = beside.connection
    tables = {table: schema for schema, table in _tables(connection, space.catalog)}
    if name not in tables:
        _refuse_view(connection, space.catalog, name)
        raise OptionError(
            f"There is no file `{one_line(name)}`, and no table of this name in the database of `{beside.name}`."
        )
    return replace(_stored(connection, space.catalog, tables[name], name), files=beside.files)


def _tables(connection: Connection, catalog: str) -> list[tuple[str, str]]:
    """Return the schema and the name of each table that is stored: what a view does is anybody's guess."""
    rows = connection.con.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? AND NOT internal ORDER BY 1, 2",
        [catalog],
    )
    return list(rows.fetchall())


def _stored(connection: Connection, catalog: str, schema: str, name: str) -> Input:
    """Return a table; a generated column runs its expression at each reading, and Ctrl-C may not stop it."""
    definition = connection.con.execute(
        "SELECT sql FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?",
        [catalog, schema, name],
    ).fetchone()
    if definition is not None and "GENERATED ALWAYS AS" in definition[0]:
        raise OptionError(
            f"`{one_line(name)}` has a generated column; only stored values of a database file are read, because a "
            "generated column can run any expression. Store them with CREATE TABLE ... AS SELECT."
        )
    with sentences(one_line(name)):
        return Input(connection.table(name, database=(catalog, schema)), one_line(name), ordered=True)


def _refuse_view(connection: Connection, catalog: str, name: str | None = None) -> None:
    """Say that what was asked for is a view, if it is one; without a name, any."""
    rows = connection.con.execute(
        "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = ? AND NOT internal", [catalog]
    )
    view = next((view for schema, view in rows.fetchall() if name in (None, view, f"{schema}.{view}")), None)
    if view is not None:
        raise OptionError(
            f"`{one_line(view)}` is a view; only stored tables of a database file are read, because a view can run any "
            "query. Store it with CREATE TABLE ... AS, or give a table of your own Ibis connection."
        )
