from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from belated.kernels import streams


def numpys(seed, replication):
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(replication,))))


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32, 2**64 + 9, 2**128 + 1, 2**200 + 3])
def test_streams_are_numpys(seed):
    replications = np.array([0, 1, 7, 2**32 - 1])
    states = streams.streams(seed, replications)
    for state, r in zip(states, replications.tolist(), strict=True):
        theirs = np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(r,))).state["state"]["state"]
        np.testing.assert_array_equal(state, theirs)


def test_numbers_are_numpys_bit_for_bit():
    state, theirs = streams.streams(3, np.array([4]))[0], numpys(3, 4)
    n = 300_000  # the ziggurat's tail is one in four thousand
    block = np.zeros(n + 2)
    streams.fill_normal(state, block, 1, n)
    np.testing.assert_array_equal(block, [0.0, *theirs.standard_normal(n), 0.0])
    streams.fill_uniform(state, block, 1, n)
    np.testing.assert_array_equal(block, [0.0, *theirs.random(n), 0.0])
    assert [streams.normal(state) for _ in range(5000)] == theirs.standard_normal(5000).tolist()
    assert [streams.uniform(state) for _ in range(100)] == theirs.random(100).tolist()


@pytest.mark.parametrize("shape", [0.3, 1.0, 2.5, 40.0])
def test_gammas_are_gammas(shape):
    state = streams.streams(1, np.array([0]))[0]
    drawn = [streams.gamma(state, shape) for _ in range(20_000)]
    assert stats.kstest(drawn, stats.gamma(shape).cdf).pvalue > 0.01


def test_more_replications_than_there_are_streams_are_refused():
    with pytest.raises(ValueError, match="2"):
        streams.streams(0, np.array([2**32]))
