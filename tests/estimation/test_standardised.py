"""Estimates averaged over segments and adjusted for covariates, against a twin that loops over rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import segments as naive
from scipy import stats
from segment_logs import LABELS, columns, contextual_experiments, log_with_segments, named

import belated as bl

CONTRASTS = ([1, 0], [0, 1], [-1, 1], [0.3, 0.7])
GIVEN = {"DE": 0.5, "FR": 0.2, "IT": 0.3}


def log_of(arm, outcome, propensity, segment, x=None, labels=LABELS, **options):
    covariates = None if x is None or not x.shape[1] else named(x)
    return bl.Log(arm, outcome, propensity, segment=np.array(labels)[segment], covariates=covariates, **options)


@pytest.mark.parametrize("covariates", [0, 1, 2])
@pytest.mark.parametrize("c", CONTRASTS)
@pytest.mark.parametrize("population", ["own", "given", "one"])
def test_the_formulas_row_by_row(covariates, c, population):
    arm, outcome, propensity, segment, x = columns(150, covariates=covariates)
    est = bl.estimate(log_of(arm, outcome, propensity, segment, x), "dipw", interval="t")
    assert est.segments == LABELS[:3]
    est, shares = {
        "own": (est, None),
        "given": (est.standardised(GIVEN), list(GIVEN.values())),
        "one": (est.segment("FR"), [0, 1, 0]),
    }[population]
    value, variance = naive.standardised(
        arm, outcome, propensity, segment, [c] * 3, x=x if covariates else None, shares=shares
    )
    answer = est.linear(dict(enumerate(c)))
    assert answer.estimate == pytest.approx(value, rel=1e-12)
    assert answer.std_error == pytest.approx(math.sqrt(variance), rel=1e-10)


def test_arms_with_few_outcomes_share_slopes_and_their_error():
    arm, outcome, propensity, segment, x = columns(240, segments=2, covariates=4)
    for s in range(2):  # 9 outcomes in each of 2 cells, for 4 covariates
        outcome[np.flatnonzero((arm == 1) & (segment == s) & ~np.isnan(outcome))[9:]] = np.nan
    est = bl.estimate(log_of(arm, outcome, propensity, segment, x), "dipw", interval="t")
    assert len(est.segments) == 2
    for c in CONTRASTS:
        value, variance = naive.standardised(arm, outcome, propensity, segment, [c] * 2, x=x)
        answer = est.linear(dict(enumerate(c)))
        assert answer.estimate == pytest.approx(value, rel=1e-12)
        assert answer.std_error == pytest.approx(math.sqrt(variance), rel=1e-10)


def test_a_policy_by_segment_row_by_row():
    arm, outcome, propensity, segment, _ = columns(150)
    est = bl.estimate(log_of(arm, outcome, propensity, segment), "dipw", interval="t")
    policy = {"DE": 1, "FR": {0: 0.2, 1: 0.8}, "IT": 0}
    value, variance = naive.standardised(arm, outcome, propensity, segment, [[0, 1], [0.2, 0.8], [1, 0]])
    answer = est.policy(policy)
    assert answer.estimate == pytest.approx(value, rel=1e-12)
    assert answer.std_error == pytest.approx(math.sqrt(variance), rel=1e-10)


def test_daipw_adds_the_square_of_its_augmentation():
    log = log_with_segments()
    dipw, daipw = (bl.estimate(log, name, interval="t").segment("FR") for name in ("dipw", "daipw"))
    moved = daipw.values - dipw.values
    assert np.abs(moved).max() > 1e-3
    assert daipw.std_errors**2 == pytest.approx(dipw.std_errors**2 + moved**2, rel=1e-9)


@pytest.mark.parametrize("estimator", ["daipw", "dipw", "hajek", "nh", "iad"])
def test_one_segment_is_no_segment(estimator):
    arm, outcome, propensity, _, _ = columns()
    alone = bl.estimate(bl.Log(arm, outcome, propensity, segment=["DE"] * len(arm)), estimator)
    plain = bl.estimate(bl.Log(arm, outcome, propensity), estimator)
    assert alone.values == pytest.approx(plain.values, rel=1e-12)
    one, other = alone.contrast(1, 0), plain.contrast(1, 0)
    for name in ("std_error", "low", "high", "statistic", "p_value"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9), name


@pytest.mark.parametrize("covariates", [0, 2])
@pytest.mark.parametrize("estimator", ["daipw", "dipw"])
def test_a_segment_of_an_estimate_is_an_estimate_of_the_segment(covariates, estimator):
    log = log_with_segments(covariates=covariates)
    for segment in log.segments:
        one = bl.estimate(log, estimator).segment(segment)
        other = bl.estimate(log.in_segment(segment), estimator)
        assert other.assigned.tolist() == one.assigned.tolist()
        assert other.arrived.tolist() == one.arrived.tolist()
        if not covariates:  # slopes are fitted over all segments
            assert one.values == pytest.approx(other.values, rel=1e-10)
            assert one.std_errors == pytest.approx(other.std_errors, rel=1e-9)


def test_the_overall_estimate_averages_the_segments():
    est = bl.estimate(log_with_segments(covariates=1))
    by_segment = np.array([est.segment(segment).values for segment in est.segments])
    shares = np.array(list(est.shares.values()))
    assert shares.sum() == pytest.approx(1)
    assert est.values == pytest.approx(shares @ by_segment, rel=1e-12)
    assert est.standardised(GIVEN).values == pytest.approx(np.array(list(GIVEN.values())) @ by_segment, rel=1e-12)


def test_given_shares_are_known_so_that_the_interval_is_narrower():
    est = bl.estimate(log_with_segments())
    same = est.standardised(est.shares)
    assert same.values == pytest.approx(est.values)
    assert (same.std_errors < est.std_errors).all()


def test_a_covariate_that_explains_outcomes_narrows_intervals_and_a_useless_one_does_not():
    arm, outcome, propensity, segment, x = columns(3000, covariates=1)
    without, with_x = (bl.estimate(log_of(arm, outcome, propensity, segment, v)).contrast(1, 0) for v in (None, x))
    assert with_x.std_error == pytest.approx(without.std_error * math.sqrt(0.5), rel=0.05)
    useless = np.random.default_rng(5).normal(size=(3000, 1))
    noise = bl.estimate(log_of(arm, outcome, propensity, segment, useless)).contrast(1, 0)
    assert noise.std_error == pytest.approx(without.std_error, rel=0.02)


def test_covariates_that_say_the_same_change_nothing():
    arm, outcome, propensity, segment, x = columns(covariates=1)
    one = bl.estimate(log_of(arm, outcome, propensity, segment, x))
    copies = np.hstack([x, 3 * x - 7, segment[:, np.newaxis].astype(float)])  # a copy, and a constant of each segment
    other = bl.estimate(log_of(arm, outcome, propensity, segment, copies))
    assert other.values == pytest.approx(one.values, rel=1e-9)
    assert other.std_errors == pytest.approx(one.std_errors, rel=0.02)


@pytest.mark.parametrize("change", [lambda x: 1e300 * x, lambda x: 1e-300 * x, lambda x: 1e6 - x, lambda x: x * 5e-324])
def test_the_scale_of_a_covariate_does_not_matter(change):
    arm, outcome, propensity, segment, x = columns(covariates=1)
    x = np.round(x, 2) * (1 if change(1.0) > 1e-320 else 1e4)
    one = bl.estimate(log_of(arm, outcome, propensity, segment, x))
    other = bl.estimate(log_of(arm, outcome, propensity, segment, change(x)))
    assert other.values == pytest.approx(one.values, rel=1e-8)
    assert other.std_errors == pytest.approx(one.std_errors, rel=1e-8)


@pytest.mark.parametrize("many", [30, 60, 99])
def test_many_covariates_and_few_rows_do_not_make_intervals_narrow(many):
    arm, outcome, propensity, _, _ = columns(100, segments=1)
    x = np.random.default_rng(3).normal(size=(100, many))
    plain = bl.estimate(bl.Log(arm, outcome, propensity)).contrast(1, 0)
    est = bl.estimate(bl.Log(arm, outcome, propensity, covariates=named(x)))
    assert est.contrast(1, 0).std_error > 0.8 * plain.std_error
    assert ("Not adjusted for" in str(est)) == (many > 30)


@pytest.mark.parametrize("value", [0.0, 0.1, 114.8, 1000.0])
def test_an_arm_of_equal_outcomes_has_the_same_standard_error_whatever_their_value(value):
    y = np.random.default_rng(1).normal(0.4, 1.0, size=90)
    y[::2] = 0
    log = bl.Log(["A", "B"] * 45, y + value, "uniform", segment=["DE"] * 70 + ["FR"] * 20)
    with pytest.warns(bl.BelatedWarning, match="are equal"):
        est = bl.estimate(log)
    answer = est.arm("A").at_level(0.6827)
    assert est.std_errors[0] == pytest.approx((answer.high - answer.low) / 2, rel=0.02)
    assert est.alone.freedom[0] == est.alone.degrees[0].min()


def test_segments_whose_means_lie_far_apart_keep_their_digits():
    arm, outcome, propensity, segment, _ = columns(900)
    near = bl.estimate(log_of(arm, outcome, propensity, segment))
    far = bl.estimate(log_of(arm, outcome + np.array([0, 1e9, -1e9])[segment], propensity, segment))
    for one, other in ((near, far), (near.segment("FR"), far.segment("FR"))):
        a, b = one.contrast(1, 0), other.contrast(1, 0)
        assert b.estimate == pytest.approx(a.estimate, abs=1e-6)
        assert b.std_error == pytest.approx(a.std_error, rel=1e-5)


@st.composite
def changes(draw):
    return draw(st.floats(-1e4, 1e4)), draw(st.floats(1e-3, 1e3)), draw(st.permutations(range(3))), draw(st.booleans())


@settings(max_examples=8)
@given(changes(), st.sampled_from(["daipw", "dipw"]), st.sampled_from([0, 1]))
def test_shifts_scales_and_names_go_through(change, estimator, covariates):
    shift, scale, order, swap = change
    arm, outcome, propensity, segment, x = columns(120, covariates=covariates)
    est = bl.estimate(log_of(arm, outcome, propensity, segment, x), estimator)
    one, level = est.contrast(1, 0), est.arm(1)
    labels = [LABELS[i] for i in order]
    if swap:
        arm, propensity = 1 - arm, propensity[:, ::-1]
    changed = bl.estimate(log_of(arm, shift + scale * outcome, propensity, segment, x, labels), estimator)
    first, second = (0, 1) if swap else (1, 0)
    other = changed.contrast(first, second)
    slack = 1e-9 * (abs(shift) + scale)
    assert other.estimate == pytest.approx(scale * one.estimate, rel=1e-8, abs=slack)
    assert other.std_error == pytest.approx(scale * one.std_error, rel=1e-6, abs=slack)
    assert other.low == pytest.approx(scale * one.low, rel=1e-5, abs=1e-6 * scale + slack)
    assert changed.arm(first).estimate == pytest.approx(shift + scale * level.estimate, rel=1e-8, abs=slack)
    assert changed.arm(first).std_error == pytest.approx(scale * level.std_error, rel=1e-6, abs=slack)


@pytest.mark.parametrize("interval", ["score", "t", "normal"])
@pytest.mark.parametrize("covariates", [0, 1])
def test_an_interval_excludes_0_exactly_if_the_p_value_is_small(interval, covariates):
    log = log_with_segments(120, covariates=covariates)
    p_value = bl.estimate(log, interval=interval).contrast(1, 0).p_value
    assert 0 < p_value < 1
    for level, inside in ((1 - p_value * 1.001, False), (1 - p_value * 0.999, True)):
        answer = bl.estimate(log, interval=interval, level=level).contrast(1, 0)
        assert (answer.low > 0 or answer.high < 0) != inside


def test_rates_by_segment_have_wilson_intervals():
    arm, outcome, propensity, segment, _ = columns(600)
    outcome = np.where(np.isnan(outcome), np.nan, outcome > 1)
    est = bl.estimate(log_of(arm, outcome, propensity, segment), interval="wilson")
    assert est.unit == "percent"
    for answer in est.arm_answers:
        assert 0 <= answer.low < answer.estimate < answer.high <= 1


def test_merged_segments_have_even_weights():
    _, outcome, _, _, _ = columns(300, segments=1)
    rng = np.random.default_rng(8)
    p = rng.uniform(0.2, 0.8, 300)
    arm = (rng.random(300) < p).astype(int)
    est = bl.estimate(bl.Log(arm, outcome, np.c_[1 - p, p], segment=np.arange(300)), "dipw")
    assert est.segments == ("other",)
    assert "Merged into 'other'" in str(est)
    uniform = bl.estimate(bl.Log(arm, outcome, np.c_[1 - p, p]), "hajek")
    assert est.values == pytest.approx(uniform.values, rel=1e-12)


def test_an_arm_without_outcomes_in_some_segments_has_no_estimate():
    arm, outcome, propensity, segment, _ = columns(600, arms=3)
    outcome[np.flatnonzero(arm == 2)[3:]] = np.nan
    with pytest.warns(bl.BelatedWarning, match="In a segment no outcome of arm 2 has arrived"):
        est = bl.estimate(log_of(arm, outcome, propensity, segment))
    assert np.isnan(est.values).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"DE": 0.5, "FR": 0.4}, "must sum to 1"),
        ({"DE": 1.5, "FR": -0.5}, "must not be negative"),
        ({"XX": 1.0}, "There is no segment 'XX'"),
        ({"DE": math.nan}, "shares"),
        ([0.5, 0.5], "it must map segments to shares"),
    ],
)
def test_shares_that_cannot_be(shares, words):
    with pytest.raises(bl.BelatedError, match=words):
        bl.estimate(log_with_segments()).standardised(shares)


def test_questions_about_segments_need_segments():
    arm, outcome, propensity, _, x = columns(covariates=1)
    for log in (bl.Log(arm, outcome, propensity), bl.Log(arm, outcome, propensity, covariates=named(x))):
        est = bl.estimate(log)
        assert est.segments == ()
        assert est.shares == {}
        for ask in (
            lambda e=est: e.segment("DE"),
            lambda e=est: e.standardised({"DE": 1.0}),
            lambda e=est: e.heterogeneity(1, 0),
            lambda e=est: e.contrasts(0, by="segment"),
        ):
            with pytest.raises(bl.BelatedError, match="has no segments"):
                ask()


def test_coverage_where_the_policy_looks_at_the_segment():
    runs, means = 100, np.array([[0.5, 1.0], [0.5, -0.2]])
    segment, arm, outcome, propensity = contextual_experiments(runs, 1000, means)
    truth = np.array([0.6, 0.4]) @ means
    targets = {"overall": truth[1] - truth[0], "segment": means[1, 1] - means[1, 0], "arm": truth[1]}
    hits = dict.fromkeys(targets, 0)
    for run in range(runs):
        log = bl.Log(arm[run], outcome[run], propensity[run], segment=segment[run])
        est = bl.estimate(log)
        answers = {"overall": est.contrast(1, 0), "segment": est.segment(1).contrast(1, 0), "arm": est.arm(1)}
        for name, answer in answers.items():
            hits[name] += answer.low <= targets[name] <= answer.high
    for name, hit in hits.items():
        assert stats.binomtest(hit, runs, 0.95, alternative="less").pvalue > 0.01, (name, hit)
        assert stats.binomtest(hit, runs, 0.985, alternative="greater").pvalue > 0.001, (name, hit)


def test_an_arm_that_is_never_offered_in_a_segment_has_no_standardised_mean():
    rng = np.random.default_rng(3)
    segment = rng.choice(["DE", "FR"], 2_000)
    p = np.where((segment == "FR")[:, np.newaxis], [0.5, 0.5, 0.0], [0.4, 0.3, 0.3])
    arm = (rng.random(2_000)[:, np.newaxis] > p.cumsum(axis=1)).sum(axis=1)
    with pytest.warns(bl.BelatedWarning, match="In a segment no outcome of arm 2 has arrived"):
        est = bl.estimate(bl.Log(arm, rng.normal(size=2_000), p, segment=segment))
    assert est.segments == ("DE", "FR")
    assert np.isnan(est.values).tolist() == [False, False, True]
    assert np.isfinite(est.segment("DE").values).all()
    assert "No interval" not in str(est.segment("DE"))
    assert str(est.segment("FR")).endswith("No interval for 2: it needs at least 2 arrived outcomes in the segment.")


def test_an_arm_that_some_merged_segments_hardly_got_is_pointed_out():
    segment = np.arange(120) // 10
    likely = np.where((segment % 3 == 0)[:, np.newaxis], [0.98, 0.02], [0.02, 0.98])
    arm = likely.argmax(axis=1)  # no row has a large weight
    outcome = np.random.default_rng(1).normal(size=120)
    said = "The outcomes of arm 0 stand for only 34% of the rows in merged segments, because it was seldom chosen"

    def text(**options):
        return str(bl.estimate(bl.Log(**{"arm": arm, "outcome": outcome, "propensity": likely, **options})))

    assert said in text(segment=segment)
    assert said in text(segment=segment, arrival_probability=np.ones(120))
    late = np.where(np.arange(120) % 2, outcome, np.nan)
    assert said in text(segment=segment, outcome=late)
    assert said in text(segment=segment, outcome=late, arrival_probability=np.full(120, 0.5))
    assert "stand for" not in text(segment=segment // 4)  # nothing is merged
    assert "stand for" not in text(segment=segment, propensity="uniform", arm=np.arange(120) % 2)
    assert "stand for" not in text(segment=segment, propensity=likely[np.arange(120), arm])  # not known of other arms


@pytest.mark.parametrize("missing", [False, True])
def test_merged_segments_without_an_outcome_of_an_arm_are_pointed_out(missing):
    rng = np.random.default_rng(1)
    outcome = np.where(missing & (rng.random(90) < 0.6), np.nan, rng.normal(size=90))
    log = bl.Log(rng.integers(0, 2, 90), outcome, np.full((90, 2), 0.5), segment=np.arange(90) // 3)
    est = bl.estimate(log)
    assert "Merged into 'other'" in str(est)
    said = "are in merged segments in which none of its outcomes has arrived; outcomes of other segments stand for them"
    assert (said in str(est)) == missing
    assert said not in str(bl.estimate(log, arrival_probability=np.full(90, 0.5)))


def test_means_of_merged_segments_whose_outcomes_arrive_differently_are_covered():
    """Opposite effects, and 60 % of one kind's outcomes never arrive: taken alike, 13, 58 and 10 % are covered."""
    runs, rows, segments = 60, 700, 40
    covered = np.zeros(3, int)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        segment, pi = rng.integers(0, segments, rows), np.linspace(0.5, 0.15, rows)
        arm, kind = (rng.random(rows) < pi).astype(int), segment % 2
        arrives = rng.random(rows) < np.where(kind, 0.4, 1.0)
        outcome = np.where(arrives, rng.normal(np.where(kind == arm, 1.0, 0.0)), np.nan)
        log = bl.Log(arm, outcome, np.column_stack([1 - pi, pi]), segment=segment)
        est = bl.estimate(log)
        assert log.layout.merged
        answers = est.arm(0), est.arm(1), est.contrast(1, 0)
        covered += [answer.low <= truth <= answer.high for answer, truth in zip(answers, (0.5, 0.5, 0.0), strict=True)]
    for hits in covered:
        assert stats.binomtest(int(hits), runs, 0.95, alternative="less").pvalue > 0.01


def test_merged_segments_whose_outcomes_arrive_alike_keep_their_weights():
    rng = np.random.default_rng(2)
    arm, outcome = rng.integers(0, 2, 240), rng.normal(size=240)
    outcome[::3] = np.nan  # the same share of every segment
    log = bl.Log(arm, outcome, np.full((240, 2), 0.5), segment=np.arange(240) // 12)
    assert log.layout.merged
    assert log.layout.arrival is None
    alike = bl.estimate(log, arrival_probability=np.ones(240))
    assert bl.estimate(log).arm(1).to_dict() == alike.arm(1).to_dict()
