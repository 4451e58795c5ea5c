from __future__ import annotations

import numpy as np
import pytest
from live_experiments import SEGMENTS, UNITS, create_by_segment, learn_by_segment, stored

import belated as bl
from belated.live.deciding import decide
from belated.live.learning import Knowledge, known_at, nothing
from belated.live.records import Version
from tests.live.conftest import of_storages


@pytest.mark.parametrize("policy", [bl.policies.thompson_normal(burn_in=10), bl.policies.ucb()], ids=["ts", "ucb"])
def test_replay_gives_the_same_versions_bit_for_bit(place, policy):
    exp = place.create(policy=policy, outcome=bl.live.real(), arms=["A", "B", "C"])
    rng = np.random.default_rng(3)
    for batch in range(12):
        units = [f"{batch}-{i}" for i in range(7)]
        exp.ask_many(units)
        exp.tell_many((unit, value) for unit, value in zip(units, rng.normal(size=7).tolist(), strict=True))
        if batch > 3:
            exp.tell(f"{batch - 2}-1", float(rng.normal()), correct=True)
        exp.tick()
    made = stored(exp)
    assert len(made) == 13
    assert place.again().replay() == made
    assert len({version.probabilities for version in made}) > 8
    assert exp._store.verify().clean


def test_replay_by_segment_gives_the_same_versions_bit_for_bit(place):
    exp = create_by_segment(place, outcome=bl.live.real(), policy=bl.policies.thompson_normal())
    learn_by_segment(exp, 4, values=lambda chance, rng: rng.normal(chance))
    exp.add_segment("IT")
    exp.ask_many(["i1", "i2"], ["IT", "IT"])
    exp.tell("i1", 0.1)
    exp.add_arm("D")
    exp.tick()
    exp.pause_arm("A")
    learn_by_segment(exp, 2, seed=2, values=lambda chance, rng: rng.normal(chance))
    exp.set_policy(bl.policies.epsilon_greedy().pooled())
    learn_by_segment(exp, 2, seed=3, values=lambda chance, rng: rng.normal(chance))
    assert place.again().replay() == stored(exp)
    assert exp._store.verify().clean


def test_a_window_closes_to_zero_only_for_events(place):
    exp = place.create(outcome=bl.live.events("1h"))
    exp.ask_many(UNITS[:4])
    place.clock.forward(60)
    exp.tell(UNITS[0], key="order 1")
    exp.tell(UNITS[0], key="order 2")
    assert sum(exp.tick().counts) == 0  # known when the window closes, not before
    place.clock.forward(1800)
    exp.ask_many(UNITS[4:8])
    place.clock.forward(1800)
    made = exp.tick()
    assert (sum(made.counts), sum(made.totals)) == (4, 1)
    answer = exp.answer()
    assert (answer.counts.asked, answer.counts.told, answer.counts.out) == (8, 4, 4)
    assert sorted(answer.log.closed().log().outcome.tolist()) == [0, 0, 0, 1]
    place.clock.forward(1801)
    exp.tell(UNITS[4])  # after its window
    exp.tell(UNITS[5], happened_at=bl.live.records.moment(place.clock.now - 1802 * 10**6))  # told late, inside
    made = exp.tick()
    assert (sum(made.counts), sum(made.totals)) == (8, 2)
    assert exp.answer().log.closed().log().outcome.sum() == 2
    assert exp.replay() == stored(exp)
    plain = place.create("other")
    plain.ask("x")
    place.clock.forward(10**6)
    assert plain.answer().counts.out == 1


def test_a_window_that_closes_before_a_change_is_learned_after_it(place):
    exp = place.create(outcome=bl.live.events("1h"))
    exp.ask_many(UNITS[:4])
    exp.tell(UNITS[0])
    exp.tick()  # it knows the units, but no outcome
    place.clock.forward(3601)
    exp.pause_arm("B")
    exp.resume_arm("B")
    place.clock.forward(60)
    made = exp.tick()
    assert (sum(made.counts), sum(made.totals)) == (4, 1)
    assert exp.replay() == stored(exp)
    assert exp._store.verify().clean


