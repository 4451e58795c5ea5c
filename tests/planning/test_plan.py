"""Planning: runs looked at after a wait, the search, pilots, and whether plans keep their promise."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive.planning import half_widths, kaplan_meier, share_within
from scipy import special
from typer.testing import CliRunner

import belated as bl
from belated.cli.app import app
from belated.planning.goals import Goal, Point
from belated.planning.pilots import _delays
from belated.planning.search import solve

N = bl.arms.normal
LATE = bl.Bandit({"A": N(0), "B": N(0.5)}, {"A": bl.delays.pareto(0.5).censored(0.2), "B": bl.delays.geometric(50)})
PROMPT = bl.Bandit({"A": N(0), "B": N(0.3)})
UNIFORM, GREEDY = bl.policies.uniform(), bl.policies.epsilon_greedy()
THOMPSON = bl.policies.thompson_normal(0.2, 0.5).batched(10)


# ---------------------------------------------------------------- waiting


@pytest.mark.parametrize("policy", [GREEDY, THOMPSON])
@pytest.mark.parametrize("wait", [0, 7, 200, math.inf])
def test_a_run_looked_at_later_is_its_log_looked_at_later(policy, wait):
    ran = bl.study(LATE, policy, 300, 8, wait=wait, intervals=["t"])
    cell = ran.cell("daipw", ("B", "A"))
    widths, _ = half_widths(LATE, policy, ("B", "A"), 300, wait, 8, 0, "t")
    np.testing.assert_allclose((cell.high - cell.low) / 2, widths, rtol=1e-9)


def test_a_wait_changes_what_has_arrived_and_nothing_else():
    now, later = (bl.study(LATE, GREEDY, 300, 5, wait=w).moments[300] for w in (0, 50))
    np.testing.assert_array_equal(now[:, :, 0], later[:, :, 0])
    assert (later[:, :, 1] >= now[:, :, 1]).all()
    assert (later[:, :, 1] > now[:, :, 1]).any()


def test_a_study_says_and_keeps_how_long_it_waited(tmp_path):
    for wait, words in ((5, "waiting for 5 steps"), (math.inf, "waiting for every outcome")):
        ran = bl.study(LATE, GREEDY, 50, 3, wait=wait)
        assert words in repr(ran)
        ran.save(tmp_path / "study")
        assert bl.Study.load(tmp_path / "study").wait == wait
    with pytest.raises(bl.OptionError, match="`wait` is -1"):
        bl.study(LATE, GREEDY, 50, 3, wait=-1)


@pytest.mark.parametrize(
    "delay",
    [
        bl.delays.none(), bl.delays.constant(7), bl.delays.poisson(4.5), bl.delays.geometric(20),
        bl.delays.geometric(5000), bl.delays.pareto(0.75, 2.0), bl.delays.pareto(0.3), bl.delays.lognormal(2.0, 1.5),
        bl.delays.empirical([1, 1, 5, 9, math.inf]), bl.delays.pareto(1.0).censored(0.5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 0.99])
def test_quantiles_of_delays_are_the_first_within_which_so_many_come(delay, share):
    steps = delay.quantile(share)
    assert share_within(delay, steps) >= share - 1e-9
    assert share_within(delay, steps - 1) < share + 1e-9


def test_delays_that_end_are_all_known_and_others_never():
    assert bl.delays.constant(7).quantile(1.0) == 7
    assert bl.delays.empirical([1, 9, math.inf]).quantile(1.0) == 9
    assert bl.delays.pareto(0.5).quantile(1.0) == math.inf
    assert bl.delays.pareto(0.001).quantile(0.99) == math.inf


# ---------------------------------------------------------------- search


def _law(slope, root, asked=0.1):
    return lambda h: Point(h, 0.0, asked * (h / root) ** -slope, 0.0, 0.0, 0.0, 0.0, 100)


@given(slope=st.floats(0.05, 0.6), root=st.floats(20, 9e5), guess=st.floats(1, 2e6))
def test_the_root_of_a_power_law_is_found(slope, root, guess):
    found = solve(_law(slope, root), Goal("half_width", 0.1, 0.95), guess, 4, 1_000_000)
    assert found.reached
    assert found.horizon == pytest.approx(root, rel=0.02 + 1 / root)


@given(slope=st.floats(0.05, 0.6), factor=st.floats(1.1, 50))
def test_what_is_out_of_reach_is_extrapolated(slope, factor):
    found = solve(_law(slope, 1000 * factor), Goal("half_width", 0.1, 0.95), 50, 4, 1000)
    assert not found.reached
    assert found.horizon == pytest.approx(1000 * factor, rel=1e-6)


def test_experiments_without_intervals_are_made_longer():
    def measure(horizon):
        point = _law(0.5, 5000)(horizon)
        return point if horizon > 300 else Point(horizon, 0.0, math.inf, math.inf, 0.0, 0.0, 1.0, 100)

    found = solve(measure, Goal("half_width", 0.1, 0.95), 10, 4, 100_000)
    assert found.horizon == pytest.approx(5000, rel=0.02)
    assert solve(_law(0.5, 1), Goal("half_width", 0.1, 0.95), 500, 4, 1000).horizon == 4


@pytest.mark.parametrize("asked", [0.5, 0.8, 0.95])
def test_power_is_straight_on_its_scale(asked):
    goal, z = Goal("power", asked, 0.95), special.ndtri(0.975)

    def measure(horizon):  # a z-test of an effect that is 2.8 standard errors at 1,000
        return Point(horizon, 0.0, float(special.ndtr(2.8 * (horizon / 1000) ** 0.5 - z)), 0.0, 0, 0, 0, 10**9)

    found = solve(measure, goal, 100, 4, 100_000)
    assert found.horizon == pytest.approx(1000 * ((special.ndtri(asked) + z) / 2.8) ** 2, rel=0.01)


# ---------------------------------------------------------------- plans


def test_a_plan_for_equal_shares_is_the_textbooks():
    found = bl.plan(PROMPT, UNIFORM, ("B", "A"), half_width=0.1)
    textbook = 4 * (special.ndtri(0.975) / 0.1) ** 2
    assert found.horizon == pytest.approx(textbook, rel=0.02)
    assert found.low <= found.horizon <= found.high
    assert found.wait == 0
    assert found.reached
    assert "mean half-width of 0.1" in repr(found)


def test_power_for_equal_shares_is_the_textbooks():
    found = bl.plan(PROMPT, UNIFORM, power=0.8)
    textbook = 4 * ((special.ndtri(0.975) + special.ndtri(0.8)) / 0.3) ** 2
    assert found.horizon == pytest.approx(textbook, rel=0.08)
    assert "excludes 0 in 80% of experiments" in found.words


def test_half_that_never_come_take_twice_as_many_and_waiting_is_no_help():
    half = bl.Bandit(PROMPT.arms, bl.delays.none().censored(0.5))
    found = bl.plan(half, UNIFORM, half_width=0.2)
    full = bl.plan(half, UNIFORM, half_width=0.2, wait="full")
    assert found.horizon == pytest.approx(8 * (special.ndtri(0.975) / 0.2) ** 2, rel=0.04)
    assert found.wait == full.wait == 0
    assert len(found.options) == 1


@pytest.mark.parametrize("policy", [UNIFORM, GREEDY])
def test_fresh_experiments_reach_what_was_promised(policy):
    found = bl.plan(LATE, policy, ("B", "A"), half_width=0.3)
    widths, _ = half_widths(LATE, policy, ("B", "A"), found.horizon, found.wait, 60, seed=99)
    assert np.mean(widths) == pytest.approx(0.3, rel=0.08)


def test_slow_outcomes_are_waited_for_as_long_as_it_pays():
    slow = bl.Bandit(PROMPT.arms, bl.delays.constant(500))
    found = bl.plan(slow, UNIFORM, half_width=0.2)
    assert found.wait == 500
    assert found.horizon == pytest.approx(4 * (special.ndtri(0.975) / 0.2) ** 2, rel=0.05)
    by_wait = {option.wait: option.horizon for option in found.options}
    assert by_wait[0] > found.horizon + 450
    assert found.total == found.horizon + 500
    at_once = bl.plan(slow, UNIFORM, half_width=0.2, wait=0)
    assert at_once.wait == 0
    assert at_once.horizon == pytest.approx(by_wait[0], rel=0.05)


def test_an_assurance_is_reached_in_that_share_of_experiments():
    found = bl.plan(PROMPT, GREEDY, half_width=0.3, assurance=0.8)
    cell = bl.study(PROMPT, GREEDY, found.horizon, 1000, seed=5).cell("daipw", ("B", "A"))
    assert ((cell.high - cell.low) / 2 <= 0.3).mean() == pytest.approx(0.8, abs=0.06)
    assert found.horizon > bl.plan(PROMPT, GREEDY, half_width=0.3).horizon


def test_the_interval_of_the_horizon_holds_the_one_of_very_many_runs():
    sure = bl.plan(PROMPT, UNIFORM, power=0.8, replications=40_000, seed=1000).horizon
    plans = [bl.plan(PROMPT, UNIFORM, power=0.8, replications=400, seed=seed) for seed in range(20)]
    held = sum(found.low <= sure <= found.high for found in plans)
    assert held >= 16  # 95 % of 20: fewer than 16 in 0.3 % of the time


def test_what_cannot_be_reached_is_said():
    found = bl.plan(PROMPT, UNIFORM, half_width=0.01, max_horizon=2000)
    assert not found.reached
    assert found.horizon == pytest.approx(4 * (special.ndtri(0.975) / 0.01) ** 2, rel=0.2)
    assert "Not within 2,000 assignments" in found.words
    assert json.loads(found.to_json())["reached"] is False
    never = bl.plan(
        bl.Bandit(PROMPT.arms, {"B": bl.delays.none().censored(1.0)}), UNIFORM, half_width=1, max_horizon=99
    )
    assert never.horizon == math.inf
    assert "often has no interval" in never.words


def test_the_same_seed_gives_the_same_plan():
    first, second, other = (bl.plan(LATE, GREEDY, half_width=0.4, seed=s) for s in (3, 3, 4))
    assert first.horizon == second.horizon
    assert first.to_json() == second.to_json()
    assert first.to_json() != other.to_json()


def test_a_plan_goes_everywhere():
    odd = bl.Bandit({"<b>": N(0), "B\n|": N(0.5)}, bl.delays.constant(300))
    found = bl.plan(odd, UNIFORM, half_width=0.25, per_day=100)
    assert "\n|" not in found.words
    assert "<b>" not in found.to_html()
    assert "days" in found.words
    assert found.to_pandas()["horizon"][0] > found.horizon
    about = json.loads(found.to_json())
    assert about["wait"] == 300
    assert about["curve"][0]["half_width"] > 0.25 > about["curve"][-1]["half_width"]
    assert [row["choice"] for row in about["waits"] if row["wait"] in (0, 300)] == ["", "planned"]
    widths = found.curve.to_dict()["half_width"]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("goal", [{"half_width": 0.3}, {"power": 0.8}])
def test_a_plan_is_drawn(goal):
    from belated.planning.figure import plan_data

    found = bl.plan(bl.Bandit(PROMPT.arms, bl.delays.constant(200)), UNIFORM, **goal)
    data = plan_data(found)
    assert data["chosen"] == (found.wait, found.horizon)
    assert {0, 200} <= set(data["waits"])
    assert len(found.plot().axes) == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "`half_width` or `power`, one of the two"),
        ({"half_width": 0.1, "power": 0.8}, "one of the two"),
        ({"half_width": 0}, "`half_width` is 0"),
        ({"power": 1.0}, "`power` is 1.0"),
        ({"power": 0.04}, "knows nothing"),
        ({"power": 0.8, "assurance": 0.9}, "`assurance` goes with"),
        ({"power": 0.8, "null": 0.3}, "the null itself"),
        ({"half_width": 0.1, "wait": -1}, "`wait` is -1"),
        ({"half_width": 0.1, "wait": "long"}, "`wait` is 'long'"),
        ({"half_width": 0.1, "patience": 0.5}, "`patience` is 0.5"),
        ({"half_width": 0.1, "interval": "tt"}, "`interval` is 'tt'"),
        ({"half_width": 0.1, "interval": "wilson"}, "needs outcomes that are 0 or 1"),
        ({"half_width": 0.1, "estimator": "best"}, "`estimator` is 'best'"),
        ({"half_width": 0.1, "policy": None}, "There is no `policy`"),
        ({"half_width": 0.1, "target": ("A", "C")}, "'C'"),
        ({"half_width": 0.1, "bandit": 3}, "must be a Bandit"),
        ({"half_width": 0.1, "replications": 3}, "`replications` is 3"),
        ({"half_width": 0.1, "per_day": 0}, "`per_day` is 0"),
        ({"half_width": 0.1, "bandit": bl.Bandit({k: N() for k in "ABC"})}, "There is no `target`"),
    ],
)
def test_what_cannot_be_planned_is_refused(options, sentence):
    given = {"bandit": PROMPT, "policy": UNIFORM} | options
    with pytest.raises(bl.BelatedError) as caught:
        bl.plan(**given)
    assert sentence in str(caught.value)


def test_progress_is_one_line_that_goes_away(capsys):
    bl.plan(PROMPT, UNIFORM, half_width=0.5, progress=True)
    shown = capsys.readouterr().err
    assert shown.endswith("\r\x1b[K")
    assert "\n" not in shown


# ---------------------------------------------------------------- pilots


@given(rows=st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=40))
def test_delays_of_a_pilot_follow_kaplan_and_meier(rows):
    waited, here = np.array([w for w, _ in rows], dtype=float), np.array([came for _, came in rows])
    drawn = _delays(waited, here, 1.0)
    curve = kaplan_meier(waited.tolist(), here.tolist())
    for at in range(14):
        expected = max((share for d, share in curve.items() if d <= at), default=0.0)
        assert (drawn <= at).mean() == pytest.approx(expected, abs=1 / 2000)


def test_a_pilot_recovers_the_bandit_behind_it():
    truth = bl.Bandit(
        {"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.6)},
        {"A": bl.delays.geometric(500).censored(0.3), "B": bl.delays.constant(40)},
    )
    found = bl.pilot(bl.simulate(truth, UNIFORM, 10_000, seed=2))
    assert found.bandit.means["B"] == pytest.approx(0.6, abs=0.03)
    assert found.bandit.arms["A"].name == "bernoulli"
    assert found.bandit.delay("A").quantile(0.5) == pytest.approx(500 * math.log(2), rel=0.1)
    assert np.isinf(found.bandit.delay("A").values).mean() == pytest.approx(0.3, abs=0.03)
    assert found.bandit.delay("B").quantile(0.01) == found.bandit.delay("B").quantile(0.99) == 40
    assert found.policy.shares == {"A": pytest.approx(0.5), "B": pytest.approx(0.5)}
    assert "never coming" in repr(found)


def test_a_plan_from_a_pilot_is_near_the_one_from_what_is_behind_it():
    late = bl.Bandit({"A": bl.arms.exponential(1.0), "B": bl.arms.exponential(1.2)}, bl.delays.geometric(100))
    log = bl.simulate(late, UNIFORM, 4000, seed=3)
    known = bl.plan(late, UNIFORM, half_width=0.2)
    fitted = bl.plan(log, half_width=0.2)
    assert fitted.horizon == pytest.approx(known.horizon, rel=0.15)
    assert "mean probabilities of late, fixed: A 50.0%, B 50.0%" in repr(fitted)
    power = bl.plan(log, UNIFORM, power=0.5, replications=100)
    assert "itself uncertain" in repr(power)


def test_dates_become_steps_by_the_pace_of_assignments():
    rng = np.random.default_rng(0)
    at = np.datetime64("2026-01-01T00:00:00") + np.arange(960) * np.timedelta64(15, "m")  # 96 a day
    log = bl.Log(
        rng.integers(0, 2, 960), rng.normal(size=960), np.full(960, 0.5), assigned_at=at,
        delay=np.full(960, np.timedelta64(6, "h")), as_of=at[-1] + np.timedelta64(1, "D"),
    )  # fmt: skip
    found = bl.pilot(log)
    assert found.per_day == pytest.approx(96)
    assert found.bandit.delay(0).quantile(0.5) == 24
    assert bl.pilot(log, per_day=960).bandit.delay(0).quantile(0.5) == 240
    planned = bl.plan(log, half_width=0.2)
    assert planned.per_day == pytest.approx(96)
    assert planned.policy.shares[0] == pytest.approx(0.5, abs=0.1)  # only the chosen arm's is known: how often it was


def test_batches_share_a_time():
    arm = np.tile([0, 1], 50)
    log = bl.Log(arm, arm * 1.5 + np.arange(100) % 3, np.full((100, 2), 0.5), assigned_at=np.repeat(np.arange(10), 10))
    assert bl.pilot(log).bandit.delay(0).quantile(0.99) == 0
    late = bl.Log(
        arm, arm + np.arange(100) % 3, np.full((100, 2), 0.5), assigned_at=np.repeat(np.arange(10), 10),
        delay=np.full(100, 2),
    )  # fmt: skip
    assert bl.pilot(late).bandit.delay(0).quantile(0.5) == 20


def test_pilots_that_say_too_little_are_refused():
    with pytest.raises(bl.LogError, match="The arm 'B' has 1 outcome; a plan needs two"):
        bl.pilot(bl.Log(["A", "A", "B"], [1.0, 2.0, 3.0], [[0.5, 0.5]] * 3))
    with pytest.raises(bl.LogError, match="at the same time"):
        bl.pilot(bl.Log(["A", "B"] * 4, range(8), [[0.5, 0.5]] * 8, assigned_at=[3] * 8, delay=[2] * 8))
    few = bl.pilot(bl.Log(["A", "B"] * 4, range(8), [[0.5, 0.5]] * 8))
    assert "Few outcomes to go by, below 30: A has 4, B has 4" in repr(few)


# ---------------------------------------------------------------- the command line

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
    done = CliRunner().invoke(app, [*asked, "--format", "json", "--plot", str(tmp_path / "plan")])
    assert done.exit_code == 0, done.output
    about = json.loads(done.stdout)
    assert about["target"] == "A - B"
    assert about["horizon"] == pytest.approx(4 * (special.ndtri(0.975) / 0.2) ** 2, rel=0.03)
    assert (tmp_path / "plan.png").stat().st_size > 1000
    shown = CliRunner().invoke(app, [*asked, "--policy", "epsilon_greedy,decay=0.3", "--wait", "full"])
    assert "About " in shown.stdout
    assert "by horizon" in shown.stdout


def test_the_command_plans_from_a_pilot(tmp_path):
    log = bl.simulate(bl.Bandit({"A": N(0), "B": N(0.5)}, bl.delays.constant(5)), UNIFORM, 1000, seed=1)
    lines = ["step,arm,p_A,p_B,outcome,arrived"]
    for t, (code, y) in enumerate(zip(log.code, log.outcome, strict=True), 1):
        lines.append(f"{t},{'AB'[code]},0.5,0.5,{y},{t + 5}")
    (tmp_path / "pilot.csv").write_text("\n".join(lines) + "\n")
    where = [str(tmp_path / "pilot.csv"), "--assigned-at", "step", "--arrived-at", "arrived", "--format", "csv"]
    done = CliRunner().invoke(app, ["plan", *where, "--half-width", "0.2"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("wait,horizon,low,high,total")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--half-width", "0.2", "--target", "A-C"], "C"),
        (["--half-width", "0.2", "--wait", "soon"], "`wait` is 'soon'"),
        (["--half-width", "0.2", "--policy", "greedy"], "greedy"),
        (["--half-width", "0.2", "--policy", "uniform,x"], "`policy` is 'uniform,x'"),
        ([], "one of the two"),
    ],
)
def test_what_the_command_cannot_plan_is_one_sentence(tmp_path, options, sentence):
    (tmp_path / "e.toml").write_text(TOML)
    done = CliRunner().invoke(app, ["plan", str(tmp_path / "e.toml"), *options])
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr
