from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import belated as bl
from belated.estimation.target import MANY_ARMS


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


def test_lift_and_simultaneous(call, log, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    (answers,) = json.loads(call("analyze", log, "--lift", "--simultaneous", "--format", "json").stdout)["answers"]
    (contrast,) = answers["contrasts"]
    lift = bl.estimate(bl.read(str(log))).lift("B", "A")
    assert contrast["simultaneous"] is True
    assert (contrast["lift"]["estimate"], contrast["lift"]["why"]) == (pytest.approx(lift.estimate), lift.why)
    assert "lift_low" in call("analyze", log, "--lift").stdout
    assert "lift" not in call("analyze", log).stdout


def test_the_help_says_which_contrasts_there_are_unless_some_are_asked_for(call):
    words = " ".join(call("analyze", "--help").stdout.replace("│", " ").split())
    assert f"with more than {MANY_ARMS} arms, every other arm minus the first" in words


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
        (("--interval", "skewed"), "--interval is 'skewed'"),
        (("--estimator", "daip"), "Did you mean 'daipw'?"),
        (("--level", "95"), "--level is 95.0; it must lie strictly between 0 and 1."),
        (("--report", "/nowhere/r.html"), "there is no folder"),
        (("--measure", "sum"), "--measure is given without --events"),
        (("--duplicates", "frist"), "Did you mean 'first'?"),
        (("--closed-only",), "--closed-only is given without --events"),
        (("--events", "--windows", "1d,7d", "--window", "7d"), "--window and --windows are both given"),
        (("--events", "--windows", "1d,7d", "--closed-only"), "give one --window if only closed windows count"),
    ],
)
def test_what_cannot_be_is_said_before_the_log_is_read(refused, log, arguments, sentence):
    assert sentence in refused("analyze", log, *arguments)


def test_a_question_that_does_not_fit_the_log(call, log):
    for arguments, sentence in {
        ("--target", "5"): "--target is given without --sequential",
        ("--bounds", "0", "1"): "--bounds applies only to a confidence sequence; add --sequential",
        ("--sequential", "--kind", "bernstien"): "Did you mean 'bernstein'?",
        ("--baseline", "C"): "There is no arm 'C'",
        ("--contrast", "A"): "it must be two arms, such as B-A",
    }.items():
        done = call("analyze", log, *arguments)
        assert done.exit_code == 2
        assert done.stdout == ""
        assert sentence in done.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def revenue(tmp_path_factory):
    """Write a log of revenue, most of it 0."""
    rng = np.random.default_rng(1)
    rows = 400
    arm = rng.choice(["A", "B"], rows)
    amount = np.where(rng.random(rows) < 0.3, np.round(rng.lognormal(4, 1, rows), 2), 0.0)
    path = tmp_path_factory.mktemp("revenue") / "sent.csv"
    lines = [f"{a},0.5,{y}" for a, y in zip(arm, amount, strict=True)]
    path.write_text("\n".join(["arm,propensity,revenue", *lines]))
    return path


def test_a_cap_is_said_with_how_many_it_cut(call, revenue, tmp_path):
    page = tmp_path / "report.html"
    done = call("analyze", revenue, "--cap", 100, "--estimator", "dipw", "--sequential", "--report", page)
    assert done.exit_code == 0
    source = bl.read(str(revenue), cap=100)
    n = int(source.above_cap().sum())
    assert n > 0
    assert "Outcome: revenue, capped at 100." in done.stdout
    assert "dipw, mean revenue, capped at 100: 95%" in done.stdout
    assert f"{n} of 400 arrived outcomes ({n / 400:.2%}) lie above 100 and count as 100." in done.stdout
    assert "bernstein confidence sequence of mean revenue, capped at 100," in done.stdout
    html = page.read_text()
    assert "<title>sent.csv: mean revenue, capped at 100</title>" in html
    assert "What is the mean revenue, capped at 100, for A and B, and do they differ?" in html
    assert "ean revenue, capped at 100 (" in html
    assert f"{n} of 400 arrived outcomes ({n / 400:.2%}) lie above 100 and count as 100" in html
    assert "ean revenue, capped at 100, by arm" in html


