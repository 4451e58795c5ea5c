"""Contrasts in every segment, whether they differ, and policies by segment."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from reports.samples import event_log
from scipy import stats
from segment_logs import LABELS, columns, contextual_experiments, log_with_segments

import belated as bl
from belated.estimation.by_segment import Mix, read_policy_by_segment


@pytest.fixture(scope="module")
def est():
    return bl.estimate(log_with_segments(360, arms=3))


def test_contrasts_by_segment_are_those_of_the_segments(est):
    answers = est.contrasts(0, by="segment").answers
    alone = [answer for segment in est.segments for answer in est.segment(segment).contrasts(0).answers]
    assert len(answers) == 6
    for answer, other in zip(answers, alone, strict=True):
        assert (answer.estimate, answer.low, answer.high) == (other.estimate, other.low, other.high)
        assert answer.name != other.name  # it says the segment


def test_simultaneous_intervals_are_wider_and_their_p_values_larger(est):
    for options in ({}, {"by": "segment"}):
        single = est.contrasts(0, **options).answers
        joint = est.contrasts(0, simultaneous=True, **options).answers
        for one, other in zip(single, joint, strict=True):
            assert other.low < one.low < one.high < other.high
            assert other.p_value >= one.p_value
            assert (other.p_value < 0.05) == (other.low > 0 or other.high < 0)
    in_one = est.segment("FR").contrasts(0, simultaneous=True).answers
    in_all = [a for a in est.contrasts(0, by="segment", simultaneous=True).answers if "FR" in a.name]
    for one, other in zip(in_one, in_all, strict=True):
        assert other.low < one.low
        assert one.high < other.high


def test_every_question_of_a_segment(est):
    one = est.segment("DE")
    assert one.lift(1, 0).estimate == pytest.approx(one.contrast(1, 0).estimate / abs(one.values[0]))
    assert one.best().arm == one.arms[int(np.argmax(one.values))]
    assert one.policy("greedy").estimate == pytest.approx(one.values.max(), rel=0.2)
    assert one.policy({0: 0.5, 1: 0.5, 2: 0}).estimate == pytest.approx((one.values[0] + one.values[1]) / 2)
    lifts = est.contrasts(0, by="segment", lift=True).answers
    assert lifts[0].lift.estimate == pytest.approx(one.lift(1, 0).estimate)


def test_greedy_by_segment_is_at_least_every_policy(est):
    greedy = est.policy("greedy")
    best = {segment: est.arms[int(np.argmax(est.segment(segment).values))] for segment in est.segments}
    assert greedy.estimate == pytest.approx(est.policy(best).estimate)
    assert greedy.estimate >= est.values.max()
    chosen = est.policy(best)
    assert greedy.high - greedy.low > chosen.high - chosen.low  # it allows for the choice
    with pytest.raises(bl.BelatedError, match="two-sided"):
        est.policy("greedy", alternative="greater")


@pytest.mark.parametrize("interval", ["normal", "t", "score"])
def test_greedy_by_segment_is_as_wide_as_the_least_certain_arm_says(interval):
    y = np.random.default_rng(1).normal(size=80)
    arm, segment = ["A", "B"] * 40, ["DE"] * 40 + ["FR"] * 40
    y[::2] += 1
    y[1] = -1e5  # B of DE: far from the best, but its error is a thousand times that of A
    log = bl.Log(arm, y, "uniform", segment=segment)
    reach = []
    for level in (0.8, 0.95, 0.99):
        est = bl.estimate(log, level=level, interval=interval)
        greedy, other = est.policy("greedy"), est.standardised(est.shares).std_errors[1]
        assert greedy.low < greedy.estimate < greedy.high
        reach.append((greedy.estimate - greedy.low) / other)
    assert 1.2 < reach[0] < reach[1] < reach[2] < 1e4


def test_a_policy_by_segment_averages_its_arms(est):
    policy = est.policy({"DE": 1, "FR": {0: 0.25, 2: 0.75}, "IT": 0})
    means = {s: est.segment(s).values for s in est.segments}
    value = (
        est.shares["DE"] * means["DE"][1]
        + est.shares["FR"] * (0.25 * means["FR"][0] + 0.75 * means["FR"][2])
        + est.shares["IT"] * means["IT"][0]
    )
    assert policy.estimate == pytest.approx(value, rel=1e-12)
    everywhere = est.policy(dict.fromkeys(est.segments, 1))
    assert everywhere.estimate == pytest.approx(est.values[1], rel=1e-12)
    assert everywhere.std_error == pytest.approx(est.std_errors[1], rel=1e-12)


def test_names_that_arms_and_segments_share():
    arm, outcome, propensity, segment, _ = columns()
    est = bl.estimate(bl.Log(arm, outcome, propensity, segment=segment))  # segments 0, 1, 2 and arms 0, 1
    assert est.policy({0: 1, 1: 0, 2: 1}).estimate == pytest.approx(
        sum(est.shares[s] * est.segment(s).values[a] for s, a in {0: 1, 1: 0, 2: 1}.items())
    )
    assert est.policy({0: 0.5, 1: 0.5}).estimate == pytest.approx(est.values.mean())


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"DE": 1, "FR": 0}, "nothing for segment 'IT'"),
        ({"DE": 1, "FR": 0, "IT": 9}, "9"),
        ({"DE": 1, "FR": 0, "XX": 1}, "There is no segment 'XX'"),
        ({"DE": 1, "FR": {0: 0.5}, "IT": 0}, "must sum to 1"),
        ({"DE": 1, "FR": None, "IT": 0}, "None"),
    ],
)
def test_policies_that_cannot_be(est, policy, words):
    with pytest.raises(bl.BelatedError, match=words):
        est.policy(policy)


def test_an_unknown_segment_is_named_with_those_that_exist(est):
    with pytest.raises(bl.BelatedError, match=r"There is no segment 'DEE'; the segments are .* Did you mean 'DE'\?"):
        est.segment("DEE")


def test_welch_test_on_given_numbers():
    """Two segments: Welch's F is the square of the t statistic of their difference."""
    est = bl.estimate(log_with_segments(240, segments=2), interval="t")
    answer = est.heterogeneity(1, 0)
    one, other = (est.segment(s).contrast(1, 0) for s in est.segments)
    square = (one.estimate - other.estimate) ** 2 / (one.std_error**2 + other.std_error**2)
    assert answer.statistic == pytest.approx(square)
    assert answer.degrees[0] == 1
    assert answer.p_value == pytest.approx(stats.f.sf(answer.statistic, *answer.degrees))


