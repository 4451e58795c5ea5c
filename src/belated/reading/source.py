"""`Source`: a log in files or a database engine, from which sums are computed without loading it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from belated.base.columns import Array, Label, locked
from belated.base.errors import LogError, OptionError, argument
from belated.base.tables import Column, Table
from belated.base.text import count
from belated.log.data import Data
from belated.log.durations import length_on
from belated.log.log import Log, LogColumns
from belated.log.segments import SegmentColumn
from belated.reading import evidence_query, sums_query
from belated.reading.columns import floats, literal
from belated.reading.engines import engine_of, fetch, sentences
from belated.reading.event_rows import with_events
from belated.reading.event_sums import grouped_cohorts, grouped_sums
from belated.reading.first_look import Opened
from belated.reading.rows_query import row_name
from belated.reading.stream import Batch, OutOfOrderError, RowReader, StreamPlan, stream_sums
from belated.reading.units import unit_columns
from belated.summaries import contexts, signs
from belated.summaries.caps import cap_text, check_cap, read_cap
from belated.summaries.covariates import CovariateSums
from belated.summaries.evidence import Evidence, event_outcome
from belated.summaries.outcome_models import OutcomeModel, read_outcome_model
from belated.summaries.segments import ALL, Layout
from belated.summaries.sums import Parts, Sums, SumsOf, with_cap
from belated.summaries.weights import Weights, read_weights

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

#: Rows that are brought into memory for a report.
MOST_HELD = 10_000_000

#: Rows of events that are brought into memory; engines add up more by period. Covariates need them up to `MOST_HELD`.
MOST_MATURING = 1_000_000

#: In how many times the time that some rows take on average they are looked for.
_AMPLE = 2

_Parts = list[tuple[Weights, OutcomeModel]]


@dataclass
class _Scans:
    """What scans of the rows have shown so far."""

    in_order: bool  # whether the rows come in order of assignment, until it turns out otherwise
    anchors: Array | None = None
    checked: bool = False  # whether every row has been found valid


class Reading(NamedTuple):
    """How a table was read: the names of its columns, and a function that reads it again with other options."""

    names: tuple[str, ...]
    again: Callable[..., Source]


class Source(Data, Table):
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
        windows: tuple[Any, ...] = (),
    ) -> None:
        self.windows = windows
        self._uncut, self.cap, self.files, self._reading = opened, cap, files, reading
        self._opened = opened if cap is None else replace(opened, rows=sums_query.with_cap(opened.rows, cap))
        self.query = opened.query
        self._facts = opened.facts
        self.name, self.arms, self.clock = opened.name, opened.arms, opened.clock
        self.moment, self.notes, self.rows = opened.moment, opened.notes, self._opened.rows
        self.roles = opened.query.roles
        self.units = opened.units
        self.within = None if opened.query.window is None else opened.query.window.text
        self._scans = _Scans(in_order=opened.query.keeps_order)
        self._held: Log | None = None
        self._remembers = False
        self._known_sums: dict[tuple[Weights, OutcomeModel], list[Sums]] = {}

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
    def is_streamed(self) -> bool:
        """Whether batches are streamed through the kernel; else the engine makes the sums itself."""
        return engine_of(self.rows).is_embedded

    @property
    def engine(self) -> str:
        """The name of the engine that holds the rows."""
        return self.query.copied_from or str(self.query.connection.name)

    def at(self, as_of: Any) -> Source:
        """Return the same experiment as of another time."""
        return self.at_number(self.clock.read("as_of", as_of))

    def at_number(self, moment: int | float) -> Source:
        """Return the same experiment as of another time, given as a number of its clock."""
        with sentences(self.name):
            return self._like(self._uncut.at(moment), self.cap)

    def capped(self, cap: float | None) -> Source:
        """Return the same experiment with another cap on outcomes; None removes the cap."""
        if cap is None:
            return self._like(self._uncut, None)
        value = read_cap(cap)
        if self.query.measure == "indicator":
            raise OptionError(
                f"{argument('cap')} is given, but the outcome is whether an event happened, 0 or 1; it needs no cap."
            )
        rows = self._uncut.rows
        with sentences(self.name):
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

    def _count_above(self, moments: Array | None, *, by_cell: bool) -> Array:
        """Count outcomes above the cap by time and arm, or by time and cell: arms of segments, if there are any."""
        bins = 1 if moments is None else len(moments)
        by_cell = by_cell and self._has_cells
        counts = np.zeros((bins + 1, len(self._plan([], None, plain=False).cells if by_cell else self.arms)))
        if self.cap is not None and len(self):
            rows = sums_query.with_codes(self._uncut.rows, self._facts.values)
            if by_cell and self.units is not None:
                rows = rows.mutate(code=self.units.place(rows) * len(self.arms) + rows.code)
            cuts = None if moments is None else sums_query.Cuts(moments, self.clock, matured=self.within is not None)
            with sentences(self.name):
                found = fetch(sums_query.above(rows, self.cap, cuts)).to_pydict()
            counts[found["bin"], found["code"]] = found["n"]
        return np.asarray(np.cumsum(counts[:bins], axis=0))

    def hold(self) -> None:
        """Expect many questions: load the rows into memory if they are streamed and few enough, else remember sums."""
        self._remembers = True
        if self._held is None and self.is_streamed and 0 < len(self) <= self._most_held:
            with suppress(LogError):  # of a row that cannot be; it is said, with its place, when sums are made
                self._held = self.log()

    @property
    def _most_held(self) -> int:
        """The most rows that are held in memory: none of closed windows, which exist only later."""
        if not self.is_maturing:
            return MOST_HELD if self.within is None else 0
        has_covariates = self.units is not None and self.units.scaling is not None
        return MOST_HELD if has_covariates else MOST_MATURING

    @property
    def is_maturing(self) -> bool:
        """Whether outcomes are events, and rows whose window is still open count for the ages they have reached."""
        return self.query.maturing

    def closed(self) -> Source:
        """Return the same experiment with only the rows whose window has closed, if outcomes are events."""
        if not self.is_maturing:
            return self
        return self._again(maturing=False, window=self.query.window, windows=None, lag=self.query.lag, recorded_at=None)

    def assignments(self) -> pa.Table:
        """Return the table of the assignments in memory, with all its columns."""
        with sentences(self.name):
            return fetch(self.query.assignments)

    def log(self) -> Log:
        """Return the log in memory."""
        if self._held is not None:
            return self._held
        reader = self._reader_of(self._uncut)
        try:
            with sentences(self.name):
                if not self.is_maturing:
                    return self._log_of(reader.all_batches())
                records = list(reader.records(ordered=False))
                batches = [reader.batch(record) for record in records]
                for batch in batches:
                    batch.check_times(0)
                return with_events(self._log_of(batches), self.query, records, self.cap)
        except LogError as error:
            raise reader.located(error, ordered=False) from None

    def _log_of(self, batches: Sequence[Batch]) -> Log:
        if not batches:
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
                assigned=joined("assigned"), arrived=joined("arrived"), within=self.within,
                segment=segment, covariates=covariates,
                arrival=locked(joined("arrival")) if units is not None and units.has_arrival else None,
            )
        )  # fmt: skip

    def with_arrival(self, chance: Any) -> Data:
        """Return the same experiment with the probability that each outcome ever arrives: a column, or an array."""
        return self._again(arrival_probability=chance) if isinstance(chance, str) else self.log().with_arrival(chance)

    def with_target(self, target: Any) -> tuple[Log, Any]:
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
        with sentences(self.name):
            records = list(reader.records(ordered=False))
        columns = [np.concatenate([floats(record[f"x{k}"]) for record in records]) for k in range(len(self.arms))]
        return again._log_of([reader.batch(record) for record in records]), np.column_stack(columns)

    def _again(self, **changes: Any) -> Source:
        """Read the same tables with other options."""
        if self._reading is None:
            raise OptionError("Only a table from `read` can be read again with other columns.")
        source = self._reading.again(**changes)
        source = source if self.moment in (None, source.moment) else source.at_number(self.moment)
        return source if self.cap == source.cap else source.capped(self.cap)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """The columns of `rows` that hold segments and covariates."""
        return () if self.units is None else tuple(unit_columns(self.query.assignments, self.roles))

    def some_rows(self, since: int | float | None, count: int) -> tuple[Batch, bool]:
        """Return the first rows assigned from a moment on (None: the first of all), in order of assignment.

        Also return whether rows with the same time are in the order of the table.
        """
        rows, (first, last) = self.coded, self.span
        if since is not None:
            rows = rows.filter(rows.assigned >= literal(self.clock, since, rows.assigned))
        with sentences(self.name):
            if not self.is_streamed and _AMPLE * count < len(self):  # what is sorted are few rows, if they come evenly
                until = (first if since is None else since) + type(first)((last - first) * _AMPLE * (count / len(self)))
                soon = rows.filter(rows.assigned <= literal(self.clock, until, rows.assigned))
                found = fetch(soon.order_by("assigned").limit(count))
                if found.num_rows == count:
                    return self._reader.batch(found.combine_chunks().to_batches()[0]), False
            if self.is_streamed and self._scans.in_order:
                batch = self._reader.batch(_record(rows.limit(count)))
                is_first = since is not None or batch.assigned[0] == self._facts.first
                if is_first and (batch.assigned[1:] >= batch.assigned[:-1]).all():
                    return batch, True
            return self._reader.batch(_record(rows.order_by("assigned").limit(count))), False

    @cached_property
    def coded(self) -> ir.Table:
        """The rows, with `code`: the position of each row's arm among `arms`."""
        return sums_query.with_codes(self.rows, self._facts.values)

    @cached_property
    def _reader(self) -> RowReader:
        return self._reader_of(self._opened)

    def _reader_of(self, opened: Opened) -> RowReader:
        return RowReader(opened, sums_query.with_codes(opened.rows, self._facts.values))

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

    def _summed(self, choices: _Parts, moments: Array | None = None, *, plain: bool = True) -> list[list[Sums]]:
        """Make the sums where the rows are."""
        with sentences(self.name):
            if not len(self):
                bins = 1 if moments is None else len(moments)
                plan = self._plan(choices, moments, plain)
                return [[plan.totals(Sums.empty(plan.cells, *part, cap=self.cap)) for _ in range(bins)]
                        for part in choices]  # fmt: skip
            sums = (self._streamed if self.is_streamed else self._computed)(choices, moments, plain)
        return sums if self.cap is None else with_cap(sums, self.cap, self._count_above(moments, by_cell=True))

    def _matured(self, choices: _Parts, moments: Array | None, plain: bool) -> list[list[Sums]]:
        """Return the sums of matured outcomes."""
        self.hold()
        if self._held is None and not any(weights.needs_rows for weights, _ in choices) and len(self):
            if moments is None:
                return self._remembered(lambda new: grouped_sums(self, new, None), choices)
            return grouped_sums(self, choices, moments)
        if self._held is not None and moments is None:
            return self._remembered(self._held.sums, choices)
        return self.log().sums(choices, moments, plain=plain)

    def _remembered(self, summed: Callable[[_Parts], list[list[Sums]]], parts: _Parts) -> list[list[Sums]]:
        """Return sums that every estimator can use and that are made once."""
        new = [part for part in dict.fromkeys(parts) if part not in self._known_sums]
        if new:
            self._known_sums.update(zip(new, summed(new), strict=True))
        return [list(self._known_sums[part]) for part in parts]

    def _past_differs(self, parts: _Parts) -> bool:
        """Whether sums at an earlier moment are not a part of the sums at a later one."""
        is_planned = self.within is not None and any(weights.cumulative for weights, _ in parts)
        return self.query.revises or is_planned

    def _streamed(self, parts: _Parts, moments: Array | None, plain: bool) -> list[list[Sums]]:
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
        self._scans.anchors = sums[0][-1].shift
        return sums

    def _plan(self, parts: _Parts, moments: Array | None, plain: bool) -> StreamPlan:
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

    def _computed(self, parts: _Parts, moments: Array | None, plain: bool) -> list[list[Sums]]:
        """Let the engine make the sums: one expression each, of which only the sums come back."""
        self._check()
        cuts = None if moments is None else sums_query.Cuts(moments, self.clock, matured=self.within is not None)
        bins = 1 if moments is None else len(moments)
        plan, rows, cells = self._plan(parts, moments, plain), self.coded, sums_query.Cells()
        shift = self.anchors
        if plan.layout is not None and self.units is not None:
            rows, shift = self.placed, self._cell_anchors
            segments = len(plan.layout.labels)
            cells = sums_query.Cells(segments, segments - 1 if plan.layout.merged else segments)
        sums, values = [], self._facts.values
        for weights, model in parts:
            about = SumsOf(
                arms=plan.cells, weights=weights, outcome_model=model, full=self.has_all_propensities, plain=plain
            )
            tables = [fetch(table) for table in sums_query.sums_tables(rows, values, about, shift, cuts, cells)]
            by_cell = sums_query.sums_of_tables(tables, about, shift, bins, cells.segments)
            products = self._products(plan, about, cuts, cells, bins)
            sums.append([plan.totals(*each) for each in zip(by_cell, products, strict=True)])
        return sums

    def _products(
        self, plan: StreamPlan, about: SumsOf, cuts: sums_query.Cuts | None, cells: sums_query.Cells, bins: int
    ) -> list[CovariateSums | None]:
        """Return the sums of products with covariates up to each moment, made by the engine."""
        if plan.covariates is None or not plan.covariates.names or self.units is None:
            return [None] * bins
        rows, shift = self.placed, self._cell_anchors
        x = [self.units.covariate(rows, i) for i in range(len(plan.covariates.names))]
        tables = [fetch(table) for table in sums_query.products_tables(rows, x, about, shift, cuts, cells)]
        return sums_query.products_of_tables(tables, plan.covariates, len(self.arms), cells.segments, shift, bins)

    @cached_property
    def placed(self) -> ir.Table:
        """The rows, with `code` and `place`, the position of each row's segment among those of the layout."""
        place = self.coded.code * 0 if self.units is None else self.units.place(self.coded)
        return self.coded.mutate(place=place)

    @cached_property
    def _cell_anchors(self) -> Array:
        """An outcome of each arm in each segment, about which sums are taken."""
        arms, segments = len(self.arms), 1 if self.units is None else len(self.units.layout.labels)
        anchors = np.zeros(arms * segments)
        columns = fetch(sums_query.anchors(self.placed, arms)).to_pydict()
        for place, code, anchor in zip(columns["place"], columns["code"], columns["anchor"], strict=True):
            anchors[place * arms + code] = anchor
        return anchors

    @cached_property
    def anchors(self) -> Array:
        """An outcome of each arm, about which sums are taken."""
        if self._scans.anchors is not None:
            return self._scans.anchors
        anchors = np.zeros(len(self.arms))
        columns = fetch(sums_query.anchors(self.coded, len(self.arms))).to_pydict()
        for code, anchor in zip(columns["code"], columns["anchor"], strict=True):
            anchors[code] = anchor
        return anchors

    def _check(self) -> None:
        """Raise if a row is invalid, with its key or time."""
        if self._scans.checked:
            return
        first = fetch(sums_query.faulty(self.coded, len(self.arms)).limit(1))
        if not first.num_rows:
            self._scans.checked = True
            return
        try:
            self._reader.batch(first.to_batches()[0]).check(self.arms, self.clock, 0)
        except LogError as error:
            if self.query.keeps_order:
                raise self._reader.first_fault(error) from None
            raise error.at(row_name(first.to_pylist()[0])) from None
        raise LogError("The table contains an invalid row.")

    # ---------------------------------------------------------------- what reports say of it

    @property
    def outcome_name(self) -> str:
        """The name of the outcome."""
        if self.query.measure is not None:
            return event_outcome(self.query.measure, self.roles.outcome)
        return self.roles.outcome or "outcome"

    @property
    def columns(self) -> Mapping[str, Any]:
        """The column for each role."""
        return self.roles.to_dict()

    @property
    def how_read(self) -> list[tuple[str, str]]:
        """Names and values for a report: where the rows are, and how they were summed."""
        how = "streamed through the compiled kernel" if self.is_streamed else "sums computed by the engine"
        how = how if self.query.copied_from is None else f"rows copied once, {how}"
        return [
            ("source", self.name),
            ("columns", self.roles.line(options=False).removeprefix("columns: ")),
            ("rows", count(len(self), "row")),
            ("as of", self.as_of_text or "everything that has arrived"),
            *([] if self.cap is None else [("cap", cap_text(self.cap))]),
            *([] if self.query.lag is None else [("lag", f"events are recorded within {self.query.lag.text}")]),
            ("engine", f"{self.engine}, {how}"),
        ]

    @property
    def assigned(self) -> Array:
        """The number of rows of each arm."""
        return self._facts.assigned

    @cached_property
    def arrived(self) -> Array:
        """The number of arrived outcomes of each arm."""
        with sentences(self.name):
            rows = self.coded
            counts = fetch(rows.group_by("code").agg(n=rows.arrived.count())).to_pydict()
        arrived = np.zeros(len(self.arms), dtype=np.int64)
        arrived[counts["code"]] = counts["n"]
        return arrived

    # ---------------------------------------------------------------- doubts

    def evidence(self) -> Evidence:
        """Return the counts and sums from which every check is computed."""
        if self.is_maturing:
            self.hold()
        if self._held is None:
            with sentences(self.name):
                self._check()
            found = evidence_query.evidence(self)
            return replace(found, cohorts=grouped_cohorts(self)) if self.is_maturing else found
        return replace(self._held.evidence(), within=self.within)

    @cached_property
    def _doubts(self) -> list[str]:
        if self.within is not None or not len(self):
            return []
        if self._held is not None:
            return self._held.doubts()
        return signs.doubts(self.dependence)

    def copies(self) -> int:
        """Return how many times every row is in the table."""
        if self.query.deliveries is not None or not len(self):
            return 1  # keys name one row each
        return evidence_query.copies(self) if self._held is None else self._held.copies()

    @cached_property
    def dependence(self) -> Array:
        """The sums behind the test of whether arrival depends on the outcome."""
        return evidence_query.dependence(self)

    @cached_property
    def swings(self) -> contexts.Swings:
        """How much the probabilities swing from row to row."""
        return contexts.swings(evidence_query.glimpse(self))

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

    def doubts_when_estimated(self) -> list[str]:
        """Return the same: tables are checked with every estimate."""
        return self.doubts()

    def oddities(self) -> list[str]:
        """Return sentences on what looks like a mistake in the tables, or in how they were read."""
        if not len(self):
            return []
        if self._held is not None and self.query.deliveries is None:
            return self._held.oddities()
        calibration = evidence_query.calibration(self, evidence_query.early(self))
        recorded = evidence_query.recorded(self) if self.within is None else None
        return signs.oddities(calibration, recorded, self.copies())

    # ---------------------------------------------------------------- time

    @property
    def span(self) -> tuple[int | float, int | float]:
        """When the first and the last row were assigned, as numbers of the clock."""
        return self._facts.first, self._facts.last

    @property
    def last_look(self) -> int | float:
        """The moment up to which outcomes are known: `as_of`, or the last time in the log."""
        return self._facts.last_time if self.moment is None else self.moment

    def even_moments(self, how_many: int) -> Array:
        """Return moments evenly spaced over the time of the experiment; the last is the as-of time."""
        if not len(self):
            raise LogError("The log has no rows at its as-of time.")
        if self.is_maturing:
            self.hold()
        if self._held is not None and self.is_maturing:
            return self._held.even_moments(how_many)
        facts, last = self._facts, self.last_look
        wait: int | float = 0
        if self.is_maturing and self.query.window is not None:  # from the first closing on
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
        as_of = "" if self.moment is None else f", as of {self.clock.text(self.moment)}"
        span = f", assigned from {self.clock.text(facts.first)} to {self.clock.text(facts.last)}" if facts.rows else ""
        known = "" if self.has_all_propensities else "; only the chosen arm's propensity is known"
        size = f"{count(facts.rows, 'row')} and {count(len(self.arms), 'arm')}"
        cap = "" if self.cap is None else f"; outcomes capped at {cap_text(self.cap)}"
        come = "of windows closed" if self.is_maturing else "arrived"
        return f"{self.name}, in {self.engine}: {size}, {share:.1%} {come}{span}{as_of}{known}{cap}"

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


def _record(rows: ir.Table) -> pa.RecordBatch:
    """Return the rows of a query, at least one, in one piece."""
    return fetch(rows).combine_chunks().to_batches()[0]
