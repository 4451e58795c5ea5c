"""Source: a log that stays where it is, in files or an engine, and is asked for sums."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.backends import expressions, recipe, roles, views
from belated.backends.places import Place, compiled, fetch, place, sentences
from belated.backends.recipe import DUPLICATES, MEASURES, Recipe, read_window
from belated.backends.stream import Batch, OutOfOrderError, stream_sums
from belated.checks import one_of
from belated.columns import Array
from belated.errors import LogError, OptionError
from belated.labels import encode
from belated.log import Log
from belated.outcome_models import OutcomeModel, read_outcome_model
from belated.progress import Bar
from belated.signs import dependence_words, outcome_dependence
from belated.sums import Parts, Sums, SumsSource
from belated.tables import Column, Table, count, one_line
from belated.times import NEVER, Clock
from belated.weights import Weights, read_weights

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: Rows of one batch of a stream.
_BATCH = 1 << 19

#: Arms up to which the engine turns labels into numbers.
_FEW_ARMS = 64

#: Rows from which a scan shows its progress.
_LONG = 5_000_000

_MANY = 65_535

#: The p-value below which arrivals are said to depend on outcomes.
_SURE = 1e-3


def read(
    source: Any,
    outcomes: Any = None,
    *,
    table: str | None = None,
    arm: str | None = None,
    outcome: str | None = None,
    propensity: str | Sequence[str] | Mapping[Any, str] | None = None,
    assigned_at: str | None = None,
    arrived_at: str | None = None,
    delay: str | None = None,
    key: str | tuple[str, str] | None = None,
    arms: Sequence[Any] | None = None,
    as_of: Any = None,
    duplicates: str = "error",
    events: bool | str = False,
    window: Any = None,
) -> Source:
    """Read an experiment from a file, a dataframe or a table of any engine that Ibis speaks to.

    The rows stay where they are: what comes back from `estimate`, `compare` and `trajectory` is computed by the
    engine, or, for files, streamed through the compiled kernel, however many rows there are.

    Parameters
    ----------
    source : path, dataframe or Ibis table
        The assignments, one row each: CSV, Parquet (a file, a folder or a glob), Arrow or Feather, a DuckDB database;
        pandas, polars or pyarrow; or a table of PostgreSQL, Spark, BigQuery and so on by your own Ibis connection.
    outcomes : path, dataframe, Ibis table or name, optional
        The outcomes, or events, if they are in a table of their own; a name is that of a table of the same database.
    table : str, optional
        Which table of a DuckDB database.
    arm, outcome, assigned_at, arrived_at, delay : str, optional
        Names of columns; those that are not given are guessed from common names. `roles` says which they are.
    propensity : str, list or dict, optional
        A column for each arm, as a pattern (``"p_*"``), a list or a dict; one column with a list, struct, map or JSON;
        or the column of the chosen arm's probability.
    key : str or pair of str, optional
        What joins outcomes to assignments: a column of both, or one of each.
    arms : sequence, optional
        The arms, in the order of a list of propensities; those found, sorted, by default.
    as_of : optional
        The moment the experiment is looked at; by default everything that has arrived counts.
    duplicates : {"error", "first", "last", "sum"}
        What to make of different outcomes for one key. The same outcome delivered again counts once.
    events : bool or {"indicator", "count", "sum"}
        The outcomes exist only when they happen, such as purchases. The outcome of an assignment is then whether any
        event happened within the `window`, how many did, or the sum of their values (by default if there are values).
        Only assignments whose window has closed by `as_of` count.
    window : int, float, str or timedelta, optional
        Of events: steps, or a duration such as ``"7d"``, ``"12h"`` or ``"30min"``.

    Returns
    -------
    Source

    Examples
    --------
    >>> import belated as bl, pyarrow as pa
    >>> sent = pa.table({"id": [1, 2, 3], "variant": ["A", "B", "A"], "p_A": [0.5, 0.5, 0.6], "p_B": [0.5, 0.5, 0.4]})
    >>> paid = pa.table({"id": [3, 1], "revenue": [2.0, 4.0]})
    >>> bl.estimate(bl.read(sent, paid), "mean").arm("A").estimate
    3.0
    """
    one_of("duplicates", duplicates, DUPLICATES)
    if isinstance(events, str):
        one_of("events", events, MEASURES)
    if bool(events) != (window is not None):
        missing, there = ("window", "events") if events else ("events", "window")
        raise OptionError(f"`{there}` is given without `{missing}`; events count within a window, such as window='7d'.")
    assignments = place(source, table, role="source")
    deliveries = None if outcomes is None else place(outcomes, beside=assignments, role="outcomes")
    if deliveries is not None and deliveries.engine is not assignments.engine:
        raise OptionError("`source` and `outcomes` must be in one engine: give tables of the same Ibis connection.")
    given = {
        "arm": arm, "outcome": outcome, "propensity": propensity, "assigned_at": assigned_at,
        "arrived_at": arrived_at, "delay": delay, "key": key, "events": bool(events),
    }  # fmt: skip
    found = roles.find(_kinds(assignments), None if deliveries is None else _kinds(deliveries), given)
    assignments, deliveries = _loaded(assignments, deliveries, found)
    measure = None
    if events:
        measure = events if isinstance(events, str) else "indicator" if found.outcome is None else "sum"
        if measure == "sum" and found.outcome is None:
            raise OptionError("`events` is 'sum', but no column holds the events' values; name it with `outcome`.")
        if found.arrived_at is None:
            raise OptionError("Events need the time at which each happened; name its column with `arrived_at`.")
    made = Recipe(
        assignments.table,
        None if deliveries is None else deliveries.table,
        found,
        duplicates,
        measure,
        None if window is None else read_window(window),
        assignments.ordered,
    )
    if arms is None and isinstance(propensity, Mapping):
        arms = list(propensity)
    name = assignments.name if deliveries is None else f"{assignments.name} and {deliveries.name}"
    return Source._open(made, name, arms, as_of)


def _kinds(table: Place) -> dict[str, str]:
    return {**recipe.kinds(table.table), **table.kinds}


def _loaded(assignments: Place, deliveries: Place | None, found: roles.Roles) -> tuple[Place, Place | None]:
    """Read CSV files once, with the types that roles ask for: the first rows do not bind the others."""
    propensity = found.propensity
    chances = () if propensity is None else propensity.columns
    kinds = _kinds(assignments)
    if propensity is not None and propensity.instead is not None:
        chances = (*chances, *propensity.instead.columns)
    numbers = {column: "DOUBLE" for column in chances if kinds[column] in ("integer", "number", "mixed")}
    own = {} if found.outcome is None else {found.outcome: "DOUBLE"}
    if kinds.get(found.assigned_at or "") == "mixed":
        numbers[str(found.assigned_at)] = "DOUBLE"
    later = kinds if deliveries is None else _kinds(deliveries)
    own |= {c: "DOUBLE" for c in (found.arrived_at, found.delay) if c is not None and later[c] == "mixed"}
    own |= {c: "DOUBLE" for c in (found.delay,) if c is not None and later[c] == "other"}
    of_outcome = [c for c in (found.outcome, found.arrived_at, found.delay) if c is not None]
    of_assignment = [c for c in (found.arm, found.assigned_at, found.key, *chances) if c is not None]
    if deliveries is None:
        return assignments.loaded({**numbers, **own}, [*of_assignment, *of_outcome], found.arm), None
    keys = [column for column in (found.key, found.outcome_key) if column is not None]
    first = assignments.loaded({**numbers, **dict.fromkeys(keys[:1], "VARCHAR")}, of_assignment, found.arm)
    second = deliveries.loaded({**own, **dict.fromkeys(keys[1:], "VARCHAR")}, [*of_outcome, *keys[1:]], "")
    return first, second


@dataclass(frozen=True)
class _Facts:
    """What one look at the rows tells."""

    values: tuple[Any, ...]  # the arms as the engine knows them
    assigned: Array
    arrived: Array
    first: int | float
    last: int | float
    came: int | float  # the last arrival

    @property
    def rows(self) -> int:
        return int(self.assigned.sum())

    def among(self, values: Sequence[Any]) -> _Facts:
        """Return the same facts with arms that no row has yet."""
        new = [value for value in values if value is not None and value == value and value not in self.values]
        assigned, arrived = (np.append(n, np.zeros(len(new), dtype=n.dtype)) for n in (self.assigned, self.arrived))
        return replace(self, values=(*self.values, *new), assigned=assigned, arrived=arrived)


class Source(SumsSource, Table):
    """A log that stays where it is; `read` makes it, and `estimate`, `compare` and `trajectory` take it as a `Log`.

    Attributes
    ----------
    arms : tuple
    roles : Roles
        Which column plays which role.
    notes : tuple of str
        What was noticed on reading, such as outcomes that belong to no assignment.
    within : str or None
        Of events, the window in words: the outcome is what happened within it.
    """

    def __init__(
        self,
        made: Recipe,
        name: str,
        arms: tuple[Any, ...],
        moment: int | float | None,
        notes: tuple[str, ...],
        facts: _Facts,
        rows: ir.Table,
        clock: Clock,
    ) -> None:
        self.recipe, self.name, self.arms, self.moment, self.notes = made, name, arms, moment, notes
        self.rows, self.clock, self._facts = rows, clock, facts
        self._shift: Array | None = None
        self._in_order = made.keeps_order  # until it turns out otherwise
        self.within = None if made.window is None else made.window.text
        self.roles = made.roles

    @classmethod
    def _open(cls, made: Recipe, name: str, arms: Sequence[Any] | None, as_of: Any) -> Source:
        """Look at the tables once, and settle arms, propensities and the moment."""
        with sentences(name):
            clock = recipe.clock_of(made.rows(0 if made.measure else None).assigned)
            moment = None if as_of is None or as_of == math.inf else clock.read("as_of", _number(clock, as_of))
            notes = _joining_notes(made, moment) if made.deliveries is not None else []
            if made.measure is not None and moment is None:
                moment = _last_moment(made, clock)
                notes.append(f"As of {clock.text(moment)}, the latest time in the tables.")
            return cls._looked(made, name, arms, moment, clock, tuple(notes))

    @classmethod
    def _looked(
        cls, made: Recipe, name: str, arms: Any, moment: int | float | None, clock: Clock, notes: tuple[str, ...]
    ) -> Source:
        facts = _look(made.rows(moment), clock)
        if not facts.values and arms is None:
            when = "" if moment is None else f" as of {clock.text(moment)}"
            raise LogError(f"The log has no rows{when}; it needs at least one assignment.")
        if moment is not None and arms is None:
            facts = facts.among(fetch(made.arms())["arm"].to_pylist())
        settled = replace(made, roles=made.roles.settled(facts.values or arms or ()))
        labels, columns = _propensities(settled, facts, arms)
        order = [facts.values.index(label) if label in facts.values else None for label in labels]
        values = [facts.values[i] if i is not None else label for i, label in zip(order, labels, strict=True)]
        counts = (np.array([0 if i is None else int(n[i]) for i in order]) for n in (facts.assigned, facts.arrived))
        facts = replace(facts, values=tuple(values), assigned=next(counts), arrived=next(counts))
        rows = settled.rows(moment, columns)
        return cls(settled, name, labels, moment, notes, facts, rows, clock)

    # ---------------------------------------------------------------- what it holds

    def __len__(self) -> int:
        return self._facts.rows

    @property
    def has_all_propensities(self) -> bool:
        """Whether every arm's probability is known, not only the chosen one's."""
        return "p0" in self.rows.columns

    @property
    def as_of(self) -> Any:
        """The moment the log is looked at; None: everything that ever arrived counts."""
        return None if self.moment is None else self.clock.show(self.moment)

    @property
    def is_streamed(self) -> bool:
        """Whether batches are streamed through the kernel; else the engine makes the sums itself."""
        return bool(self.recipe.engine.name == "duckdb")

    @property
    def engine(self) -> str:
        """The name of the engine that holds the rows."""
        return str(self.recipe.engine.name)

    def at(self, as_of: Any) -> Source:
        """Return the same experiment as it stood at another moment."""
        return self.at_number(self.clock.read("as_of", as_of))

    def at_number(self, moment: int | float) -> Source:
        """Return the same experiment as it stood at a moment given as a number of its clock."""
        with sentences(self.name):
            notes = [] if self.recipe.deliveries is None else _joining_notes(self.recipe, moment, checked=True)
            return Source._looked(self.recipe, self.name, self.arms, moment, self.clock, tuple(notes))

    def log(self) -> Log:
        """Return the log in memory."""
        with sentences(self.name):
            batches: list[Batch] = []
            for record in self._records(ordered=False):
                batches.append(self._batch(record))
                batches[-1].check_times(sum(map(len, batches[:-1])))
        if not batches:
            raise LogError("The log has no rows; it needs at least one assignment.")
        columns = {
            field.name: np.concatenate([getattr(batch, field.name) for batch in batches]) for field in fields(Batch)
        }
        return Log.of_numbers(self.arms, **columns, clock=self.clock, moment=self.moment)

    # ---------------------------------------------------------------- sums

    def sums(self, parts: Sequence[Parts], moments: Array | None = None, plain: bool = True) -> list[list[Sums]]:
        """Return, for each pair of weights and outcome model, the sums at each moment; None: as of its own."""
        chosen = [(read_weights(w), read_outcome_model(m)) for w, m in parts]
        for weights, _ in chosen:
            weights.check(self.has_all_propensities)
        if moments is not None and moments[-1] < self.last_look:
            return self.at_number(moments[-1]).sums(chosen, moments, plain)
        planned = self.within is not None and any(w.name == "two_point" for w, _ in chosen)
        if moments is not None and (self.recipe.revises or planned):  # the past is not a part of the present
            each = [self.at_number(moment).sums(chosen, plain=plain) for moment in moments]
            return [[sums[i][-1] for sums in each] for i in range(len(chosen))]
        if any("given" in (w.name, m.name) or w.name == "two_point" for w, m in chosen):
            log = self.log()  # what depends on all rows before, or on arrays of them, needs them all
            if moments is None:
                return [[Sums.of(log, *part, plain=plain)] for part in chosen]
            return [Sums.at(log, moments, *part, plain) for part in chosen]
        with sentences(self.name):
            if not len(self):
                bins = 1 if moments is None else len(moments)
                return [[Sums.empty(self.arms, *part) for _ in range(bins)] for part in chosen]
            if self.is_streamed:
                return self._streamed(chosen, moments, plain)
            return self._computed(chosen, moments, plain)

    def _streamed(
        self, parts: list[tuple[Weights, OutcomeModel]], moments: Array | None, plain: bool
    ) -> list[list[Sums]]:
        """Sort, if need be, and stream batches through the kernel."""
        matters = moments is not None or any(model.name == "running_mean" for _, model in parts)
        ordered = matters and not self._in_order
        try:
            with closing(self._records(ordered)) as records:
                found = stream_sums(
                    records, self._batch, self.arms, parts, self.clock, last=self._facts.last, moments=moments,
                    matured=self.within is not None, plain=plain, in_order=matters,
                )  # fmt: skip
        except OutOfOrderError:
            self._in_order = False
            return self._streamed(parts, moments, plain)
        except LogError as error:
            raise self._located(error, ordered) from None
        self._shift = found[0][-1].shift
        return found

    def _computed(
        self, parts: list[tuple[Weights, OutcomeModel]], moments: Array | None, plain: bool
    ) -> list[list[Sums]]:
        """Let the engine make the sums: one expression each, of which only the sums come back."""
        self._check()
        full, bins = self.has_all_propensities, 1 if moments is None else len(moments)
        sums = []
        for weights, model in parts:
            table = expressions.sums_table(
                self.coded, len(self.arms), weights, model, self.anchors, self.clock, moments,
                self.within is not None,
            )  # fmt: skip
            sums.append(
                expressions.sums_of_table(fetch(table), self.arms, weights, model, self.anchors, full, plain, bins)
            )
        return sums

    @cached_property
    def coded(self) -> ir.Table:
        """The rows, with `code`: the position of each row's arm among `arms`."""
        return expressions.with_codes(self.rows, self._facts.values)

    @cached_property
    def anchors(self) -> Array:
        """An outcome of each arm, about which sums are taken."""
        if self._shift is not None:  # a stream has found them on its way
            return self._shift
        anchors = np.zeros(len(self.arms))
        found = fetch(expressions.anchors(self.coded, len(self.arms))).to_pydict()
        for code, anchor in zip(found["code"], found["anchor"], strict=True):
            anchors[code] = anchor
        return anchors

    def _check(self) -> None:
        """Refuse a row that cannot be, naming it by its key or time."""
        first = fetch(expressions.faulty(self.coded, len(self.arms)).limit(1))
        if not first.num_rows:
            return
        try:
            self._batch(first.to_batches()[0]).check(self.arms, self.clock, 0)
        except LogError as error:
            raise self._named(error, first.to_pylist()[0]) from None
        raise LogError("The table holds a row that cannot be.")

    def _named(self, error: LogError, row: Mapping[str, Any]) -> LogError:
        what = f"the row assigned at {row['assigned']}"
        if row.get("key") is not None:
            what = f"the row of key {one_line(repr(row['key']))}"
        return LogError(str(error).replace(f"in row {error.row}", f"in {what}", 1), column=error.column)

    def _located(self, error: LogError, ordered: bool) -> LogError:
        """Return the error with the row's number in the file, or its key."""
        if error.row is None or (self.recipe.keeps_order and not ordered):
            return error
        before = 0
        with closing(self._records(ordered)) as records:
            for record in records:
                if error.row < before + len(record):
                    return self._named(error, record.slice(error.row - before, 1).to_pylist()[0])
                before += len(record)
        return error

    # ---------------------------------------------------------------- batches

    def _records(self, ordered: bool) -> Generator[Any]:
        """Yield the rows as Arrow batches, in order of assignment if asked for; on a terminal, show how far it is."""
        rows = self.rows
        if self.is_streamed and len(self.arms) <= _FEW_ARMS:  # numbers travel faster than labels
            rows = self.coded.mutate(code=self.coded.code.cast("uint16")).drop("arm")
        rows = rows.order_by("assigned") if ordered else rows
        bar = Bar(len(self), f"{self.name} ") if len(self) > _LONG and sys.stderr.isatty() else None
        done = 0
        try:
            for record in _arrow_batches(self.recipe.engine, rows):
                yield record
                done += record.num_rows
                if bar:
                    bar.show(done)
        finally:
            if bar:
                bar.clear()

    def _batch(self, record: Any) -> Batch:
        """Return Arrow rows as numbers."""
        import pyarrow as pa
        import pyarrow.compute as pc

        n = record.num_rows
        if "code" in record.schema.names:
            codes = record["code"]
        else:
            codes = pc.index_in(record["arm"], value_set=pa.array(self._facts.values, type=record["arm"].type))
        if codes.null_count:
            row = int(np.argmax(codes.is_null().to_numpy(zero_copy_only=False)))
            raise LogError(f"`arm` in row {row} is missing; every row must say which arm it got.", column="arm")
        names = ["p"] if "p" in record.schema.names else [f"p{k}" for k in range(len(self.arms))]
        if "p" in names:
            propensity = _floats(record["p"])
        else:
            propensity = np.empty((n, len(names)))
            for k, name in enumerate(names):
                propensity[:, k] = _floats(record[name])
        return Batch(
            codes.to_numpy(zero_copy_only=False).astype(np.uint16, copy=False),
            _floats(record["outcome"]),
            propensity,
            _moments(record["assigned"], self.clock),
            _moments(record["arrived"], self.clock),
        )

    @property
    def outcome(self) -> str:
        """What the outcome is called."""
        name = self.roles.outcome
        if self.recipe.measure in ("indicator", "count"):
            return {"indicator": "share with an event", "count": "number of events"}[self.recipe.measure]
        return "outcome" if name is None else name

    @property
    def assigned(self) -> Array:
        """How many rows each arm was assigned."""
        return self._facts.assigned

    # ---------------------------------------------------------------- doubts

    @cached_property
    def dependence(self) -> tuple[float, Array]:
        """The test of whether arrival depends on the outcome: its p-value, and by arm in which direction."""
        if self.within is not None or not len(self):
            return math.nan, np.full(len(self.arms), math.nan)
        return outcome_dependence(views.dependence(self))

    def doubts(self) -> list[str]:
        """Return what in the log as a whole speaks against any estimate from it, in words."""
        p_value, z = self.dependence
        return [dependence_words(p_value, z)] if p_value < _SURE else []

    # ---------------------------------------------------------------- time

    @property
    def span(self) -> tuple[int | float, int | float]:
        """When the first and the last row were assigned, as numbers of the clock."""
        return self._facts.first, self._facts.last

    @property
    def last_look(self) -> int | float:
        """The moment up to which outcomes are known: `as_of`, or the last time in the log."""
        if self.moment is not None:
            return self.moment
        return self._facts.last if math.isnan(self._facts.came) else max(self._facts.last, self._facts.came)

    def even_moments(self, how_many: int) -> Array:
        """Return moments evenly spaced over the time of the experiment, the last being when it is looked at."""
        if not len(self):
            raise LogError("The log has no rows as of its moment.")
        facts, last = self._facts, self.last_look
        moments = np.linspace(float(facts.first), float(facts.last), how_many + 1)[1:]
        kind = np.int64 if self.clock.whole or self.clock.unit else np.float64
        moments = np.floor(moments).astype(kind) if kind is np.int64 else moments
        moments[-1] = last
        return np.unique(moments)

    # ---------------------------------------------------------------- display

    def _title(self) -> str:
        facts = self._facts
        share = facts.arrived.sum() / max(facts.rows, 1)
        as_of = "" if self.moment is None else f", as of {self.clock.text(self.moment)}"
        span = f", assigned from {self.clock.text(facts.first)} to {self.clock.text(facts.last)}" if facts.rows else ""
        known = "" if self.has_all_propensities else "; only the chosen arm's propensity is known"
        size = f"{count(facts.rows, 'row')} and {count(len(self.arms), 'arm')}"
        return f"{self.name}, in {self.engine}: {size}, {share:.1%} arrived{span}{as_of}{known}"

    def _columns(self) -> list[Column]:
        facts = self._facts
        with np.errstate(invalid="ignore", divide="ignore"):
            share = (facts.arrived / facts.assigned).tolist()
        return [
            Column("arm", list(self.arms), "label"),
            Column("assigned", facts.assigned.tolist(), "count"),
            Column("arrived", facts.arrived.tolist(), "count"),
            Column("share_arrived", share, "share"),
        ]

    def _notes(self) -> list[str]:
        within = [] if self.within is None else [f"The outcome is what happened within {self.within} of assignment."]
        return [self.roles.line(), *within, *self.notes]