def test_a_policy_learns_in_each_segment_on_its_own(place):
    policy = bl.policies.thompson_beta(burn_in=5)
    exp = create_by_segment(place, policy=policy)
    learn_by_segment(exp)
    version, log = stored(exp)[-1], exp.log()
    labels, code = log.segment_column
    for place_, segment in enumerate(SEGMENTS):
        mine = code == labels.index(segment)
        told = mine & log.arrived
        counts = np.bincount(log.code[told], minlength=3)
        totals = np.bincount(log.code[told], log.outcome[told], 3)
        assert version.counts[place_ * 3 : place_ * 3 + 3] == tuple(counts)
        assert version.totals[place_ * 3 : place_ * 3 + 3] == tuple(totals)
        assert version.steps[place_] == mine.sum() + 1
        alone = Knowledge(int(mine.sum()) + 1, tuple(counts.astype(float)), tuple(totals))
        assert version.chances(place_) == tuple(decide(policy, "ABC", (0, 1, 2), alone, 1000))
    assert version.step == len(log) + 1
    assert len(set(map(version.chances, range(3)))) == 3


def test_a_pooled_policy_does_not_look_at_segments(place):
    policy = bl.policies.thompson_beta().pooled()
    exp = create_by_segment(place, policy=policy)
    learn_by_segment(exp)
    version = stored(exp)[-1]
    assert len(set(map(version.chances, range(3)))) == 1
    counts, totals = (np.reshape(each, (3, 3)).sum(axis=0) for each in (version.counts, version.totals))
    together = Knowledge(version.step, tuple(counts), tuple(totals))
    assert version.chances(0) == tuple(decide(policy, "ABC", (0, 1, 2), together, 1000))
    exp.set_policy(bl.policies.thompson_beta())  # what each segment showed was kept
    version = stored(exp)[-1]
    assert len(set(map(version.chances, range(3)))) == 3
    assert exp._store.verify().clean


def test_a_burn_in_is_of_each_segment_or_a_share_of_all_units(place):
    even = (1 / 3,) * 3
    steps = create_by_segment(place, policy=bl.policies.thompson_beta(burn_in=20))
    share = create_by_segment(place, "share", policy=bl.policies.thompson_beta(burn_in=0.03), planned_rows=1000)
    for exp in (steps, share):
        units = [f"u{i}" for i in range(33)]
        exp.ask_many(units, ["FR"] * 25 + ["DE"] * 8)
        exp.tell_many((unit, 1) for unit in units)
        exp.tick()
    first, second = (stored(exp)[-1] for exp in (steps, share))
    assert first.chances(0) != even
    assert first.chances(1) == first.chances(2) == even
    assert second.chances(1) != even  # 33 units are more than 3 % of 1,000


@of_storages("a Python function is not sent over HTTP")
def test_an_own_policy_is_asked_for_each_segment(place):
    seen = []

    def policy(count, total, t):
        seen.append((count.tolist(), total.tolist(), t))
        return [0.25, 0.75]

    exp = create_by_segment(place, arms=["A", "B"], policy=bl.policies.own(policy))
    exp.ask_many(["a", "b", "c"], ["FR", "FR", "ES"])
    exp.tell("c", 1)
    seen.clear()
    exp.tick()
    (fr, de, es) = seen
    assert fr == ([0.0, 0.0], [0.0, 0.0], 3)
    assert de == ([0.0, 0.0], [0.0, 0.0], 1)
    assert (sum(es[0]), sum(es[1]), es[2]) == (1.0, 1.0, 2)
    exp.set_policy(bl.policies.own(policy).pooled())
    assert sum(seen[-1][0]) == 1.0
    assert seen[-1][2] == 4


def test_what_a_version_knew_has_room_for_the_arms_and_segments_that_came_later():
    version = Version(3, 1, 6, 0, 0, (0, 1), (0.5,) * 4, (1.0, 2.0, 3.0, 4.0), (0.0, 1.0, 2.0, 3.0), "tick", (4, 3))
    known = known_at(version, arms=3, segments=3)
    assert known.counts == (1, 2, 0, 3, 4, 0, 0, 0, 0)
    assert known.totals == (0, 1, 0, 2, 3, 0, 0, 0, 0)
    assert (known.step, known.steps) == (6, (4, 3, 1))
    assert known.by_segment[1] == Knowledge(3, (3, 4, 0), (2, 3, 0))
    assert known.pooled == Knowledge(6, (4, 6, 0), (2, 4, 0))
    assert nothing(2, 2).pooled == nothing(2) == Knowledge(1, (0, 0), (0, 0))
