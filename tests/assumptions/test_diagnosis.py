"""What a diagnosis says of healthy logs and of faulty ones, and how it is shown."""

from __future__ import annotations

import json
import math

import naive.diagnosis as naive
import numpy as np
import pyarrow as pa
import pytest
from engines import source_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

import belated as bl
from belated.cli.app import app
from belated.summaries.delay_tails import delay_tails
from belated.summaries.evidence import ArrivalCounts
from belated.summaries.signs import is_sparse, miscalibration, steady_arrival, swapped, trend

NAMES = (
    "largest weight", "effective size", "variance sums", "propensity decay", "delay tail", "still out", "arrivals",
    "probabilities", "outcome and delay", "recorded outcomes", "variation", "drift",
)  # fmt: skip
ARMS = {
    "normal": lambda: bl.arms.normal(1.0),
    "exponential": lambda: bl.arms.exponential(1.0),
    "rare": lambda: bl.arms.bernoulli(0.05),
}
POLICIES = {
    "greedy": bl.policies.epsilon_greedy(decay=0.7),
    "slow": bl.policies.epsilon_greedy(decay=0.3),
    "ucb": bl.policies.ucb(decay=0.5),
    "uniform": bl.policies.uniform(),
}


def played(horizon=2000, arms=2, kind="normal", policy="slow", delays=None, seed=1, labels=None, replication=0):
    labels = labels or list(range(arms))
    delays = delays or {labels[-1]: bl.delays.geometric(20).censored(0.5)}
    late = (
        {label: delays.get(label, bl.delays.geometric(20)) for label in labels} if isinstance(delays, dict) else delays
    )
    bandit = bl.Bandit({label: ARMS[kind]() for label in labels}, late)
    return bl.simulate(bandit, POLICIES[policy], horizon, seed, replication)


def waits(log):
    return np.where(np.isnan(log.outcome), math.inf, log.arrived_at - log.assigned_at)


def changed(log, **columns):
    made = {"outcome": log.outcome, "propensity": log.propensity, "delay": waits(log), **columns}
    delay = np.where(np.isnan(made["outcome"]), math.inf, made["delay"])
    outcome = np.where(np.isinf(delay), math.nan, made["outcome"])
    labels = [log.arms[k] for k in log.code]
    return bl.Log(labels, outcome, made["propensity"], arms=log.arms, delay=delay, as_of=len(log.code))


def chosen(log):
    return log.propensity[np.arange(len(log.code)), log.code]


# ---------------------------------------------------------------- the evidence


@pytest.mark.parametrize("as_of", [None, 137, 300])
def test_evidence_is_what_loops_count(as_of):
    log = played(300, 3).at(as_of)
    found, wanted = log.evidence(), naive.sums(log)
    for name, table in wanted.items():
        if name not in ("y", "y2"):
            np.testing.assert_allclose(found.sums[name], table, err_msg=name)
    n, shift = wanted["arrived"], found.shift
    np.testing.assert_allclose(found.sums["y"] + shift * n, wanted["y"], atol=1e-9)
    back = found.sums["y2"] + 2 * shift * found.sums["y"] + shift**2 * n
    np.testing.assert_allclose(back, wanted["y2"], atol=1e-8)
    np.testing.assert_allclose(found.chance, naive.chance(log))
    for a, b in ((0, 1), (0, 2), (1, 2)):
        gain = found.log_p[a, b] + found.log_p[b, a] - found.log_p[a, a] - found.log_p[b, b]
        assert gain == pytest.approx(naive.swap_gain(log, a, b))


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
    here, there = bl.diagnose(log), bl.diagnose(source_of(log))
    assert tuple(check.name for check in here) == NAMES
    for one, other in zip(here, there, strict=True):
        assert (one.light, one.finding, one.advice) == (other.light, other.finding, other.advice)
        assert str(one.numbers.keys()) == str(other.numbers.keys())


def test_rows_in_any_order_are_one_log():
    log = played(500, 2)
    order = np.random.default_rng(1).permutation(500)
    labels = np.array([log.arms[k] for k in log.code])
    mixed = bl.Log(
        labels[order], log.outcome[order], log.propensity[order], arms=log.arms, assigned_at=np.arange(1, 501)[order],
        delay=waits(log)[order], as_of=500,
    )  # fmt: skip
    for one, other in zip(bl.diagnose(log), bl.diagnose(mixed), strict=True):
        assert (one.light, one.finding) == (other.light, other.finding)


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


# ---------------------------------------------------------------- faulty logs


