"""What `read` makes of tables, on every engine, against the same experiment as a `Log` in memory."""

from __future__ import annotations

import datetime as dt
import json
import math
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import belated as bl
from belated.estimation.estimators import ESTIMATORS
from belated.reading.engines import DuckDB

START = dt.datetime(2026, 3, 1)


@dataclass(frozen=True)
class Experiment:
    """An experiment as columns, with batches, ties, arrivals at once, late and never."""

    arm: np.ndarray
    outcome: np.ndarray
    propensity: np.ndarray
    assigned: np.ndarray
    delay: np.ndarray  # NaN: never
    labels: tuple

    @classmethod
    def drawn(cls, seed, rows=300, labels=("A", "B", "C"), mean=5.0, binary=False):
        rng = np.random.default_rng(seed)
        n = len(labels)
        propensity = 0.9 * rng.dirichlet(np.ones(n), rows) + 0.1 / n
        propensity /= propensity.sum(axis=1, keepdims=True)
        arm = np.array([rng.choice(n, p=p) for p in propensity])
        assigned = np.sort(rng.integers(1, rows // 2, rows))
        delay = np.where(rng.random(rows) < 0.3, 0, rng.integers(0, rows // 3, rows)).astype(float)
        delay[rng.random(rows) < 0.2] = np.nan
        outcome = rng.random(rows) < 0.3 + 0.1 * arm if binary else rng.normal(mean + 0.3 * arm, 1)
        outcome = np.where(np.isnan(delay), np.nan, outcome)
        return cls(arm, outcome, propensity, assigned, delay, labels)

    def log(self, as_of=None, chosen=False, times="steps"):
        propensity = self.propensity[np.arange(len(self.arm)), self.arm] if chosen else self.propensity
        assigned, arrived = self.times(times)
        return bl.Log(
            [self.labels[a] for a in self.arm], self.outcome, propensity, arms=self.labels, assigned_at=assigned,
            arrived_at=arrived, as_of=as_of,
        )  # fmt: skip

    def times(self, kind):
        arrived_at = self.assigned + self.delay
        if kind == "steps":
            return self.assigned.tolist(), [None if np.isnan(c) else int(c) for c in arrived_at]
        if kind == "numbers":
            return (self.assigned / 4).tolist(), [None if np.isnan(c) else c / 4 for c in arrived_at]
        step = dt.timedelta(hours=7, microseconds=1)
        zone = dt.UTC if kind == "zoned" else None
        start = START.replace(tzinfo=zone)
        assigned = [start + int(a) * step for a in self.assigned]
        return assigned, [None if np.isnan(c) else start + int(c) * step for c in arrived_at]

    def columns(self, form="wide", times="steps", seed=0):
        assigned, arrived = self.times(times)
        columns = {
            "id": list(range(100, 100 + len(self.arm))),
            "arm": [self.labels[a] for a in self.arm],
            "assigned_at": assigned,
            "outcome": pa.array([None if np.isnan(y) else float(y) for y in self.outcome], pa.float64()),
            "arrived_at": arrived,
            **self.propensities(form),
        }
        order = np.random.default_rng(seed).permutation(len(self.arm))
        return pa.table(columns).take(pa.array(order))

    def propensities(self, form):
        p, names = self.propensity, list(map(str, self.labels))
        rows = [dict(zip(names, row.tolist(), strict=True)) for row in p]
        if form == "wide":
            return {f"p_{name}": p[:, k] for k, name in enumerate(names)}
        if form == "chosen":
            return {"propensity": p[np.arange(len(p)), self.arm]}
        if form == "list":
            return {"propensities": pa.array(p.tolist(), pa.list_(pa.float64()))}
        if form == "struct":
            return {"propensities": pa.array(rows)}
        if form == "map":
            return {"propensities": pa.array([list(row.items()) for row in rows], pa.map_(pa.string(), pa.float64()))}
        return {"propensities": [json.dumps(row) for row in rows]}


def assert_same(table, log, estimators=("daipw",)):
    """Fail unless the table's answers are the log's. The default has sums of every kind; one test asks all."""
    for name in estimators:
        got, wanted = bl.estimate(table, name), bl.estimate(log, name)
        assert got.arms == wanted.arms
        assert got.values == pytest.approx(wanted.values, rel=1e-9, abs=1e-12, nan_ok=True)
        assert got.std_errors == pytest.approx(wanted.std_errors, rel=1e-8, nan_ok=True)
        assert got.variances == pytest.approx(wanted.variances, rel=1e-8, nan_ok=True)


@pytest.mark.parametrize("times", ["steps", "numbers", "dates", "zoned"])
def test_an_engine_answers_as_the_log_in_memory(engine, times):
    experiment = Experiment.drawn(1)
    asked = tuple(ESTIMATORS) if times == "steps" else ("daipw",)
    assert_same(bl.read(engine.table(experiment.columns(times=times))), experiment.log(times=times), asked)


@pytest.mark.parametrize("form", ["chosen", "list", "struct", "map", "json"])
def test_propensities_come_in_many_forms(engine, form):
    experiment = Experiment.drawn(2)
    table = bl.read(engine.table(experiment.columns(form)))
    asked = ("dipw", "mean", "hajek") if form == "chosen" else ("daipw",)
    assert_same(table, experiment.log(chosen=form == "chosen"), asked)


def test_any_labels(engine):
    kinds = [(False, True), ("x'; drop table t; --", '"<b>"', "🙂\n"), (1, 2, 3)]
    for labels in kinds[:2] if engine.name == "spark" else kinds:
        experiment = Experiment.drawn(3, labels=labels)
        columns = {label: f"chance_{k}" for k, label in enumerate(labels)}
        table = experiment.columns().rename_columns({f"p_{label}": column for label, column in columns.items()})
        assert_same(bl.read(engine.table(table), propensity=columns), experiment.log())


def test_as_of_any_moment(engine):
    experiment = Experiment.drawn(4, mean=1e8)
    table = engine.table(experiment.columns())
    for as_of in (77,) if engine.name == "spark" else (1, 40, 77, 1000):
        with pytest.warns(bl.BelatedWarning) if as_of == 1 else nullcontext():
            assert_same(bl.read(table, as_of=as_of), experiment.log(as_of))


def test_trajectories(engine):
    experiment = Experiment.drawn(5, binary=True)
    moments = [20, 50, 51, 149, 400]
    for name in ("daipw", "iad"):
        got = bl.trajectory(bl.read(engine.table(experiment.columns())), name, at=moments)
        wanted = bl.trajectory(experiment.log(), name, at=moments)
        for a, b in zip(got.estimates, wanted.estimates, strict=True):
            assert a.values == pytest.approx(b.values, rel=1e-9, nan_ok=True)
            assert a.std_errors == pytest.approx(b.std_errors, rel=1e-8, nan_ok=True)
            assert a.sums["assigned"].tolist() == b.sums["assigned"].tolist()


def test_an_arm_that_was_never_chosen_has_a_column_too():
    """As its rows would not sum to 1 without it; a column that only looks like one is no arm."""
    experiment = Experiment.drawn(8, labels=("A", "B"))
    columns = experiment.columns()
    alone = bl.read(columns.append_column("p_total", pa.array([1.0] * len(columns))))
    assert alone.arms == ("A", "B")
    halved = columns.drop(["p_A"]).append_column("p_A", pa.array(np.asarray(columns["p_A"]) / 2))
    never = bl.read(halved.append_column("p_C", pa.array(np.asarray(columns["p_A"]) / 2)))
    assert never.arms == ("A", "B", "C")
    with pytest.warns(bl.BelatedWarning, match="No outcome of arm 'C' has arrived"):
        bl.estimate(never)


def test_a_report_from_every_engine(engine, tmp_path):
    experiment = Experiment.drawn(7, rows=600)
    table = experiment.columns(times="dates")
    source, in_memory = bl.read(engine.table(table)), bl.read(table)
    page = bl.report(source, tmp_path / "report.html", baseline="A").read_text()
    assert "When outcomes arrive" in page
    assert "Assumptions, and what the log shows" in page
    got, wanted = source.evidence(), in_memory.evidence()
    names = "dependence excess variance log_p p p2 p_min h h_max chance low rarest unlikeliest"
    for name in names.split():
        np.testing.assert_allclose(getattr(got, name), getattr(wanted, name), rtol=1e-9, atol=1e-6)
    for name, table in wanted.sums.items():
        np.testing.assert_allclose(got.sums[name], table, rtol=1e-9, atol=1e-6)
    np.testing.assert_array_equal(got.arrivals.counts, wanted.arrivals.counts)
    assert got.grain == wanted.grain
    assert bl.diagnose(source).to_dict()["checks"][6] == bl.diagnose(in_memory).to_dict()["checks"][6]


def test_the_engines_own_sums_on_duckdb(duckdb_engine):
    """DuckDB streams; the expression that other engines run gives the same there."""
    experiment = Experiment.drawn(6)
    source = bl.read(duckdb_engine.table(experiment.columns()))
    parts = list(dict.fromkeys(e.parts for e in ESTIMATORS.values()))
    for streamed, computed in zip(source.sums(parts), source._computed(parts, None, True), strict=True):
        there = computed[0].recentred(streamed[0].shift)
        assert there.spread == pytest.approx(streamed[0].spread, rel=1e-9, abs=1e-9)
        assert there.own == pytest.approx(streamed[0].own, rel=1e-9, abs=1e-9)


def test_a_cap_is_the_same_on_every_engine(engine):
    experiment = Experiment.drawn(6)
    table, log = bl.read(engine.table(experiment.columns()), cap=5.25), experiment.log().capped(5.25)
    assert_same(table, log)
    assert table.above_cap().tolist() == log.above_cap().tolist()
    if engine.name == "spark":
        return
    moments = [40, 70, 140]
    ours, theirs = (bl.trajectory(each, at=moments) for each in (table, log))
    for mine, other in zip(ours.estimates, theirs.estimates, strict=True):
        assert mine.values == pytest.approx(other.values, rel=1e-9, nan_ok=True)
        assert mine.sums.cap.above.tolist() == other.sums.cap.above.tolist()
    assert table.log().above_cap().tolist() == log.above_cap().tolist()
    assert bl.estimate(table).estimand == "mean outcome, capped at 5.25"
    with pytest.raises(bl.OptionError, match="so all outcomes would be equal"):
        table.capped(-100)


def test_outcomes_that_are_too_large_are_refused_with_a_cap_too(engine):
    rows = {"arm": ["A", "B"] * 10, "outcome": [1.0] * 19 + [1e300], "p": [0.5] * 20, "assigned_at": list(range(20))}
    source = bl.read(engine.table(rows), cap=2.0)
    for ask in (bl.estimate, bl.diagnose, bl.Source.log):
        with pytest.raises(bl.LogError, match=r"`outcome` in .*is 1e\+300; it must lie between -1e\+60 and 1e\+60"):
            ask(source)


def test_of_events_the_total_is_capped(engine):
    sent = {"id": [1, 2, 3, 4], "arm": ["A", "B", "A", "B"], "sent_at": [0, 0, 1, 1], "p": [0.5] * 4}
    paid = {"id": [1, 1, 2, 4, 4], "revenue": [40.0, 40.0, 10.0, 30.0, 90.0], "paid_at": [2, 3, 2, 3, 50]}
    source, events = engine.table(sent), engine.table(paid)
    table = bl.read(source, events, key="id", events="sum", window=5, as_of=60, cap=50)
    assert bl.estimate(table, "mean").values == pytest.approx([(50 + 0) / 2, (10 + 30) / 2])
    assert table.above_cap().tolist() == [[1, 0]]
    with pytest.raises(bl.OptionError, match="0 or 1; it needs no cap"):
        bl.read(source, events, key="id", events="indicator", window=5, as_of=60, cap=50)


def test_a_report_reads_the_rows_of_a_file_once(tmp_path, monkeypatch):
    experiment = Experiment.drawn(1)
    scans = []
    batches, fetch = DuckDB.batches, DuckDB.fetch
    monkeypatch.setattr(DuckDB, "batches", lambda self, rows: scans.append("rows") or batches(self, rows))
    monkeypatch.setattr(DuckDB, "fetch", lambda self, rows: scans.append("query") or fetch(self, rows))
    pa.parquet.write_table(experiment.columns(), tmp_path / "log.parquet")
    source = bl.read(tmp_path / "log.parquet")
    scans.clear()
    bl.report(source, tmp_path / "report.html")
    assert scans == ["rows"]


def test_rows_that_are_held_give_the_same_answers():
    experiment = Experiment.drawn(1)
    held, streamed = bl.read(experiment.columns()), bl.read(experiment.columns())
    held.hold()
    assert held.log() is held.log()
    assert held.doubts() == streamed.doubts()
    assert held.oddities() == streamed.oddities()
    assert_same(held, experiment.log())
    for name in ("assigned", "y2", "w4"):
        np.testing.assert_allclose(held.evidence().sums[name], streamed.evidence().sums[name], rtol=1e-9)


def test_a_row_that_cannot_be_is_named_by_its_place_in_a_report_too(tmp_path):
    experiment = Experiment.drawn(1)
    table = experiment.columns()
    broken = table.set_column(table.column_names.index("p_A"), "p_A", pa.array([7.0] * len(table)))
    refused = []
    for ask in (bl.estimate, lambda log: bl.report(log, tmp_path / "report.html")):
        with pytest.raises(bl.LogError) as caught:
            ask(bl.read(broken))
        refused.append(str(caught.value))
    assert refused[0] == refused[1]


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"p_A": 1.5}, {}),
        ({"y": math.inf}, {}),
        ({"got": -5.0}, {}),
        ({"x": math.inf}, {"covariates": "x"}),
        ({"c": 0.0}, {"arrival_probability": "c"}),
        ({"arm": None}, {}),
    ],
    ids=lambda each: next(iter(each), ""),
)
def test_a_row_as_of_a_moment_has_its_number_in_the_table(tmp_path, changes, options):
    """Rows are not in order of assignment: some of those before the wrong one are assigned after the moment."""
    at = np.random.default_rng(0).permutation(60)
    row = int(np.flatnonzero(at <= 40)[20])
    columns = {"arm": ["A", "B"] * 30, "y": at % 3 * 1.0, "p_A": [0.5] * 60, "p_B": [0.5] * 60, "at": at}
    columns = {
        name: list(column) for name, column in (columns | {"x": at / 2, "c": [0.5] * 60, "got": at + 1.0}).items()
    }
    for name, value in changes.items():
        columns[name][row] = value
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    named = {"arm": "arm", "outcome": "y", "assigned_at": "at", "arrived_at": "got", "as_of": 40}
    for table in (pa.table(columns), tmp_path / "a.parquet"):
        with pytest.raises(bl.LogError) as told:
            bl.estimate(bl.read(table, **named, **options))
        assert told.value.row == row
        assert f" in row {row} " in str(told.value)


