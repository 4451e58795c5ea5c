"""Estimates by segment, averaged over a population of segments, and adjusted for covariates.

Each segment and arm is a cell with an estimate of its own. A `Population` gives the segments' shares P. With c the
coefficients of arms, an answer is the sum over segments s and arms a of P_s c(s, a) Q(a | s). Its variance has, besides
those of the cells, a part that they have in common, `ArmStatistics.common`: the shares are estimated, as are the means
of covariates and the slopes. docs/segments.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from belated.base.checks import check_shares, real
from belated.base.columns import Array, ByArm, Label
from belated.base.errors import OptionError
from belated.base.text import count, few_labels, first_few, one_line, shown
from belated.estimation.estimators import ArmStatistics, Common, Estimator, Moments, evaluate, leverage_slope
from belated.summaries.covariates import CovariateSums
from belated.summaries.merged_arrival import MOST_UNSEEN
from belated.summaries.segments import ALL, FEWEST, MISSING, MOST, Segments, segment_index
from belated.summaries.sums import Sums

#: Outcomes of an arm, for each covariate, that slopes of its own need; with fewer it has those of all arms together.
_FOR_SLOPES = 5

#: Outcomes of all arms, for each covariate, that an adjustment needs; with fewer there is none.
_FOR_ADJUSTMENT = 2

#: Covariates whose variance beyond the others is a smaller share than this are collinear.
_COLLINEAR = 1e-9


#: The power of the unexplained share of variance that third moments of residuals have: 0 if what covariates explain is
#: symmetric, 1.5 if it is as skewed as the outcome.
_SKEWNESS_LEFT = 0.75

#: A share of the rows in merged segments below which it is pointed out that an arm's outcomes stand for no more, if the
#: rest is more than so many roots of the sum of their squared weights.
_LEAST_REPRESENTED, _STRANGE = 0.8, 2.0

#: Covariates that a sentence names.
_MOST_NAMED = 5


class Population(NamedTuple):
    """The segments that an estimate is averaged over.

    Attributes
    ----------
    labels : tuple
        All segments of the log.
    shares : array
        The share of each.
    rows : float or None
        The number of rows from which the shares are estimated; None if they are known.
    name : str
        What the population is, in words.
    """

    labels: tuple[Label, ...]
    shares: Array
    rows: float | None
    name: str

    @classmethod
    def of_log(cls, segments: Segments) -> Population:
        """Return the log's own mix of segments."""
        rows = segments.rows
        total = max(float(rows.sum()), 1.0)
        name = f"standardised to the log's mix of {count(len(rows), 'segment')}"
        return cls(segments.labels, rows / total, total if len(rows) > 1 else None, name)

    @classmethod
    def of_segment(cls, labels: tuple[Label, ...], segment: Label) -> Population:
        """Return one segment alone."""
        index = segment_index(labels, segment)
        shares = np.zeros(len(labels))
        shares[index] = 1.0
        return cls(labels, shares, None, f"segment {one_line(repr(labels[index]))}")

    @classmethod
    def given(cls, labels: tuple[Label, ...], shares: ByArm[float]) -> Population:
        """Return a population whose shares are known."""
        if not isinstance(shares, Mapping):
            raise OptionError(f"`shares` is {shown(shares)}; it must map segments to shares, such as {{'DE': 0.6}}.")
        vector = np.zeros(len(labels))
        for label, share in shares.items():
            vector[segment_index(labels, label)] = real(f"shares[{label!r}]", share)
        check_shares("`shares`", dict(shares), vector, "shares")
        return cls(labels, vector, None, "standardised to given shares of segments")

    @property
    def is_one(self) -> bool:
        """Whether it is a single segment."""
        return int((self.shares > 0).sum()) == 1

    @property
    def is_all(self) -> bool:
        """Whether the log has no segments."""
        return self.labels == (ALL,)

    def spread(self, coefficients: Array) -> Array:
        """Return the coefficients of cells from those of arms, (arms,) or (segments, arms)."""
        return np.asarray((self.shares[:, np.newaxis] * coefficients).ravel())

    def cells_of(self, arms: Array, n_arms: int, coefficients: Array) -> tuple[Array, Array]:
        """Return the cells of some arms, (..., m) to (..., segments * m), and their coefficients."""
        used = np.flatnonzero(self.shares)
        cells = arms[..., np.newaxis, :] + n_arms * used[:, np.newaxis]
        return cells.reshape(*arms.shape[:-1], -1), (self.shares[used, np.newaxis] * coefficients).ravel()


