"""CSV files: a look at their first rows, then one reading of each column as its role asks for."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TextIO

from belated.base.columns import Label
from belated.base.errors import BelatedError, LogError, OptionError, argument
from belated.base.text import count, one_line, shown
from belated.reading.columns import ColumnKind
from belated.reading.contents import known_content
from belated.reading.csv_texts import (
    YEAR_LAST_SQL,
    DateOrder,
    TextFormat,
    TextRule,
    Use,
    advice,
    as_duration,
    as_number,
    as_time,
    as_truth,
    as_whole,
    as_written,
    compact_pattern,
    has_year_last,
    kind_of_texts,
    truths_of,
    zones_of,
)
from belated.reading.embedded import Connection, literal_path, new_name, sql_text
from belated.reading.engines import fetch, sentences
from belated.reading.expressions import sql_name
from belated.reading.inputs import FIRST_ROWS, Input, alike_names, check_names

if TYPE_CHECKING:
    import ibis.expr.types as ir


#: What may stand between fields.
_SEPARATORS = ",;\t|"

#: What else may, if every record then has as many fields; of the last two, Hive and others write the first.
_RARE_SEPARATORS = ": ^~\x01\x1f"


#: The name endings of compressed files, and Arrow's name of each compression.
_PACKINGS = {".gz": "gzip", ".zst": "zstd"}

#: How many bytes of a file's end must hold the last line.
_END = 1 << 23

#: Characters of a line that we look at; DuckDB reads lines of up to 2 MB.
_LONGEST_LINE = 1 << 21

#: Lines and characters that tell how a file is laid out.
_FIRST_LINES, _FIRST_CHARACTERS = 1_000, 1 << 23


#: The kinds of labels that are read from text, and DuckDB's type of each.
_KINDS_OF_LABELS = {int: "int64", bool: "boolean", float: "float64"}


#: The marks with which files begin that are not UTF-8, the longest first.
_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF16_LE: "utf-16",
          codecs.BOM_UTF16_BE: "utf-16"}  # fmt: skip


@dataclass(frozen=True)
class CsvFile(Input):
    """A CSV file; its `table` holds every column as text.

    Attributes
    ----------
    path : str
    form : TextFormat
    first : mapping
        Of each column, the texts of the first rows that are not empty.
    guessed : mapping
        Of each column, what those hold.
    """

    path: str
    form: TextFormat
    first: Mapping[str, Sequence[str]] = field(default_factory=dict)
    guessed: Mapping[str, ColumnKind] = field(default_factory=dict)

    @property
    def kinds(self) -> Mapping[str, ColumnKind]:
        """The kind of each column, according to the first rows."""
        return self.guessed

    def loaded(self, uses: Mapping[str, Use], *, percent: bool = False) -> Input:
        """Return the columns that are used, read once, as their uses ask for; arms are named as they are written."""
        with sentences(self.name), _explained(self.path, self.form):
            readings = {column: self._reading(column, use, percent) for column, use in uses.items()}
            table = self._kept(readings)
            for column, use in uses.items():
                table = _with_labels(table, column) if use == "label" else table
        line = partial(_place, self.path, self.form)
        return Input(table, self.name, ordered=True, files=self.files, line=line)

    def first_labels(self, arm: str) -> list[Label]:
        """Return the arms of the first rows, as `loaded` would have them."""
        labels = list(dict.fromkeys(self.first[arm]))
        kind = _kind_of_labels(labels)
        return [*labels] if kind is None else [text == "True" if kind is bool else kind(text) for text in labels]

    def zones(self, column: str) -> set[bool]:
        """Return whether the times of the first rows have a zone."""
        texts, kind = self._texts(column)
        return zones_of(texts, self.form) if kind in ("time", "text") else set()

    def _reading(self, column: str, use: Use, percent: bool) -> TextRule:
        """Return how a column is read, by its use and by what its first rows hold."""
        texts, kind = self._texts(column)
        if use in ("label", "key") or (use == "share" and kind in ("text", "boolean", "time", "duration")):
            return as_written(use)
        if use == "outcome" and kind == "boolean":
            return as_truth(use, truths_of(texts))
        if use == "delay" and kind == "duration":
            return as_duration(use)
        if use == "time" and kind == "other":
            return as_written(use)  # nothing is there
        if use == "time" and (kind in ("time", "text", "boolean", "duration") or self.form.pattern is not None):
            return as_time(use, self.form, self._order(column, texts))
        if use == "time" and kind == "integer" and (pattern := compact_pattern(texts)) is not None:
            return as_time(use, replace(self.form, date_format=pattern), None)
        if use in ("time", "delay") and kind == "integer":
            return as_whole(use)
        return as_number(use, self.form, percent=percent and use == "share")

    def _texts(self, column: str) -> tuple[Sequence[str], ColumnKind]:
        """Return the first texts of a column, and their kind; if the first rows hold none, those of later rows."""
        if self.guessed[column] != "other":
            return self.first[column], self.guessed[column]
        text = sql_name(column)
        rows = self.connection.con.execute(
            f"SELECT {text} FROM {self._sql} WHERE NOT {as_written('outcome').missing(text)} LIMIT {FIRST_ROWS}"  # noqa: S608
        )
        texts = [row[0] for row in rows.fetchall()]
        return texts, kind_of_texts(texts, self.form)

    def _order(self, column: str, texts: Sequence[str]) -> DateOrder | None:
        """Return which of day and month comes first where the year comes last, if every date together tells."""
        if self.form.date_format is not None or not has_year_last(texts):
            return self.form.order
        text = sql_name(column)
        first, second = (
            f"TRY_CAST(regexp_extract({text}, '{YEAR_LAST_SQL}', {group}) AS INTEGER) > 12" for group in (1, 2)
        )
        examples = self.connection.con.execute(
            f"SELECT arg_min({text}, n) FILTER ({first}), arg_min({text}, n) FILTER ({second}) "  # noqa: S608
            f"FROM (SELECT {text}, row_number() OVER () AS n FROM {self._sql})"
        ).fetchone()
        by_day, by_month = examples or (None, None)
        if (by_day is None) == (by_month is None):
            example = next(each.strip() for each in texts if has_year_last([each]))
            examples_text = (
                f"such as {shown(example)}, which can be read in two ways"
                if by_day is None
                else f"such as {shown(by_day)}, with the day first, and {shown(by_month)}, with the month first"
            )
            raise LogError(
                f"Column {shown(column)} has dates {examples_text}; give their format with {argument('date_format')}: "
                "day-first, month-first or a pattern such as '%d/%m/%Y'."
            )
        return "month-first" if by_day is None else "day-first"

    @property
    def _sql(self) -> str:
        return sql_name(self.table.op().name)

    def _kept(self, readings: Mapping[str, TextRule]) -> ir.Table:
        """Read columns into the engine; whole numbers that turn out not to be are numbers."""
        name = new_name()
        values = ", ".join(f"{reading.sql(sql_name(c))} AS {sql_name(c)}" for c, reading in readings.items())
        try:
            self.connection.raw_sql(f"CREATE TEMP TABLE {name} AS SELECT {values} FROM {self._sql}")  # noqa: S608
        except Exception as error:
            if "unreadable: " not in str(error):
                raise
            whole = [column for column, reading in readings.items() if reading.must == "a whole number"]
            numbers = {column: as_number(readings[column].use, self.form) for column in whole}
            fault = self._fault({**readings, **numbers})
            if fault is not None:
                raise fault from None
            return self._kept({**readings, **numbers})
        return self.connection.table(name)

    def _fault(self, readings: Mapping[str, TextRule]) -> LogError | None:
        """Return what is wrong with the first value that cannot be read."""
        firsts = []
        for column, reading in readings.items():
            text = sql_name(column)
            rejected = self.connection.con.execute(
                f"SELECT min(n), arg_min({text}, n) FROM (SELECT {text}, row_number() OVER () - 1 AS n "  # noqa: S608
                f"FROM {self._sql}) WHERE {reading.faulty(text)}"
            ).fetchone()
            if rejected is not None and rejected[0] is not None:
                firsts.append((rejected[0], column, rejected[1]))
        if not firsts:
            return None
        row, column, text = min(firsts, key=lambda first: first[0])
        reading = readings[column]
        more = advice(text, reading, self.form)
        return LogError(
            f"`{self.name}` cannot be read: {_place(self.path, self.form, row)} has {shown(text)} in column "
            f"{shown(column)}; it must be {reading.must}{'; ' if more else ''}{more}.",
            row=row,
        )


def csv_file(connection: Connection, path: str, name: str, role: str, form: TextFormat) -> CsvFile:
    """Return a CSV file, after a look at its first rows: what they hold, as text, tells of which kind columns are."""
    _check_end(_end_of(path, name), name)
    _check_pattern(connection, form)
    with _unpacked(path) as file:
        if (content := known_content(file.read(64))) is not None:
            raise LogError(f"`{name}` cannot be read as CSV: it is {content}.")
    encoding = form.encoding or _marked_encoding(path)
    try:
        layout = _layout(path, encoding)
    except UnicodeError:
        raise LogError(f"`{name}` cannot be read: {_not_text(form)}") from None
    except csv.Error:
        raise LogError(
            f"`{name}` cannot be read: its first line has a field of more than 128 KB, or more than 2 MB in all; it "
            "must hold the column names."
        ) from None
    if not layout.names:
        raise LogError(f"`{name}` has no rows; it needs a line of column names, and a line for each assignment.")
    if len(layout.names) == 1 and re.search(f"[{_SEPARATORS}{_RARE_SEPARATORS}]", layout.names[0]):
        fault = csv_fault(path, form) or (
            f"its first line, {shown(layout.names[0])}, is a single field; it must hold the column names, separated by "
            "commas, semicolons, tabs or vertical bars."
        )
        raise LogError(f"`{name}` cannot be read: {fault}")
    _check_names(name, layout.names)
    table = _texts(connection, path, layout, encoding, form, name)
    with sentences(name), _explained(path, form):
        some = fetch(table.limit(FIRST_ROWS))
    if not some.num_rows and role == "source":
        raise LogError(f"`{name}` has no rows; it needs a line of column names, and a line for each assignment.")
    first = {column: some[column].drop_null().to_pylist() for column in layout.names}
    if _valued(layout.names) and all(_is_like(column, texts) for column, texts in first.items()):
        raise _no_names(name, layout.names)
    kinds = {column: kind_of_texts(texts, form) for column, texts in first.items()}
    return CsvFile(table=table, name=name, ordered=True, path=path, form=form, first=first, guessed=kinds)


def _check_pattern(connection: Connection, form: TextFormat) -> None:
    """Refuse a pattern of dates that the engine cannot read."""
    if form.pattern is not None:
        try:
            connection.con.execute("SELECT try_strptime('', ?)", [form.pattern]).fetchone()
        except Exception:
            raise OptionError(
                f"{argument('date_format')} is {shown(form.pattern)}; it must be 'day-first', 'month-first' or a "
                "pattern such as '%d.%m.%Y'."
            ) from None


# ---------------------------------------------------------------- how a file is laid out


class _Layout(NamedTuple):
    """The separator of fields, the number of lines to skip, and the names of the columns."""

    separator: str
    skip: int
    names: list[str]


def _layout(path: str, encoding: str | None) -> _Layout:
    """Return how a file is laid out, as its first two records tell: more fields, as many in both, are more likely."""
    with _opened(path, encoding) as file:
        lines = list(_first_lines(file))
    skip = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    named = re.fullmatch(r'"?sep=(.)"?\s*', lines[skip], re.IGNORECASE) if lines[skip:] else None
    skip += named is not None  # spreadsheets are told so
    best: tuple[bool, int, list[str], str] | None = None
    too_long: csv.Error | None = None
    for separator in _SEPARATORS if named is None else named[1]:
        records = (record for record in csv.reader(lines[skip:], delimiter=separator) if record)
        try:
            names = next(records, [])
        except csv.Error as error:
            too_long = error
            continue
        try:
            fields = len(next(records, names))
        except csv.Error:  # a very long field
            fields = len(names)
        fits = fields == len(names) or (fields == len(names) + 1 and separator == ",")
        if best is None or (fits and len(names) > 1, len(names)) > (best[0], best[1]):
            best = fits and len(names) > 1, len(names), names, separator
    if best is None and too_long is not None:
        raise too_long
    if best is None:
        return _Layout(",", skip, [])
    names = [name or f"column{i}" for i, name in enumerate(best[2])]
    rare = None if len(names) > 1 else _rare_separator(lines[skip:])
    return _Layout(best[3], skip, names) if rare is None else _Layout(rare[0], skip, rare[1])


def _rare_separator(lines: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return an unusual separator by which every record has the same number of fields, at least two, and the names."""
    for separator in _RARE_SEPARATORS:
        try:
            records = [record for record in csv.reader(lines, delimiter=separator) if record]
        except csv.Error:
            continue
        widths = {len(record) for record in records}
        if len(records) > 1 and len(widths) == 1 and min(widths) > 1 and all(records[0]):
            return separator, records[0]
    return None


