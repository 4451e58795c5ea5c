"""Outcomes in a table of their own, and events: `read` on every engine against a slow, obvious twin."""

from __future__ import annotations

import datetime as dt
import uuid
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from engines import only

import belated as bl
from belated.reading import sums_query
from belated.reading.rows_query import keys_text
from belated.reading.source import Source
from belated.summaries.outcome_models import read_outcome_model
from belated.summaries.weights import read_weights

ARMS = ("A", "B", "C")


class Embedded:
    """DuckDB as it reads dataframes, without Ibis, which compiles a query in more time than a few rows take."""

    name = "duckdb"

    def table(self, data):
        """Return the data."""
        return data


@pytest.fixture
def embedded():
    """DuckDB without Ibis."""
    return Embedded()


START = dt.datetime(2026, 3, 1, 22)
HALF_HOUR = dt.timedelta(minutes=30)


# ---------------------------------------------------------------- the twin


@dataclass(frozen=True)
class Experiment:
    """Assignments and deliveries as lists, in ticks; `clock` says what a tick is.

    `assigned` holds (key, arm, propensities, tick) and `deliveries` (key, value, tick); keys, values and ticks of the
    latter may be None. With a `window`, in ticks, `deliveries` are events, and `measure` says what of them counts.
    """

    assigned: list[tuple[Any, int, list[float], float]]
    deliveries: list[tuple[Any, float | None, float | None]]
    clock: str = "steps"
    duplicates: str = "error"
    timed: bool = True
    measure: str | None = None
    window: float = 0
    given: Any = None  # the window as the user writes it
    arms: tuple[str, ...] = field(default=ARMS)

    def tick(self, tick):
        """A tick as the clock shows it."""
        if tick is None or self.clock == "steps":
            return tick
        if self.clock == "numbers":
            return tick * 0.1
        if self.clock == "dates":
            return START.date() + dt.timedelta(days=tick)
        moment = START + tick * HALF_HOUR
        if self.clock == "zoned":
            return (moment + dt.timedelta(hours=2)).replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))
        return moment

    def log(self, as_of=None):
        """The log as of a tick; None if there is no row."""
        rows = self.happened(as_of) if self.measure else self.delivered(as_of)
        rows = [row for row in rows if as_of is None or row[2] <= as_of]
        if not rows:
            return None
        arm, p, assigned, outcome, arrived = zip(*rows, strict=True)
        times = [None if t is None else self.tick(t) for t in arrived]
        return bl.Log(
            [self.arms[a] for a in arm], outcome, p, arms=self.arms, assigned_at=[self.tick(t) for t in assigned],
            arrived_at=times if any(t is not None for t in times) else None,
        )  # fmt: skip

    def delivered(self, as_of):
        for key, arm, p, tick in self.assigned:
            mine = [(value, when if self.timed else tick) for k, value, when in self.deliveries if k == key]
            mine = [(value, when) for value, when in mine if value is not None and (as_of is None or when <= as_of)]
            if not mine:
                yield arm, p, tick, None, None
            elif self.duplicates == "error":
                assert len({value for value, _ in mine}) == 1
                yield arm, p, tick, mine[0][0], min(when for _, when in mine)
            elif self.duplicates == "sum":
                yield arm, p, tick, sum(value for value, _ in set(mine)), max(when for _, when in mine)
            else:
                pick = min if self.duplicates == "first" else max
                when, value = pick((when, value) for value, when in mine)
                yield arm, p, tick, value, when

    def happened(self, as_of):
        for key, arm, p, tick in self.assigned:
            if tick + self.window > as_of:
                continue
            values = [
                1.0 if self.measure != "sum" else value
                for k, value, when in self.deliveries
                if k == key and when is not None and tick <= when <= tick + self.window
            ]
            total = sum(value for value in values if value is not None)
            yield arm, p, tick, float(total > 0 if self.measure == "indicator" else total), tick + self.window

    @property
    def last(self):
        """The latest tick in either table."""
        return max(tick for *_, tick in [*self.assigned, *self.deliveries] if tick is not None)

    @property
    def conflicts(self):
        return {
            k
            for k, v, _ in self.deliveries
            if v is not None
            for j, w, _ in self.deliveries
            if j == k and w not in (v, None)
        }

    # ---------------------------------------------------------------- as tables

    def tables(self, keys="integer"):
        write = {"integer": lambda k: k, "text": lambda k: f"user {k}", "uuid": lambda k: str(uuid.UUID(int=k))}[keys]
        kind = pa.int64() if keys == "integer" else pa.string()
        assigned = {
            "id": pa.array([write(k) for k, *_ in self.assigned], kind),
            "arm": [self.arms[a] for _, a, _, _ in self.assigned],
            "assigned_at": [self.tick(t) for *_, t in self.assigned],
            **{f"p_{arm}": [p[k] for _, _, p, _ in self.assigned] for k, arm in enumerate(self.arms)},
        }
        deliveries = {
            "id": pa.array([None if k is None else write(k) for k, *_ in self.deliveries], kind),
            "value": pa.array([v for _, v, _ in self.deliveries], pa.float64()),
            "at": pa.array([self.tick(t) for *_, t in self.deliveries], pa.array(assigned["assigned_at"]).type),
        }
        return pa.table(assigned), pa.table(deliveries if self.timed else {k: deliveries[k] for k in ("id", "value")})

    def options(self, as_of=None):
        options = {"outcome": "value", "duplicates": self.duplicates}
        if self.timed:
            options["arrived_at"] = "at"
        if self.measure is not None:
            options |= {"events": self.measure, "window": self.given, "maturing": False}
        return options if as_of is None else {**options, "as_of": self.tick(as_of)}

    def read(self, engine, as_of=None, keys="integer", **types):
        assigned, deliveries = self.tables(keys)
        return bl.read(engine.table(assigned, **types), engine.table(deliveries, **types), **self.options(as_of))


