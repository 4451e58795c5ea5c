from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from experiments import (
    log_of,
)

import belated as bl
from belated.estimation.intervals import INTERVALS


def test_a_mean_of_1e8_loses_no_digits():
    rng = np.random.default_rng(3)
    y = np.round(rng.normal(size=3000) * 2**20) / 2**20  # so that adding 1e8 is exact
    arm, pi = rng.integers(0, 2, 3000), rng.uniform(0.2, 0.8, 3000)
    near, far = (bl.estimate(bl.Log(arm, y + c, np.where(arm, pi, 1 - pi)), "dipw") for c in (0, 1e8))
    np.testing.assert_allclose(far.variances, near.variances, rtol=1e-9)
    np.testing.assert_allclose(far.std_errors, near.std_errors, rtol=1e-9)
    np.testing.assert_allclose(far.values - 1e8, near.values, atol=2e-8)


def test_one_row_that_outweighs_all_leaves_a_sane_interval():
    rng = np.random.default_rng(0)
    for tiny in (1e-12, 1e-20):
        pi = np.full((40, 2), 0.5)
        pi[7] = [tiny, 1 - tiny]
        log = bl.Log(np.arange(7, 47) % 2, rng.normal(size=40), pi[:, ::-1])
        for name in ("daipw", "dipw", "hajek"):
            assert (bl.estimate(log, name).std_errors < 20).all()


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


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda log: bl.estimate(log, "daip"), "Did you mean 'daipw'"),
        (lambda log: bl.estimate(log, level=95), "strictly between 0 and 1"),
        (lambda log: bl.estimate(log, interval="bayes"), "must be one of 'auto'"),
        (lambda log: bl.estimate(log, weights="root"), "`weights` is 'root'"),
        (lambda log: bl.estimate(log, weights=np.ones(3)), "it must be (rows, arms)"),
        (lambda log: bl.estimate(log, weights=-np.ones((400, 3))), "must be finite, from 0 to 1e+60"),
        (lambda log: bl.estimate(log, outcome_model=np.full((400, 3), np.nan)), "row 0"),
        (lambda log: bl.estimate(log, normalisation="none"), "`normalisation` is 'none'"),
        (lambda log: bl.estimate(log, weights=bl.two_point(10)), "at least as large"),
        (lambda log: bl.estimate("log.csv"), "must be a Log, a table from `read`, Sums or a Ledger"),
        (lambda log: bl.estimate(bl.Sums.of(log), "dipw"), "These sums have weights"),
        (lambda log: bl.estimate(log).arm("Z"), "the arms are 'A', 'B', 'C'"),
        (lambda log: bl.estimate(log).arm(["A"]), "the arms are 'A', 'B', 'C'"),
        (lambda log: bl.estimate(log).policy([0.5, 0.5]), "must map arms to numbers"),
        (lambda log: bl.estimate(log).linear(None), "must map arms to numbers"),
        (lambda log: bl.compare(bl.Sums.of(log)), "it must be a Log"),
        (lambda log: bl.compare(log, interval="wilson"), "needs outcomes that are 0 or 1"),
        (lambda log: bl.trajectory("x"), "it must be a Log"),
        (lambda log: bl.Sums.of(np.ones(3)), "it must be a Log"),
        (lambda log: bl.estimate(log, weights=bl.Weights("given")), "'given' needs an array"),
        (lambda log: bl.Weights("foo"), "`weights` is 'foo'"),
        (lambda log: bl.OutcomeModel("zero", np.ones(3)), "'given' needs an array"),
        (lambda log: bl.estimate(log, weights=[["a", "b", "c"]] * 400), "must be a number"),
        (lambda log: bl.Sums.of(log) + bl.Sums.of(log, "uniform"), "their weights differ, 'sqrt' and 'uniform'"),
        (lambda log: bl.estimate(log).contrast("A", "A"), "two different arms"),
        (lambda log: bl.estimate(log).policy({"A": 0.5}), "must sum to 1"),
        (lambda log: bl.estimate(log).policy({"A": 1.5, "B": -0.5}), "must not be negative"),
        (lambda log: bl.estimate(log).linear({"A": math.nan}), "finite number"),
        (lambda log: bl.estimate(log).linear({"A": 0}), "must differ from 0"),
        (lambda log: bl.estimate(log).arm("A").test("x"), "`null` is 'x'"),
        (lambda log: bl.estimate(log).arm("A", alternative="bigger"), "'two-sided'"),
        (lambda log: bl.trajectory(log, at=0), "1 or more"),
        (lambda log: bl.trajectory(log, at=[]), "`at` is empty"),
        (lambda log: bl.trajectory(log.at(10), at=[11]), "after the `as_of` of the log"),
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
    with pytest.raises(bl.PropensitiesNeededError, match="'two_point' need"):
        bl.estimate(log, "dipw", weights="two_point")
    comparison = bl.compare(log)
    assert list(comparison.estimates) == ["dipw", "mean", "hajek"]
    assert "daipw, nh, nh0, iad need every arm's propensity" in str(comparison)


def test_two_point_without_decay_is_sqrt():
    log = log_of()
    a, b = bl.estimate(log, weights=bl.two_point(1000, 0.0)), bl.estimate(log)
    assert a.values == pytest.approx(b.values)
    assert a.std_errors == pytest.approx(b.std_errors)


def test_a_small_answer_needs_no_compiler():
    code = (
        "import sys, numpy as np, belated as bl\n"
        "bl.estimate(bl.Log([0, 1] * 500, np.arange(1000.0), np.full((1000, 2), 0.5))).contrast(1, 0)\n"
        "assert not {'numba', 'pandas', 'narwhals', 'scipy.stats'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("size", [1e150, 1e200, -1e308])
@pytest.mark.parametrize("interval", ["score", "t", "normal"])
def test_huge_coefficients_give_an_answer_without_a_warning(size, interval):
    log = bl.Log(["A", "B"] * 20, np.arange(40.0) % 3, np.full((40, 2), 0.5))
    result = bl.estimate(log, interval=interval)
    answer = result.linear({"A": size})
    assert answer.estimate == pytest.approx(size * result.arm("A").estimate)
    assert not answer.low > answer.estimate
    assert repr(answer) + repr(result.linear({"A": size, "B": -size})) + repr(result.linear({"A": 1e-200}))


def test_docstrings_list_every_estimator_and_every_kind_of_interval():
    assert [name for name in bl.ESTIMATORS if f'``"{name}"``' not in bl.estimate.__doc__] == []
    for function in (bl.estimate, bl.study):
        assert [kind for kind in INTERVALS if f'"{kind}"' not in function.__doc__] == []
