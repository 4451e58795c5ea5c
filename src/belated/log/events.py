"""`Events`: what happened after assignments and when, and the sums of a log whose windows are still open."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from belated.base.checks import LARGEST_OUTCOME
from belated.base.columns import Array, as_array, is_table, locked, names_of, numbers
from belated.base.errors import LogError, OptionError, argument
from belated.base.text import one_line
from belated.log.clock import NEVER, Clock, read_times
from belated.log.durations import WindowLike, length_on, length_scale, length_text, read_window
from belated.log.row_summaries import row_weights, sums_of_rows
from belated.summaries.cohorts import Exposed, cohort_scores
from belated.summaries.evidence import CohortEvidence
from belated.summaries.maturing import AgeReach, Exposure, Happened, Maturity, Measure, matured_outcomes, reach
from belated.summaries.outcome_models import read_outcome_model
from belated.summaries.sums import Parts, Sums, with_cap
from belated.summaries.weights import Weights, read_weights

if TYPE_CHECKING:
    from belated.log.log import Log


class Events(NamedTuple):
    """Events within a window after the assignments of a log, by row and age.

    The values add up to the outcome: the only event of an indicator is the first, with value 1.
    """

    row: Array
    age: Array  # since the assignment, in numbers of the clock
    value: Array
    window: int | float
    measure: Measure
    lag: int | float = 0  # the longest time from an event to its record

    @classmethod
    def of(
        cls, row: Array, age: Array, value: Array, window: int | float, measure: Measure, lag: int | float = 0
    ) -> Events:
        """Return the events within the window, in order of row and age; what an indicator or a count needs of them."""
        inside = np.flatnonzero((age >= 0) & (age <= window))
        inside = inside[np.lexsort((age[inside], row[inside]))]
        row = row[inside]
        if measure == "indicator":
            first = np.append(True, row[1:] != row[:-1]) if len(row) else np.zeros(0, bool)
            inside, row = inside[first], row[first]
        value = value[inside] if measure == "sum" else np.ones(len(inside))
        return cls(locked(row), locked(age[inside].astype(float)), locked(value), window, measure, lag)

    def totals(self, rows: int) -> Array:
        """Return the outcome of each row at the end of its window."""
        return np.bincount(self.row, self.value, rows).astype(float)

    def within(self, window: int | float) -> Events:
        """Return the events of a shorter window."""
        return Events.of(self.row, self.age, self.value, window, self.measure, self.lag)

    def only(self, rows: Array) -> Events:
        """Return the events of some rows, numbered anew; `rows` has a boolean for each row."""
        kept = rows[self.row]
        row = (np.cumsum(rows) - 1)[self.row[kept]]
        return self._replace(row=locked(row), age=locked(self.age[kept]), value=locked(self.value[kept]))

    def capped(self, cap: float | None) -> Array:
        """Return the values if an outcome counts at most as the cap: what each event adds to the capped total."""
        if cap is None or not len(self.row):
            return self.value
        starts = np.flatnonzero(np.append(True, self.row[1:] != self.row[:-1]))
        running = np.cumsum(self.value)
        before = np.repeat(running[starts] - self.value[starts], np.diff(np.append(starts, len(self.row))))
        total = np.minimum(running - before, cap)
        earlier = np.append(0.0, total[:-1])
        earlier[starts] = min(0.0, cap)
        return np.asarray(total - earlier)

    def closing(self, assigned: Array) -> Array:
        """Return when the outcome of each row is known."""
        return np.asarray(assigned + self.window + self.lag)


# ---------------------------------------------------------------- reading


def read_events(
    events: object, unit: object, assigned: Array, clock: Clock, window: object, measure: Measure | None, lag: object
) -> tuple[Events, int | float]:
    """Return the events that a user gave as columns `unit`, `age` or `time`, and perhaps `value`.

    Also return the time of the latest, within its window or not; -inf without any.
    """
    given = _columns(events, ("unit", "age", "time", "value"))
    if "unit" not in given or ("age" in given) == ("time" in given):
        raise LogError(
            "`events` must have `unit`, the row of each event, and either `age`, the time since its assignment, or "
            "`time`; `value` is optional.",
            column="events",
        )
    row = _rows_of(given["unit"], unit, len(assigned))
    if measure == "sum" and "value" not in given:
        raise LogError("`measure` is 'sum', but `events` has no `value`.", column="events")
    measure = measure or ("sum" if "value" in given else "indicator")
    value = numbers("value", given["value"]) if "value" in given else np.ones(len(row))
    for name, column in given.items():
        if len(as_array(name, column)) != len(row):
            raise LogError(f"`{name}` of `events` has another length than `unit`, {len(row):,}.", column="events")
    wrong = np.flatnonzero(~(np.abs(value) <= LARGEST_OUTCOME))
    if len(wrong) and measure == "sum":
        raise LogError(f"`value` of event {wrong[0]} is {value[wrong[0]]}; it must be a number.", column="events")
    length = length_on(clock, window)
    age = _ages(given, assigned[row], clock, length)
    missing = np.flatnonzero(~np.isfinite(age))
    if len(missing):
        raise LogError(f"Event {missing[0]} has no time; every event must have one.", column="events")
    happened = assigned[row] + (np.ceil(age).astype(np.int64) if clock.whole else age)
    latest: int | float = happened.max().item() if len(row) else -math.inf
    return Events.of(row, age, value, length, measure, 0 if lag is None else length_on(clock, lag, "lag")), latest


def is_fractional(events: object, *lengths: WindowLike | None) -> bool:
    """Whether the times of events, or the lengths that are given, are not whole numbers by their types."""
    times = [as_array(name, column) for name, column in _columns(events, ("age", "time")).items()]
    known = [read_window(length) for length in lengths if length is not None]
    return any(time.dtype.kind in "fO" and len(time) for time in times) or any(
        isinstance(each.length, float) for each in known
    )


def _columns(events: object, names: Sequence[str]) -> dict[str, object]:
    """Return the columns that there are of these names."""
    if not is_table(events):
        raise LogError(
            f"`events` is of type {type(events).__name__}; it must be a dataframe or a mapping with `unit`, `age` or "
            "`time`, and perhaps `value`.",
            column="events",
        )
    known = names_of(events)
    return {name: events[name] for name in names if name in known}


def _rows_of(unit: object, labels: object, rows: int) -> Array:
    """Return the row of each event: `unit` itself, or its place among the labels of the rows."""
    units = as_array("unit", unit)
    if labels is None:
        if len(units) and (units.dtype.kind not in "iu" or units.min() < 0 or units.max() >= rows):
            raise LogError(
                f"`unit` of `events` must hold row numbers from 0 to {rows - 1:,}; to use other names, give those of "
                "the rows as `unit`.",
                column="unit",
            )
        return units.astype(np.intp)
    names = as_array("unit", labels).tolist()
    if len(names) != rows:
        raise LogError(f"`unit` has {len(names):,} rows but {argument('propensity')} has {rows:,}.", column="unit")
    place = {name: i for i, name in enumerate(names)}
    if len(place) < rows:
        twice = next(name for i, name in enumerate(names) if place[name] != i)
        raise LogError(f"`unit` must be different in every row; {one_line(repr(twice))} is in several.", column="unit")
    row_of = [place.get(name, -1) for name in units.tolist()]
    if -1 in row_of:
        stray = units.tolist()[row_of.index(-1)]
        raise LogError(
            f"`unit` of event {row_of.index(-1)} is {one_line(repr(stray))}, which no row has.", column="unit"
        )
    return np.array(row_of, dtype=np.intp)


def _ages(given: Mapping[str, object], assigned: Array, clock: Clock, window: int | float) -> Array:
    """Return the time from assignment to event, as floats."""
    if not len(assigned):
        return np.empty(0)
    shown, rows = clock.show_many(assigned), len(assigned)
    if "time" in given:
        start, when, other = read_times(shown, given["time"], None, rows)
    else:
        start, when, other = read_times(shown, None, given["age"], rows)
    if start is None or when is None or (other.unit is None) != (clock.unit is None):
        raise LogError("The times of `events` must be of the same kind as those of the rows.", column="events")
    known = when != NEVER if when.dtype.kind == "i" else np.isfinite(when)
    if other.unit is None and "age" in given:
        return np.where(known, numbers("age", given["age"]), math.nan)  # an assignment plus its age would be rounded
    if other.unit is None:
        return np.where(known, ages_at(when, start, window), math.nan)
    age = np.where(known, (when - start).astype(float), math.nan)
    return np.asarray(age * (clock.per_second / other.per_second))


def ages_at(when: Array, assigned: Array, window: int | float) -> Array:
    """Return the ages of events; by these, an event is within the window if it is no later than the window's close."""
    age = (when - assigned).astype(float)
    beyond = np.nextafter(float(window), math.inf)
    return np.asarray(np.where(when <= assigned + window, np.minimum(age, window), np.maximum(age, beyond)))


