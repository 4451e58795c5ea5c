from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import belated as bl

COLUMNS = {
    "variant": ["B", "A", "B", "A", "A"],
    "y": [1.0, 3.0, 0.5, 2.0, None],
    "p_B": [0.4, 0.5, 0.6, 0.5, 0.5],
    "p_A": [0.6, 0.5, 0.4, 0.5, 0.5],
    "p": [0.4, 0.5, 0.6, 0.5, 0.5],
    "list": [[0.6, 0.4], [0.5, 0.5], [0.4, 0.6], [0.5, 0.5], [0.5, 0.5]],
    "sent_at": [dt.datetime(2026, 1, d) for d in (1, 2, 3, 3, 5)],
    "paid_at": [
        dt.datetime(2026, 1, 3),
        dt.datetime(2026, 1, 4),
        dt.datetime(2026, 1, 4),
        dt.datetime(2026, 1, 3, 6),
        None,
    ],
    "step": [1, 2, 3, 3, 5],
    "arrival_step": [3, 4, 4, 3, None],
}
ARRAYS = bl.Log(
    COLUMNS["variant"],
    COLUMNS["y"],
    COLUMNS["list"],
    assigned_at=COLUMNS["step"],
    arrived_at=COLUMNS["arrival_step"],
)
LIBRARIES = [pd.DataFrame, pl.DataFrame, pa.table, lambda c: pl.LazyFrame(c), lambda c: pa.table(c).to_pandas()]


@pytest.fixture(params=LIBRARIES, ids=["pandas", "polars", "pyarrow", "lazy polars", "pandas of arrow"])
def frame(request):
    return request.param(COLUMNS)


@pytest.mark.parametrize("propensity", [["p_A", "p_B"], ["p_B", "p_A"], {"A": "p_A", "B": "p_B"}, "list"])
@pytest.mark.parametrize("times", [("step", "arrival_step"), ("sent_at", "paid_at")])
def test_every_library_gives_the_same_log(frame, propensity, times):
    assigned_at, arrived_at = times
    log = bl.Log.from_frame(
        frame, arm="variant", outcome="y", propensity=propensity, assigned_at=assigned_at, arrived_at=arrived_at
    )
    assert set(log.arms) == {"A", "B"}
    a, b = (bl.estimate(x, "daipw").contrast("B", "A") for x in (log, ARRAYS))
    assert a.estimate == pytest.approx(b.estimate, rel=1e-14)
    assert a.std_error == pytest.approx(b.std_error, rel=1e-14)


def test_chosen_propensity_column(frame):
    log = bl.Log.from_frame(frame, arm="variant", outcome="y", propensity="p")
    assert not log.has_all_propensities


def test_a_missing_column_is_named_with_the_nearest(frame):
    with pytest.raises(bl.LogError, match=r"no column 'varient' for `arm`.*Did you mean 'variant'"):
        bl.Log.from_frame(frame, arm="varient", outcome="y", propensity="p")


def test_columns_that_do_not_name_their_arm_are_refused(frame):
    with pytest.raises(bl.LogError, match="cannot be matched"):
        bl.Log.from_frame(frame, arm="variant", outcome="y", propensity=["p", "y"])
    with pytest.raises(bl.LogError, match="has no column for arm 'B'"):
        bl.Log.from_frame(frame, arm="variant", outcome="y", propensity={"A": "p_A"}, arms=["A", "B"])


def test_arms_with_a_common_beginning_are_matched():
    frame = pd.DataFrame({"arm": ["v1", "v11"], "outcome": [1.0, 2.0], "p_v11": [0.3, 0.3], "p_v1": [0.7, 0.7]})
    log = bl.Log.from_frame(frame, propensity=["p_v11", "p_v1"])
    assert log.arms == ("v11", "v1")
    numbers = pd.DataFrame({"arm": [1, 2], "outcome": [1.0, 2.0], "p1": [0.3, 0.3], "p2": [0.7, 0.7]})
    assert bl.Log.from_frame(numbers, propensity=["p1", "p2"]).arms == (1, 2)


@pytest.mark.parametrize("columns", [["p_A", "p_B"], ["p_B", "p_A"], ["A", "B"], ["B", "A"]])
@pytest.mark.parametrize("arms", [["A", "B"], ["B", "A"]])
def test_columns_named_after_their_arms_are_theirs_in_any_order_of_arms(columns, arms):
    table = {
        "arm": ["A", "B"],
        "outcome": [1.0, 2.0],
        **{name: [0.3 if name.endswith("A") else 0.7] * 2 for name in columns},
    }
    frame = pd.DataFrame(table)
    given = {"propensity": columns, "arms": arms}
    logs = bl.Log.from_frame(frame, **given), bl.Log(table["arm"], table["outcome"], frame[columns], arms=arms)
    for log in (*logs, bl.read(frame, **given).log()):
        assert log.arms == tuple(arms)
        assert log.propensity[0].tolist() == [0.3 if arm == "A" else 0.7 for arm in arms]


