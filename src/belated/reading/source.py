"""Source: a log that stays where it is, in files or an engine, and is asked for sums."""

from __future__ import annotations

import math
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.base.columns import Array
from belated.base.errors import LogError, OptionError
from belated.base.progress import Bar
from belated.base.tables import Column, Table
from belated.base.text import count, one_line
from belated.log.clock import Clock
from belated.log.data import Data
from belated.log.log import Log
from belated.reading import evidence_query, recipe
from belated.reading import sums_query as expressions
from belated.reading.arrow import arrow_batches, clock_times, floats
from belated.reading.engines import fetch, sentences
from belated.reading.first_look import (
    Facts,
    as_moment,
    joining_notes,
    last_moment,
    look,
    propensity_columns,
    refuse_nan,
    silent_notes,
)
from belated.reading.recipe import Recipe
from belated.reading.stream import Batch, OutOfOrderError, stream_sums
from belated.summaries import signs
from belated.summaries.evidence import SHARE_WITH_EVENT, Evidence
from belated.summaries.outcome_models import OutcomeModel, read_outcome_model
from belated.summaries.sums import Parts, Sums, SumsOf
from belated.summaries.weights import Weights, read_weights

if TYPE_CHECKING:
    import ibis.expr.types as ir


#: Arms up to which the engine turns labels into numbers.
_FEW_ARMS = 64

#: Rows from which a scan shows its progress.
_LONG = 5_000_000


