"""Segments and covariates of tables: their labels, their merging and their scale are those of a log in memory."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from engines import INTERPRETED, only

import belated as bl
from belated.base.errors import without_warnings
from belated.reading.roles import Roles
from belated.reading.units import Units
from belated.summaries.segments import Layout

ROWS = 400


def columns(rows=ROWS, seed=0, **changes):
    """Return the columns of an experiment with segments of every kind, covariates and chances of arrival."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 2, rows)
    age = rng.normal(40, 10, rows)
    country = rng.choice(["DE", "FR", "IT"], rows).astype(object)
    country[rng.random(rows) < 0.1] = None
    visits = [None if rng.random() < 0.2 else int(v) for v in rng.integers(0, 9, rows)]
    return {
        "arm": [("A", "B")[k] for k in arm],
        "outcome": (arm + age / 10 + rng.normal(size=rows)).tolist(),
        "p_A": [0.5] * rows,
        "p_B": [0.5] * rows,
        "country": list(country),
        "device": list(rng.choice(["mobile", "web"], rows)),
        "grade": rng.integers(1, 4, rows).tolist(),
        "member": (rng.random(rows) < 0.5).tolist(),
        "score": rng.choice([0.5, 1.5, math.nan], rows).tolist(),
        "age": age.tolist(),
        "visits": visits,
        "chance": rng.uniform(0.5, 1, rows).tolist(),
        **changes,
    }


def in_memory(table, **options):
    return bl.Log.from_frame(table, propensity={"A": "p_A", "B": "p_B"}, **options)


def assert_same(table, path=None, **options):
    """Fail unless a table is read as the log in memory is, in segments, merging and estimates."""
    source = bl.read(table if path is None else path, **options)
    log = in_memory(table, **options)
    assert source.segments == log.segments == source.log().segments
    with without_warnings():
        ours, theirs, held = (bl.estimate(each) for each in (log, source, source.log()))
    assert ours.shares == pytest.approx(theirs.shares)
    for other in (theirs, held):
        for name in ("values", "std_errors"):
            np.testing.assert_allclose(getattr(other, name), getattr(ours, name), rtol=1e-9)
    return source


@pytest.mark.parametrize("segment", ["country", "grade", "member", "score", ["country", "device"], ["member", "grade"]])
def test_segments_of_every_kind_are_those_in_memory(segment):
    source = assert_same(pa.table(columns()), segment=segment)
    assert source.roles.segment == ((segment,) if isinstance(segment, str) else tuple(segment))


def test_labels_are_values_and_combinations_and_the_missing_one_is_last():
    assert bl.read(pa.table(columns()), segment="country").segments == ("DE", "FR", "IT", "(missing)")
    assert bl.read(pa.table(columns()), segment="grade").segments == (1, 2, 3)
    assert bl.read(pa.table(columns()), segment=["country", "device"]).segments[:2] == ("DE, mobile", "DE, web")
    days = columns(day=[dt.date(2026, 1, 1 + k % 2) for k in range(ROWS)])
    assert bl.read(pa.table(days), segment="day", assigned_at="none").segments == ("2026-01-01", "2026-01-02")


def test_covariates_and_chances_are_those_in_memory():
    table = pa.table(columns())
    assert_same(table, covariates=["age", "visits"])
    assert_same(table, covariates="age", segment="country", arrival_probability="chance")
    assert_same(table, arrival_probability="chance")
    sums = bl.Sums.of(bl.read(table, covariates=["age", "visits", "member"]))
    assert sums.segments.covariates.names == ("age", "visits", "visits is missing", "member")
    log = in_memory(table, covariates=["age", "visits", "member"])
    np.testing.assert_allclose(sums.segments.covariates.centre, log.covariates.centre, rtol=1e-12)
    np.testing.assert_allclose(sums.segments.covariates.scale, log.covariates.scale, rtol=1e-9)


