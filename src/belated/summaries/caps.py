"""`Cap`: outcomes above a cap count as the cap; the number of such outcomes, and the texts that mention a cap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from belated.base.checks import real
from belated.base.columns import Array
from belated.base.errors import OptionError, argument
from belated.base.text import Unit, count, one_line
from belated.summaries.evidence import SHARE_WITH_EVENT

if TYPE_CHECKING:
    from belated.summaries.maturing import Measure


@dataclass(frozen=True, eq=False)
class Cap:
    """A cap on outcomes, and the number of arrived outcomes above it, by arm."""

    value: float
    above: Array

    def __add__(self, other: Cap) -> Cap:
        return Cap(self.value, self.above + other.above)

    @property
    def total(self) -> int:
        """The number of outcomes above the cap."""
        return int(self.above.sum())

    def note(self, arrived: float, noun: str = "arrived outcome") -> str:
        """Return a sentence on how many arrived outcomes are above the cap."""
        lies, counts = ("lies", "counts") if self.total == 1 else ("lie", "count")
        of, cap = count(int(arrived), noun), cap_text(self.value)
        share = f" ({self.total / arrived:.2%})" if arrived else ""
        return f"{self.total:,} of {of}{share} {lies} above {cap} and {counts} as {cap}."

    def to_dict(self, arrived: float) -> dict[str, float]:
        """Return the fields on the cap for JSON."""
        return {"cap": self.value, "capped": self.total, "capped_share": self.total / arrived if arrived else np.nan}


def no_cap() -> dict[str, None]:
    """Return the fields of `Cap.to_dict` without a cap: all None."""
    return {"cap": None, "capped": None, "capped_share": None}


def read_cap(cap: object, measure: Measure | None = None) -> float:
    """Return a cap given by a user, or raise if it is invalid; `measure` is what a log of events counts."""
    value = real("cap", cap)
    if measure == "indicator":
        raise OptionError(
            f"{argument('cap')} is given, but the outcome is whether an event happened, 0 or 1; it needs no cap."
        )
    return value


def check_cap(cap: float, lowest: float, arrived: int) -> None:
    """Raise if no outcome is below the cap, since all outcomes would be equal."""
    if arrived > 1 and cap <= lowest:
        raise OptionError(
            f"{argument('cap')} is {cap_text(cap)}, but the smallest outcome is "
            f"{lowest:g}, so all outcomes would be equal; give a "
            "larger cap."
        )


def cut(outcome: Array, cap: float | None) -> Array:
    """Return outcomes with those above the cap replaced by the cap; NaN stays NaN."""
    return outcome if cap is None else np.minimum(outcome, cap)


# ---------------------------------------------------------------- words


def cap_text(cap: float) -> str:
    """Return a cap as text."""
    return f"{cap:,.15g}"


def capped_at(cap: float | Cap | None) -> str:
    """Return ", capped at ..." or an empty text, to follow the name of a quantity."""
    value = cap.value if isinstance(cap, Cap) else cap
    return "" if value is None else f", capped at {cap_text(value)}"


def quantity(outcome: str, unit: Unit = "number") -> str:
    """Return what is estimated, in words: a mean, or a rate if outcomes are 0 or 1."""
    if outcome == SHARE_WITH_EVENT:
        return outcome
    name = one_line(outcome)
    if unit == "number":
        return f"mean {name}"
    return name if name.endswith("rate") else f"{name} rate"
