"""Sensitivity to arrival that depends on the outcome: beside other intervals, coverage, and what is said."""

from __future__ import annotations

import json
import math
import warnings
from itertools import pairwise

import numpy as np
import pytest
from commands import invoke
from contextual_policies import contextual
from scipy import stats
from simulated_logs import experiment

import belated as bl
from belated.kernels import jit

# ---------------------------------------------------------------- beside the library's own intervals


@pytest.mark.parametrize("outcomes", ["rates", "normal", "exponential"])
def test_at_1_the_interval_is_that_of_dipw_and_of_the_estimate(outcomes):
    arms = {
        "rates": {"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.4)},
        "normal": {"A": bl.arms.normal(0.3), "B": bl.arms.normal(0.4)},
        "exponential": {"A": bl.arms.exponential(1.0), "B": bl.arms.exponential(1.2)},
    }
    log = experiment(arms[outcomes])
    ours = bl.sensitivity(log, ("B", "A"), mature=0).at(1)
    kind = "wilson" if outcomes == "rates" else "score"
    theirs = bl.estimate(log, "dipw", interval=kind).contrast("B", "A")
    assert ours.bound_low == pytest.approx(theirs.estimate)
    assert ours.bound_high == pytest.approx(theirs.estimate)
    default = bl.estimate(log).contrast("B", "A")
    assert (ours.low, ours.high) == pytest.approx((min(theirs.low, default.low), max(theirs.high, default.high)))


@pytest.mark.parametrize("what", ["whole", "chosen", "segments", "events"])
def test_a_sensitivity_analysis_is_never_surer_than_the_estimate(what):
    jit.compile_kernels()
    surer = apart = 0
    for seed in range(12 if what == "segments" else 25):
        rng = np.random.default_rng([seed, 7])
        rows = 80 if what == "segments" else 40
        arm, mean = rng.integers(0, 2, rows), rng.choice([0.0, 0.7])
        outcome = np.where(rng.random(rows) < 0.2, np.nan, rng.exponential(1.0, rows) + mean * arm)
        tilt = rng.uniform(0.2, 0.8, rows)
        pi = np.where(arm == 1, tilt, 1 - tilt) if what == "chosen" else np.stack([1 - tilt, tilt], axis=1)
        options = {"segment": rng.choice(["x", "y"], rows)} if what == "segments" else {}
        if what == "events":
            log = bl.Log.of_events(
                arm, pi, {"unit": np.arange(rows), "age": rng.integers(0, 9, rows), "value": np.nan_to_num(outcome)},
                window=8, as_of=rows, arms=[0, 1],
            )  # fmt: skip
        else:
            log = bl.Log(arm, outcome, pi, arms=[0, 1], **options)
        answers = [(bl.sensitivity(log, (1, 0)), bl.estimate(log).contrast(1, 0))]
        if what == "segments":
            answers += [(bl.sensitivity(log, (1, 0), segment="x"), bl.estimate(log).segment("x").contrast(1, 0))]
        for sensitivity, plain in answers:
            at_1, unshifted = sensitivity.at(1), sensitivity.shift.at(0)
            assert max(at_1.low, unshifted.low) <= plain.low
            assert min(at_1.high, unshifted.high) >= plain.high
            surer += sensitivity.tipping_point > 1 and plain.p_value > 0.05
            apart += sensitivity.tipping_point > 1
    assert surer == 0 < apart


@pytest.mark.parametrize("arm", [bl.arms.normal(1), bl.arms.bernoulli(0.4)])
def test_nothing_moves_if_everything_came(arm):
    log = experiment({"A": arm, "B": arm}, never=0.0, delay=bl.delays.none())
    answer = bl.sensitivity(log, ("B", "A"))
    one, many, shifted = answer.at(1), answer.at(50), answer.shift.at(0.3)
    for other in (many, shifted):
        assert (other.bound_low, other.low, other.high) == pytest.approx((one.bound_low, one.low, one.high))
    assert answer.observed_share == {"A": 1.0, "B": 1.0}
    assert answer.maturity.age == 0
    assert answer.maturity.rows == len(log)


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_intervals_of_few_outcomes_do_not_shrink(seed):
    arms = {k: bl.arms.student_t(2.5) for k in range(4)}
    answer = bl.sensitivity(experiment(arms, horizon=60, seed=seed, decay=0.9), 0)
    require_nested(answer.rows)


@pytest.mark.parametrize("seed", [7, 9, 21])
def test_a_larger_shift_includes_a_smaller_one(seed):
    arms = {k: bl.arms.lognormal(0, 2) for k in "AB"}
    shift = bl.sensitivity(experiment(arms, horizon=120, seed=seed, decay=0.3), ("B", "A")).shift
    require_nested(shift.rows)
    largest = shift.rows[-1]
    assert shift.at(1.01 * largest.delta).low <= largest.low
    assert shift.at(1.01 * largest.delta).high >= largest.high


def require_nested(rows):
    for inner, outer in pairwise(rows):
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
    assert "there is no row of B" in never.to_text()
    assert never.to_json()


@pytest.mark.parametrize("others", ["vary", "equal"])
def test_what_an_arm_of_equal_outcomes_hides_cannot_be_told(others):
    rng = np.random.default_rng(3)
    code = rng.integers(0, 2, 200)
    y = np.where(code == 0, 0.0, np.where(rng.random(200) < 0.2, 50.0, 0.0) if others == "vary" else 0.0)
    y[rng.random(200) < 0.3] = math.nan
    log = bl.Log(code, y, [0.5] * 200)
    for sensitivity in (bl.sensitivity(log, 0, null=1.5), bl.sensitivity(log, (1, 0), null=-3)):
        assert math.isnan(sensitivity.tipping_point)
        assert math.isnan(sensitivity.shift.tipping_point)
        assert math.isnan(sensitivity.at(2).low)
        assert math.isnan(sensitivity.at(2).high)
        assert math.isfinite(sensitivity.at(2).bound_high)
        assert sensitivity.conclusion.startswith("There is no interval: among the rows that count, all ")
        assert "outcomes of 0" in sensitivity.conclusion
        assert "that have arrived are equal" in sensitivity.to_text()
        assert "however" not in sensitivity.to_text()
        assert json.loads(sensitivity.to_json())["gamma"]["tipping_point"] is None


def test_of_outcomes_known_to_be_0_and_1_equal_ones_say_something():
    rng = np.random.default_rng(3)
    code = rng.integers(0, 2, 400)
    y = np.where(code == 0, 0.0, rng.random(400) < 0.6)
    y[rng.random(400) < 0.3] = math.nan
    sensitivity = bl.sensitivity(bl.Log(code, y, [0.5] * 400), (1, 0))
    assert sensitivity.at(1).low > sensitivity.at(3).low
    assert sensitivity.tipping_point > 1
    assert "gamma does not change the bounds of that arm, only its interval" in sensitivity.to_text()


@pytest.mark.parametrize(
    ("contrast", "options", "words"),
    [
        (("B", "C"), {}, "no arm 'C'"),
        (("B", "B"), {}, "two different arms"),
        (("A", "B", "A"), {}, "not a pair of arms"),
        ({"A": 0}, {}, "coefficient"),
        ({"A": "x"}, {}, "finite number"),
        (("B", "A"), {"gammas": [0.5]}, "must be 1 or more"),
        (("B", "A"), {"gammas": []}, "list of numbers"),
        (("B", "A"), {"gammas": 2}, "list of numbers"),
        (("B", "A"), {"level": 1}, "between 0 and 1"),
        (("B", "A"), {"mature": -1}, "0 or more"),
        (("B", "A"), {"mature": True}, "0 or more"),
        (("B", "A"), {"mature": 10**6}, "that long before"),
    ],
)
def test_bad_questions_are_one_sentence(contrast, options, words):
    with pytest.raises(bl.BelatedError, match=words):
        bl.sensitivity(experiment(horizon=200), contrast, **options)


# ---------------------------------------------------------------- labels, and the command


def test_labels_are_shown_on_one_line_and_escaped():
    log = experiment({"<b>\n": bl.arms.normal(0), ("x", 1): bl.arms.normal(1)}, horizon=500)
    answer = bl.sensitivity(log, (("x", 1), "<b>\n"))
    assert "<b>" not in answer.to_html()
    assert "\n\n" not in answer.to_text()
    assert bl.sensitivity(log, ("x", 1)).name == "('x', 1)"


def test_the_command_says_the_same(tmp_path):
    log = experiment(horizon=600)
    path = tmp_path / "log.csv"
    lines = ["step,arm,p_A,p_B,outcome,arrived"]
    for t in range(600):
        y, at = log.outcome[t], log.arrived_at[t]
        arrived = "," if np.isnan(y) else f"{float(y)!r},{int(at)}"
        lines.append(
            f"{t + 1},{'AB'[log.code[t]]},{float(log.propensity[t, 0])!r},{float(log.propensity[t, 1])!r},{arrived}"
        )
    path.write_text("\n".join(lines))
    options = ["sensitivity", str(path), "--contrast", "B-A", "--as-of", "600", "--assigned-at", "step",
               "--arrived-at", "arrived"]  # fmt: skip
    done = invoke([*options, "--format", "json", "--gamma", "1,2", "--mature", "50"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    ours = bl.sensitivity(log, ("B", "A"), gammas=[1, 2], mature=50)
    assert document["gamma"]["rows"][1]["low"] == pytest.approx(ours.at(2).low)
    assert document["gamma"]["tipping_point"] == pytest.approx(ours.tipping_point)
    shown = invoke([*options, "--plot", str(tmp_path / "figure")])
    assert shown.exit_code == 0, shown.output
    assert bl.sensitivity(log, ("B", "A")).conclusion in shown.stdout
    assert (tmp_path / "figure.png").exists()
    wrong = invoke([*options[:2], "--contrast", "B-C"])
    assert wrong.exit_code == 2


# ---------------------------------------------------------------- coverage


CUTS = {"exponential": (0.78, 1.3), "binary": (0.5, 0.5)}


def planted_log(rng, outcomes, rows, gamma):
    """Return a log in which outcomes are drawn first, and come with odds that vary by gamma; B's large ones seldom.

    The policy keeps to 0.8 / 0.2 and swaps them by the average of what has come: a bandit in four batches.
    """
    code, y, p, arrived = np.empty(rows, int), np.empty(rows), np.empty((rows, 2)), np.empty(rows, bool)
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
        arrived[these] = rng.random(rows // 4) < odds / (1 + odds)
        known = arrived[: start + rows // 4]
        means = [y[: start + rows // 4][known & (code[: start + rows // 4] == k)].mean() for k in range(2)]
        best = int(np.argmax(means))
    return bl.Log(code, np.where(arrived, y, math.nan), p, assigned_at=np.arange(rows) // (rows // 4))


@pytest.mark.parametrize("outcomes", ["exponential", "binary"])
def test_the_planted_gamma_is_covered_and_its_half_is_not(outcomes):
    rng = np.random.default_rng(11)
    full = half = 0
    replications = 120
    for _ in range(replications):
        log = planted_log(rng, outcomes, 8000, 4.0)
        answer = bl.sensitivity(log, (1, 0))  # the arms' true means are equal
        full += answer.at(4).includes(0)
        half += answer.at(2).includes(0)
    assert stats.binomtest(full, replications, 0.95, alternative="less").pvalue > 1e-3
    assert half < 0.05 * replications


def test_ignoring_it_covers_nothing():
    log = planted_log(np.random.default_rng(12), "binary", 8000, 4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.BelatedWarning)
        answer = bl.estimate(log, "dipw").contrast(1, 0)
    assert answer.high < 0


def test_the_interval_touches_zero_at_the_tipping_point():
    answer = bl.sensitivity(experiment(), ("B", "A"))
    tips = answer.tipping_point
    assert 1 < tips < 10
    assert answer.at(tips).includes(0)
    assert not answer.at(tips * (1 - 1e-6)).includes(0)
    assert f"factor of {tips:.3g}" in answer.conclusion
    assert "B is higher than A" in answer.conclusion
    assert "B is higher than A" in bl.sensitivity(experiment(), ("A", "B")).conclusion
    delta = answer.shift.tipping_point
    assert answer.shift.at(delta).includes(0)
    assert not answer.shift.at(delta * (1 - 1e-6)).includes(0)


def test_notes_say_of_which_arms_they_speak_and_count_in_words():
    arm, steps = ["A", "B", "C"] * 40 + ["D"], list(range(1, 122))
    outcome = [math.nan if a in "CD" else float(i % 7 < 3) + (a == "B") for i, a in enumerate(arm)]
    arrived = [math.nan if math.isnan(y) else t + 1 for t, y in zip(steps, outcome, strict=True)]
    log = bl.Log(arm, outcome, "uniform", assigned_at=steps, arrived_at=arrived, as_of=130)
    full = bl.sensitivity(log, ("B", "A"), mature=1)
    assert "No outcome of A or B is missing among the 121 rows that count" in full.conclusion
    assert "assigned at least 1 step before the end, of which" in str(full)
    old = str(bl.sensitivity(log, ("D", "A"), mature=20))
    assert "of which 100.0% of A's outcomes have arrived; there is no row of D." in old
    alone = bl.sensitivity(log, "D", mature=20)
    assert "before the end; there is no row of D." in str(alone)


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
    answer = bl.sensitivity(experiment(rates), ("B", "A"))
    assert answer.shift.at(1.0).bound_low == pytest.approx(answer.at(1e12).bound_low, abs=1e-9)
    assert answer.shift.at(1.0) == bl.sensitivity(experiment(rates), ("B", "A")).shift.at(1.0)


def test_a_shift_is_a_size_and_widens_the_bounds():
    shift = bl.sensitivity(experiment(), ("B", "A")).shift
    assert [row.delta for row in shift.rows] == pytest.approx([k * shift.sd for k in (0, 0.1, 0.25, 0.5, 1, 2)])
    for inner, outer in pairwise(shift.rows):
        assert outer.bound_low < inner.bound_low <= inner.bound_high < outer.bound_high
    with pytest.raises(bl.OptionError, match="0 or more"):
        shift.at(-1)
    assert list(shift.to_dict()) == ["delta", "delta_sd", "bound_low", "bound_high", "low", "high"]
    assert f"by {shift.tipping_point:.3g} (" in shift.conclusion
    assert shift.reach > shift.tipping_point


def test_with_nothing_missing_the_sentence_says_so():
    bandit = bl.Bandit({"A": bl.arms.bernoulli(0.2), "B": bl.arms.bernoulli(0.6)})
    log = bl.simulate(bandit, bl.policies.uniform(), 400, seed=1)
    sensitivity = bl.sensitivity(log, ("B", "A"))
    assert sensitivity.nothing_missing
    rows = "No outcome is missing among the 400 rows that count"
    assert sensitivity.conclusion == f"B is higher than A. {rows}, so this cannot depend on which outcomes arrived."
    equal = bl.simulate(bl.Bandit({arm: bl.arms.bernoulli(0.4) for arm in "AB"}), bl.policies.uniform(), 400, seed=1)
    assert bl.sensitivity(equal, ("B", "A")).conclusion.startswith("The interval includes 0. No outcome is missing")


def test_bounds_of_rates_are_shown_in_points_and_kept_as_they_are():
    bandit = bl.Bandit({"A": bl.arms.bernoulli(0.2), "B": bl.arms.bernoulli(0.6)}, bl.delays.constant(1).censored(0.3))
    log = bl.simulate(bandit, bl.policies.uniform(), 800, seed=1)
    sensitivity = bl.sensitivity(log, ("B", "A"))
    first = str(sensitivity).splitlines()[2].split()
    assert "in percentage points" in str(sensitivity).splitlines()[0]
    assert float(first[1]) == pytest.approx(100 * sensitivity.at(1).bound_low, abs=0.1)
    assert sensitivity.to_dict()["low"][0] == sensitivity.at(1).low < 1
    assert " points" in sensitivity.shift.conclusion
    assert bl.sensitivity(log, "B", null=0.4).conclusion.startswith("The mean of B is above 40%")


# ---------------------------------------------------------------- segments


@pytest.mark.parametrize("kind", ["normal", "rate"])
def test_bounds_over_segments_are_those_of_segments_averaged(kind):
    log = contextual(1500, 3, policy="thompson", kind=kind, never=0.6, seed=2).log
    whole = bl.sensitivity(log, ("B", "A"), mature=0)
    shares = np.array([np.sum(log.segment_column.code == s) for s in range(3)]) / 1500
    parts = [bl.sensitivity(log, ("B", "A"), mature=0, segment=s) for s in log.segments]
    for gamma in (1.0, 2.0, 5.0):
        each = [part.at(gamma) for part in parts]
        bounds = whole.at(gamma)
        assert bounds.bound_low == pytest.approx(shares @ [b.bound_low for b in each])
        assert bounds.bound_high == pytest.approx(shares @ [b.bound_high for b in each])
        assert bounds.low < bounds.bound_low <= bounds.bound_high < bounds.high
    same, plain = whole.at(1), bl.estimate(log, "dipw").contrast("B", "A")
    assert same.bound_low == pytest.approx(plain.estimate)
    if kind == "normal":
        default = bl.estimate(log).contrast("B", "A")
        ends = min(plain.low, default.low), max(plain.high, default.high)
        assert (same.low, same.high) == pytest.approx(ends, rel=0.02)
    assert set(whole.observed_share) == {"A", "B"}
    assert whole.shift.tipping_point >= 0
    assert "gamma" in whole.to_text()


def test_a_segment_with_few_outcomes_is_named():
    log = bl.Log(["A", "B"] * 3, [1.0, 2.0, 1.5, None, None, None], "uniform", segment=["DE"] * 6)
    assert "'B' in segment 'DE' has 1 arrived outcome" in bl.sensitivity(log, ("B", "A"), mature=0).conclusion


def test_merged_segments_alone_have_the_bounds_of_the_estimate_at_1():
    rng = np.random.default_rng(1)
    rows = 1600
    segment = np.where(np.arange(rows) < 500, 99, rng.integers(0, 60, rows))
    favours_b = segment % 2 == 1  # the policy looks at the segment, outcomes and their arrival depend on it
    p = np.where(favours_b, 0.85, 0.15)
    arm = (rng.random(rows) < p).astype(int)
    arrived = rng.random(rows) < np.where(favours_b, 0.9, 0.4)
    y = np.where(arrived, favours_b * arm + rng.normal(size=rows), np.nan)
    log = bl.Log(arm, y, np.column_stack([1 - p, p]), segment=segment)
    assert log.segments[-1] == "other"
    assert log.layout.arrival is not None
    ours = bl.sensitivity(log, (1, 0), mature=0, segment="other").at(1)
    theirs = bl.estimate(log, "dipw").segment("other").contrast(1, 0)
    assert (ours.bound_low, ours.bound_high) == pytest.approx((theirs.estimate, theirs.estimate))
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.03)


# ---------------------------------------------------------------- given probabilities of arrival


def test_given_probabilities_of_arrival_count():
    rng = np.random.default_rng(2)
    rows = 3000
    arm, x = rng.integers(0, 2, rows), rng.normal(size=rows)
    chance = np.clip(1 / (1 + np.exp(-0.3 - 1.2 * x)), 0.05, 1)
    arrived = rng.random(rows) < chance
    y = 0.2 * arm + x * (1 - 2 * arm) + 0.5 * rng.normal(size=rows)  # without the chances, B - A seems to be -0.7
    log = bl.Log(
        arm, np.where(arrived, y, np.nan), "uniform", delay=np.where(arrived, 1.0, np.nan), as_of=rows + 1,
        arrival_probability=chance,
    )  # fmt: skip
    ours, theirs = bl.sensitivity(log, (1, 0), mature=0).at(1), bl.estimate(log, "dipw").contrast(1, 0)
    assert (ours.bound_low, ours.bound_high) == pytest.approx((theirs.estimate, theirs.estimate))
    default = bl.estimate(log).contrast(1, 0)
    assert (ours.low, ours.high) == pytest.approx((min(theirs.low, default.low), max(theirs.high, default.high)))
