from __future__ import annotations

import numpy as np
import pytest

import belated as bl
from belated.log.row_sums import sums_of_rows


def log_of(rows=40, **changes):
    rng = np.random.default_rng(3)
    p = rng.uniform(0.2, 0.8, rows)
    arm = (rng.random(rows) > p).astype(int)
    columns = {"arm": arm, "outcome": rng.normal(size=rows), "propensity": np.column_stack([p, 1 - p])}
    return bl.Log(**{**columns, "delay": rng.integers(0, 9, rows), **changes})


def test_sums_are_those_of_the_formulas():
    log = log_of()
    (sums,) = sums_of_rows(log, ("sqrt", "zero"), None, True, ())
    for k in (0, 1):
        own = log.code == k
        w = 1 / np.sqrt(log.propensity[own, k])
        y = log.outcome[own] - sums.shift[k]
        assert sums["h"][k] == pytest.approx(np.sqrt(log.propensity[:, k]).sum())
        assert sums["w"][k] == pytest.approx(w.sum())
        assert sums["wy"][k] == pytest.approx((w * y).sum())
        assert sums["w_max"][k] == pytest.approx(w.max())
        assert sums["assigned"][k] == sums["arrived"][k] == own.sum()


def test_sums_at_moments_are_those_of_the_log_as_of_then():
    log, moments = log_of(), np.array([5, 20, 60])
    for sums, moment in zip(sums_of_rows(log, ("sqrt", "running_mean"), moments, True, ()), moments, strict=True):
        (alone,) = sums_of_rows(log.at_number(moment), ("sqrt", "running_mean"), None, True, ())
        np.testing.assert_allclose(sums.recentred(alone.shift).own, alone.own, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(sums.recentred(alone.shift).spread, alone.spread, rtol=1e-9, atol=1e-9)


def test_with_their_history_parts_add_up_to_the_whole():
    whole = log_of()
    columns = (whole.code, whole.outcome, whole.propensity)
    parts = [
        bl.Log(
            *(column[half] for column in columns),
            arms=whole.arms,
            assigned_at=whole.assigned_at[half],
            arrived_at=whole.arrived_at[half],
        )
        for half in (slice(0, 20), slice(20, 40))
    ]
    added = bl.Sums.of(parts[0], history=parts[1]) + bl.Sums.of(parts[1], history=parts[0])
    wanted = bl.Sums.of(whole).recentred(added.shift)
    np.testing.assert_allclose(added.own, wanted.own, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(added.spread, wanted.spread, rtol=1e-9, atol=1e-9)
