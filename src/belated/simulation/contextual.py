"""`ContextualBandit`: arms whose outcomes and delays differ by segment and depend on covariates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeGuard

import numpy as np

from belated.base.checks import are_shares, real
from belated.base.columns import Array, ByArm, Label, is_missing
from belated.base.errors import OptionError
from belated.base.text import shown
from belated.simulation.arms import Arm
from belated.simulation.bandits import Bandit
from belated.simulation.delays import Delay
from belated.summaries.maturing import Measure

#: The slope of a covariate: a number for all arms, or one for each arm.
Slope = float | ByArm[float]


@dataclass(frozen=True)
class ContextualBandit:
    """A simulated experiment whose arms differ by segment, and whose outcomes may depend on covariates.

    Policies learn separately in each segment; a ``policy.pooled()`` does not look at segments.

    Parameters
    ----------
    segments : mapping from label to Bandit
        The arms and delays of each segment. All segments have the same arms.
    shares : mapping from label to float, optional
        The share of each segment; by default they are equal.
    covariates : mapping from name to Arm, optional
        The distribution of each covariate, such as ``{"age": arms.normal(40, 12)}``. It is the same in all segments.
    slopes : mapping from covariate to float, or to a mapping from arm to float, optional
        What one unit of a covariate adds to an outcome.
    arrival : mapping from covariate to float, optional
        What one unit of a covariate adds to the log-odds that an outcome ever arrives. It has no effect on an arm whose
        outcomes all arrive.

    Examples
    --------
    >>> from belated import arms, delays, Bandit, ContextualBandit
    >>> bandit = ContextualBandit(
    ...     {
    ...         "DE": Bandit({"A": arms.normal(0.5), "B": arms.normal(1.0)}, delays.poisson(5)),
    ...         "FR": Bandit({"A": arms.normal(0.5), "B": arms.normal(-0.2)}, delays.poisson(5).censored(0.3)),
    ...     },
    ...     shares={"DE": 0.6, "FR": 0.4},
    ...     covariates={"x": arms.normal(0, 1)},
    ...     slopes={"x": {"A": 0.7, "B": 0.2}},
    ... )
    >>> bandit.means
    {'A': 0.5, 'B': 0.52}
    >>> bandit.means_by_segment["FR"]
    {'A': 0.5, 'B': -0.2}
    """

    segments: ByArm[Bandit]
    shares: ByArm[float] | None = None
    covariates: Mapping[str, Arm] = field(default_factory=dict)
    slopes: Mapping[str, Slope] = field(default_factory=dict)
    arrival: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_segments(self.segments)
        if self.shares is not None:
            _check_shares(self.shares, self.segments)
        _check_mapping("covariates", self.covariates, "names to distributions, such as {'age': arms.normal(40, 12)}")
        for name, values in self.covariates.items():
            if not isinstance(name, str) or not name:
                raise OptionError(f"`covariates` has the name {name!r}; names must be text.")
            if not isinstance(values, Arm) or values.name == "events":
                raise OptionError(
                    f"`covariates[{name!r}]` is {shown(values)}; it must be a distribution, such as arms.normal(0, 1)."
                )
        if self.covariates and self.window is not None:
            raise OptionError("`covariates` cannot be used with events, which depend on the arm and the segment alone.")
        for option, given in (("slopes", self.slopes), ("arrival", self.arrival)):
            _check_mapping(option, given, "covariates to numbers, such as {'age': 0.1}")
            unknown = [name for name in given if name not in self.covariates]
            if unknown:
                raise OptionError(
                    f"`{option}` names {unknown[0]!r}, which is not one of the covariates {list(self.covariates)!r}."
                )
        for name, number in self.arrival.items():
            real(f"arrival[{name!r}]", number)
        self._check_slopes()

    def _check_slopes(self) -> None:
        for name, slope in self.slopes.items():
            for arm, number in slope.items() if isinstance(slope, Mapping) else ():
                if arm not in self.arms:
                    raise OptionError(f"`slopes[{name!r}]` names {arm!r}, which is not one of the arms {self.arms!r}.")
                real(f"slopes[{name!r}][{arm!r}]", number)
            if not isinstance(slope, Mapping):
                real(f"slopes[{name!r}]", slope)
        for k, arm in enumerate(self.arms):
            if self.slope_matrix[k].any() and any(bandit.arms[arm].binary for bandit in self.parts):
                raise OptionError(f"`slopes` has arm {arm!r}, whose outcomes are 0 or 1; slopes need other outcomes.")

    @property
    def parts(self) -> tuple[Bandit, ...]:
        """The bandit of each segment, in order."""
        return tuple(self.segments.values())

    @property
    def arms(self) -> tuple[Label, ...]:
        """The labels of the arms."""
        return tuple(self.parts[0].arms)

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of the segments."""
        return tuple(self.segments)

    @property
    def window(self) -> int | None:
        """The window of events, the same in all segments; None if outcomes are not events."""
        return self.parts[0].window

    @property
    def measure(self) -> Measure | None:
        """What the outcome counts of the events: "indicator", "count" or "sum"."""
        return self.parts[0].measure

    @cached_property
    def mix(self) -> Array:
        """The share of each segment, in order."""
        shares = self.shares or dict.fromkeys(self.segments, 1 / len(self.segments))
        return np.array([shares[label] for label in self.segments], dtype=np.float64)

    @cached_property
    def slope_matrix(self) -> Array:
        """The slope of each arm and covariate, (arms, covariates)."""
        slopes = [self.slopes.get(name, 0.0) for name in self.covariates]
        by_arm = [[s.get(arm, 0.0) if isinstance(s, Mapping) else s for s in slopes] for arm in self.arms]
        return np.array(by_arm, dtype=np.float64).reshape(len(self.arms), len(slopes))

    @cached_property
    def mean_matrix(self) -> Array:
        """The true mean of each segment and arm, (segments, arms)."""
        own = np.array([[bandit.means[arm] for arm in self.arms] for bandit in self.parts])
        x, slopes = np.array([x.mean for x in self.covariates.values()]), self.slope_matrix
        return np.asarray(own + slopes @ np.where(slopes.any(axis=0), x, 0.0))  # only those with a slope need a mean

    @property
    def means(self) -> dict[Label, float]:
        """The true mean of each arm over all segments."""
        return dict(zip(self.arms, (self.mix @ self.mean_matrix).tolist(), strict=True))

    @property
    def means_by_segment(self) -> dict[Label, dict[Label, float]]:
        """The true mean of each arm in each segment."""
        rows = self.mean_matrix.tolist()
        return {label: dict(zip(self.arms, row, strict=True)) for label, row in zip(self.segments, rows, strict=True)}

    @property
    def cell_arms(self) -> list[Arm]:
        """The outcomes of each segment and arm, segment by segment."""
        return [bandit.outcomes[arm] for bandit in self.parts for arm in self.arms]

    @property
    def cell_delays(self) -> list[Delay]:
        """The delays of each segment and arm, segment by segment."""
        return [bandit.delay(arm) for bandit in self.parts for arm in self.arms]


