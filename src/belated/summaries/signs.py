"""Tests of the assumptions, computed from counts and sums, and the sentences that report them.

First, tests that return p-values: whether delays depend on outcomes, whether choices agree with the logged
probabilities, whether outcomes drift and whether they arrive at a steady rate. Second, functions that detect outcomes
recorded only when an event happens. Third, the sentences: `Remark`, `doubts` and `oddities`.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from belated.base import special
from belated.base.checks import NO_DIFFERENCE, TINY
from belated.base.columns import Array
from belated.base.multiplicity import sidak_p_value
from belated.base.text import count, p_words
from belated.summaries.contexts import Finding, Swings, contexts
from belated.summaries.evidence import FEW, CovariateEvidence, Evidence, Recorded, settled, squares_about_mean

#: A p-value below this means that an assumption does not hold.
SURE = 1e-3

#: A p-value below this is reported with every estimate, not only in a diagnosis.
BLATANT = 1e-4

#: If a smaller share of the rows has an outcome, and all are above 0, probably only events are recorded.
SPARSE = 0.35

#: A count is tested only if its expectation is at least this.
_ENOUGH_EXPECTED = 5

#: Fewer outcomes than this may be equal by chance.
_ENOUGH_TO_DIFFER = 10


class TotalsByArm(Protocol):
    """Totals over rows by their names, such as `Sums`; each is an array by arm."""

    def __getitem__(self, name: str, /) -> Array: ...


# ---------------------------------------------------------------- tests that return p-values


def outcome_dependence(moments: Array) -> tuple[float, Array]:
    """Test whether outcomes that arrived early differ from those that arrived late.

    Parameters
    ----------
    moments : array of shape (cells, 3, 3)
        Sums of L^i y^j over arrived rows, L the logarithm of 1 + the delay; by arm, or by segment and arm.

    Returns
    -------
    p_value : float
        The p-value of the sum over cells of z^2, which is chi-squared; NaN if no cell can be tested.
    z : array
        By cell, above 0 if larger outcomes arrive later; NaN where an arm has too few arrivals or they do not vary.

    Notes
    -----
    z = sum r (y - mean y) / sqrt(v) with r = L - mean L. The variance v is the larger of sum r^2 (y - mean y)^2 and its
    expectation under independence, sum r^2 sum (y - mean y)^2 / (n - 1). If few outcomes differ from 0 or few are
    late, the first is too small when none of the few coincide, the second when some do.
    """
    s = np.asarray(moments, dtype=float)
    n = s[:, 0, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        a, b = s[:, 1, 0] / n, s[:, 0, 1] / n
        top = s[:, 1, 1] - n * a * b
        # sum (L - a)^2 (y - b)^2, multiplied out
        left, right = (
            np.stack([a**2, -2 * a, np.ones_like(a)], axis=1),
            np.stack([b**2, -2 * b, np.ones_like(b)], axis=1),
        )
        observed = np.einsum("ki,kij,kj->k", left, s, right)
        late, outcome = s[:, 2, 0] - n * a**2, squares_about_mean(n, s[:, 0, 1], s[:, 0, 2])
        usable = (n >= FEW) & (late > NO_DIFFERENCE * n * (1 + a**2)) & (outcome > 0)
        variance = np.maximum(observed, late * outcome / (n - 1))
        z = np.where(usable, top / np.sqrt(np.where(usable, variance, 1.0)), math.nan)
    if not usable.any():
        return math.nan, z
    return float(special.chdtrc(usable.sum(), np.nansum(z**2))), z


def miscalibration(excess: Array, variance: Array) -> float:
    """Test whether the observed choices agree with the logged probabilities.

    Parameters
    ----------
    excess : array
        Sums over rows with expectation 0 if the probabilities are correct (`Evidence.excess`): martingales with steps
        of at most 1.
    variance : array
        The sums of the variances of the steps.

    Returns
    -------
    float
        The p-value of the most extreme sum, by Sidak's bound; NaN if every choice had probability 1.

    Notes
    -----
    Tail probabilities are those of the Poisson distribution with the same variance, the most skewed that such sums can
    have: an arm with tiny probabilities may be chosen twice by chance.
    """
    varies = variance > 0
    if not varies.any():
        return math.nan
    v = variance[varies]
    smallest = 2 * float(special.gammainc(v + np.abs(excess[varies]), v).min())
    return sidak_p_value(smallest, len(v))


def calibration(evidence: Evidence) -> float:
    """Return the p-value that the observed choices agree with the logged probabilities; NaN if untestable.

    Notes
    -----
    With the probabilities of every arm, it is twice the smaller of two p-values: that of `miscalibration`, over
    `Evidence.excess` and each arm's choices minus probabilities in each of ten periods; and that of `swapped`.

    With the probability of the chosen arm only, the test uses the sum of 1 / p over an arm's rows, whose expectation is
    at most the number of all rows: with c twice the largest 1 / p, the sum divided by c has a Poisson tail with mean
    rows / c. The test is one-sided: a small sum may be due to rows so unlikely that none was chosen.
    """
    if evidence.excess is None or evidence.variance is None or evidence.log_p is None:
        return _inverse_calibration(evidence)
    cells = (evidence.coarse("assigned") - evidence.coarse("p")).ravel()
    spread = settled((evidence.coarse("p") - evidence.coarse("p2")).ravel(), evidence.rows)
    counted = miscalibration(np.append(evidence.excess, cells), np.append(evidence.variance, spread))
    return min(2 * min(counted, swapped(evidence.log_p)), 1.0) if counted == counted else math.nan


def swapped(log_p: Array) -> float:
    """Test whether the probabilities of some arms are swapped; `log_p` as in `Evidence`.

    Returns
    -------
    float
        A p-value: twice the smaller of (number of pairs) / (largest likelihood ratio after swapping two arms) and
        (number of permutations) / (likelihood ratio of the best permutation); at most 1. If the log is correct, each
        ratio has expectation 1 under any policy, and exceeds 1 / a with a probability of at most a.
    """
    from scipy.optimize import linear_sum_assignment

    own = np.diag(log_p)
    arms = len(own)
    if arms < 2:
        return 1.0
    gain = log_p + log_p.T - own[:, np.newaxis] - own
    pair = math.log(arms * (arms - 1) / 2) - float(gain.max())
    best = linear_sum_assignment(log_p, maximize=True)
    whole = math.lgamma(arms + 1) - float(log_p[best].sum() - own.sum())
    return min(2 * math.exp(min(pair, whole, 0.0)), 1.0)


def _inverse_calibration(evidence: Evidence) -> float:
    """Return the p-value that no arm was chosen more often than the probabilities of its own rows allow."""
    inverse = evidence.coarse("inverse")
    rows = evidence.coarse("assigned").sum(axis=1, keepdims=True)
    inverse, rows = np.vstack([inverse, inverse.sum(axis=0)]), np.vstack([rows, rows.sum(keepdims=True)])
    expected, counted = rows * evidence.unlikeliest / 2, inverse * evidence.unlikeliest / 2
    use = expected >= _ENOUGH_EXPECTED  # False for an arm without rows
    if not use.any():
        return math.nan
    smallest = float(special.gammainc(np.maximum(counted[use], 1e-9), expected[use]).min())
    return sidak_p_value(smallest, int(use.sum()))


def drift(arrived: Array, y: Array, y2: Array, few: int = FEW) -> float:
    """Test whether each arm's outcomes have the same mean in all periods; a row of the arrays is a period.

    Periods in which fewer than `few` of an arm's outcomes arrived are left out.

    Returns
    -------
    float
        The p-value of the weighted sum of squares between periods, over all arms, as chi-squared; NaN if no arm has two
        periods with enough arrivals.

    Notes
    -----
    The weight of a period is n / v, v the larger of its own variance and the arm's: a rare large outcome raises the
    mean and the variance of a period together, so a period without one would get too much weight.
    """
    total = degrees = 0.0
    for k in range(arrived.shape[1]):
        use = arrived[:, k] >= few
        if use.sum() < 2:
            continue
        n = arrived[use, k]
        mean, own = y[use, k] / n, y2[use, k] - y[use, k] ** 2 / n
        whole = y2[use, k].sum() - y[use, k].sum() ** 2 / n.sum()
        if not whole > NO_DIFFERENCE * n.sum() * np.max(mean**2):
            continue
        weight = n / np.maximum(own / (n - 1), whole / (n.sum() - 1))
        centre = np.sum(weight * mean) / weight.sum()
        total += float(np.sum(weight * (mean - centre) ** 2))
        degrees += float(use.sum() - 1)
    return float(special.chdtrc(degrees, total)) if degrees else math.nan


def trend(arrived: Array, y: Array, y2: Array) -> float:
    """Test whether the outcomes of all arms rise or fall together over time; a row of the arrays is a period.

    Returns
    -------
    float
        Four times the smallest two-sided p-value of a linear trend and of jumps after a quarter, half and three
        quarters of the time. For x one of these shapes, the statistic is sum_k U_k / s_k over its standard error, U_k
        the sum over the arm's outcomes of (x - mean x)(y - mean y), s_k their standard deviation. NaN if no arm can be
        tested.
    """
    x = np.linspace(-0.5, 0.5, len(arrived))
    shapes = np.stack([x, *(1.0 * (x > edge) for edge in (-0.25, 0.0, 0.25))])
    top, bottom = np.zeros(len(shapes)), np.zeros(len(shapes))
    for k in range(arrived.shape[1]):
        n = arrived[:, k]
        if n.sum() < FEW or (n > 0).sum() < 2:
            continue
        mean = y[:, k].sum() / n.sum()
        square = y2[:, k] - 2 * mean * y[:, k] + n * mean**2  # of each period about the arm's mean
        if not square.sum() > NO_DIFFERENCE * n.sum() * max(mean**2, TINY):
            continue
        variance = square.sum() / (n.sum() - 1)
        away = shapes - (shapes @ n / n.sum())[:, np.newaxis]
        top += away @ (y[:, k] - n * mean) / math.sqrt(variance)
        bottom += np.maximum(away**2 @ square / variance, away**2 @ n)
    known = bottom > 0
    if not known.any():
        return math.nan
    z = np.abs(top[known]) / np.sqrt(bottom[known])
    return float(min(len(shapes) * special.erfc(z.max() / math.sqrt(2)), 1.0))


def steady_arrival(old: Array, soon: Array) -> float:
    """Test whether the share of outcomes that arrive on time is the same in all periods; a row is a period.

    Returns
    -------
    float
        The p-value of the sum over arms and periods of (soon - q old)^2 / (q (1 - q) old), q the arm's share, as
        chi-squared; NaN if no arm has two periods in which enough of both kinds are expected.
    """
    total = degrees = 0.0
    for k in range(old.shape[1]):
        if not 0 < soon[:, k].sum() < old[:, k].sum():
            continue
        share = soon[:, k].sum() / old[:, k].sum()
        variance = share * (1 - share) * old[:, k]
        use = variance >= _ENOUGH_EXPECTED
        if use.sum() < 2:
            continue
        n, m = old[use, k], soon[use, k]
        share = m.sum() / n.sum()
        total += float(np.sum((m - share * n) ** 2 / (share * (1 - share) * n)))
        degrees += float(use.sum() - 1)
    return float(special.chdtrc(degrees, total)) if degrees else math.nan


def arrival_by_covariates(covariates: CovariateEvidence) -> Array:
    """Test whether covariates predict arrival beyond segment and arm.

    Returns
    -------
    array of shape (arms, covariates)
        P-values, not adjusted for their number; NaN where no segment can be tested.

    Notes
    -----
    If m of the n old rows of a segment and arm arrive soon, whatever their x, the sum of x over them is that of a
    sample without replacement: its expectation is m times the mean of x, its variance s^2 m (n - m) / n, s^2 the
    variance of x. The p-values of segments, as squares of normal values, are added up, which is chi-squared.
    """
    n, m = covariates.old[:, :, np.newaxis], covariates.soon[:, :, np.newaxis]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = covariates.x / n
        variance = (covariates.x2 - n * mean**2) / (n - 1) * m * (n - m) / n
        step = covariates.x3 / covariates.x2 + np.abs(mean)
        usable = (n > 1) & (variance > NO_DIFFERENCE * covariates.x2)
    variance, step = np.where(usable, variance, 1.0), np.where(usable, step, 1.0)
    each = _skewed_p_value(np.where(usable, covariates.x_soon - m * mean, 0.0), variance, step)
    squares = np.where(usable, special.chdtri(1, each), 0.0).sum(axis=0)
    segments = usable.sum(axis=0)
    return np.where(segments > 0, special.chdtrc(np.maximum(segments, 1), squares), math.nan)


def choice_by_covariates(covariates: CovariateEvidence) -> Array | None:
    """Test whether covariates predict the choice of arms beyond the logged probabilities.

    Returns
    -------
    array of shape (arms, covariates) or None
        P-values, not adjusted for their number; NaN where an arm's choice was certain. None without all probabilities.
    """
    if covariates.choice is None:
        return None
    excess, variance, third = covariates.choice
    usable = variance > 1e-9
    variance = np.where(usable, variance, 1.0)
    p_values = _skewed_p_value(np.where(usable, excess, 0.0), variance, third / variance)
    return np.where(usable, p_values, math.nan)


def _skewed_p_value(excess: Array, variance: Array, step: Array) -> Array:
    """Return two-sided p-values of sums with expectation 0, whose skewness is at most step / sqrt(variance).

    They are tail probabilities of a Poisson distribution times `step`, which has that skewness: outliers and rare
    values of a covariate do not alarm by chance.
    """
    step = np.maximum(step, 1e-9 * np.sqrt(variance))
    v = variance / step**2
    return np.asarray(np.minimum(2 * special.gammainc(v + np.abs(excess) / step, v), 1.0))


# ---------------------------------------------------------------- logs in which only events are recorded


def most_recorded(old: Array, soon: Array) -> float:
    """Return the largest share of an arm's oldest rows that have an outcome; 1 if no arm has enough such rows."""
    enough = np.append(old >= FEW, False)
    old, soon = _with_few_together(old, soon)
    use = enough | _is_dense(old, soon)
    return float((soon[use] / old[use]).max(initial=0.0)) if use.any() else 1.0


