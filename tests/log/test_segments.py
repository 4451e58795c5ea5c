"""Reading segments and covariates from users' columns, and logs that have them."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from segment_logs import columns, log_with_segments, named

import belated as bl
from belated.log.segments import covariates_of, read_covariates, read_segments

HALF = [[0.5, 0.5]]


def log_of(segment=None, covariates=None, **options):
    rows = len(next(iter(covariates.values()))) if segment is None else len(segment)
    return bl.Log(
        [0, 1] * (rows // 2), np.arange(float(rows)), HALF * rows, segment=segment, covariates=covariates, **options
    )


def column(values):
    read = read_segments(values, len(values))
    return read.labels, [read.labels[code] for code in read.code]


@pytest.mark.parametrize(
    ("values", "labels", "each"),
    [
        (["b", "a", "b"], ("a", "b"), ["b", "a", "b"]),
        ([3, 1, 3], (1, 3), [3, 1, 3]),
        ([True, False, True], (False, True), [True, False, True]),
        (["b", None, "a"], ("a", "b", "(missing)"), ["b", "(missing)", "a"]),
        ([2.0, math.nan, 1.0], (1.0, 2.0, "(missing)"), [2.0, "(missing)", 1.0]),
        ([None, math.nan, None], ("(missing)",), ["(missing)"] * 3),
        (["a", 1, "a"], ("a", 1), ["a", 1, "a"]),
        (pd.Series(["b", None, "a"], dtype="category"), ("a", "b", "(missing)"), ["b", "(missing)", "a"]),
        (pd.Series([2, None, 1], dtype="Int64"), (1, 2, "(missing)"), [2, "(missing)", 1]),
        (pl.Series(["b", None, "a"]), ("a", "b", "(missing)"), ["b", "(missing)", "a"]),
        (pl.Series(["b", None, "a"], dtype=pl.Categorical), ("a", "b", "(missing)"), ["b", "(missing)", "a"]),
        (np.array(["x"] * 3, dtype="S1").astype(str), ("x",), ["x"] * 3),
    ],
)
def test_columns_of_every_kind(values, labels, each):
    assert column(values) == (labels, each)


def test_labels_are_pythons_own():
    (text, other), _ = column([np.str_("a"), np.str_("b")])
    (number, missing), _ = column(np.array([np.int64(7), None], dtype=object))
    assert [type(label) for label in (text, other, number, missing)] == [str, str, int, str]


def test_dates_are_labels_and_a_missing_date_is_missing():
    labels, _ = column(np.array(["2024-01-02", "NaT", "2024-01-01"], dtype="M8[D]"))
    assert labels[-1] == "(missing)"
    assert [label.date() for label in labels[:2]] == [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]


@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_several_columns_give_their_combinations(frame):
    table = frame({"country": ["DE", "FR", "DE"], "device": ["web", "web", "app"]})
    read = read_segments(table, 3)
    assert read.labels == ("DE, app", "DE, web", "FR, web")
    assert read.code.tolist() == [1, 2, 0]


@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_covariates_are_the_columns_of_any_frame(frame):
    assert read_covariates(frame({"age": [31, 45], "visits": [2, 5]}), 2).names == ("age", "visits")


def test_combinations_that_read_the_same_stay_apart():
    read = read_segments({"a": ["x, y", "x"], "b": ["z", "y, z"]}, 2)
    assert len(set(read.labels)) == 2


@pytest.mark.parametrize(
    ("segment", "words"),
    [
        (["a", "b", "a"], "has 3 rows but `propensity` has 4"),
        ([["a"], ["b"], ["a"], ["b"]], "shape"),
        ([{}, "a", "b", "a"], "row 0"),
        (["a", [1], "b", "a"], "row 1"),
        ({}, "has no columns"),
        ({"country": ["a", "b"]}, "has 2 rows"),
        ("country", "segment"),
        (7, "segment"),
    ],
)
def test_segments_that_cannot_be(segment, words):
    with pytest.raises(bl.BelatedError, match=words) as caught:
        bl.Log([0, 1, 0, 1], [1.0] * 4, HALF * 4, segment=segment)
    assert "\n" not in str(caught.value)


def test_so_many_segments_are_no_segments():
    with pytest.raises(bl.BelatedError, match="10,001 different values; at most 10,000 are possible"):
        read_segments(np.arange(10_001), 10_001)
    with pytest.raises(bl.BelatedError, match="10,001 different values"):
        read_segments([f"user {i}" for i in range(10_001)], 10_001)
    assert len(read_segments(np.arange(10_000), 10_000).labels) == 10_000


def test_covariates_that_do_not_vary_are_left_out():
    log = log_of(covariates={"same": [7.0] * 6, "near": [1e9] * 6, "empty": [math.nan] * 6, "x": range(6)})
    assert log.covariates.names == ("x",)
    alone = log_of(covariates={"same": [7.0] * 6})
    assert alone.covariates.names == ()
    with pytest.warns(bl.BelatedWarning):
        bl.estimate(log_of(covariates={"same": [7.0] * 2}))


def test_missing_values_have_an_indicator():
    log = log_of(covariates={"x": [1.0, math.nan, 3.0, None]})
    assert log.covariates.names == ("x", "x is missing")
    np.testing.assert_allclose(log.covariates.values, [[-1, -1], [0, 1], [1, -1], [0, 1]])


@pytest.mark.parametrize(
    ("values", "scaled"),
    [
        ([True, False, True, False], [1, -1, 1, -1]),
        ([1e300, -1e300, 1e300, -1e300], [1, -1, 1, -1]),
        ([1.7e308, -1.7e308, 1.7e308, -1.7e308], [1, -1, 1, -1]),
        ([5e-300, -5e-300, 5e-300, -5e-300], [1, -1, 1, -1]),
        (pd.Series([3, 1, 3, 1], dtype="Int64"), [1, -1, 1, -1]),
        (pl.Series([3, 1, 3, 1]), [1, -1, 1, -1]),
    ],
)
def test_covariates_are_scaled(values, scaled):
    log = bl.Log([0, 1, 0, 1], [1.0] * 4, HALF * 4, covariates={"x": values})
    np.testing.assert_allclose(log.covariates.values[:, 0], scaled)


@pytest.mark.parametrize(
    ("covariates", "words"),
    [
        ({"x": [1, 2, math.inf, 4]}, r"The covariate 'x' in row 2 is inf; it must be finite, or missing"),
        ({"x": ["a", "b", "c", "d"]}, "The covariate 'x'"),
        ({"x": [1, 2, 3]}, "The covariate 'x' has 3 rows but `propensity` has 4"),
        ({"x": [[1], [2], [3], [4]]}, "The covariate 'x'"),
        ([1, 2, 3, 4], "is of type list; it must map names to columns"),
        ({f"x{i}": [1, 2, 3, 4] for i in range(101)}, "has 101 columns; at most 100 are possible"),
    ],
)
def test_covariates_that_cannot_be(covariates, words):
    with pytest.raises(bl.BelatedError, match=words) as caught:
        bl.Log([0, 1, 0, 1], [1.0] * 4, HALF * 4, covariates=covariates)
    assert "\n" not in str(caught.value)


def parts(covariates=True):
    arm, outcome, propensity, segment, x = columns(300, covariates=1)
    x[150:, 0][np.arange(150) % 3 == 0] = math.nan
    return [
        bl.Log(
            arm[rows], outcome[rows], propensity[rows], segment=segment[rows], assigned_at=np.arange(300)[rows],
            covariates=named(x[rows]) if covariates else None,
        )
        for rows in (slice(0, 150), slice(150, 300), slice(0, 300))
    ]  # fmt: skip


def test_joined_logs_have_the_segments_and_covariates_of_all_rows():
    first, second, whole = parts()
    joined = first.joined([second])
    assert joined.segments == whole.segments
    assert joined.covariates.names == whole.covariates.names == ("x0", "x0 is missing")
    np.testing.assert_allclose(joined.covariates.values, whole.covariates.values, atol=1e-9)
    assert bl.estimate(joined).values == pytest.approx(bl.estimate(whole).values)


def test_a_covariate_that_varies_in_one_part_only():
    first, second = (
        log_of(covariates={"x": x}, assigned_at=np.arange(4) + start)
        for x, start in (([2.0] * 4, 0), ([1.0, 2.0, 3.0, math.nan], 4))
    )
    for joined, values in (
        (first.joined([second]), [2, 2, 2, 2, 1, 2, 3, math.nan]),
        (second.joined([first]), [1, 2, 3, math.nan, 2, 2, 2, 2]),
    ):
        wanted = covariates_of(["x"], [np.array(values)])
        assert joined.covariates.names == wanted.names
        np.testing.assert_allclose(joined.covariates.values, wanted.values, atol=1e-12)


def test_parts_with_and_without_segments_do_not_join():
    (first, *_), (_, second, _) = parts(), parts(covariates=False)
    with pytest.raises(bl.BelatedError, match="must all have segments and covariates, or none"):
        first.joined([second])
    other = log_of(covariates={"y": range(4)}, assigned_at=range(4))
    with pytest.raises(bl.BelatedError, match="same covariates"):
        log_of(covariates={"x": range(4)}, assigned_at=range(4)).joined([other])


def test_the_rows_of_a_segment():
    log = log_with_segments(covariates=1)
    one = log.in_segment("FR")
    rows = log.segment_column.code == 1
    assert len(one) == rows.sum()
    assert one.segments == ()
    assert one.arms == log.arms
    np.testing.assert_array_equal(one.assigned_at, log.assigned_at[rows])
    np.testing.assert_array_equal(one.outcome, log.outcome[rows])
    with pytest.raises(bl.BelatedError, match="There is no segment 'XX'"):
        log.in_segment("XX")
    with pytest.raises(bl.BelatedError, match="no segments"):
        one.in_segment("FR")


@pytest.mark.filterwarnings("ignore::belated.BelatedWarning")
def test_a_segment_without_rows_yet():
    arm, outcome, propensity, segment, _ = columns(300)
    order = np.argsort(segment, kind="stable")
    log = bl.Log(arm[order], outcome[order], propensity[order], segment=segment[order])
    starts = np.searchsorted(segment[order], [1, 2])
    assert log.at(int(starts[0])).segments == (0,)
    assert log.at(int(starts[1])).segments == (0, 1)
    assert log.segments == (0, 1, 2)
    early = bl.estimate(log.at(int(starts[0])))
    assert early.values == pytest.approx(bl.estimate(log).segment(0).values, rel=1e-12)
    assert "1 segment" in str(log.at(int(starts[0])))


def test_rows_that_are_assigned_later_do_not_change_an_adjusted_estimate():
    """A missing covariate counts as the mean: here of an arm whose outcomes tell nothing of rows without one."""
    rng, at = np.random.default_rng(1), np.arange(60)
    x = rng.normal(size=60) + at / 10
    y, arm = x + rng.normal(size=60), np.array(["A", "B"] * 30)
    x[at % 6 == 1] = np.nan  # of B alone
    frame = pd.DataFrame({"arm": arm, "outcome": y, "x": x, "late": at > 30, "at": at})
    options = {"propensity": "uniform", "assigned_at": "at", "covariates": ["x", "late"]}
    alone = bl.estimate(bl.Log.from_frame(frame[at <= 30], **options))
    whole = bl.Log.from_frame(frame, **options)
    for log in (
        whole.at(30),
        bl.Log.from_frame(frame, as_of=30, **options),
        bl.read(frame, as_of=30, arrived_at="none", **options),
    ):
        assert bl.estimate(log).values == pytest.approx(alone.values, rel=1e-12)
        assert bl.estimate(log).std_errors == pytest.approx(alone.std_errors, rel=1e-12)
        assert str(bl.estimate(log)).splitlines()[-1] == str(alone).splitlines()[-1]
    assert "Adjusted for x, x is missing, late" in str(bl.estimate(whole.at(30).at(None)))
