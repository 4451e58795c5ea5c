"""The estimators as data, and the two formulas that read them from sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Literal, get_args

import numpy as np

from belated.base.checks import one_of
from belated.base.columns import Array
from belated.base.errors import OptionError, PropensitiesNeededError
from belated.log.data import Data
from belated.summaries.outcome_models import ModelLike, OutcomeModel, read_outcome_model
from belated.summaries.sums import Sums
from belated.summaries.weights import Weights, WeightsLike, read_weights

Normalisation = Literal["hajek", "plain", "arrived"]
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)
EstimatorName = Literal["daipw", "dipw", "mean", "hajek", "nh", "nh0", "iad"]


class Estimator:
    """One choice on each of three axes.

    Parameters
    ----------
    weights : Weights or name
    outcome_model : OutcomeModel or name
    normalisation : {"hajek", "plain", "arrived"}
        What the weighted residuals are divided by: ``hajek``, the sum of h gamma, which adjusts
        for outcomes that never come; ``plain``, the sum of h, which does not; ``arrived``, the sum
        of h over arrived rows of any arm, which adjusts for them as if all arms were alike.
    name : str
    """

    def __init__(
        self,
        weights: WeightsLike = "sqrt",
        outcome_model: ModelLike = "running_mean",
        normalisation: Normalisation = "hajek",
        name: str = "custom",
    ) -> None:
        self._weights = read_weights(weights)
        self._outcome_model = read_outcome_model(outcome_model)
        self._normalisation = one_of("normalisation", normalisation, NORMALISATIONS)
        self._name = name

    @property
    def weights(self) -> Weights:
        """How much each row counts for each arm."""
        return self._weights

    @property
    def outcome_model(self) -> OutcomeModel:
        """What each row's outcome was expected to be."""
        return self._outcome_model

    @property
    def normalisation(self) -> Normalisation:
        """What the weighted residuals are divided by."""
        return self._normalisation

    @property
    def name(self) -> str:
        """What the estimator is called."""
        return self._name

    @property
    def parts(self) -> tuple[Weights, OutcomeModel]:
        """What the sums depend on."""
        return self.weights, self.outcome_model

    def planned_for(self, rows: int) -> Estimator:
        """Return the estimator with weights that plan for `rows`, if they need a number of rows."""
        return Estimator(self.weights.planned_for(rows), self.outcome_model, self.normalisation, self.name)

    def _choices(self) -> tuple[Weights, OutcomeModel, Normalisation, str]:
        return self.weights, self.outcome_model, self.normalisation, self.name

    def __eq__(self, other: object) -> bool:
        return self._choices() == other._choices() if isinstance(other, Estimator) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._choices())

    def __repr__(self) -> str:
        return (
            f"Estimator(weights={self.weights!r}, outcome_model={self.outcome_model!r}, "
            f"normalisation={self.normalisation!r}, name={self.name!r})"
        )


ESTIMATORS: dict[EstimatorName, Estimator] = {
    "daipw": Estimator("sqrt", "running_mean", "hajek", "daipw"),
    "dipw": Estimator("sqrt", "zero", "hajek", "dipw"),
    "mean": Estimator("propensity", "zero", "hajek", "mean"),
    "hajek": Estimator("uniform", "zero", "hajek", "hajek"),
    "nh": Estimator("sqrt", "running_mean", "plain", "nh"),
    "nh0": Estimator("sqrt", "zero", "plain", "nh0"),
    "iad": Estimator("sqrt", "zero", "arrived", "iad"),
}


def default_estimator(log: Data) -> EstimatorName:
    """Return "daipw", or "dipw" if only the chosen arm's propensity is known."""
    return "daipw" if log.has_all_propensities else "dipw"


