"""Times as users keep them, to numbers that can be compared."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.columns import Array, as_array, as_floats, is_missing, kind_of
from belated.errors import LogError, OptionError

#: The integer that stands for "never" among integer times; NumPy's NaT has the same bits.
NEVER = np.iinfo(np.int64).min


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
            if kind in "iu":
                return int(moment)
            number = float(moment)
            if math.isnan(number):
                raise OptionError(f"`{name}` is NaN; it must be a moment.")
            if self.whole:  # the last whole moment not after it
                return math.floor(min(max(number, -(2.0**62)), 2.0**62))
            return number
        try:
            if isinstance(moment, (int, float)) and not isinstance(moment, bool):
                raise TypeError
            array = _datetimes(name, np.asarray([moment], dtype=None if _has_zone(moment) else "datetime64"))
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


def read_times(assigned_at: Any, arrived_at: Any, delay: Any, rows: int) -> tuple[Array | None, Array | None, Clock]:
    """Return assignment times (None: steps 1, 2, ...), arrival times (None: at once), and their clock."""
    if arrived_at is not None and delay is not None:
        raise LogError("`arrived_at` and `delay` are both given; give one of them.", column="delay")
    assigned = None if assigned_at is None else _times("assigned_at", assigned_at, rows, may_miss=False)
    arrived: Array | None
    if delay is not None:
        arrived = _after(assigned, _times("delay", delay, rows, may_miss=True, duration=True), rows)
    else:
        arrived = None if arrived_at is None else _times("arrived_at", arrived_at, rows, may_miss=True)
    if arrived is not None and arrived.dtype.kind == "f" and np.isnan(arrived[0]) and np.isnan(arrived).all():
        # a column of nothing has no kind of its own
        kind = np.dtype(np.int64) if assigned is None else assigned.dtype
        arrived = np.full(rows, NEVER).view(kind if kind.kind == "M" else np.int64)
    kinds = {a.dtype.kind for a in (assigned, arrived) if a is not None}
    if "M" in kinds:
        if assigned is None or kinds != {"M"}:
            raise LogError(
                "`assigned_at` and the arrival times must be of one kind: both datetimes or both numbers.",
                column="arrived_at",
            )
        # one unit, the finer of the two
        common = assigned.dtype if arrived is None else np.promote_types(assigned.dtype, arrived.dtype)
        made, came = (None if a is None else a.astype(common, copy=False).view(np.int64) for a in (assigned, arrived))
        return made, came, Clock(unit=np.datetime_data(common)[0])
    if "f" in kinds:
        assigned, arrived = (None if a is None else as_float_times(a) for a in (assigned, arrived))
    whole = assigned is None or assigned.dtype.kind != "f"
    return assigned, arrived, Clock(whole=whole and (arrived is None or arrived.dtype.kind != "f"))


def as_float_times(times: Array) -> Array:
    """Return times as floats; never is NaN."""
    if times.dtype.kind == "f":
        return times
    return np.where(times == NEVER, math.nan, times.astype(np.float64))


def _times(name: str, values: Any, rows: int, *, may_miss: bool, duration: bool = False) -> Array:
    array = as_array(name, values)
    if array.ndim != 1 or len(array) != rows:
        raise LogError(f"`{name}` has shape {array.shape}; `arm` has {rows:,} rows, so it must too.", column=name)
    if array.dtype.kind == "O":
        array = _from_objects(name, array, duration)
    kind = array.dtype.kind
    if kind == "M" and not duration:
        array = _datetimes(name, array)
    elif kind in "iub":
        if array.dtype == np.uint64 and len(array) and array.max() > np.iinfo(np.int64).max:
            raise LogError(f"`{name}` holds integers too large for a time.", column=name)
        array = array.astype(np.int64, copy=False)
    elif kind == "f":
        array = array.astype(np.float64, copy=False)
    elif not (kind == "m" and duration):
        what = "numbers or durations" if duration else "numbers or datetimes"
        raise LogError(f"`{name}` holds {kind_of(array)}; it must hold {what}.", column=name)
    if not may_miss:
        missing = np.isnat(array) if kind == "M" else array == NEVER if kind in "iub" else ~np.isfinite(array)
        if missing.any():
            row = int(missing.argmax())
            what = "is missing; every assignment must have a time"
            raise LogError(f"`{name}` in row {row} {what}.", column=name, row=row)
    return array


def _from_objects(name: str, array: Array, duration: bool) -> Array:
    values = [None if is_missing(x) else x for x in array.tolist()]
    present = next((x for x in values if x is not None), None)
    if isinstance(present, dt.timedelta) and duration:
        return np.array(values, dtype="timedelta64[us]")
    if isinstance(present, dt.date) and not duration:
        utc = [
            x.astimezone(dt.UTC).replace(tzinfo=None) if isinstance(x, dt.datetime) and x.tzinfo else x for x in values
        ]
        return np.array(utc, dtype="datetime64[us]")
    if present is not None and all(x is None or (isinstance(x, int) and abs(x) < 2**62) for x in values):
        return np.array([NEVER if x is None else int(x) for x in values], dtype=np.int64)
    text = next((row for row, x in enumerate(values) if isinstance(x, (str, bytes))), None)
    if text is not None:
        what = "a number or a duration" if duration else "a number or a datetime"
        raise LogError(f"`{name}` in row {text} is {values[text]!r}; it must be {what}.", column=name, row=text)
    return as_floats(name, array)


def _datetimes(name: str, array: Array) -> Array:
    if array.dtype.kind == "O":
        array = _from_objects(name, array, duration=False)
    unit, count = np.datetime_data(array.dtype)
    if unit in ("Y", "M", "W", "D", "h", "m") or count != 1 or unit == "generic":
        array = array.astype("datetime64[s]")
    return array


def _after(assigned: Array | None, delay: Array, rows: int) -> Array:
    """Return arrival times from delays; NaN, inf and NaT are never."""
    dates = assigned is not None and assigned.dtype.kind == "M"
    if dates and delay.dtype.kind == "f" and np.isnan(delay).all():
        delay = np.full(rows, "NaT", dtype="timedelta64[s]")
    if dates != (delay.dtype.kind == "m"):
        want, have = ("durations (timedelta)", "datetimes") if dates else ("numbers", "numbers")
        raise LogError(f"`delay` must hold {want}, as `assigned_at` holds {have}.", column="delay")
    negative = delay < np.zeros(1, dtype=delay.dtype)[0]
    if delay.dtype.kind == "i" and negative.any():
        missing = delay == NEVER
        negative &= ~missing
        if missing.any() and not negative.any():
            base = np.arange(1, rows + 1) if assigned is None else assigned
            return np.where(missing, NEVER if base.dtype.kind == "i" else math.nan, base + np.where(missing, 0, delay))
    if negative.any():
        row = int(negative.argmax())
        raise LogError(f"`delay` in row {row} is {delay[row]}; a delay cannot be negative.", column="delay", row=row)
    if assigned is not None:
        return np.add(assigned, delay)
    arrived: Array = np.arange(1, rows + 1, dtype=delay.dtype)
    arrived += delay
    return arrived
