"""Rows in batches, as numbers, and their sums, with only a few batches in memory.

A `RowReader` reads `Batch`es of rows from a table; `stream_sums` makes of them what a `StreamPlan` asks for.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from belated.base.checks import LARGEST_FLOAT
from belated.base.columns import Array, Label, locked
from belated.base.errors import BelatedError, LogError
from belated.base.progress import PATIENCE, Bar
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.log.clock import NEVER, Clock
from belated.log.row_checks import Columns, check_rows
from belated.log.segments import cells_of
from belated.reading.columns import clock_times, floats, numbers
from belated.reading.engines import engine_of
from belated.reading.first_look import Opened
from belated.reading.rows_query import row_name
from belated.summaries.covariates import Covariates, CovariateSums
from belated.summaries.outcome_models import OutcomeModel
from belated.summaries.segments import Layout, Segments, cell_labels
from belated.summaries.sums import Sums, SumsOf, empty_bins
from belated.summaries.weights import Weights

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

_Record = TypeVar("_Record", bound=Sized)

#: Arms up to which the engine turns labels into numbers.
_FEW_ARMS = 64

#: The order of rows that are in order.
_IN_ORDER = np.empty(0, dtype=np.int32)

#: The segments of rows that have none.
_NO_SEGMENTS = locked(np.empty(0, dtype=np.int32))

#: Batches under way at once; more would only fill the memory.
_BATCHES_AHEAD = 4


# ---------------------------------------------------------------- batches


@dataclass(frozen=True)
class Batch:
    """Some rows of a log, as numbers: arm, outcome, propensities, times, segment, covariates, chance of arrival."""

    code: Array
    outcome: Array
    propensity: Array  # (rows, arms), or (rows,) if only the chosen arm's is known
    assigned: Array
    arrived: Array  # NEVER or NaN: still out
    segment: Array = field(default_factory=lambda: _NO_SEGMENTS)  # its position among the log's; empty: none
    x: Array = field(default_factory=lambda: kernel.NO_X)  # (rows, covariates)
    arrival: Array = field(default_factory=lambda: kernel.NO_ARRIVAL)

    @classmethod
    def of(cls, **columns: Array) -> Batch:
        """Return a batch whose arrays cannot be written to; compiled kernels know no others."""
        return cls(**{name: locked(column) for name, column in columns.items()})

    def __len__(self) -> int:
        return len(self.code)

    def take(self, rows: Array) -> Batch:
        """Return the rows at some places."""
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        return self.of(**{name: column[rows] for name, column in columns.items() if len(column) == len(self)})

    @property
    def times(self) -> kernel.Times:
        """The rows' times, as kernels take them; every arrival counts."""
        if self.arrived.dtype.kind == "i":
            return kernel.Times(self.assigned, self.arrived, np.iinfo(np.int64).max, NEVER)
        return kernel.Times(self.assigned, self.arrived, LARGEST_FLOAT, math.nan)

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
        columns = Columns(self.code, self.outcome, self.propensity, self.times, len(arms))
        anchors, rarest = check_rows(arms, columns, clock, before)
        least_likely = np.argmin(rarest, axis=0), np.arange(len(arms))
        return np.array(anchors)[least_likely], np.array(rarest)[least_likely]


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
            rows = rows if opened.units is None else opened.units.coded(rows)
        if opened.query.window is not None and not opened.query.maturing:
            rows = rows.drop("first", "total")
        rows = self.in_order(rows) if ordered else rows
        bar = Bar(count, f"Reading {opened.name} ", PATIENCE) if count and sys.stderr.isatty() else None
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

    def in_order(self, rows: ir.Table) -> ir.Table:
        """Return rows in order of assignment; those of one time in the order of their table, else of their keys.

        Engines give rows that an order leaves alike in any order, and another one each time.
        """
        query = self.opened.query
        if query.keeps_order:
            return rows.mutate(number=query.library.row_number()).order_by("assigned", "number")
        return rows.order_by("assigned", "key") if "key" in rows.columns else rows.order_by("assigned")

    @property
    def is_mixed(self) -> bool:
        """Whether the rows come in any order, because two tables were joined."""
        return self.opened.query.deliveries is not None

    def batch(self, record: pa.RecordBatch) -> Batch:
        """Return Arrow rows as numbers."""
        opened, units = self.opened, self.opened.units
        columns = {
            "code": self._codes(record),
            "outcome": floats(record["outcome"]),
            "propensity": self._propensities(record),
            "assigned": clock_times(record["assigned"], opened.clock),
            "arrived": clock_times(record["arrived"], opened.clock),
        }
        if units is not None:
            columns["segment"] = units.segments_of(record)
            if (covariates := units.covariates_of(record)) is not None:
                columns["x"] = covariates.values
            if units.has_arrival:
                columns["arrival"] = floats(record["arrive"])
        return Batch.of(**columns)

    def _codes(self, record: pa.RecordBatch) -> Array:
        if "code" in record.schema.names:
            codes = record["code"]
        else:
            import pyarrow as pa
            import pyarrow.compute as pc

            values = pa.array(self.opened.facts.values, type=record["arm"].type)
            codes = pc.index_in(record["arm"], value_set=values)
        if codes.null_count:
            row = codes.to_pylist().index(None)
            raise LogError(f"`arm` in row {row} is missing; every row needs an arm.", column="arm")
        return numbers(codes, 0).astype(np.uint16, copy=False)

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
        for record in self.records(ordered=self.is_mixed):
            batches.append(self.batch(record))
            batches[-1].check_times(before)
            before += len(batches[-1])
        return batches

    def located(self, error: LogError, *, ordered: bool) -> LogError:
        """Return the error of a row with the row's line or number in the file, or its key."""
        opened = self.opened
        if error.row is None:
            return error
        if opened.query.keeps_order:
            return self.first_fault(error) if ordered else opened.query.in_file(error, opened.moment)
        before = 0
        with closing(self.records(ordered=ordered)) as records:
            for record in records:
                if error.row < before + len(record):
                    return error.at(row_name(record.slice(error.row - before, 1).to_pylist()[0]))
                before += len(record)
        return error

    def first_fault(self, error: LogError) -> LogError:
        """Return the error of the first invalid row in the table's own order, in place of one in another."""
        before = 0
        with closing(self.records(ordered=False)) as records:
            for record in records:
                try:
                    self.batch(record).check(self.opened.arms, self.opened.clock, before)
                except LogError as first:
                    error = first
                    break
                before += len(record)
        return self.opened.query.in_file(error, self.opened.moment)


