"""Layout: what a section of a page is made of, and how answers become rows, lines and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from belated.base.columns import Label
from belated.base.tables import Column
from belated.base.text import NOTHING
from belated.estimation.answers import Answer, Answers, answer_columns
from belated.reports import charts
from belated.reports.report import Report
from belated.reports.svg import LOOKS, fit_all

#: Rows beyond which a table is folded away.
_LONG_TABLE = 30

#: The most rows and ribbons that are drawn.
MOST_ROWS, MOST_RIBBONS = 24, 6


@dataclass(frozen=True, eq=False)
class Sheet:
    """A table of the page: a caption and columns."""

    caption: str
    columns: list[Column]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells, as text."""
        return list(zip(*(column.texts() for column in self.columns), strict=True))

    @property
    def is_long(self) -> bool:
        """Whether it is folded away on a screen."""
        return len(self.columns[0].values) > _LONG_TABLE


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Charts, what they show, and a table; with a heading of its own if its section has several."""

    charts: list[str]
    caption: str
    sheet: Sheet | None = None
    heading: str = ""


@dataclass(frozen=True)
class EstimatorRemark:
    """What to know about an estimator, and whether it is the report's."""

    estimator: str
    words: str
    is_used: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Section:
    """A section of the page.

    Attributes
    ----------
    name : str
        In the page's address.
    link : str
        In the list of sections.
    heading : str
    parts : tuple of Part
    intro : str
        What to know before looking at the charts.
    remarks : tuple of EstimatorRemark
    """

    name: str
    link: str
    heading: str
    parts: tuple[Part, ...]
    intro: str = ""
    remarks: tuple[EstimatorRemark, ...] = ()


# ---------------------------------------------------------------- rows, lines and columns


def look(report: Report, arm: Label) -> int:
    """Return the colour and marker of an arm; with many arms all of them look alike."""
    arms = list(report.estimate.arms)
    return arms.index(arm) if len(arms) <= LOOKS else 0


def pair_name(report: Report, arm: Label, other: Label) -> str:
    """Return a contrast's name, short enough to show both arms."""
    arms = list(report.estimate.arms)
    names = fit_all(arms, 12)
    return f"{names[arms.index(arm)]} - {names[arms.index(other)]}"


def forest_row(label: Label, answer: Answer, row_look: int) -> charts.ForestRow:
    """Return a row of a chart with an answer."""
    return charts.ForestRow(
        label=label,
        estimate=answer.estimate,
        low=answer.shown[0],
        high=answer.shown[1],
        std_error=answer.std_error,
        look=row_look,
        unit=answer.unit,
    )


def ribbon(label: Label, moved: Answers, ribbon_look: int) -> charts.Series:
    """Return a line of a chart with the answers at several moments."""
    answers = list(moved.answers.values())
    return charts.Series(
        label=label,
        values=[answer.estimate for answer in answers],
        low=[answer.shown[0] for answer in answers],
        high=[answer.shown[1] for answer in answers],
        std_error=answers[-1].std_error,
        look=ribbon_look,
        unit=answers[-1].unit,
    )


def sheet_columns(answers: Sequence[Answer], *, test: bool = False) -> list[Column]:
    """Return the columns of a table with answers."""
    estimate, std_error, *limits = answer_columns(list(answers), test=False)[:4]
    columns = [estimate, replace(std_error, name="std. error"), *limits]
    columns += [Column("p", [answer.p_value for answer in answers], "p_value")] * test
    lifts = [NOTHING if answer.lift is None else answer.lift.words for answer in answers]
    return columns + [Column("lift", lifts, "label")] * any(answer.lift for answer in answers)


def by_weight(report: Report, arms: Sequence[Label]) -> list[int]:
    """Return arms by number, in their order if all can have a colour, otherwise the baseline and the highest first."""
    if len(arms) <= LOOKS:
        return list(range(len(arms)))
    labels = list(arms)
    ranked = [labels.index(report.estimate.arms[k]) for k in report.ranked if report.estimate.arms[k] in labels]
    first = [labels.index(report.baseline)] if report.baseline is not None and report.baseline in labels else []
    return list(dict.fromkeys([*first, *ranked, *range(len(labels))]))
