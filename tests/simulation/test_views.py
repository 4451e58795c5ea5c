from __future__ import annotations

import math

import pytest

import belated as bl
from belated.estimation.target import Target
from belated.simulation.views import (
    View,
    default_targets,
    is_binary,
    read_interval,
    read_known_target,
    true_distance,
    true_value,
)

THREE = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5), "C": bl.arms.student_t(0.9)})
RATES = bl.Bandit({"A": bl.arms.bernoulli(0.6), "B": bl.arms.empirical([0, 1, 1])})


def view(**changes):
    options = {"estimators": ["daipw"], "targets": None, "intervals": ["t"], "level": 0.95}
    return View.read(RATES, **options | changes)


def test_by_default_every_arm_and_every_contrast_with_the_first():
    assert [target.name for target in default_targets(THREE)] == ["A", "B", "C", "B - A", "C - A"]
    assert view().targets == tuple(default_targets(RATES))


def test_what_is_asked_twice_is_shown_once():
    shown = view(estimators=["dipw", "daipw", "dipw"], targets=["A", "A"], intervals=["wilson", "t", "wilson"])
    assert shown.estimators == ("dipw", "daipw")
    assert shown.intervals == ("wilson", "t")
    assert [target.name for target in shown.targets] == ["A"]
    assert shown == view(estimators=["dipw", "daipw"], targets=[Target.arm(("A", "B"), "A")], intervals=["wilson", "t"])


@pytest.mark.parametrize("option", ["estimators", "targets", "intervals"])
def test_nothing_to_see_is_refused(option):
    with pytest.raises(bl.OptionError, match="at least one estimator, one target and one interval"):
        view(**{option: []})
    with pytest.raises(bl.OptionError, match=f"`{option}` is 'AB'; it must be a list"):
        view(**{option: "AB"})


def test_the_truth_needs_the_means_of_the_targets_arms_alone():
    assert true_value(THREE, Target.contrast(tuple(THREE.arms), "A", "B")) == 0.5
    assert math.isnan(true_value(THREE, Target.arm(tuple(THREE.arms), "C")))
    with pytest.raises(
        bl.OptionError, match=r"`target` contains 'C - A', but the mean of one of its arms does not exist"
    ):
        read_known_target(THREE, ("C", "A"), option="target")


def test_a_distance_that_is_a_rounding_error_is_0():
    rates = bl.Bandit({"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.2)})
    target = Target.contrast(("A", "B"), "B", "A")
    assert 0.2 - 0.3 != -0.1
    assert true_distance(rates, target, -0.1) == 0.0
    assert true_distance(rates, target, -0.1 - 1e-9) == pytest.approx(1e-9)
    mixed = bl.ContextualBandit(
        {
            s: bl.Bandit({"A": bl.arms.normal(a), "B": bl.arms.normal(b)})
            for s, a, b in (("x", 0.1, 0.7), ("y", 0.9, 0.5))
        },
        {"x": 0.4, "y": 0.6},
    )
    assert true_distance(mixed, target, 0.0) == 0.0


def test_wilson_is_for_rates():
    assert is_binary(RATES)
    assert not is_binary(THREE)
    assert read_interval(RATES, "wilson") == "wilson"
    with pytest.raises(bl.OptionError, match="needs outcomes that are 0 or 1"):
        read_interval(THREE, "wilson")
