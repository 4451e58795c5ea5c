"""`Sums`: the additive statistics from which every estimate is computed."""

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
from belated.base.text import Unit
from belated.kernels.fields import OWN, OWN_FIELDS, PLAIN_OWN, PLAIN_SPREAD, SPREAD, SPREAD_FIELDS, W_MAX, SumField
from belated.summaries.caps import Cap, cap_text, read_cap
from belated.summaries.maturing import Maturity, Measure, unit_of_events
from belated.summaries.outcome_models import ModelLike, OutcomeModel, read_outcome_model
from belated.summaries.pair_sums import PairSums
from belated.summaries.segments import Segments
from belated.summaries.weights import Weights, WeightsLike, read_weights

if TYPE_CHECKING:
    from belated.log.log import Log

#: Weights and outcome model, each a name, an object, an array or a function.
Parts = tuple[WeightsLike, ModelLike]

#: The place of each field: first the fields over all rows, then those over the rows of each arm.
_PLACES = {name: place for place, name in enumerate(SPREAD + OWN)}


class Summable(Protocol):
    """A log that can compute sums of its rows, in memory or in a table."""

    def sums(
        self, parts: Sequence[Parts], moments: Array | None = None, *, plain: bool = True, history: Sequence[Log] = ()
    ) -> list[list[Sums]]:
        """Return the sums for each pair of weights and outcome model, at each time; None is the log's as-of time."""
        ...


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums per arm that can be updated, merged, stored and computed anywhere; all estimates follow from them.

    The arm's `shift` is subtracted from outcomes and model, so that a mean of 1e8 with a standard
    deviation of 1 loses no digits; estimates do not depend on the shift. With h the weight, pi the
    propensity, w = h / pi, y the outcome and m the model (both minus the shift), and r = y - m,
    ``sums[name]`` is one value per arm:

    over every row: ``h``, ``h2``, ``h2m``, ``h2m2``; over rows with a model (for the running mean, rows
    after the arm's first arrival): ``h_modelled``, ``hm``; ``h_arrived`` over rows of any
    arm whose outcome has arrived (NaN if other arms' propensities are needed and unknown);

    over the arm's own rows: ``assigned`` and ``arrived`` (counts);

    over the arm's arrived rows: ``nonbinary`` (the sum of abs(Y (1 - Y)), 0 if every outcome is 0 or 1), ``y``, ``y2``,
    ``y3``, ``y4``, ``w``, ``wy``, ``w2``, ``w2y``, ``w2y2``, ``w3``, ``w3y``, ``w3y2``, ``hwr``, ``hwrm``, ``r``,
    ``r2``, ``r3``, ``r4``, ``w2r``, ``w2r2``, ``w3r``, ``w3r2``, and ``w_max``, the largest w; over arrived rows with a
    model ``w_modelled``, ``wm``.

    ``a + b`` merges the sums of two disjoint sets of rows. If outcomes were capped, `cap` has the cap and the number of
    outcomes above it, by arm. If rows have segments or covariates, `segments` has the same sums by segment and arm. If
    outcomes are events whose windows may still be open, `maturing` says how much of their windows the rows have
    reached.
    """

    arms: tuple[Label, ...]
    weights: Weights
    outcome_model: OutcomeModel
    shift: Array
    spread: Array  # (fields, arms)
    own: Array  # (arms, fields)
    cap: Cap | None = None
    pairs: PairSums | None = None  # of a given outcome model
    segments: Segments | None = None  # the sums by segment, if rows have segments or covariates
    maturing: Maturity | None = None  # of events whose windows may still be open

    def __getitem__(self, name: str) -> Array:
        if name not in _PLACES:
            one_of("name", name, SPREAD + OWN)
        place = _PLACES[name]
        return np.asarray(self.spread[place] if place < len(SPREAD) else self.own[:, place - len(SPREAD)])

    @property
    def unit(self) -> Unit:
        """The unit of a mean for display: "percent" if every arrived outcome is 0 or 1, and both have arrived.

        If only 0, or only 1, has arrived, outcomes may be amounts, unless the outcome is whether an event happened.
        """
        if self.maturing is not None:
            return unit_of_events(self.maturing.measure)
        ones = float(np.sum(self["y"] + self.shift * self["arrived"]))
        both = 0.5 < ones < self["arrived"].sum() - 0.5
        return "percent" if both and (self["nonbinary"] == 0).all() else "number"

    def unit_of(self, measure: Measure | None) -> Unit:
        """Return the unit of a mean for display; it does not depend on the outcomes so far if they are of events."""
        return self.unit if measure is None else unit_of_events(measure)

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
        log : Log or Source
            A log in memory, or a table from `read`.
        weights, outcome_model
            A name, an object, an array or a function; see `Weights` and `OutcomeModel`.
        history : Log or sequence of Log
            Other parts of the same experiment. The running mean uses their arrived outcomes, but their rows are not
            counted here. With `history`, the sums of the parts add up to those of the whole log. Without it, the
            running mean of each part uses its own rows only, which is also valid but gives another estimate.
            Each part merges the segments that have few outcomes in it, so the sums of parts with such segments are
            those of other segments than the whole log has: valid, but often with wider intervals.
        plain : bool
            Whether to include the sums that only some estimators need: those not of Hajek type, or with a given
            outcome model.
        """
        if not callable(getattr(log, "sums", None)):
            raise OptionError(f"`log` is of type {type(log).__name__}; it must be a Log, or a table from `read`.")
        others = history if isinstance(history, Sequence) else [history]
        return log.sums([(weights, outcome_model)], plain=plain, history=others)[0][-1]

    @classmethod
    def of_bins(cls, about: SumsOf, shift: Array, spread: Array, own: Array) -> list[Sums]:
        """Return the sums up to each of several times from the amounts added between them.

        `spread` (bins, fields, arms) and `own` (bins, arms, fields) are results of `kernels.rows.accumulate`.
        """
        complete(spread, about.outcome_model, shift, about.full or not about.weights.need_all_propensities)
        if not about.plain:
            spread[:, PLAIN_SPREAD] = math.nan
            own[:, :, PLAIN_OWN] = math.nan
        spread = np.cumsum(spread, axis=0)
        own[:, :, :W_MAX] = np.cumsum(own[:, :, :W_MAX], axis=0)
        own[:, :, W_MAX] = np.maximum.accumulate(own[:, :, W_MAX], axis=0)
        return [
            cls(
                arms=about.arms, weights=about.weights, outcome_model=about.outcome_model, shift=shift,
                spread=spread[b], own=own[b],
            )
            for b in range(len(spread))
        ]  # fmt: skip

    def recentred(self, shift: Array) -> Sums:
        """Return the same sums about another shift, computed exactly from the powers of `kernels.fields`.

        Sums by segment have shifts of their own, which stay.
        """
        d = self.shift - shift
        spread, own = self.spread.copy(), self.own.copy()
        for field, source, factor, power in _shifts(SPREAD_FIELDS):
            spread[field] += factor * d**power * self.spread[source]
        for field, source, factor, power in _shifts(OWN_FIELDS):
            own[:, field] += factor * d**power * self.own[:, source]
        pairs = None if self.pairs is None else self.pairs.recentred(d)
        return replace(self, shift=np.array(shift, dtype=np.float64), spread=spread, own=own, pairs=pairs)

    def arriving(self, chance: Array) -> Sums:
        """Return the sums with each arm's w divided by `chance`, the probability that its outcomes arrive."""
        own = self.own.copy()
        for at, field in enumerate(OWN_FIELDS):
            own[:, at] /= chance**field.w
        return replace(self, own=own)

    def __add__(self, other: Sums) -> Sums:
        if not isinstance(other, Sums):
            return NotImplemented
        self._check_alike(other)
        if self.segments is not None and other.segments is not None:
            return (self.segments + other.segments).total()
        # the shift is an outcome with a large weight, as in `Log.anchor`
        shift = np.where(self["w_max"] >= other["w_max"], self.shift, other.shift)
        first, second = self.recentred(shift), other.recentred(shift)
        cap = None if self.cap is None or other.cap is None else self.cap + other.cap
        pairs = None if first.pairs is None or second.pairs is None else first.pairs + second.pairs
        own = add_own(first.own, second.own)
        return replace(first, spread=first.spread + second.spread, own=own, cap=cap, pairs=pairs)

    def _check_alike(self, other: Sums) -> None:
        """Raise if sums are of different kinds."""
        if self.maturing is not None or other.maturing is not None:
            raise MergeError("Sums of events whose windows are open cannot be merged; merge the logs instead.")
        if (self.segments is None) != (other.segments is None):
            raise MergeError("These sums cannot be merged: only one of them has segments or covariates.")
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
                f"Sums with weights {self.weights.name!r} cannot be merged, because each row's weight depends on all "
                "rows before it."
            )

    def __radd__(self, other: object) -> Sums:
        return self if other == 0 else NotImplemented  # so that sum(parts) works

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{arm!r}: {int(n)} of {int(m)}"
            for arm, n, m in zip(self.arms, self["arrived"], self["assigned"], strict=True)
        )
        return f"Sums(weights={self.weights.name!r}, outcome_model={self.outcome_model.name!r}, arrived {{{counts}}})"


