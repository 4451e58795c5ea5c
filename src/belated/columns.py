"""Columns as users have them, to arrays as kernels want them: numbers, arm labels, times."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.errors import LogError, OptionError

#: The integer that stands for "never" among integer times; NumPy's NaT has the same bits.
NEVER = np.iinfo(np.int64).min

Array = np.ndarray[Any, Any]


# ---------------------------------------------------------------- numbers


def numbers(name: str, values: Any, *, dimensions: tuple[int, ...] = (1,)) -> Array:
    """Return `values` as a float64 array; None and missing values become NaN."""
    array = _array(name, values)
    if array.dtype.kind not in "biuf":
        array = _floats(name, array)
    array = np.asarray(array, dtype=np.float64)
    if array.ndim not in dimensions:
        shape = " or ".join("(rows,)" if d == 1 else "(rows, arms)" for d in dimensions)
        raise LogError(f"`{name}` has shape {array.shape}; it must be {shape}.", column=name)
    return array


def _array(name: str, values: Any) -> Array:
    if isinstance(values, (str, bytes)) or np.ndim(values) == 0:
        raise LogError(f"`{name}` is {values!r}; it must be a column with one value for every row.", column=name)
    return np.asarray(values)


def _floats(name: str, array: Array) -> Array:
    if array.dtype.kind == "O":
        flat = [math.nan if is_missing(x) else x for x in array.ravel().tolist()]
        for row, x in enumerate(flat):
            if isinstance(x, (str, bytes)) or not hasattr(x, "__float__"):
                row //= array.shape[1] if array.ndim == 2 else 1
                raise LogError(f"`{name}` in row {row} is {x!r}; it must be a number.", column=name, row=row)
        return np.array([float(x) for x in flat]).reshape(array.shape)
    raise LogError(f"`{name}` holds {_kind(array)}; it must hold numbers.", column=name)


def _kind(array: Array) -> str:
    kinds = {"U": "text", "S": "bytes", "M": "datetimes", "m": "durations", "c": "complex numbers"}
    return kinds.get(array.dtype.kind, str(array.dtype))


def is_missing(x: Any) -> bool:
    """Whether `x` is None, NaN, NaT or pandas' NA."""
    if x is None or type(x).__name__ in ("NAType", "NaTType"):
        return True
    return bool(x != x) if isinstance(x, (float, np.floating, np.datetime64, np.timedelta64)) else False


# ---------------------------------------------------------------- arms


def encode(arm: Any, arms: Sequence[Any] | None, columns: int | None) -> tuple[Array, tuple[Any, ...]]:
    """Return every row's arm as a number, and the arms' labels.

    `columns` is the number of propensity columns, None when only the chosen arm's is known.
    """
    array = _labels(arm)
    if arms is None and columns is not None and array.dtype.kind in "iu":
        # 0, 1, ..., K - 1 name columns, also those never chosen
        if len(array) and array.min() >= 0 and array.max() < columns:
            arms = range(columns)
    if arms is None:
        labels = _sorted_labels(array)
        if columns is not None and len(labels) != columns:
            raise LogError(
                f"`propensity` has {columns} columns but `arm` holds {len(labels)} different arms; "
                "say which arm each column belongs to with `arms`.",
                column="propensity",
            )
    else:
        labels = tuple(_plain(label) for label in arms)
        if len(set(labels)) != len(labels):
            raise LogError(f"`arms` repeats a label: {list(labels)!r}.", column="arms")
        if columns is not None and len(labels) != columns:
            raise LogError(
                f"`propensity` has {columns} columns but `arms` names {len(labels)} arms; they must agree.",
                column="propensity",
            )
    if len(labels) > np.iinfo(np.uint16).max:
        raise LogError(f"`arm` holds {len(labels):,} different arms; at most 65,535 are possible.", column="arm")
    return _codes(array, labels), labels


