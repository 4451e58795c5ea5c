"""`Clock`: conversion between users' times and comparable numbers."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from belated.base.checks import one_of
from belated.base.columns import BLOCK, Array, as_array, as_floats, is_missing, kind_of
from belated.base.errors import LogError, OptionError, argument
from belated.base.text import moment_text, shown

#: The integer that means "never"; NumPy's NaT has the same bits.
NEVER = np.iinfo(np.int64).min
_LARGEST = np.iinfo(np.int64).max

#: The supported datetime units of NumPy; each is a thousandth of the one before.
DatetimeUnit = Literal["s", "ms", "us", "ns", "ps", "fs", "as"]
_DATETIME_UNITS: tuple[DatetimeUnit, ...] = get_args(DatetimeUnit)

#: A time as it is shown, a number or a datetime; and as users give it, also a date or text.
Moment = int | float | np.datetime64
MomentLike = Moment | np.integer | np.floating | dt.date | str

#: A duration as it is shown.
Length = float | np.timedelta64


@dataclass(frozen=True)
class Clock:
    """The kind of time of a log: steps, numbers, or datetimes with a unit.

    Internally, times are int64 (steps, whole numbers, datetimes) or float64. The clock converts users' times to such
    numbers, and back for display.
    """

    unit: DatetimeUnit | None = None  # NumPy's datetime unit; None: plain numbers
    whole: bool = True

    @property
    def per_second(self) -> int:
        """How many of the clock's units a second has; 1 if its times are plain numbers."""
        return 1 if self.unit is None else 1000 ** _DATETIME_UNITS.index(self.unit)

    @property
    def per_microsecond(self) -> Fraction:
        """How many of the clock's units a microsecond has; 1 if its times are plain numbers."""
        return Fraction(1) if self.unit is None else Fraction(self.per_second, 10**6)

    def read(self, name: str, moment: object) -> int | float:
        """Return a time as a number of this clock."""
        number = moment if isinstance(moment, (int, float, np.integer, np.floating)) else None
        if isinstance(moment, (bool, np.timedelta64)):
            number = None
        if self.unit is None:
            if number is None or number != number:
                raise OptionError(
                    f"{argument(name)} is {shown(moment)}; it must be a number, like the times of this log."
                )
            if not self.whole:
                return float(number)
            # the last whole number not after it
            return min(max(math.floor(number), NEVER + 1), _LARGEST) if math.isfinite(number) else _ends(float(number))
        try:
            if number is not None or np.asarray(moment).ndim:
                raise TypeError
            value = _moment_of(moment) if isinstance(moment, str) else moment
            array = _datetimes(_from_objects(name, np.array([value], dtype=object), duration=False))
            if array.dtype.kind != "M" or np.isnat(array[0]):
                raise ValueError
        except (TypeError, ValueError, OverflowError, LogError):
            raise OptionError(
                f"{argument(name)} is {shown(moment)}; it must be a datetime, like the times of this log, "
                "such as '2026-03-01' or '2026-03-01 14:30'."
            ) from None
        return int(_in_unit(array, self.unit).view(np.int64)[0])

    def show(self, time: int | float) -> Moment:
        """Return a number of this clock as a number or datetime."""
        if self.unit is None:
            return int(time) if self.whole or float(time).is_integer() else float(time)
        return _datetime(time, self.unit)

    def text(self, time: int | float) -> str:
        """Return a number of this clock as short text: a date alone where the time is midnight."""
        if self.unit is None:
            return f"{self.show(time):,}"
        return moment_text(_datetime(time, self.unit))

    def show_many(self, times: Array) -> Array:
        """Return numbers of this clock as an array of numbers or datetimes."""
        return times if self.unit is None else times.astype(np.int64).view(f"datetime64[{self.unit}]")

    def show_delay(self, delay: float) -> Length:
        """Return a duration as a number or timedelta."""
        if self.unit is None or math.isnan(delay):
            return delay
        return np.timedelta64(round(delay), self.unit)