def drawn(seed, clock="steps", duplicates="error", timed=True, rows=40, mean=5.0, arms=ARMS):
    """Outcomes delivered once, again, corrected, late, never, for nobody and for unknown keys."""
    rng = np.random.default_rng(seed)
    assigned = assignments(rng, rows, len(arms))
    deliveries = []
    for key, arm, _, tick in assigned:
        values = np.round(rng.normal(mean + arm, 1, 3), 2).tolist()
        if duplicates == "error":
            values = values[:1]
        deliveries += [
            (key, values[rng.integers(len(values))], tick + int(rng.choice([0, 0, 1, 2, 5, 9])))
            for _ in range(rng.choice([0, 1, 1, 2, 3]))
        ]
        if duplicates != "error" and rng.random() < 0.2:
            deliveries.append((key, values[0], tick))
            deliveries.append((key, values[0], tick))
    deliveries += [(10**6, 1.0, 3), (10**6, 2.0, 99), (None, 1.0, 3), (assigned[0][0], None, 4)]
    rng.shuffle(deliveries)
    return Experiment(assigned, deliveries, clock, duplicates, timed, arms=arms)


def assignments(rng, rows, arms):
    chances = 0.9 * rng.dirichlet(np.ones(arms), rows) + 0.1 / arms
    chances /= chances.sum(axis=1, keepdims=True)
    keys = rng.permutation(10 * rows)[:rows]
    return [
        (int(key), int(rng.choice(arms, p=p)), p.tolist(), int(rng.integers(20)))
        for key, p in zip(keys, chances, strict=True)
    ]


def drawn_events(seed, clock="steps", measure="count", window=4, given=None, rows=40):
    """Events before their assignment, at it, within and after the window, for nobody, without a value or a time."""
    rng = np.random.default_rng(seed)
    assigned = assignments(rng, rows, len(ARMS))
    deliveries = []
    for key, _, _, tick in assigned:
        for _ in range(rng.choice([0, 0, 1, 2, 4])):
            after = rng.choice([-1, 0, 1, int(window) - 1, int(window), int(window) + 1, 2 * int(window)])
            deliveries.append((key, round(float(rng.normal(2, 3)), 2), tick + int(after)))
    deliveries += [(10**6, 1.0, 3), (None, 1.0, 3), (assigned[0][0], None, assigned[0][3]), (assigned[1][0], 1.0, None)]
    rng.shuffle(deliveries)
    return Experiment(
        assigned, deliveries, clock, measure=measure, window=window, given=window if given is None else given
    )


# ---------------------------------------------------------------- the comparison


def quietly(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.BelatedWarning)
        return function(*args, **options)


def assert_equal(got, wanted):
    assert got.arms == wanted.arms
    for name in ("assigned", "arrived"):
        assert got.sums[name].tolist() == wanted.sums[name].tolist()
    for name in ("values", "variances", "observed_share", "effective_size"):
        expected = getattr(wanted, name)
        assert getattr(got, name) == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True), name
    assert got.std_errors**2 == pytest.approx(wanted.std_errors**2, rel=1e-9, abs=1e-12, nan_ok=True)


