from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

import belated as bl
from belated.live import sqlite
from belated.live.sqlite import SQLiteStorage, file_system
from belated.reading.contents import is_live

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/ada/scratch tmpfs rw 0 0
//pc/share /mnt/with\\040space cifs rw 0 0
"""


def test_a_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "shop.belated"
    path.touch(0o644)  # an empty file becomes a store, too
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


def test_a_network_file_system_is_refused(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(sqlite, "_mounts", lambda: f"server:/x {tmp_path.resolve()} nfs rw 0 0")
    with pytest.raises(bl.live.StorageError, match=r"on a network file system \(nfs\), where locks"):
        bl.live.open(tmp_path / "shop.belated")
    assert not list(tmp_path.iterdir())
    link = tmp_path_factory.mktemp("local") / "shop.belated"
    link.symlink_to(tmp_path / "shop.belated")
    with pytest.raises(bl.live.StorageError, match="on a network file system"):
        bl.live.open(link)


def test_a_store_behind_a_link_to_nothing_is_for_its_owner_alone(tmp_path):
    link, before = tmp_path / "link.belated", os.umask(0o022)
    link.symlink_to(tmp_path / "real.belated")
    try:
        bl.live.open(link, ticking=False).close()
    finally:
        os.umask(before)
    assert (tmp_path / "real.belated").stat().st_mode & 0o777 == 0o600


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
        ".": r"`\.` is a folder",
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
    with pytest.raises(bl.live.StorageError, match="is read-only or not this user's; make it readable and writable"):
        bl.live.open(path)


@pytest.mark.parametrize("comes", ["nothing", "another store"])
def test_a_file_that_is_moved_while_it_is_open_takes_nothing(tmp_path, monkeypatch, comes):
    """Its write-ahead log stays where it was: what is stored from then on would be in no file that anybody opens."""
    path, other = tmp_path / "shop.belated", tmp_path / "other.belated"
    monkeypatch.chdir(tmp_path)
    with bl.live.open(path.name, ticking=False) as store:
        monkeypatch.chdir(tmp_path.parent)  # a relative name is of the folder in which it was opened
        exp = store.create("x", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary()).start()
        exp.ask("ada")
        path.rename(other)
        if comes == "another store":
            path.write_bytes(b"")
        for _ in range(2):
            with pytest.raises(
                bl.live.StorageError, match=r"shop.belated` was moved, replaced or removed while it was o"
            ):
                exp.ask("bob")
        path.unlink(missing_ok=True)
        other.rename(path)
        assert not exp.ask("bob").repeated
    with bl.live.open(path, ticking=False) as store:
        assert [each.repeated for each in store.experiment("x").ask_many(["ada", "bob"])] == [True, True]


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


@pytest.mark.parametrize(
    "damage",
    [
        "update decision set arm = 'x'",
        "update decision set assigned_at = 1e300",
        "update version set watermark = 'x'",
        "update outcome set value = 'x'",
        "update outcome set decision = 'x' where id = (select max(id) from outcome)",
        "update change set made_at = 'x'",
        "update segment set experiment = 'x'",
        "update version set made_at = 'x'",
        "update version set steps = '[NaN, NaN]'",
        "delete from arm",
        "update meta set value = 'x' where key = 'transaction'",
        "delete from meta where key = 'transaction'",
        "update experiment set about = '7'",
        "update decision set unit = cast(x'6162ff' as text) where id = (select max(id) from decision)",
    ],
)
def test_values_of_any_kind_are_told(tmp_path, damage):
    """SQLite takes any value in any column, so that a damaged file can hold what no store wrote."""
    path = tmp_path / "shop.belated"
    units, segments = [f"u{i}" for i in range(20)], ["DE", "FR"] * 10
    with bl.live.open(path, ticking=False) as store:
        options = {"policy": bl.policies.uniform(), "outcome": bl.live.binary(), "segments": ["DE", "FR"]}
        exp = store.create("x", arms=["A", "B"], **options).start()
        exp.ask_many(units, segments)
        exp.tell_many((unit, 1) for unit in units)
        exp.tick()
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()

    def acts(store):
        exp = store.experiment("x")
        yield lambda: exp.ask_many(units, segments)
        yield lambda: exp.tell_many((unit, 1) for unit in units)
        yield from (exp.tick, exp.answer, exp.log, exp.status, exp.changes, lambda: exp.add_arm("C"))

    said = []
    for act in (lambda: bl.read(path, table="x"), lambda: _each(path, acts, said)):
        with suppress(bl.BelatedError):
            act()
    assert all("ab" not in text for text in said)  # what a unit may hold
    with suppress(bl.live.StorageError), bl.live.open(path, ticking=False) as store:
        assert store.verify().findings or "set made_at" in damage


def _each(path, acts, said):
    with bl.live.open(path, ticking=False) as store:
        for act in acts(store):
            try:
                act()
            except bl.BelatedError as error:
                said.append(str(error))


@pytest.mark.parametrize(
    "program",
    [
        "create view v as select 1",
        "create trigger t after insert on decision begin delete from outcome; end",
        "drop table parked; create view parked as with recursive r (n) as (select 1 union all select n + 1 from r) "
        "select n as experiment from r",
    ],
)
def test_a_file_that_brings_statements_is_refused(tmp_path, program):
    path = tmp_path / "shop.belated"
    bl.live.open(path).close()
    connection = sqlite3.connect(path)
    connection.executescript(program)
    connection.close()
    for act in (bl.live.open, bl.live.migrate, lambda path: bl.live.restore(path, tmp_path / "new.belated")):
        with pytest.raises(bl.live.StorageError, match="views or triggers, which no store has; do not trust it"):
            act(path)
    with pytest.raises(bl.LogError, match="views or triggers"):
        bl.read(path, table="x")
    assert not (tmp_path / "new.belated").exists()


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


@pytest.mark.parametrize("name", [":memory:", "file:shop.belated", "file:shop.belated?mode=ro", "a#b%20c.belated"])
def test_a_name_that_means_something_to_sqlite_is_that_of_a_file(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with bl.live.open(name) as store:
        store.create("x", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary()).start().ask("u")
    assert os.listdir(tmp_path) == [name]
    assert is_live(tmp_path / name)
