"""Sums: the additive statistics from which every estimate is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from belated.base.checks import one_of
from belated.base.columns import Array, Label
from belated.base.errors import MergeError, OptionError
from belated.kernels.fields import OWN, OWN_FIELDS, PLAIN_OWN, PLAIN_SPREAD, SPREAD, SPREAD_FIELDS, W_MAX, Field
from belated.summaries.caps import Cap, cap_text, read_cap
from belated.summaries.outcome_models import ModelLike, OutcomeModel, read_outcome_model
from belated.summaries.pair_sums import PairSums
from belated.summaries.weights import Weights, WeightsLike, read_weights

if TYPE_CHECKING:
    from belated.log.log import Log

#: Weights and outcome model: a name, an object, an array or a function each.
Parts = tuple[WeightsLike, ModelLike]


class Summable(Protocol):
    """A log that gives sums of its rows: in memory, or in a table."""

    def sums(
        self, parts: Sequence[Parts], moments: Array | None = None, *, plain: bool = True, history: Sequence[Log] = ()
    ) -> list[list[Sums]]:
        """Return, for each pair of weights and outcome model, the sums at each moment; None: as of its own."""
        ...


@dataclass(frozen=True, eq=False)
class Sums:
    """Per arm, a handful of sums that can be added, updated, merged, stored and computed anywhere.

    Outcomes and model are taken minus the arm's `shift`, so that a mean of 1e8 with a standard
    deviation of 1 loses no digits; any shift gives the same answers. With h the weight, pi the
    propensity, w = h / pi, y the outcome and m the model (both minus the shift), and r = y - m,
    ``sums[name]`` is one value per arm:

    over every row: ``h``, ``h2``, ``h2m``, ``h2m2``; over rows with a model, which the running mean
    is once an outcome of the arm has arrived: ``h_modelled``, ``hm``; ``h_arrived`` over rows of any
    arm whose outcome has arrived (NaN if other arms' propensities are not known and needed);

    over the arm's own rows: ``assigned`` and ``arrived`` (counts);

    over the arm's arrived rows: ``nonbinary`` (the sum of abs(Y (1 - Y)), 0 if every outcome is 0
    or 1), ``y``, ``y2``, ``y3``, ``y4``, ``w``, ``wy``, ``w2``, ``w2y``, ``w2y2``, ``w3``, ``w3y``,
    ``w3y2``, ``hwr``, ``hwrm``, ``r``, ``r2``, ``r3``, ``r4``, ``w2r``, ``w2r2``,
    ``w3r``, ``w3r2``, and ``w_max``, the largest w; of those with a model ``w_modelled``, ``wm``.

    ``a + b`` merges the sums of two disjoint sets of rows. If outcomes were cut, `cap` says at what, and how many of
    each arm.
    """

    arms: tuple[Label, ...]
    weights: Weights
    outcome_model: OutcomeModel
    shift: Array
    spread: Array  # (fields, arms)
    own: Array  # (arms, fields)
    cap: Cap | None = None
    pairs: PairSums | None = None  # of a given outcome model

    def __getitem__(self, name: str) -> Array:
        if one_of("name", name, SPREAD + OWN) in SPREAD:
            return np.asarray(self.spread[SPREAD.index(name)])
        return np.asarray(self.own[:, OWN.index(name)])

    @classmethod
    def empty(
        cls,
        arms: Sequence[Label],
        weights: WeightsLike = "sqrt",
        outcome_model: ModelLike = "running_mean",
        cap: float | None = None,
    ) -> Sums:
        """Return the sums of no rows."""
        spread, own = empty_bins(1, len(arms))
        return cls(
            arms=tuple(arms),
            weights=read_weights(weights),
            outcome_model=read_outcome_model(outcome_model),
            shift=np.zeros(len(arms)),
            spread=spread[0],
            own=own[0],
            cap=None if cap is None else Cap(read_cap(cap), np.zeros(len(arms))),
        )

    @classmethod
    def of(
        cls,
        log: Summable,
        weights: WeightsLike = "sqrt",
        outcome_model: ModelLike = "running_mean",
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
            Whether to make the sums that only estimators that are not of Hajek's kind, or have a given outcome model,
            need.
        """
        if not callable(getattr(log, "sums", None)):
            raise OptionError(f"`log` is a {type(log).__name__}; it must be a Log, or what `read` gives.")
        others = history if isinstance(history, Sequence) else [history]
        return log.sums([(weights, outcome_model)], plain=plain, history=others)[0][-1]

    @classmethod
    def of_bins(cls, about: SumsOf, shift: Array, spread: Array, own: Array) -> list[Sums]:
        """Return the sums up to each of several moments from what was added between them.

        `spread` (bins, fields, arms) and `own` (bins, arms, fields) are as `kernels.rows.accumulate` makes them.
        """
        complete(spread, about.outcome_model, shift, about.full or not about.weights.need_all_propensities)
        if not about.plain:
            spread[:, PLAIN_SPREAD] = math.nan
            own[:, :, PLAIN_OWN] = math.nan
        spread = np.cumsum(spread, axis=0)
        own[:, :, :W_MAX] = np.cumsum(own[:, :, :W_MAX], axis=0)
        own[:, :, W_MAX] = np.maximum.accumulate(own[:, :, W_MAX], axis=0)
        return [
            cls(about.arms, about.weights, about.outcome_model, shift, spread[b], own[b]) for b in range(len(spread))
        ]

    def recentred(self, shift: Array) -> Sums:
        """Return the same sums about another shift: exact algebra, by the powers of `kernels.fields`."""
        d = self.shift - shift
        spread, own = self.spread.copy(), self.own.copy()
        for field, source, factor, power in _shifts(SPREAD_FIELDS):
            spread[field] += factor * d**power * self.spread[source]
        for field, source, factor, power in _shifts(OWN_FIELDS):
            own[:, field] += factor * d**power * self.own[:, source]
        pairs = None if self.pairs is None else self.pairs.recentred(d)
        return replace(self, shift=np.array(shift, dtype=np.float64), spread=spread, own=own, pairs=pairs)

    def __add__(self, other: Sums) -> Sums:
        if not isinstance(other, Sums):
            return NotImplemented
        for name in ("arms", "weights", "outcome_model"):
            a, b = getattr(self, name), getattr(other, name)
            if a != b:
                kinds = [getattr(x, "name", x) for x in (a, b)]
                raise MergeError(f"These sums cannot be merged: their {name} differ, {kinds[0]!r} and {kinds[1]!r}.")
        caps = ["none" if sums.cap is None else cap_text(sums.cap.value) for sums in (self, other)]
        if caps[0] != caps[1]:
            raise MergeError(f"These sums cannot be merged: their caps differ, {caps[0]} and {caps[1]}.")
        if self.weights.cumulative:
            raise MergeError(
                "Sums with two-point weights cannot be merged: each row's weight depends on all rows before it."
            )
        # the shift is an outcome that weighs much, as in `Log.anchor`
        shift = np.where(self["w_max"] >= other["w_max"], self.shift, other.shift)
        first, second = self.recentred(shift), other.recentred(shift)
        cap = None if self.cap is None or other.cap is None else self.cap + other.cap
        pairs = None if first.pairs is None or second.pairs is None else first.pairs + second.pairs
        own = add_own(first.own, second.own)
        return replace(first, spread=first.spread + second.spread, own=own, cap=cap, pairs=pairs)

    def __radd__(self, other: object) -> Sums:
        return self if other == 0 else NotImplemented  # so that sum(parts) works

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{arm!r}: {int(n)} of {int(m)}"
            for arm, n, m in zip(self.arms, self["arrived"], self["assigned"], strict=True)
        )
        return f"Sums(weights={self.weights.name!r}, outcome_model={self.outcome_model.name!r}, arrived {{{counts}}})"