def is_sparse(old: Array, soon: Array) -> bool:
    """Whether fewer than `SPARSE` of the oldest rows have an outcome, significantly, and no arm has clearly more."""
    use = old >= FEW
    if not use.any():
        return False
    n, m = old[use].sum(), soon[use].sum()
    return bool(m / n + 1.5 / math.sqrt(n) < SPARSE and not _is_dense(*_with_few_together(old, soon)).any())


def _with_few_together(old: Array, soon: Array) -> tuple[Array, Array]:
    """Return the numbers of rows with those of all arms with few rows added up as one arm more."""
    few = old < FEW
    return np.append(old, old[few].sum()), np.append(soon, soon[few].sum())


def _is_dense(old: Array, soon: Array) -> Array:
    """Whether clearly more than `SPARSE` of an arm's oldest rows have an outcome; six of six are enough."""
    n = np.maximum(old, 1)
    return np.asarray(soon / n - 1.5 / np.sqrt(n) >= SPARSE)


def single_value(totals: TotalsByArm, shift: Array) -> float | None:
    """Return the value of all outcomes if they are equal, above 0, and some rows have none; None otherwise.

    In a log of conversions, every outcome is 1 and no row has 0. The totals `y` and `y2` are about `shift`.
    """
    assigned, arrived = totals["assigned"], totals["arrived"]
    if arrived.sum() < _ENOUGH_TO_DIFFER or not (assigned - arrived).sum() > 0:
        return None
    use = arrived > 0
    n, y, y2 = arrived[use], totals["y"][use], totals["y2"][use]
    values = shift[use] + y / n
    if squares_about_mean(n, y, y2).any() or np.ptp(values) > 1e-13 * abs(values[0]) or values[0] <= 0:
        return None
    return float(values[0])


