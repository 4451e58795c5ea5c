"""Sensitivity to arrival that depends on the outcome: the algebra, the search, coverage, and what is said."""

from __future__ import annotations

import datetime as dt
import json
import math
import warnings
from itertools import pairwise

import naive.sensitivity as naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

import belated as bl
from belated.assumptions.missing import ArmOutcomes, Odds, Shifted
from belated.cli.app import app

values = st.one_of(st.sampled_from([-1.0, 0.0, 0.0, 1.0, 2.0]), st.floats(-10, 10))
some_rows = st.lists(st.tuples(st.floats(1, 20), st.booleans(), values), min_size=4, max_size=9).filter(
    lambda rows: sum(arrived for _, arrived, _ in rows) >= 2
)


def columns(rows):
    w, arrived, y = (np.array(column) for column in zip(*rows, strict=True))
    return w, arrived, np.where(arrived, y, math.nan)


def experiment(arms=None, horizon=3000, never=0.4, seed=1, delay=None, decay=0.5):
    arms = arms or {"A": bl.arms.normal(0), "B": bl.arms.normal(1)}
    late = (delay or bl.delays.geometric(10)).censored(never)
    return bl.simulate(bl.Bandit(arms, late), bl.policies.epsilon_greedy(decay=decay, burn_in=0.05), horizon, seed)


# ---------------------------------------------------------------- one arm, against the twin


@given(some_rows, st.floats(1, 20), st.booleans())
def test_no_weights_between_1_and_gamma_give_a_more_extreme_mean(rows, gamma, up):
    w, arrived, y = columns(rows)
    arm = ArmOutcomes(w, arrived, y)
    found = Odds(gamma).of(arm, up)
    missing = (found.value - arm.share * arm.mean) / (1 - arm.share) if arm.share < 1 else None
    if missing is not None and arm.share < 0.99:
        brute = naive.extreme_mean_of_any_weights(w[arrived].tolist(), y[arrived].tolist(), gamma, up)
        assert missing == pytest.approx(brute, abs=1e-9)


@given(some_rows, st.floats(1, 20), st.booleans())
def test_an_arm_is_as_its_twin_row_by_row(rows, gamma, up):
    w, arrived, y = columns(rows)
    found = Odds(gamma).of(ArmOutcomes(w, arrived, y), up)
    mean, variance, _ = naive.extreme(w.tolist(), arrived.tolist(), y.tolist(), gamma, up)
    scale = float(np.ptp(y[arrived])) + 1e-3
    assert found.value == pytest.approx(mean, abs=1e-9 * scale)
    assert found.variance == pytest.approx(variance, rel=1e-6, abs=1e-9 * scale**2)


@given(some_rows, st.floats(0, 5), st.booleans())
def test_a_shift_is_as_its_twin(rows, delta, up):
    w, arrived, y = columns(rows)
    found = Shifted(delta).of(ArmOutcomes(w, arrived, y), up)
    twin = naive.extreme(w.tolist(), arrived.tolist(), y.tolist(), 1.0, up, delta if up else -delta)
    assert found == pytest.approx(twin, rel=1e-6, abs=1e-8)


@given(some_rows, st.floats(1, 20), st.booleans())
def test_rates_have_a_closed_form(rows, gamma, up):
    w, arrived, y = columns(rows)
    arm = ArmOutcomes(w, arrived, np.where(y > 0, 1.0, 0.0))
    share = arm.share
    closed = share * arm.mean + (1 - share) * Odds(gamma).of_rate(arm.mean, up)
    assert Odds(gamma).of(arm, up).value == pytest.approx(closed, abs=1e-12)


@given(some_rows, st.floats(1, 20))
def test_mirrored_outcomes_have_mirrored_bounds(rows, gamma):
    w, arrived, y = columns(rows)
    up = Odds(gamma).of(ArmOutcomes(w, arrived, y), True)
    down = Odds(gamma).of(ArmOutcomes(w, arrived, -y), False)
    assert (up.value, up.variance) == pytest.approx((-down.value, down.variance), rel=1e-6, abs=1e-9)


def test_the_variance_is_that_of_leaving_rows_out():
    rng = np.random.default_rng(5)
    w, arrived, y = np.ones(300), rng.random(300) < 0.6, rng.exponential(1, 300)

    def value(keep):
        return Odds(3.0).of(ArmOutcomes(w[keep], arrived[keep], y[keep]), True)

    everyone = np.ones(300, dtype=bool)
    without = []
    for i in range(300):
        keep = everyone.copy()
        keep[i] = False
        without.append(value(keep).value)
    jackknife = 299 * np.var(without)
    assert value(everyone).variance == pytest.approx(jackknife, rel=0.03)