def one_heavy(log, share, row):
    arm = log.code[row]
    others = np.flatnonzero(log.arrived & (log.code == arm) & (np.arange(len(log.code)) != row))
    small = (share / (1 - share) * np.sum(log.propensity[others, arm] ** -0.5)) ** -2
    p = log.propensity.copy()
    p[row] *= (1 - small) / (1 - p[row, arm])
    p[row, arm] = small
    return changed(log, propensity=p)


def test_a_row_that_holds_a_fifth_of_the_weight():
    log = played(5000)
    row = int(np.flatnonzero(log.arrived & (log.code == 0))[7])
    spoilt = one_heavy(log, 0.2, row)
    check = bl.diagnose(spoilt)["largest weight"]
    assert check.light == "red"
    assert check.numbers["share"][0] == pytest.approx(0.2)
    assert check.finding.startswith("One row of arm 0 holds 20.0% of the arm's weight; a row as unlikely")
    known = bl.diagnose(changed(spoilt, propensity=chosen(spoilt)))
    assert known["largest weight"].light == "red"
    assert known["propensity decay"].light == "grey"


def test_a_policy_that_hardly_tries_an_arm_is_amber():
    check = bl.diagnose(played(1000, 5, policy="greedy"))["largest weight"]
    assert check.light == "amber"
    assert max(check.numbers["share"].values()) > 0.1
    assert min(check.numbers["expected_so_unlikely"].values()) > 1e-3


def test_an_arm_that_had_a_chance_once():
    p = np.tile([1 - 1e-12, 1e-12], (400, 1))
    p[3] = 0.5
    code = np.zeros(400, int)
    code[3] = 1
    check = bl.diagnose(bl.Log(code, np.random.default_rng(1).normal(size=400), p))["largest weight"]
    assert check.light == "red"
    assert "had a real chance in a handful of rows only" in check.finding


@pytest.mark.parametrize("never", [0.0, 0.5])
def test_delays_with_too_heavy_a_tail(never):
    late = bl.delays.pareto(0.3).censored(never)
    check = bl.diagnose(played(10_000, delays=late, policy="uniform"))["delay tail"]
    assert check.light == "red"
    for arm in (0, 1):
        assert check.numbers["low"][arm] < 0.3 < check.numbers["high"][arm]
    for healthy in (bl.delays.pareto(0.75), bl.delays.geometric(20), bl.delays.poisson(30), bl.delays.constant(9)):
        found = bl.diagnose(played(10_000, delays=healthy.censored(never), policy="uniform"))["delay tail"]
        assert found.light == "green", found


@pytest.mark.parametrize("shape", [0.3, 0.75, 1.25])
def test_the_exponent_is_the_likeliest(shape):
    log = played(3000, 1, policy="uniform", delays=bl.delays.pareto(shape).censored(0.3))
    came = log.arrived
    wanted = naive.tail_exponent(waits(log)[came], (3000 - log.assigned_at)[came])
    tails = delay_tails(log.evidence().arrivals, 1.0)
    assert tails.exponent[0] == pytest.approx(wanted, rel=0.05)  # delays are binned, and exponents tried on a grid
    assert tails.low[0] < wanted < tails.high[0]
    assert tails.low[0] < shape < tails.high[0]


def test_delays_that_hardly_fall_are_not_called_heavy():
    check = bl.diagnose(played(3000, 1, policy="uniform", delays=bl.delays.geometric(6000)))["delay tail"]
    assert check.light == "amber"
    few = bl.diagnose(played(60, 2, policy="uniform", delays=bl.delays.geometric(300)))
    assert few["delay tail"].light == "grey"
    assert few["still out"].light == "amber"


def test_a_log_of_conversions():
    log = played(3000, kind="rare")
    found = bl.diagnose(changed(log, outcome=np.where(log.outcome == 1, 1.0, math.nan)))
    assert found["recorded outcomes"].light == "red"
    assert found["variation"].light == "amber"
    assert "--events --window 7d" in found["recorded outcomes"].advice


def test_an_arm_of_which_only_successes_are_recorded():
    rng = np.random.default_rng(3)
    arm, outcome = rng.integers(2, size=6000), (rng.random(6000) < 0.12).astype(float)
    outcome[(arm == 1) & (outcome == 0)] = math.nan
    late = np.where(np.isnan(outcome), math.inf, rng.geometric(0.02, 6000))
    check = bl.diagnose(bl.Log(arm, outcome, np.full((6000, 2), 0.5), delay=late, as_of=6000))["recorded outcomes"]
    assert check.light == "red"
    assert check.finding.startswith("Arm 1 has only outcomes of 1, and 8")


