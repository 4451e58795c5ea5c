from __future__ import annotations

import pytest

import belated as bl


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
