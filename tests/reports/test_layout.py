"""Parts of a page."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from reports.samples import sample_report

from belated.base.tables import Column
from belated.reports.layout import Sheet, by_weight, look


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


def test_of_many_arms_the_baseline_and_the_highest_come_first():
    report = SimpleNamespace(estimate=SimpleNamespace(arms=tuple("ABCDEFGHIJ")), ranked=[9, 3, 0], baseline="B")
    assert by_weight(report, "ABCDEFG") == list(range(7))
    assert by_weight(report, "ABCDEFGHIJ") == [1, 9, 3, 0, 2, 4, 5, 6, 7, 8]
    assert by_weight(report, "ACDEFGHI") == [2, 0, 1, 3, 4, 5, 6, 7]  # a page may leave out arms, also the baseline
