"""Sums of matured outcomes of large tables: the engine adds up rows without events by cell and time of assignment.

Rows with an event come one by one. Rows without an event are one entry for each cell and period, at the mean of their
times of assignment: ages are then known to within one of the `PERIODS` periods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from belated.base.checks import LARGEST_OUTCOME, outcome_fault
from belated.base.columns import Array
from belated.base.errors import LogError, OptionError, argument
from belated.kernels.fields import OWN_FIELDS
from belated.log.durations import length_on, length_scale, length_text
from belated.log.events import MATURING_ESTIMATORS, Events, longest_window, require_age
from belated.reading.columns import floats
from belated.reading.engines import fetch, sentences
from belated.reading.event_rows import rows_of_keys
from belated.reading.evidence_query import length_between, period_of, since_first, span_of
from belated.reading.sums_query import CellColumns, chosen, weight
from belated.summaries.caps import Cap
from belated.summaries.cohorts import Exposed, cohort_scores
from belated.summaries.evidence import CohortEvidence
from belated.summaries.maturing import AgeReach, Exposure, Happened, Maturity, Measure, matured_outcomes, reach
from belated.summaries.outcome_models import OutcomeModel, read_outcome_model
from belated.summaries.segments import Segments, cell_labels
from belated.summaries.sums import Sums, empty_bins
from belated.summaries.weights import Weights, read_weights

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from belated.reading.table_rows import TableRows


#: Periods of assignment that rows without events are added up by.
PERIODS = 4096

#: The powers of weights that sums read.
_POWERS = range(1 + max(field.w for field in OWN_FIELDS))


class Entries(NamedTuple):
    """Rows with events, one each, and groups of rows without; times in the units of `length_between`."""

    cell: Array
    since: Array  # the time of assignment, from the first
    powers: Array  # the number of rows, and the sums of their weights, of the squares, and so on
    w_max: Array
    entry: Array  # of each event
    age: Array
    value: Array

    @property
    def n(self) -> Array:
        """The number of rows in each entry."""
        rows: Array = self.powers[0]
        return rows


def grouped_sums(
    source: TableRows, parts: Sequence[tuple[Weights, OutcomeModel]], moments: Array | None
) -> list[list[Sums]]:
    """Return the sums of matured outcomes for each pair of weights and outcome model, at each time."""
    for weights, model in parts:
        if model.name != "zero" or weights.needs_rows:
            raise OptionError(MATURING_ESTIMATORS)
    if source.units is not None and (column := source.units.needs_rows_of_events) is not None:
        what = "Covariates need" if column == "covariates" else f"{argument(column)} needs"
        raise LogError(f"{what} the rows of events in memory; this table has too many.", column=column)
    with sentences(source.name, source.query.versions):
        entries = [_entries(source, weights) for weights, _ in parts]
    at = [source.last_look] if moments is None else moments.tolist()
    return [
        [_Matured(source, weights, each).sums(moment, cut=moments is None) for moment in at]
        for (weights, _), each in zip(parts, entries, strict=True)
    ]


def grouped_cohorts(source: TableRows) -> CohortEvidence:
    """Return how the build-up of events goes with the time of assignment."""
    weights = read_weights("sqrt")
    with sentences(source.name, source.query.versions):
        return _Matured(source, weights, _entries(source, weights)).cohorts(source.last_look)


# ---------------------------------------------------------------- queries


def _entries(source: TableRows, weights: Weights) -> Entries:
    """Return the rows of a source; rows without events are summed."""
    rows, arms = source.placed, len(source.arms)
    own, cells = chosen(rows, arms), CellColumns.of(source.layout)
    since = since_first(source, rows)
    period = period_of(source, since, PERIODS)
    columns = {
        "cell": rows.place * arms + rows.code, "since": since, "period": period, "first": rows["first"],
        "w": weight(weights, own, rows, cells) / own, "total": rows.total, "assigned": rows.assigned,
    }  # fmt: skip
    key = {"key": rows.key} if "key" in rows.columns else {}
    values = rows.select(**columns, **key)
    groups = fetch(_added_up(values.filter(values["first"].isnull())))
    loud = fetch(_with_age(values.filter(values["first"].notnull())))
    w = floats(loud["w"])
    singles = {"cell": floats(loud["cell"]), "since": floats(loud["since"]), "w_max": w}
    joined = {name: np.concatenate([single, floats(groups[name])]) for name, single in singles.items()}
    joined["cell"] = joined["cell"].astype(np.intp)
    joined["powers"] = np.array([np.concatenate([w**k, floats(groups[f"w{k}"])]) for k in _POWERS])
    if source.query.deliveries is None or source.query.measure is None:
        entry, age, value = np.arange(loud.num_rows), floats(loud["age"]), floats(loud["total"])
    else:
        entry, age, value = _events(source, loud, source.query.measure)
    return Entries(**joined, entry=entry, age=age, value=value)


def _added_up(rows: ir.Table) -> ir.Table:
    weighted = rows.mutate(**{f"w{k}": reduce(mul, [rows.w] * k) for k in _POWERS[1:]})
    sums = {f"w{k}": weighted[f"w{k}"].sum() for k in _POWERS[1:]}
    return weighted.group_by("cell", "period").agg(
        w0=weighted.count(), since=weighted.since.mean(), **sums, w_max=weighted.w.max()
    )


def _with_age(rows: ir.Table) -> ir.Table:
    key = {"key": rows.key} if "key" in rows.columns else {}
    age = length_between(rows["first"], rows.assigned)
    return rows.select(cell=rows.cell, since=rows.since, w=rows.w, total=rows.total, age=age, **key)


def _events(source: TableRows, loud: pa.Table, measure: Measure) -> tuple[Array, Array, Array]:
    """Return the row among `loud`, the age and the value of each event."""
    table = source.query.events()
    events = fetch(table.select("key", "value", age=length_between(table.when, table.assigned)))
    row, has_row = rows_of_keys(events["key"], loud["key"])
    known = Events.of(row, floats(events["age"])[has_row], floats(events["value"])[has_row], math.inf, measure)
    return known.row, known.age, known.value


# ---------------------------------------------------------------- sums


class _Matured:
    """Sums of matured outcomes at any time and window, from entries.

    They keep no connection to the engine, so that estimates, which can ask for a shorter window, can be pickled.
    """

    def __init__(self, source: TableRows, weights: Weights, entries: Entries) -> None:
        self.weights, self.entries = weights, entries
        self.arms, self.layout, self.cap, self.clock = source.arms, source.layout, source.cap, source.clock
        self.first, units, query = source.span[0], source.units, source.query
        self.by_cell, self.has_cells = units is not None, units is not None and units.has_cells
        if query.window is None or query.measure is None:
            raise OptionError(f"Events need a {argument('window')}.")
        self.measure = query.measure
        self.window = length_on(source.clock, query.window)
        self.lag = 0 if query.lag is None else length_on(source.clock, query.lag, "lag")
        self.cells = len(source.layout.labels) * len(source.arms)

    def sums(self, moment: int | float, window: int | float | None = None, *, cut: bool = False) -> Sums:
        """Return the sums as of a moment for a window, cut to the longest age that every cell has reached."""
        window = self.window if window is None else window
        entries, length = self.entries, span_of(self.clock, 0, window)
        entered, exposure, events = self._lived(moment, length)
        known = reach(exposure, entries.powers[2, entered], self.cells, length)
        if cut and (usable := self._usable(known)) < window:
            require_age(usable, self.clock, self.lag)
            shorter = self.sums(moment, usable)
            if shorter.maturing is None:
                return shorter
            return replace(shorter, maturing=replace(shorter.maturing, asked=window))
        cap = self.cap
        above = np.zeros(self.cells)
        if cap is not None:
            total = np.bincount(events.entry, events.value, len(entered))
            np.add.at(above, exposure.cell[total > cap], 1.0)
            events = events._replace(value=_capped(events, cap))
        outcome = matured_outcomes(exposure, events, self.cells, length)
        outcome[~(known.longest >= length)[exposure.cell]] = math.nan
        sums = self._added_up(entered, exposure.cell, outcome)
        sums = replace(sums, cap=None if cap is None else Cap(cap, above))
        if self.has_cells:
            sums = Segments.of(self.layout, sums).total()
        return replace(sums, maturing=self._maturity(moment, window, known, exposure, entered, events))

    def _lived(self, moment: int | float, length: float) -> tuple[Array, Exposure, Happened]:
        """Return the entries that had been assigned, the ages that they have reached, and their events by then."""
        entries = self.entries
        age = span_of(self.clock, self.first + self.lag, moment) - entries.since
        entered = np.flatnonzero(age >= 0)
        place = np.full(len(entries.cell), -1)
        place[entered] = np.arange(len(entered))
        age = np.minimum(age[entered], length)
        counts = place[entries.entry] >= 0
        counts[counts] = entries.age[counts] <= age[place[entries.entry[counts]]]
        events = Happened(place[entries.entry[counts]], entries.age[counts], entries.value[counts])
        if not (np.abs(events.value) <= LARGEST_OUTCOME).all():  # of a window that is still open
            value = float(events.value[np.argmin(np.abs(events.value) <= LARGEST_OUTCOME)])
            raise LogError(f"{argument('outcome')} of an event {outcome_fault(value)}.", column="outcome")
        return entered, Exposure(entries.cell[entered], age, entries.powers[1, entered]), events

    def cohorts(self, moment: int | float) -> CohortEvidence:
        """Return how the build-up of events goes with the time of assignment."""
        entered, exposure, events = self._lived(moment, span_of(self.clock, 0, self.window))
        if self.cap is not None:
            events = events._replace(value=_capped(events, self.cap))
        rows = Exposed(exposure.cell, self.entries.since[entered], exposure.age, self.entries.n[entered])
        shape, scale = (len(self.layout.labels), len(self.arms)), span_of(self.clock, 0, 1)
        return cohort_scores(rows, events, shape, lambda age: length_text(self.clock, age / scale))

    def _usable(self, known: AgeReach) -> int | float:
        """Return the longest age that every cell has reached, in numbers of the clock."""
        scale = span_of(self.clock, 0, 1)
        return longest_window(known._replace(longest=known.longest / scale), self.clock)

    def _added_up(self, entered: Array, cell: Array, outcome: Array) -> Sums:
        """Return the sums of entries with the given outcomes, by cell."""
        entries, known = self.entries, np.isfinite(outcome)
        n = np.where(known, entries.n[entered], 0.0)
        total = np.bincount(cell, n, self.cells)
        shift = np.divide(np.bincount(cell[known], (n * outcome)[known], self.cells), total,
                          out=np.zeros(self.cells), where=total > 0)  # fmt: skip
        y = np.where(known, outcome - shift[cell], 0.0)
        powers = np.where(known, entries.powers[:, entered], 0.0)
        spread, own = empty_bins(1, self.cells)
        spread[:], own = math.nan, own[0]
        for at, field in enumerate(OWN_FIELDS):
            if field.plain:
                own[:, at] = math.nan
            elif field.largest:
                np.maximum.at(own[:, at], cell[known], entries.w_max[entered][known])
            elif field.over == "own":
                own[:, at] = np.bincount(cell, entries.n[entered], self.cells)
            elif field.over == "own arrived":
                terms = powers[field.w] * y**field.y if field.monomial else n * np.abs(outcome * (1 - outcome))
                own[:, at] = np.bincount(cell[known], terms[known], self.cells)
        labels = self.arms if self.cells == len(self.arms) and not self.by_cell else None
        if labels is None:
            labels = cell_labels(self.layout.labels, self.arms)
        return Sums(
            arms=labels, weights=self.weights, outcome_model=read_outcome_model("zero"), shift=shift, spread=spread[0],
            own=own,
        )  # fmt: skip

    def _maturity(
        self,
        moment: int | float,
        window: int | float,
        known: AgeReach,
        exposure: Exposure,
        entered: Array,
        events: Happened,
    ) -> Maturity:
        clock, shape = self.clock, (-1, len(self.arms))
        closed = exposure.age >= span_of(self.clock, 0, window)
        n, scale = self.entries.n[entered], span_of(self.clock, 0, 1)
        well = np.nan_to_num(known.well, nan=0.0)[np.isfinite(known.longest)].min(initial=math.inf) / scale

        def counts(cells: Array, weights: Array | None = None) -> Array:
            return np.bincount(cells, weights, self.cells).astype(np.int64).reshape(shape)

        return Maturity(
            window=window,
            asked=window,
            covered=float(well) if well < window else None,
            measure=self.measure,
            closed=counts(exposure.cell[closed], n[closed]),
            open=counts(exposure.cell[~closed], n[~closed]),
            events=counts(exposure.cell[events.entry]),
            effective=known.closed.reshape(shape),
            within=partial(self.sums, moment),
            length=partial(length_on, clock),
            text=partial(length_text, clock),
            scale=length_scale(clock, window),
        )


def _capped(events: Happened, cap: float) -> Array:
    """Return what each event adds to its row's total, if that counts at most as the cap; rows are in order."""
    return Events(events.entry, events.age, events.value, 0, "sum").capped(cap)
