from __future__ import annotations

import math

import numpy as np
import pytest
from experiments import (
    binary_log,
    log_of,
)

import belated as bl


def test_an_arm_without_arrivals_is_nan_and_the_others_are_right():
    columns = {"arm": ["A", "B"] * 10, "propensity": [[0.4, 0.4, 0.2]] * 20, "arms": ["A", "B", "C"]}
    with pytest.warns(bl.BelatedWarning, match="No outcome of arm 'C' has arrived; there is no estimate"):
        est = bl.estimate(bl.Log(outcome=np.arange(20.0), **columns))
    assert math.isnan(est.arm("C").estimate)
    assert math.isnan(est.contrast("C", "A").p_value)
    assert est.contrast("B", "A").estimate == pytest.approx(est.values[1] - est.values[0])
    assert math.isfinite(est.contrast("B", "A").p_value)
    assert math.isnan(est.contrasts("A", simultaneous=True)[1].low)
    assert math.isfinite(est.contrasts("A", simultaneous=True)[0].low)


def test_several_arms_without_arrivals_are_named_in_one_sentence():
    log = bl.Log(["A", "B"] * 10, np.arange(20.0), [[0.3, 0.3, 0.2, 0.2]] * 20, arms=["A", "B", "C", "D"])
    with pytest.warns(bl.BelatedWarning, match="No outcome of any of the arms 'C', 'D' has arrived"):
        bl.estimate(log)


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


def test_weights_whose_powers_are_no_numbers_give_no_interval_and_no_test():
    log = bl.Log(["A", "B"] * 10, 1e30 * np.arange(20.0), [[1e-30, 1.0], [0.5, 0.5]] * 10)
    with pytest.warns(bl.BelatedWarning, match="weights of arm 'A' are beyond the range of numbers; there is no inter"):
        answer = bl.estimate(log, "dipw", weights=np.tile([1e60, 1.0], (20, 1))).contrast("B", "A")
    assert np.isnan([answer.low, answer.high, answer.p_value]).all()


def test_arms_of_equal_outcomes_are_warned_of():
    log = bl.Log(["A", "B"] * 10, [5.0, 3.0] * 10, [[0.5, 0.5]] * 20)
    with pytest.warns(
        bl.BelatedWarning, match=r"arms 'A', 'B' are equal; the interval uses the variance of all arms together"
    ):
        answer = bl.estimate(log, "dipw").contrast("A", "B")
    assert answer.estimate == 2
    assert 0 < answer.low < 2 <= answer.high
    assert answer.std_error > 0
    with pytest.warns(bl.BelatedWarning, match=r"arms 'A', 'B' are equal; .*, so there is no interval"):
        assert math.isnan(bl.estimate(log, "dipw", interval="t").contrast("A", "B").low)


def test_a_model_that_starts_far_from_the_outcomes_is_noted():
    near, far = (bl.estimate(log_of(outcome=log_of().outcome + c), "daipw_paper") for c in (0, 1000))
    assert "Note" not in str(near)
    assert "use 'daipw' or 'dipw'" in str(far)
    assert "Note" in far.to_markdown()
    assert "<tfoot>" in far.to_html()
    assert "Note" not in str(bl.estimate(log_of(outcome=log_of().outcome + 1000)))


def test_standard_errors_are_those_of_the_answers():
    for log in (log_of(), binary_log()):
        est = bl.estimate(log)
        np.testing.assert_allclose(est.std_errors, [a.std_error for a in est.arm_answers])


@pytest.mark.parametrize("name", ["values", "variances", "std_errors", "assigned", "arrived"])
@pytest.mark.parametrize("segment", [None, ["DE", "FR"] * 60])
def test_the_numbers_of_an_estimate_cannot_be_changed_by_mistake(name, segment):
    log = bl.Log(["A", "A", "B", "B"] * 30, [0, 1, 1] * 40, np.full((120, 2), 0.5), segment=segment)
    numbers = getattr(bl.estimate(log), name)
    with pytest.raises(ValueError, match="read-only"):
        numbers *= 100
