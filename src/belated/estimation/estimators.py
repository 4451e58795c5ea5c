"""The estimators as data, and the two formulas that compute them from sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from belated.base.checks import NO_DIFFERENCE, one_of
from belated.base.columns import Array
from belated.base.errors import OptionError, PropensitiesNeededError
from belated.log.data import Data
from belated.summaries.evidence import squares_about_mean
from belated.summaries.outcome_models import ModelLike, OutcomeModel, read_outcome_model
from belated.summaries.pair_sums import PairSums
from belated.summaries.sums import Sums
from belated.summaries.weights import Weights, WeightsLike, read_weights

Normalisation = Literal["hajek", "plain", "arrived"]
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)
Start = Literal["centre", "zero"]
STARTS: tuple[Start, ...] = get_args(Start)
EstimatorName = Literal["daipw", "daipw_paper", "dipw", "mean", "hajek", "nh", "nh0", "iad"]


class Estimator:
    """An estimator: a choice of weights, outcome model, normalisation and start.

    Parameters
    ----------
    weights : Weights or str
    outcome_model : OutcomeModel or str
    normalisation : {"hajek", "plain", "arrived"}
        The divisor of the weighted residuals. ``hajek`` is the sum of h gamma, which adjusts for outcomes that never
        arrive; ``plain`` is the sum of h, which does not; ``arrived`` is the sum of h over arrived rows of any arm,
        which adjusts as if outcomes of all arms arrived at the same rate.
    name : str
    start : {"centre", "zero"}, optional
        The value of the running mean before an arm's first arrival. ``centre`` is the arm's weighted mean of all
        arrived outcomes, so that adding a constant to the outcomes adds it to the estimate; ``zero`` is 0, as in the
        paper. ``centre`` is the default for, and limited to, estimators normalised by 'hajek'.
    """

    def __init__(
        self,
        weights: WeightsLike = "sqrt",
        outcome_model: ModelLike = "running_mean",
        normalisation: Normalisation = "hajek",
        name: str = "custom",
        start: Start | None = None,
    ) -> None:
        self._weights = read_weights(weights)
        self._outcome_model = read_outcome_model(outcome_model)
        self._normalisation = one_of("normalisation", normalisation, NORMALISATIONS)
        self._name = name
        hajek = self._normalisation == "hajek"
        self._start: Start = one_of("start", start, STARTS) if start is not None else ("centre" if hajek else "zero")
        if self._start == "centre" and not hajek:
            raise OptionError("`start` is 'centre', which needs the normalisation 'hajek'; use 'zero' otherwise.")

    @property
    def weights(self) -> Weights:
        """The weight of each row for each arm."""
        return self._weights

    @property
    def outcome_model(self) -> OutcomeModel:
        """The model that predicts each row's outcome."""
        return self._outcome_model

    @property
    def normalisation(self) -> Normalisation:
        """The divisor of the weighted residuals."""
        return self._normalisation

    @property
    def name(self) -> str:
        """The name of the estimator."""
        return self._name

    @property
    def start(self) -> Start:
        """The value of the running mean before an arm's first arrival."""
        return self._start

    @property
    def needs_plain(self) -> bool:
        """Whether it needs sums that Hajek-type estimators without a given outcome model do not need."""
        return self.normalisation != "hajek" or self.outcome_model.name == "given"

    @property
    def parts(self) -> tuple[Weights, OutcomeModel]:
        """The components on which the sums depend."""
        return self.weights, self.outcome_model

    def planned_for(self, rows: int) -> Estimator:
        """Return the estimator with `rows` as the horizon of its weights, if they need one."""
        return Estimator(self.weights.planned_for(rows), *self._choices()[1:])

    def _choices(self) -> tuple[Weights, OutcomeModel, Normalisation, str, Start]:
        return self.weights, self.outcome_model, self.normalisation, self.name, self.start

    def __eq__(self, other: object) -> bool:
        return self._choices() == other._choices() if isinstance(other, Estimator) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._choices())

    def __repr__(self) -> str:
        return (
            f"Estimator(weights={self.weights!r}, outcome_model={self.outcome_model!r}, "
            f"normalisation={self.normalisation!r}, name={self.name!r}, start={self.start!r})"
        )


