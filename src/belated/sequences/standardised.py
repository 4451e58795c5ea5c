"""Sequences of means over all segments of a log: `StandardisedLooks`, their results at each look.

Each segment and arm is a cell with a mixture of its own. An answer is the sum over cells of P_s c(a) Q(a | s), with P
the shares of segments. Its squared reach is the sum of the cells' and of that of the estimated shares (MOVER);
docs/sequences.md has the formulas and the simulations.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from belated.base.columns import Array
from belated.base.errors import LogError
from belated.base.text import one_line
from belated.estimation.estimators import ESTIMATORS, evaluate
from belated.kernels import jit
from belated.kernels import sequence_bounds as kernel
from belated.kernels.sequence_bounds import ROUNDING, NormalRange
from belated.log.log import Log
from belated.sequences.design import Design
from belated.sequences.history import ArrivedRows, require_possible
from belated.sequences.looks import LIMIT_STEPS, LookReach, Looks
from belated.sequences.versions import require_later, require_same_form, require_same_values
from belated.summaries.signs import Remark, single_value_remark
from belated.summaries.sums import Sums

#: Where intervals become finite: the effective size of every cell, or its number of 0/1 outcomes; the skewness and the
#: doubt of the sum over cells.
OVER_SEGMENTS = NormalRange(least_size=10.0, most_skew=0.5, most_doubt=0.2)


class CellsAtLook(NamedTuple):
    """The state of each cell, (segments, arms), and of the segments' shares at one look."""

    value: Array
    variance: Array
    squares: Array  # the sum of w^2
    size: Array
    skew: Array
    doubt: Array
    arrived: Array
    ones: Array
    shares: Array
    rows: float

    @classmethod
    def of(cls, sums: Sums) -> CellsAtLook:
        """Return the cells of sums by segment."""
        segments = sums.segments
        if segments is None:  # a log without a row yet
            raise LogError("The log has no rows at its as-of time.")
        cells, shape = segments.cells, (len(segments.labels), len(sums.arms))
        with np.errstate(all="ignore"):
            known = evaluate(cells, ESTIMATORS["dipw"])
            third = np.array([kernel.shape(cells.own, cell) if n >= 2 else (0.0, 0.0, 0.0)
                              for cell, n in enumerate(cells["arrived"])])  # fmt: skip
        robust = known.variance if known.robust is None else known.robust
        variance = np.where(third[:, 0] > 0, robust, math.nan)
        ones = np.round(cells["y"] + cells["arrived"] * cells.shift)
        rows = segments.rows
        return cls(
            value=known.value.reshape(shape),
            variance=variance.reshape(shape),
            squares=cells["w2"].reshape(shape),
            size=known.effective_size.reshape(shape),
            skew=third[:, 1].reshape(shape),
            doubt=third[:, 2].reshape(shape),
            arrived=cells["arrived"].reshape(shape),
            ones=ones.reshape(shape),
            shares=rows / max(rows.sum(), 1.0),
            rows=float(rows.sum()),
        )


def _sums_of_looks(log: Log, moments: Array) -> list[Sums]:
    """Return the sums of the DIPW estimate at some times.

    Where outcomes of merged segments arrive differently, each look knows of that what had arrived by then.
    """
    parts = [ESTIMATORS["dipw"].parts]
    if log.arrival_probability is not None or not log.layout.merged:
        return log.sums(parts, moments, plain=False)[0]
    return [log.look_at(moment.item()).sums(parts, plain=False)[0][-1] for moment in moments]


