"""Sums from batches equal those of the log in memory, wherever the batches are cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
import pytest
from drawn import DRAWN, ROWS, refused, same
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
from belated.estimation.estimators import ESTIMATORS
from belated.log.clock import NEVER
from belated.log.rows import LogColumns
from belated.reading.rows_query import row_name
from belated.reading.stream import Batch, OutOfOrderError, StreamPlan, stream_sums

PARTS = list(dict.fromkeys(estimator.parts for estimator in ESTIMATORS.values()))


@st.composite
def segmented(draw):
    """The same logs with segments, some of them merged, covariates and chances of arrival."""
    log = draw(logs())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = len(log.code)
    return bl.Log(
        log.code, log.outcome, log.propensity, arms=log.arms, assigned_at=log.assigned_at, arrived_at=log.arrived_at,
        segment=rng.choice(list("abcde"), rows, p=[0.4, 0.3, 0.2, 0.05, 0.05]),
        covariates={"age": rng.normal(40, 10, rows), "visits": rng.integers(0, 9, rows)},
        arrival_probability=rng.uniform(0.5, 1, rows),
    )  # fmt: skip


@st.composite
def logs(draw):
    """Logs in order of assignment, with batches, arrivals at once, late and never; times whole or not."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, arms = draw(st.integers(1, 120)), draw(st.integers(1, 4))
    propensity = 0.9 * rng.dirichlet(np.ones(arms), rows) + 0.1 / arms
    propensity /= propensity.sum(axis=1, keepdims=True)
    arm = (propensity.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(0, arms - 1)
    crowd = draw(st.sampled_from([1, 3, rows]))
    assigned = np.sort(rng.integers(0, max(rows // crowd, 1), rows))
    delay = np.where(rng.random(rows) < 0.3, 0, rng.integers(0, 2 * rows, rows)).astype(float)
    delay[rng.random(rows) < draw(st.sampled_from([0, 0.3, 1]))] = np.inf
    outcome = np.where(np.isinf(delay), np.nan, draw(st.sampled_from([0.0, 1e8])) + rng.normal(size=rows))
    if draw(st.booleans()):
        assigned, delay = assigned / 4, delay / 4
        arrived = assigned + delay
    else:
        arrived = [None if np.isinf(d) else int(a + d) for a, d in zip(assigned, delay, strict=True)]
    return bl.Log(arm, outcome, propensity, arms=range(arms), assigned_at=assigned, arrived_at=arrived)


def batches(log, size):
    columns = {
        "code": log.code, "outcome": log.outcome, "propensity": log.propensity, "assigned": log.assigned_numbers,
        "arrived": log.arrived_numbers,
    }  # fmt: skip
    if log.segment_column is not None:
        columns |= {"segment": log.segment_column.code, "x": log.covariates.values, "arrival": log.arrival_probability}
    for start in range(0, len(log.code), size):
        yield Batch.of(**{name: column[start : start + size] for name, column in columns.items()})


def streamed(log, size, **options):
    last = log.assigned_numbers[-1]
    units = {"layout": log.layout, "covariates": log.covariates} if log.has_cells else {}
    plan = StreamPlan(log.arms, PARTS, log.clock, last, **units, **options)
    return stream_sums(batches(log, size), lambda batch: batch, plan)


def assert_equal(got, wanted, log):
    scale = 1e-12 * len(log) * (1 + np.abs(wanted.shift).max()) ** 2
    there = got.recentred(wanted.shift)
    np.testing.assert_allclose(there.spread, wanted.spread, rtol=1e-9, atol=scale)
    np.testing.assert_allclose(there.own, wanted.own, rtol=1e-9, atol=scale)
    if wanted.segments is not None:
        assert_equal(got.segments.cells, wanted.segments.cells, log)
        products, expected = got.segments.covariates, wanted.segments.covariates
        if expected is not None:
            about = products.recentred(expected.shift)
            np.testing.assert_allclose(about.own, expected.own, rtol=1e-9, atol=1e3 * scale)
            np.testing.assert_allclose(about.all, expected.all, rtol=1e-9, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(logs(), st.integers(1, 130))
def test_wherever_batches_are_cut(log, size):
    for (got,), part in zip(streamed(log, size), PARTS, strict=True):
        assert_equal(got, bl.Sums.of(log, *part), log)


@settings(max_examples=30, deadline=None)
@given(segmented(), st.integers(1, 130))
def test_segments_and_covariates_wherever_batches_are_cut(log, size):
    for (got,), part in zip(streamed(log, size), PARTS, strict=True):
        assert got.segments.labels == log.segments
        assert_equal(got, bl.Sums.of(log, *part), log)


@settings(max_examples=40, deadline=None)
@given(logs(), st.integers(1, 130), st.lists(st.integers(-1, 300), min_size=1, max_size=6, unique=True))
def test_at_several_moments(log, size, moments):
    moments = np.array(sorted(moments), dtype=log.assigned_numbers.dtype)
    now = log.at_number(moments[-1])
    rows, schedule = len(now), now.schedule
    if rows == 0:
        return
    arrived = log.arrived_numbers.copy()
    arrived[schedule.due < 0] = np.iinfo(np.int64).min if arrived.dtype.kind == "i" else np.nan
    outcome = np.where(schedule.due < 0, np.nan, log.outcome)
    columns = LogColumns(
        arms=log.arms, code=log.code[:rows], outcome=outcome[:rows], propensity=log.propensity[:rows],
        assigned=log.assigned_numbers[:rows], arrived=arrived[:rows], clock=log.clock, moment=None,
    )  # fmt: skip
    cut = bl.Log.of_numbers(columns)
    for got, part in zip(streamed(cut, size, moments=moments), PARTS, strict=True):
        for one, wanted in zip(got, log.sums([part], moments)[0], strict=True):
            assert_equal(one, wanted, log)


def test_rows_out_of_order_are_noticed():
    log = bl.Log(["A"] * 4, [1.0] * 4, [[1.0]] * 4, assigned_at=[1, 3, 2, 4], arrived_at=[1, 3, 2, 4])
    for size in (1, 2, 4):
        with pytest.raises(OutOfOrderError):
            streamed(log, size)


def test_a_bad_row_is_named_by_its_number_in_the_stream():
    log = bl.Log(["A", "B"] * 20, np.arange(40.0), [[0.5, 0.5]] * 40, assigned_at=range(40), arrived_at=range(40))
    broken = log.propensity.copy()
    broken[33] = [0.7, 0.7]
    object.__setattr__(log, "propensity", broken)
    with pytest.raises(bl.LogError, match=r"in row 33 sums to 1\.4") as error:
        streamed(log, 8)
    assert error.value.row == 33


pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


def test_a_bad_row_of_a_file_out_of_order_is_named_by_its_number(tmp_path):
    table = DRAWN.wide(p_A=pa.array([0.9999 if i in (40, 50) else p for i, p in enumerate(DRAWN.p[:, 0])]))
    backwards = table.take(np.arange(ROWS)[::-1])
    path = str(tmp_path / "a.feather")
    pa.feather.write_feather(backwards, path, chunksize=7)
    for source in (path, backwards):
        refused(f"^`propensity` in row {ROWS - 1 - 50} sums to", source)
        refused(f"^`propensity` in row {ROWS - 1 - 50} sums to", source, as_of=55)


def test_faults_of_joined_tables_name_the_key():
    table = DRAWN.wide()
    keys = pa.array([f"k'{i}\n" for i in range(ROWS)])
    assignments = table.drop(["outcome", "arrived_at"]).append_column("id", keys)
    outcomes = table.select(["outcome", "arrived_at"]).append_column("id", keys).filter(pc.is_valid(table["outcome"]))
    same(bl.read(assignments, outcomes))
    rows = outcomes.to_pylist()
    for change, words in (({"arrived_at": -9}, "is -9, before"), ({"outcome": np.inf}, "is inf")):
        bad = pa.Table.from_pylist([*rows[:5], {**rows[5], **change}, *rows[6:]])
        refused(rf"in the row of key .k'{DRAWN.arrived[5]}\\n. {words}", assignments, bad)


def batch(**changes):
    columns = {
        "code": np.array([0, 1], dtype=np.uint16), "outcome": np.array([1.0, 2.0]), "propensity": np.array([0.5, 0.5]),
        "assigned": np.array([1, 2]), "arrived": np.array([1, 2]),
    }  # fmt: skip
    return Batch.of(**{**columns, **changes})


def test_a_batch_cannot_be_written_to():
    assert len(batch()) == 2
    for column in (batch().code, batch().outcome, batch().arrived):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0


def test_a_row_without_a_time_is_named():
    for assigned, what in (([1, NEVER], "missing"), ([1.0, np.nan], "missing"), ([1.0, np.inf], "inf")):
        with pytest.raises(bl.LogError, match=f"`assigned_at` in row 7 is {what}; every assignment") as caught:
            batch(assigned=np.array(assigned)).check_times(6)
        assert caught.value.row == 7


def test_rows_are_named_by_key_or_time():
    assert row_name({"key": "a\nb", "assigned": 3}) == "the row of key 'a\\nb'"
    assert row_name({"key": None, "assigned": 3}) == row_name({"assigned": 3}) == "the row assigned at 3"


def test_rows_of_one_time_stay_in_the_order_of_their_table(tmp_path):
    rng = np.random.default_rng(5)
    rows = 4000
    frame = pa.table({
        "arm": rng.choice(["A", "B"], rows), "p_A": np.full(rows, 0.5), "p_B": np.full(rows, 0.5),
        "assigned_at": rng.integers(0, 9, rows), "outcome": np.arange(rows, dtype=float),
    })  # fmt: skip
    source = bl.read(frame)
    order = np.argsort(frame["assigned_at"].to_numpy(), kind="stable")
    batches = [source._reader.batch(record) for record in source._reader.records(ordered=True)]
    assert np.concatenate([batch.outcome for batch in batches]).tolist() == order.tolist()
