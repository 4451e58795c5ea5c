from __future__ import annotations

import sqlite3

import pytest

import belated as bl


@pytest.fixture
def store(tmp_path):
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as opened:
        yield opened


def create(store, name, arms=("A", "B")):
    return store.create(name, arms=list(arms), policy=bl.policies.uniform(), outcome=bl.live.binary()).start()


def test_an_experiment_is_chosen_by_its_name(store, tmp_path):
    path = tmp_path / "shop.belated"
    first, second = create(store, "first"), create(store, "second")
    first.ask_many(["a", "b", "c"])
    second.ask_many(["a", "b"])
    assert len(bl.read(path, table="first")) == 3
    assert len(bl.read(str(path), table="second")) == 2
    for table in (None, "third"):
        with pytest.raises(bl.OptionError, match=r"holds 2 experiments \('first', 'second'\); choose one with `table`"):
            bl.read(path, table=table)


def test_a_log_without_rows_is_refused(store, tmp_path):
    create(store, "first")
    with pytest.raises(bl.LogError, match="'first' has no decisions yet"):
        bl.read(tmp_path / "shop.belated")


def test_arms_may_differ_by_case_alone(store, tmp_path):
    exp = create(store, "first", ("a", "A", "p_a", "x\ny"))
    exp.ask_many(f"u{i}" for i in range(40))
    exp.tell_many((f"u{i}", 1) for i in range(20))
    read = bl.read(tmp_path / "shop.belated")
    assert read.arms == ("a", "A", "p_a", "x\ny")
    assert read.log().propensity.tolist() == exp.log().propensity.tolist()


def test_an_as_of_time_applies_to_a_live_log(store, tmp_path):
    exp = create(store, "first")
    exp.ask_many(["a", "b", "c"])
    early = exp.ask("d").assigned_at
    exp.ask_many(["e", "f", "g"])
    assert len(bl.read(tmp_path / "shop.belated", as_of=early)) == 4


def test_a_folder_that_cannot_be_written_to_is_told(store, tmp_path, monkeypatch):
    """SQLite needs files beside one that is open; root may write everywhere, so that the error is made here."""

    def connect(*_, **__):
        error = sqlite3.OperationalError("attempt to write a readonly database")
        error.sqlite_errorcode = sqlite3.SQLITE_READONLY_DIRECTORY
        raise error

    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(bl.LogError, match="make its folder writable, or read a backup"):
        bl.read(tmp_path / "shop.belated", table="x")


def test_of_many_experiments_the_first_are_named(tmp_path):
    path = tmp_path / "shop.belated"
    with bl.live.open(path, ticking=False) as store:
        for number in range(21):
            store.create(f"x{number}", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary())
    with pytest.raises(bl.OptionError, match=r"holds 21 experiments \('x0', .*, 'x19' and 1 more\); choose one"):
        bl.read(path)
