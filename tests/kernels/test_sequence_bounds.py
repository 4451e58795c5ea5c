"""What states of arms say: limits of the beta mixture against the twin."""

from __future__ import annotations

import naive.sequences as naive
import pytest

import belated as bl
from belated.kernels import sequence_bounds


@pytest.mark.parametrize("ones", [0, 1, 7, 40, 9000])
def test_limits_of_the_beta_mixture_are_its_roots(ones):
    plan = bl.sequence(bl.Log([0, 1], [0, 1], [0.5, 0.5]), target=10_000).design.plan
    sizes = list(plan.prior_sizes)
    for n in (ones + 1, 3 * ones + 50, 100 * ones + 1000):
        for threshold in (0.5, 3.0, 8.0):
            share, below, above = naive.beta_reach(_coins(ones, n), threshold, sizes)
            assert sequence_bounds.limit(float(ones), float(n - ones), threshold, False, plan) == pytest.approx(
                share - below, rel=1e-6, abs=1e-8
            )
            assert sequence_bounds.limit(float(ones), float(n - ones), threshold, True, plan) == pytest.approx(
                share + above, rel=1e-6, abs=1e-8
            )


def _coins(ones, n):
    return [(1, 1.0)] * ones + [(0, 1.0)] * (n - ones)