def test_outcomes_above_0_that_are_still_coming_or_lost_are_no_fault():
    for delay in (
        bl.delays.geometric(1000).censored(0.5),
        bl.delays.geometric(6000),
        bl.delays.poisson(20).censored(0.65),
    ):
        bandit = bl.Bandit({k: bl.arms.exponential(1.0) for k in "AB"}, delay)
        log = bl.simulate(bandit, bl.policies.epsilon_greedy(), 2000, seed=1)
        assert bl.diagnose(log)["recorded outcomes"].light == "amber"


@pytest.mark.parametrize("kind", ["mixture", "far mixture", "ending"])
def test_delays_that_only_look_heavy_nearby_are_no_fault(kind):
    rng = np.random.default_rng(5)
    rows = 8000
    late = {
        "mixture": np.where(rng.random(rows) < 0.5, rng.poisson(2, rows), rng.exponential(200, rows)),
        "far mixture": np.where(rng.random(rows) < 0.7, rng.poisson(2, rows), rng.exponential(1000, rows)),
        "ending": np.minimum(rng.exponential(500, rows), 1000),
    }[kind]
    log = bl.Log(
        rng.integers(2, size=rows), rng.normal(size=rows), np.full((rows, 2), 0.5), delay=np.floor(late), as_of=rows
    )
    assert bl.diagnose(log)["delay tail"].light == "green"


def test_a_log_of_buyers():
    log = played(3000, kind="exponential")
    few = np.where(np.random.default_rng(1).random(3000) < 0.2, log.outcome, math.nan)
    assert bl.diagnose(changed(log, outcome=few))["recorded outcomes"].light == "red"
    assert bl.diagnose(changed(log, outcome=-few))["recorded outcomes"].light == "green"
    assert not is_sparse(np.array([90.0, 3.0]), np.array([30.0, 0.0]))  # a third of 90 may be half by chance
    assert is_sparse(np.array([900.0, 3.0]), np.array([250.0, 3.0]))


def test_delays_that_depend_on_outcomes():
    log = played(4000)
    late = np.floor(np.random.default_rng(1).geometric(0.02, 4000) * np.exp(0.5 * np.nan_to_num(log.outcome)))
    check = bl.diagnose(changed(log, delay=late))["outcome and delay"]
    assert (check.light, check.numbers["z"][0] > 3) == ("red", True)
    assert check.finding == "Early and late outcomes differ: larger outcomes come later (p < 0.0001)."


@pytest.mark.parametrize("arms", [2, 5])
def test_probabilities_that_were_not_used(arms):
    log = played(10_000, arms, policy="greedy")
    p = log.propensity
    swap = [1, 0, *range(2, arms)]
    for wrong in (
        np.roll(p, 1, axis=1),
        p[:, swap],
        np.full_like(p, 1 / arms),
        np.random.default_rng(1).permutation(p),
    ):
        check = bl.diagnose(changed(log, propensity=wrong))["probabilities"]
        assert check.light == "red"
    assert bl.diagnose(log)["probabilities"].light == "green"


def test_the_chosen_arms_probabilities_alone_can_tell_a_little():
    log = played(10_000, policy="greedy")
    assert bl.diagnose(changed(log, propensity=chosen(log)))["probabilities"].light in ("green", "grey")
    assert bl.diagnose(changed(log, propensity=np.full(10_000, 0.5)))["probabilities"].light == "red"
    fair = played(3000, 3, policy="uniform")
    assert bl.diagnose(changed(fair, propensity=chosen(fair)))["probabilities"].light == "green"


def test_two_arms_in_each_others_place_for_a_few_rows():
    # both arms are equally likely but for eight rows, in which the policy was nearly sure
    p = np.full((3000, 3), [0.9, 0.05, 0.05])
    p[:8] = [0.02, 0.96, 0.02]
    rng = np.random.default_rng(2)
    code = np.array([rng.choice(3, p=row) for row in p])
    right = bl.Log(code, rng.normal(size=3000), p)
    assert bl.diagnose(right)["probabilities"].light == "green"
    check = bl.diagnose(bl.Log(code, right.outcome, p[:, [0, 2, 1]]))["probabilities"]
    assert check.light == "red"
    assert check.finding.startswith("Arms' probabilities seem to stand in each other's place")


@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_the_likelihood_ratio_of_a_permutation_is_fair(arms, seed):
    # its expectation over one choice is exactly 1, so that Markov's inequality bounds the p-value
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(arms))
    ratio = p[rng.permutation(arms)] / p
    assert np.sum(p * ratio) == pytest.approx(1)
    log_p = np.log(p)[np.newaxis] * np.eye(arms)[:, [0]]  # one row, of arm 0
    assert 0 <= swapped(log_p) <= 1