# ---------------------------------------------------------------- looking


def _look(rows: ir.Table, clock: Clock) -> _Facts:
    """Return which arms there are, how many rows each has, and over which time."""
    found = fetch(expressions.arms_found(rows).order_by("arm").limit(_MANY + 1))
    if found.num_rows > _MANY:
        raise LogError(f"`arm` holds more than {_MANY:,} different arms; is it the right column?", column="arm")
    arms = found["arm"].to_pylist()
    missing = [i for i, arm in enumerate(arms) if arm is None or arm != arm]
    if missing:
        n = sum(found["assigned_n"][i].as_py() for i in missing)
        raise LogError(f"`arm` is missing in {count(n, 'row')}; every row must say which arm it got.", column="arm")
    first, last, came = (_moments(found[name].combine_chunks(), clock) for name in ("first", "last", "came"))
    landed = came[came != NEVER] if came.dtype.kind == "i" else came[np.isfinite(came)]
    return _Facts(
        tuple(arms),
        found["assigned_n"].to_numpy(),
        found["arrived_n"].to_numpy(),
        first.min() if len(first) else math.nan,
        last.max() if len(last) else math.nan,
        landed.max() if len(landed) else math.nan,
    )


def _number(clock: Clock, moment: Any) -> Any:
    """Return a moment that was written as text as a number, if the clock's moments are numbers."""
    if clock.unit is None and isinstance(moment, str):
        try:
            return float(moment) if not moment.strip().lstrip("+-").isdigit() else int(moment)
        except ValueError:
            return moment
    return moment