def _texts(
    connection: Connection, path: str, layout: _Layout, encoding: str | None, form: TextFormat, name: str
) -> ir.Table:
    """Return a file's columns as text: a view of it, or, if it is not in UTF-8, a table in the engine."""
    table = new_name()

    def sql(source: str) -> str:
        columns = ", ".join(f"'{sql_text(column)}': 'VARCHAR'" for column in layout.names)
        return (
            f"FROM read_csv('{sql_text(literal_path(source))}', auto_detect = false, header = true, "
            f"columns = {{{columns}}}, delim = '{layout.separator}', quote = '\"', escape = '\"', "
            f"skip = {layout.skip}) QUALIFY row_number() OVER () > 0"  # DuckDB 2.0.0 mixes up rows that nobody counts
        )

    with sentences(name), _explained(path, form):
        if encoding is None:
            connection.raw_sql(f"CREATE TEMP VIEW {table} AS {sql(path)}")
        else:
            with _in_utf8(path, encoding, name, form) as copy:
                connection.raw_sql(f"CREATE TEMP TABLE {table} AS {sql(copy)}")
        return connection.table(table)


@contextmanager
def _in_utf8(path: str, encoding: str, name: str, form: TextFormat) -> Iterator[str]:
    """Give a copy of a file in UTF-8, which is there only meanwhile."""
    with tempfile.TemporaryDirectory(prefix="belated-") as folder:
        copy = os.path.join(folder, "copy.csv")
        try:
            with _opened(path, encoding) as file, open(copy, "w", encoding="utf-8", newline="") as out:
                while block := file.read(1 << 20):
                    out.write(block)
        except UnicodeError:
            raise LogError(f"`{name}` cannot be read: {_not_text(form)}") from None
        yield copy


