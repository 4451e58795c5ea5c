"""Sections: what a report shows, and in which order."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from reports.samples import HOSTILE, read_page, sample_report

import belated as bl
from belated.reports.analysis import Questions, analyse
from belated.reports.gather import gather
from belated.reports.narrative import answer
from belated.reports.rendering import render
from belated.reports.report import Arrivals, Chosen, Report
from belated.reports.sections import REMARKS, SECTIONS, sections


def test_further_questions_have_the_unit_of_each_and_show_both_arms():
    arms = tuple(f"a_campaign_with_a_long_name_for_customers_{k}" for k in "ABC")
    rng = np.random.default_rng(2)
    log = bl.Log([arms[i % 3] for i in range(600)], (rng.random(600) < 0.3) * 1.0, np.full((600, 3), 1 / 3), arms=arms)
    est = bl.estimate(log)
    asked = (est.contrast(arms[1], arms[2]), est.policy(dict.fromkeys(arms, 1 / 3)))
    report = Report(title="", estimate=est, contrasts=est.contrasts(), further=asked)
    part = sections(report)[1].parts[1]
    cells = part.sheet.columns[1].texts()
    assert cells[0].endswith(" points")
    assert cells[1].endswith("%")
    assert "_B" in part.sheet.rows[0][0]
    assert "_C" in part.sheet.rows[0][0]
    drawn = re.search('<text class="name"[^>]*>([^<]* - [^<]*)<', part.charts[0])[1]
    assert drawn == "…B - …C"
    said = " ".join(answer(report))
    assert "_A" in said
    assert all(f"_{letter}" in said for letter in "ABC")


def test_the_page_has_its_sections_in_order():
    report = sample_report(warnings=("Few outcomes.",), notes=("12 outcomes were left out.",))
    html = render(replace(report, further=(report.estimate.policy({"A": 0.5, "B": 0.5}),)))
    reader = read_page(html)
    ids = [attrs["id"] for tag, attrs in reader.tags if tag == "h2"]
    assert ids == ["warnings", "arms", "differences", "moved", "arrivals", "policy", "estimators", "checks", "how"]
    assert [tag for tag, _ in reader.tags if re.fullmatch("h[1-6]", tag)].count("h1") == 1
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("table") == tags.count("caption") == 5
    assert not {"script", "img", "iframe", "object"} & set(tags)
    said = " ".join(reader.said)
    for words in ("Few outcomes.", "12 outcomes were left out.", "green: no problem found", "for one look"):
        assert words in said
    for words in ("belated report sent.parquet", "belated 0.1.0", "2026-03-01", "daipw", *REMARKS.values()):
        assert words in said


def test_a_long_table_is_folded():
    report = sample_report(tuple(f"v{k}" for k in range(9)), range(9), rows=600)
    html = render(replace(report, baseline=None, contrasts=report.estimate.contrasts()))
    assert "All 36 rows as a table" in html
    assert "The 24 clearest of 36 are drawn." in html


def test_only_an_estimate_is_enough():
    report = sample_report()
    assert "is highest with B" in answer(Report(title="x", estimate=report.estimate))[0]
    html = render(Report(title="x", estimate=report.estimate))
    ids = [attrs["id"] for tag, attrs in read_page(html).tags if tag == "h2"]
    assert ids == ["arms", "how"]
    unknown = Arrivals(
        arms=("A", "B"),
        delays=[0, 1],
        share=np.full((2, 2), math.nan),
        arrived=np.zeros(2),
        still_out=np.ones(2),
        overdue=np.zeros(2),
    )
    chosen = Chosen(arms=("A", "B"), moments=[1], share=np.array([[0.5, 0.5]]), probabilities=False)
    render(replace(report, arrivals=unknown, chosen=chosen))


def test_only_the_chosen_arms_propensities():
    rng = np.random.default_rng(1)
    log = bl.Log(["A", "B"] * 50, rng.normal(size=100), np.full(100, 0.5))
    estimate = bl.estimate(log, "dipw")
    html = render(
        Report(
            title="x", estimate=estimate, baseline="A", contrasts=estimate.contrasts("A"), comparison=bl.compare(log)
        )
    )
    assert REMARKS["dipw"] in html
    assert REMARKS["nh0"] not in html


def test_there_is_a_section_for_each_that_has_something_to_show():
    report = sample_report()
    assert [section.name for section in sections(report)] == [
        "arms", "differences", "moved", "arrivals", "policy", "estimators"
    ]  # fmt: skip
    assert [section.name for section in sections(Report(title="x", estimate=report.estimate))] == ["arms"]
    assert len(SECTIONS) == 9


def test_further_questions_have_a_heading_only_beside_differences():
    report = sample_report()
    policy = report.estimate.policy({"A": 0.5, "B": 0.5})
    both = replace(report, further=(policy,))
    (section,) = [section for section in sections(both) if section.name == "differences"]
    assert section.heading == "Differences and further questions"
    assert [part.heading for part in section.parts] == ["", "Further questions"]
    alone = replace(both, contrasts=None)
    (section,) = [section for section in sections(alone) if section.name == "differences"]
    assert (section.heading, [part.heading for part in section.parts]) == ("Further questions", [""])


def test_further_questions_say_whether_they_hold_together():
    report = sample_report(tuple("ABC"), (1.0, 2.0, 3.0))
    policy, pairs = report.estimate.policy({"A": 0.5, "B": 0.5}), [("B", "A"), ("C", "B")]
    captions = []
    for simultaneous in (False, True):
        asked = report.estimate.contrasts_of(pairs, simultaneous=simultaneous).answers
        (section,) = [s for s in sections(replace(report, further=(*asked, policy))) if s.name == "differences"]
        captions.append(section.parts[1].caption)
    assert captions[0].endswith("Each interval holds by itself.")
    assert captions[1].endswith("The intervals of the 2 differences hold together.")


def test_the_estimator_in_use_is_marked():
    (section,) = [section for section in sections(sample_report()) if section.name == "estimators"]
    assert [remark.estimator for remark in section.remarks if remark.is_used] == ["daipw"]
    assert {remark.estimator: remark.words for remark in section.remarks} == REMARKS


def test_of_events_the_arrivals_are_called_events():
    report = sample_report()
    links = {within: [s.link for s in sections(replace(report, within=within))][3] for within in (None, "7 days")}
    assert links == {None: "Arrivals", "7 days": "Events"}


# ---------------------------------------------------------------- segments


def segmented(segments=("DE", "FR"), rows=600, arms=2, different=1.0, **questions):
    """Return the report of a log in which the last arm's effect differs between segments."""
    rng = np.random.default_rng(3)
    names = list("ABCDEFGH"[:arms])
    code, place = rng.integers(0, arms, rows), rng.integers(0, len(segments), rows)
    outcome = different * (code == arms - 1) * np.where(place == 0, 1.0, -1.0) + rng.normal(size=rows)
    log = bl.Log(
        [names[k] for k in code], outcome, np.full((rows, arms), 1 / arms), segment=[segments[s] for s in place]
    )
    return gather(analyse(log, Questions(**questions)))


