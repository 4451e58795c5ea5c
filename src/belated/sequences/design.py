"""`Design`: the kind and the parameters of a confidence sequence, fixed before any outcome is seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from belated.base import special
from belated.base.checks import fraction, one_of, positive, real
from belated.base.columns import Array, ByArm, Label
from belated.base.errors import OptionError, argument
from belated.base.text import one_line, shown
from belated.estimation.target import default_pairs
from belated.kernels.sequence_blocks import Hypotheses
from belated.kernels.sequence_bounds import BoundPlan
from belated.log.labels import arm_index

if TYPE_CHECKING:
    from belated.log.events import Events
    from belated.log.log import Log
    from belated.sequences.history import ArrivedRows

#: The kinds of sequences, in the order of their numbers in the kernels.
SequenceKind = Literal["asymptotic", "sub_gaussian", "bernstein", "beta_binomial"]
KINDS: tuple[SequenceKind, ...] = get_args(SequenceKind)

#: The values of the option `kind`.
KindOption = Literal["auto", SequenceKind]
KIND_OPTIONS: tuple[KindOption, ...] = get_args(KindOption)

#: The assumed share of outcomes that arrive; widths hardly depend on it.
_SHARE = 0.6

#: Up to this many arms, all pairs are tested at every arrival; with more arms, only pairs with the baseline are, and
#: the others are tested at the looks.
MANY = 32

#: Sizes of the beta-binomial priors relative to the first, and their weights.
_PRIORS = (1.0, 1 / 12, 1 / 150)
_PRIOR_WEIGHTS = (0.85, 0.1, 0.05)


# ---------------------------------------------------------------- kinds


def resolve_kind(
    option: KindOption,
    log: Log,
    arrivals: ArrivedRows,
    bounds: tuple[float, float] | None,
    sigma: float | None,
) -> tuple[SequenceKind, tuple[float, float] | None]:
    """Return the kind of a log's sequence, and the bounds of outcomes that it uses; raise if there is no such sequence.

    While windows are open, and over segments, sequences use no bounds. Otherwise, "auto" is "bernstein" with a cap;
    without one, it depends on the bounds, on sigma and on the outcomes.
    """
    one_of("kind", option, KIND_OPTIONS)
    if log.events is not None:
        return _maturing_kind(option, log.events, bounds, sigma), None
    if log.segments:
        return _standardised_kind(option, log, arrivals, bounds, sigma), None
    if log.cap is not None and option != "asymptotic":
        return "bernstein" if option == "auto" else option, bounds_with_cap(bounds, log.cap, arrivals)
    return _plain_kind(option, arrivals, bounds, sigma), bounds


def _maturing_kind(
    option: KindOption, events: Events, bounds: tuple[float, float] | None, sigma: float | None
) -> SequenceKind:
    """Return the kind of a sequence while windows are open; raise if there is none of that kind."""
    indicator = events.measure == "indicator"
    useless = bounds is not None and not (indicator and bounds == (0, 1))
    if option in ("bernstein", "sub_gaussian") or useless or sigma is not None:
        raise OptionError(
            "While windows are open, a sequence uses no bounds and no sigma. For one that does, count only rows whose "
            "window has closed: sequence(log.closed(), ...), or --closed-only."
        )
    if option == "beta_binomial" and not indicator:
        raise OptionError(
            f"{argument('kind')} is 'beta_binomial', but the outcome is a {events.measure}, not whether an event "
            "happened; use kind='asymptotic'."
        )
    return "beta_binomial" if indicator and option != "asymptotic" else "asymptotic"


def _standardised_kind(
    option: KindOption, log: Log, arrivals: ArrivedRows, bounds: tuple[float, float] | None, sigma: float | None
) -> SequenceKind:
    """Return the kind of a sequence over segments; raise if there is none of that kind."""
    if option in ("bernstein", "sub_gaussian"):
        raise OptionError(
            f"{argument('kind')} is {option!r}; a sequence over segments is 'asymptotic' or 'beta_binomial'. Choose "
            "one segment with `segment=`."
        )
    merged = one_line(repr(log.segments[-1])) if log.layout.merged else None
    if option == "beta_binomial" and merged is not None:
        raise OptionError(
            f"{argument('kind')} is 'beta_binomial', which is not possible for segment {merged}, in which segments "
            "with different probabilities were merged; use kind='asymptotic'."
        )
    if option == "beta_binomial" and log.arrival_probability is not None:
        raise OptionError(
            f"{argument('kind')} is 'beta_binomial', which is not possible with {argument('arrival_probability')}; use "
            "kind='asymptotic'."
        )
    kind = _plain_kind(option, arrivals, bounds, sigma)
    counts = merged is None and log.arrival_probability is None and log.cap is None
    return "beta_binomial" if kind == "beta_binomial" and counts else "asymptotic"


def _plain_kind(
    option: KindOption, arrivals: ArrivedRows, bounds: tuple[float, float] | None, sigma: float | None
) -> SequenceKind:
    """Return the kind of a sequence, resolving "auto" by the bounds or sigma that are given.

    With bounds (0, 1), or with neither, "auto" is "beta_binomial" if both 0 and 1, and nothing else, have arrived. If
    all outcomes are 0, they may be amounts.
    """
    if option != "auto":
        return option
    if bounds not in (None, (0, 1)):
        return "bernstein"
    if bounds is None and sigma is not None:
        return "sub_gaussian"
    both_arrived = arrivals.outside(0, 0) is not None and arrivals.outside(1, 1) is not None
    if both_arrived and arrivals.outside(0, 1, ends=True) is None:
        return "beta_binomial"
    return "asymptotic" if bounds is None else "bernstein"


def kind_text(kind: SequenceKind) -> str:
    """Return a kind as text for display."""
    return kind.replace("_", "-")


# ---------------------------------------------------------------- designs


@dataclass(frozen=True, eq=False)
class Design:
    """The kind and the parameters of a sequence, fixed before any outcome is seen."""

    kind: SequenceKind
    arms: tuple[Label, ...]
    level: float
    target: int
    sigma: float | None
    bounds: tuple[float, float] | None
    baseline: int | None
    null: Array
    cap: float | None = None

    @property
    def is_binary(self) -> bool:
        """Whether outcomes are 0 or 1, and intervals those of the beta-binomial mixture."""
        return self.kind == "beta_binomial"

    @property
    def n_contrasts(self) -> int:
        """The number of contrasts that are simultaneous."""
        k = len(self.arms)
        return k - 1 if self.baseline is not None else k * (k - 1) // 2

    @cached_property
    def plan(self) -> BoundPlan:
        """The parameters for the kernels."""
        k, alpha, planned = len(self.arms), 1 - self.level, _SHARE * self.target
        # the mixture that is narrowest when V = planned: r^2 = (V + eta) (2 log(1/alpha) + log(1 + V/eta)) is least
        ratio = -1 - float(special.lambertw(-(alpha**2) / math.e, -1).real)
        bottom, top = (0.0, 1.0) if self.bounds is None else self.bounds
        # the number of an arm's arrivals is not known in advance, and small if the arm is hardly chosen
        first, second, third = (planned / math.sqrt(k) / ratio * size for size in _PRIORS)
        heavy, light, lightest = map(math.log, _PRIOR_WEIGHTS)
        return BoundPlan(
            kind=KINDS.index(self.kind),
            eta=planned / ratio,
            sigma=0.0 if self.sigma is None else self.sigma,
            bet=math.sqrt(2 * math.log(2 / alpha) / planned),
            bottom=bottom,
            extent=top - bottom,
            levels=(self.threshold(), self.threshold(k), self.threshold(max(self.n_contrasts, 1))),
            prior_sizes=(first, second, third),
            prior_weights=(heavy, light, lightest),
        )

    @cached_property
    def questions(self) -> Hypotheses:
        """The hypotheses tested at every arrival: each arm, then pairs of arms."""
        arms = range(len(self.arms))
        followed = self.baseline is not None or len(arms) <= MANY
        pairs = default_pairs(arms, self.baseline) if followed else []
        return Hypotheses(arms=np.array([*((a, -1) for a in arms), *pairs], dtype=np.int64), null=self.null)

    @cached_property
    def _pair_places(self) -> dict[frozenset[int], int]:
        return {frozenset(map(int, arms)): q for q, arms in enumerate(self.questions.arms)}

    def pair_question(self, a: int, b: int) -> int | None:
        """Return the position in `questions` of a contrast; None if it is not tested at every arrival."""
        return self._pair_places.get(frozenset((a, b)))

    def allows(self, a: int, b: int | None) -> bool:
        """Whether the bounds of outcomes, if there are any, allow the null value of an arm or a contrast."""
        if self.bounds is None:
            return True
        bottom, top = self.bounds if b is None else (self.bounds[0] - self.bounds[1], self.bounds[1] - self.bounds[0])
        return bottom <= self.null_of(a, b) <= top

    def null_of(self, a: int, b: int | None) -> float:
        """Return the null value of an arm, or of the contrast of two arms."""
        return float(self.null[a] - (0.0 if b is None else self.null[b]))

    def threshold(self, together: int = 1) -> float:
        """Return log(1 / alpha) for one of several simultaneous tests."""
        return math.log(together / (1 - self.level))


# ---------------------------------------------------------------- options


def plan_design(
    kind: SequenceKind,
    arms: tuple[Label, ...],
    *,
    level: float,
    target: int,
    sigma: float | None,
    bounds: tuple[float, float] | None,
    baseline: Label,
    null: float | ByArm[float],
) -> Design:
    """Return the design for the options of `sequence`."""
    fraction("level", level)
    base = None if baseline is None else arm_index(arms, baseline)
    if kind == "bernstein" and bounds is None:
        raise OptionError(
            f"{argument('kind')} is 'bernstein', which needs the {argument('bounds')} of the outcomes, such as (0, 1)."
        )
    scale = None if sigma is None else positive("sigma", sigma)
    if kind == "sub_gaussian" and scale is None:
        if bounds is None:
            raise OptionError(
                f"{argument('kind')} is 'sub_gaussian', which needs `sigma`, or {argument('bounds')} of the outcomes."
            )
        scale = (bounds[1] - bounds[0]) / 2
    return Design(
        kind=kind,
        arms=arms,
        level=level,
        target=target,
        sigma=scale,
        bounds=(0.0, 1.0) if kind == "beta_binomial" else bounds,
        baseline=base,
        null=read_null(null, arms),
    )


def read_null(null: float | ByArm[float], arms: tuple[Label, ...]) -> Array:
    """Return the null value of each arm; 0 for arms that are not named."""
    if not isinstance(null, Mapping):
        return np.full(len(arms), real("null", null))
    tested = np.zeros(len(arms))
    for arm, value in null.items():
        tested[arm_index(arms, arm)] = real(f"null[{arm!r}]", value)
    return tested


def read_bounds(bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return the bounds of outcomes, or None."""
    if bounds is None:
        return None
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise OptionError(f"{argument('bounds')} is {shown(bounds)}; it must be two numbers, such as (0, 1).") from None
    low, high = real("bounds[0]", low), real("bounds[1]", high)
    if not low < high:
        raise OptionError(f"{argument('bounds')} is {shown(bounds)}; the first must be below the second.")
    return low, high


def bounds_with_cap(bounds: tuple[float, float] | None, cap: float, arrivals: ArrivedRows) -> tuple[float, float]:
    """Return the bounds of capped outcomes: from 0, unless others are given."""
    if bounds is not None:
        if cap <= bounds[0]:
            raise OptionError(
                f"{argument('cap')} is {cap:g}; it must be above the lower of the {argument('bounds')}, {bounds[0]:g}."
            )
        return bounds[0], min(bounds[1], cap)
    low = arrivals.outside(0, math.inf)
    if low is not None or cap <= 0:
        what = f"an outcome is {low:g}" if low is not None else f"the cap is {cap:g}"
        raise OptionError(
            f"With {argument('cap')}, outcomes are assumed to be 0 or more, but "
            f"{what}; give both bounds with `bounds=(low, high)`."
        )
    return 0.0, cap
