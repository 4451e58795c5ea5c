"""Conversion of users' columns to the arrays that kernels need."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar

import numpy as np

from belated.base.errors import LogError, argument
from belated.base.text import shown

#: An array of any shape and type: columns have the types that users gave them.
Array = np.ndarray[Any, Any]

#: Rows of a column that are looked at together; few enough to stay in the processor's cache.
BLOCK = 1 << 15

#: A row that a database gives; the types of its values are those of the statement's columns.
Row: TypeAlias = tuple[Any, ...]

#: The label of an arm: text, a number, or any other hashable value.
Label = Hashable

#: A mapping by arm. The keys of a Mapping are invariant, so with `Label` a dict[str, float] would not be accepted.
_Value = TypeVar("_Value")
ByArm = Mapping[Any, _Value]


class ColumnLike(Protocol):
    """A column as users give it: a list, an array, or a series of any library."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[object]: ...


class Frame(Protocol):
    """A dataframe of any library."""

    @property
    def columns(self) -> Iterable[str]:
        """The names of the columns."""
        ...

    def __getitem__(self, name: str, /) -> object: ...


#: Columns by name, as users give them.
TableLike: TypeAlias = Mapping[str, ColumnLike] | Frame


def is_table(given: object) -> TypeGuard[TableLike]:
    """Whether columns by name are given, not one column."""
    return isinstance(given, Mapping) or hasattr(given, "columns")


def names_of(table: TableLike) -> list[str]:
    """Return the names of a table's columns."""
    if isinstance(table, Mapping):
        return list(table)
    return list(getattr(table, "column_names", table.columns))  # the columns of an Arrow table are arrays


def numbers(name: str, values: object, *, dimensions: tuple[int, ...] = (1,)) -> Array:
    """Return `values` as a float64 array; None and missing values become NaN."""
    array = as_array(name, values)
    if array.dtype.kind == "O" and array.ndim == 1 and 2 in dimensions:
        array = _rows_of_lists(name, array)
    if array.dtype.kind not in "biuf":
        array = as_floats(name, array)
    array = np.asarray(array, dtype=np.float64)
    if array.ndim not in dimensions:
        shape = " or ".join("(rows,)" if d == 1 else "(rows, arms)" for d in dimensions)
        raise LogError(f"{argument(name)} has shape {array.shape}; it must be {shape}.", column=name)
    return array


def as_array(name: str, values: object) -> Array:
    """Return `values` as an array, if they are a column."""
    if isinstance(values, np.ma.MaskedArray):
        mask, values = np.ma.getmaskarray(values), values.data.astype(object)
        values[mask] = None
    if hasattr(getattr(values, "type", None), "index_type"):
        values = decoded(values)
    try:
        array = np.asarray(values)
    except ValueError:  # rows of uneven length
        rows = list(values) if isinstance(values, Iterable) else [values]
        array = np.empty(len(rows), dtype=object)
        array[:] = rows
        if any(_is_deep(value) for value in array):
            what = "contains lists of lists of lists; it must have one value for every row"
            raise LogError(f"{argument(name)} {what}.", column=name) from None
    if array.ndim == 0:
        raise LogError(
            f"{argument(name)} is {shown(values)}; it must be a column with one value for every row.", column=name
        )
    if array.dtype.kind in "US" and isinstance(values, (list, tuple)):
        array = np.array(values, dtype=object)  # np.asarray(["a", 1]) turns 1 into "1"
    return array


def decoded(column: Any) -> Any:
    """Return a dictionary-encoded Arrow column as a plain one: NumPy would take the last entry for a missing one."""
    return column.cast(column.type.value_type)


def _is_deep(value: object) -> bool:
    """Whether a value contains lists of lists."""
    for _ in range(2):
        if not isinstance(value, (list, tuple)):
            return False
        value = next((entry for entry in value if isinstance(entry, (list, tuple))), None)
    return isinstance(value, (list, tuple))


def _rows_of_lists(name: str, array: Array) -> Array:
    """Return a column of equally long lists as a matrix; anything else unchanged."""
    first = next((row for row, values in enumerate(array) if not is_missing(values)), None)
    if first is None or not isinstance(array[first], (list, tuple, np.ndarray)):
        return array
    width = len(array[first])
    for row, values in enumerate(array):
        if not isinstance(values, (list, tuple, np.ndarray)) or len(values) != width:
            held = f"a list of {len(values)}" if hasattr(values, "__len__") else repr(values)
            raise LogError.of_row(name, row, f"is {held}; row {first} has a list of {width}.")
    return np.array([list(values) for values in array])


def as_floats(name: str, array: Array) -> Array:
    """Return an array of objects as floats; raise with the first one that is not a number."""
    if array.dtype.kind == "O":
        flat = [math.nan if is_missing(x) else x for x in array.ravel().tolist()]
        floats = np.empty(len(flat))
        for i, x in enumerate(flat):
            try:
                if isinstance(x, (str, bytes, np.datetime64, np.timedelta64)):
                    raise TypeError
                floats[i] = float(x)
            except (TypeError, ValueError, OverflowError):
                row = i // array.shape[1] if array.ndim == 2 else i
                raise LogError.of_row(name, row, f"is {shown(x)}; it must be a number.") from None
        return floats.reshape(array.shape)
    raise LogError(f"{argument(name)} holds {kind_of(array)}; it must hold numbers.", column=name)


def kind_of(array: Array) -> str:
    """Return the type of an array's values in words."""
    kinds = {"U": "text", "S": "bytes", "M": "datetimes", "m": "durations", "c": "complex numbers", "b": "booleans"}
    return kinds.get(array.dtype.kind, str(array.dtype))


def is_missing(x: object) -> bool:
    """Whether `x` is None, NaN, NaT or pandas' NA."""
    if x is None or type(x).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(x, Decimal):
        return x.is_nan()
    return bool(x != x) if isinstance(x, (float, np.floating, np.datetime64, np.timedelta64)) else False


def sample(name: str, values: object, *, infinite: bool = False) -> Array:
    """Return a sample to draw from: a column of numbers, not empty, finite unless `infinite` is allowed."""
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise LogError(f"{argument(name)} is {shown(values)}; it must be a sample of numbers.", column=name)
    drawn = numbers(name, list(values))
    if not len(drawn) or np.isnan(drawn).any():
        raise LogError(f"{argument(name)} must have at least one number, and no missing ones.", column=name)
    endless = drawn[np.isinf(drawn)]
    if len(endless) and not infinite:
        raise LogError(f"{argument(name)} contains {endless[0]}; it must have finite numbers.", column=name)
    return drawn


def locked(array: Array) -> Array:
    """Return an array as kernels are compiled for it: read-only, and row after row in memory, which may take a copy."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
