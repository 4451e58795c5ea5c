"""`LogRows`: the rows of a log in memory, their columns, their segments and their order in time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from belated.base.checks import LARGEST_FLOAT
from belated.base.columns import BLOCK, Array, Label, locked
from belated.base.errors import LogError, argument
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.log.clock import NEVER, Clock, as_float_times
from belated.log.data import Data
from belated.log.events import Events
from belated.log.row_checks import Columns, check_rows
from belated.log.segments import SegmentColumn, cells_of, joined_covariates, joined_segments, scaled_by
from belated.summaries.caps import check_cap, cut
from belated.summaries.covariates import Covariates
from belated.summaries.evidence import event_outcome
from belated.summaries.maturing import Measure
from belated.summaries.segments import ALL, Layout, lay_out

_Column = TypeVar("_Column")


@dataclass(frozen=True, kw_only=True, eq=False)
class LogColumns:
    """The columns of a log as numbers; times are numbers of the clock."""

    arms: tuple[Label, ...]
    code: Array
    outcome: Array
    propensity: Array
    assigned: Array | None  # None: steps 1, 2, ...
    arrived: Array | None  # None: at once
    clock: Clock
    moment: int | float | None
    cap: float | None = None  # not yet applied to the outcomes
    declared: bool = False  # whether the propensities are a split that the user declared
    segment: SegmentColumn | None = None
    covariates: Covariates | None = None
    arrival: Array | None = None  # the probability that each outcome ever arrives
    layout: Layout | None = None  # the segments that are told apart; None: by the number of outcomes
    within: str | None = None  # the window in words, if outcomes are events within a window
    measure: Measure | None = None  # what outcomes are, if they are made of events
    events: Events | None = None  # if outcomes are events, and rows whose window is open count too


class LogRows(Data):
    """The rows of a log in memory, as of its as-of time; `Log` makes them, and answers questions about them.

    Attributes
    ----------
    code, outcome, propensity : array
        The position of each row's arm in `arms`, its outcome (capped), and its propensities; read-only.
    segment_column, covariates, arrival_probability
        What is known of each row at assignment, if anything.
    events : Events or None
        The events, if rows whose window is open count too.
    anchor, rarest : array
        For each arm, the outcome and the propensity of its least likely row with an outcome.
    """

    anchor: Array
    rarest: Array

    def _keep(self, columns: LogColumns, parts: Sequence[LogRows] = ()) -> None:
        """Store the columns, and check their rows unless they come from `parts`, which are already checked."""
        self.arms, self.clock, self.moment = columns.arms, columns.clock, columns.moment
        code = columns.code.astype(np.uint16, copy=False)
        self.code, self._uncut, self.propensity = map(locked, (code, columns.outcome, columns.propensity))
        self.declared = columns.declared
        self.segment_column, self.covariates, self.arrival_probability = (
            columns.segment, columns.covariates, columns.arrival)  # fmt: skip
        self.within, self.measure = columns.within, columns.measure
        self.events, self._layout = columns.events, columns.layout
        self.cap, self.outcome = columns.cap, locked(cut(self._uncut, columns.cap))
        self._assigned = None if columns.assigned is None else locked(columns.assigned)
        self._arrived = None if columns.arrived is None else locked(columns.arrived)
        if parts:
            anchors, rarest = [log.anchor for log in parts], [log.rarest for log in parts]
        else:
            checked = Columns(self.code, self._uncut, self.propensity, self.times, len(self.arms))
            anchors, rarest = check_rows(self.arms, checked, self.clock)
            anchors = [cut(anchor, columns.cap) for anchor in anchors]
        least_likely = np.argmin(rarest, axis=0), np.arange(len(self.arms))
        self.anchor, self.rarest = np.array(anchors)[least_likely], np.array(rarest)[least_likely]

    def _check_cap(self) -> None:
        if self.cap is not None:
            arrived = self._uncut[self.arrived]
            check_cap(self.cap, float(arrived.min(initial=math.inf)), len(arrived))

    # ---------------------------------------------------------------- contents

    def __len__(self) -> int:
        return self.schedule.rows

    @property
    def outcome_name(self) -> str:
        """The name of the outcome."""
        return "outcome" if self.measure is None else event_outcome(self.measure)

    @property
    def has_all_propensities(self) -> bool:
        """Whether the probability of every arm is known, not only of the chosen one."""
        return self.propensity.ndim == 2

    @property
    def propensity_matrix(self) -> Array:
        """The propensities as a matrix with one column per arm, or one column for the chosen arm."""
        return self.propensity if self.has_all_propensities else self.propensity[:, np.newaxis]

    @property
    def assigned_at(self) -> Array:
        """The assignment time of each row."""
        return self.clock.show_many(self.assigned_numbers)

    @property
    def arrived_at(self) -> Array | None:
        """The arrival time of each outcome (NaN, inf or NaT: never); None if all arrived at once."""
        return None if self._arrived is None else self.clock.show_many(self._arrived)

    @property
    def arrived(self) -> Array:
        """Whether the outcome of each row had arrived by `as_of`."""
        return self.schedule.due >= 0

    @property
    def existing_rows(self) -> Array:
        """The positions of the rows that had been assigned by `as_of`, in order of assignment."""
        return np.arange(len(self.code))[self.schedule.existing]

    @property
    def assigned_numbers(self) -> Array:
        """The assignment time of each row as a number of the clock."""
        return np.arange(1, len(self.code) + 1) if self._assigned is None else self._assigned

    @property
    def arrived_numbers(self) -> Array:
        """The arrival time of each outcome as a number of the clock; the assignment time if it arrived at once."""
        return self.assigned_numbers if self._arrived is None else self._arrived

    def assigned_numbers_of(self, rows: Array) -> Array:
        """Return `assigned_numbers` of some rows."""
        return np.asarray(rows + 1 if self._assigned is None else self._assigned[rows])

    def arrived_numbers_of(self, rows: Array) -> Array:
        """Return `arrived_numbers` of some rows."""
        return self.assigned_numbers_of(rows) if self._arrived is None else self._arrived[rows]

    @property
    def arrival_times(self) -> Array:
        """`arrived_numbers`, but empty if every outcome arrived at its row's own step 1, 2, ..."""
        return np.empty(0) if self._arrived is None and self._assigned is None else self.arrived_numbers

    @property
    def first_assignment(self) -> int | float:
        """The time of the first assignment; the as-of time if there is none by then."""
        if not self.schedule.rows:
            return self.last_look
        first: int | float = self._assigned_by_position(np.array([0]))[0].item()
        return first

    @cached_property
    def last_look(self) -> int | float:
        """The time up to which outcomes are known: `as_of`, or the last time in the log."""
        if self.moment is not None:
            return self.moment
        last = self._assigned_by_position(np.array([self.schedule.rows - 1]))[0]
        if self._arrived is not None:
            last = self._arrived[self.arrived].max(initial=last)
        number: int | float = last.item()
        return number

    def _assigned_by_position(self, positions: Array) -> Array:
        return self.assigned_numbers_of(self.schedule.order[positions] if len(self.schedule.order) else positions)

    @property
    def given(self) -> LogColumns:
        """The columns of the log before capping."""
        return LogColumns(
            arms=self.arms, code=self.code, outcome=self._uncut, propensity=self.propensity, assigned=self._assigned,
            arrived=self._arrived, clock=self.clock, moment=self.moment, cap=self.cap, declared=self.declared,
            segment=self.segment_column, covariates=self.covariates, arrival=self.arrival_probability,
            layout=self._layout, within=self.within, measure=self.measure, events=self.events,
        )  # fmt: skip

    @property
    def is_maturing(self) -> bool:
        """Whether outcomes are events, and rows whose window is still open count for the ages they have reached."""
        return self.events is not None

    # ---------------------------------------------------------------- segments

    @property
    def has_cells(self) -> bool:
        """Whether rows have segments or covariates, so that sums are kept by segment."""
        return self.segment_column is not None or self.covariates is not None

    @cached_property
    def existing_covariates(self) -> Covariates | None:
        """The covariates, scaled by the rows at the as-of time alone: a missing value counts as the mean of these."""
        if self.covariates is None or self.schedule.rows == len(self.code):
            return self.covariates
        return scaled_by(self.covariates, self.schedule.existing)

    @cached_property
    def layout(self) -> Layout:
        """The segments that are kept apart at the as-of time; a single one without segments."""
        if self._layout is not None:
            return self._layout
        if self.segment_column is None:
            return Layout((ALL,), np.zeros(1, np.intp))
        labels = self.segment_column.labels
        counts = self._counts_by_segment
        present = np.flatnonzero(counts.any(axis=(1, 2)))  # a segment may have no row yet
        if not len(present):
            return Layout((ALL,), np.zeros(len(labels), np.intp))
        arrived = counts[present, :, 1]
        layout = lay_out(tuple(labels[s] for s in present), arrived, lambda: self._offered(present))
        place = np.full(len(labels), len(layout.labels) - 1)
        place[present] = layout.place
        return self._with_merged_arrival(layout._replace(place=place))

    def _with_merged_arrival(self, layout: Layout) -> Layout:
        """Return a layout with how likely outcomes of merged segments arrive, where that is to be estimated.

        It is not if it is given, nor of events whose windows are open: rows count for the age that they have reached.
        """
        if not layout.merged or self.arrival_probability is not None or self.events is not None:
            return layout
        counts = self._counts_by_segment
        return layout.with_arrival(counts.sum(axis=2), counts[:, :, 1])

    @cached_property
    def _counts_by_segment(self) -> Array:
        """The number of rows without and with an outcome, by segment and arm."""
        if self.segment_column is None:
            raise LogError("The log has no segments.")
        labels, segment = self.segment_column

        def count(start: int, stop: int) -> Array:
            return self._counts(segment, len(labels), start, stop)

        return np.asarray(np.sum(jit.in_stretches(self.schedule.rows, count), axis=0))

    @cached_property
    def arrival_chance(self) -> Array | None:
        """The probability that each outcome arrives: as given, or as estimated in merged segments; None: alike."""
        if self.arrival_probability is not None or self.segment_column is None or self.layout.arrival is None:
            return self.arrival_probability
        return locked(self.layout.arrival.chance[self.segment_column.code, self.code])

    def _counts(self, segment: Array, segments: int, start: int, stop: int) -> Array:
        """Count the rows at positions start to stop by segment, arm, and whether their outcome has arrived."""
        order, arms = self.schedule.order, len(self.arms)
        counts = np.zeros(segments * arms * 2, np.intp)
        block = max(BLOCK, len(counts))
        for begin in range(start, stop, block):
            end = min(begin + block, stop)
            rows = order[begin:end] if len(order) else slice(begin, end)
            cell = segment[rows].astype(np.intp)
            cell *= arms
            cell += self.code[rows]
            cell *= 2
            cell += self.schedule.due[rows] >= 0
            counts += np.bincount(cell, minlength=len(counts))
        return counts.reshape(segments, arms, 2)

    def _offered(self, segments: Array) -> Array:
        """Return whether each arm ever had a chance in each of some segments; True if it is not known."""
        if self.segment_column is None or not self.has_all_propensities:
            return np.ones((len(segments), len(self.arms)), bool)
        existing, labels = self.schedule.existing, self.segment_column.labels
        code, p = self.segment_column.code[existing], self.propensity[existing]
        return np.column_stack([np.bincount(code, p[:, k], len(labels))[segments] > 0 for k in range(len(self.arms))])

    @property
    def segments(self) -> tuple[Label, ...]:
        """The labels of the segments, after small ones were merged; empty if there are none."""
        return () if self.segment_column is None else self.layout.labels

    @cached_property
    def cell(self) -> Array:
        """The cell of each row: its segment and arm."""
        if self.segment_column is None:
            return self.code
        return cells_of(self.layout, self.segment_column.code, self.code, len(self.arms))

    @cached_property
    def cell_anchor(self) -> Array:
        """The outcome of each cell's least likely row that has one; sums are computed about it."""
        if self.segment_column is None:
            return self.anchor
        cells, rows = len(self.layout.labels) * len(self.arms), self.kernel_rows
        jit.ready(len(self.code))

        def find(start: int, stop: int) -> tuple[Array, Array]:
            anchor, rarest = np.zeros(cells), np.full(cells, math.inf)
            kernel.rarest_outcomes(anchor, rarest, rows, start, stop)
            return anchor, rarest

        parts = jit.in_stretches(len(self.code), find)
        least_likely = np.argmin([rarest for _, rarest in parts], axis=0), np.arange(cells)
        return np.asarray(np.array([anchor for anchor, _ in parts])[least_likely])

    # ---------------------------------------------------------------- order of events

    @cached_property
    def schedule(self) -> Schedule:
        """Which outcomes each row's outcome model may use."""
        return Schedule.of(self.times, self.outcome, self.moment)

    @property
    def times(self) -> kernel.Times:
        """The rows' times in the form that kernels use."""
        none = np.empty(0, np.int64 if self.clock.whole else np.float64)  # kernels are compiled for each mix of types
        assigned, arrived = (locked(none if times is None else times) for times in (self._assigned, self._arrived))
        if self.clock.whole:
            latest: int | float = np.iinfo(np.int64).max if self.moment is None else math.floor(self.moment)
            return kernel.Times(assigned, arrived, latest, NEVER)
        # inf means never, also when everything that arrived counts
        latest = LARGEST_FLOAT if self.moment is None else float(min(self.moment, LARGEST_FLOAT))
        return kernel.Times(assigned, arrived, latest, math.nan)

    @property
    def kernel_rows(self) -> kernel.Rows:
        """The rows in the form that kernels use."""
        rows = kernel.rows_of(
            self.code, self.outcome, self.propensity, order=self.schedule.order, due=self.schedule.due,
            arms=len(self.arms),
        )  # fmt: skip
        return rows._replace(
            cell=self.cell,
            x=kernel.NO_X if self.existing_covariates is None else self.existing_covariates.values,
            arrival=kernel.NO_ARRIVAL if self.arrival_chance is None else locked(self.arrival_chance),
        )

    def bins(self, moments: Array) -> kernel.Bins:
        """Return, for ascending times, the number of rows at each, and the first time at which each outcome counts."""
        ordered = self.schedule.in_order(self.assigned_numbers)
        edges = np.searchsorted(ordered[: self.schedule.rows], moments, side="right").astype(np.int64)
        return kernel.Bins(edges, np.searchsorted(moments, self.arrived_numbers).astype(np.int32))

    def even_moments(self, how_many: int, latest: int | float | None = None) -> Array:
        """Return times that are evenly spaced over the rows; the last is the as-of time.

        `latest` is the time of the last arrival, if it is already known.
        """
        self.refuse_no_rows()
        rows = self.schedule.rows
        if self.events is not None:
            return self._closing_moments(how_many, self.events)
        moments = self._assigned_by_position(-(-np.arange(1, how_many + 1) * rows // how_many) - 1)
        last = self.last_look if self.moment is not None or latest is None else max(moments[-1].item(), latest)
        return np.unique(np.array([*moments[:-1].tolist(), last]))  # assignments may be whole, and arrivals not

    def _closing_moments(self, how_many: int, events: Events) -> Array:
        """Return times that are evenly spaced from the first closing of a window of every arm to the as-of time."""
        first = self._assigned_by_position(np.zeros(1, np.intp))[0]
        existing = self.schedule.existing
        latest = max((self.assigned_numbers[existing][self.code[existing] == k][:1].max(initial=first)
                      for k in range(len(self.arms))), default=first)  # fmt: skip
        start, end = float(latest + events.window + events.lag), float(self.last_look)
        moments = np.linspace(min(start, end), end, how_many + 1)[1:] if how_many > 1 else np.array([end])
        return np.unique(np.floor(moments).astype(np.int64) if self.clock.whole or self.clock.unit else moments)

    # ---------------------------------------------------------------- caps

    def above_cap(self, moments: Array | None = None) -> Array:
        """Return the number of arrived outcomes above the cap, by time and arm; None is the as-of time."""
        return self._above_cap(moments, self.code, len(self.arms))

    def _above_cap(self, moments: Array | None, cell: Array, cells: int) -> Array:
        above = self.arrived & (self._uncut > (math.inf if self.cap is None else self.cap))
        bins = 1 if moments is None else len(moments)
        counts = np.zeros((bins + 1, cells))
        when = np.zeros(above.sum(), dtype=np.intp)
        if moments is not None:
            when = np.searchsorted(moments, self.arrived_numbers[above])
        np.add.at(counts, (when, cell[above]), 1.0)
        return np.asarray(np.cumsum(counts[:bins], axis=0))


def joined_columns(logs: Sequence[LogRows]) -> LogColumns:
    """Return the rows of the parts of one experiment, one after the other, as of the first one's as-of time."""
    first = logs[0]
    for log in logs[1:]:
        if log.arms != first.arms or log.clock.unit != first.clock.unit:
            raise LogError(f"Parts of one experiment must have the same {argument('arms')} and the same kind of times.")
        if log.propensity.ndim != first.propensity.ndim or (log._arrived is None) != (first._arrived is None):
            raise LogError("Parts of one experiment must have the same columns.")
        if log.cap != first.cap:
            raise LogError(f"Parts of one experiment must have the same {argument('cap')}.")
        for name in ("segment_column", "covariates", "arrival_probability"):
            if (getattr(log, name) is None) != (getattr(first, name) is None):
                raise LogError("Parts of one experiment must all have segments and covariates, or none.")
    if any(log._assigned is None for log in logs):
        raise LogError(
            f"Parts of one experiment need {argument('assigned_at')}: without it each starts at step 1.",
            column="assigned_at",
        )
    clock = next((log.clock for log in logs if not log.clock.whole), first.clock)

    def joined(columns: list[Array | None]) -> Array:
        times = [times for times in columns if times is not None]
        return np.concatenate(times if clock.whole else [as_float_times(t) for t in times])

    return LogColumns(
        arms=first.arms,
        code=np.concatenate([log.code for log in logs]),
        outcome=np.concatenate([log._uncut for log in logs]),
        propensity=np.concatenate([log.propensity for log in logs]),
        assigned=joined([log._assigned for log in logs]),
        arrived=None if first._arrived is None else joined([log._arrived for log in logs]),
        clock=clock,
        moment=first.moment,
        cap=first.cap,
        segment=joined_segments(known) if (known := _known(log.segment_column for log in logs)) else None,
        covariates=joined_covariates(values) if (values := _known(log.covariates for log in logs)) else None,
        arrival=np.concatenate(chances) if (chances := _known(log.arrival_probability for log in logs)) else None,
    )


def _known(columns: Iterable[_Column | None]) -> list[_Column]:
    """Return the columns that there are."""
    return [column for column in columns if column is not None]


# ---------------------------------------------------------------- when outcomes are known


@dataclass(frozen=True)
class Schedule:
    """The order of assignments, and for each row the position from which its outcome is known."""

    order: Array  # row of each position; empty if the rows are in order
    due: Array  # by row: a position, `rows` if no later row sees it, -1 if not arrived
    rows: int  # number of positions at the as-of time of the log

    @classmethod
    def of(cls, times: kernel.Times, outcome: Array, moment: int | float | None) -> Schedule:
        """Return the schedule of rows; `times` are in row order, and rows after `moment` are ignored."""
        total = rows = len(outcome)
        index = np.int32 if total < 2**31 - 1 else np.int64  # of all arrays: kernels are compiled for each type
        assigned, order = times.assigned, np.empty(0, dtype=index)
        if not _is_sorted(assigned):
            order = np.argsort(assigned, kind="stable").astype(index)
            assigned = locked(assigned[order])
        if moment is not None:
            if not len(assigned):
                rows = int(min(max(math.floor(min(moment, total)), 0), total))
            else:
                rows = int(np.searchsorted(assigned, moment, side="right"))
        due = np.empty(total, dtype=index)
        if rows < total:
            due[:] = -1
        sorted_times = times._replace(assigned=assigned)
        jit.ready(rows)

        def fill(start: int, stop: int) -> None:
            kernel.schedule(due, sorted_times, outcome, order, start, stop, rows)

        jit.in_stretches(rows, fill)
        return cls(order, due, rows)

    @property
    def existing(self) -> Array | slice:
        """An index of the rows at the as-of time, in order of assignment."""
        return self.order[: self.rows] if len(self.order) else slice(0, self.rows)

    def in_order(self, column: Array) -> Array:
        """Return a column of the log's rows in order of assignment."""
        return column[self.order] if len(self.order) else column


def _is_sorted(times: Array) -> bool:
    for start in range(0, len(times), BLOCK):
        block = times[start : start + BLOCK + 1]
        if not (block[:-1] <= block[1:]).all():
            return False
    return True
