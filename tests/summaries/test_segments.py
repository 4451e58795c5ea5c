"""The rule that merges small segments, and sums by segment and arm."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from segment_logs import LABELS, columns, log_with_segments, named

import belated as bl
from belated.summaries.segments import FEWEST, MOST, OTHER, lay_out


def laid(arrived, labels=None):
    arrived = np.array(arrived)
    return lay_out(tuple(labels or LABELS[: len(arrived)]), arrived)


def test_segments_with_enough_outcomes_stand_on_their_own():
    layout = laid([[8, 9], [10, 8]])
    assert layout.labels == ("DE", "FR")
    assert layout.place.tolist() == [0, 1]
    assert layout.merged == ()


def test_small_segments_are_merged_into_the_last():
    layout = laid([[20, 20], [3, 9], [30, 30], [9, 7]])
    assert layout.labels == ("DE", "IT", OTHER)
    assert layout.place.tolist() == [0, 2, 1, 2]
    assert layout.merged == ("FR", "PL")
    assert layout.even_from(2) == 4


def test_the_rest_takes_the_smallest_segment_until_it_has_enough():
    layout = laid([[20, 20], [3, 9], [30, 30], [9, 9]])
    assert layout.merged == ("FR", "PL")
    layout = laid([[20, 20], [3, 0], [30, 30]])
    assert layout.merged == ("DE", "FR")
    assert laid([[0, 20], [3, 0]]).labels == (OTHER,)


def test_arms_without_enough_outcomes_in_the_whole_log_do_not_count():
    assert laid([[20, 3], [9, 0]]).merged == ()
    assert laid([[20, 7], [9, 1]]).merged == ("DE", "FR")  # 8 in all


def test_if_no_arm_has_enough_outcomes_all_segments_are_one():
    assert laid([[2, 3], [1, 0], [0, 0]]).labels == (OTHER,)
    assert laid([[2, 3]]).labels == ("DE",)


def test_at_most_so_many_segments_those_with_most_outcomes():
    counts = np.full((MOST + 5, 2), FEWEST) + np.arange(MOST + 5)[:, np.newaxis]
    layout = laid(counts, range(MOST + 5))
    assert layout.merged == (0, 1, 2, 3, 4)
    assert layout.labels == (*range(5, MOST + 5), OTHER)


def test_a_segment_with_the_name_of_the_rest():
    layout = laid([[20, 20], [20, 20], [5, 5], [5, 5]], ["other", "other (2)", "y", "z"])
    assert layout.labels == ("other", "other (2)", "other (3)")


def test_the_rule_does_not_look_at_outcomes():
    arm, outcome, propensity, segment, _ = columns(60)
    one, other = (bl.Log(arm, y, propensity, segment=segment).layout for y in (outcome, -7 * outcome))
    assert one.labels == other.labels


@pytest.mark.parametrize("model", ["zero", "running_mean"])
def test_totals_are_the_sums_without_segments(model):
    arm, outcome, propensity, segment, _ = columns()
    whole = bl.Sums.of(bl.Log(arm, outcome, propensity), outcome_model=model)
    parts = bl.Sums.of(bl.Log(arm, outcome, propensity, segment=segment), outcome_model=model)
    whole = whole.recentred(parts.shift)
    assert parts.arms == whole.arms
    names = ("assigned", "arrived", "h", "w", "wy", "w2", "w2y2", "w3y2", "w_max", "y", "y2", "y4")
    for name in names:  # a running mean restarts in each segment, so that its sums differ
        assert parts[name] == pytest.approx(whole[name], rel=1e-10), name


def test_each_cell_has_the_sums_of_its_segment_alone():
    log = log_with_segments()
    cells = bl.Sums.of(log).segments.cells
    for i, segment in enumerate(log.segments):
        at = slice(2 * i, 2 * i + 2)
        alone = bl.Sums.of(log.in_segment(segment)).recentred(cells.shift[at])
        assert cells.arms[at] == ((segment, 0), (segment, 1))
        for name in ("assigned", "arrived", "h", "h_modelled", "hm", "w", "wy", "wm", "w3y2", "w_max"):
            assert cells[name][at] == pytest.approx(alone[name], rel=1e-10, abs=1e-12), name


@pytest.mark.parametrize("covariates", [0, 2])
def test_merging_unites_segments(covariates):
    arm, outcome, propensity, segment, x = columns(600, segments=4, covariates=covariates)

    def part(rows):
        return bl.Log(
            arm[rows], outcome[rows], propensity[rows], segment=np.array(LABELS)[segment[rows]],
            covariates=named(x[rows]) if covariates else None,
        )  # fmt: skip

    first, second = np.isin(segment, [0, 2]), np.isin(segment, [1, 3])
    merged = bl.Sums.of(part(first), outcome_model="zero") + bl.Sums.of(part(second), outcome_model="zero")
    whole = bl.estimate(part(np.ones(600, bool)), "dipw")
    est = bl.estimate(merged, "dipw")
    assert est.segments == ("DE", "IT", "FR", "PL")
    assert est.shares == pytest.approx(whole.shares)
    assert est.values == pytest.approx(whole.values, rel=1e-9)
    assert est.std_errors == pytest.approx(whole.std_errors, rel=1e-8)
    assert est.segment("PL").values == pytest.approx(whole.segment("PL").values, rel=1e-9)


def test_halves_of_every_segment_merge_to_the_whole():
    arm, outcome, propensity, segment, x = columns(800, covariates=1)

    def sums(rows):
        log = bl.Log(arm[rows], outcome[rows], propensity[rows], segment=segment[rows], covariates=named(x[rows]))
        return bl.Sums.of(log, outcome_model="zero")

    merged = bl.estimate(sums(slice(0, 300)) + sums(slice(300, 800)), "dipw")
    whole = bl.estimate(sums(slice(0, 800)), "dipw")
    assert merged.values == pytest.approx(whole.values, rel=1e-9)
    assert merged.contrast(1, 0).std_error == pytest.approx(whole.contrast(1, 0).std_error, rel=1e-8)


def test_sums_with_and_without_segments_or_covariates_do_not_merge():
    with_both, segments = bl.Sums.of(log_with_segments(covariates=1)), bl.Sums.of(log_with_segments())
    arm, outcome, propensity, _, _ = columns()
    plain = bl.Sums.of(bl.Log(arm, outcome, propensity))
    for one, other in ((with_both, segments), (segments, plain), (plain, segments)):
        with pytest.raises(bl.BelatedError, match="cannot be merged"):
            one + other


def test_sums_survive_pickling():
    sums = bl.Sums.of(log_with_segments(covariates=2))
    again = pickle.loads(pickle.dumps(sums))  # noqa: S301  # written by the line itself
    assert bl.estimate(again).std_errors.tolist() == bl.estimate(sums).std_errors.tolist()
    assert again.segments.labels == sums.segments.labels


def test_an_arm_that_was_never_offered_in_a_segment_does_not_merge_it():
    arrived = np.array([[20, 20, 20], [20, 20, 0], [20, 20, 3]])
    offered = np.array([[True, True, True], [True, True, False], [True, True, True]])
    assert lay_out(("a", "b", "c"), arrived).labels == ("other",)
    layout = lay_out(("a", "b", "c"), arrived, lambda: offered)
    assert (layout.labels, layout.merged) == (("b", "other"), ("a", "c"))
    assert lay_out(("a", "b"), arrived[:2], lambda: offered[:2]).labels == ("a", "b")
