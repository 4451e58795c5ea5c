"""Bounds: what a combination of means can be under one assumption about missing outcomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from belated.base.tables import Column, Table
from belated.base.text import percent

#: What is bounded: the factor of the odds, or the difference of the means.
Size = Literal["gamma", "delta"]


@dataclass(frozen=True)
class Bounds(Table):
    """What a combination of means can be under one assumption.

    Attributes
    ----------
    name : str
    gamma, delta : float or None
        The assumption: one of them.
    bound_low, bound_high : float
        The least and the largest estimate that it allows.
    low, high : float
        The interval, which covers the truth if the assumption holds.
    level : float
    """

    name: str
    gamma: float | None
    delta: float | None
    bound_low: float
    bound_high: float
    low: float
    high: float
    level: float

    def __repr__(self) -> str:
        return self.to_text()

    def includes(self, value: float) -> bool:
        """Whether the interval includes a value."""
        return self.low <= value <= self.high

    def _title(self) -> str:
        return f"{self.name}: {percent(self.level)} interval"

    def _columns(self) -> list[Column]:
        return bounds_columns([self], "gamma" if self.delta is None else "delta")


def bounds_columns(rows: Sequence[Bounds], size: Size) -> list[Column]:
    """Return a column for the size of the assumption, and one for each bound and limit."""
    # digits as for the narrowest interval, of which a standard error is about a quarter
    narrow = min((row.high - row.low for row in rows), default=math.nan) / 4
    names = ("bound_low", "bound_high", "low", "high")
    return [
        Column(size, [getattr(row, size) for row in rows], "number"),
        *(Column(name, [getattr(row, name) for row in rows], "estimate", [narrow] * len(rows)) for name in names),
    ]
