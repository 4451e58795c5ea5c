from __future__ import annotations

from live_experiments import UNITS, create_by_segment, learn, learn_by_segment, rows

import belated as bl
from tests.live.conftest import of_storages


def test_an_erased_unit_is_gone_and_answers_are_unchanged(place):
    exp = place.create()
    learn(exp)
    exp.tell("waiting", 1)
    before = exp.answer()
    assert exp.erase(UNITS[3])
    assert exp.erase("waiting")
    assert not exp.erase("nobody")
    after = place.again().answer()
    assert after.estimate.to_json() == before.estimate.to_json()
    assert after.sequence.to_json() == before.sequence.to_json()
    assert UNITS[3] not in str(rows(exp)) + str(rows(exp, "change"))
    assert after.counts.parked == 0
    assert exp._store.verify().clean
    assert [change.what for change in exp.changes()][-3:] == ["erase"] * 3
    if place.kind != "postgres":
        files = [path.read_bytes() for path in place.folder.glob("shop.belated*")]
        assert not any(UNITS[3].encode() in content for content in files)
        assert any(UNITS[4].encode() in content for content in files)


def test_an_erased_unit_keeps_its_segment_and_answers_are_unchanged(place):
    exp = create_by_segment(place, policy=bl.policies.uniform())
    learn_by_segment(exp, 6, 60)
    before = exp.answer()
    assert exp.erase("1-0-3")
    after = place.again().answer()
    assert after.estimate.to_json() == before.estimate.to_json()
    assert after.sequence.to_json() == before.sequence.to_json()
    assert exp._store.verify().clean
    assert not exp.ask("1-0-3", "ES").repeated  # a new unit


@of_storages("a store is restored where it is, while nobody serves it")
def test_a_restore_forgets_again_what_was_erased(place):
    exp = place.create()
    learn(exp)
    path = exp._store.backup(place.folder / "copy.belated")
    assert UNITS[5].encode() in path.read_bytes()
    exp.erase(UNITS[5])
    place.clock.forward(60)
    exp.ask("after")
    place.close()
    assert bl.live.restore(path, place.url, replace=True) == 1
    exp = place.again()
    assert len(rows(exp)) == len(UNITS)
    assert UNITS[5] not in str(rows(exp))
    assert not exp.ask(UNITS[5]).repeated
    assert exp._store.verify().clean


@of_storages("a store is restored where it is, while nobody serves it")
def test_a_restore_forgets_also_what_was_erased_after_the_clock_was_set_back(place):
    exp = place.create()
    place.clock.forward(3600)
    exp.ask("x")
    exp.tell("waiting", 1)
    exp.tick()
    place.clock.forward(-3600)
    exp.ask("y")
    path = exp._store.backup(place.folder / "copy.belated")
    for unit in ("x", "y", "waiting"):
        assert exp.erase(unit)
    place.close()
    assert bl.live.restore(path, place.url, replace=True) == 3
    assert bl.live.restore(path, place.url, replace=True) == 3


@of_storages("a store is restored where it is, while nobody serves it")
def test_a_restore_keeps_the_latest_time_of_an_erasure(place):
    """Two backups are restored one after the other; the first knows the unit only as it was erased before."""
    exp = place.create()
    exp.ask("x")
    exp.erase("x")
    before = exp._store.backup(place.folder / "before.belated")
    place.clock.forward(60)
    exp.ask("x")
    after = exp._store.backup(place.folder / "after.belated")
    exp.erase("x")
    place.close()
    assert bl.live.restore(before, place.url, replace=True) == 0
    assert bl.live.restore(after, place.url, replace=True) == 1
