"""`Segments`: sums by segment and arm, and the rule that merges small segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from belated.base.checks import nearest
from belated.base.columns import Array, Label
from belated.base.errors import MergeError, OptionError
from belated.base.text import few_labels
from belated.kernels.fields import W_MAX
from belated.summaries.caps import Cap
from belated.summaries.covariates import CovariateSums
from belated.summaries.merged_arrival import MergedArrival, unseen

if TYPE_CHECKING:
    from belated.summaries.sums import Sums

#: Outcomes of each arm that a segment needs to stand on its own, and how many segments may.
FEWEST, MOST = 8, 50

#: The label of rows without a segment, of merged segments, and of the only segment of a log without segments.
MISSING, OTHER, ALL = "(missing)", "other", "all"

#: What to say if a question needs segments.
NO_SEGMENTS = "This log has no segments; name them when you make or read the log, such as segment='country'."


class Layout(NamedTuple):
    """The segments that are kept apart, and the segment into which each of the log's own segments was merged.

    Attributes
    ----------
    labels : tuple
        The segments; merged segments are the last one.
    place : array
        The segment of each segment of the log.
    merged : tuple
        The log's segments that were merged into the last.
    arrival : MergedArrival or None
        How likely outcomes of merged segments arrive; None: alike in all of them, or not to be estimated.
    unseen : array or None
        The share of each arm's rows that are in merged segments without any of its outcomes; None as for `arrival`.
    """

    labels: tuple[Label, ...]
    place: Array
    merged: tuple[Label, ...] = ()
    arrival: MergedArrival | None = None
    unseen: Array | None = None

    def even_from(self, arms: int) -> int:
        """The first cell in which every row has weight 1, unless weights are given.

        A policy gives merged segments different probabilities, so weights that follow them would favour some.
        """
        return (len(self.labels) - (1 if self.merged else 0)) * arms

    @property
    def judged(self) -> Array:
        """`place`, with -1 for merged segments: their rows have weight 1, whatever the policy looked at."""
        return np.where(self.place == len(self.labels) - 1, -1, self.place) if self.merged else self.place

    def with_arrival(self, assigned: Array, arrived: Array) -> Layout:
        """Return the layout with the chances of arrival that counts (segments, arms) of rows and outcomes show."""
        if not self.merged:
            return self
        merged = self.place == len(self.labels) - 1
        chances = MergedArrival.of(assigned, arrived, merged)
        return self._replace(arrival=chances, unseen=unseen(assigned, arrived, merged))


def lay_out(
    labels: tuple[Label, ...],
    arrived: Array,
    offered: Callable[[], Array] | None = None,
    assigned: Array | None = None,
) -> Layout:
    """Merge small segments, by the number of arrived outcomes and never by their values.

    A segment is kept apart if every arm has at least `FEWEST` outcomes in it. Arms that have fewer in the whole log do
    not count; if all have fewer, all segments are merged. At most `MOST` segments are kept apart, those with the most
    outcomes. The others are merged, together with the smallest that would stand on its own until the rest has enough
    outcomes too. An arm that was never offered in a segment does not count there: merged with others, the segment would
    seem to have their mean.

    Parameters
    ----------
    labels : tuple
    arrived : array of shape (segments, arms)
    offered : callable, optional
        A function that returns whether each arm ever had a chance in each segment; called if a cell has no outcome.
    assigned : array of shape (segments, arms), optional
        The number of rows, if it is to be estimated how likely outcomes of merged segments arrive.
    """
    judged = arrived.sum(axis=0) >= FEWEST
    counts, total = arrived[:, judged], arrived.sum(axis=1)
    possible = np.ones(counts.shape, bool)
    if offered is not None and (counts == 0).any():
        possible = offered()[:, judged]
    alone = ~((counts < FEWEST) & possible).any(axis=1) & (counts.shape[1] > 0)
    apart = alone & ~possible.all(axis=1)
    by_size = np.lexsort((np.arange(len(labels)), -total))
    alone[[s for i, s in enumerate(s for s in by_size if alone[s]) if i >= MOST]] = False
    for segment in by_size[::-1]:
        if alone.all() or (counts[~alone].sum(axis=0) >= FEWEST).all():
            break
        alone[segment] = apart[segment]
    if (~alone).sum() <= 1:  # none, or the only segment
        return Layout(labels, np.arange(len(labels)))
    kept, merged = np.flatnonzero(alone), np.flatnonzero(~alone)
    place = np.full(len(labels), len(kept))
    place[kept] = np.arange(len(kept))
    taken = {labels[s] for s in kept}
    name = OTHER if OTHER not in taken else next(n for i in range(2, 99) if (n := f"{OTHER} ({i})") not in taken)
    layout = Layout((*(labels[s] for s in kept), name), place, tuple(labels[s] for s in merged))
    return layout if assigned is None else layout.with_arrival(assigned, arrived)


@dataclass(frozen=True, eq=False)
class Segments:
    """Sums by segment and arm.

    Attributes
    ----------
    labels : tuple
        The segments.
    cells : Sums
        The sums of each segment and arm, segment by segment; its arms are pairs (segment, arm).
    covariates : CovariateSums or None
        Sums of products with covariates, by the same cells.
    merged : tuple
        The segments of the log that were merged into the last, because they have few outcomes.
    unseen : array or None
        As in `Layout`.
    """

    labels: tuple[Label, ...]
    cells: Sums
    covariates: CovariateSums | None = None
    merged: tuple[Label, ...] = ()
    unseen: Array | None = None

    @classmethod
    def of(cls, layout: Layout, cells: Sums, covariates: CovariateSums | None = None) -> Segments:
        """Return sums by the cells of a layout."""
        return cls(layout.labels, cells, covariates, layout.merged, layout.unseen)

    @property
    def arms(self) -> int:
        """The number of arms."""
        return len(self.cells.arms) // len(self.labels)

    @property
    def arm_labels(self) -> tuple[Label, ...]:
        """The labels of the arms; those of `cells` are pairs (segment, arm)."""
        return tuple(label[1] for label in self.cells.arms[: self.arms])  # type: ignore[index]

    @property
    def rows(self) -> Array:
        """The number of rows of each segment."""
        return np.asarray(self.cells["assigned"].reshape(len(self.labels), self.arms).sum(axis=1))

    def total(self) -> Sums:
        """Return the sums by arm over all segments."""
        cells, (n, arms) = self.cells, (len(self.labels), self.arms)
        largest = cells["w_max"].reshape(n, arms).argmax(axis=0)
        shift = cells.shift.reshape(n, arms)[largest, np.arange(arms)]
        about = cells.recentred(np.tile(shift, n))
        own = about.own.reshape(n, arms, -1)
        total = own.sum(axis=0)
        total[:, W_MAX] = own[:, :, W_MAX].max(axis=0)
        cap = None if cells.cap is None else Cap(cells.cap.value, cells.cap.above.reshape(n, arms).sum(axis=0))
        spread = about.spread.reshape(-1, n, arms).sum(axis=1)
        return replace(
            cells, arms=self.arm_labels, shift=shift, spread=spread, own=total, cap=cap, pairs=None, segments=self
        )

    def __add__(self, other: Segments) -> Segments:
        labels = tuple(dict.fromkeys((*self.labels, *other.labels)))
        first, second = self._spread_over(labels), other._spread_over(labels)
        covariates = first.covariates
        if covariates is not None and second.covariates is not None:
            covariates = covariates + second.covariates
        elif covariates is not None or second.covariates is not None:
            raise MergeError(
                "These sums cannot be merged: only one of them has covariates that vary; make one log of all rows."
            )
        merged = tuple(dict.fromkeys((*self.merged, *other.merged)))
        known = [each.unseen for each in (self, other) if each.unseen is not None]
        most = np.max(known, axis=0) if known else None
        return Segments(labels, first.cells + second.cells, covariates, merged, most)

    def _spread_over(self, labels: tuple[Label, ...]) -> Segments:
        """Return the same sums among more segments, those without rows empty."""
        if labels == self.labels:
            return self
        arms = self.arms
        empty = type(self.cells).empty(
            cell_labels(labels, self.arm_labels), self.cells.weights, self.cells.outcome_model,
            None if self.cells.cap is None else self.cells.cap.value,
        )  # fmt: skip
        place = np.array([labels.index(label) for label in self.labels])
        cells = (place[:, np.newaxis] * arms + np.arange(arms)).ravel()
        shift, spread, own = empty.shift.copy(), empty.spread.copy(), empty.own.copy()
        shift[cells], spread[:, cells], own[cells] = self.cells.shift, self.cells.spread, self.cells.own
        cap = empty.cap
        if cap is not None and self.cells.cap is not None:
            cap.above[cells] = self.cells.cap.above
        covariates = None if self.covariates is None else self.covariates.spread_over(len(labels), place)
        pairs = None if self.cells.pairs is None else self.cells.pairs.spread_over(len(shift), cells)
        grown = replace(empty, shift=shift, spread=spread, own=own, cap=cap, pairs=pairs)
        return Segments(labels, grown, covariates, self.merged, self.unseen)


def cell_labels(segments: Sequence[Label], arms: Sequence[Label]) -> tuple[tuple[Label, Label], ...]:
    """Return the pairs (segment, arm), segment by segment."""
    return tuple((segment, arm) for segment in segments for arm in arms)


def segment_index(labels: tuple[Label, ...], segment: object) -> int:
    """Return the position of a segment; raise with the known segments if it is not one."""
    try:
        return labels.index(segment.item() if isinstance(segment, np.generic) else segment)
    except ValueError:
        near = nearest(segment, labels)
        hint = f" Did you mean {near!r}?" if near else ""
        raise OptionError(f"There is no segment {segment!r}; the segments are {few_labels(labels)}.{hint}") from None