# ---------------------------------------------------------------- sums


def matured_sums(log: Log, parts: Sequence[Parts], moments: Array | None, *, plain: bool) -> list[list[Sums]]:
    """Return the sums of matured outcomes for each pair of weights and outcome model, at each time.

    As of the log's own time, the window is cut to the longest age that every arm has reached. At given moments it is
    not, so that all are about the same window: an arm without a closed window has no estimate yet.
    """
    choices = [(read_weights(w), read_outcome_model(m)) for w, m in parts]
    for _, model in choices:
        if model.name != "zero":
            raise OptionError(MATURING_ESTIMATORS)
    at = [log] if moments is None else [log if moment == log.moment else log.at_number(moment) for moment in moments]
    return [[_sums_at(each, weights, plain=plain, cut=moments is None) for each in at] for weights, _ in choices]


MATURING_ESTIMATORS = (
    "While windows are open, events are estimated by 'dipw', 'mean' or 'hajek', which have no outcome model; other "
    "estimators need closed windows (maturing=False, or --closed-only)."
)


def _sums_at(log: Log, weights: Weights, *, plain: bool, cut: bool) -> Sums:
    """Return the sums of matured outcomes as of the log's time."""
    events = _events(log)
    exposed = ages_of(log)
    w, h = row_weights(log, weights)
    cells, window = len(log.cell_anchor), events.window
    exposure = Exposure(log.cell[exposed.rows].astype(np.intp), exposed.age, w[exposed.rows])
    known = reach(exposure, exposure.w**2, cells, window)
    if cut and (usable := longest_window(known, log.clock)) < window:
        require_age(usable, log.clock, events.lag)
        shorter = _sums_at(log.within_window(usable), weights, plain=plain, cut=False)
        if shorter.maturing is None:
            return shorter
        return replace(shorter, maturing=replace(shorter.maturing, asked=window))
    happened, values = exposed.events(events, events.capped(log.cap))
    outcome = matured_outcomes(exposure, Happened(happened, exposed.event_age(events), values), cells, float(window))
    outcome[~(known.longest >= window)[exposure.cell]] = math.nan  # no row of the cell has lived so long
    matured = log.with_outcomes(exposed.rows, outcome)
    chosen = weights if h is None else replace(weights, name="given", given=h[exposed.rows], horizon=None)
    sums = sums_of_rows(matured, (chosen, "zero"), None, plain, ())[0]
    sums = sums if sums.weights == weights else _reweighted(sums, weights)
    if log.cap is not None:
        above = np.bincount(log.cell[rows_above(log)].astype(np.intp), minlength=cells).astype(float)
        sums = with_cap([[sums]], log.cap, above[np.newaxis])[0][0]
    return replace(sums, maturing=_maturity(log, known, exposed, weights))


