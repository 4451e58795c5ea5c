from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from drawn import DRAWN, refused
from engines import Engine

import belated as bl
from belated.reading.first_look import Facts

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


@pytest.mark.parametrize("arm", [None, "missing"])
def test_an_arm_that_is_missing(arm):
    labels = [None if i == 9 else "AB"[k] for i, k in enumerate(DRAWN.code)]
    frame = DRAWN.wide(arm=pa.array(labels, pa.string()))
    refused("`arm` in row 9 is missing; every row needs an arm.", frame if arm is None else frame.to_pandas())


def test_an_arm_that_is_missing_on_every_engine(engine: Engine):
    labels = [None if i == 9 else "AB"[k] for i, k in enumerate(DRAWN.code)]
    refused("`arm` in the row assigned at 10 is missing", engine.table(DRAWN.wide(arm=pa.array(labels, pa.string()))))


def test_arms_that_are_missing_beside_a_table_of_outcomes_have_their_key():
    sent = {"user_id": [7, 8, 9], "arm": ["A", None, None], "p_A": [0.5] * 3, "p_B": [0.5] * 3, "sent_at": [1, 2, 3]}
    outcomes = pa.table({"user_id": [7], "reward": [1.0]})
    refused("`arm` in the row of key 8 is missing, the first of 2 rows;", pa.table(sent), outcomes=outcomes)


@pytest.mark.parametrize("unit", ["fraction", "percent"])
def test_columns_of_arms_never_chosen_are_named_among_the_propensities(unit):
    size = 100 if unit == "percent" else 1
    frame = {"arm": ["A"] * 4, "reward": [1, 0, 1, 1], "p_A": [0.4 * size] * 4, "p_B": [0.6 * size] * 4}
    source = bl.read(pa.table(frame), propensity_unit=unit)
    assert source.arms == ("A", "B")
    assert source.columns["propensity"] == ["p_A", "p_B"]
    alone = bl.read(pa.table({**frame, "p_A": [1.0 * size] * 4}), propensity_unit=unit)
    assert alone.arms == ("A",)
    assert alone.columns["propensity"] == ["p_A"]


def at(values, start=dt.datetime(2026, 1, 1), unit="us", zone=None):
    times = [None if v is None else start + dt.timedelta(hours=int(v)) for v in values]
    return pa.array(times, pa.timestamp("us")).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, zone))


ARRIVED = [None if out else int(t + d) for t, d, out in zip(DRAWN.t, DRAWN.delay, DRAWN.out, strict=True)]


def test_arms_and_moments_that_cannot_be():
    table = DRAWN.wide()
    assert bl.read(table, arms=["B", "A"]).arms == ("B", "A")
    refused("No column holds the propensity of arm 'C'", table, arms=["A", "B", "C"])
    refused("`arm` holds 'B'; it must be one of `arms`: 'A'", table, arms=["A"])
    refused("repeats a label", table, arms=["A", "A", "B"])
    for moment in ("2026-01-01", "x", np.nan, True, [1], dt.datetime(2026, 1, 1)):
        refused("it must be a number", table, as_of=moment)
    refused("no rows as of 0", table, as_of=0)
    dated = DRAWN.wide(assigned_at=at(DRAWN.t), arrived_at=at(ARRIVED))
    for moment in (5, "x", "2026-13-01"):
        refused("it must be a datetime", dated, as_of=moment)
    refused("no rows as of 2020-01-01", dated, as_of="2020-01-01")
    for window in ("5x", float("inf"), 10**30, "7d"):
        refused("`window` is", table, events=True, window=window)


def test_facts_take_arms_in_any_order():
    facts = Facts(values=("B", "A"), assigned=np.array([2, 3]), first=1, last=5, last_arrival=np.nan)
    assert (facts.rows, facts.last_time) == (5, 5)
    more = facts.among(["A", "C", None])
    assert (more.values, more.assigned.tolist()) == (("B", "A", "C"), [2, 3, 0])
    ordered = facts.in_order_of(["A", "D", "B"])
    assert (ordered.values, ordered.assigned.tolist()) == (("A", "D", "B"), [3, 0, 2])


def test_what_no_column_tells_is_noted():
    source = bl.read(DRAWN.wide().drop(["assigned_at", "arrived_at"]))
    assert source.notes == (
        "There is no column with assignment times; rows are used in their order.",
        "There is no column with arrival times; every outcome counts from its assignment.",
    )
