"""`MergedArrival`: how likely outcomes of merged segments arrive, estimated from how many did."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from belated.base.columns import Array

#: From here on, a share of rows in segments without an outcome is pointed out.
MOST_UNSEEN = 0.1

#: Logarithms of probabilities below this count as this: the exponential of it is nothing beside 1.
LEAST_LOG = -40.0

#: The least probability of which a logarithm is taken.
LEAST_SHARE = 1e-12


class MergedArrival(NamedTuple):
    """The chance that an outcome of a merged segment arrives, relative to that of its arm in all of them.

    With n rows of an arm in a segment, r of which have an outcome, and p the arm's share over all merged segments:

        shrunk = p + (r/n - p) n between / (1 + n between)
        chance = r/n (1 - (1 - shrunk)^n) / scale

    The second factor is the probability that any outcome arrives, so that rows of segments without an outcome are stood
    for by segments that resemble them in arrival. The scale makes the mean of 1 / chance over arrived rows 1.

    Attributes
    ----------
    share, scale : array
        By arm.
    between : float
        How much chances differ between segments: their variance over p (1 - p).
    chance : array of shape (segments, arms)
        1 in segments that were not merged.
    """

    share: Array
    scale: Array
    between: float
    chance: Array

    @classmethod
    def of(cls, assigned: Array, arrived: Array, merged: Array) -> MergedArrival | None:
        """Return the chances from counts (segments, arms); None if shares differ no more than by chance.

        `merged` has a boolean for each segment. `between` is by the method of moments, of all arms together.
        """
        n, r = assigned[merged].astype(float), arrived[merged].astype(float)
        total = n.sum(axis=0)
        share = np.divide(r.sum(axis=0), total, out=np.zeros(len(total)), where=total > 0)
        own = np.divide(r, n, out=np.tile(share, (len(n), 1)), where=n > 0)
        varies = (share > 0) & (share < 1)
        p, size = share[varies], n[:, varies]
        differ = float(np.sum(size * (own[:, varies] - p) ** 2 / (p * (1 - p))) - np.sum((size > 0).sum(axis=0) - 1))
        if not differ > 0:
            return None
        between = differ / float(np.sum(total[varies] - np.sum(size**2, axis=0) / total[varies]))
        shrunk = share + (own - share) * (n * between / (1 + n * between))
        chance = np.where(r > 0, own * _some_arrive(shrunk, n), 1.0)
        scale = np.where(r.sum(axis=0) > 0, r.sum(axis=0) / np.maximum(np.sum(r / chance, axis=0), 1.0), 1.0)
        full = np.ones(assigned.shape)
        full[merged] = np.where(r > 0, chance / scale, 1.0)
        return cls(share, scale, between, full)


def _some_arrive(share: Array, n: Array) -> Array:
    """Return the probability that any of n outcomes arrives."""
    logs = n * np.log(np.maximum(1 - share, LEAST_SHARE))
    return np.asarray(1 - np.exp(np.maximum(logs, LEAST_LOG)))


def unseen(assigned: Array, arrived: Array, merged: Array) -> Array:
    """Return the share of each arm's rows that are in merged segments without any of its outcomes."""
    blank = np.where((arrived == 0) & merged[:, np.newaxis], assigned, 0).sum(axis=0)
    return np.asarray(blank / np.maximum(assigned.sum(axis=0), 1))
