"""mu_hat_t(a): what each row's outcome was expected to be, from what had arrived before it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np

from belated.base.checks import one_of
from belated.base.columns import Array
from belated.kernels import rows as kernel
from belated.summaries.weights import Given, check_given, given_array

if TYPE_CHECKING:
    from belated.log.log import Log

ModelName = Literal["running_mean", "zero", "given"]

#: What users give as outcome model: a name, an object, an array or a function.
ModelLike: TypeAlias = "OutcomeModel | Given"

_KINDS: dict[ModelName, int] = {"running_mean": kernel.RUNNING_MEAN, "zero": kernel.ZERO, "given": kernel.GIVEN_MODEL}


@dataclass(frozen=True)
class OutcomeModel:
    """A choice of mu_hat_t(a).

    `running_mean` is the mean of the arm's outcomes of rows assigned strictly before and arrived
    at or before the row's time; what it is before any is up to the estimator (`Estimator.start`).
    `zero` is 0. `given` is an array of shape (rows, arms), or a function from the log to one, that
    uses nothing later than each row.
    """

    name: ModelName
    given: Given | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        one_of("outcome_model", self.name, _KINDS)
        check_given("outcome_model", self.name, self.given)

    @property
    def learns(self) -> bool:
        """Whether it follows the outcomes as they arrive, in calendar order."""
        return self.name == "running_mean"

    @property
    def needs_rows(self) -> bool:
        """Whether the model needs the rows in memory, all of them."""
        return self.name == "given"

    def modelling(self, log: Log) -> kernel.Modelling:
        """Return what the kernel needs to model the rows of a log."""
        return self.modelling_of(len(log.arms), given_array("outcome_model", self.given, log, least=-math.inf))

    def modelling_of(self, arms: int, given: Array | None = None) -> kernel.Modelling:
        """Return what the kernel needs to model rows, when nothing has arrived."""
        none = np.empty((0, arms))
        return kernel.Modelling(
            kind=_KINDS[self.name],
            given=none if given is None else given,
            arrived_n=np.zeros(arms),
            arrived_y=np.zeros(arms),
        )


def given_means(means: Array) -> kernel.Modelling:
    """Return what the kernel needs to model rows by running means (rows, arms) that are known; NaN before any."""
    return OutcomeModel("given", given=means).modelling_of(means.shape[1], means)


def read_outcome_model(model: ModelLike) -> OutcomeModel:
    """Return an outcome model from a name, an `OutcomeModel`, an array or a function."""
    if isinstance(model, OutcomeModel):
        return model
    if isinstance(model, str):
        names = [name for name in _KINDS if name != "given"]
        return OutcomeModel(cast(ModelName, one_of("outcome_model", model, names)))
    return OutcomeModel("given", given=model)
