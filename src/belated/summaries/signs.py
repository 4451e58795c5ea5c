"""Signs that an assumption does not hold, read from counts and sums.

First tests, each of which gives a p-value: of whether delays depend on outcomes, whether arms were chosen by their
probabilities, whether outcomes drift and whether they keep arriving. Then what shows that outcomes are recorded only
when they happen. Last, what is said of each: a `Remark`, and the lists of sentences `doubts` and `oddities`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from belated.base.columns import Array
from belated.base.sidak import sidak_p_value
from belated.base.text import p_words
from belated.summaries.evidence import FEW, Evidence, Recorded, settled
from belated.summaries.sums import Sums

#: The p-value below which an assumption is said not to hold.
SURE = 1e-3

#: And that below which something is said by the by, to those who did not ask.
BLATANT = 1e-4

#: The share of rows with an outcome below which outcomes above 0 look as if they were recorded only when they happen.
SPARSE = 0.35

#: What is to be expected at least of a count that is tested.
_ENOUGH_EXPECTED = 5

#: Equal outcomes that may be so by chance.
_MOST_CHANCE = 10


# ---------------------------------------------------------------- tests: each gives a p-value


def outcome_dependence(moments: Array) -> tuple[float, Array]:
    """Test whether outcomes that came early differ from those that came late.

    Parameters
    ----------
    moments : array of shape (arms, 3, 3)
        Sums of L^i y^j over arrived rows, L the logarithm of 1 + the delay.

    Returns
    -------
    p_value : float
        Of the sum over arms of z^2, which is chi-squared; NaN if no arm can be tested.
    z : array
        By arm, above 0 if larger outcomes come later; NaN where an arm has too few arrivals or they do not vary.

    Notes
    -----
    z = sum r (y - mean y) / sqrt(v), r = L - mean L, v the larger of sum r^2 (y - mean y)^2 and its expectation if
    delays and outcomes are independent, sum r^2 sum (y - mean y)^2 / (n - 1). Where few outcomes are not 0 or few are
    late, the first is too small if none of the few coincide, the second if some do.
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
        late, outcome = s[:, 2, 0] - n * a**2, s[:, 0, 2] - n * b**2
        usable = (n >= FEW) & (late > 1e-12 * n * (1 + a**2)) & (outcome > 1e-12 * n * b**2)
        variance = np.maximum(observed, late * outcome / (n - 1))
        z = np.where(usable, top / np.sqrt(np.where(usable, variance, 1.0)), math.nan)
    if not usable.any():
        return math.nan, z
    return float(special.chdtrc(usable.sum(), np.nansum(z**2))), z


def miscalibration(excess: Array, variance: Array) -> float:
    """Test whether choices are as frequent as their logged probabilities say.

    Parameters
    ----------
    excess : array
        Sums over rows whose expectation is 0 if the probabilities are right (`Evidence.excess`): martingales with
        steps of at most 1.
    variance : array
        The sums of the steps' variances.

    Returns
    -------
    float
        The p-value of the sum furthest off, by Sidak's bound; NaN if every choice was certain.

    Notes
    -----
    Tails are those of Poisson's distribution with the same variance, the most skewed that such sums have: an arm
    hardly ever chosen is not suspect for being chosen twice.
    """
    varies = variance > 0
    if not varies.any():
        return math.nan
    v = variance[varies]
    smallest = 2 * float(special.gammainc(v + np.abs(excess[varies]), v).min())
    return sidak_p_value(smallest, len(v))


def calibration(evidence: Evidence) -> float:
    """Return the p-value of whether choices are as frequent as their logged probabilities say; NaN if none can tell.

    Notes
    -----
    With every arm's probabilities, twice the smaller of two. That of `miscalibration`, over `Evidence.excess` and each
    arm's choices minus probabilities in each of ten stretches of time. And that of `swapped`.

    With the chosen arm's only, of the sums of 1 / p over an arm's rows, whose expectation is at most the number of all
    rows: with c twice the largest 1 / p, such a sum over c has Poisson's tail of mean rows / c. Only
    upwards: that a sum is small may be for rows so unlikely that none was chosen.
    """
    if evidence.excess is None or evidence.variance is None or evidence.log_p is None:
        return _inverse_calibration(evidence)
    cells = (evidence.coarse("assigned") - evidence.coarse("p")).ravel()
    spread = settled((evidence.coarse("p") - evidence.coarse("p2")).ravel(), evidence.rows)
    counted = miscalibration(np.append(evidence.excess, cells), np.append(evidence.variance, spread))
    return min(2 * min(counted, swapped(evidence.log_p)), 1.0) if counted == counted else math.nan


