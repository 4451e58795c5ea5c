"""Blocks of arrivals: those that are passed over."""

from __future__ import annotations

import numpy as np
import pytest
from sequence_logs import OPTIONS

import belated as bl
from belated.kernels import jit, sequence_blocks


@pytest.mark.parametrize("kind", OPTIONS)
def test_blocks_that_are_passed_over_hold_nothing(kind, monkeypatch):
    def every(candidates, block, questions, blocks, plan, verdicts):
        candidates[:] = np.arange(len(candidates))
        return block, len(candidates) if block < len(blocks.paths) else 0

    jit.compile_kernels()
    passed, n = 0, 6000
    for seed in range(8):
        rng = np.random.default_rng(seed)
        arm = rng.integers(0, 3, n)
        y = rng.normal(0.02 * seed * arm, 0.3).clip(-1, 2)
        if kind == "beta_binomial":
            y = (rng.uniform(size=n) < 0.3 + 0.01 * seed * arm).astype(float)
        arrived = np.arange(n) + rng.exponential(50, n)
        log = bl.Log(
            arm,
            y,
            np.full((n, 3), 1 / 3),
            assigned_at=np.arange(n),
            arrived_at=np.ceil(arrived / 3 ** (seed % 3)) * 3 ** (seed % 3),
        )
        options = {"kind": kind, "null": {0: float(y.mean()), 1: 0.3, 2: 0.0}, "level": 0.8, **OPTIONS[kind]}
        with monkeypatch.context() as patch:
            patch.setattr(sequence_blocks, "next_block", every)
            slow = bl.sequence(log, **options)
        with monkeypatch.context() as patch:
            patch.setattr(jit, "LONG", 1000)  # and in threads
            quick = bl.sequence(log, **options)
        assert (quick._history.record.first == slow._history.record.first).all()
        assert quick._history.record.best == pytest.approx(slow._history.record.best, rel=1e-9)
        assert quick._history.record.state == pytest.approx(slow._history.record.state, rel=1e-9)
        passed += sum(moment is not None for moment in quick._history.record.first.flat)
    assert 10 < passed < 96
