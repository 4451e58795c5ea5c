"""`Evidence`: the counts and sums of a log from which every check is computed.

`log.row_summaries` computes them from a log in memory; `reading.evidence_query` has an engine compute them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from belated.base.checks import NO_DIFFERENCE, TINY
from belated.base.columns import Array, Label
from belated.summaries.contexts import Swings
from belated.summaries.maturing import Measure

#: The name of the outcome if it is whether an event happened.
SHARE_WITH_EVENT = "share with an event"


def event_outcome(measure: Measure, value: str | None = None) -> str:
    """Return the name of an outcome that is made of events, whose `value` may have a name."""
    return {"indicator": SHARE_WITH_EVENT, "count": "number of events", "sum": value or "outcome"}[measure]


#: The number of periods of time, and of the coarser periods used where rows must not be few.
STRETCHES = 40
COARSE = 10

#: With fewer arrivals, an arm or a period is not tested, and an arm's interval is approximate.
FEW = 30

#: The number of bins of delays, which are narrow for short delays and wide for long ones.
DELAY_BINS = 48

#: The bin of rows whose outcome has not arrived, after those of delays.
NOT_ARRIVED = DELAY_BINS + 1

#: A delay or an age this close to the end of a bin, in bins, is at the end: rounding must not move it beyond.
BIN_ROUNDING = 1e-9

#: With more rows, only the earliest are used for `Evidence.dependence`.
ENOUGH = 1_000_000

#: An outcome this close to its arm's mean, in standard deviations, equals it.
AT_MEAN = 1e-6

#: Copies are reported only if at least this many rows are different; and the number of rows examined first.
COPIES, LOOKED_AT = 20, 64

#: Delays are multiples of a unit if they are so up to this share of it, because times may be rounded. A unit shorter
#: than this share of the shortest delay does not matter.
UNIT_ROUNDING, FINEST_UNIT = 1e-3, 1e-2


class FollowUp(NamedTuple):
    """When rows were assigned first and last, and when they were looked at last, as numbers of the clock."""

    first: int | float
    last: int | float
    look: int | float
    whole: bool  # whether times are integers

    @property
    def half(self) -> int | float:
        """Half of the time for which the experiment has been followed."""
        length = self.look - self.first
        return length // 2 if self.whole else length / 2

    @property
    def old_until(self) -> int | float:
        """When the last of the rows was assigned that have been followed for half of the experiment, at most."""
        return min(self.first + self.half, self.last)

    @property
    def short(self) -> float:
        """The unit in which the logarithm of delays is taken: a thousandth of `half`, or 1."""
        return float(self.look - self.first) / 2000 or 1.0

    def early_until(self, rows: int) -> int | float:
        """Return `old_until`; if there are many rows, when about the earliest `ENOUGH` of them had been assigned."""
        if rows <= ENOUGH:
            return self.old_until
        return min(self.old_until, self.first + type(self.first)((self.last - self.first) * (ENOUGH / rows)))

    @property
    def moments(self) -> Array:
        """The middle of each period."""
        return np.asarray(self.first + (np.arange(STRETCHES) + 0.5) * (float(self.last - self.first) / STRETCHES))


@dataclass(frozen=True)
class ArrivalCounts:
    """Counts of rows by arm, delay and time of follow-up.

    Attributes
    ----------
    delays : array
        Upper ends of the bins of time since assignment, in microseconds or the clock's numbers.
    counts : array of shape (arms, delay bins + 1, age bins)
        Numbers of rows by the bin in which the outcome arrived (the last: not arrived) and the number of bins that the
        row was followed in full.
    followed : float
        The time for which the first row has been followed.
    """

    delays: Array
    counts: Array
    followed: float


class DelayBins(NamedTuple):
    """Bins of delays and ages t, by log(1 + t / unit) / step: narrow for short ones and wide for long ones."""

    unit: float
    step: float

    @classmethod
    def of(cls, mean: float, longest: float) -> DelayBins | None:
        """Return the bins of delays; None if all are 0, or so short or long that multiples of them are no numbers."""
        unit = mean / 10
        if not (longest > 0 and TINY < unit < 1 / TINY):
            return None
        return cls(unit, math.log1p(longest / unit) / DELAY_BINS)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of bins of delays, with that of rows without outcome, and of ages."""
        return NOT_ARRIVED + 1, DELAY_BINS + 1

    @property
    def ends(self) -> Array:
        """The upper ends of the bins."""
        return np.asarray(self.unit * np.expm1(self.step * np.arange(DELAY_BINS + 1)))