def _marked_encoding(path: str) -> str | None:
    """Return the encoding that the file's first bytes say it is in; None: UTF-8."""
    with _unpacked(path) as file:
        start = file.read(4)
    return next((encoding for mark, encoding in _MARKS.items() if start.startswith(mark)), None)


def _not_text(form: TextFormat) -> str:
    if form.encoding is not None:
        return f"it is not text in {form.encoding}; give its encoding with {argument('encoding')}."
    return (
        f"it is not text in UTF-8; give its encoding with {argument('encoding')}, such as 'latin-1', 'cp1252' (Excel "
        "in Western Europe) or 'utf-16'."
    )


def _check_end(end: bytes, name: str) -> None:
    """Refuse a file whose last line is too long: DuckDB leaves it out, unlike those before, and says nothing."""
    if len(end) == _END and not re.search(b"[\n\r]", end[:-2]):
        raise LogError(
            f"`{name}` cannot be read: its last line has more than {_END >> 20} MB; a line may have 2 MB at most."
        )


def _end_of(path: str, name: str) -> bytes:
    """Return the last bytes of a file's text.

    A compressed file is unpacked once, to its end: DuckDB looks neither at checksums nor for a missing end.
    """
    import pyarrow as pa

    packing = next((packing for suffix, packing in _PACKINGS.items() if path.lower().endswith(suffix)), None)
    if packing is None:
        with open(path, "rb") as file:
            file.seek(max(os.path.getsize(path) - _END, 0))
            return file.read(_END)
    if not os.path.getsize(path):
        raise LogError(f"`{name}` cannot be read: it is not a {packing.upper()} file, because it is empty.")
    end = b""
    try:
        with pa.input_stream(path, compression=packing) as unpacked:
            while block := unpacked.read(_END):
                end = (end + block)[-_END:]
    except OSError as error:
        if error.errno is not None:  # the file system's, not the packing's
            raise
        raise LogError(
            f"`{name}` cannot be read: it is not a {packing.upper()} file, or it is incomplete or damaged."
        ) from None
    return end


