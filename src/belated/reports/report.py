"""Report: what a page shows, for those who did not run the experiment; `belated.reports.rendering` writes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from numpy.typing import ArrayLike

from belated.assumptions.diagnosis import Diagnosis
from belated.base.columns import Array, Label
from belated.base.errors import OptionError
from belated.base.text import count, shorten_all
from belated.estimation.answers import Answer, Contrasts
from belated.estimation.buildup import Buildup, Windows
from belated.estimation.by_segment import Heterogeneity, differences_by_segment
from belated.estimation.comparison import Comparison
from belated.estimation.estimate import Estimate
from belated.estimation.target import default_pairs
from belated.estimation.trajectory import Trajectory
from belated.sequences.sequence import ConfidenceSequence
from belated.summaries.caps import capped_at, quantity

#: Columns of a screen that an arm's name takes in a sentence.
_NAME = 40

#: From a text to the same in other words.
Wording = Callable[[str], str]

#: Contrasts that are shown in every segment.
_MOST_BY_SEGMENT = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class Arrivals:
    """When outcomes arrive, by arm.

    Attributes
    ----------
    arms : sequence
    delays : array of numbers or timedelta64
    share : array (arms, delays)
        Arrived within each delay among the rows old enough to tell; NaN where there are none.
    arrived, still_out, overdue : array (arms,)
        Shares of an arm's assignments: arrived, may still arrive, should have arrived. They add up to 1.
    """

    arms: Sequence[Label]
    delays: ArrayLike
    share: Array
    arrived: Array
    still_out: Array
    overdue: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Chosen:
    """What the policy did over time.

    Attributes
    ----------
    arms : sequence
    moments : array of numbers or datetime64
    share : array (moments, arms)
        The mean probability of each arm; or, with `probabilities` false, its share of the assignments.
    probabilities : bool
    """

    arms: Sequence[Label]
    moments: ArrayLike
    share: Array
    probabilities: bool = True


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Report:
    """The data of a report.

    Attributes
    ----------
    title : str
    estimate : Estimate
    baseline : label or None
    contrasts : Contrasts or None
        ``estimate.contrasts(baseline)``, perhaps simultaneous, perhaps with lifts; None with one arm.
    further : tuple of Answer
        Further questions: policies, single contrasts.
    comparison : Comparison or None
    trajectory : Trajectory or None
    sequence : ConfidenceSequence or None
    arrivals : Arrivals or None
    chosen : Chosen or None
    buildup : Buildup or None
        How each arm's mean builds up after the assignment, if outcomes are events whose windows may be open.
    windows : Windows or None
        Estimates for several windows, if they were asked for.
    within : str or None
        Such as "7 days": events count if they happened within this time of their assignment.
    outcome : str
        What the outcome is called, such as "revenue".
    warnings, notes : tuple of str
        Loud ones, and quiet ones.
    diagnosis : Diagnosis or None
        What speaks against the assumptions.
    how : tuple of (name, value)
        Facts about how it was computed.
    command : str or None
        The shell command that makes it again.
    version : str
    made_at : str
        The date.
    wording : callable
        What turns advice into that for the readers.
    """

    title: str
    estimate: Estimate
    baseline: Label | None = None
    contrasts: Contrasts | None = None
    further: tuple[Answer, ...] = ()
    comparison: Comparison | None = None
    trajectory: Trajectory | None = None
    sequence: ConfidenceSequence | None = None
    arrivals: Arrivals | None = None
    chosen: Chosen | None = None
    buildup: Buildup | None = None
    windows: Windows | None = None
    within: str | None = None
    outcome: str = "outcome"
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    diagnosis: Diagnosis | None = None
    how: tuple[tuple[str, str], ...] = ()
    command: str | None = None
    version: str = ""
    made_at: str = ""
    wording: Wording = str

    def __post_init__(self) -> None:
        if self.contrasts is not None and len(self.contrasts) != len(self.pairs):
            raise OptionError(
                f"`contrasts` holds {count(len(self.contrasts), 'answer')}; these arms make {len(self.pairs)}."
            )

    def worded(self, wording: Wording) -> Report:
        """Return the same report with other words for its advice."""
        return replace(
            self,
            warnings=tuple(map(wording, self.warnings)),
            notes=tuple(map(wording, self.notes)),
            diagnosis=None if self.diagnosis is None else self.diagnosis.worded(wording),
            wording=wording,
        )

    @cached_property
    def pairs(self) -> list[tuple[Label, Label]]:
        """The arms of each contrast: every arm with the baseline, or all pairs if there is none."""
        return default_pairs(self.estimate.arms, self.baseline)

    @cached_property
    def names(self) -> dict[Label, str]:
        """The arms' names for sentences, short and different."""
        arms = self.estimate.arms
        return dict(zip(arms, shorten_all(arms, _NAME), strict=True))

    @cached_property
    def together(self) -> Contrasts | None:
        """The contrasts as they hold together, by which a report judges what differs."""
        if self.contrasts is None or self.contrasts.simultaneous:
            return self.contrasts
        return self.estimate.contrasts_of(self.pairs, simultaneous=True)

    @cached_property
    def ranked(self) -> list[int]:
        """The arms that have an estimate, by number: those with an interval before those without, the highest first."""
        answers = self.estimate.arm_answers
        known = [k for k, answer in enumerate(answers) if not math.isnan(answer.estimate)]
        return sorted(known, key=lambda k: (math.isnan(answers[k].low), -answers[k].estimate))

    @cached_property
    def main(self) -> tuple[Label, Label] | None:
        """The contrast that matters most: of the highest arm with the baseline, or with the next.

        It has the direction in which the report shows it.
        """
        arms = [self.estimate.arms[k] for k in self.ranked]
        if self.baseline is not None:
            arms = [arm for arm in arms if arm != self.baseline]
            return (arms[0], self.baseline) if arms else None
        if len(arms) < 2:
            return None
        shown = [] if self.contrasts is None else self.pairs
        return next((pair for pair in shown if set(pair) == set(arms[:2])), (arms[0], arms[1]))

    @cached_property
    def by_segment(self) -> dict[tuple[Label, Label], Heterogeneity]:
        """Contrasts in every segment, by their arms; empty without segments.

        The requested ones come first, in the requested order. Then come the main contrast and the clearest others, up
        to a small number in all.
        """
        if self.contrasts is None or not self.estimate.segments:
            return {}
        answers, (pairs, asked) = self.contrasts.answers, self._pairs_with_asked()
        first = [] if self.main is None else [i for i, pair in enumerate(self.pairs) if set(pair) == set(self.main)]
        clearest = sorted(range(len(answers)), key=lambda i: math.isnan(answers[i].p_value) or answers[i].p_value)
        needed = dict.fromkeys([*asked, *first])
        few = list(dict.fromkeys([*needed, *clearest]))[: max(_MOST_BY_SEGMENT, len(needed))]
        shown = [*asked, *sorted(set(few).difference(asked))]
        tests = differences_by_segment(self.estimate, pairs, simultaneous=self.contrasts.simultaneous, only=shown)
        return {pairs[i]: test for i, test in zip(shown, tests, strict=True)}

    def _pairs_with_asked(self) -> tuple[list[tuple[Label, Label]], list[int]]:
        """Return the pairs with those that were asked for, as they were asked, and the places of these."""
        pairs, asked = list(self.pairs), []
        for answer in self.further:
            if len(answer.parts) != 2:  # a policy
                continue
            first, second = answer.parts
            place = next((i for i, pair in enumerate(pairs) if set(pair) == {first, second}), len(pairs))
            if place not in asked:
                pairs[place : place + 1] = [(first, second)]
                asked.append(place)
        return pairs, asked

    @property
    def level(self) -> float:
        """The level of the intervals."""
        return float(self.estimate.level)

    @property
    def measure(self) -> str:
        """What is estimated, in words."""
        within = f" within {self.within}" if self.within else ""
        return f"{quantity(self.outcome, self.estimate.unit)}{within}{capped_at(self.estimate.cap)}"

    @property
    def quantity(self) -> str:
        """What is estimated, without the window."""
        return f"{quantity(self.outcome, self.estimate.unit)}{capped_at(self.estimate.cap)}"

    @property
    def comma(self) -> str:
        """What closes `measure` and `quantity` inside a sentence."""
        return "" if self.estimate.cap is None else ","