def _labels(arm: Any) -> Array:
    if isinstance(arm, (str, bytes)) or np.ndim(arm) == 0:
        raise LogError(f"`arm` is {arm!r}; it must be a column with one value for every row.", column="arm")
    array = arm if isinstance(arm, np.ndarray) else np.asarray(arm)
    if not isinstance(arm, np.ndarray) and array.dtype.kind in "US" and isinstance(arm, (list, tuple)):
        array = np.array(arm, dtype=object)  # np.asarray(["A", 1]) would turn 1 into "1"
    if array.ndim != 1:
        array = np.empty(len(arm), dtype=object)
        array[:] = [tuple(x) if isinstance(x, list) else x for x in arm]
    if array.dtype.kind == "f" and len(array) and np.isnan(array).any():
        row = int(np.isnan(array).argmax())
        raise LogError(f"`arm` in row {row} is missing; every row must say which arm it got.", column="arm", row=row)
    return array


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _sorted_labels(array: Array) -> tuple[Any, ...]:
    found: list[Any]
    if array.dtype.kind == "O":
        found = list(dict.fromkeys(_hashable(array)))
        for label in found:
            if is_missing(label):
                row = next(i for i, x in enumerate(array) if is_missing(x))
                raise LogError(
                    f"`arm` in row {row} is missing; every row must say which arm it got.", column="arm", row=row
                )
        try:
            return tuple(sorted(_plain(x) for x in found))
        except TypeError:
            kinds = sorted({type(x).__name__ for x in found})
            raise LogError(
                f"`arm` mixes labels that cannot be put in order ({', '.join(kinds)}); give their order with `arms`.",
                column="arm",
            ) from None
    if array.dtype.kind in "US":
        return tuple(sorted(x.item() for x in _text_labels(array)))
    return tuple(x.item() for x in np.unique(array))


def _hashable(array: Array) -> list[Any]:
    values = array.tolist()
    try:
        for value in dict.fromkeys(map(type, values)):
            if value.__hash__ is None:
                raise TypeError
        return values
    except TypeError:
        row = next(i for i, x in enumerate(values) if type(x).__hash__ is None)
        raise LogError(
            f"`arm` in row {row} is {values[row]!r}; an arm's label must be text, a number or another hashable value.",
            column="arm",
            row=row,
        ) from None


def _text_labels(array: Array) -> list[Any]:
    """Distinct values of a text array: few are found by elimination, many by sorting."""
    rest, found = array, []
    while len(rest) and len(found) < 32:
        found.append(rest[0])
        rest = rest[rest != rest[0]]
    return found if not len(rest) else list(np.unique(array))


def _codes(array: Array, labels: tuple[Any, ...]) -> Array:
    kind = array.dtype.kind
    if kind in "iub" and labels == tuple(range(len(labels))) and len(array):
        if array.min() >= 0 and array.max() < len(labels):
            return array.astype(np.uint16)
    index = {label: k for k, label in enumerate(labels)}
    if kind == "O" or len(labels) > 32:
        values = _hashable(array) if kind == "O" else array.tolist()
        try:
            return np.fromiter(map(index.__getitem__, values), dtype=np.uint16, count=len(values))
        except KeyError:
            row = next(i for i, x in enumerate(values) if x not in index)
            raise _unknown(row, values[row], labels) from None
    codes = np.zeros(len(array), dtype=np.uint16)
    known = np.zeros(len(array), dtype=bool)
    for label, k in index.items():
        if kind in "US" and not isinstance(label, (str, bytes)):
            continue
        match = np.equal(array, label)
        codes[match] = k
        known |= match
    if not known.all():
        row = int(known.argmin())
        raise _unknown(row, array[row].item(), labels)
    return codes


def _unknown(row: int, label: Any, labels: tuple[Any, ...]) -> LogError:
    what = "is missing" if is_missing(label) else f"is {label!r}"
    known = ", ".join(map(repr, labels[:10])) + (", ..." if len(labels) > 10 else "")
    return LogError(f"`arm` in row {row} {what}; it must be one of `arms`: {known}.", column="arm", row=row)


