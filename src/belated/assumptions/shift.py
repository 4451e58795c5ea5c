"""Shift: bounds by how much the means of missing and arrived outcomes may differ."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from belated.assumptions.missing import Bounds, MissingOutcomes, Shifted, bounds_columns
from belated.assumptions.sensitivity import tipping_point
from belated.base.checks import real
from belated.base.errors import OptionError
from belated.base.tables import Column, Table
from belated.base.text import percent

#: The shifts that a table shows, in standard deviations.
_SHIFTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True, eq=False, repr=False)
class Shift(Table):
    """Bounds and intervals by delta, how much the means of missing and arrived outcomes may differ.

    In each arm the mean of the outcomes that have not come lies within delta of the mean of those that have, on
    whichever side is worse for the conclusion. Of outcomes that are 0 or 1 it stays between 0 and 1.
    """

    name: str
    level: float
    null: float
    missing: MissingOutcomes = field(repr=False)

    @property
    def sd(self) -> float:
        """The standard deviation of arrived outcomes, pooled over the arms."""
        return self.missing.sd

    def at(self, delta: float) -> Bounds:
        """Return what a difference of at most `delta`, in units of the outcome, allows."""
        size = real("delta", delta)
        if size < 0:
            raise OptionError(f"`delta` is {delta!r}; it is a size, 0 or more.")
        bound_low, bound_high, low, high = self.missing.limits(Shifted(size))
        return Bounds(
            name=self.name,
            gamma=None,
            delta=size,
            bound_low=bound_low,
            bound_high=bound_high,
            low=low,
            high=high,
            level=self.level,
        )

    @cached_property
    def rows(self) -> tuple[Bounds, ...]:
        """The bounds at shifts of 0 to 2 standard deviations."""
        sd = self.sd if math.isfinite(self.sd) else 0.0
        return tuple(self.at(share * sd) for share in _SHIFTS)

    @cached_property
    def tipping_point(self) -> float:
        """The smallest delta at which the interval includes `null`; 0 if it does already, infinite if none makes it."""
        unit = self.sd or 1.0
        return tipping_point(self.missing, self.null, lambda x: unit * math.expm1(x), Shifted)

    @property
    def reach(self) -> float:
        """How far a figure goes."""
        sd = self.sd if self.sd > 0 else 1.0
        return max(sd, 1.3 * self.tipping_point) if self.tipping_point < 20 * sd else 2 * sd

    @property
    def conclusion(self) -> str:
        """What the shift says, in one sentence."""
        tipping = self.tipping_point
        if math.isnan(tipping):
            return "There is no interval."
        if tipping == 0:
            return f"The interval includes {self.null:g} without any shift."
        if math.isinf(tipping):
            return f"No shift makes the interval include {self.null:g}."
        sds = f" ({tipping / self.sd:.2g} standard deviations)" if self.sd > 0 else ""
        return (
            f"The interval includes {self.null:g} once missing and arrived outcomes differ in mean by {tipping:.3g}"
            f"{sds}."
        )

    def _title(self) -> str:
        return f"{self.name}: {percent(self.level)} intervals if missing and arrived means differ by at most delta"

    def _columns(self) -> list[Column]:
        first, *others = bounds_columns(self.rows, "delta")
        in_sd = [row.delta / self.sd if self.sd and row.delta is not None else math.nan for row in self.rows]
        return [first, Column("delta_sd", in_sd, "number"), *others]

    def _notes(self) -> list[str]:
        return [self.conclusion]
