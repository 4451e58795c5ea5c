"""`Ledger`: sums that are updated as rows are assigned and their outcomes arrive."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from belated.base.checks import outcome_fault
from belated.base.columns import Array, ColumnLike, Label, numbers
from belated.base.errors import LogError, OptionError, argument
from belated.base.text import shown
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.kernels.fields import H_ARRIVED
from belated.log.log import Log
from belated.log.segments import in_order
from belated.summaries.caps import Cap
from belated.summaries.outcome_models import OutcomeModel
from belated.summaries.segments import Segments, cell_labels, lay_out
from belated.summaries.sums import Sums, complete, empty_bins
from belated.summaries.weights import Weights, inverse_of, past_weights

_EMPTY = np.empty(0, dtype=np.int32)

#: The attributes of a ledger that are changed in place.
_CHANGING = ("_out", "_remaining", "_past", "_arrived_n", "_arrived_y", "_by_segment")


@dataclass(frozen=True)
class _Pending:
    """The part of a row that is kept until its outcome arrives."""

    arm: int
    h: Array  # every arm's weight
    model: float
    propensity: float


def _hashable(key: object) -> Hashable:
    try:
        hash(key)
    except TypeError:
        raise LogError(
            f"`keys` contains {shown(key)}; a key must be text, a number or another hashable value."
        ) from None
    return key


class Ledger:
    """Live sums of an experiment: record assignments now and outcomes later, without keeping the log.

    Estimates equal those from the whole log, except in merged segments: an outcome model keeps a running mean for each
    original segment, and with the weights "past" every row has weight 1. Threads may share a ledger: each call of
    `assign` or `land` completes before the next one starts.

    Parameters
    ----------
    arms : sequence
        The labels of the arms.
    weights : {"sqrt", "uniform", "propensity", "past"} or two_point(horizon, decay)
    outcome_model : {"running_mean", "zero"}
    cap : float, optional
        Outcomes above the cap count as the cap.
    segments : bool or sequence, default False
        Whether rows have segments, which `assign` then needs: True, or the segments that are known in advance. Others
        may appear as rows are assigned.

    Attributes
    ----------
    sums : Sums
        The sums of everything recorded so far. ``a.sums + b.sums`` merges the sums of two ledgers. With segments, they
        are also by segment, and segments with few outcomes are merged as those of a log are.

    Examples
    --------
    >>> import belated as bl
    >>> ledger = bl.Ledger(["A", "B"])
    >>> first, second = ledger.assign(["A", "B"], [[0.5, 0.5], [0.5, 0.5]])
    >>> ledger.land([second], [2.0])
    >>> ledger
    Ledger(arms=('A', 'B'), 2 assigned, 1 arrived, 1 out)
    """

    def __init__(
        self,
        arms: Sequence[Label],
        weights: Weights | str = "sqrt",
        outcome_model: OutcomeModel | str = "running_mean",
        *,
        cap: float | None = None,
        segments: bool | Sequence[Label] = False,
    ) -> None:
        try:
            named_once = 0 < len(set(arms)) == len(arms)
        except (TypeError, RecursionError):  # lists cannot be labels
            named_once = False
        if not named_once:
            raise OptionError(f"{argument('arms')} is {shown(arms)}; it must name each arm once.")
        sums = Sums.empty(arms, weights, outcome_model, cap)
        if "given" in (sums.weights.name, sums.outcome_model.name):
            raise OptionError("A ledger computes weights and outcome model itself; give them by name.")
        if sums.weights.needs_horizon:
            raise OptionError("A ledger needs two-point weights with a horizon: two_point(horizon, decay).")
        self._lock = threading.RLock()
        self._sums = sums
        self._by_segment = None if segments is False else _BySegment(sums, () if segments is True else segments)
        self._out: dict[Hashable, _Pending] = {}
        self._next = 0
        self._remaining = np.ones(len(sums.arms))
        self._past = np.zeros((2, len(sums.arms)))  # rows that gave the arm a chance, and the sum of 1 / propensity
        self._arrived_n = np.zeros(len(sums.arms))
        self._arrived_y = np.zeros(len(sums.arms))

    @property
    def sums(self) -> Sums:
        """The sums of everything recorded so far."""
        with self._lock:
            return self._sums if self._by_segment is None else self._by_segment.sums()

    def __getstate__(self) -> dict[str, object]:
        with self._lock:  # a copy gets its own lock
            state = self.__dict__ | {name: copy(getattr(self, name)) for name in _CHANGING}
        return {name: value for name, value in state.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def assign(
        self,
        arm: Iterable[Label],
        propensity: ColumnLike,
        keys: Iterable[Hashable] | None = None,
        segment: Iterable[Label] | None = None,
    ) -> list[Hashable]:
        """Record a batch of assignments made now, and return their keys.

        The outcome model of these rows uses outcomes recorded before this call, not those of the batch itself.

        Parameters
        ----------
        arm : sequence
            The chosen arms.
        propensity : array of shape (rows, arms) or (rows,)
            The probabilities of all arms, or of the chosen arm only.
        keys : iterable, optional
            A key for each row, to be given to `land` with its outcome; 0, 1, 2, ... by default.
        segment : iterable, optional
            The segment of each row, in a ledger with segments; None in a row: the segment "(missing)".
        """
        labels = list(arm)
        if (segment is None) != (self._by_segment is None):
            how = "with" if segment is None else "without"
            raise OptionError(
                f"This ledger was made {how} segments: `assign` {'needs' if segment is None else 'takes no'} "
                f"{argument('segment')}."
            )
        known = None if segment is None else segment if isinstance(segment, (np.ndarray, Sequence)) else list(segment)
        # checks the rows
        log = Log(labels, np.full(len(labels), np.nan), propensity, arms=self._sums.arms, segment=known)
        with self._lock:
            names = self._checked_keys(log, keys)
            if self._by_segment is None:
                self._assign(log, names)
            else:
                self._by_segment.assign(log, names)
            for name in names:
                if isinstance(name, int):
                    self._next = max(self._next, name + 1)
            return names

    @property
    def _waiting(self) -> Mapping[Hashable, object]:
        """The rows without an outcome, by key."""
        return self._out if self._by_segment is None else self._by_segment.homes

    def _checked_keys(self, log: Log, keys: Iterable[Hashable] | None) -> list[Hashable]:
        """Return the keys of new rows; raise if the rows or their keys are not possible."""
        rows = len(log.code)
        self._sums.weights.check(log.has_all_propensities)
        names = self._new_keys(rows) if keys is None else list(keys)
        if len(names) != rows or len(set(map(_hashable, names))) != rows:
            raise LogError(f"`keys` must have a different key for each of the {rows} rows.", column="keys")
        for row, name in enumerate(names):
            if name in self._waiting:
                raise LogError(
                    f"`keys` in row {row} is {name!r}, which another row without an outcome has.",
                    column="keys",
                    row=row,
                )
        return names

    def _assign(self, log: Log, names: list[Hashable]) -> None:
        sums, rows, full = self._sums, len(log.code), log.has_all_propensities
        start = float(sums["assigned"].sum())
        sums.weights.check_rows(int(start) + rows)
        pi, arms = log.propensity_matrix, len(sums.arms)
        h, m = np.empty((rows, arms)), np.empty(rows)
        spread, own = empty_bins(1, arms)
        out = np.full(rows, -1, dtype=np.int32)
        given = None
        if sums.weights.name == "past":
            given = np.tile(past_weights(self._past[0], self._past[1], arms), (rows, 1))
            self._past += (pi > 0).sum(axis=0), inverse_of(pi).sum(axis=0)
        weighting = sums.weights.weighting_of(arms, float(sums.weights.horizon or 0), given)
        modelling = sums.outcome_model.modelling_of(arms)
        jit.ready(rows * (arms + 8) + 10 * arms)
        kernel.accumulate(
            kernel.totals(spread, own, h, m, shift=sums.shift, plain=True),
            log.kernel_rows._replace(order=_EMPTY, due=out),
            kernel.Calendar(last=out.copy(), previous=_EMPTY),
            kernel.Bins(edges=np.array([rows]), arrival=_EMPTY),
            weighting._replace(remaining=self._remaining, step=start),
            modelling._replace(arrived_n=self._arrived_n, arrived_y=self._arrived_y),
            kernel.Stretch(0, rows),
        )
        complete(spread, sums.outcome_model, sums.shift, full or not sums.weights.need_all_propensities)
        self._sums = replace(sums, spread=sums.spread + spread[0], own=sums.own + own[0])
        for row, name in enumerate(names):
            k = int(log.code[row])
            self._out[name] = _Pending(k, h[row], float(m[row] + sums.shift[k]), float(pi[row, k if full else 0]))

    def _new_keys(self, rows: int) -> list[Hashable]:
        """Return the next whole numbers that are not yet keys."""
        free = (key for key in count(self._next) if key not in self._waiting)
        return [next(free) for _ in range(rows)]

    def land(self, keys: Iterable[Hashable], outcome: Iterable[float]) -> None:
        """Record outcomes that arrive now: all of them, or none if there is an error."""
        if not isinstance(keys, Iterable) or not isinstance(outcome, Iterable) or isinstance(keys, str):
            raise LogError(
                f"`keys` and {argument('outcome')} must be lists, with one outcome for each key.", column="keys"
            )
        names, values = [_hashable(name) for name in keys], numbers("outcome", list(outcome)).tolist()
        if len(names) != len(values):
            raise LogError(
                f"`keys` has {len(names)} values but {argument('outcome')} has {len(values)}.", column="keys"
            )
        if len(set(names)) != len(names):
            raise LogError("`keys` contains a key twice.", column="keys")
        with self._lock:
            self._add_outcomes(names, values)

    def _add_outcomes(self, names: list[Hashable], values: list[float]) -> None:
        for row, name in enumerate(names):
            if name not in self._waiting:
                raise LogError(
                    f"`keys` in row {row} is {name!r}, which was never assigned or already has an outcome.",
                    column="keys",
                    row=row,
                )
            if (what := outcome_fault(values[row])) is not None:
                raise LogError(f"{argument('outcome')} in row {row} {what}.", column="outcome", row=row)
        for name, y in zip(names, values, strict=True):
            if self._by_segment is None:
                self._add_outcome(self._out.pop(name), y)
            else:
                self._by_segment.add_outcome(name, y)

    def _add_outcome(self, row: _Pending, y: float) -> None:
        sums, k = self._sums, row.arm
        if sums.cap is not None and y > sums.cap.value:
            y, one = sums.cap.value, np.bincount([k], minlength=len(sums.arms)).astype(float)
            sums = replace(sums, cap=sums.cap + Cap(y, one))
        if row.h[k] / row.propensity > sums["w_max"][k]:  # the shift is the outcome with the largest weight
            shift = sums.shift.copy()
            shift[k] = y
            self._arrived_y[k] += self._arrived_n[k] * (sums.shift[k] - y)
            sums = sums.recentred(shift)
        shift = sums.shift[k]
        spread, own = sums.spread.copy(), sums.own.copy()
        kernel.add_outcome(own, k, kernel.ArrivedOutcome(y, shift, row.model - shift, row.h[k], row.propensity), True)
        spread[H_ARRIVED] += row.h
        self._arrived_n[k] += 1
        self._arrived_y[k] += y - shift
        self._sums = replace(sums, spread=spread, own=own)

    def __repr__(self) -> str:
        with self._lock:
            sums, out = self.sums, len(self._waiting)
        assigned, arrived = int(sums["assigned"].sum()), int(sums["arrived"].sum())
        return f"Ledger(arms={sums.arms!r}, {assigned:,} assigned, {arrived:,} arrived, {out:,} out)"


class _BySegment:
    """A ledger for each segment, and one in which every row has weight 1, in case the segment is merged.

    Attributes
    ----------
    homes : dict
        The segment of each row without an outcome, by key.
    """

    def __init__(self, empty: Sums, segments: Sequence[Label]) -> None:
        if empty.weights.name == "two_point":
            raise OptionError("A ledger with segments cannot have two-point weights.")
        if isinstance(segments, str) or not isinstance(segments, Sequence):
            raise OptionError(f"`segments` is {shown(segments)}; it must be True, or a list such as ['DE', 'FR'].")
        self._empty = empty
        self._ledgers: dict[Label, tuple[Ledger, Ledger]] = {label: self._new() for label in segments}
        self.homes: dict[Hashable, Label] = {}

    def __copy__(self) -> _BySegment:
        other = _BySegment(self._empty, ())
        other._ledgers = {label: (copy(own), copy(even)) for label, (own, even) in self._ledgers.items()}
        other.homes = dict(self.homes)
        return other

    def _new(self) -> tuple[Ledger, Ledger]:
        sums = self._empty
        cap = None if sums.cap is None else sums.cap.value
        own, even = (Ledger(sums.arms, weights, sums.outcome_model, cap=cap) for weights in (sums.weights, "uniform"))
        return own, even

    def assign(self, log: Log, names: list[Hashable]) -> None:
        """Record rows, which must have been checked."""
        labels, code = log.segment_column or ((), np.empty(0))
        for s, label in enumerate(labels):
            rows = np.flatnonzero(code == s)
            for ledger in self._ledgers.setdefault(label, self._new()):
                ledger._assign(log.only(code == s), [names[row] for row in rows])
        self.homes |= {name: labels[code[row]] for row, name in enumerate(names)}

    def add_outcome(self, name: Hashable, y: float) -> None:
        """Record an outcome."""
        for ledger in self._ledgers[self.homes.pop(name)]:
            ledger._add_outcome(ledger._out.pop(name), y)

    def sums(self) -> Sums:
        """Return the sums by segment, small segments merged, with their totals by arm."""
        arms = self._empty.arms
        kept = {label: pair for label, pair in self._ledgers.items() if pair[0]._sums["assigned"].any()}
        labels = tuple(in_order(list(kept)))
        if not labels:
            return self._empty
        counts = {name: np.array([kept[label][0]._sums[name] for label in labels]) for name in ("arrived", "assigned")}
        layout = lay_out(labels, counts["arrived"], assigned=counts["assigned"])
        each = [kept[label][0]._sums for label in labels if label not in layout.merged]
        if layout.merged:
            merged = [kept[label][1]._sums for label in layout.merged]
            if layout.arrival is not None:
                chances = [layout.arrival.chance[labels.index(label)] for label in layout.merged]
                merged = [part.arriving(chance) for part, chance in zip(merged, chances, strict=True)]
            each.append(sum(merged[1:], merged[0]))
        cap = self._empty.cap
        above = [part.cap.above for part in each if part.cap is not None]
        cells = replace(
            self._empty,
            arms=cell_labels(layout.labels, arms),
            shift=np.concatenate([part.shift for part in each]),
            spread=np.concatenate([part.spread for part in each], axis=1),
            own=np.concatenate([part.own for part in each]),
            cap=None if cap is None else Cap(cap.value, np.concatenate(above)),
        )
        return Segments.of(layout, cells).total()