ESTIMATORS: dict[EstimatorName, Estimator] = {
    "daipw": Estimator("sqrt", "running_mean", "hajek", "daipw"),
    "daipw_paper": Estimator("sqrt", "running_mean", "hajek", "daipw_paper", "zero"),
    "dipw": Estimator("sqrt", "zero", "hajek", "dipw"),
    "mean": Estimator("propensity", "zero", "hajek", "mean"),
    "hajek": Estimator("uniform", "zero", "hajek", "hajek"),
    "nh": Estimator("sqrt", "running_mean", "plain", "nh"),
    "nh0": Estimator("sqrt", "zero", "plain", "nh0"),
    "iad": Estimator("sqrt", "zero", "arrived", "iad"),
}


#: The estimators that `compare` shows; "daipw_paper" would repeat "daipw".
SIDE_BY_SIDE: tuple[EstimatorName, ...] = tuple(name for name in ESTIMATORS if name != "daipw_paper")


#: The estimators that events can have while windows are open; `log.events.MATURING_ESTIMATORS` names them too.
MATURING: tuple[EstimatorName, ...] = tuple(
    name
    for name in SIDE_BY_SIDE
    if ESTIMATORS[name].outcome_model.name == "zero" and ESTIMATORS[name].normalisation == "hajek"
)


def default_estimator(log: Data) -> EstimatorName:
    """Return the estimator that is used for a log if none is asked for."""
    return default_for(all_propensities=log.has_all_propensities, maturing=log.is_maturing)


def default_for(*, all_propensities: bool = True, maturing: bool = False) -> EstimatorName:
    """Return "daipw"; "dipw" if only the chosen arm's propensity is known, or for events whose windows are open."""
    return "daipw" if all_propensities and not maturing else "dipw"


def read_estimator(
    estimator: EstimatorName | Estimator,
    *,
    weights: WeightsLike | None = None,
    outcome_model: ModelLike | None = None,
    normalisation: Normalisation | None = None,
) -> Estimator:
    """Return an estimator from a name or an `Estimator`, with the given components replaced."""
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
    """The results of the formulas, one value per arm; NaN where the arm has no arrivals.

    Moments are unweighted moments of the arrived outcomes or, with a given outcome model, of their residuals.
    """

    value: Array  # Q(a)
    variance: Array  # the paper's V(a)
    robust: Array | None = None  # the small-sample variance; None if the estimator is not of Hajek type
    augmentation: Array  # the change of the estimate due to the outcome model
    effective_size: Array  # (sum w)^2 / sum w^2
    inflation: Array  # the leverage-corrected variance over the homoskedastic one, at least 1
    arrived: Array
    constant: Array  # whether all arrived outcomes are equal
    ceiling: Array  # the largest possible mean: the cap on outcomes, or infinity
    moments: Moments
    shared: Shared | None = None  # the covariance due to a given outcome model
    common: Common | None = None  # what segments' cells have in common

    def subset(self, arms: Array) -> ArmStatistics:
        """Return the statistics of some arms, of arms in another order, or of several sets of arms."""
        shared = None if self.shared is None else self.shared.subset(arms)
        common = None if self.common is None else self.common.subset(arms)
        return replace(self._changed(lambda values: values[..., arms]), shared=shared, common=common)

    def at(self, index: int | Array) -> ArmStatistics:
        """Return the statistics at an index of their arrays, for example one experiment of many."""
        return self._changed(lambda values: values[index])

    def _changed(self, change: Callable[[Array], Array]) -> ArmStatistics:
        apart = ("moments", "shared", "common")
        known = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in apart}
        changed = {name: change(values) for name, values in known.items() if values is not None}
        return replace(self, moments=Moments(*map(change, self.moments)), shared=None, common=None, **changed)


class Shared(NamedTuple):
    """The covariance of the arms' estimates, which share an outcome model's mean over the same rows."""

    covariance: Array  # (arms, arms), 0 on the diagonal
    variance: Array  # the part of each arm's own variance that comes from the model

    def subset(self, arms: Array) -> Shared:
        """Return the part for some arms."""
        index, pairs = _pairs(arms)
        return Shared(self.covariance[(..., *pairs)], self.variance[..., index])


