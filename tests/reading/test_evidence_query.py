from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from engines import source_of

import belated as bl
from belated.log.row_summaries import RowEvidence
from belated.reading import evidence_query


def log_of(rows=300):
    rng = np.random.default_rng(5)
    p = rng.uniform(0.2, 0.8, rows)
    arm = np.where(rng.random(rows) < p, "A", "B")
    delay = rng.integers(0, 40, rows).astype(float)
    delay[rng.random(rows) < 0.2] = np.inf
    outcome = np.where(np.isinf(delay), np.nan, rng.normal(3, 1, rows))
    return bl.Log(arm, outcome, np.column_stack([p, 1 - p]), delay=delay)


@pytest.fixture(scope="module")
def pair():
    log = log_of()
    return log.evidence(), source_of(log)


@pytest.mark.parametrize("name", ["low", "rarest", "unlikeliest", "p", "p2", "p_min", "h", "h_max", "chance", "log_p",
                                  "excess", "variance"])  # fmt: skip
def test_an_engine_counts_as_memory_does(pair, name):
    wanted, source = pair
    np.testing.assert_allclose(getattr(source.evidence(), name), getattr(wanted, name), rtol=1e-9, atol=1e-9)


def test_an_engine_counts_many_arms_as_memory_does():
    rng, arms = np.random.default_rng(2), 22
    p = rng.dirichlet(np.full(arms, 3.0), 300)
    code = [rng.choice(arms, p=row) for row in p]
    log = bl.Log([f"arm {k}" for k in code], rng.normal(size=300), p, arms=[f"arm {k}" for k in range(arms)])
    wanted, got = log.evidence(), source_of(log).evidence()
    for name in ("p", "p2", "p_min", "h", "h_max", "chance", "log_p", "excess", "variance"):
        np.testing.assert_allclose(getattr(got, name), getattr(wanted, name), rtol=1e-9, atol=1e-9, err_msg=name)


def test_sums_by_stretch_of_time(pair):
    wanted, source = pair
    got = source.evidence()
    assert (got.rows, got.grain) == (wanted.rows, wanted.grain)
    for name in ("assigned", "arrived", "old", "soon", "inverse", "w2"):
        np.testing.assert_allclose(got.sums[name], wanted.sums[name], rtol=1e-9)


def test_how_outcomes_are_spread(pair):
    wanted, source = pair
    for got, table in zip(source.evidence().shape, wanted.shape, strict=True):
        np.testing.assert_allclose(got, table, rtol=1e-9, atol=1e-9)


def test_recorded_counts_the_rows_followed_longest(pair):
    _, source = pair
    recorded = evidence_query.recorded(source)
    log, half = source.log(), (source.last_look - 1) / 2
    early = log.assigned_numbers <= source.last_look - half
    assert recorded.rows.sum() == early.sum()
    assert recorded.arrived.sum() == log.arrived[early].sum()
    assert recorded.lowest == pytest.approx(np.nanmin(log.outcome[early]))


def test_nothing_to_count(pair):
    _, source = pair
    with pytest.raises(bl.LogError, match="no rows at its as-of time"):
        source.at(0).evidence()


