from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sqlite3
import zipfile

import duckdb
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from drawn import refused

from belated.reading.contents import is_live, is_sqlite, known_content

pytestmark = pytest.mark.usefixtures("empty_folder")

TABLE = pa.table({"arm": ["A", "B"], "outcome": [1, 0]})
TEXT = b"arm,outcome\nA,1\nB,0\n"


def _zip():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.csv", TEXT)
    return file.getvalue()


def _written(write):
    file = io.BytesIO()
    write(TABLE, file)
    return file.getvalue()


def _database(connect, name):
    connection = connect(name)
    connection.execute("CREATE TABLE t (a INTEGER)")
    connection.commit()
    connection.close()
    with open(name, "rb") as file:
        return file.read()


OTHERS = {
    "ZIP archive": _zip,
    "must end in .csv.gz": lambda: gzip.compress(TEXT),
    "Zstandard": lambda: pa.compress(TEXT, "zstd", asbytes=True),
    "bzip2": lambda: bz2.compress(TEXT),
    "compressed by xz": lambda: lzma.compress(TEXT),
    "Parquet": lambda: _written(pa.parquet.write_table),
    "Arrow": lambda: _written(pa.feather.write_feather),
    "DuckDB": lambda: _database(duckdb.connect, "d.duckdb"),
    "SQLite": lambda: _database(sqlite3.connect, "s.db"),
    "PDF": lambda: b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "picture": lambda: b"\x89PNG\r\n\x1a\n" + bytes(range(200)),
    "web page": lambda: b"\n<!doctype html>\n<html><body>arm,outcome</body></html>\n",
    "it is JSON": lambda: b'{"arm": "A", "outcome": 1}\n{"arm": "B", "outcome": 0}\n',
    "JSON; save": lambda: b'[{"arm": "A"}]',
}


@pytest.mark.parametrize("words", OTHERS)
def test_what_is_named_as_csv_and_is_something_else(words):
    content = OTHERS[words]()
    with open("a.csv", "wb") as file:
        file.write(content)
    refused(f"`a.csv` cannot be read as CSV: .*{words}", "a.csv")
    with gzip.open("a.csv.gz", "wb") as packed:
        packed.write(content)
    refused(f"`a.csv.gz` cannot be read as CSV: .*{words}", "a.csv.gz")


@pytest.mark.parametrize("checksum", [b"\x1f\x8b", b'["', b"<html>", b"PK\x03\x04", b"\xff\xd8\xff"])
def test_a_duckdb_database_is_one_whatever_its_checksum(checksum):
    content = OTHERS["DuckDB"]()
    assert known_content(checksum + content[len(checksum) : 64]).startswith("a DuckDB database")


MAY_BE_CSV = [TEXT, b"", b"PARTY,arm", b"BZh,arm", b"{arm},y", b"<5,y", b"[arm],y", b"%PD,arm", b'"{""a""}",y']
MAY_BE_CSV += [
    b"PAR1,arm,y\n",
    b"par1\tarm\n",
    b"fea1,arm",
    b"FEA1\n",
    b"gif8,arm",
    b"outcome,DUCK,arm\nA,1",
    b"outcome,duck,arm",
]


@pytest.mark.parametrize("start", MAY_BE_CSV)
def test_what_may_be_csv(start):
    assert known_content(start) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.xlsx", "save the sheet as CSV"),
        ("a.csv.bz2", "unpack it"),
        ("a.tar.gz", "unpack it"),
        ("a.parquet.gz", "of packed files, only"),
        ("a.jsonl", "save it as Parquet or CSV"),
        ("a.sqlite", "sqlite://PATH"),
        ("a.dat", "duckdb.$"),
    ],
)
def test_names_of_other_formats(name, words):
    with open(name, "wb") as file:
        file.write(b"x")
    refused(f"`{name}` has an unknown format; its name must end in one of .*{words}", name)


def test_other_files_are_not_taken_for_live_ones(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (x)")
    connection.close()
    assert is_sqlite(path)
    assert not is_live(path)
    (tmp_path / "short.csv").write_text("a")
    assert not is_live(tmp_path / "short.csv")