# ---------------------------------------------------------------- sums of a stream


class OutOfOrderError(BelatedError):
    """Rows that were to come in order of assignment did not."""


class StreamPlan(NamedTuple):
    """The results that are computed from a stream of rows.

    Attributes
    ----------
    arms : tuple
    parts : sequence of (weights, outcome model)
    clock : Clock
    last : int or float
        When the last row was assigned.
    moments : array or None
        At which sums are wanted; None: at the end.
    matured : bool
        Whether a row exists only once its outcome has arrived; the outcomes then arrive in the rows' order.
    plain : bool
        Whether to make the sums that only estimators that are not of Hajek's kind need.
    in_order : bool
        Whether the rows must come in order of assignment: where there are running means or moments.
    layout : Layout or None
        The segments that are told apart; None if rows have neither segments nor covariates.
    covariates : Covariates or None
        Names, centre and scale of the batches' covariates.
    """

    arms: tuple[Label, ...]
    parts: Sequence[tuple[Weights, OutcomeModel]]
    clock: Clock
    last: int | float
    moments: Array | None = None
    matured: bool = False
    plain: bool = True
    in_order: bool = True
    layout: Layout | None = None
    covariates: Covariates | None = None

    @property
    def cells(self) -> tuple[Label, ...]:
        """The cells of the sums: arms, or pairs of a segment and an arm."""
        return self.arms if self.layout is None else cell_labels(self.layout.labels, self.arms)

    def totals(self, cells: Sums, covariates: CovariateSums | None = None) -> Sums:
        """Return sums by arm from those by cell."""
        if self.layout is None:
            return cells
        return Segments.of(self.layout, cells, covariates).total()


@dataclass(frozen=True)
class _Prepared:
    """A batch, checked, with its own order of events.

    `due` is as `kernels.rows.schedule` makes it; `later` holds when, cell and outcome of what only rows of later
    batches see, in order. `anchor` and `rarest` are by cell.
    """

    batch: Batch
    cell: Array
    anchor: Array
    rarest: Array
    due: Array
    later: tuple[Array, Array, Array]


