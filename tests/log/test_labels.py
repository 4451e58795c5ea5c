from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest
from small_logs import HALF, log_of

import belated as bl
from belated.log.labels import encode


def test_integers_that_may_be_columns_or_not_are_asked_about():
    with pytest.warns(bl.BelatedWarning, match="read as column numbers 0 to 2"):
        log = bl.Log([1, 2], [1.0, 2.0], np.full((2, 3), 1 / 3))
    assert log.arms == (0, 1, 2)
    assert bl.Log([1, 2], [1.0, 2.0], HALF * 2).arms == (1, 2)


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
    assert [log.arms[k] for k in log.code] == list(labels.ravel() if isinstance(labels, np.ndarray) else labels)


def test_mixed_labels_keep_their_types():
    log = log_of(arm=["A", 1, "A", 1], arms=[1, "A"])
    assert log.arms == (1, "A")
    assert log.code.tolist() == [1, 0, 1, 0]


def test_many_text_labels():
    labels = np.array([f"arm {i % 50:02d}" for i in range(100)])
    log = bl.Log(labels, np.ones(100), np.full(100, 0.02))
    assert log.arms == tuple(sorted(set(labels)))
    assert [log.arms[k] for k in log.code] == labels.tolist()


def test_codes_are_positions_among_the_labels():
    codes, labels = encode(["b", "a", "b"], None, None)
    assert (codes.tolist(), codes.dtype, labels) == ([1, 0, 1], np.uint16, ("a", "b"))
    codes, labels = encode(np.array([2, 0]), None, 3)  # numbers of columns
    assert (codes.tolist(), labels) == ([2, 0], (0, 1, 2))
    codes, labels = encode(np.array([0.1, 0.2], dtype=np.float32), [0.2, 0.1], None)
    assert codes.tolist() == [1, 0]
    assert [type(label) for label in encode(np.array([20, 10]), None, None)[1]] == [int, int]


def test_an_unknown_label_is_named_with_its_row():
    with pytest.raises(bl.LogError, match=r"`arm` in row 1 is 'x'; it must be one of `arms`: 'a', 'b'") as caught:
        encode(["a", "x"], ["a", "b"], None)
    assert (caught.value.column, caught.value.row) == ("arm", 1)
    with pytest.raises(bl.LogError, match="`arm` in row 2 is 7"):
        encode(np.array([0, 1, 7]), [0, 1], None)


@pytest.mark.parametrize("label", [None, float("nan"), Decimal("NaN"), Decimal("sNaN"), np.datetime64("NaT")])
def test_a_label_that_is_missing_is_named_with_its_row(label):
    with pytest.raises(bl.LogError, match="`arm` in row 1 is missing; every row needs an arm"):
        encode([Decimal(1), label], None, None)


def test_labels_without_an_order_are_asked_for_one():
    with pytest.raises(bl.LogError, match=r"`arm` has labels that cannot be sorted \(complex\); give their order"):
        encode([1j, 2j], None, None)
    assert encode([1j, 2j], [1j, 2j], None)[0].tolist() == [0, 1]


def test_an_arm_of_another_type_is_suggested_as_it_is():
    estimate = bl.estimate(bl.Log([1, 2] * 4, [0.0, 1.0, 2.0, 3.0] * 2, "uniform"))
    with pytest.raises(bl.UnknownArmError, match=r"There is no arm '2'; the arms are 1, 2. Did you mean 2\?"):
        estimate.arm("2")