# ---------------------------------------------------------------- sentences

#: What advice says of options, which some callers do not have: see `live.wording`.
WINDOW_OPTIONS = "a window with events and window (--events --window 7d)"
ARMS_OPTION = " (give their order with arms, --arms)"

DEPENDENCE_ADVICE = (
    f"If outcomes are events or amounts that grow over time, set {WINDOW_OPTIONS}: each row then counts for the ages "
    "it has reached. Otherwise use only rows so old that nearly all of their outcomes have arrived."
)
CALIBRATION_ADVICE = (
    f"The probabilities may belong to another arm{ARMS_OPTION} or another row, or may not be those that the policy "
    "used. Estimates from them are biased."
)
CONTEXT_ADVICE = (
    "Name what the policy looked at, such as segment='country' (--segment country). Otherwise use, in Python, "
    "weights='uniform' or weights='past', which are right if arrival does not depend on the unit."
)
FINER_ADVICE = (
    "In Python, use weights='past' or weights='uniform', which are right if within a segment arrival does not depend "
    "on the unit, or name finer segments: everything that the policy looked at."
)
POSITIVE_ADVICE = (
    "If outcomes are recorded only when they happen, as purchases are, estimates are the mean per purchase, not the "
    f"mean per assignment. Set {WINDOW_OPTIONS}."
)


