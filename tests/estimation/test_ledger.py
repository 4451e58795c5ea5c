from __future__ import annotations

import copy
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import naive
import numpy as np
import pytest
from contextual_policies import contextual
from experiments import (
    ask,
    assert_same,
    examples,
    experiments,
)
from hypothesis import given
from hypothesis import strategies as st

import belated as bl

HALF = [0.5, 0.5]


@given(experiments(), st.sampled_from([*sorted(bl.ESTIMATORS), "two_point", "past"]))
@examples(60)
def test_ledger_replays_a_log(experiment, name):
    x = experiment
    weights = bl.two_point(len(x.arm), 0.3) if name == "two_point" else "past"
    estimator = bl.ESTIMATORS.get(name) or bl.Estimator(weights)
    ledger = bl.Ledger(range(x.k), *estimator.parts)
    out = set()

    def land(now):
        come = [t for t in out if naive.has_arrived(x.arrived, t, now)]
        ledger.land(come, x.outcome[come])
        out.difference_update(come)

    rows = naive.existing(x.assigned, x.as_of)
    for now in sorted({x.assigned[t] for t in rows}):
        land(now)
        batch = [t for t in rows if x.assigned[t] == now]
        ledger.assign([x.arm[t] for t in batch], x.propensity[batch], keys=batch)
        out.update(batch)
    land(x.as_of)
    planned = ("two_point", len(x.arm), 0.3) if name == "two_point" else name
    twin = x.twin(name if name in bl.ESTIMATORS else (planned, "running_mean", "hajek"))
    assert_same(ask(ledger, estimator), twin)


def test_a_refused_batch_leaves_nothing_behind():
    ledger = bl.Ledger(["A", "B"])
    before = str(ledger)
    for arm, propensity, keys in (
        (["C"], [HALF], None),
        (["A"], [[0.9, 0.9]], None),
        (["A", "B"], [HALF] * 2, ["x", "x"]),
        (["A"], [HALF], [[1]]),
        (["A"], [HALF], [1, 2]),
    ):
        with pytest.raises(bl.LogError):
            ledger.assign(arm, propensity, keys)
    assert str(ledger) == before
    assert ledger.assign(["A"], [HALF]) == [0]


def shared(ledger, threads, batches, rows):
    """Assign and land from several threads at once; return the keys that each was given."""
    rng = np.random.default_rng(1)
    outcomes = rng.integers(0, 3, (threads, batches, rows)).astype(float)
    start = threading.Barrier(threads)

    def work(thread):
        start.wait()
        given = []
        for batch in range(batches):
            keys = ledger.assign(["A", "B"] * (rows // 2), [HALF] * rows)
            given += keys
            sums = ledger.sums
            assert sums["assigned"].sum() % rows == sums["arrived"].sum() % rows == 0
            ledger.land(keys, outcomes[thread, batch])
        return given

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, range(threads))), outcomes


@pytest.mark.parametrize("model", ["zero", "running_mean"])
def test_threads_that_share_a_ledger_lose_nothing(model):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        ledger = bl.Ledger(["A", "B"], "sqrt", model)
        given, outcomes = shared(ledger, threads=4, batches=40, rows=4)
    finally:
        sys.setswitchinterval(interval)
    assert sorted(key for keys in given for key in keys) == list(range(640))
    assert str(ledger) == "Ledger(arms=('A', 'B'), 640 assigned, 640 arrived, 0 out)"
    if model == "zero":  # in any order
        log = bl.Log(["A", "B"] * 320, outcomes.ravel(), [HALF] * 640)
        estimator = bl.Estimator("sqrt", "zero", "hajek")
        assert bl.estimate(ledger, estimator).values == pytest.approx(bl.estimate(log, estimator).values, rel=1e-12)


def test_a_copy_of_a_ledger_goes_its_own_way():
    ledger = bl.Ledger(["A", "B"])
    (first,) = ledger.assign(["A"], [HALF])
    for other in (copy.copy(ledger), copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))):  # noqa: S301
        other.land([first], [2.0])
        other.assign(["B"], [HALF])
        assert str(other) == "Ledger(arms=('A', 'B'), 2 assigned, 1 arrived, 1 out)"
    assert str(ledger) == "Ledger(arms=('A', 'B'), 1 assigned, 0 arrived, 1 out)"


