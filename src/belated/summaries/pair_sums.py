"""Sums of products of two arms' terms, for the covariance of arms under a user's outcome model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belated.base.columns import Array


@dataclass(frozen=True, eq=False)
class PairSums:
    """For each two arms a and b, sums of products of h, m, w and r = y - m; m is minus the arm's shift.

    Attributes
    ----------
    all : array (3, arms, arms)
        Over every row: h_a h_b, h_a m_a h_b, h_a m_a h_b m_b.
    own : array (4, arms, arms)
        Over the arrived rows of a: w_a h_b, w_a r h_b, w_a h_b m_b, w_a r h_b m_b.
    """

    all: Array
    own: Array

    @classmethod
    def of(cls, h: Array, m: Array) -> PairSums:
        """Return the sums of rows without outcomes; `h` and `m` have shape (rows, arms)."""
        hm = h * m
        return cls(np.stack([h.T @ h, hm.T @ h, hm.T @ hm]), np.zeros((4, h.shape[1], h.shape[1])))

    @classmethod
    def of_arrived(cls, h: Array, m: Array, code: Array, w: Array, r: Array) -> PairSums:
        """Return the amounts that rows add when their outcomes arrive; `w` and `r` belong to each row's own arm."""
        weight = np.zeros(h.shape)
        weight[np.arange(len(code)), code] = w
        residual, hm = weight * r[:, np.newaxis], h * m
        own = np.stack([weight.T @ h, residual.T @ h, weight.T @ hm, residual.T @ hm])
        return cls(np.zeros((3, h.shape[1], h.shape[1])), own)

    def __add__(self, other: PairSums) -> PairSums:
        return PairSums(self.all + other.all, self.own + other.own)

    def spread_over(self, size: int, cells: Array) -> PairSums:
        """Return the same sums among more arms; `cells` are the places of these."""
        all_, own = np.zeros((3, size, size)), np.zeros((4, size, size))
        at = cells[:, np.newaxis], cells
        all_[:, at[0], at[1]], own[:, at[0], at[1]] = self.all, self.own
        return PairSums(all_, own)

    def recentred(self, d: Array) -> PairSums:
        """Return the same sums with m + d in place of m."""
        hh, hm, mm = self.all
        a, b = d[:, np.newaxis], d[np.newaxis, :]
        first, residual, third, fourth = self.own
        return PairSums(
            np.stack([hh, hm + a * hh, mm + b * hm + a * hm.T + a * b * hh]),
            np.stack([first, residual, third + b * first, fourth + b * residual]),
        )

    def covariance(self, h: Array, w: Array, model: Array, residual: Array) -> Array:
        """Return the covariance of arms' estimates, with 0 on the diagonal; `model` and `residual` are means by arm.

        The terms are h (m - model) / sum h over all rows, and w (r - residual) / sum w over arrived rows.
        """
        hh, hm, mm = self.all
        a, b = model[:, np.newaxis], model[np.newaxis, :]
        models = (mm - b * hm - a * hm.T + a * b * hh) / (h[:, np.newaxis] * h)
        first, second, third, fourth = self.own
        r = residual[:, np.newaxis]
        crossed = (fourth - b * second - r * third + r * b * first) / (w[:, np.newaxis] * h)
        total = models + crossed + crossed.T
        np.fill_diagonal(total, 0.0)
        return np.asarray(total)
