"""File formats: how files end that are read, and how. A new format is one entry of `FORMATS`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from belated.base.errors import LogError, OptionError, argument
from belated.base.files import FileVersion, versions_of
from belated.base.text import one_line, shown
from belated.reading.contents import known_content, known_ending
from belated.reading.csv_files import csv_file
from belated.reading.csv_texts import TextFormat
from belated.reading.embedded import Connection, register
from belated.reading.engines import PARQUET, sentences
from belated.reading.inputs import Input, check_names, is_unknown, table_of_file
from belated.reading.parquet_files import parquet_files

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds


class Files(NamedTuple):
    """The files that a path, a folder or a glob stands for."""

    path: str  # as it was given
    paths: list[str]
    role: str  # what errors call them
    table: str | None  # which table, of a format that holds several
    versions: tuple[FileVersion, ...]
    form: TextFormat = TextFormat()  # how text is written in them

    @property
    def name(self) -> str:
        """Their name in sentences."""
        return one_line(Path(self.path).name or self.path)


@dataclass(frozen=True)
class FileFormat:
    """A file format.

    Attributes
    ----------
    name : str
    usual, suffixes : tuple of str
        How its files' names end: those that sentences name, and the others.
    read : callable
        From an embedded engine and files to a table.
    is_database : bool
        Whether a file holds tables with names of their own; then folders of such files are not read.
    is_kept_open : bool
        Whether files are read again for every answer, and therefore must not change.
    """

    name: str
    usual: tuple[str, ...]
    suffixes: tuple[str, ...]
    read: Callable[[Connection, Files], Input]
    is_database: bool = False
    is_kept_open: bool = False

    def fits(self, path: str) -> bool:
        """Whether a path ends as the format's files do."""
        return path.lower().endswith((*self.usual, *self.suffixes))


def format_of(path: str) -> FileFormat:
    """Return the format of a file, by its name."""
    for candidate in FORMATS:
        if candidate.fits(path):
            return candidate
    known = ", ".join(suffix for candidate in FORMATS for suffix in candidate.usual)
    help_ = known_ending(path)
    more = "" if help_ is None else f"; {help_}"
    raise OptionError(f"`{one_line(path)}` has an unknown format; its name must end in one of {known}{more}.")


def find_files(path: str, role: str, table: str | None, form: TextFormat | None = None) -> Files:
    """Return the files that a path, a folder or a glob stands for, in order of their names."""
    if any("\udc80" <= character <= "\udcff" for character in path):
        raise OptionError(f"The name of `{one_line(path)}` is not text in UTF-8; rename it.")
    if os.path.isdir(path):
        paths = sorted(str(file) for file in Path(path).rglob("*") if _is_part(file, file.relative_to(path)))
        if not paths:
            *names, last = [candidate.name for candidate in FORMATS if not candidate.is_database]
            raise OptionError(f"The folder `{one_line(path)}` holds no {', '.join(names)} or {last} file.")
    elif os.path.exists(path):
        paths = [path]
    elif re.search(r"[*?\[]", path):
        import glob

        paths = sorted(glob.glob(path, recursive=True))
        if not paths:
            raise OptionError(f"No file matches `{one_line(path)}`.")
    elif path == "-":
        raise OptionError("Standard input is not read, because a log is read more than once; write it to a file first.")
    else:
        raise OptionError(
            f"There is no file `{one_line(path, 200)}`; {argument(role)} must be a file, a folder or a table."
        )
    return Files(path, paths, role, table, versions_of(paths), form or TextFormat())


def looks_like_a_file(path: str) -> bool:
    """Whether text must be meant as a path, not as the name of a table."""
    return any(candidate.fits(path) for candidate in FORMATS) or "*" in path or os.sep in path


def read_files(connection: Connection, files: Files) -> Input:
    """Return files as one table of an embedded engine."""
    format_ = format_of(files.paths[0])
    odd = next((path for path in files.paths if format_of(path) is not format_), None)
    if odd is not None:
        raise OptionError(
            f"`{one_line(files.path)}` contains files of different formats, such as {files.paths[0]!r} and {odd!r}."
        )
    if files.table is not None and not format_.is_database:
        raise OptionError(
            f"{argument('table')} is {files.table!r}, but `{one_line(files.path)}` "
            "is not a database; it is one table itself."
        )
    versions = files.versions if format_.is_kept_open else ()
    with sentences(files.name, versions):
        return replace(format_.read(connection, files), files=tuple(files.paths), versions=versions)


