from __future__ import annotations

import math

import numpy as np
import pytest

from belated.kernels import bandit as kernel


def test_a_users_function_is_not_kept_in_the_cache_where_another_process_could_not_read_it():
    for function in kernel.for_own_policy(plain=False):
        assert type(function._cache).__name__ == "NullCache"
    for function in (kernel.play, kernel.replicate):
        assert function.py_func.__closure__ is None  # closures have keys of their own in every process


@pytest.mark.parametrize(
    ("p", "answer"),
    [
        ([0.5, 0.5], True),
        ([1.0, 0.0], True),
        ([0.5, 0.5 + 1e-7], True),
        ([0.5, 0.6], False),
        ([1.5, -0.5], False),
        ([1.0], False),
        ([math.nan, 1.0], False),
    ],
)
def test_what_is_a_distribution(p, answer):
    assert kernel.is_distribution(np.array(p), 2) is answer


def test_many_probabilities_may_each_be_rounded_to_6_decimals():
    assert kernel.is_distribution(np.full(12, 0.083333), 12)
    assert not kernel.is_distribution(np.full(12, 0.0833), 12)


def test_the_first_of_equals_is_the_largest():
    assert kernel.first_largest(np.array([1.0, 3.0, 3.0, 2.0])) == 1
    assert kernel.first_largest(np.array([0.0, 0.0])) == 0