def assert_same(source, log):
    """All estimators agree; of sums that an engine makes, the one with sums of every kind, as each takes a query."""
    if not source.is_streamed:
        assert_equal(quietly(bl.estimate, source, "daipw"), quietly(bl.estimate, log, "daipw"))
        return
    got, wanted = quietly(bl.compare, source), quietly(bl.compare, log)
    assert got.estimates.keys() == wanted.estimates.keys()
    for name in wanted.estimates:
        assert_equal(got[name], wanted[name])


def assert_moves(source, experiment, moments, estimators=("daipw",)):
    """The trajectory is what was known at each moment."""
    logs = {moment: log for moment in moments if (log := experiment.log(moment)) is not None}
    for name in estimators:
        at = [experiment.tick(moment) for moment in logs]
        got = quietly(bl.trajectory, source, name, at=at, interval="normal")
        for estimate, log in zip(got.estimates, logs.values(), strict=True):
            assert_equal(estimate, quietly(bl.estimate, log, name, interval="normal"))


def assert_engine(source, log):
    """DuckDB streams; the expressions that other engines run give the same there. Spark is slow: few queries tell."""
    if source.engine == "postgres":
        assert_same(source, log)
        return
    wanted = bl.Sums.of(log, "sqrt", "running_mean")
    ((got,),) = source._computed([(read_weights("sqrt"), read_outcome_model("running_mean"))], None, True)
    got = got.recentred(wanted.shift)
    for name in ("spread", "own"):
        assert getattr(got, name) == pytest.approx(getattr(wanted, name), rel=1e-9, abs=1e-9)


# ---------------------------------------------------------------- outcomes


CLOCKS = ("steps", "numbers", "datetimes", "zoned", "dates")


@pytest.mark.parametrize(
    ("duplicates", "clock"),
    [*(("error", clock) for clock in CLOCKS), ("first", "numbers"), ("first", "steps"), ("last", "steps"),
     ("last", "zoned"), ("sum", "steps"), ("sum", "dates")],
)  # fmt: skip
def test_outcomes_in_a_table_of_their_own(embedded, duplicates, clock):
    experiment = drawn([1, CLOCKS.index(clock)], clock, duplicates)
    source = experiment.read(embedded)
    assert source.notes[0] == "3 outcomes belong to no assignment and were left out."
    assert any("counted once" in note for note in source.notes) == (duplicates == "error")
    assert_same(source, experiment.log())
    assert_moves(source, experiment, [4, 13] if clock == "steps" else [9])
    past = experiment.read(embedded, 13)
    assert past.notes[0] == "2 outcomes belong to no assignment and were left out."
    assert_same(past, experiment.log(13))


@only("duckdb", "postgres", "spark")
def test_engines_join_and_choose_among_deliveries(engine):
    cases = [("zoned", "last", 9)]
    if engine.name != "spark":
        cases += [("numbers", "error", 9), ("steps", "sum", 9), ("dates", "first", None), ("datetimes", "error", None)]
    for clock, duplicates, as_of in cases:
        experiment = drawn([7, len(clock)], clock, duplicates)
        assert_engine(experiment.read(engine, as_of), experiment.log(as_of))


def test_what_came_without_a_time_came_at_once(embedded, postgres_engine):
    for engine in (embedded, postgres_engine):
        for duplicates in ("error", "sum"):
            experiment = drawn(3, "steps", duplicates, timed=False)
            for as_of in (None, 11):
                source = experiment.read(engine, as_of)
                assert_same(source, experiment.log(as_of))
    with pytest.raises(bl.OptionError, match="`duplicates` is 'last', but no column says when the outcomes came"):
        drawn(3, "steps", "last", timed=False).read(embedded)