class Common(NamedTuple):
    """A covariance between cells, in addition to their variances, from quantities that several cells share.

    These are the shares of segments, the means of covariates, and the slopes of the adjustment for covariates.
    """

    factor: Array  # (..., k, cells): the covariance is factor' factor, in a form that loses no digits
    degrees: float | Array  # of freedom; by experiment, if there are many

    def subset(self, cells: Array) -> Common:
        """Return the part for some cells."""
        index, _ = _pairs(cells)
        return Common(np.moveaxis(self.factor[..., index], self.factor.ndim - 2, -2), self.degrees)

    def variance(self, coefficients: Array) -> Array:
        """Return the variance that a combination of cells has from it."""
        return np.asarray(np.sum(np.einsum("...ka,...a->...k", self.factor, coefficients) ** 2, axis=-1))


def _pairs(arms: Array) -> tuple[Array, tuple[Array, Array]]:
    """Return the positions of some arms, and those of all pairs of them."""
    index = np.flatnonzero(arms) if np.asarray(arms).dtype == bool else np.asarray(arms)
    return index, (index[..., :, np.newaxis], index[..., np.newaxis, :])


class Moments(NamedTuple):
    """Unweighted central moments of the arrived outcomes, by arm and pooled over all arms."""

    second: Array
    third: Array
    fourth: Array
    offset: Array  # the mean of all arms together minus the arm's
    pooled_count: Array
    pooled_second: Array
    pooled_third: Array
    pooled_fourth: Array


def leverage_slope(largest: Array | float) -> Array:
    """Return s such that 1 + l s equals 1 / (1 - l)^2 at the largest leverage l, and exceeds it below.

    The leverage-corrected variance (HC3) weights squared residuals by 1 / (1 - l)^2. The chord replaces it by sums of
    powers, which are slightly larger.
    """
    at = np.minimum(largest, 1 - 1e-12)
    return np.asarray((2 - at) / (1 - at) ** 2)


def evaluate(sums: Sums, estimator: Estimator, shape: tuple[int, ...] | None = None) -> ArmStatistics:
    """Compute an estimator from sums; with a shape (experiments, arms), for many experiments at once."""
    check_propensities(estimator, known=not np.isnan(sums["h"]).any())
    if estimator.needs_plain and np.isnan(sums["h2"]).any():
        raise OptionError(
            f"The estimator {estimator.name!r} cannot be computed from these sums, which are only for Hajek-type "
            "estimators without a given outcome model; `Sums.of(log, ...)` makes sums for every estimator."
        )
    read = _hajek if estimator.normalisation == "hajek" else _plain
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return read(sums, estimator, sums.shift.shape if shape is None else shape)


def needs_all_propensities(estimator: Estimator) -> bool:
    """Whether the estimate uses the weights of arms that were not chosen."""
    uses_others = estimator.normalisation != "hajek" or estimator.outcome_model.name != "zero"
    return bool(uses_others and estimator.weights.need_all_propensities)


def check_propensities(estimator: Estimator, known: bool) -> None:
    """Raise if an estimator needs every arm's propensity and only the chosen arm's is known."""
    if not known and needs_all_propensities(estimator):
        raise PropensitiesNeededError(
            f"The estimator {estimator.name!r} needs every arm's propensity, and this log has only the chosen "
            "arm's; use 'dipw' instead."
        )


def observed_share(sums: Sums) -> Array:
    """Return the estimated share of outcomes that arrive, p_hat(a) = sum h gamma / sum h (Section 3)."""
    if np.isnan(sums["h"]).any():
        raise PropensitiesNeededError(
            "The observed share needs every arm's propensity, and this log has only the chosen arm's."
        )
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums["w"] / sums["h"])


def _second_moment(zeroth: Array, first: Array, second: Array, about: Array) -> Array:
    """Return the sum of v (y - about)^2 from the sums of v, v y and v y^2; never negative."""
    mean = first / zeroth
    return np.maximum(second - first * mean, 0.0) + zeroth * (mean - about) ** 2


def _spread(sums: Sums) -> Array:
    """Return the unweighted sum of (Y - mean)^2 over arrived outcomes; exactly 0 if they are equal."""
    return squares_about_mean(sums["arrived"], sums["y"], sums["y2"])


def _central_moments(n: Array, first: Array, second: Array, third: Array, fourth: Array) -> tuple[Array, ...]:
    """Return the mean and the second to fourth central moments of `n` values from their sums of powers."""
    mean = first / n
    m2 = np.maximum(second / n - mean**2, 0.0)
    m3 = third / n - mean * (3 * second / n - 2 * mean**2)
    m4 = fourth / n - mean * (4 * third / n - mean * (6 * second / n - 3 * mean**2))
    return mean, m2, m3, np.maximum(m4, m2**2)