def test_the_main_differences_are_shown_in_every_segment_with_their_shares():
    report = segmented()
    section = next(section for section in sections(report) if section.name == "segments")
    part, mix = section.parts
    assert "2 segments" in section.intro
    assert "B - A differs between segments: p < 0.0001" in part.caption
    assert [row[0] for row in part.sheet.rows] == ["DE", "FR"]
    assert part.charts[0].count("all segments") >= 1
    assert [row[:2] for row in mix.sheet.rows] == [
        (name, f"{share:.1%}") for name, share in report.estimate.shares.items()
    ]
    said = " ".join(answer(report))
    assert "averages over 2 segments" in said
    assert "B - A differs between segments" in said


@pytest.mark.parametrize(("segments", "rows", "words"), [(["DE", "FR"], 12, "too small"), (["DE"], 60, "one segment")])
def test_a_single_segment_is_no_average(segments, rows, words):
    report = segmented(segments, rows)
    section = next(section for section in sections(report) if section.name == "segments")
    assert words in section.intro
    assert words in " ".join(answer(report))
    assert "averages over" not in section.intro + " ".join(answer(report))


def test_at_most_three_differences_are_shown_by_segment_among_them_the_main_one():
    report = segmented(arms=5, rows=1500)
    section = next(section for section in sections(report) if section.name == "segments")
    assert len(section.parts) == 4
    assert any(set(pair) == set(report.main) for pair in report.by_segment)


@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.parametrize("baseline", [None, "A"])
def test_differences_that_were_asked_for_come_first_by_segment(baseline, simultaneous):
    asked = (("D", "C"), ("B", "D"))
    report = segmented(arms=5, rows=1500, contrasts=asked, baseline=baseline, simultaneous=simultaneous,
                       policies=({"A": 1.0},))  # fmt: skip
    section = next(section for section in sections(report) if section.name == "segments")
    assert [part.heading for part in section.parts[:2]] == ["D - C", "B - D"]
    assert len(section.parts) == 4
    assert list(report.by_segment)[:2] == list(asked)
    assert any(set(pair) == set(report.main) for pair in report.by_segment)
    for pair, test in report.by_segment.items():
        one_by_one = report.estimate.segment("DE").contrast(*pair)
        assert test.contrasts.answers[0].estimate == pytest.approx(one_by_one.estimate)


def test_all_differences_that_were_asked_for_are_shown_by_segment_with_the_main_one():
    asked = (("B", "A"), ("C", "A"), ("D", "A"), ("D", "B"))
    report = segmented(arms=5, rows=1500, contrasts=(*asked, ("A", "B")))
    assert list(report.by_segment)[:4] == list(asked)
    assert [set(pair) for pair in report.by_segment][4:] == [set(report.main)]


def test_a_report_without_segments_has_no_such_section():
    report = sample_report()
    assert report.by_segment == {}
    assert "segments" not in [section.name for section in sections(report)]
    assert "averages over" not in " ".join(answer(report))


def test_names_of_segments_cannot_change_the_page():
    html = render(segmented(HOSTILE[:3]))
    assert "<script>window" not in html
    assert not any(tag in ("script", "img") for tag, _ in read_page(html).tags)