def _reweighted(sums: Sums, weights: Weights) -> Sums:
    """Return sums under the name of the weights that they were made with."""
    segments = sums.segments
    if segments is not None:
        segments = replace(segments, cells=replace(segments.cells, weights=weights))
    return replace(sums, weights=weights, segments=segments)


class Ages(NamedTuple):
    """The rows of a log that had been assigned, the age that each has reached, and which events count by then."""

    rows: Array
    age: Array
    place: Array  # of each row of the log among `rows`; -1: not there
    counts: Array  # whether each event of the log counts

    def events(self, events: Events, values: Array) -> tuple[Array, Array]:
        """Return the place and value of each event that counts."""
        return self.place[events.row[self.counts]], values[self.counts]

    def event_age(self, events: Events) -> Array:
        """Return the age of each event that counts."""
        return np.asarray(events.age[self.counts])


def ages_of(log: Log) -> Ages:
    """Return the ages that rows have reached at the log's as-of time."""
    events = _events(log)
    rows = np.sort(log.existing_rows)
    age = (log.last_look - events.lag - log.assigned_numbers[rows]).astype(float)
    rows, age = rows[age >= 0], np.minimum(age[age >= 0], float(events.window))
    place = np.full(len(log.code), -1)
    place[rows] = np.arange(len(rows))
    at = place[events.row]
    counts = (at >= 0) & (events.age <= np.append(age, -1.0)[at])
    return Ages(rows, age, place, counts)


