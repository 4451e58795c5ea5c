from __future__ import annotations

import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from live_experiments import UNITS, create_by_segment, learn, learn_by_segment, rows, stored

import belated as bl
from belated.live import keeping
from belated.live.tokens import make_token, tokens
from tests.live.conftest import of_storages


@pytest.fixture
def shop(tmp_path):
    """Return a store with one experiment, and its backup."""
    path = tmp_path / "shop.belated"
    with bl.live.open(path, ticking=False) as store:
        exp = store.create("x", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary()).start()
        exp.ask_many(f"u{i}" for i in range(20))
        return path, store.backup(tmp_path / "copy.belated")


def test_a_store_that_is_in_use_is_not_replaced(shop):
    """Who has it open would go on with a file that is gone, and lose what it acknowledges."""
    path, copy = shop
    with bl.live.open(path, ticking=False) as store:
        with pytest.raises(bl.live.StorageError, match="is open in this or another process; close it"):
            bl.live.restore(copy, path, replace=True)
        assert not store.experiment("x").ask("new").repeated
    with bl.live.open(path, ticking=False) as store:
        assert store.experiment("x").ask("new").repeated
    assert bl.live.restore(copy, path, replace=True) == 0
    with bl.live.open(path, ticking=False) as store:
        assert not store.experiment("x").ask("new").repeated
    assert sorted(each.name for each in path.parent.iterdir()) == ["copy.belated", "shop.belated"]


def test_a_damaged_store_is_not_replaced_silently(shop):
    path, copy = shop
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(bl.live.StorageError, match="damaged, and its list of erased units with it; move it away"):
        bl.live.restore(copy, path, replace=True)
    path.unlink()
    assert bl.live.restore(copy, path) == 0


def test_a_backup_does_not_replace_itself(shop):
    with pytest.raises(bl.live.StorageError, match="is the backup itself"):
        bl.live.restore(shop[1], shop[1], replace=True)


def test_a_link_to_a_store_stays_one(shop, tmp_path):
    """If the link were replaced, the store that it leads to would stay as it is, with what was erased since."""
    path, copy = shop
    link = tmp_path / "link.belated"
    link.symlink_to(path)
    with bl.live.open(path, ticking=False) as store:
        store.experiment("x").ask("new")
    assert bl.live.restore(copy, link, replace=True) == 0
    assert link.is_symlink()
    with bl.live.open(path, ticking=False) as store:
        assert not store.experiment("x").ask("new").repeated


def test_a_backup_that_is_read_only_is_restored(shop, monkeypatch):
    path, copy = shop
    copy.chmod(0o400)
    real = os.access
    monkeypatch.setattr(os, "access", lambda place, how: str(place) != str(copy) and real(place, how))
    before = copy.read_bytes()
    assert bl.live.restore(copy, path.with_name("new.belated")) == 0
    with bl.live.open(path.with_name("new.belated"), ticking=False) as store:
        assert store.experiment("x").ask("u1").repeated
    assert copy.read_bytes() == before


def test_a_place_that_cannot_be_is_a_sentence(shop):
    path, copy = shop
    nowhere = path.parent / "nowhere" / "x.belated"
    with (
        bl.live.open(path, ticking=False) as store,
        pytest.raises(bl.live.StorageError, match=r"x\.belated` cannot be"),
    ):
        store.backup(nowhere)
    with pytest.raises(bl.live.StorageError, match=r"x\.belated` cannot be made: No such file"):
        bl.live.restore(copy, nowhere)
    with pytest.raises(bl.live.StorageError, match=r"There is no backup `.*/nowhere.*`"):
        bl.live.restore(nowhere, path)
    with pytest.raises(bl.live.StorageError, match="cannot be opened: File name too long"):
        bl.live.open("x" * 300)
    shutil.copy(copy, path.with_name("other.belated"))
    with pytest.raises(bl.live.StorageError, match="exists already; to replace it, use `replace`"):
        bl.live.restore(copy, path.with_name("other.belated"))


