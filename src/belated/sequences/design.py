"""What a confidence sequence is, fixed before any outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from belated.base.checks import fraction, positive, real, whole
from belated.base.columns import Array
from belated.base.errors import OptionError
from belated.estimation.pairs import default_pairs
from belated.kernels import arrivals as kernel
from belated.log.log import arm_index

KINDS = ("auto", "asymptotic", "sub_gaussian", "bernstein", "beta_binomial")

#: The share of a target's rows whose outcomes are expected to arrive; widths hardly depend on it.
_SHARE = 0.6

#: Arms up to which all pairs are followed from arrival to arrival; of more, those with a baseline, the rest by looks.
MANY = 32

#: Sizes of the beta-binomial priors relative to the first, and their weights.
_PRIORS = (1.0, 1 / 12, 1 / 150)
_PRIOR_WEIGHTS = (0.85, 0.1, 0.05)


@dataclass(frozen=True, eq=False)
class Design:
    """What a sequence is, fixed before any outcome."""

    kind: str
    arms: tuple[Any, ...]
    level: float
    target: int
    sigma: float | None
    bounds: tuple[float, float] | None
    baseline: int | None
    null: Array
    plan: Array

    @property
    def code(self) -> int:
        """The kind as kernels number it."""
        return KINDS.index(self.kind) - 1

    @property
    def n_contrasts(self) -> int:
        """How many contrasts hold together."""
        k = len(self.arms)
        return k - 1 if self.baseline is not None else k * (k - 1) // 2

    @cached_property
    def questions(self) -> Array:
        """What is judged at every arrival: each arm and -1, then the pairs that are followed."""
        arms = range(len(self.arms))
        followed = self.baseline is not None or len(arms) <= MANY
        pairs = default_pairs(arms, self.baseline) if followed else []
        return np.array([*((a, -1) for a in arms), *pairs], dtype=np.int64)

    @cached_property
    def _where(self) -> dict[frozenset[int], int]:
        return {frozenset(map(int, question)): q for q, question in enumerate(self.questions)}

    def question(self, a: int, b: int | None) -> int | None:
        """Return the place in `questions` of an arm, or of two arms' contrast; None: it is not followed."""
        return self._where.get(frozenset((a, -1 if b is None else b)))

    def threshold(self, together: int = 1) -> float:
        """Return log(1 / alpha) for one of several questions."""
        return math.log(together / (1 - self.level))


def plan_design(
    kind: str,
    arms: tuple[Any, ...],
    level: float,
    target: Any,
    n_rows: int,
    sigma: Any,
    bounds: tuple[float, float] | None,
    baseline: Any,
    null: Any,
) -> Design:
    """Return the design that `sequence` was asked for."""
    k, alpha = len(arms), 1 - fraction("level", level)
    rows_ahead = max(n_rows, 1) if target is None else whole("target", target, least=1)
    base = None if baseline is None else arm_index(arms, baseline)
    if kind == "bernstein" and bounds is None:
        raise OptionError("`kind` is 'bernstein', which needs the `bounds` of the outcomes, such as (0, 1).")
    scale = None if sigma is None else positive("sigma", sigma)
    if kind == "sub_gaussian" and scale is None:
        if bounds is None:
            raise OptionError("`kind` is 'sub_gaussian', which needs `sigma`, or `bounds` of the outcomes.")
        scale = (bounds[1] - bounds[0]) / 2
    if kind == "beta_binomial":
        bounds = (0.0, 1.0)
    if isinstance(null, Mapping):
        tested = np.zeros(k)
        for arm, value in null.items():
            tested[arm_index(arms, arm)] = real(f"null[{arm!r}]", value)
    else:
        tested = np.full(k, real("null", null))
    planned = _SHARE * rows_ahead
    # the mixture that is narrowest when V = planned: r^2 = (V + eta) (2 log(1/alpha) + log(1 + V/eta)) is least there
    ratio = -1 - float(special.lambertw(-(alpha**2) / math.e, -1).real)
    plan = np.zeros(kernel.PLAN)
    plan[kernel.ETA] = planned / ratio
    plan[kernel.SIGMA] = 0.0 if scale is None else scale
    plan[kernel.BET] = math.sqrt(2 * math.log(2 / alpha) / planned)
    plan[kernel.BOTTOM], plan[kernel.RANGE] = (0.0, 1.0) if bounds is None else (bounds[0], bounds[1] - bounds[0])
    made = Design(kind, arms, level, rows_ahead, scale, bounds, base, tested, plan)
    plan[kernel.LEVELS : kernel.LEVELS + 3] = [made.threshold(m) for m in (1, k, max(made.n_contrasts, 1))]
    # an arm's arrivals are not known in advance: fewer than all of them, and far fewer if it is hardly chosen
    sizes = planned / math.sqrt(k) / ratio * np.array(_PRIORS)
    plan[kernel.PRIORS :] = [*sizes, *np.log(_PRIOR_WEIGHTS)]
    return made


def read_bounds(bounds: Any) -> tuple[float, float] | None:
    """Return the bounds of outcomes, if any are given."""
    if bounds is None:
        return None
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise OptionError(f"`bounds` is {bounds!r}; it must be two numbers, such as (0, 1).") from None
    low, high = real("bounds[0]", low), real("bounds[1]", high)
    if not low < high:
        raise OptionError(f"`bounds` is {bounds!r}; the first must be below the second.")
    return low, high
