"""Inference on the winner: intervals for the mean of the arm with the largest estimate, and tests of which is best.

The estimates of the arms are asymptotically independent. The winner's own interval is invalid because the arm was
selected for a high estimate. Simultaneous, conditional and hybrid intervals (Andrews, Kitagawa and McCloskey 2024) are
valid after the selection. The set of arms that may be best comes from one-sided Dunnett tests of each arm against all
others (Hsu 1981, 1984; Edwards and Hsu 1983).

Statistics have shape (..., arms), for many experiments at once. Student's t is mapped to the normal by Wallace's (1959)
formula, which is invertible and stable in any tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from belated.base import special
from belated.base.columns import Array
from belated.base.multiplicity import joint_p_values_of_rivals, sidak_level, sidak_p_value, sidak_tail
from belated.base.roots import find_root_each
from belated.estimation.intervals import Combination

#: A near tie: with a smaller lead, in standard errors, conditional and hybrid intervals lie below the estimate.
NEAR_TIE = 0.1

#: With at least this many degrees of freedom, but for rounding, the conditional interval treats the estimate as normal.
_NEARLY_NORMAL = 10.0 - 1e-9

#: Degrees of freedom that stand for infinitely many.
_INFINITE_DEGREES = 1e30

#: The share of the miss rate that the hybrid's outer band gets, and how much wider than the simultaneous band the outer
#: band and the hybrid interval may be.
_OUTER_SHARE, _OUTER_REACH, _WIDEST = 0.1, 1.25, 1.09

#: The error of a deviate that is searched for.
_TOLERANCE = 1e-10

#: The largest number of rivals that each arm is compared with.
_MOST_RIVALS = 64

#: A function from a tail probability to the arms' limits.
LimitsAt = Callable[[float], tuple[Array, Array]]

#: A function from two arrays of positions to the contrasts, first minus second.
Duels = Callable[[Array, Array], Combination]

#: Up to this many arms, pairs are compared by their contrast; with more, by the arms' own intervals.
_MOST_DUELS = 512


_Number = TypeVar("_Number", float, Array)


class Limits(NamedTuple, Generic[_Number]):
    """An interval: two numbers, or two arrays."""

    low: _Number
    high: _Number


@dataclass(frozen=True)
class Winner:
    """Intervals for the mean of the arm with the largest estimate; arrays have no axis of arms."""

    index: Array
    near_tie: Array
    median: Array
    simultaneous: Limits[Array]
    conditional: Limits[Array]
    hybrid: Limits[Array]


def winner(values: Array, limits: LimitsAt, degrees: Array, level: float) -> Winner:
    """Return the intervals for the mean of the arm with the largest estimate.

    Parameters
    ----------
    values : array of shape (..., arms)
    limits : callable
        A function from a tail probability to the arms' own limits, arrays of that shape.
    degrees : array
        Degrees of freedom, of that shape; infinity for normal intervals.
    level : float

    Notes
    -----
    With x, L the largest estimate and the next, s the standard error of the first, S the upper tail of its distribution
    and a = (x - mu) / s, the conditional limits solve S(a) / S(a - (x - L) / s) = p for p = alpha / 2, 1 - alpha / 2.
    The hybrid's solve P(Z > a | max(a - (x - L) / s, -c) < Z < c) = p at the level that the outer band x +- c s, which
    holds for all arms together at level 1 - beta, leaves: alpha' = (alpha - beta) / (1 - beta). s is (x - low) / q
    below the estimate and (high - x) / q above, for limits that are not symmetric. Under Student's tails the
    conditional lower limit is mostly infinite; from 10 degrees of freedom on it takes the normal's, with the standard
    error that gives the simultaneous band, or the arm's own interval if that is larger.
    """
    values = np.asarray(values, dtype=float)
    arms, miss = values.shape[-1], 1 - level
    index = np.asarray(np.argmax(values, axis=-1))

    def chosen(array: Array) -> Array:
        picked = np.take_along_axis(np.broadcast_to(array, values.shape), index[..., np.newaxis], axis=-1)
        return np.asarray(picked[..., 0])

    x, nu = chosen(values), np.minimum(chosen(degrees), _INFINITE_DEGREES)
    tail, outer = sidak_tail(miss, arms), sidak_tail(_OUTER_SHARE * miss, arms)
    own, band, wide = (Limits(*map(chosen, limits(t))) for t in (miss / 2, tail, outer))
    if arms == 1:
        return Winner(
            index=index,
            near_tie=np.zeros(x.shape, dtype=bool),
            median=x,
            simultaneous=band,
            conditional=band,
            hybrid=band,
        )
    lead = x - np.partition(values, -2, axis=-1)[..., -2]
    z, own_z = (-float(special.ndtri(t)) for t in (tail, miss / 2))
    q = _from_normal(own_z, nu)
    down, up = (np.maximum(x - own.low, 0.0) / q, np.maximum(own.high - x, 0.0) / q)
    certain = (down == 0) & (up == 0)
    # no solution lies on a side of width 0, such as above a rate of 1
    down, up = (np.where(s > 0, s, np.where(certain, 1.0, other)) for s, other in ((down, up), (up, down)))
    near_tie = (lead < NEAR_TIE * down) & ~(certain & (lead > 0))
    normal = nu >= _NEARLY_NORMAL
    scales = [
        np.where(normal, np.maximum(reach / z, s * q / own_z), s)
        for reach, s in ((x - band.low, down), (band.high - x, up))
    ]
    tails = np.where(normal, _INFINITE_DEGREES, nu)

    def place(solve: Callable[..., Array], probabilities: list[Array | float], down: Array, up: Array) -> list[Array]:
        """Return x - a s for each probability, with s for the side of the estimate on which the solution a lies."""
        p = np.stack([np.broadcast_to(each, x.shape) for each in probabilities])
        lower, higher = solve(lead / np.stack([down, up])[:, np.newaxis], p)
        at = np.where(lower > 0, x - lower * down, np.where(higher < 0, x - higher * up, x))
        return list(np.where(certain, x, at))

    def hybrid(reach: float) -> list[Array]:
        """Return low, middle and high; the outer band is at its own level, or `reach` times the simultaneous band."""
        below = np.minimum(x - wide.low, reach * (x - band.low)) / down
        above = np.minimum(wide.high - x, reach * (band.high - x)) / up
        outside_below, outside_above = (
            np.minimum(special.ndtr(-_to_normal(np.maximum(c, 0.0), nu)), tail) for c in (below, above)
        )
        beta = sidak_p_value(np.asarray(outside_below + outside_above), arms)
        left = np.maximum((miss - beta) / (1 - beta), _OUTER_SHARE * miss)
        solve = partial(_hybrid, nu=nu, c=np.stack([below, above])[:, np.newaxis])
        return place(solve, [left / 2, 0.5, 1 - left / 2], down, up)

    low, middle, high = hybrid(_OUTER_REACH)
    if (too_wide := high - low > _WIDEST * (band.high - band.low)).any():
        narrow = hybrid(_WIDEST)
        low, middle, high = (np.where(too_wide, n, h) for n, h in zip(narrow, (low, middle, high), strict=True))
    conditional = place(partial(_conditional, nu=tails), [miss / 2, 1 - miss / 2], *scales)
    # with few degrees of freedom there may be no mean that makes such a small lead unlikely
    conditional[1] = np.where(np.isneginf(conditional[1]), band.high, conditional[1])
    return Winner(
        index=index,
        near_tie=near_tie,
        median=middle,
        simultaneous=band,
        conditional=Limits(*conditional),
        hybrid=Limits(low, high),
    )


def _to_normal(t: Array, nu: Array) -> Array:
    """Return the normal deviate with nearly the same tail probability as Student's t (Wallace 1959)."""
    return np.asarray(np.sign(t) * (1 - 2 / (8 * nu + 3)) * np.sqrt(nu * np.log1p(t * t / nu)))


