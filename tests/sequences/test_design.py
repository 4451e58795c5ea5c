"""What is fixed before any outcome."""

from __future__ import annotations

import math

import naive.sequences as naive
import numpy as np
import pytest

import belated as bl
from belated.sequences.design import MANY, plan_design, read_bounds, read_null

DEFAULT = {"level": 0.9, "target": 500, "sigma": None, "bounds": None, "baseline": None, "null": 0.0}


def design(kind="asymptotic", arms=("A", "B", "C"), **options):
    return plan_design(kind, arms, **{**DEFAULT, **options})


def test_the_mixture_is_narrowest_at_the_target():
    assert design().plan.eta == pytest.approx(naive.eta(500, 0.1))


def test_thresholds_of_one_of_all_arms_and_of_all_contrasts():
    thresholds = [math.log(n / 0.1) for n in (1, 4, 6)]
    assert design(arms=tuple("ABCD")).plan.levels == pytest.approx(thresholds)
    assert design(arms=tuple("ABCD"), baseline="B").plan.levels[2] == pytest.approx(math.log(3 / 0.1))
    assert design(arms=("A",)).plan.levels == pytest.approx([math.log(10)] * 3)


def test_questions_are_arms_then_pairs():
    assert design().questions.arms.tolist() == [[0, -1], [1, -1], [2, -1], [1, 0], [2, 0], [2, 1]]
    few = design(baseline="B")
    assert few.questions.arms.tolist() == [[0, -1], [1, -1], [2, -1], [0, 1], [2, 1]]
    assert (few.pair_question(1, 0), few.pair_question(2, 0)) == (3, None)
    assert len(design(arms=tuple(range(MANY + 1))).questions.arms) == MANY + 1


def test_nulls_of_arms_and_contrasts():
    assert read_null({"B": 2}, ("A", "B")).tolist() == [0, 2]
    tested = design(null={"A": 1, "C": 0.25})
    assert (tested.null_of(0, None), tested.null_of(0, 2)) == (1, 0.75)
    with pytest.raises(bl.UnknownArmError):
        read_null({"Z": 2}, ("A", "B"))


def test_sigma_and_bounds():
    assert design("sub_gaussian", bounds=(0.0, 3.0)).plan.sigma == 1.5
    bernstein = design("bernstein", bounds=(-1.0, 3.0)).plan
    assert (bernstein.bottom, bernstein.extent) == (-1, 4)
    assert design("beta_binomial", bounds=(-1.0, 3.0)).bounds == (0, 1)
    assert read_bounds((0, 1)) == (0, 1)
    assert read_bounds(None) is None


def test_auto_takes_what_is_given():
    y = np.linspace(0, 1, 40)
    log = bl.Log(["A", "B"] * 20, y, np.full(40, 0.5))
    assert bl.sequence(log).kind == "asymptotic"
    assert bl.sequence(log, sigma=1).kind == "sub_gaussian"
    assert bl.sequence(log, bounds=(0, 1)).kind == "bernstein"
    assert bl.sequence(log, "sub_gaussian", bounds=(0, 1)).design.sigma == 0.5
    assert bl.sequence(bl.Log(["A", "B"] * 20, y > 0.5, np.full(40, 0.5))).kind == "beta_binomial"


def test_0_and_1_are_a_kind_once_both_have_been_seen():
    def kind(y, **options):
        return bl.sequence(bl.Log(["A", "B"] * 5, y, np.full(10, 0.5)), **options).kind

    zeros, both = np.zeros(10), np.arange(10) % 3 == 0
    assert (kind(zeros), kind(zeros + 1), kind(both)) == ("asymptotic", "asymptotic", "beta_binomial")
    assert kind(zeros, bounds=(0, 1)) == "bernstein"
    assert kind(both, bounds=(0, 1)) == "beta_binomial"
    assert kind(both, bounds=(0, 5)) == "bernstein"
    assert kind(both, sigma=0.5) == "sub_gaussian"


def test_a_kind_stays():
    sequence = bl.sequence(bl.Log(["A", "B"] * 5, np.zeros(10), np.full(10, 0.5)))
    assert sequence.update("A", 1.0, 0.5).kind == "asymptotic"
    rates = bl.sequence(bl.Log(["A", "B"] * 5, np.arange(10) % 2, np.full(10, 0.5)))
    with pytest.raises(bl.LogError, match="An outcome is 2, but a beta-binomial sequence needs"):
        rates.update("A", 2.0, 0.5)
    assert rates.update("A", 1.0, 0.5).arm("A").estimate == pytest.approx(1 / 6)
