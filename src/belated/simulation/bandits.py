"""`Bandit`: arms with distributions of outcomes and delays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from belated.base.checks import one_of, whole
from belated.base.columns import Array, ByArm, Label
from belated.base.errors import OptionError
from belated.base.text import shown
from belated.simulation.arms import Arm
from belated.simulation.delays import Delay, none
from belated.summaries.maturing import MEASURES, Measure


@dataclass(frozen=True)
class Bandit:
    """The arms of a simulated experiment, with their outcomes and delays.

    Parameters
    ----------
    arms : mapping from label to Arm
    delays : Delay, or mapping from label to Delay
        One delay for all arms, or one per arm. Outcomes of arms without a delay arrive at once. The delay of an event
        is the number of steps from the assignment until it happens.
    window : int, optional
        For arms of events: the number of steps after an assignment in which its events count.
    measure : {"indicator", "count", "sum"}, optional
        The outcome: whether there is an event within the window, the number of events, or the sum of their values. By
        default the sum if they have values, otherwise the indicator.

    Examples
    --------
    >>> from belated import arms, delays, Bandit
    >>> bandit = Bandit(
    ...     {"A": arms.normal(1.0), "B": arms.normal(0.5)},
    ...     {"A": delays.pareto(0.75).censored(0.5), "B": delays.pareto(1.25)},
    ... )
    >>> bandit.means
    {'A': 1.0, 'B': 0.5}
    >>> shop = Bandit({"A": arms.events(0.10), "B": arms.events(0.12)}, delays.geometric(500), window=1000)
    >>> {arm: round(mean, 3) for arm, mean in shop.means.items()}
    {'A': 0.086, 'B': 0.104}
    """

    arms: ByArm[Arm]
    delays: Delay | ByArm[Delay] = field(default_factory=none)
    window: int | None = None
    measure: Measure | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.arms, Mapping) or not self.arms:
            raise OptionError("`arms` must map labels to arms, such as {'A': arms.normal(1.0)}.")
        for label, arm in self.arms.items():
            if not isinstance(arm, Arm):
                raise OptionError(f"`arms[{label!r}]` is {shown(arm)}; it must be an arm, such as arms.normal(1.0).")
        given = {None: self.delays} if isinstance(self.delays, Delay) else self.delays
        if not isinstance(given, Mapping):
            raise OptionError(f"`delays` is {shown(given)}; it must be a delay, or map arms to delays.")
        for label, delay in given.items():
            if not isinstance(delay, Delay):
                raise OptionError(
                    f"`delays[{label!r}]` is {shown(delay)}; it must be a delay, such as delays.poisson(5)."
                )
            if label is not None and label not in self.arms:
                raise OptionError(f"`delays` names {label!r}, which is not one of the arms {list(self.arms)!r}.")
        self._check_events()

    def _check_events(self) -> None:
        events = {label: arm.name == "events" for label, arm in self.arms.items()}
        if not any(events.values()):
            for name, given in (("window", self.window), ("measure", self.measure)):
                if given is not None:
                    raise OptionError(f"`{name}` is for arms of events, such as arms.events(0.1).")
            return
        for label, is_events in events.items():
            if not is_events:
                raise OptionError(f"`arms[{label!r}]` is {self.arms[label]!r}, but other arms are events; all must be.")
        if self.window is None:
            raise OptionError("`window` is missing; events need the number of steps in which they count.")
        if whole("window", self.window, least=1) > 2**31:
            raise OptionError(f"`window` is {shown(self.window)}; it must be at most 2**31 steps.")
        valued = [arm.value is not None for arm in self.arms.values()]
        measure = "sum" if any(valued) else "indicator"
        if self.measure is not None:
            measure = one_of("measure", self.measure, MEASURES)
        if measure == "sum" and not all(valued):
            label = list(self.arms)[valued.index(False)]
            raise OptionError(f"The sum of values is the outcome, but the events of `arms[{label!r}]` have no `value`.")
        object.__setattr__(self, "window", int(self.window))
        object.__setattr__(self, "measure", measure)

    @cached_property
    def outcomes(self) -> dict[Label, Arm]:
        """The distribution of each arm's outcome; of events, that of what happens within the window."""
        if self.window is None or self.measure is None:
            return dict(self.arms)
        shares = {label: self.delay(label).share_within(self.window) for label in self.arms}
        return {label: arm.within(shares[label], self.measure) for label, arm in self.arms.items()}

    @property
    def means(self) -> dict[Label, float]:
        """The true mean of each arm; for events, within the window."""
        return {label: arm.mean for label, arm in self.outcomes.items()}

    def delay(self, label: Label) -> Delay:
        """Return the delays of an arm."""
        return self.delays if isinstance(self.delays, Delay) else self.delays.get(label, none())

    # ---------------------------------------------------------------- the same questions as of a bandit with segments

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of the segments: none."""
        return ()

    @property
    def parts(self) -> tuple[Bandit, ...]:
        """The bandit of each segment: this one, for all units."""
        return (self,)

    @property
    def mix(self) -> Array:
        """The share of each part, in order."""
        return np.ones(1)

    @property
    def mean_matrix(self) -> Array:
        """The true mean of each part and arm, (1, arms)."""
        return np.array([list(self.means.values())])

    @property
    def cell_arms(self) -> list[Arm]:
        """The outcomes of each arm."""
        return list(self.outcomes.values())

    @property
    def cell_delays(self) -> list[Delay]:
        """The delays of each arm."""
        return [self.delay(label) for label in self.arms]