def lacks_checksum(path: str) -> bool:
    """Whether a file is compressed by Zstandard without a checksum, so that damage may go unnoticed."""
    if not path.lower().endswith(".zst"):
        return False
    with open(path, "rb") as file:
        start = file.read(8)
        while len(start) == 8 and start[1:4] == b"\x2a\x4d\x18" and start[0] & 0xF0 == 0x50:  # a frame to be skipped
            file.seek(int.from_bytes(start[4:], "little"), 1)
            start = file.read(8)
    return start.startswith(b"\x28\xb5\x2f\xfd") and len(start) > 4 and not start[4] & 0x04


def _check_names(name: str, columns: list[str]) -> None:
    """Refuse names that the engine could not tell apart, or not find again."""
    bad = next((column for column in columns if "\0" in column), None)
    if bad is not None:
        encoding = "utf-16-be" if columns[0].startswith("\0") else "utf-16-le"  # the mark that tells is missing
        raise LogError(
            f"`{name}` has a column named {shown(bad)}; a name cannot contain that character. If the file is in "
            f"UTF-16, use {argument('encoding', encoding)}."
        )
    if alike_names(columns) and 2 * len(_valued(columns)) >= len(columns):
        raise _no_names(name, columns)
    check_names(f"`{name}`", columns)


