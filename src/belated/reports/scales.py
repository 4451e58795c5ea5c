"""Scales of charts: ranges of numbers, dates and lengths of time, and the round values that mark them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from belated.base.columns import Array
from belated.base.figures import LARGEST
from belated.base.text import Unit
from belated.reports.svg import width

#: Lines are drawn in this many units across.
WIDE = 1000
#: Pixels: the width of a phone's page, and the height of a chart's lines.
NARROW, HEIGHT = 320, 210
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY = 86_400
_STEPS = tuple(
    [s * unit for unit, sizes in ((1, (1, 2, 5, 10, 15, 30)), (60, (1, 2, 5, 10, 15, 30))) for s in sizes]
    + [3600 * s for s in (1, 2, 3, 6, 12)]
    + [_DAY * s for s in (1, 2, 7, 14)]
)
_UNITS = ((_DAY, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"), (1e-3, "milliseconds"))


class Scale:
    """A range of numbers, a little wider than its data unless there is nothing to `spare`; ticks are in a unit."""

    def __init__(self, low: float, high: float, *, unit: Unit = "number", spare: bool = True) -> None:
        more = 0.0
        if spare and high > low:
            more = max((high - low) * 0.04, 1e-200)
        elif spare:
            more = max(abs(low) * 0.1, 1e-200) if low else 0.5
        self.unit = unit
        self.low, self.high = low - more, high + more

    def share(self, value: float) -> float:
        """Return the place of a value, in percent from the left."""
        return (value - self.low) / (self.high - self.low) * 100

    @overload
    def down(self, value: float) -> float: ...

    @overload
    def down(self, value: Array) -> Array: ...

    def down(self, value: float | Array) -> float | Array:
        """Return the place of a value, in pixels from the top."""
        return (self.high - value) / (self.high - self.low) * HEIGHT

    def ticks(self) -> list[tuple[float, str]]:
        """Return round numbers within the range, with their texts, as many as fit the height."""
        return round_numbers(self.low, self.high, 6, unit=self.unit)

    def ticks_across(self) -> list[tuple[float, str]]:
        """Return round numbers within the range, with their texts, as many as fit the width."""
        return _fitting(lambda most: round_numbers(self.low, self.high, most, unit=self.unit), NARROW)


class Across:
    """What lies along the horizontal axis: numbers, dates or lengths of time."""

    def __init__(self, moments: ArrayLike) -> None:
        given = np.asarray(moments)
        kind = given.dtype.kind
        self.known = ~np.isnat(given) if kind in "mM" else np.isfinite(given.astype(np.float64))
        self.moments = given[self.known]
        self.unit = ""
        self.dates = kind == "M"
        if kind == "m":
            seconds = self.moments.astype("timedelta64[ns]").astype(np.int64) / 1e9
            longest = float(np.abs(seconds).max()) if len(seconds) else 0.0
            size, self.unit = next((pair for pair in _UNITS if longest >= 2 * pair[0]), _UNITS[-1])
            self.numbers = seconds / size
        elif self.dates:
            # seconds as a float tell milliseconds apart for centuries to come
            self.numbers = self.moments.astype("datetime64[us]").astype(np.int64) / 1e6
        else:
            self.numbers = self.moments.astype(np.float64)
        low, high = (float(self.numbers.min()), float(self.numbers.max())) if len(self.numbers) else (0.0, 1.0)
        if low == high:
            margin = max(0.5, 1e-9 * abs(low))  # next to a large number, 0.5 is nothing
            low, high = low - margin, high + margin
        self.low, self.high = low, high
        self.places = (self.numbers - low) / (high - low) * WIDE
        if self.dates:
            self.unit = self._years()

    def read(self, values: ArrayLike | None) -> Array:
        """Return values at the moments that can be drawn, NaN where too large; limits may be infinite."""
        array = np.array(values, dtype=np.float64)[self.known]
        array[(np.abs(array) > LARGEST) & ~np.isinf(array)] = math.nan
        return array

    def share(self, moment: object) -> float:
        """Return the place of a moment of the same kind, in percent from the left."""
        at: object = np.datetime64(moment, "us") if self.dates else moment  # type: ignore[call-overload]
        number = float(np.asarray(at).astype(np.int64)) / 1e6 if self.dates else float(at)  # type: ignore[arg-type]
        return (number - self.low) / (self.high - self.low) * 100

    def text(self, i: int) -> str:
        """Return the i-th moment as people read it."""
        if self.dates:
            return str(self.moments[i].astype("datetime64[m]")).replace("T", " ").removesuffix(" 00:00")
        return f"{self.numbers[i]:,.6g}" + (f" {self.unit}" if self.unit else "")

    def ticks(self, room: float) -> list[tuple[float, str]]:
        """Return places in percent with their texts, as many as have room."""
        turns = round_dates if self.dates else round_numbers
        ticks = _fitting(lambda most: turns(self.low, self.high, most), room)
        return [((tick - self.low) / (self.high - self.low) * 100, text) for tick, text in ticks]

    def _years(self) -> str:
        first, last = (_datetime(end) for end in (self.low, self.high))
        if self.high - self.low < 2 * _DAY:
            return str(first)[:10] if str(first)[:10] == str(last)[:10] else f"{str(first)[:10]} to {str(last)[:10]}"
        return str(first)[:4] if str(first)[:4] == str(last)[:4] else f"{str(first)[:4]} to {str(last)[:4]}"


def _fitting(ticks: Callable[[int], list[tuple[float, str]]], room: float) -> list[tuple[float, str]]:
    """Return as many ticks as have room."""
    tried = (ticks(most) for most in (8, 7, 6, 5, 4, 3))
    return next((marks for marks in tried if sum(width(text) + 14 for _, text in marks) <= room), ticks(2))


def round_numbers(low: float, high: float, most: int, *, unit: Unit = "number") -> list[tuple[float, str]]:
    """Return at most about `most` multiples of 1, 2 or 5 times a power of ten, with their texts."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * (1 - 1e-9))
    numbers = [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    return [(number, _number(number, step, unit)) for number in numbers]


def _number(number: float, step: float, unit: Unit) -> str:
    size, suffix = (1e6, "M") if 1e6 <= step < 1e9 else (1.0, "")
    if unit != "number":
        size, suffix = 0.01, "%" if unit == "percent" else ""
    scaled = number / size + 0.0
    decimals = max(0, -math.floor(math.log10(step / size) + 1e-9))
    if decimals > 6 or abs(scaled) >= 1e9:
        return f"{scaled:.4g}{suffix}"
    return f"{scaled:,.{decimals}f}{suffix}"


def round_dates(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Return seconds since 1970 at which a clock or a calendar turns, with their texts."""
    rough = (high - low) / most
    step = next((size for size in _STEPS if size >= rough), None)
    if step is not None:
        # weeks begin on Mondays, and 1970 did not
        start = 4 * _DAY if step % (7 * _DAY) == 0 else 0
        first, last = math.ceil((low - start) / step), math.floor((high - start) / step)
        turns = [np.datetime64(int(k * step + start), "s") for k in range(first, last + 1)]
        return [(float(turn.astype(np.int64)), _date(turn, step)) for turn in turns]
    size = next((months for months in (1, 2, 3, 6) if months * 30.5 * _DAY >= rough), None)
    if size is None:
        years = round_numbers(_year(low), _year(high), most)
        marks = [np.datetime64(int(year) - 1970, "Y").astype("datetime64[M]") for year, _ in years if year.is_integer()]
    else:
        begin, end = (int(_datetime(edge).astype("datetime64[M]").astype(np.int64)) for edge in (low, high))
        marks = [np.datetime64(k, "M") for k in range(begin, end + 1) if k % size == 0]
    dated = [(float(mark.astype("datetime64[s]").astype(np.int64)), mark) for mark in marks]
    return [(at, _month(mark)) for at, mark in dated if low <= at <= high]


def _datetime(seconds: float) -> np.datetime64:
    return np.datetime64(math.floor(seconds), "s")


def _year(seconds: float) -> float:
    return 1970 + seconds / (365.2425 * _DAY)


def _month(turn: np.datetime64) -> str:
    year, month = str(turn)[:7].split("-")[-2:]
    return year if month == "01" else _MONTHS[int(month) - 1]


def _date(turn: np.datetime64, step: int) -> str:
    day, time = str(turn).split("T")
    if step >= _DAY or time == "00:00:00":
        return f"{int(day[-2:])} {_MONTHS[int(day[-5:-3]) - 1]}"
    return time[:5] if step >= 60 else time
