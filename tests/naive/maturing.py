"""The maturing estimate by its formula, row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """A row of one arm: its weight, the age that it has reached, and its events as pairs of age and value."""

    w: float
    age: float
    events: Sequence[tuple[float, float]]


def mean_and_variance(rows: Sequence[Row], window: float) -> tuple[float, float]:
    """Return the mean by the end of the window, and its variance, the sum of squares of the influences."""
    rows = [
        Row(row.w, min(row.age, window), [(d, v) for d, v in row.events if d <= min(row.age, window)]) for row in rows
    ]

    def at_risk(u: float) -> float:
        return math.fsum(row.w for row in rows if row.age >= u)

    events = [(row.w, d, v) for row in rows for d, v in row.events]
    mean = math.fsum(w * v / at_risk(d) for w, d, v in events)
    influences = []
    for row in rows:
        own = math.fsum(v / at_risk(d) for d, v in row.events)
        expected = math.fsum(w * v / at_risk(d) ** 2 for w, d, v in events if d <= row.age)
        influences.append(row.w * (own - expected))
    return mean, math.fsum(each**2 for each in influences)
