"""Sums from rows that come in batches, in order of assignment, with only a few batches in memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.base.columns import Array
from belated.base.errors import BelatedError, LogError
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.log.clock import NEVER, Clock
from belated.log.log import locked
from belated.log.row_checks import Columns, check_rows
from belated.summaries.outcome_models import OutcomeModel
from belated.summaries.sums import Sums, SumsOf, empty_bins
from belated.summaries.weights import Weights

_IN_ORDER = np.empty(0, dtype=np.int64)

#: Batches under way at once; more would only fill the memory.
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

    @classmethod
    def of(cls, *, code: Array, outcome: Array, propensity: Array, assigned: Array, arrived: Array) -> Batch:
        """Return a batch whose arrays cannot be written to; compiled kernels know no others."""
        columns = (code, outcome, propensity, assigned, arrived)
        return cls(*map(locked, columns))

    def __len__(self) -> int:
        return len(self.code)

    @property
    def times(self) -> kernel.Times:
        """The rows' times, as kernels take them; every arrival counts."""
        if self.arrived.dtype.kind == "i":
            return kernel.Times(self.assigned, self.arrived, np.iinfo(np.int64).max, NEVER)
        return kernel.Times(self.assigned, self.arrived, float(np.finfo(np.float64).max), math.nan)

    def check_times(self, before: int) -> None:
        """Refuse the first row without a time of assignment; `before` counts the rows that come before these."""
        whole = self.assigned.dtype.kind == "i"
        there = self.assigned != NEVER if whole else np.isfinite(self.assigned)
        if not there.all():
            row = int(there.argmin())
            what = "missing" if whole or np.isnan(self.assigned[row]) else str(self.assigned[row])
            raise LogError.of_row("assigned_at", before + row, f"is {what}; every assignment must have a time.")

    def check(self, arms: tuple[Any, ...], clock: Clock, before: int) -> tuple[Array, Array]:
        """Refuse the first row that cannot be; return the outcome and propensity of each arm's least likely row."""
        self.check_times(before)
        columns = Columns(self.code, self.outcome, self.propensity, self.times)
        anchors, rarest = check_rows(arms, columns, clock, before)
        which = np.argmin(rarest, axis=0), np.arange(len(arms))
        return np.array(anchors)[which], np.array(rarest)[which]


@dataclass(frozen=True)
class _Prepared:
    """A batch, checked, with its own order of events.

    `due` is as `kernels.rows.schedule` makes it; `later` holds when, arm and outcome of what only rows of later
    batches see, in order.
    """

    batch: Batch
    anchor: Array
    rarest: Array
    due: Array
    later: tuple[Array, Array, Array]


def _prepared(
    batch: Batch, arms: tuple[Any, ...], clock: Clock, before: int, last: int | float, in_order: bool
) -> _Prepared:
    anchor, rarest = batch.check(arms, clock, before)
    if in_order and (batch.assigned[1:] < batch.assigned[:-1]).any():
        raise OutOfOrderError("The rows are not in order of assignment.")
    n = len(batch)
    due = np.empty(n, dtype=np.int32)
    with np.errstate(all="ignore"):
        kernel.schedule(due, batch.times, batch.outcome, _IN_ORDER, 0, n, n)
    unseen = np.flatnonzero(due == n)
    when = batch.arrived[unseen]
    at_once = when == batch.assigned[unseen]  # only rows of a later time see those
    when = when + at_once if when.dtype.kind == "i" else np.where(at_once, np.nextafter(when, math.inf), when)
    order = np.argsort(when)
    order = order[: np.searchsorted(when[order], last, side="right")]
    rows = unseen[order]
    return _Prepared(batch, anchor, rarest, due, (when[order], batch.code[rows], batch.outcome[rows]))


class _History:
    """What batches so far leave to the next: counts and sums of what has been seen, and outcomes that wait.

    Those wait as runs, each in order of the moment from which it is seen.
    """

    def __init__(self, arms: int) -> None:
        self.n, self.y, self.shift = np.zeros(arms), np.zeros(arms), np.zeros(arms)
        self.runs: list[tuple[Array, Array, Array]] = []

    def about(self, shift: Array) -> tuple[Array, Array]:
        """Return counts, and sums of outcomes minus `shift`."""
        return self.n.copy(), self.y + self.n * (self.shift - shift)

    def take(self, until: int | float) -> tuple[Array, Array, Array] | None:
        """Return what waited for rows assigned up to a moment."""
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


