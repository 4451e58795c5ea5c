"""Analysis: what is asked of a log; what `belated analyze` prints and writes is what the library says."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from commands import invoke
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from reports.samples import event_log, event_tables, many_arms

import belated as bl
from belated.reports.analysis import Questions, analyse

BANDIT = bl.Bandit(
    {"A": bl.arms.bernoulli(0.3), "B-2": bl.arms.bernoulli(0.5), "C": bl.arms.bernoulli(0.4)},
    bl.delays.geometric(20).censored(0.1),
)


@pytest.fixture(scope="module")
def log():
    return bl.simulate(BANDIT, bl.policies.epsilon_greedy(decay=0.3), 2_000, seed=5)


@pytest.fixture(scope="module")
def path(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "log.parquet"
    arrived = log.arrived
    columns = {
        "step": log.assigned_at,
        "arm": [log.arms[k] for k in log.code],
        "outcome": pa.array(log.outcome, mask=~arrived),
        "arrived": pa.array(np.where(arrived, log.arrived_at, 0).astype(int), mask=~arrived),
        **{f"p_{arm}": log.propensity[:, k] for k, arm in enumerate(log.arms)},
    }
    parquet.write_table(pa.table(columns), path)
    return path


def call(*arguments):
    return invoke(["analyze", *map(str, arguments)])


def test_the_name_of_the_outcome_is_text_in_markdown(log, tmp_path):
    columns = {"arm": [log.arms[k] for k in log.code[:200]], "<b>spend_usd</b>": np.arange(200) % 7}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    options = ["--outcome", "<b>spend_usd</b>", "--propensity", "uniform", "--format", "markdown"]
    done = call(tmp_path / "a.parquet", *options)
    assert done.stdout.startswith(r"Outcome: \<b\>spend\_usd\</b\>.")


def test_a_table_for_people(log, path):
    done = call(path, "--baseline", "A", "--policy", "A=0.2,B-2=0.8")
    assert done.exit_code == 0
    est = bl.estimate(log)
    for table in (est.contrasts("A"), est.policy({"A": 0.2, "B-2": 0.8})):
        assert str(table) in done.stdout
    assert "arm = arm" in done.stderr
    assert "guessed; change with --arm" in done.stderr


def test_json_is_as_documented(log, path):
    done = call(
        path, "--format", "json", "--contrast", "C-A", "--policy", "A=0.5,C=0.5", "--level", "0.9", "--as-of", 1500
    )
    document = json.loads(done.stdout)
    est = bl.estimate(log.at(1500), level=0.9)
    assert (document["schema"], document["level"], document["outcome"]) == (
        1, 0.9, {"name": "outcome", "within": None, "cap": None, "capped": None, "capped_share": None},
    )  # fmt: skip
    (answer,) = document["answers"]
    assert [row["arm"] for row in answer["arms"]] == list(est.arms)
    assert [row["estimate"] for row in answer["arms"]] == pytest.approx(est.values, rel=1e-9)
    (contrast,) = answer["contrasts"]
    wanted = est.contrast("C", "A")
    for name in ("estimate", "std_error", "low", "high", "statistic", "p_value"):
        assert contrast[name] == pytest.approx(getattr(wanted, name), rel=1e-8)
    assert answer["policies"][0]["policy"] == {"A": 0.5, "C": 0.5}
    documented = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
    for names in (document, document["source"], answer, answer["arms"][0], contrast, answer["policies"][0]):
        for name in names:
            assert re.search(rf"[`.]{name}[`.\[]", documented), name
    assert "lift" not in contrast
    assert contrast["simultaneous"] is False


def test_what_the_experiment_taught(log, path):
    done = call(path, "--policy", "greedy", "--format", "json")
    (policy,) = json.loads(done.stdout)["answers"][0]["policies"]
    greedy = bl.estimate(log).policy("greedy")
    assert (policy["policy"], policy["p_value"]) == ("greedy", None)
    assert (policy["low"], policy["high"]) == pytest.approx((greedy.low, greedy.high))


def test_csv_and_markdown(log, path):
    rows = list(csv.DictReader(io.StringIO(call(path, "--format", "csv", "--estimator", "all").stdout)))
    compared = bl.compare(log)
    assert {row["estimator"] for row in rows} == set(compared)
    for row in rows:
        if row["kind"] == "arm":
            assert float(row["estimate"]) == pytest.approx(compared[row["estimator"]].arm(row["question"]).estimate)
    assert {row["question"] for row in rows if row["kind"] == "contrast"} == {"B-2 - A", "C - A", "C - B-2"}
    assert "| arm | estimate |" in call(path, "--format", "markdown").stdout


def test_a_report_is_written_whole(path, tmp_path):
    done = call(path, "--report", tmp_path / "report.html", "--title", "Three arms")
    assert done.exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert "Three arms" in page
    assert list(tmp_path.iterdir()) == [tmp_path / "report.html"]


def test_two_tables_and_events(tmp_path):
    sent = {"id": range(8), "arm": ["A", "B"] * 4, "propensity": [0.5] * 8, "step": range(8)}
    arrow_csv.write_csv(pa.table(sent), tmp_path / "sent.csv")
    arrow_csv.write_csv(pa.table({"id": [0, 0, 1, 6, 77], "at": [1, 3, 9, 7, 2]}), tmp_path / "paid.csv")
    done = call(tmp_path / "sent.csv", "--outcomes", tmp_path / "paid.csv", "--events", "--window", 3, "--as-of", 9,
                "--arrived-at", "at", "--estimator", "mean", "--measure", "count", "--format", "json")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["outcome"]["within"] == "3 steps"
    # steps 0 to 6 have matured: A has events 2, 0, 0, 1, and B's event at 9 came too late
    assert [row["estimate"] for row in document["answers"][0]["arms"]] == [0.75, 0.0]
    assert "1 event belongs to no assignment" in done.stderr


def test_several_windows_are_in_every_format(tmp_path):
    sent, bought = event_tables(tmp_path)
    options = ("--outcomes", bought, "--events", "--measure", "indicator", "--arrived-at", "bought_at",
               "--windows", "1d,3d,10d", "--as-of", "2026-03-15")  # fmt: skip
    source = bl.read(sent, bought, events="indicator", windows=["1d", "3d", "10d"], as_of="2026-03-15",
                     arrived_at="bought_at")  # fmt: skip
    est = bl.estimate(source)
    document = json.loads(call(sent, *options, "--format", "json", "--estimator", "all").stdout)
    assert document["outcome"]["within"] == "10 days"
    assert document["source"]["arrived"] == est.arrived.sum() < document["source"]["rows"]
    maturity = document["maturity"]
    assert [maturity[name] for name in ("window", "asked", "covered", "measure")] == [
        "10 days", "10 days", None, "indicator"
    ]  # fmt: skip
    for k, row in enumerate(maturity["arms"]):
        counts = [int(each[0, k]) for each in (est.maturity.closed, est.maturity.open, est.maturity.events)]
        assert row == {"arm": "AB"[k], **dict(zip(("closed", "open", "events"), counts, strict=True))}
    answers = {each["estimator"]: each for each in document["answers"]}
    assert "dipw, closed only" in answers
    assert "windows" not in answers["dipw, closed only"]
    first, second, last = answers["dipw"]["windows"]
    assert [each["window"] for each in (first, second, last)] == ["1 day", "3 days", "10 days"]
    assert second["arms"][1]["estimate"] == pytest.approx(est.window("3d").arm("B").estimate)
    assert last["contrasts"][0]["low"] == pytest.approx(answers["dipw"]["contrasts"][0]["low"])
    assert answers["dipw"]["arms"][0]["observed_share"] is None

    rows = list(csv.DictReader(io.StringIO(call(sent, *options, "--format", "csv").stdout)))
    assert [(row["question"], row["window"]) for row in rows[:4]] == [
        ("A", ""), ("B", ""), ("B - A", ""), ("A", "1 day")
    ]  # fmt: skip
    assert float(rows[5]["estimate"]) == pytest.approx(est.window("1d").contrast("B", "A").estimate)
    text = call(sent, *options).stdout
    assert "dipw in 3 windows: 95% intervals" in text
    assert "B - A: 95% intervals, by window" in text


def test_windows_that_no_row_has_lived_are_cut_to_the_longest_age():
    log = event_log(as_of=6.0)
    log.windows = (1, 3, 10)
    analysis = analyse(log, Questions())
    assert analysis.within == analysis.result.maturity.text(analysis.result.maturity.window)
    assert list(analysis.windows) == ["1 step", "3 steps", analysis.within]
    document = json.loads(analysis.to_json())
    assert document["maturity"]["asked"] == "10 steps"
    assert document["maturity"]["window"] == document["outcome"]["within"] == analysis.within
    assert analyse(event_log(), Questions()).windows is None


def test_a_log_of_what_only_happens_is_refused(tmp_path):
    rows = 200
    paid = pa.array([1.0 if i % 7 == 0 else None for i in range(rows)])
    table = pa.table({"arm": ["A", "B"] * (rows // 2), "converted": paid, "propensity": [0.5] * rows})
    parquet.write_table(table, tmp_path / "log.parquet")
    done = call(tmp_path / "log.parquet", "--estimator", "dipw", "--report", tmp_path / "r.html")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "Every outcome that has arrived is 1" in done.stderr
    assert "--events --window" in done.stderr
    assert not (tmp_path / "r.html").exists()
    with pytest.warns(bl.BelatedWarning, match="only events are recorded"):
        answer = bl.estimate(bl.read(table), "dipw").arm("A")
    assert np.isnan([answer.low, answer.high, answer.std_error]).all()


def test_arrival_that_depends_on_the_outcome_is_said(tmp_path):
    rng = np.random.default_rng(0)
    rows = 4_000
    y = rng.normal(size=rows)
    delay = rng.geometric(1 / (20 + 60 * (y > 0))) - 1
    step = np.arange(rows)
    table = pa.table({"arm": np.where(step % 2, "A", "B"), "outcome": y, "p_A": [0.5] * rows, "p_B": [0.5] * rows,
                      "assigned_at": step, "arrived_at": step + delay})  # fmt: skip
    parquet.write_table(table, tmp_path / "log.parquet")
    done = call(tmp_path / "log.parquet", "--as-of", rows, "--format", "json")
    assert "depends on its value" in done.stderr
    assert "depends on its value" in json.loads(done.stdout)["warnings"][0]


def test_what_looks_like_a_mistake_is_said(tmp_path):
    rng = np.random.default_rng(2)
    rows = 3_000
    p = rng.uniform(0.1, 0.9, rows)
    arm = np.where(rng.random(rows) < p, "treatment", "control")
    bought = rng.random(rows) < 0.3
    table = pa.table({
        "arm": arm, "propensities": [[x, 1 - x] for x in p], "assigned_at": np.arange(rows),
        "arrived_at": pa.array(np.arange(rows) + 5, mask=~bought),
        "revenue": pa.array(rng.uniform(1, 9, rows), mask=~bought),
    })  # fmt: skip
    parquet.write_table(table, tmp_path / "log.parquet")
    swapped = call(tmp_path / "log.parquet")
    assert "do not agree with the logged probabilities" in swapped.stderr
    assert re.search(r"Every outcome is above 0, and at least (6\d|70)% of the oldest rows", swapped.stderr)
    right = call(tmp_path / "log.parquet", "--arms", "treatment,control")
    assert right.exit_code == 0
    assert "logged probabilities" not in right.stderr


def test_keys_that_never_meet_are_refused(tmp_path):
    assignments = pa.table({"id": [1, 2], "arm": ["A", "B"], "propensity": [0.5, 0.5]})
    outcomes = pa.table({"id": [11, 12], "outcome": [1.0, 2.0]})
    with pytest.raises(bl.LogError, match="None of the 2 outcomes belongs to an assignment"):
        bl.read(assignments, outcomes)


def test_arms_may_be_named_before_they_have_rows():
    table = pa.table({"arm": ["A", "A", "B"], "p_A": [0.5] * 3, "p_B": [0.5] * 3, "outcome": [1.0, 2.0, 3.0],
                      "assigned_at": [1, 2, 9]})  # fmt: skip
    for options in ({}, {"arms": ["A", "B"]}, {"arms": ["B", "A"], "propensity": "p_*"}):
        assert set(bl.read(table, as_of=5, **options).arms) == {"A", "B"}


# ---------------------------------------------------------------- questions


def test_questions_take_the_arms_own_labels():
    arms = (1, 2, 3)
    asked = Questions(baseline=np.int64(2), contrasts=((3.0, 1),), policies=({np.int64(1): 1.0}, "greedy")).about(arms)
    assert (asked.baseline, asked.contrasts, asked.policies) == (2, ((3, 1),), ({1: 1.0}, "greedy"))
    assert {type(arm) for pair in asked.contrasts for arm in (*pair, asked.baseline)} == {int}


@pytest.mark.parametrize(
    ("questions", "words"),
    [
        ({"baseline": "Z"}, "'Z'"),
        ({"contrasts": (("A", "Z"),)}, "'Z'"),
        ({"contrasts": (("A", "A"),)}, "two different arms"),
        ({"contrasts": ("B-A",)}, "`contrasts` holds 'B-A'; each must be two arms"),
        ({"policies": ({"A": 0.5},)}, "must sum to 1"),
        ({"policies": ("best",)}, "must map arms to numbers"),
    ],
)
def test_questions_about_what_is_not_there_are_refused(questions, words):
    with pytest.raises((bl.OptionError, bl.UnknownArmError), match=words):
        Questions(**questions).about(("A", "B"))


def test_a_target_needs_a_sequence():
    with pytest.raises(bl.OptionError, match="`target` is given without `sequential`"):
        Questions(target=100)
    Questions(target=100, sequential=True)


def test_all_pairs_of_few_arms_and_the_first_with_the_others_of_many(log):
    few, many = analyse(log, Questions()), analyse(many_arms(), Questions())
    assert (few.reference, few.pairs) == (None, (("B-2", "A"), ("C", "A"), ("C", "B-2")))
    assert (many.reference, many.pairs) == ("A", tuple((arm, "A") for arm in "BCDEFGHIJ"))
    assert few.further == many.further == ()


def test_what_was_asked_is_answered_beside_the_contrasts_that_are_always_shown():
    questions = Questions(contrasts=(("J", "I"), ("B", "A")), policies=("greedy",))
    analysis = analyse(many_arms(), questions)
    assert analysis.pairs == questions.contrasts
    assert [answer.name for answer in analysis.contrasts.answers] == ["J - I", "B - A"]
    assert [answer.name for answer in analysis.further] == ["J - I", "B - A", "greedy: J"]
    assert [answer.name for answer in analysis.default_contrasts.answers] == [f"{arm} - A" for arm in "BCDEFGHIJ"]
    beside = analyse(many_arms(), replace(questions, baseline="C"))
    assert beside.pairs == (*questions.contrasts, *((arm, "C") for arm in "ABDEFGHIJ"))
    assert [answer.name for answer in beside.further] == ["J - I", "B - A", "greedy: J"]


@pytest.mark.parametrize("estimator", ["daipw", "all"])
def test_every_format_has_the_contrasts_that_hold_together_and_their_lifts(log, estimator):
    questions = Questions(baseline="C", simultaneous=True, lift=True, sequential=True, estimator=estimator)
    analysis = analyse(log, questions)
    wanted = bl.estimate(log).contrasts("C", simultaneous=True, lift=True)
    assert analysis.contrasts == wanted
    document = json.loads(analysis.to_json())
    answer = document["answers"][0]
    rows = [row for row in csv.DictReader(io.StringIO(analysis.to_csv())) if row["estimator"] == "daipw"]
    for name in ("low", "high", "p_value"):
        for i, one in enumerate(wanted.answers):
            assert answer["contrasts"][i][name] == getattr(one, name)
            assert float([row for row in rows if row["kind"] == "contrast"][i][name]) == getattr(one, name)
    for i, one in enumerate(wanted.answers):
        lift = answer["contrasts"][i]["lift"]
        assert (lift["estimate"], lift["low"], lift["high"]) == (one.lift.estimate, one.lift.low, one.lift.high)
    (track,) = {one.together for one in analysis.sequence_contrasts.answers}
    assert track == 2
    assert all(one["simultaneous"] for one in document["sequence"]["contrasts"])
    text = analysis.to_text()
    assert "simultaneous" in text
    assert f"{wanted[0].lift.low:.0%}" in text
    if estimator == "daipw":
        assert str(wanted) in text


def test_contrasts_asked_for_by_name_hold_together_with_those_beside_them():
    questions = Questions(contrasts=(("J", "I"), ("B", "A")), simultaneous=True)
    asked = analyse(many_arms(), questions)
    beside = analyse(many_arms(), replace(questions, baseline="C"))
    est = asked.result
    assert asked.contrasts == est.contrasts_of([("J", "I"), ("B", "A")], simultaneous=True)
    assert asked.further == asked.contrasts.answers
    assert asked.default_contrasts == est.contrasts("A", simultaneous=True)
    assert len(beside.contrasts) == 11
    assert beside.further == beside.contrasts.answers[:2]
    assert beside.default_contrasts.answers == beside.contrasts.answers[2:]
    own = est.contrast("A", "C")
    assert beside.contrasts[2].high - beside.contrasts[2].low > own.high - own.low


def test_one_arm_has_no_contrasts():
    analysis = analyse(many_arms(("A",)), Questions())
    assert analysis.contrasts is analysis.default_contrasts is None
    assert json.loads(analysis.to_json())["answers"][0]["contrasts"] == []


def test_warnings_are_kept_each_once_and_not_said(log):
    outcome = np.where(log.code == 0, np.nan, log.outcome)
    silent = bl.Log(log.code, outcome, log.propensity, delay=np.where(np.isnan(outcome), np.inf, 1.0), as_of=2_000)
    analysis = analyse(silent, Questions())
    assert analysis.warnings[0] == "No outcome of arm 0 has arrived; there is no estimate."
    assert len(set(analysis.warnings)) == len(analysis.warnings)
