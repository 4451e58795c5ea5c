from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import belated as bl
from belated.live.logs import ABOUT, answer_stream, log_columns, log_text, read_answer, read_stream, write_log
from tests.live.conftest import of_storages

OUTCOMES = [
    bl.live.binary(),
    bl.live.bounded(0, 3),
    *(bl.live.events("1h", measure) for measure in ("indicator", "count", "sum")),
]


def filled(place, outcome):
    """An experiment with corrections, an arm that came later, and outcomes that are out, parked and told."""
    exp = place.create(arms=["A", "a", "=C d"], outcome=outcome, policy=bl.policies.ucb(burn_in=10))
    rng = np.random.default_rng(2)
    for batch in range(8):
        replies = exp.ask_many(f"{batch}-{i}" for i in range(30))
        told = [each.unit for each in replies if rng.random() < 0.7]
        keys = ("order 1", "order 2") if outcome.is_events else ("",)
        exp.tell_many((unit, float(rng.random() < 0.5), key) for unit in told for key in keys)
        place.clock.forward(900)
        exp.tick()
        if batch == 4:
            exp.add_arm("D")
    exp.tell(told[0], 0.0, key=keys[0], correct=True)
    exp.tell("nobody", 1.0)
    return exp


@pytest.mark.parametrize(
    ("engine", "outcome"), [*(("sqlite", each) for each in OUTCOMES), ("http", OUTCOMES[-1])], indirect=["engine"]
)
def test_an_answer_of_a_stream_is_the_same_to_the_last_digit(place, outcome):
    answer = filled(place, outcome).answer()
    again = read_answer(b"".join(answer_stream(answer)))
    assert again.counts == answer.counts
    assert again.counts.parked == 1
    assert again.counts.corrected <= 1
    assert (again.as_of, again.watermark, again.setup) == (answer.as_of, answer.watermark, answer.setup)
    assert again.to_json() == answer.to_json()
    assert again.estimate.to_json() == answer.estimate.to_json()
    assert again.sequence.to_json() == answer.sequence.to_json()
    assert again.diagnosis.to_json() == answer.diagnosis.to_json()


def test_an_answer_before_any_decision(place):
    answer = place.create().answer()
    again = read_answer(b"".join(answer_stream(answer)))
    assert again.log is None
    assert again.to_json() == answer.to_json()


@pytest.mark.parametrize("segments", [None, ["DE", "FR"]])
def test_before_a_window_has_closed_the_log_of_closed_ones_has_no_rows(place, segments):
    exp = place.create(outcome=bl.live.events("1h"), segments=segments)
    exp.ask_many(["ada", "bob"], segments)
    assert len(exp.log().log()) == 2
    with pytest.raises(bl.LogError, match="No window of 1 hour has closed yet; the log has rows once one has"):
        exp.log().closed().log()
    place.clock.forward(3601)
    assert len(exp.log().closed().log()) == 2


@of_storages("a client has no rows, only streams of them")
def test_a_stream_is_a_table_with_every_probability_and_without_units(place):
    exp = place.create(arms=["A", "B"], policy=bl.policies.fixed({"A": 0.25, "B": 0.75}))
    exp.ask_many(["customer-17", "customer-18"])
    exp.tell("customer-17", 1)
    content = b"".join(exp.state().stream())
    assert b"customer" not in content
    frame = pa.ipc.open_stream(content).read_all()
    assert frame.column_names == ["decision", "arm", "version", "assigned_at", "p_A", "p_B", "outcome", "arrived_at"]
    assert frame["p_B"].to_pylist() == [0.75, 0.75]
    assert sorted(frame["outcome"].to_pylist(), key=str) == [1.0, None]


@of_storages("a client has no rows, only streams of them")
def test_a_state_that_was_given_away_does_not_change(place):
    exp = place.create(outcome=bl.live.events("1h"))
    exp.ask("x")
    state = exp.state()
    before = b"".join(state.stream())
    exp.tell("x", key="order 1")
    exp.ask("y")
    exp.tick()
    exp.answer()
    assert b"".join(state.stream()) == before


@of_storages("a client has no rows, only streams of them")
@pytest.mark.parametrize("harm", ["text", "cut", "form", "without", "other"])
def test_a_stream_that_cannot_be_read_is_refused_in_a_sentence(place, harm):
    exp = place.create()
    exp.ask_many(["x", "y"])
    content = b"".join(exp.state().stream())
    frame = pa.ipc.open_stream(content).read_all()
    about = json.loads(frame.schema.metadata[ABOUT])
    if harm == "form":
        frame = frame.replace_schema_metadata({ABOUT: json.dumps(about | {"form": 99})})
    if harm == "without":
        frame = frame.replace_schema_metadata(None)
    if harm == "other":
        frame = frame.drop_columns(["version"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, frame.schema) as writer:
        writer.write_table(frame)
    given = {"text": b"<html>", "cut": content[: len(content) // 2]}.get(harm, sink.getvalue().to_pybytes())
    with pytest.raises(bl.live.StorageError, match=r"same version|install its version"):
        read_stream(given)


TIMES = np.array(["2026-03-01T12:00:00.000001", "2026-03-01T12:00:01"], "datetime64[us]")


def small_log(**options):
    given = {
        "arm": ["A", "=B"], "outcome": [1.0, np.nan], "propensity": [[0.5, 0.5], [0.25, 0.75]], "arms": ["A", "=B"],
        "assigned_at": TIMES, "arrived_at": [TIMES[1], np.datetime64("NaT")],
    }  # fmt: skip
    return bl.Log(**given | options)


def test_an_outcome_that_has_not_arrived_is_an_empty_field():
    first, second = csv.DictReader(log_text(small_log()).splitlines())
    assert (first["outcome"], first["arrived_at"]) == ("1.0", "2026-03-01T12:00:01.000000")
    assert (second["outcome"], second["arrived_at"]) == ("", "")
    assert first["assigned_at"] == "2026-03-01T12:00:00.000001"


def test_text_is_safe_for_spreadsheets_and_a_file_is_as_it_was(tmp_path):
    assert "'=B" in log_text(small_log())
    path = write_log(small_log(), tmp_path / "log.csv")
    assert [row["arm"] for row in csv.DictReader(path.read_text().splitlines())] == ["A", "=B"]
    assert path.read_text().startswith("arm,p_A,p_=B,")


def test_segments_are_a_column_if_there_are_any():
    assert "segment" not in log_columns(small_log())
    assert log_columns(small_log(segment=["FR", "DE"]))["segment"] == ["FR", "DE"]


def test_both_formats_say_the_same(tmp_path):
    text = write_log(small_log(), tmp_path / "log.csv").read_text()
    rows = parquet.read_table(write_log(small_log(), tmp_path / "log.PARQUET")).to_pylist()
    for one, other in zip(csv.DictReader(text.splitlines()), rows, strict=True):
        assert list(one) == list(other)
        assert one["arm"] == other["arm"]
        assert float(one["p_A"]) == other["p_A"]
        assert one["assigned_at"] == other["assigned_at"].isoformat(timespec="microseconds")
        assert one["outcome"] == ("" if other["outcome"] is None else str(other["outcome"]))


def test_what_cannot_be_written_is_refused_and_nothing_is_made(tmp_path):
    with pytest.raises(bl.OptionError, match=r"must end in \.csv or \.parquet"):
        write_log(small_log(), tmp_path / "log.txt")
    with pytest.raises(bl.OptionError, match="there is no folder"):
        write_log(small_log(), tmp_path / "nowhere" / "log.csv")
    assert not list(tmp_path.iterdir())