class Source(Data, Table):
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
        facts: Facts,
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
    def opened(cls, made: Recipe, name: str, arms: Sequence[Any] | None, as_of: Any) -> Source:
        """Look at the tables once, and settle arms, propensities and the moment."""
        with sentences(name):
            clock = recipe.clock_of(made.rows(0 if made.measure else None).assigned)
            moment = None if as_of is None or as_of == math.inf else clock.read("as_of", as_moment(clock, as_of))
            refuse_nan(made)
            notes = joining_notes(made, moment) if made.deliveries is not None else []
            if made.measure is not None and moment is None:
                moment, event = last_moment(made, clock)
                ends = "" if event == moment else f"; the last event is of {clock.text(event)}"
                notes.append(f"As of {clock.text(moment)}, the latest time in the tables{ends}.")
            notes += silent_notes(made)
            return cls._looked(made, name, arms, moment, clock, tuple(notes))

    @classmethod
    def _looked(
        cls, made: Recipe, name: str, arms: Any, moment: int | float | None, clock: Clock, notes: tuple[str, ...]
    ) -> Source:
        facts = look(made.rows(moment), clock)
        if not facts.values and arms is None:
            when = "" if moment is None else f" as of {clock.text(moment)}"
            raise LogError(f"The log has no rows{when}; it needs at least one assignment.")
        if moment is not None and arms is None:
            facts = facts.among(fetch(made.arms())["arm"].to_pylist())
        if arms is not None:  # as text, from a command line
            texts = {str(value): value for value in facts.values}
            arms = [texts.get(arm, arm) if isinstance(arm, str) else arm for arm in arms]
        others = [arm for arm in arms or () if arm not in facts.values]
        try:
            found = made.roles.settled([*facts.values, *others])
        except LogError:
            if not (facts.values and others):
                raise
            found = made.roles.settled(facts.values)  # which arm has no column is said below
        settled = replace(made, roles=found)
        labels, columns = propensity_columns(settled, facts, arms)
        order = [facts.values.index(label) if label in facts.values else None for label in labels]
        values = [facts.values[i] if i is not None else label for i, label in zip(order, labels, strict=True)]
        counts = np.array([0 if i is None else int(facts.assigned[i]) for i in order])
        facts = replace(facts, values=tuple(values), assigned=counts)
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
            notes = [] if self.recipe.deliveries is None else joining_notes(self.recipe, moment, checked=True)
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

    def sums(
        self, parts: Sequence[Parts], moments: Array | None = None, *, plain: bool = True, history: Sequence[Log] = ()
    ) -> list[list[Sums]]:
        """Return, for each pair of weights and outcome model, the sums at each moment; None: as of its own."""
        if history:
            raise OptionError("`history` goes with a Log in memory; `log()` brings a table into it.")
        chosen = [(read_weights(w), read_outcome_model(m)) for w, m in parts]
        for weights, _ in chosen:
            weights.check(self.has_all_propensities)
        if moments is not None and moments[-1] < self.last_look:
            return self.at_number(moments[-1]).sums(chosen, moments, plain=plain)
        planned = self.within is not None and any(weights.cumulative for weights, _ in chosen)
        if moments is not None and (self.recipe.revises or planned):  # the past is not a part of the present
            each = [self.at_number(moment).sums(chosen, plain=plain) for moment in moments]
            return [[sums[i][-1] for sums in each] for i in range(len(chosen))]
        if any(weights.needs_rows or model.name == "given" for weights, model in chosen):
            return self.log().sums(chosen, moments, plain=plain)
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
        matters = moments is not None or any(model.learns for _, model in parts)
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
            about = SumsOf(self.arms, weights, model, full, plain)
            sums.append(expressions.sums_of_table(fetch(table), about, self.anchors, bins))
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
        return error.at(what)

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
        rows = rows if self.within is None else rows.drop("first")
        rows = rows.order_by("assigned") if ordered else rows
        bar = Bar(len(self), f"{self.name} ") if len(self) > _LONG and sys.stderr.isatty() else None
        done = 0
        try:
            for record in arrow_batches(self.recipe.engine, rows):
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
            propensity = floats(record["p"])
        else:
            propensity = np.empty((n, len(names)))
            for k, name in enumerate(names):
                propensity[:, k] = floats(record[name])
        return Batch.of(
            code=codes.to_numpy(zero_copy_only=False).astype(np.uint16, copy=False),
            outcome=floats(record["outcome"]),
            propensity=propensity,
            assigned=clock_times(record["assigned"], self.clock),
            arrived=clock_times(record["arrived"], self.clock),
        )

    @property
    def outcome_name(self) -> str:
        """What the outcome is called."""
        if self.recipe.measure == "indicator":
            return SHARE_WITH_EVENT
        if self.recipe.measure == "count":
            return "number of events"
        return self.roles.outcome or "outcome"

    @property
    def columns(self) -> Mapping[str, Any]:
        """Which column plays which role."""
        return self.roles.to_dict()

    @property
    def how_read(self) -> list[tuple[str, str]]:
        """What a report says of where the rows are and how they were summed, as names and values."""
        how = "streamed through the compiled kernel" if self.is_streamed else "sums computed by the engine"
        return [
            ("source", self.name),
            ("columns", self.roles.line(options=False).removeprefix("columns: ")),
            ("rows", count(len(self), "row")),
            ("as of", self.as_of_text or "everything that has arrived"),
            ("engine", f"{self.engine}, {how}"),
        ]

    @property
    def assigned(self) -> Array:
        """How many rows each arm was assigned."""
        return self._facts.assigned

    @cached_property
    def arrived(self) -> Array:
        """How many of them have an outcome."""
        with sentences(self.name):
            rows = self.coded
            found = fetch(rows.group_by("code").agg(n=rows.arrived.count())).to_pydict()
        arrived = np.zeros(len(self.arms), dtype=np.int64)
        arrived[found["code"]] = found["n"]
        return arrived

    # ---------------------------------------------------------------- doubts

    def evidence(self) -> Evidence:
        """Return the counts and sums from which every check is read."""
        return evidence_query.evidence(self)

    @cached_property
    def _doubts(self) -> list[str]:
        if self.within is not None or not len(self):
            return []
        return signs.doubts(evidence_query.dependence(self))

    def doubts(self) -> list[str]:
        """Return what in the log as a whole speaks against any estimate from it, in words."""
        return list(self._doubts)

    def doubts_when_estimated(self) -> list[str]:
        """Return the same: tables are looked at whenever they are estimated from."""
        return self.doubts()

    def oddities(self) -> list[str]:
        """Return what in the tables looks like a mistake in them, or in how they were read, in words."""
        if not len(self):
            return []
        calibration = evidence_query.calibration(self, evidence_query.early(self))
        return signs.oddities(calibration, evidence_query.recorded(self) if self.within is None else None)

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
        share = self.arrived.sum() / max(facts.rows, 1)
        as_of = "" if self.moment is None else f", as of {self.clock.text(self.moment)}"
        span = f", assigned from {self.clock.text(facts.first)} to {self.clock.text(facts.last)}" if facts.rows else ""
        known = "" if self.has_all_propensities else "; only the chosen arm's propensity is known"
        size = f"{count(facts.rows, 'row')} and {count(len(self.arms), 'arm')}"
        return f"{self.name}, in {self.engine}: {size}, {share:.1%} arrived{span}{as_of}{known}"

    def _columns(self) -> list[Column]:
        with np.errstate(invalid="ignore", divide="ignore"):
            share = (self.arrived / self.assigned).tolist()
        return [
            Column("arm", list(self.arms), "label"),
            Column("assigned", self.assigned.tolist(), "count"),
            Column("arrived", self.arrived.tolist(), "count"),
            Column("share_arrived", share, "share"),
        ]

    def _notes(self) -> list[str]:
        within = [] if self.within is None else [f"The outcome is what happened within {self.within} of assignment."]
        return [self.roles.line(), *within, *self.notes]
