from __future__ import annotations

import csv

import numpy as np
import pytest
from pyarrow import parquet

import belated as bl
from belated.simulation.log_files import check_log_path, columns_of, event_columns, write_events, write_log

BANDIT = bl.Bandit({"A": bl.arms.normal(), "B": bl.arms.normal(1.0)}, bl.delays.constant(30))


@pytest.fixture(scope="module")
def log():
    return bl.simulate(BANDIT, bl.policies.uniform(), 100, seed=1)


def test_outcomes_that_have_not_arrived_are_missing(log):
    columns = columns_of(log)
    assert list(columns) == ["step", "arm", "p_A", "p_B", "outcome", "arrived"]
    assert [y is None for y in columns["outcome"]] == [False] * 70 + [True] * 30
    assert columns["arrived"][:70] == [step + 30 for step in range(1, 71)]
    assert columns["arrived"][70:] == [None] * 30


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_log_in_a_file_is_read_back(log, tmp_path, suffix):
    path = write_log(log, tmp_path / f"log.{suffix}")
    read = bl.read(path, assigned_at="step", arrived_at="arrived", as_of=100)
    ours, theirs = bl.estimate(read), bl.estimate(log)
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-12)
    np.testing.assert_allclose(ours.std_errors, theirs.std_errors, rtol=1e-12)


def test_csv_and_parquet_hold_the_same(log, tmp_path):
    rows = list(csv.DictReader(write_log(log, tmp_path / "log.csv").read_text().splitlines()))
    table = parquet.read_table(write_log(log, tmp_path / "log.parquet")).to_pylist()
    assert [row["arm"] for row in rows] == [row["arm"] for row in table]
    assert [row["outcome"] for row in rows] == ["" if row["outcome"] is None else str(row["outcome"]) for row in table]


def test_arms_that_are_the_same_text_are_refused():
    log = bl.simulate(bl.Bandit({1: bl.arms.normal(), "1": bl.arms.normal()}), bl.policies.uniform(), 10)
    with pytest.raises(bl.OptionError, match="some have the same text"):
        columns_of(log)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(bl.OptionError, match=r"must end in \.csv or \.parquet"):
        check_log_path(tmp_path / "log.txt")


CONTEXTUAL = bl.ContextualBandit(
    {"DE": BANDIT, "=FR()": BANDIT}, covariates={"age": bl.arms.normal(40, 10)}, slopes={"age": 0.1}
)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_segments_and_covariates_are_read_back(tmp_path, suffix):
    log = bl.simulate(CONTEXTUAL, bl.policies.uniform(), 300, seed=1)
    assert list(columns_of(log)) == ["step", "segment", "arm", "p_A", "p_B", "outcome", "arrived", "age"]
    path = write_log(log, tmp_path / f"log.{suffix}")
    read = bl.read(path, assigned_at="step", arrived_at="arrived", segment="segment", covariates=["age"], as_of=300)
    ours, theirs = bl.estimate(read).segment("DE"), bl.estimate(log).segment("DE")
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-9)
    np.testing.assert_allclose(ours.std_errors, theirs.std_errors, rtol=1e-9)


@pytest.mark.parametrize("name", ["arm", "p_A", "outcome"])
def test_a_covariate_named_like_another_column_is_refused(name):
    bandit = bl.ContextualBandit({"DE": BANDIT}, covariates={name: bl.arms.normal()})
    with pytest.raises(bl.OptionError, match=f"The covariate '{name}' cannot be written"):
        columns_of(bl.simulate(bandit, bl.policies.uniform(), 10))


def test_segments_with_the_same_text_are_refused():
    bandit = bl.ContextualBandit({1: BANDIT, "1": BANDIT})
    with pytest.raises(bl.OptionError, match="cannot be written: some have the same text"):
        columns_of(bl.simulate(bandit, bl.policies.uniform(), 10))


SHOP = bl.Bandit(
    {"A": bl.arms.events(0.3, bl.arms.exponential(2.0)), "B": bl.arms.events(0.4, bl.arms.exponential(2.0), 0.5)},
    bl.delays.geometric(20),
    window=50,
)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_events_are_in_a_file_of_their_own(tmp_path, suffix):
    log = bl.simulate(SHOP, bl.policies.uniform(), 300, seed=1)
    rows = write_log(log, tmp_path / f"log.{suffix}")
    events, number = write_events(log, rows)
    assert events == tmp_path / f"log-events.{suffix}"
    assert list(columns_of(log)) == ["unit", "step", "arm", "p_A", "p_B"]
    assert len(event_columns(log)["unit"]) == number
    assert np.max(event_columns(log)["happened_at"]) <= 300
    options = {"assigned_at": "step", "arrived_at": "happened_at", "key": "unit", "outcome": "value"}
    for maturing, same in ((True, log), (False, log.closed())):
        read = bl.read(rows, events, events=True, window=50, as_of=300, maturing=maturing, **options)
        np.testing.assert_allclose(bl.estimate(read, "dipw").values, bl.estimate(same, "dipw").values, rtol=1e-10)
    kept = bl.simulate(bl.Bandit(SHOP.arms, SHOP.delays, 50, "count"), bl.policies.uniform(), 300, seed=1)
    assert list(event_columns(kept)) == ["unit", "happened_at"]


def test_a_log_without_events_has_no_columns_of_them(log):
    with pytest.raises(bl.OptionError, match="The log has no events"):
        event_columns(log)
