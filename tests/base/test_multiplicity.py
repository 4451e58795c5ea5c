"""Sidak's formula against products of probabilities, and Dunnett's method against his tables."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from belated.base.multiplicity import joint_p_value, joint_tail, sidak_level, sidak_p_value


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


def test_no_p_value_stays_none():
    assert math.isnan(sidak_p_value(math.nan, 3))
    assert np.isnan(sidak_p_value(np.array([math.nan, 0.5]), 3)).tolist() == [True, False]


def test_arrays_are_numbers_one_by_one():
    p = np.array([0.0, 1e-6, 0.3, 1.0, 1.2])
    joint = sidak_p_value(p, 4)
    assert isinstance(joint, np.ndarray)
    assert joint.tolist() == [sidak_p_value(float(each), 4) for each in p]
    assert sidak_level(p[:3], 4).tolist() == [sidak_level(float(each), 4) for each in p[:3]]


@pytest.mark.parametrize(("contrasts", "critical"), [(2, 2.21), (3, 2.35), (5, 2.51), (9, 2.69)])
def test_dunnetts_critical_values(contrasts, critical):
    # Dunnett (1964), "New tables for multiple comparisons with a control", Biometrics 20, Table II:
    # two-sided 5 %, infinite degrees of freedom, equal sizes.
    tail = joint_tail(np.ones(contrasts), 1.0, 0.025)
    assert stats.norm.isf(tail) == pytest.approx(critical, abs=0.006)
    assert joint_p_value(np.ones(contrasts), 1.0, 2 * tail) == pytest.approx(0.05, rel=1e-6)


def test_contrasts_with_an_exact_baseline_are_independent():
    errors = np.array([1.0, 2.0, 0.5])
    sidak = -np.expm1(np.log(0.95) / 3) / 2
    assert joint_tail(errors, 1e-9, 0.025) == pytest.approx(sidak, rel=1e-6)
    assert joint_tail(errors, None, 0.025) == pytest.approx(sidak, rel=1e-12)


def test_contrasts_with_a_hopeless_baseline_are_one():
    assert joint_tail(np.ones(3), 1e6, 0.025) == pytest.approx(0.025, rel=0.03)


def test_unequal_errors_against_simulation():
    rng = np.random.default_rng(1)
    errors, base = np.array([0.5, 1.0, 3.0]), 1.5
    draws = (rng.normal(size=(400_000, 3)) * errors - base * rng.normal(size=(400_000, 1))) / np.hypot(errors, base)
    z = stats.norm.isf(joint_tail(errors, base, 0.025))
    assert (abs(draws) > z).any(axis=1).mean() == pytest.approx(0.05, abs=0.0015)
