"""The log of an experiment: in memory, as a file, and as a stream of Arrow's of which another process makes the log."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from belated.base.columns import Array, Row
from belated.base.documents import JsonObject, csv_text
from belated.base.errors import OptionError
from belated.base.files import check_place, write_whole
from belated.live.answers import Counts, LiveAnswer
from belated.live.design import Setup
from belated.live.errors import StorageError, unharmed
from belated.live.records import moment, stamp
from belated.log.clock import NEVER
from belated.reading.live_logs import LiveLog, LiveRows, live_log

if TYPE_CHECKING:
    import pyarrow as pa

    from belated.log.data import Data
    from belated.log.log import Log

#: The media type of the stream, and the key of its schema under which everything but the rows is.
ARROW, ABOUT = "application/vnd.apache.arrow.stream", b"belated"

#: The form of a stream; raised when its columns or their meaning change.
FORM = 1

#: Rows of one batch of a stream.
_BATCH = 65_536


@dataclass(frozen=True)
class LogState:
    """The decisions and outcomes of an experiment at one moment.

    Attributes
    ----------
    name : str
    setup : Setup
    labels : tuple of str
        The arms, by number.
    rows : LiveRows
    now : int
        The storage's time in microseconds.
    segments : tuple of str
        The segments, by number; empty if units have none.
    """

    name: str
    setup: Setup
    labels: tuple[str, ...]
    rows: LiveRows
    now: int
    segments: tuple[str, ...] = ()

    def log(self) -> Data:
        """Return the rows as a log; events become outcomes as `read` makes them."""
        with unharmed("The store"):
            return self._log()

    def _log(self) -> Data:
        from belated.log.clock import Clock
        from belated.log.log import Log
        from belated.log.rows import LogColumns

        rows = self.rows
        if self.setup.outcome.is_events:
            from belated.reading.read import read

            return read(self._live())
        columns = LogColumns(
            arms=self.labels, code=rows.arm, outcome=rows.outcome, propensity=rows.propensity(len(self.labels)),
            assigned=rows.assigned, arrived=rows.arrived, clock=Clock("us"), moment=None,
            segment=rows.segments(self.segments),
        )  # fmt: skip
        return Log.of_numbers(columns, name=self.name)

    def _live(self) -> LiveLog:
        return live_log(self.rows, self.name, list(self.labels), self.setup.to_dict(), self.now, segments=self.segments)

    # ---------------------------------------------------------------- as a stream

    def stream(self, **about: object) -> Iterator[bytes]:
        """Give the log as a stream of Arrow's, in parts.

        A row has the decision's number, its arm, version, time and segment, the probability of every arm, the outcome
        and its arrival; or a list of events. The schema's metadata has the rest as JSON, with what `about` adds.
        """
        import pyarrow as pa

        head = {
            "form": FORM, "name": self.name, "setup": self.setup.to_dict(), "arms": list(self.labels),
            "segments": list(self.segments), "now": self.now, "watermark": self.rows.watermark,
            "corrected": self.rows.corrected, "chances": [p.tolist() for p in self.rows.chances], **about,
        }  # fmt: skip
        frame = self._frame().replace_schema_metadata({ABOUT: json.dumps(head).encode()})
        sink = _Sink()
        with pa.ipc.new_stream(sink, frame.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            yield sink.taken()
            for batch in frame.to_batches(_BATCH):
                writer.write_batch(batch)
                yield sink.taken()
        yield sink.taken()

    def _frame(self) -> pa.Table:
        import pyarrow as pa

        rows = self.rows
        if not len(rows):
            return pa.table({})
        live = self._live()
        frame = live.assignments.frame.add_column(2, "version", pa.array(rows.version))
        if live.events is None:
            return frame
        return frame.append_column("events", _nested(rows.key, live.events))


class _Sink:
    """A file object from which the written bytes can be taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.closed = False

    def write(self, part: bytes | pa.Buffer) -> int:
        self._parts.append(bytes(part))
        return len(self._parts[-1])

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _nested(keys: Array, events: pa.Table) -> pa.Array:
    """Return the events of each decision as a list; `number` is an event's place among those of all decisions."""
    import pyarrow as pa

    place = np.searchsorted(keys, events["decision"].to_numpy())
    order = np.argsort(place, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(keys)))]).astype(np.int32)
    in_order = events.append_column("number", pa.array(np.arange(len(place)))).take(pa.array(order))
    fields = {name: in_order[name].combine_chunks() for name in ("number", "value", "happened_at")}
    return pa.ListArray.from_arrays(pa.array(ends), pa.StructArray.from_arrays([*fields.values()], [*fields]))


