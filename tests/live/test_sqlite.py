from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

import belated as bl
from belated.live import sqlite
from belated.live.sqlite import SQLiteStorage, file_system
from belated.reading.live_logs import is_live

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/ada/scratch tmpfs rw 0 0
//pc/share /mnt/with\\040space cifs rw 0 0
"""


def test_a_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "shop.belated"
    with bl.live.open(path) as store:
        store.create("x", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary()).start().ask("u")
        for file in tmp_path.iterdir():
            assert file.stat().st_mode & 0o777 == 0o600
    assert is_live(path)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/data/x", "ext4"), ("/home/ada", "nfs4"), ("/home/ada/scratch/x", "tmpfs"), ("/mnt/with space/x", "cifs")],
)
def test_the_file_system_of_a_path(path, kind):
    assert file_system(Path(path), MOUNTS) == kind
    assert file_system(Path(path), "") is None


def test_a_network_file_system_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "_mounts", lambda: f"server:/x {tmp_path.resolve()} nfs rw 0 0")
    with pytest.raises(bl.live.StorageError, match=r"on a network file system \(nfs\), where locks"):
        bl.live.open(tmp_path / "shop.belated")
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_be_a_store(tmp_path):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("create table t (x)")
    connection.close()
    text = tmp_path / "notes.belated"
    text.write_text("not a database " * 100)
    for path, words in {
        other: "is a SQLite database, but not one of live experiments",
        text: "is not a store of live experiments",
        tmp_path: "is a folder",
        tmp_path / "nowhere" / "x": "there is no folder",
    }.items():
        with pytest.raises(bl.live.StorageError, match=words):
            bl.live.open(path)
    assert other.stat().st_size == os.path.getsize(other)
    with pytest.raises(bl.live.StorageError, match="There is no file"):
        bl.live.open(tmp_path / "new", make=False)
    with pytest.raises(bl.OptionError, match="must be a file, or begin with postgresql://"):
        bl.live.open("mysql://host/db")


def test_a_read_only_file_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "shop.belated"
    bl.live.open(path).close()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write to everything
    with pytest.raises(bl.live.StorageError, match="is read-only; make it writable for this user"):
        bl.live.open(path)


def test_a_damaged_file_is_told(tmp_path):
    path = tmp_path / "shop.belated"
    with bl.live.open(path) as store:
        exp = store.create("x", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary()).start()
        exp.ask_many(f"u{i}" for i in range(2000))
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(bl.live.StorageError, match="is damaged; restore a backup"), bl.live.open(path) as store:
        store.experiment("x").ask_many(f"v{i}" for i in range(100))


def test_a_transaction_that_fails_leaves_nothing(tmp_path):
    storage = SQLiteStorage(tmp_path / "shop.belated")
    with suppress(RuntimeError), storage.writing() as session:
        session.run("insert into meta (key, value) values ('x', 'y')")
        raise RuntimeError
    with storage.reading() as session:
        assert session.run("select * from meta where key = 'x'") == []
        with pytest.raises(bl.live.StorageError), storage.reading():
            pass  # one at a time on a connection
    storage.close()