@pytest.mark.parametrize("duplicates", ["error", "last", "sum"])
def test_delays_instead_of_arrival_times(embedded, duplicates):
    for clock in ("numbers", "datetimes") if duplicates == "sum" else ("steps",):
        experiment = drawn([5, len(clock)], clock, duplicates)
        starts = {key: tick for key, *_, tick in experiment.assigned}
        known = [(k, v, t) for k, v, t in experiment.deliveries if k in starts]
        experiment = replace(experiment, deliveries=known)
        assigned, deliveries = experiment.tables()
        spans = [t - starts[k] for k, _, t in known]
        delay = pa.array([s * HALF_HOUR for s in spans] if clock == "datetimes" else spans)
        if clock == "numbers":  # so that both add the same floats
            experiment = replace(experiment, clock="steps")
            assigned = assigned.set_column(2, "assigned_at", pa.array([float(t) for *_, t in experiment.assigned]))
        deliveries = deliveries.drop_columns("at").append_column("delay", delay)
        tables = embedded.table(assigned), embedded.table(deliveries)
        for as_of in (None, 8):
            source = bl.read(
                *tables, outcome="value", delay="delay", duplicates=duplicates,
                as_of=None if as_of is None else experiment.tick(as_of),
            )  # fmt: skip
            assert_same(source, experiment.log(as_of))


@pytest.mark.parametrize("keys", ["text", "uuid"])
def test_keys_of_any_type(duckdb_engine, keys):
    experiment = drawn(11)
    types = {"id": "uuid"} if keys == "uuid" else {}
    assert_same(experiment.read(duckdb_engine, keys=keys, **types), experiment.log())


@only("duckdb", "postgres")
def test_keys_of_different_types_and_names(engine):
    experiment = drawn(12)
    assigned, deliveries = experiment.tables()
    assigned_table = engine.table(assigned)
    for kind in ("text", "smallint", "double precision"):
        deliveries = experiment.tables()[1].rename_columns({"id": "user=id"})
        if kind == "smallint":
            deliveries = deliveries.filter(pa.compute.less(deliveries["user=id"], 10**4))
        table = engine.table(deliveries, **{"user=id": kind})
        key = ("id", "user=id") if kind == "text" else "id=user=id"
        assert_same(bl.read(assigned_table, table, key=key, **experiment.options()), experiment.log())
    text = engine.table(experiment.tables("uuid")[1].set_column(1, "value", pa.array([0.0] * len(deliveries))))
    with pytest.raises(bl.LogError, match="The keys 'id' and 'id' hold numbers and text; they must be of one kind"):
        bl.read(engine.table(assigned, id="double precision"), text, outcome="value", arrived_at="at")


def test_a_uuid_is_found_however_it_is_written(duckdb_engine):
    experiment = drawn(13)
    assigned, deliveries = experiment.tables("uuid")
    deliveries = deliveries.set_column(0, "id", pa.compute.utf8_upper(deliveries["id"]))
    source = bl.read(duckdb_engine.table(assigned, id="uuid"), duckdb_engine.table(deliveries), **experiment.options())
    assert_same(source, experiment.log())


@only("duckdb", "postgres")
def test_a_correction_after_as_of_is_not_known_yet(engine):
    experiment = drawn(14)
    key, value, tick = next(
        row for row in experiment.deliveries if row[0] in {k for k, *_ in experiment.assigned} and row[1]
    )
    late = replace(experiment, deliveries=[*experiment.deliveries, (key, value + 1, 50)])
    assigned, deliveries = map(engine.table, late.tables())
    source = bl.read(assigned, deliveries, **late.options(49))
    assert_same(source, late.log(49))
    sentence = f"There are different outcomes for key {key}; choose with `duplicates` which counts: first, last or"
    with pytest.raises(bl.LogError, match=sentence):
        source.at(50)
    with pytest.raises(bl.LogError, match=sentence):
        bl.read(assigned, deliveries, **late.options())
    assert tick < 50


def test_conflicts_are_named(embedded):
    experiment = drawn(15, duplicates="first")
    keys = sorted(experiment.conflicts & {key for key, *_ in experiment.assigned})
    with pytest.raises(
        bl.LogError, match=f"for keys {', '.join(map(str, keys[:5]))} and more; choose with `duplicates`"
    ):
        replace(experiment, duplicates="error").read(embedded)


def test_keys_name_one_assignment_each(engine):
    experiment = drawn(16)
    assigned, deliveries = experiment.tables()
    deliveries = engine.table(deliveries)
    twice = pa.concat_tables([assigned, assigned.slice(2, 1)])
    with pytest.raises(
        bl.LogError,
        match=f"must be different in every assignment; several assignments have key {experiment.assigned[2][0]}",
    ):
        bl.read(engine.table(twice), deliveries, **experiment.options())
    if engine.name == "spark":
        return
    lost = assigned.set_column(0, "id", pa.array([None, *assigned["id"].to_pylist()[1:]], pa.int64()))
    with pytest.raises(bl.LogError, match="Column 'id', for `key`, is missing in 1 assignment"):
        bl.read(engine.table(lost), deliveries, **experiment.options())
    nan = [np.nan, np.nan, *assigned["id"].to_pylist()[2:]]
    with pytest.raises(bl.LogError, match="Column 'id', for `key`, is missing in 2 assignments"):
        bl.read(
            engine.table(assigned.set_column(0, "id", pa.array(nan, pa.float64()))), deliveries, **experiment.options()
        )


