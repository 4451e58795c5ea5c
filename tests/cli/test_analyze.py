from __future__ import annotations

import csv
import json

import pytest

import belated as bl
from belated.reports.analysis import MANY_ARMS


def test_the_answers_are_those_of_the_library(call, log):
    done = call("analyze", log, "--baseline", "A", "--format", "json")
    assert done.exit_code == 0
    (answers,) = json.loads(done.stdout)["answers"]
    estimate = bl.estimate(bl.read(str(log)))
    expected = estimate.contrast("B", "A")
    assert [arm["estimate"] for arm in answers["arms"]] == pytest.approx(list(estimate.values))
    (contrast,) = answers["contrasts"]
    assert (contrast["low"], contrast["high"]) == pytest.approx((expected.low, expected.high))
    assert "arm" in done.stderr  # what was guessed


@pytest.mark.parametrize(
    ("form", "sign"), [("table", "B - A"), ("markdown", "| --:"), ("csv", "estimator,kind,question"), ("json", "{")]
)
def test_every_format(call, log, form, sign):
    done = call("analyze", log, "--format", form)
    assert done.exit_code == 0
    assert sign in done.stdout
    assert done.stdout.endswith("\n")
    assert not done.stdout.endswith("\n\n")


def test_every_question_at_once(call, log):
    done = call(
        "analyze", log, "--contrast", "A-B", "--policy", "A=0.2,B=0.8", "--policy", "greedy", "--estimator", "dipw",
        "--interval", "normal", "--level", 0.9, "--sequential", "--target", 1000, "--format", "csv",
    )  # fmt: skip
    assert done.exit_code == 0
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert {row["question"] for row in rows} >= {"A", "B", "A - B", "A=0.2,B=0.8", "greedy"}
    assert {row["level"] for row in rows} == {"0.9"}
    assert {row["estimator"] for row in rows} == {"dipw", "sequence"}


def test_lift_and_simultaneous(call, log):
    (answers,) = json.loads(call("analyze", log, "--lift", "--simultaneous", "--format", "json").stdout)["answers"]
    (contrast,) = answers["contrasts"]
    lift = bl.estimate(bl.read(str(log))).lift("B", "A")
    assert contrast["simultaneous"] is True
    assert (contrast["lift"]["estimate"], contrast["lift"]["why"]) == (pytest.approx(lift.estimate), lift.why)
    assert "lift_low" in call("analyze", log, "--lift").stdout
    assert "lift" not in call("analyze", log).stdout


def test_the_help_says_which_contrasts_there_are_unless_some_are_asked_for(call):
    words = " ".join(call("analyze", "--help").stdout.replace("│", " ").split())
    assert f"of more than {MANY_ARMS} arms, every other arm minus the first" in words


def test_a_report_is_written_and_named_on_stderr(call, log, tmp_path):
    path = tmp_path / "report.html"
    done = call("analyze", log, "--report", path, "--title", "Spring <sale>")
    assert done.exit_code == 0
    assert f"Report: {path}" in done.stderr
    assert "Spring &lt;sale&gt;" in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--format", "jsn"), "it must be one of 'table', 'markdown', 'csv', 'json'. Did you mean 'json'?"),
        (("--interval", "skewed"), "`interval` is 'skewed'"),
        (("--estimator", "daip"), "Did you mean 'daipw'?"),
        (("--level", "95"), "`level` is 95.0; it must lie strictly between 0 and 1."),
        (("--report", "/nowhere/r.html"), "there is no folder"),
        (("--measure", "sum"), "`measure` is given without `events`"),
        (("--duplicates", "frist"), "Did you mean 'first'?"),
    ],
)
def test_what_cannot_be_is_said_before_the_log_is_read(refused, log, arguments, sentence):
    assert sentence in refused("analyze", log, *arguments)


def test_a_question_that_does_not_fit_the_log(call, log):
    for arguments, sentence in {
        ("--target", "5"): "`target` is given without `sequential`",
        ("--baseline", "C"): "There is no arm 'C'",
        ("--contrast", "A"): "two arms with a dash",
    }.items():
        done = call("analyze", log, *arguments)
        assert done.exit_code == 2
        assert done.stdout == ""
        assert sentence in done.stderr.splitlines()[-1]