class Remark(NamedTuple):
    """A sign against an assumption: the finding and the advice, in sentences."""

    finding: str
    advice: str

    @property
    def text(self) -> str:
        """Both as one text."""
        return f"{self.finding} {self.advice}"


def doubts(dependence: Array) -> list[str]:
    """Return sentences on signs that every estimate from a log is biased; `dependence` as in `Evidence`."""
    p_value, z = outcome_dependence(dependence)
    return [dependence_remark(p_value, z).text] if p_value < SURE else []


def oddities(choices: tuple[Array, Array] | None, recorded: Recorded | None, copies: int = 1) -> list[str]:
    """Return sentences on what looks like a mistake in a log, or in how it was read.

    Parameters
    ----------
    choices : (excess, variance) or None
        As in `miscalibration`, over the oldest rows; None if not all propensities are known.
    recorded : Recorded or None
        None if rows without an event count as 0.
    copies : int
        How many times the log contains every row.
    """
    remarks = []
    if copies > 1:
        remarks.append(copies_remark(copies))
    if choices is not None and miscalibration(*choices) < BLATANT:
        remarks.append(Remark("The choices of arms do not agree with the logged probabilities.", CALIBRATION_ADVICE))
    if recorded is not None and recorded.lowest > 0 and is_sparse(recorded.rows, recorded.arrived):
        remarks.append(positive_remark(most_recorded(recorded.rows, recorded.arrived)))
    return [remark.text for remark in remarks]


