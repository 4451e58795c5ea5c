"""mu_hat_t(a): what each row's outcome was expected to be, from what had arrived before it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from belated.base.checks import one_of
from belated.base.columns import Array
from belated.kernels import rows as kernel
from belated.log.log import Log
from belated.summaries.weights import check_given, given_array

_KINDS = {"running_mean": kernel.RUNNING_MEAN, "zero": kernel.ZERO, "given": kernel.GIVEN_MODEL}


@dataclass(frozen=True)
class OutcomeModel:
    """A choice of mu_hat_t(a).

    `running_mean` is the mean of the arm's outcomes of rows assigned strictly before and arrived
    at or before the row's time, 0 before any; `zero` is 0; `given` is an array of shape
    (rows, arms), or a function from the log to one, that uses nothing later than each row.
    """

    name: str
    given: Array | Callable[[Log], Any] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        one_of("outcome_model", self.name, _KINDS)
        check_given("outcome_model", self.name, self.given)

    @property
    def kind(self) -> int:
        """The kernel's number for this choice."""
        return _KINDS[self.name]

    def array(self, log: Log) -> Array:
        """Return the given predictions, checked; empty if they are computed row by row."""
        return given_array("outcome_model", self.given, log, least=-math.inf)


def read_outcome_model(model: Any) -> OutcomeModel:
    """Return an outcome model from a name, an `OutcomeModel`, an array or a function."""
    if isinstance(model, OutcomeModel):
        return model
    if isinstance(model, str):
        return OutcomeModel(one_of("outcome_model", model, [name for name in _KINDS if name != "given"]))
    return OutcomeModel("given", given=model)
