"""Times and delays of which nothing is known yet: whatever a table calls such a column, nothing has arrived."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from drawn import write
from engines import Engine

import belated as bl

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]

ROWS = 12
STEPS = list(range(ROWS))
DAYS = [dt.datetime(2026, 3, 1) + dt.timedelta(days=i) for i in STEPS]
SENT = {"id": STEPS, "arm": ["A", "B"] * (ROWS // 2)}
OPTIONS = {"propensity": "uniform", "assigned_at": "sent_at", "outcome": "outcome"}
NOTHING = {
    "arrived_at": [pa.float64(), pa.int32(), pa.string(), pa.timestamp("us")],
    "delay": [pa.float64(), pa.int32()],
}
CASES = [(role, kind) for role, kinds in NOTHING.items() for kind in kinds]


@pytest.mark.parametrize("sent_at", [STEPS, DAYS], ids=["steps", "days"])
@pytest.mark.parametrize(("role", "kind"), CASES)
def test_nothing_has_arrived_as_in_a_log(sent_at, role, kind):
    table = pa.table(
        {**SENT, "sent_at": sent_at, "outcome": pa.nulls(ROWS, pa.float64()), "when": pa.nulls(ROWS, kind)}
    )
    log = bl.Log.from_frame(table, arm="arm", **OPTIONS, **{role: "when"})
    source = bl.read(table, **OPTIONS, **{role: "when"})
    assert bl.estimate(source).assigned.tolist() == bl.estimate(log).assigned.tolist() == [ROWS // 2] * 2
    assert bl.estimate(source).arrived.tolist() == bl.estimate(log).arrived.tolist() == [0, 0]
    assert source.log().clock.unit == log.clock.unit


@pytest.mark.parametrize("role", ["arrived_at", "delay"])
def test_an_engine_may_call_nothing_numbers(engine: Engine, role: str) -> None:
    sent, came = engine.table({**SENT, "sent_at": DAYS}), {"id": [3, 7], "outcome": [1.0, 2.0]}
    nothing = engine.table({**came, "when": pa.nulls(2, pa.float64())})
    source = bl.read(sent, nothing, key="id", **OPTIONS, **{role: "when"})
    with pytest.raises(bl.LogError, match="has no arrival time"):
        bl.estimate(source)
    some = engine.table({**came, "when": [2.0, None]})
    with pytest.raises(bl.LogError, match=r"must be of one kind|must hold durations"):
        bl.read(sent, some, key="id", **OPTIONS, **{role: "when"})


@pytest.mark.parametrize("role", ["arrived_at", "delay"])
@pytest.mark.parametrize("value", ["", "NaN"])
def test_nothing_in_a_csv_file(role, value):
    lines = [f"{arm},{day},,{value}" for arm, day in zip(SENT["arm"], DAYS, strict=True)]
    source = bl.read(write("a.csv", "\n".join(["arm,sent_at,outcome,when", *lines])), **OPTIONS, **{role: "when"})
    assert bl.estimate(source).arrived.tolist() == [0, 0]


@pytest.mark.parametrize("sent_at", [STEPS, DAYS], ids=["steps", "days"])
def test_no_event_has_been_recorded(sent_at):
    sent = pa.table({**SENT, "sent_at": sent_at})
    nothing = pa.table({"id": STEPS[:0], "bought_at": np.zeros(0), "recorded_at": np.zeros(0)})
    window = 2 if sent_at is STEPS else "2d"
    times = {"assigned_at": "sent_at", "arrived_at": "bought_at", "recorded_at": "recorded_at"}
    options = {"propensity": "uniform", "key": "id", "events": True, "window": window, **times}
    for events in (nothing, write("b.csv", "id,bought_at,recorded_at\n")):
        assert bl.estimate(bl.read(sent, events, **options)).values.tolist() == [0, 0]