def _last_moment(made: Recipe, clock: Clock) -> int | float:
    found = fetch(made.last_moment())
    ends = [_moments(found[name].combine_chunks(), clock) for name in ("a", "b")]
    known: list[int | float] = [end[0] for end in ends if len(end) and end[0] == end[0] and end[0] != NEVER]
    if not known:
        raise LogError("The log has no rows; it needs at least one assignment.")
    return max(known)


def _joining_notes(made: Recipe, moment: int | float | None, checked: bool = False) -> list[str]:
    """Return what joining shows; refuse keys that do not name one assignment (unless checked), or one outcome."""
    repeated = {"key": []} if checked else fetch(made.repeated_keys().limit(6)).to_pydict()
    key = one_line(repr(made.roles.key))
    if None in repeated["key"]:
        n = repeated["rows"][repeated["key"].index(None)]
        raise LogError(f"Column {key}, for `key`, is missing in {count(n, 'assignment')}.", column="key")
    if repeated["key"]:
        raise LogError(
            f"Column {key}, for `key`, must name one assignment each; several have {_keys(repeated['key'])}.",
            column="key",
        )
    if made.measure is None and made.duplicates == "error":
        clashes = fetch(made.conflicts(moment).limit(6)).to_pydict()["key"]
        if clashes:
            raise LogError(
                f"Different outcomes were delivered for {_keys(clashes)}; say which counts with `duplicates`: first, "
                "last or sum.",
                column="outcome",
            )
    strays = fetch(made.strays(moment).count().as_table())[0][0].as_py()
    what = "outcome" if made.measure is None else "event"
    if not strays:
        return []
    told = "belongs to no assignment and was" if strays == 1 else "belong to no assignment and were"
    return [f"{count(strays, what)} {told} left out."]