def _moment_of(text: str) -> dt.datetime | np.datetime64:
    """Return a datetime from text, also one with nanoseconds, which Python's own would drop."""
    value = dt.datetime.fromisoformat(text)
    nanoseconds = re.search(r"[.,]\d{6}(\d{1,3})", text)
    if nanoseconds is None:
        return value
    plain = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return np.datetime64(plain, "ns") + np.timedelta64(int(nanoseconds[1].ljust(3, "0")), "ns")


def _datetime(time: int | float, unit: DatetimeUnit) -> np.datetime64:
    return np.datetime64(int(time), unit)


def _ends(moment: float) -> int:
    return _LARGEST if moment > 0 else NEVER + 1


def read_times(
    assigned_at: object, arrived_at: object, delay: object, rows: int
) -> tuple[Array | None, Array | None, Clock]:
    """Return assignment times (None: steps 1, 2, ...), arrival times (None: all at once), and their clock."""
    if arrived_at is not None and delay is not None:
        raise LogError(
            f"{argument('arrived_at')} and {argument('delay')} are both given; give one of them.", column="delay"
        )
    assigned = None if assigned_at is None else _times("assigned_at", assigned_at, rows, may_miss=False)
    arrived: Array | None
    if delay is not None:
        arrived = _arrival_times(assigned, _times("delay", delay, rows, may_miss=True, duration=True), rows)
    else:
        arrived = None if arrived_at is None else _times("arrived_at", arrived_at, rows, may_miss=True)
    if arrived is not None and arrived.dtype.kind in "fM" and np.isnan(arrived[0]) and np.isnan(arrived).all():
        # a column without values has no type of its own
        kind = np.dtype(np.int64) if assigned is None else assigned.dtype
        arrived = np.full(rows, NEVER).view(kind if kind.kind == "M" else np.int64)
    kinds = {a.dtype.kind for a in (assigned, arrived) if a is not None}
    if "M" in kinds:
        if assigned is None or kinds != {"M"}:
            raise LogError(
                f"{argument('assigned_at')} and the arrival times must have the same "
                "type: both datetimes or both numbers.",
                column="arrived_at",
            )
        unit = _common_unit([assigned] if arrived is None else [assigned, arrived])
        assigned, arrived = (None if a is None else _in_unit(a, unit).view(np.int64) for a in (assigned, arrived))
        _check_all(assigned, arrived)
        return assigned, arrived, Clock(unit=unit)
    if "f" in kinds:
        assigned, arrived = (None if a is None else as_float_times(a) for a in (assigned, arrived))
    _check_all(assigned, None if delay is not None and "f" in kinds else arrived)  # a delay may be as long as it likes
    whole = assigned is None or assigned.dtype.kind != "f"
    return assigned, arrived, Clock(whole=whole and (arrived is None or arrived.dtype.kind != "f"))


def _check_all(assigned: Array | None, arrived: Array | None) -> None:
    """Raise if times are too large or too far apart; an arrival before its assignment is refused elsewhere."""
    given = [a for a in (assigned, arrived) if a is not None and len(a)]
    first = 0 if assigned is None else assigned.min(initial=0).item()
    check_span(first, *map(_largest, given))


def _largest(times: Array) -> int | float:
    """Return the largest time that is finite, or 0 if none is above it; block by block, which is quicker."""
    blocks = (times[start : start + BLOCK] for start in range(0, len(times), BLOCK))
    if times.dtype.kind == "f":
        blocks = (np.where(block < math.inf, block, 0.0) for block in blocks)
    largest: int | float = max(block.max(initial=0).item() for block in blocks)
    return largest


def check_span(*times: int | float) -> None:
    """Raise if numbers do not fit 64 bits, so that floats round them, or if their differences do not; NaN is none."""
    known = [time for time in times if math.isfinite(time)]
    if known and (max(map(abs, known)) >= 2**63 or max(known) - min(known) >= 2**63):
        raise LogError("The times are too large or too far apart; they and their differences must fit 64 bits.")