def _valued(names: Iterable[str]) -> list[str]:
    """Return the names that are numbers, dates or times."""
    return [name for name in names if re.fullmatch(r"[-+]?\d[\d.,:/ T-]*%?", name)]


def _is_like(name: str, texts: Sequence[str]) -> bool:
    """Whether a column's name is like the values below it: one of them, or a number, date or code as they are."""
    shapes = {_shape(text) for text in texts[:100]}
    return name in texts or (shapes == {_shape(name)} and "9" in _shape(name))


def _shape(text: str) -> str:
    """Return text with the same sign for every number, letters and marks as they are."""
    return re.sub(r"[-+]?\d+(\.\d+)?", "9", text.strip())


def _no_names(name: str, columns: Sequence[str]) -> LogError:
    values = ", ".join(map(shown, columns[:3]))
    return LogError(
        f"`{name}` cannot be read: its first line seems to hold values ({values}{', ...' if columns[3:] else ''}); it "
        "must hold the column names."
    )


def _opened(path: str, encoding: str | None = None) -> TextIO:
    return io.TextIOWrapper(_unpacked(path), encoding=encoding or "utf-8-sig", errors="strict", newline="")


def _unpacked(path: str) -> BinaryIO | gzip.GzipFile | io.BufferedReader:
    if path.lower().endswith(".gz"):
        return gzip.open(path, "rb")
    if path.lower().endswith(".zst"):
        import pyarrow as pa

        return io.BufferedReader(pa.input_stream(path, compression="zstd"))
    return open(path, "rb")


