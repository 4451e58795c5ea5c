"""`Log`: the log of an experiment in memory, one row per assignment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from belated.base.checks import one_of
from belated.base.columns import Array, Label, as_array, locked, numbers
from belated.base.errors import LogError, OptionError, argument
from belated.base.tables import Column, Table
from belated.base.text import count
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.log.clock import NEVER, Clock, as_float_times, read_times
from belated.log.data import Data
from belated.log.durations import length_text
from belated.log.events import Events, cohorts_of, matured_sums, read_events, rows_above
from belated.log.labels import encode
from belated.log.row_checks import Columns, check_rows
from belated.log.row_summaries import RowEvidence, glimpse, sums_of_rows
from belated.log.schedule import Schedule
from belated.log.segments import (
    SegmentColumn,
    cells_of,
    joined_covariates,
    joined_segments,
    read_arrival,
    read_covariates,
    read_segments,
)
from belated.log.splits import UNIFORM, is_split, shares_of
from belated.summaries import contexts, signs
from belated.summaries.caps import cap_text, check_cap, cut, read_cap
from belated.summaries.covariates import Covariates
from belated.summaries.evidence import CohortEvidence, Evidence, event_outcome
from belated.summaries.maturing import MEASURES, Measure
from belated.summaries.segments import ALL, Layout, lay_out, segment_index
from belated.summaries.sums import Parts, Sums, with_cap


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
    events: Events | None = None  # if outcomes are events, and rows whose window is open count too


@dataclass(frozen=True, kw_only=True, eq=False)
class _Facts:
    """The values that a printed log shows, by arm."""

    assigned: Array
    arrived: Array
    share: Array
    delay: list[float]  # the median
    smallest: Array  # the smallest propensity
    span: tuple[int | float, int | float] | None  # of the times of assignment


def _declared(
    split: str | Mapping[Any, float], arm: Any, arms: Sequence[Label] | None
) -> tuple[Array, Sequence[Label]]:
    """Return the propensities of a split, the same in every row, and the arms in their order."""
    if isinstance(split, str) and split != UNIFORM:
        raise LogError(
            f"{argument('propensity')} is {split!r}; it must hold probabilities, or be {UNIFORM!r} or a mapping such "
            "as {'A': 0.5, 'B': 0.5}.",
            column="propensity",
        )
    codes, labels = encode(arm, None, None)
    shares = shares_of(split, labels, arms)
    order = list(shares) if arms is None else list(arms)
    return np.tile([shares[label] for label in order], (len(codes), 1)), order


class Log(Data, Table):
    """The log of a bandit experiment, one row per assignment.

    Parameters
    ----------
    arm : sequence
        The arm of each row: text, numbers or any hashable labels.
    outcome : sequence of float
        The outcome; NaN or None if it has not arrived.
    propensity : array of shape (rows, arms) or (rows,)
        The probability of every arm when the row was assigned, with columns in the order of `arms`; or only the
        probability of the chosen arm. If it never changed: ``"uniform"``, or ``{"A": 0.5, "B": 0.5}``.
    arms : sequence, optional
        The labels in the order of the propensity columns. By default the sorted labels of `arm`, or 0, ..., K - 1 if
        `arm` contains column numbers.
    assigned_at : sequence, optional
        The time of each assignment: numbers or datetimes, in any order; 1, 2, ... by default. Rows with the same time
        are one batch: their outcomes do not influence each other's weights and outcome model.
    arrived_at, delay : sequence, optional
        The time when the outcome arrived, or its delay (NaN, None, NaT or inf: never). Without both, every outcome
        that is present arrived at once.
    as_of : optional
        The time as of which the log is analysed: outcomes that arrived later count as missing, and rows assigned later
        are ignored. By default everything counts.
    cap : float, optional
        Outcomes above the cap count as the cap, and estimates are of the mean of the capped outcomes.
    segment : sequence, mapping or dataframe, optional
        The segment of each row, known when it was assigned: a country, a device. Several columns give their
        combinations. Estimates are made by segment and averaged, which is right if the policy looked at the segment.
    covariates : mapping or dataframe, optional
        Numbers known when the row was assigned, by name: ``{"age": age}``. Estimates are adjusted for them by
        regression, which narrows intervals. A covariate that is measured after the assignment makes estimates wrong.
    arrival_probability : sequence, optional
        The probability that each row's outcome ever arrives, from a model of your own, if it depends on the unit.

    Attributes
    ----------
    arms : tuple
        The labels of the arms.
    segments : tuple
        The labels of the segments, after small ones were merged; empty if there are none.
    code, outcome, propensity : array
        The position of each row's arm in `arms`, its outcome (capped), and its propensities; read-only.
    clock : Clock
        The kind of time of the log.
    moment : int, float or None
        `as_of` as a number of the clock.
    declared : bool
        Whether the propensities are a fixed split that was declared.
    anchor, rarest : array
        For each arm, the outcome and the propensity of its least likely row with an outcome. Sums are computed about
        the anchor, so that the row with the largest weight loses no digits.

    Notes
    -----
    Columns that need no conversion are not copied: do not change them while the log is in use.

    Examples
    --------
    >>> import belated as bl
    >>> log = bl.Log(["A", "B", "A"], [1.0, None, 0.0], [0.5, 0.5, 0.6], delay=[2, None, 0])
    >>> len(log), log.arms
    (3, ('A', 'B'))
    """

    name = "a log"
    engine = "memory"
    notes = ()
    anchor: Array
    rarest: Array

    def __init__(
        self,
        arm: Any,
        outcome: Any,
        propensity: Any,
        *,
        arms: Sequence[Any] | None = None,
        assigned_at: Any = None,
        arrived_at: Any = None,
        delay: Any = None,
        as_of: Any = None,
        cap: float | None = None,
        segment: Any = None,
        covariates: Any = None,
        arrival_probability: Any = None,
    ) -> None:
        declared = propensity is not None and (isinstance(propensity, str) or is_split(propensity))
        if declared:
            propensity, arms = _declared(propensity, arm, arms)
        if hasattr(propensity, "columns"):  # a dataframe: its columns have names
            from belated.log.frames import named_matrix

            propensity, arms = named_matrix(propensity, as_array("arm", arm), arms)
        pi = numbers("propensity", propensity, dimensions=(1, 2))
        rows = len(pi)
        if rows == 0:
            raise LogError("The log has no rows; it needs at least one assignment.")
        if pi.ndim == 2 and pi.shape[1] == 0:
            raise LogError(f"{argument('propensity')} has no columns; it needs one for every arm.", column="propensity")
        codes, labels = encode(arm, arms, pi.shape[1] if pi.ndim == 2 else None)
        y = numbers("outcome", outcome)
        for name, column in (("arm", codes), ("outcome", y)):
            if len(column) != rows:
                raise LogError(
                    f"`{name}` has {len(column):,} rows but {argument('propensity')} has {rows:,}.", column=name
                )
        assigned, arrived, clock = read_times(assigned_at, arrived_at, delay, rows)
        moment = _moment(clock, as_of)
        self._keep(
            LogColumns(
                arms=labels, code=codes, outcome=y, propensity=pi, assigned=assigned, arrived=arrived, clock=clock,
                moment=moment, cap=None if cap is None else read_cap(cap), declared=declared,
                segment=None if segment is None else read_segments(segment, rows),
                covariates=None if covariates is None else read_covariates(covariates, rows),
                arrival=None if arrival_probability is None else read_arrival(arrival_probability, rows),
            )
        )  # fmt: skip
        self._check_cap()

    def _keep(self, columns: LogColumns, parts: Sequence[Log] = ()) -> None:
        """Store the columns, and check their rows unless they come from `parts`, which are already checked."""
        self.arms, self.clock, self.moment = columns.arms, columns.clock, columns.moment
        self.code, self._uncut, self.propensity = map(locked, (columns.code, columns.outcome, columns.propensity))
        self.declared = columns.declared
        self.segment_column, self.covariates, self.arrival_probability = (
            columns.segment, columns.covariates, columns.arrival)  # fmt: skip
        self.within, self.events, self._layout = columns.within, columns.events, columns.layout
        self.cap, self.outcome = columns.cap, locked(cut(self._uncut, columns.cap))
        self._assigned = None if columns.assigned is None else locked(columns.assigned)
        self._arrived = None if columns.arrived is None else locked(columns.arrived)
        if parts:
            anchors, rarest = [log.anchor for log in parts], [log.rarest for log in parts]
        else:
            checked = Columns(self.code, self._uncut, self.propensity, self.times, len(self.arms))
            anchors, rarest = check_rows(self.arms, checked, self.clock)
            anchors = [cut(anchor, columns.cap) for anchor in anchors]
        which = np.argmin(rarest, axis=0), np.arange(len(self.arms))
        self.anchor, self.rarest = np.array(anchors)[which], np.array(rarest)[which]

    def _check_cap(self) -> None:
        if self.cap is not None:
            arrived = self._uncut[self.arrived]
            check_cap(self.cap, float(arrived.min(initial=math.inf)), len(arrived))

    @classmethod
    def of_numbers(cls, columns: LogColumns, *, parts: Sequence[Log] = ()) -> Log:
        """Return a log from columns of numbers; `parts` are logs of the same rows that are already checked."""
        log = cls.__new__(cls)
        log._keep(columns, parts)
        return log

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        arm: str = "arm",
        outcome: str = "outcome",
        propensity: str | Sequence[str] | Mapping[Any, str] | Mapping[Any, float] = "propensity",
        arms: Sequence[Any] | None = None,
        assigned_at: str | None = None,
        arrived_at: str | None = None,
        delay: str | None = None,
        as_of: Any = None,
        cap: float | None = None,
        segment: str | Sequence[str] | None = None,
        covariates: str | Sequence[str] | None = None,
        arrival_probability: str | None = None,
    ) -> Log:
        """Build a log from a pandas, polars or pyarrow table, or any other dataframe that Narwhals supports.

        Parameters
        ----------
        frame : dataframe
        arm, outcome, assigned_at, arrived_at, delay, arrival_probability : str
            Names of columns.
        segment, covariates : str or list of str
            Names of columns; several columns of segments give their combinations.
        propensity : str, list of str or dict
            The column with the chosen arm's propensity; or a column of lists in the order of `arms`; or one column per
            arm, best given as ``{"A": "p_A", "B": "p_B"}``. A list of columns is matched to the arms by `arms`, or by
            the ends of the column names. A fixed split needs no column: ``"uniform"``, or ``{"A": 0.5, "B": 0.5}``.
        arms, as_of, cap
            As in `Log`.
        """
        from belated.log.frames import read_columns, read_frame

        names = {
            "arm": arm, "outcome": outcome, "assigned_at": assigned_at, "arrived_at": arrived_at, "delay": delay,
            "arrival_probability": arrival_probability,
        }  # fmt: skip
        columns, arms = read_frame(frame, names, propensity, arms)
        for role, chosen in (("segment", segment), ("covariates", covariates)):
            if chosen is not None:
                columns[role] = read_columns(frame, role, [chosen] if isinstance(chosen, str) else chosen)
        return cls(**columns, arms=arms, as_of=as_of, cap=cap)

    # ---------------------------------------------------------------- contents

    def __len__(self) -> int:
        return self.schedule.rows

    @property
    def outcome_name(self) -> str:
        """The name of the outcome."""
        return "outcome" if self.events is None else event_outcome(self.events.measure)

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
    def how_read(self) -> list[tuple[str, str]]:
        """Names and values for a report: where the rows are, and how they were summed."""
        lag = 0 if self.events is None else self.events.lag
        return [
            ("source", self.name),
            *([("propensities", "a fixed split (declared)")] if self.declared else []),
            ("rows", count(len(self), "row")),
            ("as of", self.as_of_text or "everything that has arrived"),
            *([] if self.cap is None else [("cap", cap_text(self.cap))]),
            *([] if not lag else [("lag", f"events are recorded within {length_text(self.clock, lag)}")]),
            ("engine", "memory, summed by the compiled kernel"),
        ]

    def log(self) -> Log:
        """Return the log itself."""
        return self

    def at(self, as_of: Any) -> Log:
        """Return the same experiment as of another time."""
        return self.at_number(_moment(self.clock, as_of))

    def at_number(self, moment: int | float | None) -> Log:
        """Return the same experiment as of another time, given as a number of its clock."""
        # outcomes that arrived after the former as-of time were not checked yet
        later = self.moment is not None and (moment is None or moment > self.moment)
        return Log.of_numbers(replace(self._given, moment=moment), parts=() if later else (self,))

    def capped(self, cap: float | None) -> Log:
        """Return the same experiment with another cap on outcomes; None removes the cap."""
        log = Log.of_numbers(replace(self._given, cap=None if cap is None else read_cap(cap)))
        log._check_cap()
        return log

    @property
    def _given(self) -> LogColumns:
        """The columns of the log before capping."""
        return LogColumns(
            arms=self.arms, code=self.code, outcome=self._uncut, propensity=self.propensity, assigned=self._assigned,
            arrived=self._arrived, clock=self.clock, moment=self.moment, cap=self.cap, declared=self.declared,
            segment=self.segment_column, covariates=self.covariates, arrival=self.arrival_probability,
            layout=self._layout, within=self.within, events=self.events,
        )  # fmt: skip

    def joined(self, others: Sequence[Log]) -> Log:
        """Return one log with the rows of this one followed by those of `others`, as of this one's as-of time."""
        logs = [self, *others]
        for log in others:
            if log.arms != self.arms or log.clock.unit != self.clock.unit:
                raise LogError(
                    f"Parts of one experiment must have the same {argument('arms')} and the same kind of times."
                )
            if log.propensity.ndim != self.propensity.ndim or (log._arrived is None) != (self._arrived is None):
                raise LogError("Parts of one experiment must have the same columns.")
            if log.cap != self.cap:
                raise LogError(f"Parts of one experiment must have the same {argument('cap')}.")
            for name in ("segment_column", "covariates", "arrival_probability"):
                if (getattr(log, name) is None) != (getattr(self, name) is None):
                    raise LogError("Parts of one experiment must all have segments and covariates, or none.")
        if any(log._assigned is None for log in logs):
            raise LogError(
                f"Parts of one experiment need {argument('assigned_at')}: without it each starts at step 1.",
                column="assigned_at",
            )
        clock = next((log.clock for log in logs if not log.clock.whole), self.clock)

        def joined(columns: list[Array | None]) -> Array:
            times = [times for times in columns if times is not None]
            return np.concatenate(times if clock.whole else [as_float_times(t) for t in times])

        columns = LogColumns(
            arms=self.arms,
            code=np.concatenate([log.code for log in logs]),
            outcome=np.concatenate([log._uncut for log in logs]),
            propensity=np.concatenate([log.propensity for log in logs]),
            assigned=joined([log._assigned for log in logs]),
            arrived=None if self._arrived is None else joined([log._arrived for log in logs]),
            clock=clock,
            moment=self.moment,
            cap=self.cap,
            segment=joined_segments(known) if (known := _known(logs, "segment_column")) else None,
            covariates=joined_covariates(values) if (values := _known(logs, "covariates")) else None,
            arrival=np.concatenate(chances) if (chances := _known(logs, "arrival_probability")) else None,
        )
        return Log.of_numbers(columns, parts=logs)

    # ---------------------------------------------------------------- segments

    @property
    def has_cells(self) -> bool:
        """Whether rows have segments or covariates, so that sums are kept by segment."""
        return self.segment_column is not None or self.covariates is not None

    @cached_property
    def layout(self) -> Layout:
        """The segments that are told apart at the as-of time; one if there are none."""
        if self._layout is not None:
            return self._layout
        if self.segment_column is None:
            return Layout((ALL,), np.zeros(1, np.intp))
        labels, code = self.segment_column
        existing = self.schedule.existing
        cell = code[existing].astype(np.intp)  # changed in place, for speed: the segment, the arm, whether it arrived
        cell *= len(self.arms)
        cell += self.code[existing]
        cell *= 2
        cell += self.schedule.due[existing] >= 0
        counts = np.bincount(cell, minlength=len(labels) * len(self.arms) * 2).reshape(len(labels), -1, 2)
        there = np.flatnonzero(counts.any(axis=(1, 2)))  # a segment may have no row yet
        if not len(there):
            return Layout((ALL,), np.zeros(len(labels), np.intp))
        layout = lay_out(tuple(labels[s] for s in there), counts[there, :, 1], lambda: self._offered(there))
        place = np.full(len(labels), len(layout.labels) - 1)
        place[there] = layout.place
        return layout._replace(place=place)

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
        which = np.argmin([rarest for _, rarest in parts], axis=0), np.arange(cells)
        return np.asarray(np.array([anchor for anchor, _ in parts])[which])

    def in_segment(self, segment: Label) -> Log:
        """Return the rows of one segment as a log without segments; its arms stay the same."""
        if self.segment_column is None:
            raise LogError("The log has no segments.")
        chosen = self.layout.place[self.segment_column.code] == segment_index(self.layout.labels, segment)
        return self.only(chosen)

    def without_covariates(self) -> Log:
        """Return the same experiment without covariates."""
        return Log.of_numbers(replace(self._given, covariates=None), parts=(self,))

    def without_segments(self) -> Log:
        """Return the same experiment without segments and covariates."""
        return Log.of_numbers(replace(self._given, segment=None, covariates=None), parts=(self,))

    def with_arrival(self, chance: Any) -> Log:
        """Return the same experiment with the probability that each row's outcome ever arrives."""
        return Log.of_numbers(replace(self._given, arrival=read_arrival(chance, len(self.code))), parts=(self,))

    def with_target(self, target: Any) -> tuple[Log, Any]:
        """Return the log itself, and the probabilities of a target policy in its rows."""
        if isinstance(target, str):
            raise LogError(f"{argument('target')} is {target!r}; for a log in memory it must be an array (rows, arms).")
        return self, target

    def only(self, rows: Array, *, segments: bool = False) -> Log:
        """Return some rows as a log, without segments unless asked for; `rows` has a boolean for each row."""

        def of(column: Array | None) -> Array | None:
            return None if column is None else column[rows]

        x = self.covariates
        return Log.of_numbers(
            replace(
                self._given, code=self.code[rows], outcome=self._uncut[rows], propensity=self.propensity[rows],
                assigned=self.assigned_numbers[rows], arrived=of(self._arrived),
                segment=self.segment_column._replace(code=locked(self.segment_column.code[rows]))
                if segments and self.segment_column is not None
                else None,
                layout=self.layout if segments and self.segment_column is not None else None,
                events=None if self.events is None else self.events.only(rows),
                covariates=None if x is None else x._replace(values=locked(x.values[rows])),
                arrival=of(self.arrival_probability),
            )
        )  # fmt: skip

    # ---------------------------------------------------------------- events

    @classmethod
    def of_events(
        cls,
        arm: Any,
        propensity: Any,
        events: Any,
        *,
        window: Any,
        measure: Measure | None = None,
        unit: Any = None,
        lag: Any = None,
        arms: Sequence[Any] | None = None,
        assigned_at: Any = None,
        as_of: Any = None,
        cap: float | None = None,
        segment: Any = None,
        covariates: Any = None,
    ) -> Log:
        """Return the log of an experiment whose outcomes are events within a window after the assignment.

        Rows whose window is still open at `as_of` count for the ages that they have reached, see `docs/events.md`;
        `closed` leaves them out.

        Parameters
        ----------
        arm, propensity, arms, assigned_at, cap, segment, covariates
            As in `Log`.
        events : mapping or dataframe
            `unit`, the row of each event; `age`, the time since its assignment, or `time`; and its `value`, if it has
            one. Events before the assignment or after the window do not count.
        window : int, float, str or timedelta
            How long after an assignment its events count: a number, or a duration such as ``"7d"``.
        measure : {"indicator", "count", "sum"}, optional
            The outcome: whether an event happened, the number of events, or the sum of their values. By default the
            sum if there are values, else the indicator.
        unit : sequence, optional
            The name of each row's unit, if `unit` of `events` holds names; by default it holds row numbers from 0.
        lag : int, float, str or timedelta, optional
            The longest time from an event to its record. Rows count as younger by it.
        as_of : optional
            The time up to which events are known; by default the latest time of an assignment or event.

        Examples
        --------
        >>> import belated as bl
        >>> log = bl.Log.of_events(["A", "B", "A", "A", "B"], "uniform", {"unit": [0, 1], "age": [2, 1]},
        ...                        assigned_at=[0, 0, 0, 6, 0], window=5, as_of=8)
        >>> round(bl.estimate(log).arm("A").estimate, 4)
        0.3333
        """
        if measure is not None:
            one_of("measure", measure, MEASURES)
        rows = len(as_array("arm", arm))
        log = cls(
            arm, np.zeros(rows), propensity, arms=arms, assigned_at=assigned_at, segment=segment, covariates=covariates
        )
        known = read_events(events, unit, log.assigned_numbers, log.clock, window, measure, lag)
        last = log.assigned_numbers.max(initial=0) if as_of is None else 0
        if as_of is None and len(known.row):
            last = max(last, (log.assigned_numbers[known.row] + known.age).max() + known.lag)
        moment = (last if not log.clock.whole else math.ceil(last)) if as_of is None else _moment(log.clock, as_of)
        return log.with_events(known, moment, cap)

    def with_events(self, events: Events, moment: int | float | None, cap: float | None = None) -> Log:
        """Return the rows of this log with events as outcomes; these are known when the windows close."""
        if cap is not None and events.measure == "indicator":
            raise OptionError(
                f"{argument('cap')} is given, but the outcome is whether an event happened, 0 or 1; it needs no cap."
            )
        assigned = self.assigned_numbers
        log = Log.of_numbers(
            replace(
                self._given, outcome=events.totals(len(self.code)), assigned=assigned, arrived=events.closing(assigned),
                moment=moment, cap=None if cap is None else read_cap(cap), events=events,
                within=length_text(self.clock, events.window),
            )
        )  # fmt: skip
        log._check_cap()
        return log

    @property
    def is_maturing(self) -> bool:
        """Whether outcomes are events, and rows whose window is still open count for the ages they have reached."""
        return self.events is not None

    def closed(self) -> Log:
        """Return the rows whose window has closed, for a log of events; only these count."""
        if self.events is None:
            return self
        chosen = self.arrived
        if not chosen.any():
            raise LogError(
                f"No window of {self.within} has closed yet; without the rows whose window is open, the log is empty."
            )
        rows = self.only(chosen, segments=True)
        return Log.of_numbers(replace(rows._given, events=None, layout=None), parts=(rows,))

    def known_at_closing(self) -> Log:
        """Return the same rows with outcomes that are known when windows close, for a log of events."""
        return self if self.events is None else Log.of_numbers(replace(self._given, events=None), parts=(self,))

    def within_window(self, window: int | float) -> Log:
        """Return the same log of events with a shorter window, in numbers of the clock."""
        if self.events is None:
            raise LogError("Only a log of events has a window; see `Log.of_events`.")
        if not 0 <= window <= self.events.window:
            raise OptionError(
                f"{argument('window')} must be at most the window of the log, {self.within}, and more than 0."
            )
        log = replace(self._given, layout=self.layout if self.segment_column is not None else None)
        return Log.of_numbers(log, parts=(self,)).with_events(self.events.within(window), self.moment, self.cap)

    def with_outcomes(self, rows: Array, outcome: Array) -> Log:
        """Return some rows of a log of events, in their order, with outcomes that are all known at once."""
        log = self.only(np.isin(np.arange(len(self.code)), rows, assume_unique=True), segments=True)
        return Log.of_numbers(
            replace(
                log._given, outcome=outcome, arrived=None, moment=None, cap=None, events=None, within=None,
                layout=self.layout if self.segment_column is not None else None,
            ),
            parts=(log,),
        )  # fmt: skip

    # ---------------------------------------------------------------- sums and checks

    def sums(
        self, parts: Sequence[Parts], moments: Array | None = None, *, plain: bool = True, history: Sequence[Log] = ()
    ) -> list[list[Sums]]:
        """Return the sums for each pair of weights and outcome model, at each time; None is the as-of time."""
        if self.events is not None:
            if history:
                raise LogError("`history` does not go with events; give one log with all rows.")
            sums = matured_sums(self, parts, moments, plain=plain)
            return sums if self.cap is None else with_cap(sums, self.cap, self._above_cap_so_far(moments))
        log = self if moments is None or moments[-1] == self.moment else self.at_number(moments[-1])
        sums = [sums_of_rows(log, part, moments, plain, history) for part in parts]
        if self.cap is None:
            return sums
        return with_cap(sums, self.cap, log._above_cap(moments, log.cell, len(log.cell_anchor)))

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

    def _above_cap_so_far(self, moments: Array | None) -> Array:
        """Return the number of rows whose events so far exceed the cap, by time and cell."""
        counts = []
        for moment in [None] if moments is None else moments:
            log = self if moment is None or moment == self.moment else self.at_number(moment)
            counts.append(np.bincount(log.cell[rows_above(log)].astype(np.intp), minlength=len(log.cell_anchor)))
        return np.array(counts, dtype=float)

    def evidence(self) -> Evidence:
        """Return the counts and sums from which every check is computed."""
        return RowEvidence(self).evidence()

    def cohorts(self) -> CohortEvidence | None:
        """Return how the build-up of events goes with the time of assignment; None without events."""
        return cohorts_of(self)

    def doubts(self) -> list[str]:
        """Return sentences on signs that every estimate from the log is biased."""
        return signs.doubts(RowEvidence(self).dependence()) if len(self) and self.within is None else []

    @cached_property
    def _contexts(self) -> list[str]:
        return signs.context_doubts(contexts.swings(glimpse(self))) if len(self) else []

    def contexts(self) -> list[str]:
        """Return sentences on signs that the policy looked at the unit."""
        return list(self._contexts)

    def copies(self) -> int:
        """Return how many times every row is in the log."""
        return RowEvidence(self).copies() if len(self) else 1

    def oddities(self) -> list[str]:
        """Return sentences on what looks like a mistake in the log."""
        if not len(self):
            return []
        rows = RowEvidence(self)
        recorded = rows.recorded() if self.within is None else None
        return signs.oddities(rows.calibration(rows.early), recorded, rows.copies())

    # ---------------------------------------------------------------- order of events

    @cached_property
    def schedule(self) -> Schedule:
        """Which outcomes each row's outcome model may use."""
        return Schedule.of(self.times, self.outcome, self.moment)

    @property
    def times(self) -> kernel.Times:
        """The rows' times in the form that kernels use."""
        assigned = np.empty(0) if self._assigned is None else self._assigned
        arrived = np.empty(0) if self._arrived is None else self._arrived
        if arrived.dtype.kind == "i":
            latest: int | float = np.iinfo(np.int64).max if self.moment is None else self.moment
            return kernel.Times(assigned, arrived, latest, NEVER)
        # inf means never, also when everything that arrived counts
        biggest = float(np.finfo(np.float64).max)
        return kernel.Times(assigned, arrived, biggest if self.moment is None else min(self.moment, biggest), math.nan)

    @property
    def kernel_rows(self) -> kernel.Rows:
        """The rows in the form that kernels use."""
        rows = kernel.rows_of(
            self.code, self.outcome, self.propensity, order=self.schedule.order, due=self.schedule.due,
            arms=len(self.arms),
        )  # fmt: skip
        return rows._replace(
            cell=self.cell,
            x=kernel.NO_X if self.covariates is None else self.covariates.values,
            arrival=kernel.NO_ARRIVAL if self.arrival_probability is None else self.arrival_probability,
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
        rows = self.schedule.rows
        if rows == 0:
            raise LogError("The log has no rows at its as-of time.")
        if self.events is not None:
            return self._closing_moments(how_many, self.events)
        moments = self._assigned_by_position(-(-np.arange(1, how_many + 1) * rows // how_many) - 1)
        moments[-1] = self.last_look if self.moment is not None or latest is None else max(moments[-1], latest)
        return np.unique(moments)

    def _closing_moments(self, how_many: int, events: Events) -> Array:
        """Return times that are evenly spaced from the first closing of a window of every arm to the as-of time."""
        first = self._assigned_by_position(np.zeros(1, np.intp))[0]
        existing = self.schedule.existing
        latest = max((self.assigned_numbers[existing][self.code[existing] == k][:1].max(initial=first)
                      for k in range(len(self.arms))), default=first)  # fmt: skip
        start, end = float(latest + events.window + events.lag), float(self.last_look)
        moments = np.linspace(min(start, end), end, how_many + 1)[1:] if how_many > 1 else np.array([end])
        return np.unique(np.floor(moments).astype(np.int64) if self.clock.whole or self.clock.unit else moments)

    # ---------------------------------------------------------------- display

    @cached_property
    def _facts(self) -> _Facts:
        existing = self.schedule.existing
        code, arrived = self.code[existing], self.arrived[existing]
        n_arms = len(self.arms)
        assigned_n = np.bincount(code, minlength=n_arms)
        arrived_n = np.bincount(code[arrived], minlength=n_arms)
        times = self.assigned_numbers[existing]
        delays = self.arrived_numbers[existing] - times
        medians = [float(np.median(delays[arrived & (code == k)])) if arrived_n[k] else math.nan for k in range(n_arms)]
        if self.has_all_propensities:
            smallest = self.propensity[existing].min(axis=0) if len(code) else np.full(n_arms, math.nan)
        else:
            smallest = np.full(n_arms, math.inf)
            np.minimum.at(smallest, code, self.propensity[existing])
            smallest[assigned_n == 0] = math.nan
        return _Facts(
            assigned=assigned_n,
            arrived=arrived_n,
            share=np.divide(arrived_n, assigned_n, out=np.full(n_arms, math.nan), where=assigned_n > 0),
            delay=medians,
            smallest=smallest,
            span=(times.min(), times.max()) if len(times) else None,
        )

    def _title(self) -> str:
        facts = self._facts
        share = facts.arrived.sum() / max(len(self), 1)
        span = ""
        if facts.span is not None:
            first, last = map(self.clock.text, facts.span)
            span = f", assigned from {first} to {last}"
        as_of = "" if self.moment is None else f", as of {self.clock.text(self.moment)}"
        known = "" if self.has_all_propensities else "; only the chosen arm's propensity is known"
        size = f"{count(len(self), 'row')} and {count(len(self.arms), 'arm')}"
        cap = "" if self.cap is None else f"; outcomes capped at {cap_text(self.cap)}"
        segments = "" if self.segment_column is None else f"; {count(len(self.segments), 'segment')}"
        come = "arrived" if self.events is None else f"of windows of {self.within} closed"
        return f"Log of {size}: {share:.1%} {come}{span}{as_of}{known}{cap}{segments}"

    def _columns(self) -> list[Column]:
        facts = self._facts
        delays = [self.clock.show_delay(d) for d in facts.delay]
        return [
            Column("arm", list(self.arms), "label"),
            Column("assigned", facts.assigned.tolist(), "count"),
            Column("arrived", facts.arrived.tolist(), "count"),
            Column("share_arrived", facts.share.tolist(), "share"),
            Column("median_delay", delays, "number"),
            Column("smallest_propensity", facts.smallest.tolist(), "number"),
        ]


def _known(logs: Sequence[Log], name: str) -> list[Any]:
    """Return an attribute of each log that has it."""
    return [value for log in logs if (value := getattr(log, name)) is not None]


def _moment(clock: Clock, as_of: Any) -> int | float | None:
    """Return a time as a number of the clock; None if it is infinite, so that everything counts."""
    return None if as_of is None or (isinstance(as_of, float) and as_of == math.inf) else clock.read("as_of", as_of)