def _prepared(batch: Batch, plan: StreamPlan, before: int) -> _Prepared:
    anchor, rarest = batch.check(plan.arms, plan.clock, before)
    if plan.layout is not None and plan.layout.arrival is not None:
        batch = replace(batch, arrival=locked(plan.layout.arrival.chance[batch.segment, batch.code]))
    if plan.in_order and (batch.assigned[1:] < batch.assigned[:-1]).any():
        raise OutOfOrderError("The rows are not in order of assignment.")
    n = len(batch)
    due = np.empty(n, dtype=np.int32)
    with np.errstate(all="ignore"):
        kernel.schedule(due, batch.times, batch.outcome, _IN_ORDER, 0, n, n)
    cell = batch.code
    if plan.layout is not None and len(batch.segment):
        cell = cells_of(plan.layout, batch.segment, batch.code, len(plan.arms))
        anchor, rarest = np.zeros(len(plan.cells)), np.full(len(plan.cells), math.inf)
        rows = _kernel_rows(batch, cell, due, len(plan.arms))
        with np.errstate(all="ignore"):
            kernel.rarest_outcomes(anchor, rarest, rows, 0, n)
    unseen = np.flatnonzero(due == n)
    when = batch.arrived[unseen]
    at_once = when == batch.assigned[unseen]  # only rows of a later time see those
    when = when + at_once if when.dtype.kind == "i" else np.where(at_once, np.nextafter(when, math.inf), when)
    order = np.argsort(when)
    order = order[: np.searchsorted(when[order], plan.last, side="right")]
    arriving = unseen[order]
    later = when[order], cell[arriving], batch.outcome[arriving]
    return _Prepared(batch=batch, cell=cell, anchor=anchor, rarest=rarest, due=due, later=later)


def _kernel_rows(batch: Batch, cell: Array, due: Array, arms: int) -> kernel.Rows:
    """Return a batch's rows in the form that kernels use."""
    rows = kernel.rows_of(batch.code, batch.outcome, batch.propensity, order=_IN_ORDER, due=due, arms=arms)
    return rows._replace(cell=cell, x=batch.x, arrival=batch.arrival)


class _History:
    """The state after the batches so far: counts and sums of arrived outcomes, and outcomes that wait.

    Those wait as runs, each in order of the moment from which it is seen.
    """

    def __init__(self, cells: int) -> None:
        self.n, self.y, self.shift = np.zeros(cells), np.zeros(cells), np.zeros(cells)
        self.runs: list[tuple[Array, Array, Array]] = []

    def about(self, shift: Array) -> tuple[Array, Array]:
        """Return counts, and sums of outcomes minus `shift`."""
        return self.n.copy(), self.y + self.n * (self.shift - shift)

    def take(self, until: int | float) -> tuple[Array, Array, Array] | None:
        """Return what waited for rows assigned up to a moment."""
        taken, waiting = [], []
        for run in self.runs:
            cut = int(np.searchsorted(run[0], until, side="right"))
            if cut:
                taken.append(tuple(column[:cut] for column in run))
            if cut < len(run[0]):
                waiting.append((run[0][cut:], run[1][cut:], run[2][cut:]))
        self.runs = waiting
        if not taken:
            return None
        when, cell, outcome = (np.concatenate(columns) for columns in zip(*taken, strict=True))
        return when, cell, outcome


def stream_sums(records: Iterable[_Record], convert: Callable[[_Record], Batch], plan: StreamPlan) -> list[list[Sums]]:
    """Return, for each choice of weights and outcome model, the sums at each moment.

    Parameters
    ----------
    records : iterable
        Pieces of the log as of the last moment.
    convert : callable
        From such a piece to a `Batch`.
    plan : StreamPlan
    """
    history, total = _History(len(plan.cells)), list[list[Sums]]()
    added: deque[Future[None]] = deque()
    rows, latest = 0, None

    def prepare(record: _Record, before: int) -> _Prepared:
        return _prepared(convert(record), plan, before)

    def add(waiting: Future[_Prepared]) -> None:
        """Add a batch after those before it."""
        nonlocal latest
        prepared = waiting.result()
        if plan.in_order and latest is not None and prepared.batch.assigned[0] < latest:
            raise OutOfOrderError("The rows are not in order of assignment.")
        latest = prepared.batch.assigned[-1]
        more = _added(prepared, plan, history)
        if total:
            total[:] = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(total, more, strict=True)]
        else:
            total.extend(more)

    bins = 1 if plan.moments is None else len(plan.moments)
    products = 0 if plan.covariates is None else 2 * len(plan.covariates.names) ** 2
    by_row, by_batch = len(plan.arms) + 8 + products, 10 * bins * len(plan.cells)
    # any thread prepares, one adds, and this one fetches
    with ThreadPoolExecutor(jit.workers()) as threads, ThreadPoolExecutor(1) as line:
        try:
            for record in records:
                if not len(record):
                    continue
                jit.ready((len(record) * by_row + by_batch) * (len(plan.parts) + 1))
                added.append(line.submit(add, threads.submit(prepare, record, rows)))
                rows += len(record)
                while len(added) > _BATCHES_AHEAD:
                    added.popleft().result()
            while added:
                added.popleft().result()
        finally:
            for future in added:
                future.cancel()
    if not total:
        return [[plan.totals(Sums.empty(plan.cells, *part)) for _ in range(bins)] for part in plan.parts]
    return total


