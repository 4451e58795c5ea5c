"""Which arms are compared by default."""

from __future__ import annotations

import pytest

import belated as bl
from belated.estimation.pairs import default_pairs


def test_without_a_baseline_all_pairs_the_later_arm_first():
    assert default_pairs("ABC") == [("B", "A"), ("C", "A"), ("C", "B")]


def test_with_a_baseline_every_other_arm():
    assert default_pairs("ABC", "B") == [("A", "B"), ("C", "B")]


def test_arms_may_be_numbers_and_the_first_of_them_a_baseline():
    assert default_pairs(range(3), 0) == [(1, 0), (2, 0)]
    assert default_pairs(range(3)) == [(1, 0), (2, 0), (2, 1)]


@pytest.mark.parametrize("baseline", [None, "A"])
def test_one_arm_makes_no_pair(baseline):
    assert default_pairs(["A"], baseline) == []


@pytest.mark.parametrize("baseline", [None, "A", "B"])
def test_estimates_and_sequences_make_the_same_pairs(baseline):
    log = bl.Log(list("ABC") * 20, [float(i % 7) for i in range(60)], [1 / 3] * 60)
    names = [f"{arm} - {other}" for arm, other in default_pairs(log.arms, baseline)]
    assert [answer.name for answer in bl.estimate(log, "dipw").contrasts(baseline).answers] == names
    assert [answer.name for answer in bl.sequence(log).contrasts(baseline).answers] == names