def test_a_cap_is_in_json_and_csv(call, revenue):
    done = call("analyze", revenue, "--cap", 100, "--estimator", "dipw", "--sequential", "--format", "json")
    document = json.loads(done.stdout)
    above = bl.read(str(revenue), cap=100).above_cap()[0]
    assert document["outcome"] == {
        "name": "revenue", "within": None, "cap": 100, "capped": above.sum(), "capped_share": above.sum() / 400,
    }  # fmt: skip
    assert [arm["capped"] for arm in document["answers"][0]["arms"]] == above.tolist()
    assert (document["sequence"]["kind"], document["sequence"]["bounds"]) == ("bernstein", [0, 100])
    rows = csv.DictReader(call("analyze", revenue, "--cap", 100, "--format", "csv").stdout.splitlines())
    assert {row["cap"] for row in rows} == {"100.0"}
    assert "cap" not in call("analyze", revenue, "--format", "csv").stdout.splitlines()[0]


def test_every_command_that_reads_a_log_takes_a_cap(call, revenue):
    for command in (("diagnose",), ("sensitivity", "--contrast", "B-A")):
        done = call(command[0], revenue, *command[1:], "--cap", 100)
        assert done.exit_code == 0
        assert "capped at 100" in done.stdout
        assert "lie above 100 and count as 100." in done.stdout


@pytest.mark.parametrize("cap", ["nan", "inf", "0", "-5"])
def test_a_cap_that_cannot_be_is_one_sentence(call, revenue, cap):
    done = call("analyze", revenue, "--cap", cap)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("Error: --cap is ")


def test_a_report_of_capped_outcomes_below_zero_is_written(call, tmp_path):
    rng = np.random.default_rng(2)
    path, page = tmp_path / "log.csv", tmp_path / "report.html"
    lines = [f"{a},0.5,{y:.3f}" for a, y in zip(rng.choice(["A", "B"], 200), rng.normal(size=200), strict=True)]
    path.write_text("\n".join(["arm,propensity,profit", *lines]))
    assert call("analyze", path, "--cap", 1, "--report", page).exit_code == 0
    assert "mean profit, capped at 1" in page.read_text()
    done = call("analyze", path, "--cap", 1, "--sequential")
    assert done.exit_code == 2
    assert "`bounds=(low, high)`" in done.stderr.splitlines()[-1]
    bounded = call("analyze", path, "--cap", 1, "--sequential", "--bounds", -5, 5)
    assert bounded.exit_code == 0, bounded.output


# ---------------------------------------------------------------- segments


@pytest.fixture
def sent(tmp_path):
    """A file with three countries, one of which has few rows, in which B - A differs."""
    rng = np.random.default_rng(1)
    rows = 1200
    country, code = rng.choice(["DE", "FR", "IT"], rows, p=[0.55, 0.44, 0.01]), rng.integers(0, 2, rows)
    outcome = code * np.where(country == "DE", 1.0, -1.0) + rng.normal(size=rows)
    lines = [
        f"{c},{'AB'[k]},{y},0.5,0.5,{a}" for c, k, y, a in zip(country, code, outcome, rng.random(rows), strict=True)
    ]
    path = tmp_path / "sent.csv"
    path.write_text("\n".join(["country,arm,outcome,p_A,p_B,age", *lines]) + "\n")
    return path