def test_columns_that_do_not_name_their_arms_are_in_the_order_of_arms():
    frame = pd.DataFrame({"arm": ["A", "B"], "outcome": [1.0, 2.0], "x": [0.3, 0.3], "y": [0.7, 0.7]})
    for columns in (["x", "y"], ["y", "x"]):
        log = bl.Log.from_frame(frame, propensity=columns, arms=["B", "A"])
        assert log.propensity[0].tolist() == frame[columns].iloc[0].tolist()
    with pytest.raises(bl.LogError, match="`arms` is 2; it must list the arms' labels"):
        bl.Log.from_frame(frame, propensity=["x", "y"], arms=2)


def test_names_of_columns_may_be_numbers():
    propensity = pd.DataFrame([[0.3, 0.7]] * 2)
    assert bl.Log([0, 1], [1.0, 2.0], propensity).propensity[0].tolist() == [0.3, 0.7]
    assert bl.Log([0, 1], [1.0, 2.0], propensity[[1, 0]], arms=[0, 1]).propensity[0].tolist() == [0.3, 0.7]
    with pytest.raises(bl.LogError, match="cannot be matched to the arms by name"):
        bl.Log(["A", "B"], [1.0, 2.0], propensity)


def test_types_people_have():
    sent_at = pd.to_datetime(["2026-01-01T00:00", "2026-01-01T06:00"]).tz_localize("Europe/Paris")
    frame = pd.DataFrame({
        "arm": pd.Categorical(["x", "y"]),
        "outcome": [Decimal("1.5"), None],
        "propensity": pd.array([0.5, 0.5], dtype="Float64"),
        "sent_at": sent_at,
        "paid_at": [sent_at[0] + pd.Timedelta(hours=1), pd.NaT],
    })  # fmt: skip
    log = bl.Log.from_frame(frame, assigned_at="sent_at", arrived_at="paid_at")
    assert log.outcome[0] == 1.5
    assert np.isnan(log.outcome[1])
    assert log.assigned_at[0] == np.datetime64("2025-12-31T23:00")
    table = pl.DataFrame(
        {"arm": ["b", "a"], "outcome": [1, None], "propensity": [0.5, 0.5], "day": [1, 2]}
    ).with_columns(pl.col("arm").cast(pl.Enum(["b", "a"])), pl.date(2026, 1, pl.col("day")).alias("day"))
    log = bl.Log.from_frame(table, assigned_at="day")
    assert log.arms == ("b", "a")
    assert log.assigned_at[1] == np.datetime64("2026-01-02")


@pytest.mark.parametrize(
    "arm",
    [
        pd.Series(pd.Categorical(["A", "B"] * 3, categories=["B", "A"], ordered=True)),
        pl.Series(["A", "B"] * 3, dtype=pl.Enum(["B", "A"])),
    ],
    ids=["pandas", "polars"],
)
def test_ordered_categories_do_not_swap_propensities(arm):
    frame = (type(arm).__module__.startswith("pandas") and pd.DataFrame) or pl.DataFrame
    table = frame({"arm": arm, "outcome": [1.0] * 6, "p_A": [0.9] * 6, "p_B": [0.1] * 6})
    log = bl.Log.from_frame(table, propensity=["p_A", "p_B"])
    assert dict(zip(log.arms, log.propensity[0], strict=True)) == {"A": 0.9, "B": 0.1}


def test_a_struct_of_propensities_follows_its_names():
    table = pl.DataFrame({"arm": ["A", "B"], "outcome": [1.0, 2.0], "propensity": [{"B": 0.7, "A": 0.3}] * 2})
    log = bl.Log.from_frame(table)
    assert dict(zip(log.arms, log.propensity[0], strict=True)) == {"A": 0.3, "B": 0.7}


def test_columns_may_have_any_names_and_categories_any_type():
    frame = pd.DataFrame({0: pd.Categorical([1, 0, 1]), 1: [1.0, 2.0, 3.0], 2: [0.5] * 3})
    log = bl.Log.from_frame(frame, arm=0, outcome=1, propensity=2)
    assert log.arms == (0, 1)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"p_A": ["x", "y"]}, "Column 'p_A': `propensity`"),
        ({"p_A": [None, 0.5]}, "for arm 'A' is nan"),
        ({"p_A": [dt.date(2026, 1, 1)] * 2}, "Column 'p_A': `propensity` holds datetimes"),
    ],
)
def test_propensity_columns_are_checked_like_any_other(columns, sentence):
    frame = pl.DataFrame({"arm": ["A", "B"], "outcome": [1.0, 2.0], "p_A": [0.5] * 2, "p_B": [0.5] * 2, **columns})
    with pytest.raises(bl.LogError, match=sentence):
        bl.Log.from_frame(frame, propensity=["p_A", "p_B"])
    with pytest.raises(bl.LogError, match="no column"):
        bl.Log.from_frame(frame, propensity=None)


