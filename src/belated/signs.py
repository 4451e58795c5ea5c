"""Signs that an assumption does not hold, read from counts and sums."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from belated.columns import Array
from belated.sums import Sums

#: Equal outcomes that may be so by chance.
_MOST_CHANCE = 10

#: Arrivals below which an arm, or a stretch of its time, is not tested.
_FEW = 30


def single_value(sums: Sums) -> float | None:
    """Return the only value, above 0, that any outcome has, if there are rows without one; None otherwise.

    So look logs of what is recorded only when it happens: every conversion is 1, and nothing says 0.
    """
    arrived, out = sums["arrived"], sums["assigned"] - sums["arrived"]
    seen = arrived > 0
    if arrived.sum() < _MOST_CHANCE or not out.sum() > 0:
        return None
    n, y = arrived[seen], sums["y"][seen]
    values = sums.shift[seen] + y / n
    spread = sums["y2"][seen] - y**2 / n
    if (spread > 1e-12 * sums["y2"][seen]).any() or np.ptp(values) > 1e-13 * abs(values[0]) or values[0] <= 0:
        return None
    return float(values[0])


def single_value_words(value: float, out: float) -> str:
    """Return what is wrong with a log of only one value, and what to do; `out` is the share of rows without outcome."""
    return (
        f"Every outcome that has arrived is {value:g}, and {out:.0%} of the rows have none. So looks a log of what is "
        "recorded only when it happens, such as conversions: every arm then seems to bring "
        f"{value:g}, whatever it really brings. Say how long an assignment has to bring it about, with events and "
        "window (--events --window 7d); what has not happened by then counts as 0."
    )


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
        usable = (n >= _FEW) & (late > 1e-12 * n * (1 + a**2)) & (outcome > 1e-12 * n * b**2)
        variance = np.maximum(observed, late * outcome / (n - 1))
        z = np.where(usable, top / np.sqrt(np.where(usable, variance, 1.0)), math.nan)
    if not usable.any():
        return math.nan, z
    return float(special.chdtrc(usable.sum(), np.nansum(z**2))), z


def dependence_words(p_value: float, z: Array) -> str:
    """Return what is wrong with a log whose arrivals depend on outcomes, and what to do."""
    return (
        f"When an outcome arrives depends on what it is ({direction(z)}; p {p_words(p_value)}): those that have "
        "arrived are not like those still out, and estimates from them are off. If outcomes exist only when they "
        "happen, or come in as they grow, give the time they have with events and window (--events --window 7d), so "
        "that only rows that have had all of it count; otherwise set a date by which all but a few of the rows' "
        "outcomes are in."
    )


def direction(z: Array) -> str:
    """Return in words which outcomes come later, by the arms that show it."""
    clear = z[np.abs(z) >= min(2.0, np.nanmax(np.abs(z)))]
    if (clear > 0).all():
        return "larger outcomes come later"
    if (clear < 0).all():
        return "larger outcomes come sooner"
    return "larger outcomes come later from some arms, sooner from others"


def miscalibration(excess: Array, variance: Array) -> float:
    """Test whether choices are as frequent as their logged probabilities say.

    Parameters
    ----------
    excess : array
        Sums over rows whose expectation is 0 if the probabilities are right (`views.calibration`): martingales with
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
    return float(-math.expm1(len(v) * math.log1p(-smallest))) if smallest < 1 else 1.0


def miscalibration_words() -> str:
    """Return what is wrong with a log whose choices do not follow its probabilities, and what to do."""
    return (
        "The arms were not chosen as their logged probabilities say: these may stand with the wrong arm (say the order "
        "of a list with arms), in the wrong row, or not be those that the policy used. Estimates from them are off."
    )


def positive_words(share: float) -> str:
    """Return what may be wrong with a log whose outcomes are all above 0, where `share` of the old rows has any."""
    return (
        f"Every outcome is above 0, and {1 - share:.0%} of the rows followed longest have none. If outcomes are "
        "recorded only when they happen, as purchases are, this is what those bring who buy, not what an assignment "
        "brings: give the time that it has with events and window (--events --window 7d)."
    )


def drift(arrived: Array, y: Array, y2: Array) -> float:
    """Test whether an arm's outcomes have one mean over the stretches of time, given as rows of the arrays.

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
        use = arrived[:, k] >= _FEW
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


def p_words(p_value: float) -> str:
    """Return what follows the letter p."""
    return "< 0.0001" if p_value < 1e-4 else f"= {p_value:.2g}"
