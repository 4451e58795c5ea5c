from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from live_experiments import SEGMENTS, UNITS, create_by_segment, learn_by_segment, stored

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


def test_arms_added_paused_dropped_and_a_policy_changed_in_flight(place):
    exp = place.create()
    exp.ask_many(UNITS)
    exp.add_arm("C", reason="an idea", author="Ada")
    assert exp.ask("1").probabilities == pytest.approx(dict.fromkeys("ABC", 1 / 3))
    exp.pause_arm("A")
    assert exp.ask("2").probabilities == {"A": 0, "B": 0.5, "C": 0.5}
    exp.resume_arm("A")
    exp.drop_arm("B", reason="it hurts")
    assert exp.ask("3").probabilities == {"A": 0.5, "B": 0, "C": 0.5}
    exp.set_policy(bl.policies.fixed({"A": 0.9, "C": 0.1}))
    replies = exp.ask_many(f"later {i}" for i in range(50))
    assert {reply.arm for reply in replies} <= {"A", "C"}
    assert replies[0].probabilities == {"A": 0.9, "B": 0, "C": 0.1}
    with pytest.raises(bl.live.LiveError, match="dropped and cannot come back"):
        exp.resume_arm("B")
    with pytest.raises(bl.OptionError, match="choose a new name"):
        exp.add_arm("B")
    what = ["create", "start", "add arm", "pause arm", "resume arm", "drop arm", "set policy"]
    changes = exp.changes()
    assert [change.what for change in changes] == what
    assert (changes[2].author, changes[2].reason, json.loads(changes[2].detail)) == ("Ada", "an idea", {"arm": "C"})
    assert [version.cause for version in stored(exp)] == [
        "start", "arm added: C", "pause arm: A", "resume arm: A", "drop arm: B", "policy set",
    ]  # fmt: skip
    log = exp.log()
    assert log.arms == ("A", "B", "C")
    assert log.propensity[0].tolist() == [0.5, 0.5, 0.0]
    assert np.allclose(log.propensity.sum(axis=1), 1)
    assert exp._store.verify().clean
    assert exp.replay() == stored(exp)


def test_segments_and_arms_are_added_in_flight(place):
    exp, other = create_by_segment(place), place.again()
    learn_by_segment(exp, 3)
    before = stored(exp)[-1]
    exp.add_segment("IT", reason="a new shop")
    with pytest.raises(bl.OptionError, match="'IT', which the experiment has already"):
        exp.add_segment("IT")
    with pytest.raises(bl.OptionError, match="'all', a name that answers use themselves"):
        exp.add_segment("all")
    assert other.ask("i1", "IT").probabilities == pytest.approx({"A": 1 / 3, "B": 1 / 3, "C": 1 / 3})
    after = stored(exp)[-1]
    assert after.cause == "segment added: IT"
    assert after.probabilities[:9] == before.probabilities
    assert after.steps == (*before.steps, 1)
    exp.add_arm("D")
    exp.drop_arm("A")
    last = stored(exp)[-1]
    assert (last.arms, len(last.probabilities)) == (4, 16)
    assert [last.chances(s)[0] for s in range(4)] == [0.0] * 4
    assert all(last.chances(s)[3] > 0 for s in range(4))
    assert np.reshape(last.counts, (4, 4))[:3, :3].ravel().tolist() == list(before.counts)
    assert set(exp.ask("i2", "IT").probabilities) == {"A", "B", "C", "D"}
    status = exp.status()
    assert [label for label, *_ in status.segments] == ["FR", "DE", "ES", "IT"]
    assert sum(p for *_, p in status.arms) == pytest.approx(1)
    assert [change.what for change in exp.changes()] == ["create", "start", "add segment", "add arm", "drop arm"]
    assert json.loads(exp.changes()[0].detail)["segments"] == SEGMENTS
    assert exp._store.verify().clean
