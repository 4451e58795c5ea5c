"""`View`: the estimators, targets, intervals and level that a study shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from belated.base.checks import NO_DIFFERENCE, fraction, one_of
from belated.base.columns import Array, Label
from belated.base.errors import OptionError
from belated.base.text import one_line, shown
from belated.estimation.by_segment import is_by_segment, policy_by_segment
from belated.estimation.estimators import ESTIMATORS, EstimatorName
from belated.estimation.intervals import INTERVALS, Interval, check_interval
from belated.estimation.target import Target, read_target
from belated.simulation.contextual import AnyBandit
from belated.summaries.segments import segment_index

#: A target as users give it: an arm, a pair of arms, coefficients by arm, a policy by segment, or a `Target`. Type
#: checkers take any Sequence or Mapping for hashable, and so for a label; list and dict are not, and have to be named.
TargetLike = Label | list[Any] | dict[Any, Any]

T = TypeVar("T")


@dataclass(frozen=True)
class InSegment:
    """A target in one segment of a contextual bandit."""

    segment: Label
    target: TargetLike


def in_segment(segment: Label, target: TargetLike) -> InSegment:
    """Return a target of `study` and `plan` in one segment, such as ``in_segment("DE", ("B", "A"))``.

    Parameters
    ----------
    segment
        The label of a segment of a `ContextualBandit`.
    target
        An arm, a pair (arm, baseline), or a mapping from arms to coefficients.
    """
    return InSegment(segment, target)


@dataclass(frozen=True)
class View:
    """The estimators, targets, intervals and level of the table of a study.

    Attributes
    ----------
    estimators : tuple of str
    targets : tuple of Target
    intervals : tuple of str
    level : float
    """

    estimators: tuple[EstimatorName, ...]
    targets: tuple[Target, ...]
    intervals: tuple[Interval, ...]
    level: float

    @classmethod
    def read(
        cls,
        bandit: AnyBandit,
        *,
        estimators: Iterable[EstimatorName],
        targets: Iterable[TargetLike] | None,
        intervals: Iterable[Interval],
        level: float,
    ) -> View:
        """Return a view from options; by default, targets are every arm and every contrast with the first arm."""
        asked = default_targets(bandit) if targets is None else _several("targets", targets)
        view = cls(
            estimators=_unique(one_of("estimators", name, ESTIMATORS) for name in _several("estimators", estimators)),
            targets=_unique(read_known_target(bandit, target) for target in asked),
            intervals=_unique(read_interval(bandit, kind) for kind in _several("intervals", intervals)),
            level=fraction("level", level),
        )
        if not (view.estimators and view.targets and view.intervals):
            raise OptionError("A study needs at least one estimator, one target and one interval.")
        return view


def default_targets(bandit: AnyBandit) -> list[Target]:
    """Return every arm, and every contrast with the first arm, as targets."""
    first, *others = arms = tuple(bandit.arms)
    return [*(Target.arm(arms, arm) for arm in arms), *(Target.contrast(arms, arm, first) for arm in others)]


def read_known_target(bandit: AnyBandit, given: TargetLike, *, option: str = "targets") -> Target:
    """Return a target, or raise if its true value does not exist."""
    target = _read(bandit, given, option)
    if math.isnan(true_value(bandit, target)):
        raise OptionError(f"`{option}` contains {target.name!r}, but the mean of one of its arms does not exist.")
    return target


def _read(bandit: AnyBandit, given: TargetLike, option: str) -> Target:
    arms, segments = tuple(bandit.arms), bandit.labels
    if isinstance(given, InSegment):
        if not segments:
            raise OptionError(f"`{option}` contains {given!r}, but the bandit has no segments.")
        segment = segments[segment_index(segments, given.segment)]
        inner = read_target(arms, given.target, option=option)
        return Target(f"{inner.name} in {one_line(segment, 24)}", inner.coefficients, segment=segment)
    if isinstance(given, Mapping) and is_by_segment(given, segments, arms):
        return policy_by_segment(arms, segments, given)
    return read_target(arms, given, option=option)


def true_value(bandit: AnyBandit, target: Target) -> float:
    """Return the true value of a target; only arms in it need a mean."""
    weights, means = cell_weights(bandit, target), bandit.mean_matrix
    return float(weights[weights != 0] @ means[weights != 0])


def true_distance(bandit: AnyBandit, target: Target, null: float) -> float:
    """Return how far the true value of a target is above the null; 0 if no further than rounding takes it."""
    weights = cell_weights(bandit, target)
    terms = (weights * bandit.mean_matrix)[weights != 0]
    distance = true_value(bandit, target) - null
    return 0.0 if abs(distance) <= NO_DIFFERENCE * (abs(null) + float(np.abs(terms).sum())) else distance


def cell_weights(bandit: AnyBandit, target: Target) -> Array:
    """Return the coefficients of the means of each segment and arm in a target, (segments, arms)."""
    shares = bandit.mix
    if bandit.labels and target.segment is not None:
        shares = (np.arange(len(shares)) == bandit.labels.index(target.segment)).astype(np.float64)
    return np.asarray(shares[:, np.newaxis] * target.coefficients)


def is_binary(bandit: AnyBandit) -> bool:
    """Whether every outcome is 0 or 1."""
    return all(arm.binary for arm in bandit.cell_arms)


def read_interval(bandit: AnyBandit, given: object) -> Interval:
    """Return a kind of interval, or raise if it does not fit the bandit's outcomes."""
    kind = one_of("intervals", given, INTERVALS)
    check_interval(kind, binary=is_binary(bandit), subject="`intervals` contains")
    return kind


def _unique(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def _several(name: str, given: Iterable[T]) -> list[T]:
    """Return a list, or raise if it is not one."""
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise OptionError(f"`{name}` is {shown(given)}; it must be a list.")
    return list(given)
