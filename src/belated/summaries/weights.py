"""`Weights`, h_t(a): the weight of each row for each arm, fixed before its outcome is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from belated.base.checks import LARGEST_OUTCOME, one_of, real, whole
from belated.base.columns import Array, numbers
from belated.base.errors import OptionError, PropensitiesNeededError, argument
from belated.base.text import shown
from belated.kernels import rows as kernel

if TYPE_CHECKING:
    from belated.log.log import Log

WeightsName = Literal["sqrt", "uniform", "propensity", "two_point", "past", "given"]

#: A number of cells that no log has.
EVERY_CELL = 2**62

#: An array of shape (rows, arms), or a function from a log to one.
Given: TypeAlias = "ArrayLike | Callable[[Log], ArrayLike]"

#: Weights as users give them: a name, an object, an array or a function.
WeightsLike: TypeAlias = "Weights | Given"


class _WeightKind(NamedTuple):
    """The properties of a kind of weights."""

    number: int  # in the kernel
    formula: Callable[[Array], Array] | None = None  # from the propensity; None: it takes more than that
    need_all_propensities: bool = False  # for the weights of arms that were not chosen
    cumulative: bool = False  # whether a row's weight depends on the rows before it
    follows_units: bool = True  # whether a row's weight depends on its own propensities


_KINDS: dict[WeightsName, _WeightKind] = {
    "sqrt": _WeightKind(kernel.SQRT, np.sqrt, need_all_propensities=True),
    "uniform": _WeightKind(kernel.UNIFORM, np.ones_like, follows_units=False),
    "propensity": _WeightKind(kernel.PROPENSITY, np.asarray, need_all_propensities=True),
    "two_point": _WeightKind(kernel.TWO_POINT, need_all_propensities=True, cumulative=True),
    # computed before the kernel runs
    "past": _WeightKind(kernel.GIVEN_WEIGHTS, need_all_propensities=True, cumulative=True, follows_units=False),
    "given": _WeightKind(kernel.GIVEN_WEIGHTS),
}


@dataclass(frozen=True)
class Weights:
    """The weights h_t(a) of an estimator.

    `sqrt` is the square root of the propensity, as in the paper (Section 4.2); `uniform` is 1;
    `propensity` is the propensity itself, which makes the estimate the plain sample mean;
    `two_point` is by Hadad et al. (2021), see `two_point`; `past` is the inverse square root of the average of
    1 / propensity over the rows assigned earlier, see `past_weights`; `given` is an array of shape (rows, arms), one
    row for each row of the log, or a function from the log to such an array.
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
        """Whether a row's weight depends on the rows before it, so that rows cannot be split."""
        return _KINDS[self.name].cumulative

    @property
    def follow_units(self) -> bool:
        """Whether a row's weight depends on its own propensities: wrong if the policy looked at the unit."""
        return _KINDS[self.name].follows_units

    @property
    def needs_rows(self) -> bool:
        """Whether the weights need all rows in memory."""
        return _KINDS[self.name].formula is None

    @property
    def needs_horizon(self) -> bool:
        """Whether the weights need a horizon that has not been given."""
        return self.name == "two_point" and self.horizon is None

    def planned_for(self, rows: int) -> Self:
        """Return the weights with `rows` as horizon, if they need one and have none."""
        return replace(self, horizon=max(rows, 1)) if self.needs_horizon else self

    def weighting(self, log: Log) -> kernel.Weighting:
        """Return the kernel's arguments for weighting the rows of a log."""
        given = past_of(log) if self.name == "past" else given_array("weights", self.given, log, least=0.0)
        return self.weighting_of(len(log.cell_anchor), self._planned_rows(log.schedule.rows), given)

    def weighting_of(self, cells: int, horizon: float = 0.0, given: Array | None = None) -> kernel.Weighting:
        """Return the kernel's arguments for weighting rows, starting with the first."""
        none = np.empty((0, cells))
        return kernel.Weighting(
            kind=_KINDS[self.name].number,
            given=none if given is None else given,
            horizon=horizon,
            decay=self.decay,
            remaining=np.ones(cells),
            step=0.0,
            even_from=EVERY_CELL,
        )

    def of_own(self, pi: Array) -> Array:
        """Return the weight of rows for their own arm, whose probability was `pi`; not for weights that need rows."""
        formula = _KINDS[self.name].formula
        if formula is None:
            raise OptionError(f"Weights {self.name!r} need all rows, not only the probability of each.")
        return formula(pi)

    def _planned_rows(self, rows: int) -> float:
        """Return the horizon of the weights."""
        self.check_rows(rows)
        return float(rows if self.horizon is None else self.horizon)

    def check_rows(self, rows: int) -> None:
        """Raise if there are more rows than the horizon."""
        if self.cumulative and self.horizon is not None and self.horizon < rows:
            raise OptionError(
                f"{argument('horizon')} is {self.horizon} but the log has {rows} rows; it must be at least as large."
            )

    def check(self, full: bool) -> None:
        """Raise if the weights need every arm's propensity and only the chosen arm's is known."""
        if self.cumulative and not full:
            raise PropensitiesNeededError(
                f"Weights {self.name!r} need every arm's propensity, and this log has only the chosen arm's."
            )


