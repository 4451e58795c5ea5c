"""Segments and covariates of a log in memory, from users' columns to numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from belated.base.checks import LEAST_PROBABILITY, NO_DIFFERENCE
from belated.base.columns import Array, Label, TableLike, as_array, is_missing, is_table, locked, names_of, numbers
from belated.base.errors import LogError, argument
from belated.base.text import one_line
from belated.log.labels import plain_label
from belated.summaries.covariates import Covariates
from belated.summaries.segments import MISSING, Layout

#: Different segments that a log may have, before small ones are merged; covariates that it may have.
MOST_DIFFERENT, MOST_COVARIATES = 10_000, 100


class SegmentColumn(NamedTuple):
    """The segment of each row: its position in `labels`."""

    labels: tuple[Label, ...]
    code: Array

    def of_rows(self, rows: Array) -> SegmentColumn:
        """Return the segments of some rows."""
        return SegmentColumn(self.labels, self.code[rows])


def read_segments(segment: object, rows: int) -> SegmentColumn:
    """Return the segments of rows from a column, or the combinations of several: a mapping or a dataframe."""
    if is_table(segment):
        names = names_of(segment)
        if not names:
            raise LogError(f"{argument('segment')} has no columns; it needs at least one.", column="segment")
        columns = [read_segments(_column(segment, name), rows) for name in names]
        return columns[0] if len(columns) == 1 else combined(columns)
    array = as_array("segment", segment)
    if array.ndim != 1:
        raise LogError(
            f"{argument('segment')} has shape {array.shape}; it must have one value for every row.", column="segment"
        )
    if len(array) != rows:
        raise LogError(
            f"{argument('segment')} has {len(array):,} rows but {argument('propensity')} has {rows:,}.",
            column="segment",
        )
    return _encoded(array)


def _column(table: TableLike, name: str) -> object:
    column: object = table[name]
    return column.to_numpy() if hasattr(column, "to_numpy") else column


def _encoded(array: Array) -> SegmentColumn:
    if array.dtype.kind in "Mm":
        array = array.astype(f"{array.dtype.kind}8[us]").astype(object)
    if array.dtype.kind == "O":
        values = [MISSING if is_missing(value) else value for value in array.tolist()]
        try:
            different = list(dict.fromkeys(values))
        except TypeError:
            row = next(i for i, value in enumerate(values) if type(value).__hash__ is None)
            raise LogError.of_row(
                "segment", row, f"is {one_line(repr(values[row]))}; it must be text, a number or another label."
            ) from None
        check_number(len(different))
        labels = tuple(in_order(list(map(plain_label, different))))
        places = {label: place for place, label in enumerate(labels)}
        return SegmentColumn(labels, np.fromiter(map(places.__getitem__, values), dtype=np.int32, count=len(values)))
    labels_, code = np.unique(array, return_inverse=True)
    check_number(len(labels_))
    plain: list[Label] = labels_.tolist()
    if array.dtype.kind == "f" and plain and plain[-1] != plain[-1]:  # NaN is the last
        plain[-1] = MISSING
    return SegmentColumn(tuple(plain), code.astype(np.int32))


def check_number(different: int) -> None:
    """Raise if there are too many different segments."""
    if different > MOST_DIFFERENT:
        raise LogError(
            f"{argument('segment')} has {different:,} different values; at most {MOST_DIFFERENT:,} are possible. "
            "A segment is a group of many rows, such as a country.",
            column="segment",
        )


def in_order(labels: list[Label]) -> list[Label]:
    """Return labels sorted, the missing one last; in order of appearance if they cannot be sorted."""
    known = [label for label in labels if label != MISSING]
    with suppress(TypeError):
        known = sorted(known)  # type: ignore[type-var]
    return known + [label for label in labels if label == MISSING]


def combined(columns: Sequence[SegmentColumn]) -> SegmentColumn:
    """Return the combinations of several columns that occur, such as "DE, mobile"."""
    code = np.zeros(len(columns[0].code), dtype=np.int64)
    for column in columns:
        code = code * len(column.labels) + column.code
    different, places = np.unique(code, return_inverse=True)
    check_number(len(different))
    labels = []
    for number in different.tolist():
        parts = []
        for column in reversed(columns):
            number, place = divmod(number, len(column.labels))
            parts.append(str(column.labels[place]))
        labels.append(", ".join(reversed(parts)))
    if len(set(labels)) != len(labels):  # labels that contain commas
        labels = [f"{label} ({i})" if labels.count(label) > 1 else label for i, label in enumerate(labels)]
    return SegmentColumn(tuple(labels), places.astype(np.int32))


def joined_segments(columns: Sequence[SegmentColumn]) -> SegmentColumn:
    """Return the segments of several logs' rows, one after the other."""
    labels = in_order(list(dict.fromkeys(label for column in columns for label in column.labels)))
    check_number(len(labels))
    places = {label: place for place, label in enumerate(labels)}
    codes = [np.array([places[label] for label in column.labels])[column.code] for column in columns]
    return SegmentColumn(tuple(labels), np.concatenate(codes).astype(np.int32))