class Recorded(NamedTuple):
    """The oldest rows: their smallest outcome (NaN if none has arrived), and counts by arm."""

    lowest: float
    rows: Array
    arrived: Array


class OutcomeShape(NamedTuple):
    """The distribution of each arm's outcomes, with z = (y - mean) / standard deviation; all 0 if they are equal.

    The standard deviation divides by n, so the sum of z^2 is n, and the outcomes have two values exactly if the lowest
    z times the highest is -1. `sides` has shape (arms, 2, 3): for outcomes below and above the mean, their number, the
    sum of abs(z), and the sum of its square root. Nothing depends on the unit or the origin of the outcomes.
    """

    lowest: Array
    highest: Array
    cubes: Array
    fourths: Array
    sides: Array


class SegmentEvidence(NamedTuple):
    """The data of checks by segment and arm.

    Attributes
    ----------
    labels : tuple
        The segments, after small ones were merged.
    merged : tuple
        The log's segments that were merged into the last.
    missing : int
        The number of rows without a segment.
    sums : dict of array (periods, cells)
        As `Evidence.sums`, by cell: segment * arms + arm.
    """

    labels: tuple[Label, ...]
    merged: tuple[Label, ...]
    missing: int
    sums: Mapping[str, Array]

    def table(self, name: str) -> Array:
        """Return a sum over all periods by segment and arm."""
        return np.asarray(self.sums[name].sum(axis=0).reshape(len(self.labels), -1))


class CovariateEvidence(NamedTuple):
    """The data of checks on the scaled covariates x.

    Attributes
    ----------
    names : tuple of str
    old, soon : array (segments, arms)
        As in `Evidence.sums`.
    x, x2, x3, x_soon : array (segments, arms, covariates)
        Sums over old rows of x, x^2 and abs(x)^3, and of x over those whose outcome arrived soon.
    choice : array (3, arms, covariates) or None
        With p an arm's probability: the sum of x over its rows minus that of p x over all rows, a martingale if the
        policy used the logged probabilities; the sums of p (1 - p) x^2 and p (1 - p) abs(x)^3. None if only the chosen
        arm's probability is known.
    """

    names: tuple[str, ...]
    old: Array
    soon: Array
    x: Array
    x2: Array
    x3: Array
    x_soon: Array
    choice: Array | None


class CohortEvidence(NamedTuple):
    """How the build-up of events by age varies with the time of assignment; `summaries.cohorts` has the formula.

    Attributes
    ----------
    ages : tuple of str
        The ages at which the bins end, in words.
    events : array (arms,)
        The number of events.
    score : array (arms, bins)
        Positive if rows that were assigned later have more events at these ages.
    spread : array (arms, bins, bins)
        The covariances of the scores.
    """

    ages: tuple[str, ...]
    events: Array
    score: Array
    spread: Array


def grain_of(shortest: float, longest: float, remainder: Callable[[float], float | None]) -> float:
    """Return the unit that all delays are multiples of, their greatest common divisor; 0 if there is none that matters.

    `shortest` and `longest` are delays above 0, and `remainder` is a function from a unit to the smallest distance of a
    delay from a multiple of it, of those above `UNIT_ROUNDING`; None if there is none. Equal delays show no unit.
    """
    unit = shortest if 0 < shortest < longest else 0.0
    while unit > FINEST_UNIT * shortest:
        left = remainder(unit)
        if left is None:
            return unit
        unit = left
    return 0.0


