"""Checksums of Parquet files, which DuckDB does not look at: damage must not change an answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

from belated.base.errors import LogError
from belated.base.text import one_line
from belated.reading.embedded import Connection

#: Bytes of a page's header that are read at first, and at most: it may hold the page's least and largest text.
_HEADER, _MOST = 1 << 8, 1 << 20

#: Structures inside each other in a header: its statistics are the second.
_DEEPEST = 8


class Chunk(NamedTuple):
    """A column of a group of rows: its pages, one after the other."""

    path: str
    column: str  # of nested columns, with the names inside
    start: int
    size: int


def chunks_with_checksums(connection: Connection, paths: list[str]) -> tuple[Chunk, ...]:
    """Return where the columns of those Parquet files are whose first page has a checksum; many files have none."""
    rows = connection.con.execute(
        "SELECT file_name, path_in_schema, "
        "CASE WHEN dictionary_page_offset > 0 THEN least(dictionary_page_offset, data_page_offset) "
        "ELSE data_page_offset END, total_compressed_size FROM parquet_metadata(?)",
        [paths],
    )
    chunks = [Chunk(*row) for row in rows.fetchall() if None not in row]
    firsts = {chunk.path: chunk for chunk in reversed(chunks)}
    checked = {path for path, chunk in firsts.items() if _has_checksum(chunk)}
    return tuple(chunk for chunk in chunks if chunk.path in checked)


def _has_checksum(chunk: Chunk) -> bool:
    with open(chunk.path, "rb") as file:
        header = _header(file, max(chunk.start, 0))
    return header is not None and header.checksum is not None


def check_pages(chunks: Collection[Chunk], columns: Collection[str]) -> None:
    """Raise if a page of one of the columns does not match its checksum."""
    inside = tuple(f"{column}, " for column in columns)
    used = [chunk for chunk in chunks if chunk.column in columns or chunk.column.startswith(inside)]
    for path in dict.fromkeys(chunk.path for chunk in used):
        with open(path, "rb") as file:
            for chunk in used:
                if chunk.path == path and any(crc32(page) != checksum for page, checksum in _pages(file, chunk)):
                    raise LogError(f"`{one_line(Path(path).name)}` cannot be read: it is a damaged Parquet file.")


def _pages(file: BinaryIO, chunk: Chunk) -> Iterator[tuple[bytes, int]]:
    """Return the pages of a column that have a checksum; what cannot be read is left to the engine to refuse."""
    start, end = chunk.start, chunk.start + chunk.size
    while 0 < start < end:
        header = _header(file, start)
        if header is None:
            return
        if header.checksum is not None:
            file.seek(start + header.length)
            yield file.read(header.size), header.checksum
        start += header.length + header.size


class _Header(NamedTuple):
    length: int
    size: int
    checksum: int | None


def _header(file: BinaryIO, start: int) -> _Header | None:
    """Return the header of a page, or None if there is no valid one."""
    length = _HEADER
    while length <= _MOST:
        file.seek(start)
        reader = _Compact(file.read(length))
        with suppress(IndexError):
            fields = reader.fields()
            size, checksum = fields.get(3), fields.get(4)
            if size is None or not 0 <= size < 1 << 31:
                return None
            return _Header(reader.at, size, None if checksum is None else checksum & 0xFFFFFFFF)
        length *= 8
    return None


class _Compact:
    """Thrift's compact protocol, as far as a page's header uses it; an IndexError says that bytes are missing."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fields(self, depth: int = 0) -> dict[int, int]:
        """Return the whole numbers of a structure by their field, and skip the rest."""
        numbers, field = dict[int, int](), 0
        if depth > _DEEPEST:
            raise IndexError
        while kind := self._byte():
            field = field + (kind >> 4) if kind >> 4 else _signed(self._varint())
            value = self._value(kind & 15, depth)
            if value is not None:
                numbers[field] = value
        return numbers

    def _value(self, kind: int, depth: int) -> int | None:
        if kind in (4, 5, 6):  # whole numbers
            return _signed(self._varint())
        if kind == 12:
            self.fields(depth + 1)
        elif kind == 8:  # text
            length = self._varint()
            self.at += length
        elif kind in (3, 7):  # a byte, a number of 8 bytes
            self.at += 1 if kind == 3 else 8
        elif kind not in (1, 2):  # true and false have no bytes; no header has lists or maps
            raise IndexError
        return None

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128 or shift > 63:
                return value


def _signed(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
