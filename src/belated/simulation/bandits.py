"""`Bandit`: arms with distributions of outcomes and delays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from belated.base.columns import ByArm, Label
from belated.base.errors import OptionError
from belated.simulation.arms import Arm
from belated.simulation.delays import Delay, none


@dataclass(frozen=True)
class Bandit:
    """The arms of a simulated experiment, with their outcomes and delays.

    Parameters
    ----------
    arms : mapping from label to Arm
    delays : Delay, or mapping from label to Delay
        One delay for all arms, or one per arm. Outcomes of arms without a delay arrive at once.

    Examples
    --------
    >>> from belated import arms, delays, Bandit
    >>> bandit = Bandit(
    ...     {"A": arms.normal(1.0), "B": arms.normal(0.5)},
    ...     {"A": delays.pareto(0.75).censored(0.5), "B": delays.pareto(1.25)},
    ... )
    >>> bandit.means
    {'A': 1.0, 'B': 0.5}
    """

    arms: ByArm[Arm]
    delays: Delay | ByArm[Delay] = field(default_factory=none)

    def __post_init__(self) -> None:
        if not isinstance(self.arms, Mapping) or not self.arms:
            raise OptionError("`arms` must map labels to arms, such as {'A': arms.normal(1.0)}.")
        for label, arm in self.arms.items():
            if not isinstance(arm, Arm):
                raise OptionError(f"`arms[{label!r}]` is {arm!r}; it must be an arm, such as arms.normal(1.0).")
        given = {None: self.delays} if isinstance(self.delays, Delay) else self.delays
        if not isinstance(given, Mapping):
            raise OptionError(f"`delays` is {given!r}; it must be a delay, or map arms to delays.")
        for label, delay in given.items():
            if not isinstance(delay, Delay):
                raise OptionError(f"`delays[{label!r}]` is {delay!r}; it must be a delay, such as delays.poisson(5).")
            if label is not None and label not in self.arms:
                raise OptionError(f"`delays` names {label!r}, which is not one of the arms {list(self.arms)!r}.")

    @property
    def means(self) -> dict[Label, float]:
        """The true mean of each arm."""
        return {label: arm.mean for label, arm in self.arms.items()}

    def delay(self, label: Label) -> Delay:
        """Return the delays of an arm."""
        return self.delays if isinstance(self.delays, Delay) else self.delays.get(label, none())
