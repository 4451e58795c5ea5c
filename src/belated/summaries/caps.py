"""Cap: outcomes above it count as it; how many did, and what is then estimated, in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belated.base.checks import real
from belated.base.columns import Array
from belated.base.errors import OptionError
from belated.base.text import count, one_line
from belated.summaries.evidence import SHARE_WITH_EVENT


@dataclass(frozen=True, eq=False)
class Cap:
    """At what outcomes were cut, and of each arm how many arrived ones were above it."""

    value: float
    above: Array

    def __add__(self, other: Cap) -> Cap:
        return Cap(self.value, self.above + other.above)

    @property
    def total(self) -> int:
        """How many outcomes were above the cap."""
        return int(self.above.sum())

    def note(self, arrived: float) -> str:
        """Say how many of the outcomes that arrived were cut."""
        lies, counts = ("lies", "counts") if self.total == 1 else ("lie", "count")
        of, cap = count(int(arrived), "arrived outcome"), cap_text(self.value)
        share = f" ({self.total / arrived:.2%})" if arrived else ""
        return f"{self.total:,} of {of}{share} {lies} above {cap} and {counts} as {cap}."

    def to_dict(self, arrived: float) -> dict[str, float]:
        """Return what a document says of the cap."""
        return {"cap": self.value, "capped": self.total, "capped_share": self.total / arrived if arrived else np.nan}


def no_cap() -> dict[str, None]:
    """Return what a document says if there is no cap: the names of `Cap.to_dict`."""
    return {"cap": None, "capped": None, "capped_share": None}


def read_cap(cap: object) -> float:
    """Return a cap that users give."""
    return real("cap", cap)


def check_cap(cap: float, lowest: float, arrived: int) -> None:
    """Refuse a cap that no outcome is below: all would be equal."""
    if arrived > 1 and cap <= lowest:
        raise OptionError(
            f"`cap` is {cap_text(cap)}, but no outcome is below it: the smallest is {lowest:g}, and all would count as "
            "equal; give a larger one."
        )


def cut(outcome: Array, cap: float | None) -> Array:
    """Return outcomes, those above the cap as the cap; NaN stays."""
    return outcome if cap is None else np.minimum(outcome, cap)


# ---------------------------------------------------------------- words


def cap_text(cap: float) -> str:
    """Return a cap as people write it."""
    return f"{cap:,.15g}"


def capped_at(cap: float | Cap | None) -> str:
    """Return what follows the name of a quantity whose outcomes have a cap."""
    value = cap.value if isinstance(cap, Cap) else cap
    return "" if value is None else f", capped at {cap_text(value)}"


def quantity(outcome: str) -> str:
    """Return what is averaged, in words; the mean of whether something happened is a share."""
    return outcome if outcome == SHARE_WITH_EVENT else f"mean {one_line(outcome)}"