def moments(sums: Sums, shape: tuple[int, ...], *, given: bool) -> Moments:
    """Return the moments of arms in the given shape; arms along the last axis belong to one experiment.

    With a given outcome model, they are those of the residuals.
    """
    names, shift = ("y", "y2", "y3", "y4"), sums.shift.reshape(shape)
    if given:
        names, shift = ("r", "r2", "r3", "r4"), np.zeros(shape)
    n, *powers = (sums[name].reshape(shape) for name in ("arrived", *names))
    constant = (_spread(sums) == 0).reshape(shape) & (not given)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean, *central = _central_moments(n, *powers)
        second, third, fourth = (np.where(constant, 0.0, moment) for moment in central)
        # pooled moments about the pooled mean; differences are taken from an outcome of the largest arm
        anchor = np.take_along_axis(shift, np.argmax(n, axis=-1)[..., np.newaxis], axis=-1)
        share = n / n.sum(axis=-1, keepdims=True)
        own = [np.where(n > 0, moment, 0.0) for moment in (shift - anchor + mean, second, third, fourth)]
        d = own[0] - (share * own[0]).sum(axis=-1, keepdims=True)
        scale = np.max(np.where(n > 0, np.abs(shift - anchor) + np.abs(mean), 0.0), axis=-1, keepdims=True)
        d = np.where(np.abs(d) > NO_DIFFERENCE * scale, d, 0.0)
        about = (own[1] + d**2, own[2] + 3 * d * own[1] + d**3, own[3] + 4 * d * own[2] + 6 * d**2 * own[1] + d**4)
        total = n.sum(axis=-1, keepdims=True)
        pooled = [np.broadcast_to((share * moment).sum(axis=-1, keepdims=True), shape) for moment in about]
    if given:  # if all outcomes are equal, nothing is known of how they vary, whatever the model says
        varies = moments(sums, shape, given=False).pooled_second > 0
        pooled = [np.where(varies, moment, 0.0) for moment in pooled]
    return Moments(
        second=second, third=third, fourth=fourth, offset=-d, pooled_count=np.broadcast_to(total, shape),
        pooled_second=pooled[0], pooled_third=pooled[1], pooled_fourth=pooled[2],
    )  # fmt: skip


def _hajek(sums: Sums, estimator: Estimator, shape: tuple[int, ...]) -> ArmStatistics:
    w, n = sums["w"], sums["arrived"]
    centre = sums["wy"] / w
    # equation (3): sum h (Y - mu) gamma / sum h gamma + sum h mu / sum h
    augmentation = np.zeros_like(w)
    if estimator.outcome_model.name != "zero":
        start = centre if estimator.start == "centre" else -sums.shift
        modelled = sums["hm"] + start * (sums["h"] - sums["h_modelled"])
        augmentation = modelled / sums["h"] - (sums["wm"] + start * (w - sums["w_modelled"])) / w
        # if no outcome arrived before any row, the model is constant and there is no augmentation
        augmentation = np.where((sums["h_modelled"] == 0) & (w > 0), 0.0, augmentation)
    about = centre + augmentation
    pairs = sums.pairs  # None unless there is a given outcome model
    hc0, hc3, homoskedastic, moved = (
        hajek_variances(sums, centre, augmentation) if pairs is None else _model_variances(sums, pairs)
    )
    robust = np.maximum(homoskedastic, hc3) + moved
    statistics = _in_shape(
        sums,
        estimator,
        shape,
        value=sums.shift + about,
        variance=hc0,
        robust=np.where(n >= 2, robust, np.nan),
        augmentation=augmentation,
        effective_size=w**2 / sums["w2"],
        inflation=np.where(homoskedastic > 0, np.maximum(hc3 / homoskedastic, 1.0), 1.0),
        arrived=n,
        constant=(n > 0) & (_spread(sums) == 0),
    )
    if pairs is None:
        return statistics
    covariance = pairs.covariance(sums["h"], w, sums["hm"] / sums["h"], (sums["wy"] - sums["wm"]) / w)
    return replace(statistics, shared=Shared(covariance, np.maximum(moved, 0.0)))


