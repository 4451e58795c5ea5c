"""Logs of events: reading them, windows that are open, and what answers say of them."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
from belated.log.events import Events
from tests.naive.maturing import Row, mean_and_variance


def drawn(rows: int = 600, seed: int = 1, **options: Any) -> tuple[bl.Log, dict[str, Any]]:
    """Return a log of events over 20 days, as of day 12, and its columns."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 20, rows))
    p = np.where(t[:, None] < 4, [0.5, 0.5], [0.3, 0.7])
    arm = np.where(rng.random(rows) < p[:, 1], "B", "A")
    number = rng.poisson(0.4, rows)
    unit = np.repeat(np.arange(rows), number)
    age = rng.exponential(3.0, len(unit))
    value = rng.lognormal(0, 1, len(unit)).round(2)
    columns = {"arm": arm, "p": p, "t": t, "unit": unit, "age": age, "value": value}
    given_ = {"window": 10.0, "as_of": 12.0, "assigned_at": t, **options}
    return bl.Log.of_events(arm, p, {"unit": unit, "age": age, "value": value}, **given_), columns


@pytest.mark.parametrize("measure", ["indicator", "count", "sum"])
@pytest.mark.parametrize("weights", ["sqrt", "uniform", "propensity"])
def test_estimates_are_those_of_the_formula(measure: Any, weights: Any) -> None:
    log, columns = drawn(measure=measure)
    estimate = bl.estimate(log, weights=weights)
    power = {"sqrt": -0.5, "uniform": -1.0, "propensity": 0.0}[weights]
    for k, arm in enumerate(("A", "B")):
        rows = []
        for i in np.flatnonzero((columns["arm"] == arm) & (columns["t"] <= 12)):
            own = np.flatnonzero(columns["unit"] == i)
            own = own[np.argsort(columns["age"][own])]
            events = [(columns["age"][j], columns["value"][j] if measure == "sum" else 1.0) for j in own]
            events = events[:1] if measure == "indicator" else events
            rows.append(Row(columns["p"][i, k] ** power, 12 - columns["t"][i], events))
        mean, variance = mean_and_variance(rows, 10.0)
        assert estimate.arm(arm).estimate == pytest.approx(mean, rel=1e-10)
        assert estimate.variances[k] == pytest.approx(variance, rel=1e-10)


@pytest.mark.parametrize("measure", ["indicator", "count", "sum"])
def test_with_every_window_closed_it_is_dipw(measure: Any) -> None:
    log, _ = drawn(measure=measure, as_of=40.0)
    ours, theirs = bl.estimate(log), bl.estimate(log.closed(), "dipw")
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-10)
    for arm in log.arms:
        a, b = ours.arm(arm), theirs.arm(arm)
        np.testing.assert_allclose([a.low, a.high, a.std_error], [b.low, b.high, b.std_error], rtol=1e-10)
    a, b = ours.contrast("B", "A"), theirs.contrast("B", "A")
    np.testing.assert_allclose([a.low, a.high, a.p_value], [b.low, b.high, b.p_value], rtol=1e-10)


def test_events_in_an_arrow_table_are_those_in_a_mapping() -> None:
    log, columns = drawn(60)
    events = pa.table({name: columns[name] for name in ("unit", "age", "value")})
    other = bl.Log.of_events(columns["arm"], columns["p"], events, window=10.0, as_of=12.0, assigned_at=columns["t"])
    np.testing.assert_array_equal(bl.estimate(other).values, bl.estimate(log).values)


@settings(deadline=None, max_examples=20)
@given(scale=st.sampled_from([1e-6, 0.01, 100.0, 1e9]), seed=st.integers(0, 50))
def test_the_unit_of_values_changes_nothing_but_units(scale: float, seed: int) -> None:
    one, columns = drawn(200, seed, measure="sum")
    events = {"unit": columns["unit"], "age": columns["age"], "value": columns["value"] * scale}
    other = bl.Log.of_events(columns["arm"], columns["p"], events, window=10.0, as_of=12.0, assigned_at=columns["t"])
    a, b = bl.estimate(one).contrast("B", "A"), bl.estimate(other).contrast("B", "A")
    np.testing.assert_allclose([b.estimate, b.low, b.high], np.array([a.estimate, a.low, a.high]) * scale, rtol=1e-8)
    assert b.p_value == pytest.approx(a.p_value, rel=1e-8)


