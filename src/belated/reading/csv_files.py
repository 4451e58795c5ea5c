"""CSV files: a look at their first rows, then one reading with the types that roles ask for."""

from __future__ import annotations

import csv
import gzip
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, TextIO

from belated.base.columns import Label
from belated.base.errors import LogError
from belated.base.text import one_line
from belated.reading.columns import ColumnKind
from belated.reading.embedded import Connection
from belated.reading.engines import fetch, kept, sentences
from belated.reading.inputs import FIRST_ROWS, Input

if TYPE_CHECKING:
    import ibis.expr.types as ir


#: Text that says there is nothing, in CSV.
_NOTHING = ["", "NA", "N/A", "NULL", "null", "None", "none", "<NA>", "NaT"]


#: What is meant as a number, if not always written as one, and dates of which it is sure what is the day.
_MEANT = r"^\s*[$€£]?\s*[-+]?[$€£]?(\d[\d.,_' ]*([eE][-+]?\d+)?|\.\d+|(?i:nan|inf|infinity))\s*[%$€£]?\s*$"


#: How the names of compressed files end, and what Arrow calls that.
_PACKINGS = {".gz": "gzip", ".zst": "zstd"}


#: What labels may be if they are written as such, and what DuckDB calls it.
_KINDS_OF_LABELS = {int: "int64", bool: "boolean", float: "float64"}


_SURE = r"^\d{4}|^(1[3-9]|[23]\d)\D|^\d\d?\D(1[3-9]|[23]\d)\D|^\d\d?\."


def literal_path(path: str) -> str:
    """Return a path that DuckDB takes for one file, whatever signs are in it."""
    return re.sub(r"([*?\[])", r"[\1]", os.path.abspath(path))


@dataclass(frozen=True)
class CsvFile(Input):
    """A CSV file.

    Attributes
    ----------
    path : str
    guessed : mapping
        Columns that the first rows do not tell the kind of: "other" if they are empty, "mixed" if most are numbers,
        but not all.
    unsure : mapping
        Columns of dates that might be read in two ways, each with an example.
    """

    path: str
    guessed: Mapping[str, ColumnKind] = field(default_factory=dict)
    unsure: Mapping[str, str] = field(default_factory=dict)

    @property
    def kinds(self) -> Mapping[str, ColumnKind]:
        """Columns of which more is known than their types tell."""
        return self.guessed

    def loaded(self, types: Mapping[str, str], columns: Iterable[str], arm: str) -> Input:
        """Return the same table, a CSV file's columns read once, as the types that they must have.

        What stands for nothing elsewhere, such as NA or None, may be the name of an arm.
        """
        wanted = [name for name in dict.fromkeys(columns) if name in self.table.columns]
        unsure = next((name for name in wanted if name in self.unsure), None)
        if unsure is not None:
            raise LogError(
                f"Column {one_line(repr(unsure))} has dates such as {self.unsure[unsure]!r}, which can be read in two "
                "ways; write them as 2026-03-01."
            )
        types = {name: kind for name, kind in types.items() if name in wanted}
        if arm in wanted:
            types[arm] = "VARCHAR"
        with sentences(self.name):
            table = self._read(wanted, types, _NOTHING)
            if arm in wanted and fetch(table.filter(table[arm].isnull()).limit(1)).num_rows:
                plain = _read_csv(self.connection, self.path, [""], types={arm: "VARCHAR"})
                labels = fetch(plain.filter(plain[arm].isin(_NOTHING)).select(arm).distinct())[arm].to_pylist()
                table = self._read(wanted, types, [text for text in _NOTHING if text not in labels])
            if arm in wanted:
                table = _with_labels(table, arm)
        return replace(self, table=table)

    def first_labels(self, arm: str) -> list[Label]:
        """Return the arms of the first rows, as `loaded` would have them."""
        texts = _read_csv(self.connection, self.path, _NOTHING, types={arm: "VARCHAR"}).select(arm)
        labels = fetch(texts.limit(FIRST_ROWS))[arm].drop_null().unique().to_pylist()
        kind = _kind_of_labels(labels)
        return labels if kind is None else [text == "True" if kind is bool else kind(text) for text in labels]

    def _read(self, columns: list[str], types: Mapping[str, str], nothing: list[str]) -> ir.Table:
        """Read columns once; whole numbers that turn out not to be are numbers."""
        try:
            return kept(self.connection, _read_csv(self.connection, self.path, nothing, types=types).select(*columns))
        except Exception as error:
            failed = re.search(
                r"Error when converting column \"(.*?)\". Could not convert string .* to 'BIGINT'", str(error)
            )
            if failed is None or failed[1] not in columns or failed[1] in types:
                raise
            return self._read(columns, {**types, failed[1]: "DOUBLE"}, nothing)


