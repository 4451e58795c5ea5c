from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from experiments import (
    log_of,
)
from scipy import stats

import belated as bl


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
    with pytest.raises(bl.OptionError, match="simultaneous with others"):
        joint[0].test(1)


@pytest.mark.parametrize("more", [1.02, 0.98])
def test_a_limit_near_0_is_shown_on_its_side_of_0(more):
    contrast = bl.estimate(log_of()).contrast("B", "A")
    near = contrast.at_level(1 - more * contrast.p_value)
    assert (near.low > 0) == (more > 1)
    assert 0.001 < abs(near.low) < 0.005  # with two decimals this is 0
    assert f"  {near.low:.1g}  " in near.to_text()
    assert f"({near.low:.1g} to " in near.in_words


def test_an_interval_is_inverted_only_if_its_test_is_asked_for(monkeypatch):
    def refuse(self, null):
        raise AssertionError

    est = bl.estimate(log_of())
    expected = est.contrast("B", "A")
    with monkeypatch.context() as patch:
        patch.setattr("belated.estimation.intervals.Combination.test", refuse)
        answer = est.contrast("B", "A")
        assert (answer.low, answer.high) == (expected.low, expected.high)
        assert len(bl.trajectory(log_of(), at=3).contrast("B", "A")) == 3
        with pytest.raises(AssertionError):
            answer.p_value  # noqa: B018
    statistic, below, above = answer.combination.test(0.0)
    assert (answer.statistic, answer.p_value) == (statistic, 2 * min(below, above))
    assert (answer.test(0.0, "greater").p_value, answer.test(0.0, "less").p_value) == (above, below)


def test_simultaneous_intervals_cover_together():
    rng = np.random.default_rng(5)
    replications, hits = 250, 0
    for _ in range(replications):
        arm = rng.integers(0, 4, 400)
        est = bl.estimate(bl.Log(arm, rng.normal(size=400), np.full((400, 4), 0.25)), "dipw")
        hits += all(answer.low <= 0 <= answer.high for answer in est.contrasts(0, simultaneous=True).answers)
    assert 1e-4 < stats.binom.cdf(hits, replications, 0.95) < 1 - 1e-4


def test_simultaneous_contrasts_of_constant_outcomes():
    log = bl.Log(["A", "B", "C"] * 5, [1.0, 2.0, 3.0] * 5, np.full((15, 3), 1 / 3))
    with pytest.warns(bl.BelatedWarning, match="equal"):
        joint = bl.estimate(log, "dipw").contrasts("A", simultaneous=True)
    alone = [a.combination.limits(0.025) for a in joint.answers]
    assert [a.estimate for a in joint.answers] == [1.0, 2.0]
    assert all(a.low < low < a.estimate < high < a.high for a, (low, high) in zip(joint.answers, alone, strict=True))


def test_an_answer_as_json_has_its_name():
    log = bl.Log(["A", "B"] * 20, np.arange(40.0) % 7, np.full((40, 2), 0.5))
    for answer in (bl.estimate(log).contrast("B", "A"), bl.sequence(log).contrast("B", "A")):
        (row,) = json.loads(answer.to_json())["rows"]
        assert row["name"] == "B - A"
        assert row["estimate"] == pytest.approx(answer.estimate)


def test_answers_can_be_pickled_before_and_after_they_are_read():
    log = bl.Log(["A", "B"] * 20, np.arange(40.0) % 7, np.full((40, 2), 0.5))
    binary = bl.Log(["A", "B"] * 20, np.arange(40.0) % 7 < 3, np.full((40, 2), 0.5))
    for each, interval in ((log, "score"), (binary, "wilson")):
        estimate = bl.estimate(each, "hajek" if interval == "wilson" else "daipw", interval=interval)
        fresh = pickle.loads(pickle.dumps(estimate))  # noqa: S301
        words = str(estimate), str(estimate.contrast("B", "A"))
        for read in (fresh, pickle.loads(pickle.dumps(estimate)), copy.deepcopy(estimate)):  # noqa: S301
            assert (str(read), str(read.contrast("B", "A"))) == words


@pytest.mark.parametrize("interval", ["score", "t", "wilson", "normal"])
def test_a_one_sided_interval_below_50_percent_is_refused(interval):
    log = bl.Log(["A", "B"] * 40, [0, 1, 1, 0, 1] * 16, [[0.5, 0.5]] * 80)
    half = bl.estimate(log, interval=interval, level=0.5)
    answer = half.contrast("B", "A", alternative="greater")
    assert answer.low == pytest.approx(answer.estimate, abs=0.01)
    low = bl.estimate(log, interval=interval, level=0.2)
    assert low.contrast("B", "A").low < low.contrast("B", "A").high
    for ask in (low.contrast, low.lift):
        with pytest.raises(bl.OptionError, match=r"`level` is 0\.2; a one-sided interval needs .* at least 0\.5"):
            ask("B", "A", alternative="less")
    with pytest.raises(bl.OptionError, match="one-sided"):
        low.arm("A").test(0, "greater")
