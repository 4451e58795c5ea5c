from __future__ import annotations

import math

import naive.winner as naive
import numpy as np
import pytest
from scipy import stats

import belated as bl


def log_of(means, rows=400, seed=0, draw=None, **options):
    rng = np.random.default_rng(seed)
    arms = len(means)
    arm = rng.integers(0, arms, rows)
    outcome = rng.normal(np.array(means)[arm]) if draw is None else draw(rng, np.array(means)[arm])
    return bl.Log(arm, outcome, np.full((rows, arms), 1 / arms), arms=range(arms), **options)


def test_best_of_an_estimate():
    est = bl.estimate(log_of([0, 0.1, 0.9, 0.2]))
    best = est.best()
    assert best.arm == 2
    assert best.estimate == est.arm(2).estimate
    assert best.contenders == (2,)
    assert best.kind == "hybrid"
    assert best.interval == best.hybrid == (best.low, best.high)
    assert best.simultaneous.low < best.hybrid.low < best.estimate < best.hybrid.high
    assert set(best.p_values) == {0, 1, 2, 3}
    assert best.p_value < 0.05
    assert best.left_out == ()
    lines = str(best).splitlines()
    assert lines[0] == "daipw: the best of 4 arms, simultaneous 95% score intervals"
    assert lines[2].startswith("2 ")
    assert lines[-2].startswith("2 has the largest estimate")
    assert "Adjusted for being the best of 4, " in lines[-2]
    assert lines[-2].endswith("No other arm may be best.")
    assert lines[-1].startswith("p_value_is_best is the p-value of the hypothesis that the arm is the best")
    assert best.to_dict()["p_value_is_best"] == [best.p_values[arm] for arm in best.to_dict()["arm"]]
    assert best.to_dict()["may_be_best"] == ["yes", "no", "no", "no"]
    wider = est.best(level=0.99)
    assert wider.low < best.low < best.high < wider.high


def test_the_smallest_is_the_largest_of_the_negatives():
    low, high = bl.estimate(log_of([0.5, 0, 0.3])), log_of([0.5, 0, 0.3])
    mirrored = bl.estimate(bl.Log(high.code, -high.outcome, high.propensity, arms=range(3)))
    a, b = low.best(largest=False), mirrored.best()
    assert a.arm == b.arm
    for name in ("hybrid", "conditional", "simultaneous"):
        assert getattr(a, name) == pytest.approx(tuple(-x for x in reversed(getattr(b, name))))
    assert a.median_unbiased == pytest.approx(-b.median_unbiased)
    assert a.p_values == pytest.approx(b.p_values)
    for one, other in zip(low.contrasts("best", largest=False), mirrored.contrasts("best"), strict=True):
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert "smallest" in a.note


def test_limits_of_exactly_0_are_explained():
    log = log_of([0, 0, 2, 1])
    contrasts = bl.estimate(log).contrasts("best")
    assert 0 in [answer.high for answer in contrasts.answers]
    assert "By Hsu's method, every interval includes 0 or has it as a limit" in str(contrasts).splitlines()[-1]
    assert "Hsu" not in str(bl.estimate(log).contrasts(0))


def test_two_arms_are_tested_as_their_contrast():
    est = bl.estimate(log_of([0, 0.2]))
    best = est.best()
    other = 1 - best.arm
    assert best.p_value == pytest.approx(est.contrast(best.arm, other).p_value)
    assert best.p_values[other] == pytest.approx(best.p_value)
    own = est.contrast(best.arm, other)
    against = est.contrasts("best")[best.arm]
    assert (against.low, against.high) == pytest.approx((min(own.low, 0), own.high), abs=1e-4)


