from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest

import belated as bl

EVENING = dt.datetime(2026, 3, 1, 18, tzinfo=dt.UTC)


class Nowhere(dt.tzinfo):
    """A zone that does not say what it is."""

    def utcoffset(self, when):
        return None


@pytest.fixture
def store(tmp_path):
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as opened:
        yield opened


def create(store, name="button", **options):
    given = {"arms": ["A", "B"], "policy": bl.policies.uniform(), "outcome": bl.live.binary()}
    return store.create(name, **given | options).start()


def test_numbers_of_numpy_are_units_and_truth_values_outcomes(store):
    exp = create(store)
    assert [reply.unit for reply in exp.ask_many(np.arange(3))] == ["0", "1", "2"]
    said = exp.tell_many(zip(np.arange(3), np.array([True, False, True]), strict=True))
    assert [each.status for each in said] == ["new"] * 3
    assert exp.log().outcome.tolist() == [1.0, 0.0, 1.0]


def test_a_number_of_thousands_of_digits_is_refused_in_a_sentence(store):
    exp = create(store)
    with pytest.raises(bl.OptionError, match="`unit` is of type int; it must be text"):
        exp.ask(10**5000)
    with pytest.raises(bl.OptionError, match="`value` is a number that is too long to show; it must be a finite"):
        exp.tell("x", 10**5000)
    (said,) = exp.tell_many([(10**5000, 1)])
    assert (said.status, said.unit) == ("refused", "a number that is too long to show")


@pytest.mark.parametrize("wrong", [None, "abc", 7], ids=["nothing", "text", "number"])
def test_what_is_no_list_is_refused_in_a_sentence(store, wrong):
    exp = create(store)
    with pytest.raises(bl.OptionError, match=r"`units` is of type .*; it must be a list"):
        exp.ask_many(wrong)
    with pytest.raises(bl.OptionError, match=r"`outcomes` is of type .*; it must be a list"):
        exp.tell_many(wrong)
    assert exp.status().asked == exp.status().parked == 0


@pytest.mark.parametrize("wrong", [("x",), ("x", 1, "", None, False, 9), None, ()])
def test_what_is_no_outcome_is_refused_before_anything_is_stored(store, wrong):
    exp = create(store)
    with pytest.raises(bl.OptionError, match="Outcome 1 cannot be read; give a Tell, or a tuple of unit and value"):
        exp.tell_many([("x", 1), wrong])
    assert exp.status().parked == 0


def test_times_may_have_any_zone_or_none(store):
    exp = create(store, outcome=bl.live.events("1d", "count"))
    paris = dt.timezone(dt.timedelta(hours=1))
    for key, when in enumerate(
        (EVENING, EVENING.astimezone(paris), EVENING.replace(tzinfo=None), pd.Timestamp(EVENING))
    ):
        exp.tell("x", 1, key=str(key), happened_at=when)
    with store.storage.reading() as session:
        assert session.run("select distinct happened_at from parked") == [(int(EVENING.timestamp() * 1e6),)]


@pytest.mark.parametrize(
    "when",
    [
        "2026-03-01",
        EVENING.date(),
        np.datetime64("2026-03-01"),
        pd.NaT,
        EVENING.replace(tzinfo=Nowhere()),
        dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-1))),
    ],
    ids=["text", "date", "numpy", "nat", "zone", "last"],
)
def test_a_time_that_is_none_is_refused_and_harms_no_other_outcome(store, when):
    exp = create(store, outcome=bl.live.events("1d"))
    exp.ask_many(["x", "y"])
    said = exp.tell_many([("x", 1, "a", when), ("y", 1, "a")])
    assert [each.status for each in said] == ["refused", "new"]
    assert "it must be a datetime" in said[0].why