def context_doubts(swings: Swings) -> list[str]:
    """Return that the policy looked at the unit, in words, if it clearly did."""
    remark = context_remark(swings, contexts(swings))
    return [] if remark is None else [remark.text]


def context_remark(swings: Swings, finding: Finding) -> Remark | None:
    """Return what shows that the policy looked at the unit; None if nothing does."""
    if finding == "quiet":
        often = count(swings.quiet_swings, "time")
        shown = f"The probabilities swing back and forth with no outcome arriving in between ({often})"
    elif finding == "loud":
        often = count(swings.all_swings, "time")
        shown = f"The probabilities swing back and forth from row to row ({often}), whatever arm was chosen"
    elif finding == "outcomes":
        shown = (
            f"Arms have better outcomes in rows where they were likelier than in the rows before (z = {swings.z:.1f})"
        )
    else:
        return None
    if swings.segmented:
        looked = "within segments: the policy looked at more of the unit than its segment"
        return Remark(f"{shown}, {looked}, and estimates that ignore it are biased.", FINER_ADVICE)
    return Remark(
        f"{shown}: the policy looked at the unit (country, device ...), and estimates that ignore it are biased.",
        CONTEXT_ADVICE,
    )


def copies_remark(copies: int) -> Remark:
    """Return the remark on a log that contains every row several times."""
    often = {2: "twice", 3: "three times"}.get(copies, f"{copies:,} times")
    return Remark(
        f"The log contains every row {often}.",
        f"If that is a mistake, for example of a join, remove the copies: with them the intervals are "
        f"{copies**0.5:.3g} times too short.",
    )


def dependence_remark(p_value: float, z: Array) -> Remark:
    """Return the remark on a log whose delays depend on outcomes; the arguments are from `outcome_dependence`."""
    finding = (
        f"The delay of an outcome depends on its value ({direction(z)}; p {p_words(p_value, 2)}). Outcomes that have "
        "arrived differ from those that have not, so estimates are biased."
    )
    return Remark(finding, DEPENDENCE_ADVICE)


def direction(z: Array) -> str:
    """Return in words which outcomes arrive later, by the arms that show it."""
    clear = z[np.abs(z) >= min(2.0, np.nanmax(np.abs(z)))]
    if (clear > 0).all():
        return "larger outcomes arrive later"
    if (clear < 0).all():
        return "larger outcomes arrive earlier"
    return "larger outcomes arrive later in some arms, earlier in others"


def positive_remark(most: float) -> Remark:
    """Return the remark on a log whose outcomes are all above 0; `most` is the largest share of rows with one."""
    finding = f"Every outcome is above 0, and at least {1 - most:.0%} of the oldest rows of each arm have no outcome."
    return Remark(finding, POSITIVE_ADVICE)


def single_value_remark(totals: TotalsByArm, shift: Array) -> Remark | None:
    """Return the remark on a log whose outcomes are all equal; None if `single_value` is."""
    value = single_value(totals, shift)
    if value is None:
        return None
    missing = float(1 - totals["arrived"].sum() / totals["assigned"].sum())
    finding = f"Every outcome that has arrived is {value:g}, and {missing:.0%} of the rows have no outcome."
    return Remark(finding, single_value_advice(value))


def single_value_advice(value: float) -> str:
    """Return the explanation and advice for a log whose outcomes are all equal."""
    return (
        "This is how a log looks when only events are recorded, such as conversions: every arm's mean would be "
        f"{value:g}. Set {WINDOW_OPTIONS}: rows without an event within it then count as 0."
    )
