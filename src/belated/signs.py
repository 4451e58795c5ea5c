"""Signs that an assumption does not hold, read from counts and sums."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from belated.columns import Array
from belated.sums import Sums

#: Equal outcomes that may be so by chance.
_MOST_CHANCE = 10

#: Arrivals of an arm, and successes and failures if it has only those, below which a test would mislead.
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
    z = sum r (y - mean y) / sqrt(sum r^2 (y - mean y)^2), r = L - mean L.
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
        below = np.einsum("ki,kij,kj->k", left, s, right)
        varies = (s[:, 2, 0] / n - a**2 > 1e-12 * (1 + a**2)) & (s[:, 0, 2] / n - b**2 > 1e-12 * b**2)
        usable = (n >= _FEW) & varies & (below > 0)
        z = np.where(usable, top / np.sqrt(np.where(usable, below, 1.0)), math.nan)
    if not usable.any():
        return math.nan, z
    return float(special.chdtrc(usable.sum(), np.nansum(z**2))), z


def dependence_words(p_value: float, z: Array) -> str:
    """Return what is wrong with a log whose arrivals depend on outcomes, and what to do."""
    later = "larger outcomes come later" if np.nansum(z) > 0 else "larger outcomes come sooner"
    return (
        f"When an outcome arrives depends on what it is ({later}; p {_p(p_value)}): those that have arrived are not "
        "like those still out, and estimates from them are off. If outcomes exist only when they happen, or come in as they "
        "grow, give the time they have with events and window (--events --window 7d), so that only rows that have had "
        "all of it count; otherwise set a date by which all but a few of the rows' outcomes are in."
    )


def miscalibration(excess: Array, variance: Array) -> float:
    """Test whether arms were chosen as often as their logged probabilities say; by the arm furthest off, Sidak's bound.

    `excess` is the number of times that each arm was chosen minus the sum of its probabilities: a martingale, whose
    `variance` is the sum of p (1 - p).
    """
    varies = variance > 0
    if not varies.any():
        return math.nan
    z = np.abs(excess[varies]) / np.sqrt(variance[varies])
    smallest = float(2 * special.ndtr(-z.max()))
    return float(-math.expm1(int(varies.sum()) * math.log1p(-smallest))) if smallest < 1 else 1.0


def drift(arrived: Array, y: Array, y2: Array) -> float:
    """Test whether an arm's outcomes have one mean over the stretches of time, given as rows of the arrays.

    Welch's weighted sum of squares between stretches, by arm, as chi-squared.
    """
    total = degrees = 0.0
    for k in range(arrived.shape[1]):
        use = arrived[:, k] >= _FEW
        n = arrived[use, k]
        mean = y[use, k] / n
        variance = (y2[use, k] - n * mean**2) / (n - 1)
        good = variance > 1e-12 * mean**2
        if good.sum() < 2:
            continue
        weight = n[good] / variance[good]
        centre = np.sum(weight * mean[good]) / weight.sum()
        total += float(np.sum(weight * (mean[good] - centre) ** 2))
        degrees += float(good.sum() - 1)
    return float(special.chdtrc(degrees, total)) if degrees else math.nan


def _p(p_value: float) -> str:
    return "< 0.0001" if p_value < 1e-4 else f"= {p_value:.4f}"
