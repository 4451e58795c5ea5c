"""Columns of any dataframe that Narwhals knows, as arrays."""

from __future__ import annotations

import os
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
        series = _column(table, "propensity", propensity)
        columns["propensity"] = _lists(series) if isinstance(series.dtype, (nw.List, nw.Array)) else _values(series)
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


def _lists(series: nw.Series[Any]) -> Array:
    lists = series.to_list()
    if not lists:
        return np.empty((0, 1))
    width = len(lists[0]) if lists[0] is not None else 0
    for row, values in enumerate(lists):
        if values is None or len(values) != width:
            found = "missing" if values is None else f"a list of {len(values)}"
            raise LogError(
                f"`propensity` in row {row} is {found}; every row needs a list of {width} probabilities.",
                column="propensity",
                row=row,
            )
    return np.array(lists, dtype=np.float64)


def _match(columns: list[str], arm: Array) -> list[Any]:
    """Match propensity columns to arms by what is left of their names without the common prefix and suffix."""
    labels = dict.fromkeys(arm.tolist())
    texts = {str(label): label for label in labels}
    candidates = [columns]
    if len(columns) > 1:
        prefix = os.path.commonprefix(columns)
        rests = [name[len(prefix) :] for name in columns]
        suffix = os.path.commonprefix([rest[::-1] for rest in rests])
        candidates += [rests, [rest[: len(rest) - len(suffix)] for rest in rests]]
        # labels that share a beginning, such as v1 and v2, lose it to the common prefix
        shared = os.path.commonprefix(list(texts))
        candidates.append([shared + rest for rest in rests])
    for names in candidates:
        if len(set(names)) == len(names) and set(texts) <= set(names):
            return [texts.get(name, name) for name in names]
    raise LogError(
        "The propensity columns cannot be matched to the arms by name; "
        "say which is whose, for example propensity={'A': 'p_A', 'B': 'p_B'}.",
        column="propensity",
    )