def with_cap(sums: list[list[Sums]], cap: float | None, above: Array) -> list[list[Sums]]:
    """Return the sums, for each choice and time, with the cap and the counts of outcomes above it.

    `above` has shape (times, arms), or (times, cells) for sums by segment.
    """
    if cap is None:
        return sums
    return [[_capped(s, cap, counts) for s, counts in zip(each, above, strict=True)] for each in sums]


def _capped(sums: Sums, cap: float, above: Array) -> Sums:
    if sums.segments is None:
        return replace(sums, cap=Cap(cap, above))
    return replace(sums.segments, cells=replace(sums.segments.cells, cap=Cap(cap, above))).total()


class SumsOf(NamedTuple):
    """How sums are computed: arms, weights, outcome model, and which fields are possible and wanted."""

    arms: tuple[Label, ...]
    weights: Weights
    outcome_model: OutcomeModel
    full: bool  # whether every arm's propensity is known
    plain: bool  # whether to include fields that Hajek-type estimators without a given model do not need


def empty_bins(bins: int, arms: int) -> tuple[Array, Array]:
    """Return arrays of zeros to add rows to: `spread` (bins, fields, arms) and `own` (bins, arms, fields)."""
    return np.zeros((bins, len(SPREAD), arms)), np.zeros((bins, arms, len(OWN)))


def add_own(a: Array, b: Array) -> Array:
    """Merge the sums of two sets of rows: sums add, and the larger of the largest weights is kept."""
    own = np.asarray(a + b)
    own[..., W_MAX] = np.maximum(a[..., W_MAX], b[..., W_MAX])
    return own


def complete(spread: Array, model: OutcomeModel, shift: Array, known: bool) -> None:
    """Fill in fields that the kernel does not compute: sums of a zero model, and unknown ones."""
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
def _shifts(fields: tuple[SumField, ...]) -> list[tuple[int, int, int, int]]:
    """Return the terms that recentring by d adds: target field, source field, factor, and power of d.

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
