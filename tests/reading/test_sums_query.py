from __future__ import annotations

import ibis
import numpy as np
import pytest

import belated as bl
from belated.log.clock import Clock
from belated.reading.engines import fetch
from belated.reading.sums_query import Cuts, chosen, faulty, first_pass, sums_of_tables, sums_tables
from belated.reading.table_rows import with_codes
from belated.summaries.outcome_models import read_outcome_model
from belated.summaries.sums import SumsOf
from belated.summaries.weights import read_weights

ARM, OUTCOME = ["A", "B", "A", "B"], [1.0, 5.0, None, 7.0]
P, ARRIVED = [0.5, 0.8, 0.4, 0.1], [1, 4, None, 4]
ROWS = ibis.memtable(
    {"arm": ARM, "outcome": OUTCOME, "p0": P, "p1": [1 - p for p in P], "assigned": [1, 2, 3, 4], "arrived": ARRIVED},
    schema={
        "arm": "string", "outcome": "float64", "p0": "float64", "p1": "float64", "assigned": "int64", "arrived": "int64"
    },
)  # fmt: skip
CODED = with_codes(ROWS, ["A", "B"])
LOG = bl.Log(ARM, OUTCOME, np.column_stack([P, [1 - p for p in P]]), assigned_at=[1, 2, 3, 4], arrived_at=ARRIVED)


def in_order(table):
    return table.order_by("assigned").to_pyarrow()


def test_codes_and_the_chosen_arm_s_propensity():
    assert in_order(CODED)["code"].to_pylist() == [0, 1, 0, 1]
    own = in_order(CODED.mutate(own=chosen(CODED, 2)))["own"].to_pylist()
    assert own == pytest.approx([0.5, 0.2, 0.4, 0.9])
    by_arm = first_pass(CODED, 2).order_by("code").to_pyarrow().to_pydict()
    assert (by_arm["anchor"], by_arm["faulty"]) == ([1.0, 5.0], [0, 0])
    wrong = first_pass(CODED.mutate(arrived=CODED.arrived - 1), 2).order_by("code")
    assert wrong.to_pyarrow()["faulty"].to_pylist() == [1, 1]


def test_sound_rows_have_no_fault_and_others_are_returned():
    assert fetch(faulty(CODED, 2)).num_rows == 0
    wrong = CODED.mutate(p0=(CODED.assigned == 2).ifelse(0.9, CODED.p0))
    assert fetch(faulty(wrong, 2))["assigned"].to_pylist() == [2]
    large = CODED.mutate(outcome=CODED.outcome * 2e59)
    assert fetch(faulty(large, 2))["assigned"].to_pylist() == [4]
    never = CODED.mutate(
        p0=(CODED.assigned == 3).ifelse(1e-31, CODED.p0), p1=(CODED.assigned == 3).ifelse(1.0, CODED.p1)
    )
    assert fetch(faulty(never, 2))["assigned"].to_pylist() == [3]
    rounded = CODED.mutate(p0=CODED.p0 / 2, p1=CODED.p1 / 2 + 1.4e-6, p2=0.5)
    assert fetch(faulty(rounded.drop("p2"), 2)).num_rows == 4
    assert fetch(faulty(rounded, 3)).num_rows == 0
    early = CODED.mutate(arrived=CODED.arrived - 1)
    assert fetch(faulty(early, 2))["assigned"].to_pylist() == [1, 4]


@pytest.mark.parametrize("model", ["zero", "running_mean"])
@pytest.mark.parametrize("moments", [None, [1, 3, 4]])
def test_an_engine_s_sums_are_those_of_the_kernel(model, moments):
    about = SumsOf(LOG.arms, read_weights("sqrt"), read_outcome_model(model), full=True, plain=True)
    cuts = None if moments is None else Cuts(np.array(moments), Clock(), matured=False)
    shift = np.array([1.0, 5.0])
    tables = [fetch(table) for table in sums_tables(CODED, about, shift, cuts)]
    got = sums_of_tables(tables, about, shift, 1 if moments is None else len(moments))
    wanted = LOG.sums([("sqrt", model)], None if moments is None else np.array(moments))[0]
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one.spread, other.recentred(shift).spread, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(one.own, other.recentred(shift).own, rtol=1e-12, atol=1e-12)


def test_what_arrives_after_the_last_assignment_is_seen_by_no_row_and_left_out():
    about = SumsOf(LOG.arms, read_weights("sqrt"), read_outcome_model("running_mean"), full=True, plain=True)
    rows = CODED.mutate(arrived=(CODED.assigned == 4).ifelse(9, CODED.arrived))
    tables = [sums_tables(rows, about, np.array([1.0, 5.0]), last=last)[-1] for last in (None, 4)]
    all_, needed = (fetch(table).sort_by("k").to_pydict() for table in tables)
    assert all_ == needed
    assert ["<= 4" in ibis.to_sql(table) for table in tables] == [False, True]


@pytest.mark.parametrize("at_once", [1, 2])
def test_arms_are_asked_for_some_at_a_time(monkeypatch, at_once):
    monkeypatch.setattr("belated.reading.sums_query._MOST_ARMS", at_once)
    about = SumsOf(LOG.arms, read_weights("sqrt"), read_outcome_model("running_mean"), full=True, plain=True)
    shift = np.array([1.0, 5.0])
    tables = sums_tables(CODED, about, shift)
    assert len(tables) == 4 // at_once
    (got,) = sums_of_tables([fetch(table) for table in tables], about, shift)
    wanted = LOG.sums([("sqrt", "running_mean")])[0][0].recentred(shift)
    np.testing.assert_allclose(got.spread, wanted.spread, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(got.own, wanted.own, rtol=1e-12, atol=1e-12)
