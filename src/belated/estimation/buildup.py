"""`Buildup`: how each arm's mean builds up after the assignment; `Windows`: estimates for several windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from belated.base.checks import whole
from belated.base.columns import Label
from belated.base.errors import OptionError
from belated.base.tables import Column, Table
from belated.base.text import count, percent
from belated.estimation.answers import Answer, Answers, answer_columns
from belated.log.durations import WindowLike, check_windows
from belated.summaries.maturing import Age

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from belated.estimation.estimate import Estimate


@dataclass(frozen=True, repr=False)
class Windows(Table):
    """Estimates for several windows, from the shortest to the longest; ``windows["7 days"]`` is an `Estimate`."""

    estimates: dict[str, Estimate]

    def __getitem__(self, window: str) -> Estimate:
        if window in self.estimates:
            return self.estimates[window]
        last = next(reversed(self.estimates.values()))
        maturity = last.maturity
        name = "" if maturity is None else maturity.text(maturity.length(window))
        if name not in self.estimates:
            raise OptionError(f"{window!r} is none of the windows: {', '.join(self.estimates)}.")
        return self.estimates[name]

    def __len__(self) -> int:
        return len(self.estimates)

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def arm(self, arm: Label) -> Answers:
        """Return the answer for one arm in each window."""
        return Answers("window", {name: e.arm(arm) for name, e in self.estimates.items()})

    def contrast(self, arm: Label, baseline: Label) -> Answers:
        """Return the answer for one contrast in each window."""
        return Answers("window", {name: e.contrast(arm, baseline) for name, e in self.estimates.items()})

    def _title(self) -> str:
        first = next(iter(self.estimates.values()))
        return f"{first.estimator.name} in {count(len(self), 'window')}: {percent(first.level)} intervals"

    def _columns(self) -> list[Column]:
        rows = [
            (name, arm, a) for name, e in self.estimates.items() for arm, a in zip(e.arms, e.arm_answers, strict=True)
        ]
        return [
            Column("window", [name for name, _, _ in rows], "label"),
            Column("arm", [arm for _, arm, _ in rows], "label"),
            *answer_columns([answer for _, _, answer in rows], test=False),
        ]


def estimates_within(estimate: Estimate, windows: Sequence[WindowLike | Age]) -> Windows:
    """Return the estimates for several windows."""
    check_windows(windows)
    maturity = estimate._maturing
    lengths = sorted({window.length if isinstance(window, Age) else maturity.length(window) for window in windows})
    return Windows({maturity.text(length): estimate.window(Age(length)) for length in lengths})


@dataclass(frozen=True, repr=False)
class Buildup(Table):
    """How each arm's mean builds up by age after the assignment; each interval is for one age.

    Attributes
    ----------
    ages : tuple
        Ages in numbers of the log's clock; `names` has them in words.
    estimates : tuple of Estimate
        The estimate of what happens up to each age.
    """

    ages: tuple[int | float, ...]
    names: tuple[str, ...]
    estimates: tuple[Estimate, ...]

    @property
    def arms(self) -> tuple[Label, ...]:
        """The labels of the arms."""
        return self.estimates[-1].arms

    def __len__(self) -> int:
        return len(self.ages)

    def arm(self, arm: Label) -> list[Answer]:
        """Return the answer for one arm at each age."""
        return [estimate.arm(arm) for estimate in self.estimates]

    def contrast(self, arm: Label, baseline: Label) -> list[Answer]:
        """Return the difference between two arms at each age."""
        return [estimate.contrast(arm, baseline) for estimate in self.estimates]

    def plot(self) -> Figure:
        """Draw the curve of each arm with its band; a matplotlib figure, which notebooks show."""
        from belated.estimation.figures import buildup_figure

        return buildup_figure(self)

    def _title(self) -> str:
        last = self.estimates[-1]
        return f"{last.estimand} by age: {percent(last.level)} {last.interval} intervals, each for one age"

    def _columns(self) -> list[Column]:
        rows = [
            (name, arm, answer)
            for name, estimate in zip(self.names, self.estimates, strict=True)
            for arm, answer in zip(estimate.arms, estimate.arm_answers, strict=True)
        ]
        return [
            Column("age", [name for name, _, _ in rows], "label"),
            Column("arm", [arm for _, arm, _ in rows], "label"),
            *answer_columns([answer for _, _, answer in rows], test=False),
        ]


def find_buildup(estimate: Estimate, points: int) -> Buildup:
    """Return the build-up at evenly spaced ages up to the window."""
    maturity = estimate._maturing
    number = whole("points", points, least=1)
    ages = np.linspace(0.0, float(maturity.window), number + 1)[1:]
    if isinstance(maturity.window, int):
        ages = np.unique(np.ceil(ages)).astype(np.int64)
    lengths = [age.item() for age in ages]
    lengths[-1] = maturity.window
    estimates = tuple(estimate.window(Age(length)) for length in lengths)
    return Buildup(tuple(lengths), tuple(map(maturity.text, lengths)), estimates)