@pytest.mark.parametrize("timed", [True, False])
def test_rows_that_are_all_there_twice_draw_a_word(timed):
    rng, rows = np.random.default_rng(1), 300
    table = pa.table({
        "arm": rng.choice(["A", "B"], rows), "outcome": pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.2),
        "p_A": np.full(rows, 0.5), "p_B": np.full(rows, 0.5),
    })  # fmt: skip
    if timed:
        table = table.append_column("assigned_at", pa.array(np.arange(rows) // 2))
    assert bl.read(table).oddities() == []
    for copies, words in ((2, "twice"), (4, "4 times")):
        (said,) = bl.read(pa.concat_tables([table] * copies)).oddities()
        assert said.startswith(f"The log contains every row {words}.")
    assert bl.read(pa.concat_tables([table, table.slice(1)])).oddities() == []
    assert bl.read(pa.concat_tables([table.slice(0, 9)] * 2)).oddities() == []


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_names_of_units_tell_copies_where_little_else_differs(tmp_path, form):
    rng, rows = np.random.default_rng(1), 300
    table = pa.table({"copies": range(rows), "arm": rng.choice(["A", "B"], rows), "bought": rng.integers(0, 2, rows)})
    write = {"csv": pa.csv.write_csv, "parquet": pa.parquet.write_table}[form]
    for copies, held in ((1, False), (2, False), (2, True), (3, False)):
        write(pa.concat_tables([table] * copies), tmp_path / f"log.{form}")
        source = bl.read(tmp_path / f"log.{form}", propensity="uniform")
        if held:
            source.hold()
        assert source.copies() == copies
        assert len(source.oddities()) == (copies > 1)
    write(pa.concat_tables([table, table.slice(0, 299)]), tmp_path / f"log.{form}")
    assert bl.read(tmp_path / f"log.{form}", propensity="uniform").oddities() == []


def test_nanoseconds_since_1970_are_not_rounded():
    rows, rng = 300, np.random.default_rng(1)
    at = np.arange(rows) * 3

    def evidence(start):
        arrived_at = start + at + rng.integers(0, 5, rows)
        table = {"arm": ["A", "B"] * (rows // 2), "outcome": rng.normal(size=rows), "assigned_at": start + at,
                 "arrived_at": arrived_at, "p_A": np.full(rows, 0.5), "p_B": np.full(rows, 0.5)}  # fmt: skip
        log = bl.Log(
            table["arm"], table["outcome"], np.full((rows, 2), 0.5), assigned_at=start + at, arrived_at=arrived_at
        )
        return bl.read(pa.table(table)).evidence(), log.evidence()

    got, wanted = evidence(1_767_225_600_000_000_000)
    for name in ("assigned", "arrived", "old", "soon"):
        np.testing.assert_array_equal(got.sums[name], wanted.sums[name])


@pytest.mark.parametrize(("assigned", "delay"), [(90, [1e307, 1e308]), (90, [1e301, 2e301]), (1, [0.0, 1e-310])])
def test_delays_that_cannot_be_binned_are_not_counted_as_in_memory(assigned, delay):
    rows, rng = 90, np.random.default_rng(1)
    table = {"arm": ["A", "B"] * 45, "outcome": rng.normal(size=rows), "assigned_at": np.arange(rows) % assigned * 1.0,
             "delay": delay * 45}  # fmt: skip
    log = bl.Log(propensity="uniform", **table)
    source = bl.read(pa.table(table), propensity="uniform")
    assert log.evidence().arrivals is None
    assert source.evidence().arrivals is None


def test_recorded_is_by_arm(tmp_path):
    """Also of an arm without rows, and whichever arm comes first."""
    lines = [f"{'CA'[i % 2]},{i},{i},0.5,0,0.5\n" for i in range(90)]
    (tmp_path / "a.csv").write_text("arm,outcome,assigned_at,p_A,p_B,p_C\n" + "".join(lines))
    source = bl.read(tmp_path / "a.csv", arms=["A", "B", "C"], arrived_at="none")
    wanted = RowEvidence(source.log()).recorded()
    assert wanted.rows[1] == 0
    got = evidence_query.recorded(source)
    assert got.lowest == wanted.lowest
    np.testing.assert_array_equal(got.rows, wanted.rows)
    np.testing.assert_array_equal(got.arrived, wanted.arrived)


@pytest.mark.parametrize("start", [2**63 - 50, 2**64])
def test_times_that_do_not_fit_64_bits_are_refused(tmp_path, start):
    lines = [f"{'AB'[i % 2]},1,{start + i},0.5,0.5\n" for i in range(90)]
    (tmp_path / "a.csv").write_text("arm,outcome,assigned_at,p_A,p_B\n" + "".join(lines))
    with pytest.raises(bl.LogError, match="The times are too large or too far apart"):
        bl.read(tmp_path / "a.csv", arrived_at="none")


def test_a_delay_may_be_longer_than_64_bits():
    table = pa.table({"arm": ["A", "B"] * 9, "outcome": range(18), "step": range(18), "delay": [1e300, 3.0] * 9})
    assert bl.read(table, propensity="uniform").last_look == 1e300
