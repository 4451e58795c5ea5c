"""`View`: the estimators, targets, intervals and level that a study shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from belated.base.checks import fraction, one_of
from belated.base.columns import ByArm, Label
from belated.base.errors import OptionError
from belated.estimation.estimators import ESTIMATORS, EstimatorName
from belated.estimation.intervals import INTERVALS, Interval, check_interval
from belated.estimation.target import Target, read_target
from belated.simulation.bandits import Bandit

#: A target as users give it: an arm, a pair of arms, coefficients by arm, or a `Target`.
TargetLike = Label | Sequence[Label] | ByArm[float]

T = TypeVar("T")


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
        bandit: Bandit,
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


def default_targets(bandit: Bandit) -> list[Target]:
    """Return every arm, and every contrast with the first arm, as targets."""
    first, *others = arms = tuple(bandit.arms)
    return [*(Target.arm(arms, arm) for arm in arms), *(Target.contrast(arms, arm, first) for arm in others)]


def read_known_target(bandit: Bandit, given: TargetLike, *, option: str = "targets") -> Target:
    """Return a target, or raise if its true value does not exist."""
    target = read_target(tuple(bandit.arms), given, option=option)
    if math.isnan(true_value(bandit, target)):
        raise OptionError(f"`{option}` contains {target.name!r}, but the mean of one of its arms does not exist.")
    return target


def true_value(bandit: Bandit, target: Target) -> float:
    """Return the true value of a target; only arms in it need a mean."""
    used = target.coefficients != 0
    means = np.array([arm.mean for arm in bandit.arms.values()])
    return float(target.coefficients[used] @ means[used])


def is_binary(bandit: Bandit) -> bool:
    """Whether every outcome is 0 or 1."""
    return all(arm.binary for arm in bandit.arms.values())


def read_interval(bandit: Bandit, given: object) -> Interval:
    """Return a kind of interval, or raise if it does not fit the bandit's outcomes."""
    kind = one_of("intervals", given, INTERVALS)
    check_interval(kind, binary=is_binary(bandit), subject="`intervals` contains")
    return kind


def _unique(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def _several(name: str, given: Iterable[T]) -> list[T]:
    """Return a list, or raise if it is not one."""
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise OptionError(f"`{name}` is {given!r}; it must be a list.")
    return list(given)
