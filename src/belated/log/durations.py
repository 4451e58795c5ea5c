"""`Window`: the time after an assignment in which its events count, and lengths of time as a clock counts them."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from belated.base.errors import OptionError, argument
from belated.base.text import count, shown
from belated.log.clock import Clock

#: Units of time by short name: their length in microseconds, and their long name.
_LENGTHS = {
    "us": (1, "microsecond"), "ms": (10**3, "millisecond"), "s": (10**6, "second"), "sec": (10**6, "second"),
    "m": (60 * 10**6, "minute"), "min": (60 * 10**6, "minute"), "h": (3600 * 10**6, "hour"),
    "d": (86400 * 10**6, "day"), "w": (7 * 86400 * 10**6, "week"),
}  # fmt: skip

_SHORTEST, _WEEK = (1, "microsecond"), (7 * 86400 * 10**6, "week")


@dataclass(frozen=True)
class Window:
    """The time after an assignment in which its events count, in steps or microseconds."""

    length: int | float
    is_time: bool
    text: str


#: A window as users give it: a number of steps, or a duration, also as text such as "7d".
WindowLike: TypeAlias = Window | str | int | float | np.integer | np.floating | dt.timedelta | np.timedelta64


def check_windows(windows: object) -> None:
    """Raise if `windows` is not a list of windows, or if it is empty."""
    if isinstance(windows, (str, bytes)) or not windows:
        raise OptionError(f"{argument('windows')} must be a list of windows, such as ['1d', '7d', '30d'].")


def longest_of(windows: Iterable[WindowLike]) -> Window:
    """Return the longest of several windows."""
    check_windows(windows)
    known = [read_window(window, "windows") for window in windows]
    if len({each.is_time for each in known}) > 1:
        raise OptionError(f"{argument('windows')} mixes durations and steps; give one kind.")
    return max(known, key=lambda each: each.length)


def read_window(window: object, name: str = "window") -> Window:
    """Return a window from text such as "7d" or "12 hours", a number of steps, or a timedelta."""
    if isinstance(window, Window):
        return window
    if isinstance(window, (dt.timedelta, np.timedelta64)):
        if np.isnat(np.timedelta64(window, "us")):
            raise _no_window(window, name)
        length = round(np.timedelta64(window, "us") / np.timedelta64(1, "us"))
        size, unit = next(((s, u) for s, u in sorted(_LENGTHS.values(), reverse=True) if length % s == 0), (1, ""))
        return _window(length, True, count(length // size, unit), window, name)
    if isinstance(window, (int, float, np.integer, np.floating)) and not isinstance(window, bool):
        return _steps(float(window), window, name)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(window).lower())
    if match is None:
        raise _no_window(window, name)
    number, unit = match.groups()
    if unit in ("", "step", "steps"):
        return _steps(float(number), window, name)
    names = _LENGTHS | {noun: (size, noun) for size, noun in _LENGTHS.values()}
    size, noun = names.get(unit) or names.get(unit.removesuffix("s")) or (0, "")
    if not size:
        raise _no_window(window, name)
    return _window(int(Fraction(number) * size), True, f"{number} {noun}{'' if number == '1' else 's'}", window, name)


def read_duration(given: object, name: str = "window", otherwise: str = "") -> Window:
    """Return a length of time, as `read_window` does; steps are none. `otherwise` is a word that may be given, too."""
    with suppress(OptionError):
        window = read_window(given, name)
        if window.is_time:
            return window
    words = f", or {otherwise!r}" if otherwise else ""
    raise OptionError(
        f"{argument(name)} is {shown(given)}; it must be a duration, such as '7d', '12h', '30min' or '90s'{words}."
    )


def _steps(number: float, given: object, name: str) -> Window:
    steps = int(number) if math.isfinite(number) and number == int(number) else float(number)
    return _window(steps, False, f"{steps:,} {'step' if steps == 1 else 'steps'}", given, name)


def _window(length: int | float, is_time: bool, text: str, given: object, name: str) -> Window:
    if not 0 < length < 2**62:
        raise _no_window(given, name)
    return Window(length, is_time, text)


def _no_window(window: object, name: str) -> OptionError:
    return OptionError(
        f"{argument(name)} is {shown(window)}; it must be a positive number of "
        "steps, such as 100, or a duration, such as '7d', "
        "'12h', '30min' or '90s'."
    )


def other_kind(name: str, given: Window) -> OptionError:
    """Return the error that a length is a duration but times are numbers, or the other way round."""
    if not given.is_time:
        return OptionError(f"{argument(name)} is {given.text}, but the times are datetimes; try '7d'.")
    seconds = given.length / 10**6
    return OptionError(
        f"{argument(name)} is {given.text}, but the times are numbers; try {seconds:.15g} if they are seconds, "
        f"{1000 * seconds:.15g} if they are milliseconds."
    )


def length_on(clock: Clock, window: object, name: str = "window") -> int | float:
    """Return a window in numbers of a clock; of a clock of whole numbers, the whole numbers that it contains."""
    given = read_window(window, name)
    if given.is_time != (clock.unit is not None):
        raise other_kind(name, given)
    if clock.unit is None:
        return math.floor(given.length) if clock.whole else float(given.length)
    return math.floor(Fraction(given.length) * clock.per_microsecond)


def length_text(clock: Clock, length: int | float) -> str:
    """Return a length in numbers of a clock as words, such as "10 days" or "100 steps"."""
    size, name = length_scale(clock, length)
    number = f"{round(length / size):,}" if length / size >= 1000 else f"{length / size:.4g}"
    return f"{number} {name.removesuffix('s') if number == '1' else name}"


def length_scale(clock: Clock, length: int | float) -> tuple[float, str]:
    """Return the unit in which a length in numbers of a clock is shown: its length, and its name in the plural."""
    if clock.unit is None:
        return 1.0, "steps"
    per_microsecond = float(clock.per_microsecond)
    units = sorted(set(_LENGTHS.values()) - {_WEEK}, reverse=True)
    size, name = next((unit for unit in units if unit[0] * per_microsecond <= length), _SHORTEST)
    return size * per_microsecond, f"{name}s"
