"""Columns of any dataframe that Narwhals knows, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import narwhals as nw
import numpy as np

from belated.columns import Array
from belated.errors import LogError


def read_frame(
    frame: Any,
    names: Mapping[str, str | None],
    propensity: str | Sequence[str] | Mapping[Any, str],
    arms: Sequence[Any] | None,
) -> tuple[dict[str, Any], Sequence[Any] | None]:
    """Return the arguments of `Log` that `names` and `propensity` find in `frame`, and the arms' order."""
    try:
        native = nw.from_native(frame)
    except TypeError:
        raise LogError(f"{type(frame).__name__} is not a dataframe that Narwhals knows.") from None
    table = native.collect() if isinstance(native, nw.LazyFrame) else native
    columns: dict[str, Any] = {
        role: _values(_column(table, role, name)) for role, name in names.items() if name is not None
    }
    if arms is None:
        arms = _categories(_column(table, "arm", str(names["arm"])))
    if isinstance(propensity, Mapping):
        if arms is None:
            arms = list(propensity)
        unnamed = [arm for arm in arms if arm not in propensity]
        if unnamed:
            raise LogError(f"`propensity` names no column for arm {unnamed[0]!r}.", column="propensity")
        columns["propensity"] = _matrix(table, [propensity[arm] for arm in arms])
    elif isinstance(propensity, str):
        columns["propensity"] = _values(_column(table, "propensity", propensity))
    else:
        if arms is None:
            arms = _match(list(propensity), columns["arm"])
        columns["propensity"] = _matrix(table, list(propensity))
    return columns, arms


def _column(table: nw.DataFrame[Any], role: str, name: str) -> nw.Series[Any]:
    if name not in table.columns:
        near = get_close_matches(str(name), list(map(str, table.columns)), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known = ", ".join(map(repr, table.columns))
        raise LogError(f"There is no column {name!r} for `{role}`; the columns are {known}.{hint}", column=role)
    return table.get_column(name)


def _values(series: nw.Series[Any]) -> Array:
    dtype = series.dtype
    if isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if isinstance(dtype, nw.Decimal):
        series = series.cast(nw.Float64())
    if isinstance(dtype, nw.Date):
        series = series.cast(nw.Datetime("ms"))
    if isinstance(dtype, (nw.Categorical, nw.Enum)):
        series = series.cast(nw.String())
    if dtype.is_integer() and series.null_count():
        if max(abs(series.min()), abs(series.max())) > 2**53:  # too long for floats
            return np.array(series.to_list(), dtype=object)
        series = series.cast(nw.Float64())
    return np.asarray(series.to_numpy())


def _categories(series: nw.Series[Any]) -> list[Any] | None:
    """An ordered list of labels, where the column itself has one."""
    if isinstance(series.dtype, nw.Enum):
        return list(series.dtype.categories)
    return None


def _matrix(table: nw.DataFrame[Any], names: Sequence[str]) -> Array:
    matrix = np.empty((len(table), len(names)))
    for k, name in enumerate(names):
        matrix[:, k] = _values(_column(table, "propensity", name))
    return matrix


def _match(columns: list[str], arm: Array) -> list[Any]:
    """Match propensity columns to arms: each arm's column is the only one whose name ends, or begins, with it."""
    labels = {str(label): label for label in dict.fromkeys(arm.tolist())}
    for fits in (str.__eq__, str.endswith, str.startswith):
        # of labels that fit one name, such as 1 and 11 with p_11, the longest is meant
        owners = [max((text for text in labels if fits(name, text)), key=len, default=None) for name in columns]
        if set(labels) <= set(owners) and len(set(owners)) == len(owners) == len(labels):
            return [labels[text] for text in owners if text is not None]
    raise LogError(
        "The propensity columns cannot be matched to the arms by name; "
        "say which is whose, for example propensity={'A': 'p_A', 'B': 'p_B'}.",
        column="propensity",
    )