def test_the_unit_of_time_changes_nothing() -> None:
    log, columns = drawn()
    start = np.datetime64("2026-03-01", "us")
    when = start + (columns["t"] * 86400e6).astype("timedelta64[us]")
    happened = when[columns["unit"]] + (columns["age"] * 86400e6).astype("timedelta64[us]")
    events = {"unit": columns["unit"], "time": happened, "value": columns["value"]}
    dated = bl.Log.of_events(columns["arm"], columns["p"], events, window="10d", as_of="2026-03-13", assigned_at=when)
    np.testing.assert_allclose(bl.estimate(dated).values, bl.estimate(log).values, rtol=1e-9)
    assert dated.within == "10 days"


@pytest.mark.parametrize("way", ["age", "time", "table"])
def test_an_event_as_the_window_closes_counts_however_times_round(way: str) -> None:
    t = np.random.default_rng(0).uniform(0, 100, 200)
    unit = np.arange(100)
    if way == "table":
        rows = pa.table({"unit": np.arange(200), "arm": ["A"] * 200, "p": np.ones(200), "at": t})
        table = bl.read(
            rows, pa.table({"unit": unit, "bought_at": t[:100] + 7}), arm="arm", propensity="p", assigned_at="at",
            arrived_at="bought_at", key="unit", events=True, window=7, as_of=120,
        )  # fmt: skip
        assert bl.estimate(table).arm("A").estimate == pytest.approx(0.5, rel=1e-12)
        return
    events = {"unit": unit, "age": np.full(100, 7.0)} if way == "age" else {"unit": unit, "time": t[:100] + 7}
    log = bl.Log.of_events(["A"] * 200, "uniform", events, assigned_at=t, window=7, arms=["A"], as_of=120)
    assert bl.estimate(log).arm("A").estimate == pytest.approx(0.5, rel=1e-12)


def test_a_lag_makes_rows_younger() -> None:
    lagged, _ = drawn(lag=1.5)
    earlier, _ = drawn(as_of=10.5)
    a, b = bl.estimate(lagged), bl.estimate(earlier)
    np.testing.assert_allclose(a.values, b.values, rtol=1e-12)
    np.testing.assert_allclose(a.std_errors, b.std_errors, rtol=1e-12)


def test_a_shorter_window_is_that_of_a_log_with_that_window() -> None:
    log, _ = drawn()
    shorter, _ = drawn(window=3.0)
    np.testing.assert_allclose(bl.estimate(log).window(3.0).values, bl.estimate(shorter).values, rtol=1e-12)
    both = bl.estimate(log).windows([10.0, 3.0])
    assert list(both) == ["3 steps", "10 steps"]
    with pytest.raises(bl.OptionError, match="must be positive and at most 10 steps"):
        bl.estimate(log).window(11.0)


def test_a_cap_is_on_the_total_of_a_row() -> None:
    log, columns = drawn(measure="sum", as_of=40.0, cap=2.0)
    total = np.bincount(columns["unit"][columns["age"] <= 10], columns["value"][columns["age"] <= 10], 600)
    plain = bl.Log(columns["arm"], np.minimum(total, 2.0), columns["p"])
    np.testing.assert_allclose(bl.estimate(log).values, bl.estimate(plain, "dipw").values, rtol=1e-12)
    still, _ = drawn(measure="sum", cap=2.0)
    assert (bl.estimate(still).values < bl.estimate(drawn(measure="sum")[0]).values).all()
    with pytest.raises(bl.OptionError, match="needs no cap"):
        drawn(measure="indicator", cap=2.0)
    with pytest.raises(bl.OptionError, match="needs no cap"):
        bl.estimate(drawn(measure="indicator")[0], cap=2.0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 6)), max_size=12), st.integers(-2, 8))
def test_capped_values_add_up_to_the_capped_totals(events: list[tuple[int, int]], cap: int) -> None:
    row = np.array([r for r, _ in events], dtype=int)
    value = np.array([v for _, v in events], dtype=float)
    known = Events.of(row, np.arange(len(row), dtype=float), value, 100.0, "sum")
    added = np.bincount(known.row, known.capped(float(cap)), 4)
    there = np.isin(np.arange(4), row)
    total = np.bincount(row, value, 4) if len(row) else np.zeros(4)
    np.testing.assert_allclose(added[there] + min(cap, 0), np.minimum(total, cap)[there])