def test_a_backup_under_load_restores_and_verifies(place):
    exp = place.create()
    learn(exp)
    stop = threading.Event()

    def load():
        for i in range(100_000):
            if stop.is_set():
                return
            exp.ask(f"load-{i}")
            exp.tell(f"load-{i}", i % 2)

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(load)
        time.sleep(0.1)
        path = exp._store.backup(place.folder / "copy.belated")
        stop.set()
        job.result(30)
    assert path.stat().st_mode & 0o777 == 0o600
    assert not list(place.folder.glob("*copy.belated[-.]*"))
    home = place.folder / "restored.belated" if place.kind != "postgres" else place.url
    if place.kind == "postgres":
        with pytest.raises(bl.live.StorageError, match="to replace them, use"):
            bl.live.restore(path, home)
    assert bl.live.restore(path, home, replace=place.kind == "postgres") == 0
    with bl.live.open(home, ticking=False) as store:
        assert store.verify().clean
        again = store.experiment("button")
        assert again.ask_many(UNITS)[0].repeated
        assert len(rows(again)) >= len(UNITS)
        again.ask("new")
        assert not again.tell("new", 1).why
        assert again.tick().number == 3
        assert store.verify().clean


def test_a_backup_has_the_segments(place):
    exp = create_by_segment(place)
    learn_by_segment(exp, 6, 60)
    exp.add_segment("IT")
    before, made = exp.answer(), stored(exp)
    path = exp._store.backup(place.folder / "copy.belated")
    place.close()
    home = place.url if place.kind == "postgres" else str(place.folder / "restored.belated")
    bl.live.restore(path, home, replace=place.kind == "postgres")
    with bl.live.open(home, ticking=False) as store:
        again = store.experiment("button")
        assert stored(again) == made
        assert again.answer().estimate.to_json() == before.estimate.to_json()
        assert again.ask("new", "IT").segment == "IT"
        assert store.verify().clean


def _interrupt(*_):
    raise KeyboardInterrupt


@of_storages("a store is restored where it is, while nobody serves it")
def test_a_restore_that_is_interrupted_changes_nothing(place, monkeypatch):
    exp = place.create()
    exp.ask("x")
    path = exp._store.backup(place.folder / "copy.belated")
    exp.erase("x")
    place.close()
    with monkeypatch.context() as patch:
        patch.setattr(keeping, "forget_again", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            bl.live.restore(path, place.url, replace=True)
    assert not place.again().ask("x").repeated


@of_storages("a store is restored where it is, while nobody serves it")
def test_tokens_that_stay_and_new_ones_have_different_numbers(place):
    """A backup is older than the tokens of the store that it replaces, and so are its numbers of transactions."""
    store = place.create()._store
    path = store.backup(place.folder / "copy.belated")
    kept = [make_token(store.storage, "checkout", ["ask"], author="Ada")[1].id for _ in range(4)]
    place.close()
    bl.live.restore(path, place.url, replace=True)
    storage = place.open().storage
    new = [make_token(storage, "checkout", ["ask"], author="Ada")[1].id for _ in range(4)]
    assert [each.id for each in tokens(storage)] == [*kept, *new]


@of_storages("a store is restored where it is, while nobody serves it")
def test_what_is_new_after_a_restore_is_above_all_that_versions_have_seen(place):
    """Windows close without new rows, and other databases of a server use its numbers up, too."""
    exp = place.create(outcome=bl.live.events("1h"))
    exp.ask_many(UNITS)
    number = "offset" if place.kind == "postgres" else "transaction"
    place.sql("update meta set value = '1000000' where key = ?", number)
    place.clock.forward(4000)
    before = exp.tick()
    path = exp._store.backup(place.folder / "copy.belated")
    if place.kind == "postgres":
        place.sql("update meta set value = '0' where key = 'offset'")
    place.close()
    for home in (place.url, str(place.folder / "restored.belated")):
        bl.live.restore(path, home, replace=True)
        with bl.live.open(home, ticking=False, clock=place.clock) as store:
            again = store.experiment("button")
            again.ask("new")
            assert again.tick().step == before.step + 1
            assert again.status().asked == len(UNITS) + 1
            assert store.verify().clean