def cells_of(layout: Layout, segment: Array, code: Array, arms: int) -> Array:
    """Return the cell of each row, segment * arms + arm, in the type of `code` if it is large enough."""
    cells = len(layout.labels) * arms
    kind = code.dtype if cells <= np.iinfo(code.dtype).max else np.dtype(np.int64)
    first = (layout.place * arms).astype(kind)
    return locked(first[segment] + code.astype(kind, copy=False))


def read_arrival(chance: object, rows: int) -> Array:
    """Return the probabilities that outcomes ever arrive."""
    column = numbers("arrival_probability", chance)
    if len(column) != rows:
        raise LogError(
            f"{argument('arrival_probability')} has {len(column):,} rows but {argument('propensity')} has {rows:,}.",
            column="arrival_probability",
        )
    possible = (column >= LEAST_PROBABILITY) & (column <= 1)
    if not possible.all():
        row = int(possible.argmin())
        raise impossible_arrival(row, column[row])
    return locked(column)


def impossible_arrival(row: int, value: float) -> LogError:
    """Return the error of a probability of arrival that is missing, too small or above 1."""
    return LogError.of_row(
        "arrival_probability", row, f"is {value}; it must be at least {LEAST_PROBABILITY:g} and at most 1."
    )


def read_covariates(covariates: object, rows: int) -> Covariates:
    """Return covariates from a mapping of names to columns, or a dataframe.

    A missing value counts as the mean, with an indicator of its own: 1 where the covariate is missing. Covariates that
    do not vary are left out.
    """
    if not is_table(covariates):
        raise LogError(
            f"{argument('covariates')} is of type {type(covariates).__name__}; it must map names to columns, such as "
            "{'age': [31, 45]}.",
            column="covariates",
        )
    given = names_of(covariates)
    if len(given) > MOST_COVARIATES:
        raise LogError(
            f"{argument('covariates')} has {len(given):,} columns; at most {MOST_COVARIATES} are possible.",
            column="covariates",
        )
    names, values = [], []
    for name in given:
        column = _covariate(str(name), _column(covariates, name), rows)
        names.append(str(name))
        values.append(column)
    return covariates_of(names, values)


def _covariate(name: str, values: object, rows: int) -> Array:
    try:
        column = numbers("covariates", values)
    except LogError as error:
        what = error.worded(lambda *_: f"The covariate {one_line(repr(name))}")
        raise LogError(what, column="covariates", row=error.row) from None
    if len(column) != rows:
        raise LogError(
            f"The covariate {one_line(repr(name))} has {len(column):,} rows but {argument('propensity')} has {rows:,}.",
            column="covariates",
        )
    infinite = np.isinf(column)
    if infinite.any():
        row = int(infinite.argmax())
        raise infinite_covariate(name, row, column[row])
    return column


def infinite_covariate(name: str, row: int, value: float) -> LogError:
    """Return the error of a covariate that is infinite."""
    fault = f"is {value}; it must be finite, or missing."
    what = f"The covariate {one_line(repr(name))}"
    return LogError(f"{what} in row {row} {fault}", column="covariates", row=row, fault=fault, what=what)


