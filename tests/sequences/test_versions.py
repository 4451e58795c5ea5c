from __future__ import annotations

import math

import numpy as np
import pytest

import belated as bl
from belated.sequences.versions import deviation, require_later, require_same_form, require_same_values


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


def test_what_makes_a_log_another_one_is_said_once_for_all_sequences():
    require_same_form(("A", "B"), ("A", "B"), "arms")
    require_later(3, 3)
    known = np.array([1.0, 2.0, 3.0])
    require_same_values(known, known, 1.0, str)
    with pytest.raises(bl.OptionError, match="a later version of the same log, with the same arms"):
        require_same_form(("A", "B"), ("A", "C"), "arms")
    with pytest.raises(bl.OptionError, match="this one has an earlier as-of time"):
        require_later(2, 3)
    with pytest.raises(bl.LogError, match="not a later version of the same one: row 2 differs"):
        require_same_values(known * [1.0, 1.1, 5.0], known, 1.0, lambda place: f"row {place} differs")