def _in_shape(sums: Sums, estimator: Estimator, shape: tuple[int, ...], **values: Array) -> ArmStatistics:
    ceiling = np.full(shape, math.inf if sums.cap is None else sums.cap.value)
    arrays = {name: array.reshape(shape) for name, array in values.items()}
    central = moments(sums, shape, given=estimator.outcome_model.name == "given")
    return ArmStatistics(moments=central, ceiling=ceiling, shared=None, common=None, **arrays)


def hajek_variances(sums: Sums, centre: Array, augmentation: Array) -> tuple[Array, Array, Array, Array]:
    """Return the paper's, the HC3 and the homoskedastic variance, and what to add to the last two."""
    w, w2 = sums["w"], sums["w2"]
    squares = _second_moment(w2, sums["w2y"], sums["w2y2"], centre)
    cubes = _second_moment(sums["w3"], sums["w3y"], sums["w3y2"], centre)
    hc0 = _second_moment(w2, sums["w2y"], sums["w2y2"], centre + augmentation) / w**2
    return hc0, _hc3(sums, squares, cubes), _spread(sums) / (sums["arrived"] - 1) * w2 / w**2, augmentation**2


def _model_variances(sums: Sums, pairs: PairSums) -> tuple[Array, Array, Array, Array]:
    """Return the same for a given outcome model: variances of the weighted residuals and of the model's mean.

    With r = Y - mu, the estimate is sum w r / W + sum h mu / H. Its variance is that of a sum of
    w (r - mean r) / W + h (mu - mean mu) / H, the first term over arrived rows.
    """
    w, w2, h, n = sums["w"], sums["w2"], sums["h"], sums["arrived"]
    centre, model = (sums["wy"] - sums["wm"]) / w, sums["hm"] / h
    squares = _second_moment(w2, sums["w2r"], sums["w2r2"], centre)
    cubes = _second_moment(sums["w3"], sums["w3r"], sums["w3r2"], centre)
    homoskedastic = np.maximum(sums["r2"] - sums["r"] ** 2 / n, 0.0) / (n - 1) * w2 / w**2
    of_model = _second_moment(sums["h2"], sums["h2m"], sums["h2m2"], model) / h**2
    hw, hwr, hwm, hwrm = np.diagonal(pairs.own, axis1=1, axis2=2)
    cross = hwrm - centre * hwm - model * hwr + centre * model * hw
    moved = np.maximum(of_model + 2 * cross / (w * h), of_model - squares / w**2)  # the sum is at least of_model
    return squares / w**2 + moved, _hc3(sums, squares, cubes), homoskedastic, moved


def _hc3(sums: Sums, squares: Array, cubes: Array) -> Array:
    """Return an upper bound of the HC3 variance from sums of w^2 e^2 and of w^3 e^2, with residuals e.

    HC3 is sum w^2 e^2 / (1 - l)^2 over W^2, with leverages l = w / W; (1 - l)^-2 is at most 1 + l s.
    """
    w = sums["w"]
    variance: Array = (squares + leverage_slope(sums["w_max"] / w) * cubes / w) / w**2
    return variance


def _plain(sums: Sums, estimator: Estimator, shape: tuple[int, ...]) -> ArmStatistics:
    h, w, n = sums["h"], sums["w"], sums["arrived"]
    # z = (Y - mu) gamma / share + mu, with share 1 or, for `arrived`, the share of all arms' arrivals; mu starts at 0
    hm, wm = (sums[f"{v}m"] - sums.shift * (sums[v] - sums[f"{v}_modelled"]) for v in ("h", "w"))
    share = sums["h_arrived"] / h if estimator.normalisation == "arrived" else np.ones_like(h)
    about = ((sums["wy"] - wm) / share + hm) / h
    z = sums["hwr"] / share + sums["h2m"]
    z2 = sums["w2r2"] / share**2 + 2 * sums["hwrm"] / share + sums["h2m2"]
    variance = _second_moment(sums["h2"], z, z2, about) / h**2
    arrived = n > 0
    return _in_shape(
        sums,
        estimator,
        shape,
        value=np.where(arrived, sums.shift + about, np.nan),
        variance=np.where(arrived, variance, np.nan),
        augmentation=np.zeros_like(h),
        effective_size=w**2 / sums["w2"],
        inflation=np.ones_like(h),
        arrived=n,
        constant=arrived & (_spread(sums) == 0),
    )
