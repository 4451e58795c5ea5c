from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import belated as bl
from belated.live.creating import plan_creation

GIVEN = {"arms": ["A", "B"], "policy": bl.policies.uniform(), "outcome": bl.live.binary()}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"arms": None}, "`arms` is of type NoneType; it must be a list"),
        ({"arms": ["A", 7]}, "`arms` is of type int; it must be text"),
        ({"segments": 5}, "`segments` is of type int; it must be a list"),
        (
            {"policy": bl.policies.uniform().matured(), "outcome": bl.live.events("1d")},
            "`policy` is matured, but live experiments learn from closed windows; leave out",
        ),
        ({"author": ""}, "`author` has 0 characters"),
        ({"reason": "x" * 2001}, "`reason` has 2,001 characters"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_stored(options, words):
    with pytest.raises(bl.OptionError, match=words):
        plan_creation("button", **GIVEN | options)


def test_a_policy_s_batch_is_the_rows_of_a_version():
    batched = GIVEN | {"policy": bl.policies.uniform().batched(70)}
    assert plan_creation("button", **batched).setup.every == 70
    assert plan_creation("button", **batched, every=7).setup.every == 7
    assert plan_creation("button", **GIVEN, planned_rows=5000).setup.every == 10


def test_two_creations_at_once_make_one_experiment(place):
    stores = [place.open(), place.open()]
    for turn in range(5):
        together = threading.Barrier(2)

        def create(store, name=f"name {turn}", together=together):
            together.wait(10)
            try:
                return store.create(name, arms=["A"], policy=bl.policies.uniform(), outcome=bl.live.binary()).name
            except bl.live.LiveError as error:
                return str(error)

        with ThreadPoolExecutor(2) as pool:
            said = sorted(pool.map(create, stores))
        assert said[1] == f"name {turn}"
        assert "already an experiment" in said[0]
    assert len(stores[0].experiments()) == 5
