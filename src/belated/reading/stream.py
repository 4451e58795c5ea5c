"""Sums from rows that come in batches, in order of assignment, with only a few batches in memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from belated.base.columns import Array, Label
from belated.base.errors import BelatedError
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.log.clock import Clock
from belated.log.log import locked
from belated.reading.batches import Batch
from belated.summaries.outcome_models import OutcomeModel
from belated.summaries.sums import Sums, SumsOf, empty_bins
from belated.summaries.weights import Weights

_Record = TypeVar("_Record", bound=Sized)

_IN_ORDER = np.empty(0, dtype=np.int64)

#: Batches under way at once; more would only fill the memory.
_AHEAD = 4


class OutOfOrderError(BelatedError):
    """Rows that were to come in order of assignment did not."""


class StreamPlan(NamedTuple):
    """What is made of a stream of rows.

    Attributes
    ----------
    arms : tuple
    parts : sequence of (weights, outcome model)
    clock : Clock
    last : int or float
        When the last row was assigned.
    moments : array or None
        At which sums are wanted; None: at the end.
    matured : bool
        Whether a row exists only once its outcome has arrived; the outcomes then arrive in the rows' order.
    plain : bool
        Whether to make the sums that only estimators that are not of Hajek's kind need.
    in_order : bool
        Whether the rows must come in order of assignment: where there are running means or moments.
    """

    arms: tuple[Label, ...]
    parts: Sequence[tuple[Weights, OutcomeModel]]
    clock: Clock
    last: int | float
    moments: Array | None = None
    matured: bool = False
    plain: bool = True
    in_order: bool = True


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


def _prepared(batch: Batch, plan: StreamPlan, before: int) -> _Prepared:
    anchor, rarest = batch.check(plan.arms, plan.clock, before)
    if plan.in_order and (batch.assigned[1:] < batch.assigned[:-1]).any():
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
    order = order[: np.searchsorted(when[order], plan.last, side="right")]
    rows = unseen[order]
    later = when[order], batch.code[rows], batch.outcome[rows]
    return _Prepared(batch=batch, anchor=anchor, rarest=rarest, due=due, later=later)


class _History:
    """What batches so far leave to the next: counts and sums of what has arrived, and outcomes that wait.

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


def stream_sums(records: Iterable[_Record], convert: Callable[[_Record], Batch], plan: StreamPlan) -> list[list[Sums]]:
    """Return, for each choice of weights and outcome model, the sums at each moment.

    Parameters
    ----------
    records : iterable
        Pieces of the log as of the last moment.
    convert : callable
        From such a piece to a `Batch`.
    plan : StreamPlan
    """
    history, total = _History(len(plan.arms)), list[list[Sums]]()
    added: deque[Future[None]] = deque()
    rows, latest = 0, None

    def prepare(record: _Record, before: int) -> _Prepared:
        return _prepared(convert(record), plan, before)

    def add(waiting: Future[_Prepared]) -> None:
        """Add a batch after those before it."""
        nonlocal latest
        prepared = waiting.result()
        if plan.in_order and latest is not None and prepared.batch.assigned[0] < latest:
            raise OutOfOrderError("The rows are not in order of assignment.")
        latest = prepared.batch.assigned[-1]
        more = _added(prepared, plan, history)
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
                jit.ready(len(record) * (len(plan.arms) + 8) * (len(plan.parts) + 1))
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
        bins = 1 if plan.moments is None else len(plan.moments)
        return [[Sums.empty(plan.arms, *part) for _ in range(bins)] for part in plan.parts]
    return total


def _added(prepared: _Prepared, plan: StreamPlan, history: _History) -> list[list[Sums]]:
    """Return a batch's sums, and bring the history up to its end."""
    batch, arms = prepared.batch, len(plan.arms)
    # an arm without an outcome here is taken about the one it had before
    shift = np.where(np.isfinite(prepared.rarest), prepared.anchor, history.shift)
    rows, ahead = _after_history(prepared, history.take(batch.assigned[-1]))
    stop = ahead + len(batch)
    bins = _bins(batch, plan, ahead)
    sums, after = [], None
    for weights, model in plan.parts:
        spread, own = empty_bins(len(bins.edges), arms)
        calendar = stop if model.learns else 0
        n_before, y_before = history.about(shift)
        with np.errstate(all="ignore"):
            kernel.accumulate(
                kernel.Totals(spread, own, h=np.empty((0, arms)), m=np.empty(0)),
                rows,
                kernel.Calendar(np.full(calendar, -1, dtype=np.int32), np.empty(calendar, dtype=np.int32)),
                bins,
                shift,
                weights.weighting_of(arms),
                model.modelling_of(arms)._replace(arrived_n=n_before, arrived_y=y_before),
                plan.plain,
                ahead,
                stop,
            )
        if calendar:
            after = n_before, y_before
        sums.append(Sums.of_bins(SumsOf(plan.arms, weights, model, rows.full, plan.plain), shift, spread, own))
    if after is not None:
        (history.n, history.y), history.shift = after, shift
        history.runs.append(prepared.later)
    return sums


def _after_history(prepared: _Prepared, earlier: tuple[Array, Array, Array] | None) -> tuple[kernel.Rows, int]:
    """Return a batch's rows after the outcomes of earlier rows that they see, and how many those are.

    Those stand before the batch's rows, where they are seen but not counted.
    """
    batch, due = prepared.batch, prepared.due
    full = batch.propensity.ndim == 2
    code, outcome = batch.code, batch.outcome
    propensity = batch.propensity if full else batch.propensity[:, np.newaxis]
    if earlier is None:
        return kernel.Rows(code, outcome, propensity, full, _IN_ORDER, due), 0
    ahead = len(earlier[0])
    due = np.where(due >= 0, due + ahead, due)
    due = np.concatenate([ahead + np.searchsorted(batch.assigned, earlier[0]).astype(np.int32), due])
    unused = np.zeros((ahead, propensity.shape[1]))
    code, outcome, propensity = (
        locked(np.concatenate(pair)) for pair in ((earlier[1], code), (earlier[2], outcome), (unused, propensity))
    )
    return kernel.Rows(code, outcome, propensity, full, _IN_ORDER, due), ahead


def _bins(batch: Batch, plan: StreamPlan, ahead: int) -> kernel.Bins:
    """Return where a batch's sums are cut; `ahead` positions stand before its rows."""
    stop, moments = ahead + len(batch), plan.moments
    if moments is None:
        return kernel.Bins(edges=np.array([stop]), arrival=np.empty(0, dtype=np.int32))
    edges = ahead + np.searchsorted(batch.arrived if plan.matured else batch.assigned, moments, side="right")
    arrival = np.zeros(stop, dtype=np.int32)
    arrival[ahead:] = np.searchsorted(moments, batch.arrived)
    return kernel.Bins(edges.astype(np.int64), arrival)
