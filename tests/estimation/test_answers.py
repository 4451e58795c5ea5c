from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

import belated as bl


def log_of(rows=400, seed=0, **changes):
    rng = np.random.default_rng(seed)
    propensity = rng.dirichlet([4, 3, 2], rows)
    arm = (propensity.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    delay = rng.geometric(0.1, rows) - 1.0
    outcome = rng.normal(arm / 4)
    delay[rng.random(rows) < 0.2] = np.nan
    outcome[np.isnan(delay)] = np.nan
    columns = {"arm": np.array(["A", "B", "C"])[arm], "outcome": outcome, "propensity": propensity, "delay": delay}
    return bl.Log(**{**columns, **changes})


def binary_log():
    log = log_of()
    return log_of(outcome=np.where(np.isnan(log.outcome), np.nan, log.outcome > 0))


def skewed_log(sign=1.0):
    return log_of(outcome=sign * np.exp(1.2 * log_of().outcome))


@pytest.mark.parametrize("interval", ["normal", "t"])
def test_contrasts_policies_and_combinations_are_linear(interval):
    est = bl.estimate(log_of(), interval=interval)
    q, v = est.values, est.std_errors**2
    contrast, policy = est.contrast("B", "A"), est.policy({"A": 0.2, "C": 0.8})
    linear = est.linear({"A": -1, "B": 0.5, "C": 0.5})
    assert contrast.estimate == pytest.approx(q[1] - q[0])
    assert contrast.std_error**2 == pytest.approx(v[1] + v[0])
    assert policy.estimate == pytest.approx(0.2 * q[0] + 0.8 * q[2])
    assert policy.std_error**2 == pytest.approx(0.04 * v[0] + 0.64 * v[2])
    assert linear.estimate == pytest.approx(-q[0] + 0.5 * q[1] + 0.5 * q[2])


def test_normal_interval_is_the_papers():
    est = bl.estimate(log_of(), interval="normal", level=0.9)
    answer = est.arm("B")
    reach = stats.norm.ppf(0.95) * math.sqrt(est.variances[1])
    assert (answer.low, answer.high) == pytest.approx((answer.estimate - reach, answer.estimate + reach))
    assert answer.p_value == pytest.approx(2 * stats.norm.sf(abs(answer.estimate) / answer.std_error))


def test_t_interval_uses_welch():
    est = bl.estimate(log_of(60))
    assert est.interval == "t"
    v, df = est.std_errors[:2] ** 2, est.effective_size[:2] - 1
    welch = v.sum() ** 2 / (v**2 / df).sum()
    answer = est.contrast("B", "A")
    assert answer.high - answer.estimate == pytest.approx(stats.t.ppf(0.975, welch) * answer.std_error)
    assert answer.test(0.1).p_value == pytest.approx(
        2 * stats.t.sf(abs(answer.estimate - 0.1) / answer.std_error, welch)
    )


@pytest.mark.parametrize("make", [log_of, binary_log, skewed_log], ids=["t", "wilson", "skew"])
@pytest.mark.parametrize("question", [{"A": 1}, {"B": 1, "A": -1}, {"A": 0.3, "B": 0.3, "C": 0.4}, {"A": -2, "C": 0.5}])
def test_tests_and_intervals_are_inversions_of_each_other(make, question):
    answer = bl.estimate(make(), level=0.9).linear(question)
    for null in (answer.low, answer.high):
        assert answer.test(null).p_value == pytest.approx(0.1, rel=1e-6)
    greater, less = (answer.test(0, side) for side in ("greater", "less"))
    assert greater.high == math.inf
    assert less.low == -math.inf
    assert greater.test(greater.low, "greater").p_value == pytest.approx(0.1, rel=1e-6)
    assert less.test(less.high, "less").p_value == pytest.approx(0.1, rel=1e-6)
    assert greater.p_value + less.p_value == pytest.approx(1)
    assert answer.test(0).p_value == pytest.approx(2 * min(greater.p_value, less.p_value))
    assert answer.at_level(0.99).low < answer.low < answer.estimate < answer.high < answer.at_level(0.99).high


def test_auto_says_which_interval_it_used():
    assert bl.estimate(log_of()).interval == "t"
    est = bl.estimate(binary_log())
    assert est.interval == "wilson" == est.arm("A").interval
    assert "wilson" in str(est)
    assert bl.estimate(binary_log(), "nh").interval == "t"
    assert bl.estimate(skewed_log()).interval == bl.estimate(skewed_log(-1)).interval == "skew"
    assert bl.estimate(skewed_log(), "nh").interval == "t"
    assert bl.compare(skewed_log(), interval="skew")["nh"].interval == "t"
    with pytest.raises(bl.OptionError, match="needs outcomes that are 0 or 1"):
        bl.estimate(log_of(), interval="wilson")
    with pytest.raises(bl.OptionError, match="normalised by 'hajek'"):
        bl.estimate(binary_log(), "nh", interval="wilson")
    with pytest.raises(bl.OptionError, match="'skew', which needs an estimator normalised by 'hajek'"):
        bl.estimate(skewed_log(), "nh", interval="skew")


def test_skew_reaches_further_on_the_side_of_the_long_tail():
    for question in ({"A": 1}, {"B": 1, "A": -1}, {"A": 0.3, "C": 0.7}):
        t, skew, mirrored = (
            bl.estimate(log, "dipw", interval=kind).linear(question)
            for log, kind in ((skewed_log(), "t"), (skewed_log(), "skew"), (skewed_log(-1), "skew"))
        )
        assert (mirrored.low, mirrored.high) == pytest.approx((-skew.high, -skew.low))
        assert skew.std_error == pytest.approx(t.std_error)
        if "B" not in question:  # one long tail, up
            assert skew.low == pytest.approx(t.low, rel=0.01)
            assert t.high < skew.high
            assert skew.high - skew.estimate < 2 * (skew.estimate - skew.low)


def test_wilson_stays_within_possible_rates():
    with pytest.warns(bl.BelatedWarning, match="equal"):
        est = bl.estimate(bl.Log(["A", "B"] * 20, [1.0, 0.0] * 20, [[0.5, 0.5]] * 40), "dipw")
    a, b = est.arm("A"), est.arm("B")
    assert (a.high, b.low) == (1.0, 0.0)
    assert 0.5 < a.low < 1
    assert est.contrast("A", "B").high <= 1
    assert est.contrast("A", "B").test(0).p_value < 1e-5


def test_simultaneous_contrasts_are_wider_than_single_and_narrower_than_bonferroni():
    est = bl.estimate(log_of())
    single, joint = est.contrasts("A"), est.contrasts("A", simultaneous=True)
    bonferroni = bl.estimate(log_of(), level=1 - 0.05 / 2).contrasts("A")
    assert [a.name for a in joint.answers] == ["B - A", "C - A"]
    for one, all_, bound in zip(single.answers, joint.answers, bonferroni.answers, strict=True):
        assert one.high < all_.high < bound.high
        assert one.p_value <= all_.p_value <= 2 * one.p_value
        assert (all_.p_value < 0.05) == (all_.low > 0 or all_.high < 0)
    assert len(est.contrasts()) == 3
    with pytest.raises(bl.OptionError, match="several questions at once"):
        joint[0].test(1)


def test_simultaneous_intervals_cover_together():
    rng = np.random.default_rng(5)
    replications, hits = 1000, 0
    for _ in range(replications):
        arm = rng.integers(0, 4, 400)
        est = bl.estimate(bl.Log(arm, rng.normal(size=400), np.full((400, 4), 0.25)), "dipw")
        hits += all(answer.low <= 0 <= answer.high for answer in est.contrasts(0, simultaneous=True).answers)
    assert 1e-4 < stats.binom.cdf(hits, replications, 0.95) < 1 - 1e-4


def test_an_arm_without_arrivals_is_nan_and_the_others_are_right():
    columns = {"arm": ["A", "B"] * 10, "propensity": [[0.4, 0.4, 0.2]] * 20, "arms": ["A", "B", "C"]}
    with pytest.warns(bl.BelatedWarning, match="No outcome of arm 'C' has arrived: no answer, NaN"):
        est = bl.estimate(bl.Log(outcome=np.arange(20.0), **columns))
    assert math.isnan(est.arm("C").estimate)
    assert math.isnan(est.contrast("C", "A").p_value)
    assert est.contrast("B", "A").estimate == pytest.approx(est.values[1] - est.values[0])
    assert math.isfinite(est.contrast("B", "A").p_value)
    assert math.isnan(est.contrasts("A", simultaneous=True)[1].low)
    assert math.isfinite(est.contrasts("A", simultaneous=True)[0].low)


def test_one_arrival_has_no_interval():
    with pytest.warns(bl.BelatedWarning, match="Only one outcome of arm 'B'"):
        est = bl.estimate(bl.Log(["A", "B", "A"], [1.5, 2.5, 0.5], [[0.5, 0.5]] * 3), "dipw")
    answer = est.arm("B")
    assert answer.estimate == 2.5
    assert all(math.isnan(x) for x in (answer.low, answer.high, answer.p_value))
    assert math.isfinite(est.arm("A").low)


def test_weights_that_are_all_zero_give_no_answer():
    log = bl.Log(["A", "B"] * 10, np.arange(20.0), [[0.5, 0.5]] * 20)
    with pytest.warns(bl.BelatedWarning, match="Every weight of arm 'B' is 0"):
        est = bl.estimate(log, weights=np.tile([1.0, 0.0], (20, 1)))
    assert np.isnan(est.values).tolist() == [False, True]


def test_equal_outcomes_have_no_variance_and_say_so():
    log = bl.Log(["A", "B"] * 10, [5.0, 3.0] * 10, [[0.5, 0.5]] * 20)
    with pytest.warns(bl.BelatedWarning, match=r"arms 'A', 'B' are equal: they show no variance"):
        answer = bl.estimate(log, "dipw").contrast("A", "B")
    assert (answer.estimate, answer.std_error, answer.low, answer.high, answer.p_value) == (2, 0, 2, 2, 0)
    assert answer.test(2).p_value == 1
    assert answer.test(3, "less").p_value == 0


def test_a_mean_of_1e8_loses_no_digits():
    rng = np.random.default_rng(3)
    y = np.round(rng.normal(size=3000) * 2**20) / 2**20  # so that adding 1e8 is exact
    arm, pi = rng.integers(0, 2, 3000), rng.uniform(0.2, 0.8, 3000)
    near, far = (bl.estimate(bl.Log(arm, y + c, np.where(arm, pi, 1 - pi)), "dipw") for c in (0, 1e8))
    np.testing.assert_allclose(far.variances, near.variances, rtol=1e-9)
    np.testing.assert_allclose(far.std_errors, near.std_errors, rtol=1e-9)
    np.testing.assert_allclose(far.values - 1e8, near.values, atol=2e-8)


def test_a_model_that_starts_far_from_the_outcomes_is_noted():
    near, far = bl.estimate(log_of()), bl.estimate(log_of(outcome=log_of().outcome + 1000))
    assert "Note" not in str(near)
    assert "subtract a typical outcome beforehand, or use 'dipw'" in str(far)
    assert "Note" in far.to_markdown()
    assert "<tfoot>" in far.to_html()
    assert "Note" not in str(bl.estimate(log_of(outcome=log_of().outcome + 1000), "dipw"))


def test_one_row_that_outweighs_all_leaves_a_sane_interval():
    rng = np.random.default_rng(0)
    for tiny in (1e-12, 1e-20):
        pi = np.full((40, 2), 0.5)
        pi[7] = [tiny, 1 - tiny]
        log = bl.Log(np.arange(7, 47) % 2, rng.normal(size=40), pi[:, ::-1])
        for name in ("daipw", "dipw", "hajek"):
            assert (bl.estimate(log, name).std_errors < 20).all()


def test_simultaneous_contrasts_of_constant_outcomes():
    log = bl.Log(["A", "B", "C"] * 5, [1.0, 2.0, 3.0] * 5, np.full((15, 3), 1 / 3))
    with pytest.warns(bl.BelatedWarning, match="equal"):
        joint = bl.estimate(log, "dipw").contrasts("A", simultaneous=True)
    assert [(a.low, a.high, a.p_value) for a in joint.answers] == [(1.0, 1.0, 0.0), (2.0, 2.0, 0.0)]


def test_a_long_trajectory_of_many_arms():
    log = bl.Log(np.arange(80) % 1000, np.arange(80.0), np.full((80, 1000), 1e-3))
    assert len(bl.trajectory(log, at=80)) == 80


def test_answers_and_comparisons_can_be_walked_through():
    comparison = bl.compare(log_of())
    assert list(comparison) == list(bl.ESTIMATORS)
    answers = comparison.linear({"A": 1.0, "B": 1.0})
    assert len(answers) == len(list(answers)) == len(bl.ESTIMATORS)
    with pytest.raises(bl.OptionError, match="no answer for 'x'"):
        answers["x"]


def test_tiny_propensities_give_finite_answers():
    pi = np.full((200, 2), 0.5)
    pi[::50] = [1e-12, 1 - 1e-12]
    log = bl.Log([0, 1] * 100, np.sin(np.arange(200)), pi)
    for name in bl.ESTIMATORS:
        answer = bl.estimate(log, name).contrast(0, 1)
        assert all(map(math.isfinite, (answer.estimate, answer.std_error, answer.low, answer.high)))


@pytest.mark.parametrize("arms", [1, 1000])
def test_any_number_of_arms(arms):
    rng = np.random.default_rng(2)
    log = bl.Log(np.arange(3 * arms) % arms, rng.normal(size=3 * arms), np.full((3 * arms, arms), 1 / arms))
    est = bl.estimate(log)
    assert np.isfinite(est.std_errors).all()
    assert len(est.to_dict()["arm"]) == arms


def test_long_logs_equal_short_ones_added_up():
    rng = np.random.default_rng(4)
    n = 1_100_000  # summed in stretches
    arm, y = rng.integers(0, 2, n), rng.normal(size=n)
    pi = np.where(rng.random(n) < 0.5, 0.3, 0.7)
    late = np.where(rng.random(n) < 0.1, np.nan, np.floor(rng.pareto(0.7, n)))
    y[np.isnan(late)] = np.nan
    step = np.arange(1, n + 1)
    whole = bl.Log(arm, y, np.column_stack([1 - pi, pi]), assigned_at=step, arrived_at=step + late)
    halves = [
        bl.Log(arm[s], y[s], np.column_stack([1 - pi, pi])[s], assigned_at=step[s], arrived_at=(step + late)[s])
        for s in (slice(n // 2), slice(n // 2, None))
    ]
    parts = [bl.Sums.of(halves[0]), bl.Sums.of(halves[1], history=halves[:1])]
    a, b = bl.estimate(whole), bl.estimate(parts[0] + parts[1])
    np.testing.assert_allclose(a.values, b.values, atol=1e-13)
    np.testing.assert_allclose(a.variances, b.variances, rtol=1e-12)
    np.testing.assert_allclose(a.std_errors, b.std_errors, rtol=1e-12)


def test_merged_parts_keep_the_largest_weight():
    rng = np.random.default_rng(6)
    pi = np.repeat([0.5, 0.02], 20)
    # the rare rows vary more, so that the leverage-corrected variance is the larger one
    log = [bl.Log(np.zeros(20, int), rng.normal(size=20) / p[0], p, arms=[0]) for p in (pi[:20], pi[20:])]
    whole = bl.Log(np.zeros(40, int), np.concatenate([part.outcome for part in log]), pi, arms=[0])
    parts = [bl.Sums.of(part, "sqrt", "zero") for part in log]
    for merged in (parts[0] + parts[1], parts[1] + parts[0]):
        assert bl.estimate(merged, "dipw").std_errors == pytest.approx(bl.estimate(whole, "dipw").std_errors, rel=1e-12)


def test_a_million_equal_weights_add_up_exactly():
    n = 1_000_000
    log = bl.Log(np.tile([0, 0, 1, 1], n // 4), np.tile([0.0, 3.0], n // 2), np.full((n, 2), [0.1, 0.9]))
    np.testing.assert_allclose(bl.Sums.of(log, "sqrt", "zero")["h"], n * np.sqrt([0.1, 0.9]), rtol=1e-13)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda log: bl.estimate(log, "daip"), "Did you mean 'daipw'"),
        (lambda log: bl.estimate(log, level=95), "strictly between 0 and 1"),
        (lambda log: bl.estimate(log, interval="bayes"), "must be one of 'auto'"),
        (lambda log: bl.estimate(log, weights="root"), "`weights` is 'root'"),
        (lambda log: bl.estimate(log, weights=np.ones(3)), "it must be (rows, arms)"),
        (lambda log: bl.estimate(log, weights=-np.ones((400, 3))), "not negative"),
        (lambda log: bl.estimate(log, outcome_model=np.full((400, 3), np.nan)), "row 0"),
        (lambda log: bl.estimate(log, normalisation="none"), "`normalisation` is 'none'"),
        (lambda log: bl.estimate(log, weights=bl.two_point(10)), "at least as large"),
        (lambda log: bl.estimate("log.csv"), "must be a Log, what `read` gives, Sums or Ledger"),
        (lambda log: bl.estimate(bl.Sums.of(log), "dipw"), "These sums were made with"),
        (lambda log: bl.estimate(log).arm("Z"), "the arms are 'A', 'B', 'C'"),
        (lambda log: bl.estimate(log).arm(["A"]), "the arms are 'A', 'B', 'C'"),
        (lambda log: bl.estimate(log).policy([0.5, 0.5]), "must map arms to numbers"),
        (lambda log: bl.estimate(log).linear(None), "must map arms to numbers"),
        (lambda log: bl.compare(bl.Sums.of(log)), "it must be a Log"),
        (lambda log: bl.compare(log, interval="wilson"), "needs outcomes that are 0 or 1"),
        (lambda log: bl.trajectory("x"), "it must be a Log"),
        (lambda log: bl.Sums.of(np.ones(3)), "it must be a Log"),
        (lambda log: bl.estimate(log, weights=bl.Weights("given")), "comes with 'given'"),
        (lambda log: bl.Weights("foo"), "`weights` is 'foo'"),
        (lambda log: bl.OutcomeModel("zero", np.ones(3)), "comes with 'given'"),
        (lambda log: bl.estimate(log, weights=[["a", "b", "c"]] * 400), "must be a number"),
        (lambda log: bl.Sums.of(log) + bl.Sums.of(log, "uniform"), "their weights differ, 'sqrt' and 'uniform'"),
        (lambda log: bl.estimate(log).contrast("A", "A"), "two different arms"),
        (lambda log: bl.estimate(log).policy({"A": 0.5}), "must sum to 1"),
        (lambda log: bl.estimate(log).policy({"A": 1.5, "B": -0.5}), "must not be negative"),
        (lambda log: bl.estimate(log).linear({"A": math.nan}), "finite number"),
        (lambda log: bl.estimate(log).linear({"A": 0}), "all 0"),
        (lambda log: bl.estimate(log).arm("A").test("x"), "`null` is 'x'"),
        (lambda log: bl.estimate(log).arm("A", alternative="bigger"), "'two-sided'"),
        (lambda log: bl.trajectory(log, at=0), "1 or more"),
        (lambda log: bl.trajectory(log, at=[]), "names no moment"),
        (lambda log: bl.trajectory(log.at(10), at=[11]), "after the log's `as_of`"),
        (lambda log: bl.compare(log)["daip"], "Did you mean 'daipw'"),
        (lambda log: bl.two_point(10, 1.0), "[0, 1)"),
        (lambda log: bl.Sums.of(log)["w2yy"], "Did you mean 'w2y"),
    ],
)
def test_a_bad_question_gets_one_sentence(ask, sentence):
    with pytest.raises(bl.BelatedError) as caught:
        ask(log_of())
    assert sentence in str(caught.value)


def test_chosen_propensities_answer_what_they_can():
    full = log_of()
    chosen = full.propensity[np.arange(400), full.code]
    log = log_of(propensity=chosen)
    for name in ("dipw", "mean", "hajek"):
        np.testing.assert_allclose(bl.estimate(log, name).values, bl.estimate(full, name).values, rtol=1e-12)
    for name in ("daipw", "nh", "nh0", "iad"):
        with pytest.raises(bl.PropensitiesNeededError, match=f"'{name}' needs every arm's propensity"):
            bl.estimate(log, name)
    with pytest.raises(bl.PropensitiesNeededError, match="observed share"):
        _ = bl.estimate(log, "dipw").observed_share
    with pytest.raises(bl.PropensitiesNeededError, match="Two-point"):
        bl.estimate(log, "dipw", weights="two_point")
    comparison = bl.compare(log)
    assert list(comparison.estimates) == ["dipw", "mean", "hajek"]
    assert "daipw, nh, nh0, iad need every arm's propensity" in str(comparison)


def test_compare_puts_every_estimator_side_by_side():
    log = log_of()
    comparison = bl.compare(log)
    assert list(comparison.estimates) == list(bl.ESTIMATORS)
    for name in bl.ESTIMATORS:
        assert comparison[name].values == pytest.approx(bl.estimate(log, name).values)
    assert list(comparison.contrast("B", "A").answers) == list(bl.ESTIMATORS)
    assert comparison.policy({"A": 1.0})["daipw"].estimate == pytest.approx(comparison.arm("A")["daipw"].estimate)


def test_two_point_without_decay_is_sqrt():
    log = log_of()
    a, b = bl.estimate(log, weights=bl.two_point(1000, 0.0)), bl.estimate(log)
    assert a.values == pytest.approx(b.values)
    assert a.std_errors == pytest.approx(b.std_errors)


def test_trajectory_ends_where_the_log_does():
    log = log_of()
    path = bl.trajectory(log, at=7)
    assert len(path) == 7
    assert path[-1].values == pytest.approx(bl.estimate(log).values)
    contrast = path.contrast("B", "A")
    assert list(contrast.answers) == list(path.moments)
    assert path.policy({"A": 1.0})[path.moments[3]].estimate == pytest.approx(path[3].values[0])
    assert path.linear({"B": 2.0})[path.moments[3]].estimate == pytest.approx(2 * path[3].values[1])
    assert path.arm("A")[path.moments[-1]].low == pytest.approx(bl.estimate(log).arm("A").low)


def test_a_small_answer_needs_no_compiler():
    code = (
        "import sys, numpy as np, belated as bl\n"
        "bl.estimate(bl.Log([0, 1] * 500, np.arange(1000.0), np.full((1000, 2), 0.5))).contrast(1, 0)\n"
        "assert not {'numba', 'pandas', 'narwhals', 'scipy.stats'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