def _check_mapping(option: str, given: object, form: str) -> None:
    if not isinstance(given, Mapping):
        raise OptionError(f"`{option}` is {shown(given)}; it must map {form}.")


def _check_segments(segments: object) -> None:
    if not isinstance(segments, Mapping) or not segments:
        raise OptionError("`segments` must map labels to bandits, such as {'DE': Bandit(...), 'FR': Bandit(...)}.")
    first = next(iter(segments))
    for label, bandit in segments.items():
        if is_missing(label):
            raise OptionError(f"`segments` has the label {label!r}; it must be text, a number or another label.")
        if not isinstance(bandit, Bandit):
            raise OptionError(f"`segments[{label!r}]` is {shown(bandit)}; it must be a Bandit.")
        if set(bandit.arms) != set(segments[first].arms):
            raise OptionError(
                f"`segments[{label!r}]` has the arms {list(bandit.arms)!r}, and `segments[{first!r}]` has "
                f"{list(segments[first].arms)!r}; all segments must have the same arms."
            )
        for name in ("window", "measure"):
            own, other = getattr(bandit, name), getattr(segments[first], name)
            if own != other:
                raise OptionError(
                    f"`segments[{label!r}]` has the {name} {own!r}, and `segments[{first!r}]` has {other!r}; it must "
                    "be the same in all segments."
                )


def _check_shares(shares: object, segments: Mapping[Label, Bandit]) -> None:
    if not isinstance(shares, Mapping) or set(shares) != set(segments):
        raise OptionError(
            f"`shares` is {shown(shares)}; it must have a share for each of the segments {list(segments)!r}."
        )
    numbers = [real(f"shares[{label!r}]", share) for label, share in shares.items()]
    if min(numbers) <= 0 or not are_shares(numbers):
        raise OptionError(f"`shares` is {shown(dict(shares))}; shares must be above 0 and sum to 1.")


#: A bandit with or without segments.
AnyBandit = Bandit | ContextualBandit


def is_plain(bandit: AnyBandit) -> TypeGuard[Bandit]:
    """Whether a bandit has neither segments nor events; only its runs can be summed without making a log of each."""
    return isinstance(bandit, Bandit) and bandit.window is None