# ---------------------------------------------------------------- times


@dataclass(frozen=True)
class Clock:
    """What kind of time a log keeps: steps, numbers, or datetimes of some unit.

    Inside, times are int64 (steps, whole numbers, datetimes) or float64; this turns moments
    given from outside into such numbers, and back for display.
    """

    unit: str | None = None  # NumPy's datetime unit; None: plain numbers
    whole: bool = True

    def read(self, name: str, moment: Any) -> int | float:
        """Return a moment as a number of this clock."""
        if self.unit is None:
            kind = np.asarray(moment).dtype.kind
            if kind not in "iuf" or np.ndim(moment):
                raise OptionError(f"`{name}` is {moment!r}; this log's times are numbers, so it must be one too.")
            number = float(moment)
            if math.isnan(number):
                raise OptionError(f"`{name}` is NaN; it must be a moment.")
            if self.whole:  # the last whole moment not after it
                return math.floor(min(max(number, -(2.0**62)), 2.0**62))
            return number
        try:
            if isinstance(moment, (int, float)) and not isinstance(moment, bool):
                raise TypeError
            array, _ = _datetimes(name, np.asarray([moment], dtype=None if _has_zone(moment) else "datetime64"))
            if np.isnat(array[0]):
                raise ValueError
        except (TypeError, ValueError, LogError):
            raise OptionError(
                f"`{name}` is {moment!r}; this log's times are datetimes, so it must be one too, "
                "such as '2026-03-01' or datetime(2026, 3, 1)."
            ) from None
        return int(array.astype(f"datetime64[{self.unit}]").view(np.int64)[0])

    def show(self, time: Any) -> Any:
        """Return a number of this clock as the user would write the moment."""
        if self.unit is None:
            return int(time) if self.whole or float(time).is_integer() else float(time)
        return np.datetime64(int(time), self.unit)  # type: ignore[call-overload]

    def text(self, time: Any) -> str:
        """Return a number of this clock as short text: a date alone where the time is midnight."""
        if self.unit is None:
            return f"{self.show(time):,}"
        text = str(self.show(time)).replace("T", " ")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return text.removesuffix(" 00:00:00")

    def show_many(self, times: Array) -> Array:
        """Return many numbers of this clock as an array of moments."""
        return times if self.unit is None else times.astype(np.int64).view(f"datetime64[{self.unit}]")

    def show_delay(self, delay: float) -> Any:
        """Return a length of time as the user would write it."""
        if self.unit is None or math.isnan(delay):
            return delay
        return np.timedelta64(round(delay), self.unit)  # type: ignore[call-overload]


def _has_zone(moment: Any) -> bool:
    return isinstance(moment, dt.datetime) and moment.tzinfo is not None


def read_times(
    assigned_at: Any, arrived_at: Any, delay: Any, rows: int
) -> tuple[Array | None, Array | None, Clock]:
    """Return assignment times (None: steps 1, 2, ...), arrival times (None: at once), and their clock."""
    if arrived_at is not None and delay is not None:
        raise LogError("`arrived_at` and `delay` are both given; give one of them.", column="delay")
    assigned = None if assigned_at is None else _times("assigned_at", assigned_at, rows, may_miss=False)
    if delay is not None:
        arrived = _after(assigned, _times("delay", delay, rows, may_miss=True, duration=True), rows)
    else:
        arrived = None if arrived_at is None else _times("arrived_at", arrived_at, rows, may_miss=True)
    kinds = {a.dtype.kind for a in (assigned, arrived) if a is not None}
    if "M" in kinds:
        if assigned is None or kinds != {"M"}:
            raise LogError(
                "`assigned_at` and the arrival times must be of one kind: both datetimes or both numbers.",
                column="arrived_at",
            )
        if arrived is not None:  # one unit, the finer of the two
            common = np.promote_types(assigned.dtype, arrived.dtype)
            assigned, arrived = assigned.astype(common, copy=False), arrived.astype(common, copy=False)
            arrived = arrived.view(np.int64)
        unit = np.datetime_data(assigned.dtype)[0]
        return assigned.view(np.int64), arrived, Clock(unit=unit)
    if "f" in kinds:
        if assigned is not None:
            assigned = assigned.astype(np.float64, copy=False)
        if arrived is not None:
            arrived = arrived.astype(np.float64, copy=False)
    whole = assigned is None or assigned.dtype.kind != "f"
    return assigned, arrived, Clock(whole=whole and (arrived is None or arrived.dtype.kind != "f"))


