"""Events in tables: rows whose windows are open, lags, several windows, on every engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from engines import Engine

import belated as bl
from belated.reading import source as sources

DAY = 86_400_000_000


def tables(rows: int = 400, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """Return assignments over 20 days and purchases of their customers."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, 20 * DAY, rows))
    p = np.where(t < 4 * DAY, 0.5, 0.7)
    arm = np.where(rng.random(rows) < p, "B", "A")
    start = np.datetime64("2026-03-01", "us").astype(np.int64)
    unit = np.repeat(np.arange(rows), rng.poisson(0.5, rows))
    when = start + t[unit] + (rng.exponential(3 * DAY, len(unit))).astype(np.int64)
    recorded = when + rng.integers(0, DAY // 4, len(unit))
    sent = pa.table({
        "id": np.arange(rows), "arm": arm, "sent_at": (start + t).view("datetime64[us]"), "p_A": 1 - p, "p_B": p,
        "country": rng.choice(["DE", "FR"], rows), "age": rng.normal(40, 9, rows),
    })  # fmt: skip
    bought = pa.table({
        "id": unit, "bought_at": when.view("datetime64[us]"), "amount": rng.lognormal(0, 1, len(unit)),
        "recorded_at": recorded.view("datetime64[us]"),
    })  # fmt: skip
    return sent, bought


def options(**more: Any) -> dict[str, Any]:
    """Return what `read` is told of these tables."""
    return {"events": "sum", "window": "10d", "as_of": "2026-03-13", "arrived_at": "bought_at", **more}


def in_memory(sent: pa.Table, bought: pa.Table, **more: Any) -> bl.Log:
    """Return the same experiment from arrays."""
    columns = {name: sent[name].to_numpy() for name in ("arm", "sent_at", "p_A", "p_B")}
    events = {"unit": bought["id"].to_numpy(), "time": bought["bought_at"].to_numpy(), "value": bought["amount"]}
    return bl.Log.of_events(
        columns["arm"], np.column_stack([columns["p_A"], columns["p_B"]]), events,
        **{"window": "10d", "as_of": "2026-03-13", "assigned_at": columns["sent_at"], "measure": "sum", **more},
    )  # fmt: skip


@pytest.mark.parametrize("measure", ["indicator", "count", "sum"])
def test_a_table_says_what_arrays_say(measure: Any) -> None:
    sent, bought = tables()
    read, log = bl.read(sent, bought, **options(events=measure)), in_memory(sent, bought, measure=measure)
    ours, theirs = bl.estimate(read), bl.estimate(log)
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-12)
    np.testing.assert_allclose(ours.std_errors, theirs.std_errors, rtol=1e-12)
    closed = bl.read(sent, bought, **options(events=measure, maturing=False))
    np.testing.assert_allclose(bl.estimate(closed).values, bl.estimate(log.closed()).values, rtol=1e-12)
    np.testing.assert_allclose(bl.estimate(read.closed()).values, bl.estimate(closed).values, rtol=1e-12)
    assert bl.estimate(closed).std_errors[0] > 1.1 * ours.std_errors[0]


