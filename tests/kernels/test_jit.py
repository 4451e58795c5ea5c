"""Stretches of a long pass, and when kernels compile."""

from __future__ import annotations

import itertools
import subprocess
import sys

from belated.kernels import jit


def test_few_rows_are_one_stretch():
    assert jit.in_stretches(10, lambda start, stop: (start, stop)) == [(0, 10)]


def test_many_rows_are_cut_by_their_number_alone():
    jit.compile_kernels()
    rows = jit.LONG + 3
    stretches = jit.in_stretches(rows, lambda start, stop: (start, stop))
    assert len(stretches) == jit.STRETCHES
    assert stretches[0][0] == 0
    assert stretches[-1][1] == rows
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(stretches))
    assert jit.in_stretches(rows, lambda start, stop: (start, stop), divisible=False) == [(0, rows)]


def test_a_small_log_is_answered_without_the_compiler():
    code = (
        "import sys, belated as bl; log = bl.Log(['A', 'B'] * 20, [1.0, 2.0, 3.0, 5.0] * 10, [[0.5, 0.5]] * 40);"
        "bl.estimate(log); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