def targeted(rows=400):
    """Return columns with a target policy and chances of arrival."""
    rng = np.random.default_rng(5)
    x, second = rng.normal(size=rows), rng.random(rows) < 0.5
    q = np.where(x > 0, 0.9, 0.1)
    return {
        "arm": np.where(second, "B", "A"), "outcome": second * x + rng.normal(size=rows),
        "p_A": np.full(rows, 0.5), "p_B": np.full(rows, 0.5), "q_B": q, "q_A": 1 - q,
        "chance": np.where(x > 0, 0.9, 0.5), "country": np.where(x > 0.3, "DE", "FR"),
    }  # fmt: skip


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_of_a_target_policy_and_of_arrival_are_read_when_they_are_asked_for(tmp_path, suffix):
    columns = targeted()
    path = tmp_path / f"log.{suffix}"
    (pa.csv.write_csv if suffix == "csv" else pa.parquet.write_table)(pa.table(columns), path)
    pi, q = np.full((400, 2), 0.5), np.column_stack([columns["q_A"], columns["q_B"]])
    log = bl.Log(columns["arm"], columns["outcome"], pi, segment=columns["country"])
    source = bl.read(path, propensity="p_*", segment="country", cap=2.0)
    expected, answer = bl.estimate(log, target=q, cap=2.0), bl.estimate(source, target="q_*")
    assert (answer.estimate, answer.low, answer.cap) == pytest.approx((expected.estimate, expected.low, 2.0))
    weighted = bl.estimate(source, "dipw", arrival_probability="chance")
    same = bl.estimate(log, "dipw", arrival_probability=columns["chance"], cap=2.0)
    assert weighted.values == pytest.approx(same.values)
    with pytest.raises(bl.LogError, match=r"No column matches `target`, 'z_\*'"):
        bl.estimate(source, target="z_*")
    with pytest.raises(bl.LogError, match="cannot be matched to the arms"):
        bl.estimate(source, target="c*")


def test_delays_are_not_looked_at_where_no_column_has_them(monkeypatch):
    monkeypatch.delattr("belated.reading.evidence_query.dependence")
    table = pa.table({"arm": ["A", "B"] * 20, "outcome": [0.0, 1.0] * 20, "p_A": [0.5] * 40, "p_B": [0.5] * 40})
    assert bl.read(table).doubts() == []
    with pytest.raises(AttributeError, match="dependence"):
        bl.read(table.append_column("delay", pa.array([1.0] * 40))).doubts()
