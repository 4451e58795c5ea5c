"""Evidence of a log in memory, against loops."""

from __future__ import annotations

import math

import naive.diagnosis as naive
import numpy as np
import pytest
from simulated_logs import played

import belated as bl
from belated.kernels import jit
from belated.log.row_summaries import RowEvidence, sums_of_rows


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


def test_how_outcomes_are_spread():
    log = played(300, 3, "exponential")
    shape = log.evidence().shape
    for k in range(3):
        y = log.outcome[log.arrived & (log.code == k)]
        z = (y - y.mean()) / y.std()
        for got, value in zip(shape[:4], (z.min(), z.max(), (z**3).sum(), (z**4).sum()), strict=True):
            assert got[k] == pytest.approx(value)
        for side, part in enumerate((-z[z < 0], z[z > 0])):
            assert shape.sides[k, side] == pytest.approx([len(part), part.sum(), np.sqrt(part).sum()])
    flat = bl.Log([0, 0, 1], [5.0, 5.0, None], np.full((3, 2), 0.5)).evidence().shape
    assert all(not table.any() for table in flat)


def test_counts_and_sums_of_a_log():
    log = bl.Log(
        ["A", "B", "A", "A"], [1.0, 4.0, 3.0, None], [[0.5, 0.5], [0.8, 0.2], [0.9, 0.1], [0.4, 0.6]],
        delay=[0, 2, 4, None],
    )  # fmt: skip
    evidence = log.evidence()
    assert (evidence.arms, evidence.rows, evidence.grain) == (("A", "B"), 4, 2.0)
    assert evidence.sums["assigned"].sum(axis=0).tolist() == [3, 1]
    assert evidence.sums["arrived"].sum(axis=0).tolist() == [2, 1]
    assert evidence.low.tolist() == [1.0, 4.0]
    assert evidence.rarest.tolist() == [0.5, 0.2]
    assert evidence.unlikeliest.tolist() == [0.4, 0.2]
    np.testing.assert_allclose(evidence.p.sum(axis=0), log.propensity.sum(axis=0))


def test_an_arm_without_an_outcome_has_no_least_one():
    evidence = bl.Log(["A", "B"], [1.0, None], [[0.5, 0.5]] * 2, delay=[1, None]).evidence()
    assert math.isnan(evidence.low[1])
    assert math.isnan(evidence.rarest[1])


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


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_rows_that_are_all_there_several_times_draw_a_word(copies):
    def log(rows, times):
        rng = np.random.default_rng(1)
        arm, y, p = rng.integers(0, 2, rows), rng.normal(size=rows), np.full((rows, 2), 0.5)
        at = {"assigned_at": np.arange(rows), "arrived_at": np.arange(rows) + 2.0} if times else {}
        columns = [np.concatenate([column] * copies) for column in (arm, y, p)]
        return bl.Log(*columns, **{name: np.concatenate([times] * copies) for name, times in at.items()})

    for times in (True, False):
        said = " ".join(log(200, times).oddities())
        assert ("The log contains every row" in said) == (copies > 1)
        assert log(9, times).oddities() == []
    if copies == 2:
        assert "twice. If that is a mistake" in said
        assert "1.41 times too short" in said


def test_equal_rows_are_no_copies_while_some_are_fewer():
    half = np.full((1200, 2), 0.5)
    binary = np.random.default_rng(1).integers(0, 2, (2, 1200))
    assert bl.Log(binary[0], binary[1], half).oddities() == []
    y = np.repeat(np.random.default_rng(1).normal(size=600), 2)
    assert "twice" in bl.Log(binary[0].repeat(2)[:1200], y, half).oddities()[0]
    y[-1] += 1
    assert bl.Log(binary[0].repeat(2)[:1200], y, half).oddities() == []


@pytest.mark.parametrize("delay", [1e308, 5e-324])
def test_delays_whose_mean_is_no_number_or_vanishes_are_not_counted(delay):
    times = np.zeros(20)
    log = bl.Log(["A", "B"] * 10, np.arange(20.0), np.full(20, 0.5), assigned_at=times, delay=np.full(20, delay))
    assert log.evidence().arrivals is None


@pytest.mark.parametrize("unit", [1.0, 7.0, 0.1, 86_400e6])
def test_the_grain_is_the_unit_of_all_delays_and_one_that_is_no_multiple_may_come_late(unit):
    n = 300
    sent, delay = np.arange(n) * 60.0, 3.0 * np.arange(2, n + 2)
    rows = [["A", "B"] * (n // 2), np.arange(n) % 3.0, np.full((n, 2), 0.5)]

    def grain(delay):
        return bl.Log(*rows, assigned_at=sent * unit, arrived_at=(sent + delay) * unit).evidence().grain

    assert grain(delay) == pytest.approx(3 * unit)
    delay[-1] += 1
    assert grain(delay) == pytest.approx(unit)
    delay[-1] += 0.013
    assert grain(delay) == 0


def test_equal_delays_and_no_delays_show_no_unit():
    times, rows = np.arange(20.0), [["A", "B"] * 10, np.arange(20.0), np.full(20, 0.5)]
    for delay in (np.zeros(20), np.full(20, 5.0)):
        assert bl.Log(*rows, assigned_at=times, delay=delay).evidence().grain == 0.0


def test_doubts_and_checks_share_their_sums(monkeypatch):
    calls, dependence = [], RowEvidence.dependence
    monkeypatch.setattr(RowEvidence, "dependence", lambda rows: calls.append(rows) or dependence(rows))
    log = played(300, 3)
    log.doubts()
    np.testing.assert_array_equal(log.evidence().dependence, dependence(RowEvidence(log)))
    assert len(calls) == 1


def test_many_moments_of_many_arms_are_worth_compiling(monkeypatch):
    announced = []
    monkeypatch.setattr(jit, "ready", announced.append)
    log = bl.Log(np.arange(8), np.arange(8.0), np.full((8, 100), 0.01))
    announced.clear()
    sums_of_rows(log, ("sqrt", "running_mean"), log.even_moments(8), True, ())
    assert sum(announced) > 8 * 100 * 10