class Scaling(NamedTuple):
    """How columns of numbers become covariates: scaled, and with an indicator for a column that has missing values.

    Attributes
    ----------
    names : tuple of str
        The covariates.
    column : tuple of int
        The column that each is made of.
    indicates : tuple of bool
        Whether each says where its column is missing.
    centre, scale : array
    same : dict
        The value of each column that does not vary; NaN if it is always missing.
    """

    names: tuple[str, ...]
    column: tuple[int, ...]
    indicates: tuple[bool, ...]
    centre: Array
    scale: Array
    same: dict[str, float]

    @classmethod
    def of(cls, names: Sequence[str], spans: Sequence[Span]) -> Scaling:
        """Return how to scale columns; those that do not vary are left out."""
        kept: list[tuple[str, int, bool, float, float]] = []
        same = {}
        for i, (name, span) in enumerate(zip(names, spans, strict=True)):
            if span.deviation > NO_DIFFERENCE * span.size:
                kept.append((name, i, False, span.mean, span.deviation))
            else:
                same[name] = span.mean if span.missing < 1 else math.nan
            if 0 < span.missing < 1:
                scale = float(np.sqrt(span.missing * (1 - span.missing)))
                kept.append((_indicator(name), i, True, span.missing, scale))
        return cls(
            names=tuple(name for name, *_ in kept),
            column=tuple(column for _, column, *_ in kept),
            indicates=tuple(indicates for _, _, indicates, *_ in kept),
            centre=np.array([centre for *_, centre, _ in kept]),
            scale=np.array([scale for *_, scale in kept]),
            same=same,
        )

    def covariates(self, columns: Sequence[Array], rows: int) -> Covariates:
        """Return the covariates of rows; a missing value counts as the mean."""
        values = np.empty((rows, len(self.names)))
        for i, (at, indicates, centre, scale) in enumerate(
            zip(self.column, self.indicates, self.centre, self.scale, strict=True)
        ):
            missing = np.isnan(columns[at])
            with np.errstate(over="ignore"):
                values[:, i] = (missing - centre) / scale if indicates else columns[at] / scale - centre / scale
            if not indicates:
                values[missing, i] = 0.0
        return Covariates(self.names, locked(values), self.centre, self.scale, self.same)


class Span(NamedTuple):
    """The size of a column's largest number, its mean and standard deviation, and the share of missing values."""

    size: float
    mean: float
    deviation: float
    missing: float

    @classmethod
    def of(cls, column: Array) -> Span:
        """Return the span of a column in memory."""
        missing = np.isnan(column)
        known = column[~missing] if missing.any() else column
        size = float(np.max(np.abs(known), initial=0.0)) or 1.0
        mean, deviation = (float(np.mean(known / size)), float(np.std(known / size))) if len(known) else (0.0, 0.0)
        share = float(missing.mean()) if len(missing) else 0.0
        return cls(size=size, mean=mean * size, deviation=deviation * size, missing=share)


def covariates_of(names: Sequence[str], columns: Sequence[Array]) -> Covariates:
    """Return scaled covariates, with indicators of missing values."""
    scaling = Scaling.of(names, [Span.of(column) for column in columns])
    return scaling.covariates(columns, len(columns[0]) if columns else 0)


def joined_covariates(parts: Sequence[Covariates]) -> Covariates:
    """Return the covariates of several logs' rows, one after the other."""
    names = _given_names(parts[0])
    if any(set(_given_names(part)) != set(names) for part in parts):
        raise LogError("Parts of one experiment must have the same covariates.", column="covariates")
    columns = [np.concatenate([unscaled(part, name) for part in parts]) for name in names]
    return covariates_of(names, columns)


def scaled_by(every: Covariates, rows: Array | slice) -> Covariates:
    """Return the same covariates of all rows, scaled by some rows alone."""
    columns = {name: unscaled(every, name) for name in _given_names(every)}
    scaling = Scaling.of([*columns], [Span.of(column[rows]) for column in columns.values()])
    return scaling.covariates([*columns.values()], len(every.values))


def _given_names(part: Covariates) -> list[str]:
    """Return the covariates as they were given, without indicators of missing values."""
    every = [*part.names, *part.same]
    indicators = {_indicator(name) for name in every}
    return [name for name in every if name not in indicators]


def _indicator(name: str) -> str:
    return f"{name} is missing"


def unscaled(part: Covariates, name: str) -> Array:
    """Return a covariate as it was given, NaN where it is missing."""

    def values(name: str) -> Array:
        at = part.names.index(name)
        return np.asarray(part.values[:, at] * part.scale[at] + part.centre[at])

    column = np.full(len(part.values), part.same[name]) if name in part.same else values(name)
    if (indicator := _indicator(name)) in part.names:
        column[values(indicator) > 0.5] = np.nan
    return column
