"""Distributions of delays, in steps, and the share of outcomes that never arrive."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

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
        return _LAWS[self.name].table(self)

    def censored(self, never: float) -> Delay:
        """Return the same delays with a share of outcomes that never arrive; a second call replaces the share."""
        return replace(self, never=probability("never", never))

    def quantile(self, share: float) -> float:
        """Return the delay, in steps, within which this share of the arriving outcomes arrives; it may be infinite."""
        steps, cumulative = self.table
        reached_after = _LAWS[self.name].reached_after
        reached = cumulative >= share * (cumulative[-1] if reached_after is None and len(cumulative) else 1.0)
        if reached.any():
            return float(steps[reached.argmax()])
        if reached_after is None or share >= 1:
            return math.inf
        with np.errstate(over="ignore"):
            return max(float(np.ceil(reached_after(share, *self.parameters))) - 1.0, 0.0)

    def share_within(self, steps: float) -> float:
        """Return the share of outcomes that arrive within `steps`, out of all, also those that never arrive."""
        within = _LAWS[self.name].within
        if within is not None:
            return float(within(np.floor(steps), *self.parameters)) * (1 - self.never)
        known, cumulative = self.table
        reached = int(np.searchsorted(known, steps, side="right"))
        return float(cumulative[reached - 1]) * (1 - self.never) if reached else 0.0

    def __repr__(self) -> str:
        return super().__repr__() + (f".censored({self.never!r})" if self.never else "")


#: The number of tabulated delays if the tail has a formula, and the largest number if it has none.
_TABULATED_DELAYS = 1024
_MOST_DELAYS = 1 << 22

#: Smaller probabilities are 0 for a uniform random number of 53 bits.
_NEGLIGIBLE = 2.0**-54


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


# ---------------------------------------------------------------- laws


class DelayLaw(NamedTuple):
    """The functions of one kind of delays; each takes the argument named below, and then the parameters.

    Attributes
    ----------
    table : callable
        Returns the possible delays and their cumulative distribution function, as `Delay.table` does.
    within : callable or None
        The share of delays that are at most a whole number of steps; None: the table has them all.
    reached_after : callable or None
        The time after which a share of the delays is over, before it is rounded; None: the table has them all.
    beyond : callable or None
        The probability that a delay is longer than a number of steps, if delays can be tabulated only while this is
        above 0.
    """

    table: Callable[[Delay], tuple[Array, Array]]
    within: Callable[..., Array] | None = None
    reached_after: Callable[..., Array] | None = None
    beyond: Callable[..., Array] | None = None


def _listed(delay: Delay) -> tuple[Array, Array]:
    values = delay.values if len(delay.values) else np.array(delay.parameters or (0.0,))
    finite, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    return finite, np.cumsum(counts) / len(values)


def _head(delay: Delay) -> tuple[Array, Array]:
    """Tabulate the first delays of a law with a formula for all."""
    steps, within = np.arange(_TABULATED_DELAYS, dtype=np.float64), _LAWS[delay.name].within
    return steps, np.ones(_TABULATED_DELAYS) if within is None else within(steps, *delay.parameters)


def _counted(delay: Delay) -> tuple[Array, Array]:
    """Tabulate delays until the remaining probability is 0."""
    end = 64
    while _beyond(delay, np.array(float(end))) > _NEGLIGIBLE:
        end *= 2
    steps = np.arange(end, dtype=np.float64)
    cumulative = 1 - _beyond(delay, steps)
    kept = slice(np.searchsorted(cumulative, _NEGLIGIBLE), np.searchsorted(cumulative, 1.0) + 1)
    return steps[kept], cumulative[kept]


def _beyond(delay: Delay, steps: Array) -> Array:
    """Return the probability that a delay exceeds `steps`; 0 if that is not known."""
    beyond = _LAWS[delay.name].beyond
    return np.zeros_like(steps) if beyond is None else np.asarray(beyond(steps, *delay.parameters))


def _bounded(delay: Delay) -> Delay:
    """Return the delay, or raise if it is too long for a table."""
    if not _beyond(delay, np.array(float(_MOST_DELAYS))) <= _NEGLIGIBLE:
        raise OptionError(f"These delays are too long; they must be at most {_MOST_DELAYS:,} steps.")
    return delay


def _no_table(delay: Delay) -> tuple[Array, Array]:
    return np.empty(0), np.empty(0)


def _within_geometric(steps: Array, rate: float) -> Array:
    return np.asarray(-np.expm1((steps + 1) * math.log1p(-rate)) if rate < 1 else np.ones_like(steps))


_LAWS: dict[DelayName, DelayLaw] = {
    "none": DelayLaw(_listed),
    "constant": DelayLaw(_listed),
    "empirical": DelayLaw(_listed),
    "poisson": DelayLaw(_counted, beyond=lambda steps, mean: special.pdtrc(steps, mean)),
    "negative_binomial": DelayLaw(_counted, beyond=lambda steps, size, rate: special.betaincc(size, steps + 1.0, rate)),
    "geometric": DelayLaw(
        _head,
        within=_within_geometric,
        reached_after=lambda share, rate: np.log1p(-share) / np.log1p(-rate),
    ),
    "pareto": DelayLaw(
        _head,
        within=lambda steps, shape, scale: 1 - (1 + (steps + 1) / scale) ** -shape,  # P(P - scale < steps + 1)
        reached_after=lambda share, shape, scale: scale * np.expm1(-np.log1p(-share) / shape),
    ),
    "lognormal": DelayLaw(
        _no_table,
        within=lambda steps, location, scale: special.ndtr((np.log(steps + 1) - location) / scale),
        reached_after=lambda share, location, scale: np.exp(location + scale * special.ndtri(share)),
    ),
}
