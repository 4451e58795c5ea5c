"""Parquet files as one table: the durations that Arrow noted in them, and columns whose types differ between files."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from belated.base.errors import LogError
from belated.base.text import one_line, shown
from belated.reading.columns import ColumnKind, in_words
from belated.reading.csv_texts import Use
from belated.reading.embedded import Connection, EmbeddedTable, literal_path
from belated.reading.expressions import Type, Value, sql_name
from belated.reading.inputs import Input, check_names
from belated.reading.parquet_pages import Chunk, check_pages, chunks_with_checksums

#: DuckDB's intervals for Arrow's durations, by unit: Parquet stores durations as whole numbers.
_DURATIONS = {
    "s": "to_microseconds({} * 1000000)", "ms": "to_microseconds({} * 1000)", "us": "to_microseconds({})",
    "ns": "to_microseconds({} // 1000)",
}  # fmt: skip


class _Conflict(NamedTuple):
    """A column that is of one type in a file, and of another in a file before it."""

    path: str
    holds: str
    held_before: str

    def error(self, column: str) -> LogError:
        """Return the error of a column that is used."""
        return LogError(
            f"Column {shown(column)} holds {self.holds} in `{one_line(Path(self.path).name)}`, but {self.held_before} "
            "in the files before it; it must be of one type."
        )


@dataclass(frozen=True)
class ParquetFiles(Input):
    """Parquet files as one table, of which some columns must be looked at if they are used.

    Attributes
    ----------
    chunks : tuple of Chunk
        Where the columns of those files are that have checksums.
    mixed : mapping
        The columns that hold numbers in one file and text in another; they are text.
    unlike : mapping
        The columns that hold durations in one file, and in another those of another unit, or none.
    """

    chunks: tuple[Chunk, ...] = ()
    mixed: Mapping[str, _Conflict] = field(default_factory=dict)
    unlike: Mapping[str, _Conflict] = field(default_factory=dict)

    @property
    def kinds(self) -> Mapping[str, ColumnKind]:
        """The columns that are text, but numbers in some files, and those of bytes."""
        return {**super().kinds, **dict.fromkeys(self.mixed, "mixed")}

    def loaded(self, uses: Mapping[str, Use], *, percent: bool = False) -> Input:
        """Return the same table, after a look at the types and the checksums of the columns that are used."""
        for column, use in uses.items():
            conflict = self.unlike.get(column) or (None if use in ("label", "key") else self.mixed.get(column))
            if conflict is not None:
                raise conflict.error(column)
        check_pages(self.chunks, uses)
        return self


def parquet_files(connection: Connection, files: Sequence[str], name: str, *, partitioned: bool) -> Input:
    """Return Parquet files as one table; `partitioned`: names of folders are values of a column, such as day=1."""
    paths = list(map(literal_path, files))
    table = connection.read_parquet(paths, union_by_name=len(paths) > 1, hive_partitioning=partitioned)
    _check_names(connection, paths, table.columns)
    units = _units(connection, paths, table)
    unlike = {column: conflict for column, by_file in units.items() if (conflict := _unlike(by_file)) is not None}
    table = _with_durations(table, {column: next(iter(by_file.values())) for column, by_file in units.items()})
    mixed = _mixed(connection, files, table) if len(files) > 1 else {}
    chunks = chunks_with_checksums(connection, paths)
    if chunks or mixed or unlike:
        return ParquetFiles(table, name, ordered=True, chunks=chunks, mixed=mixed, unlike=unlike)
    return Input(table, name, ordered=True)  # it is the same whichever columns are used


def _check_names(connection: Connection, paths: list[str], columns: Sequence[str]) -> None:
    """Refuse Parquet files with two columns of one name: DuckDB would call the second outcome_1, and read the first."""
    lower = {column.lower() for column in columns}
    if not any(column[: column.rfind("_")] in lower for column in lower if re.search(r"_\d+$", column)):
        return
    schema = connection.con.execute("SELECT file_name, name, coalesce(num_children, 0) FROM parquet_schema(?)", [paths])
    names: dict[str, list[str]] = {}
    inside: list[int] = []  # how many columns are left in each structure, from the outermost
    for path, column, children in schema.fetchall():
        if len(inside) == 1:
            names.setdefault(path, []).append(column)
        inside[-1:] = [*(left - 1 for left in inside[-1:]), *([children] if children else [])]
        while inside and not inside[-1]:
            inside.pop()
    for path, whole in names.items():
        check_names(f"`{one_line(Path(path).name)}`", whole)


# ---------------------------------------------------------------- durations


def _units(connection: Connection, paths: list[str], table: EmbeddedTable) -> dict[str, dict[str, str | None]]:
    """Return the columns that Arrow knows as durations in some file: their unit in each file, None where they are none.

    Parquet has no type for them, so that they are whole numbers, and only the schema that Arrow adds has the unit.
    """
    whole = {column for column, kind in table.schema().items() if kind == "BIGINT"}
    if not whole:
        return {}
    import pyarrow as pa

    rows = connection.con.execute(
        "SELECT file_name, value FROM parquet_kv_metadata(?) WHERE key = 'ARROW:schema'::BLOB", [paths]
    )
    schemas: dict[str, pa.Schema] = {}
    for path, value in rows.fetchall():
        try:
            schemas[path] = pa.ipc.read_schema(pa.BufferReader(b64decode(value)))
        except (pa.ArrowException, ValueError, OSError):  # a note that cannot be read is ignored
            continue
    named = {
        field.name: None
        for schema in schemas.values()
        for field in schema
        if field.name in whole and pa.types.is_duration(field.type)
    }
    if not named:
        return {}
    columns = connection.con.execute(
        "SELECT file_name, name FROM parquet_schema(?) WHERE type = 'INT64'", [paths]
    ).fetchall()
    units: dict[str, dict[str, str | None]] = {column: {} for column in named}
    for path, column in columns:
        if column in units:
            place = schemas[path].get_field_index(column) if path in schemas else -1
            kind = schemas[path].field(place).type if place >= 0 else None
            units[column][path] = kind.unit if kind is not None and pa.types.is_duration(kind) else None
    return units


def _unlike(units: Mapping[str, str | None]) -> _Conflict | None:
    """Return the first file in which durations are unlike those before."""
    first = next(iter(units.values()))
    for path, unit in units.items():
        if unit != first:
            return _Conflict(path, _held(unit), _held(first))
    return None


def _held(unit: str | None) -> str:
    return "whole numbers" if unit is None else f"durations in {unit}"


def _with_durations(table: EmbeddedTable, units: Mapping[str, str | None]) -> EmbeddedTable:
    """Return a table whose whole numbers that are durations are durations."""
    changed = {
        column: Value(_DURATIONS[unit or "us"].format(f"t.{sql_name(column)}"), table, "INTERVAL")
        for column, unit in units.items()
    }
    return table.mutate(**changed) if changed else table


# ---------------------------------------------------------------- numbers and text


def _mixed(connection: Connection, files: Sequence[str], table: EmbeddedTable) -> dict[str, _Conflict]:
    """Return the columns that are text, because they are in some file, though they are numbers in others."""
    rows = connection.con.execute(
        "SELECT name FROM parquet_schema(?) WHERE type IS NOT NULL GROUP BY name HAVING count(DISTINCT type) > 1",
        [list(map(literal_path, files))],
    )
    types = table.schema()
    suspects = {name for (name,) in rows.fetchall() if types.get(name, Type("")).is_string()}
    mixed: dict[str, _Conflict] = {}
    firsts: dict[str, Type] = {}
    for path in files if suspects else ():
        for column, kind in connection.read_parquet([literal_path(path)]).schema().items():
            if column not in suspects - mixed.keys() or not (kind.is_string() or kind.is_numeric()):
                continue
            first = firsts.setdefault(column, kind)
            if first.is_string() != kind.is_string():
                mixed[column] = _Conflict(path, in_words(kind), in_words(first))
    return mixed
