from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest

import belated as bl

HALF = [[0.5, 0.5]]


def log_of(rows=4, **changes):
    columns = {
        "arm": ["A", "B"] * (rows // 2),
        "outcome": [1.0] * rows,
        "propensity": HALF * rows,
        "arrived_at": list(range(1, rows + 1)),
    }
    return bl.Log(**{**columns, **changes})


@pytest.mark.parametrize(
    ("changes", "column", "row", "sentence"),
    [
        ({"propensity": [[0.5, 0.5], [1.2, -0.2], [0.5, 0.5], [0.5, 0.5]]}, "propensity", 1, "must lie in [0, 1]"),
        ({"propensity": [[0.5, 0.5], [0.5, np.nan], [0.5, 0.5], [0.5, 0.5]]}, "propensity", 1, "for arm 'B' is nan"),
        ({"propensity": [[0.5, 0.5]] * 3 + [[0.5, 0.4]]}, "propensity", 3, "sums to 0.9"),
        ({"propensity": [[0.0, 1.0]] + [[0.5, 0.5]] * 3}, "propensity", 0, "chosen arm 'A' probability 0"),
        ({"propensity": [0.5, 0.5, 0.0, 0.5]}, "propensity", 2, "cannot have probability 0"),
        ({"propensity": [0.5, 0.5, 1.5, 0.5]}, "propensity", 2, "must lie in (0, 1]"),
        ({"arrived_at": [1, 2, None, 4]}, "outcome", 2, "has no arrival"),
        ({"arrived_at": None, "delay": [0, 0, np.inf, 0]}, "outcome", 2, "has no arrival"),
        ({"arrived_at": [1, 1, 3, 4]}, "arrived_at", 1, "is 1, before its assignment at 2"),
        ({"arrived_at": None, "delay": [0, 0, 0, -1]}, "delay", 3, "cannot be negative"),
        ({"outcome": [1, np.nan, 1, 1]}, "outcome", 1, "is nan although it has arrived"),
        ({"outcome": [1, 1, np.inf, 1]}, "outcome", 2, "is inf although it has arrived"),
        ({"outcome": [1, 1, -np.inf, 1], "arrived_at": None}, "outcome", 2, "must be a finite number"),
        ({"outcome": [1, "x", 1, 1]}, "outcome", 1, "must be a number"),
        ({"arm": ["A", "B", "C", "B"], "arms": ["A", "B"]}, "arm", 2, "is 'C'; it must be one of `arms`"),
        ({"arm": ["A", "B", None, "B"], "arms": ["A", "B"]}, "arm", 2, "is missing"),
        ({"arm": ["A", "B", None, "B"]}, "arm", 2, "is missing"),
        ({"arm": [0.0, 1.0, np.nan, 1.0]}, "arm", 2, "is missing"),
        ({"arm": ["A", "B", [1], "B"]}, "arm", 2, "hashable"),
        ({"assigned_at": [1, 2, np.nan, 4]}, "assigned_at", 2, "must have a time"),
        ({"arm": ["A", "B", "C", "B"]}, "propensity", None, "say which arm each column belongs to"),
        ({"arm": ["A", 1, "A", 1]}, "arm", None, "cannot be put in order"),
        ({"arms": ["A", "B", "C"]}, "propensity", None, "2 columns but `arms` names 3 arms"),
        ({"arms": ["A", "A"]}, "arms", None, "repeats a label"),
        ({"outcome": [1.0] * 3}, "outcome", None, "has 3 rows"),
        ({"arrived_at": [1, 2, 3]}, "arrived_at", None, "so it must too"),
        ({"delay": [0] * 4}, "delay", None, "both given"),
        ({"arrived_at": [1, 2, "a", 4]}, "arrived_at", 2, "is 'a'; it must be a number or a datetime"),
        ({"assigned_at": np.array(["2026-01-01"] * 4, "datetime64[D]")}, "arrived_at", None, "of one kind"),
        ({"arrived_at": np.array(["a"] * 4)}, "arrived_at", None, "holds text"),
        ({"assigned_at": [1, 2, np.inf, 4]}, "assigned_at", 2, "is inf"),
        ({"assigned_at": [True] * 4}, "assigned_at", None, "holds booleans"),
        ({"arrived_at": [dt.datetime(2026, 1, 1), 5, None, None]}, "arrived_at", 1, "as the others are"),
        ({"arrived_at": None, "delay": [dt.timedelta(1), 3, None, None]}, "delay", 1, "as the others are"),
        ({"arrived_at": None, "delay": np.ones(4, "timedelta64[M]")}, "delay", None, "months or years"),
        ({"assigned_at": [2**62] * 4, "arrived_at": None, "delay": [2**62 + 1] * 4}, "delay", None, "64 bits"),
        ({"outcome": [10**400, 1, 1, 1]}, "outcome", 0, "must be a number"),
        ({"arms": 2}, "arms", None, "must list the arms' labels"),
        ({"arms": [["A"], ["B"]]}, "arms", None, "must list the arms' labels"),
        ({"propensity": 0.5}, "propensity", None, "one value for every row"),
        ({"propensity": np.zeros((4, 2, 2))}, "propensity", None, "must be (rows,) or (rows, arms)"),
        ({"propensity": np.zeros((4, 0))}, "propensity", None, "no columns"),
        ({"arm": "ABAB"}, "arm", None, "one value for every row"),
    ],
)
def test_a_bad_log_is_refused_in_one_sentence(changes, column, row, sentence):
    with pytest.raises(bl.LogError) as caught:
        log_of(**changes)
    assert sentence in str(caught.value)
    assert (caught.value.column, caught.value.row) == (column, row)
    assert "\n" not in str(caught.value)
    if row is not None:
        assert f"row {row}" in str(caught.value)


def test_the_first_of_several_bad_rows_is_named():
    with pytest.raises(bl.LogError) as caught:
        log_of(outcome=[1, 1, np.nan, 1], propensity=[[0.5, 0.5]] * 3 + [[0.9, 0.9]])
    assert caught.value.row == 2


def test_a_bad_row_far_down_is_named():
    n = 1_200_000  # long enough to be checked in stretches
    pi = np.full(n, 0.5)
    pi[1_100_000] = 2.0
    pi[1_150_000] = 0.0
    with pytest.raises(bl.LogError) as caught:
        bl.Log(np.zeros(n, dtype=int), np.zeros(n), pi)
    assert caught.value.row == 1_100_000


def test_an_empty_log_is_refused():
    for propensity in (np.empty((0, 2)), []):
        with pytest.raises(bl.LogError, match="no rows"):
            bl.Log([], [], propensity)
    with pytest.raises(bl.LogError, match="`arm` has 0 rows but `propensity` has 2"):
        bl.Log([], [], np.full((2, 2), 0.5), arms=[0, 1])
    with pytest.raises(bl.LogError, match="`arm` has 0 rows but `propensity` has 2"):
        bl.Log(np.array([], dtype=int), [], np.full((2, 2), 0.5), arms=[0, 1])


def test_what_lies_after_as_of_is_not_looked_at():
    columns = {"outcome": [1.0, np.nan, np.nan, np.nan], "arrived_at": [1, 9, 9, 9]}
    assert log_of(**columns, as_of=4).arrived.tolist() == [True, False, False, False]
    assert log_of(**columns, as_of=8).at(5).as_of == 5
    with pytest.raises(bl.LogError, match="although it has arrived"):
        log_of(**columns, as_of=8).at(9)


def test_rows_assigned_after_as_of_do_not_exist():
    log = log_of(assigned_at=[3, 1, 2, 4], arrived_at=[3, 1, 2, 4], as_of=2)
    assert len(log) == 2
    assert log.arrived.tolist() == [False, True, True, False]


def test_history_is_strictly_before_and_batches_do_not_see_each_other():
    log = log_of(6, assigned_at=[1, 1, 2, 2, 3, 3], arrived_at=[1, 2, 3, 2, 3, 9])
    # row 0 came at 1: seen from time 2. Row 1 came at 2: seen at 2. Rows 2 and 3 are seen from 3.
    assert log.schedule.due.tolist() == [2, 2, 4, 4, 6, 6]


@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us", "ns"])
def test_datetimes_of_any_unit(unit):
    days = np.array(["2026-01-01", "2026-01-02", "2026-01-02", "2026-01-04"], f"datetime64[{unit}]")
    came = [dt.datetime(2026, 1, 2), None, dt.datetime(2026, 1, 3, 12), None]
    log = log_of(outcome=[1, None, 2, None], assigned_at=days, arrived_at=came, as_of="2026-01-03")
    assert len(log) == 3
    assert log.arrived.tolist() == [True, False, False, False]
    assert log.schedule.due[0] == 1
    assert "as of 2026-01-03" in str(log)


def test_zoned_datetimes_are_compared_in_utc():
    zone = dt.timezone(dt.timedelta(hours=2))
    made = [dt.datetime(2026, 1, 1, 1, tzinfo=zone), dt.datetime(2026, 1, 1, 0, tzinfo=dt.UTC)]
    log = bl.Log(["A", "B"], [1, 2], HALF * 2, assigned_at=made, delay=[dt.timedelta(0), dt.timedelta(hours=1)])
    assert log.assigned_at[0] == np.datetime64("2025-12-31T23:00")
    assert log.at(dt.datetime(2026, 1, 1, 3, tzinfo=zone)).arrived.tolist() == [True, True]
    assert log.at(dt.datetime(2026, 1, 1, 2, 59, tzinfo=zone)).arrived.tolist() == [True, False]


def test_durations_may_be_missing():
    made = np.array(["2026-01-01"] * 2, "datetime64[s]")
    late = np.array([5, "NaT"], "timedelta64[m]")
    log = bl.Log(["A", "B"], [1, None], HALF * 2, assigned_at=made, delay=late)
    assert log.arrived.tolist() == [True, False]
    nothing = bl.Log(["A", "B"], [None, None], HALF * 2, assigned_at=made, arrived_at=[None, None])
    assert nothing.arrived.tolist() == [False, False]


def test_masked_values_are_missing():
    mask = [False, True, False, True]
    came = np.ma.masked_array([1, 2, 3, 4], mask)
    log = log_of(outcome=np.ma.masked_array([1.0, 9.0, 2.0, 9.0], mask), arrived_at=came)
    assert log.arrived.tolist() == [True, False, True, False]
    assert np.isnan(log.outcome[1])


def test_dates_that_do_not_fit_nanoseconds():
    made = np.array(["2026-01-01", "2026-01-02"], "datetime64[ns]")
    came = np.array(["2026-01-01", "9999-12-31"], "datetime64[s]")
    log = bl.Log(["A", "B"], [1, 2], HALF * 2, assigned_at=made, arrived_at=came, as_of="2026-06-01")
    assert log.arrived.tolist() == [True, False]
    assert len(bl.Log(["A", "B"], [1, 2], HALF * 2, assigned_at=made, as_of="9999-12-31")) == 2
    assert len(bl.Log(["A", "B"], [1, 2], HALF * 2, assigned_at=made, as_of=dt.datetime(1, 1, 1))) == 0


@pytest.mark.parametrize(
    "as_of", ["20260102", "2026-01-02T00:00Z", "2026-01-02T02:00+02:00", np.datetime64("2026-01-02")]
)
def test_moments_are_read_as_iso_says(as_of):
    made = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], ">M8[s]")
    log = bl.Log(["A", "B", "A"], [1, 2, 3], HALF * 3, assigned_at=made, as_of=as_of)
    assert len(log) == 2
    with pytest.raises(bl.OptionError):
        log.at(np.int64(5))
    with pytest.raises(bl.OptionError):
        log.at(["2026-01-02"])


