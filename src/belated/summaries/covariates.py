"""`CovariateSums`: sums of products of outcomes and covariates, from which regression adjustments are computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from belated.base.columns import Array
from belated.base.errors import MergeError


class Covariates(NamedTuple):
    """Covariates of every row, as numbers that are known at assignment.

    Attributes
    ----------
    names : tuple of str
    values : array of shape (rows, covariates)
        Minus the centre, over the scale; 0 where a covariate is missing, which then has an indicator of its own.
    centre, scale : array
    same : dict
        Covariates that were left out because they do not vary, with their value; NaN if it is always missing.
    """

    names: tuple[str, ...]
    values: Array
    centre: Array
    scale: Array
    same: dict[str, float]


@dataclass(frozen=True, eq=False)
class CovariateSums:
    """Sums of products of z = (1, x, y), with x the scaled covariates and y the outcome minus the cell's shift.

    Attributes
    ----------
    names : tuple of str
    centre, scale : array
        Of each covariate: x is (value - centre) / scale.
    own : array of shape (cells, 4, 2 + covariates, 2 + covariates)
        Over the cell's arrived rows, the sum of w^k z z' for k = 0, 1, 2, 3.
    all : array of shape (segments, 1 + covariates, 1 + covariates)
        Over every row of the segment, the sum of (1, x) (1, x)'.
    shift : array
        The cells' shifts.
    """

    names: tuple[str, ...]
    centre: Array
    scale: Array
    own: Array
    all: Array
    shift: Array

    @classmethod
    def of_packed(cls, about: Covariates, own: Array, all_: Array, shift: Array) -> CovariateSums:
        """Return sums from the kernel's: one entry for each pair, (cells, pairs, 4) and (segments, pairs)."""
        size = len(about.names) + 2
        return cls(
            names=about.names,
            centre=about.centre,
            scale=about.scale,
            own=_unpacked(np.moveaxis(own, -1, -2), size),
            all=_unpacked(all_, size - 1),
            shift=shift,
        )

    @classmethod
    def of_bins(cls, about: Covariates | None, own: Array, all_: Array, shift: Array) -> list[CovariateSums | None]:
        """Return the sums up to each of several times from the amounts added between them; None without covariates."""
        if about is None or not about.names:
            return [None] * len(own)
        own, all_ = np.cumsum(own, axis=0), np.cumsum(all_, axis=0)
        return [cls.of_packed(about, *each, shift) for each in zip(own, all_, strict=True)]

    def recentred(self, shift: Array) -> CovariateSums:
        """Return the same sums with outcomes about another shift."""
        change = np.tile(np.eye(self.own.shape[-1]), (len(shift), 1, 1))
        change[:, -1, 0] = self.shift - shift
        return replace(self, own=_transformed(self.own, change[:, np.newaxis]), shift=np.array(shift, dtype=float))

    def rescaled(self, centre: Array, scale: Array) -> CovariateSums:
        """Return the same sums with covariates about another centre, on another scale."""
        by_one = np.eye(len(self.names) + 1)
        by_one[1:, 0] = (self.centre - centre) / scale
        by_one[1:, 1:] *= (self.scale / scale)[:, np.newaxis]
        by_z = np.eye(len(self.names) + 2)
        by_z[:-1, :-1] = by_one
        return replace(
            self,
            centre=centre,
            scale=scale,
            own=_transformed(self.own, by_z),
            all=_transformed(self.all, by_one),
        )

    def __add__(self, other: CovariateSums) -> CovariateSums:
        if self.names != other.names:
            raise MergeError(
                f"These sums cannot be merged: their covariates differ, {list(self.names)} and {list(other.names)}, "
                "where one that does not vary is left out; make one log of all rows."
            )
        shift = np.where(self.own[:, 0, 0, 0] > 0, self.shift, other.shift)
        first, second = self.recentred(shift), other.rescaled(self.centre, self.scale).recentred(shift)
        return replace(first, own=first.own + second.own, all=first.all + second.all)

    def spread_over(self, segments: int, place: Array) -> CovariateSums:
        """Return the same sums among more segments; `place` is where each segment goes."""
        arms = len(self.own) // len(self.all)
        own, shift = np.zeros((segments * arms, *self.own.shape[1:])), np.zeros(segments * arms)
        all_ = np.zeros((segments, *self.all.shape[1:]))
        cells = (place[:, np.newaxis] * arms + np.arange(arms)).ravel()
        own[cells], shift[cells], all_[place] = self.own, self.shift, self.all
        return replace(self, own=own, all=all_, shift=shift)


def pairs_of(size: int) -> tuple[Array, Array]:
    """Return the rows and columns of the lower triangle of a matrix, in the kernel's order."""
    return np.tril_indices(size)


def _unpacked(packed: Array, size: int) -> Array:
    """Return symmetric matrices from their lower triangles along the last axis."""
    full = np.zeros((*packed.shape[:-1], size, size))
    rows, columns = pairs_of(size)
    full[..., rows, columns] = packed
    full[..., columns, rows] = packed
    return full


def _transformed(matrices: Array, change: Array) -> Array:
    """Return T M T' for each matrix M."""
    return np.asarray(change @ matrices @ np.swapaxes(change, -1, -2))