def test_a_large_mean_costs_no_digits():
    rng = np.random.default_rng(6)
    w, arrived, y = 1 + rng.exponential(1, 500), rng.random(500) < 0.6, rng.normal(size=500)
    near = Odds(2.0).of(ArmOutcomes(w, arrived, y), True)
    far = Odds(2.0).of(ArmOutcomes(w, arrived, y + 1e8), True)
    assert far.value - 1e8 == pytest.approx(near.value, abs=1e-6)
    assert far.variance == pytest.approx(near.variance, rel=1e-6)


# ---------------------------------------------------------------- beside the library's own intervals


@pytest.mark.parametrize("kind", ["wilson", "t", "skew"])
def test_at_1_the_interval_is_that_of_dipw(kind):
    arms = {
        "wilson": {"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.4)},
        "t": {"A": bl.arms.normal(0.3), "B": bl.arms.normal(0.4)},
        "skew": {"A": bl.arms.exponential(1.0), "B": bl.arms.exponential(1.2)},
    }
    log = experiment(arms[kind])
    ours = bl.sensitivity(log, ("B", "A"), mature=0).at(1)
    theirs = bl.estimate(log, "dipw").contrast("B", "A")
    assert theirs.interval == kind
    assert ours.bound_low == pytest.approx(theirs.estimate)
    assert ours.bound_high == pytest.approx(theirs.estimate)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize("arm", [bl.arms.normal(1), bl.arms.bernoulli(0.4)])
def test_nothing_moves_if_everything_came(arm):
    log = experiment({"A": arm, "B": arm}, never=0.0, delay=bl.delays.none())
    found = bl.sensitivity(log, ("B", "A"))
    one, many, shifted = found.at(1), found.at(50), found.shift.at(0.3)
    for other in (many, shifted):
        assert (other.bound_low, other.low, other.high) == pytest.approx((one.bound_low, one.low, one.high))
    assert found.observed_share == {"A": 1.0, "B": 1.0}
    assert found.maturity.age == 0
    assert found.maturity.rows == len(log)


def test_bounds_widen_with_gamma_and_contain_each_other():
    found = bl.sensitivity(experiment(), ("B", "A"), gammas=[3, 1, 2, 2])
    assert found.gammas == (1.0, 2.0, 3.0)
    for inner, outer in pairwise(found.rows):
        assert outer.bound_low < inner.bound_low <= inner.bound_high < outer.bound_high
        assert outer.low < outer.bound_low
        assert outer.high > outer.bound_high


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_intervals_of_few_outcomes_do_not_shrink(seed):
    arms = {k: bl.arms.student_t(2.5) for k in range(4)}
    found = bl.sensitivity(experiment(arms, horizon=60, seed=seed, decay=0.9), 0)
    for inner, outer in pairwise(found.rows):
        assert outer.low <= inner.low
        assert outer.high >= inner.high


def test_the_chosen_arms_propensity_is_enough():
    log = experiment()
    chosen = log.propensity[np.arange(len(log.code)), log.code]
    delay = np.where(np.isnan(log.outcome), np.inf, log.arrived_at - log.assigned_at)
    alone = bl.Log(np.array(log.arms)[log.code], log.outcome, chosen, delay=delay, as_of=log.as_of)
    full, part = (bl.sensitivity(each, ("B", "A")) for each in (log, alone))
    assert part.at(2) == full.at(2)
    assert part.tipping_point == full.tipping_point


def test_linear_combinations_are_of_means():
    log = experiment()
    pair, same = bl.sensitivity(log, ("B", "A")), bl.sensitivity(log, {"B": 1, "A": -1})
    assert same.at(2).low == pair.at(2).low
    back = bl.sensitivity(log, ("A", "B"))
    assert back.at(2).low == pytest.approx(-pair.at(2).high)
    assert back.tipping_point == pytest.approx(pair.tipping_point)
    alone = bl.sensitivity(log, "B", null=0.5)
    assert alone.name == "B"
    policy = bl.sensitivity(log, {"A": 0.5, "B": 0.5})
    means = [bl.sensitivity(log, arm, mature=policy.maturity.age).at(3).bound_high for arm in "AB"]
    assert policy.at(3).bound_high == pytest.approx(np.mean(means))


# ---------------------------------------------------------------- tipping points


def test_the_interval_touches_zero_at_the_tipping_point():
    found = bl.sensitivity(experiment(), ("B", "A"))
    tips = found.tipping_point
    assert 1 < tips < 10
    assert found.at(tips).includes(0)
    assert not found.at(tips * (1 - 1e-6)).includes(0)
    assert f"factor {tips:.3g}" in found.conclusion
    assert "B beats A" in found.conclusion
    assert "B beats A" in bl.sensitivity(experiment(), ("A", "B")).conclusion
    delta = found.shift.tipping_point
    assert found.shift.at(delta).includes(0)
    assert not found.shift.at(delta * (1 - 1e-6)).includes(0)


def test_no_conclusion_and_one_that_cannot_fall():
    same = bl.sensitivity(experiment({"A": bl.arms.normal(0), "B": bl.arms.normal(0)}), ("B", "A"))
    assert same.tipping_point == 1
    assert same.shift.tipping_point == 0
    assert "no conclusion" in same.conclusion
    rates = {"A": bl.arms.bernoulli(0.1), "B": bl.arms.bernoulli(0.9)}
    sure = bl.sensitivity(experiment(rates, never=0.05), ("B", "A"))
    assert sure.tipping_point == math.inf
    assert sure.shift.tipping_point == math.inf
    assert "however" in sure.conclusion
    assert json.loads(sure.to_json())["gamma"]["tipping_point"] is None


def test_shifts_of_rates_stay_rates():
    rates = {"A": bl.arms.bernoulli(0.1), "B": bl.arms.bernoulli(0.5)}
    found = bl.sensitivity(experiment(rates), ("B", "A"))
    assert found.shift.at(1.0).bound_low == pytest.approx(found.at(1e12).bound_low, abs=1e-9)
    assert found.shift.at(1.0) == bl.sensitivity(experiment(rates), ("B", "A")).shift.at(1.0)


# ---------------------------------------------------------------- which rows count


def test_rows_that_have_had_their_time_count():
    log = experiment(delay=bl.delays.constant(100), never=0.0, horizon=1000)
    found = bl.sensitivity(log, ("B", "A"))
    assert (found.maturity.age, found.maturity.rows) == (100, 900)
    assert found.observed_share == {"A": 1.0, "B": 1.0}
    every = bl.sensitivity(log, ("B", "A"), mature=0)
    assert every.maturity.rows == 1000
    assert every.observed_share["B"] < 1
    twin = [naive.matured(log.code, k, range(1, 1001), 1000, 100) for k in range(2)]
    assert found.maturity.rows == sum(map(len, twin))


def test_heavy_tails_are_said():
    found = bl.sensitivity(experiment(delay=bl.delays.pareto(0.3), horizon=4000), ("B", "A"))
    assert found.maturity.rows == pytest.approx(2000, abs=1)
    assert found.maturity.late > 0
    assert "slow" in found.to_text()


def test_times_may_be_dates_and_ages_durations():
    log = experiment(horizon=500)
    start = dt.datetime(2026, 1, 1)
    dates = [start + dt.timedelta(hours=int(t)) for t in log.assigned_at]
    came = [None if np.isnan(y) else start + dt.timedelta(hours=int(t))
            for t, y in zip(log.arrived_at, log.outcome, strict=True)]  # fmt: skip
    dated = bl.Log(np.array(["A", "B"])[log.code], log.outcome, log.propensity, assigned_at=dates, arrived_at=came,
                   as_of=start + dt.timedelta(hours=500))  # fmt: skip
    assert bl.sensitivity(dated, ("B", "A")).at(2) == bl.sensitivity(log, ("B", "A")).at(2)
    by_hand = bl.sensitivity(log, ("B", "A"), mature=48).at(2)
    for age in ("2d", dt.timedelta(days=2), np.timedelta64(48, "h")):
        assert bl.sensitivity(dated, ("B", "A"), mature=age).at(2) == by_hand
    with pytest.raises(bl.OptionError, match="duration"):
        bl.sensitivity(dated, ("B", "A"), mature=48)
    with pytest.raises(bl.OptionError, match="number"):
        bl.sensitivity(log, ("B", "A"), mature="2d")


def test_later_rows_do_not_exist_yet():
    log = experiment().at(1000)
    assert bl.sensitivity(log, ("B", "A"), mature=0).maturity.rows == 1000
    with pytest.raises(bl.LogError, match="no rows"):
        bl.sensitivity(log.at(0), ("B", "A"))


def test_rows_may_be_in_any_order_and_waited_for():
    log = experiment(horizon=800)
    delay = np.where(np.isnan(log.outcome), np.inf, log.arrived_at - log.assigned_at)
    shuffled = np.random.default_rng(1).permutation(800)
    mixed = bl.Log(
        log.code[shuffled], log.outcome[shuffled], log.propensity[shuffled], delay=delay[shuffled],
        assigned_at=np.arange(1, 801)[shuffled], as_of=800,
    )  # fmt: skip
    assert bl.sensitivity(mixed, (1, 0)).at(2).low == pytest.approx(bl.sensitivity(log, ("B", "A")).at(2).low)
    waited = bl.sensitivity(log.at(None), ("B", "A"))
    assert waited.observed_share["B"] == pytest.approx(0.6, abs=0.1)


# ---------------------------------------------------------------- what cannot be answered


def test_arms_with_few_arrivals_have_no_interval():
    log = bl.Log(["A", "A", "A", "B", "B", "C"], [1, 2, 3, 4, None, None], [0.5] * 6)
    one = bl.sensitivity(log, ("B", "A"))
    assert math.isnan(one.at(1).low)
    assert one.at(1).bound_low == pytest.approx(2.0)
    assert math.isnan(one.tipping_point)
    assert math.isnan(one.shift.tipping_point)
    assert "1 arrived outcome" in one.conclusion
    none = bl.sensitivity(log, ("C", "A"))
    assert math.isnan(none.at(2).bound_low)
    assert "0 arrived outcomes" in none.to_text()
    assert none.shift.to_text()
    assert none.to_json()
    never = bl.sensitivity(bl.Log(["A", "A"], [1, 2], [[0.5, 0.5]] * 2, arms=["A", "B"]), ("B", "A"))
    assert math.isnan(never.observed_share["B"])
    assert "– of B's" in never.to_text()
    assert never.to_json()


def test_outcomes_recorded_only_when_they_happen_are_refused():
    rng = np.random.default_rng(2)
    happened = rng.random(200) < 0.3
    log = bl.Log(rng.integers(0, 2, 200), np.where(happened, 1.0, math.nan), [0.5] * 200)
    with pytest.raises(bl.LogError, match="recorded only when it happens"):
        bl.sensitivity(log, (1, 0))


def test_equal_outcomes_of_one_arm_are_said():
    rng = np.random.default_rng(3)
    code = rng.integers(0, 2, 200)
    y = np.where(code == 0, 2.5, rng.normal(size=200))
    y[rng.random(200) < 0.3] = math.nan
    assert "no G moves" in bl.sensitivity(bl.Log(code, y, [0.5] * 200), (1, 0)).to_text()


@pytest.mark.parametrize(
    ("contrast", "options", "words"),
    [
        (("B", "C"), {}, "no arm 'C'"),
        (("B", "B"), {}, "two different arms"),
        (("A", "B", "A"), {}, "two arms"),
        ({"A": 0}, {}, "coefficient"),
        ({"A": "x"}, {}, "finite number"),
        (("B", "A"), {"gammas": [0.5]}, "factor of 1 or more"),
        (("B", "A"), {"gammas": []}, "list of numbers"),
        (("B", "A"), {"gammas": 2}, "list of numbers"),
        (("B", "A"), {"level": 1}, "between 0 and 1"),
        (("B", "A"), {"mature": -1}, "0 or more"),
        (("B", "A"), {"mature": True}, "0 or more"),
        (("B", "A"), {"mature": 10**6}, "so long before"),
    ],
)
def test_bad_questions_are_one_sentence(contrast, options, words):
    with pytest.raises(bl.BelatedError, match=words):
        bl.sensitivity(experiment(horizon=200), contrast, **options)


def test_labels_are_shown_on_one_line_and_escaped():
    log = experiment({"<b>\n": bl.arms.normal(0), ("x", 1): bl.arms.normal(1)}, horizon=500)
    found = bl.sensitivity(log, (("x", 1), "<b>\n"))
    assert "<b>" not in found.to_html()
    assert "\n\n" not in found.to_text()
    assert bl.sensitivity(log, ("x", 1)).name == "('x', 1)"


# ---------------------------------------------------------------- figures, files, the command


def test_the_figure_shows_the_tipping_points():
    pytest.importorskip("matplotlib")
    found = bl.sensitivity(experiment(), ("B", "A"))
    data = found.plot_data()
    assert data["odds"][0]["gamma"] == [1.0]
    assert data["odds"][-1]["gamma"][0] > found.tipping_point
    assert data["shift"][-1]["delta"][0] > found.shift.tipping_point
    figure = found.plot()
    left, right = figure.axes
    assert f"{found.tipping_point:.3g}" in left.get_title(loc="right")
    assert f"{found.shift.tipping_point:.3g}" in right.get_title(loc="right")
    few = bl.sensitivity(bl.Log(["A", "A", "B"], [1, 2, None], [0.5] * 3), ("B", "A"))
    assert few.plot().axes[0].get_title(loc="right") == "no interval"


def test_the_command_says_the_same(tmp_path):
    log = experiment(horizon=600)
    path = tmp_path / "log.csv"
    lines = ["step,arm,p_A,p_B,outcome,arrived"]
    for t in range(600):
        y, at = log.outcome[t], log.arrived_at[t]
        came = "," if np.isnan(y) else f"{float(y)!r},{int(at)}"
        lines.append(
            f"{t + 1},{'AB'[log.code[t]]},{float(log.propensity[t, 0])!r},{float(log.propensity[t, 1])!r},{came}"
        )
    path.write_text("\n".join(lines))
    options = ["sensitivity", str(path), "--contrast", "B-A", "--as-of", "600", "--assigned-at", "step",
               "--arrived-at", "arrived"]  # fmt: skip
    done = CliRunner().invoke(app, [*options, "--format", "json", "--gamma", "1,2", "--mature", "50"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    ours = bl.sensitivity(log, ("B", "A"), gammas=[1, 2], mature=50)
    assert told["gamma"]["rows"][1]["low"] == pytest.approx(ours.at(2).low)
    assert told["gamma"]["tipping_point"] == pytest.approx(ours.tipping_point)
    shown = CliRunner().invoke(app, [*options, "--plot", str(tmp_path / "figure")])
    assert shown.exit_code == 0, shown.output
    assert "The conclusion" in shown.stdout or "The interval" in shown.stdout
    assert (tmp_path / "figure.png").exists()
    wrong = CliRunner().invoke(app, [*options[:2], "--contrast", "B-C"])
    assert wrong.exit_code == 2


# ---------------------------------------------------------------- coverage


def planted_log(rng, outcomes, rows, gamma):
    """Return a log in which outcomes are drawn first, and come with odds that vary by gamma; B's large ones seldom.

    The policy keeps to 0.8 / 0.2 and swaps them by the average of what has come: a bandit in four batches.
    """
    code, y, p, came = np.empty(rows, int), np.empty(rows), np.empty((rows, 2)), np.empty(rows, bool)
    best = 0
    for start in range(0, rows, rows // 4):
        these = slice(start, start + rows // 4)
        share = 0.5 if start == 0 else 0.8 if best else 0.2
        code[these] = rng.random(rows // 4) < share
        p[these] = 1 - share, share
        y[these] = rng.exponential(1, rows // 4) if outcomes == "exponential" else rng.random(rows // 4) < 0.3
        # exponential: 1.28 is the mean of what does not come, for odds 1.5 and 0.5 about it (and 0.77 the other way)
        rare = np.where(code[these] == 1, y[these] > CUTS[outcomes][1], y[these] <= CUTS[outcomes][0])
        odds = 1.5 / np.where(rare, gamma, 1.0)
        came[these] = rng.random(rows // 4) < odds / (1 + odds)
        seen = came[: start + rows // 4]
        means = [y[: start + rows // 4][seen & (code[: start + rows // 4] == k)].mean() for k in range(2)]
        best = int(np.argmax(means))
    return bl.Log(code, np.where(came, y, math.nan), p, assigned_at=np.arange(rows) // (rows // 4))


CUTS = {"exponential": (0.78, 1.3), "binary": (0.5, 0.5)}


@pytest.mark.parametrize("outcomes", ["exponential", "binary"])
def test_the_planted_gamma_is_covered_and_its_half_is_not(outcomes):
    rng = np.random.default_rng(11)
    full = half = 0
    replications = 200
    for _ in range(replications):
        log = planted_log(rng, outcomes, 8000, 4.0)
        found = bl.sensitivity(log, (1, 0))  # the arms' true means are equal
        full += found.at(4).includes(0)
        half += found.at(2).includes(0)
    assert stats.binomtest(full, replications, 0.95, alternative="less").pvalue > 1e-3
    assert half < 0.05 * replications


def test_ignoring_it_covers_nothing():
    log = planted_log(np.random.default_rng(12), "binary", 8000, 4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.BelatedWarning)
        answer = bl.estimate(log, "dipw").contrast(1, 0)
    assert answer.high < 0
