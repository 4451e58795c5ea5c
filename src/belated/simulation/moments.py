"""Conversion of the moments of a run to the sums of each estimator, by the powers of both.

Moments have weights sqrt(pi). Other weights are powers of those, h = sqrt(pi)^a, so that w = h / pi is 1 / sqrt(pi) to
the power 2 - a. The zero model is minus the shift in every row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from belated.base.columns import Array
from belated.base.errors import OptionError
from belated.estimation.estimators import Estimator
from belated.kernels import moments as columns
from belated.kernels.fields import OWN_FIELDS, SPREAD_FIELDS, Over, SumField
from belated.kernels.moments import MOMENT_FIELDS
from belated.summaries.sums import Sums

#: The weights of the estimators of a study, as powers of sqrt(pi), and the outcome models that each is used with.
_POWERS = {"uniform": 0, "sqrt": 1, "propensity": 2}
_MODELS = {"uniform": ("zero",), "sqrt": ("running_mean", "zero"), "propensity": ("zero",)}

#: Where each moment is: whose rows it is summed over, and its powers of h, w, y and m.
_PLACES = {
    (field.over, field.h, field.w, field.y, field.m): place
    for place, field in enumerate(MOMENT_FIELDS)
    if not field.largest
}

#: What fields over rows with a model are made of: the sums over all rows, and over those without a model.
_PARTS: dict[Over, tuple[Over, Over]] = {
    "all modelled": ("all", "all unmodelled"),
    "own modelled": ("own arrived", "own unmodelled"),
}


def sums_of_runs(moments: Array, centres: Array, estimator: Estimator, horizon: int) -> Sums:
    """Return the sums of many runs, treating each arm of each run as an arm; `moments` are (runs, arms, moments)."""
    weights, model = estimator.weights.name, estimator.outcome_model.name
    if model not in _MODELS.get(weights, ()):
        raise OptionError(f"A study has no sums for weights {weights!r} with outcome model {model!r}.")
    runs = _Runs(moments, np.tile(centres, len(moments)), _POWERS[weights], model != "zero", horizon)
    return Sums(
        arms=tuple(range(len(runs.shift))),
        weights=estimator.weights,
        outcome_model=estimator.outcome_model,
        shift=runs.shift,
        spread=np.array([runs.field(field) for field in SPREAD_FIELDS]),
        own=np.array([runs.field(field) for field in OWN_FIELDS]).T,
    )


class _Runs(NamedTuple):
    """The moments of many runs, and what sums to make of them."""

    moments: Array  # (runs, arms, moments)
    shift: Array  # (runs * arms,)
    power: int  # of sqrt(pi), which is the weight
    learns: bool  # whether the outcome model is the running mean; else it is zero
    horizon: int

    def field(self, field: SumField) -> Array:
        """Return a field of `Sums`, for each arm of each run; NaN if the moments do not tell it."""
        value = None
        if field.largest:
            value = self._largest(field)
        elif field.over in _PARTS:
            value = self._modelled(field)
        elif field.monomial:
            value = self._monomial(field)
        return np.full_like(self.shift, np.nan) if value is None else value

    def _column(self, place: int) -> Array:
        return self.moments[:, :, place].reshape(-1)

    def _moment(self, field: SumField, y: int = 0, m: int = 0) -> Array | None:
        """Return the sum over the rows of a field of its weights and of powers of y and m."""
        own = field.over.startswith("own")
        h = 0 if own else self.power * field.h
        w = (2 - self.power) * field.w - self.power * field.h if own else 0
        if (h, w, y, m) == (0, 0, 0, 0) and not own:  # the number of rows, which all arms share
            everyone = self.moments[:, :, columns.ARRIVED].sum(axis=1)
            rows = everyone if field.over == "all arrived" else np.full(len(self.moments), float(self.horizon))
            return np.repeat(rows, self.moments.shape[1])
        place = _PLACES.get((field.over, h, w, y, m))
        return None if place is None else self._column(place)

    def _monomial(self, field: SumField) -> Array | None:
        """Return a field whose r = y - m is multiplied out."""
        total: Array | None = None
        for j in range(field.r + 1):
            y = field.y + field.r - j
            term = self._moment(field, y, field.m + j if self.learns else 0)
            if term is None:
                return None
            factor = math.comb(field.r, j) * ((-1) ** j if self.learns else self.shift**j)
            total = term if total is None else total + factor * term
        return total if self.learns or total is None else (-self.shift) ** field.m * total

    def _modelled(self, field: SumField) -> Array | None:
        """Return a field over rows with a model: that over all rows, which have 0 for none, minus the others."""
        if not self.learns:
            return np.zeros_like(self.shift)
        whole, without = (self._moment(field._replace(over=over), m=m)
                          for over, m in zip(_PARTS[field.over], (field.m, 0), strict=True))  # fmt: skip
        return None if whole is None or without is None else whole - (-self.shift) ** field.m * without

    def _largest(self, field: SumField) -> Array:
        """Return the largest w; 0 without any row."""
        power = (2 - self.power) * field.w
        return self._column(columns.W_MAX) ** power if power else np.minimum(self._column(columns.ARRIVED), 1.0)