def test_a_column_of_nothing():
    frame = pl.DataFrame(
        {"arm": ["A", "B"], "outcome": [None, None], "propensity": [0.5, 0.5], "paid_at": [None, None]}
    )
    frame = frame.with_columns(pl.col("paid_at").cast(pl.Int64), pl.col("outcome").cast(pl.Int64))
    assert not bl.Log.from_frame(frame, arrived_at="paid_at").arrived.any()


@pytest.mark.parametrize("role", ["arm", "outcome", "propensity", "assigned_at"])
@pytest.mark.parametrize(
    "values", [pd.Series([1.0]), pl.Series([1.0]), np.array([1.0])], ids=["pandas", "polars", "numpy"]
)
def test_a_column_itself_is_no_name(role, values):
    given = {"arm": "variant", "outcome": "y", "propensity": "p", role: values}
    sentence = f"`{role}` is of type {type(values).__name__}; it must be the name of a column"
    with pytest.raises(bl.OptionError, match=sentence):
        bl.Log.from_frame(pd.DataFrame({"variant": ["A"], "y": [1.0], "p": [0.5]}), **given)


def test_not_a_frame():
    with pytest.raises(bl.LogError, match="not a dataframe"):
        bl.Log.from_frame([1, 2, 3])


def test_lists_of_uneven_length_are_refused():
    frame = pl.DataFrame({"arm": ["A", "B"], "outcome": [1.0, 2.0], "propensity": [[0.5, 0.5], [1.0]]})
    with pytest.raises(bl.LogError, match=r"`propensity` in row 1 is a list of 1; row 0 has a list of 2"):
        bl.Log.from_frame(frame)


def test_what_is_missing_in_a_dictionary_of_arrow_stays_missing():
    """NumPy takes the last entry of the dictionary for it."""

    def column(values):
        array = pa.array(values).dictionary_encode()
        return pa.chunked_array([array.slice(0, 2), array.slice(2)])

    arms, outcomes, segments = ["A", "B", "A", "B"], [1.0, None, 2.0, 3.0], ["x", None, "y", "x"]
    plain = bl.Log(arms, outcomes, "uniform", segment=segments)
    table = pa.table({"arm": column(arms), "y": column(outcomes), "segment": column(segments)})
    framed = bl.Log.from_frame(table, arm="arm", outcome="y", propensity="uniform", segment="segment")
    for log in (framed, bl.Log(table["arm"], table["y"], "uniform", segment=table["segment"])):
        assert log.segment_column.labels == plain.segment_column.labels
        np.testing.assert_array_equal(log.outcome, plain.outcome)
        np.testing.assert_array_equal(log.segment_column.code, plain.segment_column.code)
    with pytest.raises(bl.LogError, match="`arm` in row 1 is missing"):
        bl.Log.from_frame(pa.table({"arm": column(["A", None, "B"])}), arm="arm", outcome="arm", propensity="uniform")


def test_a_missing_arm_is_named_before_columns_are_matched():
    frame = pl.DataFrame({"arm": ["A", None, "B"], "y": [1.0, 2.0, 3.0], "p_A": 0.5, "p_B": 0.5})
    with pytest.raises(bl.LogError, match="`arm` in row 1 is missing"):
        bl.Log.from_frame(frame, arm="arm", outcome="y", propensity=["p_A", "p_B"])


DAYS = [dt.date(2026, 1, 1), None, dt.date(2026, 1, 2)] * 8
BANDS = [7, 8, None] * 8


@pytest.mark.parametrize(
    ("segment", "labels"),
    [
        ("day", ("2026-01-01", "2026-01-02", "(missing)")),
        ("band", ("7", "8", "(missing)")),
        (["day", "band"], ("(missing), 8", "2026-01-01, 7", "2026-01-02, (missing)")),
    ],
)
@pytest.mark.parametrize("convert", [lambda table: table, pl.from_arrow], ids=["pyarrow", "polars"])
def test_segments_have_the_names_that_tables_give_them(convert, segment, labels):
    values = {"arm": ["A", "B", "B", "A"] * 6, "outcome": [1.0] * 24, "day": DAYS, "band": BANDS}
    table = convert(pa.table(values))
    log = bl.Log.from_frame(table, propensity="uniform", segment=segment)
    source = bl.read(table, propensity="uniform", segment=segment, assigned_at="none", arrived_at="none")
    assert sorted(map(str, log.segment_column.labels)) == sorted(labels)
    assert list(map(str, source.log().segment_column.labels)) == list(map(str, log.segment_column.labels))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(2)], ids=str)
@pytest.mark.parametrize("convert", [lambda table: table, pl.from_arrow, lambda table: table.to_pandas()])
def test_bytes_are_text(convert, kind):
    arms = ["\u00e9", "xy"] * 6
    frame = convert(pa.table({"arm": pa.array([arm.encode() for arm in arms], kind), "outcome": [1.0] * 12}))
    log = bl.Log.from_frame(frame, propensity="uniform")
    assert log.arms == bl.read(frame, arm="arm", propensity="uniform", arrived_at="none").arms == ("xy", "\u00e9")
