"""`OutcomeModel`, mu_hat_t(a): the prediction of each row's outcome from outcomes that arrived before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from belated.base.checks import LARGEST_OUTCOME, one_of
from belated.base.columns import Array
from belated.kernels import rows as kernel
from belated.summaries.weights import Given, check_given, given_array

if TYPE_CHECKING:
    from belated.log.log import Log

ModelName = Literal["running_mean", "zero", "given"]

#: An outcome model as users give it: a name, an object, an array or a function.
ModelLike: TypeAlias = "OutcomeModel | Given"

_KINDS: dict[ModelName, int] = {"running_mean": kernel.RUNNING_MEAN, "zero": kernel.ZERO, "given": kernel.GIVEN_MODEL}


@dataclass(frozen=True)
class OutcomeModel:
    """The outcome model mu_hat_t(a) of an estimator.

    `running_mean` is the mean of the arm's outcomes that arrived at or before the row's time, from rows assigned before
    it; `Estimator.start` decides its value before the first arrival. `zero` is 0. `given` is an array of shape (rows,
    arms), or a function from the log to such an array; it must not use anything later than each row.
    """

    name: ModelName
    given: Given | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        one_of("outcome_model", self.name, _KINDS)
        check_given("outcome_model", self.name, self.given)

    @property
    def learns(self) -> bool:
        """Whether the model is updated as outcomes arrive."""
        return self.name == "running_mean"

    @property
    def needs_rows(self) -> bool:
        """Whether the model needs all rows in memory."""
        return self.name == "given"

    def modelling(self, log: Log) -> kernel.Modelling:
        """Return the kernel's arguments for modelling the rows of a log."""
        given = given_array("outcome_model", self.given, log, least=-LARGEST_OUTCOME)
        return self.modelling_of(len(log.cell_anchor), given)

    def modelling_of(self, cells: int, given: Array | None = None) -> kernel.Modelling:
        """Return the kernel's arguments for modelling rows before anything has arrived."""
        none = np.empty((0, cells))
        return kernel.Modelling(
            kind=_KINDS[self.name],
            given=none if given is None else given,
            arrived_n=np.zeros(cells),
            arrived_y=np.zeros(cells),
        )


def given_means(means: Array) -> kernel.Modelling:
    """Return the kernel's arguments for known running means of shape (rows, arms); NaN before the first arrival."""
    return OutcomeModel("given", given=means).modelling_of(means.shape[1], means)


def read_outcome_model(model: ModelLike) -> OutcomeModel:
    """Return an outcome model from a name, an `OutcomeModel`, an array or a function."""
    if isinstance(model, OutcomeModel):
        return model
    if isinstance(model, str):
        names = [name for name in _KINDS if name != "given"]
        return OutcomeModel(one_of("outcome_model", model, names))
    return OutcomeModel("given", given=model)
