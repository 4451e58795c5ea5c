"""Evidence of a log in memory, against loops."""

from __future__ import annotations

import naive.diagnosis as naive
import numpy as np
import pytest
from simulated_logs import played


@pytest.mark.parametrize("as_of", [None, 137, 300])
def test_evidence_is_what_loops_count(as_of):
    log = played(300, 3).at(as_of)
    evidence, wanted = log.evidence(), naive.sums(log)
    for name, table in wanted.items():
        if name not in ("y", "y2"):
            np.testing.assert_allclose(evidence.sums[name], table, err_msg=name)
    n, shift = wanted["arrived"], evidence.shift
    np.testing.assert_allclose(evidence.sums["y"] + shift * n, wanted["y"], atol=1e-9)
    back = evidence.sums["y2"] + 2 * shift * evidence.sums["y"] + shift**2 * n
    np.testing.assert_allclose(back, wanted["y2"], atol=1e-8)
    np.testing.assert_allclose(evidence.chance, naive.chance(log))
    for a, b in ((0, 1), (0, 2), (1, 2)):
        gain = evidence.log_p[a, b] + evidence.log_p[b, a] - evidence.log_p[a, a] - evidence.log_p[b, b]
        assert gain == pytest.approx(naive.swap_gain(log, a, b))