def as_float_times(times: Array) -> Array:
    """Return times as floats, with NaN for never."""
    if times.dtype.kind == "f":
        return times
    return np.where(times == NEVER, math.nan, times.astype(np.float64))


def _times(name: str, values: object, rows: int, *, may_miss: bool, duration: bool = False) -> Array:
    array = as_array(name, values)
    if array.ndim != 1 or len(array) != rows:
        raise LogError(
            f"`{name}` has shape {array.shape}; it must have {rows:,} rows, as {argument('arm')} has.", column=name
        )
    if array.dtype.kind == "O":
        array = _from_objects(name, array, duration)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    kind = array.dtype.kind
    if kind == "M" and not duration:
        array = _datetimes(array)
    elif kind == "m" and duration:
        if np.datetime_data(array.dtype)[0] in ("Y", "M"):
            raise LogError(f"`{name}` is in months or years, whose lengths differ; give days or less.", column=name)
    elif kind in "iu":
        if array.dtype == np.uint64 and len(array) and array.max() > _LARGEST:
            raise LogError(f"`{name}` has integers that are too large for a time.", column=name)
        array = array.astype(np.int64, copy=False)
    elif kind == "f":
        array = array.astype(np.float64, copy=False)
    else:
        what = "numbers or durations" if duration else "numbers or datetimes"
        raise LogError(f"`{name}` contains {kind_of(array)}; it must contain {what}.", column=name)
    if not may_miss:
        missing = np.isnat(array) if kind == "M" else array == NEVER if kind in "iu" else ~np.isfinite(array)
        if missing.any():
            row = int(missing.argmax())
            what = f"is {array[row]}" if kind == "f" and not np.isnan(array[row]) else "is missing"
            raise LogError(f"`{name}` in row {row} {what}; every assignment must have a time.", column=name, row=row)
    return array


def _from_objects(name: str, array: Array, duration: bool) -> Array:
    """Convert a column of Python objects, some perhaps missing, to numbers, datetimes or durations."""
    values = [None if is_missing(x) else x for x in array.tolist()]
    present = next((x for x in values if x is not None), None)
    kinds: tuple[type, ...] = (int, float, np.number, Decimal, Fraction)
    if duration and isinstance(present, (dt.timedelta, np.timedelta64)):
        kinds = (dt.timedelta, np.timedelta64)
    elif not duration and isinstance(present, (dt.date, np.datetime64)):
        kinds = (dt.date, np.datetime64)
    for row, x in enumerate(values):
        if x is not None and (not isinstance(x, kinds) or isinstance(x, bool)):
            what = "a number or a duration" if duration else "a number or a datetime"
            like = "" if x is present else ", like the others"
            raise LogError(f"`{name}` in row {row} is {shown(x)}; it must be {what}{like}.", column=name, row=row)
    if kinds[0] is dt.timedelta:
        return _common_array(values, "timedelta64")
    if kinds[0] is dt.date:
        return _common_array([_in_utc(x) for x in values], "datetime64")
    if present is not None and all(x is None or (isinstance(x, int) and NEVER < x <= _LARGEST) for x in values):
        return np.array([NEVER if x is None else int(x) for x in values], dtype=np.int64)
    return as_floats(name, array)


def _common_array(values: list[object], kind: str) -> Array:
    """Return Python and NumPy datetimes or durations as one array; None is missing."""
    values = [_with_nanoseconds(x) for x in values]
    kinds = {str(x.dtype) for x in values if isinstance(x, np.generic)}
    finest = "ns" if f"{kind}[ns]" in kinds else "us"
    missing = np.array("NaT", dtype=f"{kind}[{finest}]")[()]
    return np.array([missing if x is None else x for x in values], dtype=f"{kind}[{finest}]")


