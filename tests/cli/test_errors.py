"""What errors say on the command line: its options, the nearest name, and the cause."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

LINES = """arm,outcome,assigned_at,arrived_at,p_A,p_B
A,1,2026-03-01,2026-03-02,0.5,0.5
B,0,2026-03-02,2026-03-04,0.5,0.5
A,0,2026-03-03,2026-03-03,0.5,0.5
B,1,2026-03-04,,0.5,0.5
"""


@pytest.fixture
def table(tmp_path):
    """Write a file with some text in another text's place."""

    def make(*changes, name="log.csv"):
        text = LINES.replace("B,1,2026-03-04,,", "B,,2026-03-04,,")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ([], ["--estimator", "diapw"], "--estimator is 'diapw'; .* Did you mean 'daipw'"),
        ([], ["--interval", "wlison"], "--interval is 'wlison'; .* Did you mean 'wilson'"),
        ([], ["--format", "jsn"], "--format is 'jsn'; .* Did you mean 'json'"),
        ([], ["--duplicates", "frist"], "--duplicates is 'frist'; .* Did you mean 'first'"),
        ([], ["--level", "95"], "--level is 95.0; it must lie strictly between 0 and 1"),
        ([], ["--arm", "amr"], "no column 'amr' for --arm; .* Did you mean 'arm'"),
        ([], ["--baseline", "a"], "There is no arm 'a'; .* Did you mean 'A'"),
        ([], ["--window", "7d"], "--window is given without --events; .* such as --window 7d"),
        ([], ["--windows", "1d,7d"], "--windows is given without --events; .* such as --window 7d"),
        ([], ["--events", "--windows", ","], "--windows is ''; it must be a positive number"),
        ([], ["--events", "--windows", "1d,x"], "--windows is 'x'; it must be"),
        ([], ["--events", "--window", "7d", "--measure", "sum", "--outcome", ""], "'outcome' .* not used as one; name"),
        ([], ["--kind", "bernstein"], "--kind applies only to a confidence sequence; add --sequential"),
        ([], ["--segment", ","], "--segment has an empty name in it; name columns"),
        ([], ["--covariates", "p_A,"], "--covariates has an empty name in it"),
        ([], ["--measure", "sum"], "--measure is given without --events"),
        ([], ["--outcome", "arm"], "Column 'arm' .* --outcome .* --arm|--outcome"),
        ([("arm,", "unit,")], [], "No column is named like an arm; name it with --arm"),
        (
            [("0.5", "50")],
            [],
            "--propensity in line 2 .* is 50.0; .* seem to be per cent: use --propensity-unit percent",
        ),
        ([("0.5", "0,5"), (",", ";"), ("0;5", "0,5")], [], "decimal mark, use --decimal ,"),
        ([("p_A,p_B", "u,v")], [], "--propensity uniform or --propensity A=0.5,B=0.5"),
        ([("p_A,p_B", "u,v")], ["--propensity", "A=0.5,B=0.6"], "of --propensity sum to 1.1"),
        ([("A,1,", "A ,1,"), ("A,0,", "C,0,")], [], "has no column of propensities"),
        ([("arrived_at", "signed")], [], "'signed' looks like a time, .* --arrived-at signed; .* --arrived-at none"),
        (
            [("assigned_at", "sent"), ("A,1,2026-03-01", "A,1,1 Mar 2026")],
            [],
            "'1 Mar 2026' in column 'sent'.* --date-format",
        ),
        ([("A,1", "A,perhaps")], [], "line 2 has 'perhaps' in column 'outcome'; it must be a number"),
        ([], ["--propensity-unit", "percents"], "--propensity-unit is 'percents'; .* Did you mean 'percent'"),
        ([], ["--cap", "nan"], "--cap is nan"),
        ([], ["--propensity", "A=nan,B=0.5"], r"--propensity\['A'\] is nan; it must be a finite number"),
        ([], ["--sequential", "--bounds", "nan", "1"], r"--bounds\[0\] is nan; it must be a finite number"),
        ([], ["--title", "Spring"], "--title is given without --report"),
        ([], ["--arms", ""], "--arms is .*; it must list the arms' labels"),
        ([], ["--policy", "greeedy"], "--policy is 'greeedy'; it must give each arm a probability, .*, or be 'greedy'"),
        ([], ["--policy", "A=1,A=0,B=1"], "--policy has arm 'A' twice; give it once"),
        (
            [("2026-03-03,2026", "2026-02-29,2026")],
            [],
            "'2026-02-29' in column 'assigned_at'; .*; there is no such day",
        ),
        (
            [("2026-03-03,2026", "2026-02-28 10:00h,2026")],
            [],
            "10:00h' in column 'assigned_at'; .*; write it as 2026-03",
        ),
    ],
)
def test_errors_name_options(table, call, changes, options, words):
    done = call("analyze", table(*changes), *options)
    assert (done.exit_code, done.stdout) == (2, "")
    *_, sentence = done.stderr.splitlines()
    assert re.search(words, sentence)


def test_a_window_that_no_row_has_closed(table, refused):
    sentence = refused("analyze", table(), "--events", "--window", "7d", "--closed-only")
    assert "No window of 7 days has closed yet as of 2026-03-04; the first closes at 2026-03-08" in sentence
    assert "a shorter --window" in sentence


def test_a_declared_split_is_said(table, call, tmp_path):
    path = table(("p_A,p_B", "u,v"))
    done = call("analyze", path, "--propensity", "A=0.5,B=0.5", "--format", "json", "--report", tmp_path / "r.html")
    assert json.loads(done.stdout)["source"]["columns"]["split"] == {"A": 0.5, "B": 0.5}
    assert "propensities = 0.5 A, 0.5 B (declared)" in done.stderr
    assert "0.5 A, 0.5 B (declared)" in (tmp_path / "r.html").read_text()
    done = call("analyze", path, "--propensity", "uniform", "--format", "json")
    assert json.loads(done.stdout)["source"]["columns"]["split"] == "uniform"


def complete(words, place):
    code = "import sys; sys.argv = ['belated']; from belated.cli.app import run; run()"
    environment = {"_BELATED_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    return done.stdout.split()


def test_shells_complete_commands_and_options():
    assert complete("belated ", 1) == [
        "analyze",
        "diagnose",
        "sensitivity",
        "plan",
        "simulate",
        "study",
        "paper",
        "live",
    ]
    assert complete("belated an", 1) == ["analyze"]
    assert complete("belated analyze x.csv --propensity", 3) == ["--propensity", "--propensity-unit"]


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_the_script_of_a_shell_is_shown():
    """The shell is the one that the command is called from, so that the test needs one of its own."""
    code = "import sys; sys.argv[0] = 'belated'; from belated.cli.app import run; run()"
    script = f"{shlex.join([sys.executable, '-c', code, '--show-completion'])}; true"  # true: bash stays
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)  # noqa: S607
    assert "_BELATED_COMPLETE=complete_bash" in done.stdout


@pytest.mark.parametrize("name", ["when", "ts", "epoch", "event_ts"])
def test_numbers_that_are_named_like_times_are_not_ignored(call, tmp_path, name):
    path = tmp_path / "log.csv"
    path.write_text(f"arm,outcome,p,{name}\n" + "".join(f"{'AB'[i % 2]},1,0.5,{1_750_000_000 + i}\n" for i in range(9)))
    assert re.search(f"{name}.* looks like a time|assigned at = {name}", call("analyze", path).stderr)