@pytest.mark.parametrize("numbers", [[1e308, -1e308], [1e-300, 3e-300], [1e9, 1e9 + 1]])
def test_covariates_of_any_size(numbers):
    table = pa.table(columns(age=(np.array(numbers * (ROWS // 2))).tolist()))
    assert_same(table, covariates="age")


def test_a_covariate_that_does_not_vary_is_left_out():
    table = pa.table(columns(age=[0.1] * ROWS, visits=pa.array([None] * ROWS, pa.int64())))
    assert bl.Sums.of(bl.read(table, covariates=["age", "visits"])).segments.covariates is None


def test_many_segments_travel_as_labels_and_are_merged():
    rng = np.random.default_rng(1)
    many = [f"segment {k}" for k in rng.zipf(1.3, ROWS).clip(0, 120)]
    source = assert_same(pa.table(columns(country=many)), segment="country")
    assert source.segments[-1] == "other"
    assert_same(pa.table(columns(country=many)), segment=["country", "device", "grade"])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files(tmp_path, kind):
    table, path = pa.table(columns(score=[0.5] * ROWS)), tmp_path / f"log.{kind}"
    (pa.csv.write_csv if kind == "csv" else pa.parquet.write_table)(table, path)
    options = {"covariates": ["age", "visits"], "arrival_probability": "chance"}
    assert_same(table, path, segment=["country", "device"], **options)
    assert_same(table, path, segment="grade", **options)


def test_a_second_table_and_events():
    table = pa.table(columns(id=list(range(ROWS)), at=list(range(ROWS))))
    outcomes = pa.table({"id": table["id"], "outcome": table["outcome"]})
    sent = table.drop_columns(["outcome"])
    options = {"segment": "country", "covariates": ["age"]}
    joined = bl.read(sent, outcomes, key="id", assigned_at="at", **options)
    plain = bl.read(table, assigned_at="at", **options)
    np.testing.assert_allclose(bl.estimate(joined).values, bl.estimate(plain).values, rtol=1e-9)
    bought = pa.table({"id": list(range(0, ROWS, 3)), "when": list(range(1, ROWS + 1, 3))})
    events = bl.read(sent, bought, key="id", assigned_at="at", arrived_at="when", events=True, window=5, **options)
    assert events.segments == plain.segments
    assert 0 < bl.estimate(events).values.min() < 0.6


def test_as_of_a_moment_segments_have_what_had_arrived_by_then():
    table = pa.table(columns(assigned_at=list(range(ROWS)), arrived_at=[t + 20 for t in range(ROWS)]))
    options = {"assigned_at": "assigned_at", "arrived_at": "arrived_at", "segment": "country"}
    early = bl.read(table, as_of=60, **options)
    assert early.segments == in_memory(table, as_of=60, **options).segments == bl.read(table, **options).at(60).segments
    assert early.segments != bl.read(table, **options).segments


def test_a_cap_counts_by_segment():
    table = pa.table(columns())
    source, log = (read(table, segment="country").capped(4.0) for read in (bl.read, in_memory))
    for sums in (bl.Sums.of(source), bl.Sums.of(source.log())):
        assert sums.segments.cells.cap.above.tolist() == bl.Sums.of(log).segments.cells.cap.above.tolist()
        assert sums.cap.above.tolist() == source.above_cap()[-1].tolist()


@pytest.mark.parametrize(
    ("options", "changes", "words"),
    [
        ({"segment": "contry"}, {}, "no column 'contry' for `segment`.*Did you mean 'country'"),
        ({"segment": ["country", "country"]}, {}, "'country' is named twice for `segment`"),
        ({"segment": 3}, {}, "`segment` is 3; it must be the name of a column, or a list of names"),
        ({"segment": "country", "covariates": "country"}, {}, "The covariate 'country' holds text.*Text can be a seg"),
        ({"segment": "age", "covariates": "age"}, {}, "both `segment` and `covariates`"),
        ({"covariates": ["age"]}, {"age": [1.0] * 9 + [math.inf] * (ROWS - 9)}, "covariate 'age' in row 9 is inf"),
        ({"arrival_probability": "age"}, {}, "`arrival_probability` in row .* must be at least 1e-30 and at most 1"),
        ({"arrival_probability": "chance"}, {"chance": [1.0, None] * 200}, "arrival_probability` in row 1 is nan"),
        ({"segment": "device"}, {"device": [[1]] * ROWS}, "is of kind list"),
    ],
)  # fmt: skip
def test_what_cannot_be(options, changes, words):
    with pytest.raises((bl.LogError, bl.OptionError), match=words):
        bl.read(pa.table(columns(**changes)), **options)


def test_a_wrong_row_of_a_joined_table_is_named_by_its_key():
    table = columns(id=[f"k{i}" for i in range(ROWS)], age=[1.0] * 5 + [-math.inf] + [2.0] * (ROWS - 6))
    outcomes = pa.table({"id": table["id"], "outcome": table.pop("outcome")})
    with pytest.raises(bl.LogError, match="covariate 'age' in the row of key 'k5' is -inf; it must be finite"):
        bl.read(pa.table(table), outcomes, covariates="age")


def test_too_many_segments_are_counted():
    rows = 20_002
    table = columns(rows=rows, country=[f"s{k // 2}" for k in range(rows)])
    table["arm"] = ["A", "B"] * (rows // 2)
    with pytest.raises(bl.LogError, match="`segment` has 10,001 different values; at most 10,000"):
        bl.read(pa.table(table), segment="country")


def test_segments_and_covariates_are_never_guessed():
    table = columns(segment=["a"] * ROWS)
    roles = bl.read(pa.table(table)).roles
    assert (roles.segment, roles.covariates, roles.arrival_probability) == ((), (), None)


def test_roles_are_said():
    roles = Roles("arm", segment=("country", "device"), covariates=("age",), arrival_probability="chance")
    assert roles.line().endswith("segment = country and device, covariates = age, arrival probability = chance")
    assert roles.to_dict()["segment"] == ["country", "device"]
    assert roles.to_dict()["arrival_probability"] == "chance"


def test_units_without_segments_have_one_place():
    units = Units(Layout(("all",), np.zeros(1, np.intp)))
    assert not units.has_cells
    assert units.covariates is None


# ---------------------------------------------------------------- engines

PARTS = (("sqrt", "running_mean"), ("sqrt", "zero"), ("uniform", "running_mean"))


def assert_same_sums(ours, theirs):
    """Fail unless sums, by arm and by segment, are the same, and those of products with covariates."""
    theirs = theirs.recentred(ours.shift)
    for name in ("own", "spread"):
        np.testing.assert_allclose(getattr(theirs, name), getattr(ours, name), rtol=1e-9, atol=1e-6)
    if ours.segments is not None:
        assert (theirs.segments.labels, theirs.segments.merged) == (ours.segments.labels, ours.segments.merged)
        assert_same_sums(ours.segments.cells, theirs.segments.cells)
        first, second = ours.segments.covariates, theirs.segments.covariates
        if first is not None:
            assert second.names == first.names
            second = second.rescaled(first.centre, first.scale).recentred(first.shift)
            np.testing.assert_allclose(second.own, first.own, rtol=1e-9, atol=1e-6)
            np.testing.assert_allclose(second.all, first.all, rtol=1e-9, atol=1e-6)


MANY = {"segment": ["country", "member"], "covariates": ["age", "visits"], "arrival_probability": "chance"}


@pytest.mark.parametrize(
    "options",
    [
        {"segment": "country"},
        MANY,
        {"covariates": ["age", "visits", "member"]},
        {"segment": "grade", "covariates": ["age"], "cap": 4.5},
        {"segment": "hostile"},
        {"segment": ["tiny", "member"], "covariates": ["age"]},
    ],
    ids=lambda options: " ".join(options),
)
def test_a_table_makes_the_sums_of_a_log_in_memory(options):
    assert_sums(lambda table: table, options, PARTS if options is MANY else PARTS[:1])


HOSTILE = {"segment": "hostile", "covariates": ["age", "visits"], "arrival_probability": "chance"}
TINY = {"segment": ["tiny", "grade"], "covariates": ["age", "member"], "cap": 4.5}


def test_every_engine_makes_the_sums_of_a_log_in_memory(engine, request):
    name = request.node.callspec.params["engine"]
    source = assert_sums(engine.table, TINY, PARTS[:1], copy_limit=0 if name == "postgres" else 1000)
    assert source.is_streamed == (name in ("duckdb", "copied"))
    if name != "spark":
        assert_sums(engine.table, HOSTILE, PARTS, copy_limit=0 if name == "postgres" else 1000)


@only("postgres")
def test_an_engine_makes_the_sums_of_covariates_without_segments(engine):
    assert_sums(engine.table, {"covariates": ["age", "visits", "member"]}, PARTS[:1], copy_limit=0)


@only("spark")
def test_spark_makes_the_same_sums_when_it_compiles_its_queries(engine):
    session = engine.connection._session
    for option in INTERPRETED:
        session.conf.unset(option)
    try:
        assert session.conf.get("spark.sql.codegen.wholeStage") == "true"
        assert_sums(engine.table, {**HOSTILE, "covariates": ["age"]}, PARTS[:1], moments=())
    finally:
        for option, value in INTERPRETED.items():
            session.conf.set(option, value)


def assert_sums(convert, options, parts, moments=(100, 200, 400), **limit):
    """Fail unless the sums and the evidence of a table, as `convert` returns it, are those of a log in memory."""
    rng = np.random.default_rng(2)
    rows = 300
    hostile = ["'; DROP TABLE t; --", '"quoted"', "=cmd", "a\\b'c"]
    late = [None if rng.random() < 0.2 else int(t + d) for t, d in enumerate(rng.integers(0, 40, rows))]
    tiny = [None if k == 3 else f"tiny {k}" for k in rng.integers(0, 14, rows).tolist()]
    late = [
        None if k in ("tiny 1", "tiny 2", "tiny 4", None) and t % 3 else d
        for t, (k, d) in enumerate(zip(tiny, late, strict=True))
    ]
    table = columns(rows, score=[0.5] * rows, hostile=list(rng.choice(hostile, rows)), tiny=tiny)
    table |= {"outcome": [None if t is None else y for t, y in zip(late, table["outcome"], strict=True)]}
    table = pa.table({**table, "assigned_at": list(range(rows)), "arrived_at": late})
    times = {"assigned_at": "assigned_at", "arrived_at": "arrived_at"}
    source = bl.read(convert(table), **times, **options, **limit)
    log = in_memory(table, **times, **options)
    assert source.segments == log.segments
    assert (
        (log.layout.arrival is not None)
        == (source.layout.arrival is not None)
        == ("tiny" in options.get("segment", ()))
    )
    for part in parts:
        assert_same_sums(log.sums([part])[0][-1], source.sums([part])[0][-1])
    if moments:
        ours, theirs = (each.sums(parts[:1], np.array(moments))[0] for each in (log, source))
        for mine, other in zip(ours, theirs, strict=True):
            assert_same_sums(mine, other)
    with without_warnings():
        rows = bl.read(table, **times, **options).log()  # whose times are whole numbers, too
        assert_same_evidence(rows.evidence(), source.evidence())
    return source


def assert_same_evidence(ours, theirs):
    """Fail unless counts by segment, and sums of covariates, are the same."""
    assert (ours.segments is None) == (theirs.segments is None)
    assert (ours.covariates is None) == (theirs.covariates is None)
    np.testing.assert_allclose(theirs.dependence[:, :, 0], ours.dependence[:, :, 0], rtol=1e-9, atol=1e-9)
    if ours.segments is not None:
        assert theirs.segments[:3] == ours.segments[:3]
        for name in ("assigned", "old", "soon", "arrived"):
            np.testing.assert_array_equal(theirs.segments.sums[name], ours.segments.sums[name])
    if ours.covariates is not None:
        for name in ("old", "soon", "x", "x2", "x3", "x_soon", "choice"):
            first, second = getattr(ours.covariates, name), getattr(theirs.covariates, name)
            np.testing.assert_allclose(second, first, rtol=1e-8, atol=1e-8)


@only("postgres", "spark")
def test_an_engine_names_a_wrong_row(engine):
    table = columns(40, score=[0.5] * 40, assigned_at=list(range(40)), age=[1.0, math.inf] * 20)
    source = engine.table(pa.table(table))
    with pytest.raises(bl.LogError, match="covariate 'age' in the row assigned at 1 is inf"):
        bl.read(source, assigned_at="assigned_at", covariates="age")
