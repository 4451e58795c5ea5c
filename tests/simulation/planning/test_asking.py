from __future__ import annotations

import json

import pytest
from commands import invoke
from scipy import special

import belated as bl

N = bl.arms.normal
UNIFORM, GREEDY = bl.policies.uniform(), bl.policies.epsilon_greedy()
TOML = """
[arms.A]
outcome = {name = "normal"}
[arms.B]
outcome = {name = "normal", mean = 0.5}
[policy]
name = "uniform"
"""


def test_the_command_plans_from_a_description(tmp_path):
    (tmp_path / "e.toml").write_text(TOML)
    asked = ["plan", str(tmp_path / "e.toml"), "--half-width", "0.2", "--target", "A-B"]
    done = invoke([*asked, "--format", "json", "--plot", str(tmp_path / "plan")])
    assert done.exit_code == 0, done.output
    about = json.loads(done.stdout)
    assert about["target"] == "A - B"
    assert about["horizon"] == pytest.approx(4 * (special.ndtri(0.975) / 0.2) ** 2, rel=0.03)
    assert (tmp_path / "plan.png").stat().st_size > 1000
    shown = invoke([*asked, "--policy", "epsilon_greedy,decay=0.3", "--wait", "full"])
    assert "About " in shown.stdout
    assert "by horizon" in shown.stdout


def test_the_plan_says_which_target_it_took(tmp_path):
    (tmp_path / "e.toml").write_text(TOML)
    (tmp_path / "several.toml").write_text('targets = [["A", "B"], "A"]\n' + TOML)
    for name, words in (
        ("e.toml", "No target was given; this plan is for B - A, the second arm minus the first."),
        ("several.toml", "This plan is for A - B, the first of the file's 2 targets."),
    ):
        done = invoke(["plan", str(tmp_path / name), "--half-width", "0.3", "--replications", "50"])
        assert words in done.stdout


def test_the_half_width_of_rates_is_in_points():
    bandit = bl.Bandit({"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.4)})
    plan = bl.plan(bandit, UNIFORM, ("B", "A"), half_width=0.1, replications=50)
    assert plan.words.endswith("has a mean half-width of 10 points.")
    assert "goal: 10 points" in str(plan.curve)
    assert plan.goal.asked == 0.1


def test_the_command_plans_from_a_pilot(tmp_path):
    log = bl.simulate(bl.Bandit({"A": N(0), "B": N(0.5)}, bl.delays.constant(5)), UNIFORM, 1000, seed=1)
    lines = ["step,arm,p_A,p_B,outcome,arrived"]
    for t, (code, y) in enumerate(zip(log.code, log.outcome, strict=True), 1):
        lines.append(f"{t},{'AB'[code]},0.5,0.5,{y},{t + 5}")
    (tmp_path / "pilot.csv").write_text("\n".join(lines) + "\n")
    where = [str(tmp_path / "pilot.csv"), "--assigned-at", "step", "--arrived-at", "arrived", "--format", "csv"]
    done = invoke(["plan", *where, "--half-width", "0.2"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("wait,horizon,low,high,total")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--half-width", "0.2", "--target", "A-C"], "C"),
        (["--half-width", "0.2", "--wait", "soon"], "--wait is 'soon'"),
        (["--half-width", "0.2", "--policy", "greedy"], "greedy"),
        (["--half-width", "0.2", "--policy", "uniform,x"], "--policy is 'uniform,x'"),
        ([], "exactly one goal"),
    ],
)
def test_what_the_command_cannot_plan_is_one_sentence(tmp_path, options, sentence):
    (tmp_path / "e.toml").write_text(TOML)
    done = invoke(["plan", str(tmp_path / "e.toml"), *options])
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr
