"""Writing a simulated log to CSV or Parquet, with one row per step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from belated.base.columns import Array, Label
from belated.base.documents import csv_text
from belated.base.errors import OptionError
from belated.base.files import check_place, write_whole
from belated.log.log import Log
from belated.log.segments import unscaled


def columns_of(log: Log) -> dict[str, Array | list[float | None]]:
    """Return the columns of a simulated log; outcomes that have not arrived by `as_of` are missing.

    If outcomes are events, there are none but a `unit` for each row: `event_columns` has the events.
    """
    arrived_at = np.asarray(log.arrived_at, dtype=np.float64)
    arrived = (arrived_at <= log.last_look).tolist()
    columns: dict[str, Array | list[float | None]] = {"step": log.assigned_at}
    if log.events is not None:
        columns = {"unit": np.arange(1, len(log.code) + 1), **columns}
    if log.segment_column is not None:
        columns["segment"] = _texts("segments", log.segment_column.labels)[log.segment_column.code]
    columns["arm"] = _texts("arms", log.arms)[log.code]
    columns |= {f"p_{arm}": log.propensity[:, k] for k, arm in enumerate(log.arms)}
    if log.events is not None:
        return columns
    columns["outcome"] = [y if known else None for y, known in zip(log.outcome.tolist(), arrived, strict=True)]
    columns["arrived"] = [int(t) if known else None for t, known in zip(arrived_at.tolist(), arrived, strict=True)]
    if log.covariates is not None:
        for name in log.covariates.names:
            if name in columns:
                raise OptionError(f"The covariate {name!r} cannot be written: the log has another column of that name.")
            columns[name] = unscaled(log.covariates, name)
    return columns


def event_columns(log: Log) -> dict[str, Array | list[float | None]]:
    """Return the events of a simulated log by `as_of`: the unit, the step at which it happened, and its value."""
    if log.events is None:
        raise OptionError("The log has no events.")
    happened = np.asarray(log.assigned_at)[log.events.row] + log.events.age.astype(np.int64)
    known = np.flatnonzero(happened <= log.last_look)
    known = known[np.argsort(happened[known], kind="stable")]
    columns: dict[str, Array | list[float | None]] = {"unit": log.events.row[known] + 1, "happened_at": happened[known]}
    return columns | ({"value": log.events.value[known]} if log.events.measure == "sum" else {})


def _texts(kind: str, labels: Sequence[Label]) -> Array:
    """Return labels as text, or raise if two have the same."""
    texts = np.array([str(label) for label in labels], dtype=object)
    if len(set(texts)) < len(texts):
        raise OptionError(f"The {kind} {list(labels)!r} cannot be written: some have the same text.")
    return texts


def check_log_path(path: str | Path, inputs: Iterable[str | Path] = ()) -> Path:
    """Return the path if a log can be written there and it is not one of the inputs; raise otherwise."""
    path = check_place(path, inputs)
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise OptionError(f"`{path}` must end in .csv or .parquet.")
    return path


def write_log(log: Log, path: str | Path) -> Path:
    """Write a simulated log to a file; a failure leaves no partial file."""
    return _write(columns_of(log), check_log_path(path))


def write_events(log: Log, path: str | Path) -> tuple[Path, int]:
    """Write the events of a simulated log beside the file of its rows; return that file, and the number of events."""
    path = events_path(path)
    columns = event_columns(log)
    return _write(columns, check_log_path(path)), len(columns["unit"])


def events_path(path: str | Path) -> Path:
    """Return the file of the events of a log that is written to a path: log-events.csv for log.csv."""
    return Path(path).with_stem(f"{Path(path).stem}-events")


def _write(columns: dict[str, Array | list[float | None]], path: Path) -> Path:
    if path.suffix.lower() == ".parquet":
        import pyarrow
        from pyarrow import parquet

        sink = pyarrow.BufferOutputStream()
        parquet.write_table(pyarrow.table(columns), sink)
        return write_whole(path, sink.getvalue().to_pybytes())
    plain = {name: c.tolist() if isinstance(c, np.ndarray) else c for name, c in columns.items()}
    return write_whole(path, csv_text(plain, as_written=True))
