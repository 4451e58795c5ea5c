"""Checksums of Parquet files."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from drawn import DRAWN, ROWS, refused, same

import belated as bl
from belated.reading.embedded import connect
from belated.reading.parquet_pages import chunks_with_checksums

pytestmark = [pytest.mark.usefixtures("empty_folder"), pytest.mark.filterwarnings("ignore::belated.BelatedWarning")]


def written(name="a.parquet", **options):
    """Return the path of a log with a column that nobody uses, and the places of its columns."""
    table = DRAWN.wide().append_column("note", pa.array(["a note that is long " * 200] * ROWS))
    pa.parquet.write_table(table, name, **{"write_page_checksum": True, "row_group_size": 20, **options})
    return name, chunks_with_checksums(connect(), [os.path.abspath(name)])


def flipped(path, place):
    """Flip a bit of a file."""
    data = bytearray(Path(path).read_bytes())
    data[place] ^= 1
    Path(path).write_bytes(data)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("options", [{"compression": "none", "use_dictionary": False}, {"compression": "zstd"}])
def test_a_page_that_is_not_what_its_checksum_says_is_refused(version, options):
    path, chunks = written(data_page_version=version, **options)
    same(bl.read(path))
    used = [chunk for chunk in chunks if chunk.column != "note"]
    for chunk in (used[0], used[-1]):
        flipped(path, chunk.start + chunk.size - 1)
        refused("`a.parquet` cannot be read: it is a damaged Parquet file", path)
        flipped(path, chunk.start + chunk.size - 1)
    note = next(chunk for chunk in chunks if chunk.column == "note")
    flipped(path, note.start + note.size - 1)
    same(bl.read(path))


def test_nested_columns_and_folders_are_checked():
    nested = DRAWN.wide().drop(["p_A", "p_B"]).append_column("propensities", pa.array(DRAWN.p.tolist()))
    os.mkdir("folder")
    written("folder/a.parquet", write_page_checksum=False)
    pa.parquet.write_table(nested, "b.parquet", write_page_checksum=True)
    same(bl.read("b.parquet"))
    (chunk,) = (c for c in chunks_with_checksums(connect(), ["b.parquet"]) if c.column.startswith("propensities, "))
    flipped("b.parquet", chunk.start + chunk.size - 1)
    refused("`b.parquet` cannot be read: it is a damaged Parquet file", "b.parquet")
    path, chunks = written("folder/b.parquet")
    flipped(path, chunks[0].start + chunks[0].size - 1)
    refused("`b.parquet` cannot be read: it is a damaged Parquet file", "folder")


def test_files_without_checksums_are_not_read_twice():
    assert written(write_page_checksum=False)[1] == ()