@pytest.mark.parametrize("lengths", [{"window": 3.5}, {"window": 4, "lag": 1.3}, {"window": 4, "as_of": 29.5}])
def test_whole_steps_with_fractions_of_a_step_in_lengths_or_events(lengths: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    step, unit = np.sort(rng.integers(0, 40, 200)), rng.integers(0, 200, 150)
    when = step[unit] + (rng.uniform(0, 6, 150).round(3) if "as_of" in lengths else rng.integers(0, 6, 150))
    sent = pa.table({"id": np.arange(200), "arm": rng.choice(["A", "B"], 200), "step": step})
    bought = pa.table({"id": unit, "bought_at": when})
    lengths = {"as_of": 30, **lengths}
    read = bl.read(sent, bought, events="count", propensity="uniform", **lengths)
    log = bl.Log.of_events(
        sent["arm"], "uniform", {"unit": unit, "time": when}, measure="count", assigned_at=step, **lengths
    )
    for ours, theirs in ((read, log), (read.log().closed(), log.closed())):
        np.testing.assert_allclose(bl.estimate(ours).values, bl.estimate(theirs).values, rtol=1e-12)


def test_events_in_the_table_of_assignments() -> None:
    sent, bought = tables()
    columns = [bought[name].to_pylist() for name in ("id", "bought_at", "amount")]
    first = {unit: (when, amount) for unit, when, amount in zip(*columns, strict=True)}
    wide = sent.append_column("bought_at", pa.array([first.get(i, (None, None))[0] for i in range(len(sent))]))
    wide = wide.append_column("amount", pa.array([first.get(i, (None, None))[1] for i in range(len(sent))]))
    long = pa.table({
        "id": list(first), "bought_at": [when for when, _ in first.values()],
        "amount": [amount for _, amount in first.values()],
    })  # fmt: skip
    one = bl.estimate(bl.read(wide, **options(outcome="amount")))
    other = bl.estimate(bl.read(sent, long, **options(outcome="amount")))
    np.testing.assert_allclose(one.values, other.values, rtol=1e-12)


def test_an_event_at_the_moment_of_its_assignment_counts() -> None:
    when = np.datetime64("2026-03-01T00:00:00.123456789", "ns") + np.arange(40) * np.timedelta64(
        3_600_000_000_001, "ns"
    )
    table = pa.table({
        "arm": ["A", "B"] * 20, "p_A": [0.5] * 40, "p_B": [0.5] * 40, "sent_at": when,
        "bought_at": pa.array([t if i % 4 < 2 else None for i, t in enumerate(when)], pa.timestamp("ns")),
        "amount": [1.0] * 40,
    })  # fmt: skip
    source = bl.read(table, **options(events="indicator", outcome="amount", as_of="2026-03-20"))
    np.testing.assert_allclose(bl.estimate(source).values, [0.5, 0.5])


def test_every_precision_of_times_says_the_same() -> None:
    names = ("sent_at", "bought_at")

    def at(unit: str, tables: list[pa.Table]) -> list[pa.Table]:
        return [
            table.set_column(table.column_names.index(name), name, table[name].cast(pa.timestamp(unit), safe=False))
            for table, name in zip(tables, names, strict=True)
        ]

    whole = at("s", list(tables()))
    for maturing in (True, False):
        coarse = bl.estimate(bl.read(*whole, **options(maturing=maturing)), "dipw")
        for unit in ("ms", "us", "ns"):
            fine = bl.estimate(bl.read(*at(unit, whole), **options(maturing=maturing)), "dipw")
            np.testing.assert_allclose(fine.values, coarse.values, rtol=1e-12)
            np.testing.assert_array_equal(fine.assigned, coarse.assigned)


def test_every_engine_says_the_same(engine: Engine) -> None:
    """Engines that are not copied add up rows by period, which is as good as exact for few rows."""
    sent, bought = tables()
    first, second = engine.table(sent), engine.table(bought)
    for more in ({"segment": "country"},) if engine.name == "spark" else ({}, {"segment": "country"}):
        estimate = bl.estimate(bl.read(first, second, **options(**more)))
        expected = bl.estimate(bl.read(sent, bought, **options(**more)))
        np.testing.assert_allclose(estimate.values, expected.values, rtol=1e-4)
        np.testing.assert_allclose(estimate.std_errors, expected.std_errors, rtol=1e-3)
        assert estimate.maturity is not None
        assert expected.maturity is not None
        np.testing.assert_array_equal(estimate.maturity.events, expected.maturity.events)


@pytest.mark.parametrize("column", ["covariates", "arrival_probability"])
def test_what_needs_the_rows_brings_them_from_every_engine(engine: Engine, column: str) -> None:
    sent, bought = tables()
    sent = sent.append_column("chance", pa.array([0.5 if i % 3 else 1.0 for i in range(sent.num_rows)]))
    more = options(**{column: "age" if column == "covariates" else "chance"})
    estimate = bl.estimate(bl.read(engine.table(sent), engine.table(bought), **more))
    expected = bl.estimate(bl.read(sent, bought, **more))
    np.testing.assert_allclose(estimate.values, expected.values, rtol=1e-9)
    np.testing.assert_allclose(estimate.std_errors, expected.std_errors, rtol=1e-9)


@pytest.mark.parametrize("more", [{}, {"events": "indicator"}, {"cap": 1.5}, {"segment": "country"}, {"lag": "6h"}])
def test_rows_added_up_by_period_say_what_rows_say(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    sent, bought = tables(3000)
    exact = bl.read(sent, bought, **options(**more))
    ours = bl.estimate(exact)
    path = bl.trajectory(exact, at=["2026-03-12", "2026-03-13"])
    curve = ours.buildup(4)
    monkeypatch.setattr(sources, "MOST_MATURING", 0)
    grouped = bl.read(sent, bought, **options(**more))
    theirs = bl.estimate(grouped)
    for one, other in zip(ours.arm_answers, theirs.arm_answers, strict=True):
        np.testing.assert_allclose([other.estimate, other.std_error, other.low, other.high],
                                   [one.estimate, one.std_error, one.low, one.high], rtol=1e-3)  # fmt: skip
    np.testing.assert_allclose(theirs.values, ours.values, rtol=1e-4)
    for one, other in zip(
        path.estimates, bl.trajectory(grouped, at=["2026-03-12", "2026-03-13"]).estimates, strict=True
    ):
        np.testing.assert_allclose(other.values, one.values, rtol=1e-4)
    for one, other in zip(curve.estimates, theirs.buildup(4).estimates, strict=True):
        np.testing.assert_allclose(other.values, one.values, rtol=1e-4)
    if ours.sums.cap is not None:
        assert theirs.sums.cap is not None
        np.testing.assert_array_equal(theirs.sums.cap.above, ours.sums.cap.above)


def test_covariates_of_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, bought = tables()
    assert bl.estimate(bl.read(sent, bought, **options(covariates="age"))).arms == ("A", "B")
    monkeypatch.setattr(sources, "MOST_HELD", 10)
    with pytest.raises(bl.LogError, match="Covariates need the rows of events in memory"):
        bl.estimate(bl.read(sent, bought, **options(covariates="age")))


def test_the_probability_of_arrival_is_never_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, bought = tables()
    sent = sent.append_column("chance", pa.array([0.5 if i % 3 else 1.0 for i in range(sent.num_rows)]))
    more = options(arrival_probability="chance")
    wanted = bl.estimate(bl.read(sent, bought, **more)).values.tolist()
    assert wanted != bl.estimate(bl.read(sent, bought, **options())).values.tolist()
    monkeypatch.setattr(sources, "MOST_MATURING", 10)
    assert bl.estimate(bl.read(sent, bought, **more)).values.tolist() == wanted
    monkeypatch.setattr(sources, "MOST_HELD", 10)
    with pytest.raises(bl.LogError, match=r"^`arrival_probability` needs the rows of events in memory"):
        bl.estimate(bl.read(sent, bought, **more))


FAULTS: dict[str, tuple[str, int, float | None, str]] = {
    "negative": ("p_A", 3, -0.1, r"`propensity` in the row of key 3 for arm 'A' is -0.1"),
    "sum": ("p_A", 3, 0.9, r"`propensity` in the row of key 3 sums to 1\.4"),
    "missing": ("p_A", 3, None, r"`propensity` in the row of key 3 for arm 'A' is nan"),
    "time": ("sent_at", 3, None, r"`assigned_at` in the row of key 3 is missing"),
    "large": ("amount", 1, 1e300, r"`outcome` in the row of key 3 is 1e\+300"),
    "infinite": ("amount", 1, math.inf, r"`outcome` in the row of key 3 is inf"),
    "open": (
        "amount",
        13,
        math.inf,
        r"`outcome` (in the row of key 39|of an event) is inf; it must be a finite",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("ask", [bl.estimate, bl.diagnose])
def test_rows_that_cannot_be_are_refused(engine: Engine, fault: str, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they are in memory, or added up by period."""
    sent: dict[str, list[Any]] = {
        "id": list(range(40)), "arm": ["A", "B"] * 20, "sent_at": list(range(40)), "p_A": [0.5] * 40, "p_B": [0.5] * 40
    }  # fmt: skip
    bought: dict[str, list[Any]] = {
        "id": list(range(0, 40, 3)), "bought_at": list(range(2, 42, 3)), "amount": [2.0] * 14
    }  # fmt: skip
    column, row, wrong, sentence = FAULTS[fault]
    (sent if column in sent else bought)[column][row] = wrong
    tables = engine.table(sent), engine.table(bought)
    asked = {"key": "id", "events": "sum", "outcome": "amount", "window": 9, "as_of": 41}
    for most in (1_000_000, 0) if engine.name == "duckdb" else (0,):
        monkeypatch.setattr(sources, "MOST_MATURING", most)
        with pytest.raises(bl.LogError, match=f"^{sentence}"):
            ask(bl.read(*tables, **asked))


def test_several_windows() -> None:
    sent, bought = tables()
    source = bl.read(sent, bought, **options(window=None, windows=["1d", "10d", "3d"]))
    windows = bl.estimate(source).windows(source.windows)
    assert list(windows) == ["1 day", "3 days", "10 days"]
    assert windows["3d"].values.tolist() == bl.estimate(source).window("3d").values.tolist()
    with pytest.raises(bl.OptionError, match="both given"):
        bl.read(sent, bought, **options(windows=["1d"]))
    with pytest.raises(bl.OptionError, match="must be a list"):
        bl.read(sent, bought, **options(window=None, windows="1d"))
    with pytest.raises(bl.OptionError, match="mixes durations and steps"):
        bl.read(sent, bought, **options(window=None, windows=["1d", 3]))


def test_a_lag_is_given_or_learned() -> None:
    sent, bought = tables()
    given = bl.read(sent, bought, **options(lag="6h"))
    np.testing.assert_allclose(bl.estimate(given).values, bl.estimate(in_memory(sent, bought, lag="6h")).values)
    learned = bl.read(sent, bought, **options(recorded_at="recorded_at"))
    assert any("The lag from event to record is taken as 5." in note for note in learned.notes)
    assert learned.query.lag is not None
    assert 5.5 * DAY / 24 < learned.query.lag.length < 6 * DAY / 24
    late = bl.read(sent, bought, **options(recorded_at="recorded_at", lag="3h"))
    assert any("were recorded more than 3 hours after happening" in note for note in late.notes)
    with pytest.raises(bl.OptionError, match="`lag` is 3 steps, but the times are datetimes"):
        bl.read(sent, bought, **options(lag=3))
    with pytest.raises(bl.OptionError, match="`lag` is given without `events`"):
        bl.read(sent, lag="3h")


def test_before_a_window_closes_there_is_an_answer() -> None:
    sent, bought = tables()
    estimate = bl.estimate(bl.read(sent, bought, **options(as_of="2026-03-06")))
    assert estimate.maturity is not None
    assert estimate.maturity.window < estimate.maturity.asked
    with pytest.raises(bl.LogError, match="No window of 10 days has closed yet"):
        bl.read(sent, bought, **options(as_of="2026-03-06", maturing=False))


def test_a_source_in_memory_and_in_files_is_as_its_table() -> None:
    sent, bought = tables()
    source = bl.read(sent, bought, **options())
    log = source.log()
    np.testing.assert_allclose(bl.estimate(log).values, bl.estimate(source).values, rtol=1e-12)
    assert log.is_maturing
    assert source.is_maturing
    assert "of windows closed" in str(source)
    assert [c.light for c in bl.diagnose(source).checks] == [c.light for c in bl.diagnose(log).checks]


def test_rows_assigned_at_the_same_time_are_read_in_one_order(engine: Engine) -> None:
    sent, bought = tables(600)
    dates = sent["sent_at"].cast("date32").cast("timestamp[us]")
    sent = sent.set_column(2, "sent_at", dates)
    rng, answers = np.random.default_rng(3), set()
    for _ in range(2):  # engines give rows that are alike in another order each time
        first, second = (each.take(rng.permutation(len(each))) for each in (sent, bought))
        log = bl.read(engine.table(first), outcomes=engine.table(second), **options()).log()
        answers.add((tuple(log.code.tolist()), bl.diagnose(log).to_json(), bl.estimate(log).to_json()))
    assert len(answers) == 1