def stream_sums(
    records: Iterable[Any],
    convert: Callable[[Any], Batch],
    arms: tuple[Any, ...],
    parts: Sequence[tuple[Weights, OutcomeModel]],
    clock: Clock,
    *,
    last: int | float,
    moments: Array | None = None,
    matured: bool = False,
    plain: bool = True,
    in_order: bool = True,
) -> list[list[Sums]]:
    """Return, for each choice of weights and outcome model, the sums at each moment (None: at the end).

    Parameters
    ----------
    records : iterable
        Sized pieces of the log as of the last moment, in order of assignment unless `in_order` is false, as it
        may be where there are neither running means nor moments.
    convert : callable
        From such a piece to a `Batch`.
    last : int or float
        When the last row was assigned.
    matured : bool
        Whether a row exists only once its outcome has arrived; the outcomes then arrive in the rows' order.
    """
    history, total = _History(len(arms)), list[list[Sums]]()
    added: deque[Future[None]] = deque()
    rows, latest = 0, None

    def prepare(record: Any, before: int) -> _Prepared:
        return _prepared(convert(record), arms, clock, before, last, in_order)

    def add(waiting: Future[_Prepared]) -> None:
        """Add a batch after those before it."""
        nonlocal latest
        batch = waiting.result()
        if in_order and latest is not None and batch.batch.assigned[0] < latest:
            raise OutOfOrderError("The rows are not in order of assignment.")
        latest = batch.batch.assigned[-1]
        more = _added(batch, arms, parts, history, moments, matured, plain)
        if total:
            total[:] = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(total, more, strict=True)]
        else:
            total.extend(more)

    # any thread prepares, one adds, and this one fetches
    with ThreadPoolExecutor(jit.workers()) as threads, ThreadPoolExecutor(1) as line:
        try:
            for record in records:
                if not len(record):
                    continue
                jit.ready(len(record) * (len(arms) + 8) * (len(parts) + 1))
                added.append(line.submit(add, threads.submit(prepare, record, rows)))
                rows += len(record)
                while len(added) > _AHEAD:
                    added.popleft().result()
            while added:
                added.popleft().result()
        finally:
            for future in added:
                future.cancel()
    if not total:
        bins = 1 if moments is None else len(moments)
        return [[Sums.empty(arms, *part) for _ in range(bins)] for part in parts]
    return total


def _added(
    prepared: _Prepared,
    arms: tuple[Any, ...],
    parts: Sequence[tuple[Weights, OutcomeModel]],
    history: _History,
    moments: Array | None,
    matured: bool,
    plain: bool,
) -> list[list[Sums]]:
    """Return a batch's sums, and bring the history up to its end."""
    batch, due = prepared.batch, prepared.due
    full, n, k = batch.propensity.ndim == 2, len(batch), len(arms)
    # an arm without an outcome here is taken about the one it had before
    shift = np.where(np.isfinite(prepared.rarest), prepared.anchor, history.shift)
    earlier = history.take(batch.assigned[-1])
    ahead = 0 if earlier is None else len(earlier[0])
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
        bins = kernel.Bins(edges=np.array([ahead + n]), arrival=np.empty(0, dtype=np.int32))
    else:
        edges = ahead + np.searchsorted(batch.arrived if matured else batch.assigned, moments, side="right")
        arrival = np.zeros(ahead + n, dtype=np.int32)
        arrival[ahead:] = np.searchsorted(moments, batch.arrived)
        bins = kernel.Bins(edges.astype(np.int64), arrival)
    rows = kernel.Rows(code, outcome, propensity, full, _IN_ORDER, due)
    sums, after = [], None
    for weights, model in parts:
        spread, own = empty_bins(len(bins.edges), k)
        calendar = ahead + n if model.learns else 0
        n_before, y_before = history.about(shift)
        with np.errstate(all="ignore"):
            kernel.accumulate(
                kernel.Totals(spread, own, h=np.empty((0, k)), m=np.empty(0)),
                rows,
                kernel.Calendar(np.full(calendar, -1, dtype=np.int32), np.empty(calendar, dtype=np.int32)),
                bins,
                shift,
                weights.weighting_of(k),
                model.modelling_of(k)._replace(arrived_n=n_before, arrived_y=y_before),
                plain,
                ahead,
                ahead + n,
            )
        if calendar:
            after = n_before, y_before
        sums.append(Sums.of_bins(SumsOf(arms, weights, model, full, plain), shift, spread, own))
    if after is not None:
        (history.n, history.y), history.shift = after, shift
        history.runs.append(prepared.later)
    return sums
