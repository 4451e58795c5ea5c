"""Sidak's formula, against products of probabilities."""

from fractions import Fraction

import numpy as np
import pytest

from belated.base.sidak import sidak_level, sidak_p_value


@pytest.mark.parametrize("questions", [1, 2, 7, 100])
@pytest.mark.parametrize("p", [1e-12, 1e-3, 0.05, 0.5, 0.99])
def test_the_least_of_several_p_values(p, questions):
    exact = float(1 - (1 - Fraction(p)) ** questions)
    assert sidak_p_value(p, questions) == pytest.approx(exact, rel=1e-14)


def test_the_level_of_each():
    assert 1 - (1 - sidak_level(0.05, 10)) ** 10 == pytest.approx(0.05, rel=1e-12)
    assert sidak_level(0.05, 1) == pytest.approx(0.05, rel=1e-15)


def test_no_p_value_exceeds_one():
    assert sidak_p_value(1.0, 3) == 1.0
    assert sidak_p_value(1.7, 3) == 1.0


def test_arrays_are_numbers_one_by_one():
    p = np.array([0.0, 1e-6, 0.3, 1.0, 1.2])
    joint = sidak_p_value(p, 4)
    assert isinstance(joint, np.ndarray)
    assert joint.tolist() == [sidak_p_value(float(each), 4) for each in p]
    assert sidak_level(p[:3], 4).tolist() == [sidak_level(float(each), 4) for each in p[:3]]
