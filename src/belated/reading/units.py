"""Segments and covariates of a table's rows: their columns, a first look at them, and each row's as numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from belated.base.checks import LARGEST_FLOAT, LEAST_PROBABILITY
from belated.base.columns import Array, Label
from belated.base.errors import LogError
from belated.base.text import one_line
from belated.log.segments import (
    MOST_DIFFERENT,
    Scaling,
    SegmentColumn,
    Span,
    check_number,
    impossible_arrival,
    infinite_covariate,
    read_segments,
)
from belated.reading.columns import floats, in_words, label, numbers, value
from belated.reading.engines import fetch, float_literal, library_of
from belated.reading.roles import Roles
from belated.reading.rows_query import RowsQuery, refused, rows_in
from belated.summaries.covariates import Covariates
from belated.summaries.merged_arrival import LEAST_LOG, LEAST_SHARE
from belated.summaries.segments import ALL, MISSING, Layout, lay_out

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

#: Combinations of segment columns up to which the engine turns them into numbers.
_MOST_COMBINATIONS = 64


def unit_columns(table: ir.Table, roles: Roles) -> dict[str, ir.Column]:
    """Return the columns of segments, `s0`, `s1`, ..., of covariates, `x0`, `x1`, ..., and of arrival, `arrive`."""
    columns = {f"s{i}": _label(table[name]) for i, name in enumerate(roles.segment)}
    columns |= {f"x{i}": _number(table[name]) for i, name in enumerate(roles.covariates)}
    if roles.arrival_probability is not None:
        columns["arrive"] = value("arrival_probability", table[roles.arrival_probability])
    return columns


def _label(column: ir.Column) -> ir.Column:
    """Return a segment as text, a number or a truth; NaN, as null, is missing."""
    column = label(column)
    kind = column.type()
    if kind.is_floating():
        return value("segment", column)
    return column if kind.is_integer() or kind.is_boolean() else column.cast("string")


def _number(column: ir.Column) -> ir.Column:
    kind = column.type()
    if kind.is_numeric() or kind.is_boolean() or kind.is_null():
        return value("covariates", column)
    hint = " Text can be a segment." if kind.is_string() else ""
    raise LogError(
        f"The covariate {one_line(repr(column.get_name()))} holds {in_words(kind)}; it must hold numbers.{hint}",
        column="covariates",
    )


@dataclass(frozen=True)
class Units:
    """The segments, and the scale of covariates, from a first look; all batches share them.

    Attributes
    ----------
    layout : Layout
        The segments that are told apart.
    values : tuple of tuples
        The combinations of values of the segment columns.
    segment : SegmentColumn or None
        The log's segments, and the one of each combination.
    missing : int
        The number of rows without a segment.
    names : tuple of str
        The columns of covariates.
    scaling : Scaling or None
        How these become covariates.
    has_arrival : bool
        Whether a column holds the probability that outcomes arrive.
    """

    layout: Layout
    values: tuple[tuple[Label, ...], ...] = ()
    segment: SegmentColumn | None = None
    missing: int = 0
    names: tuple[str, ...] = ()
    scaling: Scaling | None = None
    has_arrival: bool = False

    @property
    def has_cells(self) -> bool:
        """Whether rows have segments or covariates, so that sums are kept by segment."""
        return self.segment is not None or self.scaling is not None

    @property
    def needs_rows_of_events(self) -> Literal["covariates", "arrival_probability"] | None:
        """What sums by period of assignment cannot take into account; None if there is nothing."""
        if self.scaling is not None:
            return "covariates"
        return "arrival_probability" if self.has_arrival else None

    @property
    def covariates(self) -> Covariates | None:
        """The covariates of no rows."""
        return None if self.scaling is None else self.scaling.covariates([np.empty(0)] * len(self.names), 0)

    # ---------------------------------------------------------------- in the engine

    def place(self, rows: ir.Table) -> ir.Column:
        """Return each row's segment, among the segments that are kept apart."""
        last = len(self.layout.labels) - 1
        if self.segment is None or last == 0:
            return rows.code * 0
        places = self.layout.place[self.segment.code].tolist()
        kept = [(values, place) for values, place in zip(self.values, places, strict=True) if place < last]
        return _cases(rows, kept, last)

    def with_arrival(self, rows: ir.Table) -> ir.Table:
        """Return placed rows with `arrive` as estimated in merged segments, if outcomes arrive differently there."""
        arrival = self.layout.arrival
        if arrival is None:
            return rows
        import ibis

        exact, named = partial(float_literal, beside=rows), [rows[name] for name in _segment_names(rows)]
        # rows without a segment belong to the segment whose label is `MISSING`
        segment = [column.fill_null(MISSING) if column.type().is_string() else column for column in named]
        alike = ibis.window(group_by=[*segment, rows.code])
        n, r = (counted.over(alike).cast("float64") for counted in (rows.count(), rows.arrived.count()))
        share, scale = (
            rows.code.cases(*((k, exact(each)) for k, each in enumerate(by_arm)), else_=None)
            for by_arm in (arrival.share, arrival.scale)
        )
        counts = rows.mutate(n_alike=n, r_alike=r, share_alike=share, scale_alike=scale)
        n, own, share = counts.n_alike, counts.r_alike / counts.n_alike, counts.share_alike
        between = n * exact(arrival.between)
        shrunk = share + (own - share) * (between / (between + exact(1.0)))
        none = n * ibis.greatest(exact(1.0) - shrunk, exact(LEAST_SHARE)).ln()
        chance = own * (exact(1.0) - ibis.greatest(none, exact(LEAST_LOG)).exp()) / counts.scale_alike
        estimated = (counts.place == len(self.layout.labels) - 1) & (counts.r_alike > 0)
        return counts.mutate(arrive=estimated.ifelse(chance, exact(1.0)))

    def coded(self, rows: ir.Table) -> ir.Table:
        """Return rows with `segment`, a number, in place of the columns of segments, if they have few values."""
        if self.segment is None or not 1 <= len(self.values) <= _MOST_COMBINATIONS:
            return rows
        *first, (_, last) = zip(self.values, self.segment.code.tolist(), strict=True)
        code = _cases(rows, first, last) if first else rows.code * 0 + last
        return rows.mutate(segment=code.cast("int32")).drop(*_segment_names(rows))

    def covariate(self, rows: ir.Table, at: int) -> ir.Column:
        """Return a covariate of each row, scaled."""
        if self.scaling is None:
            raise ValueError("There are no covariates.")
        column, centre, scale = rows[f"x{self.scaling.column[at]}"], self.scaling.centre[at], self.scaling.scale[at]
        exact = partial(float_literal, beside=rows)
        if self.scaling.indicates[at]:
            return column.isnull().ifelse(exact((1 - centre) / scale), exact(-centre / scale))
        return (column / exact(scale) - exact(centre / scale)).fill_null(exact(0.0))

    # ---------------------------------------------------------------- in memory

    def segments_of(self, record: pa.RecordBatch) -> Array:
        """Return the position of each row's segment among the log's; empty if there are none."""
        if self.segment is None:
            return np.empty(0, dtype=np.int32)
        if "segment" in record.schema.names:
            return numbers(record["segment"], 0).astype(np.int32, copy=False)
        import pyarrow as pa
        import pyarrow.compute as pc

        combined = np.zeros(record.num_rows, dtype=np.int64)
        for i, different in enumerate(self._different):
            column = record[f"s{i}"]
            index = pc.index_in(column, value_set=pa.array(different, type=column.type))
            if index.null_count:
                raise LogError("The segments changed while the table was read; read it again.", column="segment")
            combined = combined * len(different) + numbers(index, 0)
        known, codes = self._numbered
        return np.asarray(codes[np.searchsorted(known, combined)])

    def covariates_of(self, record: pa.RecordBatch) -> Covariates | None:
        """Return the covariates of rows."""
        if self.scaling is None:
            return None
        return self.scaling.covariates([floats(record[f"x{i}"]) for i in range(len(self.names))], record.num_rows)

    @cached_property
    def _different(self) -> list[list[Label]]:
        """The values of each segment column."""
        return [list(dict.fromkeys(column)) for column in zip(*self.values, strict=True)]

    @cached_property
    def _numbered(self) -> tuple[Array, Array]:
        """A number for each combination, sorted, and its segment."""
        number = np.zeros(len(self.values), dtype=np.int64)
        for i, different in enumerate(self._different):
            places = {each: place for place, each in enumerate(different)}
            number = number * len(different) + np.array([places[values[i]] for values in self.values])
        order = np.argsort(number)
        codes = np.empty(0, dtype=np.int32) if self.segment is None else self.segment.code
        return number[order], codes[order]


