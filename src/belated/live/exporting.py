"""Exporting: the log of an experiment as a file, without units."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from belated.base.columns import Array
from belated.base.documents import csv_text
from belated.base.errors import OptionError
from belated.base.files import check_place, write_whole
from belated.log.log import Log


def log_columns(log: Log) -> dict[str, Sequence[object]]:
    """Return the columns that `bl.read` guesses the roles of."""
    arrived = log.arrived
    columns: dict[str, Sequence[object]] = {"arm": [str(log.arms[k]) for k in log.code.tolist()]}
    columns |= {f"p_{arm}": log.propensity_matrix[:, k].tolist() for k, arm in enumerate(log.arms)}
    if log.segment_column is not None:
        labels, code = log.segment_column
        columns["segment"] = [str(labels[s]) for s in code.tolist()]
    columns["assigned_at"] = _times(log.assigned_at)
    columns["outcome"] = [
        y if has_arrived else None for y, has_arrived in zip(log.outcome.tolist(), arrived, strict=True)
    ]
    when = log.assigned_at if log.arrived_at is None else log.arrived_at
    columns["arrived_at"] = [t if has_arrived else None for t, has_arrived in zip(_times(when), arrived, strict=True)]
    return columns


def _times(times: Array) -> list[str]:
    return [str(each) for each in np.datetime_as_string(times, unit="us")]


def log_text(log: Log) -> str:
    """Return a log as CSV that is safe in terminals and spreadsheets."""
    return csv_text(log_columns(log))


def write_log(log: Log, path: Path) -> Path:
    """Write a log to a .csv or .parquet file; a failure leaves no partial file."""
    check_place(path)
    if path.suffix.lower() == ".csv":
        return write_whole(path, csv_text(log_columns(log), as_written=True))
    if path.suffix.lower() != ".parquet":
        raise OptionError(f"`{path}` must end in .csv or .parquet.")
    import pyarrow as pa
    from pyarrow import parquet

    columns = log_columns(log)
    for name in ("assigned_at", "arrived_at"):
        columns[name] = pa.array(np.array(columns[name], "datetime64[us]"), pa.timestamp("us"))
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns), sink)
    return write_whole(path, sink.getvalue().to_pybytes())
