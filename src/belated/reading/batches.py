"""Batches: some rows of a log as numbers, read from a table one after the other."""

from __future__ import annotations

import math
import sys
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.base.columns import Array, Label
from belated.base.errors import LogError
from belated.base.progress import Bar
from belated.base.text import one_line
from belated.kernels import rows as kernel
from belated.log.clock import NEVER, Clock
from belated.log.log import locked
from belated.log.row_checks import Columns, check_rows
from belated.reading.engines import engine_of
from belated.reading.first_look import Opened
from belated.reading.kinds import clock_times, floats

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

#: Arms up to which the engine turns labels into numbers.
_FEW_ARMS = 64

#: Rows from which a scan shows its progress.
_LONG = 5_000_000


@dataclass(frozen=True)
class Batch:
    """Some rows of a log, as numbers: arm, outcome, propensities, times."""

    code: Array
    outcome: Array
    propensity: Array  # (rows, arms), or (rows,) if only the chosen arm's is known
    assigned: Array
    arrived: Array  # NEVER or NaN: still out

    @classmethod
    def of(cls, *, code: Array, outcome: Array, propensity: Array, assigned: Array, arrived: Array) -> Batch:
        """Return a batch whose arrays cannot be written to; compiled kernels know no others."""
        return cls(
            code=locked(code),
            outcome=locked(outcome),
            propensity=locked(propensity),
            assigned=locked(assigned),
            arrived=locked(arrived),
        )

    def __len__(self) -> int:
        return len(self.code)

    @property
    def times(self) -> kernel.Times:
        """The rows' times, as kernels take them; every arrival counts."""
        if self.arrived.dtype.kind == "i":
            return kernel.Times(self.assigned, self.arrived, np.iinfo(np.int64).max, NEVER)
        return kernel.Times(self.assigned, self.arrived, float(np.finfo(np.float64).max), math.nan)

    def check_times(self, before: int) -> None:
        """Refuse the first row without a time of assignment; `before` counts the rows that come before these."""
        whole = self.assigned.dtype.kind == "i"
        timed = self.assigned != NEVER if whole else np.isfinite(self.assigned)
        if not timed.all():
            row = int(timed.argmin())
            what = "missing" if whole or np.isnan(self.assigned[row]) else str(self.assigned[row])
            raise LogError.of_row("assigned_at", before + row, f"is {what}; every assignment must have a time.")

    def check(self, arms: tuple[Label, ...], clock: Clock, before: int) -> tuple[Array, Array]:
        """Refuse the first row that cannot be; return the outcome and propensity of each arm's least likely row."""
        self.check_times(before)
        columns = Columns(self.code, self.outcome, self.propensity, self.times)
        anchors, rarest = check_rows(arms, columns, clock, before)
        which = np.argmin(rarest, axis=0), np.arange(len(arms))
        return np.array(anchors)[which], np.array(rarest)[which]


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of tables, as Arrow records and as batches; `coded` are those of `opened` with their `code`."""

    opened: Opened
    coded: ir.Table

    def records(self, *, ordered: bool) -> Generator[pa.RecordBatch]:
        """Yield the rows, in order of assignment if asked for; on a terminal, show how far it is."""
        opened, rows = self.opened, self.opened.rows
        engine, count = engine_of(rows), opened.facts.rows
        if engine.is_embedded and len(opened.arms) <= _FEW_ARMS:  # numbers travel faster than labels
            rows = self.coded.mutate(code=self.coded.code.cast("uint16")).drop("arm")
        rows = rows if opened.query.window is None else rows.drop("first")
        rows = rows.order_by("assigned") if ordered else rows
        bar = Bar(count, f"{opened.name} ") if count > _LONG and sys.stderr.isatty() else None
        done = 0
        try:
            for record in engine.batches(rows):
                yield record
                done += record.num_rows
                if bar:
                    bar.show(done)
        finally:
            if bar:
                bar.clear()

    def batch(self, record: pa.RecordBatch) -> Batch:
        """Return Arrow rows as numbers."""
        opened = self.opened
        return Batch.of(
            code=self._codes(record),
            outcome=floats(record["outcome"]),
            propensity=self._propensities(record),
            assigned=clock_times(record["assigned"], opened.clock),
            arrived=clock_times(record["arrived"], opened.clock),
        )

    def _codes(self, record: pa.RecordBatch) -> Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        if "code" in record.schema.names:
            codes = record["code"]
        else:
            values = pa.array(self.opened.facts.values, type=record["arm"].type)
            codes = pc.index_in(record["arm"], value_set=values)
        if codes.null_count:
            row = int(np.argmax(codes.is_null().to_numpy(zero_copy_only=False)))
            raise LogError(f"`arm` in row {row} is missing; every row must say which arm it got.", column="arm")
        return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.uint16)

    def _propensities(self, record: pa.RecordBatch) -> Array:
        if "p" in record.schema.names:
            return floats(record["p"])
        matrix = np.empty((record.num_rows, len(self.opened.arms)))
        for k in range(len(self.opened.arms)):
            matrix[:, k] = floats(record[f"p{k}"])
        return matrix

    def all_batches(self) -> list[Batch]:
        """Return every row in memory."""
        batches: list[Batch] = []
        before = 0
        for record in self.records(ordered=False):
            batches.append(self.batch(record))
            batches[-1].check_times(before)
            before += len(batches[-1])
        return batches

    def located(self, error: LogError, *, ordered: bool) -> LogError:
        """Return the error of a row with the row's number in the file, or its key."""
        if error.row is None or (self.opened.query.keeps_order and not ordered):
            return error
        before = 0
        with closing(self.records(ordered=ordered)) as records:
            for record in records:
                if error.row < before + len(record):
                    return error.at(row_name(record.slice(error.row - before, 1).to_pylist()[0]))
                before += len(record)
        return error


def row_name(row: Mapping[str, Any]) -> str:
    """Return what names a row in a sentence: its key, or its time."""
    if row.get("key") is not None:
        return f"the row of key {one_line(repr(row['key']))}"
    return f"the row assigned at {row['assigned']}"
