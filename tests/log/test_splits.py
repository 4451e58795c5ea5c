from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import belated as bl
from belated.log.splits import is_split, shares_of

ARM = ["A", "B", "B", "A", "B", "A"]
Y = [1.0, 0.0, np.nan, 1.0, 1.0, 0.0]


def test_shares():
    assert shares_of("uniform", ["A", "B"], None) == {"A": 0.5, "B": 0.5}
    assert shares_of("uniform", ["A"], ["A", "B", "C", "D"]) == dict.fromkeys("ABCD", 0.25)
    assert shares_of({"B": 0.7, "A": 0.3}, ["A", "B"], None) == {"B": 0.7, "A": 0.3}
    assert shares_of({"1": 0.7, "2": 0.3}, [1, 2], None) == {1: 0.7, 2: 0.3}
    assert shares_of({"A": 0.7, "B": 0.2, "C": 0.1}, ["A", "B"], ["C", "A", "B"])["C"] == 0.1


@pytest.mark.parametrize("labels", [[1, 2], ["A", "B"], [False, True], [0.5, 1.5]])
def test_arms_have_the_labels_of_the_rows_however_a_split_has_them(labels):
    frame = pd.DataFrame({"arm": labels, "outcome": [1.0, 2.0]})
    split = dict.fromkeys(np.array(labels), 0.5)  # NumPy's scalars
    read = {"assigned_at": "none", "arrived_at": "none"}
    for log in (
        bl.Log(labels, [1.0, 2.0], split),
        bl.read(frame, propensity=split, **read),
        bl.read(frame, propensity="uniform", arms=np.array(labels), **read),
    ):
        assert list(map(repr, log.arms)) == list(map(repr, labels))
    assert list(map(repr, bl.Log([1, 2], [1.0, 2.0], {1.0: 0.5, 2.0: 0.5}).arms)) == ["1", "2"]


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ({"A": 0.5, "B": 0.6}, "sum to 1.1; they must sum to 1"),
        ({"A": 50, "B": 50}, "look like per cent, so divide them by 100"),
        ({"A": 0.5, "b": 0.5}, "gives arm 'b' a probability, but no row has this arm; .* Did you mean 'B'"),
        ({"A": 1.0}, "gives arm 'B' no probability"),
        ({"A": -0.5, "B": 1.5}, "probability -0.5; it must not be below 0"),
        ({"A": float("nan"), "B": 1.0}, "must be a finite number"),
        ({"A": 0.5, "B": "p_B"}, "arm 'A' a probability and arm 'B' none"),
        ("unifrom", "`propensity` is 'unifrom'; it must hold probabilities, or be 'uniform'"),
    ],
)
def test_splits_that_cannot_be(split, words):
    with pytest.raises(bl.BelatedError, match=words):
        bl.Log(ARM, Y, split)


def test_labels_that_differ_in_spaces_or_case_have_no_uniform_split():
    for other in ("a", "A ", " A"):
        with pytest.raises(bl.LogError, match="differ only in spaces or case"):
            bl.Log([*ARM, other], [*Y, 1.0], "uniform")
    assert bl.Log([*ARM, "a"], [*Y, 1.0], "uniform", arms=["A", "B", "a"]).propensity[0].tolist() == [1 / 3] * 3


def test_what_is_a_split():
    assert is_split({"A": 1})
    assert not is_split({"A": "p_A"})
    assert not is_split([0.5])
    assert not is_split({})


def test_logs_with_a_split_are_those_with_its_columns():
    wanted = bl.Log(ARM, Y, [[0.4, 0.6]] * 6)
    frame = pd.DataFrame({"arm": ARM, "outcome": Y})
    for log in (
        bl.Log(ARM, Y, {"A": 0.4, "B": 0.6}),
        bl.Log.from_frame(frame, propensity={"A": 0.4, "B": 0.6}),
        bl.read(frame, propensity={"A": 0.4, "B": 0.6}).log(),
        bl.read(frame, propensity="A=0.4,B=0.6").log(),
        bl.Log(ARM, Y, {"A": 0.4, "B": 0.6}).at(6).capped(None),
    ):
        assert log.propensity.tolist() == wanted.propensity.tolist()
        assert log.declared
        assert ("propensities", "a fixed split (declared)") in log.how_read
    assert not wanted.declared
    uniform = bl.Log.from_frame(frame, propensity="uniform")
    assert uniform.propensity.tolist() == [[0.5, 0.5]] * 6


def test_a_column_named_uniform_is_a_column():
    frame = pd.DataFrame({"arm": ARM, "outcome": Y, "uniform": [0.5] * 6})
    assert not bl.Log.from_frame(frame, propensity="uniform").declared
    assert bl.read(frame, propensity="uniform").columns["propensity"] == "uniform"
