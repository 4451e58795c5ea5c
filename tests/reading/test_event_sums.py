"""What large tables of events show, added up by the engine, against the same rows in memory."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from event_logs import Change, experiment

import belated as bl
from belated.kernels.fields import OWN_FIELDS
from belated.reading import source as source_module


def read_experiment(change: Change | None = None) -> bl.Source:
    columns = experiment(np.random.default_rng(7), 4000, (0.3, 0.3), change=change)
    start = pd.Timestamp("2026-03-01")
    sent = pd.DataFrame({"customer": np.arange(4000), "arm": columns.arm, "assigned_at": columns.at})
    sent["assigned_at"] = start + pd.to_timedelta(columns.at, unit="D").round("s")
    sent["p0"], sent["p1"] = columns.propensity.T
    bought = pd.DataFrame({"customer": columns.unit})
    bought["happened_at"] = sent.assigned_at[columns.unit].to_numpy() + pd.to_timedelta(columns.age, unit="D").round(
        "s"
    )
    bought = bought[bought.happened_at <= start + pd.Timedelta(days=3)]
    return bl.read(
        sent, bought, key="customer", arm="arm", propensity="p*", assigned_at="assigned_at",
        arrived_at="happened_at", events="indicator", window="1d", as_of="2026-03-04",
    )  # fmt: skip


@pytest.mark.parametrize("change", [None, Change(rate=0.4)])
def test_cohorts_of_a_large_table_are_those_of_rows_in_memory(change, monkeypatch):
    in_memory = bl.diagnose(read_experiment(change))["build-up over time"]
    monkeypatch.setattr(source_module, "MOST_MATURING", 10)
    grouped = bl.diagnose(read_experiment(change))["build-up over time"]
    assert grouped.light == in_memory.light == ("green" if change is None else "red")
    for arm in (0, 1):
        assert grouped.numbers["z"][arm] == pytest.approx(in_memory.numbers["z"][arm], rel=0.02, abs=0.02)


def test_every_sum_of_a_large_table_is_that_of_rows_in_memory(monkeypatch):
    in_memory = bl.estimate(read_experiment()).sums
    monkeypatch.setattr(source_module, "MOST_MATURING", 10)
    grouped = bl.estimate(read_experiment()).sums.recentred(in_memory.shift)
    for field in OWN_FIELDS:
        if not field.plain:
            np.testing.assert_allclose(grouped[field.name], in_memory[field.name], rtol=1e-3, err_msg=field.name)


def test_an_estimate_of_a_large_table_can_be_pickled(monkeypatch):
    monkeypatch.setattr(source_module, "MOST_MATURING", 10)
    estimate = bl.estimate(read_experiment())
    read_again = pickle.loads(pickle.dumps(estimate))  # noqa: S301 - its own
    assert str(read_again.window("12h")) == str(estimate.window("12h"))


@pytest.mark.parametrize("start", [0, 2**53, 2**62])
def test_steps_that_floats_round_are_counted_as_in_memory(start, monkeypatch):
    rng = np.random.default_rng(3)
    step, unit = start + np.sort(rng.integers(0, 20, 200)), rng.integers(0, 200, 150)
    sent = pd.DataFrame({"id": np.arange(200), "arm": rng.choice(["A", "B"], 200), "step": step})
    bought = pd.DataFrame({"id": unit, "bought_at": step[unit] + rng.integers(0, 6, 150)})
    options = {"events": "count", "propensity": "uniform", "window": 4, "lag": 1, "as_of": start + 16}
    in_memory = bl.estimate(bl.read(sent, bought, **options))
    monkeypatch.setattr(source_module, "MOST_MATURING", 10)
    grouped = bl.estimate(bl.read(sent, bought, **options))
    assert grouped.assigned.tolist() == in_memory.assigned.tolist()
    np.testing.assert_allclose(grouped.values, in_memory.values, rtol=1e-9)