def read_estimator(
    estimator: EstimatorName | Estimator,
    *,
    weights: WeightsLike | None = None,
    outcome_model: ModelLike | None = None,
    normalisation: Normalisation | None = None,
) -> Estimator:
    """Return an estimator from a name or an `Estimator`, with any axis replaced that is not None."""
    base = estimator if isinstance(estimator, Estimator) else ESTIMATORS[one_of("estimator", estimator, ESTIMATORS)]
    if weights is None and outcome_model is None and normalisation is None:
        return base
    return Estimator(
        base.weights if weights is None else weights,
        base.outcome_model if outcome_model is None else outcome_model,
        base.normalisation if normalisation is None else normalisation,
    )


@dataclass(frozen=True, kw_only=True)
class ArmStatistics:
    """What the formulas give, one value per arm; NaN where the arm has no arrivals."""

    value: Array  # Q(a)
    variance: Array  # the paper's V(a)
    robust: Array | None  # the small-sample variance; None if the estimator is not of Hajek's kind
    augmentation: Array  # what the outcome model moved the estimate by
    effective_size: Array  # (sum w)^2 / sum w^2
    inflation: Array  # of the leverage-corrected variance over the homoskedastic one, at least 1
    arrived: Array
    constant: Array  # whether all arrived outcomes are equal
    skewness: Array  # of the arrived outcomes, unweighted; 0 if there are too few to say

    def subset(self, arms: Array) -> ArmStatistics:
        """Return the statistics of some arms."""
        return self._changed(lambda values: values[..., arms])

    def reshaped(self, shape: tuple[int, ...]) -> ArmStatistics:
        """Return the statistics of arms that are those of many experiments, (experiments, arms)."""
        return self._changed(lambda values: values.reshape(shape))

    def _changed(self, change: Callable[[Array], Array]) -> ArmStatistics:
        known = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: change(values) for name, values in known.items() if values is not None})


def leverage_slope(largest: Array | float) -> Array:
    """Return s such that 1 + l s, l a leverage, is 1 / (1 - l)^2 at the largest leverage, and more below it.

    The leverage-corrected variance (HC3) weights squared residuals by 1 / (1 - l)^2; the chord keeps it a sum of
    powers, at the price of being larger.
    """
    at = np.minimum(largest, 1 - 1e-12)
    return np.asarray((2 - at) / (1 - at) ** 2)


def evaluate(sums: Sums, estimator: Estimator) -> ArmStatistics:
    """Read an estimator from sums."""
    check_propensities(estimator, known=not np.isnan(sums["h"]).any())
    if estimator.normalisation != "hajek" and np.isnan(sums["h2"]).any():
        raise OptionError(
            f"These sums were made for estimators of Hajek's kind, and {estimator.name!r} is not; "
            "`Sums.of(log, ...)` makes them for all."
        )
    with np.errstate(invalid="ignore", divide="ignore"):
        return _hajek(sums, estimator) if estimator.normalisation == "hajek" else _plain(sums, estimator)


def needs_all_propensities(estimator: Estimator) -> bool:
    """Whether the estimate uses the weights of arms that were not chosen."""
    uses_others = estimator.normalisation != "hajek" or estimator.outcome_model.name != "zero"
    return bool(uses_others and estimator.weights.need_all_propensities)


def check_propensities(estimator: Estimator, known: bool) -> None:
    """Refuse an estimator that needs more propensities than there are."""
    if not known and needs_all_propensities(estimator):
        raise PropensitiesNeededError(
            f"The estimator {estimator.name!r} needs every arm's propensity, and this log holds only the chosen "
            "arm's; 'dipw' does not need them."
        )


def observed_share(sums: Sums) -> Array:
    """p_hat(a) = sum h gamma / sum h (Section 3): the share of outcomes that come."""
    if np.isnan(sums["h"]).any():
        raise PropensitiesNeededError(
            "The observed share needs every arm's propensity, and this log holds only the chosen arm's."
        )
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums["w"] / sums["h"])


def _second_moment(zeroth: Array, first: Array, second: Array, about: Array) -> Array:
    """Sum of v (y - about)^2 from the sums of v, v y and v y^2; never negative."""
    mean = first / zeroth
    return np.maximum(second - first * mean, 0.0) + zeroth * (mean - about) ** 2