@pytest.mark.parametrize("how", ["rising", "jump", "one arm"])
def test_outcomes_that_change(how):
    log = played(10_000, 5, policy="greedy" if how == "rising" else "uniform")
    at = np.arange(10_000) / 10_000
    by = {"rising": at, "jump": 0.5 * (at > 0.5), "one arm": 1.0 * (at > 0.3) * (log.code == 2)}[how]
    check = bl.diagnose(changed(log, outcome=log.outcome + by))["drift"]
    assert check.light == "red"
    assert bl.diagnose(log)["drift"].light == "green"


def test_a_change_of_arms_is_no_drift():
    # one arm's outcomes are larger, and it is chosen more and more: the mean of all outcomes rises, no arm's does
    rng = np.random.default_rng(1)
    p = np.stack([np.linspace(0.9, 0.1, 6000), np.linspace(0.1, 0.9, 6000)], axis=1)
    code = (rng.random(6000) > p[:, 0]).astype(int)
    y = rng.normal(size=6000) + 3 * code
    assert abs(stats.linregress(np.arange(6000), y).slope * 6000) > 1
    assert bl.diagnose(bl.Log(code, y, p))["drift"].light == "green"


def test_the_size_of_the_drift_test():
    rng = np.random.default_rng(1)
    below = 0
    for _ in range(1000):
        y = rng.exponential(size=(40, 3, 20))
        below += trend(np.full((40, 3), 20.0), y.sum(axis=2), (y**2).sum(axis=2)) < 0.05
    assert 10 < below < 65  # four shapes that are correlated: below its level, but not nothing


def test_outcomes_that_are_lost_for_a_while():
    log = played(6000, policy="uniform")
    at = np.arange(6000) / 6000
    lost = (at > 0.2) & (at < 0.35) & (np.random.default_rng(1).random(6000) < 0.5)
    assert bl.diagnose(log)["variance sums"].light == "green"
    assert bl.diagnose(changed(log, delay=np.where(lost, math.inf, waits(log))))["variance sums"].light == "red"
    assert math.isnan(steady_arrival(np.full((3, 1), 50.0), np.full((3, 1), 50.0)))


def test_probabilities_that_fall_too_fast():
    step = np.arange(1, 5001)
    small = 0.5 * step**-1.6
    p = np.stack([1 - small, small], axis=1)
    rng = np.random.default_rng(1)
    code = (rng.random(5000) < small).astype(int)
    check = bl.diagnose(bl.Log(code, rng.normal(size=5000), p, arms=[0, 1]))["propensity decay"]
    assert check.light == "red"
    assert check.numbers["exponent"] == pytest.approx(1.6, abs=0.02)
    for policy, exponent in (("greedy", 0.7), ("slow", 0.3), ("uniform", 0.0)):
        found = bl.diagnose(played(5000, policy=policy))["propensity decay"]
        assert found.light == "green"
        assert found.numbers["exponent"] == pytest.approx(exponent, abs=0.05)


def test_outcomes_that_do_not_vary():
    half = np.full((600, 2), 0.5)
    code = np.arange(600) % 2
    assert bl.diagnose(bl.Log(code, np.full(600, 3.5), half))["variation"].light == "red"
    assert bl.diagnose(bl.Log(code[:60], np.zeros(60), half[:60]))["variation"].light == "amber"
    one = bl.diagnose(bl.Log(code, np.where(code == 0, 1e8, 1e8 + np.arange(600)), half))["variation"]
    assert (one.light, one.numbers["variance"][0]) == ("amber", 0.0)
    assert one.numbers["variance"][1] == pytest.approx(np.var(np.arange(1, 600, 2.0), ddof=1), rel=1e-6)


def test_few_and_no_outcomes():
    nothing = bl.diagnose(bl.Log([0, 1], [math.nan] * 2, np.full((2, 2), 0.5)))
    assert nothing["arrivals"].light == nothing.worst == "red"
    assert nothing["largest weight"].light == "grey"
    log = bl.Log(["A", "B"] * 100, np.arange(200.0), [[0.5, 0.5, 0.0]] * 200, arms=["A", "B", "C"])
    found = bl.diagnose(log)
    assert found["arrivals"].light == "amber"
    assert found["arrivals"].finding == "Arm 'C' has 0 outcomes: it has no interval."
    assert found.to_json()
    assert bl.diagnose(bl.Log([0] * 50, np.arange(50.0), np.ones(50))).worst in ("amber", "red")
    with pytest.raises(bl.LogError, match="no rows"):
        bl.diagnose(played(50).at(0))
    with pytest.raises(bl.OptionError, match="`log` is a int"):
        bl.diagnose(3)