def test_no_outcome_yet(embedded):
    experiment = replace(drawn(17), deliveries=[])
    source = experiment.read(embedded)
    assert source.notes == ()
    assert_same(source, experiment.log())
    nothing = pa.table({"id": pa.nulls(0), "value": pa.nulls(0), "at": pa.nulls(0)})
    source = bl.read(experiment.tables()[0], nothing, key="id", outcome="value", arrived_at="at")
    assert_same(source, experiment.log())


def test_times_of_different_kinds_are_one_clock(embedded):
    """Whole and broken numbers; micro- and nanoseconds."""
    experiment = drawn(19)
    assigned, deliveries = experiment.tables()
    halves = deliveries.set_column(2, "at", pa.array([t + 0.5 for *_, t in experiment.deliveries]))
    wanted = replace(experiment, deliveries=[(k, v, t + 0.5) for k, v, t in experiment.deliveries])
    for as_of in (None, 7.5):
        source = bl.read(embedded.table(assigned), embedded.table(halves), **experiment.options(as_of))
        assert_same(source, wanted.log(as_of))
    floats = assigned.set_column(2, "assigned_at", pa.array([t - 0.5 for *_, t in experiment.assigned]))
    wanted = replace(experiment, assigned=[(k, a, p, t - 0.5) for k, a, p, t in experiment.assigned])
    for as_of in (7,):
        source = bl.read(embedded.table(floats), embedded.table(deliveries), **experiment.options(as_of))
        assert_same(source, wanted.log(as_of))
    start = np.datetime64(START, "ns")
    nanos = [start + np.timedelta64(t * 1000 + 7, "ns") for *_, t in experiment.deliveries]
    micros = [START + dt.timedelta(microseconds=t) for *_, t in experiment.assigned]
    assigned = assigned.set_column(2, "assigned_at", pa.array(micros, pa.timestamp("us")))
    deliveries = deliveries.set_column(2, "at", pa.array(np.array(nanos)))
    tables = embedded.table(assigned), embedded.table(deliveries)
    later = replace(experiment, deliveries=[(k, v, t + 0.007) for k, v, t in experiment.deliveries])
    for tick, as_of in ((5, start + np.timedelta64(5006, "ns")), (5.007, start + np.timedelta64(5007, "ns"))):
        source = bl.read(*tables, **{**experiment.options(), "as_of": as_of})
        assert_same(source, later.log(tick))


# ---------------------------------------------------------------- events