def test_lists_of_numpy_times_may_have_gaps():
    made = [np.datetime64("2026-01-01"), np.datetime64("2026-01-02T05", "h")]
    log = bl.Log(["A", "B"], [1, None], HALF * 2, assigned_at=made, arrived_at=[made[0], None])
    assert log.arrived.tolist() == [True, False]
    late = bl.Log(["A", "B"], [1, None], HALF * 2, assigned_at=made, delay=[np.timedelta64(3, "h"), None])
    assert late.arrived_at[0] == np.datetime64("2026-01-01T03")


def test_infinitely_late_is_everything():
    assert log_of(as_of=np.inf).as_of is None
    assert log_of(as_of=10**30).arrived.all()


def test_propensities_in_a_frame_follow_their_names():
    pi = pd.DataFrame({"B": [0.1] * 4, "A": [0.9] * 4})
    log = log_of(propensity=pi)
    assert log.arms == ("B", "A")
    assert log.propensity[0].tolist() == [0.1, 0.9]
    assert log_of(propensity=pi, arms=["A", "B"]).propensity[0].tolist() == [0.9, 0.1]


def test_integers_that_may_be_columns_or_not_are_asked_about():
    with pytest.warns(bl.BelatedWarning, match="taken for columns 0 to 2"):
        log = bl.Log([1, 2], [1.0, 2.0], np.full((2, 3), 1 / 3))
    assert log.arms == (0, 1, 2)
    assert bl.Log([1, 2], [1.0, 2.0], HALF * 2).arms == (1, 2)


