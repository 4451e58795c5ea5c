from __future__ import annotations

import csv
import io
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belated.base.documents import csv_text
from belated.base.errors import OptionError
from belated.base.files import check_file, check_page, check_place, write_whole


def test_a_file_appears_whole_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "a.txt"
    assert write_whole(path, "é\n") == path
    assert path.read_bytes() == "é\n".encode()
    write_whole(str(path), b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_of_many_writers_one_wins(tmp_path):
    path = tmp_path / "a.txt"
    texts = [str(i) * 100_000 for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: write_whole(path, text), texts))
    assert path.read_text() in texts
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_cannot_be_written_is_said_and_the_old_file_stays(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OptionError, match="a label in it is not text"):
        write_whole(path, "\ud800")
    assert path.read_text() == "old"
    with pytest.raises(OptionError, match="cannot be written: No such file or directory"):
        write_whole(tmp_path / "no" / "a.txt", "")
    with pytest.raises(OptionError, match="cannot be written: Is a directory"):
        write_whole(tmp_path, "")
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
@pytest.mark.parametrize("refuses", [check_place, check_page, lambda path: write_whole(path, "")])
def test_a_name_that_no_file_can_have(tmp_path, name, refuses):
    with pytest.raises(OptionError, match=r"cannot be written: (File name too long|there is a null character in it)\."):
        refuses(tmp_path / f"{name}.html")
    assert not os.listdir(tmp_path)


def test_places(tmp_path):
    assert check_place(str(tmp_path / "new")) == tmp_path / "new"
    (tmp_path / "old").write_text("")
    assert check_place(tmp_path / "old") == tmp_path / "old"
    for path, words in {
        tmp_path / "no" / "x": "there is no folder",
        tmp_path: "it is a folder",
        "/dev/null": "it is not a file",
        5: "`path` is of type int; it must be the name of a file",
    }.items():
        with pytest.raises(OptionError, match=words):
            check_place(path)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_for_its_owner_alone_and_one_that_was_there_keeps_its_mode(tmp_path):
    before = os.umask(0o022)
    try:
        assert mode(write_whole(tmp_path / "new", "data")) == 0o600
        assert mode(write_whole(tmp_path / "open", "no data", private=False)) == 0o644
        for bits in (0o640, 0o444, 0o666):
            (tmp_path / "new").chmod(bits)
            assert mode(write_whole(tmp_path / "new", str(bits))) == bits
            assert (tmp_path / "new").read_text() == str(bits)
    finally:
        os.umask(before)


def test_what_is_read_only_stays(tmp_path, monkeypatch):
    """As root, whom permissions do not stop, `os.access` is asked on behalf of another user."""
    path, folder = tmp_path / "a.txt", tmp_path / "folder"
    path.write_text("old")
    folder.mkdir()
    path.chmod(0o444)
    folder.chmod(0o555)
    monkeypatch.setattr(os, "access", lambda each, mode: bool(os.stat(each).st_mode & 0o200))
    (tmp_path / "link").symlink_to(path)
    for place in (path, tmp_path / "link", folder / "new.txt"):
        for write in (check_place, lambda place: write_whole(place, "new")):
            with pytest.raises(OptionError, match="cannot be written: Permission denied"):
                write(place)
    assert path.read_text() == "old"
    assert not list(folder.iterdir())


def test_a_link_stays_one(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "real").write_text("old")
    (tmp_path / "link").symlink_to("folder/real")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "real").read_text() == "new"


def test_a_database_is_no_place_to_write(tmp_path):
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.execute("create table t (x)")
    connection.close()
    with pytest.raises(OptionError, match="it is a database, which would be lost"):
        check_place(path)
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as other:
        other.execute("create table t (x int)")
    with pytest.raises(OptionError, match="it is a database, which would be lost"):
        check_place(tmp_path / "shop.duckdb")
    path.write_text("text")
    assert check_place(path) == path


def test_what_is_read_is_no_place_to_write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "in").write_text("")
    (tmp_path / "other").write_text("")
    (tmp_path / "link").symlink_to("in")
    os.link("in", "hard")
    for same in ("in", tmp_path / "in", "folder/../in", "./in", "link", "hard"):
        for read in ("in", tmp_path / "in", "link", "hard"):
            with pytest.raises(OptionError, match="it is an input file, which would be lost"):
                check_place(same, ["nowhere", read])
    for apart in ("other", "new"):
        assert check_place(apart, ["in", "a\0b", "x" * 5000, ""]).name == apart


def test_csv_of_odd_values():
    columns = {"a": ["x,y", 'say "hi"', "two\nlines", None], "b": [1, 0.1, True, ""]}
    assert csv_text(columns, as_written=True) == 'a,b\n"x,y",1\n"say ""hi""",0.1\n"two\nlines",True\n,\n'


@given(st.lists(st.tuples(st.text(), st.floats(allow_nan=False)), max_size=10))
def test_csv_comes_back(rows):
    text = csv_text({"label": [label for label, _ in rows], "number": [number for _, number in rows]}, as_written=True)
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read[0] == ["label", "number"]
    assert [(label, float(number)) for label, number in read[1:]] == rows


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"), ("+1", "+1"), ("-1.5e-7", "-1.5e-7"), ("-1+1", "'-1+1"), ("-x", "'-x"),
        ("@SUM(A1)", "'@SUM(A1)"), ("  =1", "'  =1"), ("A-B", "A-B"), ("\x1b[31mred", "\\x1b[31mred"),
        ("\t=1", "\\t=1"), ("\r=1", "\\r=1"), ("\uff1d1", "'\uff1d1"), ("a\n=1", "a\\n=1"),
        ("\x9b31m", "\\x9b31m"), ("\x07", "\\x07"), ("\u202egnp", "\\u202egnp"), ("é", "é"), ("'x", "'x"),
    ],
)  # fmt: skip
def test_csv_is_harmless_to_terminals_and_spreadsheets(text, written):
    rows = list(csv.reader(io.StringIO(csv_text({text: [text, -1.5, -2, None, np.float64(-3.0)]}), newline="")))
    assert [row[0] if row else "" for row in rows] == [written, written, "-1.5", "-2", "", "-3.0"]


def test_columns_of_uneven_length_are_a_mistake():
    with pytest.raises(ValueError, match="shorter"):
        csv_text({"a": [1, 2], "b": [1]})


def test_pipes_and_devices_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    (tmp_path / "file.csv").write_text("")
    for path in (tmp_path / "file.csv", tmp_path, tmp_path / "nowhere"):
        check_file(path)
    for name in ("pipe.csv", "zero.csv"):
        with pytest.raises(OptionError, match=f"{name}` is a pipe or a device"):
            check_file(tmp_path / name)


def test_a_page_has_the_name_of_one_and_replaces_no_other_kind_of_file(tmp_path):
    path = tmp_path / "bought"
    for content in ("", "<!DOCTYPE html>\n<html>", "\n<!doctype html>"):
        path.write_text(content)
        assert check_page(path) == path
    for content in (b"id,outcome\n1,0\n", b"PAR1\x00"):
        path.write_bytes(content)
        with pytest.raises(OptionError, match=r"bought` cannot be written: it holds something other than a report"):
            check_page(path)
    for name in ("new.html", "new.HTM", "new"):
        assert check_page(tmp_path / name) == tmp_path / name
    for name in ("new.pdf", "new.csv", "new.html.gz"):
        with pytest.raises(OptionError, match=r"a report is an HTML page; name it new(\.html)?\.html\."):
            check_page(tmp_path / name)
