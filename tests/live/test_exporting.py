from __future__ import annotations

import csv

import numpy as np
import pytest
from pyarrow import parquet

import belated as bl
from belated.live.exporting import log_columns, log_text, write_log

TIMES = np.array(["2026-03-01T12:00:00.000001", "2026-03-01T12:00:01"], "datetime64[us]")


def log(**options):
    given = {
        "arm": ["A", "=B"], "outcome": [1.0, np.nan], "propensity": [[0.5, 0.5], [0.25, 0.75]], "arms": ["A", "=B"],
        "assigned_at": TIMES, "arrived_at": [TIMES[1], np.datetime64("NaT")],
    }  # fmt: skip
    return bl.Log(**given | options)


def test_an_outcome_that_has_not_arrived_is_an_empty_field():
    first, second = csv.DictReader(log_text(log()).splitlines())
    assert (first["outcome"], first["arrived_at"]) == ("1.0", "2026-03-01T12:00:01.000000")
    assert (second["outcome"], second["arrived_at"]) == ("", "")
    assert first["assigned_at"] == "2026-03-01T12:00:00.000001"


def test_text_is_safe_for_spreadsheets_and_a_file_is_as_it_was(tmp_path):
    assert "'=B" in log_text(log())
    path = write_log(log(), tmp_path / "log.csv")
    assert [row["arm"] for row in csv.DictReader(path.read_text().splitlines())] == ["A", "=B"]
    assert path.read_text().startswith("arm,p_A,p_=B,")


def test_segments_are_a_column_if_there_are_any():
    assert "segment" not in log_columns(log())
    assert log_columns(log(segment=["FR", "DE"]))["segment"] == ["FR", "DE"]


def test_both_formats_say_the_same(tmp_path):
    text = write_log(log(), tmp_path / "log.csv").read_text()
    rows = parquet.read_table(write_log(log(), tmp_path / "log.PARQUET")).to_pylist()
    for one, other in zip(csv.DictReader(text.splitlines()), rows, strict=True):
        assert list(one) == list(other)
        assert one["arm"] == other["arm"]
        assert float(one["p_A"]) == other["p_A"]
        assert one["assigned_at"] == other["assigned_at"].isoformat(timespec="microseconds")
        assert one["outcome"] == ("" if other["outcome"] is None else str(other["outcome"]))


def test_what_cannot_be_written_is_refused_and_nothing_is_made(tmp_path):
    with pytest.raises(bl.OptionError, match=r"must end in \.csv or \.parquet"):
        write_log(log(), tmp_path / "log.txt")
    with pytest.raises(bl.OptionError, match="there is no folder"):
        write_log(log(), tmp_path / "nowhere" / "log.csv")
    assert not list(tmp_path.iterdir())
