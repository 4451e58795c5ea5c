"""Times that are written as whole numbers: dates without marks, such as 20260301, and seconds since 1970."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from belated.base.errors import LogError, argument

#: Patterns of dates without marks, by how many digits they have.
_COMPACT = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}

#: How often the clock ticks in a second, and the first and last second that a log may be about: 1990 and 2100.
_TICKS = {1: "seconds", 10**3: "milliseconds", 10**6: "microseconds", 10**9: "nanoseconds"}
_SECONDS = (631_152_000, 4_102_444_800)


def compact_pattern(texts: Iterable[str]) -> str | None:
    """Return the pattern of dates without marks, if every text is one."""
    patterns = {_pattern_of(text.strip()) for text in texts}
    return patterns.pop() if len(patterns) == 1 else None


def _pattern_of(text: str) -> str | None:
    pattern = _COMPACT.get(len(text))
    if pattern is None or not (text.isascii() and text.isdecimal() and "1900" <= text[:4] < "2200"):
        return None
    try:
        datetime.strptime(text, pattern)
    except ValueError:
        return None
    return pattern


def check_numbers(first: float, last: float, last_arrival: float) -> None:
    """Raise if the numbers of a log's times cannot be meant as numbers of steps: differences would have no meaning."""
    ends = [f"{time:.0f}" for time in (first, last)]
    if compact_pattern(ends) is not None:
        raise LogError(
            f"{argument('assigned_at')} is {ends[0]} to {ends[1]}, whole numbers that look like dates; turn the column "
            "into dates, such as 2026-03-01.",
            column="assigned_at",
        )
    assigned, arrived = _ticks(last), _ticks(last_arrival)
    if assigned != arrived and assigned is not None and arrived is not None:
        raise LogError(
            f"{argument('assigned_at')} seems to be in {_TICKS[assigned]} since 1970, such as {last:.0f}, and "
            f"{argument('arrived_at')} in {_TICKS[arrived]}, such as {last_arrival:.0f}; both must be in one unit.",
            column="arrived_at",
        )


def _ticks(time: float) -> int | None:
    """Return how often a clock ticks in a second if a number is a time since 1970; None: it is not."""
    return next((ticks for ticks in _TICKS if _SECONDS[0] <= time / ticks < _SECONDS[1]), None)