def _segment_names(rows: ir.Table) -> list[str]:
    return [name for name in rows.columns if name[0] == "s" and name[1:].isdigit()]


def _cases(rows: ir.Table, places: Sequence[tuple[tuple[Label, ...], int]], last: int) -> ir.Column:
    """Return what belongs to each row's values of the segment columns, and `last` if nothing does."""
    library, names = library_of(rows), _segment_names(rows)

    def holds(name: str, each: object) -> ir.Column:
        column = rows[name]
        if each is None:
            return column.isnull()
        return (column == library.literal(each, type=column.type())).fill_null(False)

    branches = []
    for values, place in places:
        condition = holds(names[0], values[0])
        for name, each in zip(names[1:], values[1:], strict=True):
            condition = condition & holds(name, each)
        branches.append((condition, place))
    return library.cases(*branches, else_=last).cast("int32")


# ---------------------------------------------------------------- the first look


def look_at_units(query: RowsQuery, rows: ir.Table, arms: Sequence[Label]) -> Units:
    """Return what segments and covariates are, from a few counts.

    Parameters
    ----------
    query : RowsQuery
    rows : ibis table
        One row for each assignment, with `unit_columns`.
    arms : sequence
        The arms as the engine knows them.
    """
    roles = query.roles
    scaling = None
    if roles.covariates:
        scaling = Scaling.of(roles.covariates, _spans(query, rows, roles.covariates))
    if roles.arrival_probability is not None:
        _refuse_impossible(query, rows)
    units = Units(
        layout=Layout((ALL,), np.zeros(1, np.intp)),
        names=roles.covariates,
        scaling=scaling,
        has_arrival=roles.arrival_probability is not None,
    )
    if not roles.segment:
        return units
    # as in memory, it is not estimated if it is given, nor of events whose windows are open
    return _with_segments(units, rows, roles.segment, arms, estimated=not (units.has_arrival or query.maturing))


