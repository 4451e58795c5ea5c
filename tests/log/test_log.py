from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from small_logs import log_of

import belated as bl


@pytest.mark.parametrize(
    ("changes", "column", "row", "sentence"),
    [
        ({"propensity": [[0.5, 0.5], [1.2, -0.2], [0.5, 0.5], [0.5, 0.5]]}, "propensity", 1, "must lie in [0, 1]"),
        ({"propensity": [[0.5, 0.5], [0.5, np.nan], [0.5, 0.5], [0.5, 0.5]]}, "propensity", 1, "for arm 'B' is nan"),
        ({"propensity": [[0.5, 0.5]] * 3 + [[0.5, 0.4]]}, "propensity", 3, "sums to 0.9"),
        ({"propensity": [[0.0, 1.0]] + [[0.5, 0.5]] * 3}, "propensity", 0, "chosen arm 'A' probability 0"),
        ({"propensity": [0.5, 0.5, 0.0, 0.5]}, "propensity", 2, "cannot have probability 0"),
        ({"propensity": [[1e-31, 1.0]] + [[0.5, 0.5]] * 3}, "propensity", 0, "probability 1e-31; an arm with a prob"),
        (
            {"propensity": [0.5, 0.5, 1e-300, 0.5]},
            "propensity",
            2,
            "is 1e-300; an arm with a probability below 1e-30 is",
        ),
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
        ({"arm": ["A", "B", "C", "B"]}, "propensity", None, "give the arm of each column"),
        ({"arm": ["A", 1, "A", 1]}, "arm", None, "cannot be sorted"),
        ({"arms": ["A", "B", "C"]}, "propensity", None, "2 columns but `arms` has 3 arms"),
        ({"arms": ["A", "A"]}, "arms", None, "repeats a label"),
        ({"outcome": [1.0] * 3}, "outcome", None, "has 3 rows"),
        ({"arrived_at": [1, 2, 3]}, "arrived_at", None, "it must have 4 rows"),
        ({"delay": [0] * 4}, "delay", None, "both given"),
        ({"arrived_at": [1, 2, "a", 4]}, "arrived_at", 2, "is 'a'; it must be a number or a datetime"),
        ({"assigned_at": np.array(["2026-01-01"] * 4, "datetime64[D]")}, "arrived_at", None, "the same type"),
        ({"arrived_at": np.array(["a"] * 4)}, "arrived_at", None, "contains text"),
        ({"assigned_at": [1, 2, np.inf, 4]}, "assigned_at", 2, "is inf"),
        ({"assigned_at": [True] * 4}, "assigned_at", None, "contains booleans"),
        ({"arrived_at": [dt.datetime(2026, 1, 1), 5, None, None]}, "arrived_at", 1, "like the others"),
        ({"arrived_at": None, "delay": [dt.timedelta(1), 3, None, None]}, "delay", 1, "like the others"),
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


def test_an_empty_log_is_refused():
    for propensity in (np.empty((0, 2)), []):
        with pytest.raises(bl.LogError, match="no rows"):
            bl.Log([], [], propensity)
    with pytest.raises(bl.LogError, match="`arm` has 0 rows but `propensity` has 2"):
        bl.Log([], [], np.full((2, 2), 0.5), arms=[0, 1])
    with pytest.raises(bl.LogError, match="`arm` has 0 rows but `propensity` has 2"):
        bl.Log(np.array([], dtype=int), [], np.full((2, 2), 0.5), arms=[0, 1])


def test_masked_values_are_missing():
    mask = [False, True, False, True]
    arrived_at = np.ma.masked_array([1, 2, 3, 4], mask)
    log = log_of(outcome=np.ma.masked_array([1.0, 9.0, 2.0, 9.0], mask), arrived_at=arrived_at)
    assert log.arrived.tolist() == [True, False, True, False]
    assert np.isnan(log.outcome[1])


def test_infinitely_late_is_everything():
    assert log_of(as_of=np.inf).as_of is None
    assert log_of(as_of=10**30).arrived.all()


def test_propensities_in_a_frame_follow_their_names():
    pi = pd.DataFrame({"B": [0.1] * 4, "A": [0.9] * 4})
    log = log_of(propensity=pi)
    assert log.arms == ("B", "A")
    assert log.propensity[0].tolist() == [0.1, 0.9]
    assert log_of(propensity=pi, arms=["A", "B"]).propensity[0].tolist() == [0.9, 0.1]
