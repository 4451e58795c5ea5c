"""What large tables of events show, added up by the engine, against the same rows in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from event_logs import Change, experiment

import belated as bl
from belated.reading import source as source_module


@pytest.mark.parametrize("change", [None, Change(rate=0.4)])
def test_cohorts_of_a_large_table_are_those_of_rows_in_memory(change, monkeypatch):
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

    def checks():
        source = bl.read(
            sent, bought, key="customer", arm="arm", propensity="p*", assigned_at="assigned_at",
            arrived_at="happened_at", events="indicator", window="1d", as_of="2026-03-04",
        )  # fmt: skip
        return bl.diagnose(source)["build-up over time"]

    in_memory = checks()
    monkeypatch.setattr(source_module, "MOST_HELD", 10)
    grouped = checks()
    assert grouped.light == in_memory.light == ("green" if change is None else "red")
    for arm in (0, 1):
        assert grouped.numbers["z"][arm] == pytest.approx(in_memory.numbers["z"][arm], rel=0.02, abs=0.02)
