from __future__ import annotations

import numpy as np

import belated as bl
from belated.live.dashboard.history import change_words, policy_words, read_history
from tests.live.conftest import of_storages

pytestmark = of_storages("pages look into the storage of their own process")


def test_a_long_history_is_sampled_with_its_ends(place):
    exp = place.create(policy=bl.policies.thompson_beta())
    for i in range(150):
        exp.tell(exp.ask(f"{i}").unit, i % 2)
        place.clock.forward(1)
        exp.tick()
    history = read_history(exp)
    assert history.latest == 151
    assert len(history.moments) <= 61
    assert (np.diff(history.moments.astype(np.int64)) >= 0).all()
    status = {arm: p for arm, _, p in exp.status().arms}
    assert dict(zip(history.labels, history.probabilities[""][-1], strict=True)) == status
    np.testing.assert_allclose(history.probabilities[""].sum(axis=1), 1)


def test_the_last_version_decides_until_now_but_not_after_the_end(place):
    exp = place.create()
    place.clock.forward(60)
    start, now = read_history(exp).moments
    assert now - start == np.timedelta64(60, "s")
    exp.stop()
    assert read_history(exp).moments.tolist() == [start.item()]


def test_changes_are_said_and_marked(place):
    exp = place.create()
    exp.add_arm("<b>", author="Ada", reason="an idea")
    exp.set_policy(bl.policies.fixed({"A": 0.5, "B": 0.25, "<b>": 0.25}))
    exp.stop(final="B")
    history = read_history(exp)
    assert [label for label, _ in history.changes] == ["1", "2", "3"]
    assert [change_words(change) for _, change in history.changes] == [
        "Arm added: <b>",
        "Policy set: fixed (shares A 0.5, B 0.25, <b> 0.25)",
        "Stopped; later units get B",
    ]
    assert len(history.marks) == 3
    assert policy_words({"name": "thompson_beta", "burn_in": 0.05}) == "thompson beta (burn in 0.05)"


def test_probabilities_are_kept_by_segment(place):
    exp = place.create(segments=["DE", "FR"], policy=bl.policies.thompson_beta())
    exp.ask_many(["a", "b"], ["DE", "FR"])
    exp.tick()
    exp.add_segment("IT")
    history = read_history(exp)
    assert list(history.probabilities) == ["DE", "FR", "IT"]
    assert history.probabilities["IT"][0].tolist() == [0, 0]
    assert history.probabilities["IT"][-1].tolist() == [0.5, 0.5]
    assert change_words(history.changes[-1][1]) == "Segment added: IT"
