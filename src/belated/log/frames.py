"""Reading columns of any dataframe that Narwhals supports."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
from narwhals.exceptions import NarwhalsError

from belated.base.checks import nearest, no_name
from belated.base.columns import Array, ByArm, Label, decoded, is_missing, numbers
from belated.base.errors import LogError, argument
from belated.log.labels import given_arms
from belated.log.splits import UNIFORM, is_split

#: Narwhals' name for a dataframe of any library, and for a column of it.
NarwhalsFrame: TypeAlias = nw.DataFrame[Any]
NarwhalsSeries: TypeAlias = nw.Series[Any]


def read_frame(
    frame: object,
    names: Mapping[str, str | None],
    propensity: str | Sequence[str] | ByArm[str] | ByArm[float],
    arms: Sequence[Label] | None,
) -> tuple[dict[str, Array], Array | ByArm[float] | str, Sequence[Label] | None]:
    """Return the columns that `names` names, the propensities, and the order of the arms, as `Log` takes them."""
    table = _table(frame)
    columns = {role: _values(_column(table, role, name)) for role, name in names.items() if name is not None}
    if is_split(propensity):
        return columns, propensity, arms
    if isinstance(propensity, str) and propensity == UNIFORM and UNIFORM not in table.columns:
        return columns, UNIFORM, arms  # no column: it is declared
    if isinstance(propensity, Mapping):
        arms = list(propensity) if arms is None else arms
        unnamed = [arm for arm in arms if arm not in propensity]
        if unnamed:
            raise LogError(f"{argument('propensity')} has no column for arm {unnamed[0]!r}.", column="propensity")
        chances = _matrix([_column(table, "propensity", str(propensity[arm])) for arm in arms])
    elif isinstance(propensity, Sequence) and not isinstance(propensity, str):
        series = [_column(table, "propensity", name) for name in propensity]
        places, arms = _in_order([str(name) for name in propensity], columns["arm"], arms)
        chances = _matrix([series[k] for k in places])
    else:
        column = _column(table, "propensity", propensity)
        if isinstance(column.dtype, nw.Struct):  # a probability for each name
            fields = [field.name for field in column.dtype.fields]
            order = match(fields, columns["arm"]) if arms is None else arms
            named = dict(zip(order, fields, strict=True)) if arms is None else {arm: str(arm) for arm in arms}
            if not set(named.values()) <= set(fields):
                raise LogError(
                    f"{argument('propensity')} has the fields {fields!r}; they must be the arms.", column="propensity"
                )
            arms = order
            chances = _matrix([column.struct.field(named[arm]) for arm in arms])
        else:
            chances = _values(column)
            if arms is None and isinstance(arm_type := _column(table, "arm", names["arm"]).dtype, nw.Enum):
                arms = list(arm_type.categories)
    return columns, chances, arms


def read_columns(frame: object, role: str, names: Sequence[str]) -> dict[str, Array]:
    """Return the columns of these names; `role` is for the error if there is none."""
    table, read = _table(frame), _labels if role == "segment" else _values
    return {name: read(_column(table, role, name)) for name in names}


def named_matrix(frame: object, arm: Array, arms: Sequence[Label] | None) -> tuple[Array, Sequence[Label]]:
    """Return a dataframe of propensities as a matrix, and the arms that its columns name."""
    table = _table(frame)
    names = list(table.columns)
    places, arms = _in_order([str(name) for name in names], arm, arms)
    return _matrix([table.get_column(names[k]) for k in places]), arms


def _table(frame: Any) -> NarwhalsFrame:
    try:
        native = nw.from_native(frame)
        table = native.collect() if isinstance(native, nw.LazyFrame) else native
        _ = table.columns
    except TypeError:
        raise LogError(f"{type(frame).__name__} is not a dataframe that Narwhals supports.") from None
    except NarwhalsError as error:
        raise LogError(f"The dataframe cannot be read: {' '.join(str(error).split())}") from None
    return table


def _column(table: NarwhalsFrame, role: str, name: str | None) -> NarwhalsSeries:
    if not isinstance(name, Hashable):
        raise no_name(role, name)
    if name is None or name not in table.columns:
        near = nearest(name, table.columns)
        hint = f" Did you mean {near!r}?" if near else ""
        known = ", ".join(map(repr, table.columns))
        raise LogError(f"There is no column {name!r} for {argument(role)}; the columns are {known}.{hint}", column=role)
    return table.get_column(name)


def _values(series: NarwhalsSeries) -> Array:
    if series.implementation.is_pyarrow() and isinstance(series.dtype, nw.Categorical):
        series = nw.from_native(decoded(series.to_native()), series_only=True)
    dtype = series.dtype
    if isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if isinstance(dtype, (nw.Int128, nw.UInt128)) or (isinstance(dtype, nw.Decimal) and dtype.scale == 0):
        if series.null_count() < len(series) and max(abs(series.min()), abs(series.max())) >= 2**63:
            return np.array([None if is_missing(x) else int(x) for x in series.to_list()], dtype=object)
        series = series.cast(nw.Int64())
        dtype = series.dtype
    if isinstance(dtype, nw.Decimal):
        series = series.cast(nw.Float64())
    if isinstance(dtype, nw.Date):
        series = series.cast(nw.Datetime("ms"))
    if dtype.is_integer() and series.null_count():
        if series.null_count() < len(series) and max(abs(series.min()), abs(series.max())) > 2**53:
            return np.array(series.to_list(), dtype=object)  # too long for floats
        series = series.cast(nw.Float64())
    return _decoded(np.asarray(series.to_numpy()))


def _decoded(values: Array) -> Array:
    """Return bytes as text, which not all tables say that they are; other values as they are."""
    if values.dtype.kind != "O" or not isinstance(next((x for x in values if not is_missing(x)), None), bytes):
        return values
    texts = [x.decode(errors="backslashreplace") if isinstance(x, bytes) else x for x in values]
    return np.array(texts, dtype=object)


def _labels(series: NarwhalsSeries) -> Array:
    """Return a column of labels: dates stay dates, and whole numbers are whole beside missing ones, too."""
    if isinstance(series.dtype, nw.Date) or (series.dtype.is_integer() and series.null_count()):
        return np.array(series.to_list(), dtype=object)
    return _values(series)


def _matrix(series: Sequence[NarwhalsSeries]) -> Array:
    matrix = np.empty((len(series[0]) if series else 0, len(series)))
    for k, column in enumerate(series):
        try:
            matrix[:, k] = numbers("propensity", _values(column))
        except LogError as error:
            raise LogError(f"Column {column.name!r}: {error}", column="propensity", row=error.row) from None
    return matrix


def _in_order(columns: list[str], arm: Array, arms: Sequence[Label] | None) -> tuple[Sequence[int], Sequence[Label]]:
    """Return the positions of propensity columns in the order of the arms, and the arms.

    If `arms` are given, but the columns are not named after them, their order is that of the columns.
    """
    if (arms := given_arms(arms)) is None:
        return range(len(columns)), match(columns, arm)
    owners = _owners(columns, arms)
    return range(len(columns)) if owners is None else [owners.index(label) for label in arms], arms


def match(columns: list[str], arm: Array) -> list[Label]:
    """Match propensity columns to arms: an arm's column is the only one whose name ends, or begins, with its label."""
    different = dict.fromkeys(np.asarray(arm).tolist())
    owners = _owners(columns, [label for label in different if not is_missing(label)])  # that is refused later
    if owners is not None:
        return owners
    raise LogError(
        "The propensity columns cannot be matched to the arms by name; "
        "map arms to columns, for example propensity={'A': 'p_A', 'B': 'p_B'}.",
        column="propensity",
    )


def _owners(columns: Sequence[str], arms: Sequence[Label]) -> list[Label] | None:
    """Return the arm that each column is named after; None if names do not tell."""
    labels = {str(label): label for label in arms}
    for fits in (str.__eq__, str.endswith, str.startswith):
        # if several labels fit one name, such as 1 and 11 for p_11, the longest is meant
        owners = [max((text for text in labels if fits(name, text)), key=len, default=None) for name in columns]
        if set(labels) <= set(owners) and len(set(owners)) == len(owners) == len(labels):
            return [labels[text] for text in owners if text is not None]
    return None