@pytest.mark.parametrize("segment", [None, np.tile(["x", "y"], 300)])
def test_a_shorter_window_keeps_the_cap(segment: Any) -> None:
    capped, _ = drawn(cap=2.0, segment=segment)
    shorter, _ = drawn(window=3.0, cap=2.0, segment=segment)
    est = bl.estimate(capped)
    assert str(est.window(3.0)) == str(bl.estimate(shorter))
    assert "capped at 2" in str(est.window(3.0))


def test_before_any_window_closes_the_capped_rows_are_those_of_the_longest_age() -> None:
    events = {"unit": [0, 1, 2], "age": [3, 1, 1], "value": [9.0, 9.0, 1.0]}
    given_ = {"cap": 2.0, "assigned_at": [0, 0, 2, 2], "as_of": 4}
    cut = bl.estimate(bl.Log.of_events(list("AABB"), "uniform", events, window=10, **given_))
    asked = bl.estimate(bl.Log.of_events(list("AABB"), "uniform", events, window=2, **given_))
    assert cut.sums.cap.above.tolist() == asked.sums.cap.above.tolist() == [1, 0]


def test_before_any_window_closes_the_answer_is_for_the_longest_age() -> None:
    log, _ = drawn(as_of=6.0)
    estimate = bl.estimate(log)
    assert estimate.maturity is not None
    assert 5.5 < estimate.maturity.window < 6.0
    assert estimate.maturity.asked == 10.0
    assert "No row of some arm has lived 10 steps yet" in str(estimate)
    assert "which enough rows have lived" in str(estimate)


def test_a_trajectory_has_the_estimates_of_its_moments() -> None:
    log, _ = drawn()
    path = bl.trajectory(log, at=[11.0, 12.0])
    for moment, estimate in zip((11.0, 12.0), path.estimates, strict=True):
        np.testing.assert_allclose(estimate.values, bl.estimate(log.at(moment)).values, rtol=1e-12)
    assert np.isnan(bl.trajectory(log, at=[8.0, 12.0]).estimates[0].values).all()
    assert min(log.even_moments(4)) > 10.0


def test_segments_and_covariates() -> None:
    _, columns = drawn(900)
    rng = np.random.default_rng(2)
    segment, x = rng.choice(["DE", "FR"], 900), rng.normal(size=900)
    events = {"unit": columns["unit"], "age": columns["age"]}
    options: dict[str, Any] = {"window": 6.0, "as_of": 12.0, "measure": "count"}
    log = bl.Log.of_events(
        columns["arm"], columns["p"], events, assigned_at=columns["t"], segment=segment, covariates={"x": x}, **options
    )
    estimate = bl.estimate(log)
    assert estimate.segments == ("DE", "FR")
    plain = bl.Log.of_events(columns["arm"], columns["p"], events, assigned_at=columns["t"], segment=segment, **options)
    rows = np.flatnonzero(segment == "DE")
    place = np.full(900, -1)
    place[rows] = np.arange(len(rows))
    own = place[columns["unit"]] >= 0
    alone = bl.Log.of_events(
        columns["arm"][rows], columns["p"][rows],
        {"unit": place[columns["unit"]][own], "age": columns["age"][own]}, assigned_at=columns["t"][rows], **options,
    )  # fmt: skip
    one, other = bl.estimate(plain).segment("DE"), bl.estimate(alone)
    np.testing.assert_allclose(one.values, other.values, rtol=1e-12)
    np.testing.assert_allclose(one.std_errors, other.std_errors, rtol=1e-12)
    assert one.maturity is not None
    assert "events" in one.to_text()
    assert estimate.heterogeneity("B", "A").p_value > 1e-6


def test_only_estimators_without_an_outcome_model() -> None:
    log, _ = drawn()
    assert bl.estimate(log).estimator.name == "dipw"
    with pytest.raises(bl.OptionError, match="need closed windows"):
        bl.estimate(log, "daipw")
    names = list(bl.compare(log))
    assert names == ["dipw", "mean", "hajek", "daipw, closed only", "dipw, closed only"]


