"""The kind of a file, by its first bytes or name: SQLite, live experiments, or one that cannot be read."""

from __future__ import annotations

import os
import re

#: What the header of a file of live experiments has as its application: "bltd".
APPLICATION = 0x626C7464

_SQLITE = b"SQLite format 3\x00"

#: How files begin that are not CSV, and what they are. A DuckDB database begins with a checksum, which may look like
#: anything, so it is the first; after letters that a CSV file may begin with, what follows is no text.
_BEGINNINGS = (
    (rb".{8}DUCK.{2}\x00{6}", "a DuckDB database; its name must end in .duckdb"),
    (rb"PK\x03\x04", "a ZIP archive or a spreadsheet; unpack it, or save the sheet as CSV"),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a spreadsheet or document of an office program; save the sheet as CSV"),
    (rb"\x1f\x8b", "compressed by gzip; its name must end in .csv.gz"),
    (rb"\x28\xb5\x2f\xfd", "compressed by Zstandard; its name must end in .csv.zst"),
    (rb"BZh\d1AY&SY", "compressed by bzip2; unpack it"),
    (rb"\xfd7zXZ\x00", "compressed by xz; unpack it"),
    (rb"PAR1[^\t\n\r -~]", "a Parquet file; its name must end in .parquet"),
    (rb"ARROW1\x00\x00", "an Arrow file; its name must end in .arrow"),
    (rb"\xff\xff\xff\xff.{3}\x00", "an Arrow stream; write it as an Arrow file, such as with pyarrow.ipc.new_file"),
    (rb"FEA1[^\t\n\r -~]", "a Feather file of version 1; write it again with version 2"),
    (re.escape(_SQLITE), "an SQLite database; give it as sqlite://PATH"),
    (rb"%PDF-", "a PDF document; save the table as CSV"),
    (rb"\x89PNG|\xff\xd8\xff|GIF8[79]a", "a picture; save the table as CSV"),
    (rb"(?i:\s*<(!DOCTYPE|\?xml|html|head|body|table))", "a web page or XML; save the table as CSV"),
    (rb'\s*(\{\s*"|\[\s*[{"])', "JSON; save the table as CSV or Parquet"),
)

#: Name endings of files that are not read, and what to do instead.
_ENDINGS = (
    (r"\.(xlsx?|xlsm|xlsb|ods|numbers)", "save the sheet as CSV"),
    (
        r"\.(bz2|xz|lz4|lzma|7z|zip|rar|tar|tgz|tar\.\w+|gzip|br)",
        "unpack it, or pack a CSV file as .csv.gz or .csv.zst",
    ),
    (r"\.(gz|zst|zstd)", "of packed files, only .csv.gz, .tsv.gz, .txt.gz, .csv.zst and .tsv.zst are read"),
    (
        r"\.(json|jsonl|ndjson|avro|orc|xml|html?|pkl|pickle|rds|rdata|dta|sav|sas7bdat|h5|hdf5)",
        "save it as Parquet or CSV",
    ),
    (r"\.arrows", "write an Arrow stream as an Arrow file, .arrow"),
    (r"\.(sqlite3?)", "give an SQLite database as sqlite://PATH"),
)


def is_sqlite(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as SQLite's do."""
    with open(path, "rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def is_live(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a store of live experiments, by its header."""
    with open(path, "rb") as file:
        head = file.read(100)
    return head.startswith(_SQLITE) and head[68:72] == APPLICATION.to_bytes(4, "big")


def known_content(start: bytes) -> str | None:
    """Return what a file with these first bytes is, and what to do with it; None if it may be CSV."""
    return next((what for pattern, what in _BEGINNINGS if re.match(pattern, start, re.DOTALL)), None)


def known_ending(path: str) -> str | None:
    """Return what to do with a file that is not read, by the end of its name; None if that is unknown."""
    return next((what for pattern, what in _ENDINGS if re.search(f"{pattern}$", path, re.IGNORECASE)), None)