class StandardisedLooks(Looks):
    """The results at looks at a log with segments; `labels` are the segments at the first look."""

    def __init__(self, design: Design, log: Log, outcome: str) -> None:
        super().__init__(design, log.clock, outcome, log.measure)
        self.labels = log.segments
        self._sums: list[Sums] = []
        self._cells: list[CellsAtLook] = []
        self._only_events: Remark | None = None

    # ---------------------------------------------------------------- looking

    def follow(self, log: Log, moments: Array) -> None:
        """Look at a log at some times."""
        if self.design.is_binary:
            require_possible(self.design, ArrivedRows.of(log))
            jit.ready(len(moments) * len(log.cell_anchor) * LIMIT_STEPS)
        sums = _sums_of_looks(log, moments)
        self._sums += sums
        self._cells += [CellsAtLook.of(each) for each in sums]
        self._only_events = single_value_remark(sums[-1], sums[-1].shift)
        self.times += [moment.item() for moment in moments]

    def follow_later(self, log: Log) -> None:
        """Look at a later version of the log at its as-of time; raise if it is another log."""
        known = (self.design.arms, self.clock.unit, True)
        require_same_form((log.arms, log.clock.unit, bool(log.segments)), known, "arms, type of times and segments")
        now = log.even_moments(1, ArrivedRows.of(log).last_moment)[-1:]
        require_later(now[0], self.times[-1])
        parts, then = [ESTIMATORS["dipw"].parts], self._sums[-1]
        before = log.sums(parts, np.array([self.times[-1]]), plain=False)[0][0]
        same, scale = before.recentred(then.shift), 1 + np.sqrt(then["y2"]).max()
        differ = f"what had been assigned or had arrived by the last look, {self.clock.text(self.times[-1])}, differs."
        for name in ("assigned", "arrived", "y"):
            require_same_values(same[name], then[name], scale, lambda _: differ)
        self.follow(log, now)

    def sums(self, look: int) -> Sums:
        """Return the sums of the DIPW estimate at a look."""
        return self._sums[look]

    # ---------------------------------------------------------------- intervals and tests

    @cached_property
    def _plan(self) -> kernel.BoundPlan:
        """The parameters of a cell: those of a sequence of an average segment."""
        return replace(self.design, target=max(round(self.design.target / len(self.labels)), 1)).plan

    def _coefficients(self, a: int, b: int | None) -> Array:
        c = np.zeros(len(self.design.arms))
        c[a] = 1.0
        if b is not None:
            c[b] = -1.0
        return c

    def _closed(self, cells: CellsAtLook, c: Array) -> bool:
        """Whether some cell has too few outcomes."""
        used = cells.arrived if self.design.is_binary else cells.size
        return not bool((used[:, c != 0] >= (1 - ROUNDING) * OVER_SEGMENTS.least_size).all())

    def _reach(self, look: int, a: int, b: int | None, threshold: float) -> LookReach:
        """Return an answer at a look; beta-binomial scales are those at the threshold, with price 0."""
        cells, c = self._cells[look], self._coefficients(a, b)
        with np.errstate(invalid="ignore"):
            by_segment = np.where(c != 0, cells.value, 0.0) @ c
        if self.design.is_binary:
            by_segment = np.divide(
                cells.ones, cells.arrived, out=np.full(cells.ones.shape, math.nan), where=cells.arrived > 0
            )[:, c != 0] @ c[c != 0]  # fmt: skip
        estimate = float(cells.shares @ by_segment)
        silent = LookReach(estimate, np.array([math.inf]), np.array([math.inf]), np.zeros(1))
        if self._closed(cells, c) or self._only_events is not None:
            return silent
        coefficient = (cells.shares[:, np.newaxis] * c)[:, c != 0].ravel()
        eta = self.design.plan.eta
        spread = max(float(cells.shares @ by_segment**2) - estimate**2, 0.0)
        shares, price = spread / cells.rows * (1 + eta / cells.rows), math.log1p(cells.rows / eta)
        if self.design.is_binary:
            lower, upper = self._binary(cells, c, coefficient, threshold)
            of_shares = shares * (2 * threshold + price)
            return LookReach(
                estimate, np.append(lower, of_shares), np.append(upper, of_shares), np.zeros(len(lower) + 1)
            )
        variance, squares, skew, doubt = (
            values[:, c != 0].ravel() for values in (cells.variance, cells.squares, cells.skew, cells.doubt)
        )
        own = coefficient**2 * variance
        lean, total = np.abs(skew), float(own.sum())
        if not (
            total > 0
            and float(np.sum(own**1.5 * lean)) <= (1 + ROUNDING) * OVER_SEGMENTS.most_skew * total**1.5
            and float(np.sum(own**2 * doubt)) <= (1 + ROUNDING) * OVER_SEGMENTS.most_doubt * total**2
        ):
            return silent
        eta_cell = eta / len(self.labels)
        scale, further = own * (1 + eta_cell / squares), (1 + lean) ** 2 * (1 + np.sqrt(doubt) + 3 * doubt)
        upward = coefficient * skew > 0
        return LookReach(
            estimate,
            np.append(scale * np.where(upward, 1.0, further), shares),
            np.append(scale * np.where(upward, further, 1.0), shares),
            np.append(np.log1p(squares / eta_cell), price),
        )

    def _binary(self, cells: CellsAtLook, c: Array, coefficient: Array, threshold: float) -> tuple[Array, Array]:
        """Return the squared lower and upper reaches of cells with 0/1 outcomes."""
        reaches = np.zeros((2, len(coefficient)))
        ones, arrived = cells.ones[:, c != 0].ravel(), cells.arrived[:, c != 0].ravel()
        for i, (k, n, each) in enumerate(zip(ones, arrived, coefficient, strict=True)):
            for side in (0, 1):
                upper = (each > 0) == (side == 1)
                end = kernel.limit(float(k), float(n - k), threshold, upper, self._plan)
                reaches[side, i] = (each * (end - k / n)) ** 2
        return reaches[0], reaches[1]

    def silence(self, arm: int) -> str | None:
        """Return the reason why an arm's interval is infinite; None if it is finite."""
        if self._only_events is not None:
            return self._only_events.text
        cells, labels = self._cells[-1], self._sums[-1].segments
        name = one_line(repr(self.design.arms[arm]))
        used = (cells.arrived if self.design.is_binary else cells.size)[:, arm]
        least = int(np.argmin(np.nan_to_num(used)))
        if labels is not None and self._closed(cells, self._coefficients(arm, None)):
            where = one_line(repr(labels.labels[least]))
            return (
                f"Arm {name} has an effective sample size of {np.nan_to_num(used[least]):.3g} in segment {where}; a "
                f"sequence over segments needs {OVER_SEGMENTS.least_size:.0f} in each."
            )
        if not math.isfinite(float(self._reach(-1, arm, None, 1.0).lower.sum())):
            return (
                f"The outcomes of arm {name} do not vary in some segment, or are few and skewed, so their mean is not "
                "yet close to normal. A sequence over segments needs that."
            )
        return None
