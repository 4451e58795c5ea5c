"""Sums: the additive statistics from which every estimate is read."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from belated.base.checks import one_of
from belated.base.columns import Array
from belated.base.errors import MergeError, OptionError
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.log.clock import Clock
from belated.log.log import Log, a_log
from belated.summaries.outcome_models import OutcomeModel, read_outcome_model
from belated.summaries.weights import Weights, read_weights

#: Weights and outcome model: a name, an object, an array or a function each.
Parts = tuple[Any, Any]

_NO_BINS = np.empty(0, dtype=np.int32)


class SumsSource(ABC):
    """A log that is not in memory, and is asked for sums instead: one in files or an engine.

    Attributes
    ----------
    arms : tuple
    clock : Clock
    moment : int, float or None
        As of a `Log`.
    """

    arms: tuple[Any, ...]
    clock: Clock
    moment: int | float | None

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @property
    @abstractmethod
    def has_all_propensities(self) -> bool:
        """Whether every arm's probability is known, not only the chosen one's."""

    @abstractmethod
    def sums(self, parts: Sequence[Parts], moments: Array | None = None, plain: bool = True) -> list[list[Sums]]:
        """Return, for each pair of weights and outcome model, the sums at each moment; None: as of its own."""

    @abstractmethod
    def doubts(self) -> list[str]:
        """Return what in the log as a whole speaks against any estimate from it, in words."""

    @abstractmethod
    def even_moments(self, how_many: int) -> Array:
        """Return moments evenly spaced, the last being when the log is looked at."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Per arm, a handful of sums that can be added, updated, merged, stored and computed anywhere.

    Outcomes and model are taken minus the arm's `shift`, so that a mean of 1e8 with a standard
    deviation of 1 loses no digits; any shift gives the same answers. With h the weight, pi the
    propensity, w = h / pi, y the outcome and m the model (both minus the shift), and r = y - m,
    ``sums[name]`` is one value per arm:

    over every row: ``h``, ``h2``, ``hm``, ``h2m``, ``h2m2``; ``h_arrived`` over rows of any arm
    whose outcome has arrived (NaN if other arms' propensities are not known and needed);

    over the arm's own rows: ``assigned`` and ``arrived`` (counts);

    over the arm's arrived rows: ``unbinary`` (the sum of abs(Y (1 - Y)), 0 if every outcome is 0
    or 1), ``y``, ``y2``, ``y3``, ``w``, ``wy``, ``wm``, ``w2``, ``w2y``, ``w2y2``, ``w3``, ``w3y``,
    ``w3y2``, ``hwr``, ``hwrm``, ``w2r2``, and ``w_max``, the largest w.

    ``a + b`` merges the sums of two disjoint sets of rows.
    """

    arms: tuple[Any, ...]
    weights: Weights
    outcome_model: OutcomeModel
    shift: Array
    spread: Array  # (fields, arms)
    own: Array  # (arms, fields)

    def __getitem__(self, name: str) -> Array:
        if one_of("name", name, kernel.SPREAD + kernel.OWN) in kernel.SPREAD:
            return np.asarray(self.spread[kernel.SPREAD.index(name)])
        return np.asarray(self.own[:, kernel.OWN.index(name)])

    @classmethod
    def empty(cls, arms: Sequence[Any], weights: Any = "sqrt", outcome_model: Any = "running_mean") -> Sums:
        """Return the sums of no rows."""
        n = len(arms)
        spread, own = np.zeros((len(kernel.SPREAD), n)), np.zeros((n, len(kernel.OWN)))
        return cls(tuple(arms), read_weights(weights), read_outcome_model(outcome_model), np.zeros(n), spread, own)

    @classmethod
    def of(
        cls,
        log: Log | SumsSource,
        weights: Any = "sqrt",
        outcome_model: Any = "running_mean",
        history: Log | Sequence[Log] = (),
        plain: bool = True,
    ) -> Sums:
        """Return the sums of a log's rows.

        Parameters
        ----------
        log : Log, or what `read` gives
        weights, outcome_model
            A name, an object, an array or a function; see `Weights` and `OutcomeModel`.
        history : Log or sequence of Log
            Other parts of the same experiment, whose arrived outcomes the running mean may see
            but whose rows are not counted here. With it the parts' sums add up to those of the
            whole log; without it each part's running mean knows only its own rows, which is
            valid too but another estimate.
        plain : bool
            Whether to make the sums that only estimators that are not of Hajek's kind need.
        """
        model = read_outcome_model(outcome_model)
        if isinstance(log, SumsSource):
            if history:
                raise OptionError("`history` goes with a Log in memory; `log()` brings a table into it.")
            return log.sums([(weights, model)], plain=plain)[0][-1]
        log, history = a_log(log), [history] if isinstance(history, Log) else history
        if history and model.name == "running_mean":
            means = _means_with_history(log, history)
            return replace(cls.of(log, weights, means, plain=plain), outcome_model=model)
        return cls.at_moments(log, np.array([log.schedule.rows]), _NO_BINS, weights, model, plain)[-1]

    @classmethod
    def at(cls, log: Log | SumsSource, moments: Array, weights: Any, outcome_model: Any, plain: bool) -> list[Sums]:
        """Return the sums as of several moments, ascending numbers of the log's clock."""
        if isinstance(log, SumsSource):
            return log.sums([(weights, outcome_model)], moments, plain)[0]
        log = log.at_number(moments[-1])
        return cls.at_moments(log, *log.divide(moments), weights, outcome_model, plain)

    @classmethod
    def at_moments(
        cls, log: Log, edges: Array, bins: Array, weights: Any, outcome_model: Any, plain: bool = True
    ) -> list[Sums]:
        """Return the sums at several moments, in one pass.

        `edges` counts, for each moment, the rows assigned by then; `bins` says, for each row, at
        which moment its outcome first counts. Without `plain`, the sums that only estimators that
        are not of Hajek's kind read are left out, as NaN, to save time.
        """
        h, model = read_weights(weights), read_outcome_model(outcome_model)
        h.check(log.has_all_propensities)
        n, schedule, full = len(log.arms), log.schedule, log.has_all_propensities
        rows = schedule.rows
        jit.ready(rows * (n + 8))
        shift = log.anchor
        propensity = log.propensity_matrix
        given_weights, given_model = h.array(log), model.array(log)
        horizon, calendar = h.planned_rows(rows), model.name == "running_mean"
        last = np.full(rows if calendar else 0, -1, dtype=schedule.due.dtype)
        previous = np.empty(len(log.code) if calendar else 0, dtype=schedule.due.dtype)

        def add(start: int, stop: int) -> tuple[Array, Array]:
            spread = np.zeros((len(edges), len(kernel.SPREAD), n))
            own = np.zeros((len(edges), n, len(kernel.OWN)))
            kernel.accumulate(
                spread, own, log.code, log.outcome, propensity, full, schedule.due, schedule.order, start, stop,
                last, previous, edges.astype(np.int64), bins, shift,
                h.kind, given_weights, horizon, h.decay, np.ones(n), 0.0,
                model.kind, given_model, np.zeros(n), np.zeros(n), plain, np.empty((0, n)), np.empty(0),
            )  # fmt: skip
            return spread, own

        parts = jit.in_stretches(rows, add, divisible=h.name != "two_point")
        largest = np.max([part[:, :, kernel.W_MAX] for _, part in parts], axis=0)
        spread, own = parts[0]
        for more_spread, more_own in parts[1:]:
            spread, own = spread + more_spread, own + more_own
        own[:, :, kernel.W_MAX] = largest
        return cls.of_bins(log.arms, h, model, shift, spread, own, full, plain)

    @classmethod
    def of_bins(
        cls,
        arms: tuple[Any, ...],
        weights: Weights,
        outcome_model: OutcomeModel,
        shift: Array,
        spread: Array,
        own: Array,
        full: bool,
        plain: bool,
    ) -> list[Sums]:
        """Return the sums up to each of several moments from what was added between them.

        `spread` (bins, fields, arms) and `own` (bins, arms, fields) are as `kernels.rows.accumulate` makes
        them; `full` says whether every arm's propensity was known.
        """
        complete(spread, outcome_model, shift, full or not weights.need_all_propensities)
        if not plain:
            spread[:, [kernel.H2, kernel.H2M, kernel.H2M2, kernel.H_ARRIVED]] = math.nan
            own[:, :, [kernel.HWR, kernel.HWRM, kernel.W2R2]] = math.nan
        spread = np.cumsum(spread, axis=0)
        own[:, :, : kernel.W_MAX] = np.cumsum(own[:, :, : kernel.W_MAX], axis=0)
        own[:, :, kernel.W_MAX] = np.maximum.accumulate(own[:, :, kernel.W_MAX], axis=0)
        return [cls(arms, weights, outcome_model, shift, spread[b], own[b]) for b in range(len(spread))]

    def recentred(self, shift: Array) -> Sums:
        """Return the same sums about another shift: exact algebra, section by section of the powers."""
        d = self.shift - shift
        spread, own = self.spread.copy(), self.own.copy()
        k = kernel
        own[:, k.Y3] += 3 * d * own[:, k.Y2] + 3 * d**2 * own[:, k.Y] + d**3 * own[:, k.ARRIVED]
        for second, first, zeroth in ((k.Y2, k.Y, k.ARRIVED), (k.W2Y2, k.W2Y, k.W2), (k.W3Y2, k.W3Y, k.W3)):
            own[:, second] += 2 * d * own[:, first] + d**2 * own[:, zeroth]
            own[:, first] += d * own[:, zeroth]
        for first, zeroth in ((k.WY, k.W), (k.WM, k.W), (k.HWRM, k.HWR)):
            own[:, first] += d * own[:, zeroth]
        spread[k.H2M2] += 2 * d * spread[k.H2M] + d**2 * spread[k.H2]
        spread[k.H2M] += d * spread[k.H2]
        spread[k.HM] += d * spread[k.H]
        return replace(self, shift=np.array(shift, dtype=np.float64), spread=spread, own=own)

    def __add__(self, other: Sums) -> Sums:
        if not isinstance(other, Sums):
            return NotImplemented
        for name in ("arms", "weights", "outcome_model"):
            a, b = getattr(self, name), getattr(other, name)
            if a != b:
                kinds = [getattr(x, "name", x) for x in (a, b)]
                raise MergeError(f"These sums cannot be merged: their {name} differ, {kinds[0]!r} and {kinds[1]!r}.")
        if self.weights.name == "two_point":
            raise MergeError(
                "Sums with two-point weights cannot be merged: each row's weight depends on all rows before it."
            )
        # the shift is an outcome that weighs much, as in `Log.anchor`
        shift = np.where(self["w_max"] >= other["w_max"], self.shift, other.shift)
        a, b = self.recentred(shift), other.recentred(shift)
        own = a.own + b.own
        own[:, kernel.W_MAX] = np.maximum(a.own[:, kernel.W_MAX], b.own[:, kernel.W_MAX])
        return replace(a, spread=a.spread + b.spread, own=own)

    def __radd__(self, other: Any) -> Sums:
        return self if other == 0 else NotImplemented  # so that sum(parts) works

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{arm!r}: {int(n)} of {int(m)}"
            for arm, n, m in zip(self.arms, self["arrived"], self["assigned"], strict=True)
        )
        return f"Sums(weights={self.weights.name!r}, outcome_model={self.outcome_model.name!r}, arrived {{{counts}}})"


def complete(spread: Array, model: OutcomeModel, shift: Array, known: bool) -> None:
    """Fill in what the kernel leaves out: the sums of a zero model, and those that are not known."""
    if model.name == "zero":
        spread[:, kernel.HM] = -shift * spread[:, kernel.H]
        spread[:, kernel.H2M] = -shift * spread[:, kernel.H2]
        spread[:, kernel.H2M2] = shift**2 * spread[:, kernel.H2]
    if not known:
        spread[:] = math.nan


def _means_with_history(log: Log, history: Sequence[Log]) -> Array:
    """Return the running means of `log`'s rows over the arrivals of all parts."""
    whole = log.joined(history)
    schedule = whole.schedule
    means = np.zeros((len(whole.code), len(log.arms)))
    jit.ready(schedule.rows * (len(log.arms) + 8))
    kernel.running_means(means, whole.code, whole.outcome, schedule.due, schedule.order, schedule.rows, whole.anchor)
    return means[: len(log.code)]