def swapped(log_p: Array) -> float:
    """Test whether arms' probabilities stand in each other's place; `log_p` as in `Evidence`.

    Returns
    -------
    float
        Twice the smaller of the number of pairs over the largest likelihood ratio of a log with two arms' probabilities
        swapped to the log as it is, and the number of permutations over that of the likeliest; at most 1. If the log is
        right, each ratio has expectation 1 whatever the policy does, and exceeds 1 / a with a probability of at most a.
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
    """Return the p-value of arms that were chosen more often than their rows' probabilities say; one must be."""
    inverse = evidence.coarse("inverse")
    rows = evidence.coarse("assigned").sum(axis=1, keepdims=True)
    inverse, rows = np.vstack([inverse, inverse.sum(axis=0)]), np.vstack([rows, rows.sum(keepdims=True)])
    expected, counted = rows * evidence.unlikeliest / 2, inverse * evidence.unlikeliest / 2
    use = expected >= _ENOUGH_EXPECTED  # not of an arm without rows
    if not use.any():
        return math.nan
    smallest = float(special.gammainc(np.maximum(counted[use], 1e-9), expected[use]).min())
    return sidak_p_value(smallest, int(use.sum()))


def drift(arrived: Array, y: Array, y2: Array, few: int = FEW) -> float:
    """Test whether an arm's outcomes have one mean over the stretches of time, given as rows of the arrays.

    Stretches in which fewer than `few` of its outcomes arrived are left out.

    Returns
    -------
    float
        The p-value of the weighted sum of squares between stretches, over all arms, as chi-squared; NaN if no arm has
        two stretches with enough arrivals.

    Notes
    -----
    A stretch weighs n / v, v the larger of its own variance and the arm's: a rare large outcome raises a stretch's mean
    and variance together, and a stretch without one would seem surer than it is.
    """
    total = degrees = 0.0
    for k in range(arrived.shape[1]):
        use = arrived[:, k] >= few
        if use.sum() < 2:
            continue
        n = arrived[use, k]
        mean, own = y[use, k] / n, y2[use, k] - y[use, k] ** 2 / n
        whole = y2[use, k].sum() - y[use, k].sum() ** 2 / n.sum()
        if not whole > 1e-12 * n.sum() * np.max(mean**2):
            continue
        weight = n / np.maximum(own / (n - 1), whole / (n.sum() - 1))
        centre = np.sum(weight * mean) / weight.sum()
        total += float(np.sum(weight * (mean - centre) ** 2))
        degrees += float(use.sum() - 1)
    return float(special.chdtrc(degrees, total)) if degrees else math.nan


def trend(arrived: Array, y: Array, y2: Array) -> float:
    """Test whether outcomes of all arms rise or fall together over time; stretches are rows.

    Returns
    -------
    float
        The smallest two-sided p-value, times four, of a rise in proportion to time and of a jump after a quarter, half
        and three quarters of it: for x one of these, sum_k U_k / s_k over its standard error, U_k the sum over the
        arm's outcomes of (x - mean x)(y - mean y), s_k their standard deviation. NaN if no arm can tell.
    """
    x = np.linspace(-0.5, 0.5, len(arrived))
    shapes = np.stack([x, *(1.0 * (x > edge) for edge in (-0.25, 0.0, 0.25))])
    top, bottom = np.zeros(len(shapes)), np.zeros(len(shapes))
    for k in range(arrived.shape[1]):
        n = arrived[:, k]
        if n.sum() < FEW or (n > 0).sum() < 2:
            continue
        mean = y[:, k].sum() / n.sum()
        square = y2[:, k] - 2 * mean * y[:, k] + n * mean**2  # of each stretch about the arm's mean
        if not square.sum() > 1e-12 * n.sum() * max(mean**2, 1e-300):
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
    """Test whether the share of outcomes that come in good time is the same in all stretches, given as rows.

    Returns
    -------
    float
        The p-value of the sum over arms and stretches of (soon - q old)^2 / (q (1 - q) old), q the arm's share, as
        chi-squared; NaN if no arm has two stretches in which both kinds are to be expected.
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


# ---------------------------------------------------------------- outcomes recorded only when they happen


def most_recorded(old: Array, soon: Array) -> float:
    """Return the largest share, over arms with enough of them, of rows followed long that have an outcome; else 1."""
    use = old >= FEW
    return float((soon[use] / old[use]).max(initial=0.0)) if use.any() else 1.0


def is_sparse(old: Array, soon: Array) -> bool:
    """Whether fewer than `SPARSE` of the rows followed long have an outcome, beyond chance, and no arm clearly more."""
    use = old >= FEW
    if not use.any():
        return False
    n, m = old[use], soon[use]
    together = m.sum() / n.sum() + 1.5 / math.sqrt(n.sum())
    return bool(together < SPARSE and (m / n - 1.5 / np.sqrt(n) < SPARSE).all())


def single_value(sums: Sums) -> float | None:
    """Return `one_value` of a log's sums."""
    return one_value(sums["assigned"], sums["arrived"], sums["y"], sums["y2"], sums.shift)