def squares_about_mean(n: Array, y: Array, y2: Array) -> Array:
    """Return the sum of (y - mean)^2 from the sums of y and y^2 over `n` values; exactly 0 if they are equal."""
    square = y2 - y**2 / n
    return np.where(square > NO_DIFFERENCE * y2, square, 0.0)


def mean_and_sd(totals: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return, by arm, the mean about the shift and the standard deviation of `OutcomeShape`; 0 and 1 if no outcomes."""
    n = np.maximum(totals["arrived"], 1)
    square = squares_about_mean(n, totals["y"], totals["y2"])
    return totals["y"] / n, np.where(square > 0, np.sqrt(square / n), 1.0)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The counts and sums of a log that checks use: a few thousand numbers.

    Attributes
    ----------
    arms : tuple
    rows : int
    within : str or None
        The window in words, if outcomes are events.
    grain : float
        The unit that all delays are multiples of, such as a step or a day; 0 if there is none, or a very short one.
    moments : array
        The middles of the periods, as numbers of the clock.
    sums : dict of array (periods, arms)
        With w = 1 / sqrt(p), the weight of a row of probability p: ``assigned`` rows and their ``inverse`` (sum of
        1 / p); ``old``, rows followed for at least half of the experiment, and ``soon``, those of them whose outcome
        arrived within that time; for the ``arrived`` rows, the sums of w, w^2, w^3, w^4, and of the outcomes about
        `shift` (``y``, ``y2``).
    shift : array
    low, rarest : array
        By arm, the smallest outcome, and the smallest probability of a row whose outcome has arrived; NaN if none has.
    shape : OutcomeShape
    unlikeliest : array
        By arm, the smallest probability of any of its rows; NaN if it has none.
    p, p2, p_min : array (periods, arms) or None
        Over all rows, the sums of each arm's probabilities and their squares, and the smallest; None if only the
        chosen arm's are known.
    h, h_max, chance : array or None
        By arm, the sum and the maximum of sqrt(p); and the sum of all p not above `rarest`, the expected number of rows
        as unlikely.
    excess, variance : array or None
        If the probabilities are correct, martingales with steps of at most 1, and their variances: for each arm,
        choices minus probabilities; last, the chosen arm's probability minus the sum of all p^2.
    log_p : array (arms, arms) or None
        Entry (a, b) is the sum of log p(b) over the rows of arm a.
    dependence : array (cells, 3, 3)
        Sums of L^i y^j over rows followed for half of the experiment whose outcome arrived within that time, L the
        logarithm of 1 + the delay; by arm, or by segment and arm.
    arrivals : ArrivalCounts or None
        None if every outcome arrived at once.
    swings : Swings
        How probabilities swing from row to row.
    segments : SegmentEvidence or None
        None if the log has no segments.
    covariates : CovariateEvidence or None
        None if the log has no covariates.
    cohorts : CohortEvidence or None
        None unless outcomes are events, and rows whose window is open count too.
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
    shape: OutcomeShape
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
    swings: Swings
    segments: SegmentEvidence | None = None
    covariates: CovariateEvidence | None = None
    cohorts: CohortEvidence | None = None

    @property
    def cells(self) -> Mapping[str, Array]:
        """The sums by period and arm or, in a log with segments, by period, segment and arm."""
        return self.sums if self.segments is None else self.segments.sums

    @cached_property
    def totals(self) -> dict[str, Array]:
        """The sums by arm."""
        return {name: table.sum(axis=0) for name, table in self.sums.items()}

    def coarse(self, name: str) -> Array:
        """Return sums, or `p` and `p2`, by the `COARSE` periods and arm."""
        return _coarse(getattr(self, name) if name in ("p", "p2") else self.sums[name])

    def coarse_cells(self, name: str) -> Array:
        """Return `cells` by the `COARSE` periods."""
        return _coarse(self.cells[name])


def _coarse(table: Array) -> Array:
    return np.asarray(table.reshape(COARSE, -1, table.shape[1]).sum(axis=1))


def settled(variance: Array, rows: int) -> Array:
    """Return variances, with exactly 0 where only rounding errors remain: probabilities that are equal, or 1."""
    return np.where(variance > 1e-9 * rows, variance, 0.0)
