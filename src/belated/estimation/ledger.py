"""`Ledger`: sums that are updated as rows are assigned and their outcomes arrive."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from belated.base.checks import outcome_fault
from belated.base.columns import Array, Label, numbers
from belated.base.errors import LogError, OptionError, argument
from belated.base.text import shown
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.kernels.fields import H_ARRIVED
from belated.log.log import Log
from belated.summaries.caps import Cap
from belated.summaries.outcome_models import OutcomeModel
from belated.summaries.sums import Sums, complete, empty_bins
from belated.summaries.weights import Weights, inverse_of, past_weights

_NONE = np.empty(0, dtype=np.int32)

#: The attributes of a ledger that are changed in place.
_CHANGING = ("_out", "_remaining", "_past", "_arrived_n", "_arrived_y")


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

    Estimates equal those from the whole log. Threads may share a ledger: each call of `assign` or `land` completes
    before the next one starts.

    Parameters
    ----------
    arms : sequence
        The labels of the arms.
    weights : {"sqrt", "uniform", "propensity", "past"} or two_point(horizon, decay)
    outcome_model : {"running_mean", "zero"}
    cap : float, optional
        Outcomes above the cap count as the cap.

    Attributes
    ----------
    sums : Sums
        The sums of everything recorded so far. ``a.sums + b.sums`` merges the sums of two ledgers.

    Examples
    --------
    >>> import belated as bl
    >>> ledger = bl.Ledger(["A", "B"])
    >>> first, second = ledger.assign(["A", "B"], [[0.5, 0.5], [0.5, 0.5]])
    >>> ledger.land([second], [2.0])
    >>> ledger
    Ledger(arms=('A', 'B'), 2 assigned, 1 landed, 1 out)
    """

    def __init__(
        self,
        arms: Sequence[Label],
        weights: Weights | str = "sqrt",
        outcome_model: OutcomeModel | str = "running_mean",
        *,
        cap: float | None = None,
    ) -> None:
        if len(set(arms)) != len(arms) or not len(arms):
            raise OptionError(f"{argument('arms')} is {list(arms)!r}; it must name each arm once.")
        sums = Sums.empty(arms, weights, outcome_model, cap)
        if "given" in (sums.weights.name, sums.outcome_model.name):
            raise OptionError("A ledger computes weights and outcome model itself; give them by name.")
        if sums.weights.needs_horizon:
            raise OptionError("A ledger needs two-point weights with a horizon: two_point(horizon, decay).")
        self._lock = threading.RLock()
        self._sums = sums
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
            return self._sums

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:  # a copy gets its own lock
            state = self.__dict__ | {name: copy(getattr(self, name)) for name in _CHANGING}
        return {name: value for name, value in state.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def assign(
        self, arm: Iterable[Label], propensity: ArrayLike, keys: Iterable[Hashable] | None = None
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
        """
        labels = list(arm)
        log = Log(labels, np.full(len(labels), np.nan), propensity, arms=self._sums.arms)  # checks the rows
        with self._lock:
            return self._assign(log, keys)

    def _assign(self, log: Log, keys: Iterable[Hashable] | None) -> list[Hashable]:
        sums = self._sums
        rows, full = len(log.code), log.has_all_propensities
        sums.weights.check(full)
        names = self._new_keys(rows) if keys is None else list(keys)
        if len(names) != rows or len(set(map(_hashable, names))) != rows:
            raise LogError(f"`keys` must have a different key for each of the {rows} rows.", column="keys")
        for row, name in enumerate(names):
            if name in self._out:
                raise LogError(
                    f"`keys` in row {row} is {name!r}, which another row without an outcome has.",
                    column="keys",
                    row=row,
                )
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
        jit.ready(rows * (arms + 8))
        kernel.accumulate(
            kernel.totals(spread, own, h, m),
            log.kernel_rows._replace(order=_NONE, due=out),
            kernel.Calendar(last=out.copy(), previous=_NONE),
            kernel.Bins(edges=np.array([rows]), arrival=_NONE),
            sums.shift,
            weighting._replace(remaining=self._remaining, step=start),
            modelling._replace(arrived_n=self._arrived_n, arrived_y=self._arrived_y),
            True,
            0,
            rows,
        )
        complete(spread, sums.outcome_model, sums.shift, full or not sums.weights.need_all_propensities)
        self._sums = replace(sums, spread=sums.spread + spread[0], own=sums.own + own[0])
        for row, name in enumerate(names):
            k = int(log.code[row])
            if isinstance(name, int):
                self._next = max(self._next, name + 1)
            self._out[name] = _Pending(k, h[row], float(m[row] + sums.shift[k]), float(pi[row, k if full else 0]))
        return names

    def _new_keys(self, rows: int) -> list[Hashable]:
        """Return the next whole numbers that are not yet keys."""
        free = (key for key in count(self._next) if key not in self._out)
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
            self._land(names, values)

    def _land(self, names: list[Hashable], values: list[float]) -> None:
        for row, name in enumerate(names):
            if name not in self._out:
                raise LogError(
                    f"`keys` in row {row} is {name!r}, which was never assigned or already has an outcome.",
                    column="keys",
                    row=row,
                )
            if (what := outcome_fault(values[row])) is not None:
                raise LogError(f"{argument('outcome')} in row {row} {what}.", column="outcome", row=row)
        for name, y in zip(names, values, strict=True):
            self._land_one(self._out.pop(name), y)

    def _land_one(self, row: _Pending, y: float) -> None:
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
        kernel.land(own, k, y, shift, row.model - shift, row.h[k], row.propensity, True)
        spread[H_ARRIVED] += row.h
        self._arrived_n[k] += 1
        self._arrived_y[k] += y - shift
        self._sums = replace(sums, spread=spread, own=own)

    def __repr__(self) -> str:
        with self._lock:
            sums, out = self._sums, len(self._out)
        assigned, arrived = int(sums["assigned"].sum()), int(sums["arrived"].sum())
        return f"Ledger(arms={sums.arms!r}, {assigned:,} assigned, {arrived:,} landed, {out:,} out)"
