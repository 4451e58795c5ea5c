from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

import belated as bl
from belated.live.verifying import verify
from tests.live.conftest import of_storages

UNITS = [f"unit-{i:02}" for i in range(30)]


def run(exp, place):
    """Have an experiment learn, change and stop."""
    rng = np.random.default_rng(1)
    for batch in range(3):
        units = UNITS[10 * batch : 10 * batch + 10]
        exp.ask_many(units)
        place.clock.forward(60)
        exp.tell_many((unit, rng.integers(2)) for unit in units[:8])
        exp.tick()
    exp.pause_arm("C")
    exp.stop(final="B")


#: What may be done to a store beside its back, and what is then said.
DAMAGE = [
    ("update decision set arm = case arm when 2 then 0 else arm + 1 end where unit = 'unit-05'", "1 decision"),
    ("update decision set arm = -1 where unit = 'unit-05'", "1 decision for an arm of probability 0"),
    ("update decision set version = 99 where unit = 'unit-05'", "1 decision of a version that is not there"),
    ("update decision set assigned_at = 0 where unit = 'unit-05'", "1 decision before the version that made it"),
    ("update decision set version = 3 where unit = 'unit-05'", "1 decision before the version that made it"),
    ("update decision set unit = 'x' where unit = 'unit-05'", ""),
    ("delete from decision where unit = 'unit-05'", "version 2 does not follow"),
    ("delete from decision where unit = 'unit-05'", "1 outcome without a decision"),
    ("update version set probabilities = '[0.2, 0.3, 0.5]' where number = 2", "version 2 does not have the prob"),
    ("update version set counts = '[9, 0, 0]' where number = 3", "version 3 does not follow"),
    ("update version set watermark = watermark - 16777216 where number = 3", "version 3 does not follow"),
    ("update version set watermark = watermark * 2 where number = 5", "version 5 has a watermark above everything"),
    ("update version set watermark = 1 where number = 4", "version 4 is older than the one before it"),
    ("update version set made_at = 1 where number = 4", "version 4 is older than the one before it"),
    ("update version set made_at = made_at - 1 where number = 3", "version 3 is not later than the outcomes"),
    ("delete from version where number = 3", "version 3 is missing"),
    ("delete from version", "version 1 is missing"),
    ("update outcome set value = 1 - value where id = (select min(id) from outcome)", "version 2 does not follow"),
    ("update outcome set value = 0.5 where id = (select max(id) from outcome)", "1 outcome that its kind does not"),
    ("delete from outcome where id = (select max(id) from outcome)", "version 4 does not follow"),
    ("update outcome set arrived_at = 0 where id = (select max(id) from outcome)", "1 outcome before the decision"),
    (
        "update outcome set experiment = 0 where id = (select max(id) from outcome)",
        "1 outcome of an experiment that",
    ),
    ("update arm set label = 'Z' where number = 2", "its arms are not those of the list of changes"),
    ("update arm set state = 'offered' where number = 2", "its arms' states are not those of the list of changes"),
    ("delete from arm where number = 2", "its arms are not those of the list of changes"),
    ("update experiment set state = 'running'", "it is running, and stopped by the list of changes"),
    ("update experiment set final = 0", "its final arm is not that of the list of changes"),
    ("""update experiment set about = replace(about, '"level": 0.95', '"level": 0.5')""", "what was fixed at its"),
    ("""update experiment set about = replace(about, '"baseline": "A"', '"baseline": "B"')""", "what was fixed at"),
    ("delete from change where what = 'create'", "its creation is not in the list of changes"),
    ("delete from change where what = 'pause arm'", "its arms' states are not those of the list of changes"),
    ("delete from change", "its creation is not in the list of changes"),
    ("delete from rule", "a policy is missing"),
    ("update version set cause = 'import'", "it has imported versions, and was started by the list of changes"),
    (
        "insert into version select experiment, number + 1, rule, step, watermark, made_at, '[0, 1, 2]', "
        "probabilities, counts, totals, cause, steps from version order by number desc limit 1",
        "its last version is not of the last change of its arms or its policy",
    ),
    ("update outcome set key = 'x'", "that its kind does not have"),
    ("insert into parked select id, 'z', '', 7, null, 0 from experiment", "1 outcome parked that its kind"),
    ("insert into exclusion values (7, 'B - A', 0, 0)", "1 exclusion of an experiment that is not there"),
    ("delete from experiment", "decisions of an experiment that is not there"),
]


class UndoneError(Exception):
    """Ends a transaction without a trace."""


def findings(store, damage):
    """Return what is found in a store after a statement, which is then undone."""
    found = ()
    with suppress(UndoneError), store.storage.writing() as session:
        session.run(damage)
        found = verify(session, store.find_policy).findings
        raise UndoneError
    return found


@of_storages("a service says what its store finds")
def test_what_was_altered_is_found_and_named(place):
    exp = place.create(arms=["A", "B", "C"], policy=bl.policies.thompson_beta())
    run(exp, place)
    for damage, words in DAMAGE:
        found = findings(exp._store, damage)
        assert not words or any(words in finding for finding in found), (damage, found)
        assert not any(unit in finding for unit in UNITS for finding in found)
    assert exp._store.verify().clean


def test_what_this_process_remembers_is_read_again(place):
    exp = place.create()
    exp.ask("x")
    place.sql("update arm set state = 'dropped' where number = 1")
    found = exp._store.verify().findings
    assert "its arms' states are not those of the list of changes" in found[0]


def test_changes_of_the_past_are_clean(place):
    """Everything that can be changed leaves a store that verifies."""
    exp = place.create(policy=bl.policies.epsilon_greedy())
    exp.add_arm("C")
    run(exp, place)
    exp.erase(UNITS[3])
    exp.close()
    place.create("draft", start=False).add_arm("D")
    place.create("closed", start=False).close()
    by_country = place.create("by country", segments=["DE", "FR"])
    by_country.add_segment("ES")
    by_country.ask("x", "ES")
    by_country.tick()
    assert exp._store.verify().findings == ()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("update arm set label = 'C' where number = 1", "its arms are not those of the list of changes"),
        ("""update rule set policy = '{"name": "uniform"}'""", "its policies are not those of the list of changes"),
        ("update rule set policy = '{'", "a policy cannot be read"),
        ("update version set probabilities = '[0.5;0.5]'", "a version of the policy cannot be read"),
        ("update change set detail = 'x'", "the list of changes cannot be read"),
    ],
)
def test_what_was_altered_is_found(place, damage, words):
    exp = place.create(policy=bl.policies.fixed({"A": 0.4, "B": 0.6}))
    exp.ask_many(UNITS)
    place.sql(damage)
    assert any(words in finding for finding in exp._store.verify().findings)
