from __future__ import annotations

import pytest

import belated as bl
from belated.live.dashboard.changing import actions, change_done, read_change
from belated.live.design import snapshot

REASON = {"reason": "why not"}


@pytest.fixture
def exp(store):
    return store.create(
        "mail", arms=["A", "B", "C"], policy=bl.policies.uniform(), outcome=bl.live.binary(), baseline="A"
    )


def possible(exp):
    with exp._store.storage.reading() as session:
        return {action.what: action for action in actions(snapshot(session, exp.name))}


def chosen_from(action):
    return [value for value, _ in action.fields[0].choices]


def test_what_can_be_done_depends_on_the_state(exp):
    of_arms = ["pause_arm", "drop_arm", "add_arm", "set_policy"]
    assert list(possible(exp)) == ["start", *of_arms, "close"]
    exp.start()
    assert list(possible(exp)) == [*of_arms, "stop", "close"]
    exp.stop()
    assert list(possible(exp)) == ["close"]
    exp.close()
    assert possible(exp) == {}


def test_an_arm_whose_name_has_spaces_around_it_can_be_chosen(exp):
    """Forms drop such spaces; programs and imported tables may not."""
    exp.start().add_arm(" D ")
    change, _, given = read_change(exp, {"what": "pause_arm", "arm": " D "} | REASON)
    assert given.errors == {}
    change.make("Ada")
    assert chosen_from(possible(exp)["resume_arm"]) == [" D "]


def test_arms_can_be_chosen_for_what_can_be_done_with_them(exp):
    exp.start().pause_arm("B")
    now = possible(exp)
    assert chosen_from(now["pause_arm"]) == ["A", "C"]
    assert chosen_from(now["resume_arm"]) == ["B"]
    assert chosen_from(now["drop_arm"]) == ["A", "C", "B"]
    exp.drop_arm("C")
    now = possible(exp)  # one arm is left, which is neither paused nor dropped
    assert "pause_arm" not in now
    assert chosen_from(now["drop_arm"]) == ["B"]
    assert chosen_from(now["stop"]) == ["", "A", "B"]
    change, _, given = read_change(exp, {"what": "stop", "final": "C"} | REASON)
    assert change is None
    assert set(given.errors) == {"final"}


def test_segments_can_be_added_where_there_are_some(store, exp):
    assert "add_segment" not in possible(exp)
    by_country = store.create(
        "countries", arms=["A"], policy=bl.policies.uniform(), outcome=bl.live.binary(), segments=["DE"]
    )
    assert "add_segment" in possible(by_country)
    change, _, given = read_change(by_country, {"what": "add_segment", "segment": "DE"} | REASON)
    assert change is None
    assert given.errors["segment"] == "The experiment has a segment of this name; choose another one."


@pytest.mark.parametrize(
    "form",
    [
        {"what": "pause_arm", "arm": "B"},
        {"what": "resume_arm", "arm": "C"},
        {"what": "drop_arm", "arm": "C"},
        {"what": "add_arm", "arm": "D"},
        {"what": "set_policy", "policy": "fixed", "shares": "A=0.2\nB=0.8\nC=0"},
    ],
    ids=lambda form: form["what"],
)
def test_probabilities_are_those_that_it_was_said_to_have(exp, form):
    exp.start().pause_arm("C")
    before = {arm: p for arm, _, p in exp.status().arms}
    change, action, given = read_change(exp, form | REASON)
    assert (action.what, given.errors) == (form["what"], {})
    columns = {column.name: list(column.values) for column in change.sheet.columns}
    assert columns["now"] == [before.get(arm, 0.0) for arm in columns["arm"]]
    assert {arm: p for arm, _, p in exp.status().arms} == before  # to be asked changes nothing
    change.make("Ada")
    assert dict(zip(columns["arm"], columns["then"], strict=True)) == {arm: p for arm, _, p in exp.status().arms}
    last = list(exp.changes())[-1]
    assert (last.what, last.author, last.reason) == (form["what"].replace("_", " "), "Ada", "why not")


def test_everything_that_is_wrong_with_a_change_is_said_at_once(exp):
    exp.start()
    for form, wrong in (
        ({"what": "pause_arm", "arm": "D"}, {"arm", "reason"}),
        ({"what": "add_arm", "arm": " A "}, {"arm", "reason"}),
        ({"what": "stop", "final": "D", "reason": "x" * 2001}, {"final", "reason"}),
        ({"what": "set_policy", "policy": "fixed", "shares": "A=0.3\nB=0.3"} | REASON, {"shares"}),
    ):
        change, _, given = read_change(exp, form)
        assert (change, set(given.errors)) == (None, wrong), form
    assert len(exp.changes()) == 2


@pytest.mark.parametrize("what", ["start", "resume_arm", "add_segment", "erase", ""])
def test_what_cannot_be_done_now_is_refused(exp, what):
    exp.start()
    with pytest.raises(bl.OptionError, match="This cannot be done while the experiment is running"):
        read_change(exp, {"what": what, "arm": "A"} | REASON)


def test_whoever_closes_is_told_how_many_outcomes_are_lost(exp):
    exp.start().ask_many(["ada", "bob", "eve"])
    exp.tell("ada", 1)
    change, _, _ = read_change(exp, {"what": "close"} | REASON)
    assert change.question == "Close “\u2068mail\u2069”?"
    assert "2 outcomes still out will never be known." in change.effects[0]
    change.make("Ada")
    assert exp.status().state == "closed"


def test_a_final_arm_is_what_units_to_come_get(exp):
    exp.start()
    none, _, _ = read_change(exp, {"what": "stop", "final": ""} | REASON)
    assert "Later units are refused." in none.effects
    change, _, _ = read_change(exp, {"what": "stop", "final": "B"} | REASON)
    assert "Later units get “\u2068B\u2069”, and are not part of the experiment." in change.effects
    change.make("Ada")
    assert exp.ask("ada").arm == "B"


def test_a_policy_that_would_fail_is_said_before(exp):
    exp.start().set_policy(bl.policies.fixed({"A": 1}))
    change, _, _ = read_change(exp, {"what": "pause_arm", "arm": "A"} | REASON)
    assert change.effects[-1].startswith("The policy fails then: ")
    assert list(change.sheet.columns[-1].values) == [0, 0.5, 0.5]


def test_every_change_is_said_to_be_made(exp):
    exp.pause_arm("C")
    whats = {*possible(exp), "stop", "add_segment", "create", "revoke"}
    assert all(change_done(what).endswith(".") for what in whats)
    assert len({change_done(what) for what in whats}) == len(whats) == 11
    assert change_done("<script>") == ""