def with_cap(sums: list[list[Sums]], cap: float | None, above: Array) -> list[list[Sums]]:
    """Return sums, for each of several choices at each moment, that know at what their outcomes were cut.

    `above` (moments, arms) counts those that were above.
    """
    if cap is None:
        return sums
    return [[replace(s, cap=Cap(cap, counts)) for s, counts in zip(each, above, strict=True)] for each in sums]


class SumsOf(NamedTuple):
    """What sums are made of: the arms, the choices, and which fields can be and are wanted."""

    arms: tuple[Label, ...]
    weights: Weights
    outcome_model: OutcomeModel
    full: bool  # whether every arm's propensity is known
    plain: bool  # whether the fields that estimators of Hajek's kind without a given model do not read are wanted


def empty_bins(bins: int, arms: int) -> tuple[Array, Array]:
    """Return what rows are added to: `spread` (bins, fields, arms) and `own` (bins, arms, fields), all 0."""
    return np.zeros((bins, len(SPREAD), arms)), np.zeros((bins, arms, len(OWN)))


def add_own(a: Array, b: Array) -> Array:
    """Return what two sets of rows come to together: sums add, the largest weight is the larger one."""
    own = np.asarray(a + b)
    own[..., W_MAX] = np.maximum(a[..., W_MAX], b[..., W_MAX])
    return own


def complete(spread: Array, model: OutcomeModel, shift: Array, known: bool) -> None:
    """Fill in what the kernel leaves out: the sums of a zero model, and those that are not known."""
    if model.name == "zero":
        places = {field: i for i, field in enumerate(SPREAD_FIELDS)}
        for i, field in enumerate(SPREAD_FIELDS):
            if field.m and field.over == "all":
                without = next(
                    j for other, j in places.items() if (other.over, other.h, other.m) == ("all", field.h, 0)
                )
                spread[:, i] = (-shift) ** field.m * spread[:, without]
    if not known:
        spread[:] = math.nan


@cache
def _shifts(fields: tuple[Field, ...]) -> list[tuple[int, int, int, int]]:
    """Return what recentring by d adds: to which field, how many times which other, times which power of d.

    With y + d for y and m + d for m, y^c m^e becomes the sum over i <= c, j <= e of
    binomial(c, i) binomial(e, j) d^(c + e - i - j) y^i m^j.
    """
    places = {
        (field.over, field.h, field.w, field.y, field.m, field.r): i
        for i, field in enumerate(fields)
        if field.monomial and not field.largest
    }
    added = []
    for place, field in enumerate(fields):
        if not field.monomial or field.largest:
            continue
        for i, j in product(range(field.y + 1), range(field.m + 1)):
            power = field.y + field.m - i - j
            if power:
                source = places[field.over, field.h, field.w, i, j, field.r]
                added.append((place, source, math.comb(field.y, i) * math.comb(field.m, j), power))
    return added