def test_heterogeneity_is_found_where_it_is_large():
    arm, outcome, propensity, segment, _ = columns(900)
    log = bl.Log(arm, outcome + 5 * arm * (segment == 1), propensity, segment=np.array(LABELS)[segment])
    answer = bl.estimate(log).heterogeneity(1, 0)
    assert answer.p_value < 1e-6
    assert "differs between segments" in answer.note
    assert [a.name for a in answer.contrasts.answers]
    assert "DE" in str(answer)
    assert [row["segment"] for row in json.loads(answer.to_json())["rows"]] == [
        a.segment for a in answer.contrasts.answers
    ]


@pytest.mark.filterwarnings("ignore::belated.BelatedWarning")
def test_heterogeneity_leaves_out_segments_without_an_interval():
    few = bl.Log([0, 1], [1.0, 2.0], [[0.5, 0.5]] * 2, segment=["XX", "XX"])
    est = bl.estimate(bl.Sums.of(log_with_segments()) + bl.Sums.of(few))
    assert est.segments == ("DE", "FR", "IT", "XX")
    answer = est.heterogeneity(1, 0)
    assert answer.left_out == ("XX",)
    assert answer.degrees[0] == 2
    assert math.isfinite(answer.p_value)
    assert "XX" in str(answer)


@pytest.mark.filterwarnings("ignore::belated.BelatedWarning")
def test_contrasts_without_an_interval_have_no_p_value():
    few = bl.Log([0, 1], [1.0, 2.0], [[0.5, 0.5]] * 2, segment=["XX", "XX"])
    est = bl.estimate(bl.Sums.of(log_with_segments()) + bl.Sums.of(few))
    for simultaneous in (False, True):
        *others, empty = est.contrasts(0, by="segment", simultaneous=simultaneous).answers
        assert math.isnan(empty.low)
        assert math.isnan(empty.p_value)
        assert all(0 < answer.p_value <= 1 for answer in others)


def test_the_p_value_of_heterogeneity_is_that_of_every_level():
    log = log_with_segments(90)
    tests = [bl.estimate(log, level=level).heterogeneity(1, 0) for level in (0.5, 0.95, 0.999)]
    assert len({test.p_value for test in tests}) == 1
    assert len({test.contrasts[0].low for test in tests}) == 3


def test_the_size_of_the_test_of_heterogeneity():
    runs = 100
    segment, arm, outcome, propensity = contextual_experiments(runs, 600, [[0.5, 0.7], [0.0, 0.2]], seed=4)
    rejected = sum(
        bl.estimate(bl.Log(arm[i], outcome[i], propensity[i], segment=segment[i]), "dipw", interval="t")
        .heterogeneity(1, 0)
        .p_value
        < 0.05
        for i in range(runs)
    )
    assert stats.binomtest(rejected, runs, 0.05, alternative="greater").pvalue > 0.01


def test_the_figure_of_heterogeneity_names_the_segments():
    rng = np.random.default_rng(1)
    segment = rng.choice(["DE", "FR"], 400)
    log = bl.Log(rng.choice(["A", "B"], 400), rng.normal(size=400), "uniform", segment=segment)
    (axes,) = bl.estimate(log).heterogeneity("B", "A").plot().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["B - A in DE", "B - A in FR"]


def test_the_mix_of_events_counts_closed_windows():
    log = event_log(segment=np.where(np.arange(len(event_log())) % 3, "DE", "FR"))
    est = bl.estimate(log)
    mix = Mix(est)
    assert [column.name for column in mix.columns] == ["segment", "share", "assigned", "closed"]
    assert [row["arrived"] for row in mix.rows] == est.maturity.closed.sum(axis=1).tolist()
    assert est.segment("DE").arrived.tolist() == est.maturity.closed[0].tolist()


@pytest.mark.parametrize(("segments", "text"), [((), "DE:B"), (("DE",), "A=0.2,B=0.8"), (("DE",), "greedy")])
def test_text_that_is_no_policy_by_segment(segments, text):
    assert read_policy_by_segment(("A", "B"), segments, text) is None


def test_a_policy_of_a_segment_that_is_not_there():
    with pytest.raises(bl.OptionError, match="There is no segment 'FR'"):
        read_policy_by_segment(("A", "B"), ("DE",), "FR:B")


@pytest.mark.filterwarnings("ignore::belated.base.errors.BelatedWarning")
def test_notes_on_one_segment_and_on_arms_without_an_outcome():
    arm, segment = ["A", "B"] * 10, list("wxyz" * 5)
    outcome = [None if k % 2 else float(k) for k in range(20)]
    est = bl.estimate(
        bl.Log(arm, outcome, "uniform", segment=segment, delay=[None if k % 2 else 1.0 for k in range(20)])
    )
    assert Mix(est)._title() == "1 segment, and its share of the population"
    assert not any("stand for them" in note for note in est._notes())  # there are no outcomes that could
