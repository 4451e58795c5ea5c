from __future__ import annotations

import threading

import pytest

import belated as bl
from belated.live.changing import Author, set_policy
from belated.live.errors import OutdatedError
from tests.live.conftest import STORAGES


def test_a_draft_starts_with_the_policy_that_was_set_last(place):
    exp = place.create(start=False)
    exp.set_policy(bl.policies.fixed({"A": 0.1, "B": 0.9}))
    exp.set_policy(bl.policies.fixed({"A": 0.2, "B": 0.8}))
    exp.start()
    assert exp.ask("x").probabilities == {"A": 0.2, "B": 0.8}
    assert exp.tick().probabilities == (0.2, 0.8)
    assert [change.what for change in exp.changes()] == ["create", "set policy", "set policy", "start"]
    assert exp._store.verify().clean


def test_only_a_draft_is_started(place):
    exp = place.create()
    with pytest.raises(bl.live.LiveError, match="is running; only a draft can be started"):
        exp.start()
    never = place.create("never", start=False)
    never.close()
    with pytest.raises(bl.live.LiveError, match="is closed; only a draft can be started"):
        never.start()


def test_the_final_arm_is_one_that_is_not_dropped(place):
    exp = place.create()
    exp.add_arm("C")
    exp.drop_arm("B")
    exp.pause_arm("C")
    with pytest.raises(bl.OptionError, match="`final` is 'Z'; it must be one of 'A', 'B'"):
        exp.stop(final="Z")
    with pytest.raises(bl.OptionError, match="`final` is 'B', which was dropped for good; choose another"):
        exp.stop(final="B")
    exp.stop(final="C")
    assert exp.ask("new").arm == "C"


@pytest.mark.parametrize("engine", STORAGES, indirect=True)
def test_of_changes_that_were_decided_at_once_on_several_servers_one_is_made(place):
    """As after a double click on a form: each server has seen the same audit, and has connections of its own."""
    exp, policy = place.create(), bl.policies.fixed({"A": 0.1, "B": 0.9})
    storages = [place.open().storage for _ in range(4)]
    seen, together, said = len(exp.changes()), threading.Barrier(len(storages)), []

    def change(storage):
        together.wait()
        try:
            with storage.writing() as session:
                set_policy(session, "button", policy, Author("Ada", "twice", seen))
            said.append("made")
        except OutdatedError as error:
            said.append(str(error))

    threads = [threading.Thread(target=change, args=(storage,)) for storage in storages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = "'button' was changed meanwhile; look at it again before you change it."
    assert sorted(said) == [refused] * 3 + ["made"]
    assert [each.what for each in exp.changes()][seen:] == ["set policy"]
    exp._unchanged_since(seen + 1).pause_arm("B")
    with pytest.raises(OutdatedError):
        exp._unchanged_since(seen).start()
    assert len(exp.changes()) == seen + 2
