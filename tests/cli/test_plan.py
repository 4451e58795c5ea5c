from __future__ import annotations

import csv
import json

import pytest

import belated as bl


def test_a_plan_from_a_description(call, file):
    asked = ("plan", file, "--half-width", 0.5, "--target", "A-B", "--replications", 200, "--max-horizon", 2000)
    answer = json.loads(call(*asked, "--format", "json").stdout)
    assert answer
    (row, *_) = csv.DictReader(call(*asked, "--format", "csv").stdout.splitlines())
    assert row
    assert "| --:" in call(*asked, "--format", "markdown").stdout


def test_a_plan_from_a_pilot_says_what_was_guessed_and_is_drawn(call, log, tmp_path):
    done = call(
        "plan", log, "--half-width", 0.5, "--policy", "epsilon_greedy,decay=0.5", "--wait", "full",
        "--replications", 200, "--max-horizon", 2000, "--plot", tmp_path / "plan",
    )  # fmt: skip
    assert done.exit_code == 0
    assert "arm" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"plan.png", "plan.svg"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--format", "xml"), "--format is 'xml'"),
        (("--plot", "/nowhere/p"), "there is no folder"),
        (("--wait", "long"), "--wait is 'long'"),
        (("--target", "A-C"), "no arm 'C'"),
        (("--power", "0.8"), "--power"),
        (("--cap", "3"), "--cap is for the log of a pilot, but"),
        (("--decimal", ","), "--decimal is for the log of a pilot, but"),
        (("--policy", "greedy,x"), "--policy is 'greedy,x'"),
        (("--target", "x"), "--target is 'x'; it must be two arms, such as B-A, or one of 'A', 'B'"),
    ],
)
def test_what_cannot_be_is_one_sentence(refused, file, arguments, sentence):
    assert sentence in refused("plan", file, "--half-width", 0.5, *arguments)


def test_a_power_that_no_plan_has_is_named_as_the_option(refused, file):
    assert "--power is 0.01; it must be above" in refused("plan", file, "--power", 0.01)


def test_a_half_width_out_of_reach(call, file):
    done = call("plan", file, "--half-width", "1e-300", "--max-horizon", 1000, "--replications", 100)
    assert (done.exit_code, done.exception) == (0, None)
    assert "1,000" in done.stdout


def test_counting_closed_windows_needs_events(refused, file):
    assert refused("plan", file, "--half-width", 0.15, "--closed-only") == (
        "Error: --closed-only is about events, but the outcomes of the description are not events."
    )


def test_a_plan_for_events(call, events_file):
    asked = ("plan", events_file, "--half-width", 0.15, "--replications", 40, "--max-horizon", 4000, "--wait", 0)
    matured = call(*asked)
    assert "interval of dipw for B - A" in matured.stdout
    closed = call(*asked, "--closed-only")
    assert "interval of daipw for B - A" in closed.stdout
    events_file.write_text("maturing = false\n" + events_file.read_text())
    assert call(*asked).stdout == closed.stdout


def test_a_plan_from_a_pilot_of_events(call, events_file, tmp_path):
    call("simulate", events_file, "-o", tmp_path / "sent.csv")
    asked = (
        "plan", tmp_path / "sent.csv", "--outcomes", tmp_path / "sent-events.csv", "--events", "--window", 60,
        "--half-width", 0.15, "--replications", 40, "--max-horizon", 4000, "--wait", 0,
    )  # fmt: skip
    assert "interval of dipw for B - A" in call(*asked).stdout
    log = bl.read(tmp_path / "sent.csv", tmp_path / "sent-events.csv", events=True, window=60)
    closed = bl.plan(log, half_width=0.15, replications=40, max_horizon=4000, wait=0, maturing=False)
    assert call(*asked, "--closed-only").stdout.startswith(repr(closed))
