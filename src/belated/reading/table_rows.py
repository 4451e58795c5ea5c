"""`TableRows`: the rows of a log where they are, in files or a database; counted, checked and summed there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import or_
from typing import TYPE_CHECKING

import numpy as np

from belated.base.columns import Array, Label, locked
from belated.base.errors import LogError
from belated.log.data import Data
from belated.log.log import Log
from belated.log.rows import LogColumns
from belated.log.segments import SegmentColumn
from belated.reading import evidence_query, sums_query
from belated.reading.columns import floats, literal
from belated.reading.engines import engine_of, fetch, fetch_all, library_of, sentences
from belated.reading.first_look import Opened
from belated.reading.rows_query import row_name
from belated.reading.stream import Batch, OutOfOrderError, RowReader, StreamPlan, stream_sums
from belated.reading.units import unit_columns
from belated.summaries import contexts
from belated.summaries.covariates import CovariateSums
from belated.summaries.evidence import event_outcome
from belated.summaries.outcome_models import OutcomeModel
from belated.summaries.segments import ALL, Layout
from belated.summaries.sums import Sums, SumsOf, with_cap
from belated.summaries.weights import Weights

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

#: In how many times the time that some rows take on average they are looked for.
_SEARCH_FACTOR = 2

#: How many times as many rows may be found on the way.
_MOST_PICKED = 8

ReadParts = list[tuple[Weights, OutcomeModel]]


@dataclass
class _Scans:
    """The results of the scans of the rows so far."""

    in_order: bool  # whether the rows come in order of assignment, until it turns out otherwise
    anchors: Array | None = None
    dependence: Array | None = None
    checked: bool = False  # whether every row has been found valid


class TableRows(Data):
    """The rows of a log that stays in its engine; `Source` answers questions about them.

    Attributes
    ----------
    query : RowsQuery
        What is asked of the tables.
    rows : ibis table
        One row for each assignment as of the moment, with its propensities; outcomes are capped.
    roles : Roles
        The column for each role.
    units : Units or None
        The segments and covariates, if there are any.
    """

    def __init__(self, opened: Opened, cap: float | None) -> None:
        self._uncut, self.cap = opened, cap
        self._opened = opened if cap is None else replace(opened, rows=sums_query.with_cap(opened.rows, cap))
        self.query = opened.query
        self._facts = opened.facts
        self.name, self.arms, self.clock = opened.name, opened.arms, opened.clock
        self.moment, self.notes, self.rows = opened.moment, opened.notes, self._opened.rows
        self.roles = opened.query.roles
        self.units = opened.units
        self.within = None if opened.query.window is None else opened.query.window.text
        self.measure = opened.query.measure
        self._scans = _Scans(in_order=opened.query.keeps_order)

    # ---------------------------------------------------------------- what it holds

    def __len__(self) -> int:
        return self._facts.rows

    @property
    def has_all_propensities(self) -> bool:
        """Whether the probability of every arm is known, not only of the chosen one."""
        return "p0" in self.rows.columns

    @property
    def segments(self) -> tuple[Label, ...]:
        """The labels of the segments, after small ones were merged; empty if there are none."""
        return () if self.units is None or self.units.segment is None else self.units.layout.labels

    @property
    def layout(self) -> Layout:
        """The segments that are told apart; one if there are none."""
        return Layout((ALL,), np.zeros(1, np.intp)) if self.units is None else self.units.layout

    @property
    def _has_cells(self) -> bool:
        return self.units is not None and self.units.has_cells

    @property
    def unit_names(self) -> tuple[str, ...]:
        """The columns of `rows` that hold segments and covariates."""
        return () if self.units is None else tuple(unit_columns(self.query.assignments, self.roles))

    @property
    def is_streamed(self) -> bool:
        """Whether batches are streamed through the kernel; else the engine makes the sums itself."""
        return engine_of(self.rows).is_embedded

    @property
    def engine(self) -> str:
        """The name of the engine that holds the rows."""
        return self.query.copied_from or str(self.query.connection.name)

    @property
    def is_maturing(self) -> bool:
        """Whether outcomes are events, and rows whose window is still open count for the ages they have reached."""
        return self.query.maturing

    @property
    def outcome_name(self) -> str:
        """The name of the outcome."""
        if self.query.measure is not None:
            return event_outcome(self.query.measure, self.roles.outcome)
        return self.roles.outcome or "outcome"

    @property
    def span(self) -> tuple[int | float, int | float]:
        """When the first and the last row were assigned, as numbers of the clock."""
        return self._facts.first, self._facts.last

    @property
    def last_look(self) -> int | float:
        """The moment up to which outcomes are known: `as_of`, or the last time in the log."""
        return self._facts.last_time if self.moment is None else self.moment

    @property
    def assigned(self) -> Array:
        """The number of rows of each arm."""
        return self._facts.assigned

    @cached_property
    def arrived(self) -> Array:
        """The number of arrived outcomes of each arm."""
        with sentences(self.name, self.query.versions):
            rows = self.coded
            counts = fetch(rows.group_by("code").agg(n=rows.arrived.count())).to_pydict()
        arrived = np.zeros(len(self.arms), dtype=np.int64)
        arrived[counts["code"]] = counts["n"]
        return arrived

    # ---------------------------------------------------------------- rows with numbers for arms and segments

    @cached_property
    def coded(self) -> ir.Table:
        """The rows, with `code`: the position of each row's arm among `arms`."""
        return with_codes(self.rows, self._facts.values)

    @cached_property
    def placed(self) -> ir.Table:
        """The rows, with `code` and `place`, the position of each row's segment among those of the layout."""
        place = self.coded.code * 0 if self.units is None else self.units.place(self.coded)
        return self.coded.mutate(place=place)

    @cached_property
    def _weighed(self) -> ir.Table:
        """The placed rows, with `arrive` where it is known or estimated how likely outcomes arrive."""
        return self.placed if self.units is None else self.units.with_arrival(self.placed)

    @cached_property
    def _cell_anchors(self) -> Array:
        """An outcome of each arm in each segment, about which sums are taken."""
        return self._first_pass if self.units is None else self._anchors_of(self.placed)

    @cached_property
    def anchors(self) -> Array:
        """An outcome of each arm, about which sums are taken; it stays the same, as `dependence` is about it."""
        return self._first_pass if self._scans.anchors is None else self._scans.anchors

    @cached_property
    def _first_pass(self) -> Array:
        """By arm, an outcome of the least likely row that has one; refuse invalid rows."""
        return self._anchors_of(self.coded)

    def _anchors_of(self, rows: ir.Table) -> Array:
        """Return an outcome of the least likely row that has one, by arm or, of placed rows, by segment and arm."""
        anchors = np.zeros((len(self.layout.labels) if "place" in rows.columns else 1, len(self.arms)))
        first = fetch(sums_query.first_pass(rows, len(self.arms)))
        if any(first["faulty"].to_pylist()):
            self._refuse()
        self._scans.checked = True
        known = first.filter(first["anchor"].is_valid())
        code = floats(known["code"]).astype(np.intp)
        place = floats(known["place"]).astype(np.intp) if "place" in known.column_names else 0 * code
        anchors[place, code] = floats(known["anchor"])
        return anchors.ravel()

    def assignments(self) -> pa.Table:
        """Return the table of the assignments in memory, with all its columns."""
        with sentences(self.name, self.query.versions):
            return fetch(self.query.assignments)

    @cached_property
    def swings(self) -> contexts.Swings:
        """How much the probabilities swing from row to row."""
        return contexts.swings(self.glimpse())

    def glimpse(self) -> contexts.Glimpse:
        """Return the rows from which it is told whether the policy looked at the unit; all rows of a short log."""
        (first, last), count = self.span, len(self)
        wanted = [
            (None if start == 0 else first + type(first)((last - first) * (start / count)), stop - start)
            for start, stop in contexts.stretches(count)
        ]
        parts = []
        for batch, in_order in self.stretches(wanted):
            out = np.isnan(batch.outcome)
            parts.append(
                contexts.Glimpse(
                    assigned=batch.assigned,
                    code=batch.code,
                    p=batch.propensity,
                    outcome=batch.outcome,
                    starts=np.zeros(1, np.intp),
                    # an event may be known before its window ends
                    arrivals=np.sort(batch.arrived[~out]) if self.within is None else None,
                    arrived_at=batch.arrived if self.within is None else None,
                    at_once=~out & (batch.arrived == batch.assigned),
                    in_order=in_order or contexts.are_apart(batch.assigned),
                    segment=self.layout.judged[batch.segment] if self.segments else None,
                )
            )
        return contexts.joined(parts)

    def stretches(self, wanted: Sequence[tuple[int | float | None, int]]) -> list[tuple[Batch, bool]]:
        """Return a number of rows from each of some moments of assignment on (None: the first rows of all).

        They are in order of assignment. Also return whether rows with the same time are in the order of the table.
        """
        with sentences(self.name, self.query.versions):
            parts = [None] * len(wanted) if self.is_streamed else self._picked(wanted)
            return [self._some_rows(*each) if part is None else (part, False)
                    for each, part in zip(wanted, parts, strict=True)]  # fmt: skip

    def _picked(self, wanted: Sequence[tuple[int | float | None, int]]) -> list[Batch | None]:
        """Return `stretches` by one query without a sort, if rows come evenly; None where it has found too few."""
        rows, (first, last) = self.coded, self.span
        ends = []
        for since, size in wanted:
            start = first if since is None else since
            ends.append((start, start + type(first)((last - first) * min(_SEARCH_FACTOR * (size / len(self)), 1.0))))
        within = [rows.assigned.between(*(literal(self.clock, end, rows.assigned) for end in each)) for each in ends]
        most = _MOST_PICKED * sum(size for _, size in wanted)
        batch = self._reader.batch(_record(rows.filter(reduce(or_, within)).limit(most)))
        if len(batch) == most:  # rows come in bursts
            return [None] * len(wanted)
        parts: list[Batch | None] = []
        for (start, end), (_, size) in zip(ends, wanted, strict=True):
            inside = np.flatnonzero((batch.assigned >= start) & (batch.assigned <= end))
            order = inside[np.argsort(batch.assigned[inside], kind="stable")]
            parts.append(batch.take(order[:size]) if len(order) >= size else None)
        return parts

    def _some_rows(self, since: int | float | None, count: int) -> tuple[Batch, bool]:
        """Return one of `stretches`."""
        rows = self.coded
        if since is not None:
            rows = rows.filter(rows.assigned >= literal(self.clock, since, rows.assigned))
        if self.is_streamed and self._scans.in_order:
            batch = self._reader.batch(_record(rows.limit(count)))
            is_first = since is not None or batch.assigned[0] == self._facts.first
            if is_first and (batch.assigned[1:] >= batch.assigned[:-1]).all():
                return batch, True
        return self._reader.batch(_record(self._reader.in_order(rows).limit(count))), False

    def _log_of(self, batches: Sequence[Batch]) -> Log:
        if not batches:
            window = None if self.query.maturing else self.query.window
            if window is not None:
                raise LogError(f"No window of {window.text} has closed yet; the log has rows once one has.")
            raise LogError("The log has no rows; it needs at least one assignment.")

        def joined(name: str) -> Array:
            return np.concatenate([getattr(batch, name) for batch in batches])

        segment, covariates = None, None
        units = self.units
        if units is not None and units.segment is not None:
            segment = SegmentColumn(units.segment.labels, joined("segment"))
        if units is not None and units.covariates is not None:
            covariates = units.covariates._replace(values=locked(joined("x")))
        return Log.of_numbers(
            LogColumns(
                arms=self.arms, clock=self.clock, moment=self.moment, cap=self.cap, declared=self.roles.is_declared,
                code=joined("code"), outcome=joined("outcome"), propensity=joined("propensity"),
                assigned=joined("assigned"), arrived=joined("arrived"), within=self.within, measure=self.measure,
                segment=segment, covariates=covariates,
                arrival=locked(joined("arrival")) if units is not None and units.has_arrival else None,
            )
        )  # fmt: skip

    @cached_property
    def _reader(self) -> RowReader:
        return self._reader_of(self._opened)

    def _reader_of(self, opened: Opened) -> RowReader:
        return RowReader(opened, with_codes(opened.rows, self._facts.values))

    def _check(self) -> None:
        """Raise if a row is invalid, with its key or time."""
        if not self._scans.checked:
            self._first_pass  # noqa: B018 - it refuses

    def _refuse(self) -> None:
        """Raise the error of the earliest invalid row, with its key or time."""
        first = fetch(sums_query.faulty(self.coded, len(self.arms)).limit(1))
        try:
            self._reader.batch(first.to_batches()[0]).check(self.arms, self.clock, 0)
        except LogError as error:
            if self.query.keeps_order:
                raise self._reader.first_fault(error) from None
            raise error.at(row_name(first.to_pylist()[0])) from None
        raise LogError("The table contains an invalid row.")

    # ---------------------------------------------------------------- sums where the rows are

    def _summed(self, choices: ReadParts, moments: Array | None = None, *, plain: bool = True) -> list[list[Sums]]:
        """Make the sums where the rows are."""
        with sentences(self.name, self.query.versions):
            if not len(self):
                bins = 1 if moments is None else len(moments)
                plan = self._plan(choices, moments, plain)
                return [[plan.totals(Sums.empty(plan.cells, *part, cap=self.cap)) for _ in range(bins)]
                        for part in choices]  # fmt: skip
            sums = (self._streamed if self.is_streamed else self._computed)(choices, moments, plain)
        return sums if self.cap is None else with_cap(sums, self.cap, self._count_above(moments, by_cell=True))

    def _streamed(self, parts: ReadParts, moments: Array | None, plain: bool) -> list[list[Sums]]:
        """Sort, if need be, and stream batches through the kernel."""
        plan = self._plan(parts, moments, plain)
        ordered = plan.in_order and not self._scans.in_order
        try:
            with closing(self._reader.records(ordered=ordered)) as records:
                sums = stream_sums(records, self._reader.batch, plan)
        except OutOfOrderError:
            self._scans.in_order = False
            return self._streamed(parts, moments, plain)
        except LogError as error:
            raise self._reader.located(error, ordered=ordered) from None
        self._scans.anchors, self._scans.checked = sums[0][-1].shift, True
        return sums

    def _plan(self, parts: ReadParts, moments: Array | None, plain: bool) -> StreamPlan:
        units = self.units if self.units is not None and self.units.has_cells else None
        return StreamPlan(
            arms=self.arms,
            parts=parts,
            clock=self.clock,
            last=self._facts.last,
            moments=moments,
            matured=self.within is not None,
            plain=plain,
            in_order=moments is not None or any(model.learns for _, model in parts),
            layout=None if units is None else units.layout,
            covariates=None if units is None else units.covariates,
        )

    def _computed(self, parts: ReadParts, moments: Array | None, plain: bool) -> list[list[Sums]]:
        """Let the engine compute the sums: one expression each, which returns only the sums."""
        self._check()
        cuts = None if moments is None else sums_query.Cuts(moments, self.clock, matured=self.within is not None)
        bins = 1 if moments is None else len(moments)
        plan, rows, cells = self._plan(parts, moments, plain), self.coded, sums_query.CellColumns()
        shift = self.anchors
        if plan.layout is not None and self.units is not None:
            rows, shift = self._weighed, self._cell_anchors
            cells = sums_query.CellColumns.of(plan.layout)
        delay, sums = None, []
        if plan.layout is None and moments is None and self.within is None and self._scans.dependence is None:
            delay = partial(evidence_query.log_delay, self)  # `dependence` is asked for next
        last = literal(self.clock, self._facts.last, rows.arrived)
        for weights, model in parts:
            about = SumsOf(
                arms=plan.cells, weights=weights, outcome_model=model, full=self.has_all_propensities, plain=plain
            )
            expressions = sums_query.sums_tables(rows, about, shift, cuts, cells, delay, last)
            tables = fetch_all(expressions, lambda: self.swings)  # which are asked for next
            if delay is not None:
                delay, self._scans.dependence = None, evidence_query.dependence_of(tables[0], len(shift), len(shift))
            by_cell = sums_query.sums_of_tables(tables, about, shift, bins, cells.segments)
            products = self._products(plan, about, cuts, cells, bins)
            sums.append([plan.totals(*each) for each in zip(by_cell, products, strict=True)])
        return sums

    def _products(
        self, plan: StreamPlan, about: SumsOf, cuts: sums_query.Cuts | None, cells: sums_query.CellColumns, bins: int
    ) -> list[CovariateSums | None]:
        """Return the sums of products with covariates up to each moment, made by the engine."""
        if plan.covariates is None or not plan.covariates.names or self.units is None:
            return [None] * bins
        rows, shift = self._weighed, self._cell_anchors
        x = [self.units.covariate(rows, i) for i in range(len(plan.covariates.names))]
        tables = fetch_all(sums_query.products_tables(rows, x, about, shift, cuts, cells))
        return sums_query.products_of_tables(tables, plan.covariates, len(self.arms), cells.segments, shift, bins)

    def _count_above(self, moments: Array | None, *, by_cell: bool) -> Array:
        """Count outcomes above the cap by time and arm, or by time and cell: arms of segments, if there are any."""
        bins = 1 if moments is None else len(moments)
        by_cell = by_cell and self._has_cells
        counts = np.zeros((bins + 1, len(self._plan([], None, plain=False).cells if by_cell else self.arms)))
        if self.cap is not None and len(self):
            rows = with_codes(self._uncut.rows, self._facts.values)
            if by_cell and self.units is not None:
                rows = rows.mutate(code=self.units.place(rows) * len(self.arms) + rows.code)
            cuts = None if moments is None else sums_query.Cuts(moments, self.clock, matured=self.within is not None)
            with sentences(self.name, self.query.versions):
                above = fetch(sums_query.above(rows, self.cap, cuts)).to_pydict()
            counts[above["bin"], above["code"]] = above["n"]
        return np.asarray(np.cumsum(counts[:bins], axis=0))


def _record(rows: ir.Table) -> pa.RecordBatch:
    """Return the rows of a query, at least one, in one piece."""
    import pyarrow as pa

    return pa.Table.from_batches(engine_of(rows).batches(rows)).combine_chunks().to_batches()[0]


def with_codes(rows: ir.Table, values: Sequence[Label]) -> ir.Table:
    """Add `code`, the position of each row's arm among `values`."""
    library, kind = library_of(rows), rows.arm.type()
    cases = ((library.literal(value, type=kind), k) for k, value in enumerate(values))
    return rows.mutate(code=rows.arm.cases(*cases, else_=None).cast("int32"))
