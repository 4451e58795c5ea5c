"""Checks of segments and covariates, against slow twins, on healthy logs and on logs that are not."""

from __future__ import annotations

import numpy as np
import pytest
from contextual_policies import contextual
from naive.diagnosis import naive_covariate_arrival, naive_covariate_choice

import belated as bl
from belated.summaries.signs import arrival_by_covariates, choice_by_covariates


def some_covariates(rng, segment, code):
    n = len(segment)
    missing = np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))
    return {"covariates": {"x": rng.normal(size=n) + segment, "visits": rng.lognormal(0, 1.5, n), "seen": missing}}


def replaced(log, **columns):
    names = np.array(log.segment_column.labels)[log.segment_column.code]
    new = {
        "arm": np.array(log.arms)[log.code], "outcome": log.outcome, "propensity": log.propensity, "arms": log.arms,
        "assigned_at": log.assigned_at, "arrived_at": log.arrived_at, "as_of": log.as_of, "segment": names,
    }  # fmt: skip
    return bl.Log(**{**new, **columns})


# ---------------------------------------------------------------- segments


def test_healthy_logs_have_no_red_and_the_checks_of_segments_are_green():
    amber = []
    for seed in range(12):
        log = contextual(1200, 2 + seed % 4, policy=("greedy", "thompson")[seed % 2], delay=10 * (seed % 3), seed=seed,
                         columns=some_covariates, never=0.5).log  # fmt: skip
        diagnosis = bl.diagnose(log)
        assert diagnosis.red == ()
        amber += diagnosis.amber
        assert diagnosis["segments"].light == "green"
    for name in ("covariates, arrival", "covariates, choice", "drift", "outcome and delay", "units"):
        assert amber.count(name) <= 1


def test_a_log_without_segments_and_covariates_is_not_asked_about_them():
    log = contextual(300, 2).log
    names = [check.name for check in bl.diagnose(replaced(log, segment=None))]
    assert not {"segments", "covariates, arrival", "covariates, choice"} & set(names)


def test_an_arm_without_outcomes_in_a_segment_is_red():
    log = contextual(800, 2, delay=0).log
    lost = (log.segment_column.code == 1) & (log.code == 0)
    everywhere = replaced(log, outcome=np.where(lost, np.nan, log.outcome), arrived_at=None)
    # two segments with few outcomes are merged, so the arm is lost in both to be lost in "other"
    assert everywhere.segments == ("other",)
    one = bl.Log(log.code, np.where(log.code == 0, np.nan, log.outcome), log.propensity, segment=["DE"] * 800)
    check = bl.diagnose(one)["segments"]
    assert check.light == "red"
    assert "no outcome for arm 0 in segment 'DE'" in check.finding
    assert "leave the arm or the segment out" in check.advice
    assert check.numbers["fewest_outcomes"][0] == 0


def test_merged_and_missing_segments_are_named():
    log = contextual(600, 2, delay=0).log
    names = np.array(log.segment_column.labels, object)[log.segment_column.code]
    names[:100] = None
    names[100:104] = ["DE", "FR", "IT", "ES"]
    check = bl.diagnose(replaced(log, segment=names, arrived_at=None))["segments"]
    assert "Merged into 'other'" in check.finding
    assert "'DE', 'ES', 'FR', 'IT'" in check.finding
    assert "100 rows have no segment and are in the segment '(missing)'." in check.finding


def test_segments_that_differ_are_no_drift_and_no_dependence():
    """The mix of segments within an arm changes as the policy learns, and segments have delays of their own."""

    def late_where_high(rng, segment, code):
        return {"delay": rng.geometric(np.where(segment == 1, 0.02, 0.3)), "as_of": None}

    log = contextual(4000, means=[[0.0, 0.5], [4.0, 3.0]], never=0.0, columns=late_where_high, seed=3).log
    with_segments, without = bl.diagnose(log), bl.diagnose(replaced(log, segment=None))
    for name in ("drift", "outcome and delay"):
        assert with_segments[name].light == "green"
    assert without["outcome and delay"].light == "red"
    assert log.doubts() == []
    assert replaced(log, segment=None).doubts() != []


# ---------------------------------------------------------------- covariates


def test_p_values_agree_with_a_slow_twin():
    log = contextual(500, 3, 3, columns=some_covariates, never=0.6, seed=4).log
    covariates = log.evidence().covariates
    np.testing.assert_allclose(arrival_by_covariates(covariates), naive_covariate_arrival(log), rtol=1e-8)
    np.testing.assert_allclose(choice_by_covariates(covariates), naive_covariate_choice(log), rtol=1e-8)


def test_covariates_of_rows_after_the_as_of_time_do_not_count():
    rng, first = np.random.default_rng(1), slice(150)
    arm, y, p = rng.integers(0, 2, 300), rng.normal(size=300), np.full((300, 2), 0.5)
    x = {
        "growing": np.arange(300.0) ** 2,
        "gaps": np.where(np.arange(300) % 3, np.arange(300.0), np.nan),
        "later": np.repeat([2.0, 5.0], 150),
    }
    known = bl.Log(arm[first], y[first], p[first], covariates={name: each[first] for name, each in x.items()})
    one, other = (
        bl.diagnose(log)["covariates, choice"].numbers["p_value_by_covariate"]
        for log in (bl.Log(arm, y, p, covariates=x, as_of=150), known)
    )
    assert one == pytest.approx(other)


@pytest.mark.parametrize("strength", [0.0, 0.6])
def test_a_covariate_that_predicts_arrival_is_pointed_out(strength):
    log = contextual(3000, 2, never=0.0, delay=0, seed=2).log
    rng = np.random.default_rng(3)
    x = rng.normal(size=3000)
    lost = (log.code == 1) & (rng.random(3000) < 1 / (1 + np.exp(1 - strength * x)))
    outcome = np.where(lost, np.nan, log.outcome)
    check = bl.diagnose(replaced(log, outcome=outcome, arrived_at=None, covariates={"age": x}))["covariates, arrival"]
    assert check.light == ("red" if strength else "green")
    if strength:
        assert "The covariate 'age' predicts whether outcomes of arm 'B' arrive" in check.finding
        assert "known at assignment" in check.advice
        assert "arrival_probability" in check.advice
        assert list(check.numbers["p_value_by_covariate"]) == ["age"]


def test_a_covariate_that_predicts_the_choice_is_pointed_out():
    log = contextual(2000, 2, delay=0, seed=2).log
    rng = np.random.default_rng(3)
    after = {"clicks": rng.poisson(1 + 0.5 * log.code)}  # measured after the assignment
    check = bl.diagnose(replaced(log, arrived_at=None, covariates=after))["covariates, choice"]
    assert check.light == "red"
    assert "The covariate 'clicks' predicts that arm" in check.finding
    chosen = log.propensity[np.arange(2000), log.code]
    chosen_only = replaced(log, arrived_at=None, covariates=after, propensity=chosen)
    assert bl.diagnose(chosen_only)["covariates, choice"].light == "grey"