@contextmanager
def _opened_at_names(path: str, form: TextFormat) -> Iterator[tuple[TextIO, _Layout]]:
    """Open a file at the line with the names of its columns; give its layout, too."""
    encoding = form.encoding or _marked_encoding(path)
    layout = _layout(path, encoding)
    with _opened(path, encoding) as file:
        for _ in islice(file, layout.skip):
            pass
        yield file, layout


def _first_lines(file: TextIO) -> Iterator[str]:
    """Yield the lines that tell how a file is laid out; one that is too long ends them, unless it is the first."""
    size = 0
    lines = islice(_lines(file), _FIRST_LINES)
    while size < _FIRST_CHARACTERS:
        try:
            line = next(lines, "")
        except csv.Error:
            if not size:
                raise
            return
        if not line:
            return
        size += len(line)
        yield line


def _lines(file: TextIO) -> Iterator[str]:
    """Yield lines; one that nobody can read is an error before all of it is in memory: small files may unpack to it."""
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and line[-1] not in "\n\r":
            raise csv.Error("line larger than any that is read")
        yield line


def _place(path: str, form: TextFormat, row: int) -> str:
    """Return which line a row begins in; lines may be empty, and rows may go over several."""
    try:
        with _opened_at_names(path, form) as (file, layout):
            reader = csv.reader(_lines(file), delimiter=layout.separator)
            line, record_number = 0, -1
            for record in reader:
                if record and (record_number := record_number + 1) > row:
                    return f"line {layout.skip + line + 1:,}"
                line = reader.line_num
    except (csv.Error, UnicodeError, StopIteration):
        pass
    return f"row {row}"


@contextmanager
def _explained(path: str, form: TextFormat) -> Iterator[None]:
    """Say in our own words what DuckDB could not read, as far as our own look at the file tells."""
    try:
        yield
    except BelatedError:
        raise
    except Exception as error:
        if "CSV" in str(error) and (fault := csv_fault(path, form)) is not None:
            raise LogError(f"`{one_line(os.path.basename(path))}` cannot be read: {fault}") from None
        raise


def csv_fault(path: str, form: TextFormat) -> str | None:
    """Return what keeps a file from being read as CSV; None: nobody knows."""
    line = 1
    try:
        with _opened_at_names(path, form) as (file, layout):
            reader = csv.reader(_lines(file), delimiter=layout.separator, strict=True)
            width = len(next(reader))
            for fields in islice(reader, 10 * FIRST_ROWS):
                line = layout.skip + reader.line_num
                if fields and len(fields) != width:
                    return f"line {line:,} has {count(len(fields), 'field')}, but the first line has {width}."
            if isinstance(file.newlines, tuple):
                return "its lines end in different ways; save it with line ends of one kind, LF or CR LF."
    except UnicodeError:
        return _not_text(form)
    except csv.Error as error:
        if " larger " in str(error):
            return None
        return f"{error} after line {line:,}: a quotation mark is not closed, or not followed by a separator."
    except (OSError, EOFError, StopIteration):
        pass
    return None


# ---------------------------------------------------------------- labels


def _with_labels(table: ir.Table, arm: str) -> ir.Table:
    """Return arms that were read as text as numbers or truths, if that is how each of them would be written."""
    kind = _kind_of_labels(fetch(table.select(arm).distinct())[arm].drop_null().to_pylist())
    return table if kind is None else table.mutate(**{arm: table[arm].cast(_KINDS_OF_LABELS[kind])})


def _kind_of_labels(labels: Iterable[str]) -> type | None:
    """Return what labels can be taken for without changing or merging any, as 1.1 and 1.10 would be."""
    texts = list(labels)
    return next((kind for kind in _KINDS_OF_LABELS if all(_is_written(kind, text) for text in texts)), None)


def _is_written(kind: type, text: str) -> bool:
    """Whether text is how a value of a kind is written, to the letter."""
    if kind is bool:
        return text in ("True", "False")
    if text == "-0.0":  # equal to 0.0
        return False
    try:
        value = kind(text)
    except ValueError:
        return False
    return str(value) == text and (abs(value) < 2**63 if kind is int else math.isfinite(value))
