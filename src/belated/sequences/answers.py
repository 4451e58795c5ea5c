"""Results of a confidence sequence: for one arm or contrast, for several, and over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from belated.base.columns import Array, Label
from belated.base.tables import RANGES, Column, OneRow, Table, shown_limit
from belated.base.text import Unit, percent
from belated.estimation.answers import name_column
from belated.log.clock import Moment
from belated.sequences.design import SequenceKind, kind_text
from belated.summaries.caps import capped_at


def reasons(silences: Iterable[str | None]) -> list[str]:
    """Return the reasons why intervals are still infinite, each once and at most five."""
    different = list(dict.fromkeys(filter(None, silences)))
    more = len(different) - 5
    return different[:5] + ([f"The same holds for {more:,} more arms or contrasts."] if more > 0 else [])


@dataclass(frozen=True, repr=False)
class SequenceAnswer(OneRow):
    """The current interval and test of one arm or contrast.

    Attributes
    ----------
    estimate, low, high : float
        The DIPW estimate (for beta-binomial sequences, the mean of arrived outcomes), and the limits, which are
        infinite while there are too few outcomes.
    p_value : float
        The always-valid p-value: the smallest level at which the sequence has excluded `null` at any time until now.
    excluded_at : time or None
        The first time at which the sequence excluded `null`.
    why : str or None
        The reason why the interval is still infinite.
    whys : tuple of str
        The same, by arm.
    unit : str
        The unit in which it is shown, as in `Answer`.
    parts : tuple
        The arms of a contrast, or the arm.
    """

    name: str
    estimate: float
    low: float
    high: float
    level: float
    p_value: float
    null: float
    excluded_at: Moment | None
    kind: SequenceKind
    why: str | None
    together: int = 1
    cap: float | None = None
    unit: Unit = "number"
    parts: tuple[Label, ...] = ()
    whys: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[float, float]:
        """The limits as tables and reports show them: those of rates are cut at what rates can be."""
        low, high = shown_limit((self.low, self.high), self.estimate, RANGES[self.unit]).tolist()
        return low, high

    def _title(self) -> str:
        joint = f", one of {self.together:,}" if self.together > 1 else ""
        return (
            f"{self.name}{capped_at(self.cap)}: {percent(self.level)} {kind_text(self.kind)} confidence sequence{joint}"
        )

    def _columns(self) -> list[Column]:
        return answer_columns([self])

    def _notes(self) -> list[str]:
        return reasons(self.whys)

    def _names(self) -> tuple[str, ...]:
        names = ("name", "estimate", "low", "high", "level", "p_value", "null", "excluded_at", "kind", "why")
        return names if self.cap is None else (*names, "cap")


@dataclass(frozen=True, repr=False)
class SequenceAnswers(Table):
    """The current intervals and tests of several contrasts."""

    answers: tuple[SequenceAnswer, ...]
    kind: SequenceKind
    level: float
    simultaneous: bool
    cap: float | None = None

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, i: int) -> SequenceAnswer:
        return self.answers[i]

    def _title(self) -> str:
        joint = "simultaneous " if self.simultaneous else ""
        return f"{percent(self.level)} {joint}{kind_text(self.kind)} confidence sequences{capped_at(self.cap)}"

    def _columns(self) -> list[Column]:
        return [name_column("contrast", self.answers), *answer_columns(self.answers)]

    def _notes(self) -> list[str]:
        return reasons(why for answer in self.answers for why in answer.whys)


def answer_columns(answers: Sequence[SequenceAnswer]) -> list[Column]:
    """Return the columns of a table of answers."""
    errors = [(answer.high - answer.low) / 6 for answer in answers]
    unit = answers[0].unit if answers else "number"
    ends = [
        Column(name, [getattr(a, name) for a in answers], "estimate", errors, unit=unit, terse=name != "estimate")
        for name in ("estimate", "low", "high")
    ]
    limits = enumerate(ends[1:])
    ends[1:] = [replace(end, kind="limit", shown=[a.shown[k] for a in answers]) for k, end in limits]
    return [
        *ends,
        Column("p_value", [answer.p_value for answer in answers], "p_value"),
        Column("excluded_at", [answer.excluded_at for answer in answers], "number"),
    ]


@dataclass(frozen=True, eq=False, repr=False)
class Track(Table):
    """A sequence over its looks, with single-look intervals for comparison.

    Attributes
    ----------
    moments : tuple
        The times of the looks.
    estimate, low, high : array
        The estimate and the limits at each look.
    fixed_estimate, fixed_low, fixed_high : array
        The results of `estimate(log.at(moment), "dipw")`, if the log has no covariates. Each is valid at one time
        chosen in advance, not at all of them.
    excluded_at : time or None
        The first time at which the sequence excluded `null`.
    """

    name: str
    kind: SequenceKind
    level: float
    moments: tuple[Moment, ...]
    estimate: Array
    low: Array
    high: Array
    fixed_estimate: Array
    fixed_low: Array
    fixed_high: Array
    null: float
    excluded_at: Moment | None
    cap: float | None = None
    unit: Unit = "number"

    def __len__(self) -> int:
        return len(self.moments)

    def shown(self, name: str) -> Array:
        """Return values of a column as people see them: limits of rates are cut at what rates can be."""
        values: Array = getattr(self, name)
        if name.endswith("estimate"):
            return values
        return shown_limit(values, self.fixed_estimate if "fixed" in name else self.estimate, RANGES[self.unit])

    def _title(self) -> str:
        kind = f"{percent(self.level)} {kind_text(self.kind)}"
        return f"{self.name}{capped_at(self.cap)}: {kind} confidence sequence over time"

    def _columns(self) -> list[Column]:
        errors = ((self.high - self.low) / 6).tolist()
        names = ("estimate", "low", "high", "fixed_estimate", "fixed_low", "fixed_high")
        columns = [
            Column(
                name,
                getattr(self, name).tolist(),
                "estimate" if name.endswith("estimate") else "limit",
                errors,
                unit=self.unit,
                terse=name != "estimate",
                shown=self.shown(name).tolist(),
            )
            for name in names
        ]
        return [Column("as_of", list(self.moments), "label"), *columns]