def test_numbers_and_datetimes_do_not_mix():
    made = np.array(["2026-01-01"] * 4, "datetime64[s]")
    with pytest.raises(bl.LogError, match="durations"):
        log_of(assigned_at=made, arrived_at=None, delay=[1] * 4)
    with pytest.raises(bl.OptionError, match="must be one too"):
        log_of(as_of="2026-01-01")
    with pytest.raises(bl.OptionError, match="such as '2026-03-01'"):
        log_of(assigned_at=made, arrived_at=made, as_of=3)
    with pytest.raises(bl.OptionError, match="such as '2026-03-01'"):
        log_of(assigned_at=made, arrived_at=made, as_of="yesterday")


@pytest.mark.parametrize(
    ("labels", "arms"),
    [
        (["b", "a", "b", "a"], ("a", "b")),
        (np.array(["b", "a", "b", "a"]), ("a", "b")),
        (np.array([["b"], ["a"], ["b"], ["a"]]), ("a", "b")),
        (np.array([b"b", b"a", b"b", b"a"]), (b"a", b"b")),
        ([20, 10, 20, 10], (10, 20)),
        ([1, 0, 1, 0], (0, 1)),
        ([0, 0, 0, 0], (0, 1)),
        ([True, False, True, False], (False, True)),
        ([2.5, 1.5, 2.5, 1.5], (1.5, 2.5)),
        ([("x", 2), ("x", 1), ("x", 2), ("x", 1)], (("x", 1), ("x", 2))),
        ([dt.date(2026, 1, 2), dt.date(2026, 1, 1)] * 2, (dt.date(2026, 1, 1), dt.date(2026, 1, 2))),
    ],
)
def test_arms_are_labels_of_any_kind(labels, arms):
    log = log_of(arm=labels)
    assert log.arms == arms
    assert [log.arms[k] for k in log.code] == np.ravel(np.array(labels, dtype=object)).tolist() or isinstance(
        labels[0], tuple
    )


