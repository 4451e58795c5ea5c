"""Report: what a page is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reports.samples import sample_report

from belated.base.errors import OptionError
from belated.summaries.evidence import SHARE_WITH_EVENT


def test_a_contrast_too_many_is_refused():
    report = sample_report(tuple("ABC"), (1, 2, 3))
    with pytest.raises(OptionError, match="`contrasts` holds 2 answers; these arms make 3"):
        replace(report, baseline=None)


def test_arms_are_ranked_those_with_an_interval_first():
    report = sample_report(tuple("ABCD"), (1, 2, 99, 1), arriving={2: 1, 3: 0})
    assert report.ranked == [1, 0, 2]


def test_the_main_contrast():
    report = sample_report(tuple("ABC"), (9, 2, 6))
    assert report.main == ("C", "A")
    assert replace(report, baseline=None, contrasts=None).main == ("A", "C")
    assert sample_report(("A",), (1,)).main is None
    assert sample_report(arriving={1: 0}).main is None


@pytest.mark.parametrize("means", [(1, 2, 3), (3, 2, 1)])
def test_the_main_contrast_has_the_direction_of_the_contrasts_that_are_shown(means):
    report = sample_report(tuple("ABC"), means)
    report = replace(report, baseline=None, contrasts=report.estimate.contrasts())
    assert report.main in report.pairs
    assert set(report.main) == {report.estimate.arms[k] for k in report.ranked[:2]}


def test_the_pairs_are_those_of_the_contrasts():
    report = sample_report(tuple("ABC"), (1, 2, 3))
    assert report.pairs == [("B", "A"), ("C", "A")]
    assert replace(report, baseline=None, contrasts=None).pairs == [("B", "A"), ("C", "A"), ("C", "B")]


def test_what_is_measured_in_words():
    report = sample_report()
    assert report.measure == "mean revenue within 7 days"
    assert replace(report, within=None).measure == "mean revenue"
    assert replace(report, outcome=SHARE_WITH_EVENT).quantity == SHARE_WITH_EVENT