def test_estimates_are_standardised_and_given_by_segment(call, sent):
    done = call("analyze", sent, "--segment", "country", "--covariates", "age", "--by-segment", "--format", "json")
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert document["source"]["columns"]["segment"] == ["country"]
    assert "segment = country, covariates = age" in done.stderr
    estimate = bl.estimate(bl.read(str(sent), segment="country", covariates="age"))
    assert [each["segment"] for each in document["segments"]] == list(estimate.segments) == ["DE", "other"]
    assert {each["segment"]: each["share"] for each in document["segments"]} == pytest.approx(estimate.shares)
    assert sum(each["assigned"] for each in document["segments"]) == 1200
    assert document["merged_segments"] == ["FR", "IT"]
    (answers,) = document["answers"]
    assert [arm["estimate"] for arm in answers["arms"]] == pytest.approx(list(estimate.values))
    own, (contrast,) = estimate.segment("DE"), answers["by_segment"][0]["contrasts"]
    assert (contrast["low"], contrast["p_value"]) == pytest.approx(
        (own.contrast("B", "A").low, own.contrast("B", "A").p_value)
    )
    arms = answers["by_segment"][0]["arms"]
    assert [arm["estimate"] for arm in arms] == pytest.approx(list(own.values))
    assert sum(arm["assigned"] for arm in arms) == document["segments"][0]["assigned"]
    test = estimate.heterogeneity("B", "A")
    assert answers["heterogeneity"] == [
        {"arm": "B", "baseline": "A", "statistic": pytest.approx(test.statistic),
         "degrees": pytest.approx(list(test.degrees)), "p_value": pytest.approx(test.p_value), "left_out": []}
    ]  # fmt: skip


def test_segments_in_text_and_csv(call, sent):
    text = call("analyze", sent, "--segment", "country", "--by-segment", "--simultaneous").stdout
    assert "standardised to the log's mix of 2 segments" in text
    assert "B - A by segment, 95% simultaneous score intervals" in text
    assert "B - A differs between segments: p < 0.0001" in text
    assert "by segment" not in call("analyze", sent, "--segment", "country").stdout
    options = ("--segment", "country", "--by-segment", "--lift", "--format", "csv")
    rows = list(csv.DictReader(call("analyze", sent, *options).stdout.splitlines()))
    assert {(row["kind"], row["segment"]) for row in rows} == {
        *((kind, segment) for kind in ("arm", "contrast", "lift") for segment in ("", "DE", "other")),
        ("heterogeneity", ""),
    }


def test_policies_by_segment(call, sent, refused):
    both = [call("analyze", sent, "--segment", "country", "--policy", text, "--format", "json").stdout
            for text in ("DE:A,other:B", "DE:A=1;other: B=1")]  # fmt: skip
    policies = [json.loads(text)["answers"][0]["policies"][0] for text in both]
    assert policies[0]["policy"] == {"DE": "A", "other": "B"}
    assert policies[1]["policy"] == {"DE": {"A": 1.0}, "other": {"B": 1.0}}
    assert policies[0]["estimate"] == pytest.approx(policies[1]["estimate"])
    rows = call(
        "analyze", sent, "--segment", "country", "--policy", "DE:A=0.5,B=0.5; other:B", "--format", "csv"
    ).stdout
    assert "DE:A=0.5,B=0.5;other:B" in rows


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--by-segment"], "--by-segment needs segments; name their column, such as --segment country"),
        (["--segment", "contry"], "no column 'contry' for --segment"),
        (["--segment", "country", "--covariates", "country"], "The covariate 'country' holds text"),
    ],
)
def test_segments_that_cannot_be(call, sent, options, words):
    done = call("analyze", sent, *options)
    assert done.exit_code == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("DE:A", "has nothing for segment 'other'"),
        ("DE:A,other:C", "There is no arm 'C'"),
        ("DE:A,DE:B,other:A", "segment 'DE' twice"),
        ("DE:A=0.5,other:B", "must sum to 1"),
        ("UK:A", "There is no segment 'UK'; the segments are 'DE', 'other'."),
        ("UK:A=1", "There is no arm 'UK:A'"),
        ("greeedy", "or be 'greedy'."),
    ],
)
def test_policies_by_segment_that_cannot_be(call, sent, policy, words):
    done = call("analyze", sent, "--segment", "country", "--policy", policy)
    assert done.exit_code == 2
    assert words in done.stderr


def test_a_policy_by_segment_needs_segments(call, sent):
    done = call("analyze", sent, "--policy", "DE:A,other:B")
    assert done.exit_code == 2
    assert done.stderr.endswith("a policy by segment needs the segments: name them with --segment.\n")