def _read_csv(connection: Connection, path: str, nothing: list[str], **options: object) -> ir.Table:
    return connection.read_csv(literal_path(path), nullstr=nothing, header=True, quote='"', escape='"', **options)


def csv_file(connection: Connection, path: str, name: str, role: str) -> CsvFile:
    """Return a CSV file, after a look at its first rows: what they hold, as text, tells more than their types."""
    import pyarrow.compute as pc

    _check_packed(path, name)
    table = _read_csv(connection, path, _NOTHING)
    columns = list(table.columns)
    if len(columns) == 1 and re.search(r"[,;\t|]", columns[0]):
        raise LogError(f"`{name}` cannot be read: {csv_fault(path)}")
    _check_names(path, name, columns)
    some = fetch(_read_csv(connection, path, _NOTHING, all_varchar=True).limit(FIRST_ROWS))
    if not some.num_rows and role == "source":
        raise LogError(f"`{name}` has no rows; it needs a line of names, and one for each assignment.")
    kinds: dict[str, ColumnKind] = {}
    unsure: dict[str, str] = {}
    for column, dtype in table.schema().items() if some.column_names == columns else ():
        texts = some[column].drop_null()
        if not len(texts):
            kinds[column] = "other"
        elif dtype.is_string() and 2 * pc.sum(pc.match_substring_regex(texts, _MEANT)).as_py() > len(texts):
            kinds[column] = "mixed"
        elif dtype.is_temporal() and not pc.any(pc.match_substring_regex(texts, _SURE)).as_py():
            unsure[column] = texts[0].as_py()
    return CsvFile(table=table, name=name, ordered=True, path=path, guessed=kinds, unsure=unsure)


def _check_packed(path: str, name: str) -> None:
    """Unpack a compressed file once, to its end: DuckDB looks neither at checksums nor for a missing end."""
    import pyarrow as pa

    packing = next((packing for suffix, packing in _PACKINGS.items() if path.lower().endswith(suffix)), None)
    if packing is None:
        return
    block = bytearray(1 << 20)
    try:
        with pa.input_stream(path, compression=packing) as unpacked:
            while unpacked.readinto(block):
                pass
    except OSError as error:
        if error.errno is not None:  # the file system's, not the packing's
            raise
        raise LogError(
            f"`{name}` cannot be read: it is not a {packing.upper()} file, or not all of it, or it is damaged."
        ) from None


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


def _check_names(path: str, name: str, columns: list[str]) -> None:
    """Refuse names that come twice, of which DuckDB would make another, and those that it could not find again."""
    bad = next((column for column in columns if "\0" in column), None)
    if bad is not None:
        raise LogError(f"`{name}` has a column named {one_line(repr(bad))}; a name cannot have that character in it.")
    if not any(re.sub(r"_\d+$", "", column) in columns for column in columns if re.search(r"_\d+$", column)):
        return
    with _opened(path) as file:
        names = next((line for line in csv.reader(file, delimiter=_separator(path)) if len(line) == len(columns)), [])
    twice = next((text for text, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise LogError(f"`{name}` has several columns named {one_line(repr(twice))}; each must have a name of its own.")


def _opened(path: str) -> TextIO:
    if path.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="strict", newline="")
    return open(path, encoding="utf-8-sig", errors="strict", newline="")


def _separator(path: str) -> str:
    with _opened(path) as file:
        lines = [line for line in islice(file, 100) if line.strip() and not line.startswith("#")]
    return max(",;\t|", key=(lines or [""])[0].count)


def csv_fault(path: str) -> str:
    """Return what keeps a file from being read as CSV."""
    line = 1
    try:
        separator = _separator(path)
        with _opened(path) as file:
            reader = csv.reader(file, delimiter=separator, strict=True)
            width = len(next(reader))
            for fields in islice(reader, 10 * FIRST_ROWS):
                line = reader.line_num
                if fields and len(fields) != width:
                    return f"line {line:,} has {len(fields)} fields, but the first line has {width}."
    except UnicodeDecodeError:
        return "it is not text in UTF-8; save it as such."
    except csv.Error as error:
        return f"{error} after line {line:,}: a quotation mark is not closed, or not followed by a separator."
    except (OSError, EOFError, StopIteration):
        pass
    return "it is not a table in CSV, with a line of names and as many fields in every line."


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
    try:
        value = kind(text)
    except ValueError:
        return False
    return str(value) == text and (abs(value) < 2**63 if kind is int else math.isfinite(value))
