"""`Looks`: a sequence that is tested at its looks, rather than at every arrival."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

import numpy as np

from belated.base.columns import Array
from belated.base.roots import last_above_0
from belated.base.text import Unit
from belated.estimation.estimate import Estimate
from belated.estimation.estimators import ESTIMATORS
from belated.estimation.intervals import resolve_interval
from belated.log.clock import Clock
from belated.log.log import Log
from belated.sequences.design import Design
from belated.sequences.intervals import BandPoint
from belated.summaries.maturing import Measure
from belated.summaries.sums import Sums

#: The work of finding a p-value of one arm or cell, in units of `jit.ready`.
LIMIT_STEPS = 30_000

#: A score from which on a p-value, exp(-score), is 0 in floats.
_LARGEST_SCORE = 746.0


class Followed(Protocol):
    """The results at the looks of a sequence."""

    design: Design
    clock: Clock
    times: list[int | float]

    @property
    def began(self) -> int | float:
        """The time from which the sequence holds."""

    @property
    def unit(self) -> Unit:
        """The unit of means for display."""

    @property
    def arrived(self) -> Array:
        """The number of arrivals of each arm so far."""

    def fixed(self, look: int) -> Estimate:
        """Return the estimate at a look, with single-look intervals."""


class LookReach(NamedTuple):
    """An answer at one look: squared scales A of the lower and the upper reach, and their prices L."""

    estimate: float
    lower: Array
    upper: Array
    price: Array


class Looks(ABC):
    """The results at looks at a log.

    Attributes
    ----------
    design : Design
    clock : Clock
    outcome : str
        The name of the outcome.
    measure : str or None
        What outcomes are, if they are made of events.
    times : list
        The times of the looks, as numbers of the clock.
    """

    def __init__(self, design: Design, clock: Clock, outcome: str, measure: Measure | None) -> None:
        self.design, self.clock, self.outcome, self.measure = design, clock, outcome, measure
        self.times: list[int | float] = []

    # ---------------------------------------------------------------- looking

    @abstractmethod
    def follow(self, log: Log, moments: Array) -> None:
        """Look at a log at some times."""

    @abstractmethod
    def follow_later(self, log: Log) -> None:
        """Look at a later version of the log at its as-of time; raise if it is another log."""

    @abstractmethod
    def sums(self, look: int) -> Sums:
        """Return the sums of the DIPW estimate at a look."""

    @property
    def began(self) -> int | float:
        """The time from which the sequence holds: the first look."""
        return self.times[0]

    @property
    def unit(self) -> Unit:
        """The unit of means for display."""
        return self.sums(-1).unit_of(self.measure)

    @property
    def arrived(self) -> Array:
        """The number of arrivals of each arm so far."""
        return self.sums(-1)["arrived"]

    def fixed(self, look: int) -> Estimate:
        """Return the DIPW estimate at a look, with single-look intervals."""
        dipw = ESTIMATORS["dipw"]
        return Estimate(
            sums=self.sums(look),
            estimator=dipw,
            level=self.design.level,
            interval=resolve_interval("auto", self.sums(-1), dipw),
            as_of=self.clock.text(self.times[look]),
            outcome=self.outcome,
            unit=self.unit,
        )

    # ---------------------------------------------------------------- intervals and tests

    @abstractmethod
    def _reach(self, look: int, a: int, b: int | None, threshold: float) -> LookReach:
        """Return an answer at a look; beta-binomial scales are those at the threshold, with price 0."""

    @abstractmethod
    def silence(self, arm: int) -> str | None:
        """Return the reason why an arm's interval is infinite; None if it is finite."""

    def interval(self, look: int, a: int, b: int | None, threshold: float) -> BandPoint:
        """Return the estimate and limits of an arm, or of one minus another, at a look."""
        reach = self._reach(look, a, b, threshold)
        bottom, top = (-math.inf, math.inf) if self.design.bounds is None else self.design.bounds
        if b is not None:
            bottom, top = bottom - top, top - bottom
        factor = 1.0 if self.design.is_binary else 2 * threshold + reach.price
        below, above = (math.sqrt(float(np.sum(side * factor))) for side in (reach.lower, reach.upper))
        if math.isnan(reach.estimate):
            return BandPoint(reach.estimate, bottom, top)
        return BandPoint(reach.estimate, max(reach.estimate - below, bottom), min(reach.estimate + above, top))

    def score_null(self, a: int, b: int | None, together: int) -> tuple[float, int | float | None]:
        """Return the largest score of a look against the null, and the first look whose score exceeds the threshold."""
        null, threshold = self.design.null_of(a, b), self.design.threshold(together)
        looks = range(len(self.times))
        if self.design.is_binary:
            first = next((look for look in looks if self._distance(look, a, b, threshold) > 0), None)
            return self._largest_threshold(a, b), None if first is None else self.times[first]
        scores = [self._score(look, a, b, null) for look in looks]
        first = next((look for look in looks if scores[look] >= threshold), None)
        return max(scores), None if first is None else self.times[first]

    def _score(self, look: int, a: int, b: int | None, null: float) -> float:
        """Return the logarithm of 1 / alpha at which a look just excludes the null; 0: at none."""
        reach = self._reach(look, a, b, 0.0)
        away = reach.estimate - null
        scale = reach.lower if away > 0 else reach.upper
        total = float(scale.sum())
        if not total < math.inf or math.isnan(away):
            return 0.0
        return max((away**2 - float(scale @ reach.price)) / (2 * total), 0.0) if total > 0 else math.inf

    def _distance(self, look: int, a: int, b: int | None, threshold: float) -> float:
        """Return how far the null is outside of the interval at a look; 0 or less: it is within."""
        at, low, high = self.interval(look, a, b, threshold)
        null = self.design.null_of(a, b)
        return -math.inf if math.isnan(at) else max(low - null, null - high)

    def _largest_threshold(self, a: int, b: int | None) -> float:
        """Return the largest threshold at which some look excludes the null."""
        largest = 0.0
        for look in reversed(range(len(self.times))):  # the last looks know most: few others are searched
            if largest < _LARGEST_SCORE and self._distance(look, a, b, largest) > 0:
                largest = self._threshold_of(look, a, b)
        return largest

    def _threshold_of(self, look: int, a: int, b: int | None) -> float:
        """Return the largest threshold at which a look excludes the null."""
        return last_above_0(lambda threshold: self._distance(look, a, b, threshold), _LARGEST_SCORE)