def test_outcomes_land_all_or_not_at_all():
    ledger = bl.Ledger(["A", "B"])
    keys = ledger.assign(["A", "B", "A"], [HALF] * 3)
    for wrong, outcome, row in (
        ([*keys, 9], [1.0] * 4, 3),
        (keys, [1.0, np.nan, 2.0], 1),
        (keys, [1.0, 2.0, 1e61], 2),
        (keys, [1.0, 2.0], None),
    ):
        with pytest.raises(bl.LogError) as caught:
            ledger.land(wrong, outcome)
        assert caught.value.row == row
    assert ledger.sums["arrived"].sum() == 0
    ledger.land(keys[:2], [True, 2.0])
    with pytest.raises(bl.LogError, match="already has an outcome"):
        ledger.land(keys[:1], [1.0])
    with pytest.raises(bl.LogError, match="must be lists"):
        ledger.land(keys[2], 1.0)


def test_keys_of_ones_own_and_numbers_do_not_collide():
    ledger = bl.Ledger(["A", "B"])
    ledger.assign(["A", "B"], [HALF] * 2, ["x", 0])
    assert ledger.assign(["A"], [HALF]) == [1]
    with pytest.raises(bl.LogError, match="which another row without an outcome has"):
        ledger.assign(["A"], [HALF], ["x"])


def test_ledgers_are_merged_by_their_sums():
    parts = [bl.Ledger(["A", "B"], outcome_model="zero") for _ in range(2)]
    rng = np.random.default_rng(0)
    arm, y = rng.integers(0, 2, 40), rng.normal(size=40) + 100
    labels = np.array(["A", "B"])[arm]
    for i, ledger in enumerate(parts):
        part = slice(20 * i, 20 * i + 20)
        ledger.land(ledger.assign(labels[part], [HALF] * 20), y[part])
    whole = bl.estimate(bl.Log(labels, y, [HALF] * 40), "dipw")
    merged = bl.estimate(parts[0].sums + parts[1].sums, "dipw")
    np.testing.assert_allclose(merged.values, whole.values, rtol=1e-13)
    np.testing.assert_allclose(merged.std_errors, whole.std_errors, rtol=1e-10)
    with pytest.raises(AttributeError):
        parts[0].sums = parts[1].sums


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: bl.Ledger(["A", "A"]), "name each arm once"),
        (lambda: bl.Ledger([]), "name each arm once"),
        (lambda: bl.Ledger([["A"], ["B"]]), "name each arm once"),
        (lambda: bl.Ledger(2), "`arms` is 2; it must name each arm once"),
        (lambda: bl.Ledger(["A"], weights=np.ones((1, 1))), "by name"),
        (lambda: bl.Ledger(["A"], weights="two_point"), "with a horizon"),
    ],
)
def test_a_ledger_that_cannot_be(make, sentence):
    with pytest.raises(bl.OptionError, match=sentence):
        make()


# ---------------------------------------------------------------- segments


def replayed(log, weights="sqrt", cap=None, segments=True):
    """A ledger that saw the rows and outcomes of a log in order, step by step."""
    ledger = bl.Ledger(log.arms, weights, cap=cap, segments=segments)
    names = np.array(log.segment_column.labels, object)[log.segment_column.code]
    events = [(t, 1, row) for row, t in enumerate(log.assigned_numbers)]
    events += [(t, 0 if t > log.assigned_numbers[row] else 2, row) for row, t in enumerate(log.arrived_numbers)
               if log.arrived[row]]  # fmt: skip
    for _, kind, row in sorted(events):
        if kind == 1:
            ledger.assign([log.arms[log.code[row]]], log.propensity[[row]], keys=[row], segment=[names[row]])
        else:
            ledger.land([row], [log.outcome[row]])
    return ledger