def two_point(horizon: int | None = None, decay: float = 0.5) -> Weights:
    """Return the two-point allocation of Hadad et al. (2021).

    The weights depend on how small the propensity may become later, so the length of the experiment and the decay of
    the minimum propensity, t ** -decay, must be fixed in advance. Any fixed values are valid; good ones are more
    efficient. `decay=0` is `sqrt`.

    Parameters
    ----------
    horizon : int, optional
        The planned number of rows; by default the number of rows of the log.
    decay : float, default 0.5
        The exponent, in [0, 1).
    """
    if horizon is not None:
        horizon = whole("horizon", horizon, least=1)
    if not 0 <= real("decay", decay) < 1:
        raise OptionError(f"`decay` is {shown(decay)}; it must lie in [0, 1).")
    return Weights("two_point", horizon, float(decay))


def past_weights(rows: Array, inverse: Array, arms: int) -> Array:
    """Return h(a) = (average of 1 / pi(a) over earlier rows) ** -0.5, which policies that look at the unit may have.

    Parameters
    ----------
    rows, inverse : array
        How many earlier rows gave an arm a chance, and the sum of 1 / pi(a) over them.
    arms : int
        How many arms there are, K.

    Notes
    -----
    It depends on the rows before, not on the row's own probabilities. An arm that no earlier row gave a chance has
    the weight of K equally likely arms, K ** -0.5.
    """
    some = rows > 0
    return np.asarray(np.where(some, np.sqrt(rows / np.where(some, inverse, 1.0)), arms**-0.5))


def past_of(log: Log) -> Array:
    """Return the weights of `past_weights` for every row of a log; rows of one time and segment count as one batch."""
    arms, positions = len(log.arms), log.existing_rows
    h = np.ones((len(log.code), arms))
    segment = (log.cell[positions].astype(np.intp) - log.code[positions]) // arms
    for s in np.unique(segment):  # rows of other segments do not count
        existing = positions[segment == s]
        assigned = log.assigned_numbers_of(existing)
        before = np.searchsorted(assigned, assigned, side="left")
        for k in range(arms):  # one by one, to keep memory small
            p = log.propensity[existing, k]
            rows, inverse = (np.concatenate([[0.0], np.cumsum(x)])[before] for x in (p > 0, inverse_of(p)))
            h[existing, k] = past_weights(rows, inverse, arms)
    return h


def inverse_of(p: Array) -> Array:
    """Return 1 / p, 0 where p is."""
    return np.asarray(np.divide(1.0, p, out=np.zeros_like(p, dtype=float), where=p > 0))


def read_weights(weights: WeightsLike) -> Weights:
    """Return weights from a name, a `Weights`, an array or a function."""
    if isinstance(weights, Weights):
        return weights
    if isinstance(weights, str):
        names = [name for name in _KINDS if name != "given"]
        return Weights(one_of("weights", weights, names))
    return Weights("given", given=weights)


def check_given(role: str, name: str, given: Given | None) -> None:
    """Raise if a choice is "given" without an array or function, or another choice comes with one."""
    if (name == "given") != (given is not None):
        raise OptionError(
            f"{argument(role)} is {name!r}; 'given' needs an array or a function, and no other name takes one."
        )


def given_array(name: str, given: Given | None, log: Log, least: float) -> Array:
    """Return a user's array of shape (rows, arms) for `log`; a function is called with the log."""
    shape = (len(log.code), len(log.arms))
    if given is None:
        return np.empty((0, shape[1]))
    array = np.ascontiguousarray(numbers(name, given(log) if callable(given) else given, dimensions=(1, 2)))
    if array.shape != shape:
        raise OptionError(f"`{name}` has shape {array.shape}; it must be (rows, arms) = {shape}.")
    bad = ~((array <= LARGEST_OUTCOME) & (array >= least)).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        what = f"finite, from {least:g} to {LARGEST_OUTCOME:g}"
        raise OptionError(f"`{name}` in row {row} is {array[row].tolist()}; every value must be {what}.")
    return array