def _keys(keys: list[Any]) -> str:
    listed = ", ".join(one_line(repr(key)) for key in keys[:5])
    return f"key {listed}" if len(keys) == 1 else f"keys {listed}{' and more' if len(keys) > 5 else ''}"


def _propensities(
    made: Recipe, facts: _Facts, arms: Sequence[Any] | None
) -> tuple[tuple[Any, ...], Callable[[ir.Table], Mapping[str, ir.Column]]]:
    """Return the arms' labels, and a function that makes their columns of propensities from the assignments."""
    from belated.backends import propensities

    found = made.roles.propensity
    if found is None:
        raise OptionError("`propensity` must say where the probabilities are that the policy gave to the arms.")
    table = made.assignments
    values = np.empty(len(facts.values), dtype=object)
    values[:] = facts.values
    if found.kind == "chosen":
        _, labels = encode(values, arms, None)
        return labels, lambda t: {"p": recipe.number("propensity", t[found.columns[0]])}
    if found.kind == "wide":
        owners = dict(zip(found.labels or (), found.columns, strict=True))
        if found.extra and arms is None:
            owners = _with_extra(table, owners, dict(found.extra))
        named = list(owners) if arms is None else list(arms)
        _, labels = encode(values, sorted(named, key=_order) if arms is None else named, len(named))
        texts = {str(label): column for label, column in owners.items()}
        absent = next((label for label in labels if str(label) not in texts), None)
        if absent is not None:
            raise LogError(f"No column holds the propensity of arm {one_line(repr(absent))}.", column="propensity")
        chosen = [texts[str(label)] for label in labels]
        return labels, lambda t: {f"p{k}": recipe.number("propensity", t[c]) for k, c in enumerate(chosen)}
    column = found.columns[0]
    known = propensities.keys(table[column])
    if known is None:
        raise LogError(f"Column {one_line(repr(column))}, for `propensity`, is empty.", column="propensity")
    if isinstance(known, int):
        size = known
        _, labels = encode(values, arms, size)

        def listed(t: ir.Table) -> Mapping[str, ir.Column]:
            right = propensities.length(t[column]) == size
            return {f"p{k}": right.ifelse(p, None) for k, p in enumerate(propensities.columns(t[column], size))}

        return labels, listed
    names = known
    texts = {str(value): value for value in facts.values}
    unknown = next((text for text in texts if text not in names), None)
    if arms is None:
        everyone = [*facts.values, *(name for name in names if name not in texts)]
        if unknown is not None:
            raise LogError(
                f"Column {one_line(repr(column))}, for `propensity`, names {_keys(names)[5:]}, not the arm "
                f"{one_line(repr(texts[unknown]))}.",
                column="propensity",
            )
        arms = sorted(everyone, key=_order)
    _, labels = encode(values, arms, len(arms))
    wanted = [str(label) for label in labels]
    absent = None if table[column].type().is_struct() else 0.0
    return labels, lambda t: {f"p{k}": p for k, p in enumerate(propensities.columns(t[column], wanted, absent=absent))}


