from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from belated.base import columns
from belated.base.errors import LogError


@pytest.mark.parametrize(
    "values",
    [[1, 2.5, None], (1, 2.5, math.nan), np.array([1, 2.5, np.nan], np.float32), pd.array([1, 2.5, None], "Float64"),
     np.ma.MaskedArray([1, 2.5, 9], [False, False, True]), np.array([True, 2.5, None], object)],
)  # fmt: skip
def test_missing_values_of_every_kind_are_nan(values):
    array = columns.numbers("outcome", values)
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, [1, 2.5, math.nan])


def test_a_matrix_may_be_a_column_of_lists():
    for values in ([[0.5, 0.5], [0.1, 0.9]], np.array([[0.5, 0.5], [0.1, 0.9]]), pd.Series([[0.5, 0.5], [0.1, 0.9]])):
        np.testing.assert_array_equal(columns.numbers("p", values, dimensions=(1, 2)), [[0.5, 0.5], [0.1, 0.9]])


@pytest.mark.parametrize(
    ("values", "row", "words"),
    [
        ([1, "x"], 1, "`y` in row 1 is 'x'; it must be a number."),
        ([1, None, 10**400], 2, "in row 2 is 1000"),
        (np.array(["a"]), None, "`y` holds text; it must hold numbers."),
        (np.array(["2026-01-01"], "M8[D]"), None, "`y` holds datetimes; it must hold numbers."),
        (np.array([1j]), None, "`y` holds complex numbers"),
        (3.0, None, "it must be a column with one value for every row"),
        ([[1.0, 2.0]], None, "`y` has shape (1, 2); it must be (rows,)."),
    ],
)
def test_what_is_not_a_column_of_numbers(values, row, words):
    with pytest.raises(LogError) as wrong:
        columns.numbers("y", values)
    assert words in str(wrong.value)
    assert wrong.value.column == "y"
    assert wrong.value.row == row


def test_lists_of_uneven_length_name_the_row():
    with pytest.raises(LogError, match="`p` in row 0 is None; row 1 has a list of 2"):
        columns.numbers("p", [None, [0.5, 0.5]], dimensions=(1, 2))
    with pytest.raises(LogError, match="`p` in row 1 is a list of 1; row 0 has a list of 2") as wrong:
        columns.numbers("p", [[0.5, 0.5], [1.0]], dimensions=(1, 2))
    assert wrong.value.row == 1


def test_labels_of_mixed_types_stay_what_they_are():
    assert columns.as_array("arm", ["a", 1]).tolist() == ["a", 1]


@pytest.mark.parametrize("value", [None, math.nan, np.float32("nan"), np.datetime64("NaT", "s"), pd.NA, pd.NaT])
def test_missing(value):
    assert columns.is_missing(value)


@pytest.mark.parametrize("value", [0, "", "nan", False, math.inf, np.datetime64("2026-01-01"), [], ()])
def test_not_missing(value):
    assert not columns.is_missing(value)


def test_samples():
    np.testing.assert_array_equal(columns.sample("x", iter([1, 2])), [1, 2])
    assert columns.sample("x", [1, math.inf], infinite=True)[1] == math.inf
    for values in ([], [math.nan]):
        with pytest.raises(LogError, match="at least one number, and no missing ones"):
            columns.sample("x", values)
    with pytest.raises(LogError, match="`x` contains inf; it must have finite numbers"):
        columns.sample("x", [1, math.inf])
    for values in ("12", 3):
        with pytest.raises(LogError, match="it must be a sample of numbers"):
            columns.sample("x", values)


def nested(value, depth):
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("values", [nested(1.0, 5000), [nested(1.0, 5000)], [1.0, nested(1.0, 5000)], nested(1.0, 100)])
def test_lists_nested_deep_are_no_column(values):
    for dimensions in ((1,), (1, 2)):
        with pytest.raises(LogError, match="`y` contains lists of lists of lists"):
            columns.numbers("y", values, dimensions=dimensions)


def test_rows_of_uneven_length_and_labels_that_are_tuples_are_not_deep():
    assert columns.as_array("arm", [("a", ("b", "c")), ("d",)]).tolist() == [("a", ("b", "c")), ("d",)]
    assert columns.as_array("p", [[1.0], [1.0, 2.0]]).shape == (2,)