@pytest.mark.parametrize("seed", [55, 80])
def test_what_is_said_of_the_best_is_said_everywhere(seed):
    rng = np.random.default_rng(seed)
    arm = rng.choice(6, 300, p=np.arange(1, 7) / 21)
    log = bl.Log(arm, rng.lognormal(0, 2, 300) * (1 + arm / 2), np.tile(np.arange(1, 7) / 21, (300, 1)), arms=range(6))
    for level in np.linspace(0.05, 0.98, 30):
        est = bl.estimate(log, "dipw", level=level)
        best, against = est.best(), est.contrasts("best")
        assert [a.high > 0 for a in against.answers] == [arm in best.contenders for arm in est.arms]
        sole = best.contenders == (best.arm,)
        assert (best.p_value <= 1 - level) == sole == (against[best.arm].low == 0)


def test_rates_stay_rates():
    log = log_of([0.02, 0.05, 0.04], draw=lambda rng, m: (rng.random(len(m)) < m) * 1.0)
    est = bl.estimate(log, interval="wilson")
    best = est.best()
    for low, high in (best.hybrid, best.conditional, best.simultaneous):
        assert 0 <= low < high <= 1
    assert best.simultaneous.high == pytest.approx(est.arm(best.arm).at_level(0.95 ** (1 / 3)).high)


def test_near_a_tie_the_band_is_reported():
    y = np.tile([0.0, 1.0, 2.0, 3.0], 10)
    log = bl.Log(["A", "A", "B", "B"] * 10, [0.0, 1.0, 0.01, 1.0] * 10, [[0.5, 0.5]] * 40)
    best = bl.estimate(log, "dipw").best()
    assert best.arm == "B"
    assert best.near_tie
    assert best.interval == best.simultaneous
    assert "practically tied" in best.note
    assert best.note.endswith("A may be best too.")
    equal = bl.estimate(bl.Log(["A", "A", "B", "B"] * 10, y % 2 + 0.5, [[0.5, 0.5]] * 40), "dipw").best()
    assert (equal.arm, equal.near_tie) == ("A", True)
    assert equal.p_value == 1
    for tied in (best, equal):
        assert tied.low <= tied.median_unbiased <= tied.estimate


def test_arms_without_an_interval_are_named_and_left_out():
    columns = {"propensity": [[0.4, 0.4, 0.1, 0.1]] * 21, "arms": ["A", "B", "<i>C", "D"]}
    with pytest.warns(bl.BelatedWarning):
        est = bl.estimate(bl.Log(["A", "B"] * 10 + ["<i>C"], [*np.arange(20.0), 1e6], **columns))
    best = est.best()
    assert best.arm == "B"
    assert best.left_out == ("<i>C", "D")
    assert str(best).endswith("Not compared, because they have no interval: <i>C and D.")
    assert best.to_dict()["may_be_best"][2:] == ["unknown", "unknown"]
    assert {"<i>C", "D"} < set(best.contenders)
    assert "<i>" not in best.to_html()
    assert [a.name for a in est.contrasts("best")][2] == "<i>C - best other"
    assert math.isnan(est.contrasts("best")[3].low)


def test_one_arm_is_its_own_answer():
    est = bl.estimate(bl.Log(["A"] * 9, np.arange(9.0), [[1.0]] * 9))
    best = est.best()
    assert best.interval == pytest.approx((est.arm("A").low, est.arm("A").high))
    assert best.contenders == ("A",)
    assert "there was no selection" in best.note
    with pytest.raises(bl.OptionError, match="at least two arms"):
        est.contrasts("best")


def test_arms_of_equal_outcomes_are_not_certain():
    with pytest.warns(bl.BelatedWarning, match="equal"):
        est = bl.estimate(bl.Log(["A", "B", "C"] * 4, [1.0, 3.0, 2.0] * 4, [[1 / 3] * 3] * 12), "dipw")
    best = est.best()
    assert best.arm == "B"
    assert best.simultaneous.low < 3.0 < best.simultaneous.high
    assert best.p_value > 0


def test_without_any_interval_there_is_no_best():
    with pytest.warns(bl.BelatedWarning):
        est = bl.estimate(bl.Log(["A", "B"], [1.0, 2.0], [[0.5, 0.5]] * 2), "dipw")
    with pytest.raises(bl.OptionError, match="No arm has an interval"):
        est.best()


