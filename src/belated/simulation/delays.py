"""Distributions of delays, in steps, and the share of outcomes that never arrive."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from belated.base import special
from belated.base.checks import positive, probability, real, whole
from belated.base.columns import Array, sample
from belated.base.errors import OptionError
from belated.base.text import shown
from belated.simulation.constructors import Constructed, constructor

DelayName = Literal["none", "constant", "geometric", "poisson", "negative_binomial", "pareto", "lognormal", "empirical"]


@dataclass(frozen=True, eq=False, repr=False)
class Delay(Constructed):
    """A distribution of delays; `never` is the share of outcomes that never arrive."""

    name: DelayName
    parameters: tuple[float, ...]
    never: float = 0.0
    values: Array = field(default_factory=lambda: np.empty(0))

    @cached_property
    def table(self) -> tuple[Array, Array]:
        """The possible delays of outcomes that arrive, in order, with the cumulative distribution function.

        All delays if they are bounded; otherwise the first thousand, after which a formula gives the tail.
        """
        return _TABLES[self.name](self)

    def censored(self, never: float) -> Delay:
        """Return the same delays with a share of outcomes that never arrive."""
        return replace(self, never=probability("never", never))

    def quantile(self, share: float) -> float:
        """Return the delay, in steps, within which this share of the arriving outcomes arrives; perhaps infinite."""
        steps, cumulative = self.table
        ends = self.name not in ("pareto", "geometric", "lognormal")
        reached = cumulative >= share * (cumulative[-1] if ends and len(cumulative) else 1.0)
        if reached.any():
            return float(steps[reached.argmax()])
        if ends or share >= 1:
            return math.inf
        first, second = (*self.parameters, 0.0)[:2]
        with np.errstate(over="ignore"):
            if self.name == "pareto":
                late = second * np.expm1(-np.log1p(-share) / first)
            elif self.name == "geometric":
                late = np.log1p(-share) / np.log1p(-first)
            else:
                late = np.exp(first + second * special.ndtri(share))
        return max(float(np.ceil(late)) - 1.0, 0.0)

    def share_within(self, steps: float) -> float:
        """Return the share of outcomes that arrive within so many steps, of all including those that never do."""
        known, cumulative = self.table
        first, second = (*self.parameters, 0.0, 0.0)[:2]
        share = 0.0
        if self.name == "lognormal":
            share = float(special.ndtr((math.log(math.floor(steps) + 1) - first) / second))
        elif self.name == "pareto":
            share = 1 - (1 + (math.floor(steps) + 1) / second) ** -first
        elif self.name == "geometric":
            share = -math.expm1((math.floor(steps) + 1) * math.log1p(-first)) if first < 1 else 1.0
        elif reached := int(np.searchsorted(known, steps, side="right")):
            share = float(cumulative[reached - 1])
        return share * (1 - self.never)

    def __repr__(self) -> str:
        return super().__repr__() + (f".censored({self.never!r})" if self.never else "")


#: The number of tabulated delays if the tail has a formula, and the largest number if it has none.
_HEAD = 1024
_MOST = 1 << 22

#: Smaller probabilities are 0 for a uniform random number of 53 bits.
_NOTHING = 2.0**-54


@constructor
def none() -> Delay:
    """No delay: outcomes are known before the next step."""
    return Delay("none", ())


@constructor
def constant(steps: int) -> Delay:
    """The same delay for every outcome, in steps."""
    if whole("steps", steps, least=0) > 2**53:
        raise OptionError(f"`steps` is {steps:.3g}; it must be at most 2**53.")
    return Delay("constant", (float(steps),))


@constructor
def geometric(mean: float) -> Delay:
    """Geometric delays 0, 1, 2, ... with the given mean: at each step, an outcome arrives with the same probability."""
    if real("mean", mean) < 0:
        raise OptionError(f"`mean` is {shown(mean)}; it must not be negative.")
    return Delay("geometric", (1 / (1 + mean),))


@constructor
def poisson(mean: float) -> Delay:
    """Poisson delays with the given mean."""
    return _bounded(Delay("poisson", (positive("mean", mean),)))


@constructor
def negative_binomial(size: float, rate: float) -> Delay:
    """Negative binomial delays: failures before the `size`-th success with probability `rate`."""
    size, rate = positive("size", size), probability("rate", rate)
    if rate == 0:
        raise OptionError("`rate` is 0; it must be above 0.")
    return _bounded(Delay("negative_binomial", (size, rate)))


@constructor
def pareto(shape: float, scale: float = 1.0) -> Delay:
    """Heavy-tailed delays: floor(P - scale), P Pareto with the given shape and scale.

    The share of delays above d falls like d ** -shape; the paper's theory needs a shape of 1/2 or more.
    """
    return Delay("pareto", (positive("shape", shape), positive("scale", scale)))


@constructor
def lognormal(location: float, scale: float) -> Delay:
    """Lognormal delays, rounded down; `location` and `scale` are mean and standard deviation of the logarithm."""
    return Delay("lognormal", (real("location", location), positive("scale", scale)))


@constructor
def empirical(values: Iterable[float]) -> Delay:
    """Delays drawn from a sample with replacement: whole steps, or infinity for never."""
    drawn = np.sort(sample("values", values, infinite=True))
    bad = (drawn < 0) | ((drawn != np.floor(drawn)) & np.isfinite(drawn))
    if bad.any():
        raise OptionError(f"`values` contains {drawn[bad][0]}; delays must be whole steps, 0 or more, or {math.inf}.")
    return Delay(name="empirical", parameters=(), values=drawn)


def _listed(delay: Delay) -> tuple[Array, Array]:
    values = delay.values if delay.name == "empirical" else np.array(delay.parameters or (0.0,))
    finite, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    return finite, np.cumsum(counts) / len(values)


def _head(delay: Delay) -> tuple[Array, Array]:
    steps, a = np.arange(_HEAD, dtype=np.float64), delay.parameters
    if delay.name == "pareto":  # P(P - scale < d + 1)
        return steps, 1 - (1 + (steps + 1) / a[1]) ** -a[0]
    return steps, -np.expm1((steps + 1) * math.log1p(-a[0])) if a[0] < 1 else np.ones(_HEAD)


def _counted(delay: Delay) -> tuple[Array, Array]:
    """Tabulate a Poisson or negative binomial distribution until the remaining probability is 0."""
    end = 64
    while _later(delay, np.array(float(end))) > _NOTHING:
        end *= 2
    steps = np.arange(end, dtype=np.float64)
    cumulative = 1 - _later(delay, steps)
    kept = slice(np.searchsorted(cumulative, _NOTHING), np.searchsorted(cumulative, 1.0) + 1)
    return steps[kept], cumulative[kept]


def _later(delay: Delay, steps: Array) -> Array:
    """Return the probability that a Poisson or negative binomial delay exceeds `steps`."""
    if delay.name == "poisson":
        return np.asarray(special.pdtrc(steps, *delay.parameters))
    return np.asarray(special.betaincc(delay.parameters[0], steps + 1.0, delay.parameters[1]))


def _bounded(delay: Delay) -> Delay:
    """Return the delay, or raise if it is too long for a table."""
    if not _later(delay, np.array(float(_MOST))) <= _NOTHING:
        raise OptionError(f"These delays are too long; they must be at most {_MOST:,} steps.")
    return delay


def _untabled(delay: Delay) -> tuple[Array, Array]:
    return np.empty(0), np.empty(0)


_TABLES: dict[DelayName, Callable[[Delay], tuple[Array, Array]]] = {
    "none": _listed,
    "constant": _listed,
    "empirical": _listed,
    "pareto": _head,
    "geometric": _head,
    "poisson": _counted,
    "negative_binomial": _counted,
    "lognormal": _untabled,
}
