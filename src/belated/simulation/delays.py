"""How late an arm's outcomes come, in steps, and how many never do."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from belated.checks import positive, probability, real, whole
from belated.columns import Array, sample
from belated.errors import OptionError


@dataclass(frozen=True)
class Delay:
    """A distribution of delays; `never` is the share of outcomes that do not come at all."""

    name: str
    parameters: tuple[float, ...]
    never: float = 0.0
    values: Array = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    def censored(self, never: float) -> Delay:
        """Return the same delays with a share of outcomes that never come."""
        return replace(self, never=probability("never", never))


def none() -> Delay:
    """Outcomes that come at once: known before the next step."""
    return Delay("none", ())


def constant(steps: int) -> Delay:
    """Outcomes that all take the same number of steps."""
    return Delay("constant", (float(whole("steps", steps, least=0)),))


def geometric(mean: float) -> Delay:
    """Delays that end at each step with the same chance: 0, 1, 2, ... with the given mean."""
    if real("mean", mean) < 0:
        raise OptionError(f"`mean` is {mean!r}; it must not be negative.")
    return Delay("geometric", (1 / (1 + mean),))


def poisson(mean: float) -> Delay:
    """Poisson delays."""
    return Delay("poisson", (positive("mean", mean),))


def negative_binomial(size: float, rate: float) -> Delay:
    """Failures before the `size`-th success of chance `rate`."""
    size, rate = positive("size", size), probability("rate", rate)
    if rate == 0:
        raise OptionError("`rate` is 0; it must be above 0.")
    return Delay("negative_binomial", (size, rate))


def pareto(shape: float, scale: float = 1.0) -> Delay:
    """Heavy-tailed delays: floor(P - scale), P Pareto with the given shape and scale.

    The share later than d falls like d ** -shape; the paper's theory needs a shape of 1/2 or more.
    """
    return Delay("pareto", (positive("shape", shape), positive("scale", scale)))


def lognormal(location: float, scale: float) -> Delay:
    """Delays whose logarithm is normal, rounded down."""
    return Delay("lognormal", (real("location", location), positive("scale", scale)))


def empirical(values: Iterable[Any]) -> Delay:
    """Delays drawn from a sample, with replacement: whole steps, infinite for never."""
    drawn = sample("values", values, infinite=True)
    bad = (drawn < 0) | ((drawn != np.floor(drawn)) & np.isfinite(drawn))
    if bad.any():
        raise OptionError(f"`values` holds {drawn[bad][0]}; delays must be whole steps, 0 or more, or {math.inf}.")
    return Delay("empirical", (), 0.0, drawn)
