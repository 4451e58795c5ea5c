"""Parts of a page."""

from __future__ import annotations

import pytest
from reports.samples import sample_report

from belated.base.tables import Column
from belated.reports.layout import Sheet, look


def test_a_sheet_is_rows_of_text():
    sheet = Sheet("Arms", [Column("arm", ["A", "B"], "label"), Column("share", [0.25, None], "share")])
    assert sheet.rows == [("A", "25.0%"), ("B", "–")]


@pytest.mark.parametrize(("rows", "is_long"), [(30, False), (31, True)])
def test_a_long_sheet_is_folded(rows, is_long):
    assert Sheet("Arms", [Column("arm", list(range(rows)), "label")]).is_long is is_long


def test_arms_have_looks_of_their_own_unless_there_are_many():
    few, many = sample_report(tuple("ABC"), range(3)), sample_report(tuple("ABCDEFGH"), range(8))
    assert [look(few, arm) for arm in "ABC"] == [0, 1, 2]
    assert {look(many, arm) for arm in "ABCDEFGH"} == {0}