def _times(name: str, values: Any, rows: int, *, may_miss: bool, duration: bool = False) -> Array:
    array = _array(name, values)
    if array.ndim != 1 or len(array) != rows:
        raise LogError(f"`{name}` has shape {array.shape}; `arm` has {rows:,} rows, so it must too.", column=name)
    if array.dtype.kind == "O":
        array = _from_objects(name, array, duration)
    if array.dtype.kind == "M" and not duration:
        array, _ = _datetimes(name, array)
        missing = np.isnat(array) if not may_miss else None
    elif array.dtype.kind == "m" and duration:
        missing = None
    elif array.dtype.kind in "iub":
        if array.dtype == np.uint64 and len(array) and array.max() > np.iinfo(np.int64).max:
            raise LogError(f"`{name}` holds integers too large for a time.", column=name)
        array, missing = array.astype(np.int64, copy=False), None
    elif array.dtype.kind == "f":
        array = array.astype(np.float64, copy=False)
        missing = ~np.isfinite(array) if not may_miss else None
    else:
        what = "numbers or durations" if duration else "numbers or datetimes"
        raise LogError(f"`{name}` holds {_kind(array)}; it must hold {what}.", column=name)
    if missing is not None and missing.any():
        row = int(missing.argmax())
        raise LogError(f"`{name}` in row {row} is missing; every assignment must have a time.", column=name, row=row)
    return array


def _from_objects(name: str, array: Array, duration: bool) -> Array:
    values = [None if is_missing(x) else x for x in array.tolist()]
    present = next((x for x in values if x is not None), None)
    if isinstance(present, dt.timedelta) and duration:
        return np.array(values, dtype="timedelta64[us]")
    if isinstance(present, dt.date) and not duration:
        utc = [
            x.astimezone(dt.timezone.utc).replace(tzinfo=None) if isinstance(x, dt.datetime) and x.tzinfo else x
            for x in values
        ]
        return np.array(utc, dtype="datetime64[us]")
    return _floats(name, array)


def _datetimes(name: str, array: Array) -> tuple[Array, str]:
    if array.dtype.kind == "O":
        array = _from_objects(name, array, duration=False)
    unit, count = np.datetime_data(array.dtype)
    if unit in ("Y", "M", "W", "D", "h", "m") or count != 1 or unit == "generic":
        array = array.astype("datetime64[s]")
    return array, np.datetime_data(array.dtype)[0]


def _after(assigned: Array | None, delay: Array, rows: int) -> Array:
    """Return arrival times from delays; NaN, inf and NaT are never."""
    dates = assigned is not None and assigned.dtype.kind == "M"
    if dates != (delay.dtype.kind == "m"):
        want = "durations (timedelta)" if dates else "numbers"
        raise LogError(f"`delay` must hold {want}, as `assigned_at` holds {_kind(assigned) if dates else 'numbers'}.",
                       column="delay")  # fmt: skip
    negative = delay < np.zeros(1, dtype=delay.dtype)[0]
    if negative.any():
        row = int(negative.argmax())
        raise LogError(f"`delay` in row {row} is {delay[row]}; a delay cannot be negative.", column="delay", row=row)
    if assigned is not None:
        return np.add(assigned, delay)
    arrived: Array = np.arange(1, rows + 1, dtype=delay.dtype)
    arrived += delay
    return arrived
