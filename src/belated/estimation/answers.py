"""`Answer`: the estimate, interval and test of one arm, contrast or policy; and tables of several answers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from belated.base.checks import fraction, one_of, real
from belated.base.columns import Label
from belated.base.errors import OptionError, argument
from belated.base.tables import RANGES, CellKind, Column, OneRow, Table, shown_limit
from belated.base.text import Unit, estimate_text, in_unit, limit_text, percent, with_unit
from belated.estimation.intervals import ALTERNATIVES, Alternative, Combination, IntervalKind
from belated.estimation.lift import Lift, lift_columns
from belated.summaries.caps import capped_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The kinds of intervals that an answer can have: those of `KINDS`, or one adjusted for selecting the best arm.
AnswerKind = Literal[IntervalKind, "hybrid", "simultaneous"]


#: Where intervals with the best of the others end at 0.
_HSU = (
    "By Hsu's method, every interval includes 0 or has it as a limit: if the lower limit is 0, the arm is the best; if "
    "the upper limit is 0, it is not."
)


@dataclass(frozen=True, kw_only=True)
class Answer(OneRow):
    """The estimate, interval and test of one arm, contrast, policy or linear combination.

    Attributes
    ----------
    estimate, std_error : float
    low, high : float
        The limits of the interval; one-sided if the alternative is one-sided.
    level : float
        The level of the interval.
    statistic : float
        The test statistic: Student's t for "t" intervals, and a normal deviate for the other kinds, whose tail
        probability is the p-value. For score and Wilson intervals it is the deviate at which a limit of the interval
        equals `null`, not the estimate divided by its standard error.
    p_value : float
        The p-value of the test against `null`.
    tested : tuple or None
        The statistic and the p-value if they are not those of the combination, as with simultaneous intervals.
    joint : bool
        Whether the interval is simultaneous with others.
    lift : Lift or None
        The relative difference, if it was requested.
    cap : float or None
        The cap on outcomes, if there is one.
    unit : str
        The unit in which it is shown: "number"; for outcomes that are 0 or 1 "percent", and "points" for a difference.
        Attributes and data formats hold the number itself, 0.157 for 15.7 %.
    parts : tuple
        The arms of a contrast, or the arm.
    segment : optional
        The segment that it is about, if it is one of several.
    """

    name: str
    estimate: float
    std_error: float
    low: float
    high: float
    level: float
    interval: AnswerKind
    null: float
    alternative: Alternative
    combination: Combination = field(repr=False, compare=False)
    tested: tuple[float, float] | None = field(default=None, repr=False)
    joint: bool = False
    lift: Lift | None = field(default=None, repr=False)
    cap: float | None = None
    unit: Unit = "number"
    parts: tuple[Label, ...] = field(default=(), repr=False)
    segment: Label | None = field(default=None, repr=False)

    @property
    def statistic(self) -> float:
        """The test statistic."""
        return self._test[0]

    @property
    def p_value(self) -> float:
        """The p-value of the test against `null`."""
        return self._test[1]

    @cached_property
    def _test(self) -> tuple[float, float]:
        """The statistic and the p-value, computed if asked for: inverting an interval takes longer than making it."""
        if self.tested is not None:
            return self.tested
        with np.errstate(all="ignore"):
            statistic, below, above = self.combination.test(self.null)
        p_values = {"two-sided": min(2 * min(below, above), 1.0), "greater": above, "less": below}
        return statistic, p_values[self.alternative]

    @property
    def shown(self) -> tuple[float, float]:
        """The limits as tables, figures and reports show them: those of rates are cut to possible values."""
        possible = RANGES[self.unit]
        if self.unit == "points":
            c = self.combination.coefficients
            possible = float(c[c < 0].sum()), float(c[c > 0].sum())
        low, high = shown_limit((self.low, self.high), self.estimate, possible).tolist()
        return low, high

    @property
    def in_words(self) -> str:
        """The estimate and its interval as short text, such as "15.7 % (13.2 % to 18.4 %)"."""
        texts = [estimate_text(self.estimate, self.std_error, self.unit)]
        texts += [limit_text(limit, self.std_error, self.unit) for limit in self.shown]
        estimate, low, high = (with_unit(text, self.unit) for text in texts)
        return f"{estimate} ({low} to {high})"

    def test(self, null: float = 0.0, alternative: Alternative = "two-sided") -> Answer:
        """Return the answer with another null value or alternative."""
        return self._again(self.level, real("null", null), one_of("alternative", alternative, ALTERNATIVES))

    def at_level(self, level: float) -> Answer:
        """Return the answer with an interval of another level."""
        return self._again(fraction("level", level), self.null, self.alternative)

    def _again(self, level: float, null: float, alternative: Alternative) -> Answer:
        if self.joint:
            raise OptionError(
                "This interval is simultaneous with others; for another test, ask for the contrast alone."
            )
        answer = make_answer(self.name, self.combination, level=level, null=null, alternative=alternative, cap=self.cap)
        return replace(answer, unit=self.unit, parts=self.parts, segment=self.segment)

    def __repr__(self) -> str:
        return self.to_text()

    def _title(self) -> str:
        untested = math.isnan(self.p_value) and math.isfinite(self.low)  # an arm that was chosen for its estimate
        test = "no test" if untested else f"test against {in_unit(self.null, self.unit)} ({self.alternative})"
        return f"{self.name}{capped_at(self.cap)}: {percent(self.level)} {self.interval} interval, {test}"

    def _columns(self) -> list[Column]:
        return answer_columns([self], test=True)

    def _names(self) -> tuple[str, ...]:
        names = ("name", "estimate", "std_error", "low", "high", "level", "statistic", "p_value", "null",
                 "alternative", "interval")  # fmt: skip
        return names if self.cap is None else (*names, "cap")


def make_answer(
    name: str,
    combination: Combination,
    *,
    level: float,
    null: float,
    alternative: Alternative,
    cap: float | None = None,
) -> Answer:
    """Return the answer for a combination of arms."""
    if alternative != "two-sided" and level < 0.5:
        raise OptionError(f"{argument('level')} is {level:g}; a one-sided interval needs a level of at least 0.5.")
    tail = (1 - level) / 2 if alternative == "two-sided" else 1 - level
    low, high = map(float, combination.limits(tail))
    if alternative != "two-sided" and not math.isnan(low):
        low, high = (low, math.inf) if alternative == "greater" else (-math.inf, high)
    return Answer(
        name=name,
        estimate=float(combination.estimate),
        std_error=float(combination.std_error),
        low=low,
        high=high,
        level=level,
        interval=combination.kind,
        null=null,
        alternative=alternative,
        combination=combination,
        cap=cap,
    )


@dataclass(frozen=True, repr=False, kw_only=True)
class Contrasts(Table):
    """Several contrasts; prints as a table, and ``contrasts[i]`` is an `Answer`.

    `against_best` says whether each arm is compared with the best of the others, by Hsu's method.
    """

    answers: tuple[Answer, ...]
    estimator: str
    interval: IntervalKind
    level: float
    simultaneous: bool
    cap: float | None = None
    against_best: bool = False

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, i: int) -> Answer:
        return self.answers[i]

    def plot(self) -> Figure:
        """Draw the contrasts with their intervals; a matplotlib figure, which notebooks show."""
        from belated.estimation.figures import contrasts_figure

        return contrasts_figure(self)

    def _title(self) -> str:
        kind = "simultaneous " if self.simultaneous else ""
        each = ", each by itself" if len(self) > 1 and not self.simultaneous else ""
        return f"{self.estimator}{capped_at(self.cap)}: {percent(self.level)} {kind}{self.interval} intervals{each}"

    def _columns(self) -> list[Column]:
        return [name_column("contrast", self.answers), *answer_columns(list(self.answers), test=True)]

    def _notes(self) -> list[str]:
        ends = [end for answer in self.answers for end in (answer.low, answer.high)]
        return [*([_HSU] if self.against_best and 0 in ends else []), *lift_notes(self.answers)]


@dataclass(frozen=True, repr=False)
class Answers(Table):
    """The answers for one arm, contrast or policy, by estimator, window or time; prints as a table."""

    by: str
    answers: Mapping[Hashable, Answer]

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.answers)

    def __getitem__(self, key: Hashable) -> Answer:
        if key not in self.answers:
            raise OptionError(f"There is no answer for {key!r}; there are {len(self)} answers, by {self.by}.")
        return self.answers[key]

    def plot(self) -> Figure:
        """Draw the answers, one below the other or a band over time; a matplotlib figure, which notebooks show."""
        from belated.estimation.figures import answers_figure

        return answers_figure(self)

    def _title(self) -> str:
        first = next(iter(self.answers.values()))
        kind = "simultaneous " if first.joint else ""
        return f"{first.name}{capped_at(first.cap)}: {percent(first.level)} {kind}intervals, by {self.by}"

    def _columns(self) -> list[Column]:
        return [
            Column(self.by, list(self.answers), "label"),
            *answer_columns(list(self.answers.values()), test=True),
            Column("interval", [answer.interval for answer in self.answers.values()], "label"),
        ]

    def _notes(self) -> list[str]:
        return lift_notes(self.answers.values())


class _Named(Protocol):
    """An object with a name that is made of parts."""

    @property
    def name(self) -> str: ...

    @property
    def parts(self) -> tuple[Label, ...]: ...


def name_column(name: str, answers: Sequence[_Named]) -> Column:
    """Return the column of the answers' names, in which every arm of a contrast is seen."""
    return Column(
        name, [a.name for a in answers], "label", parts=[a.parts if len(a.parts) > 1 else (a.name,) for a in answers]
    )


def answer_columns(answers: list[Answer], *, test: bool) -> list[Column]:
    """Return the columns of a table of answers."""
    errors = [answer.std_error for answer in answers]
    units = [answer.unit for answer in answers]

    def column(name: str, kind: CellKind) -> Column:
        return Column(name, [getattr(answer, name) for answer in answers], kind)

    columns = [
        replace(column(name, "estimate"), errors=errors, unit=units, terse=name != "estimate")
        for name in ("estimate", "std_error", "low", "high")
    ]
    limits = enumerate(columns[2:])
    columns[2:] = [replace(c, kind="limit", shown=[a.shown[k] for a in answers]) for k, c in limits]
    columns += [column("statistic", "statistic"), column("p_value", "p_value")] if test else []
    lifts = [answer.lift for answer in answers]
    return columns + (lift_columns(lifts, "lift", "lift_low", "lift_high") if any(lifts) else [])


def lift_notes(answers: Iterable[Answer]) -> list[str]:
    """Return the reasons why lifts have no bounds, each once."""
    return list(dict.fromkeys(a.lift.why for a in answers if a.lift is not None and a.lift.why is not None))
