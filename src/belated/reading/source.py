"""`Source`: a log in files or a database engine, from which sums are computed without loading it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple

import numpy as np

from belated.base.columns import Array, ColumnLike
from belated.base.errors import LogError, OptionError, argument
from belated.base.tables import Column, Table
from belated.base.text import count
from belated.log.clock import MomentLike
from belated.log.data import Data
from belated.log.durations import WindowLike, length_on
from belated.log.log import Log
from belated.log.row_summaries import RowEvidence
from belated.reading import evidence_query
from belated.reading.columns import floats
from belated.reading.engines import fetch, sentences
from belated.reading.event_rows import with_events
from belated.reading.event_sums import grouped_cohorts, grouped_sums
from belated.reading.first_look import Opened
from belated.reading.table_rows import ReadParts, TableRows
from belated.summaries import signs
from belated.summaries.caps import check_cap, read_cap
from belated.summaries.evidence import COPIES, Evidence
from belated.summaries.outcome_models import OutcomeModel, read_outcome_model
from belated.summaries.sums import Parts, Sums
from belated.summaries.weights import Weights, read_weights

#: Rows that are brought into memory for a report.
MOST_HELD = 10_000_000

#: Rows of events that are brought into memory; engines add up more by period. Covariates and the probability of arrival
#: need them up to `MOST_HELD`.
MOST_MATURING = 1_000_000


class Reading(NamedTuple):
    """How a table was read: the names of its columns, and a function that reads it again with other options."""

    names: tuple[str, ...]
    again: Callable[..., Source]


class Source(TableRows, Table):
    """A log in a file or database, made by `read`; functions accept it like a `Log`.

    It has a connection to its engine, and may be used by one thread at a time; threads may share `log()`.

    Attributes
    ----------
    arms : tuple
    roles : Roles
        The column for each role.
    notes : tuple of str
        Remarks from reading, such as outcomes that belong to no assignment.
    within : str or None
        The window in words, if outcomes are events within a window.
    cap : float or None
        The cap on outcomes, if there is one.
    files : tuple of str
        The files that contain the rows, if any.
    units : Units or None
        The segments and covariates, if there are any.
    windows : tuple
        The windows that were asked for, if there are several.
    """

    def __init__(
        self,
        opened: Opened,
        cap: float | None = None,
        files: tuple[str, ...] = (),
        reading: Reading | None = None,
        windows: tuple[WindowLike, ...] = (),
    ) -> None:
        super().__init__(opened, cap)
        self.files, self.windows, self._reading = files, windows, reading
        self._held: Log | None = None
        self._remembers = False
        self._known_sums: dict[tuple[Weights, OutcomeModel], list[Sums]] = {}

    # ---------------------------------------------------------------- what it holds

    def at(self, as_of: MomentLike) -> Source:
        """Return the same experiment as of another time."""
        return self.at_number(self.clock.read("as_of", as_of))

    def at_number(self, moment: int | float) -> Source:
        """Return the same experiment as of another time, given as a number of its clock."""
        with sentences(self.name, self.query.versions):
            return self._like(self._uncut.at(moment), self.cap)

    def capped(self, cap: float | None) -> Source:
        """Return the same experiment with another cap on outcomes; None removes the cap."""
        if cap is None:
            return self._like(self._uncut, None)
        value = read_cap(cap, self.query.measure)
        rows = self._uncut.rows
        with sentences(self.name, self.query.versions):
            known = rows.filter(rows.arrived.notnull())
            least = fetch(known.aggregate(n=known.count(), low=known.outcome.min())).to_pylist()[0]
        check_cap(value, math.inf if least["low"] is None else least["low"], least["n"])
        return self._like(self._uncut, value)

    def _like(self, opened: Opened, cap: float | None) -> Source:
        return Source(opened, cap, self.files, self._reading, self.windows)

    def above_cap(self, moments: Array | None = None) -> Array:
        """Return the number of arrived outcomes above the cap, by time and arm; None is the as-of time."""
        return self._above_now if moments is None else self._count_above(moments, by_cell=False)

    @cached_property
    def _above_now(self) -> Array:
        return self._count_above(None, by_cell=False)

    def hold(self) -> bool:
        """Expect many questions: load the rows into memory if they are few enough, else remember sums."""
        self._remembers = True
        if self._held is None and 0 < len(self) <= self._most_held:
            with suppress(LogError):  # an invalid row: the error, with its place, is raised when sums are made
                self._held = self.log()
        return self._held is not None

    def _hold_streamed(self) -> None:
        """Load the rows of events into memory if they pass through it anyway, or if there is no other way."""
        self._remembers = True
        if not (self.is_streamed or (self.units is not None and self.units.needs_rows_of_events is not None)):
            return
        if self._held is None and 0 < len(self) <= self._most_held:
            self._held = self.log()  # an invalid row is refused here, with its place

    @property
    def _most_held(self) -> int:
        """The most rows that are held in memory: none of closed windows, which exist only later."""
        if not self.is_maturing:
            return MOST_HELD if self.within is None else 0
        needs_rows = self.units is not None and self.units.needs_rows_of_events is not None
        return MOST_HELD if needs_rows else MOST_MATURING

    def closed(self) -> Source:
        """Return the same experiment with only the rows whose window has closed, if outcomes are events."""
        if not self.is_maturing:
            return self
        return self._again(maturing=False, window=self.query.window, windows=None, lag=self.query.lag, recorded_at=None)

    def log(self) -> Log:
        """Return the log in memory."""
        if self._held is not None:
            return self._held
        reader = self._reader_of(self._uncut)
        try:
            with sentences(self.name, self.query.versions):
                if not self.is_maturing:
                    return self._log_of(reader.all_batches())
                records = list(reader.records(ordered=reader.is_mixed))
                batches = [reader.batch(record) for record in records]
                for batch in batches:
                    batch.check_times(0)
                return with_events(self._log_of(batches), self.query, records, self.cap)
        except LogError as error:
            raise reader.located(error, ordered=reader.is_mixed) from None

    def with_arrival(self, chance: ColumnLike | str) -> Data:
        """Return the same experiment with the probability that each outcome ever arrives: a column, or an array."""
        return self._again(arrival_probability=chance) if isinstance(chance, str) else self.log().with_arrival(chance)

    def with_target(self, target: object) -> tuple[Log, object]:
        """Return the log in memory, and the probabilities of a target policy: columns by pattern, or an array."""
        if not isinstance(target, str):
            return self.log().with_target(target)
        from belated.log.frames import match

        known = () if self._reading is None else self._reading.names
        names = [name for name in known if fnmatchcase(name, target)]
        if not names:
            raise LogError(f"No column matches {argument('target')}, {target!r}; it needs one for each arm.")
        try:
            place = {arm: name for name, arm in zip(names, match(names, np.array(self.arms, object)), strict=True)}
        except LogError:
            raise LogError(
                f"The columns that {argument('target')} matches, {', '.join(map(repr, names[:10]))}, cannot be matched "
                "to the arms; the name of each must end with an arm.",
                column="target",
            ) from None
        again = self._again(covariates=[place[arm] for arm in self.arms])
        reader = again._reader_of(again._uncut)
        with sentences(self.name, self.query.versions):
            records = list(reader.records(ordered=reader.is_mixed))
        columns = [np.concatenate([floats(record[f"x{k}"]) for record in records]) for k in range(len(self.arms))]
        return again._log_of([reader.batch(record) for record in records]), np.column_stack(columns)

    def _again(self, **changes: object) -> Source:
        """Read the same tables with other options."""
        if self._reading is None:
            raise OptionError("Only a table from `read` can be read again with other columns.")
        source = self._reading.again(**changes)
        source = source if self.moment in (None, source.moment) else source.at_number(self.moment)
        return source if self.cap == source.cap else source.capped(self.cap)

    # ---------------------------------------------------------------- sums

    def sums(
        self, parts: Sequence[Parts], moments: Array | None = None, *, plain: bool = True, history: Sequence[Log] = ()
    ) -> list[list[Sums]]:
        """Return the sums for each pair of weights and outcome model, at each time; None is the as-of time."""
        if history:
            raise OptionError("`history` needs a Log in memory; `log()` loads a table into memory.")
        choices = [(read_weights(w), read_outcome_model(m)) for w, m in parts]
        for weights, _ in choices:
            weights.check(self.has_all_propensities)
        if moments is not None and moments[-1] < self.last_look and not self.is_maturing:
            return self.at_number(moments[-1]).sums(choices, moments, plain=plain)
        if moments is not None and not self.is_maturing and self._past_differs(choices):
            each = [self.at_number(moment).sums(choices, plain=plain) for moment in moments]
            return [[sums[i][-1] for sums in each] for i in range(len(choices))]
        if self.is_maturing:
            return self._matured(choices, moments, plain)
        needs_rows = any(weights.needs_rows or model.needs_rows for weights, model in choices)
        if self._held is not None and moments is None and not needs_rows:
            return self._remembered(self._held.sums, choices)
        if self._remembers and moments is None and not needs_rows:
            return self._remembered(self._summed, choices)
        if self._held is not None or needs_rows:
            return self.log().sums(choices, moments, plain=plain)
        return self._summed(choices, moments, plain=plain)

    def _matured(self, choices: ReadParts, moments: Array | None, plain: bool) -> list[list[Sums]]:
        """Return the sums of matured outcomes."""
        self._hold_streamed()
        if self._held is None and not any(weights.needs_rows for weights, _ in choices) and len(self):
            with sentences(self.name, self.query.versions):
                self._check()
            if moments is None:
                return self._remembered(lambda new: grouped_sums(self, new, None), choices)
            return grouped_sums(self, choices, moments)
        if self._held is not None and moments is None:
            return self._remembered(self._held.sums, choices)
        return self.log().sums(choices, moments, plain=plain)

    def _remembered(self, summed: Callable[[ReadParts], list[list[Sums]]], parts: ReadParts) -> list[list[Sums]]:
        """Return sums that every estimator can use and that are made once."""
        new = [part for part in dict.fromkeys(parts) if part not in self._known_sums]
        if new:
            self._known_sums.update(zip(new, summed(new), strict=True))
        return [list(self._known_sums[part]) for part in parts]

    def _past_differs(self, parts: ReadParts) -> bool:
        """Whether sums at an earlier moment are not a part of the sums at a later one."""
        is_planned = self.within is not None and any(weights.cumulative for weights, _ in parts)
        return self.query.revises or is_planned

    # ---------------------------------------------------------------- what reports say of it

    @property
    def columns(self) -> Mapping[str, object]:
        """The column for each role."""
        return self.roles.to_dict()

    def _how_columns_were_read(self) -> list[tuple[str, str]]:
        return [("columns", self.roles.line(options=False).removeprefix("columns: "))]

    @property
    def _lag_text(self) -> str | None:
        return None if self.query.lag is None else self.query.lag.text

    @property
    def _how_summed(self) -> str:
        in_memory = self.is_streamed or self._held is not None
        how = "streamed through the compiled kernel" if in_memory else "sums computed by the engine"
        copied = self.query.copied_from is not None or (in_memory and not self.is_streamed)
        return f"rows copied once, {how}" if copied else how

    # ---------------------------------------------------------------- doubts

    def evidence(self) -> Evidence:
        """Return the counts and sums from which every check is computed."""
        if self.is_maturing:
            self._hold_streamed()
        if self._held is None:
            self.refuse_no_rows()
            with sentences(self.name, self.query.versions):
                self._check()
            dependence = self.dependence if self.within is None else None
            evidence = evidence_query.evidence(self, dependence, self.swings)
            return replace(evidence, cohorts=grouped_cohorts(self)) if self.is_maturing else evidence
        return replace(self._held.evidence(), within=self.within)

    @cached_property
    def _doubts(self) -> list[str]:
        if self.within is not None or not len(self) or not self.roles.has_arrivals:
            return []
        if self._held is not None:
            return self._held.doubts()
        return signs.doubts(self.dependence)

    def copies(self) -> int:
        """Return how many times every row is in the table."""
        if self.query.deliveries is not None or not len(self):
            return 1  # keys name one row each
        return self._copies

    @cached_property
    def _copies(self) -> int:
        if self._held is not None and self.roles.assigned_at is not None:  # else the order of rows is their time
            return self._held.copies()
        often, different = evidence_query.repeats(self)
        if (
            often > 1 and different < COPIES and len(self) <= self._most_held
        ):  # with few different rows, such as of two arms and outcomes of 0 and 1, compare whole rows
            often, different = evidence_query.whole_repeats(self)
        return often if different >= COPIES else 1

    @cached_property
    def dependence(self) -> Array:
        """The sums behind the test of whether arrival depends on the outcome."""
        return evidence_query.dependence(self) if self._scans.dependence is None else self._scans.dependence

    def doubts(self) -> list[str]:
        """Return sentences on signs that every estimate from the log is biased."""
        return list(self._doubts)

    @cached_property
    def _contexts(self) -> list[str]:
        if self._held is not None:
            return self._held.contexts()
        return signs.context_doubts(self.swings) if len(self) else []

    def contexts(self) -> list[str]:
        """Return sentences on signs that the policy looked at the unit."""
        return list(self._contexts)

    def doubts_when_estimated(self, *, follows_units: bool) -> list[str]:
        """Return all doubts: tables are checked with every estimate."""
        return [*self.doubts(), *super().doubts_when_estimated(follows_units=follows_units)]

    def oddities(self) -> list[str]:
        """Return sentences on what looks like a mistake in the tables, or in how they were read."""
        if not len(self):
            return []
        if self._held is not None and self.query.deliveries is None:
            rows = RowEvidence(self._held)
            return signs.oddities(
                rows.calibration(rows.early), rows.recorded() if self.within is None else None, self.copies()
            )
        calibration = evidence_query.calibration(self, evidence_query.early(self))
        recorded = evidence_query.recorded(self) if self.within is None else None
        return signs.oddities(calibration, recorded, self.copies())

    # ---------------------------------------------------------------- time

    def even_moments(self, how_many: int) -> Array:
        """Return moments evenly spaced over the time of the experiment; the last is the as-of time."""
        self.refuse_no_rows()
        if self.is_maturing:
            self._hold_streamed()
        if self._held is not None and self.is_maturing:
            return self._held.even_moments(how_many)
        facts, last = self._facts, self.last_look
        wait: int | float = 0
        if self.is_maturing and self.query.window is not None:  # moments begin when the first window closes
            wait = min(length_on(self.clock, self.query.window), last - facts.first)
        moments = np.linspace(float(facts.first + wait), float(last if wait else facts.last), how_many + 1)[1:]
        kind = np.int64 if self.clock.whole or self.clock.unit else np.float64
        moments = np.floor(moments).astype(kind) if kind is np.int64 else moments
        moments[-1] = last
        return np.unique(moments)

    # ---------------------------------------------------------------- display

    def _title(self) -> str:
        facts = self._facts
        share = self.arrived.sum() / max(facts.rows, 1)
        size = f"{count(facts.rows, 'row')} and {count(len(self.arms), 'arm')}"
        come = "of windows closed" if self.is_maturing else "arrived"
        end = self.title_end((facts.first, facts.last) if facts.rows else None)
        return f"{self.name}, in {self.engine}: {size}, {share:.1%} {come}{end}"

    def _columns(self) -> list[Column]:
        with np.errstate(invalid="ignore", divide="ignore"):
            share = (self.arrived / self.assigned).tolist()
        return [
            Column("arm", list(self.arms), "label"),
            Column("assigned", self.assigned.tolist(), "count"),
            Column("closed" if self.is_maturing else "arrived", self.arrived.tolist(), "count"),
            Column("share_closed" if self.is_maturing else "share_arrived", share, "share"),
        ]

    def _notes(self) -> list[str]:
        kept = ", of rows whose window is open too" if self.is_maturing else ", of rows whose window has closed"
        within = (
            [] if self.within is None else [f"The outcome is what happens within {self.within} of assignment{kept}."]
        )
        return [self.roles.line(), *within, *self.notes]