def _in_utc(value: object) -> object:
    """Return a datetime with a time zone as one of UTC's without."""
    return value.astimezone(dt.UTC).replace(tzinfo=None) if isinstance(value, dt.datetime) and value.tzinfo else value


def _with_nanoseconds(value: object) -> object:
    """Return a datetime or duration of pandas, which may have nanoseconds, as one of NumPy's; NumPy would drop them."""
    has_some = getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0)
    return getattr(value, "asm8", value) if has_some else value


def _datetimes(array: Array) -> Array:
    """Return datetimes in seconds or a finer unit."""
    unit, multiple = np.datetime_data(array.dtype)
    if unit in ("Y", "M", "W", "D", "h", "m", "generic") or multiple != 1:
        return array.astype("datetime64[s]")
    return array


def _common_unit(arrays: list[Array]) -> DatetimeUnit:
    """Return the finest unit of the arrays, or microseconds if a date does not fit nanoseconds."""
    units = [one_of("unit", np.datetime_data(a.dtype)[0], _DATETIME_UNITS) for a in arrays]
    finest = max(units, key=_DATETIME_UNITS.index)
    moved = [a for a, unit in zip(arrays, units, strict=True) if unit != finest]
    fits = all(np.array_equal(a, _in_unit(a, finest).astype(a.dtype), equal_nan=True) for a in moved)
    return finest if fits else "us"


def _in_unit(array: Array, unit: DatetimeUnit) -> Array:
    """Return datetimes in another unit; those out of range become the first or last possible one."""
    dtype = np.dtype(f"datetime64[{unit}]")
    if array.dtype == dtype:
        return array
    limit = _LARGEST // Clock(unit).per_second
    seconds = array.astype("datetime64[s]").view(np.int64)
    late, early = seconds >= limit, (seconds <= -limit) & (seconds != NEVER)
    within = array.copy()
    within.view(np.int64)[late | early] = 0  # NumPy 2.5 refuses to convert what does not fit
    moved = within.astype(dtype)
    moved.view(np.int64)[late] = _LARGEST
    moved.view(np.int64)[early] = NEVER + 1
    return moved


def _arrival_times(assigned: Array | None, delay: Array, rows: int) -> Array:
    """Return arrival times from delays; NaN, inf and NaT mean never."""
    dates = assigned is not None and assigned.dtype.kind == "M"
    if dates and delay.dtype.kind == "f" and np.isnan(delay).all():
        delay = np.full(rows, "NaT", dtype="timedelta64[s]")
    if dates != (delay.dtype.kind == "m"):
        want, have = ("durations (timedelta)", "datetimes") if dates else ("numbers", "no datetimes")
        raise LogError(
            f"{argument('delay')} must contain {want}, because {argument('assigned_at')} contains {have}.",
            column="delay",
        )
    missing = delay == NEVER if delay.dtype.kind == "i" else np.zeros(1, dtype=bool)
    negative = (delay < np.zeros(1, dtype=delay.dtype)[0]) & ~missing
    if negative.any():
        row = int(negative.argmax())
        raise LogError(
            f"{argument('delay')} in row {row} is {delay[row]}; a delay cannot be negative.", column="delay", row=row
        )
    if delay.dtype.kind == "i":
        latest = rows if assigned is None else max(assigned.max(), 0)
        if delay.max() > _LARGEST - latest:
            raise LogError(
                f"{argument('delay')} is too long: the time of arrival does not fit 64 bits.", column="delay"
            )
    if missing.any():
        base = np.arange(1, rows + 1) if assigned is None else assigned
        return np.where(missing, NEVER if base.dtype.kind == "i" else math.nan, base + np.where(missing, 0, delay))
    if assigned is not None:
        return np.add(assigned, delay)
    arrived: Array = np.arange(1, rows + 1, dtype=delay.dtype)
    arrived += delay
    return arrived