def _is_part(file: Path, inside: Path) -> bool:
    """Whether a file in a folder is data, not hidden as the leftovers of other programs are."""
    if any(part.startswith((".", "_")) and "=" not in part for part in inside.parts):
        return False
    if file.is_dir():
        if file.is_symlink():
            raise OptionError(
                f"`{one_line(file, 200)}` is a link to a folder, which is not followed; name the files by a glob, such "
                "as 'logs/*/*.parquet'."
            )
        return False
    return any(candidate.fits(file.name) for candidate in FORMATS if not candidate.is_database)


# ---------------------------------------------------------------- how each is read


def _read_csv(connection: Connection, files: Files) -> Input:
    if len(files.paths) > 1:
        raise OptionError(f"`{one_line(files.path)}` is {len(files.paths)} CSV files; give one, or join them first.")
    return csv_file(connection, files.paths[0], files.name, files.role, files.form)


def _read_parquet(connection: Connection, files: Files) -> Input:
    return parquet_files(connection, files.paths, files.name, partitioned=_is_partitioned(files))


def _is_partitioned(files: Files) -> bool:
    """Whether folders below a path are named by values of a column, such as day=1."""
    path = files.path
    is_whole = os.path.isdir(path) or path in files.paths
    root = path if is_whole else os.path.dirname(re.split(r"[*?\[]", path)[0])
    return any("=" in part for file in files.paths for part in Path(os.path.relpath(file, root or ".")).parts[:-1])


def _read_arrow(connection: Connection, files: Files) -> Input:
    return Input(register(connection, _arrow_dataset(files.paths)), files.name, ordered=True)


def _arrow_dataset(paths: list[str]) -> ds.Dataset:
    """Return Arrow files as one; a column may be missing in some, or be of a narrower type."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    for path in paths:
        _check_arrow(path)
    schema = ds.dataset(paths[0], format="ipc").schema
    for path in paths[1:]:
        other = ds.dataset(path, format="ipc").schema
        try:
            schema = pa.unify_schemas([schema, other], promote_options="permissive")
        except pa.ArrowException:
            conflict = next(_conflicts(schema, other), None)
            if conflict is None:
                raise
            name, one, two = conflict
            raise LogError(
                f"Column {shown(name)} is of type {two} in `{one_line(Path(path).name)}`, but of type {one} in the "
                "files before it; it must be of one type."
            ) from None
    check_names(f"`{one_line(Path(paths[0]).name)}`" if len(paths) == 1 else "The folder", schema.names)
    for i, field in enumerate(schema):
        if is_unknown(field.type):
            schema = schema.set(i, field.with_type(pa.float64()))
    return ds.dataset(paths, format="ipc", schema=schema)


def _conflicts(one: pa.Schema, two: pa.Schema) -> Iterator[tuple[str, pa.DataType, pa.DataType]]:
    """Yield the columns whose types in two files cannot be one, and these types."""
    import pyarrow as pa

    for name in one.names:
        if len(one.get_all_field_indices(name)) != 1 or len(two.get_all_field_indices(name)) != 1:
            continue
        try:
            pa.unify_schemas([pa.schema([each.field(name)]) for each in (one, two)], promote_options="permissive")
        except pa.ArrowException:
            yield name, one.field(name).type, two.field(name).type


def _check_arrow(path: str) -> None:
    """Look at all of an Arrow file, batch by batch: whoever trusts its offsets reads memory that is not its own."""
    import pyarrow as pa

    try:
        with pa.OSFile(path) as file, pa.ipc.open_file(file) as reader:
            for i in range(reader.num_record_batches):
                reader.get_batch(i).validate(full=True)
    except (pa.ArrowException, MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the file system's
            raise
        name = one_line(Path(path).name)
        with open(path, "rb") as start:
            content = known_content(start.read(64))
        is_arrow = content is None or content.startswith("an Arrow file")
        what = "not an Arrow file, or it is incomplete or damaged" if is_arrow else f"not an Arrow file, but {content}"
        raise LogError(f"`{name}` cannot be read: it is {what}.") from None


def _read_database(connection: Connection, files: Files) -> Input:
    with open(files.path, "rb") as file:
        content = known_content(file.read(64))
    if content is not None and not content.startswith("a DuckDB"):
        raise LogError(f"`{files.name}` cannot be read: it is not a DuckDB database, but {content}.")
    return table_of_file(connection, files.path, files.table)


FORMATS = (
    FileFormat("Parquet", PARQUET[:1], PARQUET[1:], _read_parquet, is_kept_open=True),
    FileFormat("Arrow", (".arrow", ".feather"), (".ipc",), _read_arrow, is_kept_open=True),
    FileFormat("CSV", (".csv", ".tsv"), (".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst", ".tsv.zst"), _read_csv),
    FileFormat("DuckDB", (".duckdb",), (".ddb", ".db"), _read_database, is_database=True),
)
