"""`Log`: the log of an experiment in memory, one row per assignment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from belated.base.checks import one_of
from belated.base.columns import Array, ByArm, ColumnLike, Label, TableLike, as_array, locked, numbers
from belated.base.errors import LogError, OptionError, argument
from belated.base.tables import Column, Table
from belated.base.text import shown
from belated.log.clock import Clock, MomentLike, read_times
from belated.log.durations import WindowLike, length_text
from belated.log.events import Events, cohorts_of, is_fractional, matured_sums, read_events
from belated.log.labels import encode
from belated.log.overview import LogOverview
from belated.log.row_summaries import RowEvidence, glimpse, sums_of_rows
from belated.log.rows import LogColumns, LogRows, joined_columns
from belated.log.segments import (
    read_arrival,
    read_covariates,
    read_segments,
    scaled_by,
)
from belated.log.splits import is_split, split_matrix
from belated.summaries import contexts, signs
from belated.summaries.caps import read_cap
from belated.summaries.evidence import CohortEvidence, Evidence
from belated.summaries.maturing import MEASURES, Measure
from belated.summaries.segments import segment_index
from belated.summaries.sums import Parts, Sums, with_cap


class Log(LogRows, Table):
    """The log of a bandit experiment, one row per assignment.

    Parameters
    ----------
    arm : sequence
        The arm of each row: text, numbers or any hashable labels.
    outcome : sequence of float
        The outcome; NaN or None if it has not arrived.
    propensity : array of shape (rows, arms) or (rows,)
        The probability of every arm when the row was assigned, with columns in the order of `arms`, or a dataframe with
        columns named after the arms; or only the probability of the chosen arm. If it never changed: ``"uniform"``, or
        ``{"A": 0.5, "B": 0.5}``.
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

    def __init__(  # noqa: PLR0913
        self,
        arm: ColumnLike,
        outcome: ColumnLike,
        propensity: ColumnLike | TableLike | ByArm[float] | str,
        *,
        arms: Sequence[Label] | None = None,
        assigned_at: ColumnLike | None = None,
        arrived_at: ColumnLike | None = None,
        delay: ColumnLike | None = None,
        as_of: MomentLike | None = None,
        cap: float | None = None,
        segment: ColumnLike | TableLike | None = None,
        covariates: TableLike | None = None,
        arrival_probability: ColumnLike | None = None,
    ) -> None:
        declared = False
        if isinstance(propensity, str) or is_split(propensity):
            declared = True
            propensity, arms = split_matrix(propensity, arm, arms)
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

    @classmethod
    def of_numbers(cls, columns: LogColumns, *, parts: Sequence[Log] = (), name: str | None = None) -> Log:
        """Return a log from columns of numbers; `parts` are logs of the same rows that are already checked."""
        log = cls.__new__(cls)
        log._keep(columns, parts)
        if name is not None:
            log.name = name
        return log

    @classmethod
    def from_frame(  # noqa: PLR0913
        cls,
        frame: object,
        *,
        arm: str = "arm",
        outcome: str = "outcome",
        propensity: str | Sequence[str] | ByArm[str] | ByArm[float] = "propensity",
        arms: Sequence[Label] | None = None,
        assigned_at: str | None = None,
        arrived_at: str | None = None,
        delay: str | None = None,
        as_of: MomentLike | None = None,
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
            arm, best given as ``{"A": "p_A", "B": "p_B"}``. A list of columns is matched to the arms by the ends of the
            column names or, if these do not tell, by the order of `arms`. A fixed split needs no column:
            ``"uniform"``, or ``{"A": 0.5, "B": 0.5}``.
        arms, as_of, cap
            As in `Log`.
        """
        from belated.log.frames import read_columns, read_frame

        names = {
            "arm": arm, "outcome": outcome, "assigned_at": assigned_at, "arrived_at": arrived_at, "delay": delay,
            "arrival_probability": arrival_probability,
        }  # fmt: skip
        columns, chances, arms = read_frame(frame, names, propensity, arms)
        several = {
            role: read_columns(frame, role, [chosen] if isinstance(chosen, str) else chosen)
            for role, chosen in (("segment", segment), ("covariates", covariates))
            if chosen is not None
        }
        return cls(
            columns["arm"], columns["outcome"], chances, arms=arms, assigned_at=columns.get("assigned_at"),
            arrived_at=columns.get("arrived_at"), delay=columns.get("delay"), as_of=as_of, cap=cap,
            segment=several.get("segment"), covariates=several.get("covariates"),
            arrival_probability=columns.get("arrival_probability"),
        )  # fmt: skip

    # ---------------------------------------------------------------- contents

    def _how_columns_were_read(self) -> list[tuple[str, str]]:
        return [("propensities", "a fixed split (declared)")] if self.declared else []

    @property
    def _lag_text(self) -> str | None:
        return None if self.events is None or not self.events.lag else length_text(self.clock, self.events.lag)

    @property
    def _how_summed(self) -> str:
        return "summed by the compiled kernel"

    def log(self) -> Log:
        """Return the log itself."""
        return self

    def at(self, as_of: MomentLike | None) -> Log:
        """Return the same experiment as of another time."""
        return self.at_number(_moment(self.clock, as_of))

    def at_number(self, moment: int | float | None) -> Log:
        """Return the same experiment as of another time, given as a number of its clock."""
        # outcomes that arrived after the former as-of time were not checked yet
        later = self.moment is not None and (moment is None or moment > self.moment)
        return Log.of_numbers(replace(self.given, moment=moment), parts=() if later else (self,))

    def look_at(self, moment: int | float) -> Log:
        """Return the experiment as of an earlier time, with the segments that the log has at its own as-of time."""
        log = self.at_number(moment)
        log._layout = log._with_merged_arrival(self.layout._replace(arrival=None, unseen=None))
        return log

    def capped(self, cap: float | None) -> Log:
        """Return the same experiment with another cap on outcomes; None removes the cap."""
        measure = None if self.events is None else self.events.measure
        log = Log.of_numbers(replace(self.given, cap=None if cap is None else read_cap(cap, measure)))
        log._check_cap()
        return log

    def joined(self, others: Sequence[Log]) -> Log:
        """Return one log with the rows of this one followed by those of `others`, as of this one's as-of time."""
        logs = [self, *others]
        return Log.of_numbers(joined_columns(logs), parts=logs)

    # ---------------------------------------------------------------- segments

    def in_segment(self, segment: Label) -> Log:
        """Return the rows of one segment as a log without segments; its arms stay the same."""
        if self.segment_column is None:
            raise LogError("The log has no segments.")
        chosen = self.layout.place[self.segment_column.code] == segment_index(self.layout.labels, segment)
        return self.only(chosen)

    def without_covariates(self) -> Log:
        """Return the same experiment without covariates."""
        return Log.of_numbers(replace(self.given, covariates=None), parts=(self,))

    def without_segments(self) -> Log:
        """Return the same experiment without segments and covariates."""
        return Log.of_numbers(replace(self.given, segment=None, covariates=None), parts=(self,))

    def with_arrival(self, chance: ColumnLike | str) -> Log:
        """Return the same experiment with the probability that each row's outcome ever arrives."""
        return Log.of_numbers(replace(self.given, arrival=read_arrival(chance, len(self.code))), parts=(self,))

    def with_target(self, target: object) -> tuple[Log, object]:
        """Return the log itself, and the probabilities of a target policy in its rows."""
        if isinstance(target, str):
            raise LogError(
                f"{argument('target')} is {shown(target)}; for a log in memory it must be an array (rows, arms)."
            )
        return self, target

    def only(self, rows: Array, *, segments: bool = False) -> Log:
        """Return some rows as a log, without segments unless asked for; `rows` has a boolean for each row."""

        def of(column: Array | None) -> Array | None:
            return None if column is None else column[rows]

        x = None if self.covariates is None else scaled_by(self.covariates, rows)
        return Log.of_numbers(
            replace(
                self.given, code=self.code[rows], outcome=self._uncut[rows], propensity=self.propensity[rows],
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
    def of_events(  # noqa: PLR0913
        cls,
        arm: ColumnLike,
        propensity: ColumnLike | TableLike | ByArm[float] | str,
        events: TableLike,
        *,
        window: WindowLike,
        measure: Measure | None = None,
        unit: ColumnLike | None = None,
        lag: WindowLike | None = None,
        arms: Sequence[Label] | None = None,
        assigned_at: ColumnLike | None = None,
        as_of: MomentLike | None = None,
        cap: float | None = None,
        segment: ColumnLike | TableLike | None = None,
        covariates: TableLike | None = None,
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
            The longest time from an event to its record. Rows count as younger by this time.
        as_of : optional
            The time up to which events are known; by default the latest time of an assignment or of any event.

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
        if log.clock == Clock() and is_fractional(events, window, lag):
            assigned = log.assigned_numbers.astype(float)
            log = cls.of_numbers(replace(log.given, clock=Clock(whole=False), assigned=assigned, arrived=assigned))
        known, latest = read_events(events, unit, log.assigned_numbers, log.clock, window, measure, lag)
        if as_of is not None:
            return log.with_events(known, _moment(log.clock, as_of), cap)
        return log.with_events(known, max(log.assigned_numbers.max().item(), latest), cap)

    def with_events(self, events: Events, moment: int | float | None, cap: float | None = None) -> Log:
        """Return the rows of this log with events as outcomes; these are known when the windows close."""
        assigned = self.assigned_numbers
        log = Log.of_numbers(
            replace(
                self.given, outcome=events.totals(len(self.code)), assigned=assigned, arrived=events.closing(assigned),
                moment=moment, cap=None if cap is None else read_cap(cap, events.measure), events=events,
                within=length_text(self.clock, events.window), measure=events.measure,
            )
        )  # fmt: skip
        log._check_cap()
        return log

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
        return Log.of_numbers(replace(rows.given, events=None, layout=None), parts=(rows,))

    def known_at_closing(self) -> Log:
        """Return the same rows with outcomes that are known when windows close, for a log of events."""
        return self if self.events is None else Log.of_numbers(replace(self.given, events=None), parts=(self,))

    def within_window(self, window: int | float) -> Log:
        """Return the same log of events with a shorter window, in numbers of the clock."""
        if self.events is None:
            raise LogError("Only a log of events has a window; see `Log.of_events`.")
        if not 0 <= window <= self.events.window:
            raise OptionError(
                f"{argument('window')} must be at most the window of the log, {self.within}, and more than 0."
            )
        log = replace(self.given, layout=self.layout if self.segment_column is not None else None)
        return Log.of_numbers(log, parts=(self,)).with_events(self.events.within(window), self.moment, self.cap)

    def with_outcomes(self, rows: Array, outcome: Array) -> Log:
        """Return some rows of a log of events, in their order, with outcomes that are all known at once."""
        log = self.only(np.isin(np.arange(len(self.code)), rows, assume_unique=True), segments=True)
        return Log.of_numbers(
            replace(
                log.given, outcome=outcome, arrived=None, moment=None, cap=None, events=None, within=None, measure=None,
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
            return matured_sums(self, parts, moments, plain=plain)
        log = self if moments is None or moments[-1] == self.moment else self.at_number(moments[-1])
        sums = [sums_of_rows(log, part, moments, plain, history) for part in parts]
        if self.cap is None:
            return sums
        return with_cap(sums, self.cap, log._above_cap(moments, log.cell, len(log.cell_anchor)))

    def evidence(self) -> Evidence:
        """Return the counts and sums from which every check is computed."""
        return RowEvidence(self).evidence()

    def cohorts(self) -> CohortEvidence | None:
        """Return how the build-up of events varies with the time of assignment; None without events."""
        return None if self.events is None else cohorts_of(self, self.events)

    def doubts(self) -> list[str]:
        """Return sentences on signs that every estimate from the log is biased."""
        return signs.doubts(self.dependence) if len(self) and self.within is None else []

    @cached_property
    def dependence(self) -> Array:
        """The sums for the test of whether arrival depends on the outcome."""
        return RowEvidence(self).dependence()

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

    # ---------------------------------------------------------------- display

    @cached_property
    def _overview(self) -> LogOverview:
        return LogOverview.of(self)

    def _title(self) -> str:
        return self._overview.title

    def _columns(self) -> list[Column]:
        return self._overview.columns


def _moment(clock: Clock, as_of: MomentLike | None) -> int | float | None:
    """Return a time as a number of the clock; None if it is infinite, so that everything counts."""
    return None if as_of is None or (isinstance(as_of, float) and as_of == math.inf) else clock.read("as_of", as_of)
