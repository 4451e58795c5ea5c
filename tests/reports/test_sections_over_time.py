"""Sections on time: the build-up of events, and sequences."""

from __future__ import annotations

import pyarrow as pa
from reports.samples import event_log, event_tables, read_page

import belated as bl
from belated.reports.analysis import Questions, analyse
from belated.reports.gather import gather
from belated.reports.narrative import answer
from belated.reports.rendering import render
from belated.reports.sections import MATURING_REMARKS, sections


def event_report(source, **questions):
    return gather(analyse(source, Questions(**questions)))


def test_a_report_of_events_shows_how_they_build_up_and_says_nothing_of_arrival():
    report = event_report(event_log())
    shown = {section.name: section for section in sections(report)}
    assert list(shown) == ["arms", "differences", "buildup", "moved", "looked", "policy", "estimators"]
    buildup = shown["buildup"]
    assert buildup.heading == "How events build up after assignment"
    counted = {section.name: section for section in sections(event_report(event_log(measure="count")))}
    assert counted["buildup"].heading == "How the mean number of events builds up after assignment"
    closed, still = (int(x.sum()) for x in (report.estimate.maturity.closed, report.estimate.maturity.open))
    assert f"{closed:,} assignments have lived 10 steps or longer; {still:,} are younger." in buildup.intro
    (part,) = buildup.parts
    assert len(part.charts) == 1
    assert part.charts[0].count('class="band ') == 2
    assert [row[0] for row in part.sheet.rows[::2]] == ["2.5 steps", "5 steps", "7.5 steps", "10 steps"]
    names = [column.name for column in shown["arms"].parts[0].sheet.columns]
    assert names[-4:] == ["assigned", "closed", "events", "eff. size"]
    said = " ".join(read_page(render(report)).said)
    head = said[: said.index("Assumptions, and what the log shows")]
    assert "arriv" not in head
    assert f"{closed:,} windows of 10 steps closed" in head
    assert "the ages reached so far" in head
    assert "How the answer changed as events came in" in head
    assert set(MATURING_REMARKS) == set(report.comparison.estimates)
    assert all(words in head for words in MATURING_REMARKS.values())


def test_the_windows_that_were_asked_for_are_in_tables(tmp_path):
    sent, bought = event_tables(tmp_path)
    options = {"events": "indicator", "windows": ["1d", "3d", "10d"], "as_of": "2026-03-15", "arrived_at": "bought_at"}
    report = event_report(bl.read(sent, bought, **options))
    arms, differences = next(section for section in sections(report) if section.name == "buildup").parts
    assert [row[:2] for row in arms.sheet.rows[:3]] == [("1 day", "A"), ("1 day", "B"), ("3 days", "A")]
    assert differences.heading == "Differences by window"
    assert [row[:2] for row in differences.sheet.rows] == [(w, "B - A") for w in ("1 day", "3 days", "10 days")]
    assert "1 day" in differences.charts[0]
    closed = event_report(bl.read(sent, bought, maturing=False, **{**options, "windows": None, "window": "10d"}))
    shown = {section.name: section for section in sections(closed)}
    assert "buildup" not in shown
    assert shown["arrivals"].heading == "When events happen"
    assert shown["moved"].heading == "How the answer changed as windows closed"
    assert "arrived" not in {column.name for column in shown["arms"].parts[0].sheet.columns}


def test_the_title_of_capped_differences_by_window_reads_as_words():
    sent = pa.table({"user": range(90), "arm": ["A", "B", "C"] * 30, "at": range(90)})
    bought = pa.table({"user": range(0, 90, 2), "on": range(1, 91, 2), "value": [5.0, 1.0, 2.0] * 15})
    options = {"key": "user", "assigned_at": "at", "arrived_at": "on", "outcome": "value", "propensity": "uniform"}
    log = bl.read(sent, bought, events="sum", windows=[2, 10], as_of=90, cap=3, **options)
    *_, differences = next(each for each in sections(event_report(log)) if each.name == "buildup").parts
    assert differences.caption.startswith("Differences in mean value, capped at 3, by window, with 95% intervals")


def test_before_any_window_closes_the_report_is_about_the_longest_age():
    report = event_report(event_log(as_of=6.0))
    assert report.within.startswith("5.9")
    said = answer(report)
    assert any(words.startswith("No row of some arm has lived 10 steps yet") for words in said)
    assert "closed only" not in " ".join(report.comparison.estimates)
    names = [section.name for section in sections(report)]
    assert "buildup" in names
    assert "looked" not in names


def test_when_all_windows_have_closed_the_build_up_says_so():
    report = event_report(event_log(as_of=40.0))
    buildup = next(section for section in sections(report) if section.name == "buildup")
    assert buildup.intro == f"All {len(event_log(as_of=40.0)):,} windows of 10 steps have closed."


def test_the_build_up_of_many_arms_has_a_chart_for_each_of_the_highest():
    report = event_report(event_log(names=tuple("ABCDEFGH")))
    part = next(section for section in sections(report) if section.name == "buildup").parts[0]
    assert len(part.charts) == 6
    assert part.caption.endswith("The 6 highest of 8 arms are drawn.")


def test_a_single_arm_is_not_to_be_stopped_when_its_mean_excludes_0():
    log = bl.Log(["A"] * 60, [float(k % 3 == 0) for k in range(60)], [[1.0]] * 60)
    looked = next(section for section in sections(event_report(log)) if section.name == "looked")
    assert looked.intro.endswith("you may look as often as you like, and stop at any look.")
