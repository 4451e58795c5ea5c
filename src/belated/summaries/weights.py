"""h_t(a): how much each row counts for each arm, decided before its outcome is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from belated.base.checks import one_of, real, whole
from belated.base.columns import Array, numbers
from belated.base.errors import OptionError, PropensitiesNeededError
from belated.kernels import rows as kernel

if TYPE_CHECKING:
    from belated.log.log import Log

WeightsName = Literal["sqrt", "uniform", "propensity", "two_point", "given"]

#: An array of shape (rows, arms), or a function from a log to one.
Given: TypeAlias = "ArrayLike | Callable[[Log], ArrayLike]"

#: What users give as weights: a name, an object, an array or a function.
WeightsLike: TypeAlias = "Weights | Given"


class _Kind(NamedTuple):
    """What there is to know of a kind of weights, apart from its formula in the kernel."""

    number: int  # the kernel's
    need_all_propensities: bool = False  # for the weights of arms that were not chosen
    cumulative: bool = False  # whether a row's weight depends on the rows before it


_KINDS: dict[WeightsName, _Kind] = {
    "sqrt": _Kind(kernel.SQRT, need_all_propensities=True),
    "uniform": _Kind(kernel.UNIFORM),
    "propensity": _Kind(kernel.PROPENSITY, need_all_propensities=True),
    "two_point": _Kind(kernel.TWO_POINT, need_all_propensities=True, cumulative=True),
    "given": _Kind(kernel.GIVEN_WEIGHTS),
}


@dataclass(frozen=True)
class Weights:
    """A choice of h_t(a).

    `sqrt` is the paper's, the square root of the propensity (Section 4.2); `uniform` is 1;
    `propensity` is the propensity itself, which makes the estimate the plain sample mean;
    `two_point` is that of Hadad et al. (2021), see `two_point`; `given` is an array of shape
    (rows, arms), with every row the log was given, or a function from the log to one.
    """

    name: WeightsName
    horizon: int | None = None
    decay: float = 0.5
    given: Given | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        one_of("weights", self.name, _KINDS)
        check_given("weights", self.name, self.given)

    @property
    def need_all_propensities(self) -> bool:
        """Whether the weights of arms that were not chosen need their propensities."""
        return _KINDS[self.name].need_all_propensities

    @property
    def cumulative(self) -> bool:
        """Whether a row's weight depends on the rows before it, so that rows cannot be taken apart."""
        return _KINDS[self.name].cumulative

    @property
    def needs_rows(self) -> bool:
        """Whether the weights need the rows in memory, all of them."""
        return self.cumulative or self.name == "given"

    @property
    def needs_horizon(self) -> bool:
        """Whether the weights plan for a number of rows that has not been given."""
        return self.cumulative and self.horizon is None

    def planned_for(self, rows: int) -> Self:
        """Return weights that plan for `rows`, unless they plan for another number, or need none."""
        return replace(self, horizon=max(rows, 1)) if self.needs_horizon else self

    def weighting(self, log: Log) -> kernel.Weighting:
        """Return what the kernel needs to weight the rows of a log."""
        given = given_array("weights", self.given, log, least=0.0)
        return self.weighting_of(len(log.arms), self._planned_rows(log.schedule.rows), given)

    def weighting_of(self, arms: int, horizon: float = 0.0, given: Array | None = None) -> kernel.Weighting:
        """Return what the kernel needs to weight rows, from the first on."""
        none = np.empty((0, arms))
        return kernel.Weighting(
            kind=_KINDS[self.name].number,
            given=none if given is None else given,
            horizon=horizon,
            decay=self.decay,
            remaining=np.ones(arms),
            step=0.0,
        )

    def _planned_rows(self, rows: int) -> float:
        """Return the horizon that weights plan for."""
        self.check_rows(rows)
        return float(rows if self.horizon is None else self.horizon)

    def check_rows(self, rows: int) -> None:
        """Refuse more rows than the weights plan for."""
        if self.cumulative and self.horizon is not None and self.horizon < rows:
            raise OptionError(f"`horizon` is {self.horizon} but the log has {rows} rows; it must be at least as large.")

    def check(self, full: bool) -> None:
        """Refuse weights that cannot be computed from the chosen arm's propensity."""
        if self.cumulative and not full:
            raise PropensitiesNeededError(
                "Two-point weights need every arm's propensity, and this log holds only the chosen arm's."
            )


def two_point(horizon: int | None = None, decay: float = 0.5) -> Weights:
    """Return the two-point allocation of Hadad et al. (2021).

    It spreads the weight according to how small the propensity may become later, so it must know
    the experiment's length and how fast the floor of the propensities falls, t ** -decay, in
    advance. Any fixed values are valid; good ones are efficient. `decay=0` is `sqrt`.

    Parameters
    ----------
    horizon : int, optional
        The planned number of rows; by default those of the log.
    decay : float
        In [0, 1).
    """
    if horizon is not None:
        horizon = whole("horizon", horizon, least=1)
    if not 0 <= real("decay", decay) < 1:
        raise OptionError(f"`decay` is {decay!r}; it must lie in [0, 1).")
    return Weights("two_point", horizon, float(decay))


def read_weights(weights: WeightsLike) -> Weights:
    """Return weights from a name, a `Weights`, an array or a function."""
    if isinstance(weights, Weights):
        return weights
    if isinstance(weights, str):
        names = [name for name in _KINDS if name != "given"]
        return Weights(cast(WeightsName, one_of("weights", weights, names)))
    return Weights("given", given=weights)


def check_given(role: str, name: str, given: Given | None) -> None:
    """Refuse a choice that is "given" without an array or function, or has one it does not use."""
    if (name == "given") != (given is not None):
        raise OptionError(f"`{role}` is {name!r}; an array or a function comes with 'given', and only with it.")


def given_array(name: str, given: Given | None, log: Log, least: float) -> Array:
    """Return a user's (rows, arms) array for `log`, calling it first if it is a function."""
    shape = (len(log.code), len(log.arms))
    if given is None:
        return np.empty((0, shape[1]))
    array = np.ascontiguousarray(numbers(name, given(log) if callable(given) else given, dimensions=(1, 2)))
    if array.shape != shape:
        raise OptionError(f"`{name}` has shape {array.shape}; it must be (rows, arms) = {shape}.")
    bad = ~(np.isfinite(array) & (array >= least)).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        what = "finite" if least < 0 else "finite and not negative"
        raise OptionError(f"`{name}` in row {row} is {array[row].tolist()}; every value must be {what}.")
    return array