def _from_normal(z: Array | float, nu: Array) -> Array:
    return np.asarray(np.sign(z) * np.sqrt(nu * np.expm1((z / (1 - 2 / (8 * nu + 3))) ** 2 / nu)))


def _log_ratio(a: Array, gap: Array, nu: Array) -> Array:
    """Return the log of the upper tail at a over that at a - gap, at full precision in any tail."""
    u, v = _to_normal(a, nu), _to_normal(a - gap, nu)
    far = v > -1
    squares = nu * np.log1p(np.where(far, gap * (2 * a - gap), 0.0) / (nu + (a - gap) ** 2))
    half = (1 - 2 / (8 * nu + 3)) ** 2 * squares / 2  # (u^2 - v^2) / 2
    scaled = [special.erfcx(np.where(far, t, 0.0) / math.sqrt(2)) for t in (u, v)]
    return np.asarray(np.where(far, np.log(scaled[0] / scaled[1]) - half, special.log_ndtr(-u) - special.log_ndtr(-v)))


def _conditional(gap: Array, p: Array, nu: Array) -> Array:
    """Solve S(a) / S(a - gap) = p for the smallest a; infinity if there is none."""
    log_p = np.log(p)

    def excess(a: Array) -> Array:
        return _log_ratio(a, gap, nu) - log_p

    low = np.zeros(gap.shape) - np.abs(_from_normal(special.ndtri(p), nu)) - 1.0
    step = np.full_like(low, 0.25)
    high, crossed = low, np.zeros(low.shape, dtype=bool)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(90):  # move outwards until p is crossed: with Student's tails the ratio returns to 1
            high = np.where(crossed, high, low + step)
            crossed |= ~(excess(high) > 0)
            if crossed.all():
                break
            low, step = np.where(crossed, low, high), np.where(crossed, step, 1.5 * step)
        root = find_root_each(excess, low, high, tolerance=_TOLERANCE)
    return np.asarray(np.where(crossed, root, np.inf))


