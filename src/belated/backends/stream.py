"""Sums from rows that come in batches, in order of assignment, with only a few batches in memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from belated.columns import Array
from belated.errors import BelatedError
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.log import locked
from belated.outcome_models import OutcomeModel
from belated.soundness import check_rows
from belated.sums import Sums
from belated.times import NEVER, Clock
from belated.weights import Weights

_IN_ORDER = np.empty(0, dtype=np.int64)

#: Batches being added at once; more would only fill the memory.
_AHEAD = 4


class OutOfOrderError(BelatedError):
    """Rows that were to come in order of assignment did not."""


@dataclass(frozen=True)
class Batch:
    """Some rows of a log, as numbers: arm, outcome, propensities, times."""

    code: Array
    outcome: Array
    propensity: Array  # (rows, arms), or (rows,) if only the chosen arm's is known
    assigned: Array
    arrived: Array  # NEVER or NaN: still out

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, locked(getattr(self, field.name)))

    def __len__(self) -> int:
        return len(self.code)

    @property
    def latest(self) -> int | float:
        """The last time that arrivals can have."""
        return np.iinfo(np.int64).max if self.arrived.dtype.kind == "i" else float(np.finfo(np.float64).max)

    @property
    def never(self) -> int | float:
        """What stands for never."""
        return NEVER if self.arrived.dtype.kind == "i" else math.nan

    def check(self, arms: tuple[Any, ...], clock: Clock, before: int) -> tuple[Array, Array]:
        """Refuse the first row that cannot be; return the outcome and propensity of each arm's least likely row."""
        anchors, rarest = check_rows(
            arms, self.code, self.outcome, self.propensity, self.assigned, self.arrived, self.latest, self.never,
            clock, before,
        )  # fmt: skip
        which = np.argmin(rarest, axis=0), np.arange(len(arms))
        return np.array(anchors)[which], np.array(rarest)[which]

    def visible(self) -> tuple[Array, Array]:
        """Return whether each outcome has arrived, and the first moment at which another row may see it."""
        if self.arrived.dtype.kind == "i":
            landed = self.arrived != NEVER
            return landed, self.arrived + (self.arrived == self.assigned)
        landed = np.isfinite(self.arrived)
        at_once = self.arrived == self.assigned
        return landed, np.where(at_once, np.nextafter(self.arrived, math.inf), self.arrived)


class _Calendar:
    """Outcomes that rows of later batches will see, as runs in order of the moment."""

    def __init__(self, last: int | float) -> None:
        self.last = last  # no row is assigned later
        self.runs: list[tuple[Array, Array, Array]] = []

    def add(self, when: Array, code: Array, outcome: Array) -> None:
        order = np.argsort(when)
        self.runs.append((when[order], code[order], outcome[order]))

    def take(self, until: int | float) -> tuple[Array, Array, Array] | None:
        """Return and forget what is seen by rows assigned up to a moment."""
        taken, kept = [], []
        for run in self.runs:
            cut = int(np.searchsorted(run[0], until, side="right"))
            if cut:
                taken.append(tuple(column[:cut] for column in run))
            if cut < len(run[0]):
                kept.append((run[0][cut:], run[1][cut:], run[2][cut:]))
        self.runs = kept
        if not taken:
            return None
        when, code, outcome = (np.concatenate(columns) for columns in zip(*taken, strict=True))
        return when, code, outcome


class _Means:
    """What the running means are made of, before each batch: counts, and sums about a typical outcome."""

    def __init__(self, arms: int) -> None:
        self.n, self.y, self.about = np.zeros(arms), np.zeros(arms), np.full(arms, math.nan)

    def shift(self, anchor: Array, rarest: Array) -> Array:
        """Return what a batch's outcomes are taken minus: its own anchor, or one seen before."""
        shift = np.where(np.isfinite(rarest), anchor, np.nan_to_num(self.about))
        self.about = np.where(np.isnan(self.about) & np.isfinite(rarest), anchor, self.about)
        return shift

    def before(self, shift: Array) -> tuple[Array, Array]:
        return self.n.copy(), self.y + self.n * (np.nan_to_num(self.about) - shift)

    def add(self, code: Array, outcome: Array) -> None:
        arms = len(self.n)
        self.n += np.bincount(code, minlength=arms)
        self.y += np.bincount(code, weights=outcome - self.about[code], minlength=arms)