def cell_statistics(segments: Segments, estimator: Estimator, population: Population) -> ArmStatistics:
    """Return the statistics of each segment and arm."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        statistics, factors = evaluate(segments.cells, estimator), list[Array]()
        if segments.covariates is not None and not _why_unadjusted(segments, estimator):
            statistics, factors = _adjusted(statistics, segments.cells, segments.covariates, len(segments.labels))
        if factors:
            factor = np.concatenate(factors)
            known = np.where(np.isfinite(factor), factor, 0.0)
            statistics = replace(statistics, common=Common(known, max(float(segments.rows.sum()) - 1, 1.0)))
        return statistics if population.rows is None else with_estimated_shares(statistics, segments.rows)


def _why_unadjusted(segments: Segments, estimator: Estimator) -> str:
    """Return why estimates are not adjusted for the covariates; empty if they are."""
    if estimator.normalisation != "hajek":
        return "only estimators normalised by 'hajek' are"
    arrived, covariates = segments.cells["arrived"], segments.covariates
    if covariates and arrived.sum() - (arrived > 0).sum() < _FOR_ADJUSTMENT * len(covariates.names):
        return f"{count(len(covariates.names), 'covariate')} would need at least {_FOR_ADJUSTMENT} outcomes each"
    return ""


def with_estimated_shares(statistics: ArmStatistics, rows: Array) -> ArmStatistics:
    """Return the statistics of cells with the covariance that the shares of segments add, if they are estimated.

    A combination with coefficients P_s c has the variance sum P_s (tau_s - tau)^2 / n, tau_s = sum over arms of c Q.

    Parameters
    ----------
    statistics : ArmStatistics
        With known shares, of shape (..., cells).
    rows : array of shape (..., segments)
    """
    values, total = statistics.value, np.maximum(rows.sum(axis=-1, keepdims=True), 1.0)
    n, shares = rows.shape[-1], rows / total
    segment = np.repeat(np.arange(n), values.shape[-1] // n)
    same = np.arange(n)[:, np.newaxis] == segment
    inverse = (1 / np.where(shares > 0, shares, 1.0))[..., segment]
    away = np.where(same, inverse[..., np.newaxis, :], 0.0) - 1.0
    known = np.where(np.isfinite(values), values, 0.0)
    factor = away * known[..., np.newaxis, :] * np.sqrt(shares / total)[..., np.newaxis]
    if statistics.common is not None:
        factor = np.concatenate([statistics.common.factor, factor], axis=-2)
    return replace(statistics, common=Common(factor, np.maximum(total[..., 0] - 1, 1.0)))


def _adjusted(
    statistics: ArmStatistics, sums: Sums, covariates: CovariateSums, n_segments: int
) -> tuple[ArmStatistics, list[Array]]:
    """Return the statistics of outcomes minus what covariates explain, and factors of the covariance from it.

    With r = y - yw - theta'(x - xw) for means yw, xw weighted by w, and xbar the mean of x over all rows of the
    segment, Q = yw - theta'(xw - xbar), and variances are those of r.
    """
    products = covariates.own
    n, arms, x = n_segments, len(sums.arms) // n_segments, slice(1, -1)
    w, counts = products[:, 1, 0, 0], products[:, 0, 0, 0]
    weighted = products[:, 1, :, 0] / w[:, np.newaxis]
    centred = products[:, 1] - w[:, np.newaxis, np.newaxis] * weighted[:, :, np.newaxis] * weighted[:, np.newaxis, :]
    centred = np.where((counts > 0)[:, np.newaxis, np.newaxis], centred, 0.0)
    arm = np.tile(np.arange(arms), n)
    theta, slope_variance, factor, fit = _slopes(centred, products, weighted, counts, arm, arms)
    everyone = covariates.all
    mean = everyone[:, 1:, 0] / everyone[:, :1, 0]
    spread = everyone[:, 1:, 1:] / everyone[:, :1, :1] - mean[:, :, np.newaxis] * mean[:, np.newaxis, :]
    segment = np.repeat(np.arange(n), arms)
    slopes, off = theta[arm], weighted[:, x] - mean[segment]

    change = np.concatenate(
        [(np.sum(slopes * weighted[:, x], axis=1) - weighted[:, -1])[:, np.newaxis], -slopes, np.ones((len(w), 1))],
        axis=1,
    )
    first = np.einsum("ckd,cd->ck", products[:, :, 0, :], change)
    second = np.maximum(np.einsum("ce,cked,cd->ck", change, products, change), 0.0)
    own = np.maximum(second[:, 0] - first[:, 0] ** 2 / counts, 0.0)
    w2, moved = products[:, 2, 0, 0], statistics.augmentation
    hc3 = (second[:, 2] + leverage_slope(sums["w_max"] / w) * second[:, 3] / w) / w**2 * factor[arm]
    plain = own / (counts - 1) * w2 / w**2 * factor[arm]
    hc0 = (second[:, 2] - 2 * moved * first[:, 2] + moved**2 * w2) / w**2
    adjusted = replace(
        statistics,
        value=statistics.value - np.sum(slopes * off, axis=1),
        variance=hc0,
        robust=np.where(counts >= 2, np.maximum(plain, hc3) + moved**2, np.nan),
        inflation=np.where(plain > 0, np.maximum(hc3 / plain, 1.0), 1.0),
        moments=_residual_moments(statistics.moments, own / counts),
    )
    rows = everyone[:, :1, :1]
    return adjusted, [_factor(spread / rows, segment, slopes), _factor(slope_variance, fit[arm], off)]


def _factor(covariances: Array, group: Array, vectors: Array) -> Array:
    """Return the factor of v' C v, with each cell's vector v and the covariance C of its group; other groups apart."""
    size, root = np.linalg.eigh(np.where(np.isfinite(covariances), covariances, 0.0))
    root = root * np.sqrt(np.maximum(size, 0.0))[:, np.newaxis, :]
    parts = np.einsum("gxk,cx->gkc", root, vectors)
    same = np.arange(len(covariances))[:, np.newaxis] == group
    return np.where(same[:, np.newaxis, :], parts, 0.0).reshape(-1, len(group))


def _slopes(
    centred: Array, products: Array, weighted: Array, counts: Array, arm: Array, arms: int
) -> tuple[Array, Array, Array, Array]:
    """Return each arm's slopes, their covariance, and the factor that corrects residual variances for fitting them.

    The last is the number of each arm's fit: arms with few outcomes share theirs.
    """
    x = slice(1, -1)
    many = centred.shape[1] - 2
    by_arm = np.zeros((arms, *centred.shape[1:]))
    np.add.at(by_arm, arm, centred)
    moment = products[:, 2]
    cross = moment[:, :1, :] * weighted[:, :, np.newaxis]
    spread = (
        moment
        - cross
        - np.swapaxes(cross, 1, 2)
        + moment[:, :1, :1] * (weighted[:, :, np.newaxis] * weighted[:, np.newaxis, :])
    )
    squares = np.zeros_like(by_arm)
    np.add.at(squares, arm, np.where((counts > 0)[:, np.newaxis, np.newaxis], spread, 0.0))
    free = np.bincount(arm, counts, arms) - np.bincount(arm, counts > 0, arms)
    residual = np.zeros_like(by_arm)
    mean = products[:, 0, :, 0] / counts[:, np.newaxis]
    within = products[:, 0] - counts[:, np.newaxis, np.newaxis] * mean[:, :, np.newaxis] * mean[:, np.newaxis, :]
    np.add.at(residual, arm, np.where((counts > 0)[:, np.newaxis, np.newaxis], within, 0.0))
    few = free < _FOR_SLOPES * many
    for table in (by_arm, squares, residual):
        table[few] = table.sum(axis=0)
    free = np.where(few, free.sum(), free)
    theta, variance = np.zeros((arms, many)), np.zeros((arms, many, many))
    for a in range(arms):
        inverse = np.linalg.pinv(by_arm[a, x, x], rcond=_COLLINEAR, hermitian=True)
        theta[a] = inverse @ by_arm[a, x, -1]
        left = np.concatenate([-theta[a], [1.0]])
        error = max(float(left @ residual[a, 1:, 1:] @ left), 0.0) / max(free[a] - many, 1.0)
        variance[a] = error * inverse @ squares[a, x, x] @ inverse
    return theta, variance, free / np.maximum(free - many, 1.0), np.where(few, few.argmax(), np.arange(arms))


def _residual_moments(moments: Moments, second: Array) -> Moments:
    """Return the moments of residuals from those of outcomes and the second moment of residuals.

    Sums have no higher moments of covariates, so that it is unknown how much of the skewness covariates explain. All of
    it if what they explain is as skewed as the outcome; none if it is symmetric. This takes the middle.
    """
    varies = moments.second > 0
    left = np.where(varies, second / np.where(varies, moments.second, 1.0), 1.0)
    third = moments.third * left**_SKEWNESS_LEFT
    fourth = (moments.fourth - 3 * moments.second**2) * left ** (4 * _SKEWNESS_LEFT / 3) + 3 * second**2
    least = second**2 + third**2 / np.where(second > 0, second, 1.0)
    return moments._replace(second=second, third=third, fourth=np.maximum(fourth, least))


def _represented(segments: Segments) -> Array:
    """Return the share of the rows in merged segments that each arm's outcomes stand for, if it is strangely small.

    It is the sum of the weights of its outcomes over that of all rows and the share of its outcomes that arrived: 1 but
    for chance. It is strangely small if the weights of the outcomes that are there do not explain it. Then outcomes
    with larger weights are missing: those of segments in which the arm has small probabilities. Else it is NaN.
    """
    last, cells = slice(-segments.arms, None), segments.cells
    with np.errstate(invalid="ignore", divide="ignore"):
        arrived = 1.0 if segments.unseen is None else (cells["arrived"] / cells["assigned"])[last]
        h, w, w2 = cells["h"][last], cells["w"][last] / arrived, cells["w2"][last] / arrived
        strange = (w < _LEAST_REPRESENTED * h) & (h - w > _STRANGE * np.sqrt(w2))
        return np.where(strange, w / h, np.nan)


#: What tells how likely outcomes arrive, which some callers cannot: see `live.wording`.
ARRIVAL_OPTION = ", unless `arrival_probability` is given (--arrival-probability)"


def segment_notes(segments: Segments, estimator: Estimator) -> list[str]:
    """Return sentences on missing and merged segments, and on covariates."""
    notes = []
    if MISSING in segments.labels:
        rows = count(int(segments.rows[segments.labels.index(MISSING)]), "row")
        notes.append(f"{rows} without a segment: segment {MISSING!r}.")
    if segments.merged:
        notes.append(
            f"Merged into {one_line(repr(segments.labels[-1]))}, because an arm has fewer than {FEWEST} outcomes there "
            f"or there are more than {MOST} segments: {few_labels(segments.merged)}."
        )
        known = segments.cells["arrived"].reshape(-1, len(segments.arm_labels)).sum(axis=0) > 0
        unseen = np.zeros(len(known)) if segments.unseen is None else np.where(known, segments.unseen, 0.0)
        if unseen.max() > MOST_UNSEEN:
            arm = int(unseen.argmax())
            name = one_line(repr(segments.arm_labels[arm]))
            notes.append(
                f"{unseen[arm]:.0%} of the rows of arm {name} are in merged segments in which none of its outcomes has "
                f"arrived; outcomes of other segments stand for them{ARRIVAL_OPTION}."
            )
        represented = _represented(segments)
        if np.isfinite(represented).any():
            arm = int(np.nanargmin(represented))
            name = one_line(repr(segments.arm_labels[arm]))
            notes.append(
                f"The outcomes of arm {name} stand for only {represented[arm]:.0%} of the rows in merged "
                "segments, because it was seldom chosen in some of them. If its mean differs there, its interval is "
                "too narrow."
            )
    if segments.covariates is not None:
        names = first_few(map(one_line, segments.covariates.names), _MOST_NAMED)
        why = _why_unadjusted(segments, estimator)
        notes.append(
            f"Not adjusted for {names}: {why}." if why else f"Adjusted for {names}, which must be known at assignment."
        )
    return notes
