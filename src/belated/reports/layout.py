"""Layout: what a section of a page is made of."""

from __future__ import annotations

from dataclasses import dataclass

from belated.base.tables import Column

#: Rows beyond which a table is folded away.
_LONG = 30


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
        return len(self.columns[0].values) > _LONG


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