def test_two_point_weights_need_the_rows_and_get_them() -> None:
    log, _ = drawn(as_of=40.0)
    ours = bl.estimate(log, "dipw", weights="two_point")
    theirs = bl.estimate(log.closed(), "dipw", weights="two_point")
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-10)


def test_sums_of_open_windows_cannot_be_merged() -> None:
    log, _ = drawn()
    sums = bl.estimate(log).sums
    with pytest.raises(bl.MergeError, match="merge the logs"):
        sums + sums


def test_an_estimate_can_be_pickled() -> None:
    estimate = bl.estimate(drawn()[0])
    again = pickle.loads(pickle.dumps(estimate))  # noqa: S301
    np.testing.assert_array_equal(again.window(3.0).values, estimate.window(3.0).values)


def test_units_may_have_names() -> None:
    log = bl.Log.of_events(
        ["A", "B", "A", "A", "B"], "uniform", {"unit": ["x", "y"], "age": [2, 1]}, unit=["x", "y", "z", "u", "v"],
        assigned_at=[0, 0, 0, 6, 0], window=5, as_of=8,
    )  # fmt: skip
    assert bl.estimate(log).arm("A").estimate == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("events", "options", "words"),
    [
        ({"unit": [0]}, {}, "must have `unit`"),
        ({"unit": [0], "age": [1], "time": [2]}, {}, "either `age`"),
        ({"unit": [9], "age": [1]}, {}, "row numbers from 0 to 2"),
        ({"unit": ["q"], "age": [1]}, {"unit": ["x", "y", "z"]}, "which no row has"),
        ({"unit": ["x"], "age": [1]}, {"unit": ["x", "x", "z"]}, "different in every row"),
        ({"unit": [0], "age": [1]}, {"measure": "sum"}, "has no `value`"),
        ({"unit": [0, 1], "age": [1]}, {}, "another length"),
        ({"unit": [0], "age": [math.nan]}, {}, "has no time"),
        ({"unit": [0], "age": [1], "value": [math.inf]}, {}, "must be a number"),
        ([1, 2], {}, "must be a dataframe or a mapping"),
    ],
)
def test_what_is_wrong_is_said(events: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(bl.LogError, match=words):
        bl.Log.of_events(["A", "B", "A"], [0.5] * 3, events, window=5, **options)


def test_rows_that_have_not_lived_say_nothing() -> None:
    log = bl.Log.of_events(["A", "B"] * 3, [0.5] * 6, {"unit": [0], "age": [1]}, window=5, lag=9, as_of=6)
    with pytest.raises(bl.LogError, match="has lived beyond its assignment and its lag of 9 steps"):
        bl.estimate(log)


def test_a_window_must_be_of_the_kind_of_the_times() -> None:
    with pytest.raises(bl.OptionError, match="but the times are numbers"):
        bl.Log.of_events(["A", "B"], [0.5] * 2, {"unit": [0], "age": [1]}, window="7d")


def test_coverage_while_windows_are_open() -> None:
    """Epsilon-greedy on events so far, arms of different speeds: misses of 95 % intervals by a binomial bound."""
    runs, missed = 150, np.zeros(3, int)
    rates, speeds = np.array([0.15, 0.2]), np.array([2.0, 5.0])
    truth = rates * (1 - np.exp(-10 / speeds))
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        t = np.sort(rng.uniform(0, 12, 700))
        arm, p, happens = np.zeros(700, int), np.zeros((700, 2)), np.full(700, math.inf)
        for day in range(12):
            now, past = np.floor(t) == day, t < day
            best = 0 if day == 0 else int(np.argmax([
                np.mean(happens[past & (arm == k)] <= day) if (past & (arm == k)).any() else 0.0 for k in range(2)
            ]))  # fmt: skip
            p[now] = 0.5 if day == 0 else np.where(np.arange(2) == best, 0.8, 0.2)
            arm[now] = rng.random(now.sum()) < p[now, 1]
            converts = rng.random(now.sum()) < rates[arm[now]]
            happens[now] = np.where(converts, t[now] + rng.exponential(speeds[arm[now]]), math.inf)
        own = np.flatnonzero(np.isfinite(happens))
        log = bl.Log.of_events(
            arm, p, {"unit": own, "time": happens[own]}, arms=[0, 1], assigned_at=t, window=10.0, as_of=12.0
        )
        estimate = bl.estimate(log)
        answers = [estimate.arm(0), estimate.arm(1), estimate.contrast(1, 0)]
        for i, (answer, value) in enumerate(zip(answers, [*truth, truth[1] - truth[0]], strict=True)):
            missed[i] += not answer.low <= value <= answer.high
    assert (missed <= 17).all()  # 5 % of 150 is 7.5; 17 or more has a chance of 0.2 %


@pytest.mark.parametrize(
    ("age", "latest"), [([1, 3], 5), ([1, 30], 32), ([2.5, 1], 4), ([2.5, 2.5], 4.5), ([0, 0.5], 4), ([], 4)]
)
@pytest.mark.parametrize("lag", [None, 2])
def test_events_are_known_up_to_the_latest_time_of_any_assignment_or_event(age: Any, latest: float, lag: Any) -> None:
    """As in tables: also of one that does not count, as it comes after the window or after another of its unit."""
    assigned, own = [0, 2, 4], [0, 1][: len(age)]
    events = {"unit": own, "time": [assigned[i] + each for i, each in zip(own, age, strict=True)]}
    log = bl.Log.of_events(["A", "B", "A"], "uniform", events, window=5, lag=lag, assigned_at=assigned)
    sent = pd.DataFrame({"id": [0, 1, 2], "arm": ["A", "B", "A"], "at": assigned})
    bought = pd.DataFrame({"id": own, "when": events["time"]})
    read = bl.read(
        sent,
        bought,
        events=True,
        window=5,
        lag=lag,
        key="id",
        assigned_at="at",
        arrived_at="when",
        propensity="uniform",
    )
    assert log.moment == read.moment == latest


def test_closed_windows_have_covariates_of_their_own() -> None:
    """A missing covariate counts as the mean of the rows whose window has closed, as in tables."""
    rng, t = np.random.default_rng(3), np.arange(60)
    x = np.where(t % 6 == 1, np.nan, rng.normal(size=60) + t / 10)
    arm, unit = np.array(["A", "B"] * 30), rng.choice(60, 30, replace=False)
    options: dict[str, Any] = {"window": 5, "as_of": 40}
    log = bl.Log.of_events(
        arm, "uniform", {"unit": unit, "time": t[unit] + 2}, assigned_at=t, covariates={"x": x}, **options
    )
    sent, bought = pd.DataFrame({"id": t, "arm": arm, "at": t, "x": x}), pd.DataFrame({"id": unit, "when": t[unit] + 2})
    named = {"key": "id", "assigned_at": "at", "arrived_at": "when", "propensity": "uniform", "covariates": "x"}
    read = bl.read(sent, bought, events=True, maturing=False, **named, **options)
    assert bl.estimate(log.closed()).values == pytest.approx(bl.estimate(read).values, rel=1e-12)


@pytest.mark.parametrize(("measure", "unit"), [("indicator", "percent"), ("count", "number"), ("sum", "number")])
@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.filterwarnings("ignore::belated.base.errors.BelatedWarning")
def test_events_have_one_unit_in_all_results(measure: Any, unit: str, happened: bool) -> None:
    rng, rows = np.random.default_rng(1), 400
    own = np.flatnonzero(rng.random(rows) < 0.3 * happened)  # at most one event, of value 1
    events = {"unit": own, "age": rng.uniform(0, 3, len(own)), "value": np.ones(len(own))}
    log = bl.Log.of_events(
        np.where(rng.random(rows) < 0.5, "A", "B"), np.full((rows, 2), 0.5), events, measure=measure,
        assigned_at=np.sort(rng.uniform(0, 20, rows)), window=5.0, as_of=18.0, segment=np.arange(rows) % 2,
    )  # fmt: skip
    closed = log.closed()
    assert {bl.estimate(log).unit, bl.estimate(closed).unit, bl.trajectory(closed, at=3)[-1].unit} == {unit}
    assert {estimate.unit for estimate in bl.compare(log).estimates.values()} == {unit}
    difference = "number" if unit == "number" else "points"
    assert {bl.sequence(each).contrast("B", "A").unit for each in (log, closed)} == {difference}
    assert bl.sequence(closed, segment=0).contrast("B", "A").unit == difference
    assert bl.sensitivity(log, ("B", "A")).unit == difference
    assert closed.outcome_name == log.outcome_name
