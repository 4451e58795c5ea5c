"""Evidence: the counts and sums of a log from which every check of it is read.

`log.row_summaries` makes them of a log in memory; `reading.evidence_query` lets an engine make them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from belated.base.columns import Array, Label

#: What the outcome is called if it is whether an event happened.
SHARE_WITH_EVENT = "share with an event"

#: Stretches of time, and those that are put together where rows must not be few.
STRETCHES = 40
COARSE = 10

#: Arrivals below which an arm, or a stretch of its time, is not tested, and an arm's interval is a rough one.
FEW = 30

#: Bins of delays, fine for short ones and coarse for long ones.
DELAY_BINS = 48

#: Rows beyond which only the earliest are looked at for `Evidence.dependence`.
ENOUGH = 1_000_000

#: Standard deviations within which an outcome is its arm's mean.
AT_MEAN = 1e-6

#: Different rows from which it means something that each is there twice, and rows that are looked at first.
COPIES, LOOKED_AT = 20, 64

#: What stands for a probability of 0 where its logarithm is taken.
TINY = 1e-300

#: Steps that delays may be multiples of, the longest first: of plain numbers, and of datetimes, in microseconds.
GRAINS = {False: (1.0,), True: (86_400e6, 3_600e6, 60e6, 1e6)}


@dataclass(frozen=True)
class ArrivalCounts:
    """By arm, how many rows were followed how long, and how many of them arrived when.

    Attributes
    ----------
    delays : array
        Upper ends of the bins of time since assignment, in microseconds or the clock's numbers.
    counts : array of shape (arms, delay bins + 1, age bins)
        Rows by the bin in which the outcome came, the last for those still out, and the bins followed in full.
    followed : float
        How long the first row has been followed.
    """

    delays: Array
    counts: Array
    followed: float


class Recorded(NamedTuple):
    """The rows followed longest: their least outcome (NaN: none has arrived), and counts by arm."""

    lowest: float
    rows: Array
    arrived: Array


class Shape(NamedTuple):
    """How an arm's outcomes are spread, by arm, with z = (y - mean) / standard deviation; all 0 if they are equal.

    The standard deviation divides by n: the sum of z^2 is n, and the outcomes have two values exactly if the lowest z
    times the highest is -1. `sides` has shape (arms, 2, 3): of those below the mean and of those above, how many, the
    sum of abs(z), and the sum of its square root. All is free of the outcomes' unit and place.
    """

    lowest: Array
    highest: Array
    cubes: Array
    fourths: Array
    sides: Array


def mean_and_sd(totals: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return, by arm, the mean about the shift and the standard deviation that `Shape` divides by; 0 and 1 if none."""
    n = np.maximum(totals["arrived"], 1)
    mean = totals["y"] / n
    square = totals["y2"] - n * mean**2
    return mean, np.where(square > 1e-12 * totals["y2"], np.sqrt(np.maximum(square, 0) / n), 1.0)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a log shows, as a few thousand numbers.

    Attributes
    ----------
    arms : tuple
    rows : int
    within : str or None
        Of events, the window in words.
    grain : float
        Delays are multiples of it: whole steps, seconds, minutes, hours or days; 0 if they are not.
    moments : array
        The middles of the stretches of time, as numbers of the clock.
    sums : dict of array (stretches, arms)
        With w = 1 / sqrt(p), the weight of a row of probability p: ``assigned`` rows and their ``inverse`` (sum of
        1 / p); ``old``, those followed for half of the experiment or longer, and ``soon``, those of them whose outcome
        came within that time; of the ``arrived``, the sums of w, w^2, w^3, w^4, and of the outcomes about `shift`
        (``y``, ``y2``).
    shift : array
    low, rarest : array
        By arm, the smallest outcome, and the smallest probability of a row whose outcome has arrived; NaN if none has.
    shape : Shape
    unlikeliest : array
        By arm, the smallest probability of any of its rows; NaN if it has none.
    p, p2, p_min : array (stretches, arms) or None
        Over all rows, the sums of each arm's probabilities and their squares, and the smallest; None if only the
        chosen arm's are known.
    h, h_max, chance : array or None
        By arm, the sum of sqrt(p) and the largest; and the sum of all p not above `rarest`: how often so unlikely a row
        was to be expected.
    excess, variance : array or None
        Martingales with steps of at most 1 if the probabilities are right, and their variances: for each arm, choices
        minus probabilities; last, the chosen arm's probability minus the sum of all p^2.
    log_p : array (arms, arms) or None
        Over the rows of the first arm, the sum of the logarithms of the second's probability.
    dependence : array (arms, 3, 3)
        Over rows followed for half of the experiment whose outcome came within that time: sums of L^i y^j, L the
        logarithm of 1 + the delay.
    arrivals : ArrivalCounts or None
        None if everything that came came at once.
    """

    arms: tuple[Label, ...]
    rows: int
    within: str | None
    grain: float
    moments: Array
    sums: dict[str, Array]
    shift: Array
    low: Array
    rarest: Array
    shape: Shape
    unlikeliest: Array
    p: Array | None
    p2: Array | None
    p_min: Array | None
    h: Array | None
    h_max: Array | None
    chance: Array | None
    excess: Array | None
    variance: Array | None
    log_p: Array | None
    dependence: Array
    arrivals: ArrivalCounts | None

    @cached_property
    def totals(self) -> dict[str, Array]:
        """The sums by arm."""
        return {name: table.sum(axis=0) for name, table in self.sums.items()}

    def coarse(self, name: str) -> Array:
        """Return sums by `COARSE` stretches and arm; of `p` and `p2` too."""
        table = getattr(self, name) if name in ("p", "p2") else self.sums[name]
        return np.asarray(table.reshape(COARSE, -1, table.shape[1]).sum(axis=1))


def half_of(length: int | float, whole: bool) -> int | float:
    """Return half of a time, whole if times are."""
    return length // 2 if whole else length / 2


def settled(variance: Array, rows: int) -> Array:
    """Return variances with those that are 0 but for rounding as 0: probabilities that are equal, or certain."""
    return np.where(variance > 1e-9 * rows, variance, 0.0)