def _with_segments(
    units: Units, rows: ir.Table, names: Sequence[str], arms: Sequence[Label], *, estimated: bool
) -> Units:
    """Count rows and outcomes by segment and arm, and lay the segments out; `estimated`: also how outcomes arrive."""
    columns = _segment_names(rows)
    known = [f"p{k}" for k in range(len(arms)) if f"p{k}" in rows.columns]
    chances = {f"most_{name}": rows[name].max() for name in known}
    counts = rows.group_by(*columns, "arm").agg(n=rows.arrived.count(), rows=rows.count(), **chances)
    most = MOST_DIFFERENT * max(len(arms), 1)
    counted = fetch(counts.limit(most + 1))
    if counted.num_rows > most:
        check_number(rows_in(rows.select(*columns).distinct()))
    labels_of_columns = [counted[name].to_pylist() for name in columns]
    different: dict[tuple[Label, ...], int] = {}
    combination = [different.setdefault(values, len(different)) for values in zip(*labels_of_columns, strict=True)]
    values = tuple(different)
    if not values:
        return replace(units, segment=SegmentColumn((), np.empty(0, dtype=np.int32)))
    segment = read_segments({name: _objects([v[i] for v in values]) for i, name in enumerate(names)}, len(values))
    arrived, assigned = np.zeros((2, len(segment.labels), len(arms)), dtype=np.int64)
    places = {arm: k for k, arm in enumerate(arms)}
    code = np.array([places[arm] for arm in counted["arm"].to_pylist()])
    for counts_of, name in ((arrived, "n"), (assigned, "rows")):
        np.add.at(counts_of, (segment.code[combination], code), np.array(counted[name].to_pylist()))
    is_missing = np.array([each == MISSING for each in segment.labels])[segment.code[combination]]
    missing = int(np.array(counted["rows"].to_pylist())[is_missing].sum())

    def offered() -> Array:
        """Return whether each arm ever had a chance in each segment; True if it is not known."""
        possible = np.zeros((len(segment.labels), len(arms)), bool) if known else np.ones(arrived.shape, bool)
        for k, name in enumerate(known):
            np.logical_or.at(possible[:, k], segment.code[combination], floats(counted[f"most_{name}"]) > 0)
        return possible

    layout = lay_out(segment.labels, arrived, offered, assigned if estimated else None)
    return replace(units, layout=layout, values=values, segment=segment, missing=missing)