def cohorts_of(log: Log, events: Events) -> CohortEvidence:
    """Return how the build-up of a log's events goes with the time of assignment."""
    exposed = ages_of(log)
    place, values = exposed.events(events, events.capped(log.cap))
    rows = Exposed(
        log.cell[exposed.rows].astype(np.intp), log.assigned_numbers[exposed.rows], exposed.age,
        np.ones(len(exposed.rows)),
    )  # fmt: skip
    happened = Happened(place, exposed.event_age(events), values)
    shape = len(log.cell_anchor) // len(log.arms), len(log.arms)
    return cohort_scores(rows, happened, shape, lambda age: length_text(log.clock, age))


def rows_above(log: Log) -> Array:
    """Return the rows whose events so far exceed the log's cap."""
    events, counts = _events(log), ages_of(log).counts
    total = np.bincount(events.row[counts], events.value[counts], len(log.code))
    return np.flatnonzero(total > (math.inf if log.cap is None else log.cap))


def _events(log: Log) -> Events:
    if log.events is None:
        raise LogError("The log has no events.")
    return log.events


def longest_window(known: AgeReach, clock: Clock) -> int | float:
    """Return the longest age that rows of every cell have reached."""
    longest = float(np.nanmin(known.longest)) if np.isfinite(known.longest).any() else 0.0
    return math.floor(longest) if clock.whole or clock.unit is not None else longest


def require_age(window: int | float, clock: Clock, lag: int | float) -> None:
    """Raise if no row of some arm has lived at all, so that nothing can be said."""
    if window <= 0:
        since = f" and its lag of {length_text(clock, lag)}" if lag else ""
        raise LogError(
            f"Some arm has no row that has lived beyond its assignment{since}; wait, or give a later "
            f"{argument('as_of')}."
        )


def _sums_within(log: Log, weights: Weights, window: int | float) -> Sums:
    """Return the sums for a shorter window."""
    return _sums_at(log.within_window(window), weights, plain=False, cut=False)


def _maturity(log: Log, known: AgeReach, exposed: Ages, weights: Weights) -> Maturity:
    events = _events(log)
    cell, shape = log.cell[exposed.rows].astype(np.intp), (len(log.cell_anchor) // len(log.arms), len(log.arms))
    closed = exposed.age >= events.window
    well = np.nan_to_num(known.well, nan=0.0)[np.isfinite(known.longest)].min(initial=math.inf)
    happened = cell[exposed.place[events.row[exposed.counts]]]

    def counts(cells: Array) -> Array:
        return np.bincount(cells, minlength=len(log.cell_anchor)).reshape(shape)

    return Maturity(
        window=events.window,
        asked=events.window,
        covered=float(well) if well < events.window else None,
        measure=events.measure,
        closed=counts(cell[closed]),
        open=counts(cell[~closed]),
        events=counts(happened),
        effective=known.closed.reshape(shape),
        within=partial(_sums_within, log, weights),  # not functions of here, so that estimates can be pickled
        length=partial(length_on, log.clock),
        text=partial(length_text, log.clock),
        scale=length_scale(log.clock, events.window),
    )
