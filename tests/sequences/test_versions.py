from __future__ import annotations

import math

import numpy as np

from belated.sequences.versions import deviation


def test_a_millionth_of_the_values_and_of_their_scale_is_rounding():
    known = np.array([0.0, 1.0, -2.0])
    np.testing.assert_allclose(deviation(known + 1e-6, known, 1.0), [1.0, 1 / 2, 1 / 3])
    assert (deviation(known + 1e-3, known, 1.0) > 1).all()


def test_counts_have_no_scale():
    counts = np.array([0, 3])
    assert deviation(counts, counts, 0.0).tolist() == [0.0, 0.0]
    assert (deviation(counts + 1, counts, 0.0) > 1).all()


def test_nan_is_only_the_same_as_nan():
    found, known = np.array([math.nan, math.nan, 1.0]), np.array([math.nan, 1.0, math.nan])
    assert deviation(found, known, 1.0).tolist() == [0.0, math.inf, math.inf]