def one_value(assigned: Array, arrived: Array, y: Array, y2: Array, shift: Array) -> float | None:
    """Return the only value, above 0, that any outcome has, if there are rows without one; None otherwise.

    Every conversion is 1, and nothing says 0. The arguments are by arm; `y` and `y2` are about `shift`.
    """
    if arrived.sum() < _MOST_CHANCE or not (assigned - arrived).sum() > 0:
        return None
    use = arrived > 0
    n, y, y2 = arrived[use], y[use], y2[use]
    values = shift[use] + y / n
    spread = y2 - y**2 / n
    if (spread > 1e-12 * y2).any() or np.ptp(values) > 1e-13 * abs(values[0]) or values[0] <= 0:
        return None
    return float(values[0])


# ---------------------------------------------------------------- sentences

DEPENDENCE_ADVICE = (
    "If outcomes exist only when they happen, or come in as they grow, give the time they have with events and window "
    "(--events --window 7d), so that only rows that have had all of it count; otherwise set a date by which all but a "
    "few of the rows' outcomes are in."
)
CALIBRATION_ADVICE = (
    "The probabilities may stand with the wrong arm (say the order of a list with arms), in the wrong row, or not be "
    "those that the policy used. Estimates from them are off."
)
POSITIVE_ADVICE = (
    "If outcomes are recorded only when they happen, as purchases are, this is what those bring who buy, not what an "
    "assignment brings: give the time that it has with events and window (--events --window 7d)."
)


class Remark(NamedTuple):
    """A sign against an assumption in words: the finding, in a sentence, and the advice."""

    finding: str
    advice: str

    @property
    def text(self) -> str:
        """Both as one text."""
        return f"{self.finding} {self.advice}"


def doubts(dependence: Array) -> list[str]:
    """Return what speaks against any estimate from a log, in words; `dependence` as in `Evidence`."""
    p_value, z = outcome_dependence(dependence)
    return [dependence_remark(p_value, z).text] if p_value < SURE else []


def oddities(choices: tuple[Array, Array] | None, recorded: Recorded | None, copies: int = 1) -> list[str]:
    """Return what looks like a mistake in a log, or in how it was read, in words.

    Parameters
    ----------
    choices : (excess, variance) or None
        As in `miscalibration`, over the rows followed longest; None if not all propensities are known.
    recorded : Recorded or None
        None if what does not happen counts as 0.
    copies : int
        How many times every row is there.
    """
    remarks = []
    if copies > 1:
        remarks.append(copies_remark(copies))
    if choices is not None and miscalibration(*choices) < BLATANT:
        remarks.append(Remark("The arms were not chosen as their logged probabilities say.", CALIBRATION_ADVICE))
    if recorded is not None and recorded.lowest > 0 and is_sparse(recorded.rows, recorded.arrived):
        remarks.append(positive_remark(most_recorded(recorded.rows, recorded.arrived)))
    return [remark.text for remark in remarks]


def copies_remark(copies: int) -> Remark:
    """Return what is said of a log in which every row is there several times."""
    often = {2: "twice", 3: "three times"}.get(copies, f"{copies:,} times")
    return Remark(
        f"Every row is in the log {often}.",
        f"If it was put together or joined so by mistake, leave out the copies: the intervals are {copies**0.5:.3g} "
        "times too short.",
    )


def dependence_remark(p_value: float, z: Array) -> Remark:
    """Return what is wrong with a log whose arrivals depend on outcomes; arguments as `outcome_dependence` gives."""
    finding = (
        f"When an outcome arrives depends on what it is ({direction(z)}; p {p_words(p_value, 2)}): those that have "
        "arrived are not like those still out, and estimates from them are off."
    )
    return Remark(finding, DEPENDENCE_ADVICE)


def direction(z: Array) -> str:
    """Return in words which outcomes come later, by the arms that show it."""
    clear = z[np.abs(z) >= min(2.0, np.nanmax(np.abs(z)))]
    if (clear > 0).all():
        return "larger outcomes come later"
    if (clear < 0).all():
        return "larger outcomes come sooner"
    return "larger outcomes come later from some arms, sooner from others"


def positive_remark(most: float) -> Remark:
    """Return what may be wrong with a log whose outcomes are all above 0, where no arm has more than this share."""
    finding = f"Every outcome is above 0, and {1 - most:.0%} or more of each arm's rows followed longest have none."
    return Remark(finding, POSITIVE_ADVICE)


def single_value_remark(value: float, missing: float) -> Remark:
    """Return what is wrong with a log of one value only; `missing` is the share of rows without outcome."""
    finding = f"Every outcome that has arrived is {value:g}, and {missing:.0%} of the rows have none."
    return Remark(finding, single_value_advice(value))


def single_value_words(value: float, missing: float) -> str:
    """Return the remark as one text."""
    return single_value_remark(value, missing).text


def single_value_advice(value: float) -> str:
    """Return what one value means, and what to do."""
    return (
        "So looks a log of what is recorded only when it happens, such as conversions: every arm then seems to bring "
        f"{value:g}, whatever it really brings. Say how long an assignment has to bring it about, with events and "
        "window (--events --window 7d); what has not happened by then counts as 0."
    )