def _spread(sums: Sums) -> Array:
    """Sum of (Y - mean)^2 over arrived outcomes, unweighted."""
    return np.asarray(np.maximum(sums["y2"] - sums["y"] ** 2 / sums["arrived"], 0.0))


def skewness(sums: Sums) -> Array:
    """Skewness of each arm's arrived outcomes, G1 of Joanes and Gill (1998); 0 below 3 of them, or without spread."""
    n, y, y2, y3 = sums["arrived"], sums["y"], sums["y2"], sums["y3"]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = y / n
        third = (y3 - 3 * mean * y2 + 2 * mean**2 * y) / n
        adjusted = np.sqrt(n * (n - 1)) / (n - 2) * third / (_spread(sums) / n) ** 1.5
    return np.where((n >= 3) & np.isfinite(adjusted), adjusted, 0.0)


def _hajek(sums: Sums, estimator: Estimator) -> ArmStatistics:
    w, n = sums["w"], sums["arrived"]
    # equation (3): sum h (Y - mu) gamma / sum h gamma + sum h mu / sum h
    augmentation = np.zeros_like(w)
    if estimator.outcome_model.name != "zero":
        augmentation = sums["hm"] / sums["h"] - sums["wm"] / w
        # where no outcome had arrived before any row, the model is 0 minus the shift throughout: no augmentation
        rounding, c = 1e-12 * np.abs(sums.shift), sums.shift
        no_model = np.abs(sums["hm"] + c * sums["h"]) <= rounding * sums["h"]
        no_model &= np.abs(sums["wm"] + c * w) <= rounding * w
        augmentation = np.where(no_model & (w > 0), 0.0, augmentation)
    centre = sums["wy"] / w
    about = centre + augmentation
    spread = _spread(sums)
    # HC3, sum w^2 e^2 / (1 - l)^2 with residuals e about `centre` and leverages l = w / W, from above by
    # sum w^2 e^2 (1 + l s)
    slope = leverage_slope(sums["w_max"] / w)
    squares = _second_moment(sums["w2"], sums["w2y"], sums["w2y2"], centre)
    cubes = _second_moment(sums["w3"], sums["w3y"], sums["w3y2"], centre)
    hc3 = (squares + slope * cubes / w) / w**2
    homoskedastic = spread / (n - 1) * sums["w2"] / w**2
    robust = np.maximum(homoskedastic, hc3) + augmentation**2
    return ArmStatistics(
        value=sums.shift + about,
        variance=_second_moment(sums["w2"], sums["w2y"], sums["w2y2"], about) / w**2,
        robust=np.where(n >= 2, robust, np.nan),
        augmentation=augmentation,
        effective_size=w**2 / sums["w2"],
        inflation=np.where(homoskedastic > 0, np.maximum(hc3 / homoskedastic, 1.0), 1.0),
        arrived=n,
        constant=(n > 0) & (spread == 0),
        skewness=skewness(sums),
    )


def _plain(sums: Sums, estimator: Estimator) -> ArmStatistics:
    h, n = sums["h"], sums["arrived"]
    # z = (Y - mu) gamma / share + mu, with share 1, or that of all arms' arrivals for `arrived`
    share = sums["h_arrived"] / h if estimator.normalisation == "arrived" else np.ones_like(h)
    residual = (sums["wy"] - sums["wm"]) / share
    about = (residual + sums["hm"]) / h
    z = sums["hwr"] / share + sums["h2m"]
    z2 = sums["w2r2"] / share**2 + 2 * sums["hwrm"] / share + sums["h2m2"]
    variance = _second_moment(sums["h2"], z, z2, about) / h**2
    arrived = n > 0
    return ArmStatistics(
        value=np.where(arrived, sums.shift + about, np.nan),
        variance=np.where(arrived, variance, np.nan),
        robust=None,
        augmentation=np.zeros_like(h),
        effective_size=sums["w"] ** 2 / sums["w2"],
        inflation=np.ones_like(h),
        arrived=n,
        constant=arrived & (_spread(sums) == 0),
        skewness=skewness(sums),
    )