# ---------------------------------------------------------------- of a stream


def read_stream(content: bytes) -> tuple[LogState, JsonObject]:
    """Return the state that a stream was made of, and what the stream says about it."""
    import pyarrow as pa

    try:
        frame = pa.ipc.open_stream(content).read_all()
        about = json.loads(frame.schema.metadata[ABOUT])
        if about["form"] != FORM:
            raise StorageError(f"The service sends logs of form {about['form']}, not {FORM}; install its version.")
        setup = Setup.from_dict(about["setup"])
        rows = _rows(frame, about, events=setup.outcome.is_events)
        state = LogState(
            name=about["name"],
            setup=setup,
            labels=tuple(about["arms"]),
            rows=rows,
            now=int(about["now"]),
            segments=tuple(about["segments"]),
        )
        return state, about
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError("The service sent a log that cannot be read; use the same version of belated.") from None


def _rows(frame: pa.Table, about: JsonObject, *, events: bool) -> LiveRows:
    """Return the rows of a stream."""
    known = LiveRows(
        corrected=int(about["corrected"]), chances=[np.array(p, float) for p in about["chances"]],
        watermark=int(about["watermark"]),
    )  # fmt: skip
    if not frame.num_rows:
        return known
    key, version = (frame[name].to_numpy().astype(np.int64) for name in ("decision", "version"))
    assigned, _ = _stamps(frame["assigned_at"])
    if events:
        outcome, arrived = np.full(len(key), np.nan), np.full(len(key), NEVER)
    else:
        outcome = frame["outcome"].to_numpy(zero_copy_only=False).astype(np.float64)
        stamps, has_arrived = _stamps(frame["arrived_at"])
        arrived = np.where(has_arrived, stamps, NEVER)
    return replace(
        known, key=key, arm=_places(frame["arm"], about["arms"]), version=version, assigned=assigned,
        segment=_places(frame["segment"], about["segments"]) if about["segments"] else known.segment,
        outcome=outcome, arrived=arrived, events=_flat(key, frame["events"].combine_chunks()) if events else [],
    )  # fmt: skip


def _places(column: pa.ChunkedArray, labels: Sequence[str]) -> Array:
    """Return the place of each label of a column among all."""
    place = {label: k for k, label in enumerate(labels)}
    return np.array([place[label] for label in column.to_pylist()], np.int64)


def _stamps(column: pa.ChunkedArray) -> tuple[Array, Array]:
    """Return times as microseconds, and where there are any."""
    import pyarrow as pa

    valid = column.is_valid().to_numpy()
    return column.cast(pa.int64()).fill_null(0).to_numpy(), valid


def _flat(keys: Array, nested: pa.ListArray) -> list[Row]:
    """Return events as `LiveRows` has them, in the order of their numbers, which tell them apart."""
    import pyarrow as pa

    flat = nested.flatten()
    number = flat.field("number").to_numpy()
    order = np.argsort(number)
    decision = np.repeat(keys, nested.value_lengths().to_numpy())[order].tolist()
    happened = flat.field("happened_at").cast(pa.int64()).to_numpy()[order].tolist()
    value = flat.field("value").to_numpy()[order].tolist()
    return [
        (decided, str(place), 0, each, when, when)
        for decided, place, each, when in zip(decision, number[order].tolist(), value, happened, strict=True)
    ]


# ---------------------------------------------------------------- as a file, without units


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


# ---------------------------------------------------------------- answers


def answer_stream(answer: LiveAnswer) -> Iterator[bytes]:
    """Give an answer as a stream: the log that it was made of, its counts, and the exclusions that are remembered."""
    exclusions = {name: stamp(at) for name, at in answer.exclusions.items()}
    return answer.state.stream(counts=vars(answer.counts), exclusions=exclusions)


def read_answer(content: bytes) -> LiveAnswer:
    """Return the answer that a stream was made of, computed again."""
    state, about = read_stream(content)
    try:
        counts = Counts(**about["counts"])
        exclusions: dict[str, dt.datetime] = {name: moment(at) for name, at in about["exclusions"].items()}
    except (KeyError, TypeError, AttributeError):
        raise StorageError("The service sent an answer without counts; use the same version of belated.") from None
    return LiveAnswer(state, counts, exclusions)