WINDOWS = {
    "steps": [(4, 4), (2.5, 2.5), (3, "3 steps")],
    "numbers": [(5, 0.5), (40, 4)],
    "datetimes": [(3, "90min"), (24, "12h"), (4, dt.timedelta(hours=2)), (336, "7d")],
    "zoned": [(5, np.timedelta64(150, "m")), (2, "1 hour")],
    "dates": [(7, "7d"), (7, "1 week"), (4, "96h")],
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_events_within_a_window(embedded, clock):
    for (window, given), measure in zip(WINDOWS[clock], ["sum", "count", "indicator", "sum"], strict=False):
        experiment = drawn_events([int(window * 2), len(measure)], clock, measure, window, given)
        if clock == "numbers":  # tick * 0.1 + given, as floats, in the twin too
            experiment = in_floats(experiment)
        source = experiment.read(embedded, as_of := max(18, window + 9))
        assert source.notes[0] == "2 events belong to no assignment and were left out."
        assert "happened before the assignment and did not count" in source.notes[1]
        assert_same(source, experiment.log(as_of))
    assert_moves(source, experiment, [experiment.window, experiment.window + 5, experiment.window + 6, as_of])


def in_floats(experiment):
    """The same experiment with ticks that are the numbers themselves."""
    assigned = [(k, a, p, t * 0.1) for k, a, p, t in experiment.assigned]
    deliveries = [(k, v, None if t is None else t * 0.1) for k, v, t in experiment.deliveries]
    return replace(experiment, assigned=assigned, deliveries=deliveries, clock="steps", window=experiment.given)


@only("duckdb", "postgres", "spark")
def test_engines_count_events(engine, monkeypatch):
    cases = [("steps", 1, "indicator")]
    if engine.name != "spark":
        cases = [
            ("datetimes", 0, "count"),
            ("dates", 0, "indicator"),
            ("numbers", 0, "sum"),
            ("zoned", 1, "sum"),
            *cases,
        ]
    for clock, which, measure in cases:
        window, given = WINDOWS[clock][which]
        experiment = drawn_events([9, len(clock)], clock, measure, window, given)
        experiment = in_floats(experiment) if clock == "numbers" else experiment
        source = experiment.read(engine)
        assert_engine(source, experiment.log(experiment.last))
    monkeypatch.setattr(Source, "is_streamed", False)
    assert_moves(source, experiment, [9] if engine.name == "spark" else [9, experiment.last])


def test_events_count_from_assignment_to_the_end_of_the_window(engine):
    """By hand: before, at, inside, at the end of and after a window of 3; the last row's has not closed."""
    assigned = pa.table({
        "id": [1, 2, 3, 4, 5, 6], "arm": list("AAAABB"), "assigned_at": [10, 10, 11, 12, 12, 13],
        "p_A": [0.5] * 6, "p_B": [0.5] * 6,
    })  # fmt: skip
    deliveries = pa.table({
        "id": [1, 1, 2, 2, 3, 3, 4, 4, 4, 6, 9], "at": [9, 14, 10, 13, 12, 12, 15, 16, None, 13, 15],
        "value": [1.0, 1.0, 2.0, 3.0, 4.0, None, 5.0, 6.0, 7.0, 8.0, 9.0],
    })  # fmt: skip
    assigned, deliveries = engine.table(assigned), engine.table(deliveries)
    wanted = {"count": [0, 2, 2, 1], "indicator": [0, 1, 1, 1], "sum": [0, 5, 4, 5]}
    for measure in ("sum",) if engine.name == "spark" else wanted:
        source = bl.read(
            assigned, deliveries, arrived_at="at", outcome="value", events=measure, window=3, as_of=15, maturing=False
        )
        assert len(source) == 5
        assert sorted(source.log().outcome.tolist()) == sorted([*map(float, wanted[measure]), 0.0])
    if engine.name == "spark":
        return
    assert source.at(14).assigned.tolist() == [3, 0]
    assert source.at(12).assigned.tolist() == [0, 0]
    open_ended = bl.read(assigned, deliveries, arrived_at="at", events="count", window=3, maturing=False)
    assert open_ended.as_of == 16
    assert open_ended.notes[-1] == "As of 16, the latest time in the tables."
    assert len(open_ended) == 6


@pytest.mark.parametrize("clock", ["steps", "datetimes"])
def test_events_in_the_table_of_assignments(embedded, postgres_engine, clock):
    for measure in ("indicator", "sum"):
        window, given = WINDOWS[clock][0]
        experiment = drawn_events(21, clock, measure, window, given)
        first = {key: (value, tick) for key, value, tick in experiment.deliveries if key is not None}
        deliveries = [(key, *first[key]) for key, *_ in experiment.assigned if key in first]
        experiment = replace(experiment, deliveries=deliveries)
        assigned, events = experiment.tables()
        values, times = ([dict(zip(events["id"].to_pylist(), events[name].to_pylist(), strict=True)).get(key)
                          for key in assigned["id"].to_pylist()] for name in ("value", "at"))  # fmt: skip
        table = assigned.append_column("at", pa.array(times, events["at"].type))
        table = table.append_column("value", pa.array(values, pa.float64()))
        for engine in (embedded, postgres_engine):
            source = bl.read(engine.table(table), **experiment.options(20))
            assert_same(source, experiment.log(20))
            assert_moves(source, experiment, [5, 9])
    assert bl.read(table, **experiment.options()).as_of == experiment_end(experiment)


def experiment_end(experiment):
    end = experiment.tick(experiment.last)
    return end if experiment.clock == "steps" else np.datetime64(end, "us")


def test_no_event_at_all(embedded):
    experiment = replace(drawn_events(22, "datetimes", "count", 3, "90min"), deliveries=[])
    source = experiment.read(embedded)
    assert source.as_of == experiment_end(experiment)
    assert_same(source, experiment.log(experiment.last))


def test_event_times_may_be_finer_than_assignments(embedded):
    experiment = drawn_events(23, "steps", "sum", 2)
    moved = [(k, v, None if t is None else t + 0.25) for k, v, t in experiment.deliveries]
    experiment = replace(experiment, deliveries=moved)
    assigned, deliveries = experiment.tables()
    deliveries = deliveries.set_column(2, "at", pa.array([t for *_, t in moved], pa.float64()))
    deliveries = pa.concat_tables([deliveries, pa.table({"id": [1], "value": [1.0], "at": [np.inf]})])
    source = bl.read(embedded.table(assigned), embedded.table(deliveries), **experiment.options())
    assert source.as_of == experiment.last
    assert_same(source, experiment.log(experiment.last))


def test_two_point_weights_of_events_follow_the_rows_that_exist(embedded):
    experiment = drawn_events(24, "steps", "count", 4)
    source, weights = experiment.read(embedded, 20), bl.two_point(horizon=50, decay=0.5)
    moved = quietly(bl.trajectory, source, weights=weights, at=[8, 15])
    for estimate, moment in zip(moved.estimates, (8, 15), strict=True):
        there = source.at(moment).log()  # not `experiment.log`: rows of one time have an order of the engine's own
        assert_equal(estimate, quietly(bl.estimate, there, weights=weights))
        assert len(there) == len(experiment.log(moment))


def test_a_window_of_another_kind_of_time(embedded):
    with pytest.raises(
        bl.OptionError, match="`window` is 7 days, but the times are numbers; try 604800 if they are seconds"
    ):
        drawn_events(25, given="7d").read(embedded)
    with pytest.raises(bl.OptionError, match="`window` is 7 steps, but the times are datetimes; try '7d'"):
        drawn_events(25, "zoned", given=7).read(embedded)


# ---------------------------------------------------------------- numbers


@only("duckdb", "postgres")
def test_many_arms_far_from_zero_and_tiny_chances(engine):
    """Outcomes about 1e8 lose no digits, and an arm chosen against odds of 1e9 weighs what it must."""
    many = 36 if engine.name == "postgres" else 8  # more than are asked for at once, which DuckDB takes long to plan
    arms = tuple(f"{k:02d}" for k in range(many))
    far = drawn(31, duplicates="sum", rows=400, mean=1e8, arms=arms)
    source = far.read(engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source, "is_streamed", False)
        patch.setattr(sums_query, "_MOST_ARMS", min(many - 3, sums_query._MOST_ARMS))
        assert_same(source, far.log())
    rare = drawn(32, rows=60, arms=("A", "B"))
    chances = {0: [1e-9, 1 - 1e-9], 1: [1 - 1e-9, 1e-9]}
    assigned = [(k, a, chances[a] if i % 7 == 0 else p, t) for i, (k, a, p, t) in enumerate(rare.assigned)]
    rare = replace(rare, assigned=assigned)
    source = rare.read(engine)
    assert_engine(source, rare.log())


def test_arms_are_those_of_the_whole_table(embedded):
    """Also if as of a moment not every one was chosen."""
    experiment = drawn(33)
    assigned, deliveries = experiment.tables()
    as_of = min(t for *_, t in experiment.assigned)
    chances = pa.array([p for _, _, p, _ in experiment.assigned], pa.list_(pa.float64()))
    listed = assigned.select(["id", "arm", "assigned_at"]).append_column("propensities", chances)
    source = bl.read(embedded.table(listed), embedded.table(deliveries), **experiment.options(as_of))
    assert source.arms == ARMS
    assert_same(source, experiment.log(as_of))


SENT = pa.table({"id": [1, 2, 3], "arm": ["A", "B", "A"], "p": [0.5, 0.5, 0.5], "assigned_at": [1, 2, 3]})


def delivered(ids, outcomes, times=None):
    return pa.table({"id": ids, "outcome": outcomes, "arrived_at": times or [9] * len(ids)})


def test_what_joining_shows_is_noted():
    assert bl.read(SENT, delivered([1, 2], [1.0, 2.0])).notes == ()
    assert bl.read(SENT, delivered([1, 7], [1.0, 2.0])).notes == (
        "1 outcome belongs to no assignment and was left out.",
    )
    assert bl.read(SENT, delivered([1, 1, 1], [1.0] * 3)).notes == ("2 repeated outcomes counted once.",)
    assert bl.read(SENT, delivered([1, None], [1.0, 2.0])).notes == (
        "1 outcome belongs to no assignment and was left out.",
    )
    early = bl.read(SENT, delivered([1, 3], [1.0, 2.0], [2, 2]), events=True, window=2, as_of=9)
    assert early.notes == ("1 event happened before the assignment and did not count.",)


def test_keys_that_cannot_be_joined():
    with pytest.raises(bl.LogError, match="None of the 1 outcome belongs to an assignment"):
        bl.read(SENT, delivered([7], [1.0]))
    with pytest.raises(
        bl.LogError, match="There are different outcomes for key 1; choose with `duplicates` which counts"
    ):
        bl.read(SENT, delivered([1, 1], [1.0, 2.0]))
    with pytest.raises(bl.LogError, match="must be different in every assignment; several assignments have key 1"):
        bl.read(SENT.set_column(0, "id", pa.array([1, 1, 2])), delivered([1], [1.0]))
    with pytest.raises(bl.LogError, match="is missing in 1 assignment"):
        bl.read(SENT.set_column(0, "id", pa.array([1, None, 2])), delivered([1], [1.0]))


def test_many_keys_are_cut_short():
    assert keys_text(["a"]) == "'a'"
    assert keys_text(range(7)) == "0, 1, 2, 3, 4 and more"


@pytest.mark.parametrize(
    ("sent", "arrived", "words"),
    [
        ("DATE '2026-01-01' + i", "'infinity'", "has no arrival time"),
        ("'-infinity'", "DATE '2026-01-01' + i", "`assigned_at` in row 0 is missing"),
        ("'infinity'", "'infinity'", "`assigned_at` in row 0 is missing"),
    ],
)
def test_infinite_timestamps_are_no_times(tmp_path, sent, arrived, words):
    import duckdb

    with duckdb.connect(tmp_path / "a.duckdb") as connection:
        connection.execute(
            "CREATE TABLE log AS SELECT ['A', 'B'][i % 2 + 1] AS arm, i % 2 AS outcome, "  # noqa: S608
            f"({sent})::TIMESTAMP AS sent_at, ({arrived})::TIMESTAMP AS arrived_at FROM "
            "range(20) AS t(n), (SELECT n::INTEGER AS i)"
        )
    with pytest.raises(bl.LogError, match=words):
        bl.estimate(bl.read(tmp_path / "a.duckdb", propensity="uniform"))


@only("duckdb", "postgres", "copied")
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_an_arrival_at_infinity_is_never(engine, zone):
    times = pa.array([START + dt.timedelta(days=i) for i in range(20)], pa.timestamp("us", zone))
    outcomes = [None if i % 4 == 0 else float(i % 3) for i in range(20)]
    columns = {"arm": ["A", "B"] * 10, "outcome": outcomes, "sent_at": times, "arrived_at": times}
    table = engine.table(pa.table({**columns, "p": [0.5] * 20}))
    engine.sql(f"UPDATE {table.get_name()} SET arrived_at = 'infinity' WHERE outcome IS NULL")  # noqa: S608
    source = bl.read(table, assigned_at="sent_at")
    assert source.arrived.tolist() == [5, 10]
    means = [np.mean([y for y in outcomes[k::2] if y is not None]) for k in range(2)]
    assert bl.estimate(source, "dipw").values == pytest.approx(means)


def test_datetimes_of_arrival_need_datetimes_of_assignment():
    table = pa.table({"arm": ["A", "B"] * 9, "outcome": [0, 1] * 9, "arrived_at": [START] * 18})
    for options in ({}, {"assigned_at": "none"}, {"arrived_at": "arrived_at"}):
        with pytest.raises(bl.LogError, match=r"'arrived_at', for `arrived_at`, holds datetimes, but .*`assigned_at`"):
            bl.read(table, propensity="uniform", **options)
    assert len(bl.read(table, propensity="uniform", arrived_at="none", assigned_at="none")) == 18


@pytest.mark.parametrize(("missing", "note"), [(1, "1 event has no time and"), (2, "2 events have no time and")])
def test_events_without_a_time_are_noted(engine, missing, note):
    sent = {"id": list(range(8)), "arm": ["A", "B"] * 4, "sent_at": list(range(8)), "p": [0.5] * 8}
    bought = {"id": [0, 1, 2, 3], "paid_at": [*range(1, 5 - missing), *[None] * missing]}
    options = {"key": "id", "events": True, "window": 3, "propensity": "p"}
    source = bl.read(engine.table(sent), engine.table(bought), **options, as_of=20)
    assert source.notes == (f"{note} did not count.",)
    assert bl.estimate(source).assigned.tolist() == [4, 4]