def test_the_greedy_policy_is_worth_what_its_arm_is():
    est = bl.estimate(log_of([0, 0.1, 0.4]))
    answer, best = est.policy("greedy"), est.best()
    assert (answer.low, answer.high) == best.interval
    assert answer.estimate == best.estimate
    assert answer.interval == best.kind
    assert "greedy: " in str(answer)
    assert "interval, no test" in str(answer)
    with pytest.raises(bl.OptionError, match="two-sided"):
        est.policy("greedy", alternative="less")
    with pytest.raises(bl.OptionError, match="must map arms to numbers"):
        est.policy("greedily")
    with pytest.raises(bl.OptionError, match="simultaneous with others"):
        answer.test(1)


def test_an_arm_may_be_called_best():
    log = bl.Log(["best", "other"] * 20, np.arange(40.0) % 7, [[0.5, 0.5]] * 40)
    assert [a.name for a in bl.estimate(log).contrasts("best")] == ["other - best"]
    named = bl.Log(["A", "B"] * 20, np.arange(40.0) % 7, [[0.5, 0.5]] * 40)
    table = bl.estimate(named).contrasts("best")
    assert [a.name for a in table] == ["A - best other", "B - best other"]
    assert all(a.low <= 0 <= a.high for a in table)
    assert "simultaneous" in str(table)


def test_the_paper_s_interval_has_a_winner_too():
    est = bl.estimate(log_of([0, 0.3, 0.1]), interval="normal")
    best = est.best()
    low, middle, high = naive.hybrid(
        *sorted(est.values)[:0:-1], float(est.std_errors[best.arm]), 3, 0.95
    )  # fmt: skip
    assert best.hybrid == pytest.approx((low, high), abs=1e-6)
    assert best.median_unbiased == pytest.approx(middle, abs=1e-6)


@pytest.mark.filterwarnings("ignore:All arrived outcomes:belated.BelatedWarning")
@pytest.mark.parametrize("family", ["normal", "binary", "exponential"])
def test_the_winner_of_a_bandit_is_covered(family):
    arm = {"normal": bl.arms.normal(0.0), "binary": bl.arms.bernoulli(0.1), "exponential": bl.arms.exponential(1.0)}
    bandit = bl.Bandit(dict.fromkeys(range(5), arm[family]), bl.delays.pareto(0.75))
    policy, runs, hits = bl.policies.epsilon_greedy(burn_in=0.1), 150, 0
    for r in range(runs):
        best = bl.estimate(bl.simulate(bandit, policy, 1000, 3, r)).best()
        hits += best.low <= arm[family].mean <= best.high
    assert stats.binom.cdf(hits, runs, 0.945) > 1e-4


def test_a_thousand_arms():
    est = bl.estimate(log_of(np.linspace(0, 1, 1000), rows=30_000), "dipw")
    best = est.best()
    assert best.low < best.estimate < best.high
    assert len(best.contenders) > 10
    assert str(best).count("\n") < 40


@pytest.mark.parametrize("arms", [2, 3, 5])
def test_arms_that_share_an_outcome_model_have_a_winner(arms):
    rng = np.random.default_rng(arms)
    arm, x = rng.integers(arms, size=300), rng.normal(size=300)
    outcome = x + rng.normal(scale=0.5, size=300) + 0.5 * arm
    log = bl.Log(arm, outcome, np.full((300, arms), 1 / arms))
    est = bl.estimate(log, outcome_model=np.repeat(x[:, np.newaxis], arms, axis=1))
    best = est.best()
    assert best.arm == arms - 1
    # a rival is ruled out exactly as its contrast with the best arm says, adjusted for the number of rivals
    others = [est.contrast(best.arm, k).p_value for k in range(arms - 1)]
    assert (1 - 1e-6) * max(others) <= best.p_value <= (1 + 1e-6) * (arms - 1) * max(others)
