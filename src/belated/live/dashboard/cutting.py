"""Tables of a report, cut to the number of rows that a live page shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from belated.base.checks import Options
from belated.base.tables import Column
from belated.reports.layout import Part, Section, Sheet

#: Rows of a table or a forest: a fragment has at most 50 kB.
MOST_ROWS = 8


def cut(section: Section, order: Sequence[int] | None = None) -> Section:
    """Return a section whose tables have at most `MOST_ROWS` rows, the first of an order; the report has all."""
    return replace(section, parts=tuple(cut_part(part, order) for part in section.parts))


def cut_part(part: Part, order: Sequence[int] | None = None) -> Part:
    """Return a part whose table has at most `MOST_ROWS` rows, the first of an order."""
    sheet = part.sheet
    if sheet is None or len(sheet.columns[0].values) <= MOST_ROWS:
        return part
    rows = len(sheet.columns[0].values)
    places = order[:MOST_ROWS] if order else range(MOST_ROWS)
    caption = f"{sheet.caption}; {len(places)} of {rows:,} rows, all are in the report"
    return replace(part, sheet=Sheet(caption, [rows_of(column, places) for column in sheet.columns]))


def rows_of(column: Column, places: Sequence[int]) -> Column:
    """Return some rows of a column."""
    parts: Options = {
        name: [getattr(column, name)[i] for i in places]
        for name in ("values", "errors", "shown", "parts")
        if getattr(column, name) is not None
    }
    if not isinstance(column.unit, str):
        parts["unit"] = [column.unit[i] for i in places]
    return replace(column, **parts)