def stream_sums(
    batches: Iterable[Batch],
    arms: tuple[Any, ...],
    parts: Sequence[tuple[Weights, OutcomeModel]],
    clock: Clock,
    *,
    last: int | float,
    moments: Array | None = None,
    matured: bool = False,
    plain: bool = True,
) -> list[list[Sums]]:
    """Return, for each choice of weights and outcome model, the sums at each moment (None: at the end).

    Parameters
    ----------
    batches : iterable of Batch
        In order of assignment, as of the last moment.
    last : int or float
        When the last row was assigned.
    matured : bool
        Whether a row exists only once its outcome has arrived; the outcomes then arrive in the rows' order.
    """
    running = any(model.name == "running_mean" for _, model in parts)
    calendar, means = _Calendar(last), _Means(len(arms))
    total: list[list[Sums]] = []
    under_way: deque[Future[list[list[Sums]]]] = deque()
    rows, latest = 0, None

    def settle() -> None:
        more = under_way.popleft().result()
        if total:
            total[:] = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(total, more, strict=True)]
        else:
            total.extend(more)

    with ThreadPoolExecutor(jit.workers()) as threads:
        for batch in batches:
            if not len(batch):
                continue
            if (latest is not None and batch.assigned[0] < latest) or (batch.assigned[1:] < batch.assigned[:-1]).any():
                raise OutOfOrderError("The rows are not in order of assignment.")
            latest = batch.assigned[-1]
            jit.ready(len(batch) * (len(arms) + 8) * (len(parts) + 1))
            shift = means.shift(*batch.check(arms, clock, rows))
            seen, earlier = means.before(shift), None
            if running:
                earlier = calendar.take(latest)
                if earlier is not None:
                    means.add(*earlier[1:])
                landed, visible = batch.visible()
                now, later = landed & (visible <= latest), landed & (visible > latest) & (visible <= last)
                means.add(batch.code[now], batch.outcome[now])
                calendar.add(visible[later], batch.code[later], batch.outcome[later])
            under_way.append(threads.submit(_add, batch, arms, parts, shift, seen, earlier, moments, matured, plain))
            rows += len(batch)
            while len(under_way) > _AHEAD:
                settle()
        while under_way:
            settle()
    if not total:
        bins = 1 if moments is None else len(moments)
        return [[Sums.empty(arms, *part) for _ in range(bins)] for part in parts]
    return total


def _add(
    batch: Batch,
    arms: tuple[Any, ...],
    parts: Sequence[tuple[Weights, OutcomeModel]],
    shift: Array,
    seen: tuple[Array, Array],
    earlier: tuple[Array, Array, Array] | None,
    moments: Array | None,
    matured: bool,
    plain: bool,
) -> list[list[Sums]]:
    """Return a batch's sums; `earlier` are outcomes of rows before it that its rows come to see."""
    full, n = batch.propensity.ndim == 2, len(batch)
    ahead = 0 if earlier is None else len(earlier[0])
    due = np.empty(n, dtype=np.int32)
    with np.errstate(all="ignore"):
        kernel.schedule(
            due, batch.assigned, batch.arrived, batch.latest, batch.never, batch.outcome, _IN_ORDER, 0, n, n
        )
    code, outcome = batch.code, batch.outcome
    propensity = batch.propensity if full else batch.propensity[:, np.newaxis]
    if earlier is not None:  # they stand before the batch's rows, where they are seen but not counted
        due = np.where(due >= 0, due + ahead, due)
        due = np.concatenate([ahead + np.searchsorted(batch.assigned, earlier[0]).astype(np.int32), due])
        unused = np.zeros((ahead, propensity.shape[1]))
        code, outcome, propensity = (
            locked(np.concatenate(pair)) for pair in ((earlier[1], code), (earlier[2], outcome), (unused, propensity))
        )
    if moments is None:
        edges, bins = np.array([ahead + n]), np.empty(0, dtype=np.int32)
    else:
        edges = ahead + np.searchsorted(batch.arrived if matured else batch.assigned, moments, side="right")
        bins = np.zeros(ahead + n, dtype=np.int32)
        bins[ahead:] = np.searchsorted(moments, batch.arrived)
    none, k = np.empty((0, len(arms))), len(arms)
    sums = []
    for weights, model in parts:
        spread = np.zeros((len(edges), len(kernel.SPREAD), k))
        own = np.zeros((len(edges), k, len(kernel.OWN)))
        calendar = model.name == "running_mean"
        last = np.full(ahead + n if calendar else 0, -1, dtype=np.int32)
        previous = np.empty(ahead + n if calendar else 0, dtype=np.int32)
        with np.errstate(all="ignore"):
            kernel.accumulate(
                spread, own, code, outcome, propensity, full, due, _IN_ORDER, ahead, ahead + n,
                last, previous, edges.astype(np.int64), bins, shift,
                weights.kind, none, 0.0, weights.decay, np.ones(k), 0.0,
                model.kind, none, seen[0].copy(), seen[1].copy(), plain, none, np.empty(0),
            )  # fmt: skip
        sums.append(Sums.of_bins(arms, weights, model, shift, spread, own, full, plain))
    return sums