def _added(prepared: _Prepared, plan: StreamPlan, history: _History) -> list[list[Sums]]:
    """Return a batch's sums, and bring the history up to its end."""
    batch, arms, cells = prepared.batch, len(plan.arms), len(plan.cells)
    # a cell without an outcome in this batch keeps the shift it had before
    shift = np.where(np.isfinite(prepared.rarest), prepared.anchor, history.shift)
    rows, ahead = _after_history(prepared, arms, history.take(batch.assigned[-1]))
    stop = ahead + len(batch)
    bins = _bins(batch, plan, ahead)
    sums, after = [], None
    for weights, model in plan.parts:
        spread, own = empty_bins(len(bins.edges), cells)
        totals = kernel.totals(
            spread,
            own,
            np.empty((0, arms)),
            np.empty(0),
            shift=shift,
            plain=plan.plain,
            covariates=rows.x.shape[1],
            segments=cells // arms,
        )
        weighting = weights.weighting_of(cells)
        if plan.layout is not None and plan.layout.merged:
            weighting = weighting._replace(even_from=plan.layout.even_from(arms))
        calendar = stop if model.learns else 0
        n_before, y_before = history.about(shift)
        with np.errstate(all="ignore"):
            kernel.accumulate(
                totals,
                rows,
                kernel.Calendar(np.full(calendar, -1, dtype=np.int32), np.empty(calendar, dtype=np.int32)),
                bins,
                weighting,
                model.modelling_of(cells)._replace(arrived_n=n_before, arrived_y=y_before),
                kernel.Stretch(ahead, stop),
            )
        if calendar:
            after = n_before, y_before
        about = SumsOf(arms=plan.cells, weights=weights, outcome_model=model, full=rows.full, plain=plan.plain)
        by_cell = Sums.of_bins(about, shift, spread, own)
        if plan.layout is not None:
            products = CovariateSums.of_bins(plan.covariates, totals.own_products, totals.all_products, shift)
            by_cell = [plan.totals(*each) for each in zip(by_cell, products, strict=True)]
        sums.append(by_cell)
    if after is not None:
        (history.n, history.y), history.shift = after, shift
        history.runs.append(prepared.later)
    return sums


def _after_history(
    prepared: _Prepared, arms: int, earlier: tuple[Array, Array, Array] | None
) -> tuple[kernel.Rows, int]:
    """Return a batch's rows after the outcomes of earlier rows that they see, and how many those are.

    Those stand before the batch's rows, where they are seen but not counted.
    """
    batch, due = prepared.batch, prepared.due
    rows = _kernel_rows(batch, prepared.cell, due, arms)
    if earlier is None:
        return rows, 0
    ahead = len(earlier[0])
    due = np.where(due >= 0, due + ahead, due)
    due = np.concatenate([ahead + np.searchsorted(batch.assigned, earlier[0]).astype(np.int32), due])
    unused = np.zeros((ahead, rows.propensity.shape[1]))
    cell, outcome, propensity = (
        locked(np.concatenate(pair))
        for pair in ((earlier[1], rows.cell), (earlier[2], batch.outcome), (unused, rows.propensity))
    )
    code = cell if rows.cell is rows.code else locked(np.concatenate([np.zeros(ahead, batch.code.dtype), batch.code]))
    if rows.x.shape[1]:
        rows = rows._replace(x=locked(np.concatenate([np.zeros((ahead, rows.x.shape[1])), rows.x])))
    if len(rows.arrival):
        rows = rows._replace(arrival=locked(np.concatenate([np.ones(ahead), rows.arrival])))
    return rows._replace(code=code, cell=cell, outcome=outcome, propensity=propensity, due=due), ahead


def _bins(batch: Batch, plan: StreamPlan, ahead: int) -> kernel.Bins:
    """Return where a batch's sums are cut; `ahead` positions stand before its rows."""
    stop, moments = ahead + len(batch), plan.moments
    if moments is None:
        return kernel.Bins(edges=np.array([stop]), arrival=np.empty(0, dtype=np.int32))
    edges = ahead + np.searchsorted(batch.arrived if plan.matured else batch.assigned, moments, side="right")
    arrival = np.zeros(stop, dtype=np.int32)
    arrival[ahead:] = np.searchsorted(moments, batch.arrived)
    return kernel.Bins(edges.astype(np.int64), arrival)
