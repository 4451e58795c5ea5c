"""What a diagnosis says of healthy logs, of tables and of hardly any rows, and how it is shown."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from commands import invoke
from engines import source_of
from scipy import stats
from simulated_logs import ARMS, POLICIES, changed, chosen, played, waits

import belated as bl

NAMES = (
    "largest weight", "effective size", "variance sums", "propensity decay", "delay tail", "still out", "arrivals",
    "probabilities", "units", "outcome and delay", "recorded outcomes", "variation", "largest outcomes", "drift",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["steps", "dates", "floats", "chosen", "at once", "labels"])
def test_a_table_and_a_log_are_judged_alike(kind):
    log = played(400, 3, labels=["A", "B", "C"] if kind == "labels" else None)
    labels = [log.arms[k] for k in log.code]
    late = waits(log)
    if kind == "dates":
        hour, start = np.timedelta64(3600, "s"), np.datetime64("2026-01-05T00:00:00")
        at = start + np.arange(400) * hour
        delay = np.where(np.isinf(late), np.timedelta64("NaT", "s"), np.nan_to_num(late, posinf=0) * hour)
        log = bl.Log(labels, log.outcome, log.propensity, arms=log.arms, assigned_at=at, delay=delay, as_of=at[350])
    elif kind == "floats":
        at = np.sqrt(np.arange(400.0))
        log = bl.Log(labels, log.outcome, log.propensity, arms=log.arms, assigned_at=at, delay=late / 31, as_of=at[-1])
    elif kind == "chosen":
        log = changed(log, propensity=chosen(log))
    elif kind == "at once":
        log = bl.Log(labels, log.outcome, log.propensity, arms=log.arms)
    of_log, of_table = bl.diagnose(log), bl.diagnose(source_of(log))
    assert tuple(check.name for check in of_log) == NAMES
    for check, other in zip(of_log, of_table, strict=True):
        assert (check.light, check.finding, check.advice) == (other.light, other.finding, other.advice)
        assert str(check.numbers.keys()) == str(other.numbers.keys())


def test_rows_in_any_order_are_one_log():
    log = played(500, 2)
    order = np.random.default_rng(1).permutation(500)
    labels = np.array([log.arms[k] for k in log.code])
    mixed = bl.Log(
        labels[order], log.outcome[order], log.propensity[order], arms=log.arms, assigned_at=np.arange(1, 501)[order],
        delay=waits(log)[order], as_of=500,
    )  # fmt: skip
    for check, other in zip(bl.diagnose(log), bl.diagnose(mixed), strict=True):
        assert (check.light, check.finding) == (other.light, other.finding)


# ---------------------------------------------------------------- healthy logs


@pytest.mark.parametrize("kind", ARMS)
@pytest.mark.parametrize("policy", POLICIES)
def test_healthy_logs_have_no_red_light(kind, policy):
    red = []
    for r in range(40):
        delays = (bl.delays.none(), bl.delays.pareto(0.75), bl.delays.poisson(20), bl.delays.geometric(5))[r % 4]
        arms = 2 + 3 * (r % 2)
        late = {k: delays.censored(0.5 if k == arms - 1 else 0.0) for k in range(arms)}
        red += bl.diagnose(played(1000, arms, kind, policy, late, replication=r)).red
    assert stats.binom.sf(len(red) - 1, 40, 0.02) > 1e-3, red


def test_half_of_everything_never_coming_is_no_fault():
    for seed in range(20):
        log = played(1000, 2, "exponential", delays=bl.delays.pareto(0.75).censored(0.5), seed=seed)
        assert bl.diagnose(log).red == ()


# ---------------------------------------------------------------- few rows, and windows


def test_few_and_no_outcomes():
    nothing = bl.diagnose(bl.Log([0, 1], [math.nan] * 2, np.full((2, 2), 0.5)))
    assert nothing["arrivals"].light == nothing.worst == "red"
    assert nothing["largest weight"].light == "grey"
    log = bl.Log(["A", "B"] * 100, np.arange(200.0), [[0.5, 0.5, 0.0]] * 200, arms=["A", "B", "C"])
    diagnosis = bl.diagnose(log)
    assert diagnosis["arrivals"].light == "amber"
    assert diagnosis["arrivals"].finding == "Arm 'C' has 0 outcomes, so it has no interval."
    assert diagnosis.to_json()
    assert bl.diagnose(bl.Log([0] * 50, np.arange(50.0), np.ones(50))).worst in ("amber", "red")
    with pytest.raises(bl.LogError, match="no rows"):
        bl.diagnose(played(50).at(0))
    with pytest.raises(bl.OptionError, match="`log` is of type int"):
        bl.diagnose(3)


def test_a_window_answers_for_the_delays():
    rng = np.random.default_rng(4)
    rows = 900
    ids = np.arange(rows)
    assignments = {"id": ids, "arm": ["A", "B"] * (rows // 2), "propensity": [0.5] * rows, "step": ids}
    who = rng.choice(rows, 150, replace=False)
    paid = {"id": who, "at": who + rng.integers(0, 40, 150)}
    source = bl.read(pa.table(assignments), pa.table(paid), arrived_at="at", events="indicator", window=20, as_of=rows)
    diagnosis = bl.diagnose(source)
    for name in ("delay tail", "still out", "outcome and delay", "recorded outcomes"):
        assert (diagnosis[name].light, "20 steps" in diagnosis[name].finding) == ("green", True)
    assert diagnosis.red == ()


# ---------------------------------------------------------------- how it is shown


def test_a_diagnosis_as_text_and_data():
    log = played(10_000, labels=["A", "B"])
    diagnosis = bl.diagnose(changed(log, outcome=log.outcome + np.arange(10_000) / 10_000))
    assert (diagnosis.worst, diagnosis.red, diagnosis.amber) == ("red", ("drift",), ())
    assert len(diagnosis) == len(NAMES)
    text = repr(diagnosis)
    assert text.startswith("Diagnosis of a log (10,000 rows, 2 arms): 1 red, 13 green\n✓ green  largest weight")
    assert "✗ red    drift               practice  Within arms, mean outcomes change over time" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "To do: Each estimate is then an average" in text
    assert diagnosis.to_dict()["checks"][list(NAMES).index("drift")]["light"] == "red"
    plain = json.loads(diagnosis.to_json())
    assert plain["worst"] == "red"
    assert plain["checks"][0]["numbers"]["share"].keys() == {"A", "B"}
    assert "| ✗ red | drift | practice |" in diagnosis.to_markdown()
    assert diagnosis.to_csv().splitlines()[0] == "check,condition,light,finding,advice"
    assert list(diagnosis.to_pandas()["check"]) == list(NAMES)
    assert "<td" in diagnosis._repr_html_()
    with pytest.raises(bl.OptionError, match="Did you mean 'drift'"):
        diagnosis["drfit"]


def test_hostile_labels_are_text():
    log = played(600, labels=["<script>alert(1)</script>\n", "b" * 500])
    diagnosis = bl.diagnose(log)
    assert "<script>" not in diagnosis.to_html()
    assert max(map(len, diagnosis.to_text().splitlines())) <= 100
    assert json.loads(diagnosis.to_json())


def test_the_command(tmp_path):
    log = played(2000, labels=["A", "B"])
    late = waits(log)
    columns = {"arm": [log.arms[k] for k in log.code], "step": np.arange(1, 2001), "p_A": log.propensity[:, 0],
               "p_B": log.propensity[:, 1], "outcome": pa.array(log.outcome, mask=np.isinf(late)),
               "arrived": pa.array(log.arrived_at, mask=np.isinf(late))}  # fmt: skip
    path = tmp_path / "log.parquet"
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    run = invoke(["diagnose", str(path), "--as-of", "2000", "--format", "json"])
    assert run.exit_code == 0, run.stderr
    document = json.loads(run.stdout)
    assert [check["check"] for check in document["checks"]] == list(NAMES)
    assert document["rows"] == 2000
    table = invoke(["diagnose", str(path)])
    assert "✓ green  drift" in table.stdout
    for form in ("csv", "markdown"):
        assert invoke(["diagnose", str(path), "--format", form]).exit_code == 0
    assert invoke(["diagnose", str(path), "--format", "xml"]).exit_code == 2
    columns["p_A"], columns["p_B"] = columns["p_B"], columns["p_A"]
    pq.write_table(pa.table(columns), path)
    wrong = invoke(["diagnose", str(path)])
    assert wrong.exit_code == 0
    assert "✗ red    probabilities" in wrong.stdout


@pytest.mark.parametrize("columns", [40, 80, 140])
def test_the_text_is_no_wider_than_the_screen(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    log = bl.simulate(bl.Bandit({"A": bl.arms.normal(0), "B": bl.arms.normal(1)}), bl.policies.uniform(), 200, seed=1)
    diagnosis = bl.diagnose(log)
    lines = str(diagnosis).splitlines()[1 : -len(diagnosis._notes())]
    assert max(map(len, lines)) <= columns
    assert all(word in str(diagnosis) for check in diagnosis for word in check.finding.split())


def test_a_log_with_every_row_twice_is_named(tmp_path):
    rng = np.random.default_rng(3)
    rows = pa.table(
        {"arm": rng.choice(["A", "B"], 300), "outcome": rng.normal(size=300), "assigned_at": np.arange(300.0)}
        | {"p_A": np.full(300, 0.5), "p_B": np.full(300, 0.5)}
    )
    once, twice = bl.read(rows), bl.read(pa.concat_tables([rows, rows]))
    assert bl.diagnose(once).copies == 1
    assert "every row" not in bl.diagnose(once).to_text()
    for log in (twice, twice.log()):
        diagnosis = bl.diagnose(log)
        assert "The log contains every row twice." in diagnosis.to_text()
        assert json.loads(diagnosis.to_json())["copies"] == 2


def test_a_log_with_an_invalid_row_is_refused(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("arm,outcome,p_A,p_B,assigned_at\nA,1,0.5,0.5,1\nB,0,-0.5,1.5,2\n")
    with pytest.raises(bl.LogError, match=r"`propensity` in line 3 for arm 'A' is -0\.5"):
        bl.diagnose(bl.read(path))


def test_emoji_in_findings_stay_whole():
    family = "\N{WOMAN}\u200d\N{GIRL}"
    log = bl.Log([family, "b\u202e"] * 4, [0.0, 1.0] * 4, np.full((8, 2), 0.5), arms=[family, "b\u202e"])
    text = bl.diagnose(log).to_text()
    assert family in text
    assert "\\u200d" not in text
    assert "\u202e" not in text