def _objects(values: Sequence[object]) -> Array:
    """Return values as an array of objects."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _spans(query: RowsQuery, rows: ir.Table, names: Sequence[str]) -> list[Span]:
    """Return the size, mean and deviation of covariates; refuse infinite ones."""
    columns = {f"x{i}": rows[f"x{i}"] for i in range(len(names))}
    ends: dict[str, ir.Value] = {"n": rows.count()}
    for name, column in columns.items():
        ends |= {f"{name}_n": column.count(), f"{name}_low": column.min(), f"{name}_high": column.max()}
    summary = fetch(rows.aggregate(**ends)).to_pylist()[0]
    spans: dict[str, tuple[float, float]] = {}
    for i, name in enumerate(columns):
        low, high = (summary[f"{name}_{end}"] for end in ("low", "high"))
        if low is None:
            spans[name] = 1.0, 0.0
            continue
        if math.isinf(low) or math.isinf(high):
            infinite = (~columns[name].between(-LARGEST_FLOAT, LARGEST_FLOAT)).fill_null(False)
            raise refused(query, rows, columns[name], infinite, partial(infinite_covariate, names[i]))
        spans[name] = max(abs(low), abs(high)) or 1.0, low / 2 + high / 2
    exact = partial(float_literal, beside=rows)
    means: dict[str, ir.Value] = {}
    for name, (size, middle) in spans.items():
        apart = columns[name] / exact(size) - exact(middle / size)
        means |= {f"{name}_first": apart.mean(), f"{name}_second": (apart * apart).mean()}
    moments = fetch(rows.aggregate(**means)).to_pylist()[0]
    result = []
    for name, (size, middle) in spans.items():
        first, second = (moments[f"{name}_{which}"] or 0.0 for which in ("first", "second"))
        deviation = math.sqrt(max(second - first**2, 0.0)) * size
        missing = 1 - summary[f"{name}_n"] / summary["n"] if summary["n"] else 0.0
        result.append(Span(size=size, mean=middle + first * size, deviation=deviation, missing=missing))
    return result


def _refuse_impossible(query: RowsQuery, rows: ir.Table) -> None:
    """Refuse probabilities of arrival that are none, or 0."""
    chance = rows.arrive
    summary = fetch(rows.aggregate(n=rows.count(), known=chance.count(), low=chance.min(), high=chance.max()))
    ends = summary.to_pylist()[0]
    if ends["known"] == ends["n"] and (ends["n"] == 0 or (ends["low"] >= LEAST_PROBABILITY and ends["high"] <= 1)):
        return
    possible = ((chance >= LEAST_PROBABILITY) & (chance <= 1)).fill_null(False)
    raise refused(query, rows, chance, ~possible, impossible_arrival)