def test_a_window_answers_for_the_delays():
    rng = np.random.default_rng(4)
    rows = 900
    made = {"id": np.arange(rows), "arm": ["A", "B"] * (rows // 2), "propensity": [0.5] * rows, "step": np.arange(rows)}
    who = rng.choice(rows, 150, replace=False)
    paid = {"id": who, "at": who + rng.integers(0, 40, 150)}
    source = bl.read(pa.table(made), pa.table(paid), arrived_at="at", events="indicator", window=20, as_of=rows)
    found = bl.diagnose(source)
    for name in ("delay tail", "still out", "outcome and delay", "recorded outcomes"):
        assert (found[name].light, "20 steps" in found[name].finding) == ("green", True)
    assert found.red == ()


def test_rare_choices_twice_are_no_miscalibration():
    assert miscalibration(np.array([1.9]), np.array([0.1])) > 1e-3
    assert math.isnan(miscalibration(np.zeros(2), np.zeros(2)))


def test_no_bins_have_no_tail():
    empty = ArrivalCounts(np.arange(49.0), np.zeros((2, 50, 49)), 48.0)
    assert np.isnan(delay_tails(empty, 1.0).exponent).all()


# ---------------------------------------------------------------- how it is shown


def test_a_diagnosis_as_text_and_data():
    log = played(10_000, labels=["A", "B"])
    found = bl.diagnose(changed(log, outcome=log.outcome + np.arange(10_000) / 10_000))
    assert (found.worst, found.red, found.amber) == ("red", ("drift",), ())
    assert len(found) == len(NAMES)
    text = repr(found)
    assert text.startswith("Diagnosis of a log (10,000 rows, 2 arms): 1 red, 11 green\n✓ green  largest weight")
    assert "✗ red    drift               practice  Within arms, mean outcomes change over time" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "To do: An arm's answer is then an average" in text
    assert found.to_dict()["checks"][11]["light"] == "red"
    plain = json.loads(found.to_json())
    assert plain["worst"] == "red"
    assert plain["checks"][0]["numbers"]["share"].keys() == {"A", "B"}
    assert "| ✗ red | drift | practice |" in found.to_markdown()
    assert found.to_csv().splitlines()[0] == "check,condition,light,finding,advice"
    assert list(found.to_pandas()["check"]) == list(NAMES)
    assert "<td" in found._repr_html_()
    with pytest.raises(bl.OptionError, match="Did you mean 'drift'"):
        found["drfit"]
    with pytest.raises(bl.OptionError, match="`light` is 'blue'"):
        bl.Check("a", "b", "c", "blue", "d")


def test_hostile_labels_are_text():
    log = played(600, labels=["<script>alert(1)</script>\n", "b" * 500])
    found = bl.diagnose(log)
    assert "<script>" not in found.to_html()
    assert max(map(len, found.to_text().splitlines())) <= 100
    assert json.loads(found.to_json())


def test_the_command(tmp_path):
    log = played(2000, labels=["A", "B"])
    late = waits(log)
    columns = {"arm": [log.arms[k] for k in log.code], "step": np.arange(1, 2001), "p_A": log.propensity[:, 0],
               "p_B": log.propensity[:, 1], "outcome": pa.array(log.outcome, mask=np.isinf(late)),
               "arrived": pa.array(log.arrived_at, mask=np.isinf(late))}  # fmt: skip
    path = tmp_path / "log.parquet"
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    run = CliRunner().invoke(app, ["diagnose", str(path), "--as-of", "2000", "--format", "json"])
    assert run.exit_code == 0, run.stderr
    told = json.loads(run.stdout)
    assert [check["check"] for check in told["checks"]] == list(NAMES)
    assert told["rows"] == 2000
    table = CliRunner().invoke(app, ["diagnose", str(path)])
    assert "✓ green  drift" in table.stdout
    for form in ("csv", "markdown"):
        assert CliRunner().invoke(app, ["diagnose", str(path), "--format", form]).exit_code == 0
    assert CliRunner().invoke(app, ["diagnose", str(path), "--format", "xml"]).exit_code == 2
    columns["p_A"], columns["p_B"] = columns["p_B"], columns["p_A"]
    pq.write_table(pa.table(columns), path)
    wrong = CliRunner().invoke(app, ["diagnose", str(path)])
    assert wrong.exit_code == 0
    assert "✗ red    probabilities" in wrong.stdout