def test_mixed_labels_keep_their_types():
    log = log_of(arm=["A", 1, "A", 1], arms=[1, "A"])
    assert log.arms == (1, "A")
    assert log.code.tolist() == [1, 0, 1, 0]


def test_many_text_labels():
    labels = np.array([f"arm {i % 50:02d}" for i in range(100)])
    log = bl.Log(labels, np.ones(100), np.full(100, 0.02))
    assert log.arms == tuple(sorted(set(labels)))
    assert [log.arms[k] for k in log.code] == labels.tolist()


def test_a_log_shows_what_it_is():
    log = log_of(6, outcome=[1, None, 2, 3, None, 4], arrived_at=[3, None, 3, 6, None, 7])
    text = str(log)
    assert text.startswith("Log of 6 rows and 2 arms: 66.7% arrived, assigned from 1 to 6")
    columns = log.to_dict()
    assert columns["arm"] == ["A", "B"]
    assert columns["assigned"] == [3, 3]
    assert columns["share_arrived"] == pytest.approx([2 / 3, 2 / 3])
    assert columns["median_delay"] == [1.0, 1.5]
    assert columns["smallest_propensity"] == [0.5, 0.5]


def test_a_log_does_not_change_with_the_arrays_it_was_given():
    log = log_of()
    with pytest.raises(ValueError, match="read-only"):
        log.outcome[0] = 2.0
