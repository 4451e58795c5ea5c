"""Distributions of an arm's outcomes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from belated.base.checks import LARGEST_OUTCOME, positive, probability, real
from belated.base.columns import Array, sample
from belated.base.errors import OptionError
from belated.base.text import shown
from belated.simulation.constructors import Constructed, constructor
from belated.summaries.maturing import Measure

#: Random bits of a uniform number: a Student's t of few degrees of freedom reaches 2 ** (_BITS / degrees) scales.
_BITS = 53

ArmName = Literal["normal", "bernoulli", "gamma", "lognormal", "student_t", "empirical", "events"]


@dataclass(frozen=True, eq=False, repr=False)
class Arm(Constructed):
    """A distribution of outcomes, with its true mean and standard deviation.

    `value` is the distribution of the values of events, if they have values. The mean and standard deviation of events
    count everything that ever happens; those of `Bandit.outcomes` count what happens within the window.
    """

    name: ArmName
    mean: float
    sd: float
    parameters: tuple[float, ...]
    values: Array = field(default_factory=lambda: np.empty(0))
    value: Arm | None = None

    def __post_init__(self) -> None:
        if abs(self.mean) > LARGEST_OUTCOME:
            raise OptionError(
                f"`mean` of these outcomes is {self.mean:g}; it must lie between -{LARGEST_OUTCOME:g} and "
                f"{LARGEST_OUTCOME:g}."
            )
        if LARGEST_OUTCOME < self.sd < math.inf:
            raise OptionError(f"`sd` of these outcomes is {self.sd:g}; it must be at most {LARGEST_OUTCOME:g}.")

    @property
    def binary(self) -> bool:
        """Whether every outcome is 0 or 1."""
        return self.name == "bernoulli" or (self.name == "empirical" and bool(np.isin(self.values, (0, 1)).all()))

    @property
    def centre(self) -> float:
        """The value subtracted from outcomes in sums: the mean, but 0 for 0/1 outcomes, whose sums are then exact."""
        return 0.0 if self.binary or math.isnan(self.mean) else self.mean

    def within(self, share: float, measure: Measure) -> Arm:
        """Return the outcomes of events if each happens within the window with probability `share`."""
        rate, more = self.parameters
        if measure == "indicator":
            return bernoulli(rate * (1 + more) * share / (1 + more * share))
        mean, square = 1.0, 1.0
        if measure == "sum" and self.value is not None:
            mean, square = self.value.mean, self.value.mean**2 + self.value.sd**2
        total = rate * (1 + more) * share * mean
        squares = rate * (1 + more) * share * (square + 2 * more * share * mean**2)
        return replace(self, mean=total, sd=math.sqrt(max(squares - total**2, 0.0)))


@constructor
def normal(mean: float = 0.0, sd: float = 1.0) -> Arm:
    """Normal outcomes."""
    mean, sd = real("mean", mean), positive("sd", sd)
    return Arm(name="normal", mean=mean, sd=sd, parameters=(mean, sd))


@constructor
def bernoulli(rate: float) -> Arm:
    """Outcomes that are 1 with probability `rate`, otherwise 0."""
    rate = probability("rate", rate)
    return Arm(name="bernoulli", mean=rate, sd=math.sqrt(rate * (1 - rate)), parameters=(rate,))


@constructor
def exponential(mean: float = 1.0) -> Arm:
    """Exponential outcomes."""
    return gamma(1.0, positive("mean", mean))


@constructor
def gamma(shape: float, scale: float = 1.0) -> Arm:
    """Gamma outcomes, of mean shape times scale."""
    shape, scale = positive("shape", shape), positive("scale", scale)
    return Arm(name="gamma", mean=shape * scale, sd=math.sqrt(shape) * scale, parameters=(shape, scale))


@constructor
def lognormal(location: float = 0.0, scale: float = 1.0) -> Arm:
    """Outcomes whose logarithm is normal with mean `location` and standard deviation `scale`."""
    location, scale = real("location", location), positive("scale", scale)
    with np.errstate(over="ignore"):
        mean = float(np.exp(location + scale**2 / 2))
        sd = mean * float(np.sqrt(np.expm1(scale**2)))
    return Arm(name="lognormal", mean=mean, sd=sd, parameters=(location, scale))


@constructor
def student_t(degrees: float, location: float = 0.0, scale: float = 1.0) -> Arm:
    """Student's t outcomes; the mean exists above 1 degree of freedom, the variance above 2."""
    degrees, location, scale = positive("degrees", degrees), real("location", location), positive("scale", scale)
    if math.log2(scale) + _BITS / degrees > math.log2(LARGEST_OUTCOME):
        raise OptionError(
            f"`degrees` is {shown(degrees)} and `scale` {shown(scale)}; such outcomes can be beyond "
            f"{LARGEST_OUTCOME:g}, so use more degrees of freedom or a smaller scale."
        )
    mean = location if degrees > 1 else math.nan
    sd = scale * math.sqrt(degrees / (degrees - 2)) if degrees > 2 else math.inf
    return Arm(name="student_t", mean=mean, sd=sd, parameters=(location, scale, degrees))


@constructor
def empirical(values: Iterable[float]) -> Arm:
    """Outcomes drawn from a sample, with replacement."""
    drawn = sample("values", values)
    return Arm(name="empirical", mean=float(drawn.mean()), sd=float(drawn.std()), parameters=(), values=drawn)


@constructor
def events(rate: float, value: Arm | None = None, repeats: float = 0.0) -> Arm:
    """Events after an assignment, such as purchases; the bandit has their delays, and the `window` in which they count.

    A unit has events with probability `rate`: one event, and `repeats` more on average (a geometric number). Each event
    has its own delay and, if `value` is given, its own value, such as ``events(0.1, value=arms.lognormal(3, 1))``.
    """
    rate, more = probability("rate", rate), real("repeats", repeats)
    if more < 0:
        raise OptionError(f"`repeats` is {shown(repeats)}; it must not be negative.")
    if value is not None and (not isinstance(value, Arm) or value.name == "events"):
        raise OptionError(f"`value` is {shown(value)}; it must be a distribution, such as arms.lognormal(3, 1).")
    return Arm(name="events", mean=math.nan, sd=math.nan, parameters=(rate, more), value=value).within(1.0, "sum")
