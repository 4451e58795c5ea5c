from __future__ import annotations

import pytest

from belated.base.tables import Column
from belated.live.dashboard.cutting import MOST_ROWS, cut, cut_part, rows_of
from belated.reports.layout import Part, Section, Sheet


def part(rows):
    names = Column("arm", [f"arm {i}" for i in range(rows)], "label")
    return Part(charts=["<svg>"], caption="Chances", sheet=Sheet("Chances of arms", [names]))


def test_a_short_table_stays_as_it_is():
    short, bare = part(MOST_ROWS), Part(charts=[], caption="No table")
    assert cut_part(short) is short
    assert cut_part(bare) is bare


@pytest.mark.parametrize(
    ("order", "kept"), [(None, range(MOST_ROWS)), ([1200, 3, *range(20, 40)], [1200, 3, *range(20, 26)]), ([7], [7])]
)
def test_a_long_table_has_the_first_rows_of_an_order_and_says_so(order, kept):
    found = cut_part(part(1234), order)
    assert list(found.sheet.columns[0].values) == [f"arm {i}" for i in kept]
    assert found.sheet.caption == f"Chances of arms; {len(kept)} of 1,234 rows, all are in the report"
    assert (found.charts, found.caption) == (["<svg>"], "Chances")


def test_every_table_of_a_section_is_cut():
    section = Section(name="x", link="X", heading="X", parts=(part(20), part(3), part(30)))
    assert [len(each.sheet.rows) for each in cut(section).parts] == [MOST_ROWS, 3, MOST_ROWS]
    assert [len(each.sheet.rows) for each in section.parts] == [20, 3, 30]


def test_everything_about_a_row_goes_with_it():
    column = Column(
        "x", [1, 2, 3], "estimate", errors=[0.1, None, 0.3], unit=["number", "percent", "points"],
        shown=["one", "two", "three"], parts=[("a",), ("b",), ("c",)],
    )  # fmt: skip
    found = rows_of(column, [2, 0])
    assert (found.values, found.errors, found.unit) == ([3, 1], [0.3, 0.1], ["points", "number"])
    assert (found.shown, found.parts) == (["three", "one"], [("c",), ("a",)])
    plain = rows_of(Column("x", [1, 2], "number", unit="percent"), [1])
    assert (plain.values, plain.errors, plain.unit, plain.shown) == ([2], None, "percent", None)