def _order(label: Any) -> tuple[int, Any]:
    """Sort numbers as numbers, and everything else as text."""
    return (0, label) if isinstance(label, (int, float)) else (1, str(label))


def _with_extra(table: ir.Table, owners: dict[Any, str], extra: dict[Any, str]) -> dict[Any, str]:
    """Take columns named like those of the arms as arms never chosen, if the first rows sum to 1 only with them."""
    names = [*owners.values(), *extra.values()]
    some = fetch(table.select(*names).limit(100))
    columns = [_floats(some[name].combine_chunks().cast("float64")) for name in names]
    alone = np.sum(columns[: len(owners)], axis=0)
    together = np.sum(columns, axis=0)
    are_arms = np.abs(alone - 1).max(initial=0) > 1e-6 and np.abs(together - 1).max(initial=0) <= 1e-6
    return {**owners, **extra} if are_arms else owners


# ---------------------------------------------------------------- Arrow to numbers


def _arrow_batches(engine: Any, rows: ir.Table) -> Generator[Any]:
    """Yield record batches; from DuckDB without the copy, and the whole result in memory, that Ibis would make."""
    if engine.name != "duckdb":
        yield from fetch(rows).to_batches()
        return
    relation = engine.con.sql(compiled(rows))
    with (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)(_BATCH) as reader:
        yield from reader


def _floats(column: Any) -> Array:
    """Return an Arrow column of floats; null is NaN."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _moments(column: Any, clock: Clock) -> Array:
    """Return Arrow times as numbers of a clock; null is NEVER or NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if clock.unit is None and not clock.whole:
        return _floats(column.cast("float64"))
    numbers = (column if clock.unit is None else column.cast(pa.timestamp(clock.unit))).cast("int64")
    if numbers.null_count:
        numbers = pc.fill_null(numbers, NEVER)
    return np.asarray(numbers.to_numpy(zero_copy_only=False))