def _hybrid(gap: Array, p: Array, nu: Array, c: Array) -> Array:
    """Solve P(Z > a | max(a - gap, -c) < Z < c) = p for a in [-c, c]."""
    beyond = special.ndtr(-_to_normal(c, nu))

    def excess(a: Array) -> Array:
        over = special.ndtr(-_to_normal(a, nu)) - beyond
        whole = special.ndtr(-_to_normal(np.maximum(a - gap, -c), nu)) - beyond
        return np.asarray(over - p * whole)

    return find_root_each(excess, -c, c, tolerance=_TOLERANCE)


@dataclass(frozen=True)
class Rivalry:
    """Comparisons between arms: estimates, standard errors below and above them, and degrees of freedom, by arm.

    `level` is that of joint statements. With `duels`, two arms are compared by their contrast.
    """

    values: Array
    down: Array
    up: Array
    degrees: Array
    level: float
    duels: Duels | None = None

    @classmethod
    def of(cls, values: Array, limits: LimitsAt, degrees: Array, level: float, duels: Duels | None = None) -> Rivalry:
        """Return the arms with standard errors derived from their simultaneous limits."""
        tail = sidak_tail(1 - level, len(values))
        low, high = limits(tail)
        q = -special.stdtrit(np.minimum(degrees, 1e9), tail)
        down, up = np.maximum(values - low, 0.0) / q, np.maximum(high - values, 0.0) / q
        return cls(values, down, up, degrees, level, duels if len(values) <= _MOST_DUELS else None)

    def errors(self, better: Array, worse: Array) -> tuple[Array, Array]:
        """Return the standard error and Welch's degrees of freedom for the test that one arm is above another."""
        a, b = self.down[better] ** 2, self.up[worse] ** 2
        with np.errstate(invalid="ignore", divide="ignore"):
            degrees = (a + b) ** 2 / (a**2 / self.degrees[better] + b**2 / self.degrees[worse])
        return np.sqrt(a + b), np.where(degrees > 0, np.minimum(degrees, 1e9), 1e9)

    def exceeds(self, better: Array, worse: Array) -> Array:
        """Return the p-values of the hypothesis that the first arm's mean is not above the second's."""
        if self.duels is not None:
            return self.duels(better, worse).p_not_above()
        _, degrees = self.errors(better, worse)
        return np.asarray(special.stdtr(degrees, -self._statistic(better, worse)))

    def _reach(self, better: Array, worse: Array, z: Array) -> Array:
        """Return the distance from estimate to lower limit for one arm minus another, at a normal deviate."""
        better, worse, z = np.broadcast_arrays(better, worse, z)
        if self.duels is not None:
            contrasts = self.duels(better, worse)
            return np.asarray(contrasts.estimate - contrasts.limits(special.ndtr(-z)[..., np.newaxis])[0])
        error, degrees = self.errors(better, worse)
        return np.asarray(_from_normal(z, degrees) * error)

    def _statistic(self, better: Array, worse: Array) -> Array:
        error, _ = self.errors(better, worse)
        distance = self.values[better] - self.values[worse]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(distance == 0, 0.0, distance / error))

    @cached_property
    def _deviates(self) -> Array:
        """The normal deviates of single comparisons at which those of an arm with all others hold jointly."""
        miss, arms = 1 - self.level, len(self.values)
        least, most = (
            np.full(arms, -float(special.ndtri(tail)))
            for tail in (miss / 2, min(sidak_level(miss, max(arms - 1, 1)), miss / 2))
        )

        def excess(z: Array) -> Array:
            return self._joint(special.ndtr(-z)) - miss

        most = np.where(excess(least) > 0, most, least)  # two-sided contrasts may need more than joint ones
        return find_root_each(excess, least, most, tolerance=_TOLERANCE)

    def _lead(self, better: Array, worse: Array) -> Array:
        """Return how far one arm is above another, in distances that rule the other out; -inf for the arm itself."""
        distance = self.values[better] - self.values[worse]
        with np.errstate(invalid="ignore", divide="ignore"):
            lead = np.where(distance == 0, 0.0, distance / self._reach(better, worse, self._deviates[worse]))
        return np.where(better == worse, -np.inf, lead)

    def not_best(self) -> Array:
        """Return, for each arm, the p-value of the hypothesis that no other arm's mean is above its own."""
        return self._not_best.copy()

    @cached_property
    def _not_best(self) -> Array:
        """For each arm, the p-value of the hypothesis that no other arm's mean is above its own.

        It is the smallest p-value against single rivals, adjusted.
        """
        arms = np.arange(len(self.values))
        if len(arms) == 1:
            return np.ones(1)
        rivals = arms
        if len(arms) > _MOST_RIVALS:  # conservative: fewer comparisons than the adjustment assumes
            rivals = np.argpartition(self.values - 2 * self.down, -_MOST_RIVALS)[-_MOST_RIVALS:]
        strongest = rivals[np.argmax(self._lead(rivals[np.newaxis, :], arms[:, np.newaxis]), axis=1)]
        least = np.where(strongest == arms, 1.0, self.exceeds(strongest, arms))
        return self.adjusted(least)

    def adjusted(self, p_values: Array) -> Array:
        """Return the probability, if all arms are equal, that each arm's smallest p-value is this small.

        By Dunnett's integral over the arm's own error or, with many arms, by Sidak's bound, which is valid by Slepian's
        inequality; at least that of the two-sided contrast with the rival, so that no arm is ruled out by one that may
        be equal.
        """
        return np.asarray(np.maximum(self._joint(p_values), np.minimum(2 * p_values, 1.0)))

    def _joint(self, p_values: Array) -> Array:
        return joint_p_values_of_rivals(p_values, (self.down + self.up) / 2)

    def winner_not_best(self) -> float:
        """Return the p-value of the hypothesis that another arm's mean is as large as that of the largest estimate.

        It is twice the largest p-value against single rivals (Gutmann and Maymin 1987; Hung and Fithian 2019), and at
        least the largest with which a rival may be best, so that an arm is called best only if no other may be.
        """
        index = int(np.argmax(self.values))
        others = np.delete(np.arange(len(self.values)), index)
        if not len(others):
            return math.nan
        twice = 2 * float(self.exceeds(np.full(len(others), index), others).max())
        return min(1.0, max(twice, float(self._not_best[others].max())))

    def against_best(self) -> Limits[Array]:
        """Return simultaneous intervals for every arm's mean minus the best of the others' (Hsu 1984).

        With d_j the joint bound on how far the errors of other arms exceed that of arm j, the interval is from the
        minimum over contenders j of x_i - x_j - d_j to the minimum over all j of x_i - x_j + d_i. It always includes 0,
        possibly as a limit.
        """
        arms, z = np.arange(len(self.values)), self._deviates
        worse, better = arms[:, np.newaxis], arms[np.newaxis, :]
        gap = self.values[worse] - self.values[better]
        most = gap + self._reach(better, worse, z[:, np.newaxis])  # of arm minus other, if the arm is best
        np.fill_diagonal(most, np.inf)
        upper = np.maximum(most.min(axis=1), 0.0)
        least = gap - self._reach(worse, better, z[np.newaxis, :])  # of arm minus other, if the other is best
        np.fill_diagonal(least, np.inf)
        least[:, upper == 0] = np.inf
        return Limits(np.minimum(least.min(axis=1), 0.0), upper)
