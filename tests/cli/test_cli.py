from __future__ import annotations

import csv
import json

import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import belated as bl
from belated.cli.app import app

EXPERIMENT = """
seed = 1
horizons = [200, 400]
replications = 50
estimators = ["daipw", "nh"]
targets = [["A", "B"]]

[policy]
name = "epsilon_greedy"
burn_in = 0.1

[arms.A]
outcome = { name = "normal", mean = 1.0 }
delay = { name = "pareto", shape = 0.75, never = 0.5 }

[arms.B]
outcome = { name = "normal", mean = 0.5 }
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    return tmp_path / "experiment.toml"


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


BANDIT = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)}, {"A": bl.delays.pareto(0.75).censored(0.5)})


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_simulate_writes_the_log_that_simulate_makes(file, tmp_path, suffix):
    path = tmp_path / f"log.{suffix}"
    done = call("simulate", file, "-o", path, "--seed", 3)
    assert done.exit_code == 0
    if suffix == "csv":
        with path.open() as opened:
            rows = list(csv.DictReader(opened))
        frame = {name: [float(row[name]) if row[name] else None for row in rows] for name in rows[0] if name != "arm"}
        frame["arm"] = [row["arm"] for row in rows]
    else:
        frame = parquet.read_table(path).to_pydict()
    log = bl.simulate(BANDIT, bl.policies.epsilon_greedy(burn_in=0.1), 400, 3)
    read = bl.Log(
        frame["arm"], frame["outcome"], list(zip(frame["p_A"], frame["p_B"], strict=True)), arms=["A", "B"],
        assigned_at=frame["step"], arrived_at=frame["arrived"], as_of=400,
    )  # fmt: skip
    assert bl.estimate(read).values == pytest.approx(bl.estimate(log).values, rel=1e-12)
    assert len(list(tmp_path.iterdir())) == 2


def test_study_shows_tables(file):
    done = call("study", file)
    assert done.exit_code == 0
    assert "50 replications" in done.stdout
    assert "regret" in done.stdout


def test_study_as_data(file, tmp_path):
    expected = bl.study(
        BANDIT,
        bl.policies.epsilon_greedy(burn_in=0.1),
        [200, 400],
        50,
        seed=1,
        estimators=["daipw", "nh"],
        targets=[("A", "B")],
    )
    rows = json.loads(call("study", file, "--format", "json").stdout)["rows"]
    assert [row["bias"] for row in rows] == expected.to_dict()["bias"]
    lines = list(csv.DictReader(call("study", file, "--format", "csv").stdout.splitlines()))
    assert [float(row["coverage"]) for row in lines] == expected.to_dict()["coverage"]
    assert "| --:" in call("study", file, "--format", "markdown").stdout
    done = call("study", file, "--save", tmp_path / "a.study", "--plot", tmp_path / "picture", "--replications", 20)
    assert done.exit_code == 0
    assert len(bl.Study.load(tmp_path / "a.study").moments[200]) == 20
    assert {p.name for p in tmp_path.iterdir()} == {"a.study", "picture.png", "picture.svg", "experiment.toml"}


def test_paper_one_figure(tmp_path):
    done = call("paper", "--figure", "zero-margin", "--replications", 20, "-o", tmp_path / "out")
    assert done.exit_code == 0
    assert "within two Monte Carlo errors" in done.stdout
    assert (tmp_path / "out" / "index.html").exists()


@pytest.mark.parametrize(
    ("change", "arguments", "sentence"),
    [
        (("burn_in", "burnin"), (), "did you mean `burn_in`"),
        (("shape = 0.75", "shape = -1"), (), "must be above 0"),
        (("[200, 400]", "[0]"), (), "must be a whole number"),
        (("seed = 1", "seed = "), (), "is not TOML"),
        (("", ""), ("--format", "xml"), "`format` is 'xml'"),
        (("", ""), ("--save", "/nowhere/at/all"), "there is no folder"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_exit_code_2(file, change, arguments, sentence):
    file.write_text(EXPERIMENT.replace(*change))
    done = call("study", file, "--replications", 2, *arguments)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_files_that_are_not_there_or_have_the_wrong_name(file, tmp_path):
    assert call("study", tmp_path / "nothing.toml").exit_code == 2
    done = call("simulate", file, "-o", tmp_path / "log.xls")
    assert done.exit_code == 2
    assert "must end in .csv or .parquet" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["experiment.toml"]
    assert call("paper", "-o", file).exit_code == 2


def test_help_and_version():
    assert bl.__version__ in call("--version").stdout
    for command in ("simulate", "study", "paper"):
        text = call(command, "--help").stdout
        assert "Example" in text


def test_parquet_without_pyarrow_is_refused_before_anything_runs(file, tmp_path, monkeypatch):
    monkeypatch.setattr("belated.simulation.log_files.find_spec", lambda name: None)
    done = call("simulate", file, "-o", tmp_path / "log.parquet")
    assert done.exit_code == 2
    assert "pip install pyarrow" in done.stderr
