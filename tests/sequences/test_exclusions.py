"""What a sequence excludes: never what its own intervals hold, and a true null no more often than promised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import belated as bl
from belated.kernels import jit


def test_arms_that_came_one_after_the_other_exclude_nothing():
    log = bl.Log([1, 1, 1, 0, 0, 0, 0, 0], [0] * 7 + [1], np.full((8, 2), 0.5))
    answer = bl.sequence(log).contrast(1, 0)
    assert answer.low < 0 < answer.high
    assert answer.excluded_at is None
    assert answer.p_value > 0.9


@pytest.mark.parametrize("rows", [30, 100])
def test_equal_rates_are_told_apart_no_more_often_than_promised(rows):
    jit.compile_kernels()  # many small logs
    runs, excluded = 300, 0
    for run in range(runs):
        rng = np.random.default_rng([rows, run])
        arm, outcome = rng.integers(0, 2, rows), (rng.random(rows) < 0.3).astype(float)
        found = bl.sequence(bl.Log(arm, outcome, np.full((rows, 2), 0.5), arms=[0, 1]))
        answer = found.contrast(1, 0)
        excluded += answer.excluded_at is not None
        if run % 10:
            continue
        track = found.track(1, 0)
        assert (answer.excluded_at is not None) == bool(((track.low > 0) | (track.high < 0)).any())
    assert stats.binomtest(excluded, runs, 0.05, alternative="greater").pvalue > 0.001
