from __future__ import annotations

import pytest
from experiments import (
    log_of,
)

import belated as bl
from belated.estimation.estimators import SIDE_BY_SIDE


def test_answers_and_comparisons_can_be_walked_through():
    comparison = bl.compare(log_of())
    assert list(comparison) == list(SIDE_BY_SIDE)
    answers = comparison.linear({"A": 1.0, "B": 1.0})
    assert len(answers) == len(list(answers)) == len(SIDE_BY_SIDE)
    with pytest.raises(bl.OptionError, match="no answer for 'x'"):
        answers["x"]


def test_compare_puts_every_estimator_side_by_side():
    log = log_of()
    comparison = bl.compare(log)
    assert list(comparison.estimates) == [name for name in bl.ESTIMATORS if name != "daipw_paper"]
    for name in SIDE_BY_SIDE:
        assert comparison[name].values == pytest.approx(bl.estimate(log, name).values)
    assert list(comparison.contrast("B", "A").answers) == list(SIDE_BY_SIDE)
    assert comparison.policy({"A": 1.0})["daipw"].estimate == pytest.approx(comparison.arm("A")["daipw"].estimate)
