from __future__ import annotations

import csv
import dataclasses
import json

import pytest

import belated as bl


def test_study_shows_tables(call, file):
    done = call("study", file)
    assert done.exit_code == 0
    assert "50 replications" in done.stdout
    assert "regret" in done.stdout


def test_study_as_data(call, file, bandit, tmp_path):
    expected = bl.study(
        bandit,
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
    assert "The figure shows the target A - B." in done.stderr
    assert len(bl.Study.load(tmp_path / "a.study").moments[200]) == 20
    assert {p.name for p in tmp_path.iterdir()} == {"a.study", "picture.png", "picture.svg", "experiment.toml"}


@pytest.mark.parametrize(
    ("change", "arguments", "sentence"),
    [
        (("burn_in", "burnin"), (), "did you mean `burn_in`"),
        (("shape = 0.75", "shape = -1"), (), "must be above 0"),
        (("[200, 400]", "[0]"), (), "must be a whole number"),
        (("seed = 1", "seed = "), (), "is not TOML"),
        (("seed = 1", "seed = -1"), (), "`seed` is -1; it must be a whole number"),  # a key of the file, not --seed
        (("[200, 400]", f"[0x{'f' * 4000}]"), (), "a number that is too long to show; it must be at most"),
        (("[200, 400]", f"[1{'0' * 400}]"), (), "it must be at most 2,147,483,645"),
        (("seed = 1", '"\\u001b[2J" = 1'), (), r"Unknown key `\x1b[2J`"),
        (("", ""), ("--replications", 10**9), "--replications is 1000000000; it must be at most 10,000,000"),
        (("", ""), ("--format", "xml"), "--format is 'xml'"),
        (("", ""), ("--save", "/nowhere/at/all"), "there is no folder"),
        (("", ""), ("--plot", "/nowhere/at/all"), "there is no folder"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_exit_code_2(refused, file, change, arguments, sentence):
    file.write_text(file.read_text().replace(*change))
    assert sentence in refused("study", file, "--replications", 2, *arguments)


def test_a_study_that_cannot_be_saved_is_not_run(refused, events_file, tmp_path):
    assert "cannot be saved" in refused("study", events_file, "--save", tmp_path / "a.study")
    assert not (tmp_path / "a.study").exists()


def test_a_file_that_is_not_there(refused, tmp_path):
    assert "nothing.toml" in refused("study", tmp_path / "nothing.toml")


def test_a_study_that_was_stopped_is_shown_and_says_so(call, file, monkeypatch):
    from belated.simulation import study as module

    whole = module.study

    def stopped(*arguments, **options):
        return dataclasses.replace(whole(*arguments, **options), asked=100)

    monkeypatch.setattr(module, "study", stopped)
    done = call("study", file)
    assert done.exit_code == 130
    assert "stopped early" in done.stdout


def test_counting_closed_windows_needs_events(refused, file):
    assert refused("study", file, "--closed-only") == (
        "Error: --closed-only is about events, but the outcomes of the description are not events."
    )


def test_a_study_of_events(call, events_file):
    done = call("study", events_file)
    assert done.exit_code == 0
    assert "dipw" in done.stdout
    assert "closed windows only" not in done.stdout
    closed = call("study", events_file, "--closed-only", "--format", "csv").stdout
    assert "daipw" in closed
    events_file.write_text("maturing = false\n" + events_file.read_text())
    done = call("study", events_file)
    assert "daipw" in done.stdout
    assert "closed windows only" in done.stdout
    assert call("study", events_file, "--format", "csv").stdout.split("chosen A")[0] == closed.split("chosen A")[0]