@pytest.mark.parametrize("weights", ["sqrt", "uniform", "past"])
@pytest.mark.parametrize("cap", [None, 1.0])
def test_a_ledger_with_segments_estimates_as_the_log_does(weights, cap):
    log = contextual(600, 3, policy="thompson", delay=8, seed=2).log.capped(cap)
    assert log.segments == ("S0", "S1", "S2")
    ledger = replayed(log, weights, cap, segments=["S2"] if cap else True)
    whole, live = bl.estimate(log, weights=weights), bl.estimate(ledger, weights=weights)
    assert live.segments == whole.segments
    cells, same = bl.Sums.of(log, weights).segments.cells, live.sums.segments.cells
    np.testing.assert_allclose(same.recentred(cells.shift).own, cells.own, rtol=1e-8, atol=1e-8)
    for one, two in ((live, whole), (live.segment("S1"), whole.segment("S1"))):
        a, b = one.contrast("B", "A"), two.contrast("B", "A")
        np.testing.assert_allclose([a.estimate, a.low, a.high], [b.estimate, b.low, b.high], rtol=1e-8)
    again = pickle.loads(pickle.dumps(ledger))  # noqa: S301  # its own
    other = copy.copy(ledger)
    other.assign(["A"], [HALF], segment=["new"])
    assert str(again) == str(ledger) != str(other)


def test_small_segments_of_a_ledger_are_merged_with_weight_1():
    log = contextual(300, shares=[0.9, 0.05, 0.05], means=np.zeros((3, 2)), delay=0, seed=2).log
    assert log.segments == ("S0", "other")
    ledger = replayed(log)
    assert ledger.sums.segments.labels == ("S0", "other")
    assert ledger.sums.segments.merged == ("S1", "S2")
    one, two = bl.estimate(ledger), bl.estimate(log)
    np.testing.assert_allclose(ledger.sums.segments.cells["w"], bl.Sums.of(log).segments.cells["w"], rtol=1e-10)
    # the running means of merged segments are those of each
    assert one.contrast("B", "A").estimate == pytest.approx(two.contrast("B", "A").estimate, abs=0.02)


def test_outcomes_of_merged_segments_of_a_ledger_count_by_how_likely_they_arrive():
    rng = np.random.default_rng(3)
    segment, pi = rng.integers(0, 10, 150), rng.uniform(0.2, 0.8, 150)
    arm = np.where(rng.random(150) < pi, "B", "A")
    outcome = np.where(rng.random(150) < np.where(segment % 2, 0.3, 1.0), rng.normal(size=150), np.nan)
    log = bl.Log(arm, outcome, np.column_stack([1 - pi, pi]), segment=[f"S{s}" for s in segment])
    assert log.layout.arrival is not None
    whole = bl.Sums.of(log).segments.cells
    live = replayed(log).sums.segments.cells.recentred(whole.shift)
    for name in ("arrived", "y2", "w", "wy", "w2y2", "w3y", "w_max"):
        np.testing.assert_allclose(live[name], whole[name], rtol=1e-9, atol=1e-9)


def test_ledgers_say_what_segments_need():
    with pytest.raises(bl.OptionError, match="made with segments: `assign` needs `segment`"):
        bl.Ledger(["A", "B"], segments=True).assign(["A"], [HALF])
    with pytest.raises(bl.OptionError, match="made without segments: `assign` takes no `segment`"):
        bl.Ledger(["A", "B"]).assign(["A"], [HALF], segment=["DE"])
    with pytest.raises(bl.OptionError, match="two-point"):
        bl.Ledger(["A", "B"], bl.two_point(10), segments=True)
    with pytest.raises(bl.OptionError, match="`segments` is 'DE'"):
        bl.Ledger(["A", "B"], segments="DE")
    ledger = bl.Ledger(["A", "B"], segments=True)
    with pytest.raises(bl.LogError, match="`segment` has 2 rows"):
        ledger.assign(["A"], [HALF], segment=["DE", "FR"])
    ledger.assign(["A", "B"], [HALF] * 2, segment=["DE", None], keys=["x", "y"])
    with pytest.raises(bl.LogError, match="'x', which another row without an outcome has"):
        ledger.assign(["A"], [HALF], segment=["FR"], keys=["x"])
    ledger.land(["y"], [1.0])
    with pytest.raises(bl.LogError, match="already has an outcome"):
        ledger.land(["y"], [1.0])
    assert repr(ledger) == "Ledger(arms=('A', 'B'), 2 assigned, 1 arrived, 1 out)"
    assert ledger.sums.segments.merged == ("DE", "(missing)")
